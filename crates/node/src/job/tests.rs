//! What is decided about Jobs, in tables; and histories of Jobs that are cut off after any step.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::attempt::{self, ATTEMPT, TRACKING};
use super::decide::{Decision, Step, decide};

const START: &str = "2026-01-01T00:00:00Z";

fn at(seconds: i64) -> Timestamp {
    let start: Timestamp = START.parse().expect("a time");
    start + SignedDuration::from_secs(seconds)
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn job(more: &Value) -> Job {
    let mut job = json!({
        "metadata": {"name": "once", "namespace": "default", "uid": "job", "resourceVersion": "1"},
        "spec": {
            "completions": 1, "parallelism": 1, "backoffLimit": 2,
            "template": {
                "metadata": {"labels": {"job-name": "once"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]},
            },
        },
        "status": {},
    });
    merge(&mut job, more);
    serde_json::from_value(job).expect("a job")
}

fn pod(uid: &str, more: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": uid, "namespace": "default", "uid": uid, "creationTimestamp": START,
            "finalizers": [TRACKING], "annotations": {ATTEMPT: "0"},
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        "status": {"phase": "Running"},
    });
    merge(&mut pod, more);
    serde_json::from_value(pod).expect("a pod")
}

/// Takes steps until there is none left, on a store that has only this Job.
#[derive(Debug, Clone)]
struct Store {
    job: Job,
    pods: BTreeMap<String, Pod>,
    /// By name of Pod: it failed, in truth.
    failures: BTreeMap<String, bool>,
    made: u32,
    deleted: bool,
    now: Timestamp,
}

impl Store {
    fn new(job: Job) -> Self {
        Self {
            job,
            pods: BTreeMap::new(),
            failures: BTreeMap::new(),
            made: 0,
            deleted: false,
            now: at(0),
        }
    }

    fn decide(&self) -> Decision {
        let pods: Vec<&Pod> = self.pods.values().collect();
        decide(&self.job, &pods, self.now)
    }

    fn status(&self) -> JobStatus {
        self.job.status.clone().unwrap_or_default()
    }

    fn has(&self, kind: &str) -> bool {
        let conditions = self.status().conditions.unwrap_or_default();
        conditions.iter().any(|c| c.type_ == kind && c.status == "True")
    }

    /// What the API does with a step.
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Status(status) => {
                self.validate(status);
                self.job.status = Some((**status).clone());
            }
            Step::Create { attempt } => {
                let mut pod = attempt::pod(&self.job, *attempt, 0).expect("a Pod");
                let name = pod.metadata.name.clone().expect("a name");
                if self.pods.contains_key(&name) {
                    return;
                }
                self.made += 1;
                pod.metadata.uid = Some(format!("pod-{}", self.made));
                pod.status = serde_json::from_value(json!({"phase": "Pending"})).expect("a status");
                self.pods.insert(name, pod);
            }
            Step::DeletePod { name, .. } => self.delete(name),
            Step::Release { name, .. } => {
                let Some(pod) = self.pods.get_mut(name) else { return };
                pod.metadata.finalizers = None;
                if pod.metadata.deletion_timestamp.is_some() && is_over(pod) {
                    self.pods.remove(name);
                }
            }
            Step::DeleteJob => self.deleted = true,
        }
    }

    /// The rules that an API server has for the status of a Job.
    fn validate(&self, new: &JobStatus) {
        let old = self.status();
        assert!(new.failed >= old.failed && new.succeeded >= old.succeeded, "counters only rise");
        assert!(new.ready.unwrap_or(0) <= new.active.unwrap_or(0));
        let is = |kind: &str| {
            let conditions = new.conditions.iter().flatten();
            conditions.into_iter().any(|c| c.type_ == kind && c.status == "True")
        };
        let (complete, failed) = (is("Complete"), is("Failed"));
        assert!(!(complete && failed));
        assert!(!complete || is("SuccessCriteriaMet"));
        assert!(!failed || is("FailureTarget"));
        assert!(!(is("SuccessCriteriaMet") && is("FailureTarget")));
        assert_eq!(new.completion_time.is_some(), complete);
        if complete || failed {
            assert_eq!((new.active.unwrap_or(0), new.terminating.unwrap_or(0)), (0, 0));
            let uncounted = new.uncounted_terminated_pods.clone().unwrap_or_default();
            assert_eq!((uncounted.succeeded, uncounted.failed), (None, None));
            assert!(new.start_time.is_some());
        }
    }

    fn delete(&mut self, name: &str) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(name) else { return };
        let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now);
        pod.metadata.deletion_timestamp.get_or_insert(time);
        if is_over(pod) && pod.metadata.finalizers.is_none() {
            self.pods.remove(name);
        }
    }

    /// Plays the node.
    fn end(&mut self, name: &str, exit_code: i32) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(name).filter(|pod| !has_ended(pod)) else { return };
        let tracked = pod.metadata.finalizers.is_some();
        pod.status = serde_json::from_value(json!({
            "phase": if exit_code == 0 { "Succeeded" } else { "Failed" },
            "containerStatuses": [{
                "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": exit_code, "finishedAt": now}},
            }],
        }))
        .expect("a status");
        if tracked {
            self.failures.insert(name.to_owned(), exit_code != 0);
        } else if pod.metadata.deletion_timestamp.is_some() {
            self.pods.remove(name);
        }
    }

    fn active(&self) -> Vec<String> {
        let active = self
            .pods
            .iter()
            .filter(|(_, pod)| !has_ended(pod) && pod.metadata.deletion_timestamp.is_none());
        active.map(|(name, _)| name.clone()).collect()
    }

    fn run(&mut self) -> Option<Timestamp> {
        for _ in 0..50 {
            let decision = self.decide();
            let Some(step) = decision.step else { return decision.wake };
            self.apply(&step);
            assert!(self.active().len() <= 1, "never two at once");
        }
        panic!("it goes round in circles: {:?}", self.decide());
    }
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether nothing of it runs: it has ended, or never had a node.
fn is_over(pod: &Pod) -> bool {
    has_ended(pod) || pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none())
}

