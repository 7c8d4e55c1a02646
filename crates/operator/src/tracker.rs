//! Reports of use, from many threads, in memory, until they are in the objects.
//!
//! | who                        | calls                                                        |
//! |----------------------------|--------------------------------------------------------------|
//! | whatever sees use          | [`Tracker::record`], [`Handle::record`]                      |
//! | the tracker                | `wake`: this object should be looked at                      |
//! | the reconciler             | [`Tracker::peek`], writes the status, then [`Tracker::acknowledge`] |
//!
//! A report is merged into the one that waits for its object: the newest time, the sum of the counts.
//! It waits until a written status is confirmed, so a write that fails loses nothing; reports that
//! come while it is being written stay for the next. An object is woken at once by its first use
//! after a quiet time and when its deadline is near, otherwise at the next flush: one write per
//! object and interval, however busy it is. Each object has its own point of the interval, so that the
//! writes of many do not come in one burst.
//!
//! **Bounds.** Objects that are quiet and written are forgotten at a flush. When [`MAX_TRACKED_OBJECTS`] wait
//! all the same, reports of further objects collapse: each wakes its object at once, and the newest
//! of a group of objects is what [`Tracker::peek`] tells about any of that group. Some objects then
//! look used that were not, for once; none looks idle that was used.

mod slot;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashTable};
use jiff::{SignedDuration, Timestamp};
use sojourn_core::activity::{ActivityReport, Source};
use sojourn_core::key::Key;
use sojourn_core::spread::spread_over;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::slot::{FlushResult, PendingReport, Slot};
use crate::clock::Clock;

/// How many objects may wait, or be remembered as recently used.
pub const MAX_TRACKED_OBJECTS: usize = 1_000_000;
/// How often waiting objects are woken, unless told otherwise.
pub const FLUSH_INTERVAL: SignedDuration = SignedDuration::from_secs(30);
/// How many locks the objects are spread over: a flush holds one of them at a time.
const SHARDS: u16 = 256;
/// An interval has so many steps; at each of them the same part of the shards is flushed.
const FLUSH_STEPS: u16 = 32;
/// The finest time that anybody reports.
const TIME_RESOLUTION: SignedDuration = SignedDuration::from_millis(1);
/// A deadline within this many intervals does not wait for a flush.
const NEAR_INTERVALS: i32 = 2;

/// Tells a controller that an object should be looked at. Called without a lock; must not block.
pub type Waker = Arc<dyn Fn(&Key) + Send + Sync>;

/// What an object has on record of its use, as one writer counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredUse {
    pub counter: Counter,
    pub count: u64,
}

/// Which count of an object a writer adds to. Nobody else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// The object's own, which belongs to whoever leads.
    Object,
    /// That of this replica in the object.
    Replica,
}

/// Where reports of use are gathered. Clones share everything.
#[derive(Clone)]
pub struct Tracker(Arc<Shared>);

struct Shared {
    shards: Vec<Shard>,
    hasher: DefaultHashBuilder,
    kept: AtomicUsize,
    max_kept: usize,
    interval: SignedDuration,
    /// When the last flush was, in milliseconds: reports may be about times long ago.
    flushed: AtomicI64,
    /// There is something to flush, after a time in which there was nothing.
    first_kept: Notify,
    wake: Waker,
}

#[derive(Default)]
struct Shard {
    slots: RwLock<Slots>,
    /// Reports of objects for which there was no room, as one.
    collapsed: Mutex<Option<PendingReport>>,
}

/// Slots by key.
type Slots = HashTable<TrackedObject>;

struct TrackedObject {
    hash: u64,
    key: Key,
    slot: Arc<Slot>,
}

impl fmt::Debug for Tracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracker").field("kept", &self.kept()).finish_non_exhaustive()
    }
}

impl Tracker {
    pub fn new(interval: SignedDuration, wake: Waker) -> Self {
        Self::bounded(interval, wake, MAX_TRACKED_OBJECTS)
    }

    fn bounded(interval: SignedDuration, wake: Waker, max_kept: usize) -> Self {
        Self(Arc::new(Shared {
            shards: std::iter::repeat_with(Shard::default).take(usize::from(SHARDS)).collect(),
            hasher: DefaultHashBuilder::default(),
            kept: AtomicUsize::new(0),
            max_kept,
            interval,
            flushed: AtomicI64::new(i64::MIN),
            first_kept: Notify::new(),
            wake,
        }))
    }

    /// `key` was used at `at`, `count` times since the last report of this source.
    pub fn record(&self, key: &Key, source: Source, at: Timestamp, count: u64) {
        let seen = ActivityReport { last: at, source, count };
        let (shard, hash) = self.shard(key);
        let known = find(&shard.slots(), hash, key).map(|slot| self.put(slot, seen));
        if known.unwrap_or_else(|| self.record_first(shard, hash, key, seen)) {
            (self.0.wake)(key);
        }
    }

    /// For many reports of one source about one object. The object is remembered while it lives.
    pub fn handle(&self, key: &Key, source: Source) -> Handle {
        let (shard, hash) = self.shard(key);
        let slot = self.slot(&mut shard.slots_mut(), hash, key);
        Handle { tracker: self.clone(), key: key.clone(), source, slot }
    }

