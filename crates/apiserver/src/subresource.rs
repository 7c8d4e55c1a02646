//! Subresources of built-in kinds that are neither `status` nor `scale`.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::auth::{LiveKind, LiveObjects, ObjectState};
use crate::engine::Shared;
use crate::json::{Access, Object};
use crate::kind::Kind;
use crate::request::Verb;
use crate::respond::{self, Form};
use crate::status::{ApiError, GroupResource};
use crate::store::{Change, Precondition, WriteError, WriteOperation};
use crate::verb::{Call, FieldValidation, WriteOptions, update, write_error};
use crate::{eviction, kind, logs, media, review, typed};

const MAX_WRITE_ATTEMPTS: usize = 64;

pub(crate) async fn answer(
    call: &Call,
    verb: Verb,
    body: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let resource = &call.endpoint.resource;
    match (&*resource.group, &*resource.plural, call.path.subresource.as_str(), verb) {
        ("", "namespaces", "finalize", Verb::Update) => update::update(call, body).await,
        ("", "pods", "binding", Verb::Create) => bind(call, body).await,
        ("", "pods", "eviction", Verb::Create) => eviction::evict(call, body).await,
        ("", "pods", "log", Verb::Get) => logs::relay(call).await,
        ("", "serviceaccounts", "token", Verb::Create) => token(call, body),
        ("", "pods", "exec" | "attach" | "portforward", _) => Err(interactive(call)),
        ("", "namespaces", "finalize", _)
        | ("", "pods", "binding" | "eviction" | "log", _)
        | ("", "serviceaccounts", "token", _) => Err(ApiError::method_not_allowed(
            "the server does not allow this method on the requested resource",
        )),
        _ if call.endpoint.custom().is_some() => Err(call.not_found()),
        _ => Err(ApiError::unknown_resource()),
    }
}

/// Streams into a Pod are not served; the answer says why.
fn interactive(call: &Call) -> ApiError {
    let Some(pod) = call.endpoint.resource.table.get(&call.key()) else { return call.not_found() };
    let name = pod.name();
    if pod.to_value().at("spec").text("nodeName").is_empty() {
        return ApiError::bad_request(format!("pod {name} does not have a host assigned"));
    }
    let what = &call.path.subresource;
    ApiError::new(
        StatusCode::NOT_IMPLEMENTED,
        "NotImplemented",
        format!("pods/{what} is not served here: there is no stream into pod {name}"),
    )
}

/// Reads a body of another kind than the resource's own.
pub(crate) fn decode(
    call: &Call,
    body: &Bytes,
    api_version: &str,
    kind: &str,
    validation: FieldValidation,
) -> Result<Object, ApiError> {
    let mut parsed = media::read(&call.headers, body, kind)?;
    let ty = typed::table().lookup(api_version, kind);
    let ty = ty.ok_or_else(|| ApiError::internal(format!("{kind} has no type table")))?;
    let mut strict = std::mem::take(&mut parsed.duplicates);
    typed::decode(ty, &mut parsed.value, &mut strict).map_err(|e| {
        e.answer(|e| {
            let version = api_version.rsplit('/').next().unwrap_or_default();
            ApiError::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: {e}"
            ))
        })
    })?;
    call.report_strict(strict, validation)?;
    let mut object = crate::json::into_object(parsed.value);
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    Ok(object)
}

/// Gives a Pod to a node.
async fn bind(call: &Call, body: &Bytes) -> Result<Response<Body>, ApiError> {
    Form::negotiate_without_table(&call.headers, &call.query)?;
    let options = WriteOptions::parse(&call.query, "CreateOptions")?;
    let binding = decode(call, body, "v1", "Binding", options.validation)?;
    let errors = kind::pod::binding::validate_binding(&binding);
    if !errors.is_empty() {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        return Err(ApiError::unexplained(texts.join(", ")));
    }
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let table = &call.endpoint.resource.table;
        let current = table.get(&call.key()).ok_or_else(|| call.not_found())?;
        let mut pod = call.endpoint.to_object(&current);
        kind::pod::binding::bind(&mut pod, &binding, &crate::meta::time(call.now())).map_err(
            |error| {
                let of = GroupResource { group: "", resource: "pods/binding" };
                ApiError::conflict(of, &call.path.name, &error.to_string())
            },
        )?;
        if options.dry_run {
            break;
        }
        let operation = WriteOperation {
            table: table.clone(),
            key: current.key.clone(),
            precondition: Precondition::Version(current.version),
            change: Change::Put(Box::new(call.endpoint.draft(pod, &call.engine))),
        };
        match call.engine.store.write(operation).await {
            Ok(_) => break,
            Err(WriteError::Changed(_)) => {}
            Err(error) => return Err(write_error(&error)),
        }
    }
    let success = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    Ok(respond::json(StatusCode::CREATED, &success))
}

/// Issues a token for a ServiceAccount.
fn token(call: &Call, body: &Bytes) -> Result<Response<Body>, ApiError> {
    Form::negotiate_without_table(&call.headers, &call.query)?;
    let options = WriteOptions::parse(&call.query, "CreateOptions")?;
    let api_version = "authentication.k8s.io/v1";
    let mut request = decode(call, body, api_version, "TokenRequest", options.validation)?;
    kind::review::TokenRequest.default(&mut request);
    let owners = review::owners(call, &request, api_version, "TokenRequest", &options);
    let issued = call.engine.accounts.issue(
        &request,
        call.namespace(),
        &call.path.name,
        &*call.engine,
        call.now(),
        &*call.engine.entropy,
    )?;
    let mut answer = issued.answer;
    if let Some(owners) = owners {
        answer["metadata"]["managedFields"] = owners;
    }
    Ok(respond::json(StatusCode::CREATED, &answer))
}

/// What tokens and nodes ask of the store.
impl LiveObjects for Shared {
    fn state(&self, kind: LiveKind, namespace: &str, name: &str) -> Option<ObjectState> {
        let stored = self.live(kind.resource(), namespace, name)?;
        Some(ObjectState::of(&stored))
    }

    fn pod(&self, namespace: &str, name: &str) -> Option<Object> {
        self.live("pods", namespace, name)
    }
}

impl Shared {
    fn live(&self, plural: &str, namespace: &str, name: &str) -> Option<Object> {
        let table = self.store.table("", plural).ok()?;
        Some(table.get(&crate::store::key(namespace, name))?.to_value())
    }

    /// A whole core object, for the built-in admission plugins.
    pub(crate) fn core_object(
        self: &Arc<Self>,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Value> {
        self.live(plural, namespace, name).map(Value::Object)
    }
}
