//! The caches of the family, and whom a change concerns.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use sojourn_api::cluster::{ClusterDeployment, ClusterSync};
use sojourn_core::cluster::ObservedSync;
use sojourn_core::key::Key;
use sojourn_core::known::Known;
use sojourn_drivers::actuator::ActuatorChange;

use super::memory::Memories;
use crate::frame::{Cache, Change, Guarded, Index, Queue, Read, Tasks, WatchSettings};

/// The caches of the family, with what connects them.
#[derive(Debug)]
pub(crate) struct ClusterCaches {
    pub(super) clusters: Cache<Read<ClusterDeployment>>,
    /// Each has the name of its cluster. One that cannot be read is none yet.
    syncs: Cache<ObservedSync>,
    /// Clusters by what their machines are known by.
    by_infra_id: Index<String>,
    pub(super) memories: Memories,
    pub(crate) queue: Arc<Queue>,
}

impl ClusterCaches {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self {
            clusters: Cache::default(),
            syncs: Cache::default(),
            by_infra_id: Index::default(),
            memories: Memories::default(),
            queue,
        }
    }

    pub(super) async fn until_ready(&self) {
        self.clusters.until_ready().await;
        self.syncs.until_ready().await;
    }

    /// Keeps every cache up to date.
    pub(super) fn follow(
        self: &Arc<Self>,
        client: &Client,
        watching: WatchSettings,
        tasks: &mut Tasks,
    ) {
        let caches = self.clone();
        // Not as other kinds: who wrote the power state is told by the managed fields.
        let resource = ApiResource::erase::<ClusterDeployment>(&());
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let selection = watching.everything();
        tasks.spawn("clusters", async move {
            let changed = |change: &Change<'_, _>| caches.cluster_changed(change);
            caches.clusters.follow(api, selection, read_cluster, changed).await;
        });
        let caches = self.clone();
        let api: Api<Guarded<ClusterSync>> = Api::all(client.clone());
        let selection = watching.everything();
        tasks.spawn("syncs of clusters", async move {
            let changed = |change: &Change<'_, _>| caches.sync_changed(change);
            caches.syncs.follow(api, selection, read_sync, changed).await;
        });
    }

    pub(super) fn cluster(&self, key: &Key) -> Option<Arc<Read<ClusterDeployment>>> {
        self.clusters.get(key)
    }

    pub(super) fn sync(&self, key: &Key) -> Known<ObservedSync> {
        match self.syncs.get(key) {
            Some(sync) => Known::Is(*sync),
            None if self.syncs.is_ready() => Known::Absent,
            None => Known::Unknown,
        }
    }

    /// Stores the object that a write of our own returned. Nobody is woken for it.
    pub(super) fn wrote(&self, key: &Key, cluster: ClusterDeployment) {
        let version = cluster.metadata.resource_version.clone();
        self.clusters.put(key, version.as_deref(), Ok(slim(cluster)), |change| self.index(change));
    }

    /// In order, so that a simulation can be repeated.
    pub(super) fn wake_all(&self) {
        let mut keys = self.clusters.keys();
        keys.sort_unstable();
        keys.iter().for_each(|key| self.queue.wake(key));
    }

    /// Wakes whomever a change at a provider concerns.
    pub(super) fn machines_changed(&self, change: &ActuatorChange) {
        match change {
            ActuatorChange::Cluster(infra_id) => {
                for key in self.by_infra_id.of(&**infra_id) {
                    self.memories.hear(&key);
                    self.queue.wake(&key);
                }
            }
            ActuatorChange::All => {
                self.memories.hear_all();
                self.wake_all();
            }
        }
    }

    fn index(&self, change: &Change<'_, Read<ClusterDeployment>>) {
        let infra_id = |read: Option<&Read<ClusterDeployment>>| {
            read.and_then(|read| read.as_ref().ok()).map(|cluster| cluster.spec.infra_id.clone())
        };
        self.by_infra_id.update(change.key, infra_id(change.before), infra_id(change.now));
    }

    fn cluster_changed(&self, change: &Change<'_, Read<ClusterDeployment>>) {
        self.index(change);
        self.queue.wake(change.key);
    }

    fn sync_changed(&self, change: &Change<'_, ObservedSync>) {
        if change.before != change.now {
            self.queue.wake(change.key);
        }
    }
}

