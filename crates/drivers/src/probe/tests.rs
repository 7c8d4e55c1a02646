use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::fake::{ScriptedProbe, Step};
use super::*;
use crate::dial::Dial;
use crate::guard::Allow;

const CHECK_TIMEOUT: Duration = Duration::from_secs(20);

/// A server on loopback that gives each connection to the function; stops with the test.
async fn serve<F, S>(answer: F) -> SocketAddr
where
    F: Fn(TcpStream) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    address
}

/// Reads the head of a request.
async fn head(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => read.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(read).expect("heads are text")
}

/// A server that answers every request with these bytes and closes.
async fn answering(bytes: impl Into<Vec<u8>>) -> SocketAddr {
    let bytes = bytes.into();
    serve(move |mut stream| {
        let bytes = bytes.clone();
        async move {
            head(&mut stream).await;
            // The client may hang up first.
            let _ = stream.write_all(&bytes).await;
        }
    })
    .await
}

fn response(code: u16, body: &str) -> String {
    format!("HTTP/1.1 {code} X\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn contract(url: impl Into<String>) -> Target {
    Target::Contract {
        url: url.into(),
        timeout: CHECK_TIMEOUT,
        keep: Codes::success(),
        end: Codes::not_found(),
    }
}

fn at(address: SocketAddr) -> Endpoint {
    Endpoint { pod: Some("uid".to_owned()), port: address.port(), address }
}

fn probe() -> HttpProbe {
    let loopback = Allow::parse(["127.0.0.0/8", "::1"]).expect("they are right");
    HttpProbe::new(loopback).expect("it can be built")
}

async fn ask(address: SocketAddr) -> Observation {
    probe().check(&contract(format!("http://{address}/status"))).await
}

fn unclear(observation: &Observation) -> &str {
    match observation {
        Observation::Unclear(words) => words,
        _ => panic!("not unclear: {observation:?}"),
    }
}

fn unreachable(observation: &Observation) -> &str {
    match observation {
        Observation::Unreachable(words) => words,
        _ => panic!("not unreachable: {observation:?}"),
    }
}

#[tokio::test]
async fn a_deadline_is_read_from_an_answer_that_keeps() {
    let body = r#"{"deadline": "2026-07-01T10:00:00Z", "idnumber": "s1"}"#;
    let expected = "2026-07-01T10:00:00Z".parse().expect("it is a time");
    let seen = ask(answering(response(200, body)).await).await;
    assert_eq!(seen, Observation::Keeps { deadline: Some(expected) });

    let seen = ask(answering(response(200, r#"{"deadline": "soon"}"#)).await).await;
    assert_eq!(unclear(&seen), "the deadline in the answer is no time");
}

// case: lab T10
#[tokio::test]
async fn every_success_keeps_with_or_without_a_body() {
    let keeps = Observation::Keeps { deadline: None };
    for answer in [
        "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        response(200, ""),
        response(200, "<html>fine</html>"),
        response(206, "{}"),
        response(299, "{\"error\": \"\"}"),
    ] {
        assert_eq!(ask(answering(answer.clone()).await).await, keeps, "{answer}");
    }
}

#[tokio::test]
async fn not_found_ends_whatever_its_body() {
    for body in ["", "<html>no route</html>", "{\"error\": \"unknown\"}"] {
        assert_eq!(ask(answering(response(404, body)).await).await, Observation::Ends, "{body}");
    }
}

#[tokio::test]
async fn codes_that_are_not_agreed_on_are_unclear() {
    for code in [301, 400, 401, 403, 410, 500, 502, 503, 599] {
        let seen = ask(answering(response(code, "{\"error\": \"x\"}")).await).await;
        let expected = format!("127.0.0.1 answered {code}, which neither keeps nor ends");
        assert_eq!(unclear(&seen), expected);
    }
}

#[tokio::test]
async fn codes_are_as_configured_and_one_in_both_lists_keeps() {
    let check = async |code, keep: &str, end: &str| {
        let address = answering(response(code, "")).await;
        let (keep, end) = (keep.parse().expect(keep), end.parse().expect(end));
        let url = format!("http://{address}/");
        probe().check(&Target::Contract { url, timeout: CHECK_TIMEOUT, keep, end }).await
    };
    assert_eq!(check(410, "2xx", "404,410").await, Observation::Ends);
    assert_eq!(check(403, "200-403", "404").await, Observation::Keeps { deadline: None });
    assert_eq!(check(404, "2xx,404", "4xx").await, Observation::Keeps { deadline: None });
    assert!(matches!(check(204, "200", "404").await, Observation::Unclear(_)));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (asked, mut was_asked) = mpsc::unbounded_channel();
    let elsewhere = serve(move |_| {
        let asked = asked.clone();
        async move { asked.send(()).expect("the test waits") }
    })
    .await;
    let redirect = format!("HTTP/1.1 302 X\r\nlocation: http://{elsewhere}/\r\n\r\n");
    let seen = ask(answering(redirect).await).await;
    assert_eq!(unclear(&seen), "127.0.0.1 answered 302, which neither keeps nor ends");
    assert!(was_asked.try_recv().is_err());
}

#[tokio::test]
async fn a_request_carries_our_name_and_nothing_of_ours() {
    let (asked, mut heads) = mpsc::unbounded_channel();
    let address = serve(move |mut stream| {
        let asked = asked.clone();
        async move {
            asked.send(head(&mut stream).await).expect("the test waits");
            let _ = stream.write_all(response(200, "").as_bytes()).await;
        }
    })
    .await;
    ask(address).await;
    let head = heads.recv().await.expect("it was asked");
    let mut lines: Vec<&str> = head.trim_end().lines().collect();
    lines[1..].sort_unstable();
    let host = format!("host: {address}");
    let expected = [
        "GET /status HTTP/1.1",
        "accept: application/json",
        &host,
        "user-agent: sojourn-status-check",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn bodies_are_read_up_to_a_bound() {
    let just = format!("{{\"deadline\": null, \"x\": \"{}\"}}", "x".repeat(64 * 1024 - 27));
    assert_eq!(just.len(), 64 * 1024);
    let keeps = Observation::Keeps { deadline: None };
    assert_eq!(ask(answering(response(200, &just)).await).await, keeps);
    let seen = ask(answering(response(200, &format!("{just} "))).await).await;
    assert_eq!(unclear(&seen), "the answer is longer than 65536 bytes");
    let page = format!("<html>{}", "x".repeat(1024 * 1024));
    assert_eq!(ask(answering(response(200, &page)).await).await, keeps);
}

#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let address = serve(|mut stream| async move {
        head(&mut stream).await;
        let head = "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n";
        let mut alive = stream.write_all(head.as_bytes()).await.is_ok();
        while alive {
            let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
            alive = stream.write_all(chunk.as_bytes()).await.is_ok();
        }
    })
    .await;
    assert_eq!(unclear(&ask(address).await), "the answer is longer than 65536 bytes");
}

#[tokio::test]
async fn what_is_no_answer_is_unclear() {
    for (bytes, expected) in [
        ("", "no answer from 127.0.0.1 that can be read: "),
        ("SSH-2.0-OpenSSH_9.2\r\n", "no answer from 127.0.0.1 that can be read: "),
        ("HTTP/1.1 20", "no answer from 127.0.0.1 that can be read: "),
        ("HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\n{", "the answer broke off: "),
    ] {
        let seen = ask(answering(bytes).await).await;
        assert!(unclear(&seen).starts_with(expected), "{bytes:?}: {seen:?}");
    }
}

/// An address on which nothing listens (any more).
async fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    listener.local_addr().expect("it is bound")
}

#[tokio::test]
async fn a_refused_connection_is_unclear_and_tells_no_secret() {
    let address = nobody().await;
    let target = contract(format!("http://{address}/status?token=secret"));
    let seen = probe().check(&target).await;
    let words = unclear(&seen);
    assert!(words.starts_with("cannot connect to 127.0.0.1: Connection refused"), "{words}");
    let shown = format!("{target:?}");
    assert!(shown.contains(&format!("http://{address}")) && !shown.contains("secret"), "{shown}");
}

#[tokio::test]
async fn the_whole_look_has_one_timeout() {
    let silent = serve(|stream| async move {
        let _held = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let dripping = serve(|mut stream| async move {
        head(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 X\r\ncontent-length: 99\r\n\r\n{").await;
        std::future::pending::<()>().await;
    })
    .await;
    let timeout = Duration::from_millis(50);
    for address in [silent, dripping] {
        let url = format!("http://{address}/");
        let (keep, end) = (Codes::success(), Codes::not_found());
        let seen = probe().check(&Target::Contract { url, timeout, keep, end }).await;
        assert_eq!(unclear(&seen), "no answer within 50ms");
    }
    let seen = probe().check(&Target::Reach { endpoint: at(silent), http: true, timeout }).await;
    assert_eq!(unreachable(&seen), format!("no answer from {silent} within 50ms"));
}

/// A server for TLS whose certificate nobody trusts.
async fn untrusted() -> SocketAddr {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("it is made");
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .expect("key and certificate fit");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    serve(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.write_all(response(404, "").as_bytes()).await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn an_answer_that_cannot_be_trusted_is_unclear() {
    let url = format!("https://localhost:{}/", untrusted().await.port());
    let seen = probe().check(&contract(url)).await;
    let expected = "cannot connect to localhost: invalid peer certificate: ";
    assert!(unclear(&seen).starts_with(expected), "{seen:?}");
}

#[tokio::test]
async fn the_guard_is_asked_before_anything_is_sent() {
    let (asked, mut was_asked) = mpsc::unbounded_channel();
    let address = serve(move |_| {
        let asked = asked.clone();
        async move { asked.send(()).expect("the test waits") }
    })
    .await;
    let guarded = HttpProbe::new(Allow::default()).expect("it can be built");
    let port = address.port();
    for (url, expected) in [
        (format!("http://127.0.0.1:{port}/"), "127.0.0.1 is at no address that is allowed"),
        (format!("http://localhost:{port}/"), "localhost is at no address that is allowed"),
        (format!("https://localhost:{port}/"), "localhost is at no address that is allowed"),
        (
            format!("http://[::ffff:7f00:1]:{port}/"),
            "[::ffff:7f00:1] is at no address that is allowed",
        ),
        (
            format!("http://me:x@127.0.0.1:{port}/"),
            "the URL carries credentials, which are never sent",
        ),
        ("gopher://localhost/".to_owned(), "the scheme `gopher` is neither http nor https"),
    ] {
        assert_eq!(unclear(&guarded.check(&contract(&url)).await), expected, "{url}");
    }
    assert!(was_asked.try_recv().is_err());
    // A name that is allowed gets through, to the port of the URL.
    let named =
        contract(format!("http://localhost:{}/", answering(response(204, "")).await.port()));
    assert_eq!(probe().check(&named).await, Observation::Keeps { deadline: None });
}

#[tokio::test]
async fn an_instance_that_answers_anything_over_http_is_reachable() {
    for code in [200, 204, 302, 401, 404, 500, 503] {
        let address = answering(response(code, "x")).await;
        let target = Target::Reach { endpoint: at(address), http: true, timeout: CHECK_TIMEOUT };
        assert_eq!(probe().check(&target).await, Observation::Reachable, "{code}");
    }
}

#[tokio::test]
async fn an_instance_that_takes_no_connection_is_unreachable() {
    let address = nobody().await;
    for http in [true, false] {
        let seen = probe()
            .check(&Target::Reach { endpoint: at(address), http, timeout: CHECK_TIMEOUT })
            .await;
        let expected = format!("cannot connect to {address}: Connection refused");
        assert!(unreachable(&seen).starts_with(&expected), "{seen:?}");
    }
}

#[tokio::test]
async fn a_connection_is_enough_where_no_http_is_spoken() {
    let address = answering("SSH-2.0-x\r\n").await;
    let target = |http| Target::Reach { endpoint: at(address), http, timeout: CHECK_TIMEOUT };
    assert_eq!(probe().check(&target(false)).await, Observation::Reachable);
    // Where HTTP is expected it is neither an answer nor its absence.
    let seen = probe().check(&target(true)).await;
    let expected = format!("no answer from {address} that can be read: ");
    assert!(unclear(&seen).starts_with(&expected), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_script_is_followed_in_virtual_time() {
    let probe = ScriptedProbe::new(Observation::Unclear("nobody wrote a script".to_owned()));
    let exam = contract("http://exam.example/1");
    probe.script(
        "http://exam.example/1",
        [
            Step::answer(Observation::Keeps { deadline: None }).after(Duration::from_secs(2)),
            Step::answer(Observation::Ends).after(CHECK_TIMEOUT),
            Step::answer(Observation::Ends),
        ],
    );
    let start = tokio::time::Instant::now();
    assert_eq!(probe.check(&exam).await, Observation::Keeps { deadline: None });
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    assert_eq!(unclear(&probe.check(&exam).await), "no answer within 20s");
    assert_eq!(start.elapsed(), Duration::from_secs(22));
    assert_eq!(probe.check(&exam).await, Observation::Ends);
    assert_eq!(probe.check(&exam).await, Observation::Ends, "the last word holds");

    let address = SocketAddr::from(([10, 0, 0, 1], 80));
    let reach = Target::Reach { endpoint: at(address), http: true, timeout: CHECK_TIMEOUT };
    probe.set("10.0.0.1:80", Observation::Reachable);
    assert_eq!(probe.check(&reach).await, Observation::Reachable);
    let other = contract("http://exam.example/2");
    assert_eq!(unclear(&probe.check(&other).await), "nobody wrote a script");

    let checks = probe.take_checks();
    assert_eq!(checks.len(), 6);
    assert_eq!(checks[2].at - start, Duration::from_secs(22));
    assert_eq!(checks[4].place, "10.0.0.1:80");
    assert!(probe.take_checks().is_empty());
}

/// Leads to one place, whatever is dialed.
#[derive(Debug)]
struct FixedDial(SocketAddr);

impl Dial for FixedDial {
    fn dial<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, std::io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(self.0))
    }
}

#[tokio::test]
async fn somebody_else_at_an_instances_address_is_not_the_instance() {
    let squatter = answering(response(200, "x")).await;
    let target = |http| Target::Reach { endpoint: at(squatter), http, timeout: CHECK_TIMEOUT };
    for http in [true, false] {
        let inside = probe().dialing(Arc::new(FixedDial(nobody().await)));
        let seen = inside.check(&target(http)).await;
        assert!(matches!(seen, Observation::Unreachable(_)), "{seen:?}");
        let inside = probe().dialing(Arc::new(FixedDial(answering(response(200, "x")).await)));
        assert_eq!(inside.check(&target(http)).await, Observation::Reachable);
    }
}
