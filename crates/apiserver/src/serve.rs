//! The stages of a request: authentication, routing, authorization, its body, a seat, then the verb.

pub(crate) mod authorize;
pub(crate) mod block_in_place;
pub(crate) mod body_reader;
mod compress;
pub(crate) mod connections;
mod dispatch;
pub(crate) mod fairness;
mod guarded_body;
mod health;
pub(crate) mod listener;
pub(crate) mod quota;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response};
use tower::ServiceExt;

use crate::auth::authenticate::Authenticator;
use crate::auth::identity::Identity;
use crate::engine::{Engine, Shared};
use crate::metrics::Rejection;
use crate::request::{Query, ResourcePath, Verb};
use crate::status::ApiError;
use crate::verb::Call;

use block_in_place::BlockInPlace;
use connections::Peer;
use dispatch::Routed;
use fairness::Flow;
use fairness::work::Work;

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
    let response = match handle(engine.clone(), request, accepts_gzip).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    };
    let response = if method == http::Method::HEAD { without_body(response) } else { response };
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

/// The answer to HEAD: what GET would say of its body, without it.
fn without_body(mut response: Response<Body>) -> Response<Body> {
    if let Some(length) = http_body::Body::size_hint(response.body()).exact() {
        response.headers_mut().entry(http::header::CONTENT_LENGTH).or_insert(length.into());
    }
    *response.body_mut() = Body::empty();
    response
}

/// Authenticate, authorize, read the body, take a seat, run: a request that is not authorized takes no
/// seat, and a body that does not arrive delays no other request.
async fn handle(
    engine: Arc<Shared>,
    request: Request<Body>,
    gzip: bool,
) -> Result<Response<Body>, ApiError> {
    let (parts, body) = request.into_parts();
    let identity = match parts.extensions.get::<InProcess>() {
        Some(InProcess(identity)) => identity.clone(),
        None => authenticate(&engine, &parts)?,
    };
    let query = Query::parse(parts.uri.query());
    let Routed { flow, to } = dispatch::route(&engine, &parts, query, &identity).await?;
    let Some((call, verb)) = to else {
        let seat = engine.fairness.admit(&flow, 1).await?;
        let work = async {
            Ok(compressed(dispatch::serve_non_resource(&engine, &parts).await?, gzip).await)
        };
        return fairness::with_seat(seat, work).await;
    };
    match verb {
        Verb::Watch if call.path.subresource.is_empty() => watch(&flow, call).await,
        Verb::Get if call.path.subresource == "log" => log(&flow, &call).await,
        Verb::Get | Verb::List => run(&flow, &call, verb, Bytes::new(), gzip).await,
        _ => {
            let limit = engine.limits.body_bytes;
            let read = engine.body_reader.read(&engine.fairness, &flow, body, limit);
            let (bytes, _permit) = read.await?;
            run(&flow, &call, verb, bytes, gzip).await
        }
    }
}

/// Answers a request that ends, holding its seats.
async fn run(
    flow: &Flow,
    call: &Call,
    verb: Verb,
    body: Bytes,
    gzip: bool,
) -> Result<Response<Body>, ApiError> {
    let engine = &call.engine;
    let refused = || engine.fairness.refuse(flow, Rejection::Answers);
    // Refusing must cost less than finding out how much it would be.
    if verb == Verb::List && Work::may_be_large(call) && engine.large_lists.is_full_for(flow) {
        return Err(refused());
    }
    let work = Work::of(call, verb, body.len(), gzip);
    let permit = if verb == Verb::List && work.is_heavy() {
        Some(engine.large_lists.take(flow).ok_or_else(refused)?)
    } else {
        None
    };
    let answering = async { compressed(dispatch::serve(call, verb, &body).await, gzip).await };
    let answering = std::pin::pin!(answering);
    // What a request asks for while it is answered is a part of it.
    let response = if fairness::is_nested() {
        answering.await
    } else {
        let seat = engine.fairness.admit(flow, work.width(engine.fairness.max_width())).await?;
        fairness::with_seat(seat, BlockInPlace::new(work.is_heavy(), answering)).await
    };
    Ok(match permit {
        Some(permit) => guarded_body::hold_until_sent(permit, response),
        None => response,
    })
}

/// Starts a watch: its initial events take a seat, later events do not.
async fn watch(flow: &Flow, call: Call) -> Result<Response<Body>, ApiError> {
    let engine = call.engine.clone();
    let refused = || engine.fairness.refuse(flow, Rejection::Watches);
    let permit = engine.watches.take(flow).ok_or_else(refused)?;
    let work = Work::of(&call, Verb::Watch, 0, false);
    let _seat = if fairness::is_nested() {
        None
    } else {
        Some(engine.fairness.admit(flow, work.width(engine.fairness.max_width())).await?)
    };
    let response = block_in_place::run(work.is_heavy(), || dispatch::watch(call))?;
    Ok(guarded_body::hold_until_sent(permit, response))
}

/// A log is streamed from a node, so it takes a watch permit and no seat.
async fn log(flow: &Flow, call: &Call) -> Result<Response<Body>, ApiError> {
    let engine = &call.engine;
    let refused = || engine.fairness.refuse(flow, Rejection::Watches);
    let permit = engine.watches.take(flow).ok_or_else(refused)?;
    Ok(guarded_body::hold_until_sent(permit, dispatch::serve(call, Verb::Get, &Bytes::new()).await))
}

async fn compressed(response: Response<Body>, gzip: bool) -> Response<Body> {
    if gzip { compress::compress(response).await } else { response }
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
    if let Some(peer) = parts.extensions.get::<Arc<Peer>>() {
        peer.authenticated(&identity.user().name);
    }
    Ok(identity)
}
