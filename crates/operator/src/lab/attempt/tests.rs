use serde_json::{Value, json};

use super::*;
use crate::lab::sample::{self, at};

fn job(status: &Value) -> JobView {
    let job = json!({
        "metadata": {"name": "ada-web-submit-1", "namespace": "course", "uid": "j-1",
                     "creationTimestamp": at(0).to_string()},
        "spec": {"template": {}}, "status": status,
    });
    JobView::of(&serde_json::from_value(job).expect("a Job"))
}

fn pod(name: &str, created: i64, status: &Value) -> (Key, Arc<PodView>) {
    let pod = json!({
        "metadata": {
            "name": name, "namespace": "course", "creationTimestamp": at(created).to_string(),
            "labels": {"lab.sojourn.dev/instance": "ada", "lab.sojourn.dev/submission": "1"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "ada-web-submit-1",
                                 "uid": "j-1", "controller": true}],
        },
        "spec": {"containers": [{"name": "submit"}]}, "status": status,
    });
    let view = PodView::of(&serde_json::from_value(pod).expect("a Pod"));
    assert_eq!(view.job.as_deref(), Some("j-1"));
    (Key::new("course", name), Arc::new(view))
}

fn found(job: &JobView, pods: &[(Key, Arc<PodView>)]) -> Option<(Timestamp, String)> {
    let instance = sample::instance(json!({"spec": {"submission": {
        "url": "https://exam.example/in", "secretRef": {"name": "hand-in"},
    }}}));
    let unstarted = unstarted("ada-web-submit-1", job, pods, Some(&instance))?;
    Some((unstarted.late_at, unstarted.words))
}

#[test]
fn a_pod_that_waits_is_late_after_a_minute_and_says_what_for() {
    let waiting = |reason: &str, message: Value| {
        json!({"phase": "Pending", "containerStatuses": [{
            "name": "submit", "ready": false, "restartCount": 0, "image": "", "imageID": "",
            "state": {"waiting": {"reason": reason, "message": message}},
        }]})
    };
    let nowhere = json!({"phase": "Pending", "conditions": [{
        "type": "PodScheduled", "status": "False", "message": "0/3 nodes are available",
    }]});
    let needs = "it needs a node, its claim, the Secret hand-in and the image of submitImage";
    for (status, because) in [
        (json!({}), needs),
        (waiting("ContainerCreating", Value::Null), needs),
        (
            waiting("ContainerCreating", json!("secret \"hand-in\" not found")),
            "secret \"hand-in\" not found",
        ),
        (waiting("ImagePullBackOff", json!("no such image")), "ImagePullBackOff: no such image"),
        (nowhere, "0/3 nodes are available"),
    ] {
        let words = format!("its Pod a-1 has not started: {because}");
        let active = job(&json!({"active": 1}));
        assert_eq!(found(&active, &[pod("a-1", 5, &status)]), Some((at(65), words)));
    }
}

#[test]
fn only_the_newest_attempt_counts() {
    let failed = pod("a-1", 5, &json!({"phase": "Failed"}));
    let waits = pod("a-2", 30, &json!({"phase": "Pending"}));
    let again = job(&json!({"active": 1, "failed": 1}));
    let late = found(&again, &[waits.clone(), failed.clone()]).map(|(late_at, _)| late_at);
    assert_eq!(late, Some(at(90)));
    assert_eq!(found(&again, &[failed]), None, "the next one is made in its time");
    for phase in ["Running", "Succeeded", "Failed"] {
        let begun = pod("a-3", 40, &json!({"phase": phase}));
        assert_eq!(found(&again, &[waits.clone(), begun]), None, "{phase}");
    }
}

#[test]
fn a_job_without_any_pod_is_late_too() {
    let words = "no Pod of its Job ada-web-submit-1 was made: see the Job's Events".to_owned();
    assert_eq!(found(&job(&json!({})), &[]), Some((at(60), words)));
    assert_eq!(found(&job(&json!({"active": 1})), &[]), None, "the Pod was not seen yet");
    assert_eq!(found(&job(&json!({"failed": 2})), &[]), None);
}
