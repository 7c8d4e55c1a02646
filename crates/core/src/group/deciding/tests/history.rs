//! Random histories: whatever happens, whatever fails and whoever is killed, promises are kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::super::effect::Effect;
use super::super::super::intent::{Budget, ForcedPolicy, Kept, Reply, ReplyOutcome};
use super::super::super::observed::Power;
use super::super::super::state::{
    Cause, GroupState, Machine, Phase, Rotation, RotationPhase, Tier,
};
use super::super::super::test_group::{DAY, MINUTE, Mode, TestGroup};
use super::*;

mod event;

use event::{Blow, Event, Fate, event, fate};

/// A group, and what it owes to whom.
struct RandomHistory {
    test_group: TestGroup,
    /// The deadlines of drains that were put on record, by their id.
    promised: BTreeMap<String, Timestamp>,
    /// Names of machines that were let go, which never come back.
    gone: Vec<String>,
    wake: Option<Timestamp>,
}

impl RandomHistory {
    fn new(ages: &[SignedDuration]) -> Self {
        Self {
            test_group: TestGroup::of(ages),
            promised: BTreeMap::new(),
            gone: Vec::new(),
            wake: None,
        }
    }

    fn happen(&mut self, event: &Event) {
        let test_group = &mut self.test_group;
        match event.clone() {
            Event::Pass(span) => test_group.now += span,
            Event::Wake => {
                test_group.now = self.wake.map_or(test_group.now, |wake| wake.max(test_group.now));
            }
            Event::Mode(mode) => test_group.mode = mode,
            Event::Boot(boot) => test_group.boot = boot,
            Event::Lag(lag) => test_group.lag = lag,
            Event::To(index, blow) => self.strike(index, blow),
            Event::Size(size) => test_group.intent.size = size,
            Event::Surge(surge, forced) => {
                test_group.intent.surge = surge;
                test_group.intent.expiry.forced_surge = forced;
            }
            Event::MinHealthy(min) => test_group.intent.min_healthy = min,
            Event::MinReady(span) => test_group.intent.min_ready = span,
            Event::Trial(span) => test_group.intent.trial = span,
            Event::Dies(after) => test_group.dies_after = after,
            Event::Template(other) => {
                test_group.intent.template = if other { "t2" } else { "t1" }.to_owned();
            }
            Event::Ages(eligible, forced) => {
                test_group.intent.expiry.eligible = eligible;
                test_group.intent.expiry.forced = forced;
            }
            Event::DrainTimeout(span) => test_group.intent.drain_timeout = span,
            Event::Policy(policy) => test_group.intent.expiry.policy = policy,
            Event::Freeze(span) => test_group.intent.freeze_until = Some(test_group.now + span),
            Event::Rotate => test_group.intent.rotate_before = Some(test_group.now),
            Event::Budgets(budgets) => {
                let budget = |(max, per)| Budget {
                    max,
                    per,
                    causes: Vec::new(),
                    allow: Vec::new(),
                    deny: Vec::new(),
                    path: "budgets".to_owned(),
                };
                test_group.intent.budgets = budgets.into_iter().map(budget).collect();
            }
            Event::Pause(paused) => test_group.intent.paused = paused,
        }
    }

    fn strike(&mut self, index: usize, blow: Blow) {
        let test_group = &mut self.test_group;
        let Some(count) = test_group.machines.len().checked_sub(1) else { return };
        let machine = &mut test_group.machines[index % (count + 1)];
        let name = machine.name.clone();
        let id =
            test_group.state.machines.get(&name).and_then(|state| {
                state.rotation.as_ref().filter(|rotation| rotation.drain.is_some())
            });
        let reply = |id: String, outcome| Some(Reply { id, outcome, message: "m".to_owned() });
        match blow {
            Blow::Deleted => machine.deleting = true,
            Blow::Drained => machine.drain = Some(test_group.now),
            Blow::Kept(kept) => machine.kept = if kept { Kept::Always } else { Kept::No },
            Blow::OperationResult(outcome) => {
                machine.reply = id.and_then(|rotation| reply(rotation.id.clone(), outcome));
            }
            Blow::WrongAnswer => machine.reply = reply("another".to_owned(), ReplyOutcome::Done),
            Blow::Vanishes => drop(test_group.vms.remove(&*name)),
            Blow::Stops | Blow::Ill | Blow::Well | Blow::Unknown | Blow::Interrupted(_) => {
                let now = test_group.now;
                let Some(vm) = test_group.vms.get_mut(&*name) else { return };
                match blow {
                    Blow::Stops => vm.power = Some(Power::Stopped),
                    Blow::Ill => vm.unhealthy_since = Some(now),
                    Blow::Well => (vm.unhealthy_since, vm.health_unknown) = (None, false),
                    Blow::Unknown => vm.health_unknown = true,
                    Blow::Interrupted(span) => vm.interruption = Some(now + span),
                    _ => {}
                }
            }
        }
    }

