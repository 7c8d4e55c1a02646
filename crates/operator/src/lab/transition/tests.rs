use serde_json::{Value, json};

use super::*;
use crate::event::Severity;

const STARTED: &str = "2026-11-16T04:00:00Z";

fn status(value: Value) -> InstanceStatus {
    serde_json::from_value(value).expect("a status")
}

fn told(before: Value, now: Value) -> Vec<(&'static str, String)> {
    let all = transitions(&status(before), &status(now));
    all.into_iter().map(|one| (one.reason, one.message)).collect()
}

#[test]
fn what_stays_as_it_is_is_no_news() {
    let all = json!({
        "phase": "Ready", "lifecycle": {"stage": "Warned"}, "stopReason": "User",
        "submission": [{"environment": "web", "state": "Done"}],
        "conditions": [{
            "type": "Accepted", "status": "False", "reason": "TemplateMissing", "message": "x",
            "lastTransitionTime": "2026-11-16T04:00:00Z",
        }],
    });
    assert_eq!(told(all.clone(), all.clone()), []);
    let mut other_words = all.clone();
    other_words["conditions"][0]["message"] = json!("y");
    assert_eq!(told(all, other_words), []);
}

#[test]
fn every_change_that_somebody_cares_about_is_one_sentence() {
    let lifecycle = |stage: &str| json!({"lifecycle": {"stage": stage}});
    for (before, now, reason, words) in [
        (
            json!({"phase": "Starting"}),
            json!({"phase": "Ready", "url": "http://x/"}),
            "Ready",
            "Everything runs at http://x/",
        ),
        (
            json!({"phase": "Stopping"}),
            json!({"phase": "Off", "lastStartedAt": STARTED}),
            "Off",
            "Nothing of it runs any more",
        ),
        (
            json!({"phase": "Starting"}),
            json!({"phase": "Failed", "environments": [{"name": "web", "message": "no such program"}]}),
            "Failed",
            "no such program",
        ),
        (
            json!({}),
            json!({"stopReason": "Inactivity", "lastStartedAt": STARTED}),
            "Stopping",
            "It is being stopped, because nobody uses it",
        ),
        (
            json!({}),
            json!({"stopReason": "Terminated", "lastStartedAt": STARTED}),
            "Stopping",
            "It is being stopped, because its status check says that it has ended",
        ),
        (
            json!({}),
            json!({"stopReason": "User", "lastStartedAt": STARTED}),
            "Stopping",
            "Somebody asked for it to be stopped",
        ),
        (
            lifecycle("Active"),
            lifecycle("Idle"),
            "Idle",
            "Nobody has used it for as long as its Template allows",
        ),
        (
            lifecycle("Grace"),
            json!({
                "lifecycle": {"stage": "Active"}, "activity": {"last": "2026-11-16T04:00:00Z"},
            }),
            "ActiveAgain",
            "It is used again; what was announced does not hold any more",
        ),
        (
            lifecycle("Warned"),
            json!({
                "lifecycle": {"stage": "Active"},
                "keep": {"used": 1, "until": "2026-11-17T09:00:00Z"},
            }),
            "ActiveAgain",
            "It is kept until 2026-11-17T09:00:00Z; what was announced does not hold any more",
        ),
        (
            lifecycle("Idle"),
            lifecycle("Active"),
            "ActiveAgain",
            "It is left alone for now; what was announced does not hold any more",
        ),
    ] {
        assert_eq!(told(before, now), [(reason, words.to_owned())]);
    }
}

#[test]
fn what_was_made_stopped_was_not_stopped_by_anybody() {
    let off = json!({
        "phase": "Off", "stopReason": "User", "lastStoppedAt": STARTED,
        "lifecycle": {"stage": "Stopped"},
    });
    assert_eq!(told(json!({}), off.clone()), []);
    assert_eq!(told(json!({"phase": "Pending"}), off.clone()), []);
    let mut again = off.clone();
    again["lastStartedAt"] = json!(STARTED);
    let reasons = |before: Value, now: Value| {
        told(before, now).into_iter().map(|(reason, _)| reason).collect::<Vec<_>>()
    };
    let running = json!({"phase": "Stopping", "lastStartedAt": STARTED});
    assert_eq!(reasons(running, again), ["Off", "Stopping"]);
}

