//! How a session was used, as several replicas count it.
//!
//! Each replica has an entry of its own, which nobody else adds to. The session's count is their sum, and its last
//! use the newest of theirs. Entries of replicas that are gone are folded into one, which keeps both.
//!
//! The API keeps whole seconds, so a use counts from the next one: nothing ends early for that.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::moment::ceil_second;

/// The entry into which those of replicas that are gone are folded.
pub const BASE: &str = "base";
/// So many entries a session has at most, with [`BASE`].
pub const MAX_REPLICAS: usize = 16;

/// The last use that a replica has in memory only is at most so much later than the last one that it wrote down. If it
/// dies, the idle deadline is so much later.
pub const MAX_UNWRITTEN: SignedDuration = SignedDuration::from_secs(30);

/// What one replica saw of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplicaUse {
    pub count: u64,
    pub last: Option<Timestamp>,
}

/// How a session was used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// The sum of all entries.
    pub count: u64,
    pub replicas: BTreeMap<String, ReplicaUse>,
}

/// A time that was set. The zero time of other writers (the year 1, or 1970) stands for none.
pub(super) fn set(at: Option<Timestamp>) -> Option<Timestamp> {
    at.filter(|at| *at > Timestamp::UNIX_EPOCH)
}

impl ReplicaUse {
    fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.last = self.last.max(other.last);
    }
}

impl Usage {
    /// The newest use that anybody wrote down.
    pub fn last_use(&self) -> Option<Timestamp> {
        let newest = self.replicas.values().map(|entry| entry.last).fold(self.last, Option::max);
        set(newest)
    }

    /// Whether `replica` has to write down at once, without holding up an answer, what it saw until `now`: nobody knows
    /// yet that it saw anything, or [`MAX_UNWRITTEN`] has passed since the last use that it wrote down. Between, its
    /// uses wait, for one write of them all.
    pub fn must_write_now(&self, replica: &str, now: Timestamp) -> bool {
        let written = self.replicas.get(replica).and_then(|entry| set(entry.last));
        written.is_none_or(|written| now.duration_since(written) >= MAX_UNWRITTEN)
    }

    /// After `replica` reported `count` more uses between `first` and `last`: its entry grows by them. The last
    /// use never moves back, the first is set once, and the count is the sum of all entries.
    #[must_use]
    pub fn with_report(
        &self,
        replica: &str,
        first: Timestamp,
        last: Timestamp,
        count: u64,
    ) -> Self {
        let mut next = self.clone();
        next.balance();
        let last = Some(ceil_second(last));
        next.replicas.entry(replica.to_owned()).or_default().add(ReplicaUse { count, last });
        next.first = set(next.first).or(Some(ceil_second(first)));
        next.shrink(replica);
        next.sum();
        next
    }

    /// Folds the entries of replicas that are gone into [`BASE`], and the oldest of the others while there are more
    /// than [`MAX_REPLICAS`]. Says which were folded; neither the count nor the last use changes.
    pub fn fold(&mut self, is_gone: impl Fn(&str) -> bool) -> Vec<String> {
        let gone = |name: &&String| name.as_str() != BASE && is_gone(name);
        let mut folded: Vec<String> = self.replicas.keys().filter(gone).cloned().collect();
        if folded.is_empty() && self.replicas.len() <= MAX_REPLICAS {
            return folded;
        }
        self.balance();
        for name in &folded {
            self.fold_entry(name);
        }
        folded.extend(self.shrink(BASE));
        self.sum();
        folded
    }

    /// Uses that are in the sum and in no entry belong to [`BASE`]: the count never falls.
    fn balance(&mut self) {
        let listed = self.listed();
        if let Some(count @ 1..) = self.count.checked_sub(listed) {
            let base = ReplicaUse { count, last: self.last };
            self.replicas.entry(BASE.to_owned()).or_default().add(base);
        }
    }

    fn fold_entry(&mut self, name: &str) {
        if let Some(entry) = self.replicas.remove(name) {
            self.replicas.entry(BASE.to_owned()).or_default().add(entry);
        }
    }

    /// Folds the entries that were not added to for longest, but that of `kept`.
    fn shrink(&mut self, kept: &str) -> Vec<String> {
        let mut folded = Vec::new();
        while self.replicas.len() > MAX_REPLICAS {
            let others = self.replicas.iter().filter(|(name, _)| *name != BASE && *name != kept);
            let Some(oldest) = others.min_by_key(|(_, entry)| entry.last) else { break };
            let oldest = oldest.0.clone();
            self.fold_entry(&oldest);
            folded.push(oldest);
        }
        folded
    }

    fn sum(&mut self) {
        self.count = self.count.max(self.listed());
        self.last = self.last_use();
    }

