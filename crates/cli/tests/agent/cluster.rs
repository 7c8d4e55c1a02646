//! A real control plane with our kinds, and an agent that has the rights of its roles and no others.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::group::Machine;
use sojourn_api::group::machine::DrainReply;

use crate::client;
use crate::control_plane::{ControlPlane, Extra};
use crate::folder::Folder;
use crate::process::{Running, command, sojourn};
use crate::skip;
use crate::wait::eventually;

const CONTROLLERS: &[&str] = &[
    "replicaset-controller",
    "daemonset-controller",
    "disruption-controller",
    "node-lifecycle-controller",
];
const TOKEN: &str = "agent-token";
/// Where the Machines are.
const NAMESPACE: &str = "default";

pub(crate) struct Cluster {
    pub(crate) client: Client,
    agent_kubeconfig: PathBuf,
    _kwok: Running,
    _plane: ControlPlane,
    _folder: Folder,
}

impl Cluster {
    /// None, where there is nothing to start it with.
    pub(crate) async fn start() -> Option<Self> {
        let Some(assets) = ControlPlane::assets() else {
            let required = std::env::var("SOJOURN_REQUIRE_KUBE").is_ok_and(|value| value == "1");
            assert!(!required, "KUBEBUILDER_ASSETS is not set");
            skip::left_to_another_run("KUBEBUILDER_ASSETS is not set (cargo xtask kube-env)");
            return None;
        };
        let extra = Extra {
            controllers: CONTROLLERS,
            tokens: format!("{TOKEN},agent,agent,\"drainers\"\n"),
            scheduler: true,
            ..Extra::default()
        };
        let plane = ControlPlane::start_with(&assets, extra).await.expect("the control plane");
        let folder = Folder::new();
        let client = client::connect(&plane.kubeconfig()).await;
        install_kinds(&assets, &plane.kubeconfig());
        let agent_kubeconfig = folder.join("agent");
        let text = std::fs::read_to_string(plane.kubeconfig()).expect("a kubeconfig");
        let mut config: Value = serde_json::from_str(&text).expect("JSON");
        config["users"][0]["user"] = json!({"token": TOKEN});
        std::fs::write(&agent_kubeconfig, config.to_string()).expect("written");
        let kwok = kubelets(&assets, &plane.kubeconfig());
        let cluster =
            Self { client, agent_kubeconfig, _kwok: kwok, _plane: plane, _folder: folder };
        for role in ["sojourn-drain-agent", "sojourn-group-drainer"] {
            cluster.create(binding(role)).await;
        }
        Some(cluster)
    }

    /// The agent, once it is up.
    pub(crate) fn agent(&self) -> Running {
        let mut agent = command(&["drain-agent", "--kubeconfig"]);
        agent.arg(&self.agent_kubeconfig);
        let agent = Running::start(agent);
        agent.stderr_line("The drain agent is up.");
        agent
    }

    pub(crate) async fn create(&self, object: Value) {
        let read: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
        let made = self.api(&object).create(&PostParams::default(), &read).await;
        made.unwrap_or_else(|error| panic!("{object}: {error}"));
    }

    pub(crate) async fn merge(&self, object: &Value, change: &Value) {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let params = PatchParams::default();
        let changed = self.api(object).patch(name, &params, &Patch::Merge(change)).await;
        changed.unwrap_or_else(|error| panic!("{object}: {error}"));
    }

