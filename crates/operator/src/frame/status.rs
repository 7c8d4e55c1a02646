//! How a status is written: as a merge patch of every field that this version knows, and with a look
//! at what was kept of it.
//!
//! - A field of a newer version stays: it is not named, so an older writer cannot take it away.
//! - A field that the definition does not know is dropped by the API without a word. Written again
//!   and again it would never arrive, so it is said once, where people look, and the object is left
//!   alone until the definition is another ([`Definitions`]).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sojourn_api::name::shared;

use super::cache::{Cache, Watching};
use super::error::RequestError;
use crate::event::{Events, Severity};

/// How many dropped fields a message names.
const MAX_NAMED: usize = 5;

/// The object whose status is written, as it was when that was decided.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) version: &'a str,
}

/// What came of writing a status.
#[derive(Debug)]
pub(crate) struct Written<K> {
    pub(crate) object: K,
    /// What the API did not keep, by its path.
    pub(crate) dropped: Vec<String>,
}

/// Writes the fields of `status` that this version knows, each of them, and no other.
pub(crate) async fn write<K, S>(
    api: &Api<K>,
    subject: &Subject<'_>,
    status: &S,
) -> Result<Written<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
    S: Serialize,
{
    let sent = serde_json::to_value(status).map_err(kube::Error::SerdeError)?;
    let object = patch(api, subject, &known::<K>().whole(sent.clone())).await?;
    let kept = status_of(&object)?;
    let mut dropped = Vec::new();
    missing(&sent, &kept, "status", &mut dropped);
    dropped.sort_unstable();
    dropped.dedup();
    Ok(Written { object, dropped })
}

async fn patch<K>(api: &Api<K>, subject: &Subject<'_>, status: &Value) -> Result<K, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let change = json!({
        "metadata": {"uid": subject.uid, "resourceVersion": subject.version},
        "status": status,
    });
    api.patch_status(subject.name, &PatchParams::default(), &Patch::Merge(&change)).await
}

fn status_of<K: Serialize>(object: &K) -> Result<Value, kube::Error> {
    let mut object = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
    Ok(object.get_mut("status").map(Value::take).unwrap_or_default())
}

/// The paths of fields that were sent and are not there.
fn missing(sent: &Value, kept: &Value, path: &str, dropped: &mut Vec<String>) {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => {
            for (name, value) in sent {
                let path = format!("{path}.{name}");
                match kept.get(name) {
                    Some(kept) => missing(value, kept, &path, dropped),
                    None => dropped.push(path),
                }
            }
        }
        (Value::Array(sent), Value::Array(kept)) => {
            let path = format!("{path}[]");
            for (sent, kept) in sent.iter().zip(kept) {
                missing(sent, kept, &path, dropped);
            }
        }
        (Value::Object(fields), Value::Null) if fields.is_empty() => {}
        (_, Value::Null) if !sent.is_null() => dropped.push(path.to_owned()),
        _ => {}
    }
}

/// The fields that a definition of this version knows.
#[derive(Debug, Default)]
struct Fields(BTreeMap<String, Self>);

impl Fields {
    fn of(schema: &JSONSchemaProps) -> Self {
        let properties = schema.properties.iter().flatten();
        Self(properties.map(|(name, schema)| (name.clone(), Self::of(schema))).collect())
    }

    /// The value with every field that it does not have as null, which takes it away.
    fn whole(&self, value: Value) -> Value {
        let Value::Object(mut fields) = value else { return value };
        if self.0.is_empty() {
            return Value::Object(fields);
        }
        let mut whole = Map::new();
        for (name, beneath) in &self.0 {
            let value = fields.remove(name).map_or(Value::Null, |value| beneath.whole(value));
            whole.insert(name.clone(), value);
        }
        whole.extend(fields);
        Value::Object(whole)
    }
}

/// What the definition that belongs to this version knows of a kind's status.
fn known<K: Resource<DynamicType = ()>>() -> Arc<Fields> {
    static KNOWN: LazyLock<HashMap<String, Arc<Fields>>> = LazyLock::new(|| {
        let of = |definition: CustomResourceDefinition| {
            let schema = definition.spec.versions.first()?.schema.as_ref()?;
            let status = schema.open_api_v3_schema.as_ref()?.properties.as_ref()?.get("status")?;
            Some((definition.name_any(), Arc::new(Fields::of(status))))
        };
        sojourn_api::crds().into_iter().filter_map(of).collect()
    });
    KNOWN.get(&definition_name::<K>()).cloned().unwrap_or_default()
}

fn definition_name<K: Resource<DynamicType = ()>>() -> String {
    format!("{}.{}", K::plural(&()), K::group(&()))
}

/// The definitions of a family's kinds, and the objects that wait for newer ones.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    /// The uids of objects whose status cannot be written as it should be, by definition.
    waiting: Mutex<HashMap<String, HashSet<String>>>,
}

