//! Requests and answers, as one side says them and the other gets them.

use super::*;

#[tokio::test]
async fn an_environment_gets_the_request_at_its_root_and_who_sent_it() {
    let (backend, mut heads) = saying(OK).await;
    let served = served(backend, GatewayLimits::default()).await;
    let answer = served.get("/a%20b/../c?x=1&y", "X-Forwarded-For: 1.2.3.4\r\nX-Own: 1\r\n").await;
    assert_eq!(status(&answer), "200", "{answer}");
    assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    let head = heads.recv().await.unwrap();
    assert!(head.starts_with("GET /a%20b/../c?x=1&y HTTP/1.1\r\n"), "{head}");
    let mut lines: Vec<&str> = head.trim_end().lines().skip(1).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "connection: close",
            "host: shell-lab-x.localhost:7080",
            "x-forwarded-for: 127.0.0.1",
            "x-forwarded-host: shell-lab-x.localhost:7080",
            "x-forwarded-proto: http",
            "x-own: 1",
        ]
    );
    assert_eq!(served.cluster.activity(), 1);
}

#[tokio::test]
async fn our_origin_leads_to_the_environments_own_and_serves_nothing_of_it() {
    let (backend, mut heads) = saying(OK).await;
    let served = served(backend, GatewayLimits::default()).await;
    let answer = served.get("/go/lab/ns/lab/shell?x=1", "").await;
    assert_eq!(status(&answer), "308");
    assert!(answer.contains("location: /go/lab/ns/lab/shell/?x=1\r\n"), "{answer}");
    for headers in [VISIT, ""] {
        let answer = served.get("/go/lab/ns/lab/shell//a%20b/../c?x=1&y", headers).await;
        assert_eq!(status(&answer), "303", "{answer}");
        let there = "location: http://shell-lab-x.localhost:7080//a%20b/../c?x=1&y\r\n";
        assert!(answer.contains(there), "{answer}");
    }
    let post = "POST /go/lab/ns/lab/shell/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Content-Length: 0\r\n\r\n";
    assert_eq!(status(&served.exchange(post).await), "405");
    assert_eq!(status(&served.get("/go/lab/ns/lab/../shell/", "").await), "404");
    assert_eq!(status(&served.get("/go/lab/ns/lab/other/", "").await), "404");
    assert_eq!(status(&served.get("/go/lab/ns/", "").await), "404");
    assert!(heads.try_recv().is_err());
    assert_eq!(served.cluster.activity(), 0, "leading there is no use of it");
}

