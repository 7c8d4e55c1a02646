//! The node's own listener: it serves the logs of its containers to the API server, by a kubelet's
//! protocol over mutual TLS.
//!
//! | file     | what                                                |
//! |----------|-----------------------------------------------------|
//! | `tls`    | the node's certificate, and whose are good for asking |
//! | `answer` | requests and answers                                |
//!
//! Logs hold whatever Pods say. Nobody gets as far as a request without a certificate of the
//! authority's, and nobody gets an answer whom the authority did not name as the API server.

mod answer;
mod tls;

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::log::Folders;

pub(crate) use answer::{CurrentRun, LogLookup, Pods, Runs};
pub(crate) use tls::Allowed;
pub use tls::{Certified, TlsError};

use answer::Service;
use tls::{Peer, Serving};

/// How long a client may take for the TLS handshake, or to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long open requests may go on after the listener was told to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// More than can follow logs, so that others get an answer at least.
const MAX_CONNECTIONS: usize = 1024;
/// How much of a request's head is read: its path and a few headers.
const MAX_HEAD_BYTES: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
/// How long to wait when no connection can be accepted: out of descriptors, most likely.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Why logs cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("cannot watch logs for changes: {0}")]
    Watch(io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub address: SocketAddr,
    /// What the node shows.
    pub certified: Certified,
    /// Who issues the certificates that clients show, in PEM.
    pub client_authority_pem: String,
    pub allowed: Allowed,
}

/// A running listener. Dropping it ends it at once; [`Server::stop`] lets open requests end.
pub(crate) struct Server {
    address: SocketAddr,
    serving: Arc<Serving>,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    pub(crate) async fn start(settings: Settings, pods: Arc<dyn Pods>) -> Result<Self, ServeError> {
        let serving = Arc::new(Serving::new(&settings.certified)?);
        let config = tls::config(serving.clone(), &settings.client_authority_pem)?;
        let address = settings.address;
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let folders = Folders::new().map_err(ServeError::Watch)?;
        let stop = watch::Sender::new(false);
        let accept = Accept {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            service: Service::new(pods, folders, settings.allowed, stop.subscribe()),
            stop: stop.subscribe(),
        };
        let accepting = tokio::spawn(accept.run(listener));
        Ok(Self { address, serving, stop, accepting })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows another certificate from now on.
    pub(crate) fn certify(&self, certified: &Certified) -> Result<(), TlsError> {
        self.serving.replace(certified)
    }

    /// Takes no more connections, ends what is being followed, and lets other requests end.
    pub(crate) async fn stop(mut self) {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.accepting).await {
            tracing::error!(%error, "the listener for logs failed");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

struct Accept {
    acceptor: TlsAcceptor,
    service: Service,
    stop: watch::Receiver<bool>,
}

impl Accept {
    async fn run(mut self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                _ = self.stop.wait_for(|stop| *stop) => break,
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = Connection {
                        acceptor: self.acceptor.clone(),
                        service: self.service.clone(),
                        stop: self.stop.clone(),
                    };
                    connections.spawn(connection.run(stream));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection for logs");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
        drop(listener);
        let drained = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_TIMEOUT, drained).await.is_err() {
            tracing::warn!("some requests for logs did not end in time");
        }
    }
}

struct Connection {
    acceptor: TlsAcceptor,
    service: Service,
    stop: watch::Receiver<bool>,
}

impl Connection {
    async fn run(mut self, stream: TcpStream) {
        // Lines are short: without this, each waits for the client's delayed acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        // A follower that is gone without a word should not be kept for ever.
        if let Err(error) = rustix::net::sockopt::set_socket_keepalive(&stream, true) {
            tracing::debug!(%error, "cannot set SO_KEEPALIVE");
        }
        let stop = &mut self.stop;
        let mut stopped = std::pin::pin!(async {
            // An error means that nobody can stop us any more, which is the same.
            drop(stop.wait_for(|stop| *stop).await);
        });
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(HEAD_TIMEOUT, self.acceptor.accept(stream)) => shaken,
            () = &mut stopped => return,
        };
        let stream = match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => return tracing::debug!("a TLS handshake took too long"),
        };
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let Some(peer) = certificate.and_then(Peer::of) else {
            return tracing::debug!("a client's certificate names nobody");
        };
        let service = service_fn(|request: Request<Incoming>| {
            let (service, peer) = (&self.service, &peer);
            async move { Ok::<_, Infallible>(service.answer(peer, &request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

#[cfg(test)]
mod tests;
