//! Hands servers to matchmakers, each once. All that can be given are held in memory, in order; what is given is written
//! into the server under the version that was looked at, and only then answered. Only the leader allocates.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sojourn_api::game::convert::candidate;
use sojourn_api::game::status::{GrantStatus, PortStatus, ServerState};
use sojourn_core::game::allocation::{
    Allocation, AllocationIndex, AllocationRequest, Candidate, Misses, Obstacle,
};
use sojourn_core::key::Key;
use sojourn_core::moment::{ceil_second, saturating_add};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::caches::GameCaches;
use super::metrics::GameMetrics;
use super::store::{ServerStore, StoreError};
use super::view::ServerView;
use crate::clock::Clock;

/// So often another server is tried when one has changed meanwhile.
const MAX_ATTEMPTS: u32 = 16;
/// So long a request may wait.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(300);
/// So many requests may wait.
const MAX_WAITING: usize = 10_000;
const GRANT_ID_BYTES: usize = 12;
/// So many grants one server may have.
const MAX_GRANTS: usize = 1_000;

/// What somebody was given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Given {
    pub(crate) server: Key,
    pub(crate) address: String,
    pub(crate) ports: Vec<PortStatus>,
    pub(crate) grant_id: String,
    pub(crate) lease_expires: Timestamp,
}

/// Why nothing was given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AllocationError {
    #[error("no server is free")]
    NothingFree(Misses),
    #[error("too many requests wait")]
    TooManyWait,
    #[error("too many change servers at the same time; try again")]
    Contended,
    #[error("this replica does not lead")]
    NotLeading,
    #[error("{0}")]
    Unavailable(String),
}

/// The servers that can be given, and who waits for one.
pub(crate) struct Allocator {
    index: Mutex<AllocationIndex>,
    clock: Arc<dyn Clock>,
    caches: Weak<GameCaches>,
    /// Writes grants, while this replica leads.
    store: Mutex<Option<Arc<ServerStore>>>,
    /// Told when a server is another.
    changed: Notify,
    waiting: Mutex<HashMap<Waiting, u32>>,
    /// Why ports could not be granted, by collection.
    port_problems: Mutex<BTreeMap<Key, String>>,
    metrics: GameMetrics,
    /// Counts what was tried to be given.
    serial: AtomicU64,
}

/// Where somebody waits: in a namespace, for a collection or for any.
type Waiting = (String, Option<String>);

impl std::fmt::Debug for Allocator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Allocator").finish_non_exhaustive()
    }
}

impl Allocator {
    pub(crate) fn new(
        caches: &Arc<GameCaches>,
        clock: Arc<dyn Clock>,
        metrics: GameMetrics,
    ) -> Self {
        Self {
            index: Mutex::default(),
            clock,
            caches: Arc::downgrade(caches),
            store: Mutex::default(),
            changed: Notify::new(),
            waiting: Mutex::default(),
            port_problems: Mutex::default(),
            metrics,
            serial: AtomicU64::new(0),
        }
    }

    /// From now on grants are written with this.
    pub(crate) fn lead(&self, store: Arc<ServerStore>) {
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
    }

    fn store(&self) -> Option<Arc<ServerStore>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn index(&self) -> std::sync::MutexGuard<'_, AllocationIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server is now so, or it is gone.
    pub(crate) fn server_changed(&self, key: &Key, view: Option<&ServerView>) {
        let candidate = view.map(|view| self.candidate(key, view));
        let now = self.clock.now();
        self.index().upsert(key, candidate, now);
        self.changed.notify_waiters();
    }

    /// The template of a collection is another, or how it is rolled out: its servers may take nobody any more.
    pub(crate) fn collection_changed(&self, key: &Key) {
        let Some(caches) = self.caches.upgrade() else { return };
        for (key, read) in caches.of_collection(key) {
            self.server_changed(&key, read.as_ref().as_ref().ok());
        }
    }

    /// Why a server cannot be given whole, if it cannot.
    pub(crate) fn obstacle(&self, key: &Key) -> Option<Obstacle> {
        let (index, now) = (self.index(), self.clock.now());
        let candidate = index.candidate(key);
        candidate.map_or(Some(Obstacle::NotReady), |candidate| candidate.obstacle(now))
    }