    fn listed(&self) -> u64 {
        self.replicas.values().fold(0, |sum, entry| sum.saturating_add(entry.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_900_000_000 + seconds).unwrap()
    }

    // case: access 69, 71
    #[test]
    fn the_newest_time_and_the_sum_are_kept_in_whatever_order_they_come() {
        let three = Usage::default().with_report("a", at(0), at(10), 3);
        assert_eq!((three.first, three.last, three.count), (Some(at(0)), Some(at(10)), 3));
        let late = three.with_report("a", at(2), at(5), 1);
        assert_eq!((late.first, late.last, late.count), (Some(at(0)), Some(at(10)), 4));
        assert_eq!(late.replicas["a"], ReplicaUse { count: 4, last: Some(at(10)) });
    }

    // case: access 70
    #[test]
    fn reports_one_after_the_other_add_up() {
        let first = Usage::default().with_report("a", at(3), at(3), 1);
        let second = first.with_report("a", at(40), at(40), 2);
        assert_eq!((first.count, first.last), (1, Some(at(3))));
        assert_eq!((second.count, second.last, second.first), (3, Some(at(40)), Some(at(3))));
    }

    // case: access 79
    #[test]
    fn two_replicas_count_side_by_side_whoever_writes_first() {
        for order in [["a", "b"], ["b", "a"]] {
            let mut usage = Usage::default();
            for replica in order {
                let last = if replica == "a" { at(20) } else { at(30) };
                usage = usage.with_report(replica, at(1), last, 100);
            }
            assert_eq!((usage.count, usage.last), (200, Some(at(30))));
            assert_eq!(usage.replicas["a"].count, 100);
        }
    }

    #[test]
    fn a_replica_writes_at_once_what_is_half_a_minute_newer_than_what_it_wrote() {
        let usage = Usage::default().with_report("a", at(0), at(10), 3);
        assert!(usage.must_write_now("b", at(11)), "nobody knows that it saw anything");
        assert!(!usage.must_write_now("a", at(39)));
        assert!(usage.must_write_now("a", at(40)));
    }

    #[test]
    fn a_use_counts_from_the_next_whole_second() {
        let between = at(3) + SignedDuration::from_millis(1);
        let usage = Usage::default().with_report("a", between, between, 1);
        assert_eq!((usage.first, usage.last), (Some(at(4)), Some(at(4))));
    }

    #[test]
    fn a_zero_time_stands_for_none() {
        let zero = "0001-01-01T00:00:00Z".parse().unwrap();
        let usage = Usage { first: Some(zero), last: Some(zero), ..Usage::default() };
        assert_eq!(usage.last_use(), None);
        let used = usage.with_report("a", at(1), at(1), 1);
        assert_eq!((used.first, used.last), (Some(at(1)), Some(at(1))));
    }

    #[test]
    fn entries_of_replicas_that_are_gone_are_folded_and_nothing_is_lost() {
        let mut usage = Usage::default()
            .with_report("a", at(1), at(9), 5)
            .with_report("b", at(2), at(4), 7)
            .with_report(BASE, at(2), at(3), 1);
        let before = usage.clone();
        assert_eq!(usage.fold(|_| false), Vec::<String>::new());
        assert_eq!(usage, before);
        assert_eq!(usage.fold(|name| name == "a" || name == BASE), ["a"]);
        assert_eq!(usage.replicas.keys().collect::<Vec<_>>(), ["b", BASE]);
        assert_eq!(usage.replicas[BASE], ReplicaUse { count: 6, last: Some(at(9)) });
        assert_eq!((usage.count, usage.last), (13, Some(at(9))));
    }

    #[test]
    fn there_are_never_more_entries_than_fit() {
        let mut usage = Usage::default();
        for replica in 0..40_i64 {
            usage = usage.with_report(&format!("replica-{replica}"), at(replica), at(replica), 2);
            assert!(usage.replicas.len() <= MAX_REPLICAS);
        }
        assert_eq!((usage.count, usage.last), (80, Some(at(39))));
        assert!(usage.replicas.contains_key("replica-39"), "the newest are kept apart");
        for replica in 0..9 {
            usage.replicas.insert(format!("more-{replica}"), ReplicaUse { count: 1, last: None });
        }
        let folded = usage.fold(|_| false);
        assert_eq!((folded.len(), usage.replicas.len(), usage.count), (9, MAX_REPLICAS, 89));
    }

    #[test]
    fn a_count_that_no_entry_explains_is_kept() {
        let stored = Usage { count: 10, last: Some(at(1)), ..Usage::default() };
        let usage = stored.with_report("a", at(2), at(2), 1);
        assert_eq!((usage.count, usage.replicas[BASE].count), (11, 10));
        let full = Usage { count: u64::MAX, ..stored };
        assert_eq!(full.with_report("a", at(2), at(2), 1).count, u64::MAX);
    }
}
