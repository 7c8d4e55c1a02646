//! The outside under the present configuration: channels for notices and the prober's way out.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use sojourn_api::config::value::SecretKey;
use sojourn_api::lab::LabConfig;
use sojourn_api::name::shared;
use sojourn_drivers::notify::{Channel, Zone};
use sojourn_drivers::probe::{Observation, Probe, Target};
use tokio::sync::Notify;

use super::outside::{Outside, Secrets};
use crate::outbox::Channels;

/// The parts that are in use; replaced as a whole when the configuration changes.
#[derive(Debug)]
pub(crate) struct Parts {
    current: RwLock<Current>,
    /// What takes notices when nothing else is configured.
    fallback: OnceLock<Arc<dyn Channel>>,
    built: Notify,
}

#[derive(Debug)]
struct Current {
    channels: Vec<Arc<dyn Channel>>,
    zone: Zone,
    probe: Arc<dyn Probe>,
    problem: Option<String>,
    /// When they were made anew, if they were since the start.
    renewed: Option<Timestamp>,
}

impl Default for Parts {
    fn default() -> Self {
        let current = Current {
            channels: Vec::new(),
            zone: Zone::utc(),
            probe: Arc::new(NoProbe(String::new())),
            problem: None,
            renewed: None,
        };
        Self { current: RwLock::new(current), fallback: OnceLock::new(), built: Notify::new() }
    }
}

impl Parts {
    pub(crate) fn fall_back_to(&self, channel: Arc<dyn Channel>) {
        // The first one stays; there is only one caller.
        drop(self.fallback.set(channel));
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
    pub(crate) fn renewed(&self) -> Option<Timestamp> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).renewed
    }

    /// Waits until they are made anew.
    pub(crate) async fn built(&self) {
        self.built.notified().await;
    }

    /// Makes everything anew; `renewed` is when, unless it is for the first time.
    pub(crate) async fn build(
        &self,
        client: &Client,
        config: &LabConfig,
        outside: &dyn Outside,
        renewed: Option<Timestamp>,
    ) {
        let mut problems = Vec::new();
        let mut note = |what: &str, problem: String| {
            tracing::error!(problem, "cannot use {what} as configured");
            problems.push(format!("{what}: {problem}"));
        };
        let wanted =
            config.enable_inactivity_notifications || config.enable_expiration_notifications;
        let (mut secrets, mut channels) = (Secrets::default(), Vec::new());
        // Nobody is told by another way than the one that was chosen.
        let broken = |name, problem| -> Arc<dyn Channel> { Arc::new(Broken { name, problem }) };
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
        match outside.channels(config, &secrets) {
            Ok(made) => channels.extend(made.into_iter().filter(|_| wanted)),
            Err(problem) if wanted => {
                note("mail", problem.clone());
                channels.push(broken("mail", problem));
            }
            Err(_) => {}
        }
        // Mail that went out was written in the zone that was known before.
        let zone = outside.zone(config).unwrap_or_else(|_| self.zone());
        let probe = outside.probe(config).unwrap_or_else(|problem| {
            note("status checks", problem.clone());
            Arc::new(NoProbe(problem))
        });
        let problem = (!problems.is_empty()).then(|| problems.join("; "));
        *self.current.write().unwrap_or_else(PoisonError::into_inner) =
            Current { channels, zone, probe, problem, renewed };
        self.built.notify_one();
    }
}

impl Channels for Parts {
    fn current(&self) -> Vec<Arc<dyn Channel>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        if current.channels.is_empty() {
            return self.fallback.get().cloned().into_iter().collect();
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
struct Broken {
    name: &'static str,
    problem: String,
}

impl Channel for Broken {
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

/// A way out that is not there: nothing follows from what it says.
#[derive(Debug)]
struct NoProbe(String);

impl Probe for NoProbe {
    fn check<'a>(&'a self, _: &'a Target) -> futures::future::BoxFuture<'a, Observation> {
        Box::pin(std::future::ready(Observation::Unclear(self.0.clone())))
    }
}
