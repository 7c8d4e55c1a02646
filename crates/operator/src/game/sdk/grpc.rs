//! Agones' SDK over gRPC.

mod framing;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use http::{HeaderMap, Method, StatusCode, Version, header};
use prost::Message;

use self::framing::{MessageReader, Reply};
use super::endpoint::Endpoint;
use super::message::{Empty, Name, UpdateCounterRequest, UpdateListRequest};
use super::request::SdkRequest;
use super::status::{Code, Status};

const SDK: &str = "agones.dev.sdk.SDK";
const ALPHA: &str = "agones.dev.sdk.alpha.SDK";
const BETA: &str = "agones.dev.sdk.beta.SDK";

/// Whether it is meant as gRPC, right or wrong.
pub(super) fn is_call(request: &Request) -> bool {
    let service = request.uri().path().trim_start_matches('/').split('/').next();
    service.is_some_and(|service| [SDK, ALPHA, BETA].contains(&service))
        || content_type(request.headers()).starts_with("application/grpc")
}

pub(super) async fn answer(endpoint: &Endpoint, request: Request) -> Response {
    let content_type = content_type(request.headers());
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    if !matches!(kind, "application/grpc" | "application/grpc+proto") {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    if request.method() != Method::POST {
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")]).into_response();
    }
    framing::response(call(endpoint, request).await)
}

async fn call(endpoint: &Endpoint, request: Request) -> Result<Reply, Status> {
    if request.version() != Version::HTTP_2 {
        return Err(unimplemented("gRPC needs HTTP/2"));
    }
    let encoding = request.headers().get("grpc-encoding");
    if encoding.is_some_and(|encoding| encoding != "identity") {
        return Err(unimplemented("compressed messages are not understood"));
    }
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().trim_start_matches('/').split_once('/');
    match path {
        Some((SDK, "Health")) => health(endpoint, body).await,
        Some((SDK, method)) => lifecycle(endpoint, method, body).await,
        Some((ALPHA, method)) => players(endpoint, method, body).await,
        Some((BETA, method)) => counters_and_lists(endpoint, method, body).await,
        _ => Err(unimplemented("there is no such service")),
    }
}

async fn lifecycle(endpoint: &Endpoint, method: &str, body: Body) -> Result<Reply, Status> {
    let say = |request| move |Empty {}| endpoint.say(request);
    match method {
        "Ready" => unary(endpoint, body, say(SdkRequest::Ready)).await,
        "Allocate" => unary(endpoint, body, say(SdkRequest::Allocate)).await,
        "Shutdown" => unary(endpoint, body, say(SdkRequest::Shutdown)).await,
        "Reserve" => unary(endpoint, body, |duration| endpoint.reserve(duration)).await,
        "SetLabel" => unary(endpoint, body, |label| endpoint.set_label(label)).await,
        "SetAnnotation" => {
            unary(endpoint, body, |annotation| endpoint.set_annotation(annotation)).await
        }
        "GetGameServer" => unary(endpoint, body, |Empty {}| endpoint.game_server()).await,
        "WatchGameServer" => {
            let Empty {} = endpoint.in_time(only_message(body)).await?;
            let servers = endpoint.watch().await?;
            Ok(Reply::Many(servers.map(|server| server.encode_to_vec().into()).boxed()))
        }
        _ => Err(unknown_method()),
    }
}

async fn players(endpoint: &Endpoint, method: &str, body: Body) -> Result<Reply, Status> {
    match method {
        "PlayerConnect" => unary(endpoint, body, |player| endpoint.player_connect(player)).await,
        "PlayerDisconnect" => {
            unary(endpoint, body, |player| endpoint.player_disconnect(player)).await
        }
        "SetPlayerCapacity" => {
            unary(endpoint, body, |count| endpoint.set_player_capacity(count)).await
        }
        "GetPlayerCapacity" => unary(endpoint, body, |Empty {}| endpoint.player_capacity()).await,
        "GetPlayerCount" => unary(endpoint, body, |Empty {}| endpoint.player_count()).await,
        "IsPlayerConnected" => {
            unary(endpoint, body, |player| endpoint.is_player_connected(player)).await
        }
        "GetConnectedPlayers" => {
            unary(endpoint, body, |Empty {}| endpoint.connected_players()).await
        }
        _ => Err(unknown_method()),
    }
}

async fn counters_and_lists(
    endpoint: &Endpoint,
    method: &str,
    body: Body,
) -> Result<Reply, Status> {
    match method {
        "GetCounter" => {
            unary(endpoint, body, async |Name { name }| endpoint.counter(&name).await).await
        }
        "UpdateCounter" => {
            let update = async |UpdateCounterRequest { counter_update_request }| {
                let update =
                    counter_update_request.ok_or_else(|| missing("counterUpdateRequest"))?;
                endpoint.update_counter(update).await
            };
            unary(endpoint, body, update).await
        }
        "GetList" => unary(endpoint, body, async |Name { name }| endpoint.list(&name).await).await,
        "UpdateList" => {
            let update = async |UpdateListRequest { list, update_mask }| {
                let list = list.ok_or_else(|| missing("list"))?;
                let mut paths = update_mask.unwrap_or_default().paths;
                // The client for Node.js names nothing when it sets a capacity, which may be 0.
                if paths.is_empty() && list.values.is_empty() {
                    paths.push("capacity".to_owned());
                }
                endpoint.update_list(list, &paths).await
            };
            unary(endpoint, body, update).await
        }
        "AddListValue" => unary(endpoint, body, |added| endpoint.add_list_value(added)).await,
        "RemoveListValue" => {
            unary(endpoint, body, |removed| endpoint.remove_list_value(removed)).await
        }
        _ => Err(unknown_method()),
    }
}

/// Takes every message as a sign of life, for as long as they come.
///
/// One that cannot be taken in does not end the stream: there are clients that never open another.
async fn health(endpoint: &Endpoint, body: Body) -> Result<Reply, Status> {
    let mut messages = MessageReader::new(body);
    loop {
        let message = tokio::select! {
            message = messages.next() => message?,
            () = endpoint.closing().cancelled() => None,
        };
        let Some(message) = message else {
            return Ok(Reply::One(Empty {}.encode_to_vec().into()));
        };
        let Empty {} = decode(&message)?;
        if let Err(status) = endpoint.in_time(endpoint.take(SdkRequest::Health)).await {
            tracing::debug!(?status, "a sign of life could not be taken in");
        }
    }
}

/// One message in, one message out.
async fn unary<Q, A, F>(
    endpoint: &Endpoint,
    body: Body,
    call: impl FnOnce(Q) -> F + Send,
) -> Result<Reply, Status>
where
    Q: Message + Default,
    A: Message,
    F: Future<Output = Result<A, Status>> + Send,
{
    let answered = async { call(only_message(body).await?).await };
    let answer = endpoint.in_time(answered).await?;
    Ok(Reply::One(answer.encode_to_vec().into()))
}

async fn only_message<Q: Message + Default>(body: Body) -> Result<Q, Status> {
    let message = MessageReader::new(body).next().await?;
    decode(&message.ok_or_else(|| Status::new(Code::Internal, "there is no message"))?)
}

fn decode<Q: Message + Default>(message: &[u8]) -> Result<Q, Status> {
    Q::decode(message).map_err(|error| Status::invalid(format!("the message: {error}")))
}

fn content_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default()
}

fn missing(field: &str) -> Status {
    Status::invalid(format!("{field}: is missing"))
}

fn unknown_method() -> Status {
    unimplemented("there is no such method")
}

fn unimplemented(message: &str) -> Status {
    Status::new(Code::Unimplemented, message)
}