    /// One look, which may go wrong.
    fn decide_once(&mut self, fate: Fate) -> Result<GroupDecision, TestCaseError> {
        let decision = self.test_group.ask();
        prop_assert_eq!(&decision, &self.test_group.ask());
        self.test_group.decisions += 1;
        let before = self.test_group.state.clone();
        let effects: &[Effect] = if fate == Fate::Lost { &[] } else { &decision.effects };
        let answers = std::mem::take(&mut self.test_group.answers);
        for _ in 0..if fate == Fate::Twice { 2 } else { 1 } {
            for effect in effects {
                self.allowed(effect, &before)?;
                self.test_group.follow(effect);
            }
        }
        match fate {
            Fate::Published | Fate::Twice => self.publish(&decision.next, &before, |_| true)?,
            Fate::Lost => self.test_group.answers = answers,
            Fate::EffectsOnly => {}
            Fate::GroupOnly => self.publish(&decision.next, &before, |_| false)?,
            Fate::SomeMachines => {
                self.publish(&decision.next, &before, |name| {
                    name.as_bytes()[name.len() - 1] % 2 == 0
                })?;
            }
        }
        self.wake = decision.wake.at();
        Ok(decision)
    }

    /// Whether an effect may be carried out, judged by what really is.
    fn allowed(&self, effect: &Effect, stored: &GroupState) -> Result<(), TestCaseError> {
        let test_group = &self.test_group;
        match effect {
            Effect::Create { name } => {
                if test_group.is_there(name) {
                    return Ok(());
                }
                prop_assert!(!self.gone.contains(name), "{} was there before", name);
                let forced = stored.machines.values().any(|machine| {
                    machine.rotation.as_ref().is_some_and(|rotation| rotation.tier == Tier::Forced)
                });
                let intent = &test_group.intent;
                let overdue = |machine: &intent::Machine| {
                    forced_at(machine, intent).is_some_and(|at| test_group.now > at)
                };
                let forced = forced || test_group.machines.iter().any(overdue);
                let max = intent.size
                    + intent.surge
                    + if forced { intent.expiry.forced_surge } else { 0 };
                let live = self.live();
                prop_assert!(live < max, "(a) {live} + {name} > {max}");
            }
            Effect::Deprovision { name } => self.may_be_deleted(name, stored)?,
            Effect::RemoveFinalizer { name } => {
                prop_assert!(!test_group.vms.contains_key(name), "{} is left behind", name);
            }
            Effect::Delete { name } => {
                prop_assert_eq!(stored.machines[name.as_str()].phase, Phase::Deleting);
            }
            Effect::Provision { name } => {
                prop_assert_eq!(stored.machines[name.as_str()].phase, Phase::Provisioning);
            }
            Effect::RemoveGroupFinalizer => prop_assert!(false, "nobody deleted the group"),
        }
        Ok(())
    }

    /// Machines that run or may come to run.
    fn live(&self) -> u32 {
        let counts = |name: &str| {
            let state = self.test_group.state.machines.get(name);
            match self.test_group.vms.get(name) {
                Some(vm) => vm.power(self.test_group.now) != Power::Stopped,
                None => state.is_none_or(|state| state.registered_at.is_none()),
            }
        };
        let live = self.test_group.machines.iter().filter(|machine| counts(&machine.name)).count();
        u32::try_from(live).unwrap()
    }

    /// Only what is on record as being deleted, whose drain was promised as it was kept.
    fn may_be_deleted(&self, name: &str, stored: &GroupState) -> Result<(), TestCaseError> {
        let machine = &stored.machines[name];
        let rotation = machine.rotation.as_ref().expect("what leaves has a rotation");
        prop_assert_eq!(rotation.phase, RotationPhase::Deleting);
        if let Some(drain) = &rotation.drain {
            prop_assert_eq!(self.promised.get(&rotation.id), Some(&drain.deadline));
        }
        Ok(())
    }

    /// (c): a drain ends by its deadline, an acknowledgement, or the end of the machine.
    fn may_end(&self, name: &str, rotation: &Rotation) -> Result<(), TestCaseError> {
        let test_group = &self.test_group;
        let machine = test_group.machines.iter().find(|machine| *machine.name == *name);
        let acknowledged = machine
            .and_then(|machine| machine.reply.as_ref())
            .is_some_and(|reply| reply.id == rotation.id && reply.outcome == ReplyOutcome::Done);
        let gone = test_group.vms.get(name).is_none_or(|vm| vm.is_over(test_group.now));
        let deadline = rotation.drain.as_ref().expect("a drain").deadline;
        let over = test_group.now >= deadline;
        prop_assert!(acknowledged || gone || over, "(c) the drain of {name} is cut short");
        Ok(())
    }

