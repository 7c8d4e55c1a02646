//! Validation of a value against a schema, in the words of upstream's validator.
//!
//! Upstream collects errors of a generic JSON Schema validator and then turns them into field
//! errors; the odd corners of that (a message that begins with a space for the root, `<nil>` paths,
//! arrays that pass as formatted strings) are part of the API and are kept.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Map, Value};

use super::correlation::{self, Counterparts};
use super::number::{self, Number};
use super::{Additional, Branches, Limits, Node, Type, Types};
use crate::field::{FieldError, FieldErrorKind, FieldErrors, Path};
use crate::go;
use crate::shape::ListKind;

/// Where in the checked value something is. Unlike [`Path`] the root is empty text, and keys of
/// maps are written like fields.
pub(super) enum ValuePath<'a> {
    Root,
    Field(&'a Self, &'a str),
    /// A key that no property declares; upstream writes its dot even at the root.
    Entry(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) | Self::Entry(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// One error before it has its full path.
pub(super) struct Finding {
    kind: FieldErrorKind,
    /// The path, or nothing where upstream's error does not carry one.
    path: Option<String>,
    value: Option<String>,
    detail: String,
    /// What makes two errors the same.
    message: String,
}

impl Finding {
    fn new(kind: FieldErrorKind, path: &ValuePath<'_>, value: String, message: String) -> Self {
        let path = Some(path.to_string());
        Self { kind, path, value: Some(value), detail: message.clone(), message }
    }

    fn invalid(path: &ValuePath<'_>, value: &Value, message: String) -> Self {
        Self::new(FieldErrorKind::Invalid, path, go::shown(value), message)
    }

    pub(super) fn invalid_raw(path: &ValuePath<'_>, value: String, message: String) -> Self {
        Self::new(FieldErrorKind::Invalid, path, value, message)
    }

    /// An error that upstream reports without saying where.
    pub(super) fn without_path(message: String) -> Self {
        let value = Some(go::quote(""));
        let detail = message.clone();
        Self { kind: FieldErrorKind::Invalid, path: None, value, detail, message }
    }

    fn wrong_type(path: &ValuePath<'_>, wanted: &str, found: &str) -> Self {
        let message = format!("{path} in body must be of type {wanted}: {}", go::quote(found));
        Self::new(FieldErrorKind::TypeInvalid, path, go::quote(found), message)
    }

    fn required(path: &ValuePath<'_>, name: &str) -> Self {
        let message = format!("{path}.{name} in body is required");
        let path = Some(ValuePath::Entry(path, name).to_string());
        let detail = String::new();
        Self { kind: FieldErrorKind::Required, path, value: None, detail, message }
    }

    fn unsupported(path: &ValuePath<'_>, value: &Value, allowed: &[Value]) -> Self {
        let listed: Vec<String> = allowed
            .iter()
            .map(|v| v.as_str().map_or_else(|| go::quote(&go::json(v)), go::quote))
            .collect();
        let message = format!("{path} in body should be one of {}", listed.join(" "));
        let detail = format!("supported values: {}", listed.join(", "));
        let finding = Self::new(FieldErrorKind::NotSupported, path, go::shown(value), message);
        Self { detail, ..finding }
    }

    fn too_many(path: &ValuePath<'_>, actual: i64, most: i64, what: &str) -> Self {
        let message = format!("{path} in body should have at most {most} {what}");
        let unit = if most == 1 { "item" } else { "items" };
        let detail = format!("must have at most {most} {unit}");
        let finding = Self::new(FieldErrorKind::TooMany, path, actual.to_string(), message);
        Self { detail, ..finding }
    }

    fn too_long(path: &ValuePath<'_>, most: i64) -> Self {
        let message = format!("{path} in body should be at most {most} chars long");
        let unit = if most == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {most} {unit}");
        Self { detail, ..Self::new(FieldErrorKind::TooLong, path, String::new(), message) }
    }

    fn into_error(self, prefix: Option<&str>) -> FieldError {
        let path = self.path.as_deref().map(|p| p.strip_prefix('.').unwrap_or(p));
        let path = match (prefix, path.filter(|p| !p.is_empty())) {
            (None, None) => Path::root().to_string(),
            (None, Some(path)) => path.to_owned(),
            (Some(prefix), None) => prefix.to_owned(),
            (Some(prefix), Some(path)) => format!("{prefix}.{path}"),
        };
        FieldError { kind: self.kind, path, value: self.value, detail: self.detail }
    }
}

/// Where errors go. The branches of `anyOf` and `oneOf` are first tried without keeping any, so
/// that a value that is fine costs no allocation.
struct FindingSink<'s> {
    findings: Option<&'s mut Vec<Finding>>,
    /// How much text the findings have.
    bytes: usize,
    failed: bool,
}

