//! Errors that point at a field, worded as the Kubernetes API words them.
//!
//! [`Path`] is a linked list of borrowed steps: walking an object allocates nothing, and the
//! text is made only when an error is reported.

use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::go;

/// Where in an object something is: `spec.containers[0].env[2].name`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Self>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    /// The object itself; upstream prints `<nil>` for it.
    Root,
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The whole object.
    pub(crate) const fn root() -> Self {
        Self { parent: None, step: Step::Root }
    }

    /// A top-level field.
    pub(crate) const fn new(name: &'a str) -> Self {
        Self { parent: None, step: Step::Field(name) }
    }

    pub(crate) const fn field(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Field(name) }
    }

    pub(crate) const fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), step: Step::Index(index) }
    }

    pub(crate) const fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Key(key) }
    }

    /// The text of the path, cut where a key of immoderate length would be repeated in the paths of all
    /// that is below it.
    fn bounded_text(&self) -> String {
        let mut text = Bounded { text: String::new(), limit: MAX_PATH_BYTES };
        // An error says that the text is full.
        let _ = write!(text, "{self}");
        text.text
    }
}

/// No path of a real object comes near it.
const MAX_PATH_BYTES: usize = 2 << 10;

/// Text that takes what fits.
struct Bounded {
    text: String,
    limit: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = self.limit - self.text.len();
        if more.len() <= room {
            self.text.push_str(more);
            return Ok(());
        }
        let cut = (0..=room).rev().find(|end| more.is_char_boundary(*end)).unwrap_or(0);
        self.text.push_str(&more[..cut]);
        Err(fmt::Error)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.parent.filter(|p| !matches!(p.step, Step::Root));
        if let Some(parent) = parent {
            write!(f, "{parent}")?;
        }
        match self.step {
            Step::Root => f.write_str("<nil>"),
            Step::Field(name) if parent.is_some() => write!(f, ".{name}"),
            Step::Field(name) => f.write_str(name),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// Upstream's classes of field error; the class gives both the words and the cause's reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Internal,
    TypeInvalid,
}

impl FieldErrorKind {
    /// The machine-readable reason in `details.causes[].reason`.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

/// One thing that is wrong with one field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldError {
    pub kind: FieldErrorKind,
    pub path: String,
    /// The offending value as it is printed, already quoted where upstream quotes it.
    pub value: Option<String>,
    pub detail: String,
}

impl FieldError {
    fn at(kind: FieldErrorKind, path: &Path<'_>, value: Option<String>, detail: String) -> Self {
        Self { kind, path: path.bounded_text(), value, detail }
    }

    pub(crate) fn required(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::at(FieldErrorKind::Required, path, None, detail.into())
    }

    pub(crate) fn invalid(path: &Path<'_>, value: &Value, detail: impl Into<String>) -> Self {
        Self::at(FieldErrorKind::Invalid, path, Some(go_value(value)), detail.into())
    }

    /// Like [`Self::invalid`], for a value that is a string but is not at hand as JSON.
    pub(crate) fn invalid_text(path: &Path<'_>, value: &str, detail: impl Into<String>) -> Self {
        Self::at(FieldErrorKind::Invalid, path, Some(go::quote(value)), detail.into())
    }

    /// Like [`Self::invalid`], with the value printed exactly as given.
    pub(crate) fn invalid_raw(
        path: &Path<'_>,
        value: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self::at(FieldErrorKind::Invalid, path, Some(value.into()), detail.into())
    }

    pub(crate) fn not_found(path: &Path<'_>, value: &Value) -> Self {
        Self::at(FieldErrorKind::NotFound, path, Some(go_value(value)), String::new())
    }

    pub(crate) fn duplicate(path: &Path<'_>, value: &Value) -> Self {
        Self::at(FieldErrorKind::Duplicate, path, Some(go_value(value)), String::new())
    }

    pub(crate) fn forbidden(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::at(FieldErrorKind::Forbidden, path, None, detail.into())
    }

    /// `Unsupported value: "x": supported values: "a", "b"`, in the order given.
    pub(crate) fn not_supported(path: &Path<'_>, value: &Value, supported: &[&str]) -> Self {
        let listed: Vec<String> = supported.iter().map(|s| go::quote(s)).collect();
        let detail = if listed.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", listed.join(", "))
        };
        Self::at(FieldErrorKind::NotSupported, path, Some(go_value(value)), detail)
    }

    pub(crate) fn too_long(path: &Path<'_>, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {unit}");
        Self::at(FieldErrorKind::TooLong, path, None, detail)
    }

    pub(crate) fn too_many(path: &Path<'_>, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        Self::at(FieldErrorKind::TooMany, path, Some(actual.to_string()), detail)
    }