    /// Puts a decision on record: the group first, and of its machines those that `reached` names.
    fn publish(
        &mut self,
        next: &GroupState,
        before: &GroupState,
        reached: impl Fn(&str) -> bool,
    ) -> Result<(), TestCaseError> {
        self.test_group.state.group = next.group.clone();
        for (name, machine) in next.machines.iter() {
            if !reached(name) || !self.test_group.is_there(name) {
                continue;
            }
            let was = before.machines.get(name);
            self.check_way(name, machine.rotation.as_deref(), was, before)?;
            self.test_group.state.machines.insert(name.clone(), machine.clone());
        }
        let there: Vec<Arc<str>> = self.test_group.names().into_iter().map(Into::into).collect();
        for name in self.test_group.state.machines.keys() {
            if !there.contains(name) {
                self.gone.push(name.to_string());
            }
        }
        self.test_group.state.machines.retain(|name, _| there.contains(name));
        Ok(())
    }

    /// What is put on record about the way of one machine.
    fn check_way(
        &mut self,
        name: &str,
        rotation: Option<&Rotation>,
        was: Option<&Machine>,
        before: &GroupState,
    ) -> Result<(), TestCaseError> {
        let old = was.and_then(|machine| machine.rotation.as_ref());
        let left = old.is_some_and(|old| old.phase >= RotationPhase::Draining);
        let Some(rotation) = rotation else {
            prop_assert!(!left, "{} does not come back", name);
            return Ok(());
        };
        if left {
            prop_assert_eq!(&old.unwrap().id, &rotation.id);
            prop_assert!(rotation.phase >= old.unwrap().phase);
            if rotation.phase > old.unwrap().phase {
                self.may_end(name, rotation)?;
            }
        }
        if let Some(drain) = &rotation.drain {
            let deadline = *self.promised.entry(rotation.id.clone()).or_insert(drain.deadline);
            prop_assert_eq!(deadline, drain.deadline, "(e) the deadline of {} moved", name);
        }
        if !left && rotation.phase >= RotationPhase::Draining {
            self.check_departure(name, rotation, before)?;
        }
        Ok(())
    }

    /// (b), (c) and (f) at the moment when a machine's way out begins, `before` this look.
    fn check_departure(
        &self,
        name: &str,
        rotation: &Rotation,
        before: &GroupState,
    ) -> Result<(), TestCaseError> {
        let test_group = &self.test_group;
        let ready = |name: &str| {
            test_group.mode != Mode::Down
                && test_group.vms.get(name).is_some_and(|vm| {
                    vm.unhealthy_since.is_none()
                        && !vm.health_unknown
                        && !vm.is_over(test_group.now)
                        && vm.shows_at <= test_group.now
                        && vm.runs_at.is_some_and(|at| at <= test_group.now)
                })
        };
        let policy = test_group.intent.expiry.policy;
        let has = |cause| is_for(rotation, cause);
        let skips = has(Cause::Forced) && policy == ForcedPolicy::TerminateAnyway;
        match &rotation.drain {
            Some(drain) => {
                prop_assert!(
                    drain.deadline >= test_group.now + test_group.intent.drain_timeout,
                    "(c) {name}"
                );
            }
            None => {
                let served = test_group
                    .state
                    .machines
                    .get(name)
                    .is_some_and(|state| state.served_at.is_some());
                let alive = test_group.mode == Mode::Down
                    || test_group.vms.get(name).is_some_and(|vm| !vm.is_over(test_group.now));
                let coordinated = test_group.intent.drain_timeout.is_positive() && !skips;
                prop_assert!(!(served && alive && coordinated), "(c) {} is not drained", name);
            }
        }
        let frozen = test_group.intent.freeze_until.is_some_and(|until| test_group.now < until);
        let ordered = has(Cause::Scale)
            || test_group.machines.iter().any(|machine| *machine.name == *name && machine.deleting);
        if !ready(name) {
            return Ok(());
        }
        prop_assert!(!frozen || ordered, "{name} leaves in a freeze: {rotation:?}");
        let allowed =
            has(Cause::Interrupted) || has(Cause::Forced) && policy != ForcedPolicy::ReplaceFirst;
        let is_leaving = |state: &Machine| matches!(state.phase, Phase::Draining | Phase::Deleting);
        // Those that a forced age takes in the same look, ready replacement or not, go after those
        // that somebody ordered away.
        let forced = |state: &Machine| {
            let rotation = state.rotation.as_ref();
            policy != ForcedPolicy::ReplaceFirst
                && rotation.is_some_and(|rotation| is_for(rotation, Cause::Forced))
        };
        let staying = test_group.machines.iter().filter(|machine| {
            let left = before.machines.get(&machine.name).is_some_and(is_leaving);
            let state = test_group.state.machines.get(&machine.name);
            let leaves = left || state.is_some_and(|state| is_leaving(state) && !forced(state));
            *machine.name != *name && ready(&machine.name) && !leaves
        });
        let min = test_group.intent.min_healthy.min(test_group.intent.size);
        let staying = staying.count();
        prop_assert!(
            allowed || staying >= usize::try_from(min).unwrap(),
            "(b) {name} leaves {staying} of {min}: {rotation:?}"
        );
        Ok(())
    }

