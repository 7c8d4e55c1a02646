//! The access gateway. At our origin, `/go/<family>/<namespace>/<object>/<environment>/…` wakes an
//! environment, waits for it and redirects to the environment's own origin, which passes everything
//! on and starts nothing.
//!
//! | file                             | what                                                     |
//! |----------------------------------|----------------------------------------------------------|
//! | `target`, `label`                | reads the address; names the origin                      |
//! | `access_review`                  | who may use and start an instance, as the API says       |
//! | `backend`                        | where the environment is, and whether it runs            |
//! | `waiting`                        | the page until it has started                            |
//! | `forward`, `body`, `splice`      | requests, answers, upgraded connections, as they come    |
//! | `header`, `cookie`, `location`   | what changes on the way                                  |
//! | `connection_activity`, `limits`  | activity and idle time; how much may be open             |
//! | `report`                         | activity by `POST`                                       |
//!
//! The sign-in (crate `web`) runs before it: it knows who calls, has checked where the request comes from,
//! and has removed the caller's credentials. Instances serve whatever their owners like, each at an origin of
//! its own; nothing of them is served at ours.

mod access_review;
mod backend;
mod body;
mod connection_activity;
mod cookie;
mod forward;
mod header;
pub(crate) mod label;
mod limits;
mod location;
mod report;
mod splice;
mod target;
#[cfg(test)]
mod tests;
mod waiting;

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

pub use access_review::{OriginUrls, SessionEnded, User, Visitor, VisitorLookup};
pub use backend::{Backend, Backends, LentResource, WakeError, WakeOutcome};
pub use connection_activity::ActivityCallback;
pub use limits::GatewayLimits;
pub use report::{ReportServer, ReportVerifier};

use crate::page::{self, Message};
use access_review::{AccessReviews, AccessRight};
use connection_activity::ConnectionActivity;
use forward::{ForwardError, Forwarding};
use header::ClientInfo;
use limits::{ConnectionLimits, Permit};
use target::{AccessTarget, LentObject};

use crate::family::FamilyGateway;

/// Ends when a visitor may no longer pass; everything that is open for them watches one.
pub(crate) type Revoked = Shared<BoxFuture<'static, ()>>;

/// How long to wait before connecting once more to an environment that is said to be ready.
const CONNECT_RETRY_DELAY: Duration = Duration::from_millis(300);

/// What the gateway is made of.
#[derive(Clone)]
pub struct Settings {
    /// What is lent through it, by the family's name. Each is told of every request, and once a second
    /// while bytes flow.
    pub families: Vec<(&'static str, FamilyGateway)>,
    pub visitors: VisitorLookup,
    /// How environments are reached.
    pub dial: Arc<dyn Dial>,
    /// The operator's own: asks what visitors may, and starts instances.
    pub client: kube::Client,
    /// Cookies whose names begin like this belong to the sign-in.
    pub reserved_cookies: &'static [&'static str],
    pub limits: GatewayLimits,
}

/// Clones are the same gateway.
#[derive(Clone)]
pub struct Gateway(Arc<Inner>);

struct Inner {
    settings: Settings,
    access_reviews: AccessReviews,
    connections: ConnectionLimits,
    closing: CancellationToken,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = &self.0.settings.limits;
        f.debug_struct("Gateway").field("limits", limits).finish_non_exhaustive()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Gateway {
    pub fn new(settings: Settings) -> Self {
        let connections = ConnectionLimits::new(&settings.limits);
        let access_reviews = AccessReviews::new(settings.client.clone());
        Self(Arc::new(Inner {
            settings,
            access_reviews,
            connections,
            closing: CancellationToken::new(),
        }))
    }

    /// What environments' origins serve, for callers who are known there.
    pub fn environment_router(&self) -> Router {
        Router::new().fallback(environment).with_state(self.clone())
    }

    /// Where our origin leads to the environment with this label, without a slash at its end.
    pub fn access_path(&self, label: &str) -> Option<String> {
        let (object, environment) = self.labelled(label)?;
        Some(target::prefix(&object.family, &object.key, &environment))
    }

    /// The environment whose origin has this label.
    fn labelled(&self, label: &str) -> Option<(LentObject, String)> {
        self.0.settings.families.iter().find_map(|(name, family)| {
            let (key, environment) = family.backends.labelled(label)?;
            Some((LentObject { family: (*name).to_owned(), key }, environment))
        })
    }

    /// What a path names, if there is such a family.
    fn target(&self, root: &str, path: &str) -> Option<AccessTarget> {
        AccessTarget::parse(root, path).filter(|target| self.family(&target.object).is_some())
    }

    fn family(&self, object: &LentObject) -> Option<&FamilyGateway> {
        let mut families = self.0.settings.families.iter();
        families.find(|(name, _)| *name == object.family).map(|(_, family)| family)
    }

    /// To be mounted at our origin, where callers are signed in.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/go/{*place}", any(access))
            .route("/waiting/{*place}", any(waiting::wait))
            .with_state(self.clone())
    }

