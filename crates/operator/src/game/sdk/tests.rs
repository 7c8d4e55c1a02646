//! Every protocol over real sockets, against a backend that keeps what it hears.

mod classic;
mod client;
mod garbage;
mod grpc;
mod listener;
mod rest;
mod scripted_backend;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sojourn_core::key::Key;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use self::scripted_backend::ScriptedBackend;
use super::endpoint::Endpoint;
use super::listener::{Limits, serve_endpoint};
use super::{
    CounterView, GameServerState, GameServerView, HealthView, ListView, PlayersView, PortView,
    SdkCode, ServerIdentity,
};

const CODE: &str = "a-token";
/// No wait of these tests is longer than this, whatever it waits for.
const BOUND: Duration = Duration::from_secs(30);

/// A server's listener, and whoever keeps what it hears.
struct Served {
    address: SocketAddr,
    backend: Arc<ScriptedBackend>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Served {
    async fn start() -> Self {
        Self::with_limits(Limits::DEFAULT, BOUND).await
    }

    async fn with_limits(limits: Limits, request_timeout: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let backend = Arc::new(ScriptedBackend::new(server()));
        let endpoint = Endpoint::new(identity(), SdkCode::new(CODE), backend.clone())
            .with_request_timeout(request_timeout);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            serve_endpoint(listener, endpoint, limits, stopped).await;
        });
        Self { address, backend, stop, serving }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        within(self.serving).await.unwrap();
    }
}

/// What comes of it, unless it takes too long.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.expect("in time")
}

/// Waits until something holds.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let held = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(BOUND, held).await.expect(what);
}

fn identity() -> ServerIdentity {
    ServerIdentity { key: Key::new("arena", "doom-x7"), uid: "8f3a".to_owned() }
}

fn server() -> GameServerView {
    let text = |pairs: [(&str, &str); 1]| {
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    GameServerView {
        name: "doom-x7".to_owned(),
        namespace: "arena".to_owned(),
        uid: "8f3a".to_owned(),
        resource_version: "42".to_owned(),
        generation: 3,
        created: Timestamp::constant(1_900_000_000, 500_000_000),
        deleted: None,
        labels: text([("fleet", "doom")]),
        annotations: text([("note", "a")]),
        health: HealthView {
            disabled: false,
            period: SignedDuration::from_secs(5),
            failure_threshold: 3,
            initial_delay: SignedDuration::from_secs(7),
        },
        pings_expected: false,
        state: GameServerState::Scheduled,
        address: "192.0.2.7".to_owned(),
        ports: vec![PortView { name: "game".to_owned(), port: 20_001 }],
        players: Some(PlayersView { count: 1, capacity: 2, ids: vec!["ada".to_owned()] }),
        counters: [("rooms".to_owned(), CounterView { count: 1, capacity: 10 })].into(),
        lists: [("guests".to_owned(), ListView { capacity: 4, values: vec!["eve".to_owned()] })]
            .into(),
    }
}
