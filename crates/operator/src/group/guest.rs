//! The controller of machines that stand for themselves: one machine in five steps.

use std::sync::Arc;

use jiff::Timestamp;
use sojourn_core::decision::{Decision, Wake};
use sojourn_core::group::effect::Effect;
use sojourn_core::group::observed::Seen;
use sojourn_core::group::on_demand;
use sojourn_core::group::reason::Reason;
use sojourn_core::group::state;
use sojourn_core::key::Key;

use super::family::Family;
use super::subject::Guest;
use crate::frame::{Class, Reconciler, RequestError, Target};

/// The controller of Machines on demand.
#[derive(Debug, Clone)]
pub(crate) struct Guests(pub(crate) Arc<Family>);

/// What was decided about a machine.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) decision: Option<Decision<state::Machine, Effect, Reason>>,
    /// The time it was decided at.
    pub(crate) now: Timestamp,
}

impl Reconciler for Guests {
    type Object = Guest;
    type Observed = Seen;
    type Decision = Verdict;
    type Error = RequestError;

    fn name(&self) -> &'static str {
        "machine"
    }

    fn parse(&self, key: &Key) -> Target<Guest> {
        match Guest::find(&self.0.world, key, &self.0.config.current()) {
            Some(guest) if self.0.definitions.holds_up(&guest.member.view().uid) => {
                Target::Unusable
            }
            Some(guest) => Target::Is(guest),
            None => Target::Gone,
        }
    }

    async fn observe(&self, guest: &Guest) -> Seen {
        self.0.look_at_guest(guest)
    }

    fn decide(&self, guest: &Guest, seen: &Seen, now: Timestamp) -> Verdict {
        let state = guest.member.view().state();
        let intent = guest.intent.as_ref().ok();
        let decision = intent.map(|intent| on_demand::decide(state, seen, intent, now));
        Verdict { decision, now }
    }

    async fn execute(&self, guest: &Guest, verdict: &Verdict) -> Result<(), RequestError> {
        let Some(decision) = &verdict.decision else { return Ok(()) };
        self.0.hold_machine(&guest.member).await?;
        self.0.carry_out_for_guest(guest, &decision.effects).await
    }

    async fn publish(
        &self,
        guest: &Guest,
        seen: &Seen,
        verdict: &Verdict,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        self.0.say_of_guest(guest, seen, verdict, executed).await
    }

    fn wake(&self, verdict: &Verdict) -> Wake {
        verdict.decision.as_ref().map_or(Wake::OnChange, |decision| decision.wake)
    }

    fn class(error: &RequestError) -> Class {
        error.class()
    }
}
