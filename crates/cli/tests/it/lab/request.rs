//! `keep`, `extend`, `stop`, `start`, `reopen`, `submission` and `notice`.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::fixture::Fixture;

fn time(value: &Value) -> Timestamp {
    value
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("{value} is no time"))
}

fn from_now(hours: i64) -> String {
    let then = Timestamp::now().checked_add(SignedDuration::from_hours(hours)).expect("in range");
    format!("{then:.0}")
}

#[tokio::test]
async fn keep_is_granted_until_the_allowance_is_used_up() {
    let stage = Fixture::with_instance().await;
    for (used, hours) in [(1, 2), (2, 3), (3, 4)] {
        let until = from_now(hours);
        let granted = stage.types(&["keep", "instance/one", "--until", &until]).await;
        assert_eq!((granted.code, granted.stdout.as_str()), (Some(0), ""), "{}", granted.stderr);
        assert_eq!(granted.stderr, format!("instance/one is kept until {until}."));
        let status = stage.until(|status| status["keep"]["used"] == used).await;
        assert_eq!(status["keep"]["until"], json!(until));
        assert_eq!(status["next"], Value::Null, "nothing comes while it is kept");
    }
    let (code, told) = stage.refuses(&["keep", "instance/one", "--for", "5h"]).await;
    assert_eq!(code, 1);
    assert!(told.contains("its allowance is used up"), "{told}");
    let status = stage.until(|status| held(status) == "KeepAllowanceUsedUp").await;
    assert_eq!(status["keep"]["used"], 3);
    let less = stage.types(&["keep", "instance/one", "--for", "1h"]).await;
    assert_eq!(less.code, Some(0), "what is given already costs nothing: {}", less.stderr);
    assert!(less.stderr.ends_with(" already."), "{}", less.stderr);
}

#[tokio::test]
async fn keep_is_capped() {
    let stage = Fixture::with_instance().await;
    let begun = Timestamp::now();
    let capped = stage.types(&["keep", "instance/one", "--for", "100h"]).await;
    assert_eq!(capped.code, Some(0), "{}", capped.stderr);
    assert!(
        capped.stderr.ends_with("; nothing is kept for longer at a time."),
        "{}",
        capped.stderr
    );
    let status = stage.until(|status| status["keep"]["used"] == 1).await;
    let given = time(&status["keep"]["until"]).duration_since(begun).as_secs();
    // Whole seconds are given, and asking takes a moment.
    assert!((36 * 3600 - 1..36 * 3600 + 120).contains(&given), "{given}");
}

fn held(status: &Value) -> String {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let held = conditions.into_iter().find(|one| one["type"] == "Held");
    held.map(|one| one["reason"].as_str().unwrap_or_default().to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn extend_counts_from_what_holds_now() {
    let stage = Fixture::with_instance().await;
    let until = from_now(3);
    stage.prints(&["keep", "instance/one", "--until", &until]).await;
    stage.prints(&["extend", "instance/one", "--by", "90m"]).await;
    let status = stage.until(|status| status["keep"]["used"] == 2).await;
    let later = time(&status["keep"]["until"]).duration_since(time(&json!(until)));
    assert_eq!(later, SignedDuration::from_mins(90));
}

#[tokio::test]
async fn invalid_requests_are_refused_before_anything_is_written() {
    let stage = Fixture::with_instance().await;
    for (args, words) in [
        (&["keep", "instance/one", "--for", "soon"][..], "Write it as 90m, 2h or 1d."),
        (&["keep", "instance/one", "--for", "never"], "nothing is kept for ever"),
        (&["keep", "instance/one", "--until", "tomorrow"], "Write it as 2026-11-17T09:00:00Z."),
        (&["keep", "instance/one", "--until", "2020-01-01T00:00:00Z"], "that is over"),
        (&["extend", "instance/one", "--by", "1y"], "Write it as 90m, 2h or 1d."),
        (&["keep", "tenant/ada"], "nothing is ever decided about a tenant"),
        (&["stop", "template/notebook"], "is nothing that is started and stopped"),
        (&["submission", "forget", "instance/one"], "possible values: request, retry, waive"),
    ] {
        let (code, told) = stage.refuses(args).await;
        assert_eq!(code, 2, "{args:?}: {told}");
        assert!(told.contains(words), "{args:?}: {told}");
    }
    let instance = stage.instance().await;
    let annotations = instance.metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key("sojourn.dev/keep-until"), "{annotations:?}");
}

#[tokio::test]
async fn nobody_answers_where_no_controllers_run() {
    let stage = Fixture::empty(&["--no-pods", "--no-controllers"]).await;
    let (code, told) = stage.refuses(&["keep", "instance/one"]).await;
    assert_eq!(code, 3, "{told}");
    assert!(told.contains("Install them (sojourn crds | sojourn apply -f -)"), "{told}");
}

#[tokio::test]
async fn stop_and_start_switch_it() {
    let stage = Fixture::with_instance().await;
    let stopped = stage.types(&["stop", "instance/one"]).await;
    assert_eq!(
        (stopped.code, stopped.stderr.as_str()),
        (Some(0), "instance/one is being stopped.")
    );
    let status = stage.until(|status| status["stopReason"] == "User").await;
    assert_eq!(status["lifecycle"]["stage"], "Stopped");
    let started = stage.types(&["start", "instance/one"]).await;
    assert_eq!(
        (started.code, started.stderr.as_str()),
        (Some(0), "instance/one is being started.")
    );
    stage.until(|status| status["lifecycle"]["stage"] == "Active").await;
    assert_eq!(stage.instance().await.data["spec"]["running"], true);
}

#[tokio::test]
async fn submissions_need_a_place_to_go_to() {
    let stage = Fixture::with_instance().await;
    for verb in ["request", "retry", "waive"] {
        let (code, told) = stage.refuses(&["submission", verb, "instance/one"]).await;
        assert_eq!(code, 1, "{verb}: {told}");
        assert!(told.contains("Set spec.submission first."), "{verb}: {told}");
    }
    stage
        .apply(json!({
            "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Instance",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {
                "template": {"name": "notebook"}, "tenant": {"name": "ada"},
                "submission": {"url": "https://exams.example/in", "when": "OnRequest"},
            },
        }))
        .await;
    let asked = stage.types(&["submission", "request", "instance/one"]).await;
    assert_eq!(asked.code, Some(0), "{}", asked.stderr);
    assert_eq!(asked.stderr, "The data of instance/one is handed in once it is off.");
    stage.until(|status| status["submissionCommands"]["requested"].is_string()).await;
}

const ENDED: &str = "2026-11-17T09:00:00Z";

#[tokio::test]
async fn what_has_ended_is_reopened_and_not_started() {
    let stage = Fixture::with_instance().await;
    let (code, told) = stage.refuses(&["reopen", "instance/one"]).await;
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("has not ended, so there is nothing to take back"), "{told}");
    assert!(told.contains("sojourn start instance/one"), "{told}");

    stage.prints(&["stop", "instance/one"]).await;
    stage.until(|status| status["stopReason"] == "User").await;
    stage.set_status(json!({"ended": {"at": ENDED, "reason": "Terminated"}})).await;
    let (code, told) = stage.refuses(&["start", "instance/one"]).await;
    assert_eq!(code, 1, "{told}");
    assert!(told.contains(&format!("ended at {ENDED}, and is not started again")), "{told}");
    assert!(told.contains("sojourn reopen instance/one"), "{told}");
    assert_eq!(stage.instance().await.data["spec"]["running"], false, "nothing was written");

    let reopened = stage.types(&["reopen", "instance/one"]).await;
    assert_eq!(reopened.code, Some(0), "{}", reopened.stderr);
    let words = "instance/one does not count as ended any more, and is being started.";
    assert_eq!(reopened.stderr, words);
    let instance = stage.instance().await;
    assert_eq!(instance.data["spec"]["running"], true);
    let annotations = instance.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations.get("lab.sojourn.dev/reopen").map(String::as_str), Some(ENDED));
    let status = stage.until(|status| status["reopened"].is_string()).await;
    assert_eq!((&status["reopened"], &status["ended"]), (&json!(ENDED), &Value::Null));
}

