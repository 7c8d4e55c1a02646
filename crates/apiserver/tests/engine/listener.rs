//! The listener: who may connect while others hold connections, and how connections end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sojourn_apiserver::{Config, Engine, Limits, Server};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::fixture::{TEST_TIMEOUT, user, within};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn serve(limits: Limits) -> (Engine, Server) {
    let engine = Engine::open(Config::in_memory().limits(limits)).await.expect("it opens");
    engine.add_token("admin", user("admin", &["system:masters"]));
    engine.add_token("ann", user("ann", &[]));
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = engine.serve_tls(loopback).await.expect("it is served");
    (engine, server)
}

/// A connection with HTTP/2, and the task that ends with it.
struct Connection {
    address: SocketAddr,
    sender: SendRequest<Empty<Bytes>>,
    ended: JoinHandle<hyper::Result<()>>,
}

impl Connection {
    async fn open(server: &Server) -> Self {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(server.authority_pem().as_bytes());
        roots.add(authority.expect("a certificate")).expect("an authority");
        let provider = tokio_rustls::rustls::crypto::ring::default_provider();
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let address = server.address();
        let stream = TcpStream::connect(address).await.expect("connected");
        let name = ServerName::from(address.ip());
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, stream).await.expect("shaken hands");
        let io = TokioIo::new(stream);
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.expect("spoken");
        Self { address, sender, ended: tokio::spawn(connection) }
    }

    async fn get(&mut self, token: &str, path: &str) -> http::Response<hyper::body::Incoming> {
        let request = Request::get(format!("https://{}{path}", self.address))
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .body(Empty::new())
            .expect("it is well formed");
        let answer = within("an answer", TEST_TIMEOUT, self.sender.send_request(request)).await;
        answer.expect("it is answered")
    }

    /// The status of an answer that is read to its end.
    async fn status(&mut self, token: &str, path: &str) -> u16 {
        let answer = self.get(token, path).await;
        let status = answer.status().as_u16();
        answer.into_body().collect().await.expect("it has an end");
        status
    }
}

#[tokio::test]
async fn unauthenticated_connections_keep_no_user_out() {
    let (engine, server) = serve(Limits { connections: 8, ..Limits::default() }).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(TcpStream::connect(server.address()).await.expect("connected"));
    }
    let mut first = Connection::open(&server).await;
    assert_eq!(first.status("admin", MAPS).await, 200);
    // Credentials that are no good are none.
    let mut wrong = Connection::open(&server).await;
    assert_eq!(wrong.status("guessed", MAPS).await, 401);
    for _ in 0..20 {
        silent.push(TcpStream::connect(server.address()).await.expect("connected"));
    }
    let mut second = Connection::open(&server).await;
    assert_eq!(second.status("admin", MAPS).await, 200);
    assert_eq!(first.status("admin", MAPS).await, 200, "who has shown who they are stays");
    // The oldest went for the newer ones.
    let mut room = [0; 1];
    let read = within("the oldest is closed", TEST_TIMEOUT, silent[0].read(&mut room)).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    let ended = within("the wrong one is closed", TEST_TIMEOUT, wrong.ended).await;
    assert!(ended.is_ok(), "{ended:?}");
    engine.end_watches();
    server.stop().await;
    engine.close().await;
}

#[tokio::test]
async fn connections_of_one_user_keep_no_other_out() {
    let (engine, server) = serve(Limits { connections: 8, ..Limits::default() }).await;
    let mut of_ann = Vec::new();
    for _ in 0..8 {
        let mut connection = Connection::open(&server).await;
        assert_eq!(connection.status("ann", MAPS).await, 403);
        of_ann.push(connection);
    }
    let mut admin = Connection::open(&server).await;
    assert_eq!(admin.status("admin", MAPS).await, 200);
    engine.end_watches();
    server.stop().await;
    engine.close().await;
}

#[tokio::test]
async fn an_idle_connection_ends_and_one_with_a_watch_goes_on() {
    let (engine, server) = serve(Limits::default()).await;
    let mut idle = Connection::open(&server).await;
    assert_eq!(idle.status("admin", MAPS).await, 200);
    let mut busy = Connection::open(&server).await;
    let watch = busy.get("admin", &format!("{MAPS}?watch=true&allowWatchBookmarks=true")).await;
    let mut events = watch.into_body();
    // Hands were shaken on the real clock; from here on, time passes when nothing else happens.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let ended = within("the idle connection ends", Duration::from_secs(3_600), idle.ended).await;
    assert!(ended.is_ok(), "{ended:?}");
    let after = began.elapsed().as_secs();
    assert!((80..=200).contains(&after), "it ended after {after} s");
    let mut bookmarks = 0;
    while bookmarks < 5 {
        let frame = within("a bookmark", TEST_TIMEOUT * 2, events.frame()).await;
        let data = frame.expect("it goes on").expect("it is whole").into_data().expect("events");
        bookmarks += usize::from(data.starts_with(br#"{"type":"BOOKMARK""#));
    }
    assert!(began.elapsed().as_secs() > 200);
    assert!(!busy.ended.is_finished());
    tokio::time::resume();
    engine.end_watches();
    drop(events);
    server.stop().await;
    engine.close().await;
}
