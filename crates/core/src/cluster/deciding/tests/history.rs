//! Whatever happens, in whatever order: a crash after every step, a failure of every call. It converges, no machine
//! is forgotten, nothing is called that is not on record, and what was announced comes no earlier.

use jiff::SignedDuration;
use proptest::prelude::*;

use crate::cluster::call::{CallFailure, ErrorClass};
use crate::cluster::deciding::ClusterDecision;
use crate::cluster::effect::Effect;
use crate::cluster::intent::{OnDrift, OnTimeout, Platform};
use crate::cluster::machine::{MachineState, Stopped};
use crate::cluster::operation::{Step, Trigger};
use crate::cluster::power::{ConditionStatus, PowerState, Wanted};
use crate::cluster::state::ClusterState;
use crate::cluster::test_cluster::{HOUR, MINUTE, SECOND, TestCluster, schedule};

const MACHINES: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum Happens {
    /// A decision that is carried out and written down.
    Look,
    /// It is killed after so many effects, before anything is written down.
    KilledAfter(usize),
    /// It is killed once all is written down, before anything is carried out.
    NothingDone,
    Toggle,
    Pause(bool),
    LoseStatus,
    /// Somebody else moves a machine.
    Move(usize, MachineState),
    Refuse(usize, ErrorClass),
    Obey,
    ListFails(bool),
    ApiFails(bool),
    MailWorks(bool),
    Timer(Option<i64>),
}

fn happens() -> impl Strategy<Value = (i64, Happens)> {
    let step = prop_oneof![4 => Just(0_i64), 6 => 1..40_i64, 3 => 40..400_i64, 1 => 400..5000_i64];
    let states = vec![
        MachineState::Running,
        MachineState::Stopped,
        MachineState::Paused,
        MachineState::Failed,
        MachineState::Unknown("odd".to_owned()),
    ];
    let what = prop_oneof![
        14 => Just(Happens::Look),
        5 => (0..4_usize).prop_map(Happens::KilledAfter),
        3 => Just(Happens::NothingDone),
        3 => Just(Happens::Toggle),
        1 => any::<bool>().prop_map(Happens::Pause),
        1 => Just(Happens::LoseStatus),
        1 => (0..3_usize, prop::sample::select(states)).prop_map(|(one, to)| Happens::Move(one, to)),
        2 => (0..3_usize, prop::sample::select(ErrorClass::ALL.to_vec()))
            .prop_map(|(one, class)| Happens::Refuse(one, class)),
        2 => Just(Happens::Obey),
        1 => any::<bool>().prop_map(Happens::ListFails),
        1 => any::<bool>().prop_map(Happens::ApiFails),
        1 => any::<bool>().prop_map(Happens::MailWorks),
        1 => prop::option::of(1..300_i64).prop_map(Happens::Timer),
    ];
    (step, what)
}

struct World {
    cluster: TestCluster,
}

impl World {
    fn look(&mut self, carried_out: usize, stored: bool) {
        let before = self.cluster.state.clone();
        let decision = self.cluster.decision();
        self.check(&before, &decision);
        let effects = &decision.effects[..carried_out.min(decision.effects.len())];
        self.cluster.carry_out(effects);
        if stored {
            self.cluster.store(&decision);
        }
    }

    fn check(&self, before: &ClusterState, decision: &ClusterDecision) {
        let next = &decision.next;
        let conditions = next.conditions.expect("somebody has looked");
        let both = [conditions.hibernating.status(), conditions.ready.status()];
        assert_ne!(both, [ConditionStatus::True; 2]);
        if let (Some(old), Some(new)) = (&before.operation, &next.operation) {
            assert!(old.id <= new.id);
            assert!(old.id < new.id || old.direction == new.direction);
        }
        if !next.inventory.verified && !before.inventory.verified {
            for machine in &before.inventory.machines {
                assert!(next.inventory.find(&machine.id).is_some(), "{machine:?} is forgotten");
            }
        }
        let is_moving = next.operation_under_way().is_some() && !conditions.is_hands_off();
        if is_moving {
            assert!(decision.wake.at().is_some(), "nobody looks again: {decision:?}");
        }
        for effect in &decision.effects {
            self.check_effect(before, effect);
        }
    }

