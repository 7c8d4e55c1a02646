//! What one replica is among the others, for one family.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use sojourn_core::key::Key;

use super::{Heartbeats, ReplicaName, ReplicaRegistry, ReportWriter, ReportedObjects};
use crate::family::Setup;
use crate::frame::{Queue, Reconciler as _, Target, Tasks, run};
use crate::tracker::Tracker;

/// A replica that is known to the others.
pub(crate) struct Membership {
    family: &'static str,
    replica: ReplicaName,
    serving_since: Timestamp,
    heartbeats: Arc<Heartbeats>,
    reports: Arc<dyn PendingReports>,
    tracker: Tracker,
    /// Whether what is reported goes to the controllers of this process.
    leading: Arc<AtomicBool>,
}

/// What a family's membership is made from.
pub(crate) struct Joining<'a> {
    pub(crate) family: &'static str,
    pub(crate) client: &'a Client,
    pub(crate) setup: &'a Setup,
    /// The queue of the controllers that decide while this replica leads.
    pub(crate) queue: &'a Arc<Queue>,
    /// How often reports are written, and the others are told.
    pub(crate) interval: SignedDuration,
}

impl Membership {
    /// Makes this replica known. What is reported to the tracker is written into the objects while it
    /// does not lead, and goes to the controllers' queue while it does.
    pub(crate) async fn join<O: ReportedObjects>(
        joining: Joining<'_>,
        replica: ReplicaName,
        objects: O,
        tasks: &mut Tasks,
    ) -> Result<(Tracker, Self), kube::Error> {
        let Joining { family, client, setup, queue, interval } = joining;
        let clock = setup.clock.clone();
        let leading = Arc::new(AtomicBool::new(false));
        let reported = Arc::new(Queue::new(clock.clone()));
        let tracker = {
            let (queue, reported, leading) = (queue.clone(), reported.clone(), leading.clone());
            let wake = move |key: &Key| {
                if leading.load(Ordering::Relaxed) { queue.wake(key) } else { reported.wake(key) }
            };
            Tracker::new(interval, Arc::new(wake))
        };
        let heartbeats = Arc::new(Heartbeats::new(
            client,
            clock.clone(),
            family,
            replica.clone(),
            tracker.clone(),
            interval,
        ));
        let serving_since = clock.now();
        heartbeats.register().await?;
        tasks.spawn("heartbeat", heartbeats.clone().run());
        let writer = Arc::new(ReportWriter {
            objects: Arc::new(objects),
            tracker: tracker.clone(),
            replica: replica.clone(),
        });
        let reconciles = setup.metrics.reconciles("reports");
        tasks.spawn("reports", run(writer.clone(), reported, clock, setup.limits, reconciles));
        let membership = Self {
            family,
            replica,
            serving_since,
            heartbeats,
            reports: writer,
            tracker: tracker.clone(),
            leading,
        };
        Ok((tracker, membership))
    }

    pub(crate) fn replica(&self) -> &ReplicaName {
        &self.replica
    }

    /// From now on, and until the tasks are stopped, reports go to the controllers. The registry reads
    /// what the other replicas have written.
    pub(crate) fn lead(&self, client: &Client, tasks: &mut Tasks) -> Arc<ReplicaRegistry> {
        let term = LeadingTerm::begin(self.leading.clone());
        tasks.spawn("term", async move {
            let _term = term;
            std::future::pending::<()>().await;
        });
        let registry =
            ReplicaRegistry::new(client, self.family, self.replica.clone(), self.serving_since);
        Arc::new(registry)
    }

    /// Writes what is not written yet, and leaves. Nothing is reported any more.
    pub(crate) async fn leave(&self) {
        self.reports.write(self.tracker.waiting()).await;
        if let Err(error) = self.heartbeats.leave().await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the other replicas learn late that this one has ended");
        }
    }
}

/// While it lives, this replica leads.
struct LeadingTerm(Arc<AtomicBool>);

impl LeadingTerm {
    fn begin(leading: Arc<AtomicBool>) -> Self {
        leading.store(true, Ordering::Relaxed);
        Self(leading)
    }
}

impl Drop for LeadingTerm {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Reports that can be written into their objects, whatever those are.
trait PendingReports: Send + Sync {
    fn write(&self, keys: Vec<Key>) -> BoxFuture<'_, ()>;
}

impl<O: ReportedObjects> PendingReports for ReportWriter<O> {
    /// Each once: there is no time for more.
    fn write(&self, keys: Vec<Key>) -> BoxFuture<'_, ()> {
        async move {
            for key in keys {
                let Target::Is(object) = self.parse(&key) else { continue };
                let seen = self.observe(&object).await;
                let decision = Self::decide(&object, &seen, Timestamp::MIN);
                let executed = self.execute(&object, &seen, &decision).await;
                if self.publish(&object, &seen, &decision, &executed).await.is_err()
                    || executed.is_err()
                {
                    tracing::warn!(object = %key, "use that was reported is not on record");
                }
            }
        }
        .boxed()
    }
}
