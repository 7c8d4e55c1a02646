//! The ConfigMap of the installation: every problem at once, and the Secrets that it names.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use serde_json::Value;
use sojourn_api::config;
use sojourn_api::name::shared::{CONFIG_MAP, NAMESPACE};
use sojourn_api::problem::Problem;

use super::hook::Hook;
use super::lookup::{Lookup, Permissions};
use super::reference::{Reference, review_references, to_get};
use super::refusal::invalid;
use super::request::name;
use super::rule::Rule;

const CONFIG_MAPS: &str = "configmaps";

#[derive(Debug)]
pub(super) struct ConfigurationRule;

impl Rule for ConfigurationRule {
    type Needs = Vec<Reference>;
    type Answers = Permissions;

    fn hook(&self) -> Hook {
        Hook {
            name: "configuration",
            namespace: Some(NAMESPACE),
            // What the configuration is may be said by nobody without being reviewed.
            reviews_controllers: true,
            ..Hook::writes(("", "v1", CONFIG_MAPS), format!("request.name == '{CONFIG_MAP}'"))
        }
    }

    fn concerns(&self, request: &AdmissionRequest<DynamicObject>) -> bool {
        name(request) == CONFIG_MAP
    }

    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> Vec<Reference> {
        named_secrets(request)
    }

    async fn look_up(&self, named: Vec<Reference>, lookup: Lookup<'_>) -> Permissions {
        lookup.references_permitted(named).await
    }

    fn review(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        permitted: &Permissions,
    ) -> AdmissionResponse {
        review(request, permitted)
    }
}

/// The Secrets of our namespace that the configuration names and did not name before.
fn named_secrets(request: &AdmissionRequest<DynamicObject>) -> Vec<Reference> {
    let secrets = |object: Option<&DynamicObject>| {
        let data = object.and_then(|object| object.data.get("data")).cloned().unwrap_or_default();
        let data: BTreeMap<String, String> = serde_json::from_value(data).unwrap_or_default();
        config::secrets(&data)
    };
    let before = secrets(request.old_object.as_ref());
    let mut named = secrets(request.object.as_ref());
    named.retain(|secret| !before.contains(secret));
    let reference = |named: config::NamedSecret| {
        to_get(named.path(), ("", "secrets"), NAMESPACE, &named.secret.name)
    };
    named.into_iter().map(reference).collect()
}

fn review(request: &AdmissionRequest<DynamicObject>, permitted: &Permissions) -> AdmissionResponse {
    let part = |object: Option<&DynamicObject>, part: &str| {
        object.and_then(|object| object.data.get(part)).cloned().unwrap_or(Value::Null)
    };
    let (new, old) = (request.object.as_ref(), request.old_object.as_ref());
    let same = |name: &str| part(new, name) == part(old, name);
    // One that is bad already can still get a label.
    if old.is_some() && same("data") && same("binaryData") {
        return AdmissionResponse::from(request);
    }
    let data: BTreeMap<String, String> =
        serde_json::from_value(part(new, "data")).unwrap_or_default();
    let mut problems = config::check(&data);
    if let Value::Object(binary) = part(new, "binaryData") {
        problems.extend(binary.keys().map(|key| {
            Problem::new(format!("binaryData[{key}]"), "is no text; configuration goes into data")
        }));
    }
    if problems.is_empty() {
        return review_references(request, &named_secrets(request), permitted)
            .unwrap_or_else(|| AdmissionResponse::from(request));
    }
    invalid(request, &problems)
}
