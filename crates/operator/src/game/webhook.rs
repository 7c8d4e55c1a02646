//! What the webhooks of autoscalers say. Each is asked at its interval, beside the controllers and beside each other; the
//! last answer is kept.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::json;
use sojourn_api::game::GameConfig;
use sojourn_api::game::autoscaler::WebhookTerm;
use sojourn_api::game::collection::DedicatedGameServerCollectionSpec;
use sojourn_core::game::autoscaler::WebhookAnswer;
use sojourn_core::key::Key;
use sojourn_core::term::Term;
use sojourn_drivers::json_post;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::caches::GameCaches;
use crate::configuration::Configuration;

/// A webhook that says nothing for so long has said nothing.
const TIMEOUT: Duration = Duration::from_secs(10);
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// So many are asked at the same time; one that is slow keeps no others waiting until so many are.
const MAX_CONCURRENT_REQUESTS: usize = 32;

/// Asks somebody how many members a collection should have.
pub trait ScalingWebhook: Send + Sync + std::fmt::Debug {
    /// Posts the collection's figures, to public addresses and to those that are allowed; the answer is what they said.
    fn ask<'a>(
        &'a self,
        url: &'a str,
        allowed: &'a [String],
        body: serde_json::Value,
    ) -> BoxFuture<'a, Result<serde_json::Value, String>>;
}

/// Asks by HTTP.
#[derive(Debug)]
pub struct HttpScalingWebhook;

impl ScalingWebhook for HttpScalingWebhook {
    fn ask<'a>(
        &'a self,
        url: &'a str,
        allowed: &'a [String],
        body: serde_json::Value,
    ) -> BoxFuture<'a, Result<serde_json::Value, String>> {
        async move { json_post::post(url, allowed, &body).await }.boxed()
    }
}

/// The webhooks of all collections.
#[derive(Debug)]
pub(crate) struct ScalingWebhooks {
    asked: Mutex<HashMap<Key, AskedWebhook>>,
    changed: Notify,
}

#[derive(Debug)]
struct AskedWebhook {
    url: String,
    interval: Duration,
    due: Instant,
    /// It is being asked: nobody is asked twice at the same time.
    in_flight: bool,
    answer: WebhookAnswer,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerBody {
    /// Left out: it leaves it to the other terms.
    replicas: Option<u32>,
}

impl Default for ScalingWebhooks {
    fn default() -> Self {
        Self { asked: Mutex::default(), changed: Notify::new() }
    }
}

impl ScalingWebhooks {
    /// What the webhook of a collection said last; nothing, if it has none.
    pub(crate) fn answer(
        &self,
        key: &Key,
        spec: &DedicatedGameServerCollectionSpec,
    ) -> Option<WebhookAnswer> {
        let details = spec.pod_auto_scaler_details.as_ref().filter(|details| details.enabled);
        let term =
            details.and_then(|details| details.terms.iter().find_map(|term| term.webhook.as_ref()));
        let Some(WebhookTerm { url, interval }) = term else {
            self.forget(key);
            return None;
        };
        let span =
            interval.parse().ok().and_then(Term::span).unwrap_or(SignedDuration::from_secs(30));
        let interval = Duration::try_from(span).unwrap_or(MIN_INTERVAL).max(MIN_INTERVAL);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        match asked.get_mut(key) {
            Some(known) if known.url == *url => {
                known.interval = interval;
                Some(known.answer)
            }
            _ => {
                let (due, answer) = (Instant::now(), WebhookAnswer::Unknown);
                let url = url.clone();
                let new = AskedWebhook { url, interval, due, in_flight: false, answer };
                asked.insert(key.clone(), new);
                self.changed.notify_one();
                Some(WebhookAnswer::Unknown)
            }
        }
    }

    pub(crate) fn forget(&self, key: &Key) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Asks whoever is due, for ever.
    pub(crate) async fn run(
        self: Arc<Self>,
        caches: Arc<GameCaches>,
        config: Arc<Configuration<GameConfig>>,
        webhook: Arc<dyn ScalingWebhook>,
    ) {
        let mut asking = FuturesUnordered::new();
        loop {
            let changed = self.changed.notified();
            let (due, next) = self.due(MAX_CONCURRENT_REQUESTS - asking.len());
            for (key, url) in due {
                asking.push(self.ask(key, url, &caches, &config, &*webhook));
            }
            let has_room = asking.len() < MAX_CONCURRENT_REQUESTS;
            tokio::select! {
                Some(()) = asking.next() => {}
                () = until(next), if has_room => {}
                () = changed => {}
            }
        }
    }

    async fn ask(
        &self,
        key: Key,
        url: String,
        caches: &GameCaches,
        config: &Configuration<GameConfig>,
        webhook: &dyn ScalingWebhook,
    ) {
        let (body, config) = (figures(caches, &key), config.current());
        let asked = webhook.ask(&url, &config.allowed_addresses, body);
        let said = tokio::time::timeout(TIMEOUT, asked).await;
        let said = said.unwrap_or_else(|_| Err("it did not answer in time".to_owned()));
        self.note(&key, &url, said, caches);
    }

    /// Who is to be asked now, those who wait for the longest time first, and when the next one is.
    fn due(&self, room: usize) -> (Vec<(Key, String)>, Option<Instant>) {
        let now = Instant::now();
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = asked.iter().filter(|(_, one)| !one.in_flight && one.due <= now);
        let mut waiting: Vec<(Instant, Key)> =
            waiting.map(|(key, one)| (one.due, key.clone())).collect();
        waiting.sort_unstable();
        let mut due = Vec::new();
        for (_, key) in waiting.into_iter().take(room) {
            let Some(one) = asked.get_mut(&key) else { continue };
            one.due = now + one.interval;
            one.in_flight = true;
            due.push((key, one.url.clone()));
        }
        (due, asked.values().filter(|one| !one.in_flight).map(|one| one.due).min())
    }

    fn note(
        &self,
        key: &Key,
        url: &str,
        said: Result<serde_json::Value, String>,
        caches: &GameCaches,
    ) {
        let answer = said.and_then(|body| {
            serde_json::from_value::<AnswerBody>(body).map_err(|error| error.to_string())
        });
        let answer = match answer {
            Ok(AnswerBody { replicas: Some(replicas) }) => WebhookAnswer::Replicas(replicas),
            Ok(AnswerBody { replicas: None }) => WebhookAnswer::Abstains,
            Err(error) => {
                tracing::warn!(collection = %key, error, "its webhook cannot tell");
                WebhookAnswer::Unknown
            }
        };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = asked.get_mut(key).filter(|known| known.url == url) else { return };
        known.in_flight = false;
        if known.answer != answer {
            known.answer = answer;
            drop(asked);
            caches.collection_queue.wake(key);
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What a webhook is told.
fn figures(caches: &GameCaches, key: &Key) -> serde_json::Value {
    let collection = caches.collections.get(key);
    let collection = collection.as_deref().and_then(|read| read.as_ref().ok());
    let status = collection.and_then(|one| one.status.as_ref());
    json!({
        "namespace": &*key.namespace,
        "collection": &*key.name,
        "replicas": collection.map(|one| one.spec.replicas),
        "availableReplicas": status.map(|status| status.available_replicas),
        "health": status.and_then(|status| status.health),
    })
}
