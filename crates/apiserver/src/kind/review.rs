//! What the bodies of reviews and token requests must satisfy before they are answered.
//!
//! Refusals are worded as upstream words them. It reports reviews as invalid without their kind:
//! `.authorization.k8s.io "" is invalid`.

use serde_json::Value;

use super::Kind;
use crate::field::{FieldError, FieldErrors, Path};
use crate::json::{Access, Object, object_mut};
use crate::selector::label::{self, Leniency};

const MIN_TOKEN_SECONDS: i64 = 10 * 60;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct SubjectAccessReview;

#[derive(Debug)]
pub(crate) struct SelfSubjectAccessReview;

#[derive(Debug)]
pub(crate) struct LocalSubjectAccessReview;

/// The body of the `token` subresource of a ServiceAccount.
#[derive(Debug)]
pub(crate) struct TokenRequest;

impl Kind for SubjectAccessReview {
    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        validate_attributes(obj.at("spec"), errors);
        validate_user(obj.at("spec"), errors);
        validate_selectors(obj.at("spec"), errors);
        validate_metadata(obj, &["managedFields"], "must be empty", errors);
    }
}

impl Kind for SelfSubjectAccessReview {
    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        validate_attributes(obj.at("spec"), errors);
        validate_selectors(obj.at("spec"), errors);
        validate_metadata(obj, &["managedFields"], "must be empty", errors);
    }
}

impl Kind for LocalSubjectAccessReview {
    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        let spec = obj.at("spec");
        validate_attributes(spec, errors);
        validate_user(spec, errors);
        validate_selectors(spec, errors);
        let allowed = ["managedFields", "namespace"];
        validate_metadata(obj, &allowed, "must be empty except for namespace", errors);
        let resource = spec.at("resourceAttributes");
        let namespace = resource.text("namespace");
        if resource.is_object() && namespace != obj.at("metadata").text("namespace") {
            let path = Path::new("spec.resourceAttributes.namespace");
            let detail = "must match metadata.namespace";
            errors.push(FieldError::invalid_text(&path, namespace, detail));
        }
        let other = spec.at("nonResourceAttributes");
        if other.is_object() {
            let path = Path::new("spec.nonResourceAttributes");
            let detail = "disallowed on this kind of request";
            errors.push(FieldError::invalid_raw(&path, non_resource(other), detail));
        }
    }
}

impl Kind for TokenRequest {
    fn default(&self, obj: &mut Object) {
        if obj.at("spec").at("expirationSeconds").is_null() {
            object_mut(obj, "spec").insert("expirationSeconds".to_owned(), 3600.into());
        }
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        let value = obj.at("spec").at("expirationSeconds");
        let seconds = value.as_i64().unwrap_or(0);
        let detail = if seconds < MIN_TOKEN_SECONDS {
            "may not specify a duration less than 10 minutes"
        } else if seconds > MAX_TOKEN_SECONDS {
            "may not specify a duration larger than 2^32 seconds"
        } else {
            return;
        };
        let spec = Path::new("spec");
        errors.push(FieldError::invalid(&spec.field("expirationSeconds"), value, detail));
    }
}

/// Why a review that lacks what it asks about is a bad request (400), if it does.
pub(crate) fn missing_subject(kind: &str, obj: &Object) -> Option<&'static str> {
    let spec = obj.at("spec");
    match kind {
        "TokenReview" if spec.text("token").is_empty() => {
            Some("token is required for TokenReview in authentication")
        }
        "SelfSubjectRulesReview" if spec.text("namespace").is_empty() => {
            Some("no namespace on request")
        }
        _ => None,
    }
}

/// A review asks about a resource or about a path, not both.
fn validate_attributes(spec: &Value, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let other = spec.at("nonResourceAttributes");
    match (spec.at("resourceAttributes").is_object(), other.is_object()) {
        (true, true) => errors.push(FieldError::invalid_raw(
            &path.field("nonResourceAttributes"),
            non_resource(other),
            "cannot be specified in combination with resourceAttributes",
        )),
        (false, false) => errors.push(FieldError::invalid(
            &path.field("resourceAttributes"),
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
}

fn validate_user(spec: &Value, errors: &mut FieldErrors) {
    if spec.text("user").is_empty() && spec.list("groups").is_empty() {
        let path = Path::new("spec");
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid_text(&path.field("user"), "", detail));
    }
}

fn validate_selectors(spec: &Value, errors: &mut FieldErrors) {
    let resource = spec.at("resourceAttributes");
    let path = Path::new("spec.resourceAttributes");
    // An operator of a newer release is understood by newer authorizers.
    let leniency = Leniency { any_operator: true, any_value: false };
    for (member, is_label) in [("fieldSelector", false), ("labelSelector", true)] {
        let selector = resource.at(member);
        if !selector.is_object() {
            continue;
        }
        let path = path.field(member);
        let requirements_path = path.field("requirements");
        let raw = selector.text("rawSelector");
        let requirements = selector.list("requirements");
        match (raw.is_empty(), requirements.is_empty()) {
            (false, false) => errors.push(FieldError::invalid_text(
                &path.field("rawSelector"),
                raw,
                "may not specified at the same time as requirements",
            )),
            (true, true) => errors.push(FieldError::required(
                &requirements_path,
                format!("when {path} is specified, requirements or rawSelector is required"),
            )),
            _ => {}
        }
        for (i, requirement) in requirements.iter().enumerate() {
            let path = requirements_path.index(i);
            if is_label {
                label::validate_requirement(requirement, leniency, &path, errors);
                continue;
            }
            if requirement.text("key").is_empty() {
                errors.push(FieldError::required(&path.field("key"), "must be specified"));
            }
            label::validate_operator(requirement, leniency, &path, errors);
        }
    }
}

fn validate_metadata(obj: &Object, allowed: &[&str], detail: &str, errors: &mut FieldErrors) {
    let metadata = obj.at("metadata");
    let is_extra =
        |(key, value): (&String, &Value)| !allowed.contains(&key.as_str()) && !is_empty(value);
    if obj.entries("metadata").any(is_extra) {
        let path = Path::new("metadata");
        errors.push(FieldError::invalid_raw(&path, shown_metadata(metadata), detail));
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Metadata as Go encodes it: its members have an order.
fn shown_metadata(metadata: &Value) -> String {
    const ORDER: [&str; 13] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ];
    let members: Vec<String> = ORDER
        .iter()
        .map(|member| (member, metadata.at(member)))
        .filter(|(_, value)| !is_empty(value))
        .map(|(member, value)| format!("\"{member}\":{value}"))
        .collect();
    format!("{{{}}}", members.join(","))
}

/// `nonResourceAttributes` as upstream's internal type is encoded.
fn non_resource(attributes: &Value) -> String {
    let text = |member: &str| Value::from(attributes.text(member));
    format!(r#"{{"Path":{},"Verb":{}}}"#, text("path"), text("verb"))
}

#[cfg(test)]
mod tests;
