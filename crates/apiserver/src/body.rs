//! Request bodies as text: JSON read strictly, YAML turned into it.
//!
//! Reading goes on past repeated members, which are told by path as upstream tells them; what to do
//! about them depends on the request's field validation. Texts that cannot be read are explained in
//! the words of Go's parser, because clients print them and people search for them.

mod syntax;

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::go;
use crate::json::budget::{Budget, ITEM_BYTES, MAP_BYTES, TooLarge};
use crate::status::ApiError;

/// As many strict errors as upstream collects.
const MAX_STRICT_ERRORS: usize = 100;

/// Limits on YAML, where a short text can stand for a large value.
/// Its reader recurses, with frames so large that twice this overflows a thread's stack in builds
/// without optimisation.
const MAX_YAML_DEPTH: usize = 64;
const MAX_YAML_NODES: usize = 1_000_000;
const MAX_YAML_REPLAYED_EVENTS: usize = 100_000;

/// A body, read.
#[derive(Debug, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) value: Value,
    /// `duplicate field "spec.a"` for each member that came more than once; the last one counts.
    pub(crate) duplicates: Vec<String>,
}

/// A body that is not what it claims to be, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseError {
    #[error("{0}")]
    Json(String),
    #[error("{0}")]
    Yaml(String),
    /// Read no further.
    #[error("{0}")]
    TooLarge(#[from] TooLarge),
}

impl ParseError {
    /// What the client is told: 413 for what is too large, else what `otherwise` makes of it.
    pub(crate) fn answer(self, otherwise: impl FnOnce(&Self) -> ApiError) -> ApiError {
        match self {
            Self::TooLarge(why) => why.into(),
            Self::Json(_) | Self::Yaml(_) => otherwise(&self),
        }
    }
}

pub(crate) fn parse_json(body: &[u8]) -> Result<Parsed, ParseError> {
    parse_json_within(body, &Budget::new())
}

/// The same for a part of a body that is charged as a whole.
pub(crate) fn parse_json_within(body: &[u8], budget: &Budget) -> Result<Parsed, ParseError> {
    match std::str::from_utf8(body) {
        Ok(text) => parse_json_text(text, body, budget),
        // Go replaces bytes that are no text.
        Err(_) => parse_json_text(&String::from_utf8_lossy(body), body, budget),
    }
}

fn parse_json_text(text: &str, raw: &[u8], budget: &Budget) -> Result<Parsed, ParseError> {
    let mut duplicates = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let seed = ValueSeed { path: MemberPath::Root, duplicates: &mut duplicates, budget };
    let value = seed
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| {
            if budget.is_exceeded() {
                return ParseError::TooLarge(TooLarge);
            }
            let explained = syntax::explain(raw);
            ParseError::Json(explained.unwrap_or_else(|| error.to_string()))
        })?;
    Ok(Parsed { value, duplicates })
}

/// Reads YAML, and JSON too, which clients like to send under YAML's name. Of several documents the
/// first counts; none is `null`.
pub(crate) fn parse_yaml(body: &[u8]) -> Result<Parsed, ParseError> {
    // What is wrong with it is told in YAML's words.
    let mut json = None;
    if body.trim_ascii_start().starts_with(b"{") {
        match parse_json(body) {
            Ok(parsed) if parsed.duplicates.is_empty() => return Ok(parsed),
            Ok(parsed) => json = Some(parsed.value),
            Err(error @ ParseError::TooLarge(_)) => return Err(error),
            Err(_) => {}
        }
    }
    use serde_saphyr::options::DuplicateKeyPolicy::{Error, LastWins};
    // Reading YAML takes long, and most of it has no duplicates.
    let duplicate = match read_yaml(body, Error) {
        Ok(value) => return Ok(Parsed { value, duplicates: Vec::new() }),
        Err(YamlError::Syntax(error)) if duplicate_key(&error).is_some() => duplicate_key(&error),
        Err(error) => return Err(error.into()),
    };
    let value = match json {
        Some(value) => value,
        None => read_yaml(body, LastWins)?,
    };
    Ok(Parsed { value, duplicates: duplicate.into_iter().collect() })
}

