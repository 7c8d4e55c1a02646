//! One simulated group for tests: machines boot, fail and vanish, drainers answer, time passes,
//! effects come true, and everything that happens is on record.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::effect::Effect;
use super::intent::{self, Expiry, ForcedPolicy, Intent, Kept, Reply, ReplyOutcome};
use super::observed::{Health, Observed, ObservedMachine, OperationResult, Power, ProviderMachine};
use super::state::{GroupState, Machine, Phase, Rotation, RotationPhase};
use super::{GroupDecision, decide};
use crate::decision::Wake;
use crate::known::Known;
use crate::term::Term;

pub(super) const SECOND: SignedDuration = SignedDuration::from_secs(1);
pub(super) const MINUTE: SignedDuration = SignedDuration::from_mins(1);
pub(super) const HOUR: SignedDuration = SignedDuration::from_hours(1);
pub(super) const DAY: SignedDuration = SignedDuration::from_hours(24);
/// More decisions than this at one moment are a loop.
const MAX_DECISIONS: usize = 40;

/// When every test begins.
pub(super) fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// So long after the beginning.
pub(super) fn at(span: SignedDuration) -> Timestamp {
    start() + span
}

/// How the provider does what it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Works,
    /// It makes nothing: quota.
    Refuses,
    /// It answers nothing and shows nothing.
    Down,
    /// What it makes never runs.
    NeverBoots,
    /// What it makes runs and is never ready.
    NeverReady,
}

/// A machine at the provider.
#[derive(Debug, Clone)]
pub(super) struct Vm {
    pub(super) runs_at: Option<Timestamp>,
    /// The provider shows it from then on.
    pub(super) shows_at: Timestamp,
    pub(super) power: Option<Power>,
    /// It stops by itself then.
    pub(super) stops_at: Option<Timestamp>,
    /// Not ready since then.
    pub(super) unhealthy_since: Option<Timestamp>,
    pub(super) health_unknown: bool,
    pub(super) interruption: Option<Timestamp>,
}

impl Vm {
    /// It does no work any more.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        matches!(self.power(now), Power::Stopped | Power::Deleting)
    }

    pub(super) fn power(&self, now: Timestamp) -> Power {
        if self.stops_at.is_some_and(|stops| now >= stops) {
            return Power::Stopped;
        }
        let boots = self.runs_at.is_none_or(|runs| now < runs);
        self.power.unwrap_or(if boots { Power::Pending } else { Power::Running })
    }
}

#[derive(Debug, Clone)]
pub(super) struct TestGroup {
    pub(super) state: GroupState,
    pub(super) machines: Vec<intent::Machine>,
    pub(super) intent: Intent,
    pub(super) now: Timestamp,
    pub(super) vms: BTreeMap<String, Vm>,
    pub(super) mode: Mode,
    pub(super) boot: SignedDuration,
    /// Machines that are made stop by themselves so long after they began to run.
    pub(super) dies_after: Option<SignedDuration>,
    /// How long the provider does not show what it has made.
    pub(super) lag: SignedDuration,
    /// Results that are not on record yet.
    pub(super) answers: BTreeMap<String, OperationResult>,
    /// Everything that was done, with the time.
    pub(super) done: Vec<(Timestamp, Effect)>,
    pub(super) decisions: usize,
}

impl TestGroup {
    /// Three wanted and none there; ages of 21 and 30 days, five minutes to drain, one to boot.
    pub(super) fn empty() -> Self {
        let expiry = Expiry {
            eligible: Term::Span(DAY * 21),
            forced: Term::Span(DAY * 30),
            policy: ForcedPolicy::ReplaceFirst,
            forced_surge: 1,
            jitter: SignedDuration::ZERO,
        };
        let intent = Intent {
            name: "web".to_owned(),
            uid: "g1".to_owned(),
            deleting: false,
            paused: false,
            observe: false,
            size: 3,
            surge: 1,
            min_healthy: 2,
            min_ready: SignedDuration::ZERO,
            // Most scenes are about something else; those about trials set it.
            trial: SignedDuration::ZERO,
            registration_timeout: MINUTE * 5,
            unhealthy_after: MINUTE * 3,
            max_unhealthy: 1,
            drain_timeout: MINUTE * 5,
            expiry,
            budgets: Vec::new(),
            freeze_until: None,
            rotate_before: None,
            fleet: None,
            template: "t1".to_owned(),
        };
        Self {
            state: GroupState::default(),
            machines: Vec::new(),
            intent,
            now: start(),
            vms: BTreeMap::new(),
            mode: Mode::Works,
            boot: MINUTE,
            dies_after: None,
            lag: SignedDuration::ZERO,
            answers: BTreeMap::new(),
            done: Vec::new(),
            decisions: 0,
        }
    }

