//! What matchmakers ask for over HTTP. Paths are below `/api/game`, and `/v1/allocate` is at the root, too; who asks is in
//! the extensions of a request, as the API reviewed them.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST /v1/allocate` | `requestId`, `namespace`, and `collection`, `selectors`, `seats`, `waitSeconds` | 200, a server; 429 with the nearest misses |
//! | `GET /running?namespace=…` | | 200, the servers that can be played on |
//! | `POST /create?namespace=…` | a collection, or its classic form | 201, the collection |
//! | `POST /delete?namespace=…&name=…` | | 200 |
//!
//! Errors are `{"error": …, "code": …}`.

mod classic;
mod request;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, RawQuery, Request as HttpRequest, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use http::StatusCode;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::game::GameConfig;
use sojourn_api::game::name::{ALLOCATE, COLLECTIONS, GROUP, SERVERS};
use sojourn_core::game::allocation::Misses;

use self::request::AllocateBody;
use super::allocator::{AllocationError, Allocator, Given};
use super::caches::GameCaches;
use crate::api_error::api_error_message;
use crate::clock::Clock;
use crate::configuration::Configuration;
use crate::event::Events;
use crate::family::FamilyCaller;

/// A collection has a few thousand bytes.
const MAX_BODY_BYTES: usize = 256 * 1024;

/// Serves matchmakers. Clones share everything.
#[derive(Clone)]
pub(crate) struct GameService {
    pub(crate) client: Client,
    pub(crate) caches: Arc<GameCaches>,
    pub(crate) config: Arc<Configuration<GameConfig>>,
    pub(crate) allocator: Arc<Allocator>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: Events,
}

/// What somebody does to a resource.
#[derive(Debug, Clone, Copy)]
pub(super) struct Action<'a> {
    pub(super) group: &'a str,
    pub(super) verb: &'a str,
    pub(super) resource: &'a str,
    pub(super) subresource: Option<&'a str>,
    /// All of them, if it is empty.
    pub(super) namespace: &'a str,
    pub(super) name: Option<&'a str>,
}

impl GameService {
    /// The routes below `/api/game`.
    pub(crate) fn router(&self) -> Router {
        let routes = Router::new()
            .route("/v1/allocate", post(allocate))
            .route("/running", get(classic::running))
            .route("/create", post(classic::create))
            .route("/delete", post(classic::delete))
            .layer(DefaultBodyLimit::max(MAX_BODY_BYTES));
        only_known_callers(routes.with_state(self.clone()))
    }

    /// The route that matchmakers know.
    pub(crate) fn root_router(&self) -> Router {
        let routes = Router::new()
            .route("/v1/allocate", post(allocate))
            .layer(DefaultBodyLimit::max(MAX_BODY_BYTES));
        only_known_callers(routes.with_state(self.clone()))
    }

