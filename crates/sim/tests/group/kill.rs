//! Killing the operator anywhere, and running two of them, changes no outcome.

use std::time::Duration;

use serde_json::{Value, json};
use sojourn_sim::fault::Rates;
use sojourn_sim::group::{Setting, World};

use crate::stage::{
    DAY, HOUR, MINUTE, SECOND, deadline, draining, gone, names, nothing_is_wrong, ready, rule,
    world, world_with,
};

/// Replaced after an hour, with a minute to drain.
fn short() -> Value {
    json!({"expiry": {"eligibleAge": "1h"}, "drainTimeout": "1m"})
}

/// Until everybody that was there is replaced.
async fn renewed(world: &World, old: &[String], limit: Duration) {
    let count = old.len();
    world
        .until(limit, "a group that is renewed", |book| {
            let all = book.of("web");
            let new = all.iter().all(|one| !old.contains(&kube::ResourceExt::name_any(*one)));
            let ready = book.in_phase("web", sojourn_api::group::status::Phase::Ready).len();
            (new && all.len() == count && ready == count).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_it_does_the_same() {
    let mut kills = 0;
    for writes in 1..=60 {
        let world = World::new(Setting::default()).await;
        world.make_group("web", 2, short()).await;
        rule(&world, 3, 1);
        world.faults.kill_after(writes);
        ready(&world, "web", 2).await;
        let old = names(&world);
        renewed(&world, &old, 3 * HOUR).await;
        nothing_is_wrong(&world);
        assert_eq!(world.fake.machines().len(), 2, "killed after write {writes}");
        if world.faults.kill_is_pending() {
            break;
        }
        kills += 1;
    }
    assert!(kills > 20, "only {kills} kills");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_fails_all_the_time_changes_nothing_but_the_minute() {
    let rates = Rates { before: 100, after: 100, conflict: 100, read: 100, lost: 50 };
    for seed in 1..=5 {
        let world = World::new(Setting { seed, rates, ..Setting::default() }).await;
        world.make_group("web", 2, short()).await;
        rule(&world, 3, 0);
        ready(&world, "web", 2).await;
        let old = names(&world);
        renewed(&world, &old, 6 * HOUR).await;
        nothing_is_wrong(&world);
        assert_eq!(world.fake.machines().len(), 2, "seed {seed}");
    }
}

// case: group 50
#[tokio::test(start_paused = true)]
async fn whoever_takes_over_ends_the_drain_at_its_deadline_and_trims_nothing() {
    let world = world(3, json!({"expiry": {"eligibleAge": "1d"}})).await;
    rule(&world, 4, 2);
    let (name, drain) = draining(&world, DAY + HOUR).await;
    world.pass(MINUTE).await;
    world.set_down_for(2 * MINUTE);
    world.operator.kill();
    world.pass(3 * MINUTE).await;
    assert_eq!(world.operator.starts(), 2);
    assert_eq!(names(&world).len(), 4, "nobody was trimmed");
    let went = gone(&world, HOUR, &name).await;
    assert_eq!(went.as_second(), deadline(&drain).as_second());
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn a_drain_whose_deadline_passed_unseen_ends_with_the_next_start() {
    let world = world(3, json!({"expiry": {"eligibleAge": "1d"}})).await;
    let (name, drain) = draining(&world, DAY + HOUR).await;
    world.operator.want(false);
    world.pass(HOUR).await;
    assert!(names(&world).contains(&name), "nobody was there to delete it");
    world.operator.want(true);
    let went = gone(&world, MINUTE, &name).await;
    assert!(went > deadline(&drain));
    ready(&world, "web", 3).await;
    nothing_is_wrong(&world);
}

// case: group 49
#[tokio::test(start_paused = true)]
async fn age_is_the_same_whoever_asks() {
    let world = world(1, json!({"expiry": {"eligibleAge": "10d"}})).await;
    let name = names(&world)[0].clone();
    let expires = crate::stage::status(&world, &name).expires_at.expect("one");
    for _ in 0..3 {
        world.pass(DAY).await;
        world.operator.kill();
        world.pass(MINUTE).await;
        assert_eq!(crate::stage::status(&world, &name).expires_at, Some(expires.clone()));
    }
    let (old, _) = draining(&world, 8 * DAY).await;
    assert_eq!(old, name);
    let late = world.now().duration_since(expires.0);
    assert!(!late.is_negative() && late.as_secs() < 120, "{late}");
}

// case: group 46
#[tokio::test(start_paused = true)]
async fn whoever_was_killed_does_nothing_any_more() {
    let world = world(2, short()).await;
    world.operator.want(false);
    let orders = world.fake.orders().len();
    let requests = world.faults.requests();
    world.pass(DAY).await;
    assert_eq!(world.fake.orders().len(), orders);
    assert_eq!(world.faults.requests(), requests);
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn two_at_the_same_time_make_no_machine_too_many() {
    for seed in 1..=3 {
        let world = world_with(Setting { seed, ..Setting::default() }, 2, short()).await;
        rule(&world, 3, 1);
        let second = world.second_operator();
        let old = names(&world);
        renewed(&world, &old, 4 * HOUR).await;
        world.change_group("web", json!({"spec": {"size": 5}})).await;
        rule(&world, 6, 1);
        ready(&world, "web", 5).await;
        world.change_group("web", json!({"spec": {"size": 2}})).await;
        world.pass(10 * MINUTE).await;
        ready(&world, "web", 2).await;
        assert!(second.is_up() && world.operator.is_up());
        assert_eq!(world.fake.machines().len(), 2);
        nothing_is_wrong(&world);
    }
}

/// Watches that break while machines are made: what was made and is not listed yet is not lost.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_older_than_what_was_made_loses_nothing() {
    let world = World::new(Setting::default()).await;
    world.make_group("web", 3, short()).await;
    rule(&world, 4, 0);
    for _ in 0..40 {
        world.faults.cut_watches();
        world.pass(SECOND).await;
    }
    ready(&world, "web", 3).await;
    let old = names(&world);
    for _ in 0..100 {
        world.pass(MINUTE).await;
        world.faults.cut_watches();
    }
    renewed(&world, &old, HOUR).await;
    nothing_is_wrong(&world);
}
