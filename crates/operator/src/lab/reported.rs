//! Instances, as a replica that does not lead writes what was reported about them.

use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::activity::ReplicaActivityStatus;
use sojourn_api::lab::instance::Instance;
use sojourn_core::key::Key;
use sojourn_core::known::Known;

use super::caches::LabCaches;
use crate::frame::Guarded;
use crate::replica::{NewEntry, Report, ReportedObjects, StoredActivity};

/// The Instances that are known here.
pub(super) struct InstanceReports {
    /// Not fenced.
    pub(super) client: Client,
    pub(super) caches: Arc<LabCaches>,
}

impl ReportedObjects for InstanceReports {
    type Entry = ReplicaActivityStatus;

    const FIELD: &'static str = "status.activity.replicas";

    fn stored(&self, key: &Key, replica: &str) -> Known<StoredActivity<ReplicaActivityStatus>> {
        let Some(instance) = self.caches.instances.get(key) else { return Known::Absent };
        let Ok(instance) = instance.as_ref() else { return Known::Unknown };
        let activity = instance.status.as_ref().and_then(|status| status.activity.as_ref());
        let ours = activity.and_then(|activity| activity.replicas.get(replica)).cloned().flatten();
        let entry = ours.unwrap_or_default();
        Known::Is(StoredActivity {
            uid: instance.uid().unwrap_or_default(),
            version: instance.resource_version().unwrap_or_default(),
            count: entry.count,
            entry,
        })
    }

    fn with_report(entry: &ReplicaActivityStatus, replica: &str, report: &Report) -> NewEntry {
        let entry = entry.with(&report.seen);
        let count = entry.count;
        NewEntry { status: json!({"activity": {"replicas": {replica: entry}}}), count }
    }

    async fn patch_status(&self, key: &Key, patch: &Value) -> Result<(), kube::Error> {
        let api: Api<Instance> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams::default();
        let written = api.patch_status(&key.name, &params, &Patch::Merge(patch)).await?;
        self.caches.record_write(key, written);
        Ok(())
    }

    async fn refresh(&self, key: &Key) -> Result<(), kube::Error> {
        let api: Api<Guarded<Instance>> = Api::namespaced(self.client.clone(), &key.namespace);
        match api.get_opt(&key.name).await? {
            Some(instance) => self.caches.admit_instance(instance),
            None => self.caches.evict_instance(key),
        }
        Ok(())
    }
}
