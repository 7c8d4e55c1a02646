//! What will happen to a group if nobody does anything: the same decision, with time passing.
//!
//! Machines boot in a typical time and are ready then, nobody answers drains before their deadline,
//! and whatever is unhealthy, unknown or kept stays so.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::cause;
use super::decide;
use super::effect::Effect;
use super::feasible::TYPICAL_BOOT;
use super::intent::{self, Intent, Kept};
use super::observed::{Health, Observed, ObservedMachine, OperationResult, Power, ProviderMachine};
use super::reason::Reason;
use super::state::{GroupState, NextRotation};
use crate::known::Known;
use crate::moment::{floor_second, saturating_add};

/// In larger groups it is only said what the next rotation waits for: to look ahead takes as many
/// decisions as a rotation, and each goes through all machines.
const MAX_FORECAST_MACHINES: usize = 500;
/// A rotation takes about so many decisions.
const DECISIONS_PER_STEP: usize = 24;

/// When this machine begins to be due: its eligible time, or its forced one if that comes first.
/// A forecast, which may move.
pub fn due_at(machine: &intent::Machine, intent: &Intent) -> Option<Timestamp> {
    cause::eligible_at(machine, intent).or_else(|| cause::forced_at(machine, intent))
}

/// The next rotations that begin by themselves, at most `steps`, in order. What has no time yet
/// comes last and ends the forecast.
pub fn forecast(
    state: GroupState,
    machines: &[intent::Machine],
    seen: &Observed,
    intent: &Intent,
    now: Timestamp,
    steps: usize,
) -> Vec<NextRotation> {
    let mut simulation = Simulation::new(machines, seen, intent, now);
    simulation.boot(&state);
    // Nothing can be said about machines that are not there yet.
    let real: BTreeSet<&str> = machines.iter().map(|machine| &*machine.name).collect();
    let mut begun: BTreeSet<String> = ids(&state).map(|(id, ..)| id.to_owned()).collect();
    let mut state = state;
    let mut next_rotation = Vec::new();
    for _ in 0..steps.saturating_mul(DECISIONS_PER_STEP) {
        let decision = decide(
            state,
            &simulation.machines,
            &simulation.seen,
            &simulation.intent,
            simulation.now,
        );
        state = decision.next;
        for (id, machine, cause) in ids(&state) {
            if begun.insert(id.to_owned()) && real.contains(machine) {
                let machine = machine.to_owned();
                let why = Reason::Begins { machine: machine.clone(), cause };
                next_rotation.push(NextRotation { machine, cause, at: Some(simulation.now), why });
            }
        }
        if next_rotation.len() >= steps {
            break;
        }
        let acted = !decision.effects.is_empty();
        simulation.clear_results();
        for effect in &decision.effects {
            simulation.apply(effect);
        }
        if !acted && !simulation.wait(decision.wake.at()) {
            let last = state.group.next_rotation.take();
            next_rotation.extend(last.filter(|last| real.contains(&*last.machine)));
            break;
        }
    }
    next_rotation.truncate(steps);
    next_rotation
}

/// What comes next by itself, as everybody is told: what was decided, unless that waits for machines
/// that come and go, or for the end of a freeze. Then it is what becomes of that.
pub fn next(
    decided: &GroupState,
    machines: &[intent::Machine],
    seen: &Observed,
    intent: &Intent,
    now: Timestamp,
) -> Option<NextRotation> {
    let next_rotation = decided.group.next_rotation.as_ref();
    let frozen = intent.freeze_until.is_some_and(|until| now < until);
    let waits = next_rotation.map_or(frozen, |next_rotation| {
        next_rotation.at.is_none() && next_rotation.why.is_progress()
    });
    if !waits || machines.len() > MAX_FORECAST_MACHINES {
        return next_rotation.cloned();
    }
    let foreseen = forecast(decided.clone(), machines, seen, intent, now, 1).pop();
    foreseen.or_else(|| next_rotation.cloned())
}

/// Every rotation that is open.
fn ids(state: &GroupState) -> impl Iterator<Item = (&str, &str, super::state::Cause)> {
    state.machines.iter().filter_map(|(name, machine)| {
        let rotation = machine.rotation.as_ref()?;
        Some((rotation.id.as_str(), &**name, rotation.cause))
    })
}