#[test]
fn one_step_after_another() {
    let mut store = Store::new(job(&json!({})));
    let mut steps = Vec::new();
    let note = |store: &mut Store, steps: &mut Vec<String>| {
        while let Some(step) = store.decide().step {
            let text = match &step {
                Step::Status(status) => {
                    let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
                    let conditions: Vec<String> = status
                        .conditions
                        .iter()
                        .flatten()
                        .map(|condition| condition.type_.clone())
                        .collect();
                    format!(
                        "active {} succeeded {} uncounted {} {}",
                        status.active.unwrap_or(0),
                        status.succeeded.unwrap_or(0),
                        uncounted.succeeded.unwrap_or_default().len(),
                        conditions.join(" ")
                    )
                }
                Step::Create { attempt } => format!("create {attempt}"),
                Step::DeletePod { .. } => "delete".to_owned(),
                Step::Release { .. } => "release".to_owned(),
                Step::DeleteJob => "delete the job".to_owned(),
            };
            steps.push(text.trim_end().to_owned());
            store.apply(&step);
        }
    };
    note(&mut store, &mut steps);
    let name = store.active().remove(0);
    store.end(&name, 0);
    note(&mut store, &mut steps);
    assert_eq!(
        steps,
        [
            "active 0 succeeded 0 uncounted 0",
            "create 0",
            "active 1 succeeded 0 uncounted 0",
            "active 0 succeeded 0 uncounted 1 SuccessCriteriaMet",
            "release",
            "active 0 succeeded 1 uncounted 0 SuccessCriteriaMet Complete",
        ]
    );
}

#[test]
fn when_the_next_attempt_comes() {
    let mut store = Store::new(job(&json!({"spec": {"backoffLimit": 100}})));
    store.run();
    for wait in [10, 20, 40, 80, 160, 320, 600, 600] {
        let name = store.active().remove(0);
        store.end(&name, 1);
        assert_eq!(store.run(), Some(store.now + SignedDuration::from_secs(wait)), "{wait}");
        store.now += SignedDuration::from_secs(wait - 1);
        store.run();
        assert_eq!(store.active().len(), 0, "not yet after {wait}");
        store.now += SignedDuration::from_secs(1);
        store.run();
        assert_eq!(store.active().len(), 1, "after {wait}");
    }
    assert_eq!(store.status().failed, Some(8));
}

