//! Namespaces: their phase, their name as a label, and the finalizer that empties them.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{Kind, set_or_remove};
use crate::field::{FieldError, FieldErrors, Path};
use crate::json::{Access, Object, object_mut};
use crate::name;

/// Removed from `spec.finalizers` when everything in the namespace is gone.
pub(crate) const FINALIZER: &str = "kubernetes";

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

#[derive(Debug)]
pub(crate) struct Namespace;

impl Kind for Namespace {
    /// A name that the server generates comes after this, so it runs once more then.
    fn default(&self, obj: &mut Object) {
        let name = obj.at("metadata").text("name");
        if !name.is_empty() && obj.at("metadata").at("labels").text(NAME_LABEL) != name {
            let name = name.to_owned();
            let labels = object_mut(object_mut(obj, "metadata"), "labels");
            labels.insert(NAME_LABEL.to_owned(), name.into());
        }
        if obj.at("status").text("phase").is_empty() {
            object_mut(obj, "status").insert("phase".to_owned(), "Active".into());
        }
    }

    fn prepare_create(&self, obj: &mut Object) {
        obj.insert("status".to_owned(), json!({"phase": "Active"}));
        if !finalizers(obj).iter().any(|name| name == FINALIZER) {
            let names = object_mut(obj, "spec").entry("finalizers").or_insert_with(|| json!([]));
            match names {
                Value::Array(names) => names.push(FINALIZER.into()),
                other => *other = json!([FINALIZER]),
            }
        }
    }

    fn prepare_update(&self, new: &mut Object, old: &Object) {
        let finalizers = old.at("spec").get("finalizers").cloned();
        set_or_remove(object_mut(new, "spec"), "finalizers", finalizers);
        set_or_remove(new, "status", old.get("status").cloned());
    }

    fn prepare_status_update(&self, new: &mut Object, old: &Object) {
        set_or_remove(new, "spec", old.get("spec").cloned());
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        let spec = Path::new("spec");
        let path = spec.field("finalizers");
        for name in finalizers(obj) {
            validate_finalizer(name, &path, errors);
        }
    }

    fn validate_status_update(&self, new: &Object, _old: &Object, errors: &mut FieldErrors) {
        let phase = new.at("status").text("phase");
        let (needed, when) =
            if is_deleted(new) { ("Terminating", "not empty") } else { ("Active", "empty") };
        if phase != needed {
            let status = Path::new("status");
            errors.push(FieldError::invalid_text(
                &status.field("Phase"),
                phase,
                format!("may only be '{needed}' if `deletionTimestamp` is {when}"),
            ));
        }
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.phase"]
    }

    fn selectable_field<'a>(&self, obj: &'a Object, _label: &str) -> Cow<'a, str> {
        Cow::Borrowed(obj.at("status").text("phase"))
    }
}

/// What the server restores before an update of the `finalize` subresource is validated.
pub(crate) fn prepare_finalize(new: &mut Object, old: &Object) {
    set_or_remove(new, "status", old.get("status").cloned());
}

/// What an update of the `finalize` subresource must satisfy.
pub(crate) fn validate_finalize(new: &Object, errors: &mut FieldErrors) {
    let spec = Path::new("spec");
    let path = spec.field("finalizers");
    for (i, name) in finalizers(new).iter().enumerate() {
        validate_finalizer(name, &path.index(i), errors);
    }
}

fn is_deleted(obj: &Object) -> bool {
    !obj.at("metadata").at("deletionTimestamp").is_null()
}

fn finalizers(obj: &Object) -> &[Value] {
    obj.at("spec").list("finalizers")
}

fn validate_finalizer(finalizer: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let text = finalizer.as_str().unwrap_or_default();
    for fault in name::qualified_name(text) {
        errors.push(FieldError::invalid_text(path, text, fault));
    }
    let is_standard = matches!(text, FINALIZER | "orphan" | "foregroundDeletion");
    if !text.contains('/') && !is_standard {
        errors.push(FieldError::invalid_text(
            path,
            text,
            "name is neither a standard finalizer name nor is it fully qualified",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        match value {
            Value::Object(object) => object,
            other => panic!("no object: {other}"),
        }
    }

    #[test]
    fn a_new_namespace_is_active_and_finalized_by_the_server() {
        let mut obj = object(json!({
            "metadata": {"name": "x", "labels": {NAME_LABEL: "y"}},
            "spec": {"finalizers": ["ex.dev/a"]},
            "status": {"phase": "Terminating"},
        }));
        Namespace.default(&mut obj);
        Namespace.prepare_create(&mut obj);
        let expected = json!({
            "metadata": {"name": "x", "labels": {NAME_LABEL: "x"}},
            "spec": {"finalizers": ["ex.dev/a", "kubernetes"]},
            "status": {"phase": "Active"},
        });
        assert_eq!(Value::Object(obj.clone()), expected);
        Namespace.default(&mut obj);
        assert_eq!(Value::Object(obj), expected);
    }

    #[test]
    fn updates_keep_finalizers_and_status() {
        let old = object(json!({
            "metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }));
        let mut new =
            object(json!({"metadata": {"name": "x"}, "status": {"phase": "Terminating"}}));
        Namespace.prepare_update(&mut new, &old);
        assert_eq!(new, old);
        let mut new =
            object(json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "status": {}}));
        Namespace.prepare_status_update(&mut new, &old);
        assert_eq!(new.at("spec"), old.at("spec"));
        assert_eq!(new.at("metadata").at("labels"), &json!({"a": "b"}));
        let mut new = object(json!({"spec": {}, "status": {"phase": "Terminating"}}));
        prepare_finalize(&mut new, &old);
        assert_eq!(Value::Object(new), json!({"spec": {}, "status": {"phase": "Active"}}));
    }

    #[test]
    fn faults_read_as_the_api_answers_them() {
        let texts =
            |errors: FieldErrors| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        let obj = object(json!({"spec": {"finalizers": ["bad", "-x/y", "orphan", "a/b/c", ""]}}));
        let mut errors = FieldErrors::new();
        Namespace.validate(&obj, &mut errors);
        let errors = texts(errors);
        assert_eq!(
            errors[0],
            "spec.finalizers: Invalid value: \"bad\": name is neither a standard finalizer name \
             nor is it fully qualified"
        );
        assert!(errors[1].starts_with("spec.finalizers: Invalid value: \"-x/y\": prefix part a"));
        assert!(errors[2].starts_with("spec.finalizers: Invalid value: \"a/b/c\": a valid label"));
        assert_eq!(errors.len(), 6);
        let mut errors = FieldErrors::new();
        validate_finalize(&obj, &mut errors);
        assert!(texts(errors)[0].starts_with("spec.finalizers[0]: Invalid value: \"bad\""));

        let status = |obj: Value| {
            let mut errors = FieldErrors::new();
            Namespace.validate_status_update(&object(obj), &Object::new(), &mut errors);
            texts(errors)
        };
        assert_eq!(
            status(json!({"status": {"phase": "Terminating"}})),
            ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if \
              `deletionTimestamp` is empty"]
        );
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(
            status(json!({"metadata": deleted, "status": {"phase": "Active"}})),
            ["status.Phase: Invalid value: \"Active\": may only be 'Terminating' if \
              `deletionTimestamp` is not empty"]
        );
        assert!(status(json!({"status": {"phase": "Active"}})).is_empty());
    }
}
