//! What the fields of several workload kinds have in common: ports, ids, environment names,
//! relative paths, labels and selectors. Wording is upstream's.

use serde_json::Value;

use crate::field::{FieldError, FieldErrorKind, Path, go_value};
use crate::go;
use crate::go::quantity::Quantity;
use crate::json::Access;
use crate::name;

pub(crate) use crate::field::FieldErrors as Errors;

pub(crate) const NEGATIVE: &str = "must be greater than or equal to 0";
pub(crate) const IMMUTABLE: &str = "field is immutable";
pub(crate) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";
const ID_RANGE: &str = "must be between 0 and 2147483647, inclusive";

/// `Unsupported value`, with the supported ones in the order given.
pub(crate) fn unsupported(path: &Path<'_>, value: &str, supported: &[&str]) -> FieldError {
    let listed: Vec<String> = supported.iter().map(|s| go::quote(s)).collect();
    FieldError {
        kind: FieldErrorKind::NotSupported,
        path: path.to_string(),
        value: Some(go::json_string(value)),
        detail: format!("supported values: {}", listed.join(", ")),
    }
}

/// `Invalid value` where upstream does not print the value.
pub(crate) fn invalid_unprinted(path: &Path<'_>, detail: impl Into<String>) -> FieldError {
    FieldError {
        kind: FieldErrorKind::Invalid,
        path: path.to_string(),
        value: None,
        detail: detail.into(),
    }
}

/// One error for each text that a grammar gave.
pub(crate) fn push_texts(errors: &mut Errors, path: &Path<'_>, value: &str, texts: Vec<String>) {
    errors.extend(texts.into_iter().map(|text| FieldError::invalid_text(path, value, text)));
}

/// The value must be one of `supported`.
pub(crate) fn one_of(errors: &mut Errors, path: &Path<'_>, value: &str, supported: &[&str]) {
    if !supported.contains(&value) {
        errors.push(unsupported(path, value, supported));
    }
}

pub(crate) fn non_negative(errors: &mut Errors, path: &Path<'_>, value: Option<i64>) {
    if let Some(value) = value.filter(|value| *value < 0) {
        errors.push(FieldError::invalid(path, &value.into(), NEGATIVE));
    }
}

/// `field is immutable`, unless both are the same.
pub(crate) fn immutable(errors: &mut Errors, path: &Path<'_>, new: &Value, old: &Value) {
    if new != old {
        errors.push(FieldError::invalid_raw(path, go_value(new), IMMUTABLE));
    }
}

pub(crate) fn file_mode(errors: &mut Errors, path: &Path<'_>, mode: Option<i64>) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(path, &mode.into(), detail));
    }
}

pub(crate) fn port_number(errors: &mut Errors, path: &Path<'_>, port: i64) {
    if !(1..=65535).contains(&port) {
        errors.push(FieldError::invalid(path, &port.into(), PORT_RANGE));
    }
}

/// The name of a container's port (RFC 6335 service name).
pub(crate) fn port_name(name: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let bytes = name.as_bytes();
    if bytes.len() > 15 {
        texts.push("must be no more than 15 characters".to_owned());
    }
    let allowed = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    if bytes.is_empty() || !bytes.iter().all(allowed) {
        let text = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
        texts.push(text.to_owned());
    }
    if !bytes.iter().any(u8::is_ascii_lowercase) {
        texts.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        texts.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        texts.push("must not begin or end with a hyphen".to_owned());
    }
    texts
}

/// An `IntOrString` port.
pub(crate) fn port_number_or_name(errors: &mut Errors, path: &Path<'_>, port: &Value) {
    match port.as_str() {
        Some(name) => push_texts(errors, path, name, port_name(name)),
        None => port_number(errors, path, port.as_i64().unwrap_or_default()),
    }
}

/// A user or group id.
pub(crate) fn id(errors: &mut Errors, path: &Path<'_>, id: Option<i64>) {
    if let Some(id) = id.filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
        errors.push(FieldError::invalid(path, &id.into(), ID_RANGE));
    }
}

pub(crate) fn env_name(name: &str) -> Vec<String> {
    let mut texts = Vec::new();
    if name.is_empty() {
        texts.push("environment variable name must be non-empty".to_owned());
    }
    if !name.bytes().all(|b| (b == b' ' || b.is_ascii_graphic()) && b != b'=') {
        texts.push(
            "a valid environment variable name must consist only of printable ASCII characters \
             other than '='"
                .to_owned(),
        );
    }
    texts
}

