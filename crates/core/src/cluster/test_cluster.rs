//! One simulated cluster for tests: machines boot and stop, nodes beat, time passes, effects come true, and
//! everything that happens is on record. What is not needed is not read.

use jiff::{SignedDuration, Timestamp};

use super::call::{CallFailure, CallOutcome};
use super::csr::Csr;
use super::deciding::{ClusterDecision, decide};
use super::effect::Effect;
use super::intent::{
    Intent, OnDrift, OnTimeout, Platform, ReadinessGates, Schedule, Settings, Timeouts,
};
use super::inventory::InventoryMachine;
use super::machine::{MachineState, ObservedMachine, StopMode, Stopped};
use super::needs::{Needs, Recent, needs};
use super::observed::{
    Listing, Observed, ObservedNode, ObservedOperator, ObservedSync, ObservedTarget,
    ObservedWorkloads, Target,
};
use super::operation::{OperationId, Step, Trigger};
use super::power::{Conditions, PowerState, Wanted};
use super::reachability::Probe;
use super::reason::Reason;
use super::spot::TargetMachine;
use super::state::ClusterState;
use crate::known::Known;
use crate::notice::DeliveryOutcome;
use crate::term::Term;

pub(super) const SECOND: SignedDuration = SignedDuration::from_secs(1);
pub(super) const MINUTE: SignedDuration = SignedDuration::from_mins(1);
pub(super) const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// More decisions than this at one moment are a loop.
const MAX_DECISIONS: usize = 24;
/// A node says so often that it is alive.
const HEARTBEAT_SECONDS: i64 = 10;

/// When every test begins: a Thursday.
pub(super) fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// So long after the beginning.
pub(super) fn at(span: SignedDuration) -> Timestamp {
    start() + span
}

pub(super) fn schedule(hibernate: Option<&str>, resume: Option<&str>) -> Schedule {
    let cron = |line: Option<&str>| line.map(|line| line.parse().unwrap());
    Schedule {
        text: format!("{hibernate:?} {resume:?}"),
        hibernate: cron(hibernate),
        resume: cron(resume),
        zone: jiff::tz::TimeZone::UTC,
    }
}

/// Installed a day ago, and nothing is said of power.
pub(super) fn intent() -> Intent {
    Intent {
        uid: "u1".to_owned(),
        generation: 1,
        created_at: start() - HOUR * 24,
        deleting: false,
        paused: false,
        observe: false,
        keep_until: None,
        installed: true,
        wanted: Wanted::Running,
        wanted_written_at: None,
        platform: Platform::Actuated(Stopped::Kept),
        infra_disabled: false,
        fake: false,
        hibernate_after: None,
        schedules: Vec::new(),
        pool: None,
        has_kubeconfig: true,
        gates: ReadinessGates { nodes: true, cluster_operators: true, workloads: Vec::new() },
        skips_cluster_operators: false,
        timeouts: Timeouts { stop: Term::Span(MINUTE * 20), resume: Term::Span(MINUTE * 30) },
        on_timeout: OnTimeout::Report,
        on_drift: OnDrift::Enforce,
        has_contacts: false,
        preserve_on_delete: true,
        has_finalizer: false,
    }
}

/// A machine at the provider.
#[derive(Debug, Clone)]
pub(super) struct Vm {
    pub(super) machine: ObservedMachine,
    /// It is in another state from then on.
    pub(super) turns: Option<(Timestamp, MachineState)>,
    /// Calls are accepted, and nothing comes of them.
    pub(super) deaf: bool,
    /// Calls fail so.
    pub(super) refuses: Option<CallFailure>,
    pub(super) node_ready: bool,
    /// Its node says nothing any more, whatever it said last.
    pub(super) mute: bool,
    pub(super) heartbeat: Option<Timestamp>,
}

impl Vm {
    pub(super) fn new(name: &str, state: MachineState) -> Self {
        let machine = ObservedMachine {
            id: format!("id-{name}"),
            name: name.to_owned(),
            state,
            spot: false,
            node_name: Some(format!("node-{name}")),
            addresses: vec![format!("{name}.internal")],
        };
        Self {
            machine,
            turns: None,
            deaf: false,
            refuses: None,
            node_ready: true,
            mute: false,
            heartbeat: None,
        }
    }

