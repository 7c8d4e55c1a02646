//! `update`, and the common end of every change to an existing object.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::admission::{self, AdmissionOperation};
use crate::apply;
use crate::field::{FieldError, Path};
use crate::json::{Access, Object, object_mut};
use crate::kind::namespace;
use crate::meta;
use crate::registry::Findings;
use crate::respond::{self, Form};
use crate::status::ApiError;
use crate::store::{Change, Precondition, StoredObject, WriteError, WriteOperation};

use super::{Call, WriteOptions, create, write_error};

/// How often a change that names no version is tried again when others write too.
const MAX_WRITE_ATTEMPTS: usize = 64;

pub(crate) async fn update(call: &Call, body: &Bytes) -> Result<Response<Body>, ApiError> {
    let form = Form::negotiate(&call.headers, &call.query)?;
    let options = WriteOptions::parse(&call.query, "UpdateOptions")?;
    let manager = options.manager(&call.headers);
    for _ in 0..MAX_WRITE_ATTEMPTS {
        // Read anew for every attempt: a second one is rare, and a copy for it would cost everybody.
        let object = sent(call, body, &options)?;
        let given = given_version(&object)?;
        let Some(current) = call.endpoint.resource.table.get(&call.key()) else {
            return create_on_update(call, object, &options, form).await;
        };
        check_uid(call, &object, &current)?;
        let mut old = call.endpoint.to_object(&current);
        let mut new = object;
        check_version(call, given, &current)?;
        set_version(&mut new, current.version);
        let new = record_managed_fields(call, new, &mut old, &manager);
        match replace(call, &current, old, new, &options).await? {
            Replaced::Done(stored) => {
                return respond::object(call, StatusCode::OK, &stored, form);
            }
            Replaced::Changed if given.is_some() => {
                return Err(ApiError::modified(call.of(), &call.path.name));
            }
            Replaced::Changed => {}
        }
    }
    Err(ApiError::modified(call.of(), &call.path.name))
}

/// The object that the client sent.
fn sent(call: &Call, body: &Bytes, options: &WriteOptions) -> Result<Object, ApiError> {
    let mut object = call.decode_body(body, options.validation)?;
    check_name(call, &object)?;
    let metadata = object_mut(&mut object, "metadata");
    create::match_namespace(call, metadata)?;
    create::dedup_owners(call, metadata);
    Ok(object)
}

async fn create_on_update(
    call: &Call,
    object: Object,
    options: &WriteOptions,
    form: Form,
) -> Result<Response<Body>, ApiError> {
    let creatable = call.endpoint.create_on_update() && call.path.subresource.is_empty();
    if !creatable {
        return Err(call.not_found());
    }
    if given_version(&object)?.is_some() {
        return Err(ApiError::modified(call.of(), &call.path.name));
    }
    call.authorize("create").await?;
    let made = create::create_object(call, object, options).await?;
    respond::object(call, StatusCode::CREATED, &made, form)
}

pub(crate) enum Replaced {
    Done(Arc<StoredObject>),
    /// Somebody else wrote in between.
    Changed,
}

/// Admits, prepares, validates and stores `new` in the place of `current`. Managed fields are
/// settled by the caller.
pub(crate) async fn replace(
    call: &Call,
    current: &Arc<StoredObject>,
    old: Object,
    new: Object,
    options: &WriteOptions,
) -> Result<Replaced, ApiError> {
    let endpoint = &call.endpoint;
    let mut new =
        admission::mutate(call, AdmissionOperation::Update, new, Some(&old), options.dry_run)
            .await?;
    meta::carry_over_generation(&mut new, &old);
    let status = call.path.subresource == "status";
    match call.path.subresource.as_str() {
        "status" => endpoint.prepare_status_update(&mut new, &old),
        "finalize" => namespace::prepare_finalize(&mut new, &old),
        _ => endpoint.prepare_update(&mut new, &old, &call.engine)?,
    }
    meta::carry_over(&mut new, &old);
    if endpoint.has_generation() && !status && endpoint.bumps_generation(&new, &old) {
        meta::set_generation(&mut new, meta::generation(&old) + 1);
    }
    crate::json::budget::check(&new)?;
    let mut found = Findings::default();
    meta::validate_update(&new, &old, &mut found.errors);
    // Upstream checks metadata for every kind and once more with the kind's own rules.
    let twice = found.errors.clone();
    found.errors.extend(twice);
    match call.path.subresource.as_str() {
        "status" => endpoint.validate_status_update(&new, &old, &mut found),
        "finalize" => namespace::validate_finalize(&new, &mut found.errors),
        _ => endpoint.validate_update(&new, &old, &mut found),
    }
    if !found.errors.is_empty() {
        return Err(endpoint.invalid(&new, current.name(), &found.errors));
    }
    if call.path.subresource.is_empty() {
        let warnings = endpoint.warnings(&new, Some(&old)).into_texts();
        warnings.into_iter().for_each(|text| call.warn(text));
    }
    found.warnings.into_texts().into_iter().for_each(|text| call.warn(text));
    call.check_depth(&new)?;
    admission::validate(call, AdmissionOperation::Update, Some(&new), Some(&old), options.dry_run)
        .await?;
    store(call, current, &old, new, options).await
}

