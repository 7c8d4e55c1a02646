//! Against a real Prometheus, which scrapes a scripted exporter every second.

#![expect(clippy::disallowed_methods, reason = "a real Prometheus lives in real time")]

use sojourn_core::lab::source;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sojourn_drivers::metrics::prometheus::Address;
use sojourn_drivers::metrics::{Prometheus, Window};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::tool::of_prometheus;

/// How long anything may take to show.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// What the exporter answers; `None`: nothing, it is down.
type Page = Arc<Mutex<Option<String>>>;

async fn exporter(page: Page) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let page = page.lock().unwrap().clone();
            let Some(page) = page else { continue };
            let _ = stream.read(&mut [0; 4096]).await;
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(format!("{head}{page}").as_bytes()).await;
        }
    });
    port
}

/// A Prometheus of this test's own; it ends with the test.
struct Server {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Server {
    /// `None` if there is no Prometheus here.
    fn start(target: u16) -> Option<Self> {
        static FOLDERS: AtomicU64 = AtomicU64::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("sojourn-prometheus-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let config = format!(
            "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
             scrape_configs:\n\
             - {{job_name: lab, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}\n"
        );
        std::fs::write(folder.join("prometheus.yml"), config).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = spawn(&folder, port, &[])?;
        Some(Self { child, folder, port })
    }

    fn client(&self) -> Prometheus {
        let url = format!("http://127.0.0.1:{}", self.port);
        Prometheus::new(Address { url, token_file: None, ca_file: None }).unwrap()
    }

    /// As a crash of the machine would: without a shutdown.
    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn start_again(&mut self, more: &[&str]) {
        self.child = spawn(&self.folder, self.port, more).expect("it was there a moment ago");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn spawn(folder: &Path, port: u16, more: &[&str]) -> Option<Child> {
    let started = Command::new(of_prometheus("prometheus")?)
        .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Some(started.expect("Prometheus starts"))
}

/// The usual data, and the usual availability with a range that fits scrapes of a second.
fn usual(source: Source) -> Polled {
    let usual = default_query(source);
    let up = r#"min(min_over_time(up{job="lab"}[3s]))"#;
    Polled { available: up.to_owned(), ..usual }
}

/// The collector, the exporter's page, and the real time.
struct Scene {
    page: Page,
    collector: Collector,
    tracker: Tracker,
    coverage_registry: Arc<CoverageRegistry>,
}

impl Scene {
    fn new(server: &Server, page: Page) -> Self {
        let mut objects = Objects::default();
        objects.addresses.insert(("10.0.0.1".parse().unwrap(), 22), key("vm-1"));
        let options = Options {
            interval: secs(1),
            step: secs(1),
            look_back: secs(30),
            polled: vec![usual(source::NGINX), usual(source::BASTION_SSH)],
            pushed: Vec::new(),
        };
        let tracker = Tracker::new(secs(1), Arc::new(|_| {}));
        let coverage_registry = Arc::<CoverageRegistry>::default();
        let collector = Collector::new(
            options,
            Some(Arc::new(server.client())),
            Arc::new(objects),
            tracker.clone(),
            Arc::clone(&coverage_registry),
            Arc::new(|_| {}),
        );
        Self { page, collector, tracker, coverage_registry }
    }

    fn show(&self, requests: u32, ssh: Option<u32>) {
        let mut page = format!(
            "nginx_ingress_controller_requests{{exported_namespace=\"tenant\",\
             exported_service=\"vm-10\",status=\"200\"}} {requests}\n"
        );
        if let Some(ssh) = ssh {
            let labels = r#"{destination_ip="10.0.0.1",destination_port="22"}"#;
            page += &format!("bastion_ssh_connections{labels} {ssh}\n");
        }
        *self.page.lock().unwrap() = Some(page);
    }

    /// Ticks once a second until something shows.
    async fn until(&mut self, what: &str, shows: impl Fn(&Self, Timestamp) -> bool) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        let started = Instant::now();
        loop {
            ticks.tick().await;
            let now = Timestamp::now();
            let stats = self.collector.tick(now).await;
            if shows(self, now) {
                return;
            }
            let snapshot = self.coverage_registry.read();
            assert!(started.elapsed() < TEST_TIMEOUT, "no {what}: {stats:?}, {snapshot:?}");
        }
    }

    async fn until_it_sees(&mut self) {
        self.until("sight", |scene, now| !scene.is_blind(now)).await;
    }

    fn is_blind(&self, now: Timestamp) -> bool {
        let snapshot = self.coverage_registry.read();
        BOTH.iter().any(|source| snapshot.coverage(*source).blind_since(now).is_some())
    }

    fn observed(&self, from: Timestamp, to: Timestamp) -> SignedDuration {
        let snapshot = self.coverage_registry.read();
        let coverages: Vec<_> = BOTH.iter().map(|source| snapshot.coverage(*source)).collect();
        observed_by_all(&coverages, from, to)
    }

    fn used(&self, name: &str) -> Option<ActivityReport> {
        let seen = self.tracker.peek(&key(name))?;
        self.tracker.acknowledge(&key(name), &seen);
        Some(seen)
    }
}

// case: lab A6, A9, A12, A14
#[tokio::test]
async fn use_outages_of_the_target_and_of_the_server_itself() {
    let page = Page::default();
    let target = exporter(Arc::clone(&page)).await;
    let Some(mut server) = Server::start(target) else { return };
    let mut scene = Scene::new(&server, page);
    scene.show(5, None);
    scene.until_it_sees().await;
    let begin = Timestamp::now();

    // One request, and one first login.
    scene.show(6, Some(1));
    scene.until("use", |s, _| s.tracker.peek(&key("vm-1")).is_some()).await;
    let login = scene.used("vm-1").unwrap();
    assert_eq!((login.source, login.count), (source::BASTION_SSH, 1));
    let request = scene.used("vm-10").unwrap();
    assert_eq!((request.source, request.last), (source::NGINX, login.last), "one scrape had both");
    assert!(login.last > begin);

    // The target is down, and back with the same values: no use, and no idleness either.
    *scene.page.lock().unwrap() = None;
    let down = Timestamp::now();
    scene.until("blindness", Scene::is_blind).await;
    scene.show(6, Some(1));
    scene.until_it_sees().await;
    let up = Timestamp::now();
    let observed = scene.observed(down, up);
    assert!(observed < up.duration_since(down) - secs(2), "{observed} of {down} to {up}");
    assert_eq!((scene.used("vm-1"), scene.used("vm-10")), (None, None));

    // Prometheus is killed; somebody comes meanwhile.
    server.kill();
    let killed = Timestamp::now();
    scene
        .until("trouble", |s, _| s.coverage_registry.read().trouble(source::NGINX).is_some())
        .await;
    let words = scene.coverage_registry.read().trouble(source::NGINX).unwrap().to_owned();
    assert!(words.contains("cannot ask"), "{words}");
    scene.show(6, Some(2));
    scene.until("blindness", Scene::is_blind).await;
    let away = Timestamp::now();
    server.start_again(&[]);
    scene.until("use in the dark", |s, _| s.tracker.peek(&key("vm-1")).is_some()).await;
    assert_eq!(scene.used("vm-1").map(|seen| seen.count), Some(1));
    scene.until_it_sees().await;
    let observed = scene.observed(killed, away);
    let most = secs(4);
    assert!(observed <= most, "{observed} of the time without Prometheus, {killed} to {away}");
    assert_eq!(scene.used("vm-10"), None, "it is only back");
    assert!(scene.observed(begin, Timestamp::now()) > secs(3));

    // Its limits are told apart from other refusals.
    server.kill();
    server.start_again(&["--query.max-samples=3"]);
    let client = server.client();
    let end = Timestamp::now();
    let window = |start| Window { start, end, step: secs(1) };
    let refused = refusal(&client, "up", window(begin)).await;
    assert!(refused.contains("too many samples"), "{refused}");
    let refused = refusal(&client, "up", window(end - secs(11_001))).await;
    assert!(refused.contains("11,000 points"), "{refused}");
    let refused = client.range("up{", window(begin)).await.unwrap_err();
    assert!(matches!(&refused, QueryError::Refused { status: 400, .. }), "{refused}");
}

/// What the server says when it finds a query too large, as soon as it says anything.
async fn refusal(client: &Prometheus, query: &str, window: Window) -> String {
    let mut tries = tokio::time::interval(Duration::from_millis(200));
    let started = Instant::now();
    loop {
        tries.tick().await;
        match client.range(query, window).await {
            Err(error @ QueryError::TooMuch { .. }) => return error.to_string(),
            other => assert!(started.elapsed() < TEST_TIMEOUT, "not too much: {other:?}"),
        }
    }
}
