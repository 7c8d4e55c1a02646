//! `examples/group/` shows the four classic scenarios, side by side, within about a minute.

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use serde_json::json;

use crate::cluster::apply;
use crate::fixture::{Engine, Fixture, assets};
use crate::fleet::{Draining, Fleet};
use crate::journal::Journal;
use crate::wait::within;

/// About a minute, on a slow and busy machine.
const EXAMPLE_TIMEOUT: Duration = Duration::from_secs(90);

/// The machines that a group had first, and when each was made.
type Born = Vec<(String, Timestamp)>;

async fn born(fleet: &Fleet) -> Option<Born> {
    let machines = fleet.machines().await.into_iter();
    let own = machines.filter(|one| one.spec.group.as_deref() == Some(&fleet.name));
    let own: Born =
        own.filter_map(|one| Some((one.name_any(), one.creation_timestamp()?.0))).collect();
    (own.len() == 2).then_some(own)
}

/// Waits until the machines are gone; the drain that each had.
async fn drained(fleet: &Fleet, journal: &Journal, born: &Born, started: Instant) -> Vec<Draining> {
    let mut drains = Vec::new();
    for (machine, _) in born {
        let left = EXAMPLE_TIMEOUT.saturating_sub(started.elapsed());
        within(left, &format!("{machine} is gone"), async || {
            let there = fleet.names().await.contains(machine);
            (!there && !fleet.pods().await.contains(machine)).then_some(())
        })
        .await;
        let [drain] = <[_; 1]>::try_from(journal.drains(machine)).expect("one drain");
        let ended = journal.ended_at(machine).await;
        assert!(ended >= drain.deadline, "{ended}: {drain:?}");
        drains.push(drain);
    }
    drains
}

/// No drain began before a machine was older than this.
fn assert_older(drains: &[Draining], born: &Born, age: SignedDuration) {
    for (drain, (machine, at)) in drains.iter().zip(born) {
        let due = at.checked_add(age).expect("in range");
        assert!(drain.started >= due, "{machine}, made at {at}: {drain:?}");
    }
}

// case: group 37, 56
#[tokio::test(flavor = "multi_thread")]
async fn the_example_shows_four_scenarios_within_about_a_minute() {
    let Some(assets) = assets("the example") else { return };
    let Some(stage) = Fixture::start(Engine::Embedded, &json!({})).await else { return };
    let of = |name: &str| Fleet::of(&stage, "machines", name).expect("kubectl is there");
    let [opportunistic, forced, blocked, on_demand] =
        ["opportunistic", "forced", "blocked", "on-demand"].map(of);
    stage.objects.make_namespace("machines").await;
    let journal = opportunistic.journal().await;
    let started = Instant::now();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/group");
    apply(&assets.join("kubectl"), &stage.kubeconfig, &example);
    let mut firsts = Vec::new();
    for fleet in [&opportunistic, &forced, &blocked, &on_demand] {
        firsts
            .push(within(EXAMPLE_TIMEOUT, "it has two machines", async || born(fleet).await).await);
    }
    let [first_eligible, first_forced, first_blocked, lent] =
        <[_; 4]>::try_from(firsts).expect("four groups");

    // On demand: announced, drained, gone, both of them, and nothing in their place.
    let drains = drained(&on_demand, &journal, &lent, started).await;
    assert_older(&drains, &lent, SignedDuration::from_secs(25));
    for drain in &drains {
        assert_eq!((drain.reason.as_str(), &drain.replacement), ("OnDemand", &None));
        on_demand.until_reported(&drain.machine, "ExpiryWarning").await;
    }
    assert!(born(&on_demand).await.is_none(), "nothing comes in their place");

    // Opportunistic: one after the other, each after its replacement was ready.
    let mut drains = drained(&opportunistic, &journal, &first_eligible, started).await;
    assert_older(&drains, &first_eligible, SignedDuration::from_secs(15));
    for drain in &drains {
        assert_eq!(drain.reason, "Expired");
        journal.assert_replaced_first(drain, SignedDuration::from_secs(2));
        let over = opportunistic.until_reported(&drain.machine, "DrainTimedOut").await;
        assert_eq!(over[0].severity, "Warning");
    }
    drains.sort_by_key(|drain| drain.started);
    assert!(drains[1].started >= drains[0].deadline, "one at a time: {drains:?}");

    // Forced: not before, although they are old enough; then both.
    let drains = drained(&forced, &journal, &first_forced, started).await;
    assert_older(&drains, &first_forced, SignedDuration::from_secs(45));
    for drain in &drains {
        assert_eq!(drain.reason, "Forced");
        journal.assert_replaced_first(drain, SignedDuration::ZERO);
    }

    // Blocked: nothing, and it says why.
    assert_eq!(born(&blocked).await, Some(first_blocked.clone()));
    for (machine, _) in &first_blocked {
        assert_eq!(journal.drains(machine), []);
    }
    let status = blocked.status().await.expect("it is there");
    assert!(!status.blocked_by.is_empty(), "{status:?}");
    let mut conditions = status.conditions.iter().filter(|one| one.type_ == "Blocked");
    assert!(conditions.any(|one| one.status == "True"), "{status:?}");
    assert!(started.elapsed() < EXAMPLE_TIMEOUT, "{:?}", started.elapsed());
    stage.stop();
}
