//! PersistentVolumeClaims, and the claims that Pods make for themselves.

use serde_json::{Value, json};

use super::grammar::{
    Errors, immutable, label_selector, labels, one_of, push_texts, quantity, unsupported,
};
use super::pod::{default, internal, resource, template, warning};
use super::{Kind, set_or_remove};
use crate::field::{FieldError, FieldErrors, Path};
use crate::go::quantity::Quantity;
use crate::json::{Access, Object, object_mut};
use crate::name;
use crate::warning::Warnings;

const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const RESIZE_STATES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
pub(crate) const PROTECTION: &str = "kubernetes.io/pvc-protection";

#[derive(Debug)]
pub(crate) struct PersistentVolumeClaim;

impl Kind for PersistentVolumeClaim {
    fn default(&self, obj: &mut Object) {
        default::claim_spec(object_mut(obj, "spec"));
        let status = object_mut(obj, "status");
        default::default_text(status, "phase", "Pending");
        resource::round_list(status, "capacity");
        resource::round_list(status, "allocatedResources");
    }

    fn prepare_create(&self, obj: &mut Object) {
        obj.insert("status".to_owned(), json!({"phase": "Pending"}));
        normalize_data_sources(object_mut(obj, "spec"), &Value::Null);
    }

    fn prepare_update(&self, new: &mut Object, old: &Object) {
        set_or_remove(new, "status", old.get("status").cloned());
        normalize_data_sources(object_mut(new, "spec"), old.at("spec"));
    }

    fn prepare_status_update(&self, new: &mut Object, old: &Object) {
        set_or_remove(new, "spec", old.get("spec").cloned());
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        validate_spec(errors, &Path::new("spec"), obj.at("spec"));
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        self.validate(new, errors);
        changes(errors, new, old);
    }

    fn validate_status_update(&self, new: &Object, _old: &Object, errors: &mut FieldErrors) {
        validate_status(errors, new);
    }

    fn warnings(&self, new: &Object, _old: Option<&Object>) -> Warnings {
        let mut out = Warnings::default();
        if new.at("metadata").at("annotations").get(CLASS_ANNOTATION).is_some() {
            let metadata = Path::new("metadata");
            let annotations = metadata.field("annotations");
            out.push(format!(
                r#"{}: deprecated since v1.8; use "storageClassName" attribute instead"#,
                annotations.key(CLASS_ANNOTATION)
            ));
        }
        out.extend(spec_warnings(&Path::new("spec"), new.at("spec")));
        out
    }
}

/// Keeps a claim from vanishing under a Pod that uses it. On create.
pub(crate) fn protect(claim: &mut Object) {
    let metadata = object_mut(claim, "metadata");
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut()
        && !finalizers.iter().any(|finalizer| finalizer == PROTECTION)
    {
        finalizers.push(PROTECTION.into());
    }
}

/// Why a claim cannot be made larger: the text after `... is forbidden: `.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResizeRefusal {
    #[error("Only bound persistent volume claims can be expanded")]
    NotBound,
    #[error(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the \
         pvc must support resize"
    )]
    NotExpandable,
}

/// Whether an update may make the claim larger. `expandable` tells of a StorageClass, by name,
/// whether it allows that.
pub(crate) fn admit_resize(
    new: &Object,
    old: &Object,
    expandable: impl Fn(&str) -> bool,
) -> Result<(), ResizeRefusal> {
    if storage(new) <= storage(old) {
        return Ok(());
    }
    if old.at("status").text("phase") != "Bound" {
        return Err(ResizeRefusal::NotBound);
    }
    let (class, old_class) = (class_of(new), class_of(old));
    if class.is_empty() || class != old_class || !expandable(class) {
        return Err(ResizeRefusal::NotExpandable);
    }
    Ok(())
}

fn class_of(claim: &Object) -> &str {
    let annotation = claim.at("metadata").at("annotations").get(CLASS_ANNOTATION);
    match annotation.and_then(Value::as_str) {
        Some(class) => class,
        None => claim.at("spec").text("storageClassName"),
    }
}

fn storage(claim: &Object) -> Quantity {
    quantity(claim.at("spec").at("resources").at("requests").at("storage"))
}

/// `dataSource` and `dataSourceRef` say the same; a source that only newer clusters know is
/// dropped if it is given the old way.
fn normalize_data_sources(spec: &mut Object, old: &Value) {
    let reference = spec.at("dataSourceRef");
    let crosses = !reference.text("namespace").is_empty();
    if crosses && old.at("dataSourceRef").is_null() {
        spec.remove("dataSourceRef");
    }
    let source = spec.at("dataSource");
    let in_use = !old.at("dataSource").is_null() || !old.at("dataSourceRef").is_null();
    let known = matches!(
        (source.text("kind"), source.text("apiGroup")),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
    );
    if !in_use && spec.at("dataSourceRef").is_null() && !known {
        spec.remove("dataSource");
    }
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    if !source.is_null() && reference.is_null() {
        let copied = source.clone();
        spec.insert("dataSourceRef".to_owned(), copied);
    } else if source.is_null() && !reference.is_null() && reference.text("namespace").is_empty() {
        let mut copied = reference.clone();
        if let Some(copied) = copied.as_object_mut() {
            copied.remove("namespace");
        }
        spec.insert("dataSource".to_owned(), copied);
    }
    // The group is shown even where there is none.
    for member in ["dataSource", "dataSourceRef"] {
        if let Some(source) = spec.get_mut(member).and_then(Value::as_object_mut) {
            source.entry("apiGroup").or_insert(Value::Null);
        }
    }
}

