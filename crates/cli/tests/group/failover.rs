//! Two replicas of the operator on a real control plane: whoever leads when a drain begins is not who
//! leads when it ends.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::json;

use crate::cluster::good;
use crate::fixture::{Engine, Fixture, LOG};
use crate::fleet::{Draining, Fleet};
use crate::journal::Journal;
use crate::process::Running;
use crate::tool::free_port;

/// Longer than it takes until the other replica leads.
const DRAIN_TIMEOUT: &str = "40s";

/// Starts a replica; it stands by.
fn replica(stage: &Fixture) -> Running {
    let cluster = stage.cluster.as_ref().expect("a real control plane");
    let running = cluster.replica(&format!("127.0.0.1:{}", free_port()), LOG, &[]);
    running.stderr_line("Standing by as");
    running
}

/// Has one machine drained, and waits until that has begun.
async fn open_drain(stage: &Fixture, fleet: &Fleet, machine: &str) -> Draining {
    let asked = ["drain", &format!("machine/{machine}"), "--no-wait"];
    good(stage.sojourn(&fleet.namespace, &asked));
    fleet.until_drains(&BTreeSet::new()).await
}

/// Waits until the drain is over, at its own time; answers the machines that are there then.
async fn until_over(fleet: &Fleet, journal: &Journal, drain: &Draining) -> BTreeSet<String> {
    let now = Timestamp::now();
    assert!(now < drain.deadline, "at {now} it is not in the middle any more: {drain:?}");
    fleet.until_gone(&drain.machine).await;
    let ended = journal.ended_at(&drain.machine).await;
    assert!(ended >= drain.deadline, "{ended}: {drain:?}");
    let late = ended.duration_since(drain.deadline);
    assert!(late.as_secs() < 10, "{late} after its deadline");
    let drains = journal.drains(&drain.machine);
    assert_eq!(drains, std::slice::from_ref(drain), "one drain, with one deadline");
    let over = fleet.until_reported(&drain.machine, "DrainTimedOut").await;
    assert_eq!(over.len(), 1, "deleted once: {over:?}");
    fleet.until_whole(2).await
}

fn replaced(before: &BTreeSet<String>, drain: &Draining) -> BTreeSet<String> {
    let mut after = before.clone();
    after.remove(&drain.machine);
    after.insert(drain.replacement.clone().expect("it is replaced"));
    after
}

// case: group 46, 50
#[tokio::test(flavor = "multi_thread")]
async fn real_another_replica_leads_in_the_middle_of_a_drain() {
    let Some(mut stage) = Fixture::start(Engine::Real, &json!({})).await else { return };
    let Some(fleet) = Fleet::on(&stage, "shared").await else { return };
    stage.kill();
    let one = replica(&stage);
    one.stderr_line("The operator is up.");
    let other = replica(&stage);
    let journal = fleet.journal().await;
    fleet.apply(&json!({"size": 2, "minHealthy": 2, "drainTimeout": DRAIN_TIMEOUT})).await;
    let first = fleet.until_whole(2).await;
    journal.count_ready_from(2);

    // The leader hangs. When it comes to itself, it is none any more, and does nothing.
    let machine = first.first().expect("two machines");
    let drain = open_drain(&stage, &fleet, machine).await;
    one.signal("STOP");
    other.stderr_line("The operator is up.");
    one.signal("CONT");
    one.stderr_line("the lease is lost; nothing is done here now");
    let second = until_over(&fleet, &journal, &drain).await;
    assert_eq!(second, replaced(&first, &drain));

    // The leader is killed.
    let machine = first.last().expect("two machines");
    let drain = open_drain(&stage, &fleet, machine).await;
    other.crash();
    let third = until_over(&fleet, &journal, &drain).await;
    assert_eq!(third, replaced(&second, &drain));

    assert_eq!(journal.names(), first.union(&third).cloned().collect(), "no extra machine");
    assert_eq!((journal.most_pods(), journal.most_machines()), (3, 3));
    assert_eq!(journal.fewest_ready(), 2);
    crate::survivors::interrupt(one);
    stage.stop();
}