/// Past this much text nothing more is found: an answer holds less.
const MAX_FINDING_BYTES: usize = 1 << 20;

impl FindingSink<'_> {
    const fn quiet() -> Self {
        Self { findings: None, bytes: 0, failed: false }
    }

    fn report(&mut self, finding: impl FnOnce() -> Finding) {
        self.failed = true;
        if let Some(findings) = &mut self.findings
            && self.bytes < MAX_FINDING_BYTES
        {
            let finding = finding();
            self.bytes += size_of::<Finding>() + finding.message.len() + finding.detail.len();
            findings.push(finding);
        }
    }
}

/// Checks `new` and adds what is wrong to `errors`, each path prefixed. Where `old` is given, what
/// equals its counterpart there is not checked.
pub(super) fn validate(
    node: &Node,
    new: &Value,
    old: Option<&Value>,
    prefix: Option<&str>,
    errors: &mut FieldErrors,
) {
    let mut findings = Vec::new();
    let mut sink = FindingSink { findings: Some(&mut findings), bytes: 0, failed: false };
    check(node, new, old, &ValuePath::Root, &mut sink);
    let mut seen = HashSet::new();
    findings.retain(|finding| seen.insert(finding.message.clone()));
    errors.extend(findings.into_iter().map(|finding| finding.into_error(prefix)));
}

