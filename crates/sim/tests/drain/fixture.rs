//! Two engines, an agent between them that can be killed, and what happens to Machines and Nodes.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::group::Machine;
use sojourn_api::group::machine::DrainReply;
use sojourn_api::group::status::DrainOutcome;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, SeededEntropy, TokioClock};
use sojourn_operator::clock::{Clock as _, VirtualClock};
use sojourn_operator::drain::{Selection, Start, start};
use sojourn_operator::frame::{Tasks, WatchSettings};
use sojourn_operator::metrics::Metrics;
use sojourn_rbac::User;
use sojourn_sim::fault::{Connection, Faults, Rates, reliable_client};
use sojourn_sim::rng::Rng;
use sojourn_sim::simulated_api::{BEGIN, install_kind};
use sojourn_sim::trace::Trace;
use tokio::task::JoinSet;

use crate::cluster::Cluster;

pub(crate) const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Both clusters.
pub(crate) struct Fixture {
    pub(crate) clock: Arc<VirtualClock>,
    /// Where the Machines are.
    pub(crate) machines: Client,
    /// The cluster that Nodes are emptied of.
    pub(crate) target: Client,
    pub(crate) cluster: Arc<Cluster>,
    /// What goes wrong between the agent and the Machines.
    pub(crate) faults: Arc<Faults>,
    engines: [Engine; 2],
    others: JoinSet<()>,
    /// The target cluster answers evictions by itself.
    evicts_itself: bool,
}

/// The agent as a process.
pub(crate) struct Agent {
    tasks: Tasks,
    connection: Arc<Connection>,
    pub(crate) reconciles: sojourn_operator::metrics::Reconciles,
}

impl Agent {
    /// Ends it between two instructions.
    pub(crate) async fn kill(self) {
        self.tasks.stop().await;
    }

    /// Waits until it has died of a write.
    pub(crate) async fn killed(self) {
        self.connection.killed().await;
        self.tasks.stop().await;
    }
}

