//! When a cluster hibernates or resumes by itself: `hibernateAfter`, and what its schedules say.

use jiff::{SignedDuration, Timestamp};

use super::intent::{Intent, Schedule};
use super::operation::{Operation, Trigger};
use super::power::{Direction, Wanted};
use super::reason::Reason;
use super::state::{ClusterState, Firing};
use crate::moment::{ceil_second, saturating_add, saturating_sub};
use crate::schedule::Cron;

/// Firings are whole minutes: nothing is to be found between two times that are this close.
const SEARCH_RESOLUTION: SignedDuration = SignedDuration::from_secs(1);
/// Searching for the latest firing halves a span of time, and there are not more than so many halves.
const MAX_SEARCH_STEPS: usize = 64;

/// What `hibernateAfter` makes of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Timer {
    /// There is none, or it does not count now.
    Off,
    /// It belongs to a pool, and nobody has claimed it yet.
    Unclaimed,
    /// Nothing is on record from which it could count.
    NoBase,
    Due(Due),
}

/// A hibernation that comes by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    pub at: Timestamp,
    pub trigger: Trigger,
    pub why: Reason,
}

/// When `hibernateAfter` is over: it counts from the latest of when the cluster was installed, when it was claimed
/// and since when it runs. A resume that does not come to an end does not keep it awake for ever: from its
/// deadline on, if it has one, it counts from when it was begun. That somebody moved machines, and is only reported,
/// does not stop the clock.
pub fn timer(state: &ClusterState, intent: &Intent) -> Timer {
    let Some(span) = intent.hibernate_after else { return Timer::Off };
    let claimed_at = match intent.pool.map(|pool| pool.claimed_at) {
        Some(None) => return Timer::Unclaimed,
        Some(claimed_at) => claimed_at,
        None => None,
    };
    let running_since = match state.operation_under_way() {
        Some(operation) if operation.direction != Direction::Resume => return Timer::Off,
        Some(operation) if !operation.only_reports(intent.on_drift) => {
            return Timer::Due(stuck(operation, span, claimed_at));
        }
        Some(operation) => state.running_since.or(Some(operation.started_at)),
        None if state.settled() == Some(Wanted::Running) => state.running_since,
        None => return Timer::Off,
    };
    // A claim alone says nothing of how long it has run.
    let ran = state.installed_at.max(running_since);
    let Some(since) = ran.map(|ran| ran.max(claimed_at.unwrap_or(ran))) else {
        return Timer::NoBase;
    };
    let at = ceil_second(saturating_add(since, span));
    Timer::Due(Due { at, trigger: Trigger::Timer, why: Reason::RanFor { span, since } })
}

/// When a resume that does not come to an end is given up.
fn stuck(operation: &Operation, span: SignedDuration, claimed_at: Option<Timestamp>) -> Due {
    let since = operation.started_at.max(claimed_at.unwrap_or(operation.started_at));
    let over = ceil_second(saturating_add(since, span));
    let at = operation.deadline.map_or(over, |deadline| over.max(deadline));
    Due { at, trigger: Trigger::Timer, why: Reason::StuckFor { span, since } }
}

/// The latest firing after `after` and until `until`: of those that were missed, only this one counts. Where a
/// cluster is to hibernate and to resume at once, it resumes.
pub fn latest_firing(schedules: &[Schedule], after: Timestamp, until: Timestamp) -> Option<Firing> {
    let lines = schedules.iter().flat_map(lines);
    let latest = lines.filter_map(|(cron, to, schedule)| {
        latest_of(cron, schedule, after, until).map(|at| Firing { at, to })
    });
    latest.max_by_key(|firing| (firing.at, firing.to == Wanted::Running))
}

/// The next firing that leads there.
pub fn next_firing(schedules: &[Schedule], to: Wanted, after: Timestamp) -> Option<Firing> {
    let lines = schedules.iter().flat_map(lines).filter(|(_, leads, _)| *leads == to);
    let next = lines.filter_map(|(cron, _, schedule)| cron.next_after(after, &schedule.zone));
    next.min().map(|at| Firing { at, to })
}

fn lines(schedule: &Schedule) -> impl Iterator<Item = (&Cron, Wanted, &Schedule)> {
    let hibernate =
        schedule.hibernate.iter().map(move |cron| (cron, Wanted::Hibernating, schedule));
    let resume = schedule.resume.iter().map(move |cron| (cron, Wanted::Running, schedule));
    hibernate.chain(resume)
}

/// The last time that a line names within a span, found by halving it.
fn latest_of(
    cron: &Cron,
    schedule: &Schedule,
    after: Timestamp,
    until: Timestamp,
) -> Option<Timestamp> {
    let within = |from: Timestamp| cron.next_after(from, &schedule.zone).filter(|at| *at <= until);
    let mut found = within(after)?;
    // Looked for near the end first, where it mostly is.
    let mut span = SignedDuration::from_mins(1);
    for _ in 0..MAX_SEARCH_STEPS {
        let from = saturating_sub(until, span);
        if from <= found {
            break;
        }
        if let Some(at) = within(from) {
            found = at;
            break;
        }
        span = span.saturating_mul(2);
    }
    let mut none_after = until;
    for _ in 0..MAX_SEARCH_STEPS {
        let left = none_after.duration_since(found);
        if left <= SEARCH_RESOLUTION {
            break;
        }
        let middle = saturating_add(found, left / 2);
        match within(middle) {
            Some(at) => found = at,
            None => none_after = middle,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests;
