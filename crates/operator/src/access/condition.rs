//! The conditions of a session: what people look at first when something is not as they expect.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sojourn_api::access::condition::{
    ACCEPTED, ACTIVE, ACTIVITY_SOURCE_HEALTHY, APPROVED, IDLE, IDLE_TIMEOUT, NEVER_USED, RECORDED,
    UNDELIVERABLE,
};
use sojourn_api::access::status::{BreakglassSessionStatus, State as WireState};
use sojourn_core::access::session::{ReasonEnded, SessionState, State};
use sojourn_core::notice::Delivery;

use super::coverage::SOURCE;
use super::observe::ObservedSession;
use super::reconcile::{Access, DecidedSession};
use super::snapshot::SessionSnapshot;
use crate::condition::{DesiredCondition, desired};

/// The state that has been told.
pub(super) fn recorded_state(status: &BreakglassSessionStatus) -> Option<WireState> {
    let is_recorded = |one: &&Condition| one.type_ == RECORDED;
    let told = status.conditions.iter().find(is_recorded)?;
    State::ALL.into_iter().find(|state| state.as_str() == told.reason).map(WireState::from)
}

pub(super) fn conditions(
    access: &Access,
    snapshot: &SessionSnapshot,
    observed: &ObservedSession,
    decided: &DecidedSession,
) -> Vec<DesiredCondition> {
    let mut all = vec![accepted(access, snapshot)];
    // What is on record has been told by now; what is about to be written has not.
    all.extend(snapshot.state.state.map(|state| desired(RECORDED, true, state.as_str(), "")));
    let Some(decision) = &decided.decision else {
        all.extend(kept(snapshot));
        return all;
    };
    let (state, usage) = &decision.next;
    all.push(approved(state));
    all.push(active(state));
    all.extend(idle(state, usage.last_use().is_some()));
    all.extend(source(access, snapshot, observed, decided, state));
    all.extend(undeliverable(state));
    all
}

fn accepted(access: &Access, snapshot: &SessionSnapshot) -> DesiredCondition {
    if let Err(problem) = &snapshot.session {
        return desired(ACCEPTED, false, "Invalid", problem.clone());
    }
    let problem = access.config.problem().or_else(|| access.drivers.problem());
    match problem {
        Some(problem) => desired(ACCEPTED, false, "ConfigurationInvalid", problem),
        None => desired(ACCEPTED, true, "Valid", ""),
    }
}

/// Of a session about which nothing can be decided, everything else stays as it was.
fn kept(snapshot: &SessionSnapshot) -> Vec<DesiredCondition> {
    let status = snapshot.object.status.as_ref();
    let before = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let kinds = [APPROVED, ACTIVE, IDLE];
    let reasons = [IDLE_TIMEOUT, NEVER_USED, "InUse", "NotUsedYet"];
    let known = State::ALL.map(State::as_str);
    let reason_of = |was: &Condition| {
        reasons.into_iter().chain(known).find(|known| *known == was.reason).unwrap_or("Kept")
    };
    let keep = |kind: &'static str| {
        let was = before.iter().find(|one| one.type_ == kind)?;
        Some(desired(kind, was.status == "True", reason_of(was), was.message.clone()))
    };
    kinds.into_iter().filter_map(keep).collect()
}

fn approved(state: &SessionState) -> DesiredCondition {
    let names: Vec<&str> = state.approvals.iter().map(|approval| approval.user.as_str()).collect();
    let by = if names.is_empty() { String::new() } else { format!("by {}", names.join(", ")) };
    match state.approved_at {
        Some(_) => desired(APPROVED, true, "Approved", by),
        None => desired(APPROVED, false, state_name(state), by),
    }
}

fn active(state: &SessionState) -> DesiredCondition {
    let message = match (&state.ended_by, &state.ended_because) {
        (Some(by), Some(because)) => format!("{by}: {because}"),
        (Some(by), None) => by.clone(),
        (None, _) => String::new(),
    };
    desired(ACTIVE, state.state == Some(State::Approved), state_name(state), message)
}

fn state_name(state: &SessionState) -> &'static str {
    state.state.unwrap_or(State::Pending).as_str()
}

fn idle(state: &SessionState, used: bool) -> Option<DesiredCondition> {
    match state.state? {
        State::Approved if used => Some(desired(IDLE, false, "InUse", "")),
        State::Approved => Some(desired(IDLE, false, "NotUsedYet", "")),
        State::IdleExpired => {
            let reason = match state.reason_ended {
                Some(ReasonEnded::NeverUsed) => NEVER_USED,
                _ => IDLE_TIMEOUT,
            };
            let message = state.idle_deadline.map(|at| format!("not used until {at:.0}"));
            Some(desired(IDLE, true, reason, message.unwrap_or_default()))
        }
        State::Pending
        | State::WaitingForScheduledTime
        | State::Rejected
        | State::Withdrawn
        | State::Expired
        | State::ApprovalTimeout => None,
    }
}

/// Whether its use would be seen on its cluster, while it has any.
fn source(
    access: &Access,
    snapshot: &SessionSnapshot,
    observed: &ObservedSession,
    decided: &DecidedSession,
    state: &SessionState,
) -> Option<DesiredCondition> {
    if state.state != Some(State::Approved) {
        return None;
    }
    let Some(since) = observed.coverage.blind_since(decided.now) else {
        return Some(desired(ACTIVITY_SOURCE_HEALTHY, true, "CanariesReturn", ""));
    };
    let since = since.max(state.activated_at.unwrap_or(since));
    let why = trouble(access, snapshot).map(|why| format!(": {why}")).unwrap_or_default();
    let message = format!("uses are not seen since {since:.0}, and that time does not count{why}");
    Some(desired(ACTIVITY_SOURCE_HEALTHY, false, "CanariesMissing", message))
}

/// Why use of it would not be seen: the last canary of its cluster, or that none can be sent there.
fn trouble(access: &Access, snapshot: &SessionSnapshot) -> Option<String> {
    let cluster = &snapshot.object.spec.cluster;
    let is_own = snapshot.config.is_own_cluster(cluster);
    let coverage = access.coverage.read(cluster, is_own);
    let of_canary = coverage.trouble(SOURCE).map(ToOwned::to_owned);
    let of_cluster = || access.clusters.client(cluster).err().map(|problem| problem.to_string());
    of_canary.or_else(|| of_cluster().filter(|_| !is_own))
}

fn undeliverable(state: &SessionState) -> Option<DesiredCondition> {
    let mut newest_first = state.outbox.notices.iter().rev();
    let waiting = newest_first.find(|notice| {
        matches!(notice.delivery, Delivery::Waiting { .. }) && notice.error.is_some()
    })?;
    let error = waiting.error.clone().unwrap_or_default();
    let message = format!("attempts so far: {}: {error}", waiting.attempts);
    Some(desired(UNDELIVERABLE, true, "NobodyAccepts", message))
}
