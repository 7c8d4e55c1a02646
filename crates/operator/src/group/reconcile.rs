//! The controller of groups: one group with all its machines in five steps.

use std::sync::Arc;

use jiff::Timestamp;
use sojourn_api::group::convert::Wanted;
use sojourn_core::decision::{Decision, Wake};
use sojourn_core::group::effect::Effect;
use sojourn_core::group::intent::{Fleet, Intent};
use sojourn_core::group::observed::Observed;
use sojourn_core::group::reason::Reason;
use sojourn_core::group::state::GroupState;
use sojourn_core::group::{decide, forecast};
use sojourn_core::key::Key;

use super::family::Family;
use super::fleet::{self, BudgetTurn};
use super::snapshot::GroupSnapshot;
use crate::frame::{Class, Reconciler, RequestError, Target};

/// The controller of InstanceGroups and of the Machines that they own.
#[derive(Debug, Clone)]
pub(crate) struct Groups(pub(crate) Arc<Family>);

/// What was seen of a group.
#[derive(Debug)]
pub(crate) struct ObservedGroup {
    machines: Observed,
    /// How many rotations may be open in all groups together.
    max_rotations: u32,
    turn: BudgetTurn,
}

/// What was decided about a group.
#[derive(Debug)]
pub(crate) struct DecidedGroup {
    /// Nothing, if it cannot be told what is wanted.
    pub(crate) decision: Option<Decision<GroupState, Effect, Reason>>,
    /// The time it was decided at.
    pub(crate) now: Timestamp,
}

impl Reconciler for Groups {
    type Object = GroupSnapshot;
    type Observed = ObservedGroup;
    type Decision = DecidedGroup;
    type Error = RequestError;

    fn name(&self) -> &'static str {
        "group"
    }

    fn parse(&self, key: &Key) -> Target<GroupSnapshot> {
        match GroupSnapshot::find(&self.0.caches, key, &self.0.config.current()) {
            Some(snapshot) if self.0.is_held_up(&snapshot) => Target::Unusable,
            Some(snapshot) => Target::Is(snapshot),
            None => {
                self.0.failed_creations.forget(key);
                self.0.metrics.forget(key);
                self.0.wake_groups(&self.0.rotations.forget(key));
                Target::Gone
            }
        }
    }

    async fn observe(&self, snapshot: &GroupSnapshot) -> ObservedGroup {
        let machines = self.0.observe_group(snapshot);
        let max_rotations = self.0.config.current().max_rotations;
        // The last of it, because other groups wait until this turn is over.
        let turn = self.0.rotations.begin_turn(&snapshot.key).await;
        ObservedGroup { machines, max_rotations, turn }
    }

    fn decide(snapshot: &GroupSnapshot, seen: &ObservedGroup, now: Timestamp) -> DecidedGroup {
        let wanted = snapshot.wanted.as_ref().ok();
        let decision = wanted.map(|wanted| decide_group(snapshot, wanted, seen, now));
        DecidedGroup { decision, now }
    }

    async fn execute(
        &self,
        snapshot: &GroupSnapshot,
        seen: &ObservedGroup,
        decided: &DecidedGroup,
    ) -> Result<(), RequestError> {
        let counted = decided.decision.as_ref().map(fleet::count);
        self.0.wake_groups(&self.0.rotations.end_turn(&snapshot.key, &seen.turn, counted));
        let (Some(group), Some(decision)) = (snapshot.group(), &decided.decision) else {
            return Ok(());
        };
        self.0.ensure_group_finalizer(snapshot, group).await?;
        self.0.apply_effects(snapshot, group, &decision.effects).await
    }

    async fn publish(
        &self,
        snapshot: &GroupSnapshot,
        seen: &ObservedGroup,
        decided: &DecidedGroup,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        self.0.publish_group_status(snapshot, &seen.machines, decided, executed).await
    }

    fn wake(decided: &DecidedGroup) -> Wake {
        decided.decision.as_ref().map_or(Wake::OnChange, |decision| decision.wake)
    }

    fn class(error: &RequestError) -> Class {
        error.class()
    }
}

/// One decision, with what all groups together may have open, and what comes of it next.
fn decide_group(
    snapshot: &GroupSnapshot,
    wanted: &Wanted,
    seen: &ObservedGroup,
    now: Timestamp,
) -> Decision<GroupState, Effect, Reason> {
    let fleet = Fleet { max: seen.max_rotations, others: seen.turn.others };
    let intent = Intent { fleet: Some(fleet), ..wanted.intent.clone() };
    let (machines, state) = (&snapshot.machine_intents, snapshot.remembered());
    let mut decision = decide(state, machines, &seen.machines, &intent, now);
    decision.next.group.next_rotation =
        forecast::next(&decision.next, machines, &seen.machines, &intent, now);
    decision
}

impl Family {
    fn wake_groups(&self, groups: &[Key]) {
        groups.iter().for_each(|key| self.caches.group_queue.wake(key));
    }
}
