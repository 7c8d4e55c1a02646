//! What people do, written to the API and reported to the checker.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sojourn_api::name::{lab, shared};
use sojourn_core::key::Key;

use super::invariants::Policy;
use super::simulation::LabSimulation;

/// The observer's watch is not slower than this.
const OBSERVER_TIMEOUT: Duration = Duration::from_secs(60);
const LAB: &str = "lab.sojourn.dev/v1alpha1";

/// A template as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Design {
    pub policy: Policy,
    /// How many environments it has; the first is called `web`, and one at least there is.
    pub environments: usize,
}

fn span(span: Option<SignedDuration>) -> String {
    span.map_or_else(|| "never".to_owned(), |span| format!("{}s", span.as_secs()))
}

impl Design {
    /// What its environments are called: `web`, `more-1`, ...
    pub fn names(&self) -> Vec<String> {
        let more = (1..self.environments).map(|index| format!("more-{index}"));
        ["web".to_owned()].into_iter().chain(more).collect()
    }
}

fn environments(design: &Design) -> Vec<Value> {
    let one = |name: String| {
        let mut environment = json!({
            "name": name, "image": "none", "ports": [{"containerPort": 8080}],
            "persistent": design.policy.persistent,
        });
        if design.policy.persistent {
            environment["size"] = json!("1Gi");
            environment["mountPath"] = json!("/data");
        }
        environment
    };
    design.names().into_iter().map(one).collect()
}

fn template(key: &Key, design: &Design) -> Value {
    let Policy { stop_after, delete_after_stopped, delete_after, alerts, .. } = design.policy;
    let mut spec = json!({
        "environmentList": environments(design),
        "inactivityTimeout": span(stop_after),
        "deleteAfterStopped": span(delete_after_stopped),
        "deleteAfter": span(delete_after),
    });
    if let Some(alerts) = alerts {
        spec["maxAlerts"] = json!(alerts);
    }
    let metadata = json!({"name": &*key.name, "namespace": &*key.namespace});
    json!({"apiVersion": LAB, "kind": "Template", "metadata": metadata, "spec": spec})
}

/// An instance as people write it, but for what `spec` adds.
pub fn instance(key: &Key, template: &Key, spec: Value) -> Value {
    let mut whole = json!({
        "template": {"name": &*template.name, "namespace": &*template.namespace},
        "tenant": {"name": "ada"},
    });
    if let (Some(whole), Value::Object(spec)) = (whole.as_object_mut(), spec) {
        whole.extend(spec);
    }
    let metadata = json!({"name": &*key.name, "namespace": &*key.namespace});
    json!({"apiVersion": LAB, "kind": "Instance", "metadata": metadata, "spec": whole})
}

impl LabSimulation {
    /// Ada, to whom everything is lent.
    pub async fn make_tenant(&self) {
        self.create(json!({
            "apiVersion": LAB, "kind": "Tenant", "metadata": {"name": "ada"},
            "spec": {"firstName": "Ada", "lastName": "Lovelace", "email": "ada@example.org"},
        }))
        .await;
    }

    pub async fn remove_tenant(&self) {
        self.delete(&json!({"apiVersion": LAB, "kind": "Tenant", "metadata": {"name": "ada"}}))
            .await;
    }

    pub async fn make_template(&self, key: &Key, design: &Design) {
        self.create(template(key, design)).await;
        self.checker.lock().set_design(key, Some(*design));
    }

    pub async fn edit_template(&self, key: &Key, design: &Design) {
        let mut change = template(key, design);
        // A number that is left out is taken away.
        if design.policy.alerts.is_none() {
            change["spec"]["maxAlerts"] = Value::Null;
        }
        self.merge(&template(key, design), &change).await;
        self.checker.lock().set_design(key, Some(*design));
    }

    pub async fn remove_template(&self, key: &Key) {
        self.delete(&template(key, &Design::default())).await;
        self.checker.lock().set_design(key, None);
    }

    /// Lends an instance of a template to Ada.
    pub async fn lend(&self, key: &Key, template: &Key, spec: Value) {
        self.create(instance(key, template, spec)).await;
        self.until(OBSERVER_TIMEOUT, key, |_| true).await;
    }

    pub async fn stop(&self, key: &Key) {
        self.checker.lock().person_stops(key);
        self.change(key, &json!({"spec": {"running": false}})).await;
    }

    pub async fn start(&self, key: &Key) {
        self.change(key, &json!({"spec": {"running": true}})).await;
    }

    pub async fn keep(&self, key: &Key, until: Timestamp) {
        let annotation = json!({shared::KEEP_UNTIL: format!("{until:.0}")});
        self.change(key, &json!({"metadata": {"annotations": annotation}})).await;
        self.checker.lock().person_keeps(key, until);
    }

    pub async fn pause(&self, key: &Key, paused: bool) {
        let value = if paused { json!("true") } else { Value::Null };
        self.change(key, &json!({"metadata": {"annotations": {shared::PAUSED: value}}})).await;
    }

    pub async fn remove(&self, key: &Key) {
        self.checker.lock().person_deletes(key);
        self.delete(&instance(key, &Key::new("", ""), json!({}))).await;
    }

    /// One of the annotations that ask for something, with the time.
    pub async fn command(&self, key: &Key, annotation: &str) {
        let now = format!("{:.0}", self.now());
        self.change(key, &json!({"metadata": {"annotations": {annotation: now}}})).await;
    }

    /// Keeps inactivity and expiration away from a namespace, or lets them back.
    pub async fn opt_out(&self, namespace: &str, opted_out: [bool; 2]) {
        let value = |out: bool| if out { json!("true") } else { Value::Null };
        let labels = json!({
            lab::INACTIVITY_IGNORE: value(opted_out[0]),
            lab::EXPIRATION_IGNORE: value(opted_out[1]),
        });
        let named =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.merge(&named, &json!({"metadata": {"labels": labels}})).await;
        self.checker.lock().set_opted_out(namespace, opted_out);
    }
}
