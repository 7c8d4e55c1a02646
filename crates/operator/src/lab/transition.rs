//! Which changes of the status are published as Events.

use sojourn_api::lab::status::{
    EndReason, InstanceStatus, NoticeState, NoticeStatus, Phase, Stage, StopReason, SubmissionState,
};
use sojourn_api::name::lab::{condition, reason};

use super::condition::{LAST_USE_LOST, retrying};
use crate::event::{Transition, normal, warning};

pub(super) fn transitions(before: &InstanceStatus, now: &InstanceStatus) -> Vec<Transition> {
    let mut all = Vec::new();
    // An Instance that was created stopped never ran, so nobody stopped it.
    let has_run = now.last_started_at.is_some();
    if before.phase != now.phase {
        all.extend(now.phase.and_then(|phase| entered(phase, has_run, now)));
    }
    if before.stop_reason != now.stop_reason
        && has_run
        && let Some(why) = now.stop_reason
    {
        all.push(normal("Stopping", stopping(why)));
    }
    let stage = |status: &InstanceStatus| {
        status.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stage).unwrap_or_default()
    };
    let (was, is) = (stage(before), stage(now));
    if was != is && is == Stage::Idle {
        all.push(normal("Idle", "Nobody has used it for as long as its Template allows"));
    }
    if matches!(was, Stage::Idle | Stage::Warned | Stage::Grace) && is == Stage::Active {
        all.push(normal("ActiveAgain", active_again(before, now)));
    }
    all.extend(ended(before, now));
    all.extend(submissions(before, now));
    all.extend(given_up(before, now));
    all.extend(conditions(before, now));
    all
}

fn ended(before: &InstanceStatus, now: &InstanceStatus) -> Option<Transition> {
    match (&before.ended, &now.ended) {
        (None, Some(ended)) => Some(normal(
            "Ended",
            match ended.reason {
                Some(EndReason::Expired) => {
                    "Its lifespan is over; it is deleted once its data is handed in"
                }
                Some(EndReason::Unused) => {
                    "Nobody came back to it; it is deleted once its data is handed in"
                }
                Some(EndReason::Terminated) | None => {
                    "It has ended, and is started again only if somebody reopens it"
                }
            },
        )),
        (Some(_), None) => {
            Some(warning("Reopened", "Somebody took its end back; it can be started"))
        }
        (None, None) | (Some(_), Some(_)) => None,
    }
}

const fn stopping(why: StopReason) -> &'static str {
    match why {
        StopReason::User => "Somebody asked for it to be stopped",
        StopReason::Inactivity => "It is being stopped, because nobody uses it",
        StopReason::Terminated => {
            "It is being stopped, because its status check says that it has ended"
        }
        StopReason::Expired => {
            "It is being stopped, because its lifespan is over: its data is handed in before it is deleted"
        }
    }
}

/// What took it off the way to its stop.
fn active_again(before: &InstanceStatus, now: &InstanceStatus) -> String {
    let used = |status: &InstanceStatus| status.activity.as_ref().and_then(|one| one.last.clone());
    let kept = |status: &InstanceStatus| status.keep.as_ref().and_then(|keep| keep.until.clone());
    let why = match kept(now) {
        Some(until) if kept(before).as_ref() != Some(&until) => {
            format!("It is kept until {:.0}", until.0)
        }
        _ if used(now) != used(before) => "It is used again".to_owned(),
        _ => "It is left alone for now".to_owned(),
    };
    format!("{why}; what was announced does not hold any more")
}

fn entered(phase: Phase, has_run: bool, now: &InstanceStatus) -> Option<Transition> {
    match phase {
        Phase::Ready => {
            let url = now.url.as_deref().map(|url| format!(" at {url}")).unwrap_or_default();
            Some(normal("Ready", format!("Everything runs{url}")))
        }
        Phase::Off => has_run.then(|| normal("Off", "Nothing of it runs any more")),
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
            let failed = was.is_some_and(|was| entry.attempts > was.attempts);
            let news = failed || was.is_some_and(|was| entry.error != was.error);
            let running = entry.state == Some(SubmissionState::Running);
            if let Some(error) = entry.error.as_deref().filter(|_| news && running) {
                let begun = entry.attempts > 0;
                let reason = if begun { "SubmissionRetrying" } else { "SubmissionNotStarted" };
                all.push(warning(reason, retrying(entry, error)));
            }
            continue;
        }
        let name = &entry.environment;
        match entry.state {
            Some(SubmissionState::Done) => {
                let receipt = entry.receipt.as_ref().filter(|receipt| !receipt.is_empty());
                let receipt = receipt.map(|text| format!("; the receipt says: {text}"));
                let message = format!("{name} was handed in{}", receipt.unwrap_or_default());
                all.push(normal("Submitted", message));
            }
            Some(SubmissionState::Failed) => {
                let error = entry.error.clone().unwrap_or_default();
                let message = format!("{name} could not be handed in: {error}");
                all.push(warning("SubmissionFailed", message));
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

/// Notices that nobody accepted and that are not tried any more.
fn given_up<'a>(
    before: &'a InstanceStatus,
    now: &'a InstanceStatus,
) -> impl Iterator<Item = Transition> + 'a {
    let is_news = |notice: &&NoticeStatus| {
        let was = before.notices.iter().find(|one| one.id == notice.id);
        notice.state == Some(NoticeState::Waived)
            && was.is_some_and(|was| was.state == Some(NoticeState::Waiting))
    };
    now.notices.iter().filter(is_news).filter_map(|notice| {
        let error = notice.error.as_ref()?;
        let message = format!("Nobody accepted a notice to its owner; it is given up: {error}");
        Some(warning("NoticeGivenUp", message))
    })
}

/// What turned bad, in the condition's own words.
fn conditions(before: &InstanceStatus, now: &InstanceStatus) -> Vec<Transition> {
    let mut all = Vec::new();
    for condition in &now.conditions {
        let was = before.conditions.iter().find(|one| one.type_ == condition.type_);
        let same =
            was.is_some_and(|was| was.status == condition.status && was.reason == condition.reason);
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
                reason::NAME_TAKEN,
                "SourceBlind",
                "NothingObserves",
                LAST_USE_LOST,
                "NobodyAccepts",
                "Unclear",
            ];
            let reason = reason.into_iter().find(|known| *known == condition.reason);
            all.push(warning(reason.unwrap_or("Problem"), condition.message.clone()));
        }
    }
    all
}

#[cfg(test)]
mod tests;
