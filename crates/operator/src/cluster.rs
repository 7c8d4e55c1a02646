//! Cluster: whole clusters that sleep and wake. Everything between the decision and the outside.
//!
//! | file | step |
//! |---|---|
//! | `snapshot` | parse |
//! | `observe`, `question`, `memory` | observe: what came of what was asked before, and what is asked now |
//! | `reconcile` | decide, and the controller as a whole |
//! | `execute` | execute |
//! | `publish`, `transition`, `metrics` | publish |
//! | `caches` | the caches, and whom a change concerns |
//! | `notice` | what contacts are told |
//! | `actuators` | who stops and starts the machines of a platform, and what they answer as `core` has it |
//! | `calls` | calls of machines, beside the controller |
//! | `lookups` | whatever else is asked of the outside, beside the controller |
//! | `orphan` | what is on record of clusters that went while nobody looked |
//! | `pod` | the actuator that is built in: a machine is a Pod |
//! | `target` | what is read of a cluster itself, and what is done in it |
//! | `written` | what came of that, and what people are told of it |
//!
//! **Nothing is waited for.** A look takes what was answered since the last one, asks for what `core::cluster::needs`
//! says, decides, and ends; an answer, what came of a call, or a change that a provider tells wakes the cluster again.

pub mod actuators;
mod caches;
pub mod calls;
mod execute;
mod family;
pub mod lookups;
mod memory;
mod metrics;
mod notice;
mod observe;
mod orphan;
pub mod pod;
mod publish;
mod question;
mod reconcile;
mod snapshot;
pub mod target;
mod transition;
mod written;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::SignedDuration;
use kube::Client;
use sojourn_api::cluster::{ClusterConfig, ClusterDeployment};
use sojourn_core::key::Key;

use self::actuators::Actuators;
use self::caches::ClusterCaches;
use self::calls::{CallLimits, Calls};
use self::family::Family;
use self::lookups::{LookupLimits, Lookups};
use self::metrics::ClusterMetrics;
use self::notice::ClusterChannels;
use self::pod::{PodActuator, RecordSeal};
use self::reconcile::Clusters;
pub(crate) use self::snapshot::platform_of;
use self::target::Targets;
use crate::clock::Clock;
use crate::configuration::Configuration;
use crate::driver::{ConfigWatcher, DriverConfig, DriverFactory, DriverOptions, Drivers};
use crate::event::Events;
use crate::family::{ServedFamily, Setup, StartError, WebService};
use crate::frame::status::Definitions;
use crate::frame::{Limits, Queue, Tasks, WatchSettings, run};
use crate::installation_key::InstallationKey;
use crate::metrics::{Metrics, Reconciles};
use crate::outbox::{self, Outbox};

pub(crate) const NAME: &str = "cluster";

/// Whoever asks bounds every part of a question; this one ends what forgot to.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// What somebody else's program or API said, for a condition: short, and without what changes a terminal.
const MAX_WORDS: usize = 500;

/// The family as it is registered.
#[derive(Debug)]
pub struct ClusterFamily;

impl crate::family::Family for ClusterFamily {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serve<'a>(
        &'a self,
        client: Client,
        setup: &'a Setup,
        _: &'a mut Tasks,
    ) -> BoxFuture<'a, Result<Arc<dyn ServedFamily>, StartError>> {
        async move {
            let key = InstallationKey::load(&client).await.map_err(StartError::InstallationKey)?;
            let seal = RecordSeal::new(&key.records());
            let served: Arc<dyn ServedFamily> =
                Arc::new(ServedClusters { setup: setup.clone(), seal });
            Ok(served)
        }
        .boxed()
    }
}

/// Nothing of the family is served beside admission: nobody visits a cluster through us.
#[derive(Debug)]
struct ServedClusters {
    setup: Setup,
    seal: RecordSeal,
}

