//! The open connections, and which one is shed when the limit is reached.
//!
//! Addresses do not help here: on one machine all clients have the same. So connections are ranked by
//! authentication. The first to be shed is the oldest unauthenticated one, handshakes included; then,
//! of the user with the most connections, the one that has been idle for longest. A user's only
//! connection stays.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The connections by user, without sockets.
#[derive(Debug)]
struct ConnectionTable {
    limit: usize,
    next: u64,
    /// Connections without an authenticated request; the oldest has the lowest id.
    unauthenticated: BTreeSet<u64>,
    users: HashMap<Arc<str>, BTreeSet<u64>>,
    open: BTreeMap<u64, Arc<ConnectionState>>,
}

/// What is known of a connection.
#[derive(Debug, Default)]
struct ConnectionState {
    /// Requests that are not answered to the end.
    active: AtomicUsize,
    /// Requests so far.
    served: AtomicU64,
    /// When the newest of them was begun, counted in requests of all connections.
    last: AtomicU64,
    authenticated: AtomicBool,
    shed: Notify,
}

impl ConnectionTable {
    fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            next: 0,
            unauthenticated: BTreeSet::new(),
            users: HashMap::new(),
            open: BTreeMap::new(),
        }
    }

    /// Adds a connection, and sheds another one at the limit. `None` if none can be shed.
    fn open(&mut self) -> Option<(u64, Arc<ConnectionState>)> {
        if self.open.len() >= self.limit {
            self.shed()?;
        }
        let id = self.next;
        self.next += 1;
        let state = Arc::new(ConnectionState::default());
        self.unauthenticated.insert(id);
        self.open.insert(id, state.clone());
        Some((id, state))
    }

    /// Ends the connection with the lowest rank.
    fn shed(&mut self) -> Option<u64> {
        let id = self
            .unauthenticated
            .first()
            .copied()
            .or_else(|| self.least_recent_of_busiest_user())?;
        let state = self.open.get(&id)?.clone();
        self.close(id);
        state.shed.notify_one();
        Some(id)
    }

    fn least_recent_of_busiest_user(&self) -> Option<u64> {
        let mut users: Vec<_> = self.users.values().filter(|ids| ids.len() > 1).collect();
        users.sort_by_key(|ids| (std::cmp::Reverse(ids.len()), ids.first().copied()));
        users.into_iter().find_map(|ids| {
            let states = ids.iter().filter_map(|id| Some((*id, self.open.get(id)?)));
            let idle = states.filter(|(_, state)| state.active.load(Ordering::Relaxed) == 0);
            let longest = idle.min_by_key(|(id, state)| (state.last.load(Ordering::Relaxed), *id));
            longest.map(|(id, _)| id)
        })
    }

    fn authenticate(&mut self, id: u64, user: &str) {
        // A connection that was shed meanwhile is not added again.
        if self.unauthenticated.remove(&id) {
            self.users.entry(user.into()).or_default().insert(id);
        }
    }

    fn close(&mut self, id: u64) {
        self.open.remove(&id);
        if self.unauthenticated.remove(&id) {
            return;
        }
        self.users.retain(|_, ids| {
            ids.remove(&id);
            !ids.is_empty()
        });
    }
}

/// The connections of a listener.
#[derive(Debug)]
pub(super) struct Connections {
    table: Mutex<ConnectionTable>,
    requests: AtomicU64,
}

impl Connections {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::new(ConnectionTable::new(limit)),
            requests: AtomicU64::new(0),
        })
    }

    /// Adds a connection; `None` if it must be refused.
    pub(super) fn open(self: &Arc<Self>) -> Option<OpenConnection> {
        let (id, state) = self.lock().open()?;
        Some(OpenConnection(Arc::new(Peer { connections: self.clone(), id, state })))
    }

    /// Ends one, to have its file descriptor.
    pub(super) fn shed(&self) {
        self.lock().shed();
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that is open. Dropped, it is closed.
#[derive(Debug)]
pub(super) struct OpenConnection(Arc<Peer>);

impl OpenConnection {
    pub(super) fn peer(&self) -> Arc<Peer> {
        self.0.clone()
    }

    /// Ends when the connection must go for another one.
    pub(super) async fn shed(&self) {
        self.0.state.shed.notified().await;
    }

    /// How many requests there were, and whether any is not answered to the end.
    pub(super) fn activity(&self) -> (u64, bool) {
        let state = &self.0.state;
        (state.served.load(Ordering::Relaxed), state.active.load(Ordering::Relaxed) > 0)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.lock().close(self.0.id);
    }
}

/// A connection as its requests see it.
#[derive(Debug)]
pub(crate) struct Peer {
    connections: Arc<Connections>,
    id: u64,
    state: Arc<ConnectionState>,
}

impl Peer {
    /// A request on it was authenticated.
    pub(crate) fn authenticated(&self, user: &str) {
        if !self.state.authenticated.swap(true, Ordering::Relaxed) {
            self.connections.lock().authenticate(self.id, user);
        }
    }

    /// A request begins; it ends when this is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> ActiveRequest {
        let number = self.connections.requests.fetch_add(1, Ordering::Relaxed);
        self.state.last.store(number, Ordering::Relaxed);
        self.state.served.fetch_add(1, Ordering::Relaxed);
        self.state.active.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(self.clone())
    }
}

/// A request that is not answered to the end.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<Peer>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.state.active.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(table: &ConnectionTable) -> Vec<u64> {
        table.open.keys().copied().collect()
    }

    #[test]
    fn the_oldest_unauthenticated_connection_is_shed_first() {
        let mut table = ConnectionTable::new(3);
        for id in 0..3 {
            assert_eq!(table.open().map(|(id, _)| id), Some(id));
        }
        table.authenticate(0, "ann");
        table.open().unwrap();
        assert_eq!(ids(&table), [0, 2, 3]);
        // It is gone: showing a credential now does not bring it back.
        table.authenticate(1, "bob");
        assert!(table.users.keys().all(|user| **user == *"ann"), "{table:?}");
    }

    #[test]
    fn then_the_idlest_connection_of_the_busiest_user_is_shed() {
        let mut table = ConnectionTable::new(4);
        let mut states = Vec::new();
        for (user, last) in [("ann", 7), ("bob", 1), ("bob", 3), ("bob", 2)] {
            let (id, state) = table.open().unwrap();
            table.authenticate(id, user);
            state.last.store(last, Ordering::Relaxed);
            states.push(state);
        }
        // One is in use, whenever it was begun.
        states[1].active.store(1, Ordering::Relaxed);
        let (newest, _) = table.open().unwrap();
        assert_eq!(ids(&table), [0, 1, 2, newest]);
        table.authenticate(newest, "ann");
        for id in [0, 1, 2, newest] {
            table.open[&id].active.store(1, Ordering::Relaxed);
        }
        assert!(table.open().is_none(), "everybody is at work");
        table.close(0);
        assert!(table.open().is_some());
    }

    #[test]
    fn a_users_only_connection_stays() {
        let mut table = ConnectionTable::new(2);
        for user in ["ann", "bob"] {
            let (id, _) = table.open().unwrap();
            table.authenticate(id, user);
        }
        assert!(table.open().is_none());
        assert_eq!(ids(&table), [0, 1]);
    }

    #[test]
    fn closed_connections_are_removed() {
        let connections = Connections::new(2);
        let one = connections.open().unwrap();
        one.peer().authenticated("ann");
        let two = connections.open().unwrap();
        drop((one, two));
        let table = connections.lock();
        assert!(table.open.is_empty() && table.users.is_empty());
        assert!(table.unauthenticated.is_empty());
    }
}