    /// Ends every upgraded connection; they outlive the listener otherwise.
    pub fn close(&self) {
        self.0.closing.cancel();
    }

    /// Who asks, if they may.
    async fn authorize(
        &self,
        target: &AccessTarget,
        extensions: &Extensions,
    ) -> Result<Visitor, Message> {
        let Some(visitor) = (self.0.settings.visitors)(extensions) else {
            let text = "This is only for those who are signed in.";
            return Err(Message::new(StatusCode::UNAUTHORIZED, "Not signed in", text));
        };
        if self.allows(&visitor, &target.object, AccessRight::Use).await? {
            return Ok(visitor);
        }
        let text = format!("You may not use {}, or it does not exist.", target.object);
        Err(Message::new(StatusCode::FORBIDDEN, "Refused", text))
    }

    async fn allows(
        &self,
        visitor: &Visitor,
        object: &LentObject,
        right: AccessRight,
    ) -> Result<bool, Message> {
        let Some(family) = self.family(object) else { return Ok(false) };
        let about = (object, family.backends.resource());
        self.0.access_reviews.allows(visitor, about, right).await.map_err(|error| {
            tracing::warn!(%error, "a visitor has to wait");
            let text = "The API does not say whether you may do this. Try again in a moment.";
            Message::new(StatusCode::SERVICE_UNAVAILABLE, "Not now", text)
        })
    }

