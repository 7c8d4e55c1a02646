//! From path and method to the code that answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode};

use crate::auth::identity::Identity;
use crate::engine::Shared;
use crate::registry::Resource;
use crate::request::{Query, ResourcePath, Verb};
use crate::status::ApiError;
use crate::verb::{self, Call};
use crate::{discovery, openapi, respond, review, scale, subresource};

use super::fairness::Flow;
use super::{authorize, health};

/// A request that its user may make.
pub(super) struct Routed {
    pub(super) flow: Flow,
    /// What is done to which resource; `None` for a path that names none.
    pub(super) to: Option<(Call, Verb)>,
}

/// Finds out what is asked for, and whether whoever asks may.
pub(super) async fn route(
    engine: &Arc<Shared>,
    parts: &Parts,
    query: Query,
    identity: &Identity,
) -> Result<Routed, ApiError> {
    let Some(path) = ResourcePath::parse(parts.uri.path()) else {
        let path = parts.uri.path();
        let identity =
            authorize::path(engine, identity, &parts.headers, &parts.method, path).await?;
        let flow = engine.fairness.flow(identity.user());
        let flow = if is_health(path) { flow.exempt() } else { flow };
        return Ok(Routed { flow, to: None });
    };
    let watch = path.legacy_watch || query.flag("watch").unwrap_or(false);
    let named_watch = !path.name.is_empty() && watch;
    let registry = engine.registry();
    let endpoint = registry.endpoint(&path.group, &path.version, &path.resource);
    // As upstream, where custom kinds alone answer HEAD.
    let is_custom = endpoint.as_ref().is_some_and(|endpoint| endpoint.custom().is_some());
    let method =
        if is_custom && parts.method == Method::HEAD { &Method::GET } else { &parts.method };
    let verb = match path.verb(method, watch) {
        // `?watch` on one object is a watch of that object.
        Some(Verb::Get) if named_watch && path.subresource.is_empty() => Verb::Watch,
        Some(verb) => verb,
        None => {
            let custom = endpoint.as_ref().filter(|e| e.custom().is_some());
            return Err(custom.map_or_else(not_allowed, |e| unsupported(&e.resource, "")));
        }
    };
    let identity =
        authorize::resource(engine, identity, &parts.headers, verb, &path, &query).await?;
    let endpoint = endpoint.ok_or_else(|| not_served(&path, &registry.groups()))?;
    let misses_namespace = endpoint.resource.namespaced && path.namespace.is_empty();
    if misses_namespace && (!path.name.is_empty() || needs_namespace(verb)) {
        let custom = endpoint.custom().is_some();
        return Err(if custom { ApiError::page_not_found() } else { not_allowed() });
    }
    let own = path.resource == "namespaces" && path.name == path.namespace;
    if !endpoint.resource.namespaced && !path.namespace.is_empty() && !own {
        return Err(ApiError::unknown_resource());
    }
    let deprecation = endpoint.version().deprecation.clone();
    let flow = engine.fairness.flow_on(identity.user(), &path);
    let call = Call::new(engine.clone(), endpoint, path, query, parts.headers.clone(), identity);
    if let Some(text) = deprecation {
        call.warn(text);
    }
    Ok(Routed { flow, to: Some((call, verb)) })
}

pub(super) fn watch(call: Call) -> Result<Response<Body>, ApiError> {
    let warnings = call.take_warnings();
    let mut response = verb::watch::watch(call)?;
    respond::warn(&mut response, &warnings);
    Ok(response)
}

/// Answers a request for a resource that is no watch.
pub(super) async fn serve(call: &Call, verb: Verb, body: &Bytes) -> Response<Body> {
    let mut response = match answer(call, verb, body).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    };
    respond::warn(&mut response, &call.take_warnings());
    response
}

