//! The Nodes that are being emptied: their Pods, watched for as long as it lasts, and what came of
//! asking them to go. All of it may be lost at any time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use kube::{Api, Client};
use sojourn_core::drain::EvictionAttempts;
use sojourn_core::key::Key;
use tokio_util::task::AbortOnDropHandle;

use super::pod::Pod;
use crate::frame::{Cache, Queue, WatchSettings};

/// The open drains, by their Machine.
pub(super) struct NodeDrains {
    client: Client,
    watching: WatchSettings,
    queue: Arc<Queue>,
    max_open: usize,
    state: Mutex<OpenDrains>,
}

impl std::fmt::Debug for NodeDrains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeDrains").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct OpenDrains {
    open: HashMap<Key, Arc<NodeDrain>>,
    /// Machines whose drain waits for room.
    waiting: BTreeSet<Key>,
}

/// A Node that is being emptied.
#[derive(Debug)]
pub(super) struct NodeDrain {
    node: String,
    drain: String,
    pods: Arc<Cache<Pod>>,
    notes: Mutex<DrainNotes>,
    _watch: AbortOnDropHandle<()>,
}

#[derive(Debug, Default)]
struct DrainNotes {
    attempts: BTreeMap<String, EvictionAttempts>,
    replied_at: Option<Timestamp>,
}

impl NodeDrains {
    pub(super) fn new(
        client: Client,
        watching: WatchSettings,
        queue: Arc<Queue>,
        max_open: usize,
    ) -> Self {
        Self { client, watching, queue, max_open, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, OpenDrains> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open drain of a Node, which begins to watch if it is new. None, while there is no room.
    pub(super) fn open(&self, key: &Key, node: &str, drain: &str) -> Option<Arc<NodeDrain>> {
        let mut state = self.lock();
        if let Some(node_drain) = state.open.get(key)
            && node_drain.node == node
            && node_drain.drain == drain
        {
            return Some(node_drain.clone());
        }
        if state.open.remove(key).is_none() && state.open.len() >= self.max_open {
            state.waiting.insert(key.clone());
            return None;
        }
        state.waiting.remove(key);
        let node_drain = Arc::new(self.watch(key, node, drain));
        state.open.insert(key.clone(), node_drain.clone());
        Some(node_drain)
    }

    fn watch(&self, key: &Key, node: &str, drain: &str) -> NodeDrain {
        let pods: Arc<Cache<Pod>> = Arc::default();
        let api: Api<v1::Pod> = Api::all(self.client.clone());
        let selection = self.watching.everything().fields(&bound_to(node));
        let (cache, queue, key) = (pods.clone(), self.queue.clone(), key.clone());
        let watch = async move {
            let wake = || queue.wake(&key);
            let listed = async {
                cache.until_ready().await;
                wake();
            };
            let read = |pod: v1::Pod| Pod::of(&pod);
            let followed = cache.follow(api, selection, read, |change| {
                if cache.is_ready() && change.before != change.now {
                    wake();
                }
            });
            tokio::join!(listed, followed);
        };
        NodeDrain {
            node: node.to_owned(),
            drain: drain.to_owned(),
            pods,
            notes: Mutex::default(),
            _watch: AbortOnDropHandle::new(tokio::spawn(watch)),
        }
    }

    /// Ends a drain, and wakes those that wait for room.
    pub(super) fn close(&self, key: &Key) {
        let mut state = self.lock();
        state.waiting.remove(key);
        if state.open.remove(key).is_some() {
            for key in std::mem::take(&mut state.waiting) {
                self.queue.wake(&key);
            }
        }
    }

    /// Wakes the drains of a Node after a change that the watch of its Pods does not show.
    pub(super) fn wake_node(&self, node: &str) {
        for (key, node_drain) in &self.lock().open {
            if node_drain.node == node {
                self.queue.wake(key);
            }
        }
    }
}

/// Selects the Pods of one Node.
pub(super) fn bound_to(node: &str) -> String {
    format!("spec.nodeName={node}")
}

impl NodeDrain {
    fn notes(&self) -> MutexGuard<'_, DrainNotes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Pods of the Node. None, before they were listed once.
    pub(super) fn pods(&self) -> Option<Vec<Arc<Pod>>> {
        let all = || self.pods.keys().iter().filter_map(|key| self.pods.get(key)).collect();
        self.pods.is_ready().then(all)
    }

    /// What came of what was tried, for the Pods that are still there.
    pub(super) fn attempts(
        &self,
        there: impl Iterator<Item = String>,
    ) -> BTreeMap<String, EvictionAttempts> {
        let mut notes = self.notes();
        let there: BTreeSet<String> = there.collect();
        notes.attempts.retain(|uid, _| there.contains(uid));
        notes.attempts.clone()
    }

    /// Records one more attempt.
    pub(super) fn record_attempt(
        &self,
        uid: &str,
        forced: bool,
        refusal: Option<String>,
        now: Timestamp,
    ) {
        let mut notes = self.notes();
        let attempts = EvictionAttempts::after(notes.attempts.get(uid), uid, forced, refusal, now);
        notes.attempts.insert(uid.to_owned(), attempts);
    }

    pub(super) fn replied_at(&self) -> Option<Timestamp> {
        self.notes().replied_at
    }

    pub(super) fn record_reply(&self, now: Timestamp) {
        self.notes().replied_at = Some(now);
    }
}
