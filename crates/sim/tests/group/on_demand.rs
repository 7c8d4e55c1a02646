//! Machines on demand.

use serde_json::json;
use sojourn_api::group::status::{Phase, Reason};
use sojourn_sim::group::simulation::{GroupSimulation, Setting};

use crate::fixture::{DAY, HOUR, MINUTE, deadline, gone, ready, status};

async fn lending() -> GroupSimulation {
    let config = "expiry: {ondemandAge: 7d}".to_owned();
    GroupSimulation::new(Setting { config, ..Setting::default() }).await
}

fn fake() -> serde_json::Value {
    json!({"template": {"provider": "fake", "config": {"image": "v1"}}})
}

async fn is_ready(simulation: &GroupSimulation, name: &str) {
    simulation
        .until(10 * MINUTE, "a machine that is ready", |checker| {
            let phase = checker.machine(name)?.status.as_ref()?.phase?;
            (phase == Phase::Ready).then_some(())
        })
        .await;
}

// case: group 37
#[tokio::test(start_paused = true)]
async fn it_is_drained_and_deleted_when_its_time_is_over() {
    let simulation = lending().await;
    simulation.make_machine("mine", fake()).await;
    is_ready(&simulation, "mine").await;
    let created = simulation.now();
    let drain = simulation
        .until(8 * DAY, "a drain", |checker| checker.machine("mine")?.status.clone()?.drain)
        .await;
    assert_eq!(drain.reason, Some(Reason::OnDemand));
    let age = deadline(&drain).duration_since(created).as_hours();
    assert_eq!(age, 7 * 24);
    gone(&simulation, HOUR, "mine").await;
    simulation.pass(DAY).await;
    assert!(simulation.drivers.provider.machines().is_empty());
    assert!(simulation.checker.lock().machines.is_empty(), "nothing comes in its place");
    simulation.assert_invariants();
}

// case: group 39
#[tokio::test(start_paused = true)]
async fn all_that_are_overdue_go_and_not_just_the_oldest() {
    let simulation = lending().await;
    simulation.make_group("web", 2, json!({})).await;
    ready(&simulation, "web", 2).await;
    let names: Vec<String> = (0..5).map(|number| format!("mine-{number}")).collect();
    for name in &names {
        simulation.make_machine(name, json!({"group": "web"})).await;
    }
    for name in &names {
        is_ready(&simulation, name).await;
    }
    simulation.operator.want(false);
    simulation.pass(9 * DAY).await;
    simulation.operator.want(true);
    for name in &names {
        gone(&simulation, HOUR, name).await;
    }
    ready(&simulation, "web", 2).await;
    assert_eq!(simulation.drivers.provider.machines().len(), 2, "the group's are left alone");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn it_is_warned_about_and_can_be_renewed_as_far_as_that_goes() {
    let simulation = lending().await;
    let spec = json!({"expiry": {"ondemandAge": "2d", "ondemandWarnBefore": "6h",
                                 "ondemandMaxAge": "3d"}});
    simulation.make_group("web", 0, spec).await;
    simulation.make_machine("mine", json!({"group": "web"})).await;
    is_ready(&simulation, "mine").await;
    let created = simulation.checker.lock().machines["mine"].metadata.creation_timestamp.clone();
    let created = created.expect("one").0;
    let warned = simulation
        .until(2 * DAY, "a warning", |checker| checker.machine("mine")?.status.clone()?.warned)
        .await;
    assert_eq!(warned.deadline.expect("one").0.duration_since(created).as_hours(), 48);
    assert_eq!(simulation.events("ExpiryWarning").await[0].0, "mine");
    let until = created + jiff::SignedDuration::from_hours(60);
    let renewed = json!({"spec": {"renewedUntil": until.to_string()}});
    simulation.change_machine("mine", renewed).await.expect("it may be");
    simulation.pass(11 * HOUR).await;
    assert!(status(&simulation, "mine").drain.is_none());
    gone(&simulation, DAY, "mine").await;
    let age = simulation.now().duration_since(created).as_hours();
    assert!((60..=61).contains(&age), "{age}");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_a_group_that_is_not_there_and_says_so() {
    let simulation = lending().await;
    simulation.make_machine("mine", json!({"group": "web"})).await;
    let words = simulation
        .until(MINUTE, "a condition", |checker| {
            let status = checker.machine("mine")?.status.clone()?;
            let found = status.conditions.into_iter().find(|one| one.type_ == "Accepted")?;
            Some(found.message)
        })
        .await;
    assert!(words.contains("no InstanceGroup web"), "{words}");
    simulation.make_group("web", 0, json!({})).await;
    is_ready(&simulation, "mine").await;
    simulation.delete_machine("mine").await;
    gone(&simulation, HOUR, "mine").await;
    assert!(simulation.drivers.provider.machines().is_empty());
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn the_end_that_was_announced_holds_although_its_group_is_gone() {
    let simulation = lending().await;
    simulation.make_group("web", 0, json!({"expiry": {"ondemandAge": "2d"}})).await;
    simulation.make_machine("mine", json!({"group": "web"})).await;
    is_ready(&simulation, "mine").await;
    let told = status(&simulation, "mine").expires_at.expect("an end").0;
    assert_eq!(
        status(&simulation, "mine").next.and_then(|next| next.at).map(|time| time.0),
        Some(told)
    );
    simulation.delete_group("web").await;
    simulation.pass(DAY).await;
    let accepted = status(&simulation, "mine").conditions;
    let accepted = accepted.into_iter().find(|one| one.type_ == "Accepted").expect("a condition");
    assert_eq!((&*accepted.status, &*accepted.reason), ("False", "GroupGone"));
    assert!(
        accepted.message.contains("InstanceGroup web, which is gone")
            && accepted.message.contains(&format!("{told:.0}")),
        "{}",
        accepted.message
    );
    assert_eq!(status(&simulation, "mine").expires_at.map(|time| time.0), Some(told));
    let (second, drain) = simulation
        .until(2 * DAY, "its drain", |checker| {
            let drain = checker.machine("mine")?.status.clone()?.drain?;
            Some((drain.started_at.clone()?.0, drain))
        })
        .await;
    assert!(second.duration_since(told).as_secs().abs() <= 1, "{second}");
    assert_eq!(drain.reason, Some(Reason::OnDemand));
    gone(&simulation, HOUR, "mine").await;
    assert!(simulation.drivers.provider.machines().is_empty());
    simulation.assert_invariants();
}

// case: group K5
#[tokio::test(start_paused = true)]
async fn a_mark_that_means_nothing_is_ignored_and_told() {
    let simulation = crate::fixture::simulation(2, json!({"expiry": {"eligibleAge": "1d"}})).await;
    let name = crate::fixture::names(&simulation)[0].clone();
    let mark = json!({"metadata": {"annotations": {
        "group.sojourn.dev/do-not-disrupt": "as long as you like",
    }}});
    simulation.change_machine(&name, mark).await.expect("it is only warned about");
    simulation.pass(MINUTE).await;
    let said = simulation.events("Ignored").await;
    assert_eq!(said.len(), 1);
    assert!(said[0].0 == name && said[0].1.contains("as long as you like"), "{said:?}");
    simulation.pass(DAY).await;
    let (_, drain) = crate::fixture::draining(&simulation, HOUR).await;
    assert_eq!(drain.reason, Some(Reason::Expired));
}
