//! A definition's spec as upstream sees it internally.
//!
//! What all versions agree on upstream moves to the top of the spec before it validates, so that
//! errors speak of `spec.validation` although no such field can be sent. Single-version
//! definitions, which are most, are always told so.

use serde_json::Value;

use crate::json::{Access, Object};

/// The members that move to the top when all versions agree on them, and where they appear there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shared {
    Schema,
    Subresources,
    Columns,
    SelectableFields,
}

impl Shared {
    const fn member(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Subresources => "subresources",
            Self::Columns => "additionalPrinterColumns",
            Self::SelectableFields => "selectableFields",
        }
    }

    /// The name of the member at the top of the spec.
    pub(super) const fn top_name(self) -> &'static str {
        match self {
            Self::Schema => "validation",
            other => other.member(),
        }
    }

    const fn slot(self) -> usize {
        self as usize
    }
}

/// A view of a spec with shared members moved to the top.
pub(super) struct Hoisted<'s> {
    pub(super) versions: &'s [Value],
    /// Which of [`Shared`] are at the top.
    shared: [bool; 4],
}

impl<'s> Hoisted<'s> {
    pub(super) fn new(spec: &'s Object) -> Self {
        let versions = spec.list("versions");
        let agreed = |shared: Shared| {
            let member = shared.member();
            let mut values = versions.iter().map(|version| version.at(member));
            values.next().is_some_and(|first| values.all(|value| value == first))
        };
        let all = [Shared::Schema, Shared::Subresources, Shared::Columns, Shared::SelectableFields];
        Self { versions, shared: all.map(agreed) }
    }

    /// The member at the top of the spec; null if versions differ or have none.
    pub(super) fn top(&self, shared: Shared) -> &'s Value {
        const NOTHING: &Value = &Value::Null;
        match self.versions.first() {
            Some(version) if self.shared[shared.slot()] => version.at(shared.member()),
            _ => NOTHING,
        }
    }

    /// The member of one version; null if it moved to the top.
    pub(super) fn of_version(&self, shared: Shared, version: &'s Value) -> &'s Value {
        const NOTHING: &Value = &Value::Null;
        if self.shared[shared.slot()] { NOTHING } else { version.at(shared.member()) }
    }

    /// The distinct schemas, each with the path that errors about it begin with.
    pub(super) fn schemas(&self) -> Vec<(String, &'s Value)> {
        let of = |holder: &'s Value| holder.get("openAPIV3Schema").filter(|s| s.is_object());
        if let Some(schema) = of(self.top(Shared::Schema)) {
            return vec![("spec.validation.openAPIV3Schema".to_owned(), schema)];
        }
        let versions = self.versions.iter().enumerate();
        versions
            .filter_map(|(index, version)| {
                let schema = of(self.of_version(Shared::Schema, version))?;
                Some((format!("spec.versions[{index}].schema.openAPIV3Schema"), schema))
            })
            .collect()
    }
}
