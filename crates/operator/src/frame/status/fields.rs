//! Which fields of a status a definition knows, and what follows for a merge patch of it.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::{Map, Value};

/// What identifies an entry of a list for which the definition names no keys: those of these that
/// its entries have.
const IDENTIFYING: [&str; 5] = ["id", "name", "environment", "series", "at"];

/// The fields that a definition knows, at one place of a status.
#[derive(Debug, Default)]
pub(super) struct Fields {
    properties: BTreeMap<String, Self>,
    /// What the values have, if this is a map.
    values: Option<Box<Self>>,
    /// What the entries have, if this is a list.
    entries: Option<Box<Entries>>,
}

#[derive(Debug)]
struct Entries {
    /// By which fields an entry is found again.
    keys: Vec<String>,
    fields: Fields,
}

impl Fields {
    /// What a definition knows of its kind's status.
    pub(super) fn of_status(definition: &CustomResourceDefinition) -> Option<Self> {
        let schema = definition.spec.versions.first()?.schema.as_ref()?;
        let schema = schema.open_api_v3_schema.as_ref()?;
        schema.properties.as_ref()?.get("status").map(Self::of)
    }

    fn of(schema: &JSONSchemaProps) -> Self {
        let properties = schema.properties.iter().flatten();
        let properties: BTreeMap<_, _> =
            properties.map(|(name, schema)| (name.clone(), Self::of(schema))).collect();
        let values = match &schema.additional_properties {
            Some(JSONSchemaPropsOrBool::Schema(value)) => Some(Box::new(Self::of(value))),
            Some(JSONSchemaPropsOrBool::Bool(_)) | None => None,
        };
        let entries = match &schema.items {
            Some(JSONSchemaPropsOrArray::Schema(entry)) => {
                let fields = Self::of(entry);
                let identifying = IDENTIFYING.iter().map(|key| (*key).to_owned());
                let keys = schema.x_kubernetes_list_map_keys.clone().unwrap_or_else(|| {
                    identifying.filter(|key| fields.properties.contains_key(key)).collect()
                });
                Some(Box::new(Entries { keys, fields }))
            }
            Some(JSONSchemaPropsOrArray::Schemas(_)) | None => None,
        };
        Self { properties, values, entries }
    }

    /// The value with every field that it does not have as null, which takes it away.
    pub(super) fn whole(&self, value: Value) -> Value {
        let Value::Object(mut fields) = value else { return value };
        if let Some(values) = &self.values {
            let whole = fields.into_iter().map(|(key, value)| (key, values.whole(value)));
            return Value::Object(whole.collect());
        }
        if self.properties.is_empty() {
            return Value::Object(fields);
        }
        let mut whole = Map::new();
        for (name, beneath) in &self.properties {
            let value = fields.remove(name).map_or(Value::Null, |value| beneath.whole(value));
            whole.insert(name.clone(), value);
        }
        whole.extend(fields);
        Value::Object(whole)
    }

    /// Whether entries of lists may have fields that `ours` does not know.
    pub(super) fn know_more_in_lists(&self, ours: &Self) -> bool {
        let entries = self.entries.as_ref().zip(ours.entries.as_ref());
        entries.is_some_and(|(theirs, ours)| theirs.fields.know_more(&ours.fields))
            || self.properties.iter().any(|(name, theirs)| {
                ours.properties.get(name).is_some_and(|ours| theirs.know_more_in_lists(ours))
            })
    }

    fn know_more(&self, ours: &Self) -> bool {
        self.know_more_in_lists(ours)
            || self.properties.iter().any(|(name, theirs)| {
                ours.properties.get(name).is_none_or(|ours| theirs.know_more(ours))
            })
    }

    /// Copies what is not known from the stored entries of lists into the same entries of `sent`: a
    /// merge patch replaces a list as a whole.
    pub(super) fn keep_unknown_in_lists(&self, sent: &mut Value, stored: &Value) {
        match (sent, stored) {
            (Value::Object(sent), Value::Object(stored)) => {
                for (name, beneath) in &self.properties {
                    if let (Some(sent), Some(stored)) = (sent.get_mut(name), stored.get(name)) {
                        beneath.keep_unknown_in_lists(sent, stored);
                    }
                }
            }
            (Value::Array(sent), Value::Array(stored)) => {
                let Some(entries) = &self.entries else { return };
                let stored: BTreeMap<_, _> = stored
                    .iter()
                    .filter_map(|entry| Some((entries.identity(entry)?, entry)))
                    .collect();
                for entry in sent {
                    let same = entries.identity(entry).and_then(|identity| stored.get(&identity));
                    if let Some(stored) = same {
                        entries.fields.keep_unknown(entry, stored);
                    }
                }
            }
            _ => {}
        }
    }

