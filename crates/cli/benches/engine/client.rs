//! One client for every server: the same requests over TLS and HTTP/2, or inside the process.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

pub(crate) type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Connections of a [`Client`] over TLS. Controllers use one for everything; with several, no
/// server is held up by the one processor that decrypts.
const CONNECTIONS: usize = 8;

/// Where a server is and how to trust it.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) socket: SocketAddr,
    pub(crate) authority_pem: Vec<u8>,
}

/// Somebody who sends requests.
#[derive(Clone)]
pub(crate) struct Client {
    transport: Transport,
}

#[derive(Clone)]
enum Transport {
    Tls { connections: Arc<[SendRequest<Full<Bytes>>]>, base: String, authorization: HeaderValue },
    InProcess(kube::Client),
}

/// A request, less what the transport adds.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Bytes,
}

impl Call {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), content_type: "", body: Bytes::new() }
    }

    pub(crate) fn post(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        let content_type = "application/json";
        Self { method: Method::POST, path: path.into(), content_type, body: body.into() }
    }

    pub(crate) fn put(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self { method: Method::PUT, ..Self::post(path, body) }
    }

    pub(crate) fn merge_patch(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        let content_type = "application/merge-patch+json";
        Self { method: Method::PATCH, content_type, ..Self::post(path, body) }
    }

    fn request(self, base: &str) -> Result<Request<Bytes>> {
        let mut request = Request::builder()
            .method(self.method)
            .uri(format!("{base}{}", self.path))
            .header(header::ACCEPT, "application/json");
        if !self.content_type.is_empty() {
            request = request
                .header(header::CONTENT_TYPE, self.content_type)
                .header(header::CONTENT_LENGTH, self.body.len());
        }
        Ok(request.body(self.body)?)
    }
}

impl Client {
    /// A client over TLS that shows `token`.
    pub(crate) async fn connect(address: &Address, token: &str) -> Result<Self> {
        Self::with_connections(address, token, CONNECTIONS).await
    }

    /// The same with so many connections.
    pub(crate) async fn with_connections(
        address: &Address,
        token: &str,
        connections: usize,
    ) -> Result<Self> {
        let connector = connector(&address.authority_pem)?;
        let mut open = Vec::with_capacity(connections);
        for _ in 0..connections {
            open.push(connect(address.socket, &connector).await?);
        }
        // Not marked as sensitive: as client-go does, so that HTTP/2 sends it once a connection.
        let authorization = HeaderValue::from_str(&format!("Bearer {token}"))?;
        let base = format!("https://{}", address.socket);
        let transport = Transport::Tls { connections: open.into(), base, authorization };
        Ok(Self { transport })
    }

    pub(crate) const fn in_process(client: kube::Client) -> Self {
        Self { transport: Transport::InProcess(client) }
    }

    /// Sends a request, on the connection of `lane`; an error unless the answer is a success.
    pub(crate) async fn send(&self, lane: usize, call: Call) -> Result<Response<Body>> {
        let shown = format!("{} {}", call.method, call.path);
        let answer = self.exchange(lane, call).await.with_context(|| shown.clone())?;
        let status = answer.status();
        if !status.is_success() {
            let body = collect(answer.into_body()).await?;
            bail!("{shown}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(answer)
    }

    async fn exchange(&self, lane: usize, call: Call) -> Result<Response<Body>> {
        match &self.transport {
            Transport::Tls { connections, base, authorization } => {
                let mut request = call.request(base)?.map(Full::new);
                request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
                let mut connection = connections[lane % connections.len()].clone();
                connection.ready().await?;
                let answer = connection.send_request(request).await?;
                Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
            Transport::InProcess(client) => {
                let answer = client.send(call.request("")?.map(Into::into)).await?;
                Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
        }
    }

    /// Sends a request and reads the whole answer, without keeping it; says how long it was.
    pub(crate) async fn finish(&self, lane: usize, call: Call) -> Result<usize> {
        let mut body = self.send(lane, call).await?.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(anyhow::Error::from_boxed)?;
            length += frame.data_ref().map_or(0, Bytes::len);
        }
        Ok(length)
    }

    /// Sends a request and reads the answer as JSON.
    pub(crate) async fn json(&self, call: Call) -> Result<Value> {
        let body = collect(self.send(0, call).await?.into_body()).await?;
        Ok(serde_json::from_slice(&body)?)
    }
}

async fn collect(body: Body) -> Result<Bytes> {
    let collected = body.collect().await.map_err(anyhow::Error::from_boxed)?;
    Ok(collected.to_bytes())
}

fn connector(authority_pem: &[u8]) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority_pem) {
        roots.add(certificate?)?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn connect(
    address: SocketAddr,
    connector: &TlsConnector,
) -> Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let stream = connector.connect(ServerName::from(address.ip()), stream).await?;
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    // It ends with the last sender; errors reach whoever waits for an answer.
    tokio::spawn(connection);
    Ok(sender)
}
