//! The state of an Instance in its status, and out of it.

use jiff::Timestamp;
use sojourn_core::activity::Activity;
use sojourn_core::lab::{source, state as domain};
use sojourn_core::notice::NoticeId;

use crate::activity::{ReplicaActivities, mark_counted, read_replicas};
use crate::keep::KeepStatus;
use crate::lab::status::{
    ActivityStatus, EndReason, EndedStatus, ExpirationStatus, InstanceStatus, LifecycleStatus,
    NextAction, NextStatus, NoticeKind, ShadowStatus, Stage, StopReason, SubmissionCommands,
    SubmissionState, SubmissionStatus, TerminationStatus,
};
use crate::lab::template::ActivitySource;
use crate::limit::{self, MAX_INTEGER};
use crate::notice::{read_outbox, write_outbox};
use crate::time::{read, written};
use crate::wire_enum::same_variants;

/// Writes the parts of a status that are the state; the others stay as they are.
pub fn write_state(state: &domain::InstanceState, status: &mut InstanceStatus) {
    let domain::InstanceState {
        power,
        activity,
        ladder,
        expiration,
        termination,
        submissions,
        keep,
        ended,
        reopened,
        claims,
        outbox,
        shadow,
        upcoming,
    } = state;
    status.last_started_at = written(power.started_at);
    status.ready_at = written(power.ready_at);
    status.last_stopped_at = written(power.stopped_at);
    status.stop_reason = power.stop_reason.map(StopReason::from);
    let mut replicas = status.activity.take().map(|activity| activity.replicas).unwrap_or_default();
    mark_counted(&mut replicas);
    status.activity = unless_default(activity, write_activity);
    if !replicas.is_empty() {
        status.activity.get_or_insert_default().replicas = replicas;
    }
    status.lifecycle = Some(write_ladder(ladder));
    status.expiration = unless_default(expiration, write_expiration);
    status.termination = unless_default(termination, |termination| TerminationStatus {
        last_check_time: written(termination.last_check),
        answered_at: written(termination.answered),
        deadline: written(termination.deadline),
        misses: termination.misses,
    });
    status.submission = submissions.entries.iter().map(write_submission).collect();
    let commands = SubmissionCommands {
        requested: written(submissions.requested),
        retried: written(submissions.retried),
        waived: written(submissions.waived),
    };
    status.submission_commands = (commands != SubmissionCommands::default()).then_some(commands);
    status.keep = KeepStatus::of(keep);
    status.ended = ended.map(|ended| EndedStatus {
        at: written(Some(ended.at)),
        reason: Some(ended.reason.into()),
    });
    status.reopened = written(*reopened);
    status.claims.clone_from(claims);
    status.notices = write_outbox(outbox);
    status.shadow = shadow.as_deref().map(write_shadow);
    status.next = upcoming.as_ref().map(write_upcoming);
}

fn write_expiration(expiration: &domain::ExpirationState) -> ExpirationStatus {
    ExpirationStatus {
        expires_at: written(expiration.expires_at),
        last_notice: expiration.last_notice.as_ref().map(ToString::to_string),
        warned_at: written(expiration.warned_at),
        deadline: written(expiration.deadline),
    }
}

fn write_shadow(shadow: &domain::Shadow) -> ShadowStatus {
    let step = |step: &domain::ShadowStep| NextStatus {
        action: Some(step.action.into()),
        at: written(Some(step.at)),
        why: limit::truncated(&step.why),
    };
    ShadowStatus {
        running: shadow.running,
        stopped_at: written(shadow.stopped_at),
        stop_reason: shadow.stop_reason.map(StopReason::from),
        gone_at: written(shadow.gone_at),
        lifecycle: write_ladder(&shadow.ladder),
        expiration: write_expiration(&shadow.expiration),
        steps: shadow.steps.iter().map(step).collect(),
    }
}

fn read_shadow(wire: &ShadowStatus) -> domain::Shadow {
    let step = |step: &NextStatus| {
        let (action, at) = (step.action?.into(), read(step.at.as_ref())?);
        Some(domain::ShadowStep { action, at, why: step.why.clone() })
    };
    domain::Shadow {
        running: wire.running,
        stopped_at: read(wire.stopped_at.as_ref()),
        stop_reason: wire.stop_reason.map(Into::into),
        gone_at: read(wire.gone_at.as_ref()),
        ladder: read_ladder(&wire.lifecycle),
        expiration: read_expiration(&wire.expiration),
        steps: wire.steps.iter().filter_map(step).collect(),
    }
}