/// The group as it is going to be.
struct Simulation {
    machines: Vec<intent::Machine>,
    seen: Observed,
    intent: Intent,
    now: Timestamp,
    /// Machines that boot, and when they are ready.
    boots: Vec<(Timestamp, String)>,
}

impl Simulation {
    fn new(machines: &[intent::Machine], seen: &Observed, intent: &Intent, now: Timestamp) -> Self {
        let mut seen = seen.clone();
        for machine in machines {
            // Operations in flight are submitted again, and succeed.
            seen.machines.or_default(&machine.name).in_flight = false;
        }
        let intent = Intent { observe: false, ..intent.clone() };
        Self { machines: machines.to_vec(), seen, intent, now, boots: Vec::new() }
    }

    /// Machines that boot already are ready a typical time after they were asked for, or else when
    /// they would be given up. Neither time depends on when the forecast is made.
    fn boot(&mut self, state: &GroupState) {
        for (name, machine) in state.machines.iter() {
            let seen = self.seen.machines.get(name).map(|seen| &seen.provider);
            let boots = matches!(seen, Some(Known::Is(found)) if found.power == Power::Pending);
            let Some(asked) = machine.asked_at.filter(|_| boots) else { continue };
            let typical = saturating_add(asked, TYPICAL_BOOT);
            let given_up = saturating_add(asked, self.intent.registration_timeout);
            let ready = if typical > self.now { typical } else { given_up };
            if ready > self.now {
                self.boots.push((ready, name.to_string()));
            }
        }
    }

    fn clear_results(&mut self) {
        for seen in self.seen.machines.values_mut() {
            seen.last_result = None;
        }
    }

    /// Lets time pass until something is due; false if nothing ever is.
    fn wait(&mut self, wake: Option<Timestamp>) -> bool {
        let boot = self.boots.iter().map(|(at, _)| *at).min();
        let Some(next) = boot.into_iter().chain(wake).min() else { return false };
        let next = next.max(self.now);
        let passed = next.duration_since(self.now);
        for seen in self.seen.machines.values_mut() {
            if let Known::Is(Health::Unhealthy { observed }) = &mut seen.health {
                *observed = observed.saturating_add(passed);
            }
        }
        self.now = next;
        for (at, name) in std::mem::take(&mut self.boots) {
            if at <= next {
                self.show(&name, Power::Running);
            } else {
                self.boots.push((at, name));
            }
        }
        true
    }

    fn show(&mut self, name: &str, power: Power) {
        let seen = self.seen.machines.or_default(&name.into());
        let found = ProviderMachine { id: name.into(), power, interruption: None };
        seen.provider = Known::Is(found);
        if power == Power::Running {
            seen.health = Known::Is(Health::Ready);
        }
    }

    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Create { name } => self.create(name),
            Effect::Provision { name } => {
                self.show(name, Power::Pending);
                self.boots.push((saturating_add(self.now, TYPICAL_BOOT), name.clone()));
            }
            Effect::Deprovision { name } => {
                let last_result = Some(OperationResult::Deleted);
                let gone = ObservedMachine {
                    provider: Known::Absent,
                    last_result,
                    ..ObservedMachine::default()
                };
                self.seen.machines.insert(name.as_str().into(), gone);
                self.boots.retain(|(_, other)| other != name);
            }
            Effect::Delete { name } => {
                for machine in self.machines.iter_mut().filter(|machine| *machine.name == **name) {
                    machine.deleting = true;
                }
            }
            Effect::RemoveFinalizer { name } => {
                self.machines.retain(|machine| *machine.name != **name);
                self.seen.machines.remove(name.as_str());
            }
            Effect::RemoveGroupFinalizer => {}
        }
    }

    fn create(&mut self, name: &str) {
        self.machines.push(intent::Machine {
            name: name.into(),
            uid: name.into(),
            created_at: floor_second(self.now),
            deleting: false,
            template: self.intent.template.as_str().into(),
            kept: Kept::No,
            drain: None,
            reply: None,
        });
        let none = ObservedMachine { provider: Known::Absent, ..ObservedMachine::default() };
        self.seen.machines.insert(name.into(), none);
    }
}

#[cfg(test)]
mod tests;
