use serde_json::{Value, json};

use super::*;
use crate::lab::sample::at;

fn read<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

#[test]
fn true_in_either_place_opts_out_and_nothing_else_does() {
    let name = "lab.sojourn.dev/instance-inactivity-ignore";
    let view = |metadata: Value| {
        let view = NamespaceView::of(&read(json!({"metadata": metadata})));
        (view.inactivity_ignored, view.expiration_ignored)
    };
    for (metadata, opted_out) in [
        (json!({"name": "a"}), (false, false)),
        (json!({"labels": {name: "true"}}), (true, false)),
        (json!({"annotations": {name: "true"}}), (true, false)),
        (json!({"labels": {name: "false"}, "annotations": {name: "true"}}), (true, false)),
        (json!({"labels": {name: "yes"}, "annotations": {name: "True"}}), (false, false)),
        (json!({"labels": {"lab.sojourn.dev/expiration-ignore": "true"}}), (false, true)),
        (json!({"labels": {"lab.sojourn.dev/expiration-ignore": ""}}), (false, false)),
    ] {
        assert_eq!(view(metadata.clone()), opted_out, "{metadata}");
    }
}

fn pod(change: &Value) -> PodView {
    let mut whole = json!({
        "metadata": {
            "name": "ada-web", "namespace": "course", "uid": "p-1",
            "creationTimestamp": at(5).to_string(),
            "labels": {"lab.sojourn.dev/instance": "ada", "lab.sojourn.dev/environment": "web"},
        },
        "spec": {"containers": [{
            "name": "web", "ports": [{"name": "http", "containerPort": 8080}, {"containerPort": 22}],
        }]},
        "status": {
            "phase": "Running", "podIP": "10.0.0.7",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    for (part, fields) in change.as_object().expect("parts") {
        for (name, value) in fields.as_object().expect("fields") {
            whole[part][name] = value.clone();
        }
    }
    PodView::of(&read(whole))
}

#[test]
fn a_pod_tells_whose_it_is_and_where_it_answers() {
    let seen = pod(&json!({}));
    assert_eq!(seen.instance, Some(Key::new("course", "ada")));
    assert_eq!((seen.environment.as_str(), seen.uid.as_str()), ("web", "p-1"));
    assert_eq!((seen.phase, seen.ready, seen.deleting), (PodPhase::Running, true, false));
    assert_eq!(seen.created, Some(at(5)));
    assert_eq!(seen.ip, Some("10.0.0.7".parse().expect("an address")));
    assert_eq!(seen.ports, [(8080, 8080), (22, 22)]);
    assert!(!seen.submission);

    let given = pod(&json!({"metadata": {"annotations": {
        "sojourn.dev/ports": r#"{"http": 20001, "22": 20002}"#,
    }}}));
    assert_eq!(given.ports, [(8080, 20001), (22, 20002)], "the node gave it other ports");
    let garbage = pod(&json!({"metadata": {"annotations": {"sojourn.dev/ports": "{"}}}));
    assert_eq!(garbage.ports, [(8080, 8080), (22, 22)]);
}

#[test]
fn a_pod_that_stands_in_is_as_old_as_what_it_stands_in_for() {
    let since = |text: &str| {
        let annotations = json!({"lab.sojourn.dev/since": text});
        pod(&json!({"metadata": {"annotations": annotations}})).since
    };
    assert_eq!(pod(&json!({})).since, Some(at(5)));
    assert_eq!(since(&at(2).to_string()), Some(at(2)));
    assert_eq!(since(&at(9).to_string()), Some(at(5)), "nothing is younger than itself");
    assert_eq!(since("yesterday"), Some(at(5)));
}

#[test]
fn a_pod_that_hands_in_is_no_environment() {
    let seen = pod(&json!({"metadata": {"labels": {
        "lab.sojourn.dev/instance": "ada", "lab.sojourn.dev/submission": "1",
    }}}));
    assert!(seen.submission);
}

#[test]
fn half_a_status_is_no_readiness() {
    for (status, phase, ready) in [
        (json!({"phase": "Unheard", "conditions": []}), PodPhase::Pending, false),
        (json!({"phase": "Pending", "conditions": null}), PodPhase::Pending, false),
        (json!({"phase": "Failed", "conditions": []}), PodPhase::Failed, false),
        (json!({"phase": "Succeeded", "conditions": []}), PodPhase::Succeeded, false),
        (json!({"conditions": [{"type": "Ready", "status": "Unknown"}]}), PodPhase::Running, false),
    ] {
        let seen = pod(&json!({"status": status}));
        assert_eq!((seen.phase, seen.ready), (phase, ready), "{status}");
    }
    assert_eq!(pod(&json!({"status": {"podIP": "nowhere"}})).ip, None);
}

#[test]
fn a_pod_that_does_not_run_says_why_in_the_nodes_words() {
    let waiting = |reason: &str, message: Value| {
        json!({"status": {"containerStatuses": [{
            "name": "web", "ready": false, "restartCount": 0, "image": "", "imageID": "",
            "state": {"waiting": {"reason": reason, "message": message}},
        }]}})
    };
    for (change, words) in [
        (json!({}), None),
        (waiting("ContainerCreating", Value::Null), None),
        (waiting("ImagePullBackOff", Value::Null), Some("ImagePullBackOff")),
        (waiting("CrashLoopBackOff", json!("in 10s")), Some("CrashLoopBackOff: in 10s")),
        (json!({"status": {"reason": "Evicted", "message": "no room"}}), Some("no room")),
        (json!({"status": {"reason": "Evicted", "message": ""}}), Some("Evicted")),
    ] {
        assert_eq!(pod(&change).message.as_deref(), words, "{change}");
    }
}

fn job(spec: &Value, status: &Value) -> JobView {
    JobView::of(&read(json!({
        "metadata": {"name": "ada-web-submit-3", "namespace": "course", "labels": {
            "lab.sojourn.dev/instance": "ada", "lab.sojourn.dev/environment": "web",
            "lab.sojourn.dev/submission": "3",
        }},
        "spec": spec,
        "status": status,
    })))
}

#[test]
fn a_job_is_at_its_end_only_when_it_says_so() {
    let spec = json!({"template": {}});
    let running = job(&spec, &json!({"failed": 2, "active": 1}));
    assert_eq!((running.series, running.failed, &running.end), (3, 2, &JobEnd::Running));
    assert_eq!((running.terminating, running.environment.as_str()), (false, "web"));

    let condition = |kind: &str, status: &str| json!([{"type": kind, "status": status}]);
    let unsure = job(&spec, &json!({"conditions": condition("Complete", "False")}));
    assert_eq!(unsure.end, JobEnd::Running);
    let done = json!({
        "conditions": condition("Complete", "True"), "completionTime": at(60).to_string(),
    });
    assert_eq!(job(&spec, &done).end, JobEnd::Complete { at: Some(at(60)) });
    let failed = job(&spec, &json!({"conditions": condition("Failed", "True")}));
    assert_eq!(failed.end, JobEnd::Failed { message: "the Job failed".to_owned() });

    let terminating = job(&json!({"template": {}, "ttlSecondsAfterFinished": 300}), &json!({}));
    assert!(terminating.terminating, "its outcome is on record");
}
