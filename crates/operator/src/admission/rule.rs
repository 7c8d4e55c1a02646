//! What the rules of all families share: how a request is read, and how it is refused.

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use kube::core::response::{Status, StatusCause, StatusDetails, StatusSummary};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sojourn_api::name::shared::HOLD;
use sojourn_api::problem::Problem;

use super::hook::Hook;
use super::lookup::{Lookup, LookupResult, Permission};

/// What a family refuses.
pub(crate) trait Rules: Send + Sync {
    /// Which requests it must be asked about.
    fn hooks(&self) -> Vec<Hook>;

    /// Judges a request; nothing if it is about none of the family's business.
    fn judge<'a>(
        &'a self,
        request: &'a AdmissionRequest<DynamicObject>,
        lookup: Lookup<'a>,
    ) -> Option<BoxFuture<'a, AdmissionResponse>>;
}

/// The API group and the resource of a request; nothing if it is about a subresource.
pub(super) fn about(request: &AdmissionRequest<DynamicObject>) -> Option<(&str, &str)> {
    let whole = request.sub_resource.as_ref().is_none_or(String::is_empty);
    whole.then_some((request.resource.group.as_str(), request.resource.resource.as_str()))
}

/// The permission to change what only those who may `hold` can change.
pub(super) fn hold_permission(
    request: &AdmissionRequest<DynamicObject>,
    (group, resource): (&'static str, &'static str),
) -> Permission {
    let name = Some(name(request)).filter(|name| !name.is_empty()).map(str::to_owned);
    let namespace = request.namespace.clone().unwrap_or_default();
    Permission { verb: HOLD, group, resource, subresource: None, namespace, name }
}

/// Judges the paths that only those who may `hold` can change, if the request changes any.
pub(super) fn review_held(
    request: &AdmissionRequest<DynamicObject>,
    held: &[String],
    answer: Option<&LookupResult<bool>>,
) -> AdmissionResponse {
    if held.is_empty() {
        return AdmissionResponse::from(request);
    }
    let resource = &request.resource.resource;
    match answer {
        Some(Ok(true)) => AdmissionResponse::from(request),
        Some(Ok(false)) => {
            let user = sender(request);
            let message = format!("{user} needs the verb `{HOLD}` on {resource} to change this");
            refuse(request, 403, "Forbidden", &causes(held, &message))
        }
        Some(Err(why)) => {
            let what = format!("whether `{HOLD}` on {resource} is granted");
            unknown(request, held, &what, why)
        }
        None => unasked(request, held),
    }
}

/// Refuses what could not be found out.
pub(super) fn unknown(
    request: &AdmissionRequest<DynamicObject>,
    paths: &[String],
    what: &str,
    why: &str,
) -> AdmissionResponse {
    let message = format!("cannot find out {what}: {why}");
    refuse(request, 503, "ServiceUnavailable", &causes(paths, &message))
}

/// Refuses what nobody tried to find out.
pub(super) fn unasked(
    request: &AdmissionRequest<DynamicObject>,
    paths: &[String],
) -> AdmissionResponse {
    let message = "nobody asked what must be known to judge this";
    refuse(request, 500, "InternalError", &causes(paths, message))
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
pub(super) fn removes_finalizer_from(
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

pub(super) fn causes(paths: &[String], message: &str) -> Vec<Problem> {
    paths.iter().map(|path| Problem::new(path, message)).collect()
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

pub(super) fn invalid(
    request: &AdmissionRequest<DynamicObject>,
    problems: &[Problem],
) -> AdmissionResponse {
    refuse(request, 422, "Invalid", problems)
}

pub(super) fn refuse(
    request: &AdmissionRequest<DynamicObject>,
    code: u16,
    reason: &str,
    problems: &[Problem],
) -> AdmissionResponse {
    let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let cause = |problem: &Problem| StatusCause {
        reason: "FieldValueInvalid".to_owned(),
        message: problem.message.clone(),
        field: problem.path.clone(),
    };
    let mut response = AdmissionResponse::from(request);
    response.allowed = false;
    response.result = Status {
        status: Some(StatusSummary::Failure),
        code,
        reason: reason.to_owned(),
        message,
        metadata: None,
        details: Some(StatusDetails {
            name: name(request).to_owned(),
            group: request.kind.group.clone(),
            kind: request.kind.kind.clone(),
            uid: String::new(),
            causes: problems.iter().map(cause).collect(),
            retry_after_seconds: 0,
        }),
    };
    response
}
