//! The template that a controller makes Pods from.

use serde_json::Value;

use super::super::grammar::{Errors, labels, push_texts};
use super::{annotation, spec};
use crate::field::{FieldError, Path};
use crate::json::{Access, Object};
use crate::name;

/// All annotations of an object together.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

pub(crate) fn validate(errors: &mut Errors, path: &Path<'_>, template: &Value) {
    // Upstream leaves `metadata` out of these paths.
    labels(errors, &path.field("labels"), template.at("metadata").at("labels"));
    let at = path.field("annotations");
    let annotations = template.at("metadata").at("annotations");
    validate_annotations(errors, &at, annotations);
    annotation::validate(errors, &at, annotations, template.at("spec"));
    let spec_path = path.field("spec");
    spec::validate(errors, &spec_path, template.at("spec"), spec::Owner::Template);
    annotation::validate_profiles(errors, &spec_path, template);
    if !template.at("spec").list("ephemeralContainers").is_empty() {
        let at = spec_path.field("ephemeralContainers");
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(&at, detail));
    }
}

pub(crate) fn validate_annotations(errors: &mut Errors, path: &Path<'_>, annotations: &Value) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        // Unlike in labels, case does not matter.
        push_texts(errors, path, key, name::qualified_name(&key.to_lowercase()));
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    if size > MAX_ANNOTATIONS_BYTES {
        errors.push(FieldError::too_long(path, MAX_ANNOTATIONS_BYTES));
    }
}

/// Drops what belongs to features that are off in this version.
pub(crate) fn drop_disabled(spec: &mut Object) {
    spec.remove("schedulingGroup");
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in super::items_mut(spec, list) {
            let lifecycle = container.get_mut("lifecycle").and_then(Value::as_object_mut);
            let emptied = lifecycle.is_some_and(|lifecycle| {
                lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty()
            });
            if emptied {
                container.remove("lifecycle");
            }
        }
    }
    for volume in super::items_mut(spec, "volumes") {
        let projected = volume.get_mut("projected").and_then(Value::as_object_mut);
        for source in projected.into_iter().flat_map(|volume| super::items_mut(volume, "sources")) {
            source.remove("clusterTrustBundle");
            source.remove("podCertificate");
        }
    }
}
