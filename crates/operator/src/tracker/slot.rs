//! The reports about one object that its status does not hold yet.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use sojourn_core::activity::ActivityReport;

use super::StoredUse;

/// The reports about one object.
#[derive(Debug, Default)]
pub(super) struct Slot(Mutex<SlotState>);

#[derive(Debug, Default)]
struct SlotState {
    waiting: Option<PendingReport>,
    recency: UseRecency,
    /// The newest use that is in the status: hearing of it again is no news.
    taken: Option<Timestamp>,
    deadline: Option<Timestamp>,
    /// A wake is on its way and nothing was taken since.
    woken: bool,
    /// Writes that were begun and not confirmed, oldest first: one of them may have taken effect. There are several when
    /// one that was unanswered is followed by another on an object that is not known to have changed.
    begun: Vec<BegunWrite>,
}

/// So many writes without an answer are remembered.
const MAX_BEGUN_WRITES: usize = 8;

#[derive(Debug, Clone, Copy)]
struct BegunWrite {
    seen: ActivityReport,
    /// What the object has once it took effect.
    then: StoredUse,
}

/// Reports that are not in a status.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingReport {
    pub(super) seen: ActivityReport,
    pub(super) oldest: Timestamp,
}

/// How lately the object was used, in flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum UseRecency {
    /// Not since the flush before the last one, or never: the next use is worth a wake of its own.
    #[default]
    Quiet,
    /// Before the last flush.
    Slowing,
    /// Since the last flush.
    Busy,
}

/// What a flush found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlushResult {
    /// Reports wait: wake the object.
    Waiting,
    /// None wait, but there were some lately.
    Recent,
    Quiet,
}

impl Slot {
    /// Takes a report in; whether the object is to be woken now.
    pub(super) fn record(
        &self,
        seen: ActivityReport,
        near: impl FnOnce(Timestamp) -> bool,
    ) -> bool {
        let mut state = self.state();
        if seen.count == 0 && state.taken.is_some_and(|taken| seen.last <= taken) {
            return false;
        }
        state.waiting = Some(PendingReport::merge(state.waiting, seen));
        let quiet = state.recency == UseRecency::Quiet;
        state.recency = UseRecency::Busy;
        state.wake_if(|state| quiet || state.deadline.is_some_and(near))
    }

    pub(super) fn peek(&self) -> Option<ActivityReport> {
        self.state().waiting.map(|waiting| waiting.seen)
    }

    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.state().waiting.map(|waiting| waiting.oldest)
    }

    /// A report without a count may be written twice; of one that has a count it must be known.
    pub(super) fn begin_write(&self, seen: &ActivityReport, then: StoredUse) {
        if seen.count == 0 {
            return;
        }
        let begun = &mut self.state().begun;
        // One that took effect makes every later one fail, and is found then; of many the first are long answered.
        if begun.len() >= MAX_BEGUN_WRITES {
            begun.remove(0);
        }
        begun.push(BegunWrite { seen: *seen, then });
    }

    /// If the object has what a write was to leave there, that write took effect.
    pub(super) fn resolve(&self, stored: StoredUse) {
        let newest = self.state().begun.iter().rev().find(|begun| begun.then == stored).copied();
        if let Some(begun) = newest {
            self.acknowledge(&begun.seen);
        }
    }

    /// `seen` is in the status. What came after it was peeked at stays.
    pub(super) fn acknowledge(&self, seen: &ActivityReport) {
        let mut state = self.state();
        state.woken = false;
        state.begun.clear();
        state.taken = state.taken.max(Some(seen.last));
        if let Some(waiting) = &mut state.waiting {
            waiting.seen.count = waiting.seen.count.saturating_sub(seen.count);
            if waiting.seen.count == 0 && waiting.seen.last <= seen.last {
                state.waiting = None;
            }
        }
    }

    /// Whether the object is to be woken now.
    pub(super) fn set_deadline(
        &self,
        deadline: Option<Timestamp>,
        near: impl FnOnce(Timestamp) -> bool,
    ) -> bool {
        let mut state = self.state();
        state.deadline = deadline;
        state.wake_if(|state| state.waiting.is_some() && deadline.is_some_and(near))
    }

    pub(super) fn clear(&self) {
        *self.state() = SlotState::default();
    }

    pub(super) fn flush(&self) -> FlushResult {
        let mut state = self.state();
        state.recency = match state.recency {
            UseRecency::Busy => UseRecency::Slowing,
            UseRecency::Slowing | UseRecency::Quiet => UseRecency::Quiet,
        };
        if state.waiting.is_some() {
            // Whoever was woken before may have failed.
            state.woken = true;
            // Its reports are written now: the next one waits for a flush again.
            state.recency = UseRecency::Slowing;
            return FlushResult::Waiting;
        }
        if state.recency == UseRecency::Quiet { FlushResult::Quiet } else { FlushResult::Recent }
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotState {
    /// One wake is enough until something is taken.
    fn wake_if(&mut self, due: impl FnOnce(&Self) -> bool) -> bool {
        let wake = !self.woken && due(self);
        self.woken |= wake;
        wake
    }
}

impl PendingReport {
    /// A report joins those that wait. The newest time wins, with its source; of sources that saw
    /// the same moment, the first in their order, so that it does not matter who reported first.
    pub(super) fn merge(waiting: Option<Self>, seen: ActivityReport) -> Self {
        let Some(Self { seen: other, oldest }) = waiting else {
            return Self { seen, oldest: seen.last };
        };
        let count = other.count.saturating_add(seen.count);
        let wins =
            seen.last > other.last || (seen.last == other.last && seen.source < other.source);
        let newest = if wins { seen } else { other };
        Self { seen: ActivityReport { count, ..newest }, oldest: oldest.min(seen.last) }
    }
}