    /// What was reported and is not confirmed to be in the object's status.
    pub fn peek(&self, key: &Key) -> Option<ActivityReport> {
        let (shard, hash) = self.shard(key);
        let slot = find(&shard.slots(), hash, key).map(|slot| slot.peek());
        // How many of the collapsed reports were about this object is not known.
        slot.unwrap_or_else(|| shard.collapsed().map(|all| ActivityReport { count: 0, ..all.seen }))
    }

    /// The first use among those that wait.
    pub fn oldest(&self, key: &Key) -> Option<Timestamp> {
        let (shard, hash) = self.shard(key);
        find(&shard.slots(), hash, key).and_then(|slot| slot.oldest())
    }

    /// What [`peek`](Self::peek) told is about to be written; `then` is what the object has afterwards.
    pub fn begin_write(&self, key: &Key, seen: &ActivityReport, then: StoredUse) {
        let (shard, hash) = self.shard(key);
        if let Some(slot) = find(&shard.slots(), hash, key) {
            slot.begin_write(seen, then);
        }
    }

    /// The object has this. A write whose answer was lost is recognised by it, and counted once.
    pub fn resolve(&self, key: &Key, stored: StoredUse) {
        let (shard, hash) = self.shard(key);
        if let Some(slot) = find(&shard.slots(), hash, key) {
            slot.resolve(stored);
        }
    }

    /// The objects about which reports wait.
    pub fn waiting(&self) -> Vec<Key> {
        let of = |shard: &Shard| -> Vec<Key> {
            let slots = shard.slots();
            let waiting = slots.iter().filter(|kept| kept.slot.oldest().is_some());
            waiting.map(|kept| kept.key.clone()).collect()
        };
        self.0.shards.iter().flat_map(of).collect()
    }

    /// What [`peek`](Self::peek) told is in the object's status now.
    pub fn acknowledge(&self, key: &Key, seen: &ActivityReport) {
        let (shard, hash) = self.shard(key);
        if let Some(slot) = find(&shard.slots(), hash, key) {
            slot.acknowledge(seen);
        }
    }

    /// When something will happen to the object unless it is used. Need not be told of objects that
    /// were not used lately: their next use wakes them at once.
    pub fn set_deadline(&self, key: &Key, deadline: Option<Timestamp>) {
        let at = self.flushed();
        let near = |deadline| self.is_near(deadline, at);
        let (shard, hash) = self.shard(key);
        let wake =
            find(&shard.slots(), hash, key).is_some_and(|slot| slot.set_deadline(deadline, near));
        if wake {
            (self.0.wake)(key);
        }
    }

