//! `create`: decode, own, admit, prepare, validate, store.

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::admission::{self, AdmissionOperation};
use crate::apply;
use crate::json::{Access, Object, object_mut};
use crate::kind::pod::admission::mark_gated;
use crate::meta;
use crate::registry::Findings;
use crate::respond::{self, Form};
use crate::status::ApiError;
use crate::store::{Change, Precondition, StoredObject, WriteError, WriteOperation, key};

use super::{Call, WriteOptions, write_error};

/// How often a generated name is drawn anew when it is taken.
const MAX_NAME_ATTEMPTS: usize = 8;
/// Longest name that still leaves room for the generated suffix.
const MAX_GENERATE_NAME_BYTES: usize = 63 - 5;

pub(crate) async fn create(call: &Call, body: &Bytes) -> Result<Response<Body>, ApiError> {
    let form = Form::negotiate(&call.headers, &call.query)?;
    let options = WriteOptions::parse(&call.query, "CreateOptions")?;
    let object = call.decode_body(body, options.validation)?;
    let made = create_object(call, object, &options).await?;
    respond::object(call, StatusCode::CREATED, &made, form)
}

/// Creates `object`, which is decoded and defaulted.
pub(crate) async fn create_object(
    call: &Call,
    mut object: Object,
    options: &WriteOptions,
) -> Result<Arc<StoredObject>, ApiError> {
    let metadata = object_mut(&mut object, "metadata");
    meta::wipe_system_fields(metadata);
    match_namespace(call, metadata)?;
    dedup_owners(call, metadata);
    let manager = options.manager(&call.headers);
    object = record_managed_fields(call, object, &manager);
    // Admission sees the object before a name is made up for it.
    object =
        admission::mutate(call, AdmissionOperation::Create, object, None, options.dry_run).await?;
    if !name_is_generated(&object) {
        return store_new(call, object, options).await;
    }
    let mut attempt = 0;
    loop {
        let mut object = object.clone();
        generate_name(call, object_mut(&mut object, "metadata"))?;
        match store_new(call, object, options).await {
            Err(error) if error.reason == "AlreadyExists" => {
                attempt += 1;
                if attempt == MAX_NAME_ATTEMPTS {
                    return Err(error);
                }
            }
            outcome => return outcome,
        }
    }
}

/// Prepares, validates and stores an object whose managed fields are settled and which admission
/// has changed as it likes.
pub(super) async fn store_new(
    call: &Call,
    mut object: Object,
    options: &WriteOptions,
) -> Result<Arc<StoredObject>, ApiError> {
    let endpoint = &call.endpoint;
    let uid = call.engine.entropy.uid().map_err(ApiError::internal)?;
    let metadata = object_mut(&mut object, "metadata");
    meta::fill_system_fields(metadata, &uid, call.now());
    if endpoint.has_generation() {
        metadata.insert("generation".to_owned(), json!(1));
    }
    endpoint.prepare_create(&mut object, &call.engine)?;
    if &*endpoint.resource.kind == "Pod" {
        mark_gated(&mut object, &meta::time(call.now()));
    }
    crate::json::budget::check(&object)?;
    let mut found = Findings::default();
    endpoint.validate(&mut object, &mut found);
    let name = object.at("metadata").text("name").to_owned();
    if !found.errors.is_empty() {
        return Err(endpoint.invalid(&object, &name, &found.errors));
    }
    let warnings = endpoint.warnings(&object, None).into_texts();
    for text in warnings.into_iter().chain(found.warnings.into_texts()) {
        call.warn(text);
    }
    call.check_depth(&object)?;
    admission::validate(call, AdmissionOperation::Create, Some(&object), None, options.dry_run)
        .await?;
    if !object.at("metadata").text("resourceVersion").is_empty() {
        let why = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::unexplained(why));
    }
    let key = key(object.at("metadata").text("namespace"), &name);
    let draft = endpoint.draft(object, &call.engine);
    if options.dry_run {
        if endpoint.resource.table.get(&key).is_some() {
            return Err(ApiError::already_exists(call.of(), &name));
        }
        return Ok(Arc::new(draft.without_version(key)));
    }
    let operation = WriteOperation {
        table: endpoint.resource.table.clone(),
        key,
        precondition: Precondition::Absent,
        change: Change::Put(Box::new(draft)),
    };
    call.engine.store.write(operation).await.map_err(|e| match e {
        WriteError::Changed(Some(current)) if current.index.deleting => {
            let mut error = ApiError::already_exists(call.of(), &name);
            error.message = format!("object is being deleted: {}", error.message);
            error
        }
        WriteError::Changed(_) => ApiError::already_exists(call.of(), &name),
        e => write_error(&e),
    })
}

