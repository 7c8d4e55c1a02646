//! A replica tells up to when what was reported to it is in the objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use super::{FAMILY_LABEL, REPLICA_LABEL, ReplicaName, SETTLED, lease_name, leases, silence};
use crate::clock::Clock;
use crate::tracker::{Tracker, period};

/// A report takes a moment from the use to the tracker.
const REPORT_DELAY: SignedDuration = SignedDuration::from_secs(1);

/// The heartbeats of one family's reports on this replica.
pub(crate) struct Heartbeats {
    api: Api<Lease>,
    clock: Arc<dyn Clock>,
    family: &'static str,
    replica: ReplicaName,
    tracker: Tracker,
    interval: SignedDuration,
}

impl Heartbeats {
    pub(crate) fn new(
        client: &Client,
        clock: Arc<dyn Clock>,
        family: &'static str,
        replica: ReplicaName,
        tracker: Tracker,
        interval: SignedDuration,
    ) -> Self {
        Self { api: leases(client), clock, family, replica, tracker, interval }
    }

    /// Makes itself known. Nothing may be reported before.
    pub(crate) async fn register(&self) -> Result<(), kube::Error> {
        let now = self.clock.now();
        let labels = [(FAMILY_LABEL, self.family), (REPLICA_LABEL, self.replica.as_str())];
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let seconds = silence(self.interval).stops_after.as_secs();
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.lease_name()),
                labels: Some(BTreeMap::from(labels)),
                annotations: Some(BTreeMap::from([(SETTLED.to_owned(), now.to_string())])),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.replica.as_str().to_owned()),
                acquire_time: Some(MicroTime(now)),
                renew_time: Some(MicroTime(now)),
                lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
                ..LeaseSpec::default()
            }),
        };
        match self.api.create(&PostParams::default(), &lease).await {
            // The answer to an earlier attempt was lost.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            made => made.map(drop),
        }
    }

    /// Tells of itself every interval, for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(period(self.interval));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            if let Err(error) = self.renew().await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "others do not learn what this replica has written");
            }
        }
    }

    /// Up to when what was reported is in the objects.
    fn settled(&self) -> Timestamp {
        let now = self.clock.now();
        let reported = now.checked_sub(REPORT_DELAY).unwrap_or(now);
        self.tracker.settled(reported)
    }

    pub(crate) async fn renew(&self) -> Result<(), kube::Error> {
        let settled = self.settled();
        let change = json!({
            "metadata": {"annotations": {SETTLED: settled.to_string()}},
            "spec": {"renewTime": MicroTime(self.clock.now())},
        });
        let params = PatchParams::default();
        match self.api.patch(&self.lease_name(), &params, &Patch::Merge(&change)).await {
            // It was given up: the time in which nobody knew of it is a gap, and it begins anew.
            Err(kube::Error::Api(status)) if status.is_not_found() => self.register().await,
            renewed => renewed.map(drop),
        }
    }

    /// Leaves, if nothing that was reported is missing in the objects. Nothing may be reported any more.
    pub(crate) async fn leave(&self) -> Result<(), kube::Error> {
        let now = self.clock.now();
        if self.tracker.settled(now) < now {
            return self.renew().await;
        }
        match self.api.delete(&self.lease_name(), &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            left => left.map(drop),
        }
    }

    fn lease_name(&self) -> String {
        lease_name(self.family, self.replica.as_str())
    }
}
