//! Machines that die young, templates that are tried first, and what all groups may do at once.

use std::time::Duration;

use serde_json::json;
use sojourn_api::group::status::Phase;
use sojourn_drivers::machine::fake::{Script, What};
use sojourn_sim::group::{Setting, World, key};

use crate::stage::{
    DAY, HOUR, MINUTE, SECOND, condition, names, nothing_is_wrong, ready, rule, status, world,
    world_with,
};

/// A provider whose machines run at once and end by themselves after so long.
fn dying(after: Duration) -> Setting {
    let script = Script { boot: Duration::ZERO, lifetime: Some(after), ..Script::default() };
    Setting { script, ..Setting::default() }
}

fn created(world: &World) -> usize {
    world.fake.orders().iter().filter(|one| one.what == What::Create).count()
}

#[tokio::test(start_paused = true)]
async fn a_program_that_ends_after_a_second_makes_no_storm_of_machines() {
    let world = World::new(dying(SECOND)).await;
    world.make_group("web", 3, json!({})).await;
    world.pass(30 * SECOND).await;
    assert!((2..=4).contains(&created(&world)), "{} machines in 30 s", created(&world));
    assert_eq!(world.events("DyingYoung").await.len(), 1, "it is said once");
    world.pass(HOUR).await;
    assert!(created(&world) < 40, "{} machines in an hour", created(&world));
    let dying = condition(&world, "web", "DyingYoung").expect("it is visible");
    assert_eq!((&*dying.status, &*dying.reason), ("True", "EndedByItself"));
    assert!(dying.message.contains("ended by themselves"), "{}", dying.message);
    // Another process knows it from the record, and does not begin anew.
    let before = created(&world);
    world.operator.kill();
    world.pass(MINUTE).await;
    assert!(created(&world) - before <= 1, "{} more", created(&world) - before);
    for (_, message) in world.events("RotationStarted").await {
        assert!(!message.contains("unhealthy"), "{message}");
    }
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn a_template_whose_program_ends_after_three_seconds_costs_a_healthy_group_nobody() {
    let world = world(3, json!({})).await;
    rule(&world, 4, 3);
    let before = names(&world);
    world.fake.script(|script| script.lifetime = Some(3 * SECOND));
    world.change_group("web", json!({"spec": {"template": {"config": {"image": "v2"}}}})).await;
    world.pass(HOUR).await;
    let now = names(&world);
    assert!(before.iter().all(|name| now.contains(name)), "{now:?}");
    assert!(condition(&world, "web", "DyingYoung").is_some());
    // A good one is rolled out at once, one after the other.
    world.fake.script(|script| script.lifetime = None);
    world.change_group("web", json!({"spec": {"template": {"config": {"image": "v3"}}}})).await;
    world
        .until(2 * HOUR, "the roll", |book| {
            let old = |one: &&sojourn_api::group::Machine| {
                before.contains(&kube::ResourceExt::name_any(*one))
            };
            let all = book.of("web");
            (all.len() == 3 && !all.iter().any(old)).then_some(())
        })
        .await;
    assert!(condition(&world, "web", "DyingYoung").is_none());
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn no_policy_empties_a_group_while_its_provider_makes_nothing() {
    for policy in ["DrainAnyway", "TerminateAnyway"] {
        let expiry = json!({"forcedAge": "1h", "forcedPolicy": policy, "forcedSurge": 3});
        let world = world(3, json!({"expiry": expiry})).await;
        let before = names(&world);
        world.fake.script(|script| script.refusal = Some("the quota is used up".to_owned()));
        world.pass(5 * HOUR).await;
        let now = names(&world);
        assert!(before.iter().all(|name| now.contains(name)), "{policy}: {now:?}");
        assert_eq!(world.fake.machines().len(), 3, "{policy}");
        nothing_is_wrong(&world);
    }
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_roll_is_not_blocked() {
    let world = world(3, json!({"drainTimeout": "10m"})).await;
    world.change_group("web", json!({"spec": {"template": {"config": {"image": "v2"}}}})).await;
    for _ in 0..45 {
        world.pass(MINUTE).await;
        assert_eq!(condition(&world, "web", "Blocked"), None, "{}", world.shown());
    }
    nothing_is_wrong(&world);
}

/// A default that is set for everybody makes every machine of every group too old.
#[tokio::test(start_paused = true)]
async fn a_changed_default_rolls_no_more_groups_at_a_time_than_is_configured() {
    let config = "maxRotations: 2".to_owned();
    let setting = Setting { config, ..Setting::default() };
    let world = world_with(setting, 1, json!({"drainTimeout": "10m"})).await;
    for name in ["a", "b", "c", "d", "e"] {
        world.make_group(name, 1, json!({"drainTimeout": "10m"})).await;
        ready(&world, name, 1).await;
    }
    world.pass(2 * DAY).await;
    world.configure("maxRotations: 2\nexpiry: {eligibleAge: 1d, forcedAge: 36h}").await;
    let mut most = 0;
    for _ in 0..240 {
        world.pass(30 * SECOND).await;
        let book = world.ledger.book();
        let rotating = |one: &&sojourn_api::group::Machine| {
            one.status.as_ref().is_some_and(|status| status.rotation.is_some())
        };
        most = most.max(book.machines.values().filter(rotating).count());
    }
    assert_eq!(most, 2);
    let born = world.now() - jiff::SignedDuration::from_hours(24);
    let new = |one: &sojourn_api::group::Machine| {
        one.metadata.creation_timestamp.as_ref().is_some_and(|time| time.0 > born)
    };
    assert!(
        world.ledger.book().machines.values().all(new),
        "all had their turn: {}",
        world.shown()
    );
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn a_wish_to_keep_a_machine_is_answered() {
    let world = world(2, json!({"expiry": {"eligibleAge": "1d"}})).await;
    let name = names(&world)[0].clone();
    let until = "2030-01-09T00:00:00Z";
    let change = json!({"metadata": {"annotations": {"sojourn.dev/keep-until": until}}});
    world.change_machine(&name, change).await.expect("people's requests work");
    world.pass(SECOND).await;
    let keep = status(&world, &name).keep.expect("an answer");
    assert_eq!(keep.asked.map(|time| time.0.to_string()).as_deref(), Some(until));
    assert_eq!(keep.until.map(|time| time.0.to_string()).as_deref(), Some(until));
    world.pass(3 * DAY).await;
    assert_eq!(status(&world, &name).phase, Some(Phase::Ready));
    assert!(world.fake.machines().contains(&key(&name)));
    nothing_is_wrong(&world);
}
