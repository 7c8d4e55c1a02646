//! The listeners that servers of this machine talk to: one for each, which only its own Pod reaches. A Pod has its port in
//! its environment, so that the same port is listened at after a restart.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use sojourn_core::key::Key;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::pod::ListenerEndpoint;
use super::sdk::{SdkBackend, SdkCode, ServerIdentity, serve};
use super::view::PodView;
use crate::clock::Clock;
use crate::installation_key::InstallationKey;

/// Below the ports that the kernel gives to outgoing connections, and above those of Pods and games.
pub(crate) const PORTS: RangeInclusive<u16> = 30_001..=32_767;

/// A port that a Pod has in its environment, and that cannot be listened at, is tried again after so long.
const BIND_RETRY: Duration = Duration::from_secs(2);

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
    clock: Arc<dyn Clock>,
    open: Mutex<HashMap<String, OpenListener>>,
    next: Mutex<u16>,
    requests: mpsc::UnboundedSender<NewListener>,
}

struct OpenListener {
    port: u16,
    since: Timestamp,
    /// Dropped, it ends.
    _stop: oneshot::Sender<()>,
}

/// A Pod is so now, or there is none any more.
#[derive(Debug)]
pub(crate) struct PodChange {
    pub(crate) key: Key,
    pub(crate) pod: Option<PodView>,
    /// The server of the Pod that is gone.
    pub(crate) gone: Option<String>,
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
        clock: Arc<dyn Clock>,
        backend: Arc<dyn SdkBackend>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (requests, received) = mpsc::unbounded_channel();
        let next = Mutex::new(*PORTS.start());
        (Self { key, clock, open: Mutex::default(), next, requests }, run(received, backend))
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

