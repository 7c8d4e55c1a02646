//! Whoever takes machines away, by whatever way, waits for their drains.

use http::Method;
use kube::Resource as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sojourn_api::group::status::{Phase, Reason};

use crate::stage::{
    DAY, HOUR, MINUTE, deadline, draining, gone, names, nothing_is_wrong, ready, world,
};

// case: group 14
#[tokio::test(start_paused = true)]
async fn a_group_goes_when_its_machines_are_drained() {
    let world = world(1, json!({"expiry": {"eligibleAge": "1d"}})).await;
    let name = names(&world)[0].clone();
    world.delete_group("web").await;
    let (drained, drain) = draining(&world, MINUTE).await;
    assert_eq!((&drained, drain.reason), (&name, Some(Reason::Scale)));
    let went = gone(&world, HOUR, &name).await;
    assert_eq!(went.as_second(), deadline(&drain).as_second());
    world.until(MINUTE, "its end", |book| book.groups.is_empty().then_some(())).await;
    assert!(world.fake.machines().is_empty());
    let timers = world.operator.ask(|started| started.groups.depth());
    assert_eq!(timers, Some((0, 0)));
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_there_until_its_object_is_known_to_be_deleted() {
    let world = world(3, json!({"drainTimeout": "0s"})).await;
    world.faults.hold(Method::DELETE);
    world.change_group("web", json!({"spec": {"size": 2}})).await;
    tokio::time::timeout(HOUR, world.faults.until_held()).await.expect("one is deleted");
    world.pass(MINUTE).await;
    assert_eq!((names(&world).len(), world.fake.machines().len()), (3, 3));
    // Nobody knows whether it was: whoever takes over finds out.
    world.operator.kill();
    world.faults.let_go();
    ready(&world, "web", 2).await;
    assert_eq!(world.fake.machines().len(), 2);
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_somebody_deletes_is_drained_and_another_comes() {
    let world = world(3, json!({})).await;
    let name = names(&world)[0].clone();
    world.delete_machine(&name).await;
    let (drained, drain) = draining(&world, MINUTE).await;
    assert_eq!((&drained, drain.reason), (&name, Some(Reason::Manual)));
    let went = gone(&world, HOUR, &name).await;
    assert!(went >= deadline(&drain));
    ready(&world, "web", 3).await;
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn kubectl_scale_works_both_ways() {
    let world = world(2, json!({})).await;
    let scale = json!({"spec": {"replicas": 4}});
    let params = PatchParams::default();
    let groups = world.groups();
    groups.patch_scale("web", &params, &Patch::Merge(&scale)).await.expect("it can be scaled");
    ready(&world, "web", 4).await;
    let scaled = groups.get_scale("web").await.expect("it can be read");
    let status = scaled.status.expect("one");
    assert_eq!(status.replicas, 4);
    assert_eq!(status.selector.as_deref(), Some("group.sojourn.dev/group=web"));
    let scale = json!({"spec": {"replicas": 1}});
    groups.patch_scale("web", &params, &Patch::Merge(&scale)).await.expect("it can be scaled");
    ready(&world, "web", 1).await;
    assert_eq!(world.ledger.book().drains.len(), 3);
    nothing_is_wrong(&world);
}

/// Somebody took the group's finalizer away: its machines stand for themselves.
#[tokio::test(start_paused = true)]
async fn machines_without_their_group_are_drained_and_let_go() {
    let world = world(2, json!({})).await;
    let before = names(&world);
    world.operator.want(false);
    world.change_group("web", json!({"metadata": {"finalizers": null}})).await;
    world.delete_group("web").await;
    world
        .until(MINUTE, "orphans", |book| {
            let all = book.of("web");
            let leaving = all.iter().all(|one| one.meta().deletion_timestamp.is_some());
            (book.groups.is_empty() && leaving).then_some(())
        })
        .await;
    world.operator.want(true);
    for name in &before {
        let drain =
            world.until(MINUTE, "a drain", |book| book.machine(name)?.status.clone()?.drain).await;
        assert_eq!(drain.reason, Some(Reason::Manual));
    }
    for name in &before {
        gone(&world, HOUR, name).await;
    }
    assert!(world.fake.machines().is_empty());
    nothing_is_wrong(&world);
}

/// A second group of the name is another group.
#[tokio::test(start_paused = true)]
async fn a_group_that_is_made_again_has_machines_of_its_own() {
    let world = world(2, json!({})).await;
    let before = names(&world);
    world.delete_group("web").await;
    world.until(HOUR, "its end", |book| book.groups.is_empty().then_some(())).await;
    world.make_group("web", 2, json!({})).await;
    ready(&world, "web", 2).await;
    assert!(names(&world).iter().all(|name| !before.contains(name)));
    world.pass(DAY).await;
    assert_eq!(world.ledger.book().in_phase("web", Phase::Ready).len(), 2);
    nothing_is_wrong(&world);
}
