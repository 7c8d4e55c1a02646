//! `sojourn hibernate`, `resume`, `keep`, `why` and `plan`, as people use them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::cluster::good;
use crate::deployment::{Deployment, configure};
use crate::fixture::{Engine, Fixture};
use crate::wait::never;

#[tokio::test(flavor = "multi_thread")]
async fn embedded_commands_say_and_do_what_they_should() {
    commands_say_and_do_what_they_should(Engine::Embedded).await;
}

async fn commands_say_and_do_what_they_should(engine: Engine) {
    let Some(stage) = Fixture::start(engine, &json!({})).await else { return };
    let Some(teal) = Deployment::on(&stage, "teal").await else { return };
    configure(&stage, &json!({})).await;
    teal.make_pod("teal-master-0", true).await;
    teal.until_pods_run(1).await;
    teal.apply(&json!({"platform": {"pod": {}}})).await;
    teal.until_power_state("Running").await;
    assert_says(&teal.why(), "cd/teal is Running", &["  machines   1 on record since 20"]);
    assert_eq!(plan(&teal), Vec::<Value>::new(), "nobody said when it sleeps");

    let said = says(&teal, &["hibernate", "cd/teal"]);
    assert!(said.contains("cd/teal is being put to sleep."), "{said}");
    let asleep = teal.until_power_state("Hibernating").await;
    assert_eq!(asleep.wanted(), "Hibernating", "the same as a patch");
    let operation = "  operation  Hibernate, Done, asked for by User, begun at 20";
    let condition = "  condition  Hibernating=True Hibernating: Every machine is stopped";
    assert_says(&teal.why(), "cd/teal is Hibernating", &[operation, condition]);

    let said = says(&teal, &["resume", "cd/teal"]);
    assert!(said.contains("cd/teal is being woken."), "{said}");
    teal.until_power_state("Running").await;
    teal.until_pods_run(1).await;
    assert_says(
        &teal.why(),
        "cd/teal is Running",
        &["  operation  Resume, Done, asked for by User"],
    );

    let strange = teal.sojourn(&["hibernate", "cd/beige"]);
    assert_eq!(strange.code, Some(1), "{}", strange.stderr);
    assert!(strange.stderr.contains("beige"), "{}", strange.stderr);

    keeping(&teal).await;
    stage.stop();
}

/// A timer is foreseen, put off for as long as was asked for, and then it acts.
async fn keeping(teal: &Deployment) {
    teal.merge(&json!({"spec": {"hibernateAfter": "1h"}})).await;
    let next = |action: &'static str| {
        move |teal: &crate::deployment::Cluster| teal.0["status"]["next"]["action"] == action
    };
    let timed = teal.until("says when it sleeps", next("Hibernate")).await;
    let due = timed.time("runningSince").checked_add(SignedDuration::from_hours(1));
    let due = due.expect("in range");
    let planned = plan(teal);
    assert_eq!(planned.len(), 1, "{planned:#?}");
    assert_eq!(
        (&planned[0]["action"], &planned[0]["object"]),
        (&json!("Hibernate"), &json!("cd/teal"))
    );
    assert_eq!(at(&planned[0]), due, "{planned:#?}");
    assert_eq!(planned[0]["why"], timed.0["status"]["next"]["why"], "the same reason");
    let everything = says(teal, &["plan"]);
    assert!(everything.contains("clusterdeployment/teal"), "{everything}");

    let said = says(teal, &["keep", "cd/teal", "--for", "3h"]);
    assert!(said.contains("cd/teal is kept until 20"), "{said}");
    let kept = teal.until("is kept", |teal| !teal.0["status"]["keep"]["until"].is_null()).await;
    let until = kept.0["status"]["keep"]["until"].as_str().expect("a time").to_owned();
    let planned = plan(teal);
    assert_eq!(at(&planned[0]), until.parse::<Timestamp>().expect("a time"), "{planned:#?}");
    assert_says(&teal.why(), "cd/teal is Running", &[&format!("  kept until {until}")]);

    // It would be time, and it is kept.
    teal.merge(&json!({"spec": {"hibernateAfter": "1s"}})).await;
    never(Duration::from_secs(4), "it sleeps although it is kept", async || {
        teal.get().await.wanted() == "Hibernating"
    })
    .await;
    teal.merge(&json!({"metadata": {"annotations": {"sojourn.dev/keep-until": null}}})).await;
    let asleep = teal.until_power_state("Hibernating").await;
    assert_eq!((asleep.wanted(), asleep.operation("trigger")), ("Hibernating", "Timer"));
    let why = teal.why();
    assert_says(
        &why,
        "cd/teal is Hibernating",
        &["  operation  Hibernate, Done, asked for by Timer"],
    );
    assert!(why.contains("PowerStateDue: It has run for 1s since 20"), "{why}");
}

/// What a command says that went well: what it prints, and what it says beside.
fn says(teal: &Deployment, words: &[&str]) -> String {
    let ended = teal.sojourn(words);
    assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.stderr);
    ended.stdout + &ended.stderr
}

/// What happens next to it by itself.
fn plan(teal: &Deployment) -> Vec<Value> {
    let printed = good(teal.sojourn(&["plan", &teal.named(), "--output", "json"]));
    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{printed}: {error}"))
}

fn at(planned: &Value) -> Timestamp {
    planned["at"].as_str().expect("a time").parse().expect("a time")
}

fn assert_says(told: &str, first: &str, more: &[&str]) {
    assert!(told.starts_with(&format!("{first}\n")), "{told}");
    for words in more {
        assert!(told.contains(words), "{words:?} is not in\n{told}");
    }
}
