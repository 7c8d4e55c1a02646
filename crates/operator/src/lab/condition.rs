//! The conditions of an Instance: what people look at first when something is not as they expect.

use sojourn_api::lab::status::{InstanceStatus, Phase, SubmissionState, SubmissionStatus};
use sojourn_api::name::lab::{condition, reason};
use sojourn_core::lab::reason::Reason;
use sojourn_core::notice::Delivery;

use super::arrange::in_the_way;
use super::observe::Sight;
use super::reconcile::{Lab, LabError, Verdict};
use super::subject::Subject;
use crate::condition::{Told, told};

/// Its last use is on record and cannot be read.
pub(super) const LAST_USE_LOST: &str = "LastUseLost";

pub(super) fn conditions(
    lab: &Lab,
    subject: &Subject,
    sight: &Sight,
    verdict: &Verdict,
    executed: &Result<(), LabError>,
    status: &InstanceStatus,
) -> Vec<Told> {
    let problem = problem(lab.config.problem(), lab.parts.problem());
    let taken = match executed {
        Err(error @ (LabError::Taken { .. } | LabError::Missing { .. })) => Some(error.to_string()),
        Ok(()) | Err(_) => in_the_way(&lab.world, subject),
    };
    let mut all = vec![accepted(subject, taken, problem), ready(status)];
    all.extend(activity(subject, sight, verdict));
    all.extend(undeliverable(verdict));
    all.extend(checked(subject, sight, status));
    all.extend(submitted(status));
    all.extend(held(verdict));
    all
}

/// What is wrong with the configuration: it is bad, and the one before it holds, or what it names cannot
/// be used, and nothing stands in for it.
fn problem(bad: Option<String>, unusable: Option<String>) -> Option<String> {
    let bad = bad.map(|words| format!("the last good configuration is in force: {words}"));
    bad.or_else(|| Some(format!("what the configuration names cannot be used: {}", unusable?)))
}

fn accepted(subject: &Subject, taken: Option<String>, configuration: Option<String>) -> Told {
    let kind = condition::ACCEPTED;
    let Some(instance) = subject.instance() else {
        return told(kind, false, reason::INVALID, "it cannot be read");
    };
    if let Err(problem) = &subject.intent {
        return told(kind, false, reason::INVALID, problem.clone());
    }
    if subject.template().is_none() {
        let template = super::world::template_key(instance);
        let message = format!(
            "there is no Template {template}; what runs goes on, and nothing of it is made anew until there is one"
        );
        return told(kind, false, reason::TEMPLATE_MISSING, message);
    }
    if let Some(words) = taken {
        let message =
            format!("{words}; rename or delete it, or make the Instance under another name");
        return told(kind, false, reason::NAME_TAKEN, message);
    }
    if subject.tenant().is_none() {
        let tenant = &instance.spec.tenant.name;
        let message = format!("there is no Tenant {tenant}; nobody can be told until there is");
        return told(kind, false, reason::TENANT_MISSING, message);
    }
    if let Some(message) = configuration {
        return told(kind, false, reason::CONFIGURATION_INVALID, message);
    }
    told(kind, true, reason::VALID, "")
}

fn ready(status: &InstanceStatus) -> Told {
    let phase = status.phase.unwrap_or_default();
    let message = status.environments.iter().find_map(|environment| {
        let message = environment.message.as_ref()?;
        Some(format!("{}: {message}", environment.name))
    });
    told(condition::READY, phase == Phase::Ready, phase.as_str(), message.unwrap_or_default())
}

fn activity(subject: &Subject, sight: &Sight, verdict: &Verdict) -> Option<Told> {
    let decision = verdict.lifecycle.as_ref()?;
    if !subject.intent.as_ref().is_ok_and(|intent| intent.running) {
        return None;
    }
    let kind = condition::ACTIVITY_KNOWN;
    if subject.required.is_empty() {
        return Some(told(kind, false, "NothingObserves", "no source of activity is configured"));
    }
    if subject.state.activity.is_lost() {
        return Some(told(kind, false, LAST_USE_LOST, Reason::LastUseLost.to_string()));
    }
    // Nobody was asked yet: that is no source that cannot see.
    let young = subject.config.activity_interval.saturating_mul(2);
    let created = subject.intent.as_ref().map_or(verdict.now, |intent| intent.created_at);
    let unasked = subject.required.iter().all(|source| sight.book.trouble(*source).is_none());
    let since_creation = decision.next.activity.blind.is_some_and(|since| since <= created);
    if since_creation && unasked && verdict.now.duration_since(created) < young {
        return None;
    }
    let blind: Vec<String> = subject
        .required
        .iter()
        .filter(|source| sight.book.coverage(**source).blind_since(verdict.now).is_some())
        .map(|source| match sight.book.trouble(*source) {
            Some(trouble) => format!("{source}: {trouble}"),
            None => format!("{source} was not seen"),
        })
        .collect();
    Some(match decision.next.activity.blind {
        None => told(kind, true, "AllSourcesSeen", ""),
        Some(_) => told(kind, false, "SourceBlind", blind.join("; ")),
    })
}

