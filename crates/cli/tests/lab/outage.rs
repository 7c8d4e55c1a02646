//! What is away for a while takes nothing from anybody.

use std::time::Duration;

use serde_json::{Value, json};

use crate::external::ExternalServices;
use crate::fixture::{Engine, Fixture};
use crate::objects::Named;
use crate::person::{Person, condition, is_phase, is_stage};
use crate::prometheus::Job;
use crate::smtp::{Encryption, steps};
use crate::wait::never;

/// Longer than the whole ladder would take.
const OUTAGE: Duration = Duration::from_secs(15);

/// What could not be delivered is tried again within so long, whatever was tried before.
const RETRY_TIMEOUT: Duration = Duration::from_secs(300);

fn is_running(instance: &Value) -> bool {
    instance["spec"]["running"] == true
}

async fn never_stopped(stage: &Fixture, person: &Person) {
    let Named { namespace, name } = &person.instance;
    never(OUTAGE, "it was stopped", async || {
        let found = stage.objects.get("Instance", namespace, name).await;
        !found.as_ref().is_some_and(is_running)
    })
    .await;
}

// case: lab I29
#[tokio::test(flavor = "multi_thread")]
async fn embedded_mail_that_cannot_leave_holds_everything_and_leaves_once() {
    without_mail(Engine::Embedded).await;
}

// case: lab I29
#[tokio::test(flavor = "multi_thread")]
async fn real_mail_that_cannot_leave_holds_everything_and_leaves_once() {
    without_mail(Engine::Real).await;
}

async fn without_mail(engine: Engine) {
    let Some(mut external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    external.smtp.stop();
    let person =
        Person::new("unheard").template(&json!({"inactivityTimeout": "3s", "maxAlerts": 1}));
    person.apply(&stage.objects).await;
    let what = "it says that its notice cannot be delivered";
    stage
        .objects
        .until(&person.instance, what, |instance| {
            matches!(condition(instance, "NoticeUndeliverable"), Some(("True", _)))
        })
        .await;
    never_stopped(&stage, &person).await;
    external.smtp.start_again();
    // The server that answers again, but takes nothing yet, has been told nothing.
    external.smtp.refuse(Some("451 try again later"));
    never_stopped(&stage, &person).await;
    external.smtp.refuse(None);
    let off =
        stage.objects.until_within(RETRY_TIMEOUT, &person.instance, "it is off", is_phase("Off"));
    let off = off.await;
    let mails = external.smtp.wait_for(&person.email, 2).await;
    assert_eq!(steps(&mails), ["inactivity-1", "stopped"], "{mails:#?}");
    let warned = crate::objects::time(&off["status"]["notices"][0]["deliveredAt"]);
    let stopped = crate::objects::time(&off["status"]["lastStoppedAt"]);
    assert!(stopped - warned + 1_000 >= crate::external::INTERVAL, "{off}");
    stage.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_mail_settings_that_are_mended_are_taken_up_at_once() {
    mended(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_mail_settings_that_are_mended_are_taken_up_at_once() {
    mended(Engine::Real).await;
}

/// How soon a file that changed is noticed, sent by and accepted; another attempt would come much later.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(20);

async fn mended(engine: Engine) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let settings = external.smtp.settings().join("smtp-config.yaml");
    let good = std::fs::read_to_string(&settings).expect("settings");
    std::fs::write(&settings, good.replace("smtpServer", "smtpSever")).expect("a file");
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    let person =
        Person::new("misconfigured").template(&json!({"inactivityTimeout": "3s", "maxAlerts": 1}));
    person.apply(&stage.objects).await;
    // The second attempt comes half a minute after the first, the third a minute after that.
    stage
        .objects
        .until_within(RETRY_TIMEOUT, &person.instance, "it was tried twice", |instance| {
            instance["status"]["notices"][0]["attempts"].as_u64() >= Some(2)
        })
        .await;
    std::fs::write(&settings, good).expect("a file");
    stage
        .objects
        .until_within(RELOAD_TIMEOUT, &person.instance, "it is told", |instance| {
            instance["status"]["notices"][0]["state"] == "Delivered"
        })
        .await;
    stage.stop();
}

// case: lab A6
#[tokio::test(flavor = "multi_thread")]
async fn embedded_nothing_is_stopped_while_prometheus_is_away() {
    blind(Engine::Embedded).await;
}

// case: lab A6
#[tokio::test(flavor = "multi_thread")]
async fn real_nothing_is_stopped_while_prometheus_is_away() {
    blind(Engine::Real).await;
}

async fn blind(engine: Engine) {
    let Some(mut external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    let person =
        Person::new("unseen").template(&json!({"inactivityTimeout": "8s", "maxAlerts": 1}));
    person.apply(&stage.objects).await;
    stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
    external.prometheus.stop();
    let is_blind = |instance: &Value| instance["status"]["activity"]["blind"].is_string();
    stage.objects.until(&person.instance, "its source is blind", is_blind).await;
    never_stopped(&stage, &person).await;
    assert_eq!(external.smtp.mails_to(&person.email).len(), 0);
    external.prometheus.start_again().await;
    stage.objects.until(&person.instance, "it sees again", |instance| !is_blind(instance)).await;
    // One target that is down is blindness, too.
    external.exporter.set_down(Job::Bastion, true);
    external.prometheus.until(&Job::Bastion.up(), &[0.0]).await;
    stage.objects.until(&person.instance, "its source is blind", is_blind).await;
    never_stopped(&stage, &person).await;
    assert_eq!(external.smtp.mails_to(&person.email).len(), 0);
    external.exporter.set_down(Job::Bastion, false);
    external.prometheus.until(&Job::Bastion.up(), &[1.0]).await;
    stage
        .objects
        .until(&person.instance, "it is warned for the last time", is_stage("Grace"))
        .await;
    stage.objects.until(&person.instance, "it is off", is_phase("Off")).await;
    let mails = external.smtp.wait_for(&person.email, 2).await;
    assert_eq!(steps(&mails), ["inactivity-1", "stopped"], "{mails:#?}");
    stage.stop();
}
