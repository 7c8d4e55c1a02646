//! The objects of one resource in memory: an ordered map, and the ring of recent changes that
//! watchers read at their own pace.
//!
//! There is no queue per watcher. A watcher remembers the last version it has seen and pulls what
//! came after; one that is too slow finds that the ring has moved past it and is told so.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::object::StoredObject;

pub(crate) type Objects = imbl::OrdMap<Arc<str>, Arc<StoredObject>>;

/// Bounds of the ring of recent changes. A change keeps the previous state alive, so bytes count too.
const MAX_RING_EVENTS: usize = 8_192;
const MAX_RING_BYTES: usize = 8 << 20;
/// Snapshots that paged lists still refer to.
const MAX_SNAPSHOTS: usize = 64;
const MAX_SNAPSHOT_AGE: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(crate) struct ResourceTable {
    pub(crate) id: i64,
    state: RwLock<TableState>,
    tick: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct TableState {
    objects: Objects,
    /// The version of the newest change to this table.
    last: u64,
    ring: VecDeque<Arc<ChangeEvent>>,
    ring_bytes: usize,
    /// Changes after this version are all in the ring.
    ring_from: u64,
    snapshots: VecDeque<Snapshot>,
}

#[derive(Debug)]
struct Snapshot {
    version: u64,
    taken: Instant,
    objects: Objects,
}

/// One change.
#[derive(Debug)]
pub(crate) struct ChangeEvent {
    pub(crate) version: u64,
    /// The state after the change; for a removal the last state under the removal's version.
    pub(crate) object: Arc<StoredObject>,
    pub(crate) previous: Option<Arc<StoredObject>>,
    pub(crate) removed: bool,
}

/// The ring no longer reaches back to the asked-for version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gone;

impl ResourceTable {
    pub(crate) fn new(id: i64, objects: Objects, version: u64) -> Self {
        let state =
            TableState { objects, last: version, ring_from: version, ..TableState::default() };
        Self { id, state: RwLock::new(state), tick: watch::Sender::new(version) }
    }

    fn read(&self) -> RwLockReadGuard<'_, TableState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, TableState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<StoredObject>> {
        self.read().objects.get(key).cloned()
    }

    /// Every object now, and the version of the newest change among them. Costs O(1).
    pub(crate) fn snapshot(&self) -> (Objects, u64) {
        let state = self.read();
        (state.objects.clone(), state.last)
    }

    /// The objects as they were at `version`, while the ring or a kept snapshot reaches back.
    pub(crate) fn snapshot_at(&self, version: u64) -> Result<Objects, Gone> {
        let state = self.read();
        if let Some(kept) = state.snapshots.iter().find(|s| s.version == version) {
            return Ok(kept.objects.clone());
        }
        if version >= state.last {
            return Ok(state.objects.clone());
        }
        if version < state.ring_from {
            return Err(Gone);
        }
        let mut objects = state.objects.clone();
        for event in state.ring.iter().rev().take_while(|e| e.version > version) {
            match &event.previous {
                Some(previous) => objects.insert(previous.key.clone(), previous.clone()),
                None => objects.remove(&event.object.key),
            };
        }
        Ok(objects)
    }

    /// Keeps the state of a paged list for its next pages.
    pub(crate) fn keep_snapshot(&self, version: u64, objects: Objects) {
        let mut state = self.write();
        if state.snapshots.iter().any(|s| s.version == version) {
            return;
        }
        let now = Instant::now();
        state.snapshots.retain(|s| now.duration_since(s.taken) < MAX_SNAPSHOT_AGE);
        if state.snapshots.len() == MAX_SNAPSHOTS {
            state.snapshots.pop_front();
        }
        state.snapshots.push_back(Snapshot { version, taken: now, objects });
    }

    /// The oldest version from which changes can still be followed.
    pub(crate) fn oldest(&self) -> u64 {
        self.read().ring_from
    }

    /// Up to `limit` changes after `version`.
    pub(crate) fn events_after(
        &self,
        version: u64,
        limit: usize,
    ) -> Result<Vec<Arc<ChangeEvent>>, Gone> {
        let state = self.read();
        if version < state.ring_from {
            return Err(Gone);
        }
        let start = state.ring.partition_point(|e| e.version <= version);
        Ok(state.ring.range(start..).take(limit).cloned().collect())
    }

    /// Applies changes in version order. The caller ticks once the global version is stored.
    pub(crate) fn publish(&self, events: Vec<Arc<ChangeEvent>>) {
        let mut state = self.write();
        for event in events {
            if event.removed {
                state.objects.remove(&event.object.key);
            } else {
                state.objects.insert(event.object.key.clone(), event.object.clone());
            }
            state.last = event.version;
            state.ring_bytes += cost(&event);
            state.ring.push_back(event);
        }
        while state.ring.len() > MAX_RING_EVENTS
            || (state.ring_bytes > MAX_RING_BYTES && state.ring.len() > 1)
        {
            if let Some(old) = state.ring.pop_front() {
                state.ring_bytes -= cost(&old);
                state.ring_from = old.version;
            }
        }
    }

    /// Forgets changes up to `version`, as a busy table does by itself.
    #[cfg(test)]
    pub(crate) fn compact(&self, version: u64) {
        let mut state = self.write();
        while state.ring.front().is_some_and(|e| e.version <= version) {
            if let Some(old) = state.ring.pop_front() {
                state.ring_bytes -= cost(&old);
            }
        }
        state.ring_from = state.ring_from.max(version);
    }

    pub(crate) fn tick(&self, version: u64) {
        self.tick.send_replace(version);
    }

    /// The store's version when something last changed here.
    pub(crate) fn ticked(&self) -> u64 {
        *self.tick.borrow()
    }

    /// Wakes whenever something changed here.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.tick.subscribe()
    }

    pub(crate) fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Replaces objects in place without an event: their served form did not change.
    pub(crate) fn reindex(&self, reindex: impl Fn(&StoredObject) -> Option<StoredObject>) {
        let mut state = self.write();
        let changed: Vec<StoredObject> =
            state.objects.values().filter_map(|o| reindex(o)).collect();
        for object in changed {
            state.objects.insert(object.key.clone(), Arc::new(object));
        }
    }
}

