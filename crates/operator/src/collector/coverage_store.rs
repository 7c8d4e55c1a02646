//! Runs the collector of activity under the present configuration, and stores the coverage of its
//! sources in one ConfigMap, so that a restart does not forget which time was observed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use sojourn_api::name::shared;
use sojourn_core::activity::Source;
use sojourn_core::coverage::{Coverage, Gap};
use tokio::sync::Notify;

use super::{Changed, Collector, CoverageRecord, CoverageRegistry, Directory, Options};
use crate::clock::Clock;
use crate::driver::{DriverConfig, DriverFactory};
use crate::replica::ReplicaRegistry;
use crate::tracker::Tracker;

const KEY: &str = "coverage.json";
/// How often it is written. After a crash, use of this long is asked for again where it can be.
const STORE_INTERVAL: Duration = Duration::from_mins(5);
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// The sources of a family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FamilySources {
    pub(crate) family: &'static str,
    pub(crate) sources: &'static [Source],
}

impl FamilySources {
    /// The ConfigMap that holds what was observed.
    fn config_map(&self) -> String {
        format!("sojourn-{}-activity", self.family)
    }
}

/// How a collector is to work, and what it asks with.
pub(crate) struct CollectorConfig {
    pub(crate) options: Options,
    pub(crate) drivers: DriverConfig,
}

/// Collects activity, and stores which time was observed.
pub(crate) struct CoverageStore {
    pub(crate) client: Client,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) family: FamilySources,
    /// How to collect, as the configuration says it now.
    pub(crate) configured: Box<dyn Fn() -> CollectorConfig + Send + Sync>,
    /// Told when the configuration changed.
    pub(crate) reconfigured: Arc<Notify>,
    pub(crate) driver_factory: Arc<dyn DriverFactory>,
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) changed: Changed,
    pub(crate) tracker: Tracker,
    pub(crate) coverage_registry: Arc<CoverageRegistry>,
    /// The other replicas that serve them, if there can be any.
    pub(crate) replicas: Option<Arc<ReplicaRegistry>>,
    /// When it was last written down what was observed.
    pub(crate) stored_at: tokio::sync::Mutex<Option<Timestamp>>,
}

impl CoverageStore {
    /// Collects for ever, with a new collector whenever the configuration changes.
    pub(crate) async fn collect(self: Arc<Self>) {
        loop {
            let changed = self.reconfigured.notified();
            match self.collector((self.configured)()) {
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

    fn collector(&self, config: CollectorConfig) -> Result<Collector, String> {
        Ok(Collector::new(
            config.options,
            self.driver_factory.metrics(&config.drivers)?,
            self.directory.clone(),
            self.tracker.clone(),
            self.coverage_registry.clone(),
            self.changed.clone(),
        )
        .with_replicas(self.replicas.clone()))
    }

    /// Writes down what was observed, for ever.
    pub(crate) async fn store_periodically(self: Arc<Self>) {
        loop {
            let tick = Duration::try_from((self.configured)().options.interval);
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
    pub(crate) async fn ensure_stored(&self, at: Timestamp) -> Result<(), kube::Error> {
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
        write_records(&self.client, self.family, &records).await?;
        // What they may have seen is a gap on record now.
        if let Some((replicas, given_up)) = self.replicas.as_ref().zip(given_up) {
            replicas.remove(&given_up).await;
        }
        Ok(now)
    }
}

/// Writes down what was observed, in place of what is there.
async fn write_records(
    client: &Client,
    family: FamilySources,
    records: &[CoverageRecord],
) -> Result<(), kube::Error> {
    let stored = records.iter().map(|record| StoredCoverage::of(record.source.as_str(), record));
    write_stored(client, family, &stored.collect::<Vec<_>>()).await
}

/// The same for records that have names of their own.
pub(crate) async fn write_stored(
    client: &Client,
    family: FamilySources,
    stored: &[StoredCoverage],
) -> Result<(), kube::Error> {
    let text = serde_json::to_string(stored).map_err(kube::Error::SerdeError)?;
    let name = family.config_map();
    let map = ConfigMap {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([(KEY.to_owned(), text)])),
        ..ConfigMap::default()
    };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), shared::NAMESPACE);
    let params = PatchParams::apply(shared::MANAGER).force();
    api.patch(&name, &params, &Patch::Apply(&map)).await?;
    Ok(())
}

/// What an earlier process observed. What cannot be read was not observed.
pub(crate) async fn load(
    client: &Client,
    family: FamilySources,
) -> Result<CoverageRegistry, kube::Error> {
    let stored = read_stored(client, family).await?.into_iter();
    let records = stored.filter_map(|stored| stored.record(family.sources));
    Ok(CoverageRegistry::restore(records))
}

/// What an earlier process wrote down.
pub(crate) async fn read_stored(
    client: &Client,
    family: FamilySources,
) -> Result<Vec<StoredCoverage>, kube::Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), shared::NAMESPACE);
    let map = api.get_opt(&family.config_map()).await?;
    let text = map.and_then(|map| map.data).and_then(|mut data| data.remove(KEY));
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// A record as it is written.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredCoverage {
    source: String,
    since: Timestamp,
    until: Timestamp,
    gaps: Vec<(Timestamp, Timestamp)>,
}

impl StoredCoverage {
    /// Under a name, which is that of the source where there is one of it.
    pub(crate) fn of(name: &str, record: &CoverageRecord) -> Self {
        Self {
            source: name.to_owned(),
            since: record.since,
            until: record.until,
            gaps: record.gaps.iter().map(|gap| (gap.from, gap.to)).collect(),
        }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn coverage(&self) -> Coverage {
        let gaps = self.gaps.iter().map(|&(from, to)| Gap { from, to });
        Coverage::restore(self.since, self.until, gaps)
    }

    /// Nothing, if it is of a source that the family does not have.
    fn record(self, sources: &[Source]) -> Option<CoverageRecord> {
        let source = *sources.iter().find(|source| source.as_str() == self.source)?;
        let gaps = self.gaps.into_iter().map(|(from, to)| Gap { from, to }).collect();
        Some(CoverageRecord { source, since: self.since, until: self.until, gaps })
    }
}
