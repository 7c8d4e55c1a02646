use std::net::Ipv4Addr;

use axum::Extension;
use axum::routing::{get, post};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::*;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(TEST_TIMEOUT, future).await.expect("this happens soon")
}

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

async fn seen(
    Extension(transport): Extension<TransportInfo>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
) -> String {
    format!("{} {} {}", transport.secure, transport.local.ip(), peer.ip())
}

async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, request: &[u8]) -> String {
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    // The other side may close before it has read everything.
    drop(soon(stream.read_to_end(&mut answer)).await);
    String::from_utf8(answer).unwrap()
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn without_tls_only_loopback_is_served() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let address: SocketAddr = address.parse().unwrap();
        let refused = Listener::serve(address, None, Router::new()).await;
        assert!(matches!(refused, Err(ListenError::Plain { .. })), "{address}: {refused:?}");
    }
    let router = Router::new().route("/", get(seen));
    let serving = Listener::serve(loopback(), None, router).await.unwrap();
    let stream = TcpStream::connect(serving.address()).await.unwrap();
    let answer = exchange(stream, GET).await;
    assert!(answer.ends_with("\r\n\r\nfalse 127.0.0.1 127.0.0.1"), "{answer}");
    let taken = Listener::serve(serving.address(), None, Router::new()).await;
    assert!(matches!(taken, Err(ListenError::Listen { .. })));
    soon(serving.stop()).await;
}

/// A server's configuration and a client's that trusts it; both offer this protocol.
fn tls(protocol: &[u8]) -> (Arc<ServerConfig>, TlsConnector) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(default_provider());
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    server.alpn_protocols = vec![protocol.to_vec()];
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![protocol.to_vec()];
    (Arc::new(server), TlsConnector::from(Arc::new(client)))
}

async fn shaken(serving: &Serving, connector: &TlsConnector) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(serving.address()).await.unwrap();
    connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
}

#[tokio::test]
async fn with_tls_it_is_served_over_tls() {
    let (server, client) = tls(b"http/1.1");
    let router = Router::new().route("/", get(seen));
    let serving = Listener::serve(loopback(), Some(server), router).await.unwrap();
    let answer = exchange(shaken(&serving, &client).await, GET).await;
    assert!(answer.ends_with("\r\n\r\ntrue 127.0.0.1 127.0.0.1"), "{answer}");
    let plain = TcpStream::connect(serving.address()).await.unwrap();
    assert!(!exchange(plain, GET).await.contains("200 OK"));
    soon(serving.stop()).await;
}

