//! `patch`: JSON, merge, strategic merge, and server-side apply.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode, header};
use serde_json::Value;

use crate::admission::{self, AdmissionOperation};
use crate::apply;
use crate::body;
use crate::field::{FieldError, Path};
use crate::json::{Access, Object};
use crate::patch::{self, PatchType};
use crate::respond::{self, Form};
use crate::status::ApiError;
use crate::store::StoredObject;

use super::update::{
    Replaced, check_name, given_version, record_managed_fields, replace, set_version,
};
use super::{Call, FieldValidation, WriteOptions, create};

/// How often a patch is applied anew when others write too.
const MAX_WRITE_ATTEMPTS: usize = 64;

pub(crate) async fn patch(call: &Call, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let form = Form::negotiate(&call.headers, &call.query)?;
    let kind = patch_type(call)?;
    let options = WriteOptions::parse(&call.query, "PatchOptions")?;
    check_options(kind, &options)?;
    if kind == PatchType::Apply {
        return apply_patch(call, bytes, &options, form).await;
    }
    let parsed = body::parse_json(bytes).map_err(|e| {
        e.answer(|e| match kind {
            PatchType::Strategic => ApiError::bad_request(e.to_string()),
            _ => ApiError::bad_request(format!("error decoding patch: {e}")),
        })
    })?;
    let manager = options.manager(&call.headers);
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let table = &call.endpoint.resource.table;
        let current = table.get(&call.key()).ok_or_else(|| call.not_found())?;
        let mut old = call.endpoint.to_object(&current);
        let patched = || {
            let mut patched = Value::Object(old.clone());
            run(call, kind, &mut patched, &parsed.value).map(|()| patched)
        };
        let mut strict = parsed.duplicates.clone();
        if kind == PatchType::Json {
            strict.extend(patch::json::unknown_fields(&parsed.value));
        }
        let new =
            call.decode_value(patched()?, strict, options.validation).map_err(
                |error| match patched() {
                    Ok(patched) if error.code == StatusCode::BAD_REQUEST => {
                        undecodable(call, kind, &patched, &parsed.value, &error)
                    }
                    _ => error,
                },
            )?;
        check_identity(call, &old, &new)?;
        let asked = given_version(&new)?;
        if asked.is_some_and(|v| v != current.version) {
            return Err(ApiError::modified(call.of(), &call.path.name));
        }
        let mut new = record_managed_fields(call, new, &mut old, &manager);
        set_version(&mut new, current.version);
        match replace(call, &current, old, new, &options).await? {
            Replaced::Done(stored) => {
                return respond::object(call, StatusCode::OK, &stored, form);
            }
            Replaced::Changed => {}
        }
    }
    Err(ApiError::modified(call.of(), &call.path.name))
}

async fn apply_patch(
    call: &Call,
    bytes: &Bytes,
    options: &WriteOptions,
    form: Form,
) -> Result<Response<Body>, ApiError> {
    let parsed = body::parse_yaml(bytes).map_err(|e| {
        e.answer(|e| {
            let why = format!("error decoding YAML: error converting YAML to JSON: {e}");
            ApiError::bad_request(why)
        })
    })?;
    if parsed.value.is_array() {
        return Err(ApiError::bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot \
             unmarshal array into Go value of type map[string]interface {}",
        ));
    }
    if let (FieldValidation::Strict, Some(first)) = (options.validation, parsed.duplicates.first())
    {
        return Err(ApiError::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: {first}"
        )));
    }
    if options.validation == FieldValidation::Warn {
        parsed.duplicates.iter().for_each(|text| call.warn(text.clone()));
    }
    let config = parsed.value;
    let force = options.force.unwrap_or(false);
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let current = call.endpoint.resource.table.get(&call.key());
        let outcome = match &current {
            Some(current) => apply_to(call, current, &config, force, options).await?,
            None => apply_new(call, &config, force, options).await?,
        };
        match outcome {
            Replaced::Done(stored) if current.is_none() => {
                return respond::object(call, StatusCode::CREATED, &stored, form);
            }
            Replaced::Done(stored) => {
                return respond::object(call, StatusCode::OK, &stored, form);
            }
            Replaced::Changed => {}
        }
    }
    Err(ApiError::modified(call.of(), &call.path.name))
}

async fn apply_to(
    call: &Call,
    current: &Arc<StoredObject>,
    config: &Value,
    force: bool,
    options: &WriteOptions,
) -> Result<Replaced, ApiError> {
    let old = call.endpoint.to_object(current);
    let asked = config.as_object().map_or(Ok(None), given_version)?;
    if asked.is_some_and(|v| v != current.version) {
        return Err(ApiError::modified(call.of(), &call.path.name));
    }
    let live = Value::Object(old);
    let merged = merge(call, Some(&live), config, force, options)?;
    let old = crate::json::into_object(live);
    let mut new = call.endpoint.decode_applied(merged)?;
    check_identity(call, &old, &new)?;
    set_version(&mut new, current.version);
    replace(call, current, old, new, options).await
}

