//! Every transition of a session as an Event and as a line in the audit log.
//!
//! Whoever acts for a person tells at once. The controller tells what is on record and has not been told, with the
//! states that it passed through, before it marks it as told; so a line may come twice and never not at all. An Event is
//! the same one however often it is said.

use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use sojourn_api::access::BreakglassSession;
use sojourn_api::access::status::BreakglassSessionStatus;
use sojourn_core::access::session::{ReasonEnded, State};

use super::condition::recorded_state;
use crate::event::{Events, Severity};

/// Who is named where nobody acted.
const CONTROLLER: &str = "sojourn";
/// Why a session that was approved for later begins to grant.
const SCHEDULED: &str = "scheduledStartTime";

/// A session is in another state than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transition {
    pub(super) from: Option<State>,
    pub(super) to: State,
    pub(super) actor: String,
    pub(super) reason: String,
    pub(super) at: Option<Timestamp>,
}

impl Transition {
    /// Those that led to what is on record and were not told, oldest first.
    pub(super) fn untold(session: &BreakglassSession) -> Vec<Self> {
        let Some(status) = &session.status else { return Vec::new() };
        let passed = passed_states(session, status);
        let told = recorded_state(status).map(State::from);
        let told = passed.iter().position(|state| Some(*state) == told);
        let first = told.map_or(0, |told| told + 1);
        let untold = passed.iter().enumerate().skip(first);
        let from = |index: usize| index.checked_sub(1).and_then(|index| passed.get(index)).copied();
        untold.map(|(index, to)| Self::of(from(index), *to, session, status)).collect()
    }

    /// The one that a write made, if it made one.
    pub(super) fn between(
        before: Option<&BreakglassSessionStatus>,
        written: &BreakglassSession,
    ) -> Option<Self> {
        let status = written.status.as_ref()?;
        let from = before.and_then(|status| status.state).map(State::from);
        let to = State::from(status.state?);
        (from != Some(to)).then(|| Self::of(from, to, written, status))
    }

    /// That somebody asked for it.
    pub(super) fn requested(session: &BreakglassSession) -> Self {
        Self::of(None, State::Pending, session, &BreakglassSessionStatus::default())
    }

    fn of(
        from: Option<State>,
        to: State,
        session: &BreakglassSession,
        status: &BreakglassSessionStatus,
    ) -> Self {
        let spec = &session.spec;
        let (actor, reason) = match to {
            State::Pending => (Some(&spec.user), spec.reason.as_deref()),
            State::Approved if spec.scheduled_start_time.is_some() => (None, Some(SCHEDULED)),
            State::Approved | State::WaitingForScheduledTime => {
                let last = status.approvals.last();
                (last.map(|last| &last.user), last.and_then(|last| last.reason.as_deref()))
            }
            State::Rejected
            | State::Withdrawn
            | State::Expired
            | State::IdleExpired
            | State::ApprovalTimeout => {
                let ended = status.reason_ended.map(|reason| ReasonEnded::from(reason).as_str());
                (status.ended_by.as_ref(), status.ended_because.as_deref().or(ended))
            }
        };
        let at = match to {
            State::Pending => session.metadata.creation_timestamp.as_ref(),
            State::WaitingForScheduledTime => status.approved_at.as_ref(),
            State::Approved => status.activated_at.as_ref(),
            State::Rejected
            | State::Withdrawn
            | State::Expired
            | State::IdleExpired
            | State::ApprovalTimeout => status.ended_at.as_ref(),
        };
        Self {
            from,
            to,
            actor: actor.map_or(CONTROLLER, String::as_str).to_owned(),
            reason: reason.unwrap_or_default().to_owned(),
            at: at.map(|time| time.0),
        }
    }

    fn message(&self) -> String {
        let by =
            if self.actor == CONTROLLER { String::new() } else { format!(" by {}", self.actor) };
        let because =
            if self.reason.is_empty() { String::new() } else { format!(": {}", self.reason) };
        format!("It is {}{by}{because}", self.to.as_str())
    }

