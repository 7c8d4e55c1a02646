//! Group: the controllers of InstanceGroups and of Machines, and what they need around them.
//!
//! | file | step |
//! |---|---|
//! | `subject` | parse: a group with its machines, or a machine that stands for itself |
//! | `observe` | observe |
//! | `reconcile`, `guest` | decide, and the two controllers as a whole |
//! | `execute` | execute |
//! | `publish`, `standing`, `condition`, `transition`, `count` | publish |
//! | `world`, `view`, `members`, `pool` | the caches, and whom a change concerns |
//! | `hands`, `health`, `refusal`, `fleet` | what goes on beside the controllers |
//! | `provider`, `pod` | who makes machines |
//!
//! A group and the machines that it owns are decided about together, by one controller. A machine on
//! demand, or one whose group is gone, stands for itself.

mod condition;
mod count;
mod execute;
mod family;
mod fleet;
mod guest;
mod hands;
mod health;
mod members;
mod observe;
mod pod;
mod pool;
mod provider;
mod publish;
mod reconcile;
mod refusal;
mod standing;
mod subject;
mod transition;
mod view;
mod world;

use std::sync::Arc;

use kube::Client;
use sojourn_api::group::{GroupConfig, InstanceGroup, Machine};
use sojourn_drivers::machine::{Change, Provider};

use self::count::Counts;
use self::family::Family;
use self::fleet::Rotations;
use self::guest::Guests;
use self::hands::Hands;
use self::health::Infirmary;
pub use self::pod::Pods;
pub use self::provider::Providers;
use self::reconcile::Groups;
use self::refusal::Refusals;
use self::world::World;
use crate::clock::Clock;
use crate::configuration::Configuration;
use crate::event::Events;
use crate::frame::status::Definitions;
use crate::frame::{Limits, Queue, Tasks, Watching, run};
use crate::metrics::{Metrics, Reconciles};

/// What the family is started with.
#[derive(Clone)]
pub struct Start {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    pub watching: Watching,
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
    /// Whether nobody waits to be looked at, nobody is, and no order is under way.
    pub fn is_idle(&self) -> bool {
        self.groups.is_idle() && self.machines.is_idle() && self.family.hands.is_idle()
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
    let infirmary = Arc::new(Infirmary::new(clock.clone()));
    let world = Arc::new(World::new(groups.clone(), machines.clone(), infirmary.clone()));
    let (events, events_work) =
        Events::new(client.clone(), clock.clone(), metrics.events_left_out("group"));
    tasks.spawn("events of groups", events_work);
    let (hands, hands_work) = {
        let world = world.clone();
        Hands::new(execute::blueprints(client.clone()), move |owner| world.wake(owner))
    };
    tasks.spawn("hands", hands_work);

    world.follow(&client, watching, tasks);
    let pods = Pods::new(client.clone());
    follow_pods(&pods, watching, &world, tasks);
    let providers = providers.with(Arc::new(pods.clone()));
    for provider in providers.all() {
        tasks.spawn("changes at a provider", listen(provider.clone(), world.clone()));
    }
    let config = Arc::new(Configuration::<GroupConfig>::default());
    {
        let (client, config, world) = (client.clone(), config.clone(), world.clone());
        tasks.spawn("configuration of groups", async move {
            config.follow(&client, watching, || world.wake_everybody()).await;
        });
    }
    config.until_ready().await;
    world.until_ready().await;
    pods.until_ready().await;

    let definitions = Arc::new(Definitions::default());
    follow_definition::<InstanceGroup>(&definitions, &client, watching, &world, tasks);
    follow_definition::<Machine>(&definitions, &client, watching, &world, tasks);
    count::register(&metrics, &world);
    let rotations = Rotations::default();
    rotations.begin(world.remembered());
    let counts = Counts::new(&metrics, clock.clone());
    let family = Arc::new(Family {
        client,
        world,
        config,
        providers,
        hands,
        refusals: Refusals::default(),
        rotations,
        events,
        counts,
        definitions,
    });
    let reconciles = [metrics.reconciles("group"), metrics.reconciles("machine")];
    let [of_groups, of_machines] = reconciles.clone();
    let controller = Arc::new(Groups(family.clone()));
    tasks.spawn("group", run(controller, groups.clone(), clock.clone(), limits, of_groups));
    let controller = Arc::new(Guests(family.clone()));
    tasks.spawn("machine", run(controller, machines.clone(), clock, limits, of_machines));
    Started { family, groups, machines, reconciles }
}

/// Looks at everybody again when a definition that somebody waits for is another.
fn follow_definition<K: kube::Resource<DynamicType = ()>>(
    definitions: &Arc<Definitions>,
    client: &Client,
    watching: Watching,
    world: &Arc<World>,
    tasks: &mut Tasks,
) {
    let (definitions, client, world) = (definitions.clone(), client.clone(), world.clone());
    tasks.spawn("definition of groups", async move {
        definitions.follow::<K>(client, watching, || world.wake_everybody()).await;
    });
}

/// Follows the Pods of machines. How long one was ill is noted at every change, and begins anew
/// whenever nobody watched.
fn follow_pods(pods: &Pods, watching: Watching, world: &Arc<World>, tasks: &mut Tasks) {
    let (looked_at, examiner) = (pods.clone(), world.clone());
    let infirmary = world.infirmary.clone();
    pods.follow(
        watching,
        tasks,
        move |key| examiner.examine(key, &looked_at),
        move || infirmary.begin_anew(),
    );
}

/// Wakes whomever a change at a provider concerns.
async fn listen(provider: Arc<dyn Provider>, world: Arc<World>) {
    let mut changes = provider.changes();
    while let Some(change) = changes.next().await {
        match change {
            Change::Machine(key) => {
                world.examine(&key, provider.as_ref());
                world.machine_moved(&key);
            }
            Change::Anybody => world.wake_everybody(),
        }
    }
    // A provider that is gone changes nothing any more.
    std::future::pending::<()>().await;
}
