//! The controller of machines without a group, on demand or left over: one machine in five steps.

use std::sync::Arc;

use jiff::Timestamp;
use sojourn_core::decision::{Decision, Wake};
use sojourn_core::group::effect::Effect;
use sojourn_core::group::observed::ObservedMachine;
use sojourn_core::group::on_demand;
use sojourn_core::group::reason::Reason;
use sojourn_core::group::state;
use sojourn_core::key::Key;

use super::family::Family;
use super::snapshot::OnDemandMachine;
use crate::frame::{Class, Reconciler, RequestError, Target};

/// The controller of Machines on demand.
#[derive(Debug, Clone)]
pub(crate) struct OnDemandMachines(pub(crate) Arc<Family>);

/// What was decided about a machine.
#[derive(Debug)]
pub(crate) struct DecidedMachine {
    pub(crate) decision: Option<Decision<state::Machine, Effect, Reason>>,
    /// The time it was decided at.
    pub(crate) now: Timestamp,
}

impl Reconciler for OnDemandMachines {
    type Object = OnDemandMachine;
    type Observed = ObservedMachine;
    type Decision = DecidedMachine;
    type Error = RequestError;

    fn name(&self) -> &'static str {
        "machine"
    }

    fn parse(&self, key: &Key) -> Target<OnDemandMachine> {
        match OnDemandMachine::find(&self.0.caches, key, &self.0.config.current()) {
            Some(machine) if self.0.definitions.is_waiting(&machine.member.view().uid) => {
                Target::Unusable
            }
            Some(machine) => Target::Is(machine),
            None => Target::Gone,
        }
    }

    async fn observe(&self, machine: &OnDemandMachine) -> ObservedMachine {
        self.0.observe_on_demand(machine)
    }

    fn decide(machine: &OnDemandMachine, seen: &ObservedMachine, now: Timestamp) -> DecidedMachine {
        let state = machine.member.view().state();
        let intent = machine.intent.as_ref().ok();
        let decision = intent.map(|intent| on_demand::decide(state, seen, intent, now));
        DecidedMachine { decision, now }
    }

    async fn execute(
        &self,
        machine: &OnDemandMachine,
        _: &ObservedMachine,
        decided: &DecidedMachine,
    ) -> Result<(), RequestError> {
        let Some(decision) = &decided.decision else { return Ok(()) };
        self.0.ensure_machine_finalizer(&machine.member).await?;
        self.0.apply_effects_on_demand(machine, &decision.effects).await
    }

    async fn publish(
        &self,
        machine: &OnDemandMachine,
        seen: &ObservedMachine,
        decided: &DecidedMachine,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        self.0.publish_on_demand_status(machine, seen, decided, executed).await
    }

    fn wake(decided: &DecidedMachine) -> Wake {
        decided.decision.as_ref().map_or(Wake::OnChange, |decision| decision.wake)
    }

    fn class(error: &RequestError) -> Class {
        error.class()
    }
}