/// The template of a claim that is made for a Pod's ephemeral volume.
pub(crate) fn validate_template(errors: &mut Errors, path: &Path<'_>, claim: &Value) {
    let at = path.field("metadata");
    let metadata = claim.at("metadata");
    template::validate_annotations(errors, &at.field("annotations"), metadata.at("annotations"));
    labels(errors, &at.field("labels"), metadata.at("labels"));
    for (member, value) in metadata.as_object().into_iter().flatten() {
        if !value.is_null() && !matches!(member.as_str(), "annotations" | "labels") {
            errors.push(FieldError::forbidden(&at.field(member), "cannot be set"));
        }
    }
    validate_spec(errors, &path.field("spec"), claim.at("spec"));
}

fn validate_spec(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let modes_path = path.field("accessModes");
    let modes = spec.list("accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(&modes_path, "at least 1 access mode is required"));
    }
    label_selector(errors, &path.field("selector"), spec.at("selector"));
    let (mut exclusive, mut shared) = (false, false);
    for mode in modes.iter().map(|mode| mode.as_str().unwrap_or_default()) {
        one_of(errors, &modes_path, mode, &ACCESS_MODES);
        exclusive |= mode == "ReadWriteOncePod";
        shared |= mode != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode);
    }
    if exclusive && shared {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(&modes_path, detail));
    }
    let resources = path.field("resources");
    let at = resources.key("storage");
    match spec.at("resources").at("requests").get("storage") {
        None => errors.push(FieldError::required(&at, "")),
        Some(amount) => {
            let amount = quantity(amount);
            if !amount.is_positive() {
                let detail = "must be greater than zero";
                errors.push(FieldError::invalid_text(&at, &amount.canonical(), detail));
            }
        }
    }
    for member in ["storageClassName", "volumeAttributesClassName"] {
        let class = spec.text(member);
        if !class.is_empty() {
            push_texts(errors, &path.field(member), class, name::dns1123_subdomain(class));
        }
        if member == "storageClassName" {
            volume_mode_and_sources(errors, path, spec);
        }
    }
}

fn volume_mode_and_sources(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    if let Some(mode) = spec.at("volumeMode").as_str() {
        one_of(errors, &path.field("volumeMode"), mode, &["Block", "Filesystem"]);
    }
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    for member in ["dataSource", "dataSourceRef"] {
        if !spec.at(member).is_null() {
            data_source(errors, &path.field(member), spec.at(member));
        }
    }
    if source.is_null() {
        return;
    }
    // What is printed as the bad value here is a path.
    let mut mismatch = |detail: &str| errors.push(FieldError::invalid_raw(path, "{}", detail));
    if !reference.text("namespace").is_empty() {
        mismatch("may not be specified when dataSourceRef.namespace is specified");
    } else if !reference.is_null() {
        let same = ["apiGroup", "kind", "name"].iter().all(|m| source.at(m) == reference.at(m));
        if !same {
            mismatch("must match dataSourceRef");
        }
    }
}

