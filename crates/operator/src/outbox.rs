//! The worker that sends notices: one attempt for every request, and its outcome remembered until
//! the object's status holds it.
//!
//! | here                                | elsewhere                                            |
//! |-------------------------------------|------------------------------------------------------|
//! | one attempt over all channels       | whether to tell, and when to try again (`core`)      |
//! | never two attempts of one id at once| the record that it is to be told (the object)        |
//! | outcomes, in memory                 | outcomes, for good (the object's status)             |
//!
//! Nothing here survives the process, and nothing has to: an intent that stands in the object
//! without an outcome is attempted again under the same id.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt as _};
use jiff::Timestamp;
use sojourn_core::key::Key;
use sojourn_core::notice::{self as stored, DeliveryFailure, DeliveryOutcome};
use sojourn_drivers::notify::{Channel, Notice, SendError};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::clock::Clock;

/// A channel that has not answered by then has failed. Channels have shorter limits of their own;
/// this one keeps a broken channel from holding a place for ever.
const CHANNEL_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The channels that are configured now.
pub trait Channels: Send + Sync + fmt::Debug {
    fn current(&self) -> Vec<Arc<dyn Channel>>;
}

/// A list that does not change.
impl Channels for Vec<Arc<dyn Channel>> {
    fn current(&self) -> Self {
        self.clone()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// So many notices are being sent at the same time.
    pub concurrent: usize,
    /// So many wait for that.
    pub waiting: usize,
    /// So many are known in all: waiting, being sent, or sent and not yet taken.
    pub known: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { concurrent: 8, waiting: 10_000, known: 100_000 }
    }
}

/// What became of a request to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Attempt {
    /// It is under way, or its outcome waits to be looked at.
    Accepted,
    /// Too many wait, or the outbox is closed. Nothing was done; ask again later.
    Busy,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptOutcome {
    pub at: Timestamp,
    /// The names of the channels that accepted it, at least one.
    pub result: Result<Vec<&'static str>, SendFailure>,
}

/// No channel accepted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendFailure {
    /// Every channel refused it for good.
    pub permanent: bool,
    pub message: String,
}

/// The outbox. Its clones are the same one.
#[derive(Clone)]
pub struct Outbox {
    shared: Arc<Shared>,
}

type WakeCallback = Arc<dyn Fn(&Key) + Send + Sync>;

struct Shared {
    channels: Arc<dyn Channels>,
    clock: Arc<dyn Clock>,
    wake: WakeCallback,
    limits: Limits,
    state: Mutex<OutboxState>,
    /// Something for the worker to look at: a notice, or the end.
    work_available: Notify,
}

#[derive(Default)]
struct OutboxState {
    entries: HashMap<Key, BTreeMap<String, OutboxEntry>>,
    /// How many entries there are in all.
    known: usize,
    queue: VecDeque<QueuedNotice>,
    closed: bool,
}

struct QueuedNotice {
    key: Key,
    notice: Notice,
}

enum OutboxEntry {
    /// Waits or is being sent. Once `forgotten`, nobody wants to know how it ends.
    UnderWay { forgotten: bool },
    /// `seen`: somebody has asked for it, and may have written it down.
    Done { outcome: AttemptOutcome, seen: bool },
}

impl Outbox {
    /// The outbox, and the worker that sends. The caller runs the worker; when that ends, by itself
    /// after [`Outbox::close`] or dropped, the outbox is closed.
    ///
    /// `wake` is called with the object whose notice has an outcome, after each attempt.
    pub fn new(
        channels: Arc<dyn Channels>,
        clock: Arc<dyn Clock>,
        wake: Arc<dyn Fn(&Key) + Send + Sync>,
        limits: Limits,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let shared = Arc::new(Shared {
            channels,
            clock,
            wake,
            limits,
            state: Mutex::default(),
            work_available: Notify::new(),
        });
        let worker = Worker(Arc::clone(&shared));
        (Self { shared }, worker.run())
    }

