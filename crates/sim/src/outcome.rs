//! What came of a simulated run.

use std::collections::BTreeSet;
use std::fmt;

use crate::event_counts::EventCounts;
use crate::event_log::Violation;

/// What came of a simulated run, of any family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulationOutcome {
    /// What was drawn from the seed, in words.
    pub plan: String,
    pub violations: Vec<Violation>,
    /// What happened, in order of time.
    pub log: Vec<String>,
    pub counts: EventCounts,
    /// How often the controllers looked at an object.
    pub reconciles: u64,
    /// How often the engine was written to.
    pub writes: u64,
    /// Of everything that was written, notified and uploaded.
    pub fingerprint: u64,
}

impl SimulationOutcome {
    /// The names of the invariants that did not hold, each once.
    pub fn violated(&self) -> Vec<&'static str> {
        let names: BTreeSet<_> = self.violations.iter().map(|one| one.invariant).collect();
        names.into_iter().collect()
    }

    /// The first difference between the logs of two runs.
    pub fn first_difference(&self, other: &Self) -> Option<String> {
        let mut lines = self.log.iter().zip(&other.log);
        let (one, two) = lines.find(|(one, two)| one != two)?;
        Some(format!("{one}\n{two}"))
    }
}

impl fmt::Display for SimulationOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { violations, counts, reconciles, writes, fingerprint, .. } = self;
        write!(f, "{reconciles} looks, {writes} writes, {fingerprint:016x}: {counts}")?;
        for violation in violations {
            write!(f, "\n{violation}")?;
        }
        Ok(())
    }
}
