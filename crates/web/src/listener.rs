//! The socket: HTTP/1.1, and HTTP/2 where TLS agrees on it, with bounds and a clean end.
//!
//! Without TLS only loopback is served: what goes over a network would show cookies and tokens to
//! whoever listens there.

mod relay;
mod stall;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tower::ServiceExt as _;

pub use relay::{Leader, Relay};
use stall::WriteTimeout;

/// How long a client may take for the TLS handshake, or to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long open requests may go on after the listener was told to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// How many connections are open at a time, unless it is said; more wait until one ends.
const CONNECTIONS: usize = 1024;
/// A request's head: address, headers, cookies.
const MAX_HEAD_BYTES: usize = 64 << 10;
const HEADERS: usize = 100;
/// Requests at a time on one HTTP/2 connection.
const STREAMS: u32 = 100;
/// A client that takes none of its answer for so long is gone.
const STALL_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long to wait when no connection can be accepted: out of descriptors, most likely.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Why people cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot serve {address} without TLS: only loopback addresses are private")]
    Plain { address: SocketAddr },
}

/// How a request came in; in its extensions, beside axum's `ConnectInfo` of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportInfo {
    /// Our end of the connection.
    pub local: SocketAddr,
    /// Over TLS.
    pub secure: bool,
}

/// The certificate that a client showed, in DER; in the extensions of its requests, if it showed one that our
/// TLS configuration accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate(pub Arc<[u8]>);

/// Where people are served.
#[derive(Debug)]
pub struct Listener;

impl Listener {
    /// Takes an address: with TLS if there is a configuration, else on loopback only.
    pub async fn bind(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<Bound, ListenError> {
        if tls.is_none() && !address.ip().to_canonical().is_loopback() {
            return Err(ListenError::Plain { address });
        }
        let failed = |source| ListenError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let listener = Arc::new(listener);
        let tls = tls.map(TlsAcceptor::from);
        Ok(Bound { address, listener, tls, connections: CONNECTIONS })
    }

    /// Takes an address and serves the router there.
    pub async fn serve(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        router: Router,
    ) -> Result<Serving, ListenError> {
        Ok(Self::bind(address, tls).await?.serve(router))
    }
}

/// An address that is taken; whoever comes waits until somebody serves. Clones share it, so that it
/// stays taken while one stops serving and another begins.
#[derive(Clone)]
pub struct Bound {
    address: SocketAddr,
    listener: Arc<TcpListener>,
    tls: Option<TlsAcceptor>,
    connections: usize,
}

impl Bound {
    /// So many connections are open at a time.
    #[must_use]
    pub const fn with_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn serve(self, router: Router) -> Serving {
        let stop = watch::Sender::new(false);
        let Self { tls, connections: limit, .. } = self;
        let accept = Accept { tls, router, limit, stop: stop.subscribe() };
        let accepting = tokio::spawn(accept.run(self.listener));
        Serving { address: self.address, stop, accepting }
    }
}

impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A running listener. Dropping it ends it at once; [`Serving::stop`] lets open requests end.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Serving {
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections and gives open requests a few seconds to end. Connections that
    /// were upgraded belong to whoever upgraded them.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.accepting).await {
            tracing::error!(%error, "the listener for people failed");
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

struct Accept {
    tls: Option<TlsAcceptor>,
    router: Router,
    limit: usize,
    stop: watch::Receiver<bool>,
}

impl Accept {
    async fn run(mut self, listener: Arc<TcpListener>) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                _ = self.stop.wait_for(|stop| *stop) => break,
                Some(_) = connections.join_next() => continue,
                accepted = accept(&listener), if connections.len() < self.limit => accepted,
            };
            if let Some((stream, peer)) = accepted {
                let tls = self.tls.clone();
                let connection =
                    Connection { router: self.router.clone(), peer, stop: self.stop.clone() };
                connections.spawn(connection.run(stream, tls));
            }
        }
        drop(listener);
        let drained = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_TIMEOUT, drained).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
    }
}

/// A connection; nothing, after a while, if none can be accepted.
async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            None
        }
    }
}

struct Connection {
    router: Router,
    peer: SocketAddr,
    stop: watch::Receiver<bool>,
}

impl Connection {
    async fn run(mut self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        // What is typed into a terminal goes letter by letter.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let local = match stream.local_addr() {
            Ok(local) => local,
            Err(error) => return tracing::debug!(%error, "a connection ended at once"),
        };
        let stream = WriteTimeout::new(stream, STALL_TIMEOUT);
        let Some(acceptor) = tls else {
            let info = TransportInfo { local, secure: false };
            let origin = RequestOrigin::new(info, self.peer, None);
            return self.http1(stream, origin).await;
        };
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(HEAD_TIMEOUT, acceptor.accept(stream)) => shaken,
            _ = self.stop.wait_for(|stop| *stop) => return,
        };
        match shaken {
            Ok(Ok(stream)) => {
                let session = stream.get_ref().1;
                let shown = session.peer_certificates().and_then(|chain| chain.first());
                let shown = shown.map(|certificate| PeerCertificate(certificate.as_ref().into()));
                let is_http2 = session.alpn_protocol() == Some(b"h2");
                let info = TransportInfo { local, secure: true };
                let origin = RequestOrigin::new(info, self.peer, shown);
                match is_http2 {
                    true => self.http2(stream, origin).await,
                    false => self.http1(stream, origin).await,
                }
            }
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    async fn http1<S>(mut self, stream: S, origin: RequestOrigin)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let router = self.router.clone();
        let service = service_fn(move |request| answer(router.clone(), request, origin.clone()));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(HEADERS)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stopped() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        log_end(ended);
    }

    async fn http2<S>(mut self, stream: S, origin: RequestOrigin)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let router = self.router.clone();
        let begun = Arc::new(AtomicBool::new(false));
        let begins = begun.clone();
        let service = service_fn(move |request| {
            begins.store(true, Ordering::Relaxed);
            answer(router.clone(), request, origin.clone())
        });
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX))
            .keep_alive_interval(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        // By itself, hyper would wait for the first request for ever.
        let unused = async {
            tokio::time::sleep(HEAD_TIMEOUT).await;
            if begun.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = unused => return tracing::debug!("nothing was asked on a connection"),
            () = self.stopped() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        log_end(ended);
    }

    async fn stopped(&mut self) {
        // An error means that nobody can stop us any more, which is the same.
        drop(self.stop.wait_for(|stop| *stop).await);
    }
}

/// Where the requests of a connection come from.
#[derive(Clone)]
struct RequestOrigin {
    info: TransportInfo,
    peer: SocketAddr,
    certificate: Option<PeerCertificate>,
}

impl RequestOrigin {
    const fn new(
        info: TransportInfo,
        peer: SocketAddr,
        certificate: Option<PeerCertificate>,
    ) -> Self {
        Self { info, peer, certificate }
    }
}

fn log_end(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn answer(
    router: Router,
    request: Request<Incoming>,
    origin: RequestOrigin,
) -> Result<Response, Infallible> {
    let mut request = request.map(Body::new);
    let extensions = request.extensions_mut();
    extensions.insert(origin.info);
    extensions.insert(ConnectInfo(origin.peer));
    if let Some(certificate) = origin.certificate {
        extensions.insert(certificate);
    }
    router.oneshot(request).await
}
