//! What people do on the pages: acknowledge failures, and drain a server. The API says whether they may; it is done
//! with our rights, to the very object that they saw.

use axum::extract::rejection::FormRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::{Extension, Form};
use http::{HeaderMap, StatusCode};
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource as _, ResourceExt as _};
use serde::Deserialize;
use serde_json::json;
use sojourn_api::game::name::{ACKNOWLEDGE, MARKED};
use sojourn_api::game::{DedicatedGameServer, DedicatedGameServerCollection};
use sojourn_core::key::Key;
use sojourn_core::moment::Utc;

use super::super::service::{GameService, ReviewError};
use super::super::view::collection_key;
use super::readable::{
    may_see_collection, may_see_server, may_update_collection, may_update_server,
};
use super::{ROOT, collection_path, not_found, unknown, unusable};
use crate::api_error::api_error_message;
use crate::event::Severity;
use crate::family::FamilyCaller;
use crate::page::{self, Message};

/// Why a server is marked whom somebody asked to go, as `sojourn drain` says it.
const REQUESTED: &str = "Requested";

/// Which failures somebody has looked at.
#[derive(Debug, Deserialize)]
pub(super) struct AcknowledgeForm {
    uid: String,
    since: String,
}

/// Which server goes.
#[derive(Debug, Deserialize)]
pub(super) struct DrainForm {
    uid: String,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
enum ActError {
    #[error("there is no such {0} that you may see")]
    Hidden(&'static str),
    #[error("you may not change it")]
    Forbidden,
    #[error("it is another one by now, or has changed since this page was made")]
    Changed,
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error("cannot write it: {}", api_error_message(.0))]
    Write(#[source] kube::Error),
}

impl ActError {
    fn message(&self, key: &Key, back: String) -> Message {
        let code = match self {
            Self::Hidden(what) => return not_found(what, key),
            Self::Review(error) => return unknown(error),
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::Changed => StatusCode::CONFLICT,
            Self::Write(kube::Error::Api(status)) => {
                StatusCode::from_u16(status.code).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::Write(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        let text = format!("It was not done: {self}.");
        Message::new(code, "Not done", text).with_link(back, "Go back")
    }
}

pub(super) async fn acknowledge(
    State(service): State<GameService>,
    Extension(caller): Extension<FamilyCaller>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
    form: Result<Form<AcknowledgeForm>, FormRejection>,
) -> Response {
    let key = Key::new(namespace, name);
    let back = collection_path(&key);
    let form = match form {
        Ok(Form(form)) => form,
        Err(rejection) => return unusable(&rejection.body_text(), back).answer(&headers),
    };
    match acknowledge_as(&service, &caller, &key, &form).await {
        Ok(()) => page::redirect(StatusCode::SEE_OTHER, &back),
        Err(error) => error.message(&key, back).answer(&headers),
    }
}

async fn acknowledge_as(
    service: &GameService,
    caller: &FamilyCaller,
    key: &Key,
    form: &AcknowledgeForm,
) -> Result<(), ActError> {
    let hidden = || ActError::Hidden("collection");
    if !may_see_collection(service, caller, key).await? {
        return Err(hidden());
    }
    let read = service.caches.collections.get(key).ok_or_else(hidden)?;
    if !may_update_collection(service, caller, key).await? {
        return Err(ActError::Forbidden);
    }
    let Ok(object) = &*read else { return Err(ActError::Changed) };
    let status = object.status.as_ref();
    let since = status.and_then(|status| status.needs_intervention_since.as_ref());
    let is_seen = since.is_some_and(|since| Utc(since.0).to_string() == form.since);
    if object.uid().as_ref() != Some(&form.uid) || !is_seen {
        return Err(ActError::Changed);
    }
    // The word was not used before: it has the time, with its fractions.
    let word = format!("{} {}", service.clock.now(), caller.user);
    let change = json!({
        "metadata": { "uid": form.uid, "annotations": { ACKNOWLEDGE: word } },
    });
    let api: Api<DedicatedGameServerCollection> =
        Api::namespaced(service.client.clone(), &key.namespace);
    let written = api.patch(&key.name, &PatchParams::default(), &Patch::Merge(&change)).await;
    let written = written.map_err(ActError::Write)?;
    let words = format!("{} has looked, in a browser.", caller.user);
    let about = written.object_ref(&());
    service.events.publish(&about, Severity::Normal, "AcknowledgeRequested", &words, &word);
    service.caches.wrote_collection(key, written);
    service.caches.collection_queue.wake(key);
    Ok(())
}

pub(super) async fn drain(
    State(service): State<GameService>,
    Extension(caller): Extension<FamilyCaller>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
    form: Result<Form<DrainForm>, FormRejection>,
) -> Response {
    let key = Key::new(namespace, name);
    let form = match form {
        Ok(Form(form)) => form,
        Err(rejection) => {
            return unusable(&rejection.body_text(), ROOT.to_owned()).answer(&headers);
        }
    };
    match drain_as(&service, &caller, &key, &form).await {
        Ok(back) => page::redirect(StatusCode::SEE_OTHER, &back),
        Err(error) => error.message(&key, ROOT.to_owned()).answer(&headers),
    }
}

/// Answers with the page that shows it.
async fn drain_as(
    service: &GameService,
    caller: &FamilyCaller,
    key: &Key,
    form: &DrainForm,
) -> Result<String, ActError> {
    let hidden = || ActError::Hidden("server");
    if !may_see_server(service, caller, key).await? {
        return Err(hidden());
    }
    let read = service.caches.server(key).ok_or_else(hidden)?;
    if !may_update_server(service, caller, &key.namespace, Some(&key.name)).await? {
        return Err(ActError::Forbidden);
    }
    let Ok(view) = &*read else { return Err(ActError::Changed) };
    if view.uid() != form.uid {
        return Err(ActError::Changed);
    }
    let shown =
        collection_key(key, view).map_or_else(|| ROOT.to_owned(), |of| collection_path(&of));
    if view.server().marked_for_deletion {
        return Ok(shown);
    }
    let change = json!({ "metadata": { "uid": form.uid, "annotations": { MARKED: REQUESTED } } });
    let api: Api<DedicatedGameServer> = Api::namespaced(service.client.clone(), &key.namespace);
    let written = api.patch(&key.name, &PatchParams::default(), &Patch::Merge(&change)).await;
    let written = written.map_err(ActError::Write)?;
    let words = format!("{} asked for it, in a browser.", caller.user);
    let about = written.object_ref(&());
    service.events.publish(&about, Severity::Normal, "DrainRequested", &words, &words);
    service.caches.wrote_server(key, written);
    service.caches.server_queue.wake(key);
    Ok(shown)
}
