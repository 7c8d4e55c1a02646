//! A real Prometheus that scrapes a small exporter of the test's, or our own tracker.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::folder::Folder;
use crate::process::Running;
use crate::tool::{Tools, free_port};
use crate::visitor;
use crate::wait::eventually;

/// What is scraped, each a target with an `up` of its own and the labels that the default queries
/// look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Job {
    Nginx,
    Bastion,
    WebSsh,
}

impl Job {
    const ALL: [Self; 3] = [Self::Nginx, Self::Bastion, Self::WebSsh];

    const fn path(self) -> &'static str {
        match self {
            Self::Nginx => "/nginx",
            Self::Bastion => "/bastion",
            Self::WebSsh => "/webssh",
        }
    }

    const fn label(self) -> (&'static str, &'static str) {
        match self {
            Self::Nginx => ("service", "ingress-nginx-external-controller-metrics"),
            Self::Bastion => ("container", "bastion-operator"),
            Self::WebSsh => ("container", "webssh"),
        }
    }

    /// Whether it could see: as the default query has it, but what was down a moment ago is forgotten
    /// after seconds instead of minutes.
    pub(crate) fn available(self) -> String {
        let (label, value) = self.label();
        format!("min(min_over_time(up{{{label}=\"{value}\"}}[3s]))")
    }

    /// How many of its targets are up.
    pub(crate) fn up(self) -> String {
        let (label, value) = self.label();
        format!("sum(up{{{label}=\"{value}\"}})")
    }
}

#[derive(Debug, Default)]
struct ExporterState {
    /// By what stands before the value.
    series: BTreeMap<(Job, String), f64>,
    down: BTreeSet<Job>,
}

/// What Prometheus scrapes.
#[derive(Debug)]
pub(crate) struct Exporter {
    shown: Arc<Mutex<ExporterState>>,
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Exporter {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shown = Arc::new(Mutex::new(ExporterState::default()));
        let serving = tokio::spawn(serve(listener, shown.clone()));
        Self { shown, address, serving }
    }

    /// Requests that went through the ingress to a Service.
    pub(crate) fn set_requests(&self, namespace: &str, service: &str, count: f64) {
        let series = format!(
            "nginx_ingress_controller_requests{{exported_namespace=\"{namespace}\",\
             exported_service=\"{service}\"}}"
        );
        self.lock().series.insert((Job::Nginx, series), count);
    }

    /// SSH connections that were opened to an address.
    pub(crate) fn set_connections(&self, destination: SocketAddr, count: f64) {
        let series = format!(
            "bastion_ssh_connections{{destination_ip=\"{}\",destination_port=\"{}\"}}",
            destination.ip(),
            destination.port()
        );
        self.lock().series.insert((Job::Bastion, series), count);
    }

    /// A target that is down answers every scrape with an error.
    pub(crate) fn set_down(&self, job: Job, is_down: bool) {
        let mut shown = self.lock();
        if is_down {
            shown.down.insert(job);
        } else {
            shown.down.remove(&job);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ExporterState> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, shown: Arc<Mutex<ExporterState>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let shown = shown.clone();
        let answer = service_fn(move |request| {
            let answer = answer(&request, &shown);
            async { Ok::<_, Infallible>(answer) }
        });
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
    }
}

fn answer(
    request: &Request<hyper::body::Incoming>,
    shown: &Mutex<ExporterState>,
) -> Response<Full<Bytes>> {
    let job = Job::ALL.into_iter().find(|job| job.path() == request.uri().path());
    let shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = String::new();
    for ((_, series), value) in shown.series.iter().filter(|((of, _), _)| Some(*of) == job) {
        writeln!(text, "{series} {value}").expect("a text takes all");
    }
    let status = match job {
        Some(job) if !shown.down.contains(&job) => StatusCode::OK,
        Some(_) => StatusCode::INTERNAL_SERVER_ERROR,
        None => StatusCode::NOT_FOUND,
    };
    let response = Response::builder().status(status).header("Content-Type", "text/plain");
    response.body(Full::new(text.into())).expect("a response")
}

/// The server; it keeps what it has seen while it is away.
#[derive(Debug)]
pub(crate) struct Prometheus {
    tools: Tools,
    port: u16,
    folder: Folder,
    server: Option<Running>,
}

impl Prometheus {
    pub(crate) async fn start(tools: &Tools, exporter: &Exporter) -> Self {
        Self::start_with(tools, exporter, None).await
    }