    /// Nothing if somebody may do something, as the API says; else what they are told.
    async fn allows(&self, caller: &FamilyCaller, action: Action<'_>) -> Result<(), Response> {
        match self.review(caller, action).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let (verb, resource) = (action.verb, action.resource);
                let of = action.subresource.map(|sub| format!("/{sub}")).unwrap_or_default();
                let words = format!(
                    "{} may not {verb} {resource}{of} in namespace {}",
                    caller.user, action.namespace
                );
                Err(refused(StatusCode::FORBIDDEN, &words))
            }
            Err(error) => Err(refused(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())),
        }
    }

    /// Whether somebody may do something, as the API says.
    pub(super) async fn review(
        &self,
        caller: &FamilyCaller,
        action: Action<'_>,
    ) -> Result<bool, ReviewError> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(caller.user.clone()),
                groups: Some(caller.groups.clone()),
                extra: Some(caller.extra.clone().into_iter().collect()),
                resource_attributes: Some(ResourceAttributes {
                    group: Some(action.group.to_owned()),
                    resource: Some(action.resource.to_owned()),
                    subresource: action.subresource.map(str::to_owned),
                    namespace: Some(action.namespace.to_owned()),
                    name: action.name.map(str::to_owned),
                    verb: Some(action.verb.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await;
        let status = answer.map_err(|error| ReviewError(api_error_message(&error)))?.status;
        Ok(status.is_some_and(|status| status.allowed && status.denied != Some(true)))
    }
}

/// The API did not say whether somebody may do something.
#[derive(Debug, thiserror::Error)]
#[error("cannot ask what is allowed: {0}")]
pub(super) struct ReviewError(String);

/// Nobody is served whom nobody has reviewed.
pub(super) fn only_known_callers(routes: Router) -> Router {
    routes.layer(middleware::from_fn(async |request: HttpRequest, next: Next| -> Response {
        let known = request.extensions().get::<FamilyCaller>();
        if known.is_none_or(|caller| caller.user.is_empty()) {
            return refused(StatusCode::UNAUTHORIZED, "nobody is signed in");
        }
        next.run(request).await
    }))
}

async fn allocate(
    State(service): State<GameService>,
    Extension(caller): Extension<FamilyCaller>,
    body: Bytes,
) -> Response {
    let asked = serde_json::from_slice::<AllocateBody>(&body);
    let asked = match asked.map_err(|error| error.to_string()).and_then(AllocateBody::read) {
        Ok(asked) => asked,
        Err(words) => return refused(StatusCode::UNPROCESSABLE_ENTITY, &words),
    };
    let action = Action {
        group: GROUP,
        verb: "create",
        resource: SERVERS,
        subresource: Some(ALLOCATE),
        namespace: &asked.request.namespace,
        name: None,
    };
    if let Err(response) = service.allows(&caller, action).await {
        return response;
    }
    let lease = service.config.current().grant_lease;
    match service.allocator.allocate(&asked.request, lease, asked.wait).await {
        Ok(given) => (StatusCode::OK, Json(written(&given))).into_response(),
        Err(AllocationError::NothingFree(misses)) => {
            let body = json!({
                "error": explain(&asked.request.collection, &misses),
                "code": 429,
                "misses": {
                    "servers": misses.servers,
                    "notReady": misses.not_ready,
                    "marked": misses.marked,
                    "oldTemplate": misses.old_template,
                    "occupied": misses.occupied,
                    "notSelected": misses.not_selected,
                },
            });
            (StatusCode::TOO_MANY_REQUESTS, Json(body)).into_response()
        }
        Err(error @ AllocationError::Contended) => {
            refused(StatusCode::CONFLICT, &error.to_string())
        }
        Err(
            error @ (AllocationError::TooManyWait
            | AllocationError::NotLeading
            | AllocationError::Unavailable(_)),
        ) => refused(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
    }
}

fn written(given: &Given) -> Value {
    json!({
        "server": &*given.server.name,
        "namespace": &*given.server.namespace,
        "address": given.address,
        "ports": given.ports,
        "grantId": given.grant_id,
        "leaseExpires": format!("{:.0}", given.lease_expires),
    })
}

/// Why nothing is free, in a sentence.
fn explain(collection: &Option<String>, misses: &Misses) -> String {
    let whose = match collection {
        Some(name) => format!("dgsc/{name}"),
        None => "the namespace".to_owned(),
    };
    if misses.servers == 0 {
        return format!("{whose} has no servers");
    }
    let mut parts = Vec::new();
    for (count, words) in [
        (misses.not_ready, "not ready"),
        (misses.marked, "marked for deletion"),
        (misses.old_template, "of an old template"),
        (misses.occupied, "occupied"),
        (misses.not_selected, "matched by no selector"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {words}"));
        }
    }
    format!("of {} servers of {whose} none is free: {}", misses.servers, parts.join(", "))
}

/// A parameter of the query. Neither a namespace nor a name has characters that a query writes otherwise.
fn parameter<'a>(query: &'a RawQuery, name: &str) -> Option<&'a str> {
    let pairs = query.0.as_deref()?.split('&');
    let mut found = pairs.filter_map(|pair| pair.split_once('=')).filter(|(key, _)| *key == name);
    found.next().map(|(_, value)| value).filter(|value| !value.is_empty())
}

fn refused(code: StatusCode, words: &str) -> Response {
    (code, Json(json!({ "error": words, "code": code.as_u16() }))).into_response()
}

/// Whoever asks for a whole collection at the classic routes.
const fn collections<'a>(verb: &'a str, namespace: &'a str, name: Option<&'a str>) -> Action<'a> {
    Action { group: GROUP, verb, resource: COLLECTIONS, subresource: None, namespace, name }
}

/// So long a request may wait, whatever it asks for.
const fn bounded_wait(seconds: u64) -> Duration {
    let most = super::allocator::MAX_WAIT.as_secs();
    Duration::from_secs(if seconds > most { most } else { seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    // case: game A25
    #[test]
    fn nothing_free_is_explained_by_the_nearest_misses() {
        let misses = Misses { servers: 5, not_ready: 2, occupied: 3, ..Misses::default() };
        let words = explain(&Some("arena".to_owned()), &misses);
        assert_eq!(words, "of 5 servers of dgsc/arena none is free: 2 not ready, 3 occupied");
        assert_eq!(explain(&None, &Misses::default()), "the namespace has no servers");
    }

    #[test]
    fn a_parameter_is_read_once_and_only_by_its_own_name() {
        let query = RawQuery(Some("name=a&namespace=play&name=b&x".to_owned()));
        assert_eq!(parameter(&query, "name"), Some("a"));
        assert_eq!(parameter(&query, "namespace"), Some("play"));
        assert_eq!(parameter(&query, "x"), None);
        assert_eq!(bounded_wait(u64::MAX), super::super::allocator::MAX_WAIT);
    }
}