    /// Keeps a listener open for each Pod that has one in its environment, until nobody tells of changes any more. A port
    /// that somebody else has is tried again. `opened` is told of servers that are heard (again), `closed` of those that
    /// are not.
    pub(crate) async fn follow_pods(
        &self,
        mut changes: mpsc::UnboundedReceiver<PodChange>,
        opened: impl Fn(&Key),
        closed: impl Fn(&str),
    ) {
        // Those whose port could not be listened at.
        let mut unheard: BTreeMap<Key, PodView> = BTreeMap::new();
        let mut retry_at = Instant::now();
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = tokio::time::sleep_until(retry_at), if !unheard.is_empty() => {
                    for (key, pod) in std::mem::take(&mut unheard) {
                        match self.follow_pod(&key, &pod).await {
                            Ok(true) => opened(&key),
                            Ok(false) => {}
                            Err(_) => drop(unheard.insert(key, pod)),
                        }
                    }
                    retry_at = Instant::now() + BIND_RETRY;
                    continue;
                }
            };
            let Some(PodChange { key, pod, gone }) = change else { return };
            if let Some(uid) = gone {
                self.close(&uid);
                closed(&uid);
            }
            let waits = unheard.remove(&key);
            let Some(pod) = pod else { continue };
            let same = |known: &PodView| known.owner == pod.owner && known.sdk_port == pod.sdk_port;
            if waits.as_ref().is_some_and(same) {
                unheard.insert(key, pod);
                continue;
            }
            match self.follow_pod(&key, &pod).await {
                Ok(true) => opened(&key),
                Ok(false) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(server = %key, error, "nobody hears what it says, until its port is free");
                    if unheard.is_empty() {
                        retry_at = Instant::now() + BIND_RETRY;
                    }
                    unheard.insert(key, pod);
                }
            }
        }
    }

    /// A Pod that is there has its port in its environment. Answers whether a listener was opened for it.
    async fn follow_pod(&self, key: &Key, pod: &PodView) -> Result<bool, ListenerError> {
        let Some(port) = pod.sdk_port.filter(|port| PORTS.contains(port)) else { return Ok(false) };
        if self.port_of(&pod.owner).is_some() {
            return Ok(false);
        }
        self.listen(key, &pod.owner, port).await.map(|()| true)
    }

    /// Since when a server is heard, if it is.
    pub(crate) fn listening_since(&self, uid: &str) -> Option<Timestamp> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(uid).map(|one| one.since)
    }

    /// A server is gone, and its Pod with it.
    fn close(&self, uid: &str) {
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
        let since = self.clock.now();
        open.insert(uid.to_owned(), OpenListener { port, since, _stop: stop });
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

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use futures::stream::BoxStream;
    use futures::{FutureExt as _, StreamExt as _};
    use sojourn_core::game::lifecycle::ObservedPod;
    use tokio::time::timeout;

    use super::super::sdk::{GameServerView, SdkError, SdkRequest};
    use super::*;
    use crate::clock::VirtualClock;

    /// Nobody says anything here.
    #[derive(Debug)]
    struct NoServers;

    impl SdkBackend for NoServers {
        fn take<'a>(
            &'a self,
            _: &'a ServerIdentity,
            _: SdkRequest,
        ) -> BoxFuture<'a, Result<GameServerView, SdkError>> {
            std::future::ready(Err(SdkError::UnknownServer)).boxed()
        }

        fn view<'a>(
            &'a self,
            _: &'a ServerIdentity,
        ) -> BoxFuture<'a, Result<GameServerView, SdkError>> {
            std::future::ready(Err(SdkError::UnknownServer)).boxed()
        }

        fn watch(&self, _: &ServerIdentity) -> BoxStream<'static, GameServerView> {
            futures::stream::empty().boxed()
        }
    }

    fn pod(port: u16) -> PodView {
        PodView {
            owner: "u-1".to_owned(),
            observed: ObservedPod::default(),
            sdk_port: Some(port),
            has_sidecar: false,
            ports: Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_is_heard_from_when_its_port_is_free_again() {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH));
        let key = Key::new("play", "s");
        let (listeners, _work) =
            SdkListeners::new(InstallationKey::for_tests(), clock.clone(), Arc::new(NoServers));
        let bind = |port| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
        let taken = PORTS.rev().find_map(|port| Some((port, bind(port)?)));
        let (port, somebody) = taken.expect("a free port");
        let (send, changes) = mpsc::unbounded_channel();
        let (tell, mut opened) = mpsc::unbounded_channel();
        let told = |key: &Key| tell.send(key.clone()).expect("somebody listens");
        let test = async {
            let change = || PodChange { key: key.clone(), pod: Some(pod(port)), gone: None };
            send.send(change()).expect("it is followed");
            let silent = timeout(BIND_RETRY * 3, opened.recv()).await;
            assert!(silent.is_err(), "somebody else has the port");
            assert_eq!(listeners.listening_since("u-1"), None, "nothing is missing");
            drop(somebody);
            let before = clock.now();
            let heard = timeout(BIND_RETRY * 3, opened.recv()).await.expect("it is tried again");
            assert_eq!(heard.as_ref(), Some(&key));
            let since = listeners.listening_since("u-1").expect("it is heard");
            assert!(since >= before, "{since}");
            assert_eq!(listeners.port_of("u-1"), Some(port));
            send.send(change()).expect("it is followed");
            let again = timeout(BIND_RETRY * 3, opened.recv()).await;
            assert!(again.is_err(), "it is open already");
            let gone = PodChange { key: key.clone(), pod: None, gone: Some("u-1".to_owned()) };
            send.send(gone).expect("it is followed");
            drop(send);
        };
        let closed = Mutex::new(Vec::new());
        let close = |uid: &str| closed.lock().expect("unpoisoned").push(uid.to_owned());
        tokio::join!(listeners.follow_pods(changes, told, close), test);
        assert_eq!(*closed.lock().expect("unpoisoned"), ["u-1"]);
        assert_eq!(listeners.listening_since("u-1"), None);
    }
}
