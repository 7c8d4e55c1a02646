//! What will happen to a group if nobody does anything: the same decision, with time passing.
//!
//! Machines boot in a typical time and are ready then, nobody answers drains before their deadline,
//! and whatever is ill, unknown or kept stays so.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::decide;
use super::effect::Effect;
use super::feasible::TYPICAL_BOOT;
use super::intent::{self, Intent, Kept};
use super::observed::{Answer, Found, Health, Observed, Power, Seen};
use super::reason::Reason;
use super::state::{Coming, State};
use super::wish;
use crate::known::Known;
use crate::moment::{down, later};

/// A rotation takes about so many decisions.
const DECISIONS_PER_STEP: usize = 24;

/// When this machine begins to be due: its eligible time, or its forced one if that comes first.
/// A forecast, which may move.
pub fn due_at(machine: &intent::Machine, intent: &Intent) -> Option<Timestamp> {
    wish::eligible_at(machine, intent).or_else(|| wish::forced_at(machine, intent))
}

/// The next rotations that begin by themselves, at most `steps`, in order. What has no time yet
/// comes last and ends the forecast.
pub fn forecast(
    state: State,
    machines: &[intent::Machine],
    seen: &Observed,
    intent: &Intent,
    now: Timestamp,
    steps: usize,
) -> Vec<Coming> {
    let mut future = Future::new(machines, seen, intent, now);
    let mut begun: BTreeSet<String> = ids(&state).map(|(id, ..)| id.to_owned()).collect();
    let mut state = state;
    let mut coming = Vec::new();
    for _ in 0..steps.saturating_mul(DECISIONS_PER_STEP) {
        let decision = decide(state, &future.machines, &future.seen, &future.intent, future.now);
        state = decision.next;
        for (id, machine, cause) in ids(&state) {
            if begun.insert(id.to_owned()) {
                let machine = machine.to_owned();
                let why = Reason::Begins { machine: machine.clone(), cause };
                coming.push(Coming { machine, cause, at: Some(future.now), why });
            }
        }
        if coming.len() >= steps {
            break;
        }
        let acted = !decision.effects.is_empty();
        future.answered();
        for effect in &decision.effects {
            future.follow(effect);
        }
        if !acted && !future.wait(decision.wake.at()) {
            coming.extend(state.group.coming.take());
            break;
        }
    }
    coming.truncate(steps);
    coming
}

/// Every rotation that is open.
fn ids(state: &State) -> impl Iterator<Item = (&str, &str, super::state::Cause)> {
    state.machines.iter().filter_map(|(name, machine)| {
        let rotation = machine.rotation.as_ref()?;
        Some((rotation.id.as_str(), &**name, rotation.cause))
    })
}

/// The group as it is going to be.
struct Future {
    machines: Vec<intent::Machine>,
    seen: Observed,
    intent: Intent,
    now: Timestamp,
    /// Machines that boot, and when they are ready.
    boots: Vec<(Timestamp, String)>,
}

impl Future {
    fn new(machines: &[intent::Machine], seen: &Observed, intent: &Intent, now: Timestamp) -> Self {
        let mut seen = seen.clone();
        for machine in machines {
            // Orders that are under way are given again, and come true.
            seen.machines.or_default(&machine.name).asked = false;
        }
        let intent = Intent { observe: false, ..intent.clone() };
        Self { machines: machines.to_vec(), seen, intent, now, boots: Vec::new() }
    }

    fn answered(&mut self) {
        for seen in self.seen.machines.values_mut() {
            seen.answered = None;
        }
    }

    /// Lets time pass until something is due; false if nothing ever is.
    fn wait(&mut self, wake: Option<Timestamp>) -> bool {
        let boot = self.boots.iter().map(|(at, _)| *at).min();
        let Some(next) = boot.into_iter().chain(wake).min() else { return false };
        let next = next.max(self.now);
        let passed = next.duration_since(self.now);
        for seen in self.seen.machines.values_mut() {
            if let Known::Is(Health::Ill { observed }) = &mut seen.health {
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
        let found = Found { id: name.into(), power, interruption: None };
        seen.provider = Known::Is(found);
        if power == Power::Running {
            seen.health = Known::Is(Health::Ready);
        }
    }

    fn follow(&mut self, effect: &Effect) {
        match effect {
            Effect::Create { name } => self.create(name),
            Effect::Provision { name } => {
                self.show(name, Power::Pending);
                self.boots.push((later(self.now, TYPICAL_BOOT), name.clone()));
            }
            Effect::Deprovision { name } => {
                let answered = Some(Answer::Deleted);
                let gone = Seen { provider: Known::Absent, answered, ..Seen::default() };
                self.seen.machines.insert(name.as_str().into(), gone);
                self.boots.retain(|(_, other)| other != name);
            }
            Effect::Delete { name } => {
                for machine in self.machines.iter_mut().filter(|machine| *machine.name == **name) {
                    machine.deleting = true;
                }
            }
            Effect::Release { name } => {
                self.machines.retain(|machine| *machine.name != **name);
                self.seen.machines.remove(name.as_str());
            }
            Effect::ReleaseGroup => {}
        }
    }

    fn create(&mut self, name: &str) {
        self.machines.push(intent::Machine {
            name: name.into(),
            uid: name.into(),
            created_at: down(self.now),
            deleting: false,
            template: self.intent.template.as_str().into(),
            kept: Kept::No,
            drain: None,
            reply: None,
        });
        let none = Seen { provider: Known::Absent, ..Seen::default() };
        self.seen.machines.insert(name.into(), none);
    }
}

#[cfg(test)]
mod tests;
