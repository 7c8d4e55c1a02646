//! Marks that take a group or a machine out of its owner's hands.

use kube::core::DynamicObject;
use kube::core::admission::AdmissionRequest;
use sojourn_api::name::shared::{OBSERVE, PAUSED};

use super::super::lookup::Permission;
use super::super::refusal::hold_permission;
use super::super::request::{changed_marks, removes_finalizer};

/// Annotations of both kinds that take them out of their owner's hands.
pub(super) const HOLD_ANNOTATIONS: [&str; 2] = [PAUSED, OBSERVE];

pub(super) fn hold(
    request: &AdmissionRequest<DynamicObject>,
    held_paths: &[String],
    resource: (&'static str, &'static str),
) -> Option<Permission> {
    (!held_paths.is_empty()).then(|| hold_permission(request, resource))
}

/// The paths that a request changes and that only those who may `hold` can change. A finalizer
/// stands for a drain and for what is left at a provider.
pub(super) fn held_paths(
    request: &AdmissionRequest<DynamicObject>,
    finalizer: &str,
) -> Vec<String> {
    let released = removes_finalizer(request, finalizer).then(|| "metadata.finalizers".to_owned());
    changed_marks(request, &HOLD_ANNOTATIONS).chain(released).collect()
}
