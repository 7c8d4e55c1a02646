//! What really happened to machines, as an observer beside the operator saw it, and checks of what
//! must never happen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube::ResourceExt as _;
use sojourn_api::group::status::{DrainOutcome, MachineStatus, Phase, RotationPhase};
use sojourn_api::group::{InstanceGroup, Machine};
use sojourn_drivers::machine::fake::Fake;
use sojourn_operator::clock::{Clock, VirtualClock};
use tokio::sync::watch;

use super::key;

/// What must hold for a group at every moment.
#[derive(Debug, Clone, Copy)]
pub struct GroupLimits {
    /// So many machines at most, whatever they do.
    pub max_machines: usize,
    /// So many ready ones at least, from the first time that there were as many.
    pub min_ready: usize,
}

/// What is there, and what happened.
#[derive(Debug, Default)]
pub struct Observations {
    pub groups: BTreeMap<String, InstanceGroup>,
    pub machines: BTreeMap<String, Machine>,
    pub log: Vec<String>,
    pub violations: Vec<String>,
    limits: BTreeMap<String, (GroupLimits, bool)>,
    /// Every drain that was ever open: by id, its deadline.
    pub drains: BTreeMap<String, Timestamp>,
    /// When each machine that went was seen to be deleted.
    pub deleted: BTreeMap<String, Timestamp>,
}

/// Watches beside the operator, as part of the simulation.
#[derive(Debug)]
pub struct MachineObserver {
    observations: Mutex<Observations>,
    changed: watch::Sender<u64>,
    clock: Arc<VirtualClock>,
    fake: Arc<Fake>,
}

fn status(machine: &Machine) -> MachineStatus {
    machine.status.clone().unwrap_or_default()
}

impl Observations {
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
        self.log.iter().filter(|line| line.contains(words)).count()
    }
}

impl MachineObserver {
    pub fn new(clock: Arc<VirtualClock>, fake: Arc<Fake>) -> Self {
        Self { observations: Mutex::default(), changed: watch::Sender::new(0), clock, fake }
    }

    pub fn observations(&self) -> MutexGuard<'_, Observations> {
        self.observations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn follow(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// From now on these hold for a group.
    pub fn require(&self, group: &str, limits: GroupLimits) {
        self.observations().limits.insert(group.to_owned(), (limits, false));
    }

    pub fn violation(&self, words: &str) {
        let now = self.clock.now();
        let mut observations = self.observations();
        observations.violations.push(format!("{now:.0} {words}"));
        observations.log.push(format!("{now:.0} VIOLATION {words}"));
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(super) fn saw_group(&self, group: InstanceGroup) {
        self.observations().groups.insert(group.name_any(), group);
        self.notify();
    }

    pub(super) fn saw_group_go(&self, group: &InstanceGroup) {
        self.observations().groups.remove(&group.name_any());
        self.notify();
    }

    pub(super) fn saw_machine(&self, machine: Machine) {
        let now = self.clock.now();
        let name = machine.name_any();
        let mut found = Vec::new();
        {
            let mut observations = self.observations();
            let before = observations.machines.get(&name).map(status);
            let is = status(&machine);
            let was = before.clone().unwrap_or_default();
            if before.is_none() {
                observations.log.push(format!("{now:.3} {name} is created"));
            }
            if was.phase != is.phase {
                observations
                    .log
                    .push(format!("{now:.3} {name} is {:?}", is.phase.unwrap_or_default()));
            }
            found.extend(self.check_drain(&mut observations, &name, &was, &is));
            observations.machines.insert(name, machine);
            found.extend(self.check_counts(&mut observations));
        }
        found.iter().for_each(|words| self.violation(words));
        self.notify();
    }

    pub(super) fn saw_machine_go(&self, machine: &Machine) {
        let now = self.clock.now();
        let name = machine.name_any();
        let before = {
            let mut observations = self.observations();
            observations.log.push(format!("{now:.3} {name} is gone"));
            observations.deleted.insert(name.clone(), now);
            observations.machines.remove(&name)
        };
        let phase = before.map(|machine| status(&machine).phase.unwrap_or_default());
        if phase != Some(Phase::Deleting) {
            self.violation(&format!("{name} went from {phase:?}"));
        }
        if self.fake.machines().contains(&key(&name)) {
            self.violation(&format!("{name} went and is still at its provider"));
        }
        self.notify();
    }

    /// A deadline never moves, and nothing is deleted before it unless somebody said that it may be.
    fn check_drain(
        &self,
        observations: &mut Observations,
        name: &str,
        was: &MachineStatus,
        is: &MachineStatus,
    ) -> Vec<String> {
        let now = self.clock.now();
        let mut found = Vec::new();
        let drain = is.drain.as_ref();
        if let Some((drain, deadline)) = drain.and_then(|one| Some((one, one.deadline.as_ref()?.0)))
        {
            match observations.drains.insert(drain.id.clone(), deadline) {
                Some(old) if old != deadline => {
                    found.push(format!("the deadline of {name} moved from {old} to {deadline}"));
                }
                Some(_) => {}
                None => observations.log.push(format!("{now:.3} {name} drains until {deadline}")),
            }
        }
        let phase = |status: &MachineStatus| status.rotation.as_ref().and_then(|one| one.phase);
        if phase(is) == Some(RotationPhase::Deleting) && phase(was) != Some(RotationPhase::Deleting)
        {
            let there = self.fake.machines().contains(&key(name));
            let done = drain.is_some_and(|drain| drain.outcome == Some(DrainOutcome::Done));
            let over =
                drain.and_then(|drain| drain.deadline.as_ref()).is_some_and(|at| now >= at.0);
            let was_drained = drain.is_some();
            if there && was_drained && !done && !over {
                found.push(format!("{name} is deleted before its drain is over"));
            }
        }
        found
    }

    fn check_counts(&self, observations: &mut Observations) -> Vec<String> {
        let at_provider = self.fake.machines();
        let mut found = Vec::new();
        let mut reached = Vec::new();
        for (group, (limits, armed)) in &observations.limits {
            let machines = observations.of(group);
            let live = machines.iter().filter(|machine| {
                let leaving = status(machine).phase == Some(Phase::Deleting);
                !leaving || at_provider.contains(&key(&machine.name_any()))
            });
            let live = live.count();
            if live > limits.max_machines {
                found.push(format!(
                    "{group} has {live} machines, and {} is the most",
                    limits.max_machines
                ));
            }
            let ready = observations.in_phase(group, Phase::Ready).len();
            if *armed && ready < limits.min_ready {
                found.push(format!("{group} has {ready} ready, and needs {}", limits.min_ready));
            }
            if !armed && ready >= limits.min_ready {
                reached.push(group.clone());
            }
        }
        for group in reached {
            if let Some((_, armed)) = observations.limits.get_mut(&group) {
                *armed = true;
            }
        }
        found
    }
}
