//! The access gateway. At our origin, `/access/<namespace>/<instance>/<environment>/…` wakes an
//! environment, waits for it and hands over to the environment's own origin, which passes everything
//! on and starts nothing.
//!
//! | file                             | what                                                     |
//! |----------------------------------|----------------------------------------------------------|
//! | `place`, `label`                 | reads the address; names the origin                      |
//! | `admit`                          | who may pass, by the API's word                          |
//! | `backend`                        | where the environment is, and whether it runs            |
//! | `wake`, `waiting`                | starting it for a visitor, and the page until then       |
//! | `forward`, `body`, `splice`      | requests, answers, upgraded connections, as they come    |
//! | `header`, `cookie`, `location`   | what changes on the way                                  |
//! | `pulse`, `bound`                 | activity and silence; how much may be open               |
//! | `report`                         | activity by `POST`                                       |
//!
//! It stands behind a door that knows who calls, has checked where the request comes from, and has
//! taken out the caller's proofs. Instances serve whatever their owners like, each at an origin of
//! its own; nothing of them is served at ours.

mod admit;
mod backend;
mod body;
mod bound;
mod cookie;
mod forward;
mod header;
pub(crate) mod label;
mod location;
pub(crate) mod page;
mod place;
mod pulse;
mod report;
mod splice;
#[cfg(test)]
mod tests;
mod waiting;
mod wake;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::response::Response;
use axum::routing::any;
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use http::header::{HOST, HeaderValue};
use http::request::Parts;
use http::{Extensions, HeaderMap, Method, StatusCode};
use sojourn_core::key::Key;
use sojourn_drivers::dial::{Dial, Endpoint};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

pub use admit::{Ended, User, Visitor, Visitors, Ways};
pub use backend::{Backend, Backends};
pub use bound::Bounds;
pub use pulse::Activity;
pub use report::{Reporting, Reports};

use admit::{Admissions, Right};
use bound::{Permit, Places};
use forward::{ForwardError, Passage};
use header::Journey;
use page::Message;
use place::Place;
use pulse::Pulse;
use wake::Woken;

/// Ends when a visitor may no longer pass; everything that is open for them watches one.
pub(crate) type Revoked = Shared<BoxFuture<'static, ()>>;

/// How long to wait before connecting once more to an environment that is said to be ready.
const SECOND_TRY: Duration = Duration::from_millis(300);

/// What the gateway is made of.
#[derive(Clone)]
pub struct Settings {
    pub backends: Arc<dyn Backends>,
    pub visitors: Visitors,
    /// How environments are reached.
    pub dial: Arc<dyn Dial>,
    /// The operator's own: asks what visitors may, and starts instances.
    pub client: kube::Client,
    /// Told of every request, and once a second while bytes flow.
    pub activity: Activity,
    /// Cookies whose names begin like this belong to the door.
    pub reserved_cookies: &'static [&'static str],
    pub bounds: Bounds,
}

/// Clones are the same gateway.
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

struct Inner {
    settings: Settings,
    admissions: Admissions,
    places: Places,
    closing: CancellationToken,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bounds = &self.0.settings.bounds;
        f.debug_struct("Gateway").field("bounds", bounds).finish_non_exhaustive()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl Gateway {
    pub fn new(settings: Settings) -> Self {
        let places = Places::new(&settings.bounds);
        let admissions = Admissions::new(settings.client.clone());
        Self(Arc::new(Inner { settings, admissions, places, closing: CancellationToken::new() }))
    }

    /// What environments' origins serve, for callers who are known there.
    pub fn lent_router(&self) -> Router {
        Router::new().fallback(lent).with_state(self.clone())
    }

    /// Where our origin leads to the environment with this label, without a slash at its end.
    pub fn place(&self, label: &str) -> Option<String> {
        let (key, environment) = self.0.settings.backends.labelled(label)?;
        Some(place::prefix(&key, &environment))
    }

    /// To be mounted at our origin, where callers are signed in.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/access/{*place}", any(access))
            .route("/waiting/{*place}", any(waiting::wait))
            .with_state(self.clone())
    }

    /// Ends every upgraded connection; they outlive the listener otherwise.
    pub fn close(&self) {
        self.0.closing.cancel();
    }

