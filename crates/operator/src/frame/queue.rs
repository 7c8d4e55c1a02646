//! The objects that somebody should look at, now or at a time.
//!
//! Times are the clock's, not the timer's: a timer sleeps for a minute at most and then asks the
//! clock again, so that a clock that is set, or a machine that slept, makes nothing late.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sojourn_core::key::Key;
use tokio::sync::Notify;

use crate::clock::Clock;

/// No timer sleeps for longer than this before it reads the clock again.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// A queue without duplicates; an object is looked at by one task at a time.
#[derive(Debug)]
pub struct Queue {
    clock: Arc<dyn Clock>,
    state: Mutex<QueueState>,
    /// Notified when an object may be due sooner than the earliest timer.
    changed: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    ready: VecDeque<Arc<Key>>,
    timers: BTreeSet<(Timestamp, Arc<Key>)>,
    objects: HashMap<Arc<Key>, Object>,
    running: usize,
}

#[derive(Debug, Default)]
struct Object {
    queued: bool,
    running: bool,
    timer: Option<Timestamp>,
}

impl Queue {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::default(), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time by the clock that the queue goes by.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Asks for a look as soon as possible. While one is under way, another follows it.
    pub fn wake(&self, key: &Key) {
        if self.lock().enqueue(key) {
            self.changed.notify_one();
        }
    }

    /// Asks for a look within a while; one that comes sooner will do.
    pub fn wake_within(&self, key: &Key, span: SignedDuration) {
        let by = self.clock.now().saturating_add(span).unwrap_or(Timestamp::MAX);
        self.lock().remind(key, by);
        self.changed.notify_one();
    }

