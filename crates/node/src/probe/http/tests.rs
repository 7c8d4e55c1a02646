use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::HTTPHeader;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that says what it is told to, to one connection after the other, and then no more.
struct Server {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn new(answers: Vec<Vec<u8>>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let seen = heads.clone();
        tokio::spawn(async move {
            for answer in answers {
                let (stream, _) = listener.accept().await.unwrap();
                let head = match &tls {
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => answer_with(stream, &answer).await,
                        Err(_) => continue,
                    },
                    None => answer_with(stream, &answer).await,
                };
                seen.lock().unwrap().push(head);
            }
        });
        Self { address, heads }
    }

    async fn says(answers: &[&str]) -> Self {
        Self::new(answers.iter().map(|answer| answer.as_bytes().to_vec()).collect(), None).await
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn answer_with(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &[u8]) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    // The client may have had enough.
    drop(stream.write_all(answer).await);
    drop(stream.shutdown().await);
    String::from_utf8(head).unwrap()
}

fn action(path: &str) -> HTTPGetAction {
    HTTPGetAction { path: Some(path.to_owned()), ..HTTPGetAction::default() }
}

fn acceptor() -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["wrong.example".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn answers_are_judged() {
    let failure = |text: &str| Ok(ProbeOutcome::Failure(text.to_owned()));
    let cases = [
        (OK, Ok(ProbeOutcome::Success)),
        ("HTTP/1.0 204 No\r\n\r\n", Ok(ProbeOutcome::Success)),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", Ok(ProbeOutcome::Success)),
        (
            "HTTP/1.1 500 No\r\nContent-Length: 6\r\n\r\nsecret",
            failure("HTTP probe failed with statuscode: 500"),
        ),
        ("HTTP/1.1 404 No\r\n\r\n", failure("HTTP probe failed with statuscode: 404")),
        (
            "HTTP/1.1 302 Go\r\nLocation: http://example.com/\r\nContent-Length: 2\r\n\r\ngo",
            Ok(ProbeOutcome::Warning("Probe terminated redirects, Response body: go".to_owned())),
        ),
        (
            "HTTP/1.1 304 Same\r\n\r\n",
            Ok(ProbeOutcome::Warning("Probe terminated redirects, Response body: ".to_owned())),
        ),
    ];
    for (answer, expected) in cases {
        let server = Server::says(&[answer]).await;
        assert_eq!(
            probe(&action("/"), &PodRoute::Machine, server.address, ANSWER_TIMEOUT).await,
            expected,
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn requests_are_those_of_a_kubelet() {
    let header = |name: &str, value: &str| HTTPHeader { name: name.into(), value: value.into() };
    let server = Server::says(&[OK, OK, OK]).await;
    let address = server.address;
    probe(&action("health?x=1"), &PodRoute::Machine, address, ANSWER_TIMEOUT).await.unwrap();
    let own = HTTPGetAction {
        http_headers: Some(vec![
            header("Host", "web.example"),
            header("User-Agent", "mine"),
            header("Accept", ""),
            header("X-Two", "a"),
            header("X-Two", "b"),
            header("Content-Length", "5"),
            header("Transfer-Encoding", "chunked"),
        ]),
        ..action("/")
    };
    probe(&own, &PodRoute::Machine, address, ANSWER_TIMEOUT).await.unwrap();
    notify(&action("/stop"), &PodRoute::Machine, address, ANSWER_TIMEOUT).await.unwrap();
    let mut heads = server.heads();
    for head in &mut heads {
        let mut lines: Vec<_> = head.trim_end().split("\r\n").collect();
        lines[1..].sort_unstable();
        *head = lines.join("|");
    }
    assert_eq!(
        heads,
        [
            format!(
                "GET /health?x=1 HTTP/1.1|accept: */*|connection: close|host: {address}|\
                 user-agent: kube-probe/1.36"
            ),
            "GET / HTTP/1.1|connection: close|host: web.example|user-agent: mine|x-two: a|x-two: b"
                .to_owned(),
            format!(
                "GET /stop HTTP/1.1|accept: */*|connection: close|host: {address}|\
                 user-agent: kube-lifecycle/1.36"
            ),
        ]
    );
    for (name, value) in [("X Y", "z"), ("X", "a\r\nY: b")] {
        let bad = HTTPGetAction { http_headers: Some(vec![header(name, value)]), ..action("/") };
        let unfit = probe(&bad, &PodRoute::Machine, address, ANSWER_TIMEOUT).await.unwrap_err();
        assert!(unfit.0.contains("has an invalid"), "{unfit}");
    }
}

#[tokio::test]
async fn redirects_are_followed_within_the_server() {
    let moved = "HTTP/1.1 301 Moved\r\nLocation: b?c\r\nContent-Length: 0\r\n\r\n";
    let server = Server::says(&[moved, OK]).await;
    let outcome =
        probe(&action("/dir/a"), &PodRoute::Machine, server.address, ANSWER_TIMEOUT).await;
    assert_eq!(outcome, Ok(ProbeOutcome::Success));
    let heads = server.heads();
    assert!(heads[1].starts_with("GET /dir/b?c HTTP/1.1\r\n"), "{heads:?}");

    let circle =
        ["HTTP/1.1 307 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"; MAX_REQUESTS_PER_PROBE];
    let server = Server::says(&circle).await;
    let url = format!("http://{}/", server.address);
    assert_eq!(
        probe(&action("/"), &PodRoute::Machine, server.address, ANSWER_TIMEOUT).await,
        Ok(ProbeOutcome::Failure(format!("Get \"{url}\": stopped after 10 redirects")))
    );

    // Another server, though it is on the same machine.
    let other = Server::says(&[OK]).await;
    let away = format!("HTTP/1.1 302 Away\r\nLocation: http://{}/\r\n\r\n", other.address);
    let server = Server::says(&[&away]).await;
    let outcome = probe(&action("/"), &PodRoute::Machine, server.address, ANSWER_TIMEOUT).await;
    assert!(matches!(outcome, Ok(ProbeOutcome::Warning(_))), "{outcome:?}");
    assert!(other.heads().is_empty());
}

#[tokio::test]
async fn hostile_answers_are_bounded() {
    let server = Server::new(
        vec![
            // A body without end.
            [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), vec![b'x'; 8 << 20]].concat(),
            // A head without end.
            [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; 8 << 20]].concat(),
            b"\x00\xff garbage".to_vec(),
            Vec::new(),
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort".to_vec(),
        ],
        None,
    )
    .await;
    let ask =
        async || probe(&action("/"), &PodRoute::Machine, server.address, ANSWER_TIMEOUT).await;
    assert_eq!(ask().await, Ok(ProbeOutcome::Success));
    for what in ["head", "garbage", "nothing"] {
        let outcome = ask().await;
        assert!(
            matches!(&outcome, Ok(ProbeOutcome::Failure(why)) if why.starts_with("Get \"http://")),
            "{what}: {outcome:?}"
        );
    }
    let broken = ask().await.unwrap_err();
    assert!(broken.0.starts_with("the answer broke off"), "{broken}");
}

#[tokio::test]
async fn patience_ends_and_nobody_may_be_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let outcome =
        probe(&action("/x"), &PodRoute::Machine, address, Duration::from_millis(20)).await;
    let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    assert_eq!(outcome, Ok(ProbeOutcome::Failure(format!("Get \"http://{address}/x\": {late}"))));
    drop(listener);
    let refused = format!("dial tcp {address}: connect: connection refused");
    assert_eq!(
        probe(&action("/x"), &PodRoute::Machine, address, ANSWER_TIMEOUT).await,
        Ok(ProbeOutcome::Failure(format!("Get \"http://{address}/x\": {refused}")))
    );
    let told = notify(&action("/x"), &PodRoute::Machine, address, ANSWER_TIMEOUT).await;
    assert_eq!(told, Err(NotRun(format!("Get \"http://{address}/x\": {refused}"))));
}

#[tokio::test]
async fn certificates_are_not_verified() {
    let secure = HTTPGetAction { scheme: Some("HTTPS".to_owned()), ..action("/") };
    let server = Server::new(vec![OK.into(), OK.into()], Some(acceptor())).await;
    let address = server.address;
    assert_eq!(
        probe(&secure, &PodRoute::Machine, address, ANSWER_TIMEOUT).await,
        Ok(ProbeOutcome::Success)
    );
    assert_eq!(notify(&secure, &PodRoute::Machine, address, ANSWER_TIMEOUT).await, Ok(()));

    // A server without TLS: a probe fails, a hook goes on without, and without its secrets.
    let authorization = HTTPHeader { name: "Authorization".to_owned(), value: "secret".to_owned() };
    let secure = HTTPGetAction { http_headers: Some(vec![authorization]), ..secure };
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = plain.local_addr().unwrap();
    let serve = tokio::spawn(async move {
        let mut heads = Vec::new();
        for _ in 0..3 {
            let (mut stream, _) = plain.accept().await.unwrap();
            let mut start = [0; 5];
            stream.read_exact(&mut start).await.unwrap();
            if &start == b"GET /" {
                heads.push(answer_with(stream, OK.as_bytes()).await);
            } else {
                stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").await.unwrap();
                stream.shutdown().await.unwrap();
                // It reads on, so that what it said is not lost with a reset.
                let mut rest = Vec::new();
                drop(stream.read_to_end(&mut rest).await);
            }
        }
        heads
    });
    let plain = "http: server gave HTTP response to HTTPS client";
    assert_eq!(
        probe(&secure, &PodRoute::Machine, address, ANSWER_TIMEOUT).await,
        Ok(ProbeOutcome::Failure(format!("Get \"https://{address}/\": {plain}")))
    );
    assert_eq!(notify(&secure, &PodRoute::Machine, address, ANSWER_TIMEOUT).await, Ok(()));
    let heads = serve.await.unwrap();
    assert!(heads.len() == 1 && !heads[0].contains("secret"), "{heads:?}");
}