    /// Who asks, if they may.
    async fn admit(&self, place: &Place, extensions: &Extensions) -> Result<Visitor, Message> {
        let Some(visitor) = (self.0.settings.visitors)(extensions) else {
            let text = "This is only for those who are signed in.";
            return Err(Message::new(StatusCode::UNAUTHORIZED, "Not signed in", text));
        };
        if self.allows(&visitor, &place.key, Right::Use).await? {
            return Ok(visitor);
        }
        let text = format!("You may not use {}, or it does not exist.", place.key);
        Err(Message::new(StatusCode::FORBIDDEN, "Refused", text))
    }

    async fn allows(&self, visitor: &Visitor, key: &Key, right: Right) -> Result<bool, Message> {
        self.0.admissions.allows(visitor, key, right).await.map_err(|error| {
            tracing::warn!(%error, "a visitor has to wait");
            let text = "The API does not say whether you may do this. Try again in a moment.";
            Message::new(StatusCode::SERVICE_UNAVAILABLE, "Not now", text)
        })
    }

    /// Ends when the visitor may no longer pass: they are not who they were, or the API says so.
    /// While the API says nothing, nothing changes.
    fn revoked(&self, visitor: &Visitor, key: &Key) -> Revoked {
        let (gateway, visitor, key) = (self.clone(), visitor.clone(), key.clone());
        let revoked: BoxFuture<'static, ()> = Box::pin(async move {
            let forbidden = async {
                loop {
                    tokio::time::sleep(gateway.0.settings.bounds.recheck).await;
                    let allowed = gateway.0.admissions.allows(&visitor, &key, Right::Use).await;
                    if let Ok(false) = allowed {
                        return;
                    }
                }
            };
            tokio::select! {
                () = (visitor.ended)() => {}
                () = forbidden => {}
            }
        });
        revoked.shared()
    }

    fn find(&self, place: &Place) -> Backend {
        self.0.settings.backends.find(&place.key, &place.environment)
    }

    fn changed(&self, key: &Key) -> BoxFuture<'static, ()> {
        self.0.settings.backends.changed(key)
    }

    fn take(&self, key: &Key) -> Option<Permit> {
        self.0.places.take(key)
    }

    fn patience(&self) -> Duration {
        self.0.settings.bounds.poll
    }

    fn waiting_page(&self, place: &Place, query: Option<&str>, trouble: Option<&str>) -> Response {
        let (poll, open) = (place.waiting_address(query), place.address(query));
        page::waiting(&place.key.to_string(), trouble, &poll, &open)
    }

    /// Why there is nothing to open.
    fn explain(&self, place: &Place, backend: &Backend) -> Message {
        let Place { key, environment, .. } = place;
        match backend {
            Backend::Missing => no_such_place(),
            Backend::NoSuchEnvironment => {
                let text = format!("{key} has no environment {environment:?}.");
                Message::new(StatusCode::NOT_FOUND, "Nothing here", text)
            }
            Backend::Stopped { can_wake: false, why } => stays_stopped(key, why),
            Backend::Stopped { can_wake: true, .. } => {
                let text = format!("{key} is stopped.");
                Message::new(StatusCode::SERVICE_UNAVAILABLE, "Stopped", text)
            }
            Backend::Starting { .. } | Backend::Ready { .. } => {
                let text = format!("{key} is starting.");
                Message::new(StatusCode::SERVICE_UNAVAILABLE, "Starting", text)
            }
            Backend::Failed { why } => {
                Message::new(StatusCode::BAD_GATEWAY, "Failed", format!("{key} failed: {why}."))
            }
        }
    }

    /// Starts the instance if that is what the visitor came for.
    async fn wake(&self, visitor: &Visitor, place: &Place, parts: &Parts) -> Response {
        let headers = &parts.headers;
        let key = &place.key;
        if !is_arrival(headers) {
            return self
                .explain(place, &Backend::Stopped { can_wake: true, why: String::new() })
                .answer(headers);
        }
        match self.allows(visitor, key, Right::Start).await {
            Ok(true) => {}
            Ok(false) => {
                let text = format!("{key} is stopped, and you may not start it.");
                return Message::new(StatusCode::FORBIDDEN, "Stopped", text).answer(headers);
            }
            Err(unsaid) => return unsaid.answer(headers),
        }
        match wake::wake(&self.0.settings.client, key).await {
            Ok(Woken::Starting) => {
                (self.0.settings.activity)(key);
                self.wait(place, parts, None)
            }
            Ok(Woken::Held(why)) => stays_stopped(key, &why.to_string()).answer(headers),
            Ok(Woken::Missing) => no_such_place().answer(headers),
            Err(error) => {
                tracing::warn!(%error, "a visitor found an instance stopped");
                let text = format!("{key} is stopped and cannot be started now.");
                Message::new(StatusCode::SERVICE_UNAVAILABLE, "Not now", text).answer(headers)
            }
        }
    }

    /// Sends the visitor to the environment's own origin.
    fn hand_over(&self, visitor: &Visitor, place: &Place, parts: &Parts) -> Response {
        let label = self.0.settings.backends.label(&place.key, &place.environment);
        let path = place.own_path(parts.uri.query());
        let address = label.and_then(|label| visitor.ways.lent(&label, &path));
        match address {
            Some(address) => page::redirect(StatusCode::SEE_OTHER, &address),
            None => {
                let text = "Instances have no address that leads to them from here: an \
                            administrator must set gateway.domain in the configuration.";
                Message::new(StatusCode::NOT_IMPLEMENTED, "No way", text).answer(&parts.headers)
            }
        }
    }

    /// For a person the waiting page, for a program a word when to come back.
    fn wait(&self, place: &Place, parts: &Parts, trouble: Option<&str>) -> Response {
        if page::wants_html(&parts.headers) {
            self.waiting_page(place, parts.uri.query(), trouble)
        } else {
            self.explain(place, &Backend::Starting { trouble: None }).answer(&parts.headers)
        }
    }

    /// Passes the request on to a running environment.
    async fn pass(
        &self,
        visitor: &Visitor,
        place: &Place,
        request: Request,
        endpoint: Endpoint,
    ) -> Response {
        let settings = &self.0.settings;
        let headers = request.headers().clone();
        let Some(journey) = journey(&request, visitor) else {
            let text = "The request names no host.";
            return Message::new(StatusCode::BAD_REQUEST, "Refused", text).answer(&headers);
        };
        let Some(permit) = self.take(&place.key) else { return too_much().answer(&headers) };
        let (stream, address) = match self.connect(place, endpoint).await {
            Ok(connected) => connected,
            Err(error) => return unreachable(place, &error).answer(&headers),
        };
        let report = is_activity(&headers).then(|| (place.key.clone(), settings.activity.clone()));
        let pulse = Arc::new(Pulse::new(report));
        pulse.beat();
        let passage = Passage {
            place,
            journey: &journey,
            bounds: &settings.bounds,
            reserved_cookies: settings.reserved_cookies,
            pulse,
            closing: self.0.closing.clone(),
            revoked: self.revoked(visitor, &place.key),
            permit,
        };
        passage
            .forward(request, stream, address)
            .await
            .unwrap_or_else(|error| unreachable(place, &error).answer(&headers))
    }

    /// Connects to where the environment is. It may have just moved, or not listen quite yet.
    async fn connect(
        &self,
        place: &Place,
        endpoint: Endpoint,
    ) -> Result<(TcpStream, SocketAddr), ForwardError> {
        let Settings { bounds, dial, .. } = &self.0.settings;
        let address = endpoint.address;
        match forward::connect(dial.as_ref(), &endpoint, bounds).await {
            Ok(stream) => return Ok((stream, address)),
            Err(source) if source.kind() != io::ErrorKind::ConnectionRefused => {
                return Err(ForwardError::Connect { address, source });
            }
            Err(_) => tokio::time::sleep(SECOND_TRY).await,
        }
        let endpoint = match self.find(place) {
            Backend::Ready { endpoint } => endpoint,
            _ => endpoint,
        };
        let address = endpoint.address;
        let connected = forward::connect(dial.as_ref(), &endpoint, bounds).await;
        connected
            .map(|stream| (stream, address))
            .map_err(|source| ForwardError::Connect { address, source })
    }
}