    /// The next object to look at. The caller calls [`Self::done`] afterwards.
    pub async fn next(&self) -> Arc<Key> {
        loop {
            let changed = self.changed.notified();
            let sleep = {
                let mut state = self.lock();
                let now = self.clock.now();
                state.fire(now);
                if let Some(key) = state.take() {
                    if !state.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return key;
                }
                state.first_timer().map(|at| until(now, at))
            };
            match sleep {
                Some(sleep) => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = tokio::time::sleep(sleep) => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    /// The look is over; the next one is at `wake`, unless something changes before.
    pub fn done(&self, key: &Arc<Key>, wake: Option<Timestamp>) {
        let mut state = self.lock();
        state.finish(key, wake);
        drop(state);
        // A timer may be the first now, or the object may be wanted again.
        self.changed.notify_one();
    }

    /// Forgets everything: whoever was looked at is not any more, and whoever takes over looks at all of
    /// them anew.
    pub fn restart(&self) {
        *self.lock() = QueueState::default();
    }

    /// How many wait, and how many have a timer.
    pub fn depth(&self) -> (usize, usize) {
        let state = self.lock();
        (state.ready.len(), state.timers.len())
    }

    /// The earliest timer.
    pub fn first(&self) -> Option<Timestamp> {
        self.lock().first_timer()
    }

    /// Whether nobody waits and nobody is being looked at.
    pub fn is_idle(&self) -> bool {
        let state = self.lock();
        state.ready.is_empty() && state.running == 0
    }
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    let span = at.duration_since(now);
    Duration::try_from(span).unwrap_or(Duration::ZERO).min(MAX_SLEEP)
}

impl QueueState {
    /// Whether there is something new to take.
    fn enqueue(&mut self, key: &Key) -> bool {
        if let Some(object) = self.objects.get_mut(key) {
            if object.queued {
                return false;
            }
            object.queued = true;
            if object.running {
                return false;
            }
            let Some((shared, _)) = self.objects.get_key_value(key) else { return false };
            self.ready.push_back(shared.clone());
            return true;
        }
        let shared = Arc::new(key.clone());
        self.objects.insert(shared.clone(), Object { queued: true, ..Object::default() });
        self.ready.push_back(shared);
        true
    }

    fn remind(&mut self, key: &Key, by: Timestamp) {
        let (shared, object) = match self.objects.get_key_value(key) {
            Some((shared, _)) => (shared.clone(), self.objects.get_mut(key)),
            None => {
                let shared = Arc::new(key.clone());
                self.objects.insert(shared.clone(), Object::default());
                (shared, self.objects.get_mut(key))
            }
        };
        let Some(object) = object else { return };
        if object.queued || object.timer.is_some_and(|timer| timer <= by) {
            return;
        }
        let before = object.timer.replace(by);
        // The timer of one that is being looked at is set when that is over.
        if !object.running {
            if let Some(before) = before {
                self.timers.remove(&(before, shared.clone()));
            }
            self.timers.insert((by, shared));
        }
    }

    fn first_timer(&self) -> Option<Timestamp> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn fire(&mut self, now: Timestamp) {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.timers.pop_first() else { return };
            if let Some(object) = self.objects.get_mut(&key) {
                object.timer = None;
            }
            self.enqueue(&key);
        }
    }

    fn take(&mut self) -> Option<Arc<Key>> {
        let key = self.ready.pop_front()?;
        self.running += 1;
        if let Some(object) = self.objects.get_mut(&key) {
            object.queued = false;
            object.running = true;
            if let Some(at) = object.timer.take() {
                self.timers.remove(&(at, key.clone()));
            }
        }
        Some(key)
    }

    fn finish(&mut self, key: &Arc<Key>, wake: Option<Timestamp>) {
        let Some(object) = self.objects.get_mut(key) else { return };
        self.running = self.running.saturating_sub(1);
        object.running = false;
        let reminder = object.timer.take();
        if object.queued {
            self.ready.push_back(key.clone());
            return;
        }
        match [wake, reminder].into_iter().flatten().min() {
            Some(at) => {
                object.timer = Some(at);
                self.timers.insert((at, key.clone()));
            }
            None => {
                self.objects.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::VirtualClock;

    fn queue() -> (Queue, Arc<VirtualClock>) {
        let clock = Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH));
        (Queue::new(clock.clone()), clock)
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_queued_once_and_looked_at_by_one() {
        let (queue, _) = queue();
        let key = Key::new("a", "b");
        queue.wake(&key);
        queue.wake(&key);
        let taken = queue.next().await;
        queue.wake(&key);
        assert!(futures::poll!(Box::pin(queue.next())).is_pending(), "it is being looked at");
        queue.done(&taken, None);
        let again = queue.next().await;
        queue.done(&again, None);
        assert!(futures::poll!(Box::pin(queue.next())).is_pending());
        assert!(queue.is_idle());
        assert!(queue.lock().objects.is_empty(), "an object without a timer costs nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_takes_over_finds_nobody_being_looked_at() {
        let (queue, _) = queue();
        let (key, other) = (Key::new("a", "b"), Key::new("a", "c"));
        queue.wake(&key);
        // Ended in the middle of a look, which is never reported as done.
        drop(queue.next().await);
        queue.wake_within(&other, SignedDuration::from_hours(1));
        queue.restart();
        assert!(queue.is_idle() && queue.depth() == (0, 0));
        queue.wake(&key);
        assert_eq!(*queue.next().await, key, "it can be looked at again");
    }

    // case: group 47
    #[tokio::test(start_paused = true)]
    async fn however_many_wait_none_is_left_out() {
        let (queue, _) = queue();
        let first = Key::new("a", "first");
        queue.wake(&first);
        let taken = queue.next().await;
        for number in 0..100_000 {
            queue.wake(&Key::new("a", number.to_string()));
        }
        // It changes while it is looked at, and again while it waits.
        queue.wake(&first);
        queue.done(&taken, None);
        queue.wake(&first);
        let mut seen = std::collections::HashMap::new();
        for _ in 0..=100_000 {
            let key = queue.next().await;
            *seen.entry(key.name.clone()).or_insert(0) += 1;
            queue.done(&key, None);
        }
        assert_eq!(seen.len(), 100_001);
        assert_eq!(seen.get("first"), Some(&1), "once more, and only once");
        assert!(queue.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn timers_fire_in_order_and_a_change_comes_first() {
        let (queue, clock) = queue();
        for (name, hours) in [("late", 30), ("soon", 1), ("later", 1000)] {
            queue.wake(&Key::new("", name));
            let key = queue.next().await;
            let at = clock.now().checked_add(SignedDuration::from_hours(hours)).expect("in range");
            queue.done(&key, Some(at));
        }
        assert_eq!(queue.depth(), (0, 3));
        let key = queue.next().await;
        assert_eq!((&*key.name, clock.now().as_second()), ("soon", 3600));
        queue.done(&key, None);
        queue.wake(&Key::new("", "later"));
        let key = queue.next().await;
        assert_eq!((&*key.name, clock.now().as_second()), ("later", 3600));
        queue.done(&key, None);
        let key = queue.next().await;
        assert_eq!((&*key.name, clock.now().as_second()), ("late", 30 * 3600));
        queue.done(&key, None);
        assert_eq!(queue.depth(), (0, 0), "a change takes the timer away");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reminder_comes_unless_a_look_comes_sooner() {
        let (queue, clock) = queue();
        let (key, hour) = (Key::new("a", "b"), SignedDuration::from_hours(1));
        queue.wake_within(&key, hour);
        queue.wake_within(&key, hour * 2);
        let taken = queue.next().await;
        assert_eq!(clock.now().as_second(), 3600);
        queue.wake_within(&key, hour);
        queue.done(&taken, clock.now().checked_add(hour * 5).ok());
        assert_eq!(queue.depth(), (0, 1));
        let taken = queue.next().await;
        assert_eq!(clock.now().as_second(), 2 * 3600, "the reminder came before the timer");
        queue.done(&taken, clock.now().checked_add(hour).ok());
        queue.wake_within(&key, hour * 3);
        let taken = queue.next().await;
        assert_eq!(clock.now().as_second(), 3 * 3600, "the timer came before the reminder");
        queue.done(&taken, None);
        assert_eq!(queue.depth(), (0, 0));
    }
}
