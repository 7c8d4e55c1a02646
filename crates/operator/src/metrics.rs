//! What the controllers count, for Prometheus.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use crate::frame::Class;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabel {
    controller: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    controller: &'static str,
    class: &'static str,
}

/// The counters of one controller.
#[derive(Debug, Clone, Default)]
pub struct Reconciles {
    started: Counter,
    transient: Counter,
    outdated: Counter,
    blocked: Counter,
    bugs: Counter,
}

impl Reconciles {
    pub(crate) fn started(&self) {
        self.started.inc();
    }

    pub(crate) fn failed(&self, class: Class) {
        match class {
            Class::Transient => &self.transient,
            Class::Outdated => &self.outdated,
            Class::Blocked => &self.blocked,
            Class::Bug => &self.bugs,
        }
        .inc();
    }

    /// How many looks there were.
    pub fn total(&self) -> u64 {
        self.started.get()
    }

    /// How many of them failed, but for those that somebody else made outdated.
    pub fn failures(&self) -> u64 {
        [&self.transient, &self.blocked, &self.bugs].into_iter().map(Counter::get).sum()
    }
}

/// Everything that is counted, ready to be scraped.
#[derive(Debug, Clone)]
pub struct Metrics {
    registered: Arc<Mutex<RegisteredMetrics>>,
}

#[derive(Debug)]
struct RegisteredMetrics {
    registry: Registry,
    /// What was made, by whom it is for.
    made: BTreeMap<String, Box<dyn Any + Send>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::with_prefix("sojourn");
        let registered = RegisteredMetrics { registry, made: BTreeMap::new() };
        Self { registered: Arc::new(Mutex::new(registered)) }
    }
}

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, RegisteredMetrics> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is counted for `whom`, made and registered the first time. Whoever is started again, as by
    /// a replica that leads again, goes on counting where it was.
    pub(crate) fn once<T>(&self, whom: &str, make: impl FnOnce(&mut Registry) -> T) -> T
    where
        T: Clone + Send + 'static,
    {
        let RegisteredMetrics { registry, made } = &mut *self.lock();
        if let Some(made) = made.get(whom).and_then(|made| made.downcast_ref::<T>()) {
            return made.clone();
        }
        let new = make(registry);
        made.insert(whom.to_owned(), Box::new(new.clone()));
        new
    }

    /// A counter with labels, one of its name for everybody who counts in it: a page on which a name
    /// is explained twice is refused by whoever scrapes it.
    pub(crate) fn family<L>(&self, name: &'static str, help: &'static str) -> Family<L, Counter>
    where
        L: EncodeLabelSet + Debug + Clone + Hash + Eq + Send + Sync + 'static,
    {
        self.once(name, |registry| {
            let family = Family::default();
            registry.register(name, help, family.clone());
            family
        })
    }

    /// The counters of a controller.
    pub fn reconciles(&self, controller: &'static str) -> Reconciles {
        let started = self.family("reconciles", "Reconciles of objects that were started");
        let failures = self.family("reconcile_failures", "Reconciles that failed, by class");
        let failed = |class| failures.get_or_create_owned(&FailureLabels { controller, class });
        Reconciles {
            started: started.get_or_create_owned(&ControllerLabel { controller }),
            transient: failed("transient"),
            outdated: failed("outdated"),
            blocked: failed("blocked"),
            bugs: failed("bug"),
        }
    }

    /// Counts the Events of a controller that were not written.
    pub fn events_left_out(&self, controller: &'static str) -> Counter {
        let help = "Events that were not written because too many waited";
        self.family("events_left_out", help).get_or_create_owned(&ControllerLabel { controller })
    }

    pub(crate) fn counter(&self, name: &'static str, help: &'static str) -> Counter {
        self.once(name, |registry| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        })
    }

    pub fn gauge(&self, name: &'static str, help: &'static str) -> Gauge {
        self.once(name, |registry| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        })
    }

    /// Counts things whenever somebody asks; nothing, once `count` answers nothing. Whoever is started
    /// again counts from then on.
    pub(crate) fn count_states<F>(&self, whom: &'static str, count: F)
    where
        F: Fn() -> Vec<StateCounts> + Send + Sync + 'static,
    {
        let collector = self.once(whom, |registry| {
            let collector = StateCountCollector::default();
            registry.register_collector(Box::new(collector.clone()));
            collector
        });
        *collector.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(count));
    }

    /// The page that a scrape gets, in the text format 0.0.4 of Prometheus.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.lock().registry);
        without_open_metrics(&text)
    }
}

/// How many there are of something, by labels of few values.
#[derive(Debug)]
pub(crate) struct StateCounts {
    name: &'static str,
    help: &'static str,
    counts: Counts,
}

#[derive(Debug)]
enum Counts {
    By(&'static str, BTreeMap<String, i64>),
    Conditions(ConditionCounts),
}

impl StateCounts {
    pub(crate) fn by(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        counts: BTreeMap<String, i64>,
    ) -> Self {
        Self { name, help, counts: Counts::By(label, counts) }
    }