/// Our origin: starts, waits, and hands over.
async fn access(State(gateway): State<Gateway>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let Some(place) = Place::parse("/access", parts.uri.path()) else {
        return no_such_place().answer(&parts.headers);
    };
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        let text = "This address only leads to the instance. Send it to where a GET is led.";
        return Message::new(StatusCode::METHOD_NOT_ALLOWED, "Refused", text)
            .answer(&parts.headers);
    }
    if place.rest.is_empty() {
        // Relative addresses need the slash.
        let address = place.address(parts.uri.query());
        return page::redirect(StatusCode::PERMANENT_REDIRECT, &address);
    }
    let visitor = match gateway.admit(&place, &parts.extensions).await {
        Ok(visitor) => visitor,
        Err(refused) => return refused.answer(&parts.headers),
    };
    match gateway.find(&place) {
        Backend::Ready { .. } => gateway.hand_over(&visitor, &place, &parts),
        Backend::Starting { trouble } => gateway.wait(&place, &parts, trouble.as_deref()),
        Backend::Stopped { can_wake: true, .. } => gateway.wake(&visitor, &place, &parts).await,
        other => gateway.explain(&place, &other).answer(&parts.headers),
    }
}

/// An environment's own origin: passes on.
async fn lent(State(gateway): State<Gateway>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let visitor = (gateway.0.settings.visitors)(&parts.extensions);
    let label = visitor.and_then(|visitor| visitor.label);
    let labelled = label.and_then(|label| gateway.0.settings.backends.labelled(&label));
    let Some((key, environment)) = labelled else {
        return no_such_place().answer(&parts.headers);
    };
    let place = Place::at_root(key, environment, parts.uri.path());
    let visitor = match gateway.admit(&place, &parts.extensions).await {
        Ok(visitor) => visitor,
        Err(refused) => return refused.answer(&parts.headers),
    };
    match gateway.find(&place) {
        Backend::Ready { endpoint } => {
            gateway.pass(&visitor, &place, Request::from_parts(parts, body), endpoint).await
        }
        // Only our origin starts it, or shows how far it is.
        _ if is_window(&parts) => {
            let ours = visitor.ways.own(&place.address(parts.uri.query()));
            page::redirect(StatusCode::SEE_OTHER, &ours)
        }
        other => gateway.explain(&place, &other).answer(&parts.headers),
    }
}

