//! What really happened to machines, as an observer beside the operator saw it, and what must never.

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
pub struct Rules {
    /// So many machines at most, whatever they do.
    pub most: usize,
    /// So many ready ones at least, from the first time that there were as many.
    pub least_ready: usize,
}

/// What is there, and what happened.
#[derive(Debug, Default)]
pub struct Book {
    pub groups: BTreeMap<String, InstanceGroup>,
    pub machines: BTreeMap<String, Machine>,
    pub log: Vec<String>,
    pub violations: Vec<String>,
    rules: BTreeMap<String, (Rules, bool)>,
    /// Every drain that was ever open: by id, its deadline.
    pub drains: BTreeMap<String, Timestamp>,
    /// When each machine that went was seen to be deleted.
    pub deleted: BTreeMap<String, Timestamp>,
}

/// Kept by the world and not by the operator.
#[derive(Debug)]
pub struct Ledger {
    book: Mutex<Book>,
    moved: watch::Sender<u64>,
    clock: Arc<VirtualClock>,
    fake: Arc<Fake>,
}

fn status(machine: &Machine) -> MachineStatus {
    machine.status.clone().unwrap_or_default()
}

impl Book {
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

impl Ledger {
    pub fn new(clock: Arc<VirtualClock>, fake: Arc<Fake>) -> Self {
        Self { book: Mutex::default(), moved: watch::Sender::new(0), clock, fake }
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn follow(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// From now on these hold for a group.
    pub fn rule(&self, group: &str, rules: Rules) {
        self.book().rules.insert(group.to_owned(), (rules, false));
    }

    pub fn violation(&self, words: &str) {
        let now = self.clock.now();
        let mut book = self.book();
        book.violations.push(format!("{now:.0} {words}"));
        book.log.push(format!("{now:.0} VIOLATION {words}"));
    }

    fn tell(&self) {
        self.moved.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(super) fn saw_group(&self, group: InstanceGroup) {
        self.book().groups.insert(group.name_any(), group);
        self.tell();
    }

    pub(super) fn saw_group_go(&self, group: &InstanceGroup) {
        self.book().groups.remove(&group.name_any());
        self.tell();
    }

    pub(super) fn saw_machine(&self, machine: Machine) {
        let now = self.clock.now();
        let name = machine.name_any();
        let mut found = Vec::new();
        {
            let mut book = self.book();
            let before = book.machines.get(&name).map(status);
            let is = status(&machine);
            let was = before.clone().unwrap_or_default();
            if before.is_none() {
                book.log.push(format!("{now:.3} {name} is created"));
            }
            if was.phase != is.phase {
                book.log.push(format!("{now:.3} {name} is {:?}", is.phase.unwrap_or_default()));
            }
            found.extend(self.judge_drain(&mut book, &name, &was, &is));
            book.machines.insert(name, machine);
            found.extend(self.judge_counts(&mut book));
        }
        found.iter().for_each(|words| self.violation(words));
        self.tell();
    }

    pub(super) fn saw_machine_go(&self, machine: &Machine) {
        let now = self.clock.now();
        let name = machine.name_any();
        let before = {
            let mut book = self.book();
            book.log.push(format!("{now:.3} {name} is gone"));
            book.deleted.insert(name.clone(), now);
            book.machines.remove(&name)
        };
        let phase = before.map(|machine| status(&machine).phase.unwrap_or_default());
        if phase != Some(Phase::Deleting) {
            self.violation(&format!("{name} went from {phase:?}"));
        }
        if self.fake.machines().contains(&key(&name)) {
            self.violation(&format!("{name} went and is still at its provider"));
        }
        self.tell();
    }

    /// A deadline never moves, and nothing is deleted before it unless somebody said that it may be.
    fn judge_drain(
        &self,
        book: &mut Book,
        name: &str,
        was: &MachineStatus,
        is: &MachineStatus,
    ) -> Vec<String> {
        let now = self.clock.now();
        let mut found = Vec::new();
        let drain = is.drain.as_ref();
        if let Some((drain, deadline)) = drain.and_then(|one| Some((one, one.deadline.as_ref()?.0)))
        {
            match book.drains.insert(drain.id.clone(), deadline) {
                Some(old) if old != deadline => {
                    found.push(format!("the deadline of {name} moved from {old} to {deadline}"));
                }
                Some(_) => {}
                None => book.log.push(format!("{now:.3} {name} drains until {deadline}")),
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

    fn judge_counts(&self, book: &mut Book) -> Vec<String> {
        let at_provider = self.fake.machines();
        let mut found = Vec::new();
        let mut reached = Vec::new();
        for (group, (rules, armed)) in &book.rules {
            let machines = book.of(group);
            let live = machines.iter().filter(|machine| {
                let leaving = status(machine).phase == Some(Phase::Deleting);
                !leaving || at_provider.contains(&key(&machine.name_any()))
            });
            let live = live.count();
            if live > rules.most {
                found.push(format!("{group} has {live} machines, and {} is the most", rules.most));
            }
            let ready = book.in_phase(group, Phase::Ready).len();
            if *armed && ready < rules.least_ready {
                found.push(format!("{group} has {ready} ready, and needs {}", rules.least_ready));
            }
            if !armed && ready >= rules.least_ready {
                reached.push(group.clone());
            }
        }
        for group in reached {
            if let Some((_, armed)) = book.rules.get_mut(&group) {
                *armed = true;
            }
        }
        found
    }
}
