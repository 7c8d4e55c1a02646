//! One tick for a whole family: what metrics say about the use of all of its objects.
//!
//! Every interval, and per source: one query that tells when the source could see, and one per
//! chunk of time for the data of **all** objects at once. The number of queries does not depend on
//! the number of objects, and no reconcile ever asks. What is found goes two ways:
//!
//! | what                             | where to                                             |
//! |----------------------------------|------------------------------------------------------|
//! | who was used, and when           | the [`Tracker`]                                      |
//! | which time was really observed   | the [`CoverageRegistry`], which decisions read                 |
//!
//! A look always begins where the last successful one ended, one step earlier, however long ago
//! that was, so use cannot fall between two looks. A query that fails leaves what is observed where
//! it was: the source is blind until a later look covers that time.

mod chunk;
pub mod coverage_registry;
pub(crate) mod coverage_store;
pub mod directory;
mod look;
pub mod options;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use sojourn_core::activity::Source;
use sojourn_drivers::metrics::Metrics;
use tokio::time::{Instant, MissedTickBehavior};

pub use self::coverage_registry::{CoverageRecord, CoverageRegistry, CoverageSnapshot};
pub(crate) use self::coverage_store::{CollectorConfig, CoverageStore, FamilySources};
pub use self::directory::Directory;
use self::look::{Look, PolledSource};
pub use self::options::{Identity, Options, Polled};
use crate::clock::Clock;
use crate::replica::{ReplicaRegistry, silence};
use crate::tracker::{Tracker, period};

/// Called with every source that turned blind, or that sees again.
pub type Changed = Arc<dyn Fn(Source) + Send + Sync>;

/// Asks for all objects of a family.
pub struct Collector {
    options: Options,
    watched: Vec<PolledSource>,
    metrics: Option<Arc<dyn Metrics>>,
    directory: Arc<dyn Directory>,
    tracker: Tracker,
    coverage_registry: Arc<CoverageRegistry>,
    /// The other replicas to which sources report; nothing, if this process is the only one.
    replicas: Option<Arc<ReplicaRegistry>>,
    changed: Changed,
    /// Which sources were last reported to be blind.
    reported_blind: BTreeMap<Source, bool>,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What one tick did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TickStats {
    pub queries: usize,
    /// Series that belong to an object of the family.
    pub matched: usize,
    /// Series that belong to none.
    pub unmatched: usize,
    /// Sources whose look did not get through.
    pub failed: usize,
}

impl Collector {
    /// Without `metrics` only the sources that report by themselves are looked after.
    pub fn new(
        options: Options,
        metrics: Option<Arc<dyn Metrics>>,
        directory: Arc<dyn Directory>,
        tracker: Tracker,
        coverage_registry: Arc<CoverageRegistry>,
        changed: Changed,
    ) -> Self {
        let options = options.sane();
        let watched = options.polled.iter().cloned().map(PolledSource::new).collect();
        let reported_blind = BTreeMap::new();
        Self {
            options,
            watched,
            metrics,
            directory,
            tracker,
            coverage_registry,
            replicas: None,
            changed,
            reported_blind,
        }
    }

    /// The same, where other replicas take reports, too.
    #[must_use]
    pub fn with_replicas(mut self, replicas: Option<Arc<ReplicaRegistry>>) -> Self {
        self.replicas = replicas;
        self
    }

    /// Ticks every interval, for ever.
    pub async fn run(mut self, clock: Arc<dyn Clock>) {
        let mut ticks = tokio::time::interval(period(self.options.interval));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let stats = self.tick(clock.now()).await;
            tracing::debug!(?stats, "looked at the use of all objects");
        }
    }

    /// Looks once, at everything since the last look. Sets no timers of its own but the time that a
    /// query may take.
    pub async fn tick(&mut self, now: Timestamp) -> TickStats {
        let started = Instant::now();
        let now = whole_millisecond(now);
        let before = self.coverage_registry.read();
        self.look_at_pushed(now).await;
        let mut stats = self.look_at_all(&before, now).await;
        stats.failed = self.watched.iter().filter(|watched| watched.trouble.is_some()).count();
        let elapsed = SignedDuration::try_from(started.elapsed()).unwrap_or(SignedDuration::MAX);
        let after = now.checked_add(elapsed).unwrap_or(Timestamp::MAX);
        self.notify_changed(&before, after);
        stats
    }

    /// Which time was served to the sources that report by themselves.
    async fn look_at_pushed(&self, now: Timestamp) {
        let Options { pushed, interval, .. } = &self.options;
        let Some(replicas) = self.replicas.as_ref().filter(|_| !pushed.is_empty()) else {
            for &source in pushed {
                self.coverage_registry.serving(source, now, self.options.lease());
            }
            return;
        };
        match replicas.look(now, silence(*interval)).await {
            Ok(served) => {
                let lag = self.options.pushed_lag(&served);
                for &source in pushed {
                    self.coverage_registry.served(source, &served, lag);
                }
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "cannot see what other replicas have written");
            }
        }
    }

    async fn look_at_all(&mut self, before: &CoverageSnapshot, now: Timestamp) -> TickStats {
        let Some(metrics) = &self.metrics else { return TickStats::default() };
        let (options, coverage_registry) = (&self.options, &self.coverage_registry);
        let looks = self.watched.iter_mut().map(|watched| {
            let source = watched.source();
            let coverage = before.find(source).cloned();
            let look = Look {
                now,
                options,
                metrics: &**metrics,
                directory: &*self.directory,
                tracker: &self.tracker,
                coverage: coverage.unwrap_or_else(|| options.first_coverage(now)),
                stats: TickStats::default(),
            };
            async move {
                // Stored at once, not after the slowest source.
                let (coverage, stats) = look.run(watched).await;
                coverage_registry.put(
                    source,
                    coverage.lagging(options.lag()),
                    watched.trouble.clone(),
                );
                stats
            }
        });
        let mut stats = TickStats::default();
        for part in join_all(looks).await {
            stats.add(part);
        }
        stats
    }

    /// Calls `changed` for the sources that readers of the snapshot before may have found otherwise than
    /// they are.
    fn notify_changed(&mut self, before: &CoverageSnapshot, now: Timestamp) {
        let snapshot = self.coverage_registry.read();
        for source in snapshot.sources() {
            let was = before.coverage(source).blind_since(now).is_some();
            let is = snapshot.coverage(source).blind_since(now).is_some();
            let news = self.reported_blind.insert(source, is) != Some(is);
            if news || was != is {
                (self.changed)(source);
            }
        }
    }
}

impl TickStats {
    const fn add(&mut self, other: Self) {
        self.queries += other.queries;
        self.matched += other.matched;
        self.unmatched += other.unmatched;
    }
}

/// Metrics servers know no finer time, and samples are matched with the times that were asked for.
fn whole_millisecond(now: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