    /// Ends when the visitor may no longer pass: they are not who they were, or the API says so.
    /// While the API says nothing, nothing changes.
    fn revoked(&self, visitor: &Visitor, object: &LentObject, resource: LentResource) -> Revoked {
        let (gateway, visitor, object) = (self.clone(), visitor.clone(), object.clone());
        let revoked: BoxFuture<'static, ()> = Box::pin(async move {
            let forbidden = async {
                loop {
                    tokio::time::sleep(gateway.0.settings.limits.recheck).await;
                    let reviews = &gateway.0.access_reviews;
                    let about = (&object, resource);
                    let allowed = reviews.allows(&visitor, about, AccessRight::Use).await;
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

    fn find(&self, target: &AccessTarget) -> Backend {
        self.family(&target.object).map_or(Backend::Missing, |family| {
            family.backends.find(&target.object.key, &target.environment)
        })
    }

    fn changed(&self, target: &AccessTarget) -> BoxFuture<'static, ()> {
        match self.family(&target.object) {
            Some(family) => family.backends.changed(&target.object.key),
            None => std::future::pending().boxed(),
        }
    }

    fn acquire(&self, object: &LentObject) -> Option<Permit> {
        self.0.connections.acquire(object)
    }

    fn poll_timeout(&self) -> Duration {
        self.0.settings.limits.poll
    }

    fn waiting_page(
        &self,
        target: &AccessTarget,
        query: Option<&str>,
        trouble: Option<&str>,
    ) -> Response {
        let (poll, open) = (target.waiting_address(query), target.address(query));
        page::waiting(&target.object.to_string(), trouble, &poll, &open)
    }

    /// Why there is nothing to open.
    fn explain(&self, target: &AccessTarget, backend: &Backend) -> Message {
        let AccessTarget { object, environment, .. } = target;
        let key = &object.key;
        match backend {
            Backend::Missing => not_found(),
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
    async fn wake(&self, visitor: &Visitor, target: &AccessTarget, parts: &Parts) -> Response {
        let headers = &parts.headers;
        let key = &target.object.key;
        let Some(family) = self.family(&target.object) else {
            return not_found().answer(headers);
        };
        if !is_navigation(headers) {
            return self
                .explain(target, &Backend::Stopped { can_wake: true, why: String::new() })
                .answer(headers);
        }
        match self.allows(visitor, &target.object, AccessRight::Start).await {
            Ok(true) => {}
            Ok(false) => {
                let text = format!("{key} is stopped, and you may not start it.");
                return Message::new(StatusCode::FORBIDDEN, "Stopped", text).answer(headers);
            }
            Err(unsaid) => return unsaid.answer(headers),
        }
        match family.backends.wake(&self.0.settings.client, key).await {
            Ok(WakeOutcome::Starting) => {
                (family.activity)(key);
                self.wait(target, parts, None)
            }
            Ok(WakeOutcome::Refused(why)) => stays_stopped(key, &why).answer(headers),
            Ok(WakeOutcome::Missing) => not_found().answer(headers),
            Err(error) => {
                tracing::warn!(%error, "a visitor found an instance stopped");
                let text = format!("{key} is stopped and cannot be started now.");
                Message::new(StatusCode::SERVICE_UNAVAILABLE, "Not now", text).answer(headers)
            }
        }
    }

    /// Sends the visitor to the environment's own origin.
    fn redirect_to_environment(
        &self,
        visitor: &Visitor,
        target: &AccessTarget,
        parts: &Parts,
    ) -> Response {
        let family = self.family(&target.object);
        let label = family
            .and_then(|family| family.backends.label(&target.object.key, &target.environment));
        let path = target.own_path(parts.uri.query());
        let address = label.and_then(|label| visitor.origin_urls.environment_url(&label, &path));
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
    fn wait(&self, target: &AccessTarget, parts: &Parts, trouble: Option<&str>) -> Response {
        if page::wants_html(&parts.headers) {
            self.waiting_page(target, parts.uri.query(), trouble)
        } else {
            self.explain(target, &Backend::Starting { trouble: None }).answer(&parts.headers)
        }
    }

    /// Passes the request on to a running environment.
    async fn forward(
        &self,
        visitor: &Visitor,
        target: &AccessTarget,
        request: Request,
        endpoint: Endpoint,
    ) -> Response {
        let settings = &self.0.settings;
        let headers = request.headers().clone();
        let Some(client_info) = client_info(&request, visitor) else {
            let text = "The request names no host.";
            return Message::new(StatusCode::BAD_REQUEST, "Refused", text).answer(&headers);
        };
        let Some(family) = self.family(&target.object) else {
            return not_found().answer(&headers);
        };
        let Some(permit) = self.acquire(&target.object) else {
            return too_many_connections().answer(&headers);
        };
        let (stream, address) = match self.connect(target, endpoint).await {
            Ok(connected) => connected,
            Err(error) => return unreachable(target, &error).answer(&headers),
        };
        let report =
            is_activity(&headers).then(|| (target.object.key.clone(), family.activity.clone()));
        let connection_activity = Arc::new(ConnectionActivity::new(report));
        connection_activity.record();
        let forwarding = Forwarding {
            target,
            client_info: &client_info,
            limits: &settings.limits,
            reserved_cookies: settings.reserved_cookies,
            connection_activity,
            closing: self.0.closing.clone(),
            revoked: self.revoked(visitor, &target.object, family.backends.resource()),
            permit,
        };
        forwarding
            .forward(request, stream, address)
            .await
            .unwrap_or_else(|error| unreachable(target, &error).answer(&headers))
    }

    /// Connects to where the environment is. It may have just moved, or not listen quite yet.
    async fn connect(
        &self,
        target: &AccessTarget,
        endpoint: Endpoint,
    ) -> Result<(TcpStream, SocketAddr), ForwardError> {
        let Settings { limits, dial, .. } = &self.0.settings;
        let address = endpoint.address;
        match forward::connect(dial.as_ref(), &endpoint, limits).await {
            Ok(stream) => return Ok((stream, address)),
            Err(source) if source.kind() != io::ErrorKind::ConnectionRefused => {
                return Err(ForwardError::Connect { address, source });
            }
            Err(_) => tokio::time::sleep(CONNECT_RETRY_DELAY).await,
        }
        let endpoint = match self.find(target) {
            Backend::Ready { endpoint } => endpoint,
            _ => endpoint,
        };
        let address = endpoint.address;
        let connected = forward::connect(dial.as_ref(), &endpoint, limits).await;
        connected
            .map(|stream| (stream, address))
            .map_err(|source| ForwardError::Connect { address, source })
    }
}

/// Our origin: starts, waits, and redirects to the environment's own.
async fn access(State(gateway): State<Gateway>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let Some(target) = gateway.target(target::ROOT, parts.uri.path()) else {
        return not_found().answer(&parts.headers);
    };
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        let text = "This address only leads to the instance. Send it to where a GET is led.";
        return Message::new(StatusCode::METHOD_NOT_ALLOWED, "Refused", text)
            .answer(&parts.headers);
    }
    if target.rest.is_empty() {
        // Relative URLs of the page resolve correctly only below a path that ends with a slash.
        let address = target.address(parts.uri.query());
        return page::redirect(StatusCode::PERMANENT_REDIRECT, &address);
    }
    let visitor = match gateway.authorize(&target, &parts.extensions).await {
        Ok(visitor) => visitor,
        Err(refused) => return refused.answer(&parts.headers),
    };
    match gateway.find(&target) {
        Backend::Ready { .. } => gateway.redirect_to_environment(&visitor, &target, &parts),
        Backend::Starting { trouble } => gateway.wait(&target, &parts, trouble.as_deref()),
        Backend::Stopped { can_wake: true, .. } => gateway.wake(&visitor, &target, &parts).await,
        other => gateway.explain(&target, &other).answer(&parts.headers),
    }
}

/// An environment's own origin: passes on.
async fn environment(State(gateway): State<Gateway>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let visitor = (gateway.0.settings.visitors)(&parts.extensions);
    let label = visitor.and_then(|visitor| visitor.label);
    let labelled = label.and_then(|label| gateway.labelled(&label));
    let Some((object, environment)) = labelled else {
        return not_found().answer(&parts.headers);
    };
    let target = AccessTarget::at_root(object, environment, parts.uri.path());
    let visitor = match gateway.authorize(&target, &parts.extensions).await {
        Ok(visitor) => visitor,
        Err(refused) => return refused.answer(&parts.headers),
    };
    match gateway.find(&target) {
        Backend::Ready { endpoint } => {
            gateway.forward(&visitor, &target, Request::from_parts(parts, body), endpoint).await
        }
        // A browser is sent to our origin: only that starts the instance and shows its progress.
        _ if is_window(&parts) => {
            let ours = visitor.origin_urls.own_url(&target.address(parts.uri.query()));
            page::redirect(StatusCode::SEE_OTHER, &ours)
        }
        other => gateway.explain(&target, &other).answer(&parts.headers),
    }
}

fn not_found() -> Message {
    Message::new(StatusCode::NOT_FOUND, "Nothing here", "There is no such instance.")
}

fn too_many_connections() -> Message {
    let text = "Too many connections are open. Close some, or try again in a moment.";
    Message::new(StatusCode::SERVICE_UNAVAILABLE, "Too much", text)
}

fn stays_stopped(key: &Key, why: &str) -> Message {
    let text = format!("{key} is stopped and stays so: {why}.");
    Message::new(StatusCode::CONFLICT, "Stopped", text)
}

fn unreachable(target: &AccessTarget, error: &ForwardError) -> Message {
    tracing::info!(object = %target.object, %error, "an environment gave no answer");
    let AccessTarget { object: key, environment, .. } = target;
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

fn client_info(request: &Request, visitor: &Visitor) -> Option<ClientInfo> {
    let in_target = request.uri().authority().map(http::uri::Authority::as_str);
    let authority = match in_target {
        Some(authority) => HeaderValue::try_from(authority).ok()?,
        None => request.headers().get(HOST)?.clone(),
    };
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map(|ConnectInfo(peer)| peer.ip());
    Some(ClientInfo { peer, authority, secure: visitor.secure })
}

/// Somebody opens the page, or a program asks. What a page that is still open somewhere asks for by
/// itself starts nothing: it would start what was just stopped, for ever.
fn is_navigation(headers: &HeaderMap) -> bool {
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
