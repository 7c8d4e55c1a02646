//! The end of a lifespan.

use serde_json::json;
use sojourn_api::name::lab::condition;
use sojourn_sim::outside::Mood;
use sojourn_sim::people::Design;
use sojourn_sim::truth::Policy;

use crate::stage::{
    DAY, HOUR, MINUTE, condition, hours, key, lend, nothing_is_wrong, template, told,
    world_with_one,
};

fn expiring() -> Design {
    let policy = Policy { delete_after: hours(48), persistent: true, ..Policy::default() };
    Design { policy, environments: 1 }
}

// case: lab X4
#[tokio::test(start_paused = true)]
async fn deleting_what_its_owner_has_just_deleted_is_no_failure() {
    let world = world_with_one(&expiring(), "").await;
    world
        .until(DAY * 3, &key("one"), |one| {
            one.status.as_ref().is_some_and(|status| status.expiration.is_some())
        })
        .await;
    world.pass(DAY - MINUTE).await;
    world.faults.kill_after(1);
    world.remove(&key("one")).await;
    world.until_gone(HOUR * 2, &key("one")).await;
    lend(&world, "one", json!({})).await;
    world.pass(DAY).await;
    assert!(world.instance(&key("one")).await.is_some(), "another one by that name is not meant");
    nothing_is_wrong(&world);
}

// case: lab X9
#[tokio::test(start_paused = true)]
async fn a_namespace_that_comes_back_is_looked_at_again_and_no_other() {
    let world = world_with_one(&expiring(), "").await;
    world.make_namespace("other").await;
    let elsewhere = sojourn_core::key::Key::new("other", "two");
    world.lend(&elsewhere, &template(), json!({})).await;
    world.opt_out("lab", [false, true]).await;
    world.pass(DAY * 4).await;
    assert!(world.instance(&key("one")).await.is_some());
    assert!(world.instance(&elsewhere).await.is_none(), "it has not opted out");
    world.opt_out("lab", [false, false]).await;
    world.until_gone(DAY + HOUR, &key("one")).await;
    nothing_is_wrong(&world);
}

// case: lab X10
#[tokio::test(start_paused = true)]
async fn another_lifespan_counts_at_once() {
    let world = world_with_one(&expiring(), "").await;
    let longer = Policy { delete_after: hours(240), ..expiring().policy };
    world.edit_template(&template(), &Design { policy: longer, environments: 1 }).await;
    world.pass(DAY * 8).await;
    assert_eq!(told(&world).len(), 0);
    world.edit_template(&template(), &expiring()).await;
    world.pass(MINUTE).await;
    assert_eq!(told(&world), ["expiry-warning"]);
    world.pass(DAY - MINUTE * 2).await;
    assert!(world.instance(&key("one")).await.is_some());
    world.until_gone(HOUR, &key("one")).await;
    nothing_is_wrong(&world);
}

// case: lab X11
#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_before_the_warning_was_accepted() {
    let world = world_with_one(&expiring(), "").await;
    world.outside.set_mood(Mood::Down);
    world.pass(DAY * 9).await;
    assert!(world.instance(&key("one")).await.is_some());
    world.outside.set_mood(Mood::Works);
    world.until_gone(DAY + HOUR * 2, &key("one")).await;
    assert_eq!(told(&world), ["expiry-warning", "expired"]);
    let received = world.received();
    assert!(received[1].at.duration_since(received[0].at).as_hours() >= 24);
    nothing_is_wrong(&world);
}

// case: lab X14
#[tokio::test(start_paused = true)]
async fn without_its_template_it_does_not_expire_and_says_why() {
    let world = world_with_one(&expiring(), "").await;
    world.remove_template(&template()).await;
    world.pass(DAY * 6).await;
    let one = world.instance(&key("one")).await.expect("it is there");
    assert_eq!(condition(&one, condition::ACCEPTED), Some(("TemplateMissing".to_owned(), false)));
    assert_eq!(world.received().len(), 0);
    world.make_template(&template(), &expiring()).await;
    world.until_gone(DAY * 2, &key("one")).await;
    nothing_is_wrong(&world);
}