    /// With this for a bastion host, instead of what the exporter shows of one.
    pub(crate) async fn start_with(
        tools: &Tools,
        exporter: &Exporter,
        bastion: Option<SocketAddr>,
    ) -> Self {
        let folder = Folder::new();
        let jobs = Job::ALL.map(|job| {
            let (label, value) = job.label();
            let (target, path) = match bastion {
                Some(tracker) if job == Job::Bastion => (tracker, "/metrics"),
                _ => (exporter.address, job.path()),
            };
            json!({
                "job_name": job.path(),
                "metrics_path": path,
                "static_configs": [{"targets": [target.to_string()], "labels": {label: value}}],
            })
        });
        let config = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
            "scrape_configs": jobs,
        });
        std::fs::write(folder.join("prometheus.yml"), config.to_string()).expect("a file");
        let mut prometheus = Self { tools: tools.clone(), port: free_port(), folder, server: None };
        prometheus.start_again().await;
        prometheus
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// At the same port, with what it saw before.
    pub(crate) async fn start_again(&mut self) {
        assert!(self.server.is_none(), "it runs");
        let mut command = Command::new(&self.tools.prometheus);
        command.arg(format!("--config.file={}", self.folder.join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", self.folder.join("data").display()));
        command.arg(format!("--web.listen-address={}", self.address()));
        command.args(["--log.level=warn", "--storage.tsdb.retention.time=1d"]);
        command.current_dir(self.folder.path());
        self.server = Some(Running::start(command));
        let address = self.address();
        eventually("Prometheus is ready", async || {
            let answer = visitor::get(address, "/-/ready").await.ok()?;
            answer.status.is_success().then_some(())
        })
        .await;
    }

    /// As an orderly stop: what it saw is on disk.
    pub(crate) fn stop(&mut self) {
        let server = self.server.take().expect("it runs");
        server.signal("TERM");
        server.ended();
    }

    /// The values that a query has now.
    pub(crate) async fn query(&self, query: &str) -> Vec<f64> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!("/api/v1/query?query={escaped}");
        let answer = visitor::get(self.address(), &path).await.expect("an answer").json();
        assert_eq!(answer["status"], "success", "{answer}");
        let result = answer["data"]["result"].as_array().expect("a vector").clone();
        let value = |sample: Value| sample["value"][1].as_str()?.parse().ok();
        result.into_iter().filter_map(value).collect()
    }

    /// Waits until a query has these values.
    pub(crate) async fn until(&self, query: &str, values: &[f64]) {
        let what = format!("{query} is {values:?}");
        eventually(&what, async || (self.query(query).await == values).then_some(())).await;
    }
}

#[tokio::test]
async fn prometheus_sees_what_the_exporter_shows_and_remembers_it() {
    let Some(tools) = Tools::find() else { return };
    let exporter = Exporter::start().await;
    exporter.set_requests("ns", "one", 3.0);
    exporter.set_connections(([127, 0, 0, 1], 22).into(), 7.0);
    let mut prometheus = Prometheus::start(&tools, &exporter).await;
    let requests =
        "nginx_ingress_controller_requests{exported_namespace=\"ns\",exported_service=\"one\"}";
    prometheus.until(requests, &[3.0]).await;
    prometheus.until("bastion_ssh_connections{destination_port=\"22\"}", &[7.0]).await;
    for job in Job::ALL {
        prometheus.until(&job.up(), &[1.0]).await;
    }
    exporter.set_down(Job::Nginx, true);
    prometheus.until(&Job::Nginx.up(), &[0.0]).await;
    assert_eq!(prometheus.query(&Job::Bastion.up()).await, [1.0]);
    exporter.set_down(Job::Nginx, false);
    exporter.set_requests("ns", "one", 4.0);
    prometheus.until(requests, &[4.0]).await;
    prometheus.stop();
    assert!(visitor::get(prometheus.address(), "/-/ready").await.is_err(), "it is away");
    prometheus.start_again().await;
    let seen = format!("max_over_time({requests}[10m]) - min_over_time({requests}[10m])");
    prometheus.until(&seen, &[1.0]).await;
}
