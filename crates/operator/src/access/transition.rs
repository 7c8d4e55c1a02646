//! Every transition of a session as an Event and as a line in the audit log.
//!
//! Whoever acts for a person tells at once. The controller tells what is on record and has not been told, before it
//! marks it as told, so a line may come twice and never not at all. An Event is the same one however often it is said.

use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use sojourn_api::access::BreakglassSession;
use sojourn_api::access::status::{BreakglassSessionStatus, State as WireState};
use sojourn_core::access::session::{ReasonEnded, State};

use super::condition::recorded_state;
use crate::event::{Events, Severity};

/// Who is named where nobody acted.
const CONTROLLER: &str = "sojourn";

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
    /// The one that led to what is on record, unless that was told.
    pub(super) fn untold(status: &BreakglassSessionStatus) -> Option<Self> {
        let (to, from) = (status.state?, recorded_state(status));
        (Some(to) != from).then(|| Self::of(from, to, status))
    }

    /// The one that a write made, if it made one.
    pub(super) fn between(
        before: Option<&BreakglassSessionStatus>,
        now: &BreakglassSessionStatus,
    ) -> Option<Self> {
        let (from, to) = (before.and_then(|status| status.state), now.state?);
        (from != Some(to)).then(|| Self::of(from, to, now))
    }

    fn of(from: Option<WireState>, to: WireState, status: &BreakglassSessionStatus) -> Self {
        let to = State::from(to);
        let last = status.approvals.last();
        let approver = last.map(|approval| (approval.user.clone(), approval.reason.clone()));
        let (actor, said) = match to {
            State::Approved | State::WaitingForScheduledTime => approver.unzip(),
            State::Rejected
            | State::Withdrawn
            | State::Expired
            | State::IdleExpired
            | State::ApprovalTimeout => {
                (status.ended_by.clone(), Some(status.ended_because.clone()))
            }
            State::Pending => (None, None),
        };
        let ended = status.reason_ended.map(|reason| ReasonEnded::from(reason).as_str().to_owned());
        let at = if to.is_final() { &status.ended_at } else { &status.activated_at };
        Self {
            from: from.map(State::from),
            to,
            actor: actor.unwrap_or_else(|| CONTROLLER.to_owned()),
            reason: said.flatten().or(ended).unwrap_or_default(),
            at: at.as_ref().map(|time| time.0),
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
    use sojourn_api::access::status::ApprovalStatus;

    use super::*;

    #[test]
    fn a_transition_names_who_did_it_and_what_they_said() {
        let mut status =
            BreakglassSessionStatus { state: Some(WireState::Approved), ..Default::default() };
        let approval = |user: &str| ApprovalStatus {
            user: user.to_owned(),
            reason: Some("ticket 7".to_owned()),
            ..Default::default()
        };
        status.approvals = vec![approval("ada"), approval("grace")];
        let approved = Transition::untold(&status).expect("nobody was told");
        assert_eq!((approved.from, approved.to), (None, State::Approved));
        assert_eq!(approved.message(), "It is Approved by grace: ticket 7");
        let before = status.clone();
        status.state = Some(WireState::IdleExpired);
        status.reason_ended = Some(ReasonEnded::IdleTimeout.into());
        let ended = Transition::between(Some(&before), &status).expect("another state");
        assert_eq!((ended.from, ended.actor.as_str()), (Some(State::Approved), CONTROLLER));
        assert_eq!(ended.message(), "It is IdleExpired: idleTimeout");
        assert_eq!(Transition::between(Some(&status), &status), None);
    }
}
