//! One cluster, as its owner sees it: through kubectl and our commands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::good;
use crate::fixture::{Fixture, SYSTEM, assets};
use crate::journal::Journal;
use crate::objects::Objects;
use crate::process::{Ended, Running, command};
use crate::survivors;
use crate::wait::{eventually, within};

const KIND: &str = "ClusterDeployment";
/// The label of Pods that are machines.
const INFRA_ID: &str = "cluster.sojourn.dev/infra-id";
/// The label of Secrets from which Pods are made again.
const RECORD: &str = "cluster.sojourn.dev/record=pod";
const IMAGE: &str = "docker.io/library/busybox:1";

/// A cluster in a namespace, which belongs to somebody.
pub(crate) struct Deployment {
    pub(crate) namespace: String,
    pub(crate) name: String,
    objects: Objects,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
}

impl Deployment {
    /// Nothing is made yet but the namespace. Nothing at all where there is no kubectl.
    pub(crate) async fn on(stage: &Fixture, name: &str) -> Option<Self> {
        let deployment = Self::of(stage, &format!("{name}-ns"), name)?;
        stage.objects.make_namespace(&deployment.namespace).await;
        Some(deployment)
    }

    /// One that somebody else makes.
    pub(crate) fn of(stage: &Fixture, namespace: &str, name: &str) -> Option<Self> {
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            objects: stage.objects.clone(),
            kubectl: assets("what needs kubectl")?.join("kubectl"),
            kubeconfig: stage.kubeconfig.clone(),
        })
    }

    pub(crate) fn infra_id(&self) -> String {
        format!("{}-x7k2p", self.name)
    }

    /// Makes it, or makes it so.
    pub(crate) async fn apply(&self, spec: &Value) {
        let mut cluster = json!({
            "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": KIND,
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {"infraID": self.infra_id()},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            cluster["spec"][field] = value.clone();
        }
        self.objects.apply(&cluster).await;
    }

    /// A Pod that only waits: a machine of the cluster, or one that has nothing to do with it.
    pub(crate) async fn make_pod(&self, name: &str, is_machine: bool) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": self.namespace, "labels": {"app": name},
                "annotations": {"example.org/owner": "ada"},
            },
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "machine", "image": IMAGE, "command": ["sleep", "86400"],
                    "env": [{"name": "NUMBER", "value": "7"}],
                }],
            },
        });
        if is_machine {
            pod["metadata"]["labels"][INFRA_ID] = json!(self.infra_id());
        }
        self.objects.apply(&pod).await;
    }

    /// What kubectl says, in the cluster's namespace.
    pub(crate) fn kubectl(&self, words: &[&str]) -> String {
        let mut kubectl = self.kubectl_command();
        kubectl.args(words).args(["--namespace", &self.namespace]);
        good(Running::start(kubectl).ended())
    }

    /// `kubectl apply` of a folder, as the reader of an example does; again, if some of it could not be made yet.
    pub(crate) async fn apply_folder(&self, folder: &Path) {
        eventually(&format!("{} is applied", folder.display()), async || {
            let mut apply = self.kubectl_command();
            apply.args(["apply", "--filename"]).arg(folder);
            (Running::start(apply).ended().code == Some(0)).then_some(())
        })
        .await;
    }

    fn kubectl_command(&self) -> Command {
        let mut kubectl = Command::new(&self.kubectl);
        kubectl.arg("--kubeconfig").arg(&self.kubeconfig);
        kubectl
    }

    /// Writes a power state, as every user can.
    pub(crate) fn wants(&self, power_state: &str) {
        let patch = json!({"spec": {"powerState": power_state}}).to_string();
        let said = self.kubectl(&["patch", "cd", &self.name, "--type=merge", "-p", &patch]);
        assert!(said.contains("patched"), "{said}");
    }

    /// Changes something else of it.
    pub(crate) async fn merge(&self, with: &Value) {
        self.objects.patch(KIND, &self.namespace, &self.name, with).await;
    }

    /// Runs one of our commands in its namespace.
    pub(crate) fn sojourn(&self, words: &[&str]) -> Ended {
        let mut asked = command(words);
        asked.arg("--kubeconfig").arg(&self.kubeconfig).args(["--namespace", &self.namespace]);
        Running::start(asked).ended()
    }

    /// What `sojourn why` prints.
    pub(crate) fn why(&self) -> String {
        good(self.sojourn(&["why", &self.named()]))
    }

    pub(crate) fn named(&self) -> String {
        format!("cd/{}", self.name)
    }

    /// Writes down from now on what it is shown to be.
    pub(crate) async fn journal(&self) -> Journal {
        Journal::start(&self.objects.0, &self.namespace, &self.name).await
    }

    pub(crate) async fn get(&self) -> Cluster {
        let found = self.objects.get(KIND, &self.namespace, &self.name).await;
        Cluster(found.unwrap_or_default())
    }

    /// Waits until it is so.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Cluster) -> bool) -> Cluster {
        self.until_within(crate::wait::EVENTUALLY_TIMEOUT, what, is_so).await
    }

    pub(crate) async fn until_within(
        &self,
        bound: Duration,
        what: &str,
        is_so: impl Fn(&Cluster) -> bool,
    ) -> Cluster {
        let what = format!("{} {what}", self.name);
        within(bound, &what, async || Some(self.get().await).filter(&is_so)).await
    }

    pub(crate) async fn until_power_state(&self, power_state: &str) -> Cluster {
        self.until(&format!("is {power_state}"), |cluster| cluster.power_state() == power_state)
            .await
    }

    /// The Pods of its namespace, by name; those that are its machines, if `machines` says so.
    pub(crate) async fn pods(&self, machines: bool) -> BTreeMap<String, Pod> {
        let labels =
            if machines { format!("{INFRA_ID}={}", self.infra_id()) } else { String::new() };
        let pods = self.objects.list("Pod", &self.namespace, &labels).await.into_iter().map(Pod);
        pods.map(|pod| (pod.name().to_owned(), pod)).collect()
    }

    /// Waits until it has so many machines, and all of them run.
    pub(crate) async fn until_pods_run(&self, count: usize) -> BTreeMap<String, Pod> {
        eventually(&format!("{count} Pods of {} run", self.name), async || {
            let pods = self.pods(true).await;
            (pods.len() == count && pods.values().all(Pod::is_running)).then_some(pods)
        })
        .await
    }

    /// How many Pods are on record.
    pub(crate) async fn records(&self) -> usize {
        self.objects.list("Secret", &self.namespace, RECORD).await.len()
    }
}

