//! The status check of instances that end with an exam: one look at a status URL, or at the
//! instance itself, and what was seen there.
//!
//! How many looks it takes, how far apart, and what a deadline does, is decided elsewhere. Here an
//! answer is only told apart: whatever is not clearly one of the agreed answers is
//! [`Observation::Unclear`], and ends nothing.

mod answer;
mod codes;
pub mod fake;
mod http;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

use crate::dial::Endpoint;

pub use self::codes::{Codes, CodesError};
pub use self::http::{HttpProbe, ProbeError};

/// Checks one target, once.
pub trait Probe: fmt::Debug + Send + Sync {
    /// Answers within the target's timeout, whatever the other side does.
    fn check<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Observation>;
}

/// What is checked.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// A URL that somebody else serves and that answers by code: go on, or end.
    Contract { url: String, timeout: Duration, keep: Codes, end: Codes },
    /// The instance's own endpoint, as its node reports it. It is not guarded: no tenant chose it.
    Reach {
        endpoint: Endpoint,
        /// Whether HTTP is spoken there; else a connection is enough.
        http: bool,
        timeout: Duration,
    },
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// The contract says to go on, and may say until when.
    Keeps {
        deadline: Option<Timestamp>,
    },
    /// The contract says to end.
    Ends,
    /// Neither; with words for a condition.
    Unclear(String),
    Reachable,
    /// No connection, or no answer in time; with words for a condition.
    Unreachable(String),
}

/// URLs may carry secrets in their path and query, so only the origin is shown.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contract { url, timeout, keep, end } => {
                let origin = reqwest::Url::parse(url).map(|url| url.origin().ascii_serialization());
                f.debug_struct("Contract")
                    .field("origin", &origin.as_deref().unwrap_or("?"))
                    .field("timeout", timeout)
                    .field("keep", keep)
                    .field("end", end)
                    .finish()
            }
            Self::Reach { endpoint, http, timeout } => f
                .debug_struct("Reach")
                .field("endpoint", endpoint)
                .field("http", http)
                .field("timeout", timeout)
                .finish(),
        }
    }
}

impl Target {
    fn timeout(&self) -> Duration {
        match self {
            Self::Contract { timeout, .. } | Self::Reach { timeout, .. } => *timeout,
        }
    }

    /// The result when the timeout is over.
    fn timed_out(&self, timeout: Duration) -> Observation {
        match self {
            Self::Contract { .. } => Observation::Unclear(format!("no answer within {timeout:?}")),
            Self::Reach { endpoint: Endpoint { address, .. }, .. } => {
                Observation::Unreachable(format!("no answer from {address} within {timeout:?}"))
            }
        }
    }
}