async fn apply_new(
    call: &Call,
    config: &Value,
    force: bool,
    options: &WriteOptions,
) -> Result<Replaced, ApiError> {
    if !call.path.subresource.is_empty() {
        return Err(call.not_found());
    }
    call.authorize("create").await?;
    let merged = merge(call, None, config, force, options)?;
    let mut new = call.endpoint.decode_applied(merged)?;
    check_name(call, &new)?;
    let uid = new.at("metadata").at("uid");
    if uid.is_string() {
        let at = Path::new("metadata");
        let error = FieldError::invalid(&at.field("uid"), uid, "field is immutable");
        let resource = &call.endpoint.resource;
        let errors = [error.clone(), error];
        return Err(ApiError::invalid(&resource.group, &resource.kind, &call.path.name, &errors));
    }
    let metadata = crate::json::object_mut(&mut new, "metadata");
    crate::meta::wipe_system_fields(metadata);
    metadata.remove("resourceVersion");
    create::match_namespace(call, metadata)?;
    let new =
        admission::mutate(call, AdmissionOperation::Create, new, None, options.dry_run).await?;
    match create::store_new(call, new, options).await {
        Ok(stored) => Ok(Replaced::Done(stored)),
        Err(error) if error.reason == "AlreadyExists" => Ok(Replaced::Changed),
        Err(error) => Err(error),
    }
}

fn merge(
    call: &Call,
    live: Option<&Value>,
    config: &Value,
    force: bool,
    options: &WriteOptions,
) -> Result<Value, ApiError> {
    let request =
        call.endpoint.apply_request(&options.field_manager, &call.path.subresource, call.now());
    apply::apply(&request, live, config, force).map_err(|error| call.apply_error(&error))
}

fn run(call: &Call, kind: PatchType, target: &mut Value, by: &Value) -> Result<(), ApiError> {
    let outcome = match kind {
        PatchType::Json => patch::json::apply(target, by),
        PatchType::Merge => patch::merge::apply(target, by),
        PatchType::Strategic => {
            let (shapes, root) = call.endpoint.shapes();
            patch::strategic::apply(shapes, root, target, by)
        }
        PatchType::Apply => Ok(()),
    };
    outcome.map_err(|error| call.patch_error(&error))
}

pub(crate) fn patch_type(call: &Call) -> Result<PatchType, ApiError> {
    let given = call.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let given = given.unwrap_or_default();
    let media = given.split(';').next().unwrap_or_default().trim();
    let supported = call.endpoint.patch_types();
    supported.iter().copied().find(|t| t.media_type() == media).ok_or_else(|| {
        if call.endpoint.custom().is_none()
            && PatchType::BUILT_IN.iter().all(|known| known.media_type() != media)
        {
            return ApiError::unsupported_media_type("415: Unsupported Media Type")
                .with_details(serde_json::json!({}));
        }
        let listed: Vec<&str> = supported.iter().map(|t| t.media_type()).collect();
        ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            listed.join(", ")
        ))
    })
}

fn check_options(kind: PatchType, options: &WriteOptions) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    if kind == PatchType::Apply {
        if options.field_manager.is_empty() {
            let why = "is required for apply patch";
            errors.push(FieldError::required(&Path::new("fieldManager"), why));
        }
    } else if options.force.is_some() {
        let why = "may not be specified for non-apply patch";
        errors.push(FieldError::forbidden(&Path::new("force"), why));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &errors))
}

/// A patch whose result is no object of the kind, as upstream reports it.
fn undecodable(
    call: &Call,
    kind: PatchType,
    patched: &Value,
    by: &Value,
    error: &ApiError,
) -> ApiError {
    let shown = match kind {
        PatchType::Strategic => crate::go::value_text(by),
        PatchType::Json | PatchType::Merge | PatchType::Apply => patched.to_string(),
    };
    // The text that a body of the request would have been refused with, without its beginning.
    let prefix = format!(" cannot be handled as a {}: ", call.endpoint.resource.kind);
    let why = error.message.split_once(&prefix).map_or(error.message.as_str(), |(_, why)| why);
    let error = FieldError::invalid_text(&Path::new("patch"), &shown, why);
    ApiError::invalid("", "", "", &[error])
}

/// A patch may not turn the object into another one.
fn check_identity(call: &Call, old: &Object, new: &Object) -> Result<(), ApiError> {
    let (old, new) = (old.at("metadata"), new.at("metadata"));
    let (name, url) = (new.text("name"), &call.path.name);
    if name != url {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({url})"
        )));
    }
    if new.text("namespace") != old.text("namespace") {
        let why = "the namespace of the provided object does not match the namespace sent on the \
                   request";
        return Err(ApiError::bad_request(why));
    }
    Ok(())
}
