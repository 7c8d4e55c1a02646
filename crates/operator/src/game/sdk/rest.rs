//! Agones' SDK over REST, as its gateway speaks it.
//!
//! What type a body says it has does not matter: many clients do not say.

use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::endpoint::{Endpoint, MAX_MESSAGE_BYTES};
use super::form;
use super::json;
use super::message::{CounterUpdateRequest, Empty, GameServer, List, ListValue, PlayerId};
use super::request::SdkRequest;
use super::status::{Code, Status};

pub(super) async fn answer(endpoint: &Endpoint, request: Request) -> Response {
    endpoint.in_time(route(endpoint, request)).await.unwrap_or_else(Status::into_response)
}

async fn route(endpoint: &Endpoint, request: Request) -> Result<Response, Status> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().strip_prefix('/').unwrap_or_default();
    let segments = path.split('/').map(form::decode).collect::<Option<Vec<String>>>();
    let segments = segments.ok_or_else(|| Status::invalid("the path cannot be read"))?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["alpha", "player", rest @ ..] => players(endpoint, &parts.method, rest, body).await,
        ["v1beta1", "counters", name] => counter(endpoint, &parts.method, name, body).await,
        ["v1beta1", "lists", name] => {
            let mask = form::query_values(parts.uri.query(), &["update_mask", "updateMask"]);
            list(endpoint, &parts.method, name, &mask, body).await
        }
        segments => lifecycle(endpoint, &parts.method, segments, body).await,
    }
}

async fn lifecycle(
    endpoint: &Endpoint,
    method: &Method,
    segments: &[&str],
    body: Body,
) -> Result<Response, Status> {
    match (method, segments) {
        (&Method::POST, ["ready"]) => say(endpoint, SdkRequest::Ready, body).await,
        (&Method::POST, ["allocate"]) => say(endpoint, SdkRequest::Allocate, body).await,
        (&Method::POST, ["shutdown"]) => say(endpoint, SdkRequest::Shutdown, body).await,
        (&Method::POST, ["health"]) => health(endpoint, body).await,
        (&Method::POST, ["reserve"]) => told(endpoint.reserve(message(body).await?).await?),
        (&Method::GET, ["gameserver"]) => told(endpoint.game_server().await?),
        (&Method::GET, ["watch", "gameserver"]) => watch(endpoint).await,
        (&Method::PUT, ["metadata", "label"]) => {
            told(endpoint.set_label(message(body).await?).await?)
        }
        (&Method::PUT, ["metadata", "annotation"]) => {
            told(endpoint.set_annotation(message(body).await?).await?)
        }
        (
            _,
            ["ready" | "allocate" | "shutdown" | "health" | "reserve" | "gameserver"]
            | ["watch", "gameserver"]
            | ["metadata", "label" | "annotation"],
        ) => Err(wrong_method()),
        _ => Err(unknown_path()),
    }
}

async fn players(
    endpoint: &Endpoint,
    method: &Method,
    segments: &[&str],
    body: Body,
) -> Result<Response, Status> {
    match (method, segments) {
        (&Method::POST, ["connect"]) => told(endpoint.player_connect(message(body).await?).await?),
        (&Method::POST, ["disconnect"]) => {
            told(endpoint.player_disconnect(message(body).await?).await?)
        }
        (&Method::PUT, ["capacity"]) => {
            told(endpoint.set_player_capacity(message(body).await?).await?)
        }
        (&Method::GET, ["capacity"]) => told(endpoint.player_capacity().await?),
        (&Method::GET, ["count"]) => told(endpoint.player_count().await?),
        (&Method::GET, ["connected"]) => told(endpoint.connected_players().await?),
        (&Method::GET, ["connected", id]) => {
            let player = PlayerId { player_id: (*id).to_owned() };
            told(endpoint.is_player_connected(player).await?)
        }
        (_, ["connect" | "disconnect" | "capacity" | "count" | "connected"] | ["connected", _]) => {
            Err(wrong_method())
        }
        _ => Err(unknown_path()),
    }
}

