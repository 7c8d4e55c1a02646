//! The way of a request: limits, who, what, may they, then the verb.

pub(crate) mod authorize;
mod compress;
mod dispatch;
mod health;
pub(crate) mod listener;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tower::ServiceExt;

use crate::auth::authenticate::Authenticator;
use crate::auth::identity::Identity;
use crate::engine::{Engine, Shared};
use crate::request::{Query, ResourcePath};
use crate::status::ApiError;

/// How long a body may take to arrive, as upstream.
const BODY_WAIT: Duration = Duration::from_secs(60);

/// Says that a connection's peer showed a certificate of ours.
#[derive(Debug, Clone)]
pub(crate) struct PeerIdentity(pub(crate) Identity);

/// Says that a request comes from inside the process, with the identity that it acts with. Headers
/// cannot set it.
#[derive(Debug, Clone)]
struct InProcess(Identity);

impl Engine {
    /// The API as a router. Requests must carry credentials.
    pub fn router(&self) -> Router {
        let shared = self.shared.clone();
        Router::new().fallback(move |request: Request<Body>| {
            let shared = shared.clone();
            async move { answer(shared, request).await }
        })
    }

    /// A client that talks to the engine inside the process, as `identity`.
    pub fn client(&self, identity: Identity) -> kube::Client {
        self.client_named(identity, "sojourn")
    }

    /// The same, under a user agent of its own: the default field manager.
    pub fn client_named(&self, identity: Identity, user_agent: &str) -> kube::Client {
        let agent = http::HeaderValue::from_str(user_agent)
            .unwrap_or_else(|_| http::HeaderValue::from_static("sojourn"));
        let service = self.router().map_request(move |mut request: Request<kube::client::Body>| {
            request.extensions_mut().insert(InProcess(identity.clone()));
            request.headers_mut().entry(http::header::USER_AGENT).or_insert_with(|| agent.clone());
            request.map(Body::new)
        });
        kube::Client::new(service, "default")
    }
}

async fn answer(engine: Arc<Shared>, request: Request<Body>) -> Response<Body> {
    let started = Instant::now();
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let accepts_gzip = compress::accepts_gzip(request.headers());
    let served = |p: &ResourcePath| engine.registry().resource(&p.group, &p.resource).is_some();
    let label = ResourcePath::parse(&path).filter(served).map(|p| p.resource).unwrap_or_default();
    let mut response = match handle(engine.clone(), request).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    };
    if accepts_gzip {
        response = compress::compress(response).await;
    }
    let code = response.status().as_u16();
    engine.metrics.observe(&method, &label, code, started.elapsed());
    tracing::debug!(
        http.method = %method,
        http.path = path,
        http.code = code,
        duration_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
        "request"
    );
    response
}

async fn handle(engine: Arc<Shared>, request: Request<Body>) -> Result<Response<Body>, ApiError> {
    let (parts, body) = request.into_parts();
    let identity = match parts.extensions.get::<InProcess>() {
        Some(InProcess(identity)) => identity.clone(),
        None => authenticate(&engine, &parts)?,
    };
    let query = Query::parse(parts.uri.query());
    let permit = if is_watch(&parts, &query) {
        None
    } else {
        Some(engine.in_flight.clone().try_acquire_owned().map_err(|_| {
            ApiError::too_many_requests("too many requests, please try again later", 1)
        })?)
    };
    let bytes = read_body(body, engine.limits.body_bytes).await?;
    let response = dispatch::dispatch(&engine, &parts, query, identity, bytes).await;
    drop(permit);
    response
}

/// Whether a watch will answer, which is counted by itself.
fn is_watch(parts: &http::request::Parts, query: &Query) -> bool {
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    let path = ResourcePath::parse(parts.uri.path());
    reads
        && query.flag("watch").unwrap_or(false)
        && path.is_some_and(|path| path.subresource.is_empty())
}

fn authenticate(engine: &Arc<Shared>, parts: &http::request::Parts) -> Result<Identity, ApiError> {
    let certificate = parts.extensions.get::<PeerIdentity>().map(|p| &p.0);
    let tokens = engine.tokens();
    let authenticator =
        Authenticator { tokens: &tokens, accounts: &engine.accounts, objects: &**engine };
    let identity = authenticator.identify(certificate, &parts.headers, engine.clock.now())?;
    if identity == Identity::anonymous() {
        return Err(ApiError::unauthorized());
    }
    Ok(identity)
}

async fn read_body(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let read = tokio::time::timeout(BODY_WAIT, Limited::new(body, limit).collect());
    match read.await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(ApiError::too_large(format!("Request entity too large: limit is {limit}")))
        }
        Ok(Err(error)) => {
            Err(ApiError::bad_request(format!("cannot read the request body: {error}")))
        }
        Err(_) => Err(ApiError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            "Timeout: request did not complete within the requested timeout - context deadline \
             exceeded",
        )),
    }
}
