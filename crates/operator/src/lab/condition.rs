//! The conditions of an Instance: what people look at first when something is not as they expect.

use sojourn_api::lab::status::{InstanceStatus, Phase, SubmissionState, SubmissionStatus};
use sojourn_api::name::lab::{condition, reason};
use sojourn_core::lab::observed::Claim;
use sojourn_core::lab::reason::Reason;
use sojourn_core::notice::Delivery;

use super::observe::ObservedInstance;
use super::reconcile::{InstanceDecision, Lab, LabError};
use super::runtime::conflicting_object;
use super::snapshot::InstanceSnapshot;
use crate::condition::{DesiredCondition, desired};

/// Its last use is on record and cannot be read.
pub(super) const LAST_USE_LOST: &str = "LastUseLost";

pub(super) fn conditions(
    lab: &Lab,
    snapshot: &InstanceSnapshot,
    observed: &ObservedInstance,
    decision: &InstanceDecision,
    executed: &Result<(), LabError>,
    status: &InstanceStatus,
) -> Vec<DesiredCondition> {
    let problem = problem(lab.config.problem(), lab.drivers.problem());
    let taken = match executed {
        Err(error @ LabError::Taken { .. }) => Some(error.to_string()),
        Ok(()) | Err(_) => conflicting_object(&lab.caches, snapshot),
    };
    let mut all = vec![accepted(snapshot, taken, problem), ready(status)];
    all.extend(activity(snapshot, observed, decision));
    all.extend(undeliverable(decision));
    all.extend(checked(snapshot, observed, status));
    all.extend(submitted(status, &observed.claims));
    all.extend(held(decision));
    all
}

/// What is wrong with the configuration: it is bad, and the one before it holds, or what it names cannot
/// be used, and nothing stands in for it.
fn problem(bad: Option<String>, unusable: Option<String>) -> Option<String> {
    let bad = bad.map(|words| format!("the last good configuration is in force: {words}"));
    bad.or_else(|| Some(format!("what the configuration names cannot be used: {}", unusable?)))
}

fn accepted(
    snapshot: &InstanceSnapshot,
    taken: Option<String>,
    configuration: Option<String>,
) -> DesiredCondition {
    let kind = condition::ACCEPTED;
    let Some(instance) = snapshot.instance() else {
        return desired(kind, false, reason::INVALID, "it cannot be read");
    };
    if let Err(problem) = &snapshot.intent {
        return desired(kind, false, reason::INVALID, problem.clone());
    }
    if snapshot.template().is_none() {
        let template = super::caches::template_key(instance);
        let message = format!(
            "there is no Template {template}; what runs goes on, and nothing of it is made anew until there is one"
        );
        return desired(kind, false, reason::TEMPLATE_MISSING, message);
    }
    if let Some(words) = taken {
        let message =
            format!("{words}; rename or delete it, or make the Instance under another name");
        return desired(kind, false, reason::NAME_TAKEN, message);
    }
    if snapshot.tenant().is_none() {
        let tenant = &instance.spec.tenant.name;
        let message = format!("there is no Tenant {tenant}; nobody can be told until there is");
        return desired(kind, false, reason::TENANT_MISSING, message);
    }
    if let Some(message) = configuration {
        return desired(kind, false, reason::CONFIGURATION_INVALID, message);
    }
    desired(kind, true, reason::VALID, "")
}

fn ready(status: &InstanceStatus) -> DesiredCondition {
    let phase = status.phase.unwrap_or_default();
    let message = status.environments.iter().find_map(|environment| {
        let message = environment.message.as_ref()?;
        Some(format!("{}: {message}", environment.name))
    });
    desired(condition::READY, phase == Phase::Ready, phase.as_str(), message.unwrap_or_default())
}

fn activity(
    snapshot: &InstanceSnapshot,
    observed: &ObservedInstance,
    decision: &InstanceDecision,
) -> Option<DesiredCondition> {
    let lifecycle = decision.lifecycle.as_ref()?;
    if !snapshot.intent.as_ref().is_ok_and(|intent| intent.running) {
        return None;
    }
    let kind = condition::ACTIVITY_KNOWN;
    if snapshot.required.is_empty() {
        return Some(desired(
            kind,
            false,
            "NothingObserves",
            "no source of activity is configured",
        ));
    }
    if snapshot.state.activity.is_lost() {
        return Some(desired(kind, false, LAST_USE_LOST, Reason::LastUseLost.to_string()));
    }
    // The sources were not asked yet since the creation, which does not make them blind.
    let young = snapshot.config.activity_interval.saturating_mul(2);
    let created = snapshot.intent.as_ref().map_or(decision.now, |intent| intent.created_at);
    let unasked =
        snapshot.required.iter().all(|source| observed.coverage.trouble(*source).is_none());
    let since_creation = lifecycle.next.activity.blind.is_some_and(|since| since <= created);
    if since_creation && unasked && decision.now.duration_since(created) < young {
        return None;
    }
    let blind: Vec<String> = snapshot
        .required
        .iter()
        .filter(|source| observed.coverage.coverage(**source).blind_since(decision.now).is_some())
        .map(|source| match observed.coverage.trouble(*source) {
            Some(trouble) => format!("{source}: {trouble}"),
            None => format!("{source} was not seen"),
        })
        .collect();
    Some(match lifecycle.next.activity.blind {
        None => desired(kind, true, "AllSourcesSeen", ""),
        Some(_) => desired(kind, false, "SourceBlind", blind.join("; ")),
    })
}