#[test]
fn restarts_of_containers_count_where_the_node_restarts_them() {
    let restarted = |policy: &str, limit: i32, restarts: i32| {
        let job = job(&json!({"spec": {
            "backoffLimit": limit, "template": {"spec": {"restartPolicy": policy}},
        }}));
        let pod = pod(
            "p",
            &json!({"status": {"containerStatuses": [{
                "name": "main", "image": "", "imageID": "", "ready": true, "restartCount": restarts,
            }]}}),
        );
        let mut store = Store::new(job);
        store.pods.insert("p".to_owned(), pod);
        store.run();
        store.has("FailureTarget")
    };
    for (policy, limit, restarts, fails) in [
        ("OnFailure", 3, 2, false),
        ("OnFailure", 3, 3, true),
        ("OnFailure", 0, 0, false),
        ("OnFailure", 0, 1, true),
        ("Never", 0, 5, false),
    ] {
        assert_eq!(restarted(policy, limit, restarts), fails, "{policy} {limit} {restarts}");
    }
}

#[test]
fn a_deleted_pod_is_replaced_when_the_policy_says() {
    for (policy, at_once) in [("TerminatingOrFailed", true), ("Failed", false)] {
        let mut store = Store::new(job(&json!({"spec": {"podReplacementPolicy": policy}})));
        store.run();
        let name = store.active().remove(0);
        let pod = store.pods.get_mut(&name).and_then(|pod| pod.spec.as_mut()).expect("it has one");
        pod.node_name = Some("n1".to_owned());
        store.delete(&name);
        store.run();
        assert_eq!(store.status().failed, at_once.then_some(1), "{policy}");
        assert_eq!(store.status().terminating, Some(1), "{policy}");
        store.now += SignedDuration::from_secs(10);
        store.run();
        assert_eq!(store.active().len(), usize::from(at_once), "{policy}");
        store.end(&name, 1);
        store.run();
        assert_eq!(store.status().failed, Some(1), "{policy}");
        store.now += SignedDuration::from_secs(10);
        store.run();
        assert_eq!(store.active().len(), 1, "{policy}");
    }
}

#[test]
fn a_deleted_pod_without_a_node_is_not_waited_for() {
    let mut store = Store::new(job(&json!({"spec": {"podReplacementPolicy": "Failed"}})));
    store.run();
    let name = store.active().remove(0);
    store.delete(&name);
    store.run();
    assert_eq!(store.status().failed, Some(1));
    assert_eq!(store.active().len(), 1);
}

#[test]
fn names_follow_from_attempts() {
    let name = |job: &Job, attempt: u32, name_collisions: u32| {
        attempt::pod(job, attempt, name_collisions)
            .and_then(|pod| pod.metadata.name)
            .expect("a name")
    };
    let once = job(&json!({}));
    assert_eq!(name(&once, 3, 0), name(&once, 3, 0));
    assert_ne!(name(&once, 3, 0), name(&once, 4, 0));
    assert_ne!(name(&once, 3, 0), name(&once, 3, 1));
    assert_ne!(name(&once, 3, 0), name(&job(&json!({"metadata": {"uid": "another"}})), 3, 0));
    let long = job(&json!({"metadata": {"name": "a".repeat(63)}}));
    let long = name(&long, 0, 0);
    assert_eq!(long.len(), 63);
    assert!(long.starts_with(&"a".repeat(58)));
}

#[test]
fn when_a_pod_ended() {
    let terminated = |name: &str, second: i64| {
        json!({
            "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 1, "finishedAt": at(second)}},
        })
    };
    let running = json!({
        "name": "b", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"running": {}},
    });
    let unready = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(50)}]);
    let sidecar = json!([{"name": "side", "restartPolicy": "Always"}]);
    for (more, second) in [
        (json!({"status": {"containerStatuses": [terminated("a", 5), terminated("b", 7)]}}), 7),
        (
            json!({
                "spec": {"initContainers": sidecar},
                "status": {
                    "containerStatuses": [terminated("a", 5)],
                    "initContainerStatuses": [terminated("side", 9), terminated("other", 99)],
                },
            }),
            9,
        ),
        (
            json!({"status": {
                "containerStatuses": [terminated("a", 5), running], "conditions": unready,
            }}),
            50,
        ),
        (json!({"metadata": {"deletionTimestamp": at(40), "deletionGracePeriodSeconds": 30}}), 10),
        (json!({}), 0),
    ] {
        assert_eq!(attempt::ended_at(&pod("p", &more)), at(second), "{more}");
    }
}

