//! The provider `pod`.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::group::status::{Phase, Reason};
use sojourn_drivers::machine::contract::{ContractHarness, suite};
use sojourn_drivers::machine::{CreateRequest, Provider};
use sojourn_operator::frame::{Tasks, WatchSettings};
use sojourn_operator::group::PodProvider;
use sojourn_sim::group::simulation::{GroupSimulation, NAMESPACE, Setting};

use crate::fixture::{DAY, HOUR, MINUTE, draining, names, ready, require};

pub(crate) fn template() -> Value {
    json!({"template": {"provider": "pod", "config": null, "pod": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "none"}]},
    }}})
}

pub(crate) async fn of_pods(size: u32, expiry: Value) -> GroupSimulation {
    let simulation = GroupSimulation::new(Setting::default()).await;
    let mut spec = template();
    spec["expiry"] = expiry;
    simulation.make_group("web", size, spec).await;
    ready(&simulation, "web", size as usize).await;
    simulation
}

pub(crate) fn pods(simulation: &GroupSimulation) -> Api<Pod> {
    Api::namespaced(simulation.client.clone(), NAMESPACE)
}

pub(crate) async fn pod_names(simulation: &GroupSimulation) -> Vec<String> {
    let all = pods(simulation).list(&ListParams::default()).await.expect("people may list");
    all.items.iter().map(kube::ResourceExt::name_any).collect()
}

#[tokio::test(start_paused = true)]
async fn a_group_of_pods_rotates() {
    let simulation = of_pods(3, json!({"eligibleAge": "1d"})).await;
    require(&simulation, 4, 2);
    let old = names(&simulation);
    assert_eq!(pod_names(&simulation).await, old);
    let pod = pods(&simulation).get(&old[0]).await.expect("it is there");
    assert_eq!(pod.labels().get("app").map(String::as_str), Some("web"));
    assert_eq!(pod.labels().get("group.sojourn.dev/group").map(String::as_str), Some("web"));
    let owner = &pod.owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Machine", old[0].as_str()));
    let (name, drain) = draining(&simulation, DAY + HOUR).await;
    assert_eq!(drain.reason, Some(Reason::Expired));
    simulation.reply(&name, &drain.id, "Done").await.expect("it is open");
    crate::fixture::gone(&simulation, 5 * MINUTE, &name).await;
    assert!(!pod_names(&simulation).await.contains(&name));
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_deletes_is_replaced_without_a_drain() {
    let simulation = of_pods(3, json!({})).await;
    let name = names(&simulation)[0].clone();
    pods(&simulation).delete(&name, &DeleteParams::default()).await.expect("people may");
    crate::fixture::gone(&simulation, 5 * MINUTE, &name).await;
    ready(&simulation, "web", 3).await;
    assert!(simulation.checker.lock().drains.is_empty());
    assert_eq!(pod_names(&simulation).await, names(&simulation));
}

/// It is not gone because nobody sees it any more.
#[tokio::test(start_paused = true)]
async fn a_pod_that_loses_its_label_gets_it_back() {
    let simulation = of_pods(3, json!({})).await;
    let before = names(&simulation);
    let bare = json!({"metadata": {"labels": {"group.sojourn.dev/machine": null}}});
    for name in &before {
        let patched =
            pods(&simulation).patch(name, &PatchParams::default(), &Patch::Merge(&bare)).await;
        patched.expect("people may");
    }
    simulation.pass(10 * MINUTE).await;
    assert_eq!(names(&simulation), before);
    for name in &before {
        let pod = pods(&simulation).get(name).await.expect("it is there");
        assert!(pod.labels().contains_key("group.sojourn.dev/machine"));
    }
    ready(&simulation, "web", 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_forged_labels_is_nobodys_machine() {
    let simulation = GroupSimulation::new(Setting::default()).await;
    simulation.make_group("web", 1, template()).await;
    ready(&simulation, "web", 1).await;
    let forged = json!({
        "metadata": {"name": "stranger", "labels": {
            "group.sojourn.dev/group": "web", "group.sojourn.dev/machine": "stranger",
        }},
        "spec": {"containers": [{"name": "web", "image": "none"}]},
    });
    let forged: Pod = serde_json::from_value(forged).expect("a Pod");
    pods(&simulation).create(&PostParams::default(), &forged).await.expect("people may");
    simulation.delete_group("web").await;
    simulation.until(HOUR, "the end", |checker| checker.groups.is_empty().then_some(())).await;
    simulation.pass(MINUTE).await;
    assert_eq!(pod_names(&simulation).await, ["stranger"]);
}

// case: group 74
#[tokio::test(start_paused = true)]
async fn an_unhealthy_pod_is_replaced_first_and_drained_then() {
    let simulation = of_pods(3, json!({})).await;
    require(&simulation, 4, 0);
    let name = names(&simulation)[0].clone();
    let ill = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let params = PatchParams::default();
    pods(&simulation).patch_status(&name, &params, &Patch::Merge(&ill)).await.expect("a node may");
    simulation.pass(2 * MINUTE).await;
    assert_eq!(names(&simulation).len(), 3, "it may get well again");
    let (drained, drain) = draining(&simulation, 10 * MINUTE).await;
    assert_eq!((drained, drain.reason), (name, Some(Reason::Unhealthy)));
    let ready = simulation.checker.lock().in_phase("web", Phase::Ready).len();
    assert_eq!(ready, 3);
}

/// The provider by itself, without controllers.
struct Bare {
    simulation: GroupSimulation,
    pods: PodProvider,
    strangers: AtomicU64,
    _tasks: Tasks,
}

impl Bare {
    async fn new() -> Self {
        let simulation = GroupSimulation::new(Setting::default()).await;
        simulation.operator.want(false);
        let mut tasks = Tasks::default();
        let pods = PodProvider::new(simulation.client.clone());
        pods.follow(
            WatchSettings { timeout_seconds: 0, bookmarks: false },
            &mut tasks,
            |_| {},
            || {},
        );
        pods.until_ready().await;
        Self { simulation, pods, strangers: AtomicU64::new(0), _tasks: tasks }
    }

    /// The uid of the Machine of this name; one that never was, if there is one already.
    async fn uid(&self, name: &str) -> String {
        let machine = json!({
            "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": name}, "spec": {"onDemand": true, "template": template()["template"]},
        });
        let machine = serde_json::from_value(machine).expect("a machine");
        match self.simulation.machines().create(&PostParams::default(), &machine).await {
            Ok(made) => made.uid().expect("one"),
            Err(_) => format!("nobody-{}", self.strangers.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

impl ContractHarness for Bare {
    fn provider(&self) -> &dyn Provider {
        &self.pods
    }

    fn good(&self) -> Value {
        template()["template"]["pod"].clone()
    }

    fn bad(&self) -> Value {
        json!({"spec": {"containers": []}})
    }

    fn request<'a>(&'a self, name: &'a str) -> BoxFuture<'a, CreateRequest> {
        async move {
            let (key, uid) = (sojourn_sim::group::simulation::key(name), self.uid(name).await);
            CreateRequest { key, uid, group: None, config: self.good() }
        }
        .boxed()
    }

    fn lose<'a>(&'a self, request: &'a CreateRequest) -> BoxFuture<'a, ()> {
        async move {
            let now = DeleteParams::default().grace_period(0);
            let deleted = pods(&self.simulation).delete(&request.key.name, &now).await;
            deleted.expect("people may");
        }
        .boxed()
    }

    fn count(&self) -> BoxFuture<'_, usize> {
        async move { pod_names(&self.simulation).await.len() }.boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn pods_keep_the_contract_of_providers() {
    suite(&Bare::new().await).await;
}
