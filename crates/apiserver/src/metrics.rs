//! What `/metrics` shows.

use std::time::Duration;

use http::Method;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: String,
    resource: String,
    code: u16,
}

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
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
        Self { registry, requests, duration }
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
