//! Lab: the controller of Instances, and what it needs around it.
//!
//! | file | step |
//! |---|---|
//! | `snapshot` | parse: an Instance with all that says something about it |
//! | `observe`, `attempt` | observe |
//! | `reconcile` | decide, and the controller as a whole |
//! | `execute`, `runtime`, `object`, `notice` | execute |
//! | `publish`, `condition`, `transition`, `metrics` | publish |
//! | `caches`, `view` | the caches, and whom a change concerns |
//! | `activity` | where use is seen |
//! | `prober`, `orphaned_claim` | work beside the reconciler: status checks, claims whose Instance is gone |
//! | `web`, `link_action` | what the gateway, reports and links in mails need |

mod activity;
mod attempt;
mod caches;
mod condition;
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
mod reported;
mod runtime;
#[cfg(test)]
mod sample;
mod snapshot;
mod transition;
mod view;
pub(crate) mod wake;
mod web;

use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use sojourn_api::lab::{Instance, LabConfig};
use sojourn_core::key::Key;
use tokio::sync::{Notify, watch};

#[cfg(test)]
pub(crate) use self::activity::polled;
use self::caches::LabCaches;
use self::orphaned_claim::OrphanedClaims;
use self::prober::Prober;
use self::reconcile::Lab;
use self::reported::InstanceReports;
use crate::collector::{CoverageStore, coverage_store};
use crate::configuration::Configuration;
use crate::driver::{ConfigChanges, ConfigWatcher, DriverConfig, DriverOptions, Drivers};
use crate::event::Events;
use crate::family::{Family, FamilyWeb, ServedFamily, Setup, StartError};
use crate::frame::status::Definitions;
use crate::frame::{Queue, Tasks, run};
use crate::installation_key::InstallationKey;
use crate::link::Links;
use crate::metrics::Reconciles;
use crate::outbox::{self, Outbox};
use crate::replica::{Joining, Membership};
use crate::tracker::Tracker;

/// The family as it is registered.
#[derive(Debug)]
pub struct LabFamily;

impl Family for LabFamily {
    fn name(&self) -> &'static str {
        "lab"
    }

    fn serve<'a>(
        &'a self,
        client: Client,
        setup: &'a Setup,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Result<Arc<dyn ServedFamily>, StartError>> {
        async move {
            let served = ServedLab::start(client, setup.clone(), tasks).await?;
            Ok(Arc::new(served) as Arc<dyn ServedFamily>)
        }
        .boxed()
    }
}

/// What every replica has of the family. Clones share everything.
#[derive(Debug, Clone)]
pub struct ServedLab(pub(crate) Arc<LabReplica>);

/// What is the same for every Instance of this process, and what is known of them.
pub(crate) struct LabReplica {
    /// Not fenced.
    pub(crate) client: Client,
    pub(crate) setup: Setup,
    pub(crate) queue: Arc<Queue>,
    pub(crate) caches: Arc<LabCaches>,
    pub(crate) config: Arc<Configuration<LabConfig>>,
    pub(crate) drivers: Arc<Drivers>,
    pub(crate) tracker: Tracker,
    /// What this replica is among others, if there can be any.
    membership: Option<Membership>,
    pub(crate) links: Links,
    pub(crate) installation_key: InstallationKey,
    /// Where people reach us, as the configuration says it.
    pub(crate) public_url: watch::Receiver<Option<String>>,
    /// Told when the configuration changed.
    reconfigured: Arc<Notify>,
}

impl std::fmt::Debug for LabReplica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LabReplica").finish_non_exhaustive()
    }
}

/// The controllers, running.
#[derive(Debug, Clone)]
pub struct LeadingLab {
    pub queue: Arc<Queue>,
    pub reconciles: Reconciles,
}

impl LeadingLab {
    /// Whether no Instance is queued or being reconciled.
    pub fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }
}

impl ServedLab {
    /// Starts what every replica serves; the tasks are the caller's to watch.
    pub async fn start(
        client: Client,
        setup: Setup,
        tasks: &mut Tasks,
    ) -> Result<Self, StartError> {
        let groups = client.list_api_groups().await.map_err(StartError::Groups)?;
        let ingress = groups.groups.iter().any(|group| group.name == "networking.k8s.io");
        let installation_key =
            InstallationKey::load(&client).await.map_err(StartError::InstallationKey)?;
        let (clock, watching) = (setup.clock.clone(), setup.watching);
        let queue = Arc::new(Queue::new(clock.clone()));
        let caches = Arc::new(LabCaches::new(queue.clone(), ingress));
        let config = Arc::new(Configuration::<LabConfig>::default());
        let drivers = Arc::new(Drivers::default());
        caches.follow(&client, watching, tasks);
        let config_watcher = ConfigWatcher {
            client: client.clone(),
            clock: clock.clone(),
            config: config.clone(),
            drivers: drivers.clone(),
            factory: setup.driver_factory.clone(),
            wake_all: {
                let caches = caches.clone();
                Arc::new(move || caches.wake_all_instances())
            },
        };
        let ConfigChanges { reconfigured, public_url } =
            config_watcher.start(watching, tasks).await;
        caches.until_ready().await;
        let interval = config.current().activity_interval;
        let (tracker, membership) = match setup.replica.clone() {
            None => {
                let queue = queue.clone();
                (Tracker::new(interval, Arc::new(move |key| queue.wake(key))), None)
            }
            Some(replica) => {
                let objects = InstanceReports { client: client.clone(), caches: caches.clone() };
                let joining = Joining {
                    family: "lab",
                    client: &client,
                    setup: &setup,
                    queue: &queue,
                    interval,
                };
                let (tracker, membership) = Membership::join(joining, replica, objects, tasks)
                    .await
                    .map_err(StartError::Replica)?;
                (tracker, Some(membership))
            }
        };
        let flushing = (tracker.clone(), clock);
        tasks.spawn("tracker", async move { flushing.0.run(flushing.1).await });
        let links = Links::new(installation_key.links());
        Ok(Self(Arc::new(LabReplica {
            client,
            setup,
            queue,
            caches,
            config,
            drivers,
            tracker,
            membership,
            links,
            installation_key,
            public_url,
            reconfigured,
        })))
    }

