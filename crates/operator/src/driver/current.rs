//! The drivers under the present configuration: channels for notices, and the probe of status checks.

use std::sync::{Arc, PoisonError, RwLock};

use jiff::Timestamp;
use kube::Client;
use sojourn_drivers::notify::{Channel, Zone};
use sojourn_drivers::probe::{Observation, Probe, Target};
use tokio::sync::Notify;

use super::{DriverConfig, DriverFactory};
use crate::notice::{BrokenChannel, ChannelSecrets};
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
        config: &DriverConfig,
        factory: &dyn DriverFactory,
        rebuilt_at: Option<Timestamp>,
    ) {
        let mut problems = Vec::new();
        let mut note = |what: &str, problem: String| {
            tracing::error!(problem, "cannot use {what} as configured");
            problems.push(format!("{what}: {problem}"));
        };
        let wanted = config.sends_notices;
        let mut channels: Vec<Arc<dyn Channel>> = Vec::new();
        let [webhook, slack] =
            [&config.webhook_url, &config.slack_url].map(|url| url.as_ref().filter(|_| wanted));
        let (secrets, unreadable) = ChannelSecrets::read(client, webhook, slack).await;
        // A channel that cannot be used stays in the list: notices take no other way than the configured one.
        for broken in unreadable {
            note(broken.name, broken.problem.clone());
            channels.push(Arc::new(broken));
        }
        match factory.channels(config, &secrets) {
            Ok(made) => channels.extend(made.into_iter().filter(|_| wanted)),
            Err(problem) if wanted => {
                note("mail", problem.clone());
                channels.push(Arc::new(BrokenChannel {
                    name: "mail",
                    is_addressed: true,
                    problem,
                }));
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

/// Stands in for a probe that cannot be made: every check is unclear, so nothing follows from it.
#[derive(Debug)]
struct NoProbe(String);

impl Probe for NoProbe {
    fn check<'a>(&'a self, _: &'a Target) -> futures::future::BoxFuture<'a, Observation> {
        Box::pin(std::future::ready(Observation::Unclear(self.0.clone())))
    }
}