fn read_sync(guarded: Guarded<ClusterSync>) -> ObservedSync {
    guarded.read().map_or(ObservedSync { first_success_at: None }, |sync| sync.observed())
}

fn read_cluster(object: DynamicObject) -> Read<ClusterDeployment> {
    object.try_parse().map(slim).map_err(|problem| problem.to_string())
}

/// A cluster without what is never read here. Of who manages which fields, it is kept who wrote the power state.
fn slim(mut cluster: ClusterDeployment) -> ClusterDeployment {
    let entries = cluster.metadata.managed_fields.take().into_iter().flatten();
    let of_power_state = entries.filter(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields["f:spec"].get("f:powerState").is_some())
    });
    let kept = of_power_state.map(|entry| ManagedFieldsEntry {
        manager: entry.manager,
        time: entry.time,
        fields_v1: Some(FieldsV1(json!({ "f:spec": { "f:powerState": {} } }))),
        ..ManagedFieldsEntry::default()
    });
    cluster.metadata.managed_fields = Some(kept.collect());
    cluster.annotations_mut().remove("kubectl.kubernetes.io/last-applied-configuration");
    cluster
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::VirtualClock;

    fn cluster(name: &str, infra_id: &str) -> DynamicObject {
        let object = json!({
            "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": "ClusterDeployment",
            "metadata": {
                "name": name, "namespace": "a", "uid": name,
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "kept",
                },
                "managedFields": [
                    {"manager": "kubectl", "operation": "Update", "time": "2026-11-19T08:00:00Z",
                     "fieldsV1": {"f:spec": {"f:powerState": {}, "f:infraID": {}}}},
                    {"manager": "sojourn", "operation": "Update", "subresource": "status",
                     "fieldsV1": {"f:status": {}}},
                ],
            },
            "spec": { "infraID": infra_id, "platform": { "pod": {} }, "powerState": "Running" },
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn who_wrote_the_power_state_is_kept_and_nothing_else_of_managed_fields() {
        let read = read_cluster(cluster("blue", "blue-x")).unwrap();
        let kept = read.metadata.managed_fields.clone().unwrap();
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].manager.as_deref(), Some("kubectl"));
        assert!(kept[0].time.is_some());
        assert_eq!(kept[0].fields_v1.as_ref().unwrap().0, json!({"f:spec": {"f:powerState": {}}}));
        let annotations: Vec<_> = read.annotations().keys().map(String::as_str).collect();
        assert_eq!(annotations, ["note"]);
    }

    #[test]
    fn one_that_cannot_be_read_says_why() {
        let mut object = cluster("blue", "blue-x");
        object.data["spec"]["infraID"] = json!(7);
        let problem = read_cluster(object).unwrap_err();
        assert!(problem.contains("expected a string"), "{problem}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_machines_wakes_the_clusters_of_that_id_and_no_other() {
        let clock = Arc::new(VirtualClock::starting_at(jiff::Timestamp::UNIX_EPOCH));
        let caches = ClusterCaches::new(Arc::new(Queue::new(clock)));
        for (name, infra_id) in [("blue", "x"), ("green", "y"), ("twin", "x")] {
            let read = read_cluster(cluster(name, infra_id));
            caches.clusters.insert(&Key::new("a", name), read, |change| caches.index(change));
        }
        let woken = async |change: ActuatorChange| {
            caches.machines_changed(&change);
            let mut names = Vec::new();
            while !caches.queue.is_idle() {
                let key = caches.queue.next().await;
                caches.queue.done(&key, None);
                names.push(key.name.to_string());
            }
            names
        };
        assert_eq!(woken(ActuatorChange::Cluster("x".into())).await, ["blue", "twin"]);
        assert_eq!(woken(ActuatorChange::Cluster("z".into())).await, [""; 0]);
        assert_eq!(woken(ActuatorChange::All).await, ["blue", "green", "twin"]);
    }
}
