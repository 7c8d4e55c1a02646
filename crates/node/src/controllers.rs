//! The controllers that a cluster would have and a lone API server has not: scheduler, claim binder,
//! Jobs, disruption budgets. Each runs for itself; one that fails is started again.

use std::future::Future;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::{claim, disruption, job, scheduler, taint};

/// Before a controller that failed is started again.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// The running controllers.
#[derive(Debug)]
pub struct Controllers {
    stop: watch::Sender<bool>,
    running: JoinSet<()>,
}

/// As whom each of them acts.
#[derive(Clone)]
pub struct Clients {
    pub scheduler: Client,
    pub claims: Client,
    pub jobs: Client,
    /// Deletes Jobs whose time is up.
    pub expiry: Client,
    /// Keeps the taints of Nodes in step with their conditions.
    pub nodes: Client,
    /// Writes what disruption budgets allow.
    pub disruption: Client,
    /// What the disruption controller watches with.
    pub informers: Client,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").finish_non_exhaustive()
    }
}

impl Controllers {
    pub fn start(clients: Clients, clock: Clock) -> Self {
        let mut controllers = Self::binding(clients.claims.clone(), None);
        let Clients { scheduler, jobs, expiry, nodes, disruption, informers, .. } = clients;
        controllers
            .add("scheduler", move |stopped| scheduler::run(scheduler.clone(), clock, stopped));
        controllers.add("Job controller", move |stopped| {
            job::run(jobs.clone(), expiry.clone(), clock, stopped)
        });
        controllers.add("disruption controller", move |stopped| {
            disruption::run(disruption.clone(), informers.clone(), clock, stopped)
        });
        controllers.add("keeper of taints", move |stopped| taint::run(nodes.clone(), stopped));
        controllers
    }

    /// The claim binder without the others, for a control plane that has those, and
    /// PersistentVolumes.
    pub fn claims_alone(client: Client, local: claim::Local) -> Self {
        Self::binding(client, Some(local))
    }

    fn binding(client: Client, local: Option<claim::Local>) -> Self {
        let mut controllers = Self { stop: watch::Sender::new(false), running: JoinSet::new() };
        controllers
            .add("claim binder", move |stopped| claim::run(client.clone(), local.clone(), stopped));
        controllers
    }

    fn add<F, E>(&mut self, name: &'static str, run: impl FnMut(Stopped) -> F + Send + 'static)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        self.running.spawn(run_with_restarts(name, self.stop.subscribe(), run));
    }

    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.running.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a controller ended badly");
            }
        }
    }
}

/// Runs a controller until it is told to stop.
async fn run_with_restarts<F, E>(
    name: &'static str,
    stop: watch::Receiver<bool>,
    mut run: impl FnMut(Stopped) -> F + Send,
) where
    F: Future<Output = Result<(), E>> + Send,
    E: std::fmt::Display,
{
    loop {
        match run(stopped(stop.clone())).await {
            Ok(()) => return,
            Err(error) => tracing::error!(%error, "the {name} failed; it is started again"),
        }
        tokio::select! {
            () = stopped(stop.clone()) => return,
            () = tokio::time::sleep(RESTART_DELAY) => {}
        }
    }
}

type Stopped = futures::future::BoxFuture<'static, ()>;

fn stopped(mut stop: watch::Receiver<bool>) -> Stopped {
    Box::pin(async move {
        // Whoever would tell us is gone: the same.
        let _ = stop.wait_for(|stop| *stop).await;
    })
}