    pub(crate) fn conditions(
        name: &'static str,
        help: &'static str,
        counts: ConditionCounts,
    ) -> Self {
        Self { name, help, counts: Counts::Conditions(counts) }
    }
}

/// How many objects have a condition, by its type and its status: some are bad when they are True, others when
/// they are False.
#[derive(Debug, Default)]
pub(crate) struct ConditionCounts(BTreeMap<(String, String), i64>);

impl ConditionCounts {
    pub(crate) fn add(&mut self, conditions: &[Condition]) {
        for condition in conditions {
            let labels = (condition.type_.clone(), condition.status.clone());
            *self.0.entry(labels).or_default() += 1;
        }
    }
}

type Count = Box<dyn Fn() -> Vec<StateCounts> + Send + Sync>;

/// What is counted when somebody asks.
#[derive(Clone, Default)]
struct StateCountCollector(Arc<Mutex<Option<Count>>>);

impl Debug for StateCountCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StateCountCollector").finish()
    }
}

impl Collector for StateCountCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let count = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for StateCounts { name, help, counts } in count.iter().flat_map(|count| count()) {
            let kind = ConstGauge::new(0_i64).metric_type();
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            match counts {
                Counts::By(label, counts) => {
                    for (value, count) in counts {
                        let labels = [(label, value.as_str())];
                        ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
                    }
                }
                Counts::Conditions(ConditionCounts(counts)) => {
                    for ((kind, status), count) in counts {
                        let labels = [("type", kind.as_str()), ("status", status.as_str())];
                        ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The encoder speaks OpenMetrics, where a counter is announced without the `_total` that its samples
/// have, and the page has an end mark. Neither is so in the format that everybody reads.
fn without_open_metrics(text: &str) -> String {
    let counters: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut page = String::with_capacity(text.len());
    for line in text.lines() {
        let announced = ["# HELP ", "# TYPE "].into_iter().find_map(|mark| {
            let (name, rest) = line.strip_prefix(mark)?.split_once(' ')?;
            counters.contains(name).then(|| format!("{mark}{name}_total {rest}"))
        });
        match announced {
            Some(announced) => page.push_str(&announced),
            None if line == "# EOF" => continue,
            None => page.push_str(line),
        }
        page.push('\n');
    }
    page
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;
    use crate::tool::of_prometheus;

    fn condition(status: &str) -> Condition {
        Condition {
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            message: String::new(),
            observed_generation: None,
            reason: "Test".to_owned(),
            status: status.to_owned(),
            type_: "Ready".to_owned(),
        }
    }

    #[test]
    fn a_controller_that_is_started_again_goes_on_counting() {
        let metrics = Metrics::default();
        metrics.reconciles("lab").started();
        metrics.reconciles("lab").started();
        let text = metrics.text();
        let counted: Vec<_> =
            text.lines().filter(|line| line.starts_with("sojourn_reconciles_total")).collect();
        assert_eq!(counted, ["sojourn_reconciles_total{controller=\"lab\"} 2"]);
    }

    #[test]
    fn a_name_is_explained_once_however_many_count_in_it() {
        let metrics = Metrics::default();
        for controller in ["lab", "group", "machine"] {
            let reconciles = metrics.reconciles(controller);
            reconciles.started();
            reconciles.failed(Class::Transient);
            metrics.events_left_out(controller).inc();
        }
        let text = metrics.text();
        let mut explained: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next())
            .collect();
        explained.sort_unstable();
        assert_eq!(
            explained,
            [
                "sojourn_events_left_out_total",
                "sojourn_reconcile_failures_total",
                "sojourn_reconciles_total"
            ]
        );
        assert!(!text.contains("# EOF"), "{text}");
        assert!(text.contains("# TYPE sojourn_reconciles_total counter"), "{text}");
    }

    /// What promtool has against a page.
    fn checked(promtool: &Path, page: &str) -> String {
        let mut check = Command::new(promtool)
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool starts");
        let mut stdin = check.stdin.take().expect("it was asked for");
        stdin.write_all(page.as_bytes()).expect("it reads");
        drop(stdin);
        let output = check.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if output.status.success() { said } else { format!("{}: {said}", output.status) }
    }

    #[test]
    fn promtool_accepts_the_page() {
        let Some(promtool) = of_prometheus("promtool") else { return };
        let metrics = Metrics::default();
        for controller in ["lab", "group", "machine"] {
            let reconciles = metrics.reconciles(controller);
            reconciles.started();
            reconciles.failed(Class::Blocked);
            metrics.events_left_out(controller).inc();
        }
        metrics.gauge("leader", "Whether this replica is the one that acts").set(1);
        metrics.counter("api_request_retries", "Reads that were sent again").inc();
        metrics.count_states("things", || {
            let counts = BTreeMap::from([("Ready".to_owned(), 3), ("Off".to_owned(), 1)]);
            let mut conditions = ConditionCounts::default();
            for status in ["True", "False", "False"] {
                conditions.add(&[condition(status)]);
            }
            vec![
                StateCounts::by("things", "Things, by phase", "phase", counts),
                StateCounts::conditions("thing_conditions", "Conditions of things", conditions),
            ]
        });
        let page = metrics.text();
        let ready = "sojourn_thing_conditions{type=\"Ready\",status=\"False\"} 2";
        assert!(page.contains(ready), "{page}");
        assert!(page.contains("sojourn_things{phase=\"Ready\"} 3"), "{page}");
        assert_eq!(checked(&promtool, &page), "", "{page}");
        let twice = format!("{page}# HELP sojourn_leader Again.\n");
        assert_ne!(checked(&promtool, &twice), "", "it would say so");
    }
}