/// Records who set what: the client owns every field that it sent.
fn record_managed_fields(call: &Call, object: Object, manager: &str) -> Object {
    let mut value = Value::Object(object);
    let request = call.endpoint.apply_request(manager, &call.path.subresource, call.now());
    // As upstream: what a new object of the kind shows anyway is not the client's doing.
    let live = call.endpoint.zero();
    if let Err(error) = apply::update(&request, live, &mut value) {
        // As upstream: the write goes on without a record of owners.
        tracing::debug!(%error, "cannot record field owners");
    }
    crate::json::into_object(value)
}

/// The object's namespace is the request's; saying another one is an error.
pub(super) fn match_namespace(call: &Call, metadata: &mut Object) -> Result<(), ApiError> {
    let wanted = call.namespace();
    let given = metadata.text("namespace");
    if given.is_empty() {
        if !wanted.is_empty() {
            metadata.insert("namespace".to_owned(), json!(wanted));
        }
        return Ok(());
    }
    if given == wanted {
        return Ok(());
    }
    if call.endpoint.resource.namespaced {
        let why = "the namespace of the provided object does not match the namespace sent on the \
                   request";
        return Err(ApiError::bad_request(why));
    }
    // Upstream drops the namespace of kinds that have none.
    metadata.remove("namespace");
    Ok(())
}

/// Owner references with the same uid are one.
pub(super) fn dedup_owners(call: &Call, metadata: &mut Object) {
    let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") else { return };
    let before = owners.len();
    drop_repeated(owners);
    if owners.len() < before {
        let last = owners.last().map(|o| o.text("uid").to_owned()).unwrap_or_default();
        call.warn(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner \
             references in 1.20+, and may reject such requests as early as 1.24; please fix your \
             requests; duplicate UID(s) observed: {last}"
        ));
    }
}

/// Of equal elements the first one stays.
fn drop_repeated(list: &mut Vec<Value>) {
    let mut seen: HashSet<Value> = HashSet::with_capacity(list.len());
    list.retain(|element| !seen.contains(element) && seen.insert(element.clone()));
}

fn name_is_generated(object: &Object) -> bool {
    let metadata = object.at("metadata");
    metadata.text("name").is_empty() && !metadata.text("generateName").is_empty()
}

fn generate_name(call: &Call, metadata: &mut Object) -> Result<(), ApiError> {
    let stem = metadata.text("generateName");
    // Names are checked later: here a cut inside a character must only not panic.
    let mut cut = stem.len().min(MAX_GENERATE_NAME_BYTES);
    while !stem.is_char_boundary(cut) {
        cut -= 1;
    }
    let suffix = call.engine.entropy.suffix().map_err(ApiError::internal)?;
    let name = format!("{}{suffix}", &stem[..cut]);
    metadata.insert("name".to_owned(), json!(name));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::assert_in_proportion;

    fn owner(i: usize) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": format!("u{i}")})
    }

    #[test]
    fn the_first_of_equal_owners_stays() {
        let mut owners = vec![owner(0), owner(1), owner(0), owner(2), owner(1)];
        drop_repeated(&mut owners);
        assert_eq!(owners, [owner(0), owner(1), owner(2)]);
    }

    #[test]
    fn telling_owners_apart_takes_time_in_proportion_to_their_number() {
        let owners = |count| (0..count).map(owner).collect::<Vec<Value>>();
        assert_in_proportion(2_000, owners, |mut owners| {
            drop_repeated(&mut owners);
            owners
        });
    }
}