/// Returns how many single checks matched: the branch of an `anyOf` that matched most is the one
/// whose errors are shown. The counting follows upstream's to the letter.
fn check(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &ValuePath<'_>,
    sink: &mut FindingSink<'_>,
) -> u32 {
    if old.is_some_and(|old| correlation::equal(node, value, old)) {
        return 0;
    }
    let limits = &node.limits;
    let mut matches = 0;
    if value.is_null() {
        matches += check_type(node, value, path, sink);
        if !limits.allowed.is_empty() {
            sink.report(|| Finding::unsupported(path, value, &limits.allowed));
        }
        return matches;
    }
    if node.types != Types::Any || limits.format.is_some() {
        matches += check_type(node, value, path, sink) + 1;
    }
    matches += match &node.branches {
        Some(branches) => check_branches(branches, value, path, sink),
        None => 1,
    } + 1;
    match value {
        Value::String(text) => {
            matches += 1 + check_text(limits, text, value, path, sink);
        }
        Value::Number(_) => {
            matches += 2;
            if let (Some(bounds), Some(number)) = (&limits.number, Number::of(value)) {
                bounds.check(number, path, &mut |finding| sink.report(finding));
            }
        }
        Value::Array(items) => {
            matches += check_items(node, items, old, path, sink) + 2;
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
    }
    if !limits.allowed.is_empty() && !limits.allows(value) {
        sink.report(|| Finding::unsupported(path, value, &limits.allowed));
    }
    matches += 1;
    if let Value::Object(members) = value {
        matches += check_members(node, members, old, path, sink) + 1;
    }
    matches + 1
}

fn check_type(node: &Node, value: &Value, path: &ValuePath<'_>, sink: &mut FindingSink<'_>) -> u32 {
    let types = node.types;
    let (found, found_format) = match value {
        Value::Null => {
            if types == Types::Any || node.nullable {
                return 1;
            }
            sink.report(|| Finding::wrong_type(path, types.text(), "null"));
            return 0;
        }
        Value::Bool(_) => (Type::Boolean, ""),
        Value::String(_) => (Type::String, ""),
        Value::Array(_) => (Type::Array, ""),
        Value::Object(_) => (Type::Object, ""),
        Value::Number(_) => match Number::of(value) {
            Some(Number::Int(_)) => (Type::Integer, "int64"),
            _ => (Type::Number, "float64"),
        },
    };
    let whole_float = found == Type::Number
        && types.contain(Type::Integer)
        && value.as_f64().is_some_and(number::is_json_integer);
    let int_as_number = found == Type::Integer && types.contain(Type::Number);
    let fits = types.contain(found) || whole_float || int_as_number;
    let text_or_list = matches!(value, Value::String(_) | Value::Array(_));
    if let Some((_, wanted)) = &node.limits.format {
        if !text_or_list && !fits && found_format != &**wanted {
            sink.report(|| Finding::wrong_type(path, wanted, found_format));
            return 0;
        }
        let numeric = types.contain(Type::Number) || types.contain(Type::Integer);
        if text_or_list && !numeric {
            return 1;
        }
    }
    if fits {
        return 1;
    }
    sink.report(|| Finding::wrong_type(path, types.text(), found.text()));
    0
}

fn check_text(
    limits: &Limits,
    text: &str,
    value: &Value,
    path: &ValuePath<'_>,
    sink: &mut FindingSink<'_>,
) -> u32 {
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(most) = limits.max_length.filter(|most| length() > *most) {
        sink.report(|| Finding::too_long(path, most));
    } else if let Some(least) = limits.min_length.filter(|least| length() < *least) {
        sink.report(|| {
            let message = format!("{path} in body should be at least {least} chars long");
            Finding::invalid(path, value, message)
        });
    } else if let Some((regex, pattern)) = &limits.pattern
        && !regex.is_match(text)
    {
        sink.report(|| {
            Finding::invalid(path, value, format!("{path} in body should match '{pattern}'"))
        });
    }
    match &limits.format {
        Some((format, name)) if !format.is_numeric() => {
            if !format.accepts(text) {
                sink.report(|| Finding::wrong_type(path, name, text));
            }
            1
        }
        _ => 0,
    }
}

fn check_items(
    node: &Node,
    items: &[Value],
    old: Option<&Value>,
    path: &ValuePath<'_>,
    sink: &mut FindingSink<'_>,
) -> u32 {
    let mut matches = 0;
    if let Some(item_node) = node.items.as_deref() {
        let counterparts = match (&node.list, old) {
            (Some(ListKind::Map(keys)), Some(Value::Array(old))) => {
                Some(Counterparts::new(keys, old))
            }
            _ => None,
        };
        for (index, item) in items.iter().enumerate() {
            let old_item = counterparts.as_ref().and_then(|old| old.of(item));
            matches += check(item_node, item, old_item, &ValuePath::Index(path, index), sink);
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(least) = node.limits.min_items.filter(|least| size < *least) {
        sink.report(|| {
            let message = format!("{path} in body should have at least {least} items");
            Finding::invalid_raw(path, size.to_string(), message)
        });
    }
    if let Some(most) = node.limits.max_items.filter(|most| size > *most) {
        sink.report(|| Finding::too_many(path, size, most, "items"));
    }
    matches
}

fn check_members(
    node: &Node,
    members: &Map<String, Value>,
    old: Option<&Value>,
    path: &ValuePath<'_>,
    sink: &mut FindingSink<'_>,
) -> u32 {
    let limits = &node.limits;
    let size = i64::try_from(members.len()).unwrap_or(i64::MAX);
    if let Some(least) = limits.min_properties.filter(|least| size < *least) {
        sink.report(|| {
            let message = format!("{path} in body should have at least {least} properties");
            Finding::invalid_raw(path, size.to_string(), message)
        });
    }
    if let Some(most) = limits.max_properties.filter(|most| size > *most) {
        sink.report(|| Finding::too_many(path, size, most, "properties"));
    }
    let at_root = matches!(path, ValuePath::Root);
    let mut matches = 0;
    for (key, value) in members {
        if let Some(property) = node.properties.get(key.as_str()) {
            // The root's type is never seen to change, so it is always checked.
            let correlated = !(at_root && matches!(key.as_str(), "kind" | "apiVersion"));
            let old = old.filter(|_| correlated).and_then(|old| old.get(key));
            matches += check(property, value, old, &ValuePath::Field(path, key), sink);
            continue;
        }
        match &node.additional {
            Additional::Schema(schema) => {
                let old = old.and_then(|old| old.get(key));
                matches += check(schema, value, old, &ValuePath::Entry(path, key), sink);
            }
            Additional::Denied => sink.report(|| {
                let message = format!("{path}.{key} in body is a forbidden property");
                Finding::invalid_raw(path, go::quote(key), message)
            }),
            Additional::Undeclared | Additional::Allowed => {}
        }
    }
    for name in &limits.required {
        if !members.contains_key(&**name) {
            sink.report(|| Finding::required(path, name));
        }
    }
    matches
}

fn check_branches(
    branches: &Branches,
    value: &Value,
    path: &ValuePath<'_>,
    sink: &mut FindingSink<'_>,
) -> u32 {
    let quoted = || go::quote(&path.to_string());
    let mut matches = 1;
    if !branches.any_of.is_empty() {
        let results = try_branches(&branches.any_of, value, path, true);
        matches += results.shown_matches;
        if results.valid == 0 {
            sink.report(|| {
                let path = quoted();
                Finding::without_path(format!("{path} must validate at least one schema (anyOf)"))
            });
            show_best(&results, value, path, sink);
        }
    }
    if !branches.one_of.is_empty() {
        let results = try_branches(&branches.one_of, value, path, false);
        if results.valid != 1 {
            sink.report(|| {
                let why = match results.valid {
                    0 => "Found none valid".to_owned(),
                    valid => format!("Found {valid} valid alternatives"),
                };
                let path = quoted();
                Finding::without_path(format!(
                    "{path} must validate one and only one schema (oneOf). {why}"
                ))
            });
        }
        // Several valid alternatives count for nothing.
        if results.valid <= 1 {
            matches += results.shown_matches;
        }
        if results.valid == 0 {
            show_best(&results, value, path, sink);
        }
    }
    if !branches.all_of.is_empty() {
        let failed_before = std::mem::take(&mut sink.failed);
        let mut valid = 0;
        let mut failed = failed_before;
        for branch in &branches.all_of {
            matches += check(branch, value, None, path, sink);
            failed |= sink.failed;
            valid += usize::from(!std::mem::take(&mut sink.failed));
        }
        sink.failed = failed;
        if valid != branches.all_of.len() {
            sink.report(|| {
                let none = if valid == 0 { ". None validated" } else { "" };
                let path = quoted();
                Finding::without_path(format!("{path} must validate all the schemas (allOf){none}"))
            });
        }
    }
    if let Some(not) = &branches.not {
        let mut quiet = FindingSink::quiet();
        check(not, value, None, path, &mut quiet);
        if !quiet.failed {
            sink.report(|| {
                Finding::without_path(format!("{} must not validate the schema (not)", quoted()))
            });
        }
    }
    matches
}

/// The results of the branches of an `anyOf` or `oneOf`.
struct BranchResults<'n> {
    valid: usize,
    /// The failed branch that matched most, while none is valid.
    best: Option<&'n Node>,
    /// The matches of the branch whose result is kept: the first valid one, else the best.
    shown_matches: u32,
}

fn try_branches<'n>(
    branches: &'n [Node],
    value: &Value,
    path: &ValuePath<'_>,
    stop_at_first: bool,
) -> BranchResults<'n> {
    let mut results = BranchResults { valid: 0, best: None, shown_matches: 0 };
    for branch in branches {
        let mut quiet = FindingSink::quiet();
        let matches = check(branch, value, None, path, &mut quiet);
        if !quiet.failed {
            if results.valid == 0 {
                results.shown_matches = matches;
            }
            results.valid += 1;
            results.best = None;
            if stop_at_first {
                break;
            }
        } else if results.valid == 0 && (results.best.is_none() || matches > results.shown_matches)
        {
            results.best = Some(branch);
            results.shown_matches = matches;
        }
    }
    results
}

