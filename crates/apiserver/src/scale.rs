//! The `scale` subresource of custom resources: an `autoscaling/v1` Scale that stands for three
//! places in the object.

mod owners;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode, header};
use serde_json::{Value, json};

use crate::body;
use crate::field::{FieldError, Path};
use crate::json::{Access, Object};
use crate::kind::custom_resource_definition::ScalePaths;
use crate::patch::{self, PatchType};
use crate::registry::Findings;
use crate::request::Verb;
use crate::respond::{self, Form};
use crate::status::ApiError;
use crate::table::{self, ListMeta, Printer, View};
use crate::verb::update::{Replaced, replace, set_version};
use crate::verb::{Call, FieldValidation, WriteOptions};
use crate::{media, typed};

const MAX_WRITE_ATTEMPTS: usize = 64;
const API_VERSION: &str = "autoscaling/v1";

pub(crate) async fn answer(
    call: &Call,
    verb: Verb,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let Some(paths) = call.endpoint.custom().and_then(|c| c.scale.as_ref()) else {
        return Err(ApiError::unknown_resource());
    };
    if verb == Verb::Get {
        let stored =
            call.endpoint.resource.table.get(&call.key()).ok_or_else(|| call.not_found())?;
        let scale = to_scale(paths, &call.endpoint.to_object(&stored))?;
        return match Form::negotiate(&call.headers, &call.query)? {
            Form::Table { version, include } => {
                let view = View { version, include, headers: true, now: call.now() };
                let scale = crate::json::into_object(scale);
                let list = ListMeta::of_object(&scale);
                let printer = Printer::custom(&columns());
                Ok(respond::bytes(StatusCode::OK, table::render(&printer, &view, &list, [&scale])))
            }
            Form::Json | Form::Partial { .. } => Ok(respond::json(StatusCode::OK, &scale)),
        };
    }
    let options = WriteOptions::parse(&call.query, "UpdateOptions")?;
    let manager = options.manager(&call.headers);
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let stored =
            call.endpoint.resource.table.get(&call.key()).ok_or_else(|| call.not_found())?;
        let old = call.endpoint.to_object(&stored);
        let before = to_scale(paths, &old)?;
        let wanted = wanted(call, verb, before, bytes, options.validation)?;
        let given = wanted.at("metadata").text("resourceVersion");
        if !given.is_empty() && given != stored.version.to_string() {
            return Err(ApiError::modified(call.of(), &call.path.name));
        }
        let replicas = wanted.at("spec").int("replicas").unwrap_or(0);
        let mut new = old.clone();
        set_at(&mut new, &paths.spec_replicas, json!(replicas));
        set_version(&mut new, stored.version);
        if replicas < 0 {
            let at = Path::new(&paths.spec_replicas);
            let why = "should be a non-negative integer";
            let mut found = Findings::default();
            found.errors.push(FieldError::invalid(&at, &json!(replicas), why));
            call.endpoint.validate_update(&new, &old, &mut found);
            return Err(call.endpoint.invalid(&new, &call.path.name, &found.errors));
        }
        let changed = at(&old, &paths.spec_replicas) != at(&new, &paths.spec_replicas);
        owners::record(&mut new, &paths.spec_replicas, &call.endpoint, changed, &manager);
        match replace(call, &stored, old, new, &options).await? {
            Replaced::Done(stored) => {
                let scale = to_scale(paths, &call.endpoint.to_object(&stored))?;
                return Ok(respond::json(StatusCode::OK, &scale));
            }
            Replaced::Changed => {}
        }
    }
    Err(ApiError::modified(call.of(), &call.path.name))
}

/// What `kubectl get --subresource=scale` shows.
fn columns() -> [Value; 3] {
    let column = |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "description": "", "jsonPath": path});
    [
        column("Desired", "integer", ".spec.replicas"),
        column("Available", "integer", ".status.replicas"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ]
}

/// The Scale that the client asks for.
fn wanted(
    call: &Call,
    verb: Verb,
    before: Value,
    bytes: &Bytes,
    validation: FieldValidation,
) -> Result<Value, ApiError> {
    let mut scale = if verb == Verb::Update {
        media::read(&call.headers, bytes, "Scale")?.value
    } else {
        patched(call, before, bytes)?
    };
    if !matches!((scale.text("apiVersion"), scale.text("kind")), ("" | API_VERSION, "" | "Scale")) {
        return Err(ApiError::bad_request(
            "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"",
        ));
    }
    let ty = typed::table().lookup(API_VERSION, "Scale");
    let ty = ty.ok_or_else(|| ApiError::internal("Scale has no type table"))?;
    let mut strict = Vec::new();
    typed::decode(ty, &mut scale, &mut strict).map_err(|e| {
        e.answer(|e| {
            let why = format!("Scale in version \"v1\" cannot be handled as a Scale: {e}");
            ApiError::bad_request(why)
        })
    })?;
    call.report_strict(strict, validation)?;
    Ok(scale)
}

fn patched(call: &Call, mut scale: Value, bytes: &Bytes) -> Result<Value, ApiError> {
    let media = call.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    let media = media.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let parsed = body::parse_json(bytes);
    let by = parsed.map_err(|e| e.answer(|e| ApiError::bad_request(e.to_string())))?.value;
    let done = if media == PatchType::Json.media_type() {
        patch::json::apply(&mut scale, &by)
    } else if media == PatchType::Merge.media_type() {
        patch::merge::apply(&mut scale, &by)
    } else {
        let accepted = [PatchType::Json, PatchType::Merge].map(PatchType::media_type).join(", ");
        return Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        )));
    };
    done.map_err(|e| call.patch_error(&e))?;
    Ok(scale)
}

/// The Scale that an object shows.
fn to_scale(paths: &ScalePaths, object: &Object) -> Result<Value, ApiError> {
    let metadata = object.at("metadata");
    let Some(replicas) = at(object, &paths.spec_replicas).as_i64() else {
        return Err(ApiError::internal(format!(
            "the spec replicas field {} does not exist",
            crate::go::quote(&paths.spec_replicas)
        )));
    };
    let mut kept = serde_json::Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(key) {
            kept.insert(key.to_owned(), value.clone());
        }
    }
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": API_VERSION,
        "metadata": kept,
        "spec": {},
        "status": {"replicas": at(object, &paths.status_replicas).as_i64().unwrap_or(0)},
    });
    if replicas != 0 {
        scale["spec"]["replicas"] = json!(replicas);
    }
    if let Some(path) = &paths.label_selector
        && let Some(selector) = at(object, path).as_str().filter(|s| !s.is_empty())
    {
        scale["status"]["selector"] = json!(selector);
    }
    Ok(scale)
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|step| !step.is_empty())
}

fn at<'a>(object: &'a Object, path: &str) -> &'a Value {
    let mut steps = steps(path);
    let first = object.at(steps.next().unwrap_or_default());
    steps.fold(first, |value, step| value.at(step))
}

fn set_at(object: &mut Object, path: &str, value: Value) {
    let mut steps: Vec<&str> = steps(path).collect();
    let Some(last) = steps.pop() else { return };
    let parent =
        steps.into_iter().fold(object, |parent, step| crate::json::object_mut(parent, step));
    parent.insert(last.to_owned(), value);
}