#[tokio::test]
async fn head_has_a_length_and_no_body() {
    let (backend, _heads) = saying("HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n").await;
    let served = served(backend, GatewayLimits::default()).await;
    let answer =
        served.exchange("HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    assert!(answer.contains("content-length: 12345\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn redirects_stay_as_they_are() {
    let (backend, _heads) =
        saying("HTTP/1.1 302 Found\r\nLocation: /login?next=/\r\nContent-Length: 0\r\n\r\n").await;
    let served = served(backend, GatewayLimits::default()).await;
    let answer = served.get("/", "").await;
    assert!(answer.contains("location: /login?next=/\r\n"), "{answer}");
}

#[tokio::test]
async fn trailers_arrive() {
    let (backend, mut heads) = saying(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n\
         2\r\nok\r\n0\r\nx-sum: 7\r\n\r\n",
    )
    .await;
    let served = served(backend, GatewayLimits::default()).await;
    let answer = served.get("/", "TE: trailers\r\n").await;
    assert!(answer.ends_with("2\r\nok\r\n0\r\nx-sum: 7\r\n\r\n"), "{answer}");
    let head = heads.recv().await.unwrap();
    assert!(head.contains("te: trailers\r\n") && head.contains("connection: close, te\r\n"));
}

#[tokio::test]
async fn a_client_that_asks_whether_to_go_on_is_told_so() {
    let backend = environment(|head, mut stream| async move {
        assert!(!head.contains("expect"), "{head}");
        let mut body = [0; 5];
        stream.read_exact(&mut body).await.unwrap();
        assert_eq!(&body, b"hello");
        stream.write_all(OK.as_bytes()).await.unwrap();
    })
    .await;
    let served = served(backend, GatewayLimits::default()).await;
    let mut stream = served.connect().await;
    let request = "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                   Content-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(read_head(&mut stream).await, "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
}

/// Whatever a request claims of its length, the environment gets one request with one meaning.
#[tokio::test]
async fn no_request_can_be_smuggled_in_another() {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = bodies.clone();
    let backend = environment(move |head, mut stream| {
        let kept = kept.clone();
        async move {
            let mut rest = Vec::new();
            if head.contains("transfer-encoding: chunked") {
                while !rest.ends_with(b"0\r\n\r\n")
                    && within_limit(stream.read_buf(&mut rest)).await.unwrap() > 0
                {}
            }
            kept.lock().unwrap().push((head, String::from_utf8(rest).unwrap()));
            drop(stream.write_all(OK.as_bytes()).await);
        }
    })
    .await;
    let served = served(backend, GatewayLimits::default()).await;
    let evil = "GET /evil HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let start = "POST /x HTTP/1.1\r\nHost: localhost\r\n";
    // Both lengths: the chunks count, and what follows is a request of its own, to us.
    let length = 5 + evil.len();
    let both = format!(
        "{start}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{evil}"
    );
    let mut stream = served.connect().await;
    stream.write_all(both.as_bytes()).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
    drop(stream);
    for refused in [
        format!("{start}Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde"),
        format!("{start}Content-Length: +3\r\n\r\nabc"),
        format!("{start}Content-Length: 3, 3\r\n\r\nabc"),
        format!("{start}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{evil}"),
        format!("{start}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n{evil}"),
        format!("{start}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{evil}"),
        format!("{start} X: folded\r\n\r\n"),
        format!("{start}X: a\rb\r\n\r\n"),
        format!("{start}X: a\0b\r\n\r\n"),
        "POST /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
    ] {
        let answer = served.exchange(&refused).await;
        assert_eq!(status(&answer), "400", "{refused:?}: {answer}");
    }
    // A chunk whose length is none: the environment never sees its end.
    let answer = served
        .exchange(&format!("{start}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n{evil}"))
        .await;
    assert_ne!(status(&answer), "200", "{answer}");
    let bodies = bodies.lock().unwrap();
    for (head, body) in bodies.iter() {
        assert!(head.starts_with("POST /x HTTP/1.1\r\n"), "{head}");
        assert!(!head.contains("content-length") && !head.contains("evil"), "{head}");
        assert!(!body.contains("evil"), "{body}");
    }
    assert_eq!(bodies[0].1, "0\r\n\r\n");
}

#[tokio::test]
async fn an_answer_that_is_none_becomes_words() {
    for nonsense in [
        "nonsense\r\n\r\n",
        "",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ] {
        let (backend, _heads) = saying(nonsense).await;
        let served = served(backend, GatewayLimits::default()).await;
        let answer = served.get("/", HTML).await;
        assert_eq!(status(&answer), "502", "{nonsense:?}: {answer}");
        assert!(answer.contains("<h1>No answer</h1>"), "{answer}");
    }
}

#[tokio::test]
async fn an_environment_that_takes_no_connection_is_tried_twice() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let served = served(ready(closed), GatewayLimits::default()).await;
    let answer = served.get("/", HTML).await;
    assert_eq!(status(&answer), "502", "{answer}");
    assert!(answer.contains("takes no connections"), "{answer}");
    assert_eq!(served.cluster.activity(), 0);
    // It moves while the first try fails.
    let (moved, _heads) = saying(OK).await;
    let (answer, ()) = tokio::join!(served.get("/", HTML), async {
        tokio::task::yield_now().await;
        served.cluster.backend.send_replace(moved);
    });
    assert_eq!(status(&answer), "200", "{answer}");
}