#[test]
fn a_stop_takes_nobody_off_the_ladder() {
    let off = json!({"lifecycle": {"stage": "Stopped"}});
    assert_eq!(told(json!({"lifecycle": {"stage": "Grace"}}), off.clone()), []);
    assert_eq!(told(off, json!({"lifecycle": {"stage": "Active"}})), [], "it was started");
}

#[test]
fn each_environment_is_handed_in_by_itself() {
    let entries = |web: Value, db: Value| json!({"submission": [web, db]});
    let entry = |name: &str, state: &str| json!({"environment": name, "state": state});
    let before = entries(entry("web", "Running"), entry("db", "Running"));
    let mut done = entry("web", "Done");
    done["receipt"] = json!("no. 7");
    let mut failed = entry("db", "Failed");
    failed["error"] = json!("answered 500");
    assert_eq!(
        told(before.clone(), entries(done, failed)),
        [
            ("Submitted", "web was handed in; the receipt says: no. 7".to_owned()),
            ("SubmissionFailed", "db could not be handed in: answered 500".to_owned()),
        ]
    );
    assert_eq!(
        told(before, entries(entry("web", "Done"), entry("db", "Waived"))),
        [
            ("Submitted", "web was handed in".to_owned()),
            ("SubmissionWaived", "db need not be handed in".to_owned()),
        ]
    );
    let waiting = entries(entry("web", "Waiting"), entry("db", "Skipped"));
    assert_eq!(told(json!({}), waiting), []);
}

#[test]
fn a_condition_that_turned_bad_is_told_and_one_that_heals_is_not() {
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"conditions": [{
            "type": kind, "status": status, "reason": reason, "message": "words",
            "lastTransitionTime": "2026-11-16T04:00:00Z",
        }]})
    };
    for (kind, bad, good, reason) in [
        ("Accepted", "False", "True", "TemplateMissing"),
        ("Accepted", "False", "True", "TenantMissing"),
        ("ActivityKnown", "False", "True", "SourceBlind"),
        ("ActivityKnown", "False", "True", "LastUseLost"),
        ("StatusChecked", "False", "True", "Unclear"),
        ("NoticeUndeliverable", "True", "False", "NobodyAccepts"),
    ] {
        let (ill, well) = (condition(kind, bad, reason), condition(kind, good, "Fine"));
        let all = transitions(&status(well.clone()), &status(ill.clone()));
        let [one] = <[Transition; 1]>::try_from(all).expect("one thing to say");
        assert_eq!((one.severity, one.reason), (Severity::Warning, reason));
        assert_eq!(told(ill, well), []);
    }
    assert_eq!(told(json!({}), condition("Ready", "False", "Pending")), []);
}

#[test]
fn every_attempt_that_fails_is_told() {
    let entry = |attempts: u32, error: Option<&str>| {
        json!({"submission": [{
            "environment": "web", "state": "Running", "attempts": attempts, "error": error,
            "retryAt": "2026-11-16T04:00:00Z",
        }]})
    };
    let first = told(entry(0, None), entry(1, Some("answered 500")));
    let words = "web could not be handed in yet, after 1 attempt: answered 500; tried again at 2026-11-16T04:00:00Z";
    assert_eq!(first, [("SubmissionRetrying", words.to_owned())]);
    assert_eq!(told(entry(1, Some("answered 500")), entry(1, Some("answered 500"))), []);
}

#[test]
fn an_attempt_that_does_not_start_is_told_once() {
    let entry = |attempts: u32, error: Option<&str>| {
        json!({"submission": [{
            "environment": "web", "state": "Running", "attempts": attempts, "error": error,
        }]})
    };
    let late = "its Pod ada-web-submit-1-x has not started: secret \"hand-in\" not found";
    let first = told(entry(0, None), entry(0, Some(late)));
    let words = format!("web is not being handed in yet: {late}");
    assert_eq!(first, [("SubmissionNotStarted", words)]);
    assert_eq!(told(entry(0, Some(late)), entry(0, Some(late))), []);
    assert_eq!(told(entry(0, Some(late)), entry(0, None)), [], "it runs after all");
    let second = told(entry(1, Some("answered 500")), entry(1, Some(late)));
    assert_eq!(
        second.iter().map(|(reason, _)| *reason).collect::<Vec<_>>(),
        ["SubmissionRetrying"]
    );
}