    fn check_effect(&self, before: &ClusterState, effect: &Effect) {
        match effect {
            Effect::Stop { operation, machines } => {
                let ids = machines.iter().map(|call| &call.machine.id);
                assert_on_record(before, operation.0, ids.collect());
            }
            Effect::Start { operation, machines } => {
                let ids = machines.iter().map(|machine| &machine.id);
                assert_on_record(before, operation.0, ids.collect());
            }
            Effect::WritePowerState { to, trigger, generation } => {
                let write = before.power_write.expect("it is on record");
                assert_eq!((write.to, write.generation), (*to, *generation));
                if *to == Wanted::Hibernating && *trigger != Trigger::RollBack {
                    let told = self.cluster.told.last().map(|(_, deadline)| *deadline);
                    assert!(told.is_none_or(|told| told <= self.cluster.now));
                }
            }
            Effect::Notify(notice) => {
                assert!(before.outbox.find(&notice.id).is_some(), "it is on record");
            }
            Effect::RemoveRecords => {
                assert!(before.inventory.verified && before.settled() == Some(Wanted::Running));
            }
            Effect::Replace { .. }
            | Effect::Approve { .. }
            | Effect::AddFinalizer
            | Effect::RemoveFinalizer
            | Effect::TellRecordsKept => {}
        }
    }

    fn happens(&mut self, what: Happens) {
        let cluster = &mut self.cluster;
        match what {
            Happens::Look => self.look(usize::MAX, true),
            Happens::KilledAfter(effects) => {
                self.look(effects, false);
                self.cluster.outcomes.clear();
                self.cluster.deliveries.clear();
            }
            Happens::NothingDone => self.look(0, true),
            // An edit of the owner's may move what was told.
            Happens::Toggle => {
                cluster.told.clear();
                cluster.want(cluster.intent.wanted.opposite());
            }
            Happens::Pause(paused) => cluster.intent.paused = paused,
            Happens::LoseStatus => {
                // Who was told is lost with it, so nothing can be held to it.
                cluster.state = ClusterState::default();
                cluster.told.clear();
            }
            Happens::Move(one, to) => {
                let found = cluster.vms.iter_mut().find(|vm| vm.machine.name == MACHINES[one]);
                if let Some(vm) = found {
                    vm.machine.state = to;
                    vm.turns = None;
                }
            }
            Happens::Refuse(one, class) => {
                let found = cluster.vms.iter_mut().find(|vm| vm.machine.name == MACHINES[one]);
                if let Some(vm) = found {
                    vm.refuses = Some(CallFailure::new(class, "no"));
                }
            }
            Happens::Obey => obey(cluster),
            Happens::ListFails(fails) => {
                let failure = CallFailure::new(ErrorClass::Transient, "503");
                cluster.list_fails = fails.then_some(failure);
            }
            Happens::ApiFails(fails) => cluster.api_fails = fails.then(|| "no route".to_owned()),
            Happens::MailWorks(works) => cluster.mail_works = works,
            Happens::Timer(minutes) => {
                cluster.told.clear();
                let span = minutes.map(SignedDuration::from_mins);
                cluster.edit(|intent| intent.hibernate_after = span);
            }
        }
    }

    /// Nothing goes wrong any more, and nobody wants anything else.
    fn run_out(&mut self) {
        let cluster = &mut self.cluster;
        cluster.intent.paused = false;
        cluster.intent.hibernate_after = None;
        cluster.intent.schedules.clear();
        cluster.intent.on_timeout = OnTimeout::Report;
        cluster.intent.on_drift = OnDrift::Enforce;
        cluster.list_fails = None;
        cluster.api_fails = None;
        obey(cluster);
        for vm in &mut cluster.vms {
            // These are for its provider, or for the cluster itself, to mend.
            if matches!(vm.machine.state, MachineState::Unknown(_) | MachineState::Failed) {
                vm.machine.state = MachineState::Stopped;
            }
        }
        cluster.advance(HOUR);
        let expected = match cluster.intent.wanted {
            Wanted::Running => (PowerState::Running, MachineState::Running),
            Wanted::Hibernating => (PowerState::Hibernating, MachineState::Stopped),
        };
        assert_eq!(cluster.power(), expected.0, "{:?}", cluster.state);
        assert_eq!(cluster.step(), Step::Done);
        assert!(cluster.vms.iter().all(|vm| vm.machine.state == expected.1), "{:?}", cluster.vms);
        if cluster.intent.wanted == Wanted::Hibernating {
            cluster.want(Wanted::Running);
            cluster.advance(HOUR);
        }
        let mut names: Vec<_> = cluster.vms.iter().map(|vm| vm.machine.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, MACHINES, "every machine came back");
        assert_eq!(cluster.power(), PowerState::Running);
    }
}

