//! One machine in a decision: what is wanted of it, what was seen of it, what is remembered of it.

use super::cause::Causes;
use super::intent::{self, Intent};
use super::observed::{Health, Observed, ObservedMachine, Power};
use super::state::{self, Phase, RotationPhase};
use crate::by_name::ByName;
use crate::known::Known;

/// Nothing was seen of a machine.
static UNOBSERVED: ObservedMachine = ObservedMachine {
    provider: Known::Unknown,
    health: Known::Unknown,
    last_result: None,
    in_flight: false,
};

#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) intent: &'a intent::Machine,
    pub(super) seen: &'a ObservedMachine,
    pub(super) state: &'a mut state::Machine,
    /// The phase on record: what cannot be taken back follows from it.
    pub(super) was: Phase,
    /// Why it would go now.
    pub(super) causes: Causes,
    /// Another one waits for it to be ready.
    pub(super) replaces: bool,
}

impl<'a> Member<'a> {
    pub(super) fn new(
        intent: &'a intent::Machine,
        seen: &'a ObservedMachine,
        state: &'a mut state::Machine,
    ) -> Self {
        normalize(state);
        let was = state.phase;
        Self { intent, seen, state, was, causes: Causes::NONE, replaces: false }
    }

    pub(super) fn name(&self) -> &'a str {
        &self.intent.name
    }

    /// Its provider says that it does no work any more, and that it did.
    pub(super) fn is_dead(&self) -> bool {
        match &self.seen.provider {
            Known::Absent => self.state.registered_at.is_some(),
            Known::Is(found) => matches!(found.power, Power::Stopped | Power::Deleting),
            Known::Unknown => false,
        }
    }

    /// Whether it may take up room at its provider. One that never ran may still come, until its
    /// finalizer is removed.
    pub(super) fn occupies(&self) -> bool {
        let ran = self.state.registered_at.is_some();
        match &self.seen.provider {
            Known::Absent => !ran,
            Known::Is(found) => found.power != Power::Stopped || !ran,
            Known::Unknown => true,
        }
    }

    /// It is draining or being deleted: its way out is not taken back.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.state.phase, Phase::Draining | Phase::Deleting)
    }

    /// It is seen to work, and nobody drains it.
    pub(super) fn is_ready(&self) -> bool {
        self.state.phase == Phase::Ready && self.runs() && self.health() == Some(Health::Ready)
    }

    pub(super) fn runs(&self) -> bool {
        matches!(&self.seen.provider, Known::Is(found) if found.power == Power::Running)
    }

    pub(super) const fn health(&self) -> Option<Health> {
        match self.seen.health {
            Known::Is(health) => Some(health),
            Known::Absent | Known::Unknown => None,
        }
    }

    /// It was ready once, and now it is not.
    pub(super) const fn is_unhealthy(&self) -> bool {
        self.state.served_at.is_some() && matches!(self.health(), Some(Health::Unhealthy { .. }))
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.seen.provider.is_unknown() || (self.runs() && self.health().is_none())
    }

    /// It is known never to have been ready, so that it needs no drain.
    pub(super) fn never_served(&self) -> bool {
        if self.state.served_at.is_some() {
            return false;
        }
        match &self.seen.provider {
            _ if self.state.phase == Phase::Failed => true,
            Known::Unknown => false,
            Known::Is(found) if found.power == Power::Running => {
                matches!(self.health(), Some(Health::Unhealthy { .. }))
            }
            Known::Is(_) | Known::Absent => true,
        }
    }

    /// The machine that is to be ready before this one drains.
    pub(super) fn replacement(&self) -> Option<&str> {
        let rotation = self.state.rotation.as_ref()?;
        rotation.replacement.as_deref().filter(|_| rotation.phase < RotationPhase::Draining)
    }

    /// A rotation that has no replacement yet, or none any more.
    pub(super) fn wants_replacement(&self) -> bool {
        self.state.rotation.as_ref().is_some_and(|rotation| {
            rotation.phase < RotationPhase::Draining && rotation.replacement.is_none()
        })
    }
}

/// Makes a status that somebody wrote over consistent. A machine is deleted only if its phase and
/// its rotation both say so, and drained only until a deadline.
fn normalize(state: &mut state::Machine) {
    let rotation = state.rotation.as_mut();
    let way = rotation.as_ref().map(|rotation| (rotation.phase, rotation.drain.is_some()));
    match (state.phase, way) {
        (Phase::Deleting, Some((RotationPhase::Deleting, _)))
        | (Phase::Draining, Some((RotationPhase::Draining, true))) => {}
        (_, Some((RotationPhase::Draining | RotationPhase::Deleting, true)))
        | (Phase::Draining | Phase::Deleting, Some((_, true))) => {
            if let Some(rotation) = rotation {
                rotation.phase = RotationPhase::Draining;
            }
            state.phase = Phase::Draining;
        }
        (_, Some((RotationPhase::Draining | RotationPhase::Deleting, false)))
        | (Phase::Draining | Phase::Deleting, _) => {
            state.rotation = None;
            state.phase = match state.registered_at {
                Some(_) => Phase::Registered,
                None => Phase::Pending,
            };
        }
        _ => {}
    }
}

/// Every machine that there is, in the order of names, with what is remembered of it. What is
/// remembered of others is forgotten.
pub(super) fn assemble<'a>(
    states: &'a mut ByName<state::Machine>,
    machines: &'a [intent::Machine],
    seen: &'a Observed,
) -> Vec<Member<'a>> {
    let mut by_name: Vec<&intent::Machine> = machines.iter().collect();
    if !states.is_of(by_name.iter().map(|machine| &machine.name)) {
        by_name.sort_by(|a, b| a.name.cmp(&b.name));
        by_name.dedup_by(|a, b| a.name == b.name);
        states.align(by_name.iter().map(|machine| &machine.name));
    }
    let mut sights = seen.machines.walk();
    by_name
        .into_iter()
        .zip(states.values_mut())
        .map(|(machine, state)| {
            Member::new(machine, sights.find(&machine.name).unwrap_or(&UNOBSERVED), state)
        })
        .collect()
}

/// The limits by which one machine is judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct MachineLimits {
    pub(super) registration_timeout: jiff::SignedDuration,
    pub(super) unhealthy_after: jiff::SignedDuration,
}

impl From<&Intent> for MachineLimits {
    fn from(intent: &Intent) -> Self {
        Self {
            registration_timeout: intent.registration_timeout,
            unhealthy_after: intent.unhealthy_after,
        }
    }
}