fn read_yaml(
    mut body: &[u8],
    duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy,
) -> Result<Value, YamlError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_YAML_DEPTH,
            max_nodes: MAX_YAML_NODES,
        },
        duplicate_keys: duplicate_keys,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_YAML_REPLAYED_EVENTS,
        },
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    // A text in memory is read faster than a stream, which is needed to stop after a first document.
    if let Some(text) = single_document(body) {
        let mut exceeded = false;
        let read = serde_saphyr::with_deserializer_from_str_with_options(
            text,
            options.clone(),
            |deserializer| {
                let read = Bounded::deserialize(deserializer)?;
                exceeded = read.0.is_err();
                Ok(read)
            },
        );
        match read {
            // It was left before its end, which is an error of its own to the reader; nothing is read again.
            _ if exceeded => return Err(TooLarge.into()),
            Ok(Bounded(read)) => return Ok(read?),
            // There is no document, or something stands behind it.
            Err(
                serde_saphyr::Error::Eof { .. } | serde_saphyr::Error::MultipleDocuments { .. },
            ) => {}
            Err(error) => return Err(YamlError::Syntax(error)),
        }
    }
    let mut documents = serde_saphyr::read_with_options(&mut body, options);
    match documents.next() {
        Some(Ok(Bounded(Ok(value)))) => Ok(value),
        Some(Ok(Bounded(Err(error)))) => Err(error.into()),
        Some(Err(error)) => Err(YamlError::Syntax(error)),
        None => Ok(Value::Null),
    }
}

/// The text, if it can hold no more than one document.
fn single_document(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?;
    let is_mark = |line: &str| line.starts_with("---") || line.starts_with("...");
    // A mark on the first line begins the first document.
    let (_, rest) = text.split_once('\n').unwrap_or_default();
    let breaks = ['\n', '\r'];
    (!rest.split(breaks).any(is_mark)).then_some(text)
}

/// Why YAML was not read.
#[derive(Debug, thiserror::Error)]
enum YamlError {
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error(transparent)]
    Syntax(serde_saphyr::Error),
}

impl From<YamlError> for ParseError {
    fn from(error: YamlError) -> Self {
        match error {
            YamlError::TooLarge(error) => Self::TooLarge(error),
            YamlError::Syntax(error) => Self::Yaml(format!("yaml: {}", error.without_snippet())),
        }
    }
}

/// A value that is charged for while it is read.
struct Bounded(Result<Value, TooLarge>);

impl<'de> Deserialize<'de> for Bounded {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (budget, mut duplicates) = (Budget::new(), Vec::new());
        let seed =
            ValueSeed { path: MemberPath::Root, duplicates: &mut duplicates, budget: &budget };
        match seed.deserialize(deserializer) {
            Err(_) if budget.is_exceeded() => Ok(Self(Err(TooLarge))),
            read => read.map(|value| Self(Ok(value))),
        }
    }
}

fn duplicate_key(error: &serde_saphyr::Error) -> Option<String> {
    match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key, location } => {
            let (line, key) = (location.line(), go::quote(key.as_deref().unwrap_or_default()));
            Some(format!("yaml: unmarshal errors:\n  line {line}: key {key} already set in map"))
        }
        _ => None,
    }
}

/// What a body says it is; empty where it says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TypeMeta<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
}

impl<'a> TypeMeta<'a> {
    pub(crate) fn of(body: &'a Value) -> Result<Self, ParseError> {
        let refuse = |value: &Value, of: &str| {
            let found = match value {
                Value::Null => "null",
                Value::Bool(_) => "bool",
                Value::Number(_) => "number",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            };
            ParseError::Json(format!("json: cannot unmarshal {found} into Go {of}"))
        };
        let member = |members: &'a Map<String, Value>, name: &str| match members.get(name) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(other) => Err(refuse(other, &format!("struct field .{name} of type string"))),
        };
        match body {
            Value::Null => Ok(Self::default()),
            Value::Object(members) => Ok(Self {
                api_version: member(members, "apiVersion")?,
                kind: member(members, "kind")?,
            }),
            other => Err(refuse(
                other,
                r#"value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#,
            )),
        }
    }
}