    /// How many servers a collection has, and how many of them cannot be given, for what reason. Those that can are
    /// those that no selector is about.
    pub(crate) fn misses(&self, collection: &Key) -> Misses {
        let request = AllocationRequest {
            namespace: collection.namespace.to_string(),
            collection: Some(collection.name.to_string()),
            ..AllocationRequest::default()
        };
        self.index().misses(&request)
    }

    fn candidate(&self, key: &Key, view: &ServerView) -> Candidate {
        let of = view.collection().map(|name| Key::new(key.namespace.clone(), name));
        let collection = of.and_then(|key| self.caches.upgrade()?.collections.get(&key));
        let readable = collection.as_deref().and_then(|read| read.as_ref().ok());
        candidate(&view.object, readable.map(|collection| &collection.spec))
    }

    /// Gives a server, or seats of one; waits for one to become free until `wait` is over.
    pub(crate) async fn allocate(
        &self,
        request: &AllocationRequest,
        lease: SignedDuration,
        wait: Duration,
    ) -> Result<Given, AllocationError> {
        let began = Instant::now();
        let deadline = began + wait.min(MAX_WAIT);
        let mut waits: Option<WaitingTurn<'_>> = None;
        let result = loop {
            // Before the look: whoever changes something after it is heard.
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.try_allocate(request, lease).await {
                Err(AllocationError::NothingFree(misses)) => {
                    if Instant::now() >= deadline {
                        break Err(AllocationError::NothingFree(misses));
                    }
                    if waits.is_none() {
                        match self.begin_waiting(request) {
                            Some(turn) => waits = Some(turn),
                            None => break Err(AllocationError::TooManyWait),
                        }
                    }
                    let _ = tokio::time::timeout_at(deadline, changed).await;
                }
                other => break other,
            }
        };
        drop(waits);
        let word = match &result {
            Ok(_) => "allocated",
            Err(AllocationError::NothingFree(_)) => "nothing_free",
            Err(_) => "error",
        };
        self.metrics.allocated(word, began.elapsed().as_secs_f64());
        result
    }

    async fn try_allocate(
        &self,
        request: &AllocationRequest,
        lease: SignedDuration,
    ) -> Result<Given, AllocationError> {
        let store = self.store().ok_or(AllocationError::NotLeading)?;
        for _ in 0..MAX_ATTEMPTS {
            let now = self.clock.now();
            let expires = ceil_second(saturating_add(now, lease));
            let serial = self.serial.fetch_add(1, Ordering::Relaxed);
            let grant_id = grant_id(request, now, serial);
            let allocation = self
                .index()
                .allocate(request, &grant_id, expires, now)
                .map_err(AllocationError::NothingFree)?;
            if allocation.written {
                return self.describe(&allocation);
            }
            match self.write(&store, &allocation).await {
                Ok(()) => {
                    self.index().confirm(&allocation.server, &allocation.grant.id);
                    return self.describe(&allocation);
                }
                // It is another by now; the index has it as it is.
                Err(StoreError::Refused(()) | StoreError::Gone | StoreError::Contended) => {
                    let now = self.clock.now();
                    self.index().cancel(&allocation.server, &allocation.grant.id, now);
                }
                // It may be on record all the same. It stays this request's: whoever asks again writes it again.
                Err(StoreError::Api(error)) => {
                    let words = format!("cannot write the grant down: {error}");
                    return Err(AllocationError::Unavailable(words));
                }
            }
        }
        Err(AllocationError::Contended)
    }

