//! The collector on a scripted metrics server. What the real one does is in `real`.

mod blindness;
mod catching_up;
mod chance;
mod identity;
mod real;

use sojourn_core::lab::source;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Mutex;

use sojourn_api::lab::LabConfig;
use sojourn_core::activity::ActivityReport;
use sojourn_core::coverage::observed_by_all;
use sojourn_core::key::Key;
use sojourn_drivers::metrics::fake::{Asked, Fake, Fault};
use sojourn_drivers::metrics::{Labels, QueryError};

use super::*;

const STEP: i64 = 30;
/// Some time into the epoch, so that looking back does not leave it, and a multiple of the step.
const T0: i64 = 999_990;

/// What the family asks by default.
fn default_query(source: Source) -> Polled {
    let config = LabConfig { prometheus_url: Some("http://p".to_owned()), ..LabConfig::default() };
    crate::lab::polled(&config, source).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(T0 + second).unwrap()
}

fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn key(name: &str) -> Key {
    Key::new("tenant", name)
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().copied().collect()
}

fn service(name: &str) -> Labels {
    labels(&[("exported_namespace", "tenant"), ("exported_service", name)])
}

fn address(ip: &str, port: &str) -> Labels {
    labels(&[("destination_ip", ip), ("destination_port", port)])
}

/// Services are named like their object; addresses are listed.
#[derive(Debug, Default)]
pub(super) struct Objects {
    addresses: BTreeMap<(IpAddr, u16), Key>,
}

impl Directory for Objects {
    fn by_service(&self, namespace: &str, service: &str) -> Option<Key> {
        service.starts_with("vm-").then(|| Key::new(namespace, service))
    }

    fn by_address(&self, ip: IpAddr, port: Option<u16>) -> Option<Key> {
        if let Some(port) = port {
            return self.addresses.get(&(ip, port)).cloned();
        }
        let mut having = self.addresses.iter().filter(|((other, _), _)| *other == ip);
        let (_, key) = having.next()?;
        having.all(|(_, other)| other == key).then(|| key.clone())
    }
}

/// A collector of Nginx (`web up`, `web`) and BastionSSH (`ssh up`, `ssh`), with all it needs.
struct CollectorTest {
    fake: Fake,
    tracker: Tracker,
    coverage_registry: Arc<CoverageRegistry>,
    collector: Collector,
    changed: Arc<Mutex<Vec<Source>>>,
}

fn options() -> Options {
    let polled = |source, name: &str, identity| Polled {
        source,
        available: format!("{name} up"),
        data: name.to_owned(),
        identity,
    };
    Options {
        look_back: secs(600),
        polled: vec![
            polled(
                source::NGINX,
                "web",
                Identity::service("exported_namespace", "exported_service"),
            ),
            polled(
                source::BASTION_SSH,
                "ssh",
                Identity::address("destination_ip", "destination_port"),
            ),
        ],
        ..Options::default()
    }
}

impl CollectorTest {
    /// Both sources have been up for ever, and nothing was used.
    fn new() -> Self {
        let fake = Fake::default();
        for up in ["web up", "ssh up"] {
            fake.set(up, &Labels::default(), at(-1_000_000), 1.0);
        }
        Self::with(fake, options(), Objects::default(), CoverageRegistry::default())
    }

    fn with(
        fake: Fake,
        options: Options,
        objects: Objects,
        coverage_registry: CoverageRegistry,
    ) -> Self {
        let tracker = Tracker::new(secs(30), Arc::new(|_| {}));
        let coverage_registry = Arc::new(coverage_registry);
        let changed = Arc::<Mutex<Vec<Source>>>::default();
        let list = Arc::clone(&changed);
        let collector = Collector::new(
            options,
            Some(Arc::new(fake.clone())),
            Arc::new(objects),
            tracker.clone(),
            Arc::clone(&coverage_registry),
            Arc::new(move |source| list.lock().unwrap().push(source)),
        );
        Self { fake, tracker, coverage_registry, collector, changed }
    }

    /// The process ends; a new one starts with what was stored then.
    fn restart(self, now: i64) -> Self {
        let stored = self.coverage_registry.persist(&self.tracker, at(now));
        Self::with(self.fake, options(), Objects::default(), CoverageRegistry::restore(stored))
    }

    async fn tick(&mut self, now: i64) -> TickStats {
        self.collector.tick(at(now)).await
    }

