//! What a scenario runs against: anything that answers HTTP requests.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;
pub(crate) type Sending<'a> = Pin<Box<dyn Future<Output = Result<Answer, BoxError>> + Send + 'a>>;

/// An API server. The request's URI is a path with a query; the answer's body may be endless.
pub(crate) trait Target: Send + Sync {
    fn send(&self, request: Request<Bytes>) -> Sending<'_>;

    /// How long an answer, an event or a condition may take before a scenario goes on without it.
    fn timeout(&self) -> Duration {
        Duration::from_secs(10)
    }
}

const ATTEMPTS: usize = 4;

type Sender = SendRequest<Full<Bytes>>;

/// One HTTP/2 connection over TLS, shared by all scenarios; made anew when the server ends it.
pub(crate) struct TlsTarget {
    address: SocketAddr,
    connector: TlsConnector,
    sender: Mutex<Sender>,
    timeout: Duration,
}

impl TlsTarget {
    /// Connects and trusts the certificates in `ca`, which is PEM.
    pub(crate) async fn connect(address: SocketAddr, ca: &[u8]) -> Result<Self, BoxError> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca) {
            roots.add(certificate?)?;
        }
        let provider = tokio_rustls::rustls::crypto::ring::default_provider();
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        let sender = Mutex::new(connect(address, &connector).await?);
        Ok(Self { address, connector, sender, timeout: Duration::from_secs(10) })
    }

    pub(crate) fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    async fn sender(&self) -> Result<Sender, BoxError> {
        let mut sender = self.sender.lock().await;
        if sender.is_closed() {
            *sender = connect(self.address, &self.connector).await?;
        }
        Ok(sender.clone())
    }
}

async fn connect(address: SocketAddr, connector: &TlsConnector) -> Result<Sender, BoxError> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let stream = connector.connect(ServerName::from(address.ip()), stream).await?;
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

impl Target for TlsTarget {
    fn send(&self, request: Request<Bytes>) -> Sending<'_> {
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            parts.uri = format!("https://{}{}", self.address, parts.uri).parse()?;
            parts.headers.insert(header::CONTENT_LENGTH, body.len().into());
            let request = Request::from_parts(parts, Full::new(body));
            let mut attempt = 1;
            loop {
                let mut sender = self.sender().await?;
                let sent = match sender.ready().await {
                    Ok(()) => sender.send_request(request.clone()).await,
                    Err(e) => Err(e),
                };
                match sent {
                    Ok(answer) => {
                        return Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()));
                    }
                    // kube-apiserver announces the end of the connection after some errors, as
                    // 401; requests which that announcement overtook have not been processed.
                    Err(_) if attempt < ATTEMPTS => attempt += 1,
                    Err(e) => return Err(e.into()),
                }
            }
        })
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}