#[tokio::test]
async fn only_what_has_failed_is_tried_again_and_only_what_waits_is_given_up() {
    let stage = Fixture::without_controllers().await;
    let annotations = async || stage.instance().await.metadata.annotations.unwrap_or_default();
    stage
        .apply(json!({
            "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Instance",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {
                "template": {"name": "notebook"}, "tenant": {"name": "ada"},
                "submission": {"url": "https://exams.example/in"},
            },
        }))
        .await;
    let entry = |state: &str| json!({"submission": [{"environment": "web", "state": state}]});
    for status in [json!({}), entry("Running"), entry("Done"), entry("Waived")] {
        stage.set_status(status.clone()).await;
        let (code, told) = stage.refuses(&["submission", "retry", "instance/one"]).await;
        assert_eq!(code, 1, "{status}: {told}");
        let words = "nothing of instance/one has failed to be handed in: nothing is tried again";
        assert!(told.contains(words) && told.contains("sojourn why instance/one"), "{told}");
    }
    assert!(!annotations().await.contains_key("lab.sojourn.dev/submission-retry"));
    stage.set_status(entry("Failed")).await;
    let retried = stage.types(&["submission", "retry", "instance/one"]).await;
    assert_eq!(retried.code, Some(0), "{}", retried.stderr);
    assert_eq!(retried.stderr, "The data of instance/one is handed in again.");
    assert!(annotations().await.contains_key("lab.sojourn.dev/submission-retry"));

    let notice = |id: &str, state: &str| json!({"id": id, "kind": "Stopped", "state": state});
    stage.set_status(json!({"notices": [notice("a", "Delivered")]})).await;
    let (code, told) = stage.refuses(&["notice", "waive", "instance/one"]).await;
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("no notice of instance/one waits to be delivered"), "{told}");
    assert!(!annotations().await.contains_key("lab.sojourn.dev/notice-waive"));
    for (notices, what) in [
        (json!([notice("a", "Delivered"), notice("b", "Waiting")]), "One notice is"),
        (json!([notice("a", "Waiting"), notice("b", "Waiting")]), "Some notices are"),
    ] {
        stage.set_status(json!({"notices": notices})).await;
        let waived = stage.types(&["notice", "waive", "instance/one"]).await;
        assert_eq!(waived.code, Some(0), "{}", waived.stderr);
        let words = format!("{what} given up: nobody accepts what instance/one has to tell.");
        assert_eq!(waived.stderr, words);
    }
    assert!(annotations().await.contains_key("lab.sojourn.dev/notice-waive"));
}
