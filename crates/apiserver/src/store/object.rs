//! One stored object: its JSON as it is served, and the few members that queries ask for.
//!
//! The text is laid out so that serving needs no parsing: a header with `apiVersion` and `kind`
//! (swapped when another version of the kind is asked for), then `metadata` with
//! `resourceVersion` first, so that the writer only splices digits in at a known place.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::interned_text::InternedText;
use crate::json::{Access, Object};

const METADATA_OPEN: &str = r#""metadata":{"resourceVersion":""#;

/// An object in the store at one version.
#[derive(Debug)]
pub(crate) struct StoredObject {
    /// `namespace/name`, or `name` for kinds without a namespace. Sorts as upstream lists.
    pub(crate) key: Arc<str>,
    pub(crate) version: u64,
    pub(crate) index: ObjectIndex,
    text: InternedText,
    body_at: u16,
}

/// What selectors, garbage collection and expiry ask of an object without parsing it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ObjectIndex {
    pub(crate) uid: Box<str>,
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the kind's selectable fields, in the kind's order.
    pub(crate) fields: Box<[Box<str>]>,
    /// The uids in `metadata.ownerReferences`.
    pub(crate) owners: Box<[Box<str>]>,
    /// Unix seconds after which the object is removed by itself (Events).
    pub(crate) expires: Option<i64>,
    pub(crate) deleting: bool,
}

/// An object about to be written: everything but its version.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) index: ObjectIndex,
    header: Box<str>,
    /// The text after the digits of `resourceVersion`.
    tail: Vec<u8>,
}

/// `{"apiVersion":"…","kind":"…",`
pub(crate) fn header(api_version: &str, kind: &str) -> String {
    format!(r#"{{"apiVersion":{},"kind":{},"#, Value::from(api_version), Value::from(kind))
}

impl Draft {
    /// Serialises `object`; `header` comes from [`header`].
    pub(crate) fn new(object: &Object, header: &str, fields: Box<[Box<str>]>) -> Self {
        let mut tail = Vec::with_capacity(1024);
        tail.push(b'"');
        for (key, value) in object.entries("metadata").filter(|(k, _)| *k != "resourceVersion") {
            tail.push(b',');
            member(&mut tail, key, value);
        }
        tail.push(b'}');
        for (key, value) in object {
            if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                tail.push(b',');
                member(&mut tail, key, value);
            }
        }
        tail.push(b'}');
        let metadata = object.at("metadata");
        let labels = metadata
            .entries("labels")
            .map(|(k, v)| (k.as_str().into(), v.as_str().unwrap_or_default().into()))
            .collect();
        let owners =
            metadata.list("ownerReferences").iter().map(|o| o.text("uid").into()).collect();
        let index = ObjectIndex {
            uid: metadata.text("uid").into(),
            labels,
            fields,
            owners,
            expires: None,
            deleting: metadata.get("deletionTimestamp").is_some(),
        };
        Self { index, header: header.into(), tail }
    }

    pub(crate) fn expiring_at(mut self, unix_seconds: i64) -> Self {
        self.index.expires = Some(unix_seconds);
        self
    }

    /// The object as a dry run shows it: it has no version yet.
    pub(crate) fn without_version(&self, key: Arc<str>) -> StoredObject {
        let body_at = self.header.len();
        // The tail begins with the quote that ends the version, and a comma.
        let rest = self.tail.get(2..).unwrap_or_default();
        let json = [self.header.as_bytes(), br#""metadata":{"#, rest].concat();
        self.stored(key, 0, &json, body_at)
    }

    fn stored(&self, key: Arc<str>, version: u64, json: &[u8], body_at: usize) -> StoredObject {
        StoredObject {
            key,
            version,
            index: self.index.clone(),
            text: InternedText::of(json),
            body_at: u16::try_from(body_at).expect("group, version and kind are short"),
        }
    }

    /// The object at `version`.
    pub(crate) fn at_version(&self, key: Arc<str>, version: u64) -> StoredObject {
        let digits = version.to_string();
        let body_at = self.header.len();
        let size = body_at + METADATA_OPEN.len() + digits.len() + self.tail.len();
        let mut json = Vec::with_capacity(size);
        json.extend_from_slice(self.header.as_bytes());
        json.extend_from_slice(METADATA_OPEN.as_bytes());
        json.extend_from_slice(digits.as_bytes());
        json.extend_from_slice(&self.tail);
        self.stored(key, version, &json, body_at)
    }
}

fn member(out: &mut Vec<u8>, key: &str, value: &Value) {
    serde_json::to_writer(&mut *out, key).expect("writing JSON to memory cannot fail");
    out.push(b':');
    serde_json::to_writer(out, value).expect("writing JSON to memory cannot fail");
}

impl StoredObject {
    /// The whole object in its storage version.
    pub(crate) fn json(&self) -> Cow<'_, [u8]> {
        self.text.whole()
    }

    /// How long [`Self::json`] is.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether [`Self::json`] begins with this header.
    pub(crate) fn has_header(&self, header: &str) -> bool {
        self.text.own().starts_with(header.as_bytes())
    }

    /// Appends the text after the header: put one (or `{`) before it to get an object.
    pub(crate) fn write_body(&self, out: &mut Vec<u8>) {
        self.text.write_from(usize::from(self.body_at), out);
    }

    pub(crate) fn to_value(&self) -> Object {
        serde_json::from_slice(&self.json()).expect("what is stored was serialised here")
    }

    /// The same state under another version: what a DELETED event carries.
    pub(crate) fn at_version(&self, version: u64) -> Self {
        let start = usize::from(self.body_at) + METADATA_OPEN.len();
        let old = self.text.own()[start..].iter().position(|b| *b == b'"').unwrap_or(0);
        Self {
            key: self.key.clone(),
            version,
            index: self.index.clone(),
            text: self.text.replacing(start..start + old, version.to_string().as_bytes()),
            body_at: self.body_at,
        }
    }

    /// The same object with other selectable fields in its index.
    pub(crate) fn with_fields(&self, fields: Box<[Box<str>]>) -> Self {
        let index = ObjectIndex { fields, ..self.index.clone() };
        Self {
            key: self.key.clone(),
            version: self.version,
            index,
            text: self.text.clone(),
            body_at: self.body_at,
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        split_key(&self.key).0
    }

    pub(crate) fn name(&self) -> &str {
        split_key(&self.key).1
    }

    /// Takes an object back from disk. Selectable fields are filled in by whoever knows the kind.
    pub(crate) fn load(
        key: Arc<str>,
        version: u64,
        expires: Option<i64>,
        json: &[u8],
    ) -> Result<Self, LoadError> {
        let damaged = |why: &str| LoadError { key: key.to_string(), why: why.to_owned() };
        let parsed: OnDisk<'_> =
            serde_json::from_slice(json).map_err(|e| damaged(&e.to_string()))?;
        let header = header(&parsed.api_version, &parsed.kind);
        if !json.starts_with(header.as_bytes()) {
            return Err(damaged("the text does not begin with apiVersion and kind"));
        }
        let body_at = u16::try_from(header.len()).map_err(|_| damaged("the header is too long"))?;
        let metadata = parsed.metadata;
        let index = ObjectIndex {
            uid: metadata.uid.as_ref().into(),
            labels: metadata
                .labels
                .iter()
                .map(|(k, v)| (k.as_ref().into(), v.as_ref().into()))
                .collect(),
            fields: Box::new([]),
            owners: metadata.owner_references.iter().map(|o| o.uid.as_ref().into()).collect(),
            expires,
            deleting: metadata.deletion_timestamp.is_some(),
        };
        Ok(Self { key, version, index, text: InternedText::of(json), body_at })
    }
}

/// `namespace/name` or `name`.
pub(crate) fn key(namespace: &str, name: &str) -> Arc<str> {
    if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}").into() }
}