    /// A tick every step from `from` to `to`.
    async fn run(&mut self, from: i64, to: i64) {
        for now in (from..=to).step_by(30) {
            self.tick(now).await;
        }
    }

    fn up(&self, query: &str, second: i64, value: f64) {
        self.fake.set(query, &Labels::default(), at(second), value);
    }

    /// What waits for an object: when it was last used, by which source's word, how often.
    fn seen(&self, name: &str) -> Option<(i64, Source, u64)> {
        let ActivityReport { last, source, count } = self.tracker.peek(&key(name))?;
        Some((last.as_second() - T0, source, count))
    }

    /// The same, and it is in the object's status now.
    fn take(&self, name: &str) -> Option<(i64, Source, u64)> {
        let seen = self.seen(name);
        if let Some(peeked) = self.tracker.peek(&key(name)) {
            self.tracker.acknowledge(&key(name), &peeked);
        }
        seen
    }

    fn observed(&self, sources: &[Source], from: i64, to: i64) -> i64 {
        let snapshot = self.coverage_registry.read();
        let coverages: Vec<_> = sources.iter().map(|source| snapshot.coverage(*source)).collect();
        observed_by_all(&coverages, at(from), at(to)).as_secs()
    }

    fn blind(&self, source: Source, now: i64) -> Option<i64> {
        let since = self.coverage_registry.read().coverage(source).blind_since(at(now))?;
        Some(since.as_second() - T0)
    }

    fn changed(&self) -> Vec<Source> {
        std::mem::take(&mut self.changed.lock().unwrap())
    }

    /// Every question that begins so fails.
    fn fail(&self, begins: &'static str) {
        self.fake.script(move |asked: &Asked| {
            let error = QueryError::Ask { server: "fake".into(), reason: "it is away".into() };
            let fails = asked.query.starts_with(begins);
            if fails { vec![Fault::Fail(error)] } else { Vec::new() }
        });
    }
}

const WEB: &[Source] = &[source::NGINX];
const SSH: &[Source] = &[source::BASTION_SSH];
const BOTH: &[Source] = &[source::NGINX, source::BASTION_SSH];

// case: lab A3
#[tokio::test(start_paused = true)]
async fn without_use_only_what_was_observed_moves_on() {
    let mut test = CollectorTest::new();
    test.fake.set("web", &service("vm-1"), at(-5000), 7.0);
    test.run(0, 300).await;
    assert_eq!(test.seen("vm-1"), None);
    assert_eq!(test.observed(BOTH, -600, 300), 600 + 300 - STEP, "all but the newest step");
    assert_eq!(
        (test.blind(source::NGINX, 300), test.coverage_registry.read().trouble(source::NGINX)),
        (None, None)
    );
}

#[tokio::test(start_paused = true)]
async fn use_is_found_at_the_next_tick_and_counted_once() {
    let mut test = CollectorTest::new();
    test.fake.set("web", &service("vm-1"), at(-5000), 7.0);
    test.run(0, 60).await;
    test.fake.set("web", &service("vm-1"), at(70), 10.0);
    test.tick(90).await;
    assert_eq!(test.take("vm-1"), Some((90, source::NGINX, 3)));
    test.tick(120).await;
    assert_eq!(test.seen("vm-1"), None, "the step is looked at again, but it is no news");
    test.fake.set("web", &service("vm-1"), at(125), 11.0);
    test.tick(150).await;
    assert_eq!(test.take("vm-1"), Some((150, source::NGINX, 1)));
}

// case: lab A12
#[tokio::test(start_paused = true)]
async fn one_first_login_is_use() {
    let mut test = CollectorTest::new();
    test.run(0, 60).await;
    test.fake.set("web", &service("vm-1"), at(70), 1.0);
    test.run(90, 300).await;
    assert_eq!(test.seen("vm-1"), Some((90, source::NGINX, 1)));
}

// case: lab A1
#[tokio::test(start_paused = true)]
async fn the_newest_of_all_sources_wins() {
    let mut objects = Objects::default();
    objects.addresses.insert(("10.0.0.1".parse().unwrap(), 22), key("vm-1"));
    let test = CollectorTest::new();
    let mut test = CollectorTest::with(test.fake, options(), objects, CoverageRegistry::default());
    test.tick(0).await;
    test.fake.set("web", &service("vm-1"), at(10), 1.0);
    test.fake.set("ssh", &address("10.0.0.1", "22"), at(40), 1.0);
    test.tick(60).await;
    assert_eq!(test.seen("vm-1"), Some((60, source::BASTION_SSH, 2)));
}