    /// The same, with the fields of this place too.
    fn keep_unknown(&self, sent: &mut Value, stored: &Value) {
        self.keep_unknown_in_lists(sent, stored);
        // Without properties it is a map, whose keys are the writer's own.
        if self.properties.is_empty() {
            return;
        }
        let (Value::Object(sent), Value::Object(stored)) = (sent, stored) else { return };
        for (name, stored) in stored {
            match (self.properties.get(name), sent.get_mut(name)) {
                (Some(beneath), Some(sent)) => beneath.keep_unknown(sent, stored),
                (Some(_), None) => {}
                (None, _) => drop(sent.insert(name.clone(), stored.clone())),
            }
        }
    }
}

impl Entries {
    /// What an entry is found again by, if it has that.
    fn identity(&self, entry: &Value) -> Option<String> {
        let values: Vec<Value> =
            self.keys.iter().map(|key| entry.get(key).cloned().unwrap_or_default()).collect();
        let identified = values.iter().any(|value| !value.is_null());
        identified.then(|| Value::Array(values).to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(schema: Value) -> Fields {
        Fields::of(&serde_json::from_value(schema).expect("a schema"))
    }

    /// A list of objects with these fields, all of them texts but for `inner`, an object with `known`.
    fn list(names: &[&str], map_keys: &[&str]) -> Value {
        let text = json!({"type": "string"});
        let mut properties: Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), text.clone())).collect();
        properties.insert("inner".to_owned(), json!({"properties": {"known": text}}));
        let mut list = json!({"type": "array", "items": {"properties": properties}});
        if !map_keys.is_empty() {
            list["x-kubernetes-list-map-keys"] = json!(map_keys);
        }
        json!({"properties": {"list": list, "word": text}})
    }

    #[test]
    fn what_is_left_out_is_taken_away_also_from_the_values_of_a_map() {
        let text = json!({"type": "string"});
        let value = json!({"type": "object", "properties": {"a": text, "b": text}});
        let map = json!({"type": "object", "additionalProperties": value});
        let texts = json!({"type": "object", "additionalProperties": text});
        let known = fields(json!({"properties": {"map": map, "texts": texts, "word": text}}));
        let sent = json!({"map": {"one": {"a": "1"}, "two": {}}, "texts": {"x": "1"}});
        let whole = json!({
            "map": {"one": {"a": "1", "b": null}, "two": {"a": null, "b": null}},
            "texts": {"x": "1"},
            "word": null,
        });
        assert_eq!(known.whole(sent), whole);
    }

    #[test]
    fn only_more_inside_lists_costs_a_request() {
        let ours = fields(list(&["id"], &[]));
        assert!(!fields(list(&["id"], &[])).know_more_in_lists(&ours));
        assert!(!fields(list(&[], &[])).know_more_in_lists(&ours), "less is not more");
        assert!(fields(list(&["id", "new"], &[])).know_more_in_lists(&ours));
        let mut elsewhere = list(&["id"], &[]);
        elsewhere["properties"]["new"] = json!({"type": "string"});
        assert!(!fields(elsewhere).know_more_in_lists(&ours), "a merge patch leaves it alone");
        let mut deeper = list(&["id"], &[]);
        deeper["properties"]["list"]["items"]["properties"]["inner"]["properties"]["new"] =
            json!({"type": "string"});
        assert!(fields(deeper).know_more_in_lists(&ours));
    }

    #[test]
    fn an_entry_keeps_what_is_not_known_and_loses_what_is() {
        for (keys, map_keys) in [(&["id", "old"][..], &[][..]), (&["type", "old"], &["type"])] {
            let known = fields(list(keys, map_keys));
            let key = keys[0];
            let stored = json!({"word": "w", "list": [
                {key: "a", "old": "1", "new": "A", "inner": {"known": "k", "new": "deep"}},
                {key: "b", "new": "B"},
                {key: "gone", "new": "G"},
                "not an object",
            ]});
            let mut sent = json!({"list": [
                {key: "c"},
                {key: "b", "old": "2"},
                {key: "a", "inner": {}},
            ]});
            known.keep_unknown_in_lists(&mut sent, &stored);
            let expected = json!({"list": [
                {key: "c"},
                {key: "b", "old": "2", "new": "B"},
                {key: "a", "new": "A", "inner": {"new": "deep"}},
            ]});
            assert_eq!(sent, expected);
        }
    }

    #[test]
    fn entries_without_an_identity_are_sent_as_they_are() {
        let known = fields(list(&["old"], &[]));
        let mut sent = json!({"list": [{"old": "1"}]});
        let before = sent.clone();
        known.keep_unknown_in_lists(&mut sent, &json!({"list": [{"old": "1", "new": "A"}]}));
        assert_eq!(sent, before);
    }
}
