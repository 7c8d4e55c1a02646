//! Any input at all: an answer, and no panic.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::super::intent::{self, Budget, Expiry, Intent, OnDemand, Reply};
use super::super::super::observed::{
    Health, Observed, ObservedMachine, OperationResult, Power, ProviderMachine,
};
use super::super::super::state::{
    Drain, ExpiryWarning, Group, GroupState, Machine, Reservation, Rotation, RotationStart,
    YoungDeaths,
};
use super::super::super::{feasible, forecast, on_demand};
use super::*;
use crate::by_name::ByName;
use crate::known::Known;

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "web-q5tnb", ""]).prop_map(str::to_owned)
}

fn time() -> impl Strategy<Value = Timestamp> {
    prop::sample::select(vec![
        Timestamp::MIN,
        Timestamp::UNIX_EPOCH,
        start(),
        start() + SignedDuration::from_millis(1),
        start() + HOUR,
        start() + DAY * 31,
        Timestamp::MAX,
    ])
}

fn span() -> impl Strategy<Value = SignedDuration> {
    prop::sample::select(vec![
        SignedDuration::MIN,
        -HOUR,
        SignedDuration::ZERO,
        SignedDuration::from_nanos(1),
        MINUTE,
        DAY * 30,
        SignedDuration::MAX,
    ])
}

fn number() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![0, 1, 2, 3, u32::MAX])
}

fn term() -> impl Strategy<Value = Term> {
    prop_oneof![Just(Term::Never), span().prop_map(Term::Span)]
}

fn cause() -> impl Strategy<Value = Cause> {
    prop::sample::select(vec![
        Cause::Expired,
        Cause::Forced,
        Cause::Unhealthy,
        Cause::Drifted,
        Cause::Interrupted,
        Cause::OnDemand,
        Cause::Scale,
        Cause::Manual,
    ])
}

fn outcome() -> impl Strategy<Value = ReplyOutcome> {
    prop::sample::select(vec![ReplyOutcome::Done, ReplyOutcome::Progress, ReplyOutcome::Refused])
}

fn rotation() -> impl Strategy<Value = Rotation> {
    let phase = prop::sample::select(vec![
        RotationPhase::Reserved,
        RotationPhase::Creating,
        RotationPhase::Waiting,
        RotationPhase::Draining,
        RotationPhase::Deleting,
    ]);
    let drain =
        (time(), time(), prop::option::of(outcome())).prop_map(|(started, until, outcome)| Drain {
            started_at: started,
            deadline: until,
            outcome,
            message: String::new(),
        });
    let tier = prop::sample::select(vec![Tier::Eligible, Tier::Forced]);
    let also = prop::collection::vec(cause(), 0..3);
    (
        cause(),
        tier,
        also,
        prop::option::of(name()),
        phase,
        time(),
        number(),
        prop::option::of(drain),
    )
        .prop_map(|(cause, tier, also, replacement, phase, started_at, attempts, drain)| {
            Rotation {
                id: "id".to_owned(),
                cause,
                tier,
                also,
                replacement,
                phase,
                started_at,
                attempts,
                drain,
            }
        })
}

fn remembered() -> impl Strategy<Value = Machine> {
    let phase = prop::sample::select(vec![
        Phase::Pending,
        Phase::Provisioning,
        Phase::Registered,
        Phase::Ready,
        Phase::Draining,
        Phase::Deleting,
        Phase::Failed,
    ]);
    let times = prop::collection::vec(prop::option::of(time()), 6);
    let warned = (time(), time()).prop_map(|(at, deadline)| ExpiryWarning { at, deadline });
    let provider_id = prop::option::of(name());
    (phase, provider_id, times, prop::option::of(rotation()), prop::option::of(warned), number())
        .prop_map(|(phase, provider_id, times, rotation, warned, attempts)| Machine {
            phase,
            provider_id: provider_id.map(Into::into),
            asked_at: times[0],
            registered_at: times[1],
            served_at: times[2],
            ready_at: times[3],
            interrupted_at: times[4],
            retry_at: times[5],
            rotation: rotation.map(Box::new),
            warned,
            attempts,
            error: None,
        })
}

fn group() -> impl Strategy<Value = Group> {
    let reserved = (name(), prop::option::of(name()))
        .prop_map(|(name, replaces)| Reservation { name, replaces });
    let deaths = (number(), name(), time(), span())
        .prop_map(|(count, machine, at, ready_for)| YoungDeaths { count, machine, at, ready_for });
    let started = (time(), cause()).prop_map(|(at, cause)| RotationStart { at, cause });
    (
        prop::sample::select(vec![0, 1, u64::MAX]),
        prop::collection::vec(reserved, 0..4),
        number(),
        prop::option::of(time()),
        prop::collection::vec(started, 0..4),
        (prop::option::of(name()), any::<bool>(), prop::option::of(deaths)),
    )
        .prop_map(|(serial, reserved, failures, retry_at, started, template)| Group {
            serial,
            reserved,
            template: template.0,
            proven: template.1,
            young_deaths: template.2,
            failures,
            error: None,
            retry_at,
            started,
            next_rotation: None,
        })
}

fn machine() -> impl Strategy<Value = intent::Machine> {
    let kept = prop_oneof![Just(Kept::No), Just(Kept::Always), time().prop_map(Kept::Until)];
    let reply = outcome().prop_map(|outcome| Reply {
        id: "id".to_owned(),
        outcome,
        message: "m".to_owned(),
    });
    (name(), time(), any::<bool>(), kept, prop::option::of(time()), prop::option::of(reply))
        .prop_map(|(name, created_at, deleting, kept, drain, reply)| intent::Machine {
            uid: name.as_str().into(),
            name: name.into(),
            created_at,
            deleting,
            template: "t1".into(),
            kept,
            drain,
            reply,
        })
}