    /// Machines that have been ready for as long as they are there, made so long ago: `a`, `b`, …
    pub(super) fn of(ages: &[SignedDuration]) -> Self {
        let mut test_group = Self::empty();
        test_group.intent.size = u32::try_from(ages.len()).unwrap();
        test_group.intent.min_healthy = test_group.intent.size.saturating_sub(1);
        for (index, age) in ages.iter().enumerate() {
            let name = char::from(b'a' + u8::try_from(index).unwrap()).to_string();
            test_group.machine(&name, start() - *age);
        }
        test_group
    }

    /// Adds a machine that has been ready since it was made.
    pub(super) fn machine(&mut self, name: &str, created_at: Timestamp) {
        self.machines.push(intent::Machine {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            created_at,
            deleting: false,
            template: self.intent.template.as_str().into(),
            kept: Kept::No,
            drain: None,
            reply: None,
        });
        let vm = Vm {
            runs_at: Some(created_at),
            shows_at: created_at,
            power: None,
            stops_at: None,
            unhealthy_since: None,
            health_unknown: false,
            interruption: None,
        };
        self.vms.insert(name.to_owned(), vm);
        let state = Machine {
            phase: Phase::Ready,
            provider_id: Some(format!("vm-{name}").into()),
            asked_at: Some(created_at),
            registered_at: Some(created_at),
            served_at: Some(created_at),
            ready_at: Some(created_at),
            ..Machine::default()
        };
        self.state.machines.insert(name.into(), state);
    }

    pub(super) fn seen(&self) -> Observed {
        let seen = |machine: &intent::Machine| (machine.name.clone(), self.observe(&machine.name));
        Observed { machines: self.machines.iter().map(seen).collect() }
    }

    fn observe(&self, name: &str) -> ObservedMachine {
        let last_result = self.answers.get(name).cloned();
        if self.mode == Mode::Down {
            return ObservedMachine { last_result, ..ObservedMachine::default() };
        }
        let Some(vm) = self.vms.get(name).filter(|vm| vm.shows_at <= self.now) else {
            return ObservedMachine {
                provider: Known::Absent,
                last_result,
                ..ObservedMachine::default()
            };
        };
        let power = vm.power(self.now);
        let found = ProviderMachine {
            id: format!("vm-{name}").into(),
            power,
            interruption: vm.interruption,
        };
        let health = match (power, vm.unhealthy_since) {
            _ if vm.health_unknown => Known::Unknown,
            (Power::Running, None) => Known::Is(Health::Ready),
            (Power::Running, Some(since)) => {
                Known::Is(Health::Unhealthy { observed: self.now.duration_since(since) })
            }
            _ => Known::Unknown,
        };
        ObservedMachine { provider: Known::Is(found), health, last_result, in_flight: false }
    }

    /// What would be decided.
    pub(super) fn ask(&self) -> GroupDecision {
        decide(self.state.clone(), &self.machines, &self.seen(), &self.intent, self.now)
    }

    /// One decision, put on record, without its effects.
    pub(super) fn decide(&mut self) -> GroupDecision {
        let decision = self.ask();
        self.state = decision.next.clone();
        self.answers.clear();
        self.decisions += 1;
        decision
    }

    /// What would be on record after one more decision.
    pub(super) fn settle_copy(&self) -> GroupState {
        self.ask().next
    }

    /// Decides until nothing changes any more, and lets every effect come true.
    pub(super) fn settle(&mut self) -> GroupDecision {
        for _ in 0..MAX_DECISIONS {
            let before = self.state.clone();
            let decision = self.decide();
            for effect in &decision.effects {
                self.follow(effect);
            }
            if self.state == before && decision.effects.is_empty() && self.answers.is_empty() {
                assert!(decision.wake.at().is_none_or(|at| at > self.now), "{decision:?}");
                return decision;
            }
        }
        panic!("it does not come to rest at {}: {:#?}", self.now, self.state);
    }

    pub(super) fn follow(&mut self, effect: &Effect) {
        self.done.push((self.now, effect.clone()));
        match effect {
            Effect::Create { name } => self.create(name),
            Effect::Provision { name } => self.provision(name),
            Effect::Deprovision { name } => {
                let answer = if self.mode == Mode::Down {
                    OperationResult::Failed { message: "no answer".to_owned() }
                } else {
                    self.vms.remove(name);
                    OperationResult::Deleted
                };
                self.answers.insert(name.clone(), answer);
            }
            Effect::Delete { name } => self.spec(name).deleting = true,
            Effect::RemoveFinalizer { name } => {
                self.machines.retain(|machine| *machine.name != **name);
            }
            Effect::RemoveGroupFinalizer => {}
        }
    }