async fn store(
    call: &Call,
    current: &Arc<StoredObject>,
    old: &Object,
    mut new: Object,
    options: &WriteOptions,
) -> Result<Replaced, ApiError> {
    let endpoint = &call.endpoint;
    let finished = meta::is_deleting(old)
        && !meta::has_finalizers(&new)
        && old.at("metadata").int("deletionGracePeriodSeconds").unwrap_or(0) == 0
        && endpoint.may_be_removed(&new);
    let mut last_words = None;
    let change = if finished {
        // The answer is the object as this write would have left it.
        object_mut(&mut new, "metadata").remove("resourceVersion");
        let draft = endpoint.draft(new, &call.engine);
        let shown = Arc::new(draft.at_version(current.key.clone(), current.version));
        if options.dry_run {
            return Ok(Replaced::Done(shown));
        }
        last_words = Some(shown);
        Change::Remove
    } else if apply::is_noop(old, &new) {
        return Ok(Replaced::Done(current.clone()));
    } else {
        object_mut(&mut new, "metadata").remove("resourceVersion");
        Change::Put(Box::new(endpoint.draft(new, &call.engine)))
    };
    if let (true, Change::Put(draft)) = (options.dry_run, &change) {
        let shown = draft.at_version(current.key.clone(), current.version);
        return Ok(Replaced::Done(Arc::new(shown)));
    }
    let operation = WriteOperation {
        table: endpoint.resource.table.clone(),
        key: current.key.clone(),
        precondition: Precondition::Version(current.version),
        change,
    };
    match call.engine.store.write(operation).await {
        Ok(stored) => Ok(Replaced::Done(last_words.unwrap_or(stored))),
        Err(WriteError::Changed(_)) => Ok(Replaced::Changed),
        Err(error) => Err(write_error(&error)),
    }
}

/// Records that `manager` changed what differs from `old`.
pub(crate) fn record_managed_fields(
    call: &Call,
    new: Object,
    old: &mut Object,
    manager: &str,
) -> Object {
    let mut value = Value::Object(new);
    // Lent as a value and taken back: a copy would be the largest cost of a large update.
    let live = Value::Object(std::mem::take(old));
    let request = call.endpoint.apply_request(manager, &call.path.subresource, call.now());
    if let Err(error) = apply::update(&request, Some(&live), &mut value) {
        // As upstream: the write goes on without a record of owners.
        tracing::debug!(%error, "cannot record field owners");
    }
    *old = crate::json::into_object(live);
    crate::json::into_object(value)
}

pub(super) fn check_name(call: &Call, object: &Object) -> Result<(), ApiError> {
    let name = object.at("metadata").text("name");
    if name == call.path.name {
        return Ok(());
    }
    if name.is_empty() {
        let path = &call.path.name;
        return Err(ApiError::bad_request(format!(
            "the name of the object ({path} based on URL) was undeterminable: name must be provided",
        )));
    }
    let path = &call.path.name;
    Err(ApiError::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({path})"
    )))
}

/// A uid in the body must be the object's.
fn check_uid(call: &Call, object: &Object, current: &StoredObject) -> Result<(), ApiError> {
    let uid = object.at("metadata").text("uid");
    if uid.is_empty() || uid == &*current.index.uid {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
        call.registry_key(),
        current.index.uid
    );
    Err(ApiError::conflict(call.of(), &call.path.name, &why))
}

/// The version that the client based its change on, if it says so.
pub(super) fn given_version(object: &Object) -> Result<Option<u64>, ApiError> {
    match object.at("metadata").text("resourceVersion") {
        "" | "0" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            let quoted = crate::go::quote(text);
            ApiError::unexplained(format!("strconv.ParseUint: parsing {quoted}: invalid syntax"))
        }),
    }
}

fn check_version(call: &Call, given: Option<u64>, current: &StoredObject) -> Result<(), ApiError> {
    match given {
        Some(version) if version != current.version => {
            Err(ApiError::modified(call.of(), &call.path.name))
        }
        None if !call.endpoint.unconditional_update() => {
            let at = Path::new("metadata");
            let at = at.field("resourceVersion");
            let error = FieldError::invalid(&at, &json!(0), "must be specified for an update");
            let resource = &call.endpoint.resource;
            Err(ApiError::invalid(&resource.group, &resource.plural, &call.path.name, &[error]))
        }
        _ => Ok(()),
    }
}

pub(crate) fn set_version(object: &mut Object, version: u64) {
    let text = version.to_string();
    object_mut(object, "metadata").insert("resourceVersion".to_owned(), json!(text));
}
