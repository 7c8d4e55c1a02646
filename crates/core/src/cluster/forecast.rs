//! What will happen to a cluster if nobody does anything: the same decision, with time passing.
//!
//! Every notice is accepted at once, machines and nodes do as they are told, and nobody writes the power state but
//! we ourselves.

use jiff::Timestamp;

use super::deciding::decide;
use super::effect::Effect;
use super::intent::{Intent, Settings};
use super::machine::{MachineState, ObservedMachine};
use super::observed::{Listing, Observed, ObservedNode, ObservedSync, ObservedTarget, Target};
use super::power::{ConditionStatus, Wanted};
use super::reason::Reason;
use super::state::{Action, ClusterState, UpcomingAction};
use crate::known::Known;
use crate::moment::{ceil_second, saturating_sub};
use crate::notice::DeliveryOutcome;

/// A step takes a few decisions.
const DECISIONS_PER_STEP: usize = 64;

/// The next things that will happen by themselves, at most `steps`, in order.
pub fn forecast(
    state: ClusterState,
    sync: Known<ObservedSync>,
    intent: &Intent,
    settings: &Settings,
    now: Timestamp,
    steps: usize,
) -> Vec<UpcomingAction> {
    let mut future = Future::new(state, sync, intent, now);
    let mut upcoming = Vec::new();
    for _ in 0..steps.saturating_mul(DECISIONS_PER_STEP) {
        if upcoming.len() >= steps || !future.advance(settings, &mut upcoming) {
            break;
        }
    }
    upcoming.truncate(steps);
    upcoming
}

/// The cluster as it is going to be.
struct Future {
    state: ClusterState,
    intent: Intent,
    sync: Known<ObservedSync>,
    now: Timestamp,
    machines: Vec<ObservedMachine>,
    deliveries: Vec<DeliveryOutcome>,
    /// Why what comes next does. It is still known when that is written, and nothing comes any more.
    why: Option<Reason>,
}

impl Future {
    fn new(
        state: ClusterState,
        sync: Known<ObservedSync>,
        intent: &Intent,
        now: Timestamp,
    ) -> Self {
        let settled = state.settled();
        let machines = state.inventory.machines.iter().map(|machine| ObservedMachine {
            id: machine.id.clone(),
            name: machine.name.clone(),
            state: match settled {
                Some(Wanted::Running) => MachineState::Running,
                Some(Wanted::Hibernating) | None => MachineState::Stopped,
            },
            // One that is replaced is as good as one that is started.
            spot: false,
            node_name: machine.node_name.clone(),
            addresses: machine.addresses.clone(),
        });
        let mut machines: Vec<_> = machines.collect();
        if machines.is_empty() {
            machines.push(stand_in());
        }
        Self {
            why: state.upcoming.as_ref().map(|next| next.why.clone()),
            state,
            intent: Intent { observe: false, ..intent.clone() },
            sync,
            now: ceil_second(now),
            machines,
            deliveries: Vec::new(),
        }
    }