/// What an event alone keeps in memory: the state that it replaced.
fn cost(event: &ChangeEvent) -> usize {
    let replaced = event.previous.as_ref().map_or(0, |p| p.len());
    let removed = if event.removed { event.object.len() } else { 0 };
    replaced + removed + 128
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::object::{Draft, header, key};
    use super::*;

    fn object(name: &str, version: u64) -> Arc<StoredObject> {
        let value = json!({"metadata": {"name": name}});
        let draft =
            Draft::new(value.as_object().unwrap(), &header("v1", "ConfigMap"), Box::new([]));
        Arc::new(draft.at_version(key("ns", name), version))
    }

    fn put(table: &ResourceTable, name: &str, version: u64) {
        let previous = table.get(&format!("ns/{name}"));
        let object = object(name, version);
        table.publish(vec![Arc::new(ChangeEvent { version, object, previous, removed: false })]);
    }

    #[test]
    fn older_versions_are_available_while_the_ring_has_them() {
        let table = ResourceTable::new(1, Objects::new(), 10);
        put(&table, "a", 11);
        put(&table, "b", 12);
        put(&table, "a", 13);
        let at_12 = table.snapshot_at(12).unwrap();
        assert_eq!(at_12.get("ns/a").unwrap().version, 11);
        assert!(table.snapshot_at(11).unwrap().get("ns/b").is_none());
        assert_eq!(table.snapshot_at(9).unwrap_err(), Gone);
        assert_eq!(table.events_after(11, 10).unwrap().len(), 2);
        table.compact(12);
        assert_eq!(table.events_after(11, 10).unwrap_err(), Gone);
        assert_eq!(table.events_after(12, 10).unwrap().len(), 1);
    }

    #[test]
    fn the_ring_is_bounded() {
        let table = ResourceTable::new(1, Objects::new(), 0);
        for version in 1..=10_000 {
            put(&table, "a", version);
        }
        assert_eq!(table.events_after(0, 1).unwrap_err(), Gone);
        let kept = table.events_after(10_000 - 8_192, usize::MAX).unwrap().len();
        assert_eq!(kept, 8_192);
    }

    #[test]
    fn a_kept_snapshot_outlives_the_ring() {
        let table = ResourceTable::new(1, Objects::new(), 0);
        put(&table, "a", 1);
        let (objects, version) = table.snapshot();
        table.keep_snapshot(version, objects);
        put(&table, "a", 2);
        table.compact(2);
        assert_eq!(table.snapshot_at(1).unwrap().get("ns/a").unwrap().version, 1);
    }
}
