//! The ConfigMap of the installation: every problem at once, and the Secrets that it names.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, Operation};
use serde_json::Value;
use sojourn_api::config;
use sojourn_api::name::shared::{CONFIG_MAP, NAMESPACE};
use sojourn_api::problem::Problem;

use super::hook::Hook;
use super::lookup::{Lookup, Permissions};
use super::reference::{Reference, review_references, to_get};
use super::rule::{Rules, about, invalid, name};

const CONFIG_MAPS: &str = "configmaps";

#[derive(Debug)]
pub(super) struct ConfigurationRules;

impl Rules for ConfigurationRules {
    fn hooks(&self) -> Vec<Hook> {
        vec![Hook {
            name: "configuration",
            namespace: Some(NAMESPACE),
            // What the configuration is may be said by nobody without being judged.
            judges_controllers: true,
            ..Hook::writes(("", "v1", CONFIG_MAPS), format!("request.name == '{CONFIG_MAP}'"))
        }]
    }

    fn judge<'a>(
        &'a self,
        request: &'a AdmissionRequest<DynamicObject>,
        lookup: Lookup<'a>,
    ) -> Option<BoxFuture<'a, AdmissionResponse>> {
        let written = matches!(request.operation, Operation::Create | Operation::Update);
        let ours = request.namespace.as_deref() == Some(NAMESPACE) && name(request) == CONFIG_MAP;
        if about(request) != Some(("", CONFIG_MAPS)) || !written || !ours {
            return None;
        }
        Some(Box::pin(async move {
            let named = named_secrets(request).into_iter().map(|reference| reference.permission);
            judge(request, &lookup.all_permitted(named).await)
        }))
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

pub(super) fn judge(
    request: &AdmissionRequest<DynamicObject>,
    permitted: &Permissions,
) -> AdmissionResponse {
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
