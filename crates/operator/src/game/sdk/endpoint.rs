//! One server's place to talk to: every call, whatever protocol it came by.

use std::sync::Arc;
use std::time::Duration as StdDuration;

use axum::extract::Request;
use axum::response::Response;
use futures::stream::{BoxStream, StreamExt as _};
use jiff::SignedDuration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::code::SdkCode;
use super::message::{
    Bool, Count, Counter, CounterUpdateRequest, Duration, Empty, GameServer, KeyValue, List,
    ListValue, PlayerId, PlayerIdList,
};
use super::request::{
    CounterChange, MAX_RESERVATION_SECONDS, METADATA_PREFIX, SdkError, SdkRequest, is_metadata_key,
    is_name,
};
use super::status::{Code, Status};
use super::view::{GameServerView, PlayersView};
use super::{SdkBackend, ServerIdentity, classic, grpc, rest};

/// How long a client may take to send a request, and whoever keeps it to take it in.
const REQUEST_TIMEOUT: StdDuration = StdDuration::from_secs(30);
/// Of a body, and of each message of a stream.
pub(super) const MAX_MESSAGE_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Endpoint {
    identity: ServerIdentity,
    code: SdkCode,
    backend: Arc<dyn SdkBackend>,
    request_timeout: StdDuration,
    closing: CancellationToken,
}

impl Endpoint {
    pub(super) fn new(
        identity: ServerIdentity,
        code: SdkCode,
        backend: Arc<dyn SdkBackend>,
    ) -> Self {
        let closing = CancellationToken::new();
        Self { identity, code, backend, request_timeout: REQUEST_TIMEOUT, closing }
    }

    /// One whose streams end at a signal.
    pub(super) fn closed_by(mut self, closing: CancellationToken) -> Self {
        self.closing = closing;
        self
    }

    #[cfg(test)]
    pub(super) const fn with_request_timeout(mut self, request_timeout: StdDuration) -> Self {
        self.request_timeout = request_timeout;
        self
    }

    pub(super) const fn identity(&self) -> &ServerIdentity {
        &self.identity
    }

    pub(super) const fn code(&self) -> &SdkCode {
        &self.code
    }

    /// When its streams are to end.
    pub(super) const fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Any request. What is gRPC shows by itself; the rest are paths that no two protocols share.
    pub(super) async fn answer(&self, request: Request) -> Response {
        if grpc::is_call(&request) {
            grpc::answer(self, request).await
        } else if let Some(route) = classic::Route::of(request.uri().path()) {
            classic::answer(self, route, request).await
        } else {
            rest::answer(self, request).await
        }
    }