    /// The object is gone: nobody will ask for its reports.
    pub fn forget(&self, key: &Key) {
        let (shard, hash) = self.shard(key);
        let mut slots = shard.slots_mut();
        let Ok(kept) = slots.find_entry(hash, |kept| kept.key == *key) else { return };
        kept.get().slot.clear();
        if Arc::strong_count(&kept.get().slot) == 1 {
            kept.remove();
            self.0.kept.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Wakes whatever waits, and forgets what is quiet.
    pub fn flush(&self, now: Timestamp) {
        for shard in &self.0.shards {
            for key in self.flush_shard(shard, now) {
                (self.0.wake)(&key);
            }
        }
    }

    /// Forgets what is quiet in a shard; what waits in it is to be woken.
    fn flush_shard(&self, shard: &Shard, now: Timestamp) -> Vec<Key> {
        self.0.flushed.store(now.as_millisecond(), Ordering::Relaxed);
        let (mut waiting, mut dropped) = (Vec::new(), 0);
        shard.slots_mut().retain(|TrackedObject { key, slot, .. }| {
            let keep = match slot.flush() {
                FlushResult::Waiting => {
                    waiting.push(key.clone());
                    true
                }
                FlushResult::Recent => true,
                // A handle still refers to the slot and may report.
                FlushResult::Quiet => Arc::strong_count(slot) > 1,
            };
            dropped += usize::from(!keep);
            keep
        });
        self.0.kept.fetch_sub(dropped, Ordering::Relaxed);
        waiting
    }

    /// Flushes every object once an interval, each always at the same point of it, for ever. Nothing is done while there is
    /// nothing to flush.
    pub async fn run(&self, clock: Arc<dyn Clock>) {
        let share = period(self.0.interval) / u32::from(FLUSH_STEPS);
        let mut at = Instant::now();
        for step in (0..FLUSH_STEPS).cycle() {
            if self.kept() == 0 {
                self.0.first_kept.notified().await;
                // Whatever is reported from now on is compared with this time.
                self.0.flushed.store(clock.now().as_millisecond(), Ordering::Relaxed);
                // Of the steps that were left out nobody waited for one.
                at = at.max(Instant::now());
            }
            at += share;
            tokio::time::sleep_until(at).await;
            self.flush_step(step, &*clock, at, share).await;
        }
    }

    /// Flushes the shards of a step, and wakes what waits in them one after the other, so that the writes of many objects do
    /// not come at once.
    async fn flush_step(&self, step: u16, clock: &dyn Clock, at: Instant, share: Duration) {
        let shards = self.0.shards.iter().skip(usize::from(step)).step_by(usize::from(FLUSH_STEPS));
        let mut waiting: Vec<Key> = Vec::new();
        for shard in shards {
            waiting.extend(self.flush_shard(shard, clock.now()));
        }
        waiting.sort_unstable();
        let pause = share / u32::try_from(waiting.len()).unwrap_or(u32::MAX).max(1);
        for (key, number) in waiting.iter().zip(0..) {
            tokio::time::sleep_until(at + pause * number).await;
            (self.0.wake)(key);
        }
    }

    /// Use up to here is in the objects: the moment before the oldest report that waits, or `now`.
    pub fn settled(&self, now: Timestamp) -> Timestamp {
        let mut oldest: Option<Timestamp> = None;
        for shard in &self.0.shards {
            let slots = shard.slots();
            let waiting = slots.iter().filter_map(|kept| kept.slot.oldest());
            let collapsed = shard.collapsed().map(|all| all.oldest);
            oldest = waiting.chain(collapsed).chain(oldest).min();
        }
        let before =
            oldest.map(|oldest| oldest.checked_sub(TIME_RESOLUTION).unwrap_or(Timestamp::MIN));
        before.map_or(now, |before| before.min(now))
    }

    /// How many objects are remembered.
    pub fn kept(&self) -> usize {
        self.0.kept.load(Ordering::Relaxed)
    }

    fn shard(&self, key: &Key) -> (&Shard, u64) {
        let hash = self.0.hasher.hash_one(key);
        // The shard says when an object is flushed, which is the same in every process.
        let shard = spread_over(usize::from(SHARDS), &[&key.namespace, &key.name]);
        (&self.0.shards[shard], hash)
    }

    /// Whether the object is to be woken.
    fn put(&self, slot: &Slot, seen: ActivityReport) -> bool {
        slot.record(seen, |deadline| self.is_near(deadline, seen.last.max(self.flushed())))
    }

    /// The first report of an object that is not remembered.
    #[cold]
    fn record_first(&self, shard: &Shard, hash: u64, key: &Key, seen: ActivityReport) -> bool {
        let mut slots = shard.slots_mut();
        if let Some(slot) = self.slot(&mut slots, hash, key) {
            return self.put(&slot, seen);
        }
        let mut collapsed = shard.collapsed();
        *collapsed = Some(PendingReport::merge(*collapsed, seen));
        true
    }

    /// The slot of an object, a new one if there is room.
    fn slot(&self, slots: &mut Slots, hash: u64, key: &Key) -> Option<Arc<Slot>> {
        if let Some(slot) = find(slots, hash, key) {
            return Some(Arc::clone(slot));
        }
        let max = self.0.max_kept;
        let room = |kept: usize| (kept < max).then_some(kept + 1);
        let kept = self.0.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).ok()?;
        if kept == 0 {
            self.0.first_kept.notify_one();
        }
        let slot = Arc::<Slot>::default();
        let kept = TrackedObject { hash, key: key.clone(), slot: Arc::clone(&slot) };
        slots.insert_unique(hash, kept, |kept| kept.hash);
        Some(slot)
    }

    fn is_near(&self, deadline: Timestamp, now: Timestamp) -> bool {
        deadline.duration_since(now) <= self.0.interval.saturating_mul(NEAR_INTERVALS)
    }

    fn flushed(&self) -> Timestamp {
        let flushed = self.0.flushed.load(Ordering::Relaxed);
        Timestamp::from_millisecond(flushed).unwrap_or(Timestamp::MIN)
    }
}

fn find<'a>(slots: &'a Slots, hash: u64, key: &Key) -> Option<&'a Arc<Slot>> {
    slots.find(hash, |kept| kept.hash == hash && kept.key == *key).map(|kept| &kept.slot)
}

impl Shard {
    fn slots(&self) -> RwLockReadGuard<'_, Slots> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn slots_mut(&self) -> RwLockWriteGuard<'_, Slots> {
        self.slots.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn collapsed(&self) -> MutexGuard<'_, Option<PendingReport>> {
        self.collapsed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One source's reports about one object.
#[derive(Debug, Clone)]
pub struct Handle {
    tracker: Tracker,
    key: Key,
    source: Source,
    /// `None`: there was no room.
    slot: Option<Arc<Slot>>,
}

impl Handle {
    /// The object was used once, at `at`.
    pub fn record(&self, at: Timestamp) {
        let seen = ActivityReport { last: at, source: self.source, count: 1 };
        match &self.slot {
            Some(slot) if self.tracker.put(slot, seen) => (self.tracker.0.wake)(&self.key),
            Some(_) => {}
            None => self.tracker.record(&self.key, self.source, at, 1),
        }
    }
}

/// An interval as tokio wants it: not negative, not zero.
pub(crate) fn period(interval: SignedDuration) -> Duration {
    const MIN_PERIOD: Duration = Duration::from_millis(1);
    Duration::try_from(interval).unwrap_or(MIN_PERIOD).max(MIN_PERIOD)
}