    fn pass(&mut self, now: Timestamp) {
        if let Some((_, state)) = self.turns.take_if(|(at, _)| *at <= now) {
            self.machine.state = state;
        }
        if self.machine.state == MachineState::Running && !self.mute {
            let second = now.as_second() / HEARTBEAT_SECONDS * HEARTBEAT_SECONDS;
            self.heartbeat = Timestamp::from_second(second).ok();
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct TestCluster {
    pub(super) intent: Intent,
    pub(super) settings: Settings,
    pub(super) state: ClusterState,
    pub(super) now: Timestamp,
    pub(super) vms: Vec<Vm>,
    pub(super) stop_takes: SignedDuration,
    pub(super) boot_takes: SignedDuration,
    pub(super) list_fails: Option<CallFailure>,
    pub(super) api_fails: Option<String>,
    /// Its API answers whether a machine runs or not.
    pub(super) api_is_elsewhere: bool,
    /// What is written into it is refused.
    pub(super) write_fails: Option<String>,
    written: Option<Result<(), String>>,
    pub(super) operators: Known<Vec<ObservedOperator>>,
    pub(super) workloads: Vec<ObservedWorkloads>,
    pub(super) target_machines: Known<Vec<TargetMachine>>,
    pub(super) csrs: Vec<Csr>,
    pub(super) sync: Known<ObservedSync>,
    pub(super) records: Vec<InventoryMachine>,
    pub(super) outcomes: Vec<CallOutcome>,
    pub(super) deliveries: Vec<DeliveryOutcome>,
    pub(super) mail_works: bool,
    pub(super) recent: Recent,
    pub(super) last_needs: Needs,
    /// Names of machines that were stopped, ended and started, each time.
    pub(super) stops: Vec<(Timestamp, OperationId, Vec<String>)>,
    pub(super) ended: Vec<String>,
    pub(super) starts: Vec<(Timestamp, OperationId, Vec<String>)>,
    pub(super) replaced: Vec<String>,
    pub(super) approved: Vec<String>,
    pub(super) writes: Vec<(Timestamp, Wanted, Trigger)>,
    /// Deadlines that contacts were told, with when they were.
    pub(super) told: Vec<(Timestamp, Timestamp)>,
    pub(super) others: Vec<Effect>,
    /// How often something was written because the state changed.
    pub(super) state_writes: usize,
}

impl TestCluster {
    /// Three machines in that state, and nobody has looked yet.
    pub(super) fn new(state: &MachineState) -> Self {
        let vms = ["a", "b", "c"].map(|name| Vm::new(name, state.clone()));
        Self {
            intent: intent(),
            settings: Settings::DEFAULT,
            state: ClusterState::default(),
            now: start(),
            vms: vms.to_vec(),
            stop_takes: SECOND * 20,
            boot_takes: SECOND * 30,
            list_fails: None,
            api_fails: None,
            api_is_elsewhere: false,
            write_fails: None,
            written: None,
            operators: Known::Absent,
            workloads: Vec::new(),
            target_machines: Known::Absent,
            csrs: Vec::new(),
            sync: Known::Absent,
            records: Vec::new(),
            outcomes: Vec::new(),
            deliveries: Vec::new(),
            mail_works: true,
            recent: Recent { since: start(), ..Recent::default() },
            last_needs: Needs::default(),
            stops: Vec::new(),
            ended: Vec::new(),
            starts: Vec::new(),
            replaced: Vec::new(),
            approved: Vec::new(),
            writes: Vec::new(),
            told: Vec::new(),
            others: Vec::new(),
            state_writes: 0,
        }
    }

    /// It runs, and has settled.
    pub(super) fn running() -> Self {
        Self::running_with(|_| {})
    }

    pub(super) fn running_with(change: impl FnOnce(&mut Self)) -> Self {
        let mut cluster = Self::new(&MachineState::Running);
        change(&mut cluster);
        cluster.advance(MINUTE * 5);
        assert_eq!(cluster.power(), PowerState::Running, "{:?}", cluster.state);
        cluster.forget_history();
        cluster
    }

    /// It hibernates, and has settled.
    pub(super) fn hibernating() -> Self {
        Self::hibernating_with(|_| {})
    }

    pub(super) fn hibernating_with(change: impl FnOnce(&mut Self)) -> Self {
        let mut cluster = Self::running_with(change);
        cluster.want(Wanted::Hibernating);
        cluster.advance(MINUTE * 5);
        assert_eq!(cluster.power(), PowerState::Hibernating, "{:?}", cluster.state);
        cluster.forget_history();
        cluster
    }

    fn forget_history(&mut self) {
        self.stops.clear();
        self.starts.clear();
        self.writes.clear();
        self.others.clear();
        self.state_writes = 0;
    }

    pub(super) fn power(&self) -> PowerState {
        self.state.conditions.map_or(PowerState::Unknown, Conditions::power_state)
    }

    pub(super) fn step(&self) -> Step {
        self.state.operation.as_ref().map_or(Step::Done, |operation| operation.step)
    }

    /// Somebody writes the power state.
    pub(super) fn want(&mut self, wanted: Wanted) {
        self.intent.wanted = wanted;
        self.intent.generation += 1;
    }

    /// Somebody edits the spec otherwise.
    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Intent)) {
        change(&mut self.intent);
        self.intent.generation += 1;
    }

    pub(super) fn vm(&mut self, name: &str) -> &mut Vm {
        self.vms.iter_mut().find(|vm| vm.machine.name == name).unwrap()
    }

    pub(super) fn set(&mut self, name: &str, state: MachineState) {
        self.vm(name).machine.state = state;
    }

    fn is_removed(&self) -> bool {
        self.intent.platform == Platform::Actuated(Stopped::Removed)
    }

    fn target(&self) -> Target {
        if let Some(message) = &self.api_fails {
            return Target::Unreadable(message.clone());
        }
        let runs = self.vms.iter().any(|vm| vm.machine.state == MachineState::Running);
        if !runs && !self.api_is_elsewhere {
            return Target::Unreadable("connection refused".to_owned());
        }
        let nodes = self.vms.iter().filter_map(|vm| {
            Some(ObservedNode {
                name: vm.machine.node_name.clone()?,
                ready: vm.node_ready,
                heartbeat: vm.heartbeat,
                addresses: Vec::new(),
            })
        });
        Target::Read(Box::new(ObservedTarget {
            nodes: nodes.collect(),
            cluster_operators: self.operators.clone(),
            workloads: self.workloads.clone(),
            machines: self.target_machines.clone(),
            csrs: if self.last_needs.csrs { Known::Is(self.csrs.clone()) } else { Known::Absent },
        }))
    }

    fn probe(&mut self) -> Option<Probe> {
        if !self.last_needs.probe {
            return None;
        }
        self.recent.probed_at = Some(self.now);
        let result = match self.target() {
            Target::Read(_) => Ok(()),
            Target::Unreadable(message) => Err(message),
            Target::NotRead => return None,
        };
        Some(Probe { at: self.now, result })
    }

    fn listing(&mut self) -> Listing {
        if !self.last_needs.machines {
            return Listing::NotListed;
        }
        self.recent.listed_at = Some(self.now);
        match &self.list_fails {
            Some(failure) => Listing::Failed(failure.clone()),
            None => Listing::Listed(self.vms.iter().map(|vm| vm.machine.clone()).collect()),
        }
    }

    /// What would be decided.
    pub(super) fn decision(&mut self) -> ClusterDecision {
        for vm in &mut self.vms {
            vm.pass(self.now);
        }
        let gone = |vm: &Vm| vm.machine.state == MachineState::Missing;
        self.vms.retain(|vm| !gone(vm));
        self.last_needs = needs(&self.state, &self.intent, &self.settings, self.recent, self.now);
        let listing = self.listing();
        let target = if self.last_needs.target { self.target() } else { Target::NotRead };
        let probe = self.probe();
        let records = match (self.last_needs.records, self.records.is_empty()) {
            (false, _) => Known::Unknown,
            (true, true) => Known::Absent,
            (true, false) => Known::Is(self.records.clone()),
        };
        let seen = Observed {
            machines: &listing,
            outcomes: &self.outcomes,
            sync: if self.last_needs.sync { self.sync } else { Known::Unknown },
            target: &target,
            probe: probe.as_ref(),
            written: self.written.as_ref().map(|written| match written {
                Ok(()) => Ok(()),
                Err(why) => Err(why.as_str()),
            }),
            records: &records,
            deliveries: &self.deliveries,
            channels_changed_at: None,
        };
        decide(self.state.clone(), &seen, &self.intent, &self.settings, self.now)
    }

    /// One decision, which is carried out and then is the record.
    pub(super) fn decide(&mut self) -> ClusterDecision {
        let decision = self.decision();
        self.carry_out(&decision.effects);
        self.store(&decision);
        decision
    }

    pub(super) fn store(&mut self, decision: &ClusterDecision) {
        if self.state != decision.next {
            self.state_writes += 1;
        }
        self.state = decision.next.clone();
    }

    pub(super) fn carry_out(&mut self, effects: &[Effect]) {
        self.outcomes.clear();
        self.deliveries.clear();
        self.written = None;
        for effect in effects {
            self.perform(effect);
        }
    }

    pub(super) fn perform(&mut self, effect: &Effect) {
        if effect.writes_into_cluster() {
            self.written = Some(self.write_fails.clone().map_or(Ok(()), Err));
            if self.write_fails.is_some() {
                return;
            }
        }
        match effect {
            Effect::WritePowerState { to, trigger, generation } => {
                if *generation == self.intent.generation {
                    self.writes.push((self.now, *to, *trigger));
                    self.want(*to);
                }
            }
            Effect::Stop { operation, machines } => {
                let names = machines.iter().map(|call| call.machine.name.clone()).collect();
                self.stops.push((self.now, *operation, names));
                for call in machines {
                    if call.mode == StopMode::End {
                        self.ended.push(call.machine.name.clone());
                    }
                    self.call_stop(*operation, &call.machine, call.mode);
                }
            }
            Effect::Start { operation, machines } => {
                let names = machines.iter().map(|machine| machine.name.clone()).collect();
                self.starts.push((self.now, *operation, names));
                for machine in machines {
                    self.call_start(*operation, machine);
                }
            }
            Effect::Replace { machines, .. } => {
                let Known::Is(there) = &mut self.target_machines else { return };
                for machine in machines {
                    self.replaced.push(machine.name.clone());
                    there.iter_mut().find(|one| one.uid == machine.uid).unwrap().deleting = true;
                }
            }
            Effect::Approve { csrs } => {
                for approval in csrs {
                    self.approved.push(approval.name.clone());
                    let csr = self.csrs.iter_mut().find(|csr| csr.name == approval.name);
                    csr.unwrap().decided = true;
                }
            }
            Effect::Notify(notice) => {
                if self.mail_works {
                    self.told.push((self.now, notice.deadline.unwrap()));
                    let (id, at) = (notice.id.clone(), self.now);
                    self.deliveries.push(DeliveryOutcome { id, at, result: Ok(()) });
                }
            }
            Effect::RemoveRecords => {
                self.records.clear();
                self.others.push(effect.clone());
            }
            Effect::AddFinalizer => {
                self.intent.has_finalizer = true;
                self.others.push(effect.clone());
            }
            Effect::RemoveFinalizer => {
                self.intent.has_finalizer = false;
                self.others.push(effect.clone());
            }
            Effect::TellRecordsKept => self.others.push(effect.clone()),
        }
    }

    fn answer(&mut self, operation: OperationId, id: &str, result: Result<(), CallFailure>) {
        let (machine, at) = (id.to_owned(), self.now);
        self.outcomes.push(CallOutcome { operation, machine, at, result });
    }

    fn call_stop(&mut self, operation: OperationId, machine: &InventoryMachine, mode: StopMode) {
        let turns_at = self.now + self.stop_takes;
        let removed = self.is_removed();
        let Some(vm) = self.vms.iter_mut().find(|vm| vm.machine.id == machine.id) else {
            return self.answer(operation, &machine.id, Ok(()));
        };
        let result = vm.refuses.clone().map_or(Ok(()), Err);
        let may_stop = match vm.machine.state {
            MachineState::Stopped | MachineState::Stopping | MachineState::Deleting => false,
            _ => result.is_ok() && !vm.deaf,
        };
        if may_stop {
            let (now, then) = match mode {
                StopMode::End => (MachineState::Deleting, MachineState::Missing),
                StopMode::Stop if removed => (MachineState::Stopping, MachineState::Missing),
                StopMode::Stop => (MachineState::Stopping, MachineState::Stopped),
            };
            vm.machine.state = now;
            vm.turns = Some((turns_at, then));
        }
        if may_stop && removed && !self.records.contains(machine) {
            self.records.push(machine.clone());
        }
        self.answer(operation, &machine.id, result);
    }

    fn call_start(&mut self, operation: OperationId, machine: &InventoryMachine) {
        if !self.vms.iter().any(|vm| vm.machine.id == machine.id) {
            if !self.records.iter().any(|record| record.id == machine.id) {
                let failure = CallFailure::new(super::ErrorClass::NotFound, "no such machine");
                return self.answer(operation, &machine.id, Err(failure));
            }
            let mut vm = Vm::new(&machine.name, MachineState::Stopped);
            vm.machine.spot = machine.spot;
            self.vms.push(vm);
        }
        let turns_at = self.now + self.boot_takes;
        let vm = self.vms.iter_mut().find(|vm| vm.machine.id == machine.id).unwrap();
        let result = match (&vm.refuses, &vm.machine.state) {
            (Some(failure), _) => Err(failure.clone()),
            (None, MachineState::Stopping) => {
                Err(CallFailure::new(super::ErrorClass::Conflict, "it stops"))
            }
            (None, _) => Ok(()),
        };
        if result.is_ok() && !vm.deaf && vm.machine.state != MachineState::Running {
            vm.machine.state = MachineState::Pending;
            vm.turns = Some((turns_at, MachineState::Running));
        }
        self.answer(operation, &machine.id, result);
    }

    /// Decides until nothing changes any more.
    pub(super) fn settle(&mut self) -> ClusterDecision {
        for _ in 0..MAX_DECISIONS {
            let (before, intent) = (self.state.clone(), self.intent.clone());
            let decision = self.decide();
            // What is refused is asked for again, as often as anybody looks.
            let refused =
                |effect: &Effect| self.write_fails.is_some() && effect.writes_into_cluster();
            let is_done = decision.effects.iter().all(refused);
            let quiet = is_done && self.state == before && self.intent == intent;
            if quiet {
                let wake = decision.wake.at();
                assert!(wake.is_none_or(|at| at > self.now), "it looks for ever: {decision:?}");
                return decision;
            }
        }
        panic!("it does not come to rest at {}: {:?}", self.now, self.state);
    }

    /// Lets time pass, looking only when a decision asked for it.
    pub(super) fn advance(&mut self, span: SignedDuration) {
        let end = self.now + span;
        loop {
            let decision = self.settle();
            let next = decision.wake.at().filter(|at| *at > self.now && *at <= end);
            let Some(next) = next else { break };
            self.sleep_until(next);
        }
        self.sleep_until(end);
        self.settle();
    }

    /// Lets time pass until then.
    pub(super) fn advance_until(&mut self, at: Timestamp) {
        self.advance(at.duration_since(self.now));
    }

    /// Lets time pass while nobody decides anything.
    pub(super) fn sleep_until(&mut self, at: Timestamp) {
        self.now = self.now.max(at);
        for vm in &mut self.vms {
            vm.pass(self.now);
        }
    }

    pub(super) fn sleep(&mut self, span: SignedDuration) {
        self.sleep_until(self.now + span);
    }
}

/// Whether a decision gave such a reason.
pub(super) fn says(decision: &ClusterDecision, is: impl Fn(&Reason) -> bool) -> bool {
    decision.why.iter().any(is)
}
