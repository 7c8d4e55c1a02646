//! Whether budgets let a rotation begin. The strictest decides, and gives the reason.

use jiff::Timestamp;

use super::decision_builder::DecisionBuilder;
use super::intent::{Budget, Fleet};
use super::reason::Reason;
use super::roster::{MAX_REMEMBERED_STARTS, Roster};
use super::state::Cause;
use crate::moment::{saturating_add, saturating_sub};
use crate::schedule::{self, Closed};

/// What stands in the way of a rotation, and until when, if time alone clears it.
struct Blocked {
    reason: Reason,
    until: Option<Timestamp>,
    /// When to check again; it may still be blocked then.
    again: Option<Timestamp>,
}

/// Whether the installation lets a rotation begin for this cause. The operator counts for all
/// groups, and wakes those that wait.
pub(super) fn fleet_admits(roster: &Roster<'_>, cause: Cause) -> Result<(), Reason> {
    let Some(fleet) = roster.intent.fleet.filter(|_| Fleet::COUNTS.contains(&cause)) else {
        return Ok(());
    };
    let own = Fleet::COUNTS.map(|cause| roster.counts.by_cause[cause as usize]);
    let open = own.into_iter().fold(fleet.others, u32::saturating_add);
    if open < fleet.max { Ok(()) } else { Err(Reason::FleetBudget { max: fleet.max }) }
}

/// Whether a rotation may begin for this cause. If not, the group wakes when it may.
pub(super) fn admits(
    roster: &Roster<'_>,
    cause: Cause,
    builder: &mut DecisionBuilder,
) -> Result<(), Reason> {
    fleet_admits(roster, cause)?;
    let mut worst: Option<Blocked> = None;
    for budget in roster.intent.budgets.iter().filter(|budget| covers(budget, cause)) {
        let Err(blocked) = admit(roster, budget, builder.now) else { continue };
        // What only an event clears lasts longer than anything with a time.
        let lasts = |blocked: &Blocked| blocked.until.unwrap_or(Timestamp::MAX);
        if worst.as_ref().is_none_or(|worst| lasts(&blocked) > lasts(worst)) {
            worst = Some(blocked);
        }
    }
    match worst {
        None => Ok(()),
        Some(Blocked { reason, again, .. }) => {
            if let Some(again) = again {
                builder.wake_at(again);
            }
            Err(reason)
        }
    }
}

pub(super) fn covers(budget: &Budget, cause: Cause) -> bool {
    match cause {
        Cause::Forced => false,
        Cause::Expired | Cause::Drifted | Cause::Unhealthy | Cause::Manual => {
            budget.causes.is_empty() || budget.causes.contains(&cause)
        }
        Cause::Interrupted | Cause::OnDemand | Cause::Scale => budget.causes.contains(&cause),
    }
}

fn admit(roster: &Roster<'_>, budget: &Budget, now: Timestamp) -> Result<(), Blocked> {
    let path = || budget.path.clone();
    if let Err(Closed { until, again }) = schedule::check_open(&budget.allow, &budget.deny, now) {
        return Err(Blocked { reason: Reason::WindowClosed { path: path(), until }, until, again });
    }
    let used_up = |until| {
        Err(Blocked { reason: Reason::Budget { path: path(), until }, until, again: until })
    };
    let max = usize::try_from(budget.max).unwrap_or(usize::MAX).min(MAX_REMEMBERED_STARTS);
    if max == 0 {
        return used_up(None);
    }
    let Some(per) = budget.per else {
        let open: u32 = super::cause::BY_RANK
            .into_iter()
            .chain([Cause::Scale])
            .filter(|cause| covers(budget, *cause))
            .map(|cause| roster.counts.by_cause[cause as usize])
            .sum();
        return if open < budget.max { Ok(()) } else { used_up(None) };
    };
    let since = saturating_sub(now, per);
    let mut started = roster
        .group
        .started
        .iter()
        .filter(|started| started.at > since && covers(budget, started.cause))
        .rev();
    // The start that must leave the span before another may begin.
    match started.nth(max - 1) {
        None => Ok(()),
        Some(started) => used_up(Some(saturating_add(started.at, per))),
    }
}

#[cfg(test)]
mod tests;