/// Somebody's deeds between two steps of the controller.
#[derive(Debug, Clone)]
enum Act {
    /// The controller takes a step. Told twice, the API hears it twice.
    Step {
        twice: bool,
    },
    Place(usize),
    End {
        at: usize,
        exit_code: i32,
    },
    Delete(usize),
    Suspend(bool),
    Pass(i64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => any::<bool>().prop_map(|twice| Act::Step { twice }),
        2 => any::<usize>().prop_map(Act::Place),
        2 => (any::<usize>(), prop_oneof![3 => Just(1), 1 => Just(0)])
            .prop_map(|(at, exit_code)| Act::End { at, exit_code }),
        1 => any::<usize>().prop_map(Act::Delete),
        1 => any::<bool>().prop_map(Act::Suspend),
        2 => (0..40_i64).prop_map(Act::Pass),
    ]
}

proptest! {
    /// Whatever happens between any two steps (and a controller that starts anew knows no more
    /// than one that went on): one Pod at a time, every end counted once, and in the end an end.
    #[test]
    fn histories(
        acts in proptest::collection::vec(act(), 1..150),
        deadline in proptest::option::of(1..200_i64),
        policy in prop_oneof![Just("Failed"), Just("TerminatingOrFailed")],
    ) {
        let mut store = Store::new(job(&json!({"spec": {
            "activeDeadlineSeconds": deadline, "podReplacementPolicy": policy,
        }})));
        let nth = |store: &Store, at: usize| {
            store.pods.keys().nth(at.checked_rem(store.pods.len())?).cloned()
        };
        for act in acts {
            match act {
                Act::Step { twice } => {
                    if let Some(step) = store.decide().step {
                        store.apply(&step);
                        // A status that is written twice is refused: its version has moved on.
                        if twice && !matches!(step, Step::Status(_)) {
                            store.apply(&step);
                        }
                    }
                }
                Act::Place(at) => {
                    let pod = nth(&store, at).and_then(|name| store.pods.get_mut(&name));
                    if let Some(pod) = pod
                        && pod.metadata.deletion_timestamp.is_none()
                        && let Some(spec) = pod.spec.as_mut()
                    {
                        spec.node_name = Some("n1".to_owned());
                    }
                }
                Act::End { at, exit_code } => {
                    if let Some(name) = nth(&store, at)
                        && store.pods[&name].spec.as_ref().is_some_and(|s| s.node_name.is_some())
                    {
                        store.end(&name, exit_code);
                    }
                }
                Act::Delete(at) => {
                    if let Some(name) = nth(&store, at) {
                        store.delete(&name);
                    }
                }
                Act::Suspend(suspend) => {
                    if let Some(spec) = &mut store.job.spec {
                        spec.suspend = Some(suspend);
                    }
                }
                Act::Pass(seconds) => store.now += SignedDuration::from_secs(seconds),
            }
            prop_assert!(store.active().len() <= 1, "never two at once");
        }
        // Now everything works, and every Pod succeeds.
        if let Some(spec) = &mut store.job.spec {
            spec.suspend = Some(false);
        }
        for _ in 0..20 {
            store.run();
            for name in store.pods.keys().cloned().collect::<Vec<_>>() {
                store.end(&name, 0);
            }
            store.now += SignedDuration::from_secs(600);
        }
        store.run();
        prop_assert!(store.has("Complete") != store.has("Failed"));
        for pod in store.pods.values() {
            prop_assert!(pod.metadata.finalizers.is_none(), "everybody is let go of");
        }
        let status = store.status();
        let failed = usize::try_from(status.failed.unwrap_or(0)).expect("a count");
        let truly = store.failures.values().filter(|failed| **failed).count();
        let made = usize::try_from(store.made).expect("a count");
        prop_assert!(failed <= made, "{failed} failures of {made} Pods");
        if store.has("Complete") {
            prop_assert_eq!(status.succeeded, Some(1));
        } else {
            // A Pod that was deleted counts as a failure, too.
            prop_assert!(failed >= truly.min(3), "{failed} counted of {truly}");
        }
    }
}
