//! The end of a lifespan.

use http::Method;
use serde_json::{Value, json};
use sojourn_api::name::lab::{self, condition};
use sojourn_sim::lab::drivers::MailMode;
use sojourn_sim::lab::invariants::Policy;
use sojourn_sim::lab::people::Design;
use sojourn_sim::lab::simulation::LabSimulation;

use crate::fixture::{
    DAY, HOUR, MINUTE, condition, hours, key, simulation_with_one, template, told,
};

fn expiring() -> Design {
    let policy = Policy { delete_after: hours(48), persistent: true, ..Policy::default() };
    Design { policy, environments: 1 }
}

/// The operator has just sent its deletion when the owner's own one takes the object away.
async fn its_owner_is_faster(simulation: &LabSimulation) {
    simulation.faults.hold(Method::DELETE);
    tokio::time::timeout(DAY * 4, simulation.faults.until_held())
        .await
        .expect("it is deleted by then");
    simulation.remove(&key("one")).await;
    let released = json!({"metadata": {"finalizers": []}});
    simulation.change(&key("one"), &released).await;
    simulation.until_gone(MINUTE, &key("one")).await;
}

// case: lab X4
#[tokio::test(start_paused = true)]
async fn deleting_what_its_owner_has_just_deleted_is_no_failure() {
    let simulation = simulation_with_one(&expiring(), "").await;
    its_owner_is_faster(&simulation).await;
    let failures = simulation.operator.failures();
    simulation.faults.release();
    simulation.pass(MINUTE).await;
    let looks = simulation.operator.reconciles();
    simulation.pass(DAY).await;
    assert_eq!(simulation.operator.failures(), failures, "that it is gone is what was wanted");
    assert_eq!(simulation.operator.reconciles(), looks, "and nobody tries again");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn another_one_by_that_name_is_not_meant() {
    let simulation = simulation_with_one(&expiring(), "").await;
    its_owner_is_faster(&simulation).await;
    simulation.lend(&key("one"), &template(), json!({})).await;
    simulation.faults.release();
    simulation.pass(DAY).await;
    assert!(simulation.instance(&key("one")).await.is_some());
    simulation.assert_invariants();
}

// case: lab X9
#[tokio::test(start_paused = true)]
async fn a_namespace_that_comes_back_is_looked_at_again_and_no_other() {
    for value in [Value::Null, json!("false")] {
        let simulation = simulation_with_one(&expiring(), "").await;
        simulation.make_namespace("other").await;
        let elsewhere = sojourn_core::key::Key::new("other", "two");
        simulation.lend(&elsewhere, &template(), json!({})).await;
        simulation.opt_out("lab", [false, true]).await;
        simulation.opt_out("other", [false, true]).await;
        simulation.pass(DAY * 4).await;
        assert_eq!(told(&simulation).len(), 0, "both have opted out");
        let looks = simulation.operator.reconciles();
        let named = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}});
        let labels = json!({lab::EXPIRATION_IGNORE: value});
        simulation.merge(&named, &json!({"metadata": {"labels": labels}})).await;
        simulation.checker.lock().set_opted_out("lab", [false, false]);
        simulation.pass(MINUTE).await;
        let warned: Vec<_> =
            simulation.received().into_iter().map(|one| one.notice.facts.object).collect();
        assert_eq!(warned.len(), 1);
        assert_eq!((warned[0].namespace.as_str(), warned[0].name.as_str()), ("lab", "one"));
        let looks = simulation.operator.reconciles() - looks;
        assert!((1..=5).contains(&looks), "{looks} looks at one instance");
        simulation.until_gone(DAY + HOUR, &key("one")).await;
        assert!(simulation.instance(&elsewhere).await.is_some(), "the other one stays away");
        simulation.assert_invariants();
    }
}

// case: lab X10
#[tokio::test(start_paused = true)]
async fn another_lifespan_counts_at_once() {
    let simulation = simulation_with_one(&expiring(), "").await;
    let longer = Policy { delete_after: hours(240), ..expiring().policy };
    simulation.edit_template(&template(), &Design { policy: longer, environments: 1 }).await;
    simulation.pass(DAY * 8).await;
    assert_eq!(told(&simulation).len(), 0);
    simulation.edit_template(&template(), &expiring()).await;
    simulation.pass(MINUTE).await;
    assert_eq!(told(&simulation), ["expiry-warning"]);
    simulation.pass(DAY - MINUTE * 2).await;
    assert!(simulation.instance(&key("one")).await.is_some());
    simulation.until_gone(HOUR, &key("one")).await;
    simulation.assert_invariants();
}

// case: lab X11
#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_before_the_warning_was_accepted() {
    let simulation = simulation_with_one(&expiring(), "").await;
    simulation.drivers.set_mail_mode(MailMode::Down);
    simulation.pass(DAY * 9).await;
    assert!(simulation.instance(&key("one")).await.is_some());
    simulation.drivers.set_mail_mode(MailMode::Works);
    simulation.until_gone(DAY + HOUR * 2, &key("one")).await;
    assert_eq!(told(&simulation), ["expiry-warning", "expired"]);
    let received = simulation.received();
    assert!(received[1].at.duration_since(received[0].at).as_hours() >= 24);
    simulation.assert_invariants();
}

// case: lab X14
#[tokio::test(start_paused = true)]
async fn without_its_template_it_does_not_expire_and_says_why() {
    let simulation = simulation_with_one(&expiring(), "").await;
    simulation.remove_template(&template()).await;
    simulation.pass(DAY * 6).await;
    let one = simulation.instance(&key("one")).await.expect("it is there");
    assert_eq!(condition(&one, condition::ACCEPTED), Some(("TemplateMissing".to_owned(), false)));
    assert_eq!(simulation.received().len(), 0);
    simulation.make_template(&template(), &expiring()).await;
    simulation.until_gone(DAY * 2, &key("one")).await;
    simulation.assert_invariants();
}