    /// Starts one attempt. Never blocks.
    ///
    /// Starts none while one with this id is under way, and none before the outcome of the last one
    /// was [acknowledged](Self::acknowledge): an object that cannot be written would have the same attempt made
    /// again and again.
    pub fn attempt(&self, key: &Key, notice: Notice) -> Attempt {
        let limits = self.shared.limits;
        let mut guard = self.shared.state();
        let state = &mut *guard;
        if state.closed {
            return Attempt::Busy;
        }
        let entry = state.entries.get_mut(key).and_then(|entries| entries.get_mut(&notice.id));
        match entry {
            Some(OutboxEntry::UnderWay { forgotten }) => {
                *forgotten = false;
                return Attempt::Accepted;
            }
            Some(OutboxEntry::Done { .. }) => return Attempt::Accepted,
            None => {}
        }
        if state.queue.len() >= limits.waiting || state.known >= limits.known {
            return Attempt::Busy;
        }
        state.put(key, &notice.id, OutboxEntry::UnderWay { forgotten: false });
        state.queue.push_back(QueuedNotice { key: key.clone(), notice });
        drop(guard);
        self.shared.work_available.notify_one();
        Attempt::Accepted
    }

    /// The outcome of the last attempt, unless one is under way. Kept until [`Outbox::acknowledge`] or
    /// [`Outbox::forget`].
    pub fn outcome(&self, key: &Key, id: &str) -> Option<AttemptOutcome> {
        let mut state = self.shared.state();
        match state.entries.get_mut(key)?.get_mut(id)? {
            OutboxEntry::UnderWay { .. } => None,
            OutboxEntry::Done { outcome, seen } => {
                *seen = true;
                Some(outcome.clone())
            }
        }
    }

    /// What came of the notices of an object that wait. One that whoever led until `leading_since` tried, and whose
    /// outcome they did not write down, is lost: it may have been sent.
    pub fn outcomes<K>(
        &self,
        key: &Key,
        notices: &[stored::Notice<K>],
        leading_since: Timestamp,
    ) -> Vec<DeliveryOutcome> {
        let waiting =
            notices.iter().filter(|one| matches!(one.delivery, stored::Delivery::Waiting { .. }));
        waiting.filter_map(|notice| self.outcome_of(key, notice, leading_since)).collect()
    }

    fn outcome_of<K>(
        &self,
        key: &Key,
        notice: &stored::Notice<K>,
        leading_since: Timestamp,
    ) -> Option<DeliveryOutcome> {
        let id = notice.id.clone();
        if let Some(outcome) = self.outcome(key, id.as_str()) {
            let result = outcome.result.map(drop);
            let result = result.map_err(|failure| DeliveryFailure::Refused(failure.message));
            return Some(DeliveryOutcome { id, at: outcome.at, result });
        }
        let by_another = notice.unanswered_since().is_some_and(|tried| tried <= leading_since);
        (by_another && !self.contains(key, id.as_str())).then(|| DeliveryOutcome {
            id,
            at: self.shared.clock.now(),
            result: Err(DeliveryFailure::Lost),
        })
    }

    /// Whether an attempt is under way, or its outcome waits to be taken.
    pub fn contains(&self, key: &Key, id: &str) -> bool {
        self.shared.state().entries.get(key).is_some_and(|entries| entries.contains_key(id))
    }

    /// The object's status holds the outcome that [`Outbox::outcome`] gave.
    pub fn acknowledge(&self, key: &Key, id: &str) {
        let mut state = self.shared.state();
        let entry = state.entries.get(key).and_then(|entries| entries.get(id));
        if matches!(entry, Some(OutboxEntry::Done { seen: true, .. })) {
            state.remove(key, id);
        }
    }

    /// The object is gone: nobody will take outcomes of its notices. One that is being sent is sent
    /// to its end all the same, so that asking again does not send it twice at once.
    pub fn forget(&self, key: &Key) {
        let mut state = self.shared.state();
        let Some(entries) = state.entries.get_mut(key) else { return };
        let before = entries.len();
        entries.retain(|_, entry| match entry {
            OutboxEntry::Done { .. } => false,
            OutboxEntry::UnderWay { forgotten } => {
                *forgotten = true;
                true
            }
        });
        let left = entries.len();
        state.known -= before - left;
        if left == 0 {
            state.entries.remove(key);
        }
    }

    /// Takes nothing more, drops what waits, and lets the worker end once what is being sent has
    /// been: cut off in the middle, a notice may arrive and be sent again later.
    pub fn close(&self) {
        self.shared.state().close();
        self.shared.work_available.notify_one();
    }
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state();
        f.debug_struct("Outbox")
            .field("known", &state.known)
            .field("waiting", &state.queue.len())
            .field("closed", &state.closed)
            .finish_non_exhaustive()
    }
}

impl OutboxState {
    fn put(&mut self, key: &Key, id: &str, entry: OutboxEntry) {
        let entries = self.entries.entry(key.clone()).or_default();
        if entries.insert(id.to_owned(), entry).is_none() {
            self.known += 1;
        }
    }