/// The options of the family by which a test need not take minutes, and these beside.
pub(crate) async fn configure(stage: &Fixture, options: &Value) {
    let poll = json!({"min": "1s", "max": "2s"});
    let mut all = json!({
        "machinePoll": poll, "nodePoll": poll, "operatorPoll": poll, "probePoll": poll,
        "retry": {"min": "1s", "max": "5s", "auth": "5s", "accepted": "5s"},
        "callVisibility": "10s", "callTimeout": "10s", "driftInterval": "5s",
        "probeInterval": "5s", "settle": "2s", "csrWindow": "10s",
    });
    for (option, value) in options.as_object().into_iter().flatten() {
        all[option] = value.clone();
    }
    let options = json!({"data": {"cluster.yaml": all.to_string()}});
    stage.objects.patch("ConfigMap", SYSTEM, "sojourn", &options).await;
}

/// A ClusterDeployment, as the API shows it.
#[derive(Debug, Clone)]
pub(crate) struct Cluster(pub(crate) Value);

impl Cluster {
    pub(crate) fn wanted(&self) -> &str {
        self.0["spec"]["powerState"].as_str().unwrap_or_default()
    }

    pub(crate) fn power_state(&self) -> &str {
        self.0["status"]["powerState"].as_str().unwrap_or_default()
    }

    /// Status and reason of a condition, as in `True Running`.
    pub(crate) fn condition(&self, kind: &str) -> String {
        let conditions = self.0["status"]["conditions"].as_array();
        let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
        let text = |field: &str| found.and_then(|found| found[field].as_str()).unwrap_or_default();
        format!("{} {}", text("status"), text("reason"))
    }

    /// A text of the operation that is under way, or was the last.
    pub(crate) fn operation(&self, field: &str) -> &str {
        self.0["status"]["operation"][field].as_str().unwrap_or_default()
    }

    /// The machines that are written down, by name.
    pub(crate) fn inventory(&self) -> BTreeMap<String, Value> {
        let machines = self.0["status"]["inventory"]["machines"].as_array();
        let name = |machine: &Value| machine["name"].as_str().expect("a name").to_owned();
        machines.into_iter().flatten().map(|machine| (name(machine), machine.clone())).collect()
    }

    /// A time of its status.
    pub(crate) fn time(&self, field: &str) -> Timestamp {
        let text = self.0["status"][field].as_str();
        let text = text.unwrap_or_else(|| panic!("no {field} in {:#}", self.0));
        text.parse().expect("a time")
    }
}

/// A Pod, as the API shows it.
#[derive(Debug, Clone)]
pub(crate) struct Pod(pub(crate) Value);

impl Pod {
    pub(crate) fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().expect("a name")
    }

    pub(crate) fn uid(&self) -> &str {
        self.0["metadata"]["uid"].as_str().expect("a uid")
    }

    pub(crate) fn is_running(&self) -> bool {
        self.0["status"]["phase"] == "Running" && self.0["metadata"]["deletionTimestamp"].is_null()
    }

    /// Waits until so many processes of this machine stand for it: a Pod that is gone has none.
    pub(crate) fn until_processes(&self, count: usize) {
        survivors::wait_for(self.uid(), count);
    }

    /// What somebody asked for: everything that must be the same when it was made again.
    pub(crate) fn manifest(&self) -> Value {
        let container = &self.0["spec"]["containers"][0];
        json!({
            "labels": self.0["metadata"]["labels"],
            "owner": self.0["metadata"]["annotations"]["example.org/owner"],
            "grace": self.0["spec"]["terminationGracePeriodSeconds"],
            "name": container["name"], "image": container["image"],
            "command": container["command"], "env": container["env"],
        })
    }
}
