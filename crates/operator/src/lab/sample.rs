//! Objects for tests: good ones, but for what a test changes.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use sojourn_api::lab::instance::Instance;
use sojourn_api::lab::template::Template;
use sojourn_api::lab::tenant::Tenant;
use sojourn_core::key::Key;

use super::caches::LabCaches;
use crate::clock::SystemClock;
use crate::frame::Queue;

/// A time, in seconds after a round one.
pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
}

pub(super) fn key() -> Key {
    Key::new("course", "ada")
}

fn merged(mut whole: Value, change: Value) -> Value {
    match (&mut whole, change) {
        (Value::Object(whole), Value::Object(change)) => {
            for (name, value) in change {
                let old = whole.remove(&name).unwrap_or(Value::Null);
                whole.insert(name, merged(old, value));
            }
        }
        (whole, change) => *whole = change,
    }
    whole
}

/// A running Instance of one environment.
pub(super) fn instance(change: Value) -> Instance {
    let whole = json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Instance",
        "metadata": {
            "name": "ada", "namespace": "course", "uid": "u-1", "resourceVersion": "7",
            "creationTimestamp": at(0).to_string(),
        },
        "spec": {"template": {"name": "notebook"}, "tenant": {"name": "ada"}, "running": true},
    });
    serde_json::from_value(merged(whole, change)).expect("an Instance")
}

/// The reference by which the parts of an Instance name it.
pub(super) fn owner(name: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Instance", "name": name, "uid": uid,
        "controller": true,
    })
}

/// A Template with the persistent environment `web`.
pub(super) fn template(change: Value) -> Template {
    let whole = json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Template",
        "metadata": {"name": "notebook", "namespace": "course"},
        "spec": {"environmentList": [{
            "name": "web", "image": "python", "command": ["serve"],
            "ports": [{"name": "http", "containerPort": 8080}],
            "persistent": true, "size": "1Gi", "mountPath": "/data",
        }]},
    });
    serde_json::from_value(merged(whole, change)).expect("a Template")
}

pub(super) fn tenant() -> Tenant {
    serde_json::from_value(json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Tenant", "metadata": {"name": "ada"},
        "spec": {"firstName": "Ada", "lastName": "Lovelace", "email": "ada@example.org"},
    }))
    .expect("a Tenant")
}

/// Caches with nothing in them, and the queue that they wake.
pub(super) fn caches() -> (Arc<LabCaches>, Arc<Queue>) {
    let queue = Arc::new(Queue::new(Arc::new(SystemClock)));
    (Arc::new(LabCaches::new(queue.clone(), false)), queue)
}
