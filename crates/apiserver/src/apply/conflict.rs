//! Conflicts between an applied configuration and the owners of what it would change.

use super::entries::{Entry, ManagedFieldsOperation};
use super::field_set::{FieldSet, path_text};
use crate::go;

/// A field that the configuration would change although somebody else owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// `conflict with "kubectl" using v1`, as in `details.causes[].message`.
    pub(crate) message: String,
    /// `.data.a`, as in `details.causes[].field`.
    pub(crate) field: String,
}

/// What upstream puts in `details.causes[].reason`.
pub(crate) const CONFLICT_REASON: &str = "FieldManagerConflict";

/// One owner's part of the conflicts.
#[derive(Clone, Debug)]
pub(crate) struct OwnerConflicts {
    /// `"kubectl" with subresource "status" using v1`.
    owner: String,
    /// Sorts owners.
    identity: String,
    pub(crate) fields: FieldSet,
}

impl OwnerConflicts {
    pub(crate) fn new(owner: &Entry, fields: FieldSet) -> Self {
        let mut text = go::quote(owner.manager());
        if !owner.subresource().is_empty() {
            text.push_str(" with subresource ");
            text.push_str(&go::quote(owner.subresource()));
        }
        if owner.operation() == ManagedFieldsOperation::Update {
            text.push_str(" using ");
            text.push_str(owner.api_version());
        }
        Self { owner: text, identity: owner.identity_json(), fields }
    }
}

/// All conflicts of one request, worded as upstream words them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflicts {
    /// The status message.
    pub(crate) message: String,
    pub(crate) causes: Vec<Conflict>,
}

impl Conflicts {
    pub(crate) fn new(mut owners: Vec<OwnerConflicts>) -> Self {
        owners.sort_by(|a, b| a.identity.cmp(&b.identity));
        let mut causes = Vec::new();
        let mut lines = Vec::new();
        for owner in &owners {
            lines.push(format!("conflicts with {}:", owner.owner));
            for path in owner.fields.paths() {
                let field = path_text(&path);
                lines.push(format!("- {field}"));
                causes.push(Conflict { message: format!("conflict with {}", owner.owner), field });
            }
        }
        let message = match causes.as_slice() {
            [one] => format!("Apply failed with 1 conflict: {}: {}", one.message, one.field),
            several => {
                format!("Apply failed with {} conflicts: {}", several.len(), lines.join("\n"))
            }
        };
        Self { message, causes }
    }
}
