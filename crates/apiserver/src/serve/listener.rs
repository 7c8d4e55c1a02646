//! The TLS listener: HTTP/1.1 and HTTP/2, client certificates, and a clean end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use http::{Request, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::auth::certificate::{
    CertificateError, Serving, client_identity, is_named, server_config, server_names,
};
use crate::auth::identity::Identity;
use crate::engine::{Engine, Shared};
use crate::status::ApiError;

use super::PeerIdentity;

/// How long a client may take to shake hands, or to send a request's head.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long open requests may go on after the listener was told to stop.
const DRAIN: Duration = Duration::from_secs(10);
const CONNECTIONS: usize = 10_000;

/// Why the API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot prepare the serving certificate")]
    Certificate(#[from] CertificateError),
}

/// A running listener. Dropping it does not stop it; [`Server::stop`] does.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    authority_pem: String,
    stop: watch::Sender<bool>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Server {
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate that clients verify the server with.
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// Takes no more connections and lets open requests end.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if self.accepting.await.is_err() {
            tracing::error!("the listener panicked");
        }
    }
}

impl Engine {
    /// Serves the API over TLS.
    pub async fn serve_tls(&self, address: SocketAddr) -> Result<Server, ServeError> {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ServeError::Listen { address, source })?;
        let address =
            listener.local_addr().map_err(|source| ServeError::Listen { address, source })?;
        let shared = &self.shared;
        let mut further = shared.names.clone();
        further.push(address.ip().to_string());
        let names: Arc<[String]> = server_names(&host_name(), &further).into();
        let certified = shared.authority.issue_server(&names, shared.clock.now())?;
        let serving = Arc::new(Serving::new(&certified)?);
        let authority_pem = shared.authority.certificate_pem().to_owned();
        let config = server_config(serving.clone(), &authority_pem)?;
        let stop = watch::Sender::new(false);
        let accept = Accept {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            router: self.router(),
            names: names.clone(),
            stop: stop.subscribe(),
            _running: stop.clone(),
        };
        tokio::spawn(renew(shared.clone(), serving, names, stop.subscribe()));
        let accepting = tokio::spawn(accept.run(listener));
        Ok(Server { address, authority_pem, stop, accepting })
    }
}

/// Replaces the serving certificate before it runs out.
async fn renew(
    shared: Arc<Shared>,
    serving: Arc<Serving>,
    names: Arc<[String]>,
    mut stop: watch::Receiver<bool>,
) {
    const DAY: Duration = Duration::from_secs(86_400);
    loop {
        tokio::select! {
            () = tokio::time::sleep(30 * DAY) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        let renewed = shared
            .authority
            .issue_server(&names, shared.clock.now())
            .and_then(|certified| serving.replace(&certified));
        if let Err(error) = renewed {
            tracing::error!(%error, "cannot renew the serving certificate");
        }
    }
}

struct Accept {
    acceptor: TlsAcceptor,
    router: Router,
    names: Arc<[String]>,
    stop: watch::Receiver<bool>,
    /// The listener goes on when nobody holds its [`Server`] any more.
    _running: watch::Sender<bool>,
}

impl Accept {
    async fn run(mut self, listener: TcpListener) {
        let open = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = self.stop.wait_for(|stop| *stop) => break,
            };
            let (stream, _) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: give connections time to end.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(permit) = open.clone().try_acquire_owned() else {
                tracing::warn!("too many connections; one was turned away");
                continue;
            };
            let connection = Connection {
                acceptor: self.acceptor.clone(),
                router: self.router.clone(),
                names: self.names.clone(),
                stop: self.stop.clone(),
            };
            tokio::spawn(async move {
                connection.run(stream).await;
                drop(permit);
            });
        }
        drop(listener);
        let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
        if tokio::time::timeout(DRAIN, open.acquire_many(all)).await.is_err() {
            tracing::warn!("some connections did not end in time");
        }
    }
}

struct Connection {
    acceptor: TlsAcceptor,
    router: Router,
    names: Arc<[String]>,
    stop: watch::Receiver<bool>,
}

impl Connection {
    async fn run(mut self, stream: TcpStream) {
        // Answers are small: without this, each waits for the client's delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let shaken = tokio::time::timeout(HANDSHAKE, self.acceptor.accept(stream)).await;
        let stream = match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => return tracing::debug!("a TLS handshake took too long"),
        };
        let certificate = stream.get_ref().1.peer_certificates().and_then(|c| c.first());
        let identity = match certificate.map(|der| client_identity(der)) {
            None | Some(Ok(None)) => None,
            Some(Ok(Some(identity))) => Some(identity),
            Some(Err(error)) => {
                return tracing::debug!(%error, "a client certificate cannot be read");
            }
        };
        let (router, names) = (self.router, self.names);
        let begun = Arc::new(AtomicBool::new(false));
        let begins = begun.clone();
        let service = tower::service_fn(move |request: Request<Incoming>| {
            begins.store(true, Ordering::Relaxed);
            let (router, names, identity) = (router.clone(), names.clone(), identity.clone());
            async move { serve(router, &names, identity, request).await }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1_000);
        let connection = builder.serve_connection_with_upgrades(
            TokioIo::new(stream),
            TowerToHyperService::new(service),
        );
        tokio::pin!(connection);
        let stopped = async {
            // An error means that nobody can stop us any more, which is the same.
            drop(self.stop.wait_for(|stop| *stop).await);
        };
        // Which protocol it is shows with the first bytes, and for those nobody else waits with a clock.
        let silent = async {
            tokio::time::sleep(HANDSHAKE).await;
            if begun.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = silent => return tracing::debug!("a client connected and asked for nothing"),
        };
        if let Err(error) = ended {
            tracing::debug!(error, "a connection ended early");
        }
    }
}

async fn serve(
    router: Router,
    names: &[String],
    identity: Option<Identity>,
    mut request: Request<Incoming>,
) -> Result<axum::response::Response, std::convert::Infallible> {
    if let Err(error) = check_origin(&request, names) {
        return Ok(error.into_response());
    }
    if let Some(identity) = identity {
        request.extensions_mut().insert(PeerIdentity(identity));
    }
    router.oneshot(request.map(axum::body::Body::new)).await
}

/// A page from elsewhere may not talk to a local API with the user's rights: the host must be one
/// of ours, and so must the origin, if the client names one.
fn check_origin(request: &Request<Incoming>, names: &[String]) -> Result<(), ApiError> {
    let header = |name| request.headers().get(name).and_then(|v| v.to_str().ok());
    let host = request
        .uri()
        .authority()
        .map(http::uri::Authority::as_str)
        .or_else(|| header(header::HOST));
    if !host.is_some_and(|host| is_named(host, names)) {
        return Err(ApiError::new(
            http::StatusCode::MISDIRECTED_REQUEST,
            "BadRequest",
            "the Host header is none of this server's names; see --tls-san",
        ));
    }
    let origin = header(header::ORIGIN);
    let host = origin.map(|o| o.rsplit_once("://").map_or(o, |(_, host)| host));
    if host.is_some_and(|host| !is_named(host, names)) {
        return Err(ApiError::new(
            http::StatusCode::FORBIDDEN,
            "Forbidden",
            "requests from pages of another origin are refused",
        ));
    }
    Ok(())
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}