    fn create(&mut self, name: &str) {
        if self.machines.iter().any(|machine| *machine.name == *name) {
            return;
        }
        self.machines.push(intent::Machine {
            name: name.into(),
            uid: format!("uid-{name}").into(),
            created_at: crate::moment::floor_second(self.now),
            deleting: false,
            template: self.intent.template.as_str().into(),
            kept: Kept::No,
            drain: None,
            reply: None,
        });
    }

    fn provision(&mut self, name: &str) {
        let answer = match self.mode {
            Mode::Refuses => OperationResult::Refused { message: "quota".to_owned() },
            Mode::Down => OperationResult::Failed { message: "no answer".to_owned() },
            Mode::Works | Mode::NeverBoots | Mode::NeverReady => {
                let runs_at = self.now + self.boot;
                self.vms.entry(name.to_owned()).or_insert(Vm {
                    runs_at: Some(runs_at).filter(|_| self.mode != Mode::NeverBoots),
                    shows_at: self.now + self.lag,
                    power: None,
                    stops_at: self.dies_after.map(|after| runs_at + after),
                    unhealthy_since: Some(runs_at).filter(|_| self.mode == Mode::NeverReady),
                    health_unknown: false,
                    interruption: None,
                });
                OperationResult::Created { id: format!("vm-{name}") }
            }
        };
        self.answers.insert(name.to_owned(), answer);
    }

    /// Lets time pass, deciding whenever the last decision wants to and whenever a machine comes up.
    pub(super) fn pass(&mut self, span: SignedDuration) -> GroupDecision {
        self.until(self.now + span)
    }

    pub(super) fn until(&mut self, end: Timestamp) -> GroupDecision {
        loop {
            let decision = self.settle();
            let next = self.next_change().into_iter().chain(decision.wake.at()).min();
            let next = next.filter(|next| *next <= end);
            match next {
                Some(next) => self.now = next,
                None if self.now < end => self.now = end,
                None => return decision,
            }
        }
    }

    /// When the provider shows something new by itself.
    pub(super) fn next_change(&self) -> Option<Timestamp> {
        let changes = self
            .vms
            .values()
            .flat_map(|vm| vm.runs_at.into_iter().chain(vm.stops_at).chain([vm.shows_at]));
        changes.filter(|at| *at > self.now).min()
    }

    /// Lets time pass up to exactly when the group wants to be looked at.
    pub(super) fn wait(&mut self) -> Timestamp {
        let Wake::At(at) = self.settle().wake else { panic!("no timer: {:?}", self.ask().why) };
        self.now = at;
        at
    }

    pub(super) fn spec(&mut self, name: &str) -> &mut intent::Machine {
        self.machines.iter_mut().find(|machine| *machine.name == *name).expect("a machine")
    }

    pub(super) fn vm(&mut self, name: &str) -> &mut Vm {
        self.vms.get_mut(name).expect("a machine at the provider")
    }

    pub(super) fn make_unhealthy(&mut self, name: &str) {
        self.vm(name).unhealthy_since = Some(self.now);
    }

    pub(super) fn reply(&mut self, name: &str, outcome: ReplyOutcome) {
        let id = self.rotation(name).expect("a rotation").id.clone();
        self.spec(name).reply = Some(Reply { id, outcome, message: String::new() });
    }

    pub(super) fn rotation(&self, name: &str) -> Option<&Rotation> {
        self.state.machines.get(name)?.rotation.as_deref()
    }

    /// Who is in a rotation, and how far.
    pub(super) fn rotating<'a>(&'a self) -> Vec<(&'a str, RotationPhase)> {
        let phase = |(name, machine): (&'a Arc<str>, &'a Machine)| {
            Some((&**name, machine.rotation.as_ref()?.phase))
        };
        self.state.machines.iter().filter_map(phase).collect()
    }

    pub(super) fn phase(&self, name: &str) -> Option<RotationPhase> {
        self.rotation(name).map(|rotation| rotation.phase)
    }

    pub(super) fn deadline(&self, name: &str) -> Timestamp {
        let drain = self.rotation(name).and_then(|rotation| rotation.drain.as_ref());
        drain.expect("a drain").deadline
    }

    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.machines.iter().map(|machine| &*machine.name).collect();
        names.sort_unstable();
        names
    }

    pub(super) fn is_there(&self, name: &str) -> bool {
        self.machines.iter().any(|machine| *machine.name == *name)
    }

    /// The machines that were created by decisions.
    pub(super) fn created(&self) -> usize {
        self.done.iter().filter(|(_, effect)| matches!(effect, Effect::Create { .. })).count()
    }

    /// When the provider was told to delete this machine.
    pub(super) fn deprovisioned(&self, name: &str) -> Option<Timestamp> {
        let wanted = Effect::Deprovision { name: name.to_owned() };
        self.done.iter().find(|(_, effect)| *effect == wanted).map(|(at, _)| *at)
    }
}
