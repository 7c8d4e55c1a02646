//! A person with an instance: the manifests that the tests apply.

use serde_json::{Value, json};

use crate::objects::{Named, Objects};

/// What instances run.
pub(crate) const PROGRAM: &str = include_str!("program.py");
/// By which children are found.
const INSTANCE_LABEL: &str = "lab.sojourn.dev/instance";

/// A person in a namespace of their own, with a template and an instance of it.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    pub(crate) email: String,
    pub(crate) instance: Named,
    tenant: String,
    template: Value,
    spec: Value,
}

impl Person {
    /// With one persistent environment `web`, and no policy at all.
    pub(crate) fn new(name: &str) -> Self {
        let namespace = format!("lab-{name}");
        let template = json!({
            "prettyName": "Web",
            "environmentList": [environment("web", &json!({
                "persistent": true, "size": "100Mi", "mountPath": "/data",
                "env": [{"name": "FOLDER", "value": "/data"}],
            }))],
        });
        Self {
            email: format!("{name}@example.org"),
            instance: Named { namespace, name: name.to_owned() },
            tenant: name.to_owned(),
            template,
            spec: json!({"prettyName": format!("{name}'s web")}),
        }
    }

    /// Changes the template's spec.
    #[must_use]
    pub(crate) fn template(mut self, with: &Value) -> Self {
        merge(&mut self.template, with);
        self
    }

    /// Changes the instance's spec.
    #[must_use]
    pub(crate) fn spec(mut self, with: &Value) -> Self {
        merge(&mut self.spec, with);
        self
    }

    /// Replaces the one environment.
    #[must_use]
    pub(crate) fn environment(mut self, name: &str, with: &Value) -> Self {
        self.template["environmentList"] = json!([environment(name, with)]);
        self
    }

    pub(crate) async fn apply(&self, objects: &Objects) {
        let Named { namespace, name } = &self.instance;
        let metadata = json!({"name": name, "namespace": namespace});
        objects.make_namespace(namespace).await;
        objects
            .apply(&json!({
                "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Tenant",
                "metadata": {"name": self.tenant},
                "spec": {"firstName": "Ann", "lastName": "Otherone", "email": self.email},
            }))
            .await;
        objects
            .apply(&json!({
                "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Template",
                "metadata": metadata, "spec": self.template,
            }))
            .await;
        let mut spec = self.spec.clone();
        spec["template"] = json!({"name": name});
        spec["tenant"] = json!({"name": self.tenant});
        objects
            .apply(&json!({
                "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Instance",
                "metadata": metadata, "spec": spec,
            }))
            .await;
    }

    /// What was made for the instance.
    pub(crate) async fn children(&self, objects: &Objects, kind: &str) -> Vec<Value> {
        let labels = format!("{INSTANCE_LABEL}={}", self.instance.name);
        objects.list(kind, &self.instance.namespace, &labels).await
    }

    /// As `KIND/NAME` of our commands.
    pub(crate) fn named(&self) -> String {
        format!("instance/{}", self.instance.name)
    }

    /// Where the gateway has it.
    pub(crate) fn access(&self, environment: &str) -> String {
        format!("/go/lab/{}/{}/{environment}/", self.instance.namespace, self.instance.name)
    }
}

/// An environment that runs our program.
fn environment(name: &str, with: &Value) -> Value {
    let mut environment = json!({
        "name": name,
        "command": ["/usr/bin/python3", "-u", "-c", PROGRAM],
        "ports": [{"name": "http", "containerPort": 80}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1},
    });
    merge(&mut environment, with);
    environment
}

/// As a merge patch does: `null` takes something away.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                if value.is_null() {
                    into.remove(key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (into, from) => *into = from.clone(),
    }
}

pub(crate) fn is_phase(phase: &'static str) -> impl Fn(&Value) -> bool {
    move |instance| instance["status"]["phase"] == phase
}

pub(crate) fn is_stage(stage: &'static str) -> impl Fn(&Value) -> bool {
    move |instance| instance["status"]["lifecycle"]["stage"] == stage
}

/// A condition of an Instance: its status and its words.
pub(crate) fn condition<'a>(instance: &'a Value, of: &str) -> Option<(&'a str, &'a str)> {
    let conditions = instance["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == of)?;
    Some((found["status"].as_str()?, found["message"].as_str().unwrap_or_default()))
}