    /// Everything works, and nobody asks for anything: the group comes to its size and stays.
    fn recover(&mut self) -> Result<(), TestCaseError> {
        let test_group = &mut self.test_group;
        test_group.mode = Mode::Works;
        (test_group.boot, test_group.lag) = (MINUTE, SignedDuration::ZERO);
        test_group.dies_after = None;
        test_group.vms.values_mut().for_each(|vm| vm.stops_at = None);
        let intent = &mut test_group.intent;
        (intent.paused, intent.freeze_until, intent.rotate_before) = (false, None, None);
        intent.budgets.clear();
        (intent.surge, intent.expiry.forced_surge) = (1, 1);
        intent.min_healthy = intent.size.saturating_sub(1);
        intent.expiry.eligible = Term::Never;
        intent.expiry.forced = Term::Span(DAY * 900);
        intent.min_ready = SignedDuration::ZERO;
        intent.drain_timeout = MINUTE * 5;
        for machine in &mut test_group.machines {
            machine.kept = Kept::No;
        }
        for vm in test_group.vms.values_mut() {
            (vm.unhealthy_since, vm.health_unknown) = (None, false);
            vm.shows_at = vm.shows_at.min(test_group.now);
            if let Some(at) = &mut vm.runs_at {
                *at = (*at).min(test_group.now);
            }
        }
        let end = test_group.now + DAY * 20;
        for _ in 0..4000 {
            let decision = self.decide_once(Fate::Published)?;
            let test_group = &mut self.test_group;
            if !decision.effects.is_empty() || !test_group.answers.is_empty() {
                continue;
            }
            match test_group.next_change().into_iter().chain(decision.wake.at()).min() {
                Some(next) if next <= end => test_group.now = next.max(test_group.now),
                _ => break,
            }
        }
        let test_group = &self.test_group;
        prop_assert_eq!(
            test_group.machines.len(),
            test_group.intent.size as usize,
            "{:#?}",
            test_group.state
        );
        prop_assert_eq!(test_group.vms.len(), test_group.machines.len());
        let ready = |machine: &Machine| machine.phase == Phase::Ready && machine.rotation.is_none();
        prop_assert!(test_group.state.machines.values().all(ready), "{:#?}", test_group.state);
        prop_assert!(test_group.state.group.reserved.is_empty());
        Ok(())
    }

    /// Between a look at rest and the time it names nothing would be decided otherwise.
    fn is_exact(&self, share: u8) -> Result<(), TestCaseError> {
        let test_group = &self.test_group;
        let rest = test_group.ask();
        if rest.next != test_group.state
            || !rest.effects.is_empty()
            || !test_group.answers.is_empty()
        {
            return Ok(());
        }
        let next = test_group.next_change().into_iter().chain(rest.wake.at()).min();
        let until = next.unwrap_or(test_group.now + DAY * 400);
        if until <= test_group.now {
            // It acts on what others wrote, which shows at once.
            return Ok(());
        }
        let passed = until.duration_since(test_group.now).as_millis() * i128::from(share) / 256;
        let mut later = test_group.clone();
        later.now += SignedDuration::from_millis(i64::try_from(passed).unwrap());
        let decision = later.ask();
        prop_assert_eq!(&decision.next, &later.state, "at {} of {:?}", later.now, rest.wake);
        prop_assert_eq!(decision.effects, []);
        Ok(())
    }
}

fn is_for(rotation: &Rotation, cause: Cause) -> bool {
    rotation.cause == cause || rotation.also.contains(&cause)
}

proptest! {
    /// (a), (b), (c), (e), (f), and that nothing is left behind, forgotten or stuck.
    #[test]
    fn promises_are_kept_whatever_happens(
        ages in prop::collection::vec((0_i64..35).prop_map(|days| DAY * i32::try_from(days).unwrap()), 0..5),
        steps in prop::collection::vec(
            (event(), prop::collection::vec(fate(), 1..5), any::<u8>()),
            1..40,
        ),
    ) {
        let mut history = RandomHistory::new(&ages);
        for (event, fates, share) in &steps {
            history.happen(event);
            for fate in fates {
                history.decide_once(*fate)?;
            }
            history.is_exact(*share)?;
        }
        history.recover()?;
    }
}
