//! Questions to a metrics server: the port, [`prometheus`] behind it, and a scripted [`fake`].
//!
//! Whoever asks learns what the server has, or why that is not known. An answer that is cut short,
//! garbled or late is an error in words, never an empty answer: no data and no use look alike.

mod answer;
pub mod fake;
pub mod prometheus;

use std::fmt::Debug;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

pub use prometheus::Prometheus;

/// A server that evaluates queries over time.
pub trait Metrics: Send + Sync + Debug {
    /// Every series that `query` has at the points of `window`.
    fn range<'a>(
        &'a self,
        query: &'a str,
        window: Window,
    ) -> BoxFuture<'a, Result<Answer, QueryError>>;

    /// Every series that `query` has at one moment, with one sample each.
    fn instant<'a>(
        &'a self,
        query: &'a str,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Answer, QueryError>>;
}

/// The times at which a range query is evaluated: `start`, then every `step`, up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub start: Timestamp,
    pub end: Timestamp,
    pub step: SignedDuration,
}

impl Window {
    /// In order; none if `end` is before `start`, one if there is no step.
    pub fn points(self) -> impl Iterator<Item = Timestamp> {
        let next = move |at: &Timestamp| at.checked_add(self.step).ok().filter(|next| next > at);
        std::iter::successors(Some(self.start), next).take_while(move |at| *at <= self.end)
    }
}

/// What a server answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    pub series: Vec<Series>,
    /// Where it is not empty, the answer is not whole (a store behind the server did not answer).
    pub warnings: Vec<String>,
}

/// One series: who it is about, and its samples in order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    pub labels: Labels,
    pub samples: Vec<(Timestamp, f64)>,
}

/// The labels of a series, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Vec<(Box<str>, Box<str>)>);

impl Labels {
    /// The value of a label. One that is empty is not there, as Prometheus has it.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(other, _)| (**other).cmp(name)).ok()?;
        Some(&*self.0[found].1).filter(|value| !value.is_empty())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }
}

impl<N: Into<Box<str>>, V: Into<Box<str>>> FromIterator<(N, V)> for Labels {
    /// Of a name that comes twice, the last value holds.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut labels: Vec<(Box<str>, Box<str>)> =
            pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        labels.reverse();
        labels.sort_by(|(a, _), (b, _)| a.cmp(b));
        labels.dedup_by(|(a, _), (b, _)| a == b);
        Self(labels)
    }
}

/// Why an answer is not known. `server` is its address, without credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("cannot read the token for the metrics server {server}: {reason}")]
    ReadToken { server: String, reason: String },
    #[error("cannot ask the metrics server {server}: {reason}")]
    Ask { server: String, reason: String },
    #[error("the metrics server {server} did not answer within {seconds} s")]
    TimedOut { server: String, seconds: u64 },
    /// A smaller question may be answered.
    #[error("the metrics server {server} finds the query too large: {reason}")]
    TooMuch { server: String, reason: String },
    #[error("the metrics server {server} refuses the query (HTTP {status}): {reason}")]
    Refused { server: String, status: u16, reason: String },
    #[error("the answer of the metrics server {server} makes no sense: {reason}")]
    Garbled { server: String, reason: String },
}
