//! A metrics server as a script: series that hold a value until they are told another, and faults
//! that the caller chooses. It has no clock, no network and no chance of its own, so it runs under
//! virtual time and does the same every time.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

use super::{Answer, Labels, Metrics, QueryError, Series, Window};

/// How many of the newest questions are remembered.
const MAX_ASKED: usize = 1000;

/// A question that was asked. An instant one has a window of one point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub query: String,
    pub window: Window,
}

/// What goes wrong with a question. Several happen one after the other.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The answer takes this long, by tokio's clock.
    Slow(Duration),
    /// There is none.
    Fail(QueryError),
    /// It is not whole, and says so.
    Partial(String),
    /// It is this one, whatever the series are.
    Instead(Answer),
}

/// Chooses what goes wrong with a question; nothing, if it returns nothing.
pub type Script = Arc<dyn Fn(&Asked) -> Vec<Fault> + Send + Sync>;

/// The scripted server. Clones share everything.
#[derive(Clone, Default)]
pub struct Fake(Arc<Mutex<FakeState>>);

#[derive(Default)]
struct FakeState {
    /// By query, then by labels: from when on a value holds; `None` where the series ends.
    series: BTreeMap<String, BTreeMap<Labels, BTreeMap<Timestamp, Option<f64>>>>,
    script: Option<Script>,
    asked: VecDeque<Asked>,
    times_asked: u64,
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Fake")
            .field("queries", &state.series.len())
            .field("times_asked", &state.times_asked)
            .finish_non_exhaustive()
    }
}

impl Fake {
    /// From `at` on, `query` has a series with this value.
    pub fn set(&self, query: &str, labels: &Labels, at: Timestamp, value: f64) {
        self.put(query, labels, at, Some(value));
    }

    /// From `at` on, `query` does not have this series.
    pub fn end(&self, query: &str, labels: &Labels, at: Timestamp) {
        self.put(query, labels, at, None);
    }

    /// Which faults happen from now on.
    pub fn script(&self, script: impl Fn(&Asked) -> Vec<Fault> + Send + Sync + 'static) {
        self.state().script = Some(Arc::new(script));
    }

    /// All is well from now on.
    pub fn heal(&self) {
        self.state().script = None;
    }

    /// The newest questions, oldest first.
    pub fn asked(&self) -> Vec<Asked> {
        self.state().asked.iter().cloned().collect()
    }

    /// How many questions there were in all.
    pub fn times_asked(&self) -> u64 {
        self.state().times_asked
    }

    fn put(&self, query: &str, labels: &Labels, at: Timestamp, value: Option<f64>) {
        let mut state = self.state();
        let series = state.series.entry(query.to_owned()).or_default();
        series.entry(labels.clone()).or_default().insert(at, value);
    }

    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, asked: Asked) -> Result<Answer, QueryError> {
        let script = self.note(&asked);
        let faults = script.map(|script| script(&asked)).unwrap_or_default();
        let mut warnings = Vec::new();
        let mut instead = None;
        for fault in faults {
            match fault {
                Fault::Slow(time) => tokio::time::sleep(time).await,
                Fault::Fail(error) => return Err(error),
                Fault::Partial(warning) => warnings.push(warning),
                Fault::Instead(answer) => instead = Some(answer),
            }
        }
        let mut answer = instead.unwrap_or_else(|| self.evaluate(&asked));
        answer.warnings.extend(warnings);
        Ok(answer)
    }

    fn note(&self, asked: &Asked) -> Option<Script> {
        let mut state = self.state();
        state.times_asked += 1;
        if state.asked.len() == MAX_ASKED {
            state.asked.pop_front();
        }
        state.asked.push_back(asked.clone());
        state.script.clone()
    }

    fn evaluate(&self, asked: &Asked) -> Answer {
        let state = self.state();
        let series = state.series.get(&asked.query).into_iter().flatten();
        let series = series.filter_map(|(labels, values)| {
            let value = |at: Timestamp| *values.range(..=at).next_back()?.1;
            let samples: Vec<_> =
                asked.window.points().filter_map(|at| Some((at, value(at)?))).collect();
            let labels = labels.clone();
            (!samples.is_empty()).then_some(Series { labels, samples })
        });
        Answer { series: series.collect(), warnings: Vec::new() }
    }
}

impl Metrics for Fake {
    fn range<'a>(
        &'a self,
        query: &'a str,
        window: Window,
    ) -> BoxFuture<'a, Result<Answer, QueryError>> {
        self.answer(Asked { query: query.to_owned(), window }).boxed()
    }

    fn instant<'a>(
        &'a self,
        query: &'a str,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Answer, QueryError>> {
        let window = Window { start: at, end: at, step: SignedDuration::ZERO };
        self.answer(Asked { query: query.to_owned(), window }).boxed()
    }
}
