//! The access gateway. At our origin, `/access/<namespace>/<instance>/<environment>/…` wakes an
//! environment, waits for it and redirects to the environment's own origin, which passes everything
//! on and starts nothing.
//!
//! | file                             | what                                                     |
//! |----------------------------------|----------------------------------------------------------|
//! | `target`, `label`                | reads the address; names the origin                      |
//! | `access_review`                  | who may use and start an instance, as the API says       |
//! | `backend`                        | where the environment is, and whether it runs            |
//! | `wake`, `waiting`                | starting it for a visitor, and the page until then       |
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
pub(crate) mod page;
mod report;
mod splice;
mod target;
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

pub use access_review::{OriginUrls, SessionEnded, User, Visitor, VisitorLookup};
pub use backend::{Backend, Backends};
pub use connection_activity::ActivityCallback;
pub use limits::GatewayLimits;
pub use report::{ReportServer, ReportVerifier};

use access_review::{AccessReviews, AccessRight};
use connection_activity::ConnectionActivity;
use forward::{ForwardError, Forwarding};
use header::ClientInfo;
use limits::{ConnectionLimits, Permit};
use page::Message;
use target::AccessTarget;
use wake::WakeOutcome;

/// Ends when a visitor may no longer pass; everything that is open for them watches one.
pub(crate) type Revoked = Shared<BoxFuture<'static, ()>>;

/// How long to wait before connecting once more to an environment that is said to be ready.
const CONNECT_RETRY_DELAY: Duration = Duration::from_millis(300);

/// What the gateway is made of.
#[derive(Clone)]
pub struct Settings {
    pub backends: Arc<dyn Backends>,
    pub visitors: VisitorLookup,
    /// How environments are reached.
    pub dial: Arc<dyn Dial>,
    /// The operator's own: asks what visitors may, and starts instances.
    pub client: kube::Client,
    /// Told of every request, and once a second while bytes flow.
    pub activity: ActivityCallback,
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
        let (key, environment) = self.0.settings.backends.labelled(label)?;
        Some(target::prefix(&key, &environment))
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
    async fn authorize(
        &self,
        target: &AccessTarget,
        extensions: &Extensions,
    ) -> Result<Visitor, Message> {
        let Some(visitor) = (self.0.settings.visitors)(extensions) else {
            let text = "This is only for those who are signed in.";
            return Err(Message::new(StatusCode::UNAUTHORIZED, "Not signed in", text));
        };
        if self.allows(&visitor, &target.key, AccessRight::Use).await? {
            return Ok(visitor);
        }
        let text = format!("You may not use {}, or it does not exist.", target.key);
        Err(Message::new(StatusCode::FORBIDDEN, "Refused", text))
    }

    async fn allows(
        &self,
        visitor: &Visitor,
        key: &Key,
        right: AccessRight,
    ) -> Result<bool, Message> {
        self.0.access_reviews.allows(visitor, key, right).await.map_err(|error| {
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
                    tokio::time::sleep(gateway.0.settings.limits.recheck).await;
                    let allowed =
                        gateway.0.access_reviews.allows(&visitor, &key, AccessRight::Use).await;
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
        self.0.settings.backends.find(&target.key, &target.environment)
    }

    fn changed(&self, key: &Key) -> BoxFuture<'static, ()> {
        self.0.settings.backends.changed(key)
    }

    fn acquire(&self, key: &Key) -> Option<Permit> {
        self.0.connections.acquire(key)
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
        page::waiting(&target.key.to_string(), trouble, &poll, &open)
    }

    /// Why there is nothing to open.
    fn explain(&self, target: &AccessTarget, backend: &Backend) -> Message {
        let AccessTarget { key, environment, .. } = target;
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
        let key = &target.key;
        if !is_navigation(headers) {
            return self
                .explain(target, &Backend::Stopped { can_wake: true, why: String::new() })
                .answer(headers);
        }
        match self.allows(visitor, key, AccessRight::Start).await {
            Ok(true) => {}
            Ok(false) => {
                let text = format!("{key} is stopped, and you may not start it.");
                return Message::new(StatusCode::FORBIDDEN, "Stopped", text).answer(headers);
            }
            Err(unsaid) => return unsaid.answer(headers),
        }
        match wake::wake(&self.0.settings.client, key).await {
            Ok(WakeOutcome::Starting) => {
                (self.0.settings.activity)(key);
                self.wait(target, parts, None)
            }
            Ok(WakeOutcome::Refused(why)) => stays_stopped(key, &why.to_string()).answer(headers),
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
        let label = self.0.settings.backends.label(&target.key, &target.environment);
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
        let Some(permit) = self.acquire(&target.key) else {
            return too_many_connections().answer(&headers);
        };
        let (stream, address) = match self.connect(target, endpoint).await {
            Ok(connected) => connected,
            Err(error) => return unreachable(target, &error).answer(&headers),
        };
        let report = is_activity(&headers).then(|| (target.key.clone(), settings.activity.clone()));
        let connection_activity = Arc::new(ConnectionActivity::new(report));
        connection_activity.record();
        let forwarding = Forwarding {
            target,
            client_info: &client_info,
            limits: &settings.limits,
            reserved_cookies: settings.reserved_cookies,
            connection_activity,
            closing: self.0.closing.clone(),
            revoked: self.revoked(visitor, &target.key),
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
    let Some(target) = AccessTarget::parse("/access", parts.uri.path()) else {
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
    let labelled = label.and_then(|label| gateway.0.settings.backends.labelled(&label));
    let Some((key, environment)) = labelled else {
        return not_found().answer(&parts.headers);
    };
    let target = AccessTarget::at_root(key, environment, parts.uri.path());
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
    tracing::info!(instance = %target.key, %error, "an instance gave no answer");
    let AccessTarget { key, environment, .. } = target;
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
