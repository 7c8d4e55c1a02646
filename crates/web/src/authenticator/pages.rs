//! The pages of our own origin: the front page, signing in, signing out.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};
use http::header::{HeaderValue, LOCATION, SET_COOKIE};
use http::{HeaderMap, StatusCode};

use super::{Authenticator, CheckedRequest, FrontLink, OwnedMessage, refused};
use crate::cookie;
use crate::origin::{self, Refusal, Site};
use crate::page::{self, Message};
use crate::session::Session;

/// How long an own page may take, the reading of a form included.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Our forms have one short field.
const MAX_FORM_BYTES: usize = 4 << 10;

pub(super) fn router(authenticator: &Authenticator, links: Vec<FrontLink>) -> Router {
    let links = Arc::new(links);
    Router::new()
        .route("/", get(move |request| front(request, links.clone())))
        .route("/sign-in/{secret}", get(ask).post(accept))
        .route("/sign-out", post(sign_out))
        .route("/sign-out-everywhere", post(sign_out_everywhere))
        .layer(from_fn(own_page))
        .with_state(authenticator.clone())
}

/// Own pages are for a person's window, and soon done.
async fn own_page(request: Request, next: Next) -> Response {
    if !origin::is_visit(request.headers()) {
        return refused(Refusal::NotVisited).answer(request.headers());
    }
    let headers = request.headers().clone();
    let Ok(mut response) = tokio::time::timeout(PAGE_TIMEOUT, next.run(request)).await else {
        let text = "The request took too long.".to_owned();
        return OwnedMessage { status: StatusCode::REQUEST_TIMEOUT, title: "Too slow", text }
            .answer(&headers);
    };
    // Of axum's own, too, such as for a method that a page does not have.
    page::secure(response.headers_mut());
    response
}

async fn front(request: Request, links: Arc<Vec<FrontLink>>) -> Response {
    match request.extensions().get::<CheckedRequest>() {
        Some(CheckedRequest { session: Some((session, identity)), .. }) => {
            page::front(&identity.name, &identity.groups, &links, session.form_token.reveal())
        }
        Some(checked) => super::unknown(&request, checked.sender),
        None => internal_error().answer(request.headers()),
    }
}

/// Shows what the link does. Mail programs and chats open links to look at them, so this does not
/// use it.
async fn ask(State(authenticator): State<Authenticator>, Path(secret): Path<String>) -> Response {
    match authenticator.0.sign_in.peek(&secret) {
        Some(identity) => page::sign_in(&identity.name),
        None => used_up().page(),
    }
}

async fn accept(
    State(authenticator): State<Authenticator>,
    Path(secret): Path<String>,
    request: Request,
) -> Response {
    let Some(checked) = request.extensions().get::<CheckedRequest>() else {
        return internal_error().answer(request.headers());
    };
    let Some(credentials) = authenticator.0.sign_in.redeem(&secret) else {
        return used_up().page();
    };
    if let Some((former, _)) = &checked.session {
        authenticator.0.sessions.close(former);
    }
    tracing::info!(user = credentials.identity.name, "somebody signed in");
    let site = &checked.site;
    let id = authenticator.0.sessions.open(credentials);
    let mut response = redirect_to_front();
    let cookie = cookie::set(&cookie::name(site.secure, site.port), &id, site.secure);
    response.headers_mut().insert(SET_COOKIE, cookie);
    response
}

async fn sign_out(State(authenticator): State<Authenticator>, request: Request) -> Response {
    let (session, site) = match form_session(request).await {
        Ok(form_session) => form_session,
        Err(refused) => return refused,
    };
    authenticator.0.sessions.close(&session);
    signed_out(&site, "This browser is signed out.")
}

/// Ends every session of the user, and the links that could begin another.
async fn sign_out_everywhere(
    State(authenticator): State<Authenticator>,
    request: Request,
) -> Response {
    let (session, site) = match form_session(request).await {
        Ok(form_session) => form_session,
        Err(refused) => return refused,
    };
    let user = &session.account.credentials.identity;
    authenticator.0.sign_in.revoke_all(user);
    authenticator.0.sessions.close_all(user);
    tracing::info!(user = user.name, "somebody signed out everywhere");
    signed_out(&site, "Every browser of yours is signed out.")
}

/// The session whose own form this is.
async fn form_session(request: Request) -> Result<(Session, Site), Response> {
    let (parts, body) = request.into_parts();
    let Some(CheckedRequest { site, session: Some((session, _)), .. }) = parts.extensions.get()
    else {
        return Err(not_signed_in().answer(&parts.headers));
    };
    let form = to_bytes(body, MAX_FORM_BYTES).await.unwrap_or_default();
    // The token has no letter that a form would escape.
    let token = form.strip_prefix(b"token=").and_then(|token| std::str::from_utf8(token).ok());
    if token.is_some_and(|token| session.is_form_token(token)) {
        Ok((session.clone(), site.clone()))
    } else {
        Err(foreign_form(&parts.headers))
    }
}

fn signed_out(site: &Site, words: &str) -> Response {
    let mut response =
        Message { status: StatusCode::OK, title: "Signed out", paragraphs: &[words], link: None }
            .page();
    let cookie = cookie::unset(&cookie::name(site.secure, site.port), site.secure);
    response.headers_mut().insert(SET_COOKIE, cookie);
    response
}

fn redirect_to_front() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
    response
}

fn foreign_form(headers: &HeaderMap) -> Response {
    Message {
        status: StatusCode::FORBIDDEN,
        title: "Refused",
        paragraphs: &["This form is not of the page that is open now. Go back and load it again."],
        link: None,
    }
    .answer(headers)
}

pub(super) async fn not_found(headers: HeaderMap) -> Response {
    Message {
        status: StatusCode::NOT_FOUND,
        title: "Nothing here",
        paragraphs: &["There is no page at this address."],
        link: Some(("/", "To the front page")),
    }
    .answer(&headers)
}

pub(super) const fn not_signed_in() -> Message<'static> {
    Message {
        status: StatusCode::UNAUTHORIZED,
        title: "Not signed in",
        paragraphs: &[
            "This browser is not signed in.",
            "Run `sojourn open` where Sojourn runs: it gives you a link that signs you in. \
             Programs send a bearer token.",
        ],
        link: None,
    }
}

/// One answer for links that never were, are over or were used: which it is concerns nobody.
const fn used_up() -> Message<'static> {
    Message {
        status: StatusCode::GONE,
        title: "This link does not work any more",
        paragraphs: &[
            "A link signs in once, within 15 minutes.",
            "Run `sojourn open` where Sojourn runs for a new one.",
        ],
        link: None,
    }
}

pub(super) const fn internal_error() -> Message<'static> {
    Message {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        title: "A mistake of ours",
        paragraphs: &["This page cannot be shown; the log says why."],
        link: None,
    }
}