    /// Starts the controllers, which write with this client.
    pub async fn lead(&self, client: Client, tasks: &mut Tasks) -> Result<LeadingLab, StartError> {
        let replica = &self.0;
        let Setup { clock, watching, limits, metrics, driver_factory, web, own_program, .. } =
            replica.setup.clone();
        let (queue, caches) = (replica.queue.clone(), replica.caches.clone());
        let coverage_registry = Arc::new(
            coverage_store::load(&client, activity::SOURCES).await.map_err(StartError::Coverage)?,
        );
        let (events, events_work) =
            Events::new(client.clone(), clock.clone(), metrics.events_left_out("lab"));
        tasks.spawn("events", events_work);
        let event_channel = notice::event_channel(events.clone(), caches.clone());
        replica.drivers.set_fallback_channel(Arc::new(event_channel));
        let wake = {
            let queue = queue.clone();
            Arc::new(move |key: &Key| queue.wake(key))
        };
        let (outbox, outbox_work) =
            Outbox::new(replica.drivers.clone(), clock.clone(), wake, outbox::Limits::default());
        tasks.spawn("outbox", outbox_work);
        let (prober, prober_work) = Prober::new(queue.clone(), clock.clone());
        tasks.spawn("prober", prober_work);
        let (orphaned_claims, orphaned_claims_work) =
            OrphanedClaims::new(client.clone(), caches.clone(), queue.clone());
        tasks.spawn("orphans", orphaned_claims_work);
        let definitions = Arc::new(Definitions::default());
        {
            let (client, definitions, caches) =
                (client.clone(), definitions.clone(), caches.clone());
            tasks.spawn("definition", async move {
                definitions
                    .follow::<Instance>(client, watching, || caches.wake_all_instances())
                    .await;
            });
        }
        let replicas =
            replica.membership.as_ref().map(|membership| membership.lead(&client, tasks));
        let coverage_store = Arc::new(CoverageStore {
            client: client.clone(),
            clock: clock.clone(),
            family: activity::SOURCES,
            configured: {
                let (config, pushed) = (replica.config.clone(), activity::pushed_sources(&web));
                Box::new(move || activity::collector_config(&config.current(), pushed.clone()))
            },
            reconfigured: replica.reconfigured.clone(),
            driver_factory,
            directory: caches.clone(),
            changed: {
                let caches = caches.clone();
                Arc::new(move |_source| caches.wake_all_instances())
            },
            tracker: replica.tracker.clone(),
            coverage_registry: coverage_registry.clone(),
            replicas: replicas.clone(),
            stored_at: tokio::sync::Mutex::default(),
        });
        tasks.spawn("collector", coverage_store.clone().collect());
        tasks.spawn("coverage", coverage_store.clone().store_periodically());

        let lab = Arc::new(Lab {
            client,
            clock: clock.clone(),
            since: clock.now(),
            caches,
            config: replica.config.clone(),
            tracker: replica.tracker.clone(),
            own_name: replica.membership.as_ref().map(|membership| membership.replica().clone()),
            replicas,
            coverage_registry,
            coverage_store,
            outbox,
            prober,
            orphaned_claims,
            events,
            links: replica.links.clone(),
            installation_key: replica.installation_key.clone(),
            drivers: replica.drivers.clone(),
            restarts: runtime::Restarts::default(),
            definitions,
            web,
            own_program,
        });
        self::metrics::register(&metrics, &lab.caches);
        let listed = lab.caches.catch_up(&lab.client).await;
        listed.map_err(|source| StartError::Objects { kind: "Instance", source })?;
        // Whoever led before may have been ended in the middle of a look.
        queue.restart();
        lab.caches.wake_all_instances();
        let reconciles = metrics.reconciles("lab");
        tasks.spawn("lab", run(lab, queue.clone(), clock, limits, reconciles.clone()));
        Ok(LeadingLab { queue, reconciles })
    }
}

impl DriverOptions for LabConfig {
    fn driver_config(&self) -> DriverConfig {
        let path = |text: &Option<String>| text.as_ref().map(PathBuf::from);
        DriverConfig {
            templates: &notice::TEMPLATES,
            sends_notices: self.enable_inactivity_notifications
                || self.enable_expiration_notifications,
            mail_template_dir: path(&self.mail_template_dir),
            mail_config_dir: path(&self.mail_config_dir),
            webhook_url: self.webhook_url.clone(),
            slack_url: self.slack_url.clone(),
            prometheus_url: self.prometheus_url.clone(),
            allowed_addresses: self.allowed_addresses.clone(),
            trusted_ca_file: path(&self.trusted_ca_file),
        }
    }

    fn public_url(&self) -> Option<&String> {
        self.public_url.as_ref()
    }
}

impl ServedFamily for ServedLab {
    fn lead<'a>(
        &'a self,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Result<(), StartError>> {
        async move { Self::lead(self, client, tasks).await.map(drop) }.boxed()
    }

    fn finish(&self) -> BoxFuture<'_, ()> {
        async move {
            if let Some(membership) = &self.0.membership {
                membership.leave().await;
            }
        }
        .boxed()
    }

    fn web(&self) -> Option<FamilyWeb> {
        Some(Self::web(self))
    }
}
