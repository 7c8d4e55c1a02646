//! One group and its machines, as the people see them who own it: through kubectl and the API.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sojourn_api::group::status::{DrainStatus, InstanceGroupStatus, MachineStatus, RotationPhase};
use sojourn_api::group::{InstanceGroup, Machine};

use crate::cluster::good;
use crate::fixture::{Fixture, SYSTEM, assets};
use crate::journal::Journal;
use crate::objects::Objects;
use crate::process::{Ended, Running};
use crate::wait::eventually;

/// What happened to an object, as its Events say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportedEvent {
    pub(crate) severity: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// A group in a namespace of its own.
pub(crate) struct Fleet {
    pub(crate) namespace: String,
    pub(crate) name: String,
    client: Client,
    kubectl: PathBuf,
    kubeconfig: PathBuf,
}

impl Fleet {
    /// Nothing is made yet but the namespace. Nothing at all where there is no kubectl.
    pub(crate) async fn on(stage: &Fixture, name: &str) -> Option<Self> {
        let fleet = Self::of(stage, &format!("{name}-ns"), name)?;
        stage.objects.make_namespace(&fleet.namespace).await;
        // Machines of these tests are tried, and not for half a minute.
        let quick = json!({"data": {"group.yaml": "trial: 1s"}});
        stage.objects.patch("ConfigMap", SYSTEM, "sojourn", &quick).await;
        Some(fleet)
    }

