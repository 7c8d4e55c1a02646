//! Any times, spans and counts at all: an answer, and no panic.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use crate::cluster::forecast::forecast;
use crate::cluster::intent::{OnDrift, OnTimeout, Poll, PoolMembership};
use crate::cluster::machine::MachineState;
use crate::cluster::message::messages;
use crate::cluster::operation::OperationId;
use crate::cluster::power::Wanted;
use crate::cluster::test_cluster::{TestCluster, schedule, start};
use crate::term::Term;

fn time() -> impl Strategy<Value = Timestamp> {
    prop::sample::select(vec![
        Timestamp::MIN,
        Timestamp::UNIX_EPOCH,
        start(),
        start() + SignedDuration::from_millis(1),
        start() + SignedDuration::from_hours(9),
        Timestamp::MAX,
    ])
}

fn span() -> impl Strategy<Value = SignedDuration> {
    prop::sample::select(vec![
        SignedDuration::MIN,
        SignedDuration::ZERO,
        SignedDuration::from_nanos(1),
        SignedDuration::from_mins(1),
        SignedDuration::from_hours(24),
        SignedDuration::MAX,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_panics(
        asleep in any::<bool>(),
        contacts in any::<bool>(),
        wanted in prop::sample::select(Wanted::ALL.to_vec()),
        policies in (
            prop::sample::select(vec![OnTimeout::Report, OnTimeout::Retry, OnTimeout::RollBack]),
            prop::sample::select(vec![OnDrift::Report, OnDrift::Enforce]),
        ),
        times in prop::collection::vec(time(), 6),
        spans in prop::collection::vec(span(), 10),
        id in prop::sample::select(vec![i64::MIN, 0, i64::MAX]),
        deaf in any::<bool>(),
    ) {
        let mut cluster = if asleep { TestCluster::hibernating() } else { TestCluster::running() };
        cluster.intent.has_contacts = contacts;
        (cluster.intent.on_timeout, cluster.intent.on_drift) = policies;
        cluster.intent.hibernate_after = Some(spans[0]);
        cluster.intent.timeouts.stop = Term::Span(spans[1]);
        cluster.intent.timeouts.resume = Term::Span(spans[2]);
        cluster.intent.keep_until = Some(times[0]);
        cluster.intent.pool = Some(PoolMembership { claimed_at: Some(times[1]) });
        cluster.intent.schedules = vec![schedule(Some("0 20 * * *"), Some("0 8 * * *"))];
        cluster.settings.settle = spans[3];
        cluster.settings.announce_before = spans[4];
        cluster.settings.delivery = spans[5];
        cluster.settings.machine_poll = Poll { min: spans[6], max: spans[7] };
        cluster.settings.drift_interval = spans[8];
        cluster.settings.call_visibility = spans[9];
        cluster.state.installed_at = Some(times[2]);
        cluster.state.running_since = Some(times[3]);
        if let Some(operation) = &mut cluster.state.operation {
            operation.id = OperationId(id);
        }
        cluster.vm("a").deaf = deaf;
        cluster.set("b", MachineState::Unknown(String::new()));
        cluster.intent.wanted = wanted;
        for now in [times[4], times[5], times[4]] {
            cluster.now = now;
            cluster.recent.since = now;
            for vm in &mut cluster.vms {
                vm.turns = None;
            }
            let decision = cluster.decision();
            cluster.store(&decision);
            let TestCluster { state, sync, intent, settings, .. } = &cluster;
            let stopped = intent.stopped().unwrap();
            prop_assert!(messages(state, stopped, now).ready.len() < 1024);
            prop_assert!(forecast(state.clone(), *sync, intent, settings, now, 4).len() <= 4);
        }
    }
}