impl ServedFamily for ServedClusters {
    fn lead<'a>(
        &'a self,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Result<(), StartError>> {
        async move {
            let Setup { clock, watching, limits, metrics, driver_factory, actuators, web, .. } =
                self.setup.clone();
            let seal = self.seal.clone();
            let start_with = Start {
                client,
                clock,
                watching,
                limits,
                metrics,
                driver_factory,
                actuators,
                seal,
                web,
            };
            drop(start(start_with, tasks).await);
            Ok(())
        }
        .boxed()
    }
}

/// What the family is started with.
#[derive(Clone)]
pub struct Start {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub watching: WatchSettings,
    pub limits: Limits,
    pub metrics: Metrics,
    pub driver_factory: Arc<dyn DriverFactory>,
    /// Who stops and starts machines, beside `pod`, which is always there.
    pub actuators: Actuators,
    /// Seals what Pods are made again from.
    pub seal: RecordSeal,
    pub web: WebService,
}

impl std::fmt::Debug for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start").field("actuators", &self.actuators).finish_non_exhaustive()
    }
}

/// The family, running.
#[derive(Debug, Clone)]
pub struct Started {
    family: Arc<Family>,
    pub clusters: Arc<Queue>,
    pub reconciles: Reconciles,
}

impl Started {
    /// Whether nobody waits to be looked at, nobody is, and nothing is asked or called.
    pub fn is_idle(&self) -> bool {
        let Family { calls, provider_lookups, target_lookups, .. } = &*self.family;
        let Family { removals, approvals, replacements, .. } = &*self.family;
        let asked = [approvals, replacements].into_iter().any(Lookups::is_asking);
        let asked = asked || removals.is_asking();
        let asked = asked || provider_lookups.is_asking() || target_lookups.is_asking();
        self.clusters.is_idle() && calls.is_idle() && !asked
    }

    /// Looks so far.
    pub fn looks(&self) -> u64 {
        self.reconciles.total()
    }
}

/// Starts everything; the tasks are the caller's to watch.
pub async fn start(start: Start, tasks: &mut Tasks) -> Started {
    let Start { client, clock, watching, limits, metrics, driver_factory, actuators, seal, web } =
        start;
    let queue = Arc::new(Queue::new(clock.clone()));
    let caches = Arc::new(ClusterCaches::new(queue.clone()));
    let (events, events_work) =
        Events::new(client.clone(), clock.clone(), metrics.events_left_out(NAME));
    tasks.spawn("events of clusters", events_work);
    let pods = PodActuator::new(client.clone(), seal);
    pods.follow(watching, tasks);
    let actuators = actuators.with(Arc::new(pods.clone()));
    {
        let (actuators, caches) = (actuators.clone(), caches.clone());
        tasks.spawn("changes of machines", async move {
            let heard = |platform, change: &_| caches.machines_changed(platform, change);
            actuators.follow(heard).await;
        });
    }
    let config = Arc::new(Configuration::<ClusterConfig>::default());
    let drivers = Arc::new(Drivers::default());
    let fallback = notice::event_channel(events.clone(), caches.clone());
    drivers.set_fallback_channel(Arc::new(fallback));
    let config_watcher = ConfigWatcher {
        client: client.clone(),
        clock: clock.clone(),
        config: config.clone(),
        drivers: drivers.clone(),
        factory: driver_factory.clone(),
        wake_all: {
            let caches = caches.clone();
            Arc::new(move || caches.wake_all())
        },
    };
    caches.follow(&client, watching, tasks);
    config_watcher.start(watching, tasks).await;
    caches.until_ready().await;
    let orphans = orphan::tell(pods, caches.clone(), events.clone());
    tasks.spawn("records without a cluster", orphans);

    let definitions = Arc::new(Definitions::default());
    follow_definition(&definitions, &client, watching, &caches, tasks);
    metrics::register(&metrics, &caches);
    let wake = |caches: &Arc<ClusterCaches>| {
        let queue = caches.queue.clone();
        move |key: &Key| queue.wake(key)
    };
    let (calls, calls_work) =
        Calls::new(actuators.clone(), clock.clone(), CallLimits::default(), wake(&caches));
    tasks.spawn("calls of machines", calls_work);
    let (outbox, outbox_work) = Outbox::new(
        Arc::new(ClusterChannels::new(drivers.clone())),
        clock.clone(),
        Arc::new(wake(&caches)),
        outbox::Limits::default(),
    );
    tasks.spawn("outbox of clusters", outbox_work);
    let family = Arc::new(Family {
        since: clock.now(),
        targets: Targets::new(client.clone(), driver_factory),
        provider_lookups: lookups("questions to providers of clusters", &caches, tasks),
        target_lookups: lookups("questions to clusters", &caches, tasks),
        removals: lookups("records of clusters that go", &caches, tasks),
        approvals: lookups("CSRs of clusters", &caches, tasks),
        replacements: lookups("spot machines of clusters", &caches, tasks),
        metrics: ClusterMetrics::new(&metrics),
        client,
        clock: clock.clone(),
        caches,
        config,
        drivers,
        web,
        actuators,
        calls,
        outbox,
        events,
        definitions,
    });
    let reconciles = metrics.reconciles("clusterdeployment");
    let controller = Arc::new(Clusters(family.clone()));
    let work = run(controller, queue.clone(), clock, limits, reconciles.clone());
    tasks.spawn("clusters' controller", work);
    Started { family, clusters: queue, reconciles }
}