fn show_best(
    results: &BranchResults<'_>,
    value: &Value,
    path: &ValuePath<'_>,
    sink: &mut FindingSink<'_>,
) {
    if let (Some(best), true) = (results.best, sink.findings.is_some()) {
        check(best, value, None, path, sink);
    }
}

impl Limits {
    /// Whether the value is one of those that `enum` lists.
    fn allows(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.allowed_texts.contains(text.as_str()),
            value => self.allowed.iter().any(|allowed| is_allowed(value, allowed)),
        }
    }
}

/// Upstream converts the value to the type of the listed one before it compares: a float is
/// truncated to an integer, an integer becomes the character of that code.
fn is_allowed(value: &Value, allowed: &Value) -> bool {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::float_cmp,
        reason = "Go's conversion does the same"
    )]
    match (Number::of(value), Number::of(allowed)) {
        (Some(Number::Float(value)), Some(Number::Int(allowed))) => value as i64 == allowed,
        (Some(Number::Int(value)), Some(Number::Float(allowed))) => value as f64 == allowed,
        (Some(Number::Int(value)), None) => allowed.as_str().is_some_and(|allowed| {
            let code = u32::try_from(value).ok().and_then(char::from_u32);
            let mut buffer = [0_u8; 4];
            *allowed == *code.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut buffer)
        }),
        _ => value == allowed,
    }
}
