//! Runs the collector of activity under the present configuration, and stores the coverage of its
//! sources in one ConfigMap, so that a restart does not forget which time was observed.

use sojourn_core::lab::source;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use sojourn_api::lab::LabConfig;
use sojourn_api::name::shared;
use sojourn_core::activity::Source;
use sojourn_core::coverage::Gap;
use sojourn_core::key::Key;
use tokio::sync::Notify;

use super::caches::LabCaches;
use super::driver_factory::DriverFactory;
use crate::clock::Clock;
use crate::collector::{
    Collector, CoverageRecord, CoverageRegistry, Directory, Identity, Options, Polled,
};
use crate::configuration::Configuration;
use crate::replica::ReplicaRegistry;
use crate::tracker::Tracker;

/// The ConfigMap that holds what was observed.
const CONFIG_MAP: &str = "sojourn-lab-activity";
const KEY: &str = "coverage.json";
/// How often it is written. After a crash, use of this long is asked for again where it can be.
const STORE_INTERVAL: Duration = Duration::from_mins(5);
const RETRY_DELAY: Duration = Duration::from_secs(10);

impl Directory for LabCaches {
    fn by_service(&self, namespace: &str, service: &str) -> Option<Key> {
        Self::by_service(self, namespace, service)
    }

    fn by_address(&self, ip: IpAddr, port: Option<u16>) -> Option<Key> {
        Self::by_address(self, ip, port)
    }
}

/// Collects activity, and stores which time was observed.
pub(super) struct CoverageStore {
    pub(super) client: Client,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) config: Arc<Configuration<LabConfig>>,
    /// Told when the configuration changed.
    pub(super) reconfigured: Arc<Notify>,
    pub(super) driver_factory: Arc<dyn DriverFactory>,
    pub(super) caches: Arc<LabCaches>,
    pub(super) tracker: Tracker,
    pub(super) coverage_registry: Arc<CoverageRegistry>,
    /// The sources that report by themselves and that this process serves.
    pub(super) pushed: Vec<Source>,
    /// The other replicas that serve them, if there can be any.
    pub(super) replicas: Option<Arc<ReplicaRegistry>>,
    /// When it was last written down what was observed.
    pub(super) stored_at: tokio::sync::Mutex<Option<Timestamp>>,
}

/// The sources that the configuration and this process have.
pub(super) fn sources(config: &LabConfig, pushed: &[Source]) -> Vec<Source> {
    source::ALL
        .into_iter()
        .filter(|source| config.queries(*source).is_some() || pushed.contains(source))
        .collect()
}

/// What is asked of a metrics server about a source, if anything is.
pub(crate) fn polled(config: &LabConfig, source: Source) -> Option<Polled> {
    let (available, data) = config.queries(source)?;
    let labels = &config.activity_labels;
    let identity = if source == source::NGINX {
        Identity::service(&labels.service_namespace, &labels.service)
    } else {
        Identity::address(&labels.ip, &labels.port)
    };
    Some(Polled { source, available: available.to_owned(), data: data.to_owned(), identity })
}

impl CoverageStore {
    /// Collects for ever, with a new collector whenever the configuration changes.
    pub(super) async fn collect(self: Arc<Self>) {
        loop {
            let changed = self.reconfigured.notified();
            let config = self.config.current();
            match self.collector(&config) {
                Ok(collector) => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = collector.run(self.clock.clone()) => {}
                    }
                }
                Err(problem) => {
                    tracing::error!(problem, "cannot ask for metrics; every such source is blind");
                    changed.await;
                }
            }
        }
    }

    fn collector(&self, config: &LabConfig) -> Result<Collector, String> {
        let polled = source::ALL.into_iter().filter_map(|source| polled(config, source));
        let options = Options {
            interval: config.activity_interval,
            step: config.query_step,
            look_back: config.look_back,
            polled: polled.collect(),
            pushed: self.pushed.clone(),
        };
        let caches = self.caches.clone();
        Ok(Collector::new(
            options,
            self.driver_factory.metrics(config)?,
            self.caches.clone(),
            self.tracker.clone(),
            self.coverage_registry.clone(),
            Arc::new(move |_source| caches.wake_all_instances()),
        )
        .with_replicas(self.replicas.clone()))
    }

    /// Writes down what was observed, for ever.
    pub(super) async fn store_periodically(self: Arc<Self>) {
        loop {
            let tick = Duration::try_from(self.config.current().activity_interval);
            tokio::time::sleep(STORE_INTERVAL.max(tick.unwrap_or_default())).await;
            while let Err(error) = self.write().await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot write down what was observed"
                );
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }

    /// Makes sure that what was observed until `at` is on record. A warning rests on it: a process
    /// that forgot it would begin to count again, and warn again.
    pub(super) async fn ensure_stored(&self, at: Timestamp) -> Result<(), kube::Error> {
        let mut stored_at = self.stored_at.lock().await;
        if stored_at.is_none_or(|last| last < at) {
            *stored_at = Some(self.store().await?);
        }
        Ok(())
    }

    async fn write(&self) -> Result<(), kube::Error> {
        let mut stored_at = self.stored_at.lock().await;
        *stored_at = Some(self.store().await?);
        Ok(())
    }

    /// Answers with the time of what was written.
    async fn store(&self) -> Result<Timestamp, kube::Error> {
        let now = self.clock.now();
        let given_up = self.replicas.as_ref().map(|replicas| replicas.given_up());
        let records = self.coverage_registry.persist(&self.tracker, now);
        let text =
            serde_json::to_string(&records.iter().map(StoredCoverage::of).collect::<Vec<_>>())
                .map_err(kube::Error::SerdeError)?;
        let map = ConfigMap {
            metadata: ObjectMeta { name: Some(CONFIG_MAP.to_owned()), ..ObjectMeta::default() },
            data: Some(BTreeMap::from([(KEY.to_owned(), text)])),
            ..ConfigMap::default()
        };
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), shared::NAMESPACE);
        let params = PatchParams::apply(shared::MANAGER).force();
        api.patch(CONFIG_MAP, &params, &Patch::Apply(&map)).await?;
        // What they may have seen is a gap on record now.
        if let Some((replicas, given_up)) = self.replicas.as_ref().zip(given_up) {
            replicas.remove(&given_up).await;
        }
        Ok(now)
    }
}

/// What an earlier process observed. What cannot be read was not observed.
pub(super) async fn load(client: &Client) -> Result<CoverageRegistry, kube::Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), shared::NAMESPACE);
    let map = api.get_opt(CONFIG_MAP).await?;
    let text = map.and_then(|map| map.data).and_then(|mut data| data.remove(KEY));
    let stored: Vec<StoredCoverage> =
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    Ok(CoverageRegistry::restore(stored.into_iter().filter_map(StoredCoverage::record)))
}

/// A record as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct StoredCoverage {
    source: String,
    since: Timestamp,
    until: Timestamp,
    gaps: Vec<(Timestamp, Timestamp)>,
}

impl StoredCoverage {
    fn of(record: &CoverageRecord) -> Self {
        Self {
            source: record.source.as_str().to_owned(),
            since: record.since,
            until: record.until,
            gaps: record.gaps.iter().map(|gap| (gap.from, gap.to)).collect(),
        }
    }

    fn record(self) -> Option<CoverageRecord> {
        let gaps = self.gaps.into_iter().map(|(from, to)| Gap { from, to }).collect();
        Some(CoverageRecord {
            source: source::parse(&self.source)?,
            since: self.since,
            until: self.until,
            gaps,
        })
    }
}
