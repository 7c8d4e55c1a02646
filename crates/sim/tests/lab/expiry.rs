//! The end of a lifespan.

use http::Method;
use serde_json::{Value, json};
use sojourn_api::name::lab::{self, condition};
use sojourn_sim::outside::Mood;
use sojourn_sim::people::Design;
use sojourn_sim::truth::Policy;
use sojourn_sim::world::World;

use crate::stage::{
    DAY, HOUR, MINUTE, condition, hours, key, nothing_is_wrong, template, told, world_with_one,
};

fn expiring() -> Design {
    let policy = Policy { delete_after: hours(48), persistent: true, ..Policy::default() };
    Design { policy, environments: 1 }
}

/// The operator has just sent its deletion when the owner's own one takes the object away.
async fn its_owner_is_faster(world: &World) {
    world.faults.hold(Method::DELETE);
    tokio::time::timeout(DAY * 4, world.faults.until_held()).await.expect("it is deleted by then");
    world.remove(&key("one")).await;
    let released = json!({"metadata": {"finalizers": []}});
    world.change(&key("one"), &released).await;
    world.until_gone(MINUTE, &key("one")).await;
}

// case: lab X4
#[tokio::test(start_paused = true)]
async fn deleting_what_its_owner_has_just_deleted_is_no_failure() {
    let world = world_with_one(&expiring(), "").await;
    its_owner_is_faster(&world).await;
    let failures = world.operator.failures();
    world.faults.let_go();
    world.pass(MINUTE).await;
    let looks = world.operator.reconciles();
    world.pass(DAY).await;
    assert_eq!(world.operator.failures(), failures, "that it is gone is what was wanted");
    assert_eq!(world.operator.reconciles(), looks, "and nobody tries again");
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn another_one_by_that_name_is_not_meant() {
    let world = world_with_one(&expiring(), "").await;
    its_owner_is_faster(&world).await;
    world.lend(&key("one"), &template(), json!({})).await;
    world.faults.let_go();
    world.pass(DAY).await;
    assert!(world.instance(&key("one")).await.is_some());
    nothing_is_wrong(&world);
}

// case: lab X9
#[tokio::test(start_paused = true)]
async fn a_namespace_that_comes_back_is_looked_at_again_and_no_other() {
    for value in [Value::Null, json!("false")] {
        let world = world_with_one(&expiring(), "").await;
        world.make_namespace("other").await;
        let elsewhere = sojourn_core::key::Key::new("other", "two");
        world.lend(&elsewhere, &template(), json!({})).await;
        world.opt_out("lab", [false, true]).await;
        world.opt_out("other", [false, true]).await;
        world.pass(DAY * 4).await;
        assert_eq!(told(&world).len(), 0, "both have opted out");
        let looks = world.operator.reconciles();
        let named = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}});
        let labels = json!({lab::EXPIRATION_IGNORE: value});
        world.merge(&named, &json!({"metadata": {"labels": labels}})).await;
        world.truth.lock().set_opted_out("lab", [false, false]);
        world.pass(MINUTE).await;
        let warned: Vec<_> = world.received().into_iter().map(|one| one.notice.facts).collect();
        assert_eq!(warned.len(), 1);
        assert_eq!((warned[0].namespace.as_str(), warned[0].instance.as_str()), ("lab", "one"));
        let looks = world.operator.reconciles() - looks;
        assert!((1..=5).contains(&looks), "{looks} looks at one instance");
        world.until_gone(DAY + HOUR, &key("one")).await;
        assert!(world.instance(&elsewhere).await.is_some(), "the other one stays away");
        nothing_is_wrong(&world);
    }
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
