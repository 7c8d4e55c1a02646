//! Connections that stay open, over TLS or without.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, ensure};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::api::CALLER_TOKEN;
use super::review::Review;

/// Where reviews are posted, as kube-apiserver does.
const REVIEWS: &str = "/authorize?timeout=30s";
const ALLOWED: &[u8] = br#""allowed":true"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// One review at a time on each connection.
    Http1,
    /// Many at a time on one, as Go's clients do.
    Http2,
}

/// Where reviews are answered, and whose certificate is trusted.
#[derive(Clone)]
pub(crate) struct Target {
    address: SocketAddr,
    roots: Arc<RootCertStore>,
}

impl Target {
    pub(crate) fn new(address: SocketAddr, certificate_pem: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(certificate_pem.as_bytes())?)?;
        Ok(Self { address, roots: Arc::new(roots) })
    }

    pub(crate) async fn connect(&self, protocol: Protocol) -> Result<Connection> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        let name: &[u8] = match protocol {
            Protocol::Http1 => b"http/1.1",
            Protocol::Http2 => b"h2",
        };
        config.alpn_protocols = vec![name.to_vec()];
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(ServerName::from(self.address.ip()), stream).await?;
        let sender = match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
                // It ends with its sender; errors reach whoever waits for an answer.
                tokio::spawn(connection);
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let stream = TokioIo::new(stream);
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                tokio::spawn(connection);
                Sender::Http2(sender)
            }
        };
        let url = match protocol {
            Protocol::Http1 => REVIEWS.to_owned(),
            Protocol::Http2 => format!("https://{}{REVIEWS}", self.address),
        };
        let authorization = format!("Bearer {CALLER_TOKEN}");
        let host = self.address.to_string();
        let uri = url.parse::<http::Uri>()?;
        Ok(Connection { sender, uri, host, authorization })
    }
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// An open connection to the replica.
pub(crate) struct Connection {
    sender: Sender,
    uri: http::Uri,
    host: String,
    authorization: String,
}

impl Connection {
    /// Another user of the same connection, where it takes several requests at once.
    pub(crate) fn share(&self) -> Option<Self> {
        let sender = match &self.sender {
            Sender::Http1(_) => return None,
            Sender::Http2(sender) => Sender::Http2(sender.clone()),
        };
        let (uri, host) = (self.uri.clone(), self.host.clone());
        Some(Self { sender, uri, host, authorization: self.authorization.clone() })
    }

    /// Posts a review; an error unless it is answered as it should be.
    pub(crate) async fn ask(&mut self, review: &Review) -> Result<()> {
        let mut request = Request::post(self.uri.clone())
            .header(header::AUTHORIZATION, &self.authorization)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*");
        let answer = match &mut self.sender {
            Sender::Http1(sender) => {
                request = request.header(header::HOST, &self.host);
                sender.ready().await?;
                sender.send_request(request.body(Full::new(review.body.clone()))?).await?
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request.body(Full::new(review.body.clone()))?).await?
            }
        };
        let body = body_of(answer).await?;
        let is_allowed = body.windows(ALLOWED.len()).any(|part| part == ALLOWED);
        ensure!(is_allowed == review.is_allowed, "{} for {:?}", text(&body), review.body);
        Ok(())
    }
}

/// What is answered to one request without TLS.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Result<Bytes> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header(header::HOST, address.to_string());
    body_of(sender.send_request(request.body(Full::<Bytes>::default())?).await?).await
}

async fn body_of(answer: Response<Incoming>) -> Result<Bytes> {
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    ensure!(status == StatusCode::OK, "{status}: {}", text(&body));
    Ok(body)
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}
