//! Whether a group can keep its promise: every machine replaced, one after the other and within its
//! budgets, between its eligible and its forced age.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use super::budgeting;
use super::intent::{Budget, Intent};
use super::state::Cause;
use crate::moment::{saturating_add, times};
use crate::schedule;
use crate::term::words;

/// How long machines take to boot when nobody knows better.
pub(super) const TYPICAL_BOOT: SignedDuration = SignedDuration::from_mins(2);
/// Rotations are counted up to here; a group that manages so many manages the rest.
const MAX_COUNTED_ROTATIONS: u32 = 100_000;

/// What a group cannot manage, in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    pub size: u32,
    /// So many are replaced in time.
    pub managed: u32,
    /// The time between the eligible and the forced age; none if nothing begins before the latter.
    pub between: Option<SignedDuration>,
    /// What one rotation takes.
    pub each: SignedDuration,
    /// How much time is missing, if it is only time.
    pub missing: Option<SignedDuration>,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, managed, each, .. } = self;
        let each = words(*each);
        let Some(between) = self.between else {
            return write!(
                f,
                "nothing is replaced before forcedAge, so {size} machines of one age are forced \
                 together, {managed} at a time, each taking about {each}: set eligibleAge, or \
                 raise forcedSurge"
            );
        };
        write!(
            f,
            "{managed} of {size} machines of one age can be replaced in the {} between eligibleAge \
             and forcedAge, one at a time, each taking about {each}; {} would be forced",
            words(between),
            size.saturating_sub(*managed),
        )?;
        match self.missing {
            Some(missing) => write!(
                f,
                ": {} more are needed, or a shorter drainTimeout, or smaller groups",
                words(missing)
            ),
            None => f.write_str(": surge and budgets must let rotations begin"),
        }
    }
}

/// What machines that were all made at the same time would not manage, if anything.
pub fn shortfall(intent: &Intent, now: Timestamp) -> Option<Shortfall> {
    let size = intent.size;
    let forced = intent.expiry.forced.span()?;
    let each = TYPICAL_BOOT.saturating_add(intent.min_ready).saturating_add(intent.drain_timeout);
    let Some(eligible) = intent.expiry.eligible.span() else {
        let managed = intent.surge.saturating_add(intent.expiry.forced_surge);
        let short = Shortfall { size, managed, between: None, each, missing: None };
        return (size > managed).then_some(short);
    };
    let between = forced.saturating_sub(eligible).max(SignedDuration::ZERO);
    let (managed, missing) = count_replaceable(intent, between, each, now);
    (managed < size).then_some(Shortfall { size, managed, between: Some(between), each, missing })
}

/// How many can be replaced in that time, and how much more the rest takes.
fn count_replaceable(
    intent: &Intent,
    between: SignedDuration,
    each: SignedDuration,
    now: Timestamp,
) -> (u32, Option<SignedDuration>) {
    let budgets: Vec<&Budget> =
        intent.budgets.iter().filter(|budget| budgeting::covers(budget, Cause::Expired)).collect();
    if intent.surge == 0 || budgets.iter().any(|budget| budget.max == 0) {
        return (0, None);
    }
    let paced = |budget: &&Budget| {
        budget.per.map(|per| per / i32::try_from(budget.max).unwrap_or(i32::MAX))
    };
    let pace = budgets.iter().filter_map(paced).max().map_or(each, |pace| pace.max(each));
    if budgets.iter().all(|budget| budget.allow.is_empty() && budget.deny.is_empty()) {
        let managed = between.as_nanos() / pace.as_nanos().max(1);
        let managed = u32::try_from(managed).unwrap_or(u32::MAX);
        let missing = times(pace, intent.size).saturating_sub(between);
        return (managed, Some(missing));
    }
    let end = saturating_add(now, between);
    let mut at = now;
    for managed in 0..intent.size.min(MAX_COUNTED_ROTATIONS) {
        let Some(begun) = next_allowed(&budgets, at) else { return (managed, None) };
        at = saturating_add(begun, pace);
        if at > end {
            return (managed, None);
        }
    }
    (intent.size, None)
}

/// When all windows let a rotation begin, at or after `at`.
fn next_allowed(budgets: &[&Budget], mut at: Timestamp) -> Option<Timestamp> {
    // Windows that exclude each other never do.
    const MAX_WINDOW_EDGES: usize = 64;
    for _ in 0..MAX_WINDOW_EDGES {
        let closed = budgets
            .iter()
            .find_map(|budget| schedule::check_open(&budget.allow, &budget.deny, at).err());
        match closed {
            None => return Some(at),
            Some(closed) => at = closed.again?,
        }
    }
    None
}

#[cfg(test)]
mod tests;
