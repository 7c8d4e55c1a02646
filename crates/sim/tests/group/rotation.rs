//! Machines come, get old, and go.

use serde_json::json;
use sojourn_api::group::status::{Phase, Reason};

use crate::stage::{
    DAY, HOUR, MINUTE, SECOND, deadline, draining, gone, names, nothing_is_wrong, ready, rule,
    status, world,
};

// case: group 12
#[tokio::test(start_paused = true)]
async fn a_group_makes_as_many_as_are_wanted() {
    let world = world(2, json!({})).await;
    assert_eq!(world.fake.machines().len(), 2);
    let group = world.groups().get("web").await.expect("it is there");
    let replicas = group.status.expect("a status").replicas.expect("figures");
    assert_eq!((replicas.desired, replicas.total, replicas.ready), (2, 2, 2));
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn an_old_machine_is_replaced_first_and_drained_then() {
    let spec = json!({"expiry": {"eligibleAge": "1d"}, "minHealthy": 3});
    let world = world(3, spec).await;
    rule(&world, 4, 3);
    let old = names(&world);
    let (name, drain) = draining(&world, DAY + HOUR).await;
    assert!(old.contains(&name));
    assert_eq!(drain.reason, Some(Reason::Expired));
    let replacement = status(&world, &name).rotation.expect("one").replacement.expect("one");
    assert_eq!(status(&world, &replacement).phase, Some(Phase::Ready));
    assert_eq!(names(&world).len(), 4);
    let went = gone(&world, 10 * MINUTE, &name).await;
    assert!(went >= deadline(&drain), "{went} is before {}", deadline(&drain));
    // The others follow, one after the other.
    world
        .until(HOUR, "all are new", |book| {
            let all = book.of("web");
            let new = all.iter().all(|one| !old.contains(&kube::ResourceExt::name_any(*one)));
            (all.len() == 3 && new).then_some(())
        })
        .await;
    nothing_is_wrong(&world);
}

// case: group 57
#[tokio::test(start_paused = true)]
async fn whoever_drains_can_end_it_early() {
    let world = world(3, json!({"expiry": {"eligibleAge": "1d"}})).await;
    let (name, drain) = draining(&world, DAY + HOUR).await;
    world.pass(30 * SECOND).await;
    world.reply(&name, &drain.id, "Done").await.expect("it is open");
    let went = gone(&world, MINUTE, &name).await;
    assert!(went < deadline(&drain));
    assert_eq!(world.events("DrainAcknowledged").await[0].0, name);
    ready(&world, "web", 3).await;
    nothing_is_wrong(&world);
}