fn no_such_place() -> Message {
    Message::new(StatusCode::NOT_FOUND, "Nothing here", "There is no such instance.")
}

fn too_much() -> Message {
    let text = "Too many connections are open. Close some, or try again in a moment.";
    Message::new(StatusCode::SERVICE_UNAVAILABLE, "Too much", text)
}

fn stays_stopped(key: &Key, why: &str) -> Message {
    let text = format!("{key} is stopped and stays so: {why}.");
    Message::new(StatusCode::CONFLICT, "Stopped", text)
}

fn unreachable(place: &Place, error: &ForwardError) -> Message {
    tracing::info!(instance = %place.key, %error, "an instance gave no answer");
    let Place { key, environment, .. } = place;
    let (status, what) = match error {
        ForwardError::Connect { .. } => (StatusCode::BAD_GATEWAY, "takes no connections"),
        ForwardError::Talk { .. } => (StatusCode::BAD_GATEWAY, "broke off before it answered"),
        ForwardError::Unasked { .. } => (StatusCode::BAD_GATEWAY, "answered what nobody asked"),
        ForwardError::Revoked => (StatusCode::FORBIDDEN, "is not for you any more"),
        ForwardError::Silent { .. } => (StatusCode::GATEWAY_TIMEOUT, "did not answer in time"),
        ForwardError::Address { .. } => (StatusCode::BAD_REQUEST, "cannot be asked for this"),
    };
    let text = format!("{environment:?} of {key} runs, but {what}. Try again in a moment.");
    Message::new(status, "No answer", text)
}

fn journey(request: &Request, visitor: &Visitor) -> Option<Journey> {
    let in_target = request.uri().authority().map(http::uri::Authority::as_str);
    let authority = match in_target {
        Some(authority) => HeaderValue::try_from(authority).ok()?,
        None => request.headers().get(HOST)?.clone(),
    };
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map(|ConnectInfo(peer)| peer.ip());
    Some(Journey { peer, authority, secure: visitor.secure })
}

/// Somebody opens the page, or a program asks. What a page that is still open somewhere asks for by
/// itself starts nothing: it would start what was just stopped, for ever.
fn is_arrival(headers: &HeaderMap) -> bool {
    let is_visit = headers.get_all("sec-fetch-mode").iter().all(|mode| mode == "navigate");
    is_visit && is_activity(headers)
}

/// A browser that fetches ahead does so for itself.
fn is_activity(headers: &HeaderMap) -> bool {
    let fetches_ahead = |name: &str| {
        headers
            .get_all(name)
            .iter()
            .any(|purpose| purpose.to_str().is_ok_and(|purpose| purpose.contains("prefetch")))
    };
    !fetches_ahead("sec-purpose") && !fetches_ahead("purpose")
}

/// A window of its own will show the answer.
fn is_window(parts: &Parts) -> bool {
    let says =
        |name: &str, value: &str| parts.headers.get(name).is_some_and(|given| given == value);
    parts.method == Method::GET
        && says("sec-fetch-mode", "navigate")
        && says("sec-fetch-dest", "document")
}
