//! Group: the controllers of InstanceGroups and of Machines, and what they need around them.
//!
//! | file | step |
//! |---|---|
//! | `snapshot` | parse: a group with its machines, or a machine that of its own |
//! | `observe` | observe |
//! | `reconcile`, `on_demand_machine` | decide, and the two controllers as a whole |
//! | `execute` | execute |
//! | `publish`, `status_fields`, `condition`, `transition`, `metrics` | publish |
//! | `caches`, `view`, `members`, `interner` | the caches, and whom a change concerns |
//! | `provider_queue`, `health`, `failed_creation`, `fleet` | what goes on beside the controllers |
//! | `provider`, `pod` | who makes machines |
//!
//! A group and the machines that it owns are decided about together, by one controller. A machine on
//! demand, or one whose group is gone, is decided about by itself, by the other controller.

mod caches;
mod condition;
mod execute;
mod failed_creation;
mod family;
mod fleet;
mod health;
mod interner;
mod members;
mod metrics;
mod observe;
mod on_demand_machine;
mod pod;
mod provider;
mod provider_queue;
mod publish;
mod reconcile;
mod snapshot;
mod status_fields;
mod transition;
mod view;

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use sojourn_api::group::{GroupConfig, InstanceGroup, Machine};
use sojourn_drivers::machine::{Provider, ProviderChange};

use self::caches::GroupCaches;
use self::failed_creation::FailedCreations;
use self::family::Family;
use self::fleet::OpenRotations;
use self::health::HealthTracker;
use self::metrics::GroupMetrics;
use self::on_demand_machine::OnDemandMachines;
pub use self::pod::PodProvider;
pub use self::provider::Providers;
use self::provider_queue::ProviderQueue;
use self::reconcile::Groups;
use crate::clock::Clock;
use crate::configuration::Configuration;
use crate::event::Events;
use crate::family::{ServedFamily, Setup, StartError};
use crate::frame::status::Definitions;
use crate::frame::{Limits, Queue, Tasks, WatchSettings, run};
use crate::metrics::{Metrics, Reconciles};

/// The family as it is registered.
#[derive(Debug)]
pub struct GroupFamily;

impl crate::family::Family for GroupFamily {
    fn name(&self) -> &'static str {
        "group"
    }

    fn serve<'a>(
        &'a self,
        _: Client,
        setup: &'a Setup,
        _: &'a mut Tasks,
    ) -> BoxFuture<'a, Result<Arc<dyn ServedFamily>, StartError>> {
        let served: Arc<dyn ServedFamily> = Arc::new(ServedGroups(setup.clone()));
        std::future::ready(Ok(served)).boxed()
    }
}

/// Nothing of the family is served beside admission: nobody visits a machine through us.
#[derive(Debug)]
struct ServedGroups(Setup);

impl ServedFamily for ServedGroups {
    fn lead<'a>(
        &'a self,
        client: Client,
        tasks: &'a mut Tasks,
    ) -> BoxFuture<'a, Result<(), StartError>> {
        async move {
            let Setup { clock, watching, limits, metrics, providers, .. } = self.0.clone();
            let start_with = Start { client, clock, watching, providers, limits, metrics };
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
    /// Who makes machines, beside `pod`, which is always there.
    pub providers: Providers,
    pub limits: Limits,
    pub metrics: Metrics,
}

impl std::fmt::Debug for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start").field("providers", &self.providers).finish_non_exhaustive()
    }
}

/// The family, running.
#[derive(Debug, Clone)]
pub struct Started {
    family: Arc<Family>,
    pub groups: Arc<Queue>,
    pub machines: Arc<Queue>,
    pub reconciles: [Reconciles; 2],
}

impl Started {
    /// Whether nobody waits to be looked at, nobody is, and no operation is in flight.
    pub fn is_idle(&self) -> bool {
        self.groups.is_idle() && self.machines.is_idle() && self.family.provider_queue.is_idle()
    }

    /// Looks at groups and machines so far.
    pub fn looks(&self) -> u64 {
        self.reconciles.iter().map(Reconciles::total).sum()
    }
}

