//! Lab: the controller of Instances, and what it needs around it.
//!
//! | file | step |
//! |---|---|
//! | `snapshot` | parse: an Instance with all that says something about it |
//! | `observe` | observe |
//! | `reconcile` | decide, and the controller as a whole |
//! | `execute`, `runtime`, `object`, `notice` | execute |
//! | `publish`, `condition`, `transition`, `metrics` | publish |
//! | `caches`, `view` | the caches, and whom a change concerns |
//! | `coverage_store` | collects activity, and stores which time was observed |
//! | `prober`, `orphaned_claim` | work beside the reconciler: status checks, claims whose Instance is gone |
//! | `config_watcher`, `driver_factory`, `drivers` | the live configuration, and the drivers that are made from it |
//! | `web`, `link_action` | what the gateway, reports and links in mails need |

mod caches;
mod condition;
mod config_watcher;
mod coverage_store;
pub mod driver_factory;
mod drivers;
mod execute;
mod link_action;
mod metrics;
mod notice;
mod object;
mod observe;
mod orphaned_claim;
mod prober;
mod publish;
mod reconcile;
mod runtime;
#[cfg(test)]
mod sample;
mod snapshot;
mod transition;
mod view;
mod web;

use std::sync::Arc;

use kube::Client;
use sojourn_api::lab::{Instance, LabConfig};
use tokio::sync::watch;

use self::caches::LabCaches;
use self::config_watcher::{ConfigChanges, ConfigWatcher};
use self::coverage_store::CoverageStore;
#[cfg(test)]
pub(crate) use self::coverage_store::polled;
use self::driver_factory::DriverFactory;
use self::drivers::Drivers;
use self::notice::EventChannel;
use self::orphaned_claim::OrphanedClaims;
use self::prober::Prober;
use self::reconcile::Lab;
pub use self::reconcile::Settings;
use crate::clock::Clock;
use crate::configuration::Configuration;
use crate::event::Events;
use crate::frame::status::Definitions;
use crate::frame::{Limits, Queue, Tasks, Watching, run};
use crate::installation_key::{InstallationKey, InstallationKeyError};
use crate::link::Links;
use crate::metrics::{Metrics, Reconciles};
use crate::outbox::{self, Outbox};
use crate::tracker::Tracker;

/// What the family is started with.
#[derive(Clone)]
pub struct Start {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub watching: Watching,
    pub driver_factory: Arc<dyn DriverFactory>,
    pub settings: Settings,
    pub limits: Limits,
    pub metrics: Metrics,
}

impl std::fmt::Debug for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start").finish_non_exhaustive()
    }
}

/// The family, running.
#[derive(Debug, Clone)]
pub struct Started {
    pub(crate) lab: Arc<Lab>,
    pub queue: Arc<Queue>,
    pub reconciles: Reconciles,
}

