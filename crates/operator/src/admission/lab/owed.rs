//! Data that is not handed in yet: what takes it away needs `hold`.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sojourn_api::lab::Instance;
use sojourn_api::lab::convert::needs_submission;

use super::super::lookup::LookupResult;
use super::super::refusal::review_held_because;
use super::super::request::typed;
use super::INSTANCES;

/// Whether the data of an Instance still has to be handed in. One that cannot be read may owe.
pub(super) fn is_owing(instance: Option<&DynamicObject>) -> bool {
    typed::<Instance>(instance).map_or(true, |instance| needs_submission(&instance))
}

/// What takes owed data away needs `hold`.
pub(super) fn review_owed(
    request: &AdmissionRequest<DynamicObject>,
    paths: &[String],
    hold: Option<&LookupResult<bool>>,
    why: impl FnOnce() -> String,
) -> AdmissionResponse {
    let (_, resource) = INSTANCES;
    review_held_because(request, paths, resource, hold, why)
}
