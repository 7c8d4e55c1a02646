//! Machines come, get old, and go.

use serde_json::json;
use sojourn_api::group::status::{Phase, Reason};

use crate::fixture::{
    DAY, HOUR, MINUTE, SECOND, deadline, draining, gone, names, ready, require, simulation, status,
};

// case: group 12
#[tokio::test(start_paused = true)]
async fn a_group_makes_as_many_as_are_wanted() {
    let simulation = simulation(2, json!({})).await;
    assert_eq!(simulation.drivers.provider.machines().len(), 2);
    let group = simulation.groups().get("web").await.expect("it is there");
    let replicas = group.status.expect("a status").replicas.expect("figures");
    assert_eq!((replicas.desired, replicas.total, replicas.ready), (2, 2, 2));
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn an_old_machine_is_replaced_first_and_drained_then() {
    let spec = json!({"expiry": {"eligibleAge": "1d"}, "minHealthy": 3});
    let simulation = simulation(3, spec).await;
    require(&simulation, 4, 3);
    let old = names(&simulation);
    let (name, drain) = draining(&simulation, DAY + HOUR).await;
    assert!(old.contains(&name));
    assert_eq!(drain.reason, Some(Reason::Expired));
    let replacement = status(&simulation, &name).rotation.expect("one").replacement.expect("one");
    assert_eq!(status(&simulation, &replacement).phase, Some(Phase::Ready));
    assert_eq!(names(&simulation).len(), 4);
    let went = gone(&simulation, 10 * MINUTE, &name).await;
    assert!(went >= deadline(&drain), "{went} is before {}", deadline(&drain));
    // The others follow, one after the other.
    simulation
        .until(HOUR, "all are new", |checker| {
            let all = checker.of("web");
            let new = all.iter().all(|one| !old.contains(&kube::ResourceExt::name_any(*one)));
            (all.len() == 3 && new).then_some(())
        })
        .await;
    simulation.assert_invariants();
}

// case: group 57
#[tokio::test(start_paused = true)]
async fn whoever_drains_can_end_it_early() {
    let simulation = simulation(3, json!({"expiry": {"eligibleAge": "1d"}})).await;
    let (name, drain) = draining(&simulation, DAY + HOUR).await;
    simulation.pass(30 * SECOND).await;
    simulation.reply(&name, &drain.id, "Done").await.expect("it is open");
    let went = gone(&simulation, MINUTE, &name).await;
    assert!(went < deadline(&drain));
    assert_eq!(simulation.events("DrainAcknowledged").await[0].0, name);
    ready(&simulation, "web", 3).await;
    simulation.assert_invariants();
}