    /// What becomes of a call, or that it took too long.
    pub(super) async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, Status>> + Send,
    ) -> Result<T, Status> {
        let late = || Status::new(Code::DeadlineExceeded, "that took too long");
        timeout(self.request_timeout, call).await.unwrap_or_else(|_| Err(late()))
    }

    pub(super) async fn take(&self, request: SdkRequest) -> Result<GameServerView, Status> {
        Ok(self.backend.take(&self.identity, request).await?)
    }

    /// A call that has no answer but that it was taken in.
    pub(super) async fn say(&self, request: SdkRequest) -> Result<Empty, Status> {
        self.take(request).await.map(|_| Empty {})
    }

    pub(super) async fn reserve(&self, Duration { seconds }: Duration) -> Result<Empty, Status> {
        if !(0..=MAX_RESERVATION_SECONDS).contains(&seconds) {
            let bounds = format!("seconds: must be from 0 to {MAX_RESERVATION_SECONDS}");
            return Err(Status::new(Code::OutOfRange, bounds));
        }
        self.say(SdkRequest::Reserve(SignedDuration::from_secs(seconds))).await
    }

    pub(super) async fn set_label(&self, label: KeyValue) -> Result<Empty, Status> {
        let key = metadata_key(&label.key)?;
        let KeyValue { value, .. } = label;
        if !value.is_empty() && !is_name(&value) {
            return Err(Status::invalid(
                "value: a label has at most 63 letters, digits, -, _ and .",
            ));
        }
        self.say(SdkRequest::SetLabel { key, value }).await
    }

    pub(super) async fn set_annotation(&self, annotation: KeyValue) -> Result<Empty, Status> {
        let key = metadata_key(&annotation.key)?;
        self.say(SdkRequest::SetAnnotation { key, value: annotation.value }).await
    }

    async fn view(&self) -> Result<GameServerView, Status> {
        Ok(self.backend.view(&self.identity).await?)
    }

    pub(super) async fn game_server(&self) -> Result<GameServer, Status> {
        self.view().await.map(GameServer::from)
    }

    /// The server now and from each change on, until it goes or this endpoint does.
    pub(super) async fn watch(&self) -> Result<BoxStream<'static, GameServer>, Status> {
        self.in_time(self.view()).await?;
        let views = self.backend.watch(&self.identity).map(GameServer::from);
        Ok(views.take_until(self.closing.clone().cancelled_owned()).boxed())
    }

    async fn players(&self) -> Result<PlayersView, Status> {
        Ok(self.view().await?.players.unwrap_or_default())
    }

    pub(super) async fn player_connect(&self, player: PlayerId) -> Result<Bool, Status> {
        let id = player_id(player)?;
        match self.backend.take(&self.identity, SdkRequest::PlayerConnect(id)).await {
            Err(SdkError::AlreadyExists(_)) => Ok(Bool { bool: false }),
            taken => Ok(taken.map(|_| Bool { bool: true })?),
        }
    }

    pub(super) async fn player_disconnect(&self, player: PlayerId) -> Result<Bool, Status> {
        let id = player_id(player)?;
        match self.backend.take(&self.identity, SdkRequest::PlayerDisconnect(id)).await {
            Err(SdkError::NotFound(_)) => Ok(Bool { bool: false }),
            taken => Ok(taken.map(|_| Bool { bool: true })?),
        }
    }

    pub(super) async fn set_player_capacity(
        &self,
        Count { count }: Count,
    ) -> Result<Empty, Status> {
        self.say(SdkRequest::SetPlayerCapacity(count)).await
    }

    pub(super) async fn player_capacity(&self) -> Result<Count, Status> {
        Ok(Count { count: self.players().await?.capacity })
    }

    pub(super) async fn player_count(&self) -> Result<Count, Status> {
        Ok(Count { count: self.players().await?.count })
    }

    pub(super) async fn is_player_connected(&self, player: PlayerId) -> Result<Bool, Status> {
        let id = player_id(player)?;
        Ok(Bool { bool: self.players().await?.ids.contains(&id) })
    }

    pub(super) async fn connected_players(&self) -> Result<PlayerIdList, Status> {
        Ok(PlayerIdList { list: self.players().await?.ids })
    }

    pub(super) async fn counter(&self, name: &str) -> Result<Counter, Status> {
        counter_of(&self.view().await?, name)
    }

    pub(super) async fn update_counter(
        &self,
        update: CounterUpdateRequest,
    ) -> Result<Counter, Status> {
        let CounterUpdateRequest { name, count, capacity, count_diff } = update;
        if count.is_none() && capacity.is_none() && count_diff == 0 {
            return Err(Status::invalid("one of count, capacity and countDiff must be given"));
        }
        let change = CounterChange { count, capacity, diff: count_diff };
        let view = self.take(SdkRequest::UpdateCounter { name: name.clone(), change }).await?;
        counter_of(&view, &name)
    }

    pub(super) async fn list(&self, name: &str) -> Result<List, Status> {
        list_of(&self.view().await?, name)
    }

    /// Changes the fields that `paths` names; if it names none, those that `list` has.
    pub(super) async fn update_list(&self, list: List, paths: &[String]) -> Result<List, Status> {
        let List { name, capacity, values } = list;
        if let Some(path) = paths.iter().find(|path| !is_list_field(path)) {
            return Err(Status::invalid(format!("update_mask: a list has no field {path:?}")));
        }
        let named = |field: &str| paths.iter().any(|path| path == field);
        let capacity =
            if paths.is_empty() { capacity != 0 } else { named("capacity") }.then_some(capacity);
        let values =
            if paths.is_empty() { !values.is_empty() } else { named("values") }.then_some(values);
        let update = SdkRequest::UpdateList { name: name.clone(), capacity, values };
        list_of(&self.take(update).await?, &name)
    }

    pub(super) async fn add_list_value(&self, added: ListValue) -> Result<List, Status> {
        let ListValue { name, value } = added;
        let view = self.take(SdkRequest::AddListValue { name: name.clone(), value }).await?;
        list_of(&view, &name)
    }

    pub(super) async fn remove_list_value(&self, removed: ListValue) -> Result<List, Status> {
        let ListValue { name, value } = removed;
        let view = self.take(SdkRequest::RemoveListValue { name: name.clone(), value }).await?;
        list_of(&view, &name)
    }
}

fn player_id(PlayerId { player_id }: PlayerId) -> Result<String, Status> {
    if player_id.is_empty() { Err(Status::invalid("playerID: is missing")) } else { Ok(player_id) }
}

fn counter_of(view: &GameServerView, name: &str) -> Result<Counter, Status> {
    let counter = view.counters.get(name).ok_or_else(|| missing("counter", name))?;
    Ok(Counter { name: name.to_owned(), count: counter.count, capacity: counter.capacity })
}

fn list_of(view: &GameServerView, name: &str) -> Result<List, Status> {
    let list = view.lists.get(name).ok_or_else(|| missing("list", name))?;
    Ok(List { name: name.to_owned(), capacity: list.capacity, values: list.values.clone() })
}

fn missing(what: &str, name: &str) -> Status {
    SdkError::NotFound(format!("{what} {name}")).into()
}

fn is_list_field(path: &str) -> bool {
    matches!(path, "name" | "capacity" | "values")
}

/// The key under which a server's label or annotation is kept.
fn metadata_key(key: &str) -> Result<String, Status> {
    let prefixed = format!("{METADATA_PREFIX}{key}");
    if !is_metadata_key(&prefixed) {
        return Err(Status::invalid("key: must be at most 59 letters, digits, -, _ and ."));
    }
    Ok(prefixed)
}
