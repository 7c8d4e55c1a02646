//! `/metrics` for Prometheus and `/healthz` for whoever keeps the tracker running.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::Tracker;
use super::counts::Series;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Shows what the tracker knows, as it is at the moment of each scrape.
#[derive(Debug, Clone)]
pub(super) struct Exporter {
    tracker: Arc<Tracker>,
}

impl Exporter {
    pub(super) fn new(tracker: Arc<Tracker>) -> Self {
        Self { tracker }
    }

    pub(super) fn router(self) -> Router {
        Router::new()
            .route("/metrics", get(metrics))
            .route("/healthz", get(healthz))
            .with_state(self)
    }
}

async fn metrics(State(exporter): State<Exporter>) -> Response {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(exporter));
    let mut body = String::new();
    match text::encode(&mut body, &registry) {
        Ok(()) => ([(CONTENT_TYPE, OPEN_METRICS)], body).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn healthz(State(exporter): State<Exporter>) -> Response {
    match exporter.tracker.health(Instant::now()) {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

impl Collector for Exporter {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = Instant::now();
        let (series, left_out) = {
            let counts = self.tracker.counts();
            (counts.series(now), counts.left_out())
        };
        // OpenMetrics would have a counter end in `_total`, but this name is what dashboards and
        // activity queries ask for. It counts all the same; only its type is not told.
        encode_series(
            &mut encoder,
            ("bastion_ssh_connections", "Connections opened to the destination so far"),
            MetricType::Unknown,
            &series,
            |series| series.opened,
        )?;
        encode_series(
            &mut encoder,
            ("bastion_ssh_open_connections", "Connections open to the destination now"),
            MetricType::Gauge,
            &series,
            |series| series.open,
        )?;
        let help = "Connections in no series, because there are too many destinations";
        let left_out = ConstCounter::new(left_out);
        left_out.encode(encoder.encode_descriptor(
            "bastion_ssh_connections_left_out",
            help,
            None,
            left_out.metric_type(),
        )?)?;
        let up = ConstGauge::new(u64::from(self.tracker.health(now).is_ok()));
        let help = "Whether connections can be read";
        up.encode(encoder.encode_descriptor(
            "bastion_ssh_tracker_up",
            help,
            None,
            up.metric_type(),
        )?)
    }
}

fn encode_series(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    metric_type: MetricType,
    all: &[Series],
    value: fn(&Series) -> u64,
) -> fmt::Result {
    let mut encoder = encoder.encode_descriptor(name, help, None, metric_type)?;
    for series in all {
        let labels = [
            ("destination_ip", series.destination.ip.to_string()),
            ("destination_port", series.destination.port.to_string()),
        ];
        encoder.encode_family(&labels)?.encode_gauge(&value(series))?;
    }
    Ok(())
}
