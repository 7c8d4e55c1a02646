//! What is counted of decisions.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::Answer;
use crate::metrics::Metrics;

/// Upper bounds in seconds: an answer takes microseconds, and one that is stored first up to a second.
const LATENCY_BOUNDS: [f64; 10] =
    [0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.1, 0.5, 1.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabel {
    answer: &'static str,
}

/// The counters of an authorizer.
#[derive(Debug, Clone)]
pub struct DecisionMetrics {
    allowed: Counter,
    no_opinion: Counter,
    latency: Histogram,
}

impl DecisionMetrics {
    pub fn new(metrics: &Metrics) -> Self {
        let family = metrics.family("access_decisions", "Decisions about requests, by answer");
        let answered = |answer| family.get_or_create_owned(&AnswerLabel { answer });
        let latency = metrics.once("access_decision_seconds", |registry| {
            let latency = Histogram::new(LATENCY_BOUNDS);
            let help = "How long API servers waited for a decision, without the network";
            registry.register("access_decision_seconds", help, latency.clone());
            latency
        });
        Self { allowed: answered("allowed"), no_opinion: answered("no_opinion"), latency }
    }

    pub(super) fn count(&self, answer: &Answer) {
        match answer {
            Answer::Allowed { .. } => self.allowed.inc(),
            Answer::NoOpinion { .. } => self.no_opinion.inc(),
        };
    }

    pub(in crate::access) fn observe_latency(&self, taken: Duration) {
        self.latency.observe(taken.as_secs_f64());
    }

    /// How many decisions there were: allowed, and without an opinion.
    pub fn totals(&self) -> (u64, u64) {
        (self.allowed.get(), self.no_opinion.get())
    }
}
