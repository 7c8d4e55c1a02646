//! Why and until when a whole Pod is stopped, and in which order its containers go.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodSpec, PodStatus};

use super::history::{Member, Role};
use super::moment::after;
use super::phase::Phase;
use super::{Action, NodeTermination, PodObservation};

/// What the API server fills in where a Pod says nothing.
const DEFAULT_GRACE: i64 = 30;
/// Whoever is stopped has at least this long between SIGTERM and SIGKILL.
const MIN_GRACE: i64 = 2;

/// A Pod that is being stopped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopping<'a> {
    /// One deadline for all: the earliest of whatever wants it stopped.
    pub(super) deadline: Timestamp,
    /// What its failure is put down to, unless its own containers decide.
    pub(super) cause: Option<StopCause<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum StopCause<'a> {
    Ended(&'a NodeTermination),
    /// `activeDeadlineSeconds` have passed.
    DeadlineExceeded,
}

pub(super) fn stopping<'a>(
    observation: &'a PodObservation<'_>,
    spec: &PodSpec,
    published: &PodStatus,
    members: &[Member<'_>],
    now: Timestamp,
) -> Option<Stopping<'a>> {
    let grace = grace(spec);
    let finished = finished(members);
    let was_over_by = |moment| finished.is_some_and(|finished| finished <= moment);

    let node_termination = observation
        .node_termination
        .filter(|node_termination| !was_over_by(node_termination.since));
    let expired = active_deadline(spec, published)
        .filter(|deadline| *deadline <= now && !was_over_by(*deadline));
    let cause = match (node_termination, expired) {
        (Some(node_termination), Some(expired)) if expired < node_termination.since => {
            Some(StopCause::DeadlineExceeded)
        }
        (Some(node_termination), _) => Some(StopCause::Ended(node_termination)),
        (None, Some(_)) => Some(StopCause::DeadlineExceeded),
        (None, None) => None,
    };
    let deadlines = [
        deletion_deadline(observation),
        node_termination.map(|node_termination| {
            after(node_termination.since, at_least(node_termination.grace.unwrap_or(grace)))
        }),
        expired.map(|expired| after(expired, at_least(grace))),
        finished.map(|finished| after(finished, at_least(grace))),
        // Somebody else declared it ended and nobody knows when.
        Phase::of(published).is_terminal().then(|| after(now, at_least(grace))),
    ];
    let deadline = deadlines.into_iter().flatten().min()?;
    Some(Stopping { deadline, cause })
}

/// When the Pod came to its end by itself: an init container failed for good, or every main one is
/// done.
fn finished(members: &[Member<'_>]) -> Option<Timestamp> {
    let end = |member: &Member<'_>| member.outcome().map(|outcome| outcome.finished_at);
    let failed = members
        .iter()
        .find(|member| member.role == Role::Init && member.is_over() && !member.succeeded());
    if let Some(failed) = failed {
        return end(failed);
    }
    let mut mains = members.iter().filter(|member| member.role == Role::Main).peekable();
    mains.peek()?;
    mains.try_fold(Timestamp::MIN, |latest, main| {
        main.is_over().then(|| end(main)).flatten().map(|end| latest.max(end))
    })
}

/// When `activeDeadlineSeconds` are over.
fn active_deadline(spec: &PodSpec, status: &PodStatus) -> Option<Timestamp> {
    let start = status.start_time.as_ref()?.0;
    Some(after(start, spec.active_deadline_seconds?))
}

/// `deletionTimestamp` is when the grace is over, not when somebody asked.
fn deletion_deadline(observation: &PodObservation<'_>) -> Option<Timestamp> {
    let meta = &observation.pod.metadata;
    let over = meta.deletion_timestamp.as_ref()?.0;
    let grace = meta.deletion_grace_period_seconds.unwrap_or_default().max(0);
    // The API cuts the time to whole seconds; what was promised is given in full.
    let cut = i64::from(grace > 0);
    Some(after(over, at_least(grace).saturating_sub(grace).saturating_add(cut)))
}

pub(super) fn grace(spec: &PodSpec) -> i64 {
    spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE)
}

pub(super) fn at_least(grace: i64) -> i64 {
    grace.max(MIN_GRACE)
}

/// Stops what runs: sidecars after the main containers, the last of the list first, each when its
/// turn has come or the common deadline has passed. With it, when to look again.
pub(super) fn stops(
    members: &[Member<'_>],
    deadline: Timestamp,
    now: Timestamp,
) -> (Vec<Action>, Option<Timestamp>) {
    let mut actions = Vec::new();
    let mut wake = None;
    // When the last of those that go before ended; `None` while one of them runs.
    let mut cleared = Some(Timestamp::MIN);
    for member in members.iter().filter(|member| member.role != Role::Sidecar) {
        actions.extend(stop(member, deadline));
        if member.role == Role::Main {
            cleared = later_end(cleared, member);
        }
    }
    for sidecar in members.iter().rev().filter(|member| member.role == Role::Sidecar) {
        if sidecar.running().is_some() {
            let start_state = cleared.map_or(deadline, |cleared| cleared.min(deadline));
            if cleared.is_some() || deadline <= now {
                actions.extend(stop(sidecar, deadline.max(after(start_state, MIN_GRACE))));
            } else {
                wake = Some(deadline);
            }
        }
        cleared = later_end(cleared, sidecar);
    }
    (actions, wake)
}

fn later_end(cleared: Option<Timestamp>, member: &Member<'_>) -> Option<Timestamp> {
    let cleared = cleared?;
    if member.running().is_some() {
        return None;
    }
    Some(member.outcome().map_or(cleared, |outcome| cleared.max(outcome.finished_at)))
}

fn stop(member: &Member<'_>, deadline: Timestamp) -> Option<Action> {
    let (attempt, _) = member.running()?;
    let container = member.name().to_owned();
    let why = format!("Stopping container {container}");
    Some(Action::Stop { container, attempt, deadline, why })
}
