//! Data that is not handed in yet: what takes it away needs `hold`.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sojourn_api::lab::Instance;
use sojourn_api::lab::convert::needs_submission;
use sojourn_api::name::shared::HOLD;

use super::super::lookup::LookupResult;
use super::super::refusal::{causes, refuse, review_held};
use super::super::request::{sender, typed};
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
    match hold {
        Some(Ok(false)) if !paths.is_empty() => {
            let user = sender(request);
            let (_, resource) = INSTANCES;
            let message =
                format!("{user} needs the verb `{HOLD}` on {resource} to do this: {}", why());
            refuse(request, 403, "Forbidden", &causes(paths, &message))
        }
        _ => review_held(request, paths, hold),
    }
}