    const fn severity(&self) -> Severity {
        match self.to {
            State::Pending | State::WaitingForScheduledTime | State::Approved => Severity::Normal,
            State::Rejected | State::Withdrawn | State::Expired => Severity::Normal,
            State::IdleExpired | State::ApprovalTimeout => Severity::Warning,
        }
    }
}

/// Every state that a session was in, oldest first, as far as its status proves.
fn passed_states(session: &BreakglassSession, status: &BreakglassSessionStatus) -> Vec<State> {
    let Some(state) = status.state.map(State::from) else { return Vec::new() };
    let waited = status.approved_at.is_some() && session.spec.scheduled_start_time.is_some();
    let mut passed = vec![State::Pending];
    passed.extend(waited.then_some(State::WaitingForScheduledTime));
    passed.extend(status.activated_at.is_some().then_some(State::Approved));
    if !passed.contains(&state) {
        passed.push(state);
    }
    passed
}

/// Tells of a transition.
pub(super) fn tell(events: &Events, session: &BreakglassSession, transition: &Transition) {
    let id =
        format!("{}.{}", transition.to.as_str(), transition.at.map_or(0, Timestamp::as_second));
    let about = session.object_ref(&());
    let Transition { from, to, actor, reason, .. } = transition;
    events.publish(&about, transition.severity(), to.as_str(), &transition.message(), &id);
    tracing::info!(
        target: "audit",
        uid = session.uid().unwrap_or_default(),
        namespace = session.namespace().unwrap_or_default(),
        name = session.name_any(),
        user = session.spec.user,
        group = session.spec.granted_group,
        cluster = session.spec.cluster,
        actor,
        from = from.map_or("", State::as_str),
        to = to.as_str(),
        reason,
        "a session has changed its state"
    );
}

