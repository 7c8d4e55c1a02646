//! What becomes of members that failed. Too many in a while, and nothing more is done until somebody has looked.

use jiff::{SignedDuration, Timestamp};

use crate::moment::saturating_sub;

/// So many failures are remembered; a larger limit counts as this one.
pub const MAX_REMEMBERED: usize = 100;

/// What is done with a member that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailBehavior {
    /// It leaves the collection, and stays for somebody to look at.
    #[default]
    Remove,
    Delete,
    /// The same server, with the same ports, begins again.
    Restart,
}

/// How many failures a collection takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailurePolicy {
    pub behavior: FailBehavior,
    /// One more than so many within the window, and somebody has to look.
    pub max_failures: u32,
    pub window: SignedDuration,
}

/// What a collection remembers of failures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailureRecord {
    /// When members failed, oldest first.
    pub failures: Vec<Timestamp>,
    /// Since when somebody has to look.
    pub tripped_at: Option<Timestamp>,
    /// What was acknowledged last.
    pub acknowledged: Option<String>,
}

/// What to do about one failed member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureAction {
    Handle(FailBehavior),
    /// It stays as it is, and a member.
    Leave,
}

impl FailureRecord {
    /// How many members failed within the window.
    pub fn times_failed(&self) -> u32 {
        u32::try_from(self.failures.len()).unwrap_or(u32::MAX)
    }

    /// Forgets what is older than the window.
    pub fn forget(&mut self, window: SignedDuration, now: Timestamp) {
        let since = saturating_sub(now, window);
        self.failures.retain(|at| *at > since);
    }

    /// Somebody has looked: failures are counted from none. Answers whether that was news.
    pub fn acknowledge(&mut self, word: &str) -> bool {
        if self.acknowledged.as_deref() == Some(word) {
            return false;
        }
        *self = Self { acknowledged: Some(word.to_owned()), ..Self::default() };
        true
    }

    /// One member failed. One by one: whatever comes after the one that trips is left as it is.
    pub fn fails(&mut self, policy: &FailurePolicy, now: Timestamp) -> FailureAction {
        if self.tripped_at.is_some() {
            return FailureAction::Leave;
        }
        self.forget(policy.window, now);
        let limit = usize::try_from(policy.max_failures).unwrap_or(usize::MAX).min(MAX_REMEMBERED);
        if self.failures.len() >= limit {
            self.tripped_at = Some(now);
            return FailureAction::Leave;
        }
        self.failures.push(now);
        FailureAction::Handle(policy.behavior)
    }

    /// When the oldest failure is forgotten, which changes what is shown.
    pub fn next_change(&self, window: SignedDuration) -> Option<Timestamp> {
        self.failures.first().map(|at| crate::moment::saturating_add(*at, window))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: FailurePolicy = FailurePolicy {
        behavior: FailBehavior::Remove,
        max_failures: 2,
        window: SignedDuration::from_hours(1),
    };

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_900_000_000 + 60 * minutes).expect("in range")
    }

    // case: game S29, S30, S31, S35
    #[test]
    fn the_failure_that_finds_the_limit_reached_trips_and_is_not_counted() {
        let mut record = FailureRecord { failures: vec![at(0)], ..FailureRecord::default() };
        assert_eq!(record.fails(&POLICY, at(1)), FailureAction::Handle(FailBehavior::Remove));
        assert_eq!((record.times_failed(), record.tripped_at), (2, None));
        assert_eq!(record.fails(&POLICY, at(2)), FailureAction::Leave);
        assert_eq!((record.times_failed(), record.tripped_at), (2, Some(at(2))));
        assert_eq!(record.fails(&POLICY, at(90)), FailureAction::Leave, "until somebody looks");
        let mut two = FailureRecord { failures: vec![at(0)], ..FailureRecord::default() };
        let both = [two.fails(&POLICY, at(1)), two.fails(&POLICY, at(1))];
        assert_eq!(both, [FailureAction::Handle(FailBehavior::Remove), FailureAction::Leave]);
        assert_eq!(two.tripped_at, Some(at(1)));
    }

    // case: game S32, S34, S37
    #[test]
    fn failures_are_forgotten_after_the_window_and_when_somebody_looked() {
        let policy = FailurePolicy { behavior: FailBehavior::Delete, ..POLICY };
        let mut record = FailureRecord::default();
        for minute in [0, 30, 61, 91] {
            let action = record.fails(&policy, at(minute));
            assert_eq!(action, FailureAction::Handle(FailBehavior::Delete), "{minute}");
        }
        assert_eq!(record.times_failed(), 2);
        assert_eq!(record.fails(&policy, at(92)), FailureAction::Leave);
        assert!(record.acknowledge("2026-11-18"));
        assert!(!record.acknowledge("2026-11-18"), "the same word is no news");
        assert_eq!((record.times_failed(), record.tripped_at), (0, None));
        assert_eq!(record.fails(&policy, at(93)), FailureAction::Handle(FailBehavior::Delete));
    }
}
