//! Metadata of an embedded resource: its type, as Go decodes it, and its rules.

use serde_json::{Map, Value};

use crate::field::{FieldError, FieldErrors, Path};
use crate::go;
use crate::json::Access;
use crate::name;
use crate::schema::number::Number;

/// Metadata that does not decode, in the words of Go's JSON package.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta")]
    NotAnObject { found: String },
    #[error("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}")]
    WrongType { found: String, field: String, wanted: String },
    #[error("{0}")]
    BadTime(String),
}

impl DecodeError {
    /// Go shows a number that is no integer.
    fn with_number(self, number: &Value) -> Self {
        match self {
            Self::WrongType { field, wanted, .. } => {
                Self::WrongType { found: format!("number {}", go::json(number)), field, wanted }
            }
            other => other,
        }
    }
}

/// The type of one member.
#[derive(Clone, Copy)]
enum Kind {
    Text(&'static str),
    /// A pointer to a boolean: `false` is kept.
    Flag,
    Int,
    /// A pointer to an integer: zero is kept.
    OptionalInt,
    Time,
    TextMap,
    TextList,
    /// Whatever JSON it is.
    Raw,
    /// A list of structs of this Go type.
    Structs(&'static str, &'static [Member]),
}

struct Member {
    name: &'static str,
    kind: Kind,
    /// Written even when empty.
    always: bool,
}

const fn member(name: &'static str, kind: Kind) -> Member {
    Member { name, kind, always: false }
}

const fn always(name: &'static str, kind: Kind) -> Member {
    Member { name, kind, always: true }
}

const TEXT: Kind = Kind::Text("string");
const UID: Kind = Kind::Text("types.UID");

static OBJECT_META: [Member; 15] = [
    member("name", TEXT),
    member("generateName", TEXT),
    member("namespace", TEXT),
    member("selfLink", TEXT),
    member("uid", UID),
    member("resourceVersion", TEXT),
    member("generation", Kind::Int),
    member("creationTimestamp", Kind::Time),
    member("deletionTimestamp", Kind::Time),
    member("deletionGracePeriodSeconds", Kind::OptionalInt),
    member("labels", Kind::TextMap),
    member("annotations", Kind::TextMap),
    member("ownerReferences", Kind::Structs("OwnerReference", &OWNER_REFERENCE)),
    member("finalizers", Kind::TextList),
    member("managedFields", Kind::Structs("ManagedFieldsEntry", &MANAGED_FIELDS_ENTRY)),
];

static OWNER_REFERENCE: [Member; 6] = [
    always("apiVersion", TEXT),
    always("kind", TEXT),
    always("name", TEXT),
    always("uid", UID),
    member("controller", Kind::Flag),
    member("blockOwnerDeletion", Kind::Flag),
];

static MANAGED_FIELDS_ENTRY: [Member; 7] = [
    member("manager", TEXT),
    member("operation", Kind::Text("v1.ManagedFieldsOperationType")),
    member("apiVersion", TEXT),
    member("time", Kind::Time),
    member("fieldsType", TEXT),
    member("fieldsV1", Kind::Raw),
    member("subresource", TEXT),
];

/// Decodes and writes back: unknown and empty members are gone. The paths of unknown ones are
/// added to `unknown`.
pub(super) fn decode(
    metadata: &Value,
    unknown: &mut Vec<String>,
) -> Result<Map<String, Value>, DecodeError> {
    match metadata {
        Value::Null => Ok(Map::new()),
        Value::Object(members) => {
            decode_struct(members, &OBJECT_META, &DecodePosition::ROOT, unknown)
        }
        other => Err(DecodeError::NotAnObject { found: go_kind(other) }),
    }
}

/// Where decoding is: as unknown members are reported, and as Go names a struct's field.
struct DecodePosition {
    path: String,
    struct_name: &'static str,
    fields: String,
}

impl DecodePosition {
    const ROOT: Self =
        Self { path: String::new(), struct_name: "ObjectMeta", fields: String::new() };

