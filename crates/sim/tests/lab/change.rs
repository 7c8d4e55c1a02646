//! Whom a change concerns, counted in looks.

use serde_json::json;
use sojourn_sim::lab::invariants::Policy;
use sojourn_sim::lab::people::Design;

use crate::fixture::{DAY, MINUTE, hours, kept, key, lend, simulation_with_one, template};

// case: lab W1
#[tokio::test(start_paused = true)]
async fn a_namespace_s_change_concerns_its_own_instances_only() {
    let simulation = simulation_with_one(&kept(), "").await;
    simulation.make_namespace("other").await;
    for name in ["a", "b", "c"] {
        let elsewhere = sojourn_core::key::Key::new("other", name);
        simulation.lend(&elsewhere, &template(), json!({})).await;
    }
    simulation.pass(MINUTE * 15).await;
    let before = simulation.operator.reconciles();
    simulation.opt_out("lab", [true, false]).await;
    simulation.pass(MINUTE).await;
    let looks = simulation.operator.reconciles() - before;
    assert!((1..=3).contains(&looks), "{looks} looks for one instance");
    let before = simulation.operator.reconciles();
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    simulation.merge(&other, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    simulation.pass(MINUTE).await;
    assert_eq!(simulation.operator.reconciles(), before);
    simulation.assert_invariants();
}

// case: lab W2
#[tokio::test(start_paused = true)]
async fn an_edit_elsewhere_in_a_template_concerns_no_instance() {
    let simulation = simulation_with_one(&kept(), "").await;
    lend(&simulation, "two", json!({})).await;
    simulation.make_template(&key("another"), &kept()).await;
    simulation.pass(MINUTE * 15).await;
    let before = simulation.operator.reconciles();
    let named = |name: &str| {
        json!({
            "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Template",
            "metadata": {"name": name, "namespace": "lab"},
        })
    };
    simulation.merge(&named("notebook"), &json!({"spec": {"prettyName": "A notebook"}})).await;
    simulation.merge(&named("notebook"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    let policy = Policy { stop_after: hours(1), ..kept().policy };
    simulation.edit_template(&key("another"), &Design { policy, environments: 1 }).await;
    simulation.pass(MINUTE).await;
    assert_eq!(simulation.operator.reconciles(), before, "it is nobody's");
    let policy = Policy { stop_after: hours(48), ..kept().policy };
    simulation.edit_template(&template(), &Design { policy, environments: 1 }).await;
    simulation.pass(MINUTE).await;
    let looks = simulation.operator.reconciles() - before;
    assert!((2..=6).contains(&looks), "{looks} looks for two instances");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn an_instance_at_rest_is_hardly_looked_at() {
    let never = Policy { persistent: true, ..Policy::default() };
    let simulation = simulation_with_one(&Design { policy: never, environments: 1 }, "").await;
    simulation.pass(DAY).await;
    let before = simulation.operator.reconciles();
    simulation.pass(DAY * 10).await;
    let looks = simulation.operator.reconciles() - before;
    assert!(looks <= 10, "{looks} looks in ten days in which nothing happened");
    simulation.assert_invariants();
}
