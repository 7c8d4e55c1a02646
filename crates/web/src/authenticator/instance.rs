//! The origins of instances. Each has one of its pages, so what it serves cannot touch our pages or
//! another instance: a browser keeps them apart.
//!
//! A browser comes here from our origin with a one-time token, at one reserved path, and gets a
//! cookie of this host. Everything else goes to the instance: a visit, or what the instance's own
//! pages ask for. Programs show their bearer token. Nothing here starts an instance, and whoever is
//! not known is sent to our origin, which knows them.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use http::header::{AUTHORIZATION, HeaderValue, LOCATION, SET_COOKIE, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, StatusCode};
use tower::ServiceExt as _;

use super::{Authenticator, Caller, TokenRejection, api_unavailable, pages, privileged, refused};
use crate::cookie;
use crate::identity::Identity;
use crate::origin::{self, Approach, Site};
use crate::page::{self, Message};
use crate::session::Session;
use crate::token;

/// What begins like this is ours at every instance.
const RESERVED: &str = "/.sojourn";
/// Where a browser shows its token.
pub(super) const ENTER: &str = "/.sojourn/enter";

/// What is served at the origins of instances.
#[derive(Clone, Default)]
pub struct InstanceSite {
    /// Passes requests on; they carry a [`Caller`] that knows the label.
    pub router: Router,
    /// The path at our own origin that leads to the instance with a label, without a slash at its
    /// end.
    pub path: Option<InstancePath>,
}

/// Finds the instance with a label.
pub type InstancePath = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl fmt::Debug for InstanceSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstanceSite").finish_non_exhaustive()
    }
}

/// A request for the instance with this label.
pub(super) async fn serve(
    authenticator: &Authenticator,
    instance: &InstanceSite,
    site: Site,
    label: &str,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let approach = match origin::approach(&parts, &site) {
        Ok(approach) => approach,
        Err(refusal) => return refused(refusal).answer(&parts.headers),
    };
    let path = parts.uri.path();
    if path == ENTER && parts.method == Method::GET && approach == Approach::Visit {
        return enter(authenticator, instance, &site, label, parts.uri.query());
    }
    if path.strip_prefix(RESERVED).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return pages::not_found(parts.headers).await;
    }
    let mut request = Request::from_parts(parts, body);
    let session = match authenticator.entered(request.headers(), approach, &site, label) {
        Some(session) => authenticator.confirm(&session).await.map(|identity| (session, identity)),
        None => None,
    };
    cookie::remove_reserved(request.headers_mut());
    let known = match session {
        Some((session, identity)) => Ok((identity, session.account.clone(), Some(session))),
        None => program(authenticator, &mut request).await,
    };
    let (identity, account, session) = match known {
        Ok(known) => known,
        Err(TokenRejection::Nobody) if approach == Approach::Visit => {
            return to_our_origin(authenticator, instance, &site, label, &request);
        }
        Err(unknown) => return rejected(&unknown, request.headers()),
    };
    let (label, authenticator) = (Some(label.to_owned()), authenticator.clone());
    let caller = Caller { identity, site, label, account, session, authenticator };
    request.extensions_mut().insert(caller);
    let Ok(response) = instance.router.clone().oneshot(request).await;
    response
}

impl Authenticator {
    /// The session that the cookie of an instance's origin names.
    fn entered(
        &self,
        headers: &HeaderMap,
        approach: Approach,
        site: &Site,
        label: &str,
    ) -> Option<Session> {
        if approach == Approach::Unproven {
            return None;
        }
        let name = cookie::entry_name(site.secure, site.port);
        // The instance's own scripts may have added others of the name, but none that we gave out.
        cookie::values(headers, &name)
            .into_iter()
            .filter_map(|value| self.0.entries.find(value, label))
            .find_map(|id| self.0.sessions.touch(&id))
    }
}

type AuthenticatedProgram = (Arc<Identity>, Arc<crate::account::Account>, Option<Session>);

/// The program whose token the request shows. The token goes no further.
async fn program(
    authenticator: &Authenticator,
    request: &mut Request,
) -> Result<AuthenticatedProgram, TokenRejection> {
    let token =
        token::bearer(request.headers()).map(str::to_owned).ok_or(TokenRejection::Nobody)?;
    let account = Arc::new(authenticator.account(&token).await?);
    request.headers_mut().remove(AUTHORIZATION);
    Ok((Arc::new(account.credentials.identity.clone()), account, None))
}

/// Exchanges a token for the cookie of this host.
fn enter(
    authenticator: &Authenticator,
    instance: &InstanceSite,
    site: &Site,
    label: &str,
    query: Option<&str>,
) -> Response {
    let token = query.and_then(|query| query.strip_prefix("token=")).unwrap_or_default();
    let redeemed = authenticator.0.entries.redeem(token, label);
    let session =
        redeemed.and_then(|(id, path)| Some((authenticator.0.sessions.touch(&id)?, path)));
    let Some((session, path)) = session else {
        let instance_path = instance.path.as_ref().and_then(|path| path(label)).unwrap_or_default();
        let ours = format!("{}{instance_path}/", authenticator.names().own_origin(site));
        return used_up(&ours).page();
    };
    let is_open = |id: &_| authenticator.0.sessions.is_open(id);
    let secret = authenticator.0.entries.enter(session.id, label, is_open);
    let name = cookie::entry_name(site.secure, site.port);
    // The whole address: a path such as `//host` would lead elsewhere.
    let mut response = see_other(&format!("{}{path}", site.origin()));
    let cookie = cookie::set_entry(&name, &secret, site.secure);
    response.headers_mut().insert(SET_COOKIE, cookie);
    response
}

/// Our origin keeps the path, and hands back whoever may.
fn to_our_origin(
    authenticator: &Authenticator,
    instance: &InstanceSite,
    site: &Site,
    label: &str,
    request: &Request,
) -> Response {
    let Some(instance_path) = instance.path.as_ref().and_then(|path| path(label)) else {
        return unknown_instance().answer(request.headers());
    };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    see_other(&format!("{}{instance_path}{path}", authenticator.names().own_origin(site)))
}

fn rejected(unknown: &TokenRejection, headers: &HeaderMap) -> Response {
    match unknown {
        TokenRejection::Nobody => {
            let mut response = not_signed_in_here().answer(headers);
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            response
        }
        TokenRejection::Privileged(group) => privileged(group).answer(headers),
        TokenRejection::ApiUnavailable => api_unavailable().answer(headers),
    }
}

fn see_other(to: &str) -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::SEE_OTHER;
    page::secure(response.headers_mut());
    match HeaderValue::try_from(to) {
        Ok(to) => {
            response.headers_mut().insert(LOCATION, to);
        }
        Err(_) => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    response
}

const fn unknown_instance() -> Message<'static> {
    Message {
        status: StatusCode::NOT_FOUND,
        title: "Nothing here",
        paragraphs: &["There is no instance at this address. It may have been made anew."],
        link: None,
    }
}

const fn not_signed_in_here() -> Message<'static> {
    Message {
        status: StatusCode::UNAUTHORIZED,
        title: "Not let in",
        paragraphs: &[
            "Only the instance's own pages may ask for this, in a browser that came here by way of \
             Sojourn. Programs send a bearer token.",
        ],
        link: None,
    }
}

fn used_up(ours: &str) -> Message<'_> {
    Message {
        status: StatusCode::GONE,
        title: "Too late",
        paragraphs: &["The way in is good once, and for a few seconds."],
        link: Some((ours, "Try again")),
    }
}