fn seen() -> impl Strategy<Value = ObservedMachine> {
    let power = prop::sample::select(vec![
        Power::Pending,
        Power::Running,
        Power::Running,
        Power::Stopped,
        Power::Deleting,
    ]);
    let found = (power, prop::option::of(time())).prop_map(|(power, interruption)| {
        Known::Is(ProviderMachine { id: "vm".into(), power, interruption })
    });
    let health = prop_oneof![
        Just(Known::Unknown),
        Just(Known::Is(Health::Ready)),
        span().prop_map(|observed| Known::Is(Health::Unhealthy { observed })),
    ];
    let last_result = prop::option::of(prop::sample::select(vec![
        OperationResult::Created { id: "vm".to_owned() },
        OperationResult::Deleted,
        OperationResult::Refused { message: "no".to_owned() },
        OperationResult::Failed { message: "no".to_owned() },
    ]));
    (
        prop_oneof![Just(Known::Absent), Just(Known::Unknown), found],
        health,
        last_result,
        any::<bool>(),
    )
        .prop_map(|(provider, health, last_result, in_flight)| ObservedMachine {
            provider,
            health,
            last_result,
            in_flight,
        })
}

fn intent() -> impl Strategy<Value = Intent> {
    let policy = prop::sample::select(vec![
        ForcedPolicy::ReplaceFirst,
        ForcedPolicy::DrainAnyway,
        ForcedPolicy::TerminateAnyway,
    ]);
    let expiry = (term(), term(), policy, number(), span()).prop_map(
        |(eligible, forced, policy, forced_surge, jitter)| Expiry {
            eligible,
            forced,
            policy,
            forced_surge,
            jitter,
        },
    );
    let budget = (number(), prop::option::of(span()), prop::collection::vec(cause(), 0..2))
        .prop_map(|(max, per, causes)| Budget {
            max,
            per,
            causes,
            allow: Vec::new(),
            deny: Vec::new(),
            path: "budgets[0]".to_owned(),
        });
    let flags = prop::collection::vec(prop::bool::weighted(0.2), 3);
    let spans = prop::collection::vec(span(), 5);
    let times = prop::collection::vec(prop::option::of(time()), 2);
    (
        flags,
        prop::collection::vec(number(), 4),
        spans,
        expiry,
        prop::collection::vec(budget, 0..3),
        times,
    )
        .prop_map(|(flags, numbers, spans, expiry, budgets, times)| Intent {
            name: "web".to_owned(),
            uid: "g1".to_owned(),
            deleting: flags[0],
            paused: flags[1],
            observe: flags[2],
            size: numbers[0],
            surge: numbers[1],
            min_healthy: numbers[2],
            max_unhealthy: numbers[3],
            min_ready: spans[0],
            registration_timeout: spans[1],
            unhealthy_after: spans[2],
            drain_timeout: spans[3],
            trial: spans[4],
            expiry,
            budgets,
            freeze_until: times[0],
            rotate_before: times[1],
            fleet: times[1].map(|_| intent::Fleet { max: numbers[0], others: numbers[3] }),
            template: "t1".to_owned(),
        })
}

proptest! {
    #[test]
    fn no_input_panics(
        group in group(),
        states in prop::collection::btree_map(name().prop_map(Arc::<str>::from), remembered(), 0..4),
        machines in prop::collection::vec(machine(), 0..5),
        sights in prop::collection::btree_map(name().prop_map(Arc::<str>::from), seen(), 0..5),
        intent in intent(),
        now in time(),
        longest in term(),
    ) {
        let state = GroupState { group, machines: states.into_iter().collect() };
        let observed = Observed { machines: sights.into_iter().collect() };
        let decision = decide(state.clone(), &machines, &observed, &intent, now);
        prop_assert!(decision.why.len() <= 33);
        // Deleted is only what the record says is being deleted, and the object's name is known.
        for effect in &decision.effects {
            if let Effect::Delete { name } | Effect::Deprovision { name } | Effect::RemoveFinalizer { name } = effect {
                prop_assert_eq!(state.machines[name.as_str()].phase, Phase::Deleting);
            }
        }
        // What is done to a machine that goes stands together, in its order.
        let is_creation = |effect: &&Effect| matches!(effect, Effect::Create { .. });
        let others = decision.effects.iter().filter(|effect| !is_creation(effect));
        let mut runs: Vec<_> = others.map(Effect::machine).collect();
        runs.dedup();
        let different: BTreeSet<_> = runs.iter().collect();
        prop_assert_eq!(runs.len(), different.len(), "{:?}", decision.effects);
        let _ = forecast::forecast(state.clone(), &machines, &observed, &intent, now, 3);
        let _ = feasible::shortfall(&Intent { size: intent.size.min(9), ..intent.clone() }, now)
            .map(|shortfall| shortfall.to_string());
        for machine in machines {
            let remembered: &ByName<Machine> = &state.machines;
            let lent = OnDemand {
                paused: intent.paused,
                observe: intent.observe,
                age: intent.expiry.forced,
                max_age: longest,
                renewed_until: intent.rotate_before,
                warn_before: intent.min_ready,
                registration_timeout: intent.registration_timeout,
                drain_timeout: intent.drain_timeout,
                machine,
                ending: intent.deleting,
                announced_end: intent.rotate_before,
            };
            let name = &lent.machine.name;
            let seen = observed.machines.get(name).cloned().unwrap_or_default();
            let _ = on_demand::decide(remembered.get(name).cloned().unwrap_or_default(), &seen, &lent, now);
        }
    }
}
