//! How a request is read: what it is about, who sent it, and what it changes.

use jiff::Timestamp;
use kube::core::DynamicObject;
use kube::core::admission::AdmissionRequest;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sojourn_api::problem::Problem;

/// The API group, the resource and the subresource of a request; the latter is empty if it is about the whole.
pub(super) fn about(request: &AdmissionRequest<DynamicObject>) -> (&str, &str, &str) {
    let subresource = request.sub_resource.as_deref().unwrap_or_default();
    (&request.resource.group, &request.resource.resource, subresource)
}

pub(super) fn sender(request: &AdmissionRequest<DynamicObject>) -> &str {
    request.user_info.username.as_deref().unwrap_or("whoever sent this")
}

/// The paths of those annotations that the request changes.
pub(super) fn changed_marks(
    request: &AdmissionRequest<DynamicObject>,
    names: &[&str],
) -> impl Iterator<Item = String> {
    names.iter().filter(|name| changed(request, name)).map(|name| path_of(name))
}

/// What is wrong with those annotations that the request changes and that must be times.
pub(super) fn bad_times(request: &AdmissionRequest<DynamicObject>, names: &[&str]) -> Vec<Problem> {
    let changed = names.iter().filter(|name| changed(request, name));
    changed.filter_map(|name| bad_time(name, value(request.object.as_ref(), name))).collect()
}

/// Whether the request takes a finalizer away that was there.
pub(super) fn removes_finalizer(
    request: &AdmissionRequest<DynamicObject>,
    finalizer: &str,
) -> bool {
    removes_finalizer_from(&request.old_object, &request.object, finalizer)
}

/// Whether the first has a finalizer that the second has not.
fn removes_finalizer_from(
    old: &Option<DynamicObject>,
    new: &Option<DynamicObject>,
    finalizer: &str,
) -> bool {
    let (Some(new), Some(old)) = (new, old) else { return false };
    let keeps = |object: &DynamicObject| {
        let finalizers = object.metadata.finalizers.as_deref().unwrap_or_default();
        finalizers.iter().any(|one| one == finalizer)
    };
    keeps(old) && !keeps(new)
}

/// Whether the request gives a finalizer that was not there.
pub(super) fn gains_finalizer(request: &AdmissionRequest<DynamicObject>, finalizer: &str) -> bool {
    removes_finalizer_from(&request.object, &request.old_object, finalizer)
}

/// What a deletion does with the object's dependents, if it says so.
pub(super) fn propagation_policy(request: &AdmissionRequest<DynamicObject>) -> Option<&str> {
    let options = &request.options.as_ref()?.0;
    if options.get("orphanDependents").and_then(Value::as_bool) == Some(true) {
        return Some("Orphan");
    }
    options.get("propagationPolicy").and_then(Value::as_str)
}

/// A part of the object, as it becomes and as it was.
pub(super) fn part(
    request: &AdmissionRequest<DynamicObject>,
    pointer: &str,
) -> (Option<Value>, Option<Value>) {
    let of = |object: &Option<DynamicObject>| {
        object.as_ref().and_then(|object| object.data.pointer(pointer)).cloned()
    };
    (of(&request.object), of(&request.old_object))
}

/// The object as what it is; one that cannot be read is told with the reason.
pub(super) fn typed<T: DeserializeOwned>(object: Option<&DynamicObject>) -> Result<T, Problem> {
    let value = serde_json::to_value(object).unwrap_or_default();
    serde_json::from_value(value)
        .map_err(|error| Problem::new("spec", format!("cannot be read: {error}")))
}

/// As much of a text as fits into a line.
fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 64;
    text.chars().take(MAX_CHARS).collect()
}

fn bad_time(annotation: &str, text: &str) -> Option<Problem> {
    if text.is_empty() || text.trim().parse::<Timestamp>().is_ok() {
        return None;
    }
    let shown = shortened(text);
    let message = format!("{shown:?} is not a time such as 2026-11-17T09:00:00Z");
    Some(Problem::new(path_of(annotation), message))
}

pub(super) fn path_of(annotation: &str) -> String {
    format!("metadata.annotations[{annotation}]")
}

/// The name that the object has or, if it is new and unnamed, none.
pub(super) fn name(request: &AdmissionRequest<DynamicObject>) -> &str {
    if !request.name.is_empty() {
        return &request.name;
    }
    let object = request.object.as_ref();
    object.and_then(|object| object.metadata.name.as_deref()).unwrap_or_default()
}

/// An annotation's value; empty and missing are the same.
pub(super) fn value<'a>(object: Option<&'a DynamicObject>, annotation: &str) -> &'a str {
    let annotations = object.and_then(|object| object.metadata.annotations.as_ref());
    annotations.and_then(|all| all.get(annotation)).map(String::as_str).unwrap_or_default()
}

pub(super) fn changed(request: &AdmissionRequest<DynamicObject>, annotation: &str) -> bool {
    let new = value(request.object.as_ref(), annotation);
    new != value(request.old_object.as_ref(), annotation)
}
