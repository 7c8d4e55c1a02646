//! Whom a change concerns, counted in looks.

use serde_json::json;
use sojourn_sim::people::Design;
use sojourn_sim::truth::Policy;

use crate::stage::{
    DAY, MINUTE, hours, kept, key, lend, nothing_is_wrong, template, world_with_one,
};

// case: lab W1
#[tokio::test(start_paused = true)]
async fn a_namespace_s_change_concerns_its_own_instances_only() {
    let world = world_with_one(&kept(), "").await;
    world.make_namespace("other").await;
    for name in ["a", "b", "c"] {
        let elsewhere = sojourn_core::key::Key::new("other", name);
        world.lend(&elsewhere, &template(), json!({})).await;
    }
    world.pass(MINUTE * 15).await;
    let before = world.operator.reconciles();
    world.opt_out("lab", [true, false]).await;
    world.pass(MINUTE).await;
    let looks = world.operator.reconciles() - before;
    assert!((1..=3).contains(&looks), "{looks} looks for one instance");
    let before = world.operator.reconciles();
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    world.merge(&other, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    world.pass(MINUTE).await;
    assert_eq!(world.operator.reconciles(), before);
    nothing_is_wrong(&world);
}

// case: lab W2
#[tokio::test(start_paused = true)]
async fn an_edit_elsewhere_in_a_template_concerns_no_instance() {
    let world = world_with_one(&kept(), "").await;
    lend(&world, "two", json!({})).await;
    world.make_template(&key("another"), &kept()).await;
    world.pass(MINUTE * 15).await;
    let before = world.operator.reconciles();
    let named = |name: &str| {
        json!({
            "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Template",
            "metadata": {"name": name, "namespace": "lab"},
        })
    };
    world.merge(&named("notebook"), &json!({"spec": {"prettyName": "A notebook"}})).await;
    world.merge(&named("notebook"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    let policy = Policy { stop_after: hours(1), ..kept().policy };
    world.edit_template(&key("another"), &Design { policy, environments: 1 }).await;
    world.pass(MINUTE).await;
    assert_eq!(world.operator.reconciles(), before, "it is nobody's");
    let policy = Policy { stop_after: hours(48), ..kept().policy };
    world.edit_template(&template(), &Design { policy, environments: 1 }).await;
    world.pass(MINUTE).await;
    let looks = world.operator.reconciles() - before;
    assert!((2..=6).contains(&looks), "{looks} looks for two instances");
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn an_instance_at_rest_is_hardly_looked_at() {
    let never = Policy { persistent: true, ..Policy::default() };
    let world = world_with_one(&Design { policy: never, environments: 1 }, "").await;
    world.pass(DAY).await;
    let before = world.operator.reconciles();
    world.pass(DAY * 10).await;
    let looks = world.operator.reconciles() - before;
    assert!(looks <= 10, "{looks} looks in ten days in which nothing happened");
    nothing_is_wrong(&world);
}
