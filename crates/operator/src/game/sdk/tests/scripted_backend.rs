//! A backend that keeps what it hears, and does what a test told it to.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::watch;

use super::identity;
use crate::game::sdk::{
    CounterChange, GameServerState, GameServerView, SdkBackend, SdkError, SdkRequest,
    ServerIdentity,
};

#[derive(Debug)]
pub(super) struct ScriptedBackend {
    server: watch::Sender<Option<GameServerView>>,
    heard: Mutex<Vec<SdkRequest>>,
    refusals: Mutex<VecDeque<SdkError>>,
    hangs: AtomicBool,
}

impl ScriptedBackend {
    pub(super) fn new(server: GameServerView) -> Self {
        Self {
            server: watch::Sender::new(Some(server)),
            heard: Mutex::default(),
            refusals: Mutex::default(),
            hangs: AtomicBool::default(),
        }
    }

    /// What it heard since it was asked last.
    pub(super) fn heard(&self) -> Vec<SdkRequest> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }

    pub(super) fn heard_count(&self) -> usize {
        self.heard.lock().unwrap().len()
    }

    /// Refuses what is said next.
    pub(super) fn refuse(&self, error: SdkError) {
        self.refusals.lock().unwrap().push_back(error);
    }

    /// Answers nothing any more.
    pub(super) fn hang(&self) {
        self.hangs.store(true, Ordering::Relaxed);
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut GameServerView)) {
        self.server.send_modify(|server| change(server.as_mut().unwrap()));
    }

    /// There is no such server any more.
    pub(super) fn forget(&self) {
        self.server.send_replace(None);
    }

    /// Streams that somebody watches.
    pub(super) fn watches(&self) -> usize {
        self.server.receiver_count()
    }
}

impl SdkBackend for ScriptedBackend {
    fn take<'a>(
        &'a self,
        server: &'a ServerIdentity,
        request: SdkRequest,
    ) -> BoxFuture<'a, Result<GameServerView, SdkError>> {
        async move {
            assert_eq!(*server, identity());
            self.heard.lock().unwrap().push(request.clone());
            if self.hangs.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            if let Some(refusal) = self.refusals.lock().unwrap().pop_front() {
                return Err(refusal);
            }
            let mut server = self.server.borrow().clone().ok_or(SdkError::UnknownServer)?;
            let before = server.clone();
            apply(&mut server, request)?;
            if server != before {
                self.server.send_replace(Some(server.clone()));
            }
            Ok(server)
        }
        .boxed()
    }

    fn view<'a>(
        &'a self,
        server: &'a ServerIdentity,
    ) -> BoxFuture<'a, Result<GameServerView, SdkError>> {
        assert_eq!(*server, identity());
        let view = self.server.borrow().clone();
        std::future::ready(view.ok_or(SdkError::UnknownServer)).boxed()
    }

    fn watch(&self, server: &ServerIdentity) -> BoxStream<'static, GameServerView> {
        assert_eq!(*server, identity());
        let views =
            stream::unfold((self.server.subscribe(), true), |(mut server, first)| async move {
                if !first {
                    server.changed().await.ok()?;
                }
                let view = server.borrow_and_update().clone()?;
                Some((view, (server, false)))
            });
        views.boxed()
    }
}

fn apply(server: &mut GameServerView, request: SdkRequest) -> Result<(), SdkError> {
    let missing = |what: &str| SdkError::NotFound(what.to_owned());
    match request {
        SdkRequest::Ready => server.state = GameServerState::Ready,
        SdkRequest::Allocate => server.state = GameServerState::Allocated,
        SdkRequest::Shutdown => server.state = GameServerState::Shutdown,
        SdkRequest::Reserve(_) => server.state = GameServerState::Reserved,
        SdkRequest::SetLabel { key, value } => drop(server.labels.insert(key, value)),
        SdkRequest::SetAnnotation { key, value } => drop(server.annotations.insert(key, value)),
        SdkRequest::PlayerConnect(id) => {
            let players = server.players.as_mut().unwrap();
            if players.ids.contains(&id) {
                return Err(SdkError::AlreadyExists(id));
            }
            if players.count >= players.capacity {
                return Err(SdkError::OutOfRange("the server is full".to_owned()));
            }
            players.ids.push(id);
            players.count += 1;
        }
        SdkRequest::PlayerDisconnect(id) => {
            let players = server.players.as_mut().unwrap();
            let at = players.ids.iter().position(|there| *there == id);
            players.ids.remove(at.ok_or_else(|| missing(&id))?);
            players.count -= 1;
        }
        SdkRequest::SetPlayerCapacity(capacity) => {
            server.players.as_mut().unwrap().capacity = capacity;
        }
        SdkRequest::UpdateCounter { name, change } => {
            let counter = server.counters.get_mut(&name).ok_or_else(|| missing(&name))?;
            let CounterChange { count, capacity, diff } = change;
            counter.capacity = capacity.unwrap_or(counter.capacity);
            counter.count = count.unwrap_or(counter.count) + diff;
            if !(0..=counter.capacity).contains(&counter.count) {
                return Err(SdkError::OutOfRange(format!("count {}", counter.count)));
            }
        }
        SdkRequest::UpdateList { name, capacity, values } => {
            let list = server.lists.get_mut(&name).ok_or_else(|| missing(&name))?;
            list.capacity = capacity.unwrap_or(list.capacity);
            list.values = values.unwrap_or_else(|| list.values.clone());
        }
        SdkRequest::AddListValue { name, value } => {
            let list = server.lists.get_mut(&name).ok_or_else(|| missing(&name))?;
            if list.values.contains(&value) {
                return Err(SdkError::AlreadyExists(value));
            }
            list.values.push(value);
        }
        SdkRequest::RemoveListValue { name, value } => {
            let list = server.lists.get_mut(&name).ok_or_else(|| missing(&name))?;
            let at = list.values.iter().position(|there| *there == value);
            list.values.remove(at.ok_or_else(|| missing(&value))?);
        }
        SdkRequest::Health
        | SdkRequest::SetActivePlayers(_)
        | SdkRequest::SetHealth(_)
        | SdkRequest::SetState(_)
        | SdkRequest::SetMarkedForDeletion(_)
        | SdkRequest::Silence(_) => {}
    }
    Ok(())
}
