//! A server that answers range queries as Prometheus does, about so many objects, all in use.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The query that every source can see.
pub(crate) const AVAILABLE: &str = "available";
/// Counters by Service, and by address.
pub(crate) const BY_SERVICE: &str = "by_service";
pub(crate) const BY_ADDRESS: &str = "by_address";
/// Seconds between two points, whatever is asked for: the collector asks for the same.
pub(crate) const STEP: u32 = 30;
/// Where the objects are, by Service and by address.
pub(crate) const NAMESPACE: &str = "workspaces";
pub(crate) const PORT: u16 = 8080;

#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(objects: usize) -> Result<Self> {
        let series = Arc::new(Series::of(objects));
        let answer = move |body: String| {
            let series = series.clone();
            async move { series.answer(&body).ok_or(StatusCode::BAD_REQUEST) }
        };
        let app = Router::new().route("/api/v1/query_range", post(answer));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            // It ends with the benchmark.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { address, task })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The address of an object.
pub(crate) fn address(object: usize) -> Result<Ipv4Addr> {
    let object = u32::try_from(object).context("more objects than addresses")?;
    Ok(Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + object))
}

/// The labels of each series, as they are in every answer.
struct Series {
    by_service: Vec<String>,
    by_address: Vec<String>,
}

impl Series {
    fn of(objects: usize) -> Self {
        let service = |n| {
            format!(r#"{{"exported_namespace":"{NAMESPACE}","exported_service":"object-{n}"}}"#)
        };
        let by_address = |n| {
            let ip = address(n).unwrap_or(Ipv4Addr::UNSPECIFIED);
            format!(r#"{{"destination_ip":"{ip}","destination_port":"{PORT}"}}"#)
        };
        Self {
            by_service: (0..objects).map(service).collect(),
            by_address: (0..objects).map(by_address).collect(),
        }
    }

    /// The answer to a form; nothing if it asks for anything else.
    fn answer(&self, form: &str) -> Option<String> {
        let field = |name: &str| {
            let mut fields = form.split('&').filter_map(|field| field.split_once('='));
            fields.find_map(|(field, value)| (field == name).then_some(value))
        };
        let seconds = |name: &str| field(name)?.split('.').next()?.parse::<u32>().ok();
        let (start, end) = (seconds("start")?, seconds("end")?);
        let available = [String::from("{}")];
        let labels: &[String] = match field("query")? {
            AVAILABLE => &available,
            BY_SERVICE => &self.by_service,
            BY_ADDRESS => &self.by_address,
            _ => return None,
        };
        let mut text =
            String::from(r#"{"status":"success","data":{"resultType":"matrix","result":["#);
        for (index, labels) in labels.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            // Writing to memory cannot fail.
            let _ = write!(text, r#"{comma}{{"metric":{labels},"values":["#);
            for at in (start..=end).step_by(STEP as usize) {
                let comma = if at == start { "" } else { "," };
                // It grows with every point.
                let _ = write!(text, r#"{comma}[{at},"{}"]"#, at / STEP);
            }
            text.push_str("]}");
        }
        text.push_str("]}}");
        Some(text)
    }
}
