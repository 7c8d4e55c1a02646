//! Whoever takes machines away, by whatever way, waits for their drains.

use http::Method;
use kube::Resource as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sojourn_api::group::status::{Phase, Reason};

use crate::fixture::{DAY, HOUR, MINUTE, deadline, draining, gone, names, ready, simulation};

// case: group 14
#[tokio::test(start_paused = true)]
async fn a_group_goes_when_its_machines_are_drained() {
    let simulation = simulation(1, json!({"expiry": {"eligibleAge": "1d"}})).await;
    let name = names(&simulation)[0].clone();
    simulation.delete_group("web").await;
    let (drained, drain) = draining(&simulation, MINUTE).await;
    assert_eq!((&drained, drain.reason), (&name, Some(Reason::Scale)));
    let went = gone(&simulation, HOUR, &name).await;
    assert_eq!(went.as_second(), deadline(&drain).as_second());
    simulation.until(MINUTE, "its end", |checker| checker.groups.is_empty().then_some(())).await;
    assert!(simulation.drivers.provider.machines().is_empty());
    let timers = simulation.operator.ask(|started| started.groups.depth());
    assert_eq!(timers, Some((0, 0)));
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_there_until_its_object_is_known_to_be_deleted() {
    let simulation = simulation(3, json!({"drainTimeout": "0s"})).await;
    simulation.faults.hold(Method::DELETE);
    simulation.change_group("web", json!({"spec": {"size": 2}})).await;
    tokio::time::timeout(HOUR, simulation.faults.until_held()).await.expect("one is deleted");
    simulation.pass(MINUTE).await;
    assert_eq!((names(&simulation).len(), simulation.drivers.provider.machines().len()), (3, 3));
    // Nobody knows whether it was: whoever takes over finds out.
    simulation.operator.kill();
    simulation.faults.release();
    ready(&simulation, "web", 2).await;
    assert_eq!(simulation.drivers.provider.machines().len(), 2);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_somebody_deletes_is_drained_and_another_comes() {
    let simulation = simulation(3, json!({})).await;
    let name = names(&simulation)[0].clone();
    simulation.delete_machine(&name).await;
    let (drained, drain) = draining(&simulation, MINUTE).await;
    assert_eq!((&drained, drain.reason), (&name, Some(Reason::Manual)));
    let went = gone(&simulation, HOUR, &name).await;
    assert!(went >= deadline(&drain));
    ready(&simulation, "web", 3).await;
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn kubectl_scale_works_both_ways() {
    let simulation = simulation(2, json!({})).await;
    let scale = json!({"spec": {"replicas": 4}});
    let params = PatchParams::default();
    let groups = simulation.groups();
    groups.patch_scale("web", &params, &Patch::Merge(&scale)).await.expect("it can be scaled");
    ready(&simulation, "web", 4).await;
    let scaled = groups.get_scale("web").await.expect("it can be read");
    let status = scaled.status.expect("one");
    assert_eq!(status.replicas, 4);
    assert_eq!(status.selector.as_deref(), Some("group.sojourn.dev/group=web"));
    let scale = json!({"spec": {"replicas": 1}});
    groups.patch_scale("web", &params, &Patch::Merge(&scale)).await.expect("it can be scaled");
    ready(&simulation, "web", 1).await;
    assert_eq!(simulation.checker.lock().drains.len(), 3);
    simulation.assert_invariants();
}

/// Somebody took the group's finalizer away: its machines stand for themselves.
#[tokio::test(start_paused = true)]
async fn machines_without_their_group_are_drained_and_let_go() {
    let simulation = simulation(2, json!({})).await;
    let before = names(&simulation);
    simulation.operator.want(false);
    simulation.change_group("web", json!({"metadata": {"finalizers": null}})).await;
    simulation.delete_group("web").await;
    simulation
        .until(MINUTE, "orphans", |checker| {
            let all = checker.of("web");
            let leaving = all.iter().all(|one| one.meta().deletion_timestamp.is_some());
            (checker.groups.is_empty() && leaving).then_some(())
        })
        .await;
    simulation.operator.want(true);
    for name in &before {
        let drain = simulation
            .until(MINUTE, "a drain", |checker| checker.machine(name)?.status.clone()?.drain)
            .await;
        assert_eq!(drain.reason, Some(Reason::Manual));
    }
    for name in &before {
        gone(&simulation, HOUR, name).await;
    }
    assert!(simulation.drivers.provider.machines().is_empty());
    simulation.assert_invariants();
}

/// A second group of the name is another group.
#[tokio::test(start_paused = true)]
async fn a_group_that_is_made_again_has_machines_of_its_own() {
    let simulation = simulation(2, json!({})).await;
    let before = names(&simulation);
    simulation.delete_group("web").await;
    simulation.until(HOUR, "its end", |checker| checker.groups.is_empty().then_some(())).await;
    simulation.make_group("web", 2, json!({})).await;
    ready(&simulation, "web", 2).await;
    assert!(names(&simulation).iter().all(|name| !before.contains(name)));
    simulation.pass(DAY).await;
    assert_eq!(simulation.checker.lock().in_phase("web", Phase::Ready).len(), 2);
    simulation.assert_invariants();
}
