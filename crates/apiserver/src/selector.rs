//! Label and field selectors: parsed once per request, matched against every object.

pub(crate) mod field;
pub(crate) mod label;

pub(crate) use field::FieldSelector;
pub(crate) use label::LabelSelector;

/// Why a selector is refused, worded as the API answers it (400 Bad Request).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SelectorError(String);