    pub(crate) fn internal(path: &Path<'_>, detail: impl Into<String>) -> Self {
        Self::at(FieldErrorKind::Internal, path, None, detail.into())
    }

    /// The message without the path, as it stands in `details.causes[].message`.
    pub(crate) fn body(&self) -> String {
        let mut text = self.kind.words().to_owned();
        let omits_value = matches!(
            self.kind,
            FieldErrorKind::Required
                | FieldErrorKind::Forbidden
                | FieldErrorKind::TooLong
                | FieldErrorKind::Internal
        );
        if let (false, Some(value)) = (omits_value, &self.value) {
            text.push_str(": ");
            text.push_str(value);
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

/// All that is wrong with an object.
///
/// A body may be wrong in as many ways as it has bytes, and each takes a hundred bytes to say. Beyond
/// [`MAX_ERROR_BYTES`] errors are counted but not kept, so that an answer has an end. Whoever quotes a
/// whole list for each of its elements uses [`Self::push_with`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldErrors {
    kept: Vec<FieldError>,
    bytes: usize,
    omitted: usize,
}

/// How much text of errors is kept; the first error is kept whatever its size.
pub(crate) const MAX_ERROR_BYTES: usize = 256 << 10;

impl FieldErrors {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn push(&mut self, error: FieldError) {
        if self.is_full() {
            self.omitted += 1;
            return;
        }
        let value = error.value.as_ref().map_or(0, String::len);
        self.bytes += size_of::<FieldError>() + error.path.len() + value + error.detail.len();
        self.kept.push(error);
    }

    /// Like [`Self::push`], for an error that quotes more than the element it is about: it is made only if
    /// it is kept.
    pub(crate) fn push_with(&mut self, error: impl FnOnce() -> FieldError) {
        if self.is_full() {
            self.omitted += 1;
        } else {
            self.push(error());
        }
    }

    /// Whether further errors are only counted.
    pub(crate) const fn is_full(&self) -> bool {
        self.bytes >= MAX_ERROR_BYTES
    }

    /// How many errors were found, kept or not.
    pub(crate) const fn len(&self) -> usize {
        self.kept.len() + self.omitted
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn sort_by_text(&mut self) {
        self.kept.sort_by_cached_key(ToString::to_string);
    }

    /// How many errors were found beyond those that are kept.
    pub(crate) const fn omitted(&self) -> usize {
        self.omitted
    }
}

impl std::ops::Deref for FieldErrors {
    type Target = [FieldError];

    fn deref(&self) -> &[FieldError] {
        &self.kept
    }
}

impl Extend<FieldError> for FieldErrors {
    fn extend<I: IntoIterator<Item = FieldError>>(&mut self, errors: I) {
        errors.into_iter().for_each(|error| self.push(error));
    }
}

impl FromIterator<FieldError> for FieldErrors {
    fn from_iter<I: IntoIterator<Item = FieldError>>(errors: I) -> Self {
        let mut all = Self::new();
        all.extend(errors);
        all
    }
}

impl From<FieldError> for FieldErrors {
    fn from(error: FieldError) -> Self {
        Self::from_iter([error])
    }
}

impl IntoIterator for FieldErrors {
    type Item = FieldError;
    type IntoIter = std::vec::IntoIter<FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.into_iter()
    }
}

impl<'a> IntoIterator for &'a FieldErrors {
    type Item = &'a FieldError;
    type IntoIter = std::slice::Iter<'a, FieldError>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.iter()
    }
}

/// A JSON value as Go's `%v`/`%q` would print it in a field error.
pub(crate) fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => go::quote(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_read_as_upstream_prints_them() {
        let spec = Path::new("spec");
        let containers = spec.field("containers");
        let first = containers.index(0);
        assert_eq!(first.field("name").to_string(), "spec.containers[0].name");
        let labels = Path::new("metadata");
        let labels = labels.field("labels");
        assert_eq!(labels.key("a/b").to_string(), "metadata.labels[a/b]");
        let root = Path::root();
        assert_eq!(root.to_string(), "<nil>");
        assert_eq!(root.field("spec").to_string(), "spec");
    }

    #[test]
    fn bodies_read_as_upstream_prints_them() {
        let spec = Path::new("spec");
        assert_eq!(FieldError::required(&spec, "").to_string(), "spec: Required value");
        assert_eq!(
            FieldError::invalid(&spec, &json!("a\"b"), "no quotes").to_string(),
            r#"spec: Invalid value: "a\"b": no quotes"#
        );
        assert_eq!(
            FieldError::not_supported(&spec, &json!("x"), &["a", "b"]).to_string(),
            r#"spec: Unsupported value: "x": supported values: "a", "b""#
        );
        assert_eq!(
            FieldError::too_long(&spec, 63).to_string(),
            "spec: Too long: may not be more than 63 bytes"
        );
    }
}