    fn remove(&mut self, key: &Key, id: &str) {
        let Some(entries) = self.entries.get_mut(key) else { return };
        if entries.remove(id).is_some() {
            self.known -= 1;
        }
        if entries.is_empty() {
            self.entries.remove(key);
        }
    }

    fn close(&mut self) {
        self.closed = true;
        while let Some(QueuedNotice { key, notice }) = self.queue.pop_front() {
            self.remove(&key, &notice.id);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, queued: QueuedNotice) {
        let result = self.try_channels(&queued).await;
        let at = self.clock.now();
        let QueuedNotice { key, notice } = queued;
        {
            let mut state = self.state();
            let entry = state.entries.get(&key).and_then(|entries| entries.get(&notice.id));
            if matches!(entry, Some(OutboxEntry::UnderWay { forgotten: false })) {
                let outcome = AttemptOutcome { at, result };
                state.put(&key, &notice.id, OutboxEntry::Done { outcome, seen: false });
            } else {
                state.remove(&key, &notice.id);
                return;
            }
        }
        if catch_unwind(AssertUnwindSafe(|| (self.wake)(&key))).is_err() {
            tracing::error!(object.key = %key, "waking an object after its notice was sent panicked");
        }
    }

    /// Tries every channel. One that accepts is enough; what the others say then goes to the log.
    async fn try_channels(&self, queued: &QueuedNotice) -> Result<Vec<&'static str>, SendFailure> {
        let configured = catch_unwind(AssertUnwindSafe(|| self.channels.current()));
        let channels = configured.unwrap_or_else(|_| {
            tracing::error!("listing the channels for notices panicked");
            Vec::new()
        });
        if channels.is_empty() {
            let message = "no channel is configured".to_owned();
            return Err(SendFailure { permanent: false, message });
        }
        let answers =
            join_all(channels.iter().map(|channel| try_channel(&**channel, &queued.notice)));
        let (mut accepted, mut failed) = (Vec::new(), Vec::new());
        for (name, answer) in answers.await {
            match answer {
                Ok(()) => accepted.push(name),
                Err(error) => failed.push((name, error)),
            }
        }
        if accepted.is_empty() {
            let permanent = failed.iter().all(|(_, error)| error.is_permanent());
            let message: Vec<_> =
                failed.iter().map(|(name, error)| format!("{name}: {error}")).collect();
            return Err(SendFailure { permanent, message: message.join("; ") });
        }
        for (name, error) in failed {
            tracing::warn!(
                object.key = %queued.key,
                notice.id = %queued.notice.id,
                channel = name,
                accepted_by = ?accepted,
                %error,
                "a channel did not take a notice that another took",
            );
        }
        Ok(accepted)
    }
}

/// One channel, whatever it does: it answers, takes for ever or panics.
async fn try_channel(
    channel: &dyn Channel,
    notice: &Notice,
) -> (&'static str, Result<(), SendError>) {
    let name = channel.name();
    // The call itself may panic, not only the future that it gives.
    let sending = AssertUnwindSafe(async { channel.send(notice).await }).catch_unwind();
    let answer = match timeout(CHANNEL_TIMEOUT, sending).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => {
            tracing::error!(channel = name, notice.id = %notice.id, "a channel panicked");
            Err(SendError::Transient("the channel panicked, which is a bug".to_owned()))
        }
        Err(_) => {
            let seconds = CHANNEL_TIMEOUT.as_secs();
            Err(SendError::Transient(format!("no answer within {seconds} s; it may have arrived")))
        }
    };
    (name, answer)
}

/// Closes the outbox when it ends, however it ends.
struct Worker(Arc<Shared>);

impl Worker {
    async fn run(self) {
        let shared = &*self.0;
        let mut sending = FuturesUnordered::new();
        loop {
            let closed = {
                let mut state = shared.state();
                while sending.len() < shared.limits.concurrent.max(1) {
                    let Some(queued) = state.queue.pop_front() else { break };
                    sending.push(shared.send(queued));
                }
                state.closed
            };
            if closed && sending.is_empty() {
                return;
            }
            tokio::select! {
                biased;
                () = shared.work_available.notified() => {}
                Some(()) = sending.next() => {}
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.close();
        // Attempts under way are cancelled with the worker, so they never get an outcome.
        for entries in state.entries.values_mut() {
            entries.retain(|_, entry| matches!(entry, OutboxEntry::Done { .. }));
        }
        state.entries.retain(|_, entries| !entries.is_empty());
        state.known = state.entries.values().map(BTreeMap::len).sum();
    }
}

#[cfg(test)]
mod tests;
