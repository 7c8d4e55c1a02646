//! What really happened to machines, as an observer beside the operator saw it, and the invariants that
//! must hold in every run.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt as _;
use sojourn_api::group::status::{DrainOutcome, MachineStatus, Phase, RotationPhase};
use sojourn_api::group::{InstanceGroup, Machine};
use sojourn_core::key::Key;
use sojourn_drivers::machine::fake::Fake;
use sojourn_operator::clock::VirtualClock;

use super::simulation::key;
use crate::event_log::{EventLog, invariants};
use crate::simulation::Checker;

/// What must hold for a group at every moment.
#[derive(Debug, Clone, Copy)]
pub struct GroupLimits {
    /// So many machines at most, whatever they do.
    pub max_machines: usize,
    /// So many ready ones at least, from the first time that there were as many.
    pub min_ready: usize,
}

invariants! {
    /// What must hold of machines in every run.
    Invariant {
        /// A drain's deadline never moves.
        DeadlineKept,
        /// Nothing is deleted before its drain is over, unless somebody said that it may be.
        DrainFinished,
        /// A group never has more machines than its size and its surge.
        MaxMachines,
        /// A group that was ready once has enough machines ready.
        MinReady,
        /// Nothing goes without having been on record as Deleting.
        DeletionRecorded,
        /// Nothing is left at its provider when its object is gone.
        NothingLeftBehind,
        /// Once nothing fails any more, what is due is done within a bound.
        Liveness,
        /// No task of the operator ends by itself, and no observer is cut off.
        NothingBreaks,
    }
}

/// Records what is there and what happens to it, and checks it.
#[derive(Debug)]
pub struct MachineChecker {
    log: EventLog,
    provider: Arc<Fake>,
    pub groups: BTreeMap<String, InstanceGroup>,
    pub machines: BTreeMap<String, Machine>,
    /// For each group, and whether it was ready once.
    limits: BTreeMap<String, (GroupLimits, bool)>,
    /// Every drain that was ever open: by id, its deadline.
    pub drains: BTreeMap<String, Timestamp>,
    /// When each machine that went was seen to be deleted.
    pub deleted: BTreeMap<String, Timestamp>,
}

fn status(machine: &Machine) -> MachineStatus {
    machine.status.clone().unwrap_or_default()
}

impl Checker for MachineChecker {
    fn log(&self) -> &EventLog {
        &self.log
    }

    fn broken(&mut self, message: &str) {
        self.log.violated(Invariant::NothingBreaks.name(), &Key::new("", ""), message.to_owned());
    }
}

impl MachineChecker {
    pub(super) fn new(clock: Arc<VirtualClock>, provider: Arc<Fake>) -> Self {
        Self {
            log: EventLog::new(clock),
            provider,
            groups: BTreeMap::new(),
            machines: BTreeMap::new(),
            limits: BTreeMap::new(),
            drains: BTreeMap::new(),
            deleted: BTreeMap::new(),
        }
    }

    /// The machines of a group, by name.
    pub fn of(&self, group: &str) -> Vec<&Machine> {
        let of = |machine: &&Machine| {
            machine.spec.group.as_deref() == Some(group) && !machine.spec.on_demand
        };
        self.machines.values().filter(of).collect()
    }

    /// The names of a group's machines that are in a phase.
    pub fn in_phase(&self, group: &str, phase: Phase) -> Vec<String> {
        let those = self.of(group).into_iter();
        those
            .filter(|machine| status(machine).phase.unwrap_or_default() == phase)
            .map(kube::ResourceExt::name_any)
            .collect()
    }

    pub fn machine(&self, name: &str) -> Option<&Machine> {
        self.machines.get(name)
    }

    /// How often something happened, by the words of the log.
    pub fn count(&self, words: &str) -> usize {
        self.log.count(words)
    }

    /// From now on these hold for a group.
    pub fn require(&mut self, group: &str, limits: GroupLimits) {
        self.limits.insert(group.to_owned(), (limits, false));
    }

    pub(super) fn violated(&mut self, invariant: Invariant, name: &str, message: String) {
        self.log.violated(invariant.name(), &key(name), message);
    }

