//! The coverage of every source, which decisions read and from which a restart continues.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use jiff::{SignedDuration, Timestamp};
use sojourn_core::activity::Source;
use sojourn_core::coverage::{Coverage, Gap};
use sojourn_core::replica::ServedTime;

use crate::tracker::Tracker;

/// The present [`CoverageSnapshot`]. Reading it is a reference count; writers replace it whole.
#[derive(Debug, Default)]
pub struct CoverageRegistry(RwLock<Arc<CoverageSnapshot>>);

/// What is known of all sources at one moment.
#[derive(Debug, Clone)]
pub struct CoverageSnapshot {
    sources: BTreeMap<Source, SourceCoverage>,
    /// Of a source that nobody looks at.
    never: Coverage,
}

#[derive(Debug, Clone)]
struct SourceCoverage {
    coverage: Coverage,
    trouble: Option<Arc<str>>,
}

/// What is stored of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoverageRecord {
    pub source: Source,
    pub since: Timestamp,
    pub until: Timestamp,
    pub gaps: Vec<Gap>,
}

impl Default for CoverageSnapshot {
    fn default() -> Self {
        Self { sources: BTreeMap::new(), never: Coverage::starting(Timestamp::MIN) }
    }
}

impl CoverageSnapshot {
    /// What a source observed. Of one that nobody looks at: nothing, ever.
    pub fn coverage(&self, source: Source) -> &Coverage {
        self.find(source).unwrap_or(&self.never)
    }

    /// Why the last look at a source did not get through.
    pub fn trouble(&self, source: Source) -> Option<&str> {
        self.sources.get(&source)?.trouble.as_deref()
    }

    /// Every source that was ever looked at.
    pub fn sources(&self) -> impl Iterator<Item = Source> {
        self.sources.keys().copied()
    }

    pub(crate) fn find(&self, source: Source) -> Option<&Coverage> {
        self.sources.get(&source).map(|source| &source.coverage)
    }
}

impl CoverageRegistry {
    /// From what [`persist`](Self::persist) gave, whatever became of it. Until they are looked at,
    /// sources have observed nothing since.
    pub fn restore(records: impl IntoIterator<Item = CoverageRecord>) -> Self {
        let mut snapshot = CoverageSnapshot::default();
        for CoverageRecord { source, since, until, gaps } in records {
            let coverage = Coverage::restore(since, until, gaps);
            snapshot.sources.insert(source, SourceCoverage { coverage, trouble: None });
        }
        Self(RwLock::new(Arc::new(snapshot)))
    }

    /// What to store. It claims no time whose use is not in the objects yet: what the tracker still
    /// holds is lost with the process, and is looked at again after a restart.
    pub fn persist(&self, tracker: &Tracker, now: Timestamp) -> Vec<CoverageRecord> {
        // The snapshot is read before the tracker: use that it covers was reported before it was stored.
        let snapshot = self.read();
        let settled = tracker.settled(now);
        let record = |(&source, observed): (&Source, &SourceCoverage)| {
            let coverage = &observed.coverage;
            // A source that is looked at tells of use at the next point, up to its lag later.
            let early = if settled < now { coverage.lag() } else { SignedDuration::ZERO };
            let end = settled.checked_sub(early).unwrap_or(Timestamp::MIN);
            let until = coverage.until().min(end).max(coverage.since());
            let gaps = coverage.gaps().filter(|gap| gap.from < until);
            let gaps = gaps.map(|gap| Gap { to: gap.to.min(until), ..gap }).collect();
            CoverageRecord { source, since: coverage.since(), until, gaps }
        };
        snapshot.sources.iter().map(record).collect()
    }

    pub fn read(&self) -> Arc<CoverageSnapshot> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// This process takes the reports of `source` now, and will for the time of `lease` unless it
    /// ends before. The time since the last lease ended is a gap: nobody was there.
    pub fn serving(&self, source: Source, now: Timestamp, lease: SignedDuration) {
        let mut coverage =
            self.read().find(source).cloned().unwrap_or_else(|| Coverage::starting(now));
        let end = now.checked_add(lease).unwrap_or(Timestamp::MAX);
        coverage.mark_observed(now, end);
        self.put(source, coverage, None);
    }

    /// The time of `source` that all replicas together served. It is known with a delay of `lag`.
    pub fn served(&self, source: Source, served: &ServedTime, lag: SignedDuration) {
        let known = self.read().find(source).cloned();
        let mut coverage = known.unwrap_or_else(|| Coverage::starting(served.since)).lagging(lag);
        coverage.mark_served(served);
        self.put(source, coverage, None);
    }

    pub(crate) fn put(&self, source: Source, coverage: Coverage, trouble: Option<Arc<str>>) {
        let mut snapshot = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut snapshot).sources.insert(source, SourceCoverage { coverage, trouble });
    }
}
