//! Long bodies: passed on as they come, held back when nobody takes them, ended when a side ends.

use super::*;

const CHUNK: usize = 64 << 10;
const CHUNKS: usize = 1024;
/// More than the sockets of both connections hold, and far less than the whole.
const HELD: usize = 32 << 20;
/// What takes longer does not move.
const STUCK: Duration = Duration::from_millis(500);

#[tokio::test]
async fn an_upload_waits_for_whoever_reads_it() {
    let go_on = Arc::new(tokio::sync::Notify::new());
    let waits = go_on.clone();
    let backend = environment(move |_, mut stream| {
        let waits = waits.clone();
        async move {
            waits.notified().await;
            let mut left = CHUNK * CHUNKS;
            let mut buffer = vec![0; CHUNK];
            while left > 0 {
                let read = stream.read(&mut buffer).await.unwrap();
                assert!(read > 0 && buffer[..read].iter().all(|byte| *byte == 7));
                left -= read;
            }
            stream.write_all(OK.as_bytes()).await.unwrap();
        }
    })
    .await;
    let served = served(backend, GatewayLimits::default()).await;
    let mut stream = served.connect().await;
    let head = format!(
        "PUT /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n",
        CHUNK * CHUNKS
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = [7; CHUNK];
    let mut sent = 0;
    while let Ok(written) = tokio::time::timeout(STUCK, stream.write(&chunk)).await {
        sent += written.unwrap();
        assert!(sent < HELD, "somebody keeps what nobody reads");
    }
    go_on.notify_one();
    while sent < CHUNK * CHUNKS {
        let rest = CHUNK.min(CHUNK * CHUNKS - sent);
        sent += within_limit(stream.write(&chunk[..rest])).await.unwrap();
    }
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_download_waits_for_whoever_reads_it() {
    let written = Arc::new(AtomicUsize::new(0));
    let counted = written.clone();
    let backend = environment(move |_, mut stream| {
        let counted = counted.clone();
        async move {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            for _ in 0..CHUNKS {
                stream.write_all(&[7; CHUNK]).await.unwrap();
                counted.fetch_add(CHUNK, Ordering::SeqCst);
            }
        }
    })
    .await;
    let served = served(backend, GatewayLimits::default()).await;
    let mut stream = served.connect().await;
    let request = "GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut before = usize::MAX;
    // Until two looks see the same.
    while written.load(Ordering::SeqCst) != before || before == 0 {
        before = written.load(Ordering::SeqCst);
        assert!(before < HELD, "somebody keeps what nobody reads");
        drop(tokio::time::timeout(STUCK, std::future::pending::<()>()).await);
    }
    let mut all = Vec::new();
    within_limit(stream.read_to_end(&mut all)).await.unwrap();
    assert_eq!(all.iter().filter(|byte| **byte == 7).count(), CHUNK * CHUNKS);
}

#[tokio::test]
async fn every_event_is_passed_on_at_once() {
    let (next, events) = tokio::sync::mpsc::channel::<&'static str>(1);
    let events = Arc::new(tokio::sync::Mutex::new(events));
    let backend = environment(move |_, mut stream| {
        let events = events.clone();
        async move {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            while let Some(event) = events.lock().await.recv().await {
                stream.write_all(event.as_bytes()).await.unwrap();
            }
        }
    })
    .await;
    let served = served(backend, GatewayLimits::default()).await;
    let mut stream = served.connect().await;
    let request = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
    for event in ["data: one\n\n", "data: two\n\n"] {
        next.send(event).await.unwrap();
        let mut got = String::new();
        while !got.contains(event) {
            assert!(within_limit(stream.read_line(&mut got)).await.unwrap() > 0);
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_taken_for_whole() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        let (backend, _heads) = saying(answer).await;
        let served = served(backend, GatewayLimits::default()).await;
        let mut stream = served.connect().await;
        let request = "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut got = Vec::new();
        // It ends, although it was to be kept open, and before its length or its last chunk.
        drop(within_limit(stream.read_to_end(&mut got)).await);
        let got = String::from_utf8(got).unwrap();
        assert!(got.contains("half") && !got.ends_with("0\r\n\r\n"), "{got}");
    }
}

#[tokio::test]
async fn a_visitor_who_leaves_ends_the_work() {
    let (gone, mut left) = tokio::sync::mpsc::unbounded_channel();
    let backend = environment(move |_, mut stream| {
        let gone = gone.clone();
        async move {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            while stream.write_all(&[7; CHUNK]).await.is_ok() {}
            gone.send(()).unwrap();
        }
    })
    .await;
    let served =
        served(backend, GatewayLimits { per_instance: 1, ..GatewayLimits::default() }).await;
    let mut stream = served.connect().await;
    let request = "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    read_head(&mut stream).await;
    drop(stream);
    within_limit(left.recv()).await.unwrap();
    // Its permit is free again.
    assert!(served.gateway.acquire(&lent()).is_some());
}

#[tokio::test]
async fn an_upload_that_breaks_off_is_not_taken_for_whole() {
    let (ended, mut end) = tokio::sync::mpsc::unbounded_channel();
    let backend = environment(move |_, mut stream| {
        let ended = ended.clone();
        async move {
            let mut body = Vec::new();
            drop(stream.read_to_end(&mut body).await);
            ended.send(String::from_utf8(body).unwrap()).unwrap();
        }
    })
    .await;
    let served = served(backend, GatewayLimits::default()).await;
    let mut stream = served.connect().await;
    let request = "POST /x HTTP/1.1\r\nHost: localhost\r\n\
                   Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    stream.get_mut().shutdown().await.unwrap();
    let body = within_limit(end.recv()).await.unwrap();
    assert!(!body.contains("0\r\n\r\n"), "{body:?}");
}

#[tokio::test]
async fn signing_out_ends_what_is_being_sent_either_way() {
    let (ended, mut end) = tokio::sync::mpsc::unbounded_channel();
    let backend = environment(move |head, mut stream| {
        let ended = ended.clone();
        async move {
            if head.starts_with("GET") {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nfirst").await.unwrap();
                while stream.write_all(&[7; CHUNK]).await.is_ok() {}
            } else {
                drop(stream.read_to_end(&mut Vec::new()).await);
            }
            ended.send(()).unwrap();
        }
    })
    .await;
    let served = served(backend, GatewayLimits::default()).await;
    let mut down = served.connect().await;
    let request = "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n";
    down.write_all(request.as_bytes()).await.unwrap();
    read_head(&mut down).await;
    let mut up = served.connect().await;
    let request = "POST /x HTTP/1.1\r\nHost: localhost\r\n\
                   Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    up.write_all(request.as_bytes()).await.unwrap();
    served.signed_out.cancel();
    let mut rest = Vec::new();
    drop(within_limit(down.read_to_end(&mut rest)).await);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "it is not taken for whole");
    for _ in 0..2 {
        within_limit(end.recv()).await.unwrap();
    }
}
