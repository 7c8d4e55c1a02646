//! The drain agent: empties the Nodes of a cluster whose machines are draining, and says so.
//!
//! It is a client like any other. It watches Machines, where a list shows every drain that is open,
//! and answers with `spec.drainReply`; it works on the Nodes and Pods of a target cluster, which may
//! be another one. What it knows is in those two places: one that is started anew goes on where the
//! last one ended.
//!
//! | file | holds |
//! |---|---|
//! | `machine`, `node`, `pod` | what is read of each kind, and of nothing else of it |
//! | `caches` | the caches, whom a change concerns, and which Node is a Machine's |
//! | `node_drain` | the Nodes that are being emptied: their Pods, and what was tried |
//! | `reconcile` | the controller: one Machine in five steps |
//! | `observe`, `execute`, `publish` | those steps |

mod caches;
mod execute;
mod machine;
mod node;
mod node_drain;
mod observe;
mod pod;
mod publish;
mod reconcile;

use std::sync::Arc;

use kube::Client;

use self::caches::DrainCaches;
use self::node_drain::NodeDrains;
use self::reconcile::Agent;
use crate::clock::Clock;
use crate::event::Events;
use crate::frame::{Limits, Queue, Tasks, WatchSettings, run};
use crate::metrics::{Metrics, Reconciles};

/// Nodes that are emptied at the same time.
const MAX_CONCURRENT_DRAINS: usize = 256;

/// What the agent is started with.
#[derive(Clone)]
pub struct Start {
    /// Where the Machines are.
    pub machines: Client,
    /// The cluster whose Nodes are emptied. A client that tries again by itself when it is told to
    /// wait would hide that a budget refuses: it must not.
    pub target: Client,
    pub selection: Selection,
    pub clock: Arc<dyn Clock>,
    pub watching: WatchSettings,
    pub metrics: Metrics,
}

/// Which Machines are Nodes of the target cluster. One that is none there counts as drained.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// In all namespaces, if there is none.
    pub namespace: Option<String>,
    /// With these labels.
    pub labels: Option<String>,
}

impl std::fmt::Debug for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start").field("selection", &self.selection).finish_non_exhaustive()
    }
}

/// The agent, running.
#[derive(Debug, Clone)]
pub struct Started {
    pub queue: Arc<Queue>,
    pub reconciles: Reconciles,
}

/// Why it cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot list Machines")]
    Machines(#[source] Box<kube::Error>),
    #[error("cannot list the Nodes of the target cluster")]
    Nodes(#[source] Box<kube::Error>),
    #[error("cannot list the VolumeAttachments of the target cluster")]
    Volumes(#[source] Box<kube::Error>),
}

/// Starts everything; the tasks are the caller's to watch.
pub async fn start(start: Start, tasks: &mut Tasks) -> Result<Started, StartError> {
    let Start { machines, target, selection, clock, watching, metrics } = start;
    let queue = Arc::new(Queue::new(clock.clone()));
    let node_drains =
        Arc::new(NodeDrains::new(target.clone(), watching, queue.clone(), MAX_CONCURRENT_DRAINS));
    let caches =
        DrainCaches::open(&machines, &target, &selection, queue.clone(), node_drains.clone())
            .await?;
    let caches = Arc::new(caches);
    caches.follow(&machines, &target, &selection, watching, tasks);
    let (events, events_work) =
        Events::new(target.clone(), clock.clone(), metrics.events_left_out("drain"));
    tasks.spawn("events", events_work);
    let agent =
        Arc::new(Agent { machines, target, clock: clock.clone(), caches, node_drains, events });
    let reconciles = metrics.reconciles("drain");
    let limits = Limits { concurrency: MAX_CONCURRENT_DRAINS };
    let counts = reconciles.clone();
    let looking = queue.clone();
    tasks.spawn("drain", async move {
        // Before everything was listed once, absence means nothing.
        agent.caches.until_ready().await;
        run(agent, looking, clock, limits, counts).await;
    });
    Ok(Started { queue, reconciles })
}