#[tokio::test]
async fn http_2_is_served_where_tls_agrees_on_it() {
    let (server, client) = tls(b"h2");
    let router = Router::new().route("/", get(seen));
    let serving = Listener::serve(loopback(), Some(server), router).await.unwrap();
    let stream = TokioIo::new(shaken(&serving, &client).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let driven = tokio::spawn(connection);
    let request = Request::get("https://localhost/").body(Body::empty()).unwrap();
    let response = soon(sender.send_request(request)).await.unwrap();
    let body = axum::body::to_bytes(Body::new(response.into_body()), 1 << 10).await.unwrap();
    assert_eq!(body, "true 127.0.0.1 127.0.0.1");
    soon(serving.stop()).await;
    drop(soon(driven).await);
}

/// A client that completes the TLS handshake and then sends nothing, whichever protocol.
#[tokio::test(start_paused = true)]
async fn who_asks_nothing_over_tls_is_given_up() {
    for protocol in [&b"h2"[..], b"http/1.1"] {
        let (server, client) = tls(protocol);
        let serving = Listener::serve(loopback(), Some(server), Router::new()).await.unwrap();
        let stream = shaken(&serving, &client).await;
        let began = tokio::time::Instant::now();
        exchange(stream, b"").await;
        assert!(began.elapsed() <= HEAD_TIMEOUT + Duration::from_secs(1), "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused() {
    let router = Router::new().route("/", get(seen));
    let serving = Listener::serve(loopback(), None, router).await.unwrap();
    let large =
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(2 * MAX_HEAD_BYTES));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: 1\r\n".repeat(HEADERS + 1));
    for request in [large, many] {
        let stream = TcpStream::connect(serving.address()).await.unwrap();
        let answer = exchange(stream, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}

/// One that sends its head letter by letter, and one that sends nothing at all.
#[tokio::test(start_paused = true)]
async fn who_does_not_finish_a_head_is_given_up() {
    let router = Router::new().route("/", get(seen));
    let serving = Listener::serve(loopback(), None, router).await.unwrap();
    for begun in [&b"GET / HTTP/1.1\r\nHost: a\r\nX: "[..], b"", b"G"] {
        let began = tokio::time::Instant::now();
        let stream = TcpStream::connect(serving.address()).await.unwrap();
        let answer = exchange(stream, begun).await;
        assert!(!answer.contains("200"), "{answer}");
        assert!(began.elapsed() <= HEAD_TIMEOUT + Duration::from_secs(1), "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn stopping_lets_open_requests_end_and_takes_no_more() {
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, waits) = (begun.clone(), go_on.clone());
    let slow = post(move || async move {
        begins.notify_one();
        waits.notified().await;
        "done"
    });
    let serving = Listener::serve(loopback(), None, Router::new().route("/", slow)).await.unwrap();
    let address = serving.address();
    let stream = TcpStream::connect(address).await.unwrap();
    let request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    let open = tokio::spawn(exchange(stream, request));
    soon(begun.notified()).await;
    let stopping = tokio::spawn(serving.stop());
    let closed = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    soon(closed).await;
    go_on.notify_one();
    let answer = soon(open).await.unwrap();
    assert!(answer.ends_with("\r\n\r\ndone"), "{answer}");
    soon(stopping).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stopping_does_not_wait_for_ever() {
    let begun = Arc::new(Notify::new());
    let begins = begun.clone();
    let stuck = get(move || async move {
        begins.notify_one();
        std::future::pending::<()>().await;
    });
    let serving = Listener::serve(loopback(), None, Router::new().route("/", stuck)).await.unwrap();
    let mut stream = TcpStream::connect(serving.address()).await.unwrap();
    stream.write_all(GET).await.unwrap();
    soon(begun.notified()).await;
    let began = tokio::time::Instant::now();
    serving.stop().await;
    assert!(began.elapsed() >= DRAIN_TIMEOUT && began.elapsed() < 2 * DRAIN_TIMEOUT);
    assert!(stream.read(&mut [0; 1]).await.unwrap_or(0) == 0);
}

#[tokio::test]
async fn a_replica_that_does_not_lead_passes_people_on_to_the_one_that_does() {
    let first = Router::new().route("/", get(|| async { "first" }));
    let second = Router::new().route("/", get(|| async { "second" }));
    let first = Listener::serve(loopback(), None, first).await.unwrap();
    let bound = Listener::bind(loopback(), None).await.unwrap();
    let (sender, leader) = watch::channel(None);
    let relaying = bound.relay(leader);
    let ask = || async {
        let stream = TcpStream::connect(bound.address()).await.unwrap();
        exchange(stream, GET).await
    };
    // Whoever comes while nobody leads waits.
    let (answer, ()) = tokio::join!(ask(), async {
        tokio::task::yield_now().await;
        sender.send_replace(Some(first.address()));
    });
    assert!(answer.ends_with("first"), "{answer}");
    assert!(ask().await.ends_with("first"));
    // It leads itself now, at the same address.
    drop(relaying);
    let serving = bound.clone().serve(second);
    assert!(ask().await.ends_with("second"));
    soon(serving.stop()).await;
    // And not any more.
    let (_sender, leader) = watch::channel(Some(first.address()));
    let _relaying = bound.relay(leader);
    assert!(ask().await.ends_with("first"));
}