/// A key of a ConfigMap or Secret.
pub(crate) fn config_key(key: &str) -> Vec<String> {
    let mut texts = Vec::new();
    if key.len() > name::MAX_SUBDOMAIN_CHARS {
        texts.push("must be no more than 253 characters".to_owned());
    }
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if key.is_empty() || !key.bytes().all(allowed) {
        texts.push(name::pattern_text(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match key {
        "." => texts.push("must not be '.'".to_owned()),
        ".." => texts.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => texts.push("must not start with '..'".to_owned()),
        _ => {}
    }
    texts
}

pub(crate) fn http_header(header: &str) -> Vec<String> {
    if !header.is_empty() && header.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec![name::pattern_text(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// A DNS search path: like a subdomain, but underscores are fine.
pub(crate) fn search_domain(domain: &str) -> Vec<String> {
    let mut texts = Vec::new();
    if domain.len() > name::MAX_SUBDOMAIN_CHARS {
        texts.push("must be no more than 253 characters".to_owned());
    }
    let label = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let bytes = part.as_bytes();
        edge(bytes.first())
            && edge(bytes.last())
            && bytes
                .iter()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
    };
    if !domain.split('.').all(label) {
        texts.push(name::pattern_text(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '_', '-' or '.', and must start and end with an alphanumeric character",
            r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    texts
}

pub(crate) fn no_backsteps(errors: &mut Errors, path: &Path<'_>, target: &str) {
    if has_backstep(target) {
        errors.push(FieldError::invalid_text(path, target, "must not contain '..'"));
    }
}

pub(crate) fn has_backstep(target: &str) -> bool {
    target.split('/').any(|part| part == "..")
}

/// A relative path that stays below where it starts.
pub(crate) fn descending_path(errors: &mut Errors, path: &Path<'_>, target: &str) {
    if target.starts_with('/') {
        errors.push(FieldError::invalid_text(path, target, "must be a relative path"));
    }
    no_backsteps(errors, path, target);
}

/// A [`descending_path`] whose name is not one that volume plugins keep for themselves.
pub(crate) fn unreserved_path(errors: &mut Errors, path: &Path<'_>, target: &str) {
    descending_path(errors, path, target);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.push(FieldError::invalid_text(path, target, "must not start with '..'"));
    }
}

/// A map of labels: node selectors, Service selectors, `matchLabels`.
pub(crate) fn labels(errors: &mut Errors, path: &Path<'_>, labels: &Value) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        push_texts(errors, path, key, name::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        push_texts(errors, path, value, name::label_value(value));
    }
}

pub(crate) fn label_selector(errors: &mut Errors, path: &Path<'_>, selector: &Value) {
    labels(errors, &path.field("matchLabels"), selector.at("matchLabels"));
    let expressions = path.field("matchExpressions");
    for (i, expression) in selector.list("matchExpressions").iter().enumerate() {
        selector_requirement(errors, &expressions.index(i), expression);
    }
}

fn selector_requirement(errors: &mut Errors, path: &Path<'_>, requirement: &Value) {
    let values = requirement.list("values");
    selector_operator(errors, path, requirement.at("operator"), values);
    let key = requirement.text("key");
    push_texts(errors, &path.field("key"), key, name::qualified_name(key));
    let values_path = path.field("values");
    for (i, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        push_texts(errors, &values_path.index(i), value, name::label_value(value));
    }
}

/// How many values an operator of a selector takes.
pub(crate) fn selector_operator(
    errors: &mut Errors,
    path: &Path<'_>,
    operator: &Value,
    values: &[Value],
) {
    match operator.as_str().unwrap_or_default() {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&path.field("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&path.field("values"), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.push(FieldError::invalid_text(
            &path.field("operator"),
            other,
            "not a valid selector operator",
        )),
    }
}

/// Whether a label selector picks an object with these labels. `None`: the selector is malformed.
pub(crate) fn selector_matches(selector: &Value, labels: &Value) -> Option<bool> {
    // No selector at all picks nothing; an empty one picks everything.
    if selector.is_null() {
        return Some(false);
    }
    let mut matches = true;
    for (key, value) in selector.entries("matchLabels") {
        if !is_label(key, std::slice::from_ref(value)) {
            return None;
        }
        matches &= labels.get(key) == Some(value);
    }
    for requirement in selector.list("matchExpressions") {
        if !is_label(requirement.text("key"), requirement.list("values")) {
            return None;
        }
        let actual = labels.get(requirement.text("key"));
        let listed = || actual.is_some_and(|label| requirement.list("values").contains(label));
        matches &= match requirement.text("operator") {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => actual.is_some(),
            "DoesNotExist" => actual.is_none(),
            _ => return None,
        };
    }
    Some(matches)
}

fn is_label(key: &str, values: &[Value]) -> bool {
    let good = |value: &Value| name::label_value(value.as_str().unwrap_or_default()).is_empty();
    name::qualified_name(key).is_empty() && values.iter().all(good)
}

/// A quantity that decoding has already accepted; what is missing is zero.
pub(crate) fn quantity(value: &Value) -> Quantity {
    match value {
        Value::String(text) => Quantity::parse(text).unwrap_or(Quantity::ZERO),
        Value::Number(number) => Quantity::parse(&number.to_string()).unwrap_or(Quantity::ZERO),
        _ => Quantity::ZERO,
    }
}
