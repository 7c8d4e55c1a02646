//! What may change in a Pod that exists.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::super::grammar::{Errors, push_texts};
use super::scheduling::{self, REQUIRED};
use super::{annotation, container, internal};
use crate::field::{FieldError, Path, go_value};
use crate::json::{Access, Object};
use crate::name;

const ONLY: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
                    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` \
                    (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` \
                    (allow it to be set to 1 if it was previously negative)";

/// The rules of an update, beside those that every Pod must satisfy.
pub(super) fn validate(errors: &mut Errors, new: &Object, old: &Object) {
    let metadata = Path::new("metadata");
    annotation::validate_update(errors, &metadata.field("annotations"), new, old);
    let path = Path::new("spec");
    let (new, old) = (new.at("spec"), old.at("spec"));
    for list in ["containers", "initContainers"] {
        let at = path.field(list);
        if new.list(list).len() != old.list(list).len() {
            let detail = "pod updates may not add or remove containers";
            return errors.push(FieldError::forbidden(&at, detail));
        }
        for (i, changed) in new.list(list).iter().enumerate() {
            let at = at.index(i);
            if changed.text("image").is_empty() {
                errors.push(FieldError::required(&at.field("image"), ""));
            }
            container::image_spaces(errors, &at, changed);
        }
    }
    if !deadline(errors, &path.field("activeDeadlineSeconds"), new, old) {
        return;
    }
    tolerations(errors, &path.field("tolerations"), new, old);
    gates(errors, &path.field("schedulingGates"), new, old);
    if new == old {
        return;
    }
    let munged = with_changes_allowed(errors, &path, new, old);
    if munged.as_ref() != old {
        let diff = internal::diff(internal::POD_SPEC, old, &munged);
        errors.push(FieldError::forbidden(&path, format!("{ONLY}\n{diff}")));
    }
}

/// A deadline can be set or brought forward. `false`: nothing more needs to be said.
fn deadline(errors: &mut Errors, path: &Path<'_>, new: &Value, old: &Value) -> bool {
    let of = |spec: &Value| spec.int("activeDeadlineSeconds");
    match (of(new), of(old)) {
        (Some(deadline), _) if !(0..=i64::from(i32::MAX)).contains(&deadline) => {
            let detail = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(path, &deadline.into(), detail));
            false
        }
        (Some(deadline), Some(before)) if before < deadline => {
            let detail = "must be less than or equal to previous value";
            errors.push(FieldError::invalid(path, &deadline.into(), detail));
            false
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(path, &Value::Null, detail));
            true
        }
        _ => true,
    }
}

fn tolerations(errors: &mut Errors, path: &Path<'_>, new: &Value, old: &Value) {
    fn identity(toleration: &Value) -> [&str; 4] {
        ["key", "operator", "value", "effect"].map(|member| toleration.text(member))
    }
    let kept: HashSet<[&str; 4]> = new.list("tolerations").iter().map(identity).collect();
    if !old.list("tolerations").iter().all(|old| kept.contains(&identity(old))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        return errors.push(FieldError::forbidden(path, detail));
    }
    scheduling::tolerations(errors, path, new.list("tolerations"));
}

fn gates(errors: &mut Errors, path: &Path<'_>, new: &Value, old: &Value) {
    let known: HashSet<&str> =
        old.list("schedulingGates").iter().map(|gate| gate.text("name")).collect();
    for (i, gate) in new.list("schedulingGates").iter().enumerate() {
        let name = gate.text("name");
        if !known.contains(name) {
            let at = path.index(i);
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(FieldError::forbidden(&at.field("name"), detail));
        }
    }
}