    pub(crate) fn api(&self, object: &Value) -> Api<DynamicObject> {
        let text = |name: &str| object[name].as_str().expect("a text").to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// A Node that Pods can be bound to, once it is ready.
    pub(crate) async fn node(&self, name: &str, provider_id: &str) {
        let room = json!({"cpu": "8", "memory": "16Gi", "pods": "110"});
        self.create(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "spec": {"providerID": provider_id},
            "status": {"allocatable": room, "capacity": room},
        }))
        .await;
        eventually(&format!("{name} is ready and without taints"), async || {
            let api: Api<Node> = Api::all(self.client.clone());
            let node = api.get(name).await.expect("it is there");
            let tainted = node.spec?.taints.is_some_and(|taints| !taints.is_empty());
            let conditions = node.status?.conditions.unwrap_or_default();
            let is_ready =
                conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
            (is_ready && !tainted).then_some(())
        })
        .await;
    }

    pub(crate) async fn machine(&self, name: &str, provider_id: Option<&str>) {
        self.create(json!({
            "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"group": "web", "template": {"provider": "fake", "config": {}}},
        }))
        .await;
        self.set_status(name, json!({"phase": "Ready", "providerID": provider_id})).await;
    }

    async fn set_status(&self, name: &str, status: Value) {
        let api: Api<Machine> = Api::namespaced(self.client.clone(), NAMESPACE);
        let change = json!({"status": status});
        let params = PatchParams::default();
        api.patch_status(name, &params, &Patch::Merge(&change)).await.expect("a status");
    }

    /// Opens a drain, as the group's controller does; answers its deadline.
    pub(crate) async fn drain(&self, name: &str, id: &str, span: SignedDuration) -> Timestamp {
        let now = Timestamp::now();
        let deadline = now.checked_add(span).expect("in range");
        let drain = json!({
            "id": id, "reason": "Expired", "startedAt": format!("{now:.0}"),
            "deadline": format!("{deadline:.0}"),
        });
        let rotation = json!({"id": id, "reason": "Expired", "phase": "Draining"});
        self.set_status(name, json!({"phase": "Draining", "rotation": rotation, "drain": drain}))
            .await;
        deadline
    }

    pub(crate) async fn reply(&self, name: &str) -> Option<DrainReply> {
        let api: Api<Machine> = Api::namespaced(self.client.clone(), NAMESPACE);
        api.get(name).await.expect("it is there").spec.drain_reply
    }

    /// Waits until the answer's words contain these; the answer.
    pub(crate) async fn until_reply_says(&self, name: &str, words: &str) -> DrainReply {
        eventually(&format!("{name} is answered with {words:?}"), async || {
            self.reply(name).await.filter(|reply| reply.message.contains(words))
        })
        .await
    }

    /// The Pods with a label, each with the Node that it is on, if they all run.
    pub(crate) async fn running(&self, label: &str) -> Option<Vec<(String, String)>> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let pods = api.list(&ListParams::default().labels(label)).await.expect("a list");
        let place = |pod: &Pod| {
            let running = pod.status.as_ref()?.phase.as_deref() == Some("Running");
            let stays = pod.metadata.deletion_timestamp.is_none();
            let node = pod.spec.as_ref()?.node_name.clone()?;
            (running && stays).then(|| (pod.metadata.name.clone().unwrap_or_default(), node))
        };
        pods.items.iter().map(place).collect()
    }

    pub(crate) async fn node_marks(&self, name: &str) -> (bool, bool) {
        let api: Api<Node> = Api::all(self.client.clone());
        let node = api.get(name).await.expect("it is there");
        let excluded = "node.kubernetes.io/exclude-from-external-load-balancers";
        (
            node.spec.and_then(|spec| spec.unschedulable).unwrap_or_default(),
            node.metadata.labels.is_some_and(|labels| labels.contains_key(excluded)),
        )
    }

    /// What Events of a Pod with this reason say.
    pub(crate) async fn events(&self, pod: &str, reason: &str) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), NAMESPACE);
        let fields = format!("involvedObject.name={pod},reason={reason}");
        let events = api.list(&ListParams::default().fields(&fields)).await.expect("a list");
        events.items.into_iter().filter_map(|event| event.message).collect()
    }
}

/// kwok, which does for Nodes and their Pods what kubelets do: Nodes become ready and stay so, Pods
/// run, and go when they are deleted.
fn kubelets(assets: &Path, kubeconfig: &Path) -> Running {
    let mut kwok = Command::new(assets.join("kwok"));
    kwok.arg("--kubeconfig").arg(kubeconfig);
    kwok.args(["--manage-all-nodes", "--node-lease-duration-seconds", "40", "--config"]);
    kwok.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agent/kwok.yaml"));
    Running::start(kwok)
}

/// Applies what `sojourn crds` prints, as people do.
fn install_kinds(assets: &Path, kubeconfig: &Path) {
    let printed = sojourn(&["crds"]);
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    let mut kubectl = Command::new(assets.join("kubectl"));
    kubectl.arg("--kubeconfig").arg(kubeconfig).args(["apply", "--server-side", "-f", "-"]);
    kubectl.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut kubectl = kubectl.spawn().expect("kubectl");
    let mut stdin = kubectl.stdin.take().expect("piped");
    std::io::Write::write_all(&mut stdin, printed.stdout.as_bytes()).expect("kubectl reads it");
    drop(stdin);
    assert!(kubectl.wait().expect("it ends").success(), "kubectl apply");
}

fn binding(role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("test-{role}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "agent"}],
    })
}