fn data_source(errors: &mut Errors, path: &Path<'_>, source: &Value) {
    for member in ["name", "kind"] {
        if source.text(member).is_empty() {
            errors.push(FieldError::required(&path.field(member), ""));
        }
    }
    let (group, kind) = (source.text("apiGroup"), source.text("kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid_text(path, kind, detail));
    }
    if !group.is_empty() {
        push_texts(errors, &path.field("apiGroup"), group, name::dns1123_subdomain(group));
    }
    let namespace = source.text("namespace");
    if !namespace.is_empty() {
        push_texts(errors, &path.field("namespace"), namespace, name::dns1123_label(namespace));
    }
}

fn changes(errors: &mut Errors, new: &Object, old: &Object) {
    let annotation = |claim: &Object| {
        let class = claim.at("metadata").at("annotations").get(CLASS_ANNOTATION);
        class.and_then(Value::as_str).map(str::to_owned)
    };
    let (new_spec, old_spec) = (new.at("spec"), old.at("spec"));
    let (new_class, old_class) = (new_spec.at("storageClassName"), old_spec.at("storageClassName"));
    let (new_annotation, old_annotation) = (annotation(new), annotation(old));
    let mut munged = new_spec.clone();
    let mut restored: Vec<&str> = Vec::new();
    let upgraded = old_class.is_null()
        && old_annotation.is_some()
        && new_class.as_str() == old_annotation.as_deref()
        && (new_annotation.is_none() || new_annotation == old_annotation);
    if upgraded {
        restored.push("storageClassName");
    } else {
        let (new_text, old_text) =
            (new_annotation.unwrap_or_default(), old_annotation.clone().unwrap_or_default());
        if new_text != old_text {
            let metadata = Path::new("metadata");
            let annotations = metadata.field("annotations");
            let at = annotations.field(CLASS_ANNOTATION);
            errors.push(FieldError::invalid_text(&at, &new_text, super::grammar::IMMUTABLE));
        }
        // A class may be chosen later, if none was.
        let chosen = !new_class.is_null()
            && old_class.is_null()
            && old_annotation.as_deref().is_none_or(|old| new_class.as_str() == Some(old));
        if chosen {
            restored.push("storageClassName");
        }
    }
    let bound = new.at("status").text("phase") == "Bound";
    if bound {
        restored.push("volumeAttributesClassName");
    }
    if let Some(spec) = munged.as_object_mut() {
        for member in restored {
            set_or_remove(spec, member, old_spec.get(member).cloned());
        }
        let requests = spec.get_mut("resources").and_then(|r| r.get_mut("requests"));
        if let Some(requests) = requests.and_then(Value::as_object_mut).filter(|_| bound) {
            let old = old_spec.at("resources").at("requests").get("storage").cloned();
            set_or_remove(requests, "storage", old);
        }
    }
    let path = Path::new("spec");
    // A claim's volume can be named by whoever binds it; upstream puts that into the old one.
    let mut old_munged = old_spec.clone();
    if let (true, Some(old)) = (old_spec.text("volumeName").is_empty(), old_munged.as_object_mut())
    {
        set_or_remove(old, "volumeName", new_spec.get("volumeName").cloned());
    }
    if munged != old_munged {
        let diff = internal::diff(internal::CLAIM_SPEC, &old_munged, &munged);
        let detail = format!(
            "spec is immutable after creation except resources.requests and \
             volumeAttributesClassName for bound claims\n{diff}"
        );
        errors.push(FieldError::forbidden(&path, detail));
    }
    if storage(new) < storage(old)
        && storage(new) <= quantity(old.at("status").at("capacity").at("storage"))
    {
        let resources = path.field("resources");
        let requests = resources.field("requests");
        let detail = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden(&requests.field("storage"), detail));
    }
    let (mode, old_mode) = (new_spec.at("volumeMode"), old_spec.at("volumeMode"));
    immutable(errors, &Path::new("volumeMode"), mode, old_mode);
    attributes_class(errors, &path, new, old);
}

fn attributes_class(errors: &mut Errors, path: &Path<'_>, new: &Object, old: &Object) {
    const MEMBER: &str = "volumeAttributesClassName";
    let (class, old_class) = (new.at("spec").at(MEMBER), old.at("spec").at(MEMBER));
    let current = old.at("status").at("currentVolumeAttributesClassName");
    if class == old_class || current.is_null() {
        return;
    }
    let to = match class.as_str() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let detail = format!(
        "update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil"
    );
    errors.push(FieldError::forbidden(&path.field(MEMBER), detail));
}

fn validate_status(errors: &mut Errors, claim: &Object) {
    if claim.at("spec").list("accessModes").is_empty() {
        let spec = Path::new("Spec");
        errors.push(FieldError::required(&spec.field("accessModes"), ""));
    }
    let status = claim.at("status");
    let path = Path::new("status");
    let capacity = path.field("capacity");
    for (name, amount) in status.entries("capacity") {
        basic_amount(errors, &capacity.key(name), amount);
    }
    let at = path.field("allocatedResourceStatuses");
    for (name, state) in status.entries("allocatedResourceStatuses") {
        resource_key(errors, &at, name);
        if !RESIZE_STATES.contains(&state.as_str().unwrap_or_default()) {
            errors.push(unsupported(&at, name, &RESIZE_STATES));
        }
    }
    let at = path.field("allocatedResources");
    for (name, amount) in status.entries("allocatedResources") {
        let before = errors.len();
        resource_key(errors, &at, name);
        if errors.len() == before {
            basic_amount(errors, &at.key(name), amount);
        }
    }
}

fn basic_amount(errors: &mut Errors, path: &Path<'_>, amount: &Value) {
    let value = quantity(amount).value();
    if value < 0 {
        errors.push(FieldError::invalid(path, &value.into(), "must be a valid resource quantity"));
    }
}

fn resource_key(errors: &mut Errors, path: &Path<'_>, key: &str) {
    let texts = name::qualified_name(key);
    if !texts.is_empty() {
        return push_texts(errors, path, key, texts);
    }
    let native = !key.contains('/') || key.contains("kubernetes.io/");
    if native && key != "storage" {
        errors.push(unsupported(path, key, &["storage"]));
    }
}

/// Fractions of a byte are allowed, and mean nothing.
pub(crate) fn spec_warnings(path: &Path<'_>, spec: &Value) -> Vec<String> {
    let resources = path.field("resources");
    let mut out = Vec::new();
    for member in ["requests", "limits"] {
        let amount = quantity(spec.at("resources").at(member).at("storage"));
        if amount.has_fraction() {
            let at = resources.field(member);
            out.push(warning::fraction_text(&at.key("storage"), &amount.canonical()));
        }
    }
    out
}

#[cfg(test)]
mod tests;