/// The new spec with everything set back that may change, so that what is left must be equal.
fn with_changes_allowed<'a>(
    errors: &mut Errors,
    path: &Path<'_>,
    new: &'a Value,
    old: &Value,
) -> Cow<'a, Value> {
    let mut munged = new.clone();
    let Some(spec) = munged.as_object_mut() else {
        return Cow::Borrowed(new);
    };
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for (new, old) in containers.into_iter().flatten().zip(old.list(list)) {
            if let (Some(new), Some(image)) = (new.as_object_mut(), old.get("image")) {
                new.insert("image".to_owned(), image.clone());
            }
        }
    }
    let mut restore = |member: &str| {
        super::super::set_or_remove(spec, member, old.get(member).cloned());
    };
    for member in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore(member);
    }
    let grace = |spec: &Value| spec.int("terminationGracePeriodSeconds");
    if grace(old).is_some_and(|grace| grace < 0) && grace(new) == Some(1) {
        restore("terminationGracePeriodSeconds");
    }
    // A Pod that the scheduler has not looked at yet may still be narrowed down.
    if !old.list("schedulingGates").is_empty() {
        if new.at("nodeSelector") != old.at("nodeSelector") {
            node_selector(errors, &path.field("nodeSelector"), new, old);
            restore("nodeSelector");
        }
        gated_affinity(errors, path, spec, old);
    }
    Cow::Owned(munged)
}

fn node_selector(errors: &mut Errors, path: &Path<'_>, new: &Value, old: &Value) {
    let selector = new.at("nodeSelector");
    let kept = old.entries("nodeSelector").all(|(key, value)| selector.get(key) == Some(value));
    if !kept {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.push(FieldError::invalid_raw(path, go_value(selector), detail));
    }
}

fn gated_affinity(errors: &mut Errors, path: &Path<'_>, spec: &mut Object, old: &Value) {
    let new_affinity = spec.at("affinity").at("nodeAffinity");
    let old_affinity = old.at("affinity").at("nodeAffinity");
    if new_affinity == old_affinity {
        return;
    }
    let at = path.field("affinity");
    let at = at.field("nodeAffinity");
    node_affinity(errors, &at, new_affinity, old_affinity);
    let restored = old.at("affinity").get("nodeAffinity").cloned();
    match spec.get_mut("affinity").and_then(Value::as_object_mut) {
        None => {
            if let Some(restored) = restored {
                spec.insert("affinity".to_owned(), serde_json::json!({ "nodeAffinity": restored }));
            }
        }
        Some(affinity) => {
            super::super::set_or_remove(affinity, "nodeAffinity", restored);
            if affinity.is_empty() && old.at("affinity").is_null() {
                spec.remove("affinity");
            }
        }
    }
}

fn node_affinity(errors: &mut Errors, path: &Path<'_>, new: &Value, old: &Value) {
    let at = path.field(REQUIRED);
    let at = at.field("nodeSelectorTerms");
    let before = old.at(REQUIRED).list("nodeSelectorTerms");
    let after = new.at(REQUIRED).list("nodeSelectorTerms");
    if before.is_empty() {
        return;
    }
    if before.len() != after.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        let shown = if new.at(REQUIRED).is_null() {
            "null".to_owned()
        } else {
            internal::compact_list(internal::NODE_SELECTOR_TERM, after)
        };
        return errors.push(FieldError::invalid_raw(&at, shown, detail));
    }
    for (i, (new, old)) in after.iter().zip(before).enumerate() {
        let empty = old.list("matchExpressions").is_empty() && old.list("matchFields").is_empty();
        let grown = ["matchExpressions", "matchFields"].iter().all(|member| {
            new.list(member).starts_with(old.list(member))
                && (!empty || new.list(member).is_empty())
        });
        if !grown {
            let shown = internal::compact(internal::NODE_SELECTOR_TERM, new);
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid_raw(&at.index(i), shown, detail));
        }
    }
}

/// A node's name, where one is given in passing.
pub(super) fn node_name(errors: &mut Errors, path: &Path<'_>, node: &str) {
    push_texts(errors, path, node, name::dns1123_subdomain(node));
}