async fn answer(call: &Call, verb: Verb, body: &Bytes) -> Result<Response<Body>, ApiError> {
    if !call.path.rest.is_empty() {
        return Err(ApiError::unknown_resource());
    }
    if !call.endpoint.resource.is_stored() {
        return match verb {
            Verb::Create if call.path.name.is_empty() => review::answer(call, body),
            _ => Err(not_allowed()),
        };
    }
    match (call.path.subresource.as_str(), verb) {
        // Upstream takes a POST to a custom object's own path for one to its collection.
        ("", Verb::Create) if call.path.name.is_empty() || call.endpoint.custom().is_some() => {
            verb::create::create(call, body).await
        }
        ("", Verb::Get) => verb::read::get(call).await,
        ("", Verb::List) => verb::list::list(call).await,
        ("", Verb::Update) if !call.path.name.is_empty() => verb::update::update(call, body).await,
        ("", Verb::Patch) if !call.path.name.is_empty() => verb::patch::patch(call, body).await,
        ("", Verb::Delete) => verb::delete::delete(call, body).await,
        ("", Verb::DeleteCollection)
            if call.endpoint.resource.verbs().contains(&"deletecollection") =>
        {
            verb::delete::delete_collection(call, body).await
        }
        ("status", Verb::Get | Verb::Update | Verb::Patch) if call.endpoint.version().status => {
            match verb {
                Verb::Get => verb::read::get(call).await,
                Verb::Update => verb::update::update(call, body).await,
                _ => verb::patch::patch(call, body).await,
            }
        }
        ("scale", Verb::Get | Verb::Update | Verb::Patch) if call.endpoint.version().scale => {
            scale::answer(call, verb, body).await
        }
        ("", Verb::Update | Verb::Patch) if call.endpoint.custom().is_some() => {
            if verb == Verb::Patch {
                verb::patch::patch_type(call)?;
            }
            Err(ApiError::bad_request("name must be provided"))
        }
        ("", _) => Err(not_allowed()),
        ("status" | "scale", _) if call.endpoint.custom().is_some() => custom_refusal(call, verb),
        ("status", _) if call.endpoint.version().status => Err(not_allowed()),
        _ => subresource::answer(call, verb, body).await,
    }
}

/// Paths that name no resource: discovery, OpenAPI, health, metrics, version.
pub(super) async fn serve_non_resource(
    engine: &Arc<Shared>,
    parts: &Parts,
) -> Result<Response<Body>, ApiError> {
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return Err(not_allowed());
    }
    let path = parts.uri.path();
    if let Some(response) = health::answer(engine, path, parts.uri.query()).await {
        return Ok(response);
    }
    match path.trim_end_matches('/') {
        "/openapi/v2" => Ok(openapi::version_two(&parts.headers)),
        "/metrics" => {
            engine.fairness.observe();
            Ok(health::text(StatusCode::OK, engine.metrics.render()))
        }
        "/version" => Ok(respond::json(StatusCode::OK, &discovery::version())),
        path => match path.strip_prefix("/openapi/v3") {
            Some(rest) => openapi::answer(engine, rest.trim_start_matches('/')),
            None => discovery::answer(engine, path, &parts.headers),
        },
    }
}

/// Whether a path asks after the server's health, whatever else there is to do.
fn is_health(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next();
    matches!(first, Some("livez" | "healthz" | "readyz"))
}

/// A subresource that a custom kind does not have, or a verb that the subresource does not.
fn custom_refusal(call: &Call, verb: Verb) -> Result<Response<Body>, ApiError> {
    let version = call.endpoint.version();
    let served = if call.path.subresource == "status" { version.status } else { version.scale };
    if !served {
        return Err(call.not_found());
    }
    Err(unsupported(&call.endpoint.resource, verb.as_str()))
}

/// How upstream refuses a verb on a custom resource.
fn unsupported(resource: &Resource, verb: &str) -> ApiError {
    let of = resource.of();
    let message = format!("{verb} is not supported on resources of kind \"{of}\"");
    let details = crate::status::object_details(&resource.group, &resource.plural, "");
    ApiError::method_not_allowed(&message).with_details(details)
}

const fn needs_namespace(verb: Verb) -> bool {
    matches!(verb, Verb::Create | Verb::DeleteCollection)
}

fn not_allowed() -> ApiError {
    ApiError::method_not_allowed("the server does not allow this method on the requested resource")
}

/// Kinds of a Kubernetes cluster in groups that are otherwise served here.
const UNSERVED_RESOURCES: [&str; 9] = [
    "bindings",
    "componentstatuses",
    "cronjobs",
    "endpoints",
    "limitranges",
    "leasecandidates",
    "persistentvolumes",
    "replicationcontrollers",
    "resourcequotas",
];

/// A kind of Kubernetes' own that is not served says so; what nobody knows is nowhere to be found.
fn not_served(path: &ResourcePath, groups: &BTreeMap<&str, Vec<&str>>) -> ApiError {
    let group = path.group.as_str();
    let upstream = !group.contains('.') || group.ends_with(".k8s.io");
    let served = groups.contains_key(group);
    if !upstream || (!served && group.ends_with(".x-k8s.io")) {
        return ApiError::page_not_found();
    }
    let mut error = ApiError::unknown_resource();
    if !served || UNSERVED_RESOURCES.contains(&path.resource.as_str()) {
        let group = if group.is_empty() { "core" } else { group };
        let (version, resource) = (&path.version, &path.resource);
        error.message.push_str(&format!(" ({group}/{version} {resource} is not served here)"));
    }
    error
}