/// The message of the 400 with which a body of unknown kind is refused.
pub(crate) fn unrecognized(wanted_kind: &str, error: &ParseError, body: &[u8]) -> String {
    const MAX_SHOWN_BYTES: usize = 30;
    let mut summary = match body {
        [] => "<empty>".to_owned(),
        [b'{', ..] => {
            String::from_utf8_lossy(&body[..body.len().min(MAX_SHOWN_BYTES)]).into_owned()
        }
        _ => hex::encode(&body[..body.len().min(MAX_SHOWN_BYTES)]),
    };
    if body.len() > MAX_SHOWN_BYTES {
        summary.push_str(" ...");
    }
    let stage = match error {
        ParseError::Json(_) => "couldn't get version/kind; json parse error: ",
        ParseError::Yaml(_) | ParseError::TooLarge(_) => "",
    };
    format!(
        "the object provided is unrecognized (must be of type {wanted_kind}): {stage}{error} \
         ({summary})"
    )
}

/// The strict errors of a typed body: its duplicates, but for those within unknown members, which
/// upstream does not look into, then its unknown members.
pub(crate) fn strict_errors(mut duplicates: Vec<String>, unknown: Vec<String>) -> Vec<String> {
    if !unknown.is_empty() {
        duplicates.retain(|duplicate| {
            let Some(path) = quoted_path(duplicate, "duplicate field ") else {
                return true;
            };
            !unknown.iter().filter_map(|text| quoted_path(text, "unknown field ")).any(|above| {
                path.strip_prefix(above)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            })
        });
    }
    duplicates.extend(unknown);
    duplicates.truncate(MAX_STRICT_ERRORS);
    duplicates
}

fn quoted_path<'a>(text: &'a str, what: &str) -> Option<&'a str> {
    text.strip_prefix(what)?.strip_prefix('"')?.strip_suffix('"')
}

/// Where reading is; printed only when a member repeats.
#[derive(Clone, Copy)]
enum MemberPath<'a> {
    Root,
    Member { parent: &'a Self, name: &'a str },
    Item { parent: &'a Self, index: usize },
}

impl fmt::Display for MemberPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Member { parent: MemberPath::Root, name } => f.write_str(name),
            Self::Member { parent, name } => write!(f, "{parent}.{name}"),
            Self::Item { parent, index } => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Builds a [`Value`] as serde_json does, and notes repeated members on the way.
struct ValueSeed<'a> {
    path: MemberPath<'a>,
    duplicates: &'a mut Vec<String>,
    budget: &'a Budget,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.budget.take_text(value.len()).map_err(E::custom)?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        self.budget.take_text(value.len()).map_err(E::custom)?;
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = MemberPath::Item { parent: &self.path, index: list.len() };
            let seed = ValueSeed { path, duplicates: self.duplicates, budget: self.budget };
            match items.next_element_seed(seed)? {
                Some(item) => {
                    self.budget.take(ITEM_BYTES).map_err(A::Error::custom)?;
                    list.push(item);
                }
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.is_empty() {
                self.budget.take(MAP_BYTES).map_err(A::Error::custom)?;
            }
            self.budget.take_member(&name).map_err(A::Error::custom)?;
            let path = MemberPath::Member { parent: &self.path, name: &name };
            if object.contains_key(&name) && self.duplicates.len() < MAX_STRICT_ERRORS {
                let duplicate = format!("duplicate field {}", go::quote(&path.to_string()));
                if !self.duplicates.contains(&duplicate) {
                    self.duplicates.push(duplicate);
                }
            }
            let seed = ValueSeed { path, duplicates: self.duplicates, budget: self.budget };
            let value = members.next_value_seed(seed)?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests;