/// The state that a status holds. What is missing or makes no sense is as if it had never been
/// written: nothing is read as older, more often or more certain than it says. What comes next is
/// a forecast and is made anew by every decision; it is not read back.
pub fn read_state(status: Option<&InstanceStatus>) -> domain::InstanceState {
    let Some(status) = status else { return domain::InstanceState::default() };
    domain::InstanceState {
        power: domain::Power {
            started_at: read(status.last_started_at.as_ref()),
            ready_at: read(status.ready_at.as_ref()),
            stopped_at: read(status.last_stopped_at.as_ref()),
            stop_reason: status.stop_reason.map(domain::StopReason::from),
        },
        activity: status.activity.as_ref().map(read_activity).unwrap_or_default(),
        ladder: status.lifecycle.as_ref().map(read_ladder).unwrap_or_default(),
        expiration: status.expiration.as_ref().map(read_expiration).unwrap_or_default(),
        termination: status.termination.as_ref().map(read_termination).unwrap_or_default(),
        submissions: read_submissions(status),
        keep: status.keep.as_ref().map(KeepStatus::read).unwrap_or_default(),
        ended: read_ended(status),
        reopened: read(status.reopened.as_ref()),
        claims: read_claims(status),
        outbox: read_outbox(&status.notices),
        shadow: status.shadow.as_ref().map(read_shadow).map(Box::new),
        upcoming: None,
    }
}

fn unless_default<T: Default + PartialEq, W>(value: &T, write: impl FnOnce(&T) -> W) -> Option<W> {
    (*value != T::default()).then(|| write(value))
}

fn truncated(text: Option<&str>) -> Option<String> {
    text.map(limit::truncated)
}

fn write_activity(activity: &Activity) -> ActivityStatus {
    ActivityStatus {
        last: written(activity.last),
        source: activity.source.and_then(ActivitySource::of),
        count: activity.count.min(MAX_INTEGER),
        since: written(activity.since),
        blind: written(activity.blind),
        replicas: ReplicaActivities::new(),
    }
}

fn read_activity(wire: &ActivityStatus) -> Activity {
    let mut activity = Activity {
        last: read(wire.last.as_ref()),
        source: wire.source.map(Into::into),
        count: wire.count,
        since: read(wire.since.as_ref()),
        blind: read(wire.blind.as_ref()),
    };
    for replica in read_replicas(&wire.replicas, source::parse) {
        activity.merge_replica(&replica);
    }
    activity
}

fn write_ladder(ladder: &domain::Ladder) -> LifecycleStatus {
    LifecycleStatus {
        stage: Some(ladder.stage.into()),
        alerts_sent: ladder.alerts_sent,
        last_notice: ladder.last_notice.as_ref().map(ToString::to_string),
        warned_at: written(ladder.warned_at),
        deadline: written(ladder.deadline),
    }
}

fn read_ladder(wire: &LifecycleStatus) -> domain::Ladder {
    domain::Ladder {
        stage: wire.stage.map(domain::Stage::from).unwrap_or_default(),
        alerts_sent: wire.alerts_sent,
        last_notice: wire.last_notice.as_deref().map(NoticeId::stored),
        warned_at: read(wire.warned_at.as_ref()),
        deadline: read(wire.deadline.as_ref()),
    }
}

fn read_expiration(wire: &ExpirationStatus) -> domain::ExpirationState {
    domain::ExpirationState {
        expires_at: read(wire.expires_at.as_ref()),
        last_notice: wire.last_notice.as_deref().map(NoticeId::stored),
        warned_at: read(wire.warned_at.as_ref()),
        deadline: read(wire.deadline.as_ref()),
    }
}

fn read_termination(wire: &TerminationStatus) -> domain::TerminationState {
    domain::TerminationState {
        last_check: read(wire.last_check_time.as_ref()),
        answered: read(wire.answered_at.as_ref()),
        deadline: read(wire.deadline.as_ref()),
        misses: wire.misses,
    }
}

