//! The family's pages: collections with how they are, one collection with its servers, and what can be done about
//! them. Whatever is shown or done, the API is asked whether the caller may read or write it.
//!
//! | address, below `/game` | what |
//! |---|---|
//! | `GET /` | the collections that one may read; `?health=` those that are so, `?namespace=` those there |
//! | `GET /collections/{namespace}/{name}` | one collection, its servers, and why they cannot be given |
//! | `POST /collections/{namespace}/{name}/acknowledge` | says that somebody has looked |
//! | `POST /servers/{namespace}/{name}/drain` | has a server marked: it goes when it is empty |

mod act;
mod readable;
#[cfg(test)]
mod tests;
mod view;

use std::sync::{Arc, LazyLock};

use axum::extract::rejection::FormRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Form, Router};
use http::{HeaderMap, StatusCode};
use minijinja::{Environment, Value, context};
use serde::Deserialize;
use sojourn_api::game::DedicatedGameServerCollection;
use sojourn_api::game::status::CollectionHealth;
use sojourn_core::key::Key;

use self::readable::{
    Readable, may_see_collection, may_see_servers, may_update_collection, may_update_server,
};
use super::service::{GameService, ReviewError, only_known_callers};
use super::view::ServerView;
use crate::family::FamilyCaller;
use crate::frame::Read;
use crate::page::{self, Message};

/// Where the pages are.
pub(super) const ROOT: &str = "/game/";
/// A form has a few short fields.
const MAX_FORM_BYTES: usize = 16 * 1024;
/// So many collections, or servers, are on one page.
const MAX_ROWS: usize = 200;

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    page::environment(&[
        ("collections.html", include_str!("page/collections.html")),
        ("collection.html", include_str!("page/collection.html")),
    ])
});

/// Where the page of a collection is.
pub(super) fn collection_path(key: &Key) -> String {
    format!("{ROOT}collections/{}/{}", key.namespace, key.name)
}

/// The pages, to be nested below `/game`.
pub(super) fn router(service: GameService) -> Router {
    let routes = Router::new()
        .route("/", get(list))
        .route("/collections/{namespace}/{name}", get(show))
        .route("/collections/{namespace}/{name}/acknowledge", post(act::acknowledge))
        .route("/servers/{namespace}/{name}/drain", post(act::drain))
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES));
    only_known_callers(routes.with_state(service))
}

/// Which collections are listed.
#[derive(Debug, Deserialize)]
struct ListForm {
    #[serde(default)]
    health: String,
    #[serde(default)]
    namespace: String,
}

/// A collection that can be read.
type Found = (Key, Arc<Read<DedicatedGameServerCollection>>);

async fn list(
    State(service): State<GameService>,
    Extension(caller): Extension<FamilyCaller>,
    headers: HeaderMap,
    form: Result<Form<ListForm>, FormRejection>,
) -> Response {
    let asked = form.map_err(|rejection| rejection.body_text()).and_then(|Form(form)| {
        let health = filled_in(&form.health).map(|name| view::health_named(&name)).transpose()?;
        Ok((health, filled_in(&form.namespace)))
    });
    let (health, namespace) = match asked {
        Ok(asked) => asked,
        Err(words) => return unusable(&words, ROOT.to_owned()).answer(&headers),
    };
    match collections(&service, &caller, health, namespace.as_deref()).await {
        Ok(context) => page::html_of(&TEMPLATES, StatusCode::OK, "collections.html", context),
        Err(error) => unknown(&error).answer(&headers),
    }
}

async fn collections(
    service: &GameService,
    caller: &FamilyCaller,
    health: Option<CollectionHealth>,
    namespace: Option<&str>,
) -> Result<Value, ReviewError> {
    let caches = &service.caches;
    let readable = Readable::of(service, caller, namespace).await?;
    let keys = caches.collections.keys().into_iter().filter(|key| readable.contains(key));
    let found = keys.filter_map(|key| Some((key.clone(), caches.collections.get(&key)?)));
    let is_asked_for = |(_, read): &Found| {
        let read = read.as_ref().as_ref();
        read.is_ok_and(|object| health.is_none() || view::health_of(object) == health)
    };
    let mut found: Vec<Found> = found.filter(is_asked_for).collect();
    found.sort_by_cached_key(|(key, read)| {
        let health = read.as_ref().as_ref().ok().and_then(view::health_of);
        (view::urgency(health), key.clone())
    });
    let left_out = found.len().saturating_sub(MAX_ROWS);
    found.truncate(MAX_ROWS);
    let with_servers = readable.with_servers(service, caller, found.iter().map(|(key, _)| key));
    let with_servers = with_servers.await?;
    let rows = found.iter().filter_map(|(key, read)| {
        let object = read.as_ref().as_ref().ok()?;
        let servers = with_servers.contains(key).then(|| servers_of(service, key));
        Some(view::row(key, object, servers.as_deref(), service.clock.now()))
    });
    Ok(context! {
        title => "Game servers",
        user => caller.user.as_str(),
        filters => view::filters(health, namespace),
        namespace => namespace,
        rows => Value::from_iter(rows),
        left_out => left_out,
        unasked => readable.is_cut_off(),
    })
}

async fn show(
    State(service): State<GameService>,
    Extension(caller): Extension<FamilyCaller>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let key = Key::new(namespace, name);
    match collection(&service, &caller, &key).await {
        Ok(Some(context)) => page::html_of(&TEMPLATES, StatusCode::OK, "collection.html", context),
        Ok(None) => not_found("collection", &key).answer(&headers),
        Err(error) => unknown(&error).answer(&headers),
    }
}

/// Nothing, if there is none that the caller may see.
async fn collection(
    service: &GameService,
    caller: &FamilyCaller,
    key: &Key,
) -> Result<Option<Value>, ReviewError> {
    if !may_see_collection(service, caller, key).await? {
        return Ok(None);
    }
    let Some(read) = service.caches.collections.get(key) else { return Ok(None) };
    let object = match &*read {
        Ok(object) => object,
        Err(problem) => return Ok(Some(view::unreadable(key, problem))),
    };
    let acknowledges = may_update_collection(service, caller, key).await?;
    let mut servers = None;
    if may_see_servers(service, caller, key).await? {
        let drains = may_update_server(service, caller, &key.namespace, None).await?;
        servers = Some(view::Servers {
            all: servers_of(service, key),
            misses: service.allocator.misses(key),
            drains,
        });
    }
    let obstacle = |key: &Key| service.allocator.obstacle(key);
    let now = service.clock.now();
    Ok(Some(view::detail(key, object, servers.as_ref(), acknowledges, &obstacle, now)))
}

/// The servers that are, or were, members of a collection.
fn servers_of(service: &GameService, key: &Key) -> Vec<(Key, Arc<Read<ServerView>>)> {
    service.caches.of_collection(key)
}

/// A field that is not empty.
fn filled_in(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Whoever may not see something is not told whether it is there.
fn not_found(what: &str, key: &Key) -> Message {
    let text = format!("There is no {what} {} that you may see.", key.name);
    Message::new(StatusCode::NOT_FOUND, "Nothing here", text)
        .with_link(ROOT.to_owned(), "To the game servers")
}

fn unusable(words: &str, back: String) -> Message {
    Message::new(StatusCode::BAD_REQUEST, "Not done", format!("It was not done: {words}."))
        .with_link(back, "Go back")
}

/// Nobody knows what the caller may see.
fn unknown(error: &ReviewError) -> Message {
    let text = format!("Nothing can be shown or done now: {error}.");
    Message::new(StatusCode::SERVICE_UNAVAILABLE, "Try again", text)
}
