//! What servers report and what they are granted, written under the version that it was decided on. Whoever was too
//! late reads again and decides again.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use jiff::Timestamp;
use kube::{Api, Client, Resource as _};
use sojourn_api::game::DedicatedGameServer;
use sojourn_api::game::status::ServerStatus;
use sojourn_core::key::Key;
use tokio::sync::Mutex;

use super::caches::GameCaches;
use super::next;
use super::transition;
use super::view::ServerView;
use crate::clock::Clock;
use crate::event::Events;
use crate::frame::RequestError;
use crate::frame::status::Definitions;
use crate::frame::write::ObjectVersion;

/// So often somebody who lost a race reads again.
const MAX_ATTEMPTS: u32 = 8;
/// Writes to one server wait for each other; so many servers write at a time without waiting.
const LOCKS: usize = 256;
const WHAT: &str = "write the status of a DedicatedGameServer";

/// Writes the statuses of servers for whoever is no controller.
pub(crate) struct ServerStore {
    pub(crate) client: Client,
    pub(crate) caches: Arc<GameCaches>,
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) events: Events,
    pub(crate) clock: Arc<dyn Clock>,
    locks: Vec<Mutex<()>>,
}

impl std::fmt::Debug for ServerStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerStore").finish_non_exhaustive()
    }
}

/// Why a change was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError<E> {
    #[error("there is no such server")]
    Gone,
    #[error("too many write to it at the same time; try again")]
    Contended,
    #[error(transparent)]
    Refused(E),
    #[error("cannot write it down: {0}")]
    Api(RequestError),
}

/// Which lock a server's writes wait at: always the same, so that a run can be repeated.
fn lock_of(key: &Key) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    usize::try_from(hasher.finish() % LOCKS as u64).unwrap_or(0)
}

impl ServerStore {
    pub(crate) fn new(
        client: Client,
        caches: Arc<GameCaches>,
        definitions: Arc<Definitions>,
        events: Events,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let locks = (0..LOCKS).map(|_| Mutex::default()).collect();
        Self { client, caches, definitions, events, clock, locks }
    }

    /// Changes the status of the server of this uid, if `change` has nothing against it. What changes nothing is not
    /// written.
    pub(crate) async fn update<E>(
        &self,
        key: &Key,
        uid: &str,
        change: impl Fn(&ServerView, &mut ServerStatus, Timestamp) -> Result<(), E> + Send + Sync,
    ) -> Result<DedicatedGameServer, StoreError<E>> {
        let _turn = self.locks[lock_of(key)].lock().await;
        let api: Api<DedicatedGameServer> = Api::namespaced(self.client.clone(), &key.namespace);
        for _ in 0..MAX_ATTEMPTS {
            let read = self.caches.server(key).ok_or(StoreError::Gone)?;
            let Ok(view) = &*read else { return Err(StoreError::Gone) };
            if view.uid() != uid {
                return Err(StoreError::Gone);
            }
            let now = self.clock.now();
            let before = view.status().cloned().unwrap_or_default();
            let mut status = before.clone();
            change(view, &mut status, now).map_err(StoreError::Refused)?;
            if status == before {
                return Ok(view.object.clone());
            }
            next::foretell(view, &mut status, now);
            let target = ObjectVersion { name: &key.name, uid, version: view.version() };
            let (object, written) = self
                .definitions
                .write_status((&api, WHAT), &target, &status, &self.events, now)
                .await;
            match (object, written) {
                (Some(object), Ok(())) => {
                    let happened = transition::of_server(view, &before, &status);
                    self.events.publish_transitions(&view.object.object_ref(&()), &happened, now);
                    self.caches.wrote_server(key, object.clone());
                    self.caches.reported(key, view);
                    return Ok(object);
                }
                (_, Err(RequestError::Outdated { .. })) => self.refresh(&api, key).await?,
                (_, Err(RequestError::Gone { .. })) => return Err(StoreError::Gone),
                (_, Err(error)) => return Err(StoreError::Api(error)),
                (None, Ok(())) => return Err(StoreError::Gone),
            }
        }
        Err(StoreError::Contended)
    }

    /// Reads a server that is newer than the cache has it.
    async fn refresh<E>(
        &self,
        api: &Api<DedicatedGameServer>,
        key: &Key,
    ) -> Result<(), StoreError<E>> {
        match api.get_opt(&key.name).await {
            Ok(Some(object)) => {
                self.caches.wrote_server(key, object);
                Ok(())
            }
            Ok(None) => Err(StoreError::Gone),
            Err(error) => {
                Err(StoreError::Api(RequestError::of("read a DedicatedGameServer", error)))
            }
        }
    }
}
