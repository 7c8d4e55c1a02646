//! What a built-in kind does beyond the generic verbs: defaulting, validation, immutability, what
//! the server itself sets, and which fields can be selected by.

mod address;
pub(crate) mod config_map;
pub(crate) mod custom_resource_definition;
pub(crate) mod disruption;
pub(crate) mod event;
mod grammar;
pub(crate) mod job;
pub(crate) mod lease;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod persistent_volume_claim;
pub(crate) mod pod;
pub(crate) mod pod_disruption_budget;
pub(crate) mod pod_template;
pub(crate) mod rbac;
pub(crate) mod review;
pub(crate) mod secret;
pub(crate) mod service;
pub(crate) mod service_account;
mod unified_diff;

use std::borrow::Cow;

use crate::field::FieldErrors;
use crate::json::Object;
use crate::warning::Warnings;

/// The rules of one built-in kind. Objects arrive decoded by type (see `typed`): members that the
/// type table knows have the right JSON type, empty optional members are gone, unknown ones too.
/// Object metadata is validated by the caller; these rules speak of the rest.
pub(crate) trait Kind: Send + Sync {
    /// Fills in upstream's defaults. Runs on every body that is decoded, so it must be idempotent.
    fn default(&self, _obj: &mut Object) {}

    /// What the server sets or drops before a create is validated (status, server-owned fields).
    fn prepare_create(&self, _obj: &mut Object) {}

    /// What the server restores or bumps before an update of the main resource is validated.
    fn prepare_update(&self, _new: &mut Object, _old: &Object) {}

    /// The same for the `status` subresource: everything but status comes from `old`.
    fn prepare_status_update(&self, new: &mut Object, old: &Object) {
        let status = new.remove("status");
        let metadata = new.remove("metadata");
        *new = old.clone();
        set_or_remove(new, "status", status);
        set_or_remove(new, "metadata", metadata);
    }

    fn validate(&self, _obj: &Object, _errors: &mut FieldErrors) {}

    /// Everything that an update must satisfy, immutability included.
    fn validate_update(&self, new: &Object, _old: &Object, errors: &mut FieldErrors) {
        self.validate(new, errors);
    }

    fn validate_status_update(&self, _new: &Object, _old: &Object, _errors: &mut FieldErrors) {}

    /// Texts for `Warning` headers on create and update.
    fn warnings(&self, _new: &Object, _old: Option<&Object>) -> Warnings {
        Warnings::default()
    }

    /// The field selectors of this kind besides `metadata.name` and `metadata.namespace`.
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// What the index of the store holds, those of [`Self::selectable_fields`] first: a view of another
    /// kind's objects indexes all that they can be selected by there.
    fn indexed_fields(&self) -> &'static [&'static str] {
        self.selectable_fields()
    }

    /// The value of one of [`Self::indexed_fields`]; `""` where the object has none.
    fn selectable_field<'a>(&self, _obj: &'a Object, _label: &str) -> Cow<'a, str> {
        Cow::Borrowed("")
    }
}

pub(crate) fn set_or_remove(obj: &mut Object, key: &str, value: Option<serde_json::Value>) {
    match value {
        Some(value) => {
            obj.insert(key.to_owned(), value);
        }
        None => {
            obj.remove(key);
        }
    }
}
