//! The patches that clients may send, and how they change an object.
//!
//! A patch is applied to the object in the version of the request; the result is then decoded,
//! defaulted and validated like any other body. Server-side apply is in `apply`.

pub(crate) mod json;
pub(crate) mod merge;
pub(crate) mod strategic;

use serde_json::Value;

/// A kind of patch, told by the request's content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    /// Built-in kinds only.
    Strategic,
    Apply,
}

impl PatchType {
    /// What built-in kinds accept, in the order upstream lists it.
    pub(crate) const BUILT_IN: [Self; 4] = [Self::Json, Self::Merge, Self::Strategic, Self::Apply];
    /// What custom kinds accept.
    pub(crate) const CUSTOM: [Self; 3] = [Self::Json, Self::Merge, Self::Apply];

    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// Why a patch was not applied. The text is the status message unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// 400 BadRequest.
    #[error("{0}")]
    BadRequest(String),
    /// 413 RequestEntityTooLarge.
    #[error("Request entity too large: {0}")]
    TooLarge(String),
    /// 422 Invalid with empty details. The reason is not for the client: upstream keeps it too.
    #[error("the server rejected our request due to an error in our request")]
    Rejected { reason: String },
    /// 500 without a reason.
    #[error("{0}")]
    Failed(String),
}

/// What Go calls the type of a JSON value when it cannot be decoded into something else.
const fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