fn undeliverable(decision: &InstanceDecision) -> Option<DesiredCondition> {
    let lifecycle = decision.lifecycle.as_ref()?;
    let mut newest_first = lifecycle.next.outbox.notices.iter().rev();
    let waiting = newest_first.find(|notice| {
        matches!(notice.delivery, Delivery::Waiting { .. }) && notice.error.is_some()
    })?;
    let error = waiting.error.clone().unwrap_or_default();
    let message = format!("after {}: {error}", attempts(waiting.attempts));
    Some(desired(condition::UNDELIVERABLE, true, "NobodyAccepts", message))
}

fn attempts(count: u32) -> String {
    match count {
        1 => "1 attempt".to_owned(),
        count => format!("{count} attempts"),
    }
}

fn checked(
    snapshot: &InstanceSnapshot,
    observed: &ObservedInstance,
    status: &InstanceStatus,
) -> Option<DesiredCondition> {
    snapshot.instance()?.spec.status_check.as_ref()?;
    let kind = condition::STATUS_CHECKED;
    if let Some(words) = observed.check.as_ref().and_then(|found| found.unclear.clone()) {
        return Some(desired(kind, false, "Unclear", words));
    }
    // Before the first answer there is nothing to say.
    let found = status.termination.as_ref().filter(|found| found.last_check_time.is_some())?;
    let misses = found.misses;
    if misses > 0 {
        let message = match misses {
            1 => "it missed the last check".to_owned(),
            misses => format!("it missed the last {misses} checks"),
        };
        return Some(desired(kind, true, "Missed", message));
    }
    let before = snapshot.instance()?.status.as_ref().map(|status| status.conditions.as_slice());
    let was = before.unwrap_or_default().iter().find(|one| one.type_ == kind);
    // Between two checks the last answer stands.
    match was {
        Some(was) if was.status == "False" && observed.check.is_none() => {
            Some(desired(kind, false, "Unclear", was.message.clone()))
        }
        _ => Some(desired(kind, true, "Answered", "")),
    }
}

fn submitted(status: &InstanceStatus, claims: &[Claim]) -> Option<DesiredCondition> {
    if status.submission.is_empty() {
        return None;
    }
    let kind = condition::SUBMITTED;
    let in_state = |wanted: SubmissionState| {
        status.submission.iter().find(|entry| entry.state == Some(wanted))
    };
    if let Some(failed) = in_state(SubmissionState::Failed) {
        let (name, error) = (&failed.environment, failed.error.as_deref().unwrap_or_default());
        let lost =
            status.claims.contains(name) && !claims.iter().any(|one| one.environment == *name);
        let reason = if lost { reason::CLAIM_MISSING } else { "Failed" };
        let message = match failed.attempts {
            0 => format!("{name} could not be handed in: {error}"),
            count => format!("{name} could not be handed in, after {}: {error}", attempts(count)),
        };
        return Some(desired(kind, false, reason, message));
    }
    if let Some(running) = in_state(SubmissionState::Running) {
        return Some(match running.error.as_deref() {
            Some(error) if running.attempts == 0 => {
                desired(kind, false, "NotStarted", retrying(running, error))
            }
            Some(error) => desired(kind, false, "Retrying", retrying(running, error)),
            None => desired(kind, false, "Running", ""),
        });
    }
    if in_state(SubmissionState::Waiting).is_some() {
        return Some(desired(kind, false, "Waiting", "it is handed in once it is off"));
    }
    let left_out = |wanted: SubmissionState| {
        let all = status.submission.iter().filter(|entry| entry.state == Some(wanted));
        let words = all.map(|entry| match &entry.error {
            Some(error) => format!("{}: {error}", entry.environment),
            None => entry.environment.clone(),
        });
        words.collect::<Vec<_>>().join("; ")
    };
    if in_state(SubmissionState::Waived).is_some() {
        return Some(desired(kind, false, "Waived", left_out(SubmissionState::Waived)));
    }
    let skipped = left_out(SubmissionState::Skipped);
    Some(match in_state(SubmissionState::Done) {
        None => desired(kind, false, "Skipped", skipped),
        Some(_) if skipped.is_empty() => desired(kind, true, "Done", ""),
        Some(_) => desired(kind, true, "DoneInPart", format!("left out: {skipped}")),
    })
}

/// How it stands with an upload that has failed and is tried again, or has not begun.
pub(super) fn retrying(entry: &SubmissionStatus, error: &str) -> String {
    if entry.attempts == 0 {
        return format!("{} is not being handed in yet: {error}", entry.environment);
    }
    let next = match &entry.retry_at {
        Some(at) => format!("tried again at {:.0}", at.0),
        None => "tried again now".to_owned(),
    };
    format!(
        "{} could not be handed in yet, after {}: {error}; {next}",
        entry.environment,
        attempts(entry.attempts)
    )
}

/// What keeps something from happening. A request that was not granted is shown before what still holds.
fn held(decision: &InstanceDecision) -> Option<DesiredCondition> {
    let lifecycle = decision.lifecycle.as_ref()?;
    let holds = |why: &Reason| {
        let (rank, reason) = match why {
            Reason::Paused => (0, "Paused"),
            Reason::ObserveOnly => (1, "ObserveOnly"),
            Reason::ClockAhead { .. } => (2, "ClockAhead"),
            Reason::KeepAllowanceUsedUp => (2, "KeepAllowanceUsedUp"),
            Reason::KeptUntil(_) => (3, "Kept"),
            Reason::OptedOut => (4, "OptedOut"),
            Reason::NamespaceLeaves => (5, "NamespaceLeaves"),
            Reason::SubmissionPending => (6, "SubmissionPending"),
            Reason::Ended { .. } => (7, "Ended"),
            _ => return None,
        };
        Some((rank, reason, why.to_string()))
    };
    let (_, reason, words) =
        lifecycle.why.iter().filter_map(holds).min_by_key(|(rank, ..)| *rank)?;
    Some(desired(condition::HELD, true, reason, words))
}

#[cfg(test)]
mod tests;