fn assert_on_record(before: &ClusterState, operation: i64, ids: Vec<&String>) {
    let stored = before.operation.as_ref().expect("an operation is on record");
    assert_eq!(stored.id.0, operation);
    assert!(stored.step != Step::Record && !stored.is_done());
    for id in ids {
        assert!(before.inventory.find(id).is_some(), "{id} is not on record");
    }
}

fn obey(cluster: &mut TestCluster) {
    for vm in &mut cluster.vms {
        vm.refuses = None;
        vm.deaf = false;
    }
}

// case: cluster X11
#[test]
fn killed_at_every_step_it_comes_to_the_same_end_and_calls_nobody_twice() {
    for stopped in [Stopped::Kept, Stopped::Removed] {
        for killed_at in 0..40_usize {
            for effects in 0..2_usize {
                let mut cluster = TestCluster::running_with(|cluster| {
                    cluster.intent.platform = Platform::Actuated(stopped);
                });
                let mut step = 0;
                for wanted in [Wanted::Hibernating, Wanted::Running] {
                    cluster.want(wanted);
                    let end = cluster.now + MINUTE * 10;
                    while cluster.now < end {
                        let decision = cluster.decision();
                        let killed = step == killed_at;
                        step += 1;
                        let done = if killed { effects } else { usize::MAX };
                        let done = done.min(decision.effects.len());
                        cluster.carry_out(&decision.effects[..done]);
                        if killed {
                            cluster.outcomes.clear();
                        } else {
                            cluster.store(&decision);
                        }
                        let wake = decision.wake.at().unwrap_or(end).min(end);
                        if wake > cluster.now && !killed {
                            cluster.sleep_until(wake);
                        }
                    }
                    let expected = match wanted {
                        Wanted::Running => PowerState::Running,
                        Wanted::Hibernating => PowerState::Hibernating,
                    };
                    assert_eq!(cluster.power(), expected, "killed at {killed_at}");
                }
                assert_eq!(cluster.vms.len(), 3);
                assert_eq!((cluster.stops.len(), cluster.starts.len()), (1, 1), "{killed_at}");
            }
        }
    }
}

#[test]
fn a_call_of_any_machine_that_fails_in_any_way_is_made_again() {
    for stopped in [Stopped::Kept, Stopped::Removed] {
        for (name, class) in
            MACHINES.into_iter().flat_map(|name| ErrorClass::ALL.map(|c| (name, c)))
        {
            let mut cluster = TestCluster::running_with(|cluster| {
                cluster.intent.platform = Platform::Actuated(stopped);
            });
            for (wanted, power) in [
                (Wanted::Hibernating, PowerState::Hibernating),
                (Wanted::Running, PowerState::Running),
            ] {
                if let Some(vm) = cluster.vms.iter_mut().find(|vm| vm.machine.name == name) {
                    vm.refuses = Some(CallFailure::new(class, "no"));
                }
                cluster.want(wanted);
                cluster.settle();
                obey(&mut cluster);
                cluster.advance(MINUTE * 10);
                assert_eq!(cluster.power(), power, "{name} {class:?}");
            }
            assert_eq!(cluster.vms.len(), 3);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    // case: cluster X01, X02
    #[test]
    fn it_converges_whatever_happens(
        removed in any::<bool>(),
        contacts in any::<bool>(),
        scheduled in any::<bool>(),
        roll_back in any::<bool>(),
        all in prop::collection::vec(happens(), 1..80),
    ) {
        let mut cluster = TestCluster::new(&MachineState::Running);
        if removed {
            cluster.intent.platform = Platform::Actuated(Stopped::Removed);
        }
        cluster.intent.has_contacts = contacts;
        if roll_back {
            cluster.intent.on_timeout = OnTimeout::RollBack;
        }
        if scheduled {
            cluster.intent.schedules = vec![schedule(Some("15 * * * *"), Some("45 * * * *"))];
        }
        let mut world = World { cluster };
        world.look(usize::MAX, true);
        for (step, what) in all {
            world.cluster.sleep(SECOND * i32::try_from(step).unwrap());
            world.happens(what);
        }
        world.run_out();
    }
}