    pub(super) fn saw_group(&mut self, group: InstanceGroup) {
        self.groups.insert(group.name_any(), group);
    }

    pub(super) fn saw_group_deleted(&mut self, group: &InstanceGroup) {
        self.groups.remove(&group.name_any());
    }

    pub(super) fn saw_machine(&mut self, machine: Machine) {
        let name = machine.name_any();
        let before = self.machines.get(&name).map(status);
        let is = status(&machine);
        let was = before.clone().unwrap_or_default();
        if before.is_none() {
            self.log.note(format!("{name} is created"));
        }
        if was.phase != is.phase {
            self.log.note(format!("{name} is {:?}", is.phase.unwrap_or_default()));
        }
        self.check_deadline(&name, &is);
        self.check_drain(&name, &was, &is);
        self.machines.insert(name, machine);
        self.check_limits();
    }

    pub(super) fn saw_machine_deleted(&mut self, machine: &Machine) {
        let name = machine.name_any();
        self.log.note(format!("{name} is gone"));
        self.deleted.insert(name.clone(), self.log.now());
        let before = self.machines.remove(&name);
        let phase = before.map(|machine| status(&machine).phase.unwrap_or_default());
        if phase != Some(Phase::Deleting) {
            self.violated(Invariant::DeletionRecorded, &name, format!("it went from {phase:?}"));
        }
        if self.is_provided(&name) {
            let message = "its object is gone, and it is still at its provider".to_owned();
            self.violated(Invariant::NothingLeftBehind, &name, message);
        }
    }

    fn is_provided(&self, name: &str) -> bool {
        self.provider.machines().contains(&key(name))
    }

    fn check_deadline(&mut self, name: &str, is: &MachineStatus) {
        let drain = is.drain.as_ref();
        let Some((drain, deadline)) = drain.and_then(|one| Some((one, one.deadline.as_ref()?.0)))
        else {
            return;
        };
        match self.drains.insert(drain.id.clone(), deadline) {
            Some(old) if old != deadline => {
                let message = format!("its deadline moved from {old} to {deadline}");
                self.violated(Invariant::DeadlineKept, name, message);
            }
            Some(_) => {}
            None => self.log.note(format!("{name} drains until {deadline}")),
        }
    }

    fn check_drain(&mut self, name: &str, was: &MachineStatus, is: &MachineStatus) {
        let phase = |status: &MachineStatus| status.rotation.as_ref().and_then(|one| one.phase);
        let deleting = Some(RotationPhase::Deleting);
        if phase(is) != deleting || phase(was) == deleting {
            return;
        }
        let Some(drain) = &is.drain else { return };
        let done = drain.outcome == Some(DrainOutcome::Done);
        let over = drain.deadline.as_ref().is_some_and(|at| self.log.now() >= at.0);
        if self.is_provided(name) && !done && !over {
            let message = "it is deleted before its drain is over".to_owned();
            self.violated(Invariant::DrainFinished, name, message);
        }
    }

    fn check_limits(&mut self) {
        let at_provider = self.provider.machines();
        let mut found = Vec::new();
        let mut reached = Vec::new();
        for (group, (limits, was_ready)) in &self.limits {
            let machines = self.of(group);
            let live = machines.iter().filter(|machine| {
                let leaving = status(machine).phase == Some(Phase::Deleting);
                !leaving || at_provider.contains(&key(&machine.name_any()))
            });
            let (live, max) = (live.count(), limits.max_machines);
            if live > max {
                let message = format!("it has {live} machines, and {max} is the most");
                found.push((Invariant::MaxMachines, group.clone(), message));
            }
            let (ready, min) = (self.in_phase(group, Phase::Ready).len(), limits.min_ready);
            if *was_ready && ready < min {
                let message = format!("it has {ready} ready, and needs {min}");
                found.push((Invariant::MinReady, group.clone(), message));
            }
            if !was_ready && ready >= min {
                reached.push(group.clone());
            }
        }
        for group in reached {
            if let Some((_, was_ready)) = self.limits.get_mut(&group) {
                *was_ready = true;
            }
        }
        for (invariant, group, message) in found {
            self.violated(invariant, &group, message);
        }
    }
}