/// Why it cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot ask the API which groups it serves")]
    Groups(#[source] kube::Error),
    #[error(transparent)]
    InstallationKey(InstallationKeyError),
    #[error("cannot read what was observed before")]
    Coverage(#[source] kube::Error),
}

impl Started {
    /// Whether no Instance is queued or being reconciled.
    pub fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    /// Where people reach us, if the configuration says so, now and from each change on.
    pub fn public_url(&self) -> watch::Receiver<Option<String>> {
        self.lab.public_url.clone()
    }

    /// Below which name instances have their origins, if the configuration says so.
    pub fn gateway_domain(&self) -> Option<String> {
        self.lab.config.current().gateway.domain.clone()
    }

    /// Tells the time as the controllers do.
    pub fn now(&self) -> Arc<dyn Fn() -> jiff::Timestamp + Send + Sync> {
        let clock = self.lab.clock.clone();
        Arc::new(move || clock.now())
    }

    /// The links that mails carry.
    pub fn links(&self) -> &Links {
        &self.lab.links
    }
}

/// Starts everything; the tasks are the caller's to watch.
pub async fn start(start: Start, tasks: &mut Tasks) -> Result<Started, StartError> {
    let Start { client, clock, watching, driver_factory, settings, limits, metrics } = start;
    let groups = client.list_api_groups().await.map_err(StartError::Groups)?;
    let ingress = groups.groups.iter().any(|group| group.name == "networking.k8s.io");
    let installation_key =
        InstallationKey::load(&client).await.map_err(StartError::InstallationKey)?;
    let coverage_registry =
        Arc::new(coverage_store::load(&client).await.map_err(StartError::Coverage)?);

    let queue = Arc::new(Queue::new(clock.clone()));
    let caches = Arc::new(LabCaches::new(queue.clone(), ingress));
    let wake: Arc<dyn Fn(&sojourn_core::key::Key) + Send + Sync> = {
        let queue = queue.clone();
        Arc::new(move |key| queue.wake(key))
    };
    let config = Arc::new(Configuration::<LabConfig>::default());
    let (events, events_work) =
        Events::new(client.clone(), clock.clone(), metrics.events_left_out("lab"));
    tasks.spawn("events", events_work);
    let drivers = Arc::new(Drivers::default());
    drivers.set_fallback_channel(Arc::new(EventChannel {
        events: events.clone(),
        caches: caches.clone(),
    }));
    let (outbox, outbox_work) =
        Outbox::new(drivers.clone(), clock.clone(), wake.clone(), outbox::Limits::default());
    tasks.spawn("outbox", outbox_work);
    let (prober, prober_work) = Prober::new(queue.clone(), clock.clone());
    tasks.spawn("prober", prober_work);
    let (orphaned_claims, orphaned_claims_work) =
        OrphanedClaims::new(client.clone(), caches.clone(), queue.clone());
    tasks.spawn("orphans", orphaned_claims_work);

    caches.follow(&client, watching, tasks);
    let config_watcher = ConfigWatcher {
        client: client.clone(),
        clock: clock.clone(),
        config: config.clone(),
        drivers: drivers.clone(),
        factory: driver_factory.clone(),
        caches: caches.clone(),
    };
    let ConfigChanges { reconfigured, public_url } = config_watcher.start(watching, tasks).await;
    caches.until_ready().await;

    let definitions = Arc::new(Definitions::default());
    {
        let (client, definitions, caches) = (client.clone(), definitions.clone(), caches.clone());
        tasks.spawn("definition", async move {
            definitions.follow::<Instance>(client, watching, || caches.wake_all_instances()).await;
        });
    }
    let tracker = Tracker::new(config.current().activity_interval, wake);
    let links = Links::new(installation_key.links());
    let coverage_store = Arc::new(CoverageStore {
        client: client.clone(),
        clock: clock.clone(),
        config: config.clone(),
        reconfigured,
        driver_factory,
        caches: caches.clone(),
        tracker: tracker.clone(),
        coverage_registry: coverage_registry.clone(),
        pushed: settings.pushed(),
        stored_at: tokio::sync::Mutex::default(),
    });
    tasks.spawn("collector", coverage_store.clone().collect());
    tasks.spawn("coverage", coverage_store.clone().store_periodically());
    let flushing = (tracker.clone(), clock.clone());
    tasks.spawn("tracker", async move { flushing.0.run(flushing.1).await });

    let lab = Arc::new(Lab {
        client,
        clock: clock.clone(),
        since: clock.now(),
        caches,
        config,
        tracker,
        coverage_registry,
        coverage_store,
        outbox,
        prober,
        orphaned_claims,
        events,
        links,
        public_url,
        installation_key,
        drivers,
        restarts: runtime::Restarts::default(),
        definitions,
        settings,
    });
    self::metrics::register(&metrics, &lab.caches);
    let reconciles = metrics.reconciles("lab");
    tasks.spawn("lab", run(lab.clone(), queue.clone(), clock, limits, reconciles.clone()));
    Ok(Started { lab, queue, reconciles })
}