/// An end of which not everything can be read is an end all the same: nothing is started on a doubt.
/// What was terminated before ends were written down has ended, too.
fn read_ended(status: &InstanceStatus) -> Option<domain::Ended> {
    let stopped = read(status.last_stopped_at.as_ref()).unwrap_or(Timestamp::UNIX_EPOCH);
    let terminated = domain::Ended { at: stopped, reason: domain::EndReason::Terminated };
    match &status.ended {
        Some(wire) => Some(domain::Ended {
            at: read(wire.at.as_ref()).unwrap_or(stopped),
            reason: wire.reason.map_or(domain::EndReason::Terminated, Into::into),
        }),
        None => (status.stop_reason == Some(StopReason::Terminated) && status.reopened.is_none())
            .then_some(terminated),
    }
}

/// Claims were once written down with their environments alone.
fn read_claims(status: &InstanceStatus) -> Vec<String> {
    let mut claims = status.claims.clone();
    for environment in status.environments.iter().filter(|one| one.claim.is_some()) {
        if !claims.contains(&environment.name) {
            claims.push(environment.name.clone());
        }
    }
    claims
}

fn write_submission(entry: &domain::SubmissionEntry) -> SubmissionStatus {
    SubmissionStatus {
        environment: entry.environment.clone(),
        state: Some(entry.state.into()),
        series: entry.series,
        asked_at: written(entry.asked_at),
        of_earlier_start: entry.earlier,
        attempts: entry.attempts,
        retry_at: written(entry.retry_at),
        size: entry.size.map(|size| size.min(MAX_INTEGER)),
        sha256: truncated(entry.sha256.as_deref()),
        receipt: truncated(entry.receipt.as_deref()),
        submitted_at: written(entry.submitted_at),
        error: truncated(entry.error.as_deref()),
    }
}

fn read_submissions(status: &InstanceStatus) -> domain::Submissions {
    let commands = status.submission_commands.clone().unwrap_or_default();
    domain::Submissions {
        entries: status
            .submission
            .iter()
            .filter_map(|entry| read_submission(entry, status))
            .collect(),
        requested: read(commands.requested.as_ref()),
        retried: read(commands.retried.as_ref()),
        waived: read(commands.waived.as_ref()),
    }
}

/// An entry without an environment is nobody's. One without a state begins anew: its Job, if there
/// is one, is found, and the same idempotency key keeps it from being handed in twice.
fn read_submission(
    wire: &SubmissionStatus,
    status: &InstanceStatus,
) -> Option<domain::SubmissionEntry> {
    if wire.environment.is_empty() {
        return None;
    }
    let submitted_at = read(wire.submitted_at.as_ref());
    // Written before it was written down when it was asked for: what was handed in before the last
    // start is of an earlier one.
    let started_at = read(status.last_started_at.as_ref());
    let before = wire.asked_at.is_none() && submitted_at.is_some() && submitted_at < started_at;
    Some(domain::SubmissionEntry {
        environment: wire.environment.clone(),
        state: wire.state.map_or(domain::SubmissionState::Waiting, Into::into),
        series: wire.series,
        asked_at: read(wire.asked_at.as_ref()),
        earlier: wire.of_earlier_start || before,
        attempts: wire.attempts,
        retry_at: read(wire.retry_at.as_ref()),
        size: wire.size,
        sha256: wire.sha256.clone(),
        receipt: wire.receipt.clone(),
        submitted_at,
        error: wire.error.clone(),
    })
}

fn write_upcoming(upcoming: &domain::UpcomingAction) -> NextStatus {
    NextStatus {
        action: Some(upcoming.action.into()),
        at: written(upcoming.at),
        why: upcoming.why.to_string(),
    }
}

same_variants!(StopReason, domain::StopReason, User, Inactivity, Terminated, Expired);
same_variants!(EndReason, domain::EndReason, Terminated, Expired, Unused);
same_variants!(
    Stage,
    domain::Stage,
    Active,
    Idle,
    Warned,
    Grace,
    Stopped,
    DestroyWarned,
    DestroyGrace
);
same_variants!(
    SubmissionState,
    domain::SubmissionState,
    Waiting,
    Running,
    Done,
    Failed,
    Waived,
    Skipped
);
same_variants!(
    NoticeKind,
    domain::NoticeKind,
    InactivityWarning,
    Stopped,
    DeletionWarning,
    Deleted,
    ExpiryWarning,
    Expired,
    SubmissionFailed
);
same_variants!(NextAction, domain::Action, Warn, Stop, Delete, Check, Submit);

#[cfg(test)]
mod tests;