    fn wrong_type(&self, name: &str, found: &Value, wanted: impl Into<String>) -> DecodeError {
        let field = format!("{}.{}{name}", self.struct_name, self.fields);
        DecodeError::WrongType { found: go_kind(found), field, wanted: wanted.into() }
    }
}

fn decode_struct(
    members: &Map<String, Value>,
    table: &[Member],
    position: &DecodePosition,
    unknown: &mut Vec<String>,
) -> Result<Map<String, Value>, DecodeError> {
    let mut decoded = Map::new();
    for (key, value) in members {
        match table.iter().find(|m| m.name == key) {
            None => unknown.push(format!("{}{key}", position.path)),
            Some(member) => {
                if let Some(value) = decode_member(value, member, position, unknown)? {
                    decoded.insert(key.clone(), value);
                }
            }
        }
    }
    for member in table.iter().filter(|m| m.always) {
        decoded.entry(member.name).or_insert_with(|| Value::String(String::new()));
    }
    Ok(decoded)
}

/// The member as it is written back, or nothing if it is empty.
fn decode_member(
    value: &Value,
    member: &Member,
    position: &DecodePosition,
    unknown: &mut Vec<String>,
) -> Result<Option<Value>, DecodeError> {
    let wrong = |value: &Value, wanted: &str| position.wrong_type(member.name, value, wanted);
    // Null is the zero value of every Go type.
    let text = |value: &Value, wanted: &str| match value {
        Value::Null => Ok(Value::String(String::new())),
        Value::String(_) => Ok(value.clone()),
        other => Err(wrong(other, wanted)),
    };
    if value.is_null() {
        return Ok(None);
    }
    let decoded = match (member.kind, value) {
        (Kind::Text(wanted), value) => {
            text(value, wanted).map(|text| Some(text).filter(|t| t != ""))?
        }
        (Kind::Flag, Value::Bool(_)) | (Kind::Raw, _) => Some(value.clone()),
        (Kind::Flag, other) => return Err(wrong(other, "bool")),
        (Kind::Int | Kind::OptionalInt, Value::Number(_)) => {
            let Some(int) = Number::of(value).and_then(Number::whole) else {
                let error = position.wrong_type(member.name, value, "int64");
                return Err(error.with_number(value));
            };
            let keep = int != 0 || matches!(member.kind, Kind::OptionalInt);
            keep.then(|| Value::from(int))
        }
        (Kind::Int | Kind::OptionalInt, other) => return Err(wrong(other, "int64")),
        (Kind::Time, Value::String(text)) => {
            let time = go::time::canonical(text, go::time::Precision::Seconds);
            time.map_err(DecodeError::BadTime)?.map(Value::String)
        }
        (Kind::Time, other) => return Err(wrong(other, "string")),
        (Kind::TextMap, Value::Object(members)) => {
            let entries = members.iter().map(|(k, v)| Ok((k.clone(), text(v, "string")?)));
            let decoded = entries.collect::<Result<Map<_, _>, _>>()?;
            (!decoded.is_empty()).then_some(Value::Object(decoded))
        }
        (Kind::TextMap, other) => return Err(wrong(other, "map[string]string")),
        (Kind::TextList, Value::Array(items)) => {
            let items = items.iter().map(|item| text(item, "string"));
            let decoded = items.collect::<Result<Vec<_>, _>>()?;
            (!decoded.is_empty()).then_some(Value::Array(decoded))
        }
        (Kind::TextList, other) => return Err(wrong(other, "[]string")),
        (Kind::Structs(struct_name, table), Value::Array(items)) => {
            let mut decoded = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let Some(members) = item.as_object() else {
                    return Err(wrong(item, &format!("v1.{struct_name}")));
                };
                let path = format!("{}{}[{index}].", position.path, member.name);
                let fields = format!("{}{}.", position.fields, member.name);
                let inner = DecodePosition { path, struct_name, fields };
                decoded.push(Value::Object(decode_struct(members, table, &inner, unknown)?));
            }
            (!decoded.is_empty()).then_some(Value::Array(decoded))
        }
        (Kind::Structs(struct_name, _), other) => {
            return Err(wrong(other, &format!("[]v1.{struct_name}")));
        }
    };
    Ok(decoded)
}

/// What Go's JSON package calls a value in its errors.
fn go_kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

/// Total size of annotations.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// Validates decoded metadata. Names are loose: any segment of a URL path will do.
pub(super) fn validate(metadata: &Map<String, Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut refuse = |at: &Path<'_>, value: &str, details: Vec<String>| {
        errors.extend(details.into_iter().map(|d| FieldError::invalid_text(at, value, d)));
    };
    let generate_name = metadata.text("generateName");
    let mut prefix_problems = name::path_segment(generate_name);
    prefix_problems.retain(|p| !p.starts_with("may not be"));
    refuse(&path.field("generateName"), generate_name, prefix_problems);
    refuse(&path.field("name"), metadata.text("name"), name::path_segment(metadata.text("name")));
    let namespace = metadata.text("namespace");
    if !namespace.is_empty() {
        refuse(&path.field("namespace"), namespace, name::dns1123_label(namespace));
    }
    let labels = path.field("labels");
    for (key, value) in metadata.entries("labels") {
        refuse(&labels, key, name::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        refuse(&labels, value, name::label_value(value));
    }
    let annotations = path.field("annotations");
    let mut size = 0;
    for (key, value) in metadata.entries("annotations") {
        refuse(&annotations, key, name::qualified_name(&key.to_lowercase()));
        size += key.len() + value.as_str().unwrap_or_default().len();
    }
    let finalizers = path.field("finalizers");
    for finalizer in metadata.list("finalizers").iter().filter_map(Value::as_str) {
        refuse(&finalizers, finalizer, name::qualified_name(finalizer));
    }
    if size > MAX_ANNOTATIONS_BYTES {
        errors.push(FieldError::too_long(&annotations, MAX_ANNOTATIONS_BYTES));
    }
    if metadata.int("generation").is_some_and(|generation| generation < 0) {
        let at = path.field("generation");
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&at, metadata.at("generation"), detail));
    }
    validate_owners(metadata.at("ownerReferences"), &path.field("ownerReferences"), errors);
}

fn validate_owners(owners: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut controller: Option<String> = None;
    for owner in owners.as_array().into_iter().flatten() {
        let api_version = owner.text("apiVersion");
        let version = api_version.split_once('/').map_or(api_version, |(_, version)| version);
        if version.is_empty() {
            let at = path.field("apiVersion");
            errors.push(FieldError::invalid_text(&at, api_version, "version must not be empty"));
        }
        for key in ["kind", "name", "uid"] {
            if owner.text(key).is_empty() {
                errors.push(FieldError::invalid_text(&path.field(key), "", "must not be empty"));
            }
        }
        if owner.flag("controller") {
            let this = format!("{}/{}", owner.text("kind"), owner.text("name"));
            match &controller {
                Some(first) => errors.push(FieldError::invalid(
                    path,
                    owners,
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {this}"
                    ),
                )),
                None => controller = Some(this),
            }
        }
    }
}