#[tokio::test(start_paused = true)]
async fn an_open_session_is_use_all_the_time() {
    let mut objects = Objects::default();
    objects.addresses.insert(("10.0.0.1".parse().unwrap(), 22), key("vm-1"));
    let test = CollectorTest::new();
    let mut test = CollectorTest::with(test.fake, options(), objects, CoverageRegistry::default());
    let open = labels(&[
        ("__name__", "bastion_ssh_open_connections"),
        ("destination_ip", "10.0.0.1"),
        ("destination_port", "22"),
    ]);
    test.fake.set("ssh", &open, at(-5000), 1.0);
    test.run(0, 3600).await;
    assert_eq!(
        test.seen("vm-1"),
        Some((3600, source::BASTION_SSH, 0)),
        "nothing opens, nothing closes"
    );
    test.fake.set("ssh", &open, at(3610), 0.0);
    test.run(3630, 4000).await;
    assert_eq!(test.seen("vm-1"), Some((3600, source::BASTION_SSH, 0)));
}

#[tokio::test(start_paused = true)]
async fn the_number_of_queries_does_not_depend_on_the_number_of_objects() {
    let mut asked = Vec::new();
    for objects in [1, 10_000] {
        let mut test = CollectorTest::new();
        test.tick(0).await;
        for object in 0..objects {
            test.fake.set("web", &service(&format!("vm-{object}")), at(10), 1.0);
        }
        let stats = test.tick(30).await;
        assert_eq!((stats.matched, test.tracker.kept()), (objects, objects));
        assert_eq!(test.fake.times_asked(), 2 * 4);
        asked.push(stats.queries);
    }
    assert_eq!(asked, [4, 4], "two sources, two questions each");
}

#[tokio::test(start_paused = true)]
async fn it_runs_by_tokios_clock_and_skips_ticks_that_it_missed() {
    #[derive(Debug)]
    struct Virtual(Instant);
    impl Clock for Virtual {
        fn now(&self) -> Timestamp {
            at(0).checked_add(self.0.elapsed()).unwrap()
        }
    }
    let test = CollectorTest::new();
    test.fake.set("web", &service("vm-1"), at(100), 1.0);
    let slow = std::time::Duration::from_secs(70);
    test.fake.script(move |asked| match asked.window.end.as_second() - T0 {
        30 => vec![Fault::Slow(slow)],
        _ => Vec::new(),
    });
    let running = tokio::spawn(test.collector.run(Arc::new(Virtual(Instant::now()))));
    tokio::time::sleep(std::time::Duration::from_secs(601)).await;
    running.abort();
    assert_eq!(test.fake.asked().last().map(|a| a.window.end), Some(at(600)));
    assert_eq!(test.tracker.peek(&key("vm-1")).map(|seen| seen.last), Some(at(120)));
    let snapshot = test.coverage_registry.read();
    assert_eq!(snapshot.coverage(source::NGINX).observed(at(0), at(600)), secs(570));
}

#[tokio::test(start_paused = true)]
async fn sources_that_report_by_themselves_see_while_this_process_lives() {
    let pushed = || Options { pushed: vec![source::GATEWAY], ..Options::default() };
    let none = Objects::default;
    let mut test =
        CollectorTest::with(Fake::default(), pushed(), none(), CoverageRegistry::default());
    test.run(0, 300).await;
    assert_eq!(test.fake.times_asked(), 0);
    assert_eq!(test.observed(&[source::GATEWAY], 0, 310), 310, "also between two ticks");
    assert_eq!(
        (test.blind(source::GATEWAY, 310), test.blind(source::REPORT, 310).is_some()),
        (None, true)
    );
    assert_eq!(test.changed(), [source::GATEWAY], "once, at the start");

    let stored = test.coverage_registry.persist(&test.tracker, at(310));
    let mut test =
        CollectorTest::with(Fake::default(), pushed(), none(), CoverageRegistry::restore(stored));
    assert_eq!(test.blind(source::GATEWAY, 900), Some(310), "nobody is there yet");
    test.run(900, 960).await;
    assert_eq!(test.observed(&[source::GATEWAY], 0, 960), 310 + 60, "nobody was there in between");
    assert_eq!(test.changed(), [source::GATEWAY]);
}
