//! How a request is refused.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use kube::core::response::{Status, StatusCause, StatusDetails, StatusSummary};
use sojourn_api::name::shared::HOLD;
use sojourn_api::problem::Problem;

use super::lookup::{LookupResult, Permission};
use super::request::{name, sender};

/// The permission to change what only those who may `hold` can change.
pub(super) fn hold_permission(
    request: &AdmissionRequest<DynamicObject>,
    (group, resource): (&'static str, &'static str),
) -> Permission {
    let name = Some(name(request)).filter(|name| !name.is_empty()).map(str::to_owned);
    let namespace = request.namespace.clone().unwrap_or_default();
    Permission { verb: HOLD, group, resource, subresource: None, namespace, name }
}

/// Reviews the paths that only those who may `hold` can change, if the request changes any.
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

/// The same, with the reason for which only those may do it; the verb is of `resource`.
pub(super) fn review_held_because(
    request: &AdmissionRequest<DynamicObject>,
    held: &[String],
    resource: &str,
    answer: Option<&LookupResult<bool>>,
    why: impl FnOnce() -> String,
) -> AdmissionResponse {
    match answer {
        Some(Ok(false)) if !held.is_empty() => {
            let user = sender(request);
            let message =
                format!("{user} needs the verb `{HOLD}` on {resource} to do this: {}", why());
            refuse(request, 403, "Forbidden", &causes(held, &message))
        }
        _ => review_held(request, held, answer),
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

pub(super) fn causes(paths: &[String], message: &str) -> Vec<Problem> {
    paths.iter().map(|path| Problem::new(path, message)).collect()
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