/// Lookups that wake whom there is an answer for.
fn lookups<T: Send + 'static>(
    name: &'static str,
    caches: &Arc<ClusterCaches>,
    tasks: &mut Tasks,
) -> Lookups<T> {
    let limits = LookupLimits { timeout: LOOKUP_TIMEOUT, ..LookupLimits::default() };
    let queue = caches.queue.clone();
    let (lookups, work) = Lookups::new(limits, move |key: &Key| queue.wake(key));
    tasks.spawn(name, work);
    lookups
}

/// Wakes everything when a definition that somebody waits for has changed.
fn follow_definition(
    definitions: &Arc<Definitions>,
    client: &Client,
    watching: WatchSettings,
    caches: &Arc<ClusterCaches>,
    tasks: &mut Tasks,
) {
    let (definitions, client, caches) = (definitions.clone(), client.clone(), caches.clone());
    tasks.spawn("definition of clusters", async move {
        definitions.follow::<ClusterDeployment>(client, watching, || caches.wake_all()).await;
    });
}

impl DriverOptions for ClusterConfig {
    fn driver_config(&self) -> DriverConfig {
        let path = |text: &Option<String>| text.as_ref().map(PathBuf::from);
        DriverConfig {
            templates: &notice::TEMPLATES,
            sends_notices: true,
            mail_template_dir: path(&self.mail_template_dir),
            mail_config_dir: path(&self.mail_config_dir),
            webhook_url: self.webhook_url.clone(),
            slack_url: self.slack_url.clone(),
            prometheus_url: None,
            allowed_addresses: self.allowed_addresses.clone(),
            trusted_ca_file: path(&self.trusted_ca_file),
        }
    }

    fn public_url(&self) -> Option<&String> {
        self.public_url.as_ref()
    }
}

impl Family {
    /// Has calls and lists made as the configuration says now. What is called shows within `callVisibility`, so nobody is
    /// waited for longer than that.
    fn apply_limits(&self, config: &ClusterConfig) {
        let timeout = config.call_timeout.min(config.call_visibility);
        let timeout = Duration::try_from(timeout.max(SignedDuration::from_secs(1)));
        self.actuators.wait_for(timeout.unwrap_or(actuators::ANSWER_TIMEOUT));
        let per_account = usize::try_from(config.parallel_calls).unwrap_or(usize::MAX);
        self.calls.limit_accounts(per_account);
        self.provider_lookups.limit_accounts(per_account);
    }
}

/// Another's words, as people are shown them.
fn words(text: &str) -> String {
    let printable = |char: char| if char.is_control() { ' ' } else { char };
    text.chars().take(MAX_WORDS).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_others_are_short_and_printable() {
        assert_eq!(words("no\nroute\x1b[31m"), "no route [31m");
        assert_eq!(words(&"é".repeat(10_000)).chars().count(), MAX_WORDS);
    }
}