    /// One decision and what follows from it; false at the end of what can be foreseen.
    fn advance(&mut self, settings: &Settings, upcoming: &mut Vec<UpcomingAction>) -> bool {
        let listing = Listing::Listed(self.machines.clone());
        let target = Target::Read(Box::new(self.target()));
        let seen = Observed {
            machines: &listing,
            outcomes: &[],
            sync: self.sync,
            target: &target,
            probe: None,
            records: &Known::Absent,
            deliveries: &std::mem::take(&mut self.deliveries),
            written: None,
            channels_changed_at: None,
        };
        let decision = decide(self.state.clone(), &seen, &self.intent, settings, self.now);
        let before = std::mem::replace(&mut self.state, decision.next);
        self.why = self.state.upcoming.as_ref().map(|next| next.why.clone()).or(self.why.take());
        let acted = !decision.effects.is_empty();
        for effect in decision.effects {
            let action = self.apply(effect);
            let why = |action| match action {
                Action::Announce => Reason::AnnouncementDue,
                Action::Hibernate | Action::Resume | Action::Retry | Action::RollBack => {
                    self.why_written()
                }
            };
            upcoming.extend(action.map(|action| UpcomingAction {
                action,
                at: self.now,
                why: why(action),
            }));
        }
        if self.intent.deleting {
            return false;
        }
        let is_reported = self
            .state
            .operation_under_way()
            .is_some_and(|one| one.only_reports(self.intent.on_drift));
        let at_rest = (self.state.settled() == Some(self.intent.wanted) || is_reported)
            && self.state.no_machines_found != ConditionStatus::True;
        match decision.wake.at() {
            _ if acted => true,
            Some(at) if at <= self.now => before != self.state,
            // A cluster at rest is looked at again and again, and nothing follows from it.
            Some(_) if at_rest => {
                self.skip_to(self.state.upcoming.as_ref().map(|next| next.at), settings)
            }
            Some(at) => self.skip_to(Some(at), settings),
            None => false,
        }
    }

    fn skip_to(&mut self, at: Option<Timestamp>, settings: &Settings) -> bool {
        let Some(at) = at.filter(|at| *at > self.now) else { return false };
        // Announcements come before what they announce.
        let lead = settings.announce_before.saturating_add(settings.delivery);
        let announced = saturating_sub(at, lead);
        let ladder = &self.state.announcement.ladder;
        let waits = self.intent.has_contacts && ladder.deadline.is_none();
        self.now = if waits && announced > self.now { announced } else { at };
        true
    }

    /// Why a power state is written: what was foreseen last, before it was written down that it is to be.
    fn why_written(&self) -> Reason {
        self.why.clone().unwrap_or(Reason::Settled { at: self.intent.wanted })
    }

    /// Lets an effect come true, and says what it is to the owner.
    fn apply(&mut self, effect: Effect) -> Option<Action> {
        match effect {
            Effect::WritePowerState { to, .. } => {
                self.intent.wanted = to;
                self.intent.generation = self.intent.generation.saturating_add(1);
                Some(match to {
                    Wanted::Hibernating => Action::Hibernate,
                    Wanted::Running => Action::Resume,
                })
            }
            Effect::Notify(notice) => {
                let (id, at) = (notice.id, self.now);
                self.deliveries.push(DeliveryOutcome { id, at, result: Ok(()) });
                Some(Action::Announce)
            }
            Effect::Stop { machines, .. } => {
                let ids: Vec<String> = machines.into_iter().map(|call| call.machine.id).collect();
                self.turn(&ids, &MachineState::Stopped);
                None
            }
            Effect::Start { machines, .. } => {
                let ids: Vec<String> = machines.into_iter().map(|machine| machine.id).collect();
                self.turn(&ids, &MachineState::Running);
                None
            }
            Effect::Replace { .. }
            | Effect::Approve { .. }
            | Effect::AddFinalizer
            | Effect::RemoveFinalizer
            | Effect::RemoveRecords
            | Effect::TellRecordsKept => None,
        }
    }

    fn turn(&mut self, ids: &[String], state: &MachineState) {
        for machine in self.machines.iter_mut().filter(|machine| ids.contains(&machine.id)) {
            machine.state = state.clone();
        }
    }

    /// A cluster whose nodes beat, and where all is well.
    fn target(&self) -> ObservedTarget {
        ObservedTarget {
            nodes: vec![ObservedNode {
                name: "node".to_owned(),
                ready: true,
                heartbeat: Some(self.now),
                addresses: Vec::new(),
            }],
            cluster_operators: Known::Absent,
            ..ObservedTarget::default()
        }
    }
}

/// Stands for machines of which nothing is on record yet.
fn stand_in() -> ObservedMachine {
    ObservedMachine {
        id: String::new(),
        name: String::new(),
        state: MachineState::Running,
        spot: false,
        node_name: None,
        addresses: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