async fn engine(seed: u64) -> (Engine, Client) {
    let config = Config::in_memory()
        .clock(TokioClock::starting_at(BEGIN))
        .entropy(SeededEntropy::new(seed))
        .inline_writes();
    let engine = Engine::open(config).await.expect("an engine in memory opens");
    let groups = vec!["system:masters".to_owned()];
    let admin = User { name: "admin".to_owned(), groups, ..User::default() };
    let client = engine.client(Identity::authenticated(admin));
    (engine, client)
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(Rates::default()).await
    }

    /// With an API of Machines that fails like this.
    pub(crate) async fn with(rates: Rates) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(BEGIN));
        let ((first, machines), (second, target)) = (engine(1).await, engine(2).await);
        let cluster = Cluster::new(clock.clone());
        let mut others = JoinSet::new();
        let trace = Trace::starting_now();
        others.spawn(cluster.clone().end_pods(reliable_client(target.clone(), trace.clone())));
        let faults = Faults::new(rates, Rng::new(7), true, trace);
        let engines = [first, second];
        let evicts_itself = false;
        let fixture =
            Self { clock, machines, target, cluster, faults, engines, others, evicts_itself };
        let kinds = sojourn_api::crds().into_iter();
        for kind in kinds.filter(|kind| kind.spec.group == "group.sojourn.dev") {
            install_kind(&fixture.machines, &kind).await;
        }
        let attachments = serde_json::from_value(attachment_kind()).expect("a definition");
        install_kind(&fixture.target, &attachments).await;
        fixture
    }

    /// With a target cluster that has a disruption controller and answers evictions by itself.
    pub(crate) async fn with_budgets() -> Self {
        let mut fixture = Self::new().await;
        let engine = &fixture.engines[1];
        let client = |name: &str| {
            let user = User { name: name.to_owned(), ..User::default() };
            engine.client(Identity::authenticated(user))
        };
        let controller = sojourn_node::disruption::run(
            client("system:serviceaccount:kube-system:disruption-controller"),
            client("system:kube-controller-manager"),
            sojourn_node::clock::Clock::following_tokio(BEGIN),
            std::future::pending(),
        );
        fixture.others.spawn(async { controller.await.expect("it runs for ever") });
        fixture.evicts_itself = true;
        fixture
    }

    /// Starts an agent; every request of its own goes through `faults`.
    pub(crate) async fn agent(&self) -> Agent {
        self.agent_for(Selection::default()).await
    }

    pub(crate) async fn agent_for(&self, selection: Selection) -> Agent {
        let mut tasks = Tasks::default();
        let connection = Connection::new(self.faults.clone());
        let start_with = Start {
            machines: connection.client(self.machines.clone()),
            target: connection.client(match self.evicts_itself {
                true => self.target.clone(),
                false => self.cluster.client(self.target.clone()),
            }),
            selection,
            clock: self.clock.clone(),
            watching: WatchSettings::default(),
            metrics: Metrics::default(),
        };
        let started = start(start_with, &mut tasks).await.expect("both APIs are there");
        Agent { tasks, connection, reconciles: started.reconciles }
    }

    pub(crate) fn at(&self, second: i64) -> Timestamp {
        BEGIN.checked_add(SignedDuration::from_secs(second)).expect("in range")
    }

    /// Seconds since the beginning.
    pub(crate) fn second(&self) -> i64 {
        self.clock.now().duration_since(BEGIN).as_secs()
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// A Machine of a group, at work.
    pub(crate) async fn machine(&self, namespace: &str, name: &str, provider_id: Option<&str>) {
        self.make(namespace, name, false).await;
        self.set_status(namespace, name, json!({"phase": "Ready", "providerID": provider_id}))
            .await;
    }

    /// A Machine that somebody asked for by a name of their own.
    pub(crate) async fn machine_on_demand(&self, namespace: &str, name: &str) {
        self.make(namespace, name, true).await;
    }

    async fn make(&self, namespace: &str, name: &str, on_demand: bool) {
        let namespaced = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
        });
        // It may be there.
        drop(
            self.api(&self.machines, &namespaced)
                .create(&PostParams::default(), &read(&namespaced))
                .await,
        );
        create(
            &self.machines,
            json!({
                "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "Machine",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "group": "web", "onDemand": on_demand,
                    "template": {"provider": "fake", "config": {}},
                },
            }),
        )
        .await;
    }

    async fn set_status(&self, namespace: &str, name: &str, status: Value) {
        let api: Api<Machine> = Api::namespaced(self.machines.clone(), namespace);
        let change = json!({"status": status});
        let params = PatchParams::default();
        api.patch_status(name, &params, &Patch::Merge(&change)).await.expect("a status");
    }

    /// Opens a drain, to be over at a second after the beginning.
    pub(crate) async fn drain(&self, namespace: &str, name: &str, id: &str, deadline: i64) {
        let (now, deadline) = (format!("{:.0}", self.clock.now()), self.at(deadline).to_string());
        let status = json!({
            "phase": "Draining",
            "rotation": {"id": id, "reason": "Expired", "phase": "Draining"},
            "drain": {"id": id, "reason": "Expired", "startedAt": now, "deadline": deadline},
        });
        self.set_status(namespace, name, status).await;
    }

    pub(crate) async fn withdraw(&self, namespace: &str, name: &str) {
        let status = json!({"phase": "Ready", "rotation": null, "drain": null});
        self.set_status(namespace, name, status).await;
    }

    /// The machine is on its way out.
    pub(crate) async fn set_deleting(&self, namespace: &str, name: &str) {
        let status = json!({"phase": "Deleting", "rotation": {"phase": "Deleting"}});
        self.set_status(namespace, name, status).await;
    }

    pub(crate) async fn reply(&self, namespace: &str, name: &str) -> Option<DrainReply> {
        let api: Api<Machine> = Api::namespaced(self.machines.clone(), namespace);
        api.get(name).await.expect("it is there").spec.drain_reply
    }

    /// Waits until a drain has this outcome; the second at which it has, and the words.
    pub(crate) async fn until(
        &self,
        namespace: &str,
        name: &str,
        outcome: DrainOutcome,
    ) -> (i64, String) {
        let waiting = async {
            loop {
                match self.reply(namespace, name).await {
                    Some(reply) if reply.outcome == outcome => {
                        return (self.second(), reply.message);
                    }
                    _ => tokio::time::sleep(POLL_INTERVAL).await,
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(3600), waiting).await.expect("within an hour")
    }

    /// Makes a Node that is ready.
    pub(crate) async fn node(&self, name: &str, spec: Value) {
        create(
            &self.target,
            json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec,
            }),
        )
        .await;
        self.set_ready(name, true).await;
    }

    pub(crate) async fn set_ready(&self, node: &str, ready: bool) {
        let api: Api<Node> = Api::all(self.target.clone());
        let status = if ready { "True" } else { "Unknown" };
        let change = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        let params = PatchParams::default();
        api.patch_status(node, &params, &Patch::Merge(&change)).await.expect("a status");
    }

    pub(crate) async fn delete_node(&self, node: &str) {
        let api: Api<Node> = Api::all(self.target.clone());
        api.delete(node, &DeleteParams::default()).await.expect("it is there");
    }

    pub(crate) async fn change_node(&self, node: &str, change: Value) {
        let api: Api<Node> = Api::all(self.target.clone());
        let params = PatchParams::default();
        api.patch(node, &params, &Patch::Merge(&change)).await.expect("a change");
    }

    /// Whether a Node is cordoned, whether it is labelled, and how many marks it carries.
    pub(crate) async fn marks(&self, node: &str) -> (bool, bool, usize) {
        let api: Api<Node> = Api::all(self.target.clone());
        let node = api.get(node).await.expect("it is there");
        let cordoned = node.spec.and_then(|spec| spec.unschedulable).unwrap_or_default();
        let labelled = node.metadata.labels.is_some_and(|labels| labels.contains_key(EXCLUDED));
        let annotations = node.metadata.annotations.unwrap_or_default();
        let ours = annotations.keys().filter(|key| key.starts_with("group.sojourn.dev/"));
        (cordoned, labelled, ours.count())
    }

    pub(crate) async fn pod(&self, name: &str, node: &str, more: Value) {
        create(&self.target, pod(name, node, &more)).await;
    }

    /// Makes a Pod that is ready and that the budget `web` counts.
    pub(crate) async fn ready_pod(&self, name: &str, node: &str) {
        let mut object = pod(name, node, &json!({}));
        object["metadata"]["labels"] = json!({"app": "web"});
        create(&self.target, object).await;
        let api: Api<Pod> = Api::namespaced(self.target.clone(), "default");
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let change = json!({"status": {"phase": "Running", "conditions": ready}});
        let params = PatchParams::default();
        api.patch_status(name, &params, &Patch::Merge(&change)).await.expect("a status");
    }

    pub(crate) async fn get_pod(&self, name: &str) -> Option<Pod> {
        let api: Api<Pod> = Api::namespaced(self.target.clone(), "default");
        api.get_opt(name).await.expect("an answer")
    }

    /// The Events of the target cluster with this reason, as what they are about and say.
    pub(crate) async fn events(&self, reason: &str) -> Vec<(String, String)> {
        let api: Api<Event> = Api::all(self.target.clone());
        let all = api.list(&ListParams::default()).await.expect("a list").items.into_iter();
        all.filter(|event| event.reason.as_deref() == Some(reason))
            .map(|event| {
                let about = event.involved_object.name.unwrap_or_default();
                (about, event.message.unwrap_or_default())
            })
            .collect()
    }

    pub(crate) async fn attach(&self, name: &str, node: &str, volume: &str) {
        create(
            &self.target,
            json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
                "metadata": {"name": name},
                "spec": {
                    "attacher": "csi", "nodeName": node, "source": {"persistentVolumeName": volume},
                },
            }),
        )
        .await;
    }

    pub(crate) async fn detach(&self, name: &str) {
        let named = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {},
        });
        let api = self.api(&self.target, &named);
        api.delete(name, &kube::api::DeleteParams::default()).await.expect("it was there");
    }

    fn api(&self, client: &Client, object: &Value) -> Api<DynamicObject> {
        api(client, object)
    }
}

/// A Pod that runs on a Node, with what `more` adds to its spec.
pub(crate) fn pod(name: &str, node: &str, more: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

pub(crate) async fn create(client: &Client, object: Value) {
    let made = api(client, &object).create(&PostParams::default(), &read(&object)).await;
    made.unwrap_or_else(|error| panic!("{object}: {error}"));
}

fn read(object: &Value) -> DynamicObject {
    serde_json::from_value(object.clone()).expect("an object")
}

fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// The embedded engine attaches no volumes, so this kind has to be installed.
fn attachment_kind() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "volumeattachments.storage.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": "storage.k8s.io", "scope": "Cluster",
            "names": {
                "plural": "volumeattachments", "singular": "volumeattachment",
                "kind": "VolumeAttachment", "listKind": "VolumeAttachmentList",
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}