    /// One that somebody else makes.
    pub(crate) fn of(stage: &Fixture, namespace: &str, name: &str) -> Option<Self> {
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            client: stage.objects.0.clone(),
            kubectl: assets("what needs kubectl")?.join("kubectl"),
            kubeconfig: stage.kubeconfig.clone(),
        })
    }

    /// Applies the group: machines that are processes which only wait.
    pub(crate) async fn apply(&self, spec: &Value) {
        let mut group = json!({
            "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "InstanceGroup",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {"template": {"provider": "pod", "pod": {"spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "work", "image": "docker.io/library/busybox:1",
                    "command": ["sleep", "1d"],
                }],
            }}}},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            group["spec"][field] = value.clone();
        }
        Objects(self.client.clone()).apply(&group).await;
    }

    /// Writes down from now on what becomes of the machines.
    pub(crate) async fn journal(&self) -> Journal {
        Journal::start(&self.client, &self.namespace).await
    }

    /// What kubectl says, in the group's namespace.
    pub(crate) fn kubectl(&self, words: &[&str]) -> String {
        good(self.try_kubectl(words))
    }

    pub(crate) fn try_kubectl(&self, words: &[&str]) -> Ended {
        let mut kubectl = Command::new(&self.kubectl);
        kubectl.args(words).args(["--namespace", &self.namespace]);
        kubectl.arg("--kubeconfig").arg(&self.kubeconfig);
        Running::start(kubectl).ended()
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// An API server that is being started again is waited for.
    async fn list<K>(&self) -> Vec<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api = self.api();
        let all = ListParams::default();
        eventually("the API server answers", async || api.list(&all).await.ok()).await.items
    }

    pub(crate) async fn machines(&self) -> Vec<Machine> {
        self.list().await
    }

    pub(crate) async fn names(&self) -> BTreeSet<String> {
        self.machines().await.iter().map(kube::ResourceExt::name_any).collect()
    }

    pub(crate) async fn pods(&self) -> BTreeSet<String> {
        self.list::<Pod>().await.iter().map(kube::ResourceExt::name_any).collect()
    }

    pub(crate) async fn status(&self) -> Option<InstanceGroupStatus> {
        let groups = self.list::<InstanceGroup>().await;
        let group = groups.into_iter().find(|group| group.name_any() == self.name)?;
        Some(group.status.unwrap_or_default())
    }

    /// Waits until the group has so many machines, all of them ready and none on its way out.
    pub(crate) async fn until_whole(&self, size: u32) -> BTreeSet<String> {
        eventually(&format!("{size} machines are ready"), async || {
            let status = self.status().await?;
            let counts = status.replicas.unwrap_or_default();
            let whole = (counts.total, counts.ready, counts.draining) == (size, size, 0);
            (whole && status.rotations.is_empty()).then_some(())
        })
        .await;
        self.names().await
    }

    /// Waits until a machine is so.
    pub(crate) async fn until(
        &self,
        machine: &str,
        what: &str,
        is_so: impl Fn(&MachineStatus) -> bool,
    ) -> MachineStatus {
        eventually(&format!("{machine} {what}"), async || {
            let machines = self.machines().await.into_iter();
            let found = machines.into_iter().find(|one| one.name_any() == machine)?;
            found.status.filter(&is_so)
        })
        .await
    }

    /// Waits until a machine is drained; which one of those that are not known yet.
    pub(crate) async fn until_drains(&self, known: &BTreeSet<String>) -> Draining {
        eventually("another machine is being drained", async || {
            let machines = self.machines().await;
            machines.iter().filter(|one| !known.contains(&one.name_any())).find_map(Draining::of)
        })
        .await
    }

    pub(crate) async fn until_gone(&self, machine: &str) {
        eventually(&format!("{machine} is gone"), async || {
            let there = self.names().await.contains(machine) || self.pods().await.contains(machine);
            (!there).then_some(())
        })
        .await;
    }

    /// Answers an open drain, as a person would.
    pub(crate) fn reply(&self, drain: &Draining, outcome: &str) {
        good(self.try_reply(&drain.machine, &drain.id, outcome));
    }

    pub(crate) fn try_reply(&self, machine: &str, id: &str, outcome: &str) -> Ended {
        let reply = json!({"spec": {"drainReply": {"id": id, "outcome": outcome}}}).to_string();
        self.try_kubectl(&["patch", "machine", machine, "--type=merge", "--patch", &reply])
    }

    /// What was told about a machine, or the group.
    pub(crate) async fn reported_events(&self, name: &str) -> Vec<ReportedEvent> {
        let events = self.list::<Event>().await.into_iter();
        let about = events.filter(|event| event.involved_object.name.as_deref() == Some(name));
        let about = about.filter(|event| event.involved_object.kind.as_deref() != Some("Pod"));
        about
            .map(|event| ReportedEvent {
                severity: event.type_.unwrap_or_default(),
                reason: event.reason.unwrap_or_default(),
                message: event.message.unwrap_or_default(),
            })
            .collect()
    }

    /// Waits until this was told about a machine, and says how often.
    pub(crate) async fn until_reported(&self, name: &str, reason: &str) -> Vec<ReportedEvent> {
        eventually(&format!("{name} has an Event {reason}"), async || {
            let reported_events = self.reported_events(name).await.into_iter();
            let reported_events: Vec<ReportedEvent> =
                reported_events.filter(|one| one.reason == reason).collect();
            (!reported_events.is_empty()).then_some(reported_events)
        })
        .await
    }
}

/// A drain that was open when somebody looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Draining {
    pub(crate) machine: String,
    pub(crate) group: Option<String>,
    pub(crate) provider_id: Option<String>,
    pub(crate) id: String,
    pub(crate) reason: String,
    pub(crate) replacement: Option<String>,
    pub(crate) started: Timestamp,
    pub(crate) deadline: Timestamp,
}

impl Draining {
    pub(crate) fn of(machine: &Machine) -> Option<Self> {
        let status = machine.status.as_ref()?;
        let rotation = status.rotation.as_ref()?;
        if rotation.phase != Some(RotationPhase::Draining) {
            return None;
        }
        let DrainStatus { id, reason, started_at, deadline, .. } = status.drain.clone()?;
        let at = |time: Option<Time>| time.expect("an open drain has its times").0;
        Some(Self {
            machine: machine.name_any(),
            group: machine.spec.group.clone(),
            provider_id: status.provider_id.clone(),
            id,
            reason: format!("{:?}", reason.expect("an open drain has a reason")),
            replacement: rotation.replacement.clone(),
            started: at(started_at),
            deadline: at(deadline),
        })
    }
}
