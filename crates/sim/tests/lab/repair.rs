//! What a notice waits for is repaired, or given up: it is told, or holds nothing up, at once.

use serde_json::json;
use sojourn_api::name::lab::{NOTICE_WAIVE, condition};
use sojourn_sim::lab::drivers::MailMode;
use sojourn_sim::lab::invariants::Policy;
use sojourn_sim::lab::people::Design;
use sojourn_sim::lab::simulation::{CONFIG, LabSimulation, Setting};

use crate::fixture::{
    DAY, HOUR, MINUTE, condition, hours, kept, key, lend, simulation_with_one, status, told, with,
};

/// An instance whose first warning nobody has accepted for so long that the next attempt is most of an
/// hour away.
async fn unheard(options: &str) -> LabSimulation {
    let simulation = simulation_with_one(&kept(), options).await;
    simulation.drivers.set_mail_mode(MailMode::Down);
    simulation
        .until(DAY * 3, &key("one"), |one| {
            status(one).notices.first().is_some_and(|notice| notice.attempts >= 9)
        })
        .await;
    simulation.pass(MINUTE * 5).await;
    assert_eq!(told(&simulation).len(), 0);
    simulation
}

#[tokio::test(start_paused = true)]
async fn mail_that_is_configured_anew_is_tried_at_once() {
    let simulation = unheard("").await;
    simulation.drivers.set_mail_mode(MailMode::Works);
    simulation.pass(MINUTE).await;
    assert_eq!(told(&simulation).len(), 0, "nobody could know");
    simulation.configure(&format!("{CONFIG}mailConfigDir: /etc/mail\n")).await;
    simulation.pass(MINUTE).await;
    assert_eq!(told(&simulation), ["inactivity-warning"]);
    simulation.assert_invariants();
}

/// Nobody is told by another way than the one that was chosen, and what was chosen is read when it is
/// there.
#[tokio::test(start_paused = true)]
async fn a_secret_that_is_missing_is_no_reason_to_tell_by_events() {
    let options = "webhookURL: {name: hook, key: url}\n";
    let setting =
        Setting { config: format!("{CONFIG}{options}"), mail: false, ..Setting::default() };
    let simulation = with(&kept(), setting).await;
    lend(&simulation, "one", json!({})).await;
    simulation.pass(DAY * 2).await;
    let one = simulation.instance(&key("one")).await.expect("it is there");
    let undeliverable = condition(&one, condition::UNDELIVERABLE);
    assert_eq!(undeliverable, Some(("NobodyAccepts".to_owned(), true)), "{:?}", status(&one));
    assert_eq!(simulation.events("InactivityWarning").await.len(), 0);
    simulation.assert_invariants();
    simulation
        .create(json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "hook", "namespace": "sojourn-system"},
            "stringData": {"url": "https://hook.example/"},
        }))
        .await;
    simulation.pass(MINUTE).await;
    assert_eq!(
        simulation.events("InactivityWarning").await.len(),
        1,
        "this simulation's webhook is no other"
    );
}

#[tokio::test(start_paused = true)]
async fn another_mail_address_is_tried_at_once() {
    let simulation = unheard("").await;
    simulation.drivers.set_mail_mode(MailMode::Works);
    let tenant = json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "ada"},
    });
    simulation.merge(&tenant, &json!({"spec": {"lastName": "Byron"}})).await;
    simulation.pass(MINUTE).await;
    assert_eq!(told(&simulation).len(), 0, "that is no other address");
    simulation.merge(&tenant, &json!({"spec": {"email": "ada@example.net"}})).await;
    simulation.pass(MINUTE).await;
    assert_eq!(told(&simulation), ["inactivity-warning"]);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn links_lead_to_where_people_are_taken_in_now() {
    let options = |url: &str| format!("{CONFIG}publicURL: {url}\n");
    let simulation = simulation_with_one(&kept(), "publicURL: http://old.example\n").await;
    let link = |simulation: &LabSimulation| {
        let received = simulation.received();
        let link = received.last().and_then(|one| one.notice.facts.link("keep_hour"));
        link.expect("a link").to_owned()
    };
    simulation.until(DAY * 2, &key("one"), |one| status(one).notices.len() == 1).await;
    simulation.pass(HOUR).await;
    assert!(link(&simulation).starts_with("http://old.example/notice/"), "{}", link(&simulation));
    simulation.configure(&options("http://new.example")).await;
    simulation.until(DAY * 2, &key("one"), |one| status(one).notices.len() == 2).await;
    simulation.pass(HOUR).await;
    assert!(link(&simulation).starts_with("http://new.example/notice/"), "{}", link(&simulation));
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_farewell_that_is_waived_holds_no_deletion_up() {
    let policy = Policy { delete_after: hours(24), ..Policy::default() };
    let simulation = simulation_with_one(&Design { policy, environments: 1 }, "").await;
    simulation
        .until(DAY * 2, &key("one"), |one| {
            status(one).notices.iter().any(|notice| notice.delivered_at.is_some())
        })
        .await;
    simulation.drivers.set_mail_mode(MailMode::Down);
    simulation.until(DAY * 2, &key("one"), |one| one.metadata.deletion_timestamp.is_some()).await;
    simulation.pass(MINUTE * 2).await;
    assert!(simulation.instance(&key("one")).await.is_some(), "its farewell waits");
    simulation.command(&key("one"), NOTICE_WAIVE).await;
    simulation.pass(MINUTE / 6).await;
    assert!(simulation.instance(&key("one")).await.is_none());
    assert_eq!(simulation.events("NoticeGivenUp").await.len(), 1);
    simulation.assert_invariants();
}
