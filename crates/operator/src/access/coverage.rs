//! On which cluster use could be seen, and when: what decisions about a session read of its own cluster, and what the
//! next leader goes on from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use sojourn_core::activity::Source;

use crate::clock::Clock;
use crate::collector::coverage_store::{StoredCoverage, read_stored, write_stored};
use crate::collector::{CoverageRegistry, CoverageSnapshot, FamilySources};
use crate::tracker::Tracker;

/// The source of all use of sessions, on each cluster.
pub(super) const SOURCE: Source = Source::new(0, "authorizer");
/// Where it is written down which time was observed.
const FAMILY: FamilySources = FamilySources { family: "access", sources: &[SOURCE] };
/// How often that is. So much more is blind after a process was killed.
const STORE_INTERVAL: SignedDuration = SignedDuration::from_secs(30);

/// What was observed on each cluster, in one term.
pub(crate) struct ClusterCoverage {
    /// Of the leader.
    client: Client,
    clock: Arc<dyn Clock>,
    /// Holds the use that is not in the sessions yet: that time is not claimed after a restart.
    tracker: Tracker,
    /// The cluster that we run on, whatever its name.
    own: Arc<CoverageRegistry>,
    further: RwLock<BTreeMap<String, Arc<CoverageRegistry>>>,
    stored_at: tokio::sync::Mutex<Option<Timestamp>>,
}

impl fmt::Debug for ClusterCoverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterCoverage").finish_non_exhaustive()
    }
}

impl ClusterCoverage {
    pub(crate) fn new(client: Client, clock: Arc<dyn Clock>, tracker: Tracker) -> Self {
        let (own, further) = (Arc::default(), RwLock::default());
        Self { client, clock, tracker, own, further, stored_at: tokio::sync::Mutex::new(None) }
    }

    pub(crate) fn own(&self) -> &Arc<CoverageRegistry> {
        &self.own
    }

    /// What was observed on a further cluster, from now on if nothing was so far.
    pub(super) fn further(&self, cluster: &str) -> Arc<CoverageRegistry> {
        let mut further = self.further.write().unwrap_or_else(PoisonError::into_inner);
        further.entry(cluster.to_owned()).or_default().clone()
    }

    /// What was observed on a cluster, which may be our own. On one that nobody looks at: nothing, ever.
    pub(super) fn read(&self, cluster: &str, is_own: bool) -> Arc<CoverageSnapshot> {
        if is_own {
            return self.own.read();
        }
        let further = self.further.read().unwrap_or_else(PoisonError::into_inner);
        further.get(cluster).map(|registry| registry.read()).unwrap_or_default()
    }

    /// Forgets what was observed on further clusters that are not configured any more.
    pub(super) fn retain(&self, further: &BTreeSet<String>) {
        let mut known = self.further.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, _| further.contains(name));
    }

    /// The observed time of every cluster, by the name that it is stored and counted under.
    pub(super) fn all(&self) -> Vec<(String, Arc<CoverageRegistry>)> {
        let further = self.further.read().unwrap_or_else(PoisonError::into_inner);
        let named = further.iter().map(|(name, registry)| (stored_name(name), registry.clone()));
        std::iter::once((SOURCE.as_str().to_owned(), self.own.clone())).chain(named).collect()
    }

    /// What an earlier leader observed is where this one begins.
    pub(super) async fn restore(&self, lag: SignedDuration) -> Result<(), kube::Error> {
        for stored in read_stored(&self.client, FAMILY).await? {
            let registry = match stored.source() {
                name if name == SOURCE.as_str() => self.own.clone(),
                name => match cluster_of(name) {
                    Some(cluster) => self.further(cluster),
                    None => continue,
                },
            };
            registry.put(SOURCE, stored.coverage().lagging(lag), None);
        }
        Ok(())
    }

    /// Writes down which time was observed: a leader calls it before it ends, so that only the time
    /// until the next one is blind.
    pub(crate) async fn store(&self) -> Result<(), kube::Error> {
        let mut stored_at = self.stored_at.lock().await;
        *stored_at = Some(self.write().await?);
        Ok(())
    }

    /// The same, if it was not just done, and is not being done: canaries of one cluster do not wait for those of
    /// another.
    pub(super) async fn store_if_due(&self) -> Result<(), kube::Error> {
        let Ok(mut stored_at) = self.stored_at.try_lock() else { return Ok(()) };
        let now = self.clock.now();
        if stored_at.is_none_or(|at| now.duration_since(at) >= STORE_INTERVAL) {
            *stored_at = Some(self.write().await?);
        }
        Ok(())
    }

    /// Answers with the time of what was written.
    async fn write(&self) -> Result<Timestamp, kube::Error> {
        let now = self.clock.now();
        let all = self.all().into_iter().flat_map(|(name, registry)| {
            let records = registry.persist(&self.tracker, now).into_iter();
            records.map(move |record| StoredCoverage::of(&name, &record))
        });
        write_stored(&self.client, FAMILY, &all.collect::<Vec<_>>()).await?;
        Ok(now)
    }
}

/// Earlier versions know the name of the source alone, and read no others.
fn stored_name(cluster: &str) -> String {
    format!("{SOURCE}/{cluster}")
}

fn cluster_of(stored_name: &str) -> Option<&str> {
    stored_name.strip_prefix(SOURCE.as_str())?.strip_prefix('/')
}