fn undeliverable(verdict: &Verdict) -> Option<Told> {
    let decision = verdict.lifecycle.as_ref()?;
    let mut newest_first = decision.next.outbox.notices.iter().rev();
    let waiting = newest_first.find(|notice| {
        matches!(notice.delivery, Delivery::Waiting { .. }) && notice.error.is_some()
    })?;
    let error = waiting.error.clone().unwrap_or_default();
    let message = format!("after {}: {error}", attempts(waiting.attempts));
    Some(told(condition::UNDELIVERABLE, true, "NobodyAccepts", message))
}

fn attempts(count: u32) -> String {
    match count {
        1 => "1 attempt".to_owned(),
        count => format!("{count} attempts"),
    }
}

fn checked(subject: &Subject, sight: &Sight, status: &InstanceStatus) -> Option<Told> {
    subject.instance()?.spec.status_check.as_ref()?;
    let kind = condition::STATUS_CHECKED;
    if let Some(words) = sight.check.as_ref().and_then(|found| found.unclear.clone()) {
        return Some(told(kind, false, "Unclear", words));
    }
    // Before the first answer there is nothing to say.
    let found = status.termination.as_ref().filter(|found| found.last_check_time.is_some())?;
    let misses = found.misses;
    if misses > 0 {
        let message = match misses {
            1 => "it missed the last check".to_owned(),
            misses => format!("it missed the last {misses} checks"),
        };
        return Some(told(kind, true, "Missed", message));
    }
    let before = subject.instance()?.status.as_ref().map(|status| status.conditions.as_slice());
    let was = before.unwrap_or_default().iter().find(|one| one.type_ == kind);
    // Between two checks the last answer stands.
    match was {
        Some(was) if was.status == "False" && sight.check.is_none() => {
            Some(told(kind, false, "Unclear", was.message.clone()))
        }
        _ => Some(told(kind, true, "Answered", "")),
    }
}

fn submitted(status: &InstanceStatus) -> Option<Told> {
    if status.submission.is_empty() {
        return None;
    }
    let kind = condition::SUBMITTED;
    let in_state = |wanted: SubmissionState| {
        status.submission.iter().find(|entry| entry.state == Some(wanted))
    };
    if let Some(failed) = in_state(SubmissionState::Failed) {
        let error = failed.error.clone().unwrap_or_default();
        let message = format!(
            "{} could not be handed in, after {}: {error}",
            failed.environment,
            attempts(failed.attempts)
        );
        return Some(told(kind, false, "Failed", message));
    }
    if let Some(running) = in_state(SubmissionState::Running) {
        return Some(match running.error.as_deref().filter(|_| running.attempts > 0) {
            Some(error) => told(kind, false, "Retrying", retrying(running, error)),
            None => told(kind, false, "Running", ""),
        });
    }
    if in_state(SubmissionState::Waiting).is_some() {
        return Some(told(kind, false, "Waiting", "it is handed in once it is off"));
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
        return Some(told(kind, false, "Waived", left_out(SubmissionState::Waived)));
    }
    let skipped = left_out(SubmissionState::Skipped);
    Some(match in_state(SubmissionState::Done) {
        None => told(kind, false, "Skipped", skipped),
        Some(_) if skipped.is_empty() => told(kind, true, "Done", ""),
        Some(_) => told(kind, true, "DoneInPart", format!("left out: {skipped}")),
    })
}

/// How it stands with an upload that has failed and is tried again.
pub(super) fn retrying(entry: &SubmissionStatus, error: &str) -> String {
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

/// What keeps something from happening. A wish that was not granted is said before what still holds.
fn held(verdict: &Verdict) -> Option<Told> {
    let decision = verdict.lifecycle.as_ref()?;
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
        decision.why.iter().filter_map(holds).min_by_key(|(rank, ..)| *rank)?;
    Some(told(condition::HELD, true, reason, words))
}

#[cfg(test)]
mod tests;
