//! Templates of Pods, as several kinds have one. Each is read when it is needed: one that cannot be read must not keep
//! the object from being seen.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::problem::Problem;

/// The Pod that a template describes; paths of problems begin at it. `reserved` says why it must not name its Pods.
pub(crate) fn read(template: &Value, reserved: &str) -> Result<PodTemplateSpec, Problem> {
    let pod: PodTemplateSpec = serde_json::from_value(template.clone())
        .map_err(|error| Problem::new("", format!("is no Pod template: {error}")))?;
    if pod.spec.as_ref().is_none_or(|spec| spec.containers.is_empty()) {
        return Err(Problem::new("spec.containers", "must have an item"));
    }
    match pod.metadata.as_ref().and_then(|metadata| reserved_metadata(metadata).next()) {
        Some(field) => Err(Problem::new(format!("metadata.{field}"), reserved)),
        None => Ok(pod),
    }
}

/// The fields that a template must not have, and has.
pub fn reserved_metadata(metadata: &ObjectMeta) -> impl Iterator<Item = &'static str> {
    let fields = [
        ("name", metadata.name.is_some() || metadata.generate_name.is_some()),
        ("namespace", metadata.namespace.is_some()),
        ("ownerReferences", metadata.owner_references.is_some()),
        ("finalizers", metadata.finalizers.is_some()),
    ];
    fields.into_iter().filter(|(_, given)| *given).map(|(field, _)| field)
}
