//! What is worth an Event: the differences between two statuses that somebody cares about.

use sojourn_api::lab::status::{InstanceStatus, Phase, Stage, SubmissionState};
use sojourn_api::name::lab::{condition, reason};

use crate::event::Severity;

/// One thing that happened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Transition {
    pub(super) severity: Severity,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

fn normal(reason: &'static str, message: impl Into<String>) -> Transition {
    Transition { severity: Severity::Normal, reason, message: message.into() }
}

fn warning(reason: &'static str, message: impl Into<String>) -> Transition {
    Transition { severity: Severity::Warning, reason, message: message.into() }
}

pub(super) fn transitions(before: &InstanceStatus, now: &InstanceStatus) -> Vec<Transition> {
    let mut all = Vec::new();
    if before.phase != now.phase {
        all.extend(now.phase.and_then(|phase| entered(phase, now)));
    }
    if before.stop_reason != now.stop_reason
        && let Some(why) = now.stop_reason
    {
        all.push(normal("Stopping", format!("It is being stopped: {why:?}")));
    }
    let stage = |status: &InstanceStatus| {
        status.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stage).unwrap_or_default()
    };
    let (was, is) = (stage(before), stage(now));
    if was != is && is == Stage::Idle {
        all.push(normal("Idle", "Nobody has used it for its whole term"));
    }
    if matches!(was, Stage::Idle | Stage::Warned | Stage::Grace) && is == Stage::Active {
        all.push(normal("ActiveAgain", "It is used again, or kept; what was announced is void"));
    }
    all.extend(submissions(before, now));
    all.extend(conditions(before, now));
    all
}

fn entered(phase: Phase, now: &InstanceStatus) -> Option<Transition> {
    match phase {
        Phase::Ready => {
            let url = now.url.as_deref().map(|url| format!(" at {url}")).unwrap_or_default();
            Some(normal("Ready", format!("Everything runs{url}")))
        }
        Phase::Off => Some(normal("Off", "Nothing of it runs any more")),
        Phase::Failed => {
            let message = now.environments.iter().find_map(|one| one.message.clone());
            Some(warning("Failed", message.unwrap_or_else(|| "It does not run".to_owned())))
        }
        Phase::Pending | Phase::Starting | Phase::Stopping => None,
    }
}

fn submissions(before: &InstanceStatus, now: &InstanceStatus) -> Vec<Transition> {
    let mut all = Vec::new();
    for entry in &now.submission {
        let was = before.submission.iter().find(|one| one.environment == entry.environment);
        if was.and_then(|was| was.state) == entry.state {
            continue;
        }
        let name = &entry.environment;
        match entry.state {
            Some(SubmissionState::Done) => {
                let receipt = entry.receipt.clone().unwrap_or_default();
                all.push(normal("Submitted", format!("{name} was handed in; {receipt}")));
            }
            Some(SubmissionState::Failed) => {
                let error = entry.error.clone().unwrap_or_default();
                all.push(warning("SubmissionFailed", format!("{name}: {error}")));
            }
            Some(SubmissionState::Waived) => {
                all.push(warning("SubmissionWaived", format!("{name} need not be handed in")));
            }
            Some(SubmissionState::Running) => {
                all.push(normal("Submitting", format!("{name} is being handed in")));
            }
            Some(SubmissionState::Waiting | SubmissionState::Skipped) | None => {}
        }
    }
    all
}

/// What turned bad, in the condition's own words.
fn conditions(before: &InstanceStatus, now: &InstanceStatus) -> Vec<Transition> {
    let mut all = Vec::new();
    for condition in &now.conditions {
        let was = before.conditions.iter().find(|one| one.type_ == condition.type_);
        let same = was.is_some_and(|was| was.status == condition.status && was.reason == condition.reason);
        if same {
            continue;
        }
        let bad = match condition.type_.as_str() {
            condition::ACCEPTED | condition::ACTIVITY_KNOWN | condition::STATUS_CHECKED => "False",
            condition::UNDELIVERABLE => "True",
            _ => continue,
        };
        if condition.status == bad {
            let reason = [
                reason::INVALID,
                reason::TEMPLATE_MISSING,
                reason::TENANT_MISSING,
                reason::CONFIGURATION_INVALID,
                "SourceBlind",
                "NothingObserves",
                "NobodyAccepts",
                "Unclear",
            ];
            let reason = reason.into_iter().find(|known| *known == condition.reason);
            all.push(warning(reason.unwrap_or("Problem"), condition.message.clone()));
        }
    }
    all
}
