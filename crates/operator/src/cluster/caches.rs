//! The caches of the family, and whom a change concerns.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use sojourn_api::cluster::deployment::ClusterDeploymentSpec;
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
    /// By what their platform is called, and by the program that it names.
    by_platform: Index<&'static str>,
    by_program: Index<String>,
    pub(super) memories: Memories,
    pub(crate) queue: Arc<Queue>,
}

impl ClusterCaches {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self {
            clusters: Cache::default(),
            syncs: Cache::default(),
            by_infra_id: Index::default(),
            by_platform: Index::default(),
            by_program: Index::default(),
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

    /// Wakes whomever a change at a provider of that platform concerns.
    pub(super) fn machines_changed(&self, platform: &'static str, change: &ActuatorChange) {
        let concerned = match change {
            ActuatorChange::Cluster(infra_id) => self.by_infra_id.of(&**infra_id),
            ActuatorChange::Program(program) => self.by_program.of(&**program),
            ActuatorChange::All => self.by_platform.of(platform),
        };
        for key in concerned.iter().filter(|key| self.is_on(key, platform)) {
            self.memories.hear(key);
            self.queue.wake(key);
        }
    }

    /// Whether machines of that id are some cluster's of the namespace.
    pub(super) fn has_cluster(&self, namespace: &str, infra_id: &str) -> bool {
        self.by_infra_id.of(infra_id).iter().any(|key| &*key.namespace == namespace)
    }

    fn is_on(&self, key: &Key, platform: &str) -> bool {
        let read = self.cluster(key);
        let cluster = read.as_ref().and_then(|read| read.as_ref().as_ref().ok());
        cluster.and_then(|cluster| cluster.spec.platform.name()) == Some(platform)
    }

    fn index(&self, change: &Change<'_, Read<ClusterDeployment>>) {
        let (before, now) = (spec(change.before), spec(change.now));
        let infra_id = |spec: &ClusterDeploymentSpec| spec.infra_id.clone();
        self.by_infra_id.update(change.key, before.map(infra_id), now.map(infra_id));
        let platform = |spec: &ClusterDeploymentSpec| spec.platform.name();
        self.by_platform.update(change.key, before.and_then(platform), now.and_then(platform));
        let program = |spec: &ClusterDeploymentSpec| {
            spec.platform.exec.as_ref().map(|exec| exec.name.clone())
        };
        self.by_program.update(change.key, before.and_then(program), now.and_then(program));
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

fn spec(read: Option<&Read<ClusterDeployment>>) -> Option<&ClusterDeploymentSpec> {
    read?.as_ref().ok().map(|cluster| &cluster.spec)
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
    use serde_json::Value;

    use super::*;
    use crate::clock::VirtualClock;

    fn cluster(name: &str, infra_id: &str) -> DynamicObject {
        on(&json!({ "pod": {} }), name, infra_id)
    }

    fn on(platform: &Value, name: &str, infra_id: &str) -> DynamicObject {
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
            "spec": { "infraID": infra_id, "platform": platform, "powerState": "Running" },
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
    async fn a_change_of_machines_wakes_whom_it_concerns_and_no_other_platform_or_program() {
        let clock = Arc::new(VirtualClock::starting_at(jiff::Timestamp::UNIX_EPOCH));
        let caches = ClusterCaches::new(Arc::new(Queue::new(clock)));
        let run_by = |program: &str| json!({ "exec": { "name": program } });
        let clusters = [
            cluster("blue", "x"),
            cluster("green", "y"),
            cluster("twin", "x"),
            on(&run_by("rack"), "lead", "x"),
            on(&run_by("rack"), "iron", "z"),
            on(&run_by("shed"), "wood", "w"),
        ];
        for object in clusters {
            let name = object.name_any();
            let read = read_cluster(object);
            let key = Key::new("a", &*name);
            caches.clusters.insert(&key, read, |change| caches.index(change));
            caches.memories.look(&key, &name, &[], jiff::Timestamp::UNIX_EPOCH);
        }
        let has_news = |name: &str| {
            let now = jiff::Timestamp::UNIX_EPOCH;
            caches.memories.look(&Key::new("a", name), name, &[], now).0.has_news
        };
        let woken = async |platform: &'static str, change: ActuatorChange| {
            caches.machines_changed(platform, &change);
            let mut names = Vec::new();
            while !caches.queue.is_idle() {
                let key = caches.queue.next().await;
                caches.queue.done(&key, None);
                names.push(key.name.to_string());
            }
            names
        };
        let of = |infra_id: &str| ActuatorChange::Cluster(infra_id.into());
        let program = |name: &str| ActuatorChange::Program(name.into());
        assert_eq!(woken("pod", of("x")).await, ["blue", "twin"]);
        assert_eq!(woken("exec", of("x")).await, ["lead"]);
        assert_eq!(woken("pod", of("z")).await, [""; 0]);
        // A program that is started again and again.
        for _ in 0..3 {
            assert_eq!(woken("exec", program("rack")).await, ["iron", "lead"]);
        }
        assert!(has_news("iron") && !has_news("wood") && !has_news("green"));
        assert_eq!(woken("exec", program("nobody")).await, [""; 0]);
        assert_eq!(woken("exec", ActuatorChange::All).await, ["iron", "lead", "wood"]);
        assert_eq!(woken("pod", ActuatorChange::All).await, ["blue", "green", "twin"]);
    }
}
