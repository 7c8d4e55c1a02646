//! The TLS listener: HTTP/1.1 and HTTP/2, client certificates, and a clean end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::{Request, header};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::auth::certificate::{
    CertificateError, ServingCertificate, client_identity, is_named, server_config, server_names,
};
use crate::auth::identity::Identity;
use crate::engine::{Engine, Shared};
use crate::status::ApiError;

use super::PeerIdentity;
use super::connections::{Connections, OpenConnection, Peer};
use super::guarded_body;

/// How long a client may take to shake hands, or to send a request's head.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long open requests may go on after the listener was told to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection on which nothing is asked for this long ends, as upstream.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// How often a client with HTTP/2 is asked whether it is still there, and how long it may take to
/// say so. Watches last: without this, nobody would notice that a client is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long accepting pauses when there is no file descriptor for a connection.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_CONCURRENT_STREAMS: u32 = 1_000;

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
        let serving = Arc::new(ServingCertificate::new(&certified)?);
        let authority_pem = shared.authority.certificate_pem().to_owned();
        let config = server_config(serving.clone(), &authority_pem)?;
        let stop = watch::Sender::new(false);
        let accept = AcceptLoop {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            router: self.router(),
            names: names.clone(),
            connections: Connections::new(shared.limits.connections),
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
    serving: Arc<ServingCertificate>,
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

struct AcceptLoop {
    acceptor: TlsAcceptor,
    router: Router,
    names: Arc<[String]>,
    connections: Arc<Connections>,
    stop: watch::Receiver<bool>,
    /// The listener goes on when nobody holds its [`Server`] any more.
    _running: watch::Sender<bool>,
}

impl AcceptLoop {
    async fn run(mut self, listener: TcpListener) {
        let mut running = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = running.join_next() => continue,
                _ = self.stop.wait_for(|stop| *stop) => break,
            };
            let (stream, _) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: somebody gives one up.
                    tracing::warn!(%error, "cannot accept a connection");
                    self.connections.shed();
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            let Some(open) = self.connections.open() else {
                tracing::warn!("too many connections; one was turned away");
                continue;
            };
            let connection = Connection {
                acceptor: self.acceptor.clone(),
                router: self.router.clone(),
                names: self.names.clone(),
                stop: self.stop.clone(),
            };
            running.spawn(async move {
                tokio::select! {
                    () = connection.run(stream, &open) => {}
                    () = open.shed() => tracing::debug!("a connection had to go for another one"),
                }
            });
        }
        drop(listener);
        let ended = async { while running.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_TIMEOUT, ended).await.is_err() {
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
    async fn run(mut self, stream: TcpStream, open: &OpenConnection) {
        // Answers are small: without this, each waits for the client's delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream)).await;
        let stream = match handshake {
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
        if let Some(identity) = &identity {
            open.peer().authenticated(&identity.user().name);
        }
        let (router, names, peer) = (self.router, self.names, open.peer());
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let (router, names, identity) = (router.clone(), names.clone(), identity.clone());
            let (peer, active) = (peer.clone(), peer.begin());
            async move {
                let response = serve(router, &names, identity, peer, request).await?;
                Ok::<_, std::convert::Infallible>(guarded_body::hold_until_sent(active, response))
            }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_TIMEOUT);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
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
            tokio::time::sleep(HANDSHAKE_TIMEOUT).await;
            if open.activity().0 > 0 {
                idle(open).await;
            }
        };
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = silent => {
                tracing::debug!("nothing was asked for on a connection");
                if open.activity().0 == 0 {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout(HANDSHAKE_TIMEOUT, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error, "a connection ended early");
        }
    }
}

/// Ends once nothing has been asked for, and everything answered, for a while.
async fn idle(open: &OpenConnection) {
    let mut before = open.activity();
    loop {
        tokio::time::sleep(IDLE_TIMEOUT).await;
        let now = open.activity();
        if now == before && !now.1 {
            return;
        }
        before = now;
    }
}

async fn serve(
    router: Router,
    names: &[String],
    identity: Option<Identity>,
    peer: Arc<Peer>,
    mut request: Request<Incoming>,
) -> Result<axum::response::Response, std::convert::Infallible> {
    if let Err(error) = check_origin(&request, names) {
        return Ok(error.into_response());
    }
    request.extensions_mut().insert(peer);
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
