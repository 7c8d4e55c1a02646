//! `kill -9` at every stage changes no outcome: nothing twice, nothing lost, nothing earlier.

use http::StatusCode;
use serde_json::{Value, json};

use crate::exam::Exam;
use crate::external::{ExternalServices, INTERVAL};
use crate::fixture::{Engine, Fixture};
use crate::objects::{Named, time};
use crate::person::{Person, is_phase, is_stage};
use crate::smtp::{Encryption, steps};
use crate::upload::Uploads;
use crate::wait::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn embedded_killed_at_every_stage_of_the_ladder() {
    climb(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_killed_at_every_stage_of_the_ladder() {
    climb(Engine::Real).await;
}

async fn climb(engine: Engine) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(mut stage) = Fixture::start(engine, &external.options()).await else { return };
    let person = Person::new("unlucky").template(&json!({
        "inactivityTimeout": "4s", "maxAlerts": 2, "deleteAfterStopped": "4s",
    }));
    person.apply(&stage.objects).await;
    let Named { namespace, name } = &person.instance;
    let mut deadline = 0;
    for reached in ["Idle", "Warned", "Grace", "Stopped", "DestroyWarned", "DestroyGrace"] {
        let stages =
            ["Active", "Idle", "Warned", "Grace", "Stopped", "DestroyWarned", "DestroyGrace"];
        let from = stages.iter().position(|stage| *stage == reached).expect("a stage");
        let what = format!("it is {reached}, or further");
        let seen = stage.objects.until(&person.instance, &what, |instance| {
            stages[from..].iter().any(|stage| is_stage(stage)(instance))
        });
        let lifecycle = seen.await["status"]["lifecycle"].clone();
        if lifecycle["deadline"].is_string() {
            let promised = time(&lifecycle["deadline"]);
            assert!(promised >= deadline, "{reached}: {promised} was {deadline} before");
            deadline = promised;
        }
        stage.kill();
        stage.start_again();
    }
    eventually("it is deleted", async || {
        stage.objects.get("Instance", namespace, name).await.is_none().then_some(())
    })
    .await;
    assert!(jiff::Timestamp::now().as_millisecond() >= deadline, "{deadline}");
    let mails = external.smtp.wait_for(&person.email, 6).await;
    let expected_steps =
        ["inactivity-1", "inactivity-2", "stopped", "deletion-1", "deletion-2", "deleted"];
    assert_eq!(steps(&mails), expected_steps, "{mails:#?}");
    stage.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_killed_while_something_is_handed_in() {
    hand_in(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_killed_while_something_is_handed_in() {
    hand_in(Engine::Real).await;
}

async fn hand_in(engine: Engine) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(mut stage) = Fixture::start(engine, &external.options()).await else { return };
    let (exam, uploads) = (Exam::start().await, Uploads::start().await);
    let person = Person::new("candidate").spec(&json!({
        "statusCheck": {"url": exam.url(), "mode": "Contract", "interval": "1s", "confirmations": 2},
        "submission": {"url": uploads.url("/exam"), "method": "Put"},
    }));
    person.apply(&stage.objects).await;
    stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
    uploads.fail(1);
    exam.answer(StatusCode::NOT_FOUND, "");
    let is_stopped = |instance: &Value| instance["spec"]["running"] == false;
    stage.objects.until(&person.instance, "it is told to stop", is_stopped).await;
    stage.kill();
    stage.start_again();
    eventually("the first try is there", async || (!uploads.attempts().is_empty()).then_some(()))
        .await;
    stage.kill();
    stage.start_again();
    let is_done = |instance: &Value| instance["status"]["submission"][0]["state"] == "Done";
    let done = stage.objects.until(&person.instance, "it is handed in", is_done).await;
    let upload = uploads.wait_for("/exam").await;
    assert_eq!(done["status"]["submission"][0]["sha256"].as_str(), Some(upload.sha256().as_str()));
    stage.kill();
    stage.start_again();
    let Named { namespace, name } = &person.instance;
    stage.objects.delete("Instance", namespace, name).await;
    stage.objects.until_gone("Instance", namespace, name).await;
    let attempts = uploads.attempts();
    assert_eq!(attempts.len(), 1, "one key for all: {attempts:?}");
    assert_eq!(uploads.to("/exam").len(), 1);
    stage.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_a_warning_is_given_its_full_interval_after_a_restart() {
    full_interval(Engine::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_a_warning_is_given_its_full_interval_after_a_restart() {
    full_interval(Engine::Real).await;
}

/// Warned a moment ago, then killed, then a template edit: the interval is whole.
async fn full_interval(engine: Engine) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(mut stage) = Fixture::start(engine, &external.options()).await else { return };
    let person =
        Person::new("patient").template(&json!({"inactivityTimeout": "4s", "maxAlerts": 1}));
    person.apply(&stage.objects).await;
    external.smtp.wait_for(&person.email, 1).await;
    stage.kill();
    stage.start_again();
    let Named { namespace, name } = &person.instance;
    stage
        .objects
        .patch("Template", namespace, name, &json!({"spec": {"inactivityTimeout": "1s"}}))
        .await;
    let off = stage.objects.until(&person.instance, "it is off", is_phase("Off")).await;
    let warned = time(&off["status"]["notices"][0]["deliveredAt"]);
    let stopped = time(&off["status"]["lastStoppedAt"]);
    assert!(stopped - warned + 1_000 >= INTERVAL, "{off}");
    // A kill between the server's acceptance and our record sends a mail again, as the same one.
    let mails = eventually("it was told that it is off", async || {
        let mut mails = external.smtp.mails_to(&person.email);
        mails.dedup_by(|later, earlier| later.message_id() == earlier.message_id());
        (mails.len() >= 2).then_some(mails)
    })
    .await;
    assert_eq!(steps(&mails), ["inactivity-1", "stopped"], "{mails:#?}");
    stage.stop();
}
