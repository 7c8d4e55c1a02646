//! How a status is written: as a merge patch of every field that this version knows, and with a look
//! at what was kept of it.
//!
//! - A field of a newer version stays: it is not named, so an older writer cannot take it away. Inside
//!   the entries of lists, which a merge patch replaces, it is read and sent again; that costs a
//!   request, so it is done only while the definition knows such fields ([`fields`]).
//! - A field that the definition does not know is dropped by the API without a word. Written again
//!   and again it would never arrive, so it is said once, where people look, and the object is left
//!   alone until the definition is another ([`Definitions`]).

mod fields;

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{GetParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sojourn_api::name::shared;

use self::fields::Fields;
use super::cache::{Cache, Change, WatchSettings};
use super::error::RequestError;
use super::write::ObjectVersion;
use crate::event::{Events, Severity};

/// How many dropped fields a message names.
const MAX_NAMED: usize = 5;

/// What came of writing a status.
#[derive(Debug)]
struct Written<K> {
    object: K,
    /// What the API did not keep, by its path.
    dropped: Vec<String>,
}

/// Writes the fields of `status` that this version knows, each of them, and no other. With
/// `keep_unknown`, unknown fields of list entries are read first and sent along.
async fn write<K, S>(
    api: &Api<K>,
    target: &ObjectVersion<'_>,
    status: &S,
    keep_unknown: bool,
) -> Result<Written<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
    S: Serialize,
{
    let sent = serde_json::to_value(status).map_err(kube::Error::SerdeError)?;
    let mut change = sent.clone();
    if keep_unknown {
        known::<K>().keep_unknown_in_lists(&mut change, &stored_status(api, target).await?);
    }
    let object = patch(api, target, &known::<K>().whole(change)).await?;
    let kept = status_of(&object)?;
    let mut dropped = Vec::new();
    missing(&sent, &kept, "status", &mut dropped);
    dropped.sort_unstable();
    dropped.dedup();
    Ok(Written { object, dropped })
}

/// The status as the API has it, with what this version does not know. If it is another than the
/// target's by now, the write is refused for that.
async fn stored_status<K: Resource + Clone>(
    api: &Api<K>,
    target: &ObjectVersion<'_>,
) -> Result<Value, kube::Error> {
    let request = kube::core::Request::new(api.resource_url())
        .get(target.name, &GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    let mut object: Value = api.clone().into_client().request(request).await?;
    Ok(object.get_mut("status").map(Value::take).unwrap_or_default())
}

async fn patch<K>(
    api: &Api<K>,
    target: &ObjectVersion<'_>,
    status: &Value,
) -> Result<K, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let change = json!({
        "metadata": {"uid": target.uid, "resourceVersion": target.version},
        "status": status,
    });
    api.patch_status(target.name, &PatchParams::default(), &Patch::Merge(&change)).await
}

fn status_of<K: Serialize>(object: &K) -> Result<Value, kube::Error> {
    let mut object = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
    Ok(object.get_mut("status").map(Value::take).unwrap_or_default())
}

/// The paths of fields that were sent and are not there.
fn missing(sent: &Value, kept: &Value, path: &str, dropped: &mut Vec<String>) {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => {
            for (name, value) in sent.iter().filter(|(_, value)| !takes_away(value)) {
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

/// Whether nothing of it is left after a merge patch: null takes something away.
fn takes_away(sent: &Value) -> bool {
    match sent {
        Value::Null => true,
        Value::Object(fields) => !fields.is_empty() && fields.values().all(takes_away),
        _ => false,
    }
}

/// What the definition that belongs to this version knows of a kind's status.
fn known<K: Resource<DynamicType = ()>>() -> Arc<Fields> {
    static KNOWN: LazyLock<HashMap<String, Arc<Fields>>> = LazyLock::new(|| {
        let of = |definition: CustomResourceDefinition| {
            Some((definition.name_any(), Arc::new(Fields::of_status(&definition)?)))
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
    /// Whether entries of lists have fields that this version does not know, by definition that was seen.
    unknown_in_lists: Mutex<HashMap<String, bool>>,
}

/// A definition as it is watched.
#[derive(Debug, PartialEq, Eq)]
struct DefinitionView {
    generation: i64,
    unknown_in_lists: bool,
}

impl Definitions {
    /// Writes a status, as the object was when it was decided about. The answer is the object as it
    /// is then, if it is still there: also with an error, which says that the API did not keep all
    /// of it.
    pub(crate) async fn write_status<K, S>(
        &self,
        (api, what): (&Api<K>, &'static str),
        target: &ObjectVersion<'_>,
        status: &S,
        events: &Events,
        now: Timestamp,
    ) -> (Option<K>, Result<(), RequestError>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug,
        S: Serialize,
    {
        let keep_unknown = self.unknown_in_lists(&definition_name::<K>());
        match write(api, target, status, keep_unknown).await {
            Ok(written) if written.dropped.is_empty() => (Some(written.object), Ok(())),
            Ok(written) => {
                let (object, error) = self.report_dropped(api, written, what, events, now).await;
                (Some(object), Err(error))
            }
            Err(error) => match RequestError::of(what, error) {
                // Its finalizer was removed in this reconciliation, and it is gone with that.
                RequestError::Gone { .. } => (None, Ok(())),
                other => (None, Err(other)),
            },
        }
    }

    /// Before the definition is seen, it may know anything.
    fn unknown_in_lists(&self, definition: &str) -> bool {
        let seen = self.unknown_in_lists.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(definition).copied().unwrap_or(true)
    }

    /// Whether an object is to be left alone until its definition is another.
    pub(crate) fn is_waiting(&self, uid: &str) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.values().any(|uids| uids.contains(uid))
    }

    /// Whether any object is.
    pub(crate) fn any_waiting(&self) -> bool {
        !self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn start_waiting(&self, definition: String, uid: &str) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.entry(definition).or_default().insert(uid.to_owned());
    }

    fn stop_waiting(&self, definition: &str) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(definition).is_some()
    }

    /// Reports what was dropped in a condition, in an Event and in the log, and leaves the object
    /// alone until its definition changes. Returns the object as it is then.
    async fn report_dropped<K>(
        &self,
        api: &Api<K>,
        written: Written<K>,
        what: &'static str,
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
        self.start_waiting(definition, &uid);
        let about: ObjectReference = object.object_ref(&());
        events.publish(&about, Severity::Warning, shared::DEFINITION_TOO_OLD, &message, &uid);
        let told = write_condition(api, &object, &message, now).await;
        let object = told.unwrap_or_else(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, "no condition says so");
            object
        });
        (object, RequestError::Dropped { what, fields })
    }

    /// Follows a definition for ever. When it is another, whoever waited for it is looked at again.
    pub(crate) async fn follow<K: Resource<DynamicType = ()>>(
        &self,
        client: Client,
        watching: WatchSettings,
        changed: impl Fn(),
    ) {
        let name = definition_name::<K>();
        let definitions = Cache::<DefinitionView>::default();
        let api: Api<CustomResourceDefinition> = Api::all(client);
        let selection = watching.everything().fields(&format!("metadata.name={name}"));
        let view = |definition: CustomResourceDefinition| DefinitionView {
            generation: definition.metadata.generation.unwrap_or(0),
            unknown_in_lists: Fields::of_status(&definition)
                .is_some_and(|theirs| theirs.know_more_in_lists(&known::<K>())),
        };
        let on_change = |change: &Change<'_, DefinitionView>| {
            if let Some(now) = change.now {
                let mut seen = self.unknown_in_lists.lock().unwrap_or_else(PoisonError::into_inner);
                seen.insert(name.clone(), now.unknown_in_lists);
            }
            if change.before != change.now && self.stop_waiting(&name) {
                changed();
            }
        };
        definitions.follow(api, selection, view, on_change).await;
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
    let target = ObjectVersion { name: &name, uid: &uid, version: &version };
    patch(api, &target, &json!({ "conditions": conditions })).await
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
        let removed = json!({"activity": {"replicas": {"gone": null}}, "url": null});
        missing(&removed, &json!({"activity": {}}), "status", &mut dropped);
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