/// Starts everything; the tasks are the caller's to watch.
pub async fn start(start: Start, tasks: &mut Tasks) -> Started {
    let Start { client, clock, watching, providers, limits, metrics } = start;
    let groups = Arc::new(Queue::new(clock.clone()));
    let machines = Arc::new(Queue::new(clock.clone()));
    let health_tracker = Arc::new(HealthTracker::new(clock.clone()));
    let caches =
        Arc::new(GroupCaches::new(groups.clone(), machines.clone(), health_tracker.clone()));
    let (events, events_work) =
        Events::new(client.clone(), clock.clone(), metrics.events_left_out("group"));
    tasks.spawn("events of groups", events_work);
    let (provider_queue, operations) = {
        let caches = caches.clone();
        ProviderQueue::new(move |owner| caches.wake(owner))
    };
    tasks.spawn("provider operations", operations);

    caches.follow(&client, watching, tasks);
    let pods = PodProvider::new(client.clone());
    follow_pods(&pods, watching, &caches, tasks);
    let providers = providers.with(Arc::new(pods.clone()));
    for provider in providers.all() {
        tasks.spawn("changes at a provider", follow_provider(provider.clone(), caches.clone()));
    }
    let config = Arc::new(Configuration::<GroupConfig>::default());
    {
        let (client, config, caches) = (client.clone(), config.clone(), caches.clone());
        tasks.spawn("configuration of groups", async move {
            config.follow(&client, watching, || caches.wake_all()).await;
        });
    }
    config.until_ready().await;
    caches.until_ready().await;
    pods.until_ready().await;

    let definitions = Arc::new(Definitions::default());
    follow_definition::<InstanceGroup>(&definitions, &client, watching, &caches, tasks);
    follow_definition::<Machine>(&definitions, &client, watching, &caches, tasks);
    metrics::register(&metrics, &caches);
    let rotations = OpenRotations::default();
    rotations.load(caches.remembered());
    let group_metrics = GroupMetrics::new(&metrics, clock.clone());
    let family = Arc::new(Family {
        templates: execute::templates(client.clone()),
        client,
        caches,
        config,
        providers,
        provider_queue,
        failed_creations: FailedCreations::default(),
        rotations,
        events,
        metrics: group_metrics,
        definitions,
    });
    let reconciles = [metrics.reconciles("group"), metrics.reconciles("machine")];
    let [of_groups, of_machines] = reconciles.clone();
    let controller = Arc::new(Groups(family.clone()));
    tasks.spawn("group", run(controller, groups.clone(), clock.clone(), limits, of_groups));
    let controller = Arc::new(OnDemandMachines(family.clone()));
    tasks.spawn("machine", run(controller, machines.clone(), clock, limits, of_machines));
    Started { family, groups, machines, reconciles }
}

/// Wakes every group and machine when a definition that one of them waits for has changed.
fn follow_definition<K: kube::Resource<DynamicType = ()>>(
    definitions: &Arc<Definitions>,
    client: &Client,
    watching: WatchSettings,
    caches: &Arc<GroupCaches>,
    tasks: &mut Tasks,
) {
    let (definitions, client, caches) = (definitions.clone(), client.clone(), caches.clone());
    tasks.spawn("definition of groups", async move {
        definitions.follow::<K>(client, watching, || caches.wake_all()).await;
    });
}

/// Follows the Pods of machines. The health of a machine is recorded at every change; how long it
/// has been unhealthy counts anew after every gap in the watch.
fn follow_pods(
    pods: &PodProvider,
    watching: WatchSettings,
    caches: &Arc<GroupCaches>,
    tasks: &mut Tasks,
) {
    let (provider, caches_of_pods) = (pods.clone(), caches.clone());
    let health_tracker = caches.health_tracker.clone();
    pods.follow(
        watching,
        tasks,
        move |key| caches_of_pods.record_health(key, &provider),
        move || health_tracker.restart_timers(),
    );
}

/// Wakes whomever a change at a provider concerns.
async fn follow_provider(provider: Arc<dyn Provider>, caches: Arc<GroupCaches>) {
    let mut changes = provider.changes();
    while let Some(change) = changes.next().await {
        match change {
            ProviderChange::Machine(key) => {
                caches.record_health(&key, provider.as_ref());
                caches.provider_changed(&key);
            }
            ProviderChange::All => caches.wake_all(),
        }
    }
    // A provider that is gone changes nothing any more.
    std::future::pending::<()>().await;
}