/// Tells of what somebody did to a session without another state of it: an approval of several, an extension.
pub(super) fn tell_act(
    events: &Events,
    session: &BreakglassSession,
    (actor, verb): (&str, &'static str),
    at: Timestamp,
) {
    let about = session.object_ref(&());
    let message = format!("{actor} did {verb} it");
    events.publish(&about, Severity::Normal, "Acted", &message, &at.to_string());
    tracing::info!(
        target: "audit",
        uid = session.uid().unwrap_or_default(),
        namespace = session.namespace().unwrap_or_default(),
        name = session.name_any(),
        actor,
        verb,
        "somebody acted on a session"
    );
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sojourn_api::access::status::State as WireState;

    use super::*;

    /// Ada's, which Grace approved, with that in its status beside.
    fn session(scheduled: bool, recorded: Option<&str>, status: &Value) -> BreakglassSession {
        let mut object = json!({
            "apiVersion": "access.sojourn.dev/v1alpha1", "kind": "BreakglassSession",
            "metadata": {
                "name": "one", "namespace": "ops", "uid": "u-1",
                "creationTimestamp": "2026-11-17T08:00:00Z",
            },
            "spec": {
                "cluster": "prod", "user": "ada", "grantedGroup": "admins",
                "escalationRef": {"name": "e"}, "reason": "the shop is down",
            },
            "status": {"approvals": [
                {"user": "hedy", "at": "2026-11-17T08:04:00Z", "reason": "yes"},
                {"user": "grace", "at": "2026-11-17T08:05:00Z", "reason": "ticket 7"},
            ]},
        });
        if scheduled {
            object["spec"]["scheduledStartTime"] = json!("2026-11-17T09:00:00Z");
        }
        for (name, value) in status.as_object().expect("a status") {
            object["status"][name] = value.clone();
        }
        if let Some(recorded) = recorded {
            object["status"]["conditions"] = json!([{
                "type": "Recorded", "status": "True", "reason": recorded, "message": "",
                "lastTransitionTime": "2026-11-17T08:00:00Z",
            }]);
        }
        serde_json::from_value(object).expect("a session")
    }

    fn dropped() -> Value {
        json!({
            "state": "Expired", "approvedAt": "2026-11-17T08:05:00Z",
            "activatedAt": "2026-11-17T08:05:00Z", "endedAt": "2026-11-17T08:10:00Z",
            "reasonEnded": "dropped", "endedBy": "ada",
        })
    }

    fn lines(told: &[Transition]) -> Vec<String> {
        let from = |one: &Transition| one.from.map_or("", State::as_str);
        let line = |one: &Transition| {
            format!("{} > {} {}: {}", from(one), one.to.as_str(), one.actor, one.reason)
        };
        told.iter().map(line).collect()
    }

    #[test]
    fn a_request_names_who_asked_and_why() {
        let asked = session(false, None, &json!({"approvals": []}));
        let told = Transition::requested(&asked);
        assert_eq!(lines(std::slice::from_ref(&told)), [" > Pending ada: the shop is down"]);
        assert_eq!(told.message(), "It is Pending by ada: the shop is down");
        let seen = session(false, None, &json!({"approvals": [], "state": "Pending"}));
        assert_eq!(Transition::untold(&seen), [told], "the same, so that the Event is one");
    }

    #[test]
    fn a_transition_names_who_did_it_and_what_they_said() {
        let approved = json!({
            "state": "Approved", "approvedAt": "2026-11-17T08:05:00Z",
            "activatedAt": "2026-11-17T08:05:00Z",
        });
        let approved = session(false, Some("Pending"), &approved);
        assert_eq!(lines(&Transition::untold(&approved)), ["Pending > Approved grace: ticket 7"]);
        let mut idle = approved.clone();
        let status = idle.status.as_mut().expect("a status");
        status.state = Some(WireState::IdleExpired);
        status.reason_ended = Some(ReasonEnded::IdleTimeout.into());
        let ended = Transition::between(approved.status.as_ref(), &idle).expect("another state");
        assert_eq!(ended.message(), "It is IdleExpired: idleTimeout");
        assert_eq!(lines(&[ended]), ["Approved > IdleExpired sojourn: idleTimeout"]);
        assert_eq!(Transition::between(idle.status.as_ref(), &idle), None);
    }

    #[test]
    fn whoever_approves_for_later_does_not_activate() {
        let mut status = json!({
            "state": "WaitingForScheduledTime", "approvedAt": "2026-11-17T08:05:00Z",
        });
        let waiting = session(true, Some("Pending"), &status);
        let approved = "Pending > WaitingForScheduledTime grace: ticket 7";
        assert_eq!(lines(&Transition::untold(&waiting)), [approved]);
        status["state"] = json!("Approved");
        status["activatedAt"] = json!("2026-11-17T09:00:00Z");
        let active = session(true, Some("Pending"), &status);
        assert_eq!(
            lines(&Transition::untold(&active)),
            [approved, "WaitingForScheduledTime > Approved sojourn: scheduledStartTime"]
        );
    }

    #[test]
    fn states_that_nobody_told_of_are_told_when_it_is_in_another() {
        let all = [
            " > Pending ada: the shop is down",
            "Pending > Approved grace: ticket 7",
            "Approved > Expired ada: dropped",
        ];
        for (recorded, first) in [(None, 0), (Some("Pending"), 1), (Some("Approved"), 2)] {
            let untold = Transition::untold(&session(false, recorded, &dropped()));
            assert_eq!(lines(&untold), all[first..], "{recorded:?}");
        }
        assert_eq!(Transition::untold(&session(false, Some("Expired"), &dropped())), []);
        let withdrawn = json!({"state": "Withdrawn", "approvals": [], "endedBy": "ada"});
        let untold = Transition::untold(&session(false, None, &withdrawn));
        assert_eq!(lines(&untold), [all[0], "Pending > Withdrawn ada: "]);
    }
}