pub(crate) fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// A row that cannot be read back.
#[derive(Debug, thiserror::Error)]
#[error("object {key} cannot be read: {why}")]
pub(crate) struct LoadError {
    key: String,
    why: String,
}

type Borrowed<'a> = std::borrow::Cow<'a, str>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OnDisk<'a> {
    #[serde(borrow)]
    api_version: Borrowed<'a>,
    #[serde(borrow)]
    kind: Borrowed<'a>,
    #[serde(borrow)]
    metadata: OnDiskMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OnDiskMetadata<'a> {
    #[serde(borrow, default)]
    uid: Borrowed<'a>,
    #[serde(borrow, default)]
    labels: std::collections::BTreeMap<Borrowed<'a>, Borrowed<'a>>,
    #[serde(borrow, default)]
    owner_references: Vec<OnDiskOwner<'a>>,
    #[serde(borrow, default)]
    deletion_timestamp: Option<Borrowed<'a>>,
}

#[derive(Deserialize)]
struct OnDiskOwner<'a> {
    #[serde(borrow, default)]
    uid: Borrowed<'a>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample() -> Object {
        let value = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
            "metadata": {
                "name": "x", "namespace": "ns", "uid": "u", "labels": {"l": "v"},
                "resourceVersion": "3", "ownerReferences": [{"uid": "o"}],
                // Long enough to be kept apart from the rest.
                "managedFields": [{"fieldsV1": {"f:data": {"f:a": {}, format!("f:{:0100}", 1): {}}}}],
            },
        });
        value.as_object().unwrap().clone()
    }

    fn body(stored: &StoredObject) -> Vec<u8> {
        let mut body = Vec::new();
        stored.write_body(&mut body);
        body
    }

    #[test]
    fn the_version_is_spliced_in_and_can_be_replaced() {
        let draft = Draft::new(&sample(), &header("v1", "ConfigMap"), Box::new([]));
        let stored = draft.at_version(key("ns", "x"), 41);
        let mut expected = sample();
        expected["metadata"]["resourceVersion"] = json!("41");
        assert_eq!(stored.to_value(), expected);
        let later = stored.at_version(1_000);
        expected["metadata"]["resourceVersion"] = json!("1000");
        assert_eq!(later.to_value(), expected);
        assert_eq!((later.namespace(), later.name()), ("ns", "x"));
        assert!(body(&stored).starts_with(b"\"metadata\""));
    }

    #[test]
    fn what_is_loaded_equals_what_was_stored() {
        let draft = Draft::new(&sample(), &header("v1", "ConfigMap"), Box::new([]));
        let stored = draft.at_version(key("ns", "x"), 41);
        let loaded = StoredObject::load(stored.key.clone(), 41, None, &stored.json()).unwrap();
        assert_eq!(loaded.index, stored.index);
        assert_eq!(body(&loaded), body(&stored));
        let garbage = StoredObject::load("x".into(), 1, None, b"{}");
        assert!(garbage.unwrap_err().to_string().starts_with("object x cannot be read"));
    }
}
