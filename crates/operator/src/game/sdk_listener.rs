//! The listeners that servers of this machine talk to: one for each, which only its own Pod reaches. A Pod has its port in
//! its environment, so that the same port is listened at after a restart.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

use sojourn_core::key::Key;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::pod::ListenerEndpoint;
use super::sdk::{SdkBackend, SdkCode, ServerIdentity, serve};
use super::view::PodView;
use crate::installation_key::InstallationKey;

/// Below the ports that the kernel gives to outgoing connections, and above those of Pods and games.
pub(crate) const PORTS: RangeInclusive<u16> = 30_001..=32_767;

/// Why a server has no listener.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenerError {
    #[error("no port from {} to {} is free for the SDK of a server", PORTS.start(), PORTS.end())]
    Exhausted,
    #[error("cannot listen at port {port}")]
    Bind { port: u16, source: io::Error },
    #[error("listeners have ended")]
    Ended,
}

/// All of them.
pub(crate) struct SdkListeners {
    key: InstallationKey,
    open: Mutex<HashMap<String, OpenListener>>,
    next: Mutex<u16>,
    requests: mpsc::UnboundedSender<NewListener>,
}

struct OpenListener {
    port: u16,
    /// Dropped, it ends.
    _stop: oneshot::Sender<()>,
}

struct NewListener {
    listener: TcpListener,
    identity: ServerIdentity,
    code: SdkCode,
    stop: oneshot::Receiver<()>,
}

impl std::fmt::Debug for SdkListeners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SdkListeners").finish_non_exhaustive()
    }
}

impl SdkListeners {
    /// With what has to run for them.
    pub(crate) fn new(
        key: InstallationKey,
        backend: Arc<dyn SdkBackend>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (requests, received) = mpsc::unbounded_channel();
        let next = Mutex::new(*PORTS.start());
        (Self { key, open: Mutex::default(), next, requests }, run(received, backend))
    }

    /// Where a server talks: its listener, which is opened if it has none.
    pub(crate) async fn open(
        &self,
        key: &Key,
        uid: &str,
    ) -> Result<ListenerEndpoint, ListenerError> {
        let code = self.key.report_token(key, uid);
        if let Some(port) = self.port_of(uid) {
            return Ok(ListenerEndpoint { port, code });
        }
        for _ in PORTS {
            let port = self.next_port();
            match self.listen(key, uid, port).await {
                Ok(()) => return Ok(ListenerEndpoint { port, code }),
                Err(ListenerError::Bind { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(ListenerError::Exhausted)
    }

    /// A Pod that is there has its port in its environment; one that is gone needs none.
    pub(crate) async fn follow_pod(&self, key: &Key, pod: Option<&PodView>) {
        let Some(pod) = pod else { return };
        let Some(port) = pod.sdk_port.filter(|port| PORTS.contains(port)) else { return };
        if self.port_of(&pod.owner).is_some() {
            return;
        }
        if let Err(error) = self.listen(key, &pod.owner, port).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(server = %key, error, "nobody hears what it says");
        }
    }

    /// A server is gone, and its Pod with it.
    pub(crate) fn close(&self, uid: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// The address that the Pod of a server may reach, if it is the one that it was given.
    pub(crate) fn address_for(&self, owner: &str, port: u16) -> Option<SocketAddr> {
        let open = self.port_of(owner).filter(|open| *open == port)?;
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, open)))
    }

    fn port_of(&self, uid: &str) -> Option<u16> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(uid).map(|one| one.port)
    }

    fn next_port(&self) -> u16 {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let port = *next;
        *next = if port >= *PORTS.end() { *PORTS.start() } else { port + 1 };
        port
    }

    async fn listen(&self, key: &Key, uid: &str, port: u16) -> Result<(), ListenerError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(|source| ListenerError::Bind { port, source })?;
        let (stop, stopped) = oneshot::channel();
        let identity = ServerIdentity { key: key.clone(), uid: uid.to_owned() };
        let code = SdkCode::new(&self.key.report_token(key, uid));
        let new = NewListener { listener, identity, code, stop: stopped };
        self.requests.send(new).map_err(|_| ListenerError::Ended)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(uid.to_owned(), OpenListener { port, _stop: stop });
        Ok(())
    }
}

/// Serves every listener until it is closed.
async fn run(mut received: mpsc::UnboundedReceiver<NewListener>, backend: Arc<dyn SdkBackend>) {
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            new = received.recv() => {
                let Some(NewListener { listener, identity, code, stop }) = new else { break };
                let backend = backend.clone();
                serving.spawn(async move {
                    let stopped = async move { drop(stop.await) };
                    serve(listener, identity, code, backend, stopped).await;
                });
            }
            Some(_) = serving.join_next() => {}
        }
    }
    // Whoever made this future drops it when all has ended.
    std::future::pending::<()>().await;
}