async fn counter(
    endpoint: &Endpoint,
    method: &Method,
    name: &str,
    body: Body,
) -> Result<Response, Status> {
    match *method {
        Method::GET => told(endpoint.counter(name).await?),
        Method::PATCH => {
            let mut update: CounterUpdateRequest = message(body).await?;
            name.clone_into(&mut update.name);
            told(endpoint.update_counter(update).await?)
        }
        _ => Err(wrong_method()),
    }
}

async fn list(
    endpoint: &Endpoint,
    method: &Method,
    name: &str,
    mask: &[String],
    body: Body,
) -> Result<Response, Status> {
    match *method {
        Method::GET => told(endpoint.list(name).await?),
        Method::PATCH => {
            let object = object(body).await?;
            let paths = mask_paths(mask, &object);
            let mut list: List = json::message(object)?;
            name.clone_into(&mut list.name);
            told(endpoint.update_list(list, &paths).await?)
        }
        Method::POST => {
            let (name, verb) = name.rsplit_once(':').ok_or_else(wrong_method)?;
            if !matches!(verb, "addValue" | "removeValue") {
                return Err(unknown_path());
            }
            let mut value: ListValue = message(body).await?;
            name.clone_into(&mut value.name);
            match verb {
                "addValue" => told(endpoint.add_list_value(value).await?),
                _ => told(endpoint.remove_list_value(value).await?),
            }
        }
        _ => Err(wrong_method()),
    }
}

/// Which fields are meant: those of the query, or else those of the body. What a list does not have is left out of the
/// latter, as it is when the body is read.
fn mask_paths(mask: &[String], object: &Map<String, Value>) -> Vec<String> {
    let asked: Vec<String> = mask
        .iter()
        .flat_map(|paths| paths.split(','))
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    if !asked.is_empty() {
        return asked;
    }
    let fields = ["name", "capacity", "values"].into_iter();
    fields.filter(|field| object.contains_key(*field)).map(str::to_owned).collect()
}

async fn say(endpoint: &Endpoint, request: SdkRequest, body: Body) -> Result<Response, Status> {
    let Empty {} = message(body).await?;
    told(endpoint.say(request).await?)
}

/// In gRPC this is a stream of messages, so a body may hold several; none at all is taken for one.
async fn health(endpoint: &Endpoint, body: Body) -> Result<Response, Status> {
    let body = read(body).await?;
    for message in serde_json::Deserializer::from_slice(&body).into_iter::<Map<String, Value>>() {
        message.map_err(|error| Status::invalid(format!("the body: {error}")))?;
    }
    told(endpoint.say(SdkRequest::Health).await?)
}

/// A line for each change.
async fn watch(endpoint: &Endpoint) -> Result<Response, Status> {
    #[derive(Serialize)]
    struct Line {
        result: GameServer,
    }
    let lines = endpoint.watch().await?.map(|result| {
        let mut line = serde_json::to_vec(&Line { result })?;
        line.push(b'\n');
        Ok::<_, serde_json::Error>(Bytes::from(line))
    });
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((json, Body::from_stream(lines)).into_response())
}

fn told(answer: impl Serialize) -> Result<Response, Status> {
    Ok(Json(answer).into_response())
}

async fn message<T: DeserializeOwned>(body: Body) -> Result<T, Status> {
    json::message(object(body).await?)
}

async fn object(body: Body) -> Result<Map<String, Value>, Status> {
    json::object(&read(body).await?)
}

/// A whole body, within its bound.
pub(super) async fn read(body: Body) -> Result<Bytes, Status> {
    match Limited::new(body, MAX_MESSAGE_BYTES).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Status::new(Code::ResourceExhausted, "the body is too long"))
        }
        Err(_) => Err(Status::new(Code::Cancelled, "the body was cut off")),
    }
}

fn unknown_path() -> Status {
    Status::new(Code::NotFound, "Not Found")
}

/// The gateway has no other code for it.
fn wrong_method() -> Status {
    Status::new(Code::Unimplemented, "Method Not Allowed")
}
