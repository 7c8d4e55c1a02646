//! Machines on demand.

use serde_json::json;
use sojourn_api::group::status::{Phase, Reason};
use sojourn_sim::group::{Setting, World};

use crate::stage::{DAY, HOUR, MINUTE, deadline, gone, nothing_is_wrong, ready, status};

async fn lending() -> World {
    let config = "expiry: {ondemandAge: 7d}".to_owned();
    World::new(Setting { config, ..Setting::default() }).await
}

fn fake() -> serde_json::Value {
    json!({"template": {"provider": "fake", "config": {"image": "v1"}}})
}

async fn is_ready(world: &World, name: &str) {
    world
        .until(10 * MINUTE, "a machine that is ready", |book| {
            let phase = book.machine(name)?.status.as_ref()?.phase?;
            (phase == Phase::Ready).then_some(())
        })
        .await;
}

// case: group 37
#[tokio::test(start_paused = true)]
async fn it_is_drained_and_deleted_when_its_time_is_over() {
    let world = lending().await;
    world.make_machine("mine", fake()).await;
    is_ready(&world, "mine").await;
    let created = world.now();
    let drain =
        world.until(8 * DAY, "a drain", |book| book.machine("mine")?.status.clone()?.drain).await;
    assert_eq!(drain.reason, Some(Reason::OnDemand));
    let age = deadline(&drain).duration_since(created).as_hours();
    assert_eq!(age, 7 * 24);
    gone(&world, HOUR, "mine").await;
    world.pass(DAY).await;
    assert!(world.fake.machines().is_empty());
    assert!(world.ledger.book().machines.is_empty(), "nothing comes in its place");
    nothing_is_wrong(&world);
}

// case: group 39
#[tokio::test(start_paused = true)]
async fn all_that_are_overdue_go_and_not_just_the_oldest() {
    let world = lending().await;
    world.make_group("web", 2, json!({})).await;
    ready(&world, "web", 2).await;
    let names: Vec<String> = (0..5).map(|number| format!("mine-{number}")).collect();
    for name in &names {
        world.make_machine(name, json!({"group": "web"})).await;
    }
    for name in &names {
        is_ready(&world, name).await;
    }
    world.operator.want(false);
    world.pass(9 * DAY).await;
    world.operator.want(true);
    for name in &names {
        gone(&world, HOUR, name).await;
    }
    ready(&world, "web", 2).await;
    assert_eq!(world.fake.machines().len(), 2, "the group's are left alone");
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn it_is_warned_about_and_can_be_renewed_as_far_as_that_goes() {
    let world = lending().await;
    let spec = json!({"expiry": {"ondemandAge": "2d", "ondemandWarnBefore": "6h",
                                 "ondemandMaxAge": "3d"}});
    world.make_group("web", 0, spec).await;
    world.make_machine("mine", json!({"group": "web"})).await;
    is_ready(&world, "mine").await;
    let created = world.ledger.book().machines["mine"].metadata.creation_timestamp.clone();
    let created = created.expect("one").0;
    let warned = world
        .until(2 * DAY, "a warning", |book| book.machine("mine")?.status.clone()?.warned)
        .await;
    assert_eq!(warned.deadline.expect("one").0.duration_since(created).as_hours(), 48);
    assert_eq!(world.events("ExpiryWarning").await[0].0, "mine");
    let until = created + jiff::SignedDuration::from_hours(60);
    let renewed = json!({"spec": {"renewedUntil": until.to_string()}});
    world.change_machine("mine", renewed).await.expect("it may be");
    world.pass(11 * HOUR).await;
    assert!(status(&world, "mine").drain.is_none());
    gone(&world, DAY, "mine").await;
    let age = world.now().duration_since(created).as_hours();
    assert!((60..=61).contains(&age), "{age}");
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn it_waits_for_a_group_that_is_not_there_and_says_so() {
    let world = lending().await;
    world.make_machine("mine", json!({"group": "web"})).await;
    let words = world
        .until(MINUTE, "a condition", |book| {
            let status = book.machine("mine")?.status.clone()?;
            let found = status.conditions.into_iter().find(|one| one.type_ == "Accepted")?;
            Some(found.message)
        })
        .await;
    assert!(words.contains("no InstanceGroup web"), "{words}");
    world.make_group("web", 0, json!({})).await;
    is_ready(&world, "mine").await;
    world.delete_machine("mine").await;
    gone(&world, HOUR, "mine").await;
    assert!(world.fake.machines().is_empty());
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn the_end_that_was_announced_holds_although_its_group_is_gone() {
    let world = lending().await;
    world.make_group("web", 0, json!({"expiry": {"ondemandAge": "2d"}})).await;
    world.make_machine("mine", json!({"group": "web"})).await;
    is_ready(&world, "mine").await;
    let told = status(&world, "mine").expires_at.expect("an end").0;
    assert_eq!(status(&world, "mine").next.and_then(|next| next.at).map(|time| time.0), Some(told));
    world.delete_group("web").await;
    world.pass(DAY).await;
    let accepted = status(&world, "mine").conditions;
    let accepted = accepted.into_iter().find(|one| one.type_ == "Accepted").expect("a condition");
    assert_eq!((&*accepted.status, &*accepted.reason), ("False", "GroupGone"));
    assert!(
        accepted.message.contains("InstanceGroup web, which is gone")
            && accepted.message.contains(&format!("{told:.0}")),
        "{}",
        accepted.message
    );
    assert_eq!(status(&world, "mine").expires_at.map(|time| time.0), Some(told));
    let (second, drain) = world
        .until(2 * DAY, "its drain", |book| {
            let drain = book.machine("mine")?.status.clone()?.drain?;
            Some((drain.started_at.clone()?.0, drain))
        })
        .await;
    assert!(second.duration_since(told).as_secs().abs() <= 1, "{second}");
    assert_eq!(drain.reason, Some(Reason::OnDemand));
    gone(&world, HOUR, "mine").await;
    assert!(world.fake.machines().is_empty());
    nothing_is_wrong(&world);
}

// case: group K5
#[tokio::test(start_paused = true)]
async fn a_mark_that_means_nothing_is_ignored_and_told() {
    let world = crate::stage::world(2, json!({"expiry": {"eligibleAge": "1d"}})).await;
    let name = crate::stage::names(&world)[0].clone();
    let mark = json!({"metadata": {"annotations": {
        "group.sojourn.dev/do-not-disrupt": "as long as you like",
    }}});
    world.change_machine(&name, mark).await.expect("it is only warned about");
    world.pass(MINUTE).await;
    let said = world.events("Ignored").await;
    assert_eq!(said.len(), 1);
    assert!(said[0].0 == name && said[0].1.contains("as long as you like"), "{said:?}");
    world.pass(DAY).await;
    let (_, drain) = crate::stage::draining(&world, HOUR).await;
    assert_eq!(drain.reason, Some(Reason::Expired));
}
