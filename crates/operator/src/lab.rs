//! Lab: the controller of Instances, and what it needs around it.
//!
//! | file | step |
//! |---|---|
//! | `subject` | parse: an Instance with all that says something about it |
//! | `observe` | observe |
//! | `reconcile` | decide, and the controller as a whole |
//! | `execute`, `arrange`, `object`, `notice` | execute |
//! | `publish`, `condition`, `transition`, `count` | publish |
//! | `world`, `view` | the caches, and whom a change concerns |
//! | `activity`, `prober`, `orphan`, `parts`, `reconfiguring`, `outside`, `master`, `front`, `wish` | what goes on beside the controller |

mod activity;
mod arrange;
mod condition;
mod count;
mod execute;
mod front;
mod master;
mod notice;
mod object;
mod observe;
mod orphan;
pub mod outside;
mod parts;
mod prober;
mod publish;
mod reconcile;
mod reconfiguring;
#[cfg(test)]
mod sample;
mod subject;
mod transition;
mod view;
mod wish;
mod world;

use std::sync::Arc;

use kube::Client;
use sojourn_api::lab::{Instance, LabConfig};
use tokio::sync::watch;

use self::activity::Keeper;
#[cfg(test)]
pub(crate) use self::activity::polled;
use self::master::Master;
pub use self::master::{MasterError, UnusableKey};
use self::notice::EventChannel;
use self::orphan::Orphans;
use self::outside::Outside;
use self::parts::Parts;
use self::prober::Prober;
use self::reconcile::Lab;
pub use self::reconcile::Settings;
use self::reconfiguring::{Reconfigured, Reconfiguring};
use self::world::World;
use crate::clock::Clock;
use crate::configuration::Configuration;
use crate::event::Events;
use crate::frame::status::Definitions;
use crate::frame::{Limits, Queue, Tasks, Watching, run};
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
    pub outside: Arc<dyn Outside>,
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
    Master(MasterError),
    #[error("cannot read what was observed before")]
    Memory(#[source] kube::Error),
}

impl Started {
    /// Whether nobody waits to be looked at, and nobody is.
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
    let Start { client, clock, watching, outside, settings, limits, metrics } = start;
    let groups = client.list_api_groups().await.map_err(StartError::Groups)?;
    let ingress = groups.groups.iter().any(|group| group.name == "networking.k8s.io");
    let master = Master::load(&client).await.map_err(StartError::Master)?;
    let ledger = Arc::new(activity::recall(&client).await.map_err(StartError::Memory)?);

    let queue = Arc::new(Queue::new(clock.clone()));
    let world = Arc::new(World::new(queue.clone(), ingress));
    let wake: Arc<dyn Fn(&sojourn_core::key::Key) + Send + Sync> = {
        let queue = queue.clone();
        Arc::new(move |key| queue.wake(key))
    };
    let config = Arc::new(Configuration::<LabConfig>::default());
    let (events, events_work) =
        Events::new(client.clone(), clock.clone(), metrics.events_left_out("lab"));
    tasks.spawn("events", events_work);
    let parts = Arc::new(Parts::default());
    parts.fall_back_to(Arc::new(EventChannel { events: events.clone(), world: world.clone() }));
    let (outbox, outbox_work) =
        Outbox::new(parts.clone(), clock.clone(), wake.clone(), outbox::Limits::default());
    tasks.spawn("outbox", outbox_work);
    let (prober, prober_work) = Prober::new(queue.clone(), clock.clone());
    tasks.spawn("prober", prober_work);
    let (orphans, orphans_work) = Orphans::new(client.clone(), world.clone(), queue.clone());
    tasks.spawn("orphans", orphans_work);

    world.follow(&client, watching, tasks);
    let reconfiguring = Reconfiguring {
        client: client.clone(),
        clock: clock.clone(),
        config: config.clone(),
        parts: parts.clone(),
        outside: outside.clone(),
        world: world.clone(),
    };
    let Reconfigured { reconfigured, public_url } = reconfiguring.start(watching, tasks).await;
    world.until_ready().await;

    let definitions = Arc::new(Definitions::default());
    {
        let (client, definitions, world) = (client.clone(), definitions.clone(), world.clone());
        tasks.spawn("definition", async move {
            definitions.follow::<Instance>(client, watching, || world.wake_everybody()).await;
        });
    }
    let tracker = Tracker::new(config.current().activity_interval, wake);
    let links = Links::new(master.links());
    let keeper = Arc::new(Keeper {
        client: client.clone(),
        clock: clock.clone(),
        config: config.clone(),
        reconfigured,
        outside,
        world: world.clone(),
        tracker: tracker.clone(),
        ledger: ledger.clone(),
        pushed: settings.pushed(),
        remembered: tokio::sync::Mutex::default(),
    });
    tasks.spawn("collector", keeper.clone().collect());
    tasks.spawn("coverage", keeper.clone().remember());
    let flushing = (tracker.clone(), clock.clone());
    tasks.spawn("tracker", async move { flushing.0.run(flushing.1).await });

    let lab = Arc::new(Lab {
        client,
        clock: clock.clone(),
        since: clock.now(),
        world,
        config,
        tracker,
        ledger,
        keeper,
        outbox,
        prober,
        orphans,
        events,
        links,
        public_url,
        master,
        parts,
        restarts: arrange::Restarts::default(),
        definitions,
        settings,
    });
    count::register(&metrics, &lab.world);
    let reconciles = metrics.reconciles("lab");
    tasks.spawn("lab", run(lab.clone(), queue.clone(), clock, limits, reconciles.clone()));
    Ok(Started { lab, queue, reconciles })
}
