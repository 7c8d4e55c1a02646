//! The family's pages: sessions with their states, one session with what can be done about it, and a form to ask for
//! one. They do what the commands do, by the same service.
//!
//! | address, below `/access` | what |
//! |---|---|
//! | `GET /` | one's own sessions and those that one may approve, `?state=` those of a state; what one may ask for |
//! | `POST /` | asks for a session |
//! | `GET /sessions/{namespace}/{name}` | one session |
//! | `POST /sessions/{namespace}/{name}/{verb}` | does something to it |

#[cfg(test)]
mod tests;
mod view;

use std::cmp::Reverse;
use std::sync::LazyLock;

use axum::extract::rejection::FormRejection;
use axum::extract::{DefaultBodyLimit, Path, State as Shared};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Form, Router};
use http::{HeaderMap, StatusCode};
use minijinja::{Environment, Value, context};
use serde::Deserialize;
use sojourn_api::access::BreakglassSession;
use sojourn_core::access::act::Verb;
use sojourn_core::access::request::Request;
use sojourn_core::key::Key;

use super::service::{
    AccessService, Offer, ServiceError, SessionFilter, only_known_callers, read_duration,
    state_named,
};
use crate::family::FamilyCaller;
use crate::page::{self, Message};

/// Where the pages are.
pub(super) const ROOT: &str = "/access/";
/// A form has a few short fields.
const MAX_FORM_BYTES: usize = 16 * 1024;
/// So many sessions are on one page.
const MAX_ROWS: usize = 200;

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    page::environment(&[
        ("sessions.html", include_str!("page/sessions.html")),
        ("session.html", include_str!("page/session.html")),
    ])
});

/// Where the page of a session is.
pub(super) fn session_path(key: &Key) -> String {
    format!("{ROOT}sessions/{}/{}", key.namespace, key.name)
}

/// The pages, to be nested below `/access`.
pub(super) fn router(service: AccessService) -> Router {
    let routes = Router::new()
        .route("/", get(list).post(request))
        .route("/sessions/{namespace}/{name}", get(show))
        .route("/sessions/{namespace}/{name}/{verb}", axum::routing::post(act))
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES));
    only_known_callers(routes.with_state(service))
}

/// Which sessions are listed.
#[derive(Debug, Deserialize)]
struct ListForm {
    #[serde(default)]
    state: String,
}

/// What somebody asks for.
#[derive(Debug, Deserialize)]
struct RequestForm {
    offer: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    duration: String,
}

/// What somebody says about what they do.
#[derive(Debug, Deserialize)]
struct ActForm {
    #[serde(default)]
    reason: String,
}

async fn list(
    Shared(service): Shared<AccessService>,
    Extension(caller): Extension<FamilyCaller>,
    headers: HeaderMap,
    form: Result<Form<ListForm>, FormRejection>,
) -> Response {
    let form = form.map(|Form(form)| form).map_err(|rejection| rejection.body_text());
    let state =
        form.and_then(|form| filled_in(&form.state).map(|name| state_named(&name)).transpose());
    let state = match state {
        Ok(state) => state,
        Err(words) => return unusable(&words, ROOT.to_owned()).answer(&headers),
    };
    let person = service.person(&caller);
    let found = service.find(&person, &SessionFilter { namespace: None, state });
    let mut sessions: Vec<&BreakglassSession> =
        found.iter().filter_map(|one| one.as_ref().as_ref().ok()).collect();
    sessions
        .sort_by_key(|one| Reverse(one.metadata.creation_timestamp.as_ref().map(|time| time.0)));
    let left_out = sessions.len().saturating_sub(MAX_ROWS);
    let rows = sessions.into_iter().take(MAX_ROWS).map(view::row);
    let offers = service.offers(&person);
    let context = context! {
        title => "Sessions",
        user => caller.user,
        filters => view::filters(state),
        rows => Value::from_iter(rows),
        left_out => left_out,
        offers => Value::from_iter(offers.iter().map(view::offer)),
    };
    page::html_of(&TEMPLATES, StatusCode::OK, "sessions.html", context)
}

async fn show(
    Shared(service): Shared<AccessService>,
    Extension(caller): Extension<FamilyCaller>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let (person, key) = (service.person(&caller), Key::new(namespace, name));
    let Some(visible) = service.visible(&person, &key) else {
        return not_found(&key).answer(&headers);
    };
    page::html_of(&TEMPLATES, StatusCode::OK, "session.html", view::detail(&key, &visible))
}

async fn request(
    Shared(service): Shared<AccessService>,
    Extension(caller): Extension<FamilyCaller>,
    headers: HeaderMap,
    form: Result<Form<RequestForm>, FormRejection>,
) -> Response {
    let back = ROOT.to_owned();
    let form = form.map_err(|rejection| rejection.body_text());
    let (namespace, asked) = match form.and_then(|Form(form)| asked(&form)) {
        Ok(read) => read,
        Err(words) => return unusable(&words, back).answer(&headers),
    };
    let person = service.person(&caller);
    match service.request(&person, &namespace, asked).await {
        Ok(session) => {
            let name = session.metadata.name.unwrap_or_default();
            see(&session_path(&Key::new(namespace, name)))
        }
        Err(error) => refused(&error, back).answer(&headers),
    }
}

async fn act(
    Shared(service): Shared<AccessService>,
    Extension(caller): Extension<FamilyCaller>,
    Path((namespace, name, verb)): Path<(String, String, String)>,
    headers: HeaderMap,
    form: Result<Form<ActForm>, FormRejection>,
) -> Response {
    let (person, key) = (service.person(&caller), Key::new(namespace, name));
    let back = session_path(&key);
    let Some(verb) = Verb::ALL.into_iter().find(|known| known.as_str() == verb) else {
        return not_found(&key).answer(&headers);
    };
    let said = match form {
        Ok(Form(form)) => filled_in(&form.reason),
        Err(rejection) => return unusable(&rejection.body_text(), back).answer(&headers),
    };
    let said = said.filter(|_| matches!(verb, Verb::Approve | Verb::Reject));
    match service.act(&person, &key, verb, said.as_deref()).await {
        Ok(_) => see(&back),
        Err(error) => refused(&error, back).answer(&headers),
    }
}

/// Where and what somebody asks for, as the form says it.
fn asked(form: &RequestForm) -> Result<(String, Request), String> {
    let offer = Offer::parse(&form.offer).ok_or("say which group is asked for")?;
    let duration = filled_in(&form.duration).map(|text| read_duration(&text)).transpose()?;
    let asked = Request {
        cluster: offer.cluster,
        group: offer.group,
        reason: filled_in(&form.reason),
        duration,
        scheduled_start: None,
        escalation: Some(offer.escalation),
    };
    Ok((offer.namespace, asked))
}

/// A field that is not empty.
fn filled_in(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn see(path: &str) -> Response {
    page::redirect(StatusCode::SEE_OTHER, path)
}

/// Whoever may not see a session is not told whether there is one.
fn not_found(key: &Key) -> Message {
    let text = format!("There is no session {} that you may see.", key.name);
    Message::new(StatusCode::NOT_FOUND, "Nothing here", text)
        .with_link(ROOT.to_owned(), "To the sessions")
}

fn unusable(words: &str, back: String) -> Message {
    Message::new(StatusCode::BAD_REQUEST, "Not done", format!("It was not done: {words}."))
        .with_link(back, "Go back")
}

fn refused(error: &ServiceError, back: String) -> Message {
    let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Message::new(code, "Not done", format!("It was not done: {error}.")).with_link(back, "Go back")
}
