//! What the controllers count, for Prometheus.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::frame::Class;

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

    fn register(&self, registry: &mut Registry, controller: &'static str) {
        let label = [("controller".into(), controller.into())];
        let registry = registry.sub_registry_with_labels(label.into_iter());
        registry.register("reconciles", "Looks at objects", self.started.clone());
        for (class, counter) in [
            ("transient", &self.transient),
            ("outdated", &self.outdated),
            ("blocked", &self.blocked),
            ("bug", &self.bugs),
        ] {
            registry.sub_registry_with_label(("class".into(), class.into())).register(
                "reconcile_failures",
                "Looks that failed",
                counter.clone(),
            );
        }
    }
}

/// Everything that is counted, ready to be scraped.
#[derive(Debug, Clone)]
pub struct Metrics {
    known: Arc<std::sync::Mutex<Known>>,
}

#[derive(Debug)]
struct Known {
    registry: Registry,
    reconciles: BTreeMap<&'static str, Reconciles>,
}

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::with_prefix("sojourn");
        let known = Known { registry, reconciles: BTreeMap::new() };
        Self { known: Arc::new(std::sync::Mutex::new(known)) }
    }
}

impl Metrics {
    fn with<T>(&self, act: impl FnOnce(&mut Known) -> T) -> T {
        act(&mut self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// The counters of a controller. One that is started again, as by a replica that leads again,
    /// goes on counting where it was.
    pub fn reconciles(&self, controller: &'static str) -> Reconciles {
        self.with(|Known { registry, reconciles }| {
            let counts = reconciles.entry(controller).or_insert_with(|| {
                let counts = Reconciles::default();
                counts.register(registry, controller);
                counts
            });
            counts.clone()
        })
    }

    /// Counts the Events of a controller that were not written.
    pub fn events_left_out(&self, controller: &'static str) -> Counter {
        let counter = Counter::default();
        self.with(|registry| {
            registry.sub_registry_with_label(("controller".into(), controller.into())).register(
                "events_left_out",
                "Events that were not written because too many waited",
                counter.clone(),
            );
        });
        counter
    }

    pub fn counter(&self, name: &'static str, help: &'static str) -> Counter {
        let counter = Counter::<u64, AtomicU64>::default();
        self.with(|known| known.registry.register(name, help, counter.clone()));
        counter
    }

    pub fn gauge(&self, name: &'static str, help: &'static str) -> Gauge {
        let gauge = Gauge::default();
        self.with(|known| known.registry.register(name, help, gauge.clone()));
        gauge
    }

    /// The text that a scrape gets.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.with(|known| {
            // Writing to a string does not fail.
            let _ = encode(&mut text, &known.registry);
        });
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
