//! What `/metrics` shows.

use std::time::Duration;

use http::Method;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::serve::fairness::PriorityLevel;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: String,
    resource: String,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LevelLabels {
    priority_level: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabels {
    priority_level: &'static str,
    reason: &'static str,
}

/// Why a request found no place; the first two as upstream names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejection {
    QueueFull,
    TimeOut,
    /// The user sends too many bodies, or too much, at once.
    Bodies,
    Watches,
    /// The user reads too many large answers at once.
    Answers,
}

impl Rejection {
    const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
            Self::Bodies => "bodies",
            Self::Watches => "watches",
            Self::Answers => "answers",
        }
    }
}

/// Seats and queues by priority level.
#[derive(Debug, Clone, Default)]
pub(crate) struct FlowControl {
    executing: Family<LevelLabels, Gauge>,
    seats: Family<LevelLabels, Gauge>,
    queued: Family<LevelLabels, Gauge>,
    nominal: Family<LevelLabels, Gauge>,
    rejected: Family<RejectionLabels, Counter>,
}

impl FlowControl {
    fn register(&self, registry: &mut Registry) {
        let flow_control = registry.sub_registry_with_prefix("flowcontrol");
        let mut gauge = |name, help, gauge: &Family<LevelLabels, Gauge>| {
            flow_control.register(name, help, gauge.clone());
        };
        gauge("current_executing_requests", "Requests that are being answered", &self.executing);
        gauge("current_executing_seats", "Seats that they hold", &self.seats);
        gauge("current_inqueue_requests", "Requests that wait for a seat", &self.queued);
        gauge("nominal_limit_seats", "Seats that are a level's own", &self.nominal);
        let help = "Requests that found no place";
        flow_control.register("rejected_requests", help, self.rejected.clone());
    }

    pub(crate) fn executing(&self, level: PriorityLevel, requests: usize, seats: usize) {
        set(&self.executing, level, requests);
        set(&self.seats, level, seats);
    }

    pub(crate) fn waiting(&self, level: PriorityLevel, requests: usize, nominal: usize) {
        set(&self.queued, level, requests);
        set(&self.nominal, level, nominal);
    }

    pub(crate) fn reject(&self, level: PriorityLevel, why: Rejection) {
        let labels = RejectionLabels { priority_level: level.as_str(), reason: why.as_str() };
        self.rejected.get_or_create(&labels).inc();
    }
}

fn set(family: &Family<LevelLabels, Gauge>, level: PriorityLevel, value: usize) {
    let labels = LevelLabels { priority_level: level.as_str() };
    family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
}

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) flow_control: FlowControl,
    requests: Family<RequestLabels, Counter>,
    duration: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("apiserver");
        let requests = Family::<RequestLabels, Counter>::default();
        registry.register("request", "Requests answered", requests.clone());
        // 0.1 ms to about 13 s, doubling.
        let buckets = std::iter::successors(Some(0.0001), |b| Some(b * 2.0)).take(18);
        let duration = Histogram::new(buckets);
        let help = "Time to the answer's head, watches included";
        registry.register("request_duration_seconds", help, duration.clone());
        let flow_control = FlowControl::default();
        flow_control.register(&mut registry);
        Self { registry, flow_control, requests, duration }
    }
}

impl Metrics {
    /// Counts an answer. `resource` is one that is served, or empty: what clients make up would
    /// stay for ever.
    pub(crate) fn observe(&self, method: &Method, resource: &str, code: u16, took: Duration) {
        let known = matches!(
            *method,
            Method::GET
                | Method::HEAD
                | Method::POST
                | Method::PUT
                | Method::PATCH
                | Method::DELETE
        );
        let verb = if known { method.as_str() } else { "OTHER" };
        let labels = RequestLabels { verb: verb.to_owned(), resource: resource.to_owned(), code };
        self.requests.get_or_create(&labels).inc();
        self.duration.observe(took.as_secs_f64());
    }

    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        if let Err(error) = text::encode(&mut out, &self.registry) {
            tracing::error!(%error, "cannot write metrics");
        }
        out
    }
}