    /// Writes a grant, if the server can still be given.
    async fn write(
        &self,
        store: &ServerStore,
        allocation: &Allocation,
    ) -> Result<(), StoreError<()>> {
        let grant = &allocation.grant;
        let written = store.update(&allocation.server, &allocation.uid, |view, status, now| {
            if status.grants.iter().any(|known| known.id == grant.id) {
                return Ok(());
            }
            let server = view.server();
            let seats = view.object.spec.max_players_per_server;
            let seats = seats.and_then(|seats| u32::try_from(seats).ok()).unwrap_or(1);
            let fits = match grant.seats {
                None => server.is_empty(now),
                Some(wanted) => server.grantable_seats(seats, now) >= wanted,
            };
            if !server.is_grantable() || !fits || status.grants.len() >= MAX_GRANTS {
                return Err(());
            }
            status.grants.push(GrantStatus {
                id: grant.id.clone(),
                request_id: grant.request_id.clone(),
                seats: grant.seats,
                lease_expires: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                    grant.lease_expires,
                )),
                claimed: false,
                arrived: 0,
            });
            if grant.seats.is_none() {
                status.state = Some(ServerState::Assigned);
            }
            status.last_allocated =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(ceil_second(now)));
            Ok(())
        });
        written.await.map(drop)
    }

    fn describe(&self, allocation: &Allocation) -> Result<Given, AllocationError> {
        let caches = self.caches.upgrade().ok_or(AllocationError::NotLeading)?;
        let read = caches.server(&allocation.server).ok_or(AllocationError::Contended)?;
        let status = read.as_ref().as_ref().ok().and_then(ServerView::status);
        Ok(Given {
            server: allocation.server.clone(),
            address: status.and_then(|status| status.public_ip.clone()).unwrap_or_default(),
            ports: status.map(|status| status.ports.clone()).unwrap_or_default(),
            grant_id: allocation.grant.id.clone(),
            lease_expires: allocation.grant.lease_expires,
        })
    }

    fn begin_waiting(&self, request: &AllocationRequest) -> Option<WaitingTurn<'_>> {
        let key = (request.namespace.clone(), request.collection.clone());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.values().map(|count| *count as usize).sum::<usize>() >= MAX_WAITING {
            return None;
        }
        *waiting.entry(key.clone()).or_default() += 1;
        drop(waiting);
        self.wake_collections(&key);
        Some(WaitingTurn { allocator: self, key })
    }

    /// Collections that may grow for somebody who waits.
    fn wake_collections(&self, (namespace, collection): &Waiting) {
        let Some(caches) = self.caches.upgrade() else { return };
        match collection {
            Some(name) => {
                caches.collection_queue.wake(&Key::new(namespace.as_str(), name.as_str()));
            }
            None => {
                let mut keys = caches.collections.keys();
                keys.sort_unstable();
                let theirs = keys.iter().filter(|key| *key.namespace == **namespace);
                theirs.for_each(|key| caches.collection_queue.wake(key));
            }
        }
    }

    /// How many servers of a collection requests wait for.
    pub(crate) fn waiting_for(&self, collection: &Key) -> u32 {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let namespace = collection.namespace.to_string();
        let named = (namespace.clone(), Some(collection.name.to_string()));
        let of = |key: &Waiting| waiting.get(key).copied().unwrap_or(0);
        of(&named).saturating_add(of(&(namespace, None)))
    }

    pub(crate) fn note_port_problem(&self, collection: &Key, problem: Option<String>) {
        let mut problems = self.port_problems.lock().unwrap_or_else(PoisonError::into_inner);
        match problem {
            Some(words) => problems.insert(collection.clone(), words),
            None => problems.remove(collection),
        };
    }

    pub(crate) fn port_problem(&self, collection: &Key) -> Option<String> {
        let problems = self.port_problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.get(collection).cloned()
    }
}

/// Somebody waits until this is dropped.
struct WaitingTurn<'a> {
    allocator: &'a Allocator,
    key: Waiting,
}

impl Drop for WaitingTurn<'_> {
    fn drop(&mut self) {
        let mut waiting = self.allocator.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = waiting.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                waiting.remove(&self.key);
            }
        }
        drop(waiting);
        self.allocator.wake_collections(&self.key);
    }
}

/// Names a grant. It is no secret: it follows from what was asked, so that a simulation can be repeated.
fn grant_id(request: &AllocationRequest, now: Timestamp, serial: u64) -> String {
    let parts = format!("{}\n{}\n{now}\n{serial}", request.namespace, request.request_id);
    let digest = ring::digest::digest(&ring::digest::SHA256, parts.as_bytes());
    hex::encode(&digest.as_ref()[..GRANT_ID_BYTES])
}
