//! The drivers under the present configuration: channels for notices, and the probe of status checks.

use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use sojourn_api::config::value::SecretKey;
use sojourn_api::lab::LabConfig;
use sojourn_api::name::shared;
use sojourn_drivers::notify::{Channel, Zone};
use sojourn_drivers::probe::{Observation, Probe, Target};
use tokio::sync::Notify;

use super::driver_factory::{DriverFactory, Secrets};
use crate::outbox::Channels;

/// The drivers that are in use; replaced as a whole when the configuration changes.
#[derive(Debug)]
pub(crate) struct Drivers {
    current: RwLock<CurrentDrivers>,
    /// What takes notices when nothing else is configured.
    fallback: RwLock<Option<Arc<dyn Channel>>>,
    rebuilt: Notify,
}

#[derive(Debug)]
struct CurrentDrivers {
    channels: Vec<Arc<dyn Channel>>,
    zone: Zone,
    probe: Arc<dyn Probe>,
    problem: Option<String>,
    /// When they were made anew, if they were since the start.
    rebuilt_at: Option<Timestamp>,
}

impl Default for Drivers {
    fn default() -> Self {
        let current = CurrentDrivers {
            channels: Vec::new(),
            zone: Zone::utc(),
            probe: Arc::new(NoProbe(String::new())),
            problem: None,
            rebuilt_at: None,
        };
        Self { current: RwLock::new(current), fallback: RwLock::default(), rebuilt: Notify::new() }
    }
}

impl Drivers {
    pub(crate) fn set_fallback_channel(&self, channel: Arc<dyn Channel>) {
        *self.fallback.write().unwrap_or_else(PoisonError::into_inner) = Some(channel);
    }

    pub(crate) fn probe(&self) -> Arc<dyn Probe> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).probe.clone()
    }

    /// The time zone that notices are written in.
    pub(crate) fn zone(&self) -> Zone {
        self.current.read().unwrap_or_else(PoisonError::into_inner).zone.clone()
    }

    /// What cannot be used as it is configured.
    pub(crate) fn problem(&self) -> Option<String> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).problem.clone()
    }

    /// When they were last made anew, if they were since the start.
    pub(crate) fn rebuilt_at(&self) -> Option<Timestamp> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).rebuilt_at
    }

    /// Waits until they are made anew.
    pub(crate) async fn rebuilt(&self) {
        self.rebuilt.notified().await;
    }

    /// Makes everything anew; `rebuilt_at` is when, unless it is for the first time.
    pub(crate) async fn build(
        &self,
        client: &Client,
        config: &LabConfig,
        factory: &dyn DriverFactory,
        rebuilt_at: Option<Timestamp>,
    ) {
        let mut problems = Vec::new();
        let mut note = |what: &str, problem: String| {
            tracing::error!(problem, "cannot use {what} as configured");
            problems.push(format!("{what}: {problem}"));
        };
        let wanted =
            config.enable_inactivity_notifications || config.enable_expiration_notifications;
        let (mut secrets, mut channels) = (Secrets::default(), Vec::new());
        // A channel that cannot be used stays in the list: notices take no other way than the configured one.
        let broken =
            |name, problem| -> Arc<dyn Channel> { Arc::new(BrokenChannel { name, problem }) };
        let named = [
            ("webhook", &config.webhook_url, &mut secrets.webhook_url),
            ("slack", &config.slack_url, &mut secrets.slack_url),
        ];
        for (name, reference, url) in named {
            let Some(reference) = reference.as_ref().filter(|_| wanted) else { continue };
            match read(client, reference).await {
                Ok(read) => *url = Some(read),
                Err(problem) => {
                    note(name, problem.clone());
                    channels.push(broken(name, problem));
                }
            }
        }
        match factory.channels(config, &secrets) {
            Ok(made) => channels.extend(made.into_iter().filter(|_| wanted)),
            Err(problem) if wanted => {
                note("mail", problem.clone());
                channels.push(broken("mail", problem));
            }
            Err(_) => {}
        }
        // Without readable mail settings the last known zone stays, in which sent mail was written.
        let zone = factory.zone(config).unwrap_or_else(|_| self.zone());
        let probe = factory.probe(config).unwrap_or_else(|problem| {
            note("status checks", problem.clone());
            Arc::new(NoProbe(problem))
        });
        let problem = (!problems.is_empty()).then(|| problems.join("; "));
        *self.current.write().unwrap_or_else(PoisonError::into_inner) =
            CurrentDrivers { channels, zone, probe, problem, rebuilt_at };
        self.rebuilt.notify_one();
    }
}

impl Channels for Drivers {
    fn current(&self) -> Vec<Arc<dyn Channel>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        if current.channels.is_empty() {
            let fallback = self.fallback.read().unwrap_or_else(PoisonError::into_inner);
            return fallback.iter().cloned().collect();
        }
        current.channels.clone()
    }
}

async fn read(client: &Client, reference: &SecretKey) -> Result<String, String> {
    let api: Api<Secret> = Api::namespaced(client.clone(), shared::NAMESPACE);
    let named = format!("{}/{}", shared::NAMESPACE, reference.name);
    let secret = api.get(&reference.name).await.map_err(|e| format!("cannot read {named}: {e}"))?;
    let value = secret.data.as_ref().and_then(|data| data.get(&reference.key));
    let value = value.ok_or_else(|| format!("{named} has no key {}", reference.key))?;
    String::from_utf8(value.0.clone())
        .map(|text| text.trim().to_owned())
        .map_err(|_| format!("{named} is no text at {}", reference.key))
}

/// A channel that is configured and cannot work: every attempt says why.
#[derive(Debug)]
struct BrokenChannel {
    name: &'static str,
    problem: String,
}

impl Channel for BrokenChannel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn send<'a>(
        &'a self,
        _: &'a sojourn_drivers::notify::Notice,
    ) -> futures::future::BoxFuture<'a, Result<(), sojourn_drivers::notify::SendError>> {
        let refused = sojourn_drivers::notify::SendError::Transient(self.problem.clone());
        Box::pin(std::future::ready(Err(refused)))
    }
}

/// Stands in for a probe that cannot be made: every check is unclear, so nothing follows from it.
#[derive(Debug)]
struct NoProbe(String);

impl Probe for NoProbe {
    fn check<'a>(&'a self, _: &'a Target) -> futures::future::BoxFuture<'a, Observation> {
        Box::pin(std::future::ready(Observation::Unclear(self.0.clone())))
    }
}
