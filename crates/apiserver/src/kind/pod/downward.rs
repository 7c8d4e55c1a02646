//! The downward API: which fields and resources of a Pod its containers may read, as files or as
//! environment variables.

use serde_json::Value;

use super::super::grammar::{
    Errors, file_mode, push_texts, quantity, unreserved_path, unsupported,
};
use crate::field::{FieldError, Path};
use crate::json::Access;
use crate::name;

pub(super) const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const FILE_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
/// Fields that a Pod has; each use supports some of them.
const KNOWN_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];
const BYTE_DIVISORS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// A file of a downward API volume. The path given is the volume's, as upstream prints no index.
pub(super) fn validate_file(errors: &mut Errors, path: &Path<'_>, file: &Value) {
    let target = file.text("path");
    if target.is_empty() {
        errors.push(FieldError::required(&path.field("path"), ""));
    }
    unreserved_path(errors, &path.field("path"), target);
    let (field, resource) = (file.at("fieldRef"), file.at("resourceFieldRef"));
    if !field.is_null() {
        validate_field(errors, &path.field("fieldRef"), field, &FILE_FIELDS);
        if !resource.is_null() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.push(FieldError::invalid_text(path, "resource", detail));
        }
    } else if !resource.is_null() {
        validate_resource(errors, &path.field("resourceFieldRef"), resource, true);
    } else {
        let detail = "one of fieldRef and resourceFieldRef is required";
        errors.push(FieldError::required(path, detail));
    }
    file_mode(errors, &path.field("mode"), file.int("mode"));
}

pub(super) fn validate_field(
    errors: &mut Errors,
    path: &Path<'_>,
    reference: &Value,
    supported: &[&str],
) {
    let version = reference.text("apiVersion");
    if version.is_empty() {
        errors.push(FieldError::required(&path.field("apiVersion"), ""));
        return;
    }
    let field = reference.text("fieldPath");
    let field_path = path.field("fieldPath");
    if field.is_empty() {
        errors.push(FieldError::required(&field_path, ""));
        return;
    }
    let unknown = |why: &str| {
        let detail = format!("error converting fieldPath: {why}");
        FieldError::invalid_text(&field_path, field, detail)
    };
    if version != "v1" {
        errors.push(unknown(&format!("unsupported pod version: {version}")));
        return;
    }
    match subscript(field) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            push_texts(errors, path, &key, name::qualified_name(&key));
        }
        Some(("metadata.labels", key)) => {
            push_texts(errors, path, key, name::qualified_name(key));
        }
        Some(_) => {
            errors.push(unknown(&format!("field label does not support subscript: {field}")));
        }
        None => {
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if !KNOWN_FIELDS.contains(&field) {
                errors.push(unknown(&format!("field label not supported: {field}")));
            } else if !supported.contains(&field) {
                errors.push(unsupported(&field_path, field, supported));
            }
        }
    }
}

/// `metadata.labels['app']` as `metadata.labels` and `app`.
fn subscript(field: &str) -> Option<(&str, &str)> {
    let (base, key) = field.strip_suffix("']")?.split_once("['")?;
    (!base.is_empty()).then_some((base, key))
}

pub(super) fn validate_resource(
    errors: &mut Errors,
    path: &Path<'_>,
    reference: &Value,
    in_volume: bool,
) {
    let resource = reference.text("resource");
    let huge_pages = HUGE_PAGES.iter().any(|prefix| resource.starts_with(prefix));
    if in_volume && reference.text("containerName").is_empty() {
        errors.push(FieldError::required(&path.field("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(&path.field("resource"), ""));
    } else if !RESOURCES.contains(&resource) && !huge_pages {
        errors.push(unsupported(&path.field("resource"), resource, &RESOURCES));
    }
    let divisor = quantity(reference.at("divisor"));
    if divisor.is_zero() {
        return;
    }
    let divisor = divisor.canonical();
    let what = match resource {
        "limits.cpu" | "requests.cpu" => {
            if divisor != "1" && divisor != "1m" {
                let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
                errors.push(FieldError::invalid_text(&path.field("divisor"), resource, detail));
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if huge_pages => "hugepages",
        _ => return,
    };
    if !BYTE_DIVISORS.contains(&divisor.as_str()) {
        let detail = format!(
            "only divisor's values {} are supported with the {what} resource",
            BYTE_DIVISORS.join(", ")
        );
        errors.push(FieldError::invalid_text(&path.field("divisor"), resource, detail));
    }
}
