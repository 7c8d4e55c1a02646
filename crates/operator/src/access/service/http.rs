//! The service over HTTP. Paths are below `/api/access`; who asks is in the extensions of a request.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST /sessions` | `namespace`, `cluster`, `group`, and `reason`, `duration`, `scheduledStartTime`, `escalation` | 201, the session |
//! | `POST /sessions/{namespace}/{name}/{verb}` | none; of `approve` and `reject` also `{"reason": …}` | 200, the session |
//! | `GET /sessions?state=…&namespace=…` | | 200, `{"items": [ … ]}` |
//!
//! Errors are `{"error": …, "code": …}`.

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, RawQuery, Request as HttpRequest, State as Shared};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Extension, Json, Router};
use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use sojourn_core::access::act::Verb;
use sojourn_core::access::request::Request;
use sojourn_core::access::session::State;
use sojourn_core::key::Key;
use sojourn_core::term::Term;

use super::{AccessService, ServiceError, SessionFilter, error_body};
use crate::family::FamilyCaller;

/// A request has a few hundred bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// The routes of the service, to be nested below `/api/access`.
pub fn router(service: AccessService) -> Router {
    let routes = Router::new()
        .route("/sessions", post(create).get(list))
        .route("/sessions/{namespace}/{name}/{verb}", post(act))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES));
    only_known_callers(routes.with_state(service))
}

/// The same routes for those whom somebody has reviewed.
pub(in crate::access) fn only_known_callers(routes: Router) -> Router {
    routes.layer(middleware::from_fn(known_callers))
}

/// Nobody is served whom nobody has reviewed.
async fn known_callers(request: HttpRequest, next: Next) -> Response {
    let known = request.extensions().get::<FamilyCaller>();
    if known.is_none_or(|caller| caller.user.is_empty()) {
        return plain(StatusCode::UNAUTHORIZED, "nobody is signed in");
    }
    next.run(request).await
}

/// What somebody asks for, as they write it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewSessionBody {
    #[serde(default = "default_namespace")]
    namespace: String,
    cluster: String,
    group: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    duration: Option<String>,
    #[serde(default)]
    scheduled_start_time: Option<String>,
    #[serde(default)]
    escalation: Option<String>,
}

fn default_namespace() -> String {
    "default".to_owned()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ActBody {
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Default)]
struct ListQuery {
    state: Option<String>,
    namespace: Option<String>,
}

/// Neither a state nor a namespace has characters that a query writes otherwise.
fn read_query(query: &str) -> Result<ListQuery, String> {
    let mut read = ListQuery::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let field = match name {
            "state" => &mut read.state,
            "namespace" => &mut read.namespace,
            other => return Err(format!("there is no filter {other:?}")),
        };
        *field = Some(value.to_owned()).filter(|value| !value.is_empty());
    }
    Ok(read)
}

async fn create(
    Shared(service): Shared<AccessService>,
    Extension(caller): Extension<FamilyCaller>,
    body: Bytes,
) -> Response {
    let read = read::<NewSessionBody>(&body).and_then(|body| {
        let NewSessionBody { namespace, cluster, group, reason, escalation, .. } = &body;
        let asked = Request {
            cluster: cluster.clone(),
            group: group.clone(),
            reason: reason.clone(),
            duration: body.duration.as_deref().map(read_duration).transpose()?,
            scheduled_start: body.scheduled_start_time.as_deref().map(time).transpose()?,
            escalation: escalation.clone(),
        };
        Ok((namespace.clone(), asked))
    });
    let (namespace, asked) = match read {
        Ok(read) => read,
        Err(words) => return plain(StatusCode::UNPROCESSABLE_ENTITY, &words),
    };
    let person = service.person(&caller);
    match service.request(&person, &namespace, asked).await {
        Ok(session) => (StatusCode::CREATED, Json(session)).into_response(),
        Err(error) => refused(&error),
    }
}

async fn act(
    Shared(service): Shared<AccessService>,
    Extension(caller): Extension<FamilyCaller>,
    Path((namespace, name, verb)): Path<(String, String, String)>,
    body: Bytes,
) -> Response {
    let Some(verb) = Verb::ALL.into_iter().find(|known| known.as_str() == verb) else {
        return plain(StatusCode::NOT_FOUND, "there is no such verb");
    };
    let (person, key) = (service.person(&caller), Key::new(namespace, name));
    let speaks = matches!(verb, Verb::Approve | Verb::Reject);
    let said = match (body.is_empty(), speaks) {
        (true, _) => Ok(None),
        (false, true) => read::<ActBody>(&body).map(|body| body.reason),
        (false, false) => Err(format!("to {} takes no body", verb.as_str())),
    };
    // Who may not act is not told what is wrong with what they sent.
    let (said, malformed) = match said {
        Ok(said) => (said, None),
        Err(words) => (None, Some(words)),
    };
    if let Some(words) = malformed {
        return match service.may_act(&person, &key, verb).await {
            Ok(()) => plain(StatusCode::BAD_REQUEST, &words),
            Err(error) => refused(&error),
        };
    }
    match service.act(&person, &key, verb, said.as_deref()).await {
        Ok(session) => (StatusCode::OK, Json(session)).into_response(),
        Err(error) => refused(&error),
    }
}

async fn list(
    Shared(service): Shared<AccessService>,
    Extension(caller): Extension<FamilyCaller>,
    RawQuery(query): RawQuery,
) -> Response {
    let ListQuery { state, namespace } = match read_query(query.as_deref().unwrap_or_default()) {
        Ok(query) => query,
        Err(words) => return plain(StatusCode::BAD_REQUEST, &words),
    };
    let state = match state.as_deref().map(state_named).transpose() {
        Ok(state) => state,
        Err(words) => return plain(StatusCode::BAD_REQUEST, &words),
    };
    let sessions = service.list(&service.person(&caller), &SessionFilter { namespace, state });
    Json(json!({ "items": sessions })).into_response()
}

/// A state by its name, in any case.
pub(in crate::access) fn state_named(name: &str) -> Result<State, String> {
    let found = State::ALL.into_iter().find(|state| state.as_str().eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let known = State::ALL.map(State::as_str).join(", ");
        format!("there is no state {name:?}; they are {known}")
    })
}

fn read<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("the body cannot be read: {error}"))
}

/// A time that is asked for, as people write it.
pub(in crate::access) fn read_duration(text: &str) -> Result<jiff::SignedDuration, String> {
    let term = text.parse::<Term>().map_err(|error| format!("duration {error}"))?;
    let span = term.span().filter(jiff::SignedDuration::is_positive);
    span.ok_or_else(|| "duration must be a time, and more than none".to_owned())
}

fn time(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|error| format!("scheduledStartTime must be a time in RFC 3339: {error}"))
}

fn refused(error: &ServiceError) -> Response {
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, Json(error_body(error))).into_response()
}

fn plain(code: StatusCode, words: &str) -> Response {
    let body: Value = json!({ "error": words, "code": code.as_u16() });
    (code, Json(body)).into_response()
}
