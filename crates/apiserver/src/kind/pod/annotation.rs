//! Annotations of Pods that the API server understands. Most are ancestors of today's fields.

use serde_json::Value;

use super::super::grammar::{Errors, descending_path};
use super::{each_container, scheduling};
use crate::field::{FieldError, Path};
use crate::json::{Access, Object};

pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
pub(super) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(super) const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(super) fn validate(errors: &mut Errors, path: &Path<'_>, annotations: &Value, spec: &Value) {
    let Some(annotations) = annotations.as_object() else {
        return;
    };
    if let Some(mirror) = annotations.get(MIRROR)
        && spec.text("nodeName").is_empty()
    {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(FieldError::invalid(&path.key(MIRROR), mirror, detail));
    }
    tolerations(errors, path, annotations.text(TOLERATIONS));
    let cost = annotations.text(DELETION_COST);
    if annotations.contains_key(DELETION_COST) && !is_deletion_cost(cost) {
        let at = path.key(DELETION_COST);
        errors.push(FieldError::invalid_text(&at, cost, "must be a 32bit integer"));
    }
    for (key, value) in annotations {
        let value = value.as_str().unwrap_or_default();
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            seccomp_profile(errors, &path.field(key), value);
        }
        if let Some(container) = key.strip_prefix(APP_ARMOR) {
            let at = path.key(key);
            let mut found = false;
            each_container(spec, &Path::root(), |c, _| {
                found |= c.text("name") == container;
            });
            if !found {
                errors.push(FieldError::invalid_text(&at, container, "container not found"));
            }
            let known = matches!(value, "" | "runtime/default" | "unconfined")
                || value.starts_with("localhost/");
            if !known {
                let shown = crate::go::quote(value);
                let detail = format!("invalid AppArmor profile name: {shown}");
                errors.push(FieldError::invalid_text(&at, value, detail));
            }
        }
    }
}

/// The rules of an update: some annotations can only be set when the Pod is created.
pub(super) fn validate_update(errors: &mut Errors, path: &Path<'_>, new: &Object, old: &Object) {
    let of = |pod: &Object| {
        pod.at("metadata").at("annotations").as_object().cloned().unwrap_or_default()
    };
    let (new_ones, old_ones) = (of(new), of(old));
    for (key, value) in &old_ones {
        if new_ones.get(key) != Some(value) {
            fixed(errors, path, key, "remove or update");
        }
    }
    for key in new_ones.keys().filter(|key| !old_ones.contains_key(*key)) {
        fixed(errors, path, key, "add");
    }
    validate(errors, path, new.at("metadata").at("annotations"), new.at("spec"));
}

fn fixed(errors: &mut Errors, path: &Path<'_>, key: &str, verb: &str) {
    let what = if key.starts_with(APP_ARMOR) {
        "AppArmor annotations"
    } else if key == MIRROR {
        "mirror pod annotation"
    } else {
        return;
    };
    errors.push(FieldError::forbidden(&path.key(key), format!("may not {verb} {what}")));
}

fn tolerations(errors: &mut Errors, path: &Path<'_>, text: &str) {
    if text.is_empty() {
        return;
    }
    match serde_json::from_str::<Vec<Value>>(text) {
        Ok(list) => scheduling::tolerations(errors, &path.field(TOLERATIONS), &list),
        Err(error) => {
            errors.push(FieldError::invalid_text(path, TOLERATIONS, error.to_string()));
        }
    }
}

/// A number without a plus sign or leading zeros.
fn is_deletion_cost(cost: &str) -> bool {
    let canonical = !cost.starts_with('+') && (cost == "0" || !cost.starts_with('0'));
    canonical && cost.parse::<i32>().is_ok()
}

fn seccomp_profile(errors: &mut Errors, path: &Path<'_>, profile: &str) {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => {}
        _ => match profile.strip_prefix("localhost/") {
            Some(file) => descending_path(errors, path, file),
            None => {
                let detail = "must be a valid seccomp profile";
                errors.push(FieldError::invalid_text(path, profile, detail));
            }
        },
    }
}

/// Where a profile is given both ways, both must say the same. Checked on creation.
pub(super) fn validate_profiles(errors: &mut Errors, path: &Path<'_>, pod: &impl Access) {
    let annotations = pod.at("metadata").at("annotations");
    if annotations.is_null() {
        return;
    }
    let spec = pod.at("spec");
    let context = path.field("securityContext");
    if let Some(annotation) = annotations.get(SECCOMP_POD).and_then(Value::as_str) {
        let profile = spec.at("securityContext").at("seccompProfile");
        let at = context.field("seccompProfile");
        profiles_match(errors, &at, "seccomp", annotation, profile);
    }
    each_container(spec, path, |container, path| {
        let key = format!("{SECCOMP_CONTAINER}{}", container.text("name"));
        if let Some(annotation) = annotations.get(&key).and_then(Value::as_str) {
            let at = path.field("securityContext");
            let profile = container.at("securityContext").at("seccompProfile");
            profiles_match(errors, &at.field("seccompProfile"), "seccomp", annotation, profile);
        }
    });
    if spec.at("os").text("name") == "windows" {
        return;
    }
    each_container(spec, path, |container, path| {
        let key = format!("{APP_ARMOR}{}", container.text("name"));
        if let Some(annotation) = annotations.get(&key).and_then(Value::as_str) {
            let own = container.at("securityContext").at("appArmorProfile");
            let of_pod = spec.at("securityContext").at("appArmorProfile");
            let profile = if own.is_null() { of_pod } else { own };
            let at = path.field("securityContext");
            profiles_match(errors, &at.field("appArmorProfile"), "apparmor", annotation, profile);
        }
    });
}

fn profiles_match(
    errors: &mut Errors,
    path: &Path<'_>,
    what: &str,
    annotation: &str,
    profile: &Value,
) {
    let same = match profile.text("type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => {
            annotation == "runtime/default" || (what == "seccomp" && annotation == "docker/default")
        }
        "Localhost" => match annotation.strip_prefix("localhost/") {
            None => false,
            Some(file) => {
                if profile.at("localhostProfile").as_str() != Some(file) {
                    let detail = format!("{what} profile in annotation and field must match");
                    errors.push(FieldError::forbidden(&path.field("localhostProfile"), detail));
                }
                true
            }
        },
        _ => true,
    };
    if !same {
        let detail = format!("{what} type in annotation and field must match");
        errors.push(FieldError::forbidden(&path.field("type"), detail));
    }
}

/// The profile that an AppArmor annotation stands for.
pub(super) fn app_armor_field(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(serde_json::json!({"type": "Unconfined"})),
        "runtime/default" => Some(serde_json::json!({"type": "RuntimeDefault"})),
        _ => {
            let file = annotation.strip_prefix("localhost/").filter(|file| !file.is_empty())?;
            Some(serde_json::json!({"type": "Localhost", "localhostProfile": file}))
        }
    }
}
