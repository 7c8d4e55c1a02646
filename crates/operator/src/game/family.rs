//! What the two controllers of the family share.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kube::Client;
use sojourn_api::game::GameConfig;
use sojourn_core::game::lifecycle::HeardPings;
use sojourn_core::key::Key;

use super::allocator::Allocator;
use super::caches::GameCaches;
use super::log_archive::LogArchive;
use super::metrics::GameMetrics;
use super::pod::{SdkEndpoint, Sidecar};
use super::sdk_listener::SdkListeners;
use super::webhook::ScalingWebhooks;
use crate::clock::Clock;
use crate::configuration::Configuration;
use crate::driver::Drivers;
use crate::event::Events;
use crate::family::{ProgramPath, WebService};
use crate::frame::status::Definitions;
use crate::installation_key::InstallationKey;
use crate::outbox::Outbox;

/// Everything that decisions are carried out with.
pub(crate) struct GameFamilyParts {
    pub(crate) client: Client,
    pub(crate) clock: Arc<dyn Clock>,
    /// When this process took over: what was under way before was another's.
    pub(crate) since: Timestamp,
    pub(crate) outbox: Outbox,
    pub(crate) drivers: Arc<Drivers>,
    /// What this process serves people.
    pub(crate) web: WebService,
    pub(crate) caches: Arc<GameCaches>,
    pub(crate) config: Arc<Configuration<GameConfig>>,
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) events: Events,
    pub(crate) pings: Arc<Pings>,
    /// Pods that the API would not take: asking again would be answered the same.
    pub(crate) refusals: Refusals,
    /// Servers that were refused ports.
    pub(crate) port_refusals: Refusals,
    pub(crate) logs: LogArchive,
    pub(crate) metrics: GameMetrics,
    pub(crate) allocator: Arc<Allocator>,
    pub(crate) webhooks: Arc<ScalingWebhooks>,
    /// Where servers talk, if that is on this machine.
    pub(crate) sdk: Option<Arc<SdkListeners>>,
    /// What servers elsewhere show their sidecars is made with it.
    pub(crate) installation_key: InstallationKey,
    /// This program, as sidecars find it.
    pub(crate) program: ProgramPath,
    /// Whether the number of members follows their use.
    pub(crate) autoscaler: bool,
    /// Counts the names that were given.
    pub(crate) serial: AtomicU64,
}

impl std::fmt::Debug for GameFamilyParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GameFamilyParts").finish_non_exhaustive()
    }
}

impl GameFamilyParts {
    /// Where people reach us, if anybody is served.
    pub(crate) fn public_url(&self, config: &GameConfig) -> Option<String> {
        let WebService { gateway: served, public_url, .. } = &self.web;
        config.notify.public_url.clone().or_else(|| public_url.clone()).filter(|_| *served)
    }

    /// The pings of a server, if anybody hears it: while its listener cannot be opened, none are missing.
    pub(crate) fn heard(&self, uid: &str) -> Option<HeardPings> {
        let listening_since = match &self.sdk {
            Some(listeners) => listeners.listening_since(uid)?,
            None => self.pings.since,
        };
        Some(self.pings.of(uid, listening_since))
    }

    /// Where a new Pod of a server will talk. Without such a place it runs all the same, and nobody hears it.
    pub(crate) async fn sdk_endpoint(&self, key: &Key, uid: &str) -> Option<SdkEndpoint> {
        let Some(listeners) = &self.sdk else {
            let config = self.config.current();
            let code = self.installation_key.report_token(key, uid);
            return Sidecar::of(&config.sdk, &self.program, code).map(SdkEndpoint::Sidecar);
        };
        match listeners.open(key, uid).await {
            Ok(endpoint) => Some(SdkEndpoint::Listener(endpoint)),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(server = %key, error, "no listener for its SDK");
                None
            }
        }
    }
}

/// When servers last said that they are well. Only in memory: after a restart nobody has failed for what was not heard.
#[derive(Debug)]
pub(crate) struct Pings {
    since: Timestamp,
    last: Mutex<HashMap<String, Timestamp>>,
}

impl Pings {
    pub(crate) fn new(since: Timestamp) -> Self {
        Self { since, last: Mutex::default() }
    }

    pub(crate) fn record(&self, uid: &str, at: Timestamp) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match last.get_mut(uid) {
            Some(known) => *known = at,
            None => {
                last.insert(uid.to_owned(), at);
            }
        }
    }

    pub(crate) fn forget(&self, uid: &str) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// The last one of a server, which would have been heard since then.
    fn of(&self, uid: &str, listening_since: Timestamp) -> HeardPings {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        HeardPings { last: last.get(uid).copied(), listening_since }
    }
}

/// What servers were refused and why, by server and uid.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<Key, (String, String)>>);

impl Refusals {
    pub(crate) fn add(&self, key: &Key, uid: &str, message: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(key.clone(), (uid.to_owned(), message));
    }

    pub(crate) fn of(&self, key: &Key, uid: &str) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(key).filter(|(known, _)| known == uid).map(|(_, message)| message.clone())
    }

    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
