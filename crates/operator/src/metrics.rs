//! What the controllers count, for Prometheus.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    known: Arc<Mutex<Known>>,
}

#[derive(Debug)]
struct Known {
    registry: Registry,
    /// What was made, by whom it is for.
    made: BTreeMap<String, Box<dyn Any + Send>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::with_prefix("sojourn");
        let known = Known { registry, made: BTreeMap::new() };
        Self { known: Arc::new(Mutex::new(known)) }
    }
}

impl Metrics {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is counted for `whom`, made and registered the first time. Whoever is started again, as by
    /// a replica that leads again, goes on counting where it was.
    pub(crate) fn once<T>(&self, whom: &str, make: impl FnOnce(&mut Registry) -> T) -> T
    where
        T: Clone + Send + 'static,
    {
        let Known { registry, made } = &mut *self.lock();
        if let Some(made) = made.get(whom).and_then(|made| made.downcast_ref::<T>()) {
            return made.clone();
        }
        let new = make(registry);
        made.insert(whom.to_owned(), Box::new(new.clone()));
        new
    }

    /// The counters of a controller.
    pub fn reconciles(&self, controller: &'static str) -> Reconciles {
        self.once(&format!("reconciles of {controller}"), |registry| {
            let counts = Reconciles::default();
            counts.register(registry, controller);
            counts
        })
    }

    /// Counts the Events of a controller that were not written.
    pub fn events_left_out(&self, controller: &'static str) -> Counter {
        self.once(&format!("events of {controller}"), |registry| {
            let counter = Counter::default();
            registry.sub_registry_with_label(("controller".into(), controller.into())).register(
                "events_left_out",
                "Events that were not written because too many waited",
                counter.clone(),
            );
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

    /// The text that a scrape gets.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.lock().registry);
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
