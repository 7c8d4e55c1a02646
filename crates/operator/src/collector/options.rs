//! What a collector asks, and how often.

use jiff::{SignedDuration, Timestamp};
use sojourn_core::activity::Source;
use sojourn_core::coverage::Coverage;
use sojourn_core::replica::ServedTime;

use crate::replica::silence;

/// Time for queries to be answered, on top of what the interval and the step make of the lag.
const QUERY_SLACK: SignedDuration = SignedDuration::from_secs(2);
/// The shortest interval and step: metrics servers have no finer time.
const MIN_SPAN: SignedDuration = SignedDuration::from_millis(1);

/// How a collector works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `activityInterval`: how often it looks.
    pub interval: SignedDuration,
    /// `queryStep`: how far apart the points of a query are.
    pub step: SignedDuration,
    /// How far back the very first look goes.
    pub look_back: SignedDuration,
    /// Sources that are asked for.
    pub polled: Vec<Polled>,
    /// Sources that report by themselves, to this process: they see as long as it lives.
    pub pushed: Vec<Source>,
}

/// A source that a metrics server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Polled {
    pub source: Source,
    /// Above zero where the source can see; zero or nothing where it cannot. Of several series, all
    /// must be above zero.
    pub available: String,
    /// The counters, and gauges of open sessions, of all objects.
    pub data: String,
    pub identity: Identity,
}

/// How series name an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// By its Service; these labels have the Service's namespace and name.
    Service { namespace: String, name: String },
    /// By its address; these labels have it. A series may lack the port.
    Address { ip: String, port: String },
}

impl Identity {
    pub fn service(namespace_label: &str, name_label: &str) -> Self {
        Self::Service { namespace: namespace_label.to_owned(), name: name_label.to_owned() }
    }

    pub fn address(ip_label: &str, port_label: &str) -> Self {
        Self::Address { ip: ip_label.to_owned(), port: port_label.to_owned() }
    }
}

impl Default for Options {
    /// Nothing is asked for.
    fn default() -> Self {
        Self {
            interval: SignedDuration::from_secs(30),
            step: SignedDuration::from_secs(30),
            look_back: SignedDuration::from_hours(6),
            polled: Vec::new(),
            pushed: Vec::new(),
        }
    }
}

impl Options {
    /// How far what is known may stay behind the clock: the newest step is looked at again, because
    /// not all of it has been scraped yet, and a look comes once per interval.
    pub fn lag(&self) -> SignedDuration {
        self.interval.saturating_add(self.step).saturating_add(QUERY_SLACK)
    }

    /// For how long a source that reports by itself is taken to be served without being told again.
    pub(super) fn lease(&self) -> SignedDuration {
        self.interval.saturating_mul(2).saturating_add(QUERY_SLACK)
    }

    /// How far what was reported to several replicas may stay behind the clock: they are looked at once
    /// per interval, and tell of what they wrote as often. One that says nothing is waited for, and
    /// nothing is called blind for that: every object would have to be written, twice.
    pub(super) fn pushed_lag(&self, served: &ServedTime) -> SignedDuration {
        if served.waiting {
            return silence(self.interval).given_up_after;
        }
        let intervals = if served.shared { 2 } else { 1 };
        self.interval.saturating_mul(intervals).saturating_add(QUERY_SLACK)
    }

    pub(super) fn first_coverage(&self, now: Timestamp) -> Coverage {
        let since = now.checked_sub(self.look_back).unwrap_or(Timestamp::MIN);
        Coverage::starting(since).lagging(self.lag())
    }

    /// The same, in whole milliseconds and with nothing that could make a loop stand still.
    pub(super) fn sane(mut self) -> Self {
        for span in [&mut self.interval, &mut self.step] {
            let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
            *span = SignedDuration::from_millis(millis).max(MIN_SPAN);
        }
        self.look_back = self.look_back.max(SignedDuration::ZERO);
        self
    }
}