impl Definitions {
    /// Whether an object is to be left alone until its definition is another.
    pub(crate) fn holds_up(&self, uid: &str) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.values().any(|uids| uids.contains(uid))
    }

    /// Whether any object is.
    pub(crate) fn hold_up_any(&self) -> bool {
        !self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn note(&self, definition: String, uid: &str) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.entry(definition).or_default().insert(uid.to_owned());
    }

    fn stop_waiting(&self, definition: &str) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(definition).is_some()
    }

    /// Reports what was dropped in a condition, in an Event and in the log, and leaves the object
    /// alone until its definition changes. Returns the object as it is then.
    pub(crate) async fn hold_up<K>(
        &self,
        api: &Api<K>,
        written: Written<K>,
        events: &Events,
        now: Timestamp,
    ) -> (K, RequestError)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
    {
        let Written { object, dropped } = written;
        let (definition, uid) = (definition_name::<K>(), object.uid().unwrap_or_default());
        let fields = named(&dropped);
        let message = format!(
            "The CustomResourceDefinition {definition} is older than this version of Sojourn: it \
             does not keep {fields}. Nothing is done until it does: sojourn crds | kubectl apply \
             --server-side -f -"
        );
        tracing::error!(
            definition,
            fields,
            object = object.name_any(),
            "the definition is too old"
        );
        self.note(definition, &uid);
        let about: ObjectReference = object.object_ref(&());
        events.say(&about, Severity::Warning, shared::DEFINITION_TOO_OLD, &message, &uid);
        let told = write_condition(api, &object, &message, now).await;
        let object = told.unwrap_or_else(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, "no condition says so");
            object
        });
        (object, RequestError::Dropped { what: "write the status", fields })
    }

    /// Follows a definition for ever. When it is another, whoever waited for it is looked at again.
    pub(crate) async fn follow<K: Resource<DynamicType = ()>>(
        &self,
        client: Client,
        watching: Watching,
        changed: impl Fn(),
    ) {
        let name = definition_name::<K>();
        let generations = Cache::<i64>::default();
        let api: Api<CustomResourceDefinition> = Api::all(client);
        let selection = watching.everything().fields(&format!("metadata.name={name}"));
        let generation =
            |definition: CustomResourceDefinition| definition.metadata.generation.unwrap_or(0);
        let told = |change: &super::cache::Change<'_, i64>| {
            if change.before != change.now && self.stop_waiting(&name) {
                changed();
            }
        };
        generations.follow(api, selection, generation, told).await;
    }
}

/// Adds a condition, which every definition of ours has ever kept.
async fn write_condition<K>(
    api: &Api<K>,
    object: &K,
    message: &str,
    now: Timestamp,
) -> Result<K, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug,
{
    let mut conditions = match status_of(object)?.get_mut("conditions").map(Value::take) {
        Some(Value::Array(conditions)) => conditions,
        _ => Vec::new(),
    };
    conditions.retain(|one| one["type"] != shared::DEFINITION_TOO_OLD);
    conditions.push(json!({
        "type": shared::DEFINITION_TOO_OLD,
        "status": "True",
        "reason": "FieldsDropped",
        "message": message,
        "lastTransitionTime": format!("{now:.0}"),
    }));
    let (name, uid) = (object.name_any(), object.uid().unwrap_or_default());
    let version = object.resource_version().unwrap_or_default();
    let subject = Subject { name: &name, uid: &uid, version: &version };
    patch(api, &subject, &json!({ "conditions": conditions })).await
}

fn named(dropped: &[String]) -> String {
    let mut words = dropped.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    if dropped.len() > MAX_NAMED {
        words = format!("{words} and {} more", dropped.len() - MAX_NAMED);
    }
    words
}

#[cfg(test)]
mod tests {
    use sojourn_api::group::Machine;
    use sojourn_api::lab::Instance;

    use super::*;

    #[test]
    fn every_known_field_is_named_and_no_other() {
        let patch = known::<Instance>().whole(json!({"phase": "Ready", "activity": {"count": 3}}));
        assert_eq!(patch["phase"], "Ready");
        assert_eq!(patch["activity"]["count"], 3);
        let fields =
            |value: &Value, name: &str| value.as_object().expect("fields").contains_key(name);
        assert!(fields(&patch, "url") && patch["url"].is_null(), "what is not there goes");
        assert!(fields(&patch["activity"], "last") && patch["activity"]["last"].is_null());
        assert!(!fields(&patch, "ofANewerVersion"), "what is not known stays");
        assert!(fields(&known::<Machine>().whole(json!({})), "drain"));
    }

    #[test]
    fn what_was_not_kept_is_found() {
        let sent = json!({
            "phase": "Ready", "empty": {}, "activity": {"last": 1, "count": 2},
            "notices": [{"id": "a", "new": 1}, {"id": "b", "new": 1}],
        });
        let mut dropped = Vec::new();
        missing(&sent, &sent, "status", &mut dropped);
        assert_eq!(dropped, Vec::<String>::new());
        let kept = json!({"activity": {"last": 1}, "notices": [{"id": "a"}, {"id": "b"}]});
        missing(&sent, &kept, "status", &mut dropped);
        dropped.sort_unstable();
        dropped.dedup();
        assert_eq!(
            dropped,
            ["status.activity.count", "status.empty", "status.notices[].new", "status.phase"]
        );
        assert_eq!(
            named(&dropped),
            "status.activity.count, status.empty, status.notices[].new, status.phase"
        );
    }
}
