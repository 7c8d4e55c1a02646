//! The provider `pod`.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::group::status::{Phase, Reason};
use sojourn_drivers::machine::contract::{Bench, suite};
use sojourn_drivers::machine::{Order, Provider};
use sojourn_operator::frame::{Tasks, Watching};
use sojourn_operator::group::Pods;
use sojourn_sim::group::{NAMESPACE, Setting, World};

use crate::stage::{DAY, HOUR, MINUTE, draining, names, ready, rule};

pub(crate) fn template() -> Value {
    json!({"template": {"provider": "pod", "config": null, "pod": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "none"}]},
    }}})
}

pub(crate) async fn of_pods(size: u32, expiry: Value) -> World {
    let world = World::new(Setting::default()).await;
    let mut spec = template();
    spec["expiry"] = expiry;
    world.make_group("web", size, spec).await;
    ready(&world, "web", size as usize).await;
    world
}

pub(crate) fn pods(world: &World) -> Api<Pod> {
    Api::namespaced(world.client.clone(), NAMESPACE)
}

pub(crate) async fn pod_names(world: &World) -> Vec<String> {
    let all = pods(world).list(&ListParams::default()).await.expect("people may list");
    all.items.iter().map(kube::ResourceExt::name_any).collect()
}

fn violations(world: &World) -> Vec<String> {
    let book = world.ledger.book();
    book.violations.clone()
}

#[tokio::test(start_paused = true)]
async fn a_group_of_pods_rotates() {
    let world = of_pods(3, json!({"eligibleAge": "1d"})).await;
    rule(&world, 4, 2);
    let old = names(&world);
    assert_eq!(pod_names(&world).await, old);
    let pod = pods(&world).get(&old[0]).await.expect("it is there");
    assert_eq!(pod.labels().get("app").map(String::as_str), Some("web"));
    assert_eq!(pod.labels().get("group.sojourn.dev/group").map(String::as_str), Some("web"));
    let owner = &pod.owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Machine", old[0].as_str()));
    let (name, drain) = draining(&world, DAY + HOUR).await;
    assert_eq!(drain.reason, Some(Reason::Expired));
    world.reply(&name, &drain.id, "Done").await.expect("it is open");
    crate::stage::gone(&world, 5 * MINUTE, &name).await;
    assert!(!pod_names(&world).await.contains(&name));
    assert_eq!(violations(&world), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_somebody_deletes_is_replaced_without_a_drain() {
    let world = of_pods(3, json!({})).await;
    let name = names(&world)[0].clone();
    pods(&world).delete(&name, &DeleteParams::default()).await.expect("people may");
    crate::stage::gone(&world, 5 * MINUTE, &name).await;
    ready(&world, "web", 3).await;
    assert!(world.ledger.book().drains.is_empty());
    assert_eq!(pod_names(&world).await, names(&world));
}

/// It is not gone because nobody sees it any more.
#[tokio::test(start_paused = true)]
async fn a_pod_that_loses_its_label_gets_it_back() {
    let world = of_pods(3, json!({})).await;
    let before = names(&world);
    let bare = json!({"metadata": {"labels": {"group.sojourn.dev/machine": null}}});
    for name in &before {
        let patched = pods(&world).patch(name, &PatchParams::default(), &Patch::Merge(&bare)).await;
        patched.expect("people may");
    }
    world.pass(10 * MINUTE).await;
    assert_eq!(names(&world), before);
    for name in &before {
        let pod = pods(&world).get(name).await.expect("it is there");
        assert!(pod.labels().contains_key("group.sojourn.dev/machine"));
    }
    ready(&world, "web", 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_forged_labels_is_nobodys_machine() {
    let world = World::new(Setting::default()).await;
    world.make_group("web", 1, template()).await;
    ready(&world, "web", 1).await;
    let forged = json!({
        "metadata": {"name": "stranger", "labels": {
            "group.sojourn.dev/group": "web", "group.sojourn.dev/machine": "stranger",
        }},
        "spec": {"containers": [{"name": "web", "image": "none"}]},
    });
    let forged: Pod = serde_json::from_value(forged).expect("a Pod");
    pods(&world).create(&PostParams::default(), &forged).await.expect("people may");
    world.delete_group("web").await;
    world.until(HOUR, "the end", |book| book.groups.is_empty().then_some(())).await;
    world.pass(MINUTE).await;
    assert_eq!(pod_names(&world).await, ["stranger"]);
}

// case: group 74
#[tokio::test(start_paused = true)]
async fn an_ill_pod_is_replaced_first_and_drained_then() {
    let world = of_pods(3, json!({})).await;
    rule(&world, 4, 0);
    let name = names(&world)[0].clone();
    let ill = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let params = PatchParams::default();
    pods(&world).patch_status(&name, &params, &Patch::Merge(&ill)).await.expect("a node may");
    world.pass(2 * MINUTE).await;
    assert_eq!(names(&world).len(), 3, "it may get well again");
    let (drained, drain) = draining(&world, 10 * MINUTE).await;
    assert_eq!((drained, drain.reason), (name, Some(Reason::Unhealthy)));
    let ready = world.ledger.book().in_phase("web", Phase::Ready).len();
    assert_eq!(ready, 3);
}

/// The provider by itself, without controllers.
struct Bare {
    world: World,
    pods: Pods,
    strangers: AtomicU64,
    _tasks: Tasks,
}

impl Bare {
    async fn new() -> Self {
        let world = World::new(Setting::default()).await;
        world.operator.want(false);
        let mut tasks = Tasks::default();
        let pods = Pods::new(world.client.clone());
        pods.follow(Watching { timeout_seconds: 0, bookmarks: false }, &mut tasks, |_| {}, || {});
        pods.until_ready().await;
        Self { world, pods, strangers: AtomicU64::new(0), _tasks: tasks }
    }

    /// The uid of the Machine of this name; one that never was, if there is one already.
    async fn uid(&self, name: &str) -> String {
        let machine = json!({
            "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": name}, "spec": {"onDemand": true, "template": template()["template"]},
        });
        let machine = serde_json::from_value(machine).expect("a machine");
        match self.world.machines().create(&PostParams::default(), &machine).await {
            Ok(made) => made.uid().expect("one"),
            Err(_) => format!("nobody-{}", self.strangers.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

impl Bench for Bare {
    fn provider(&self) -> &dyn Provider {
        &self.pods
    }

    fn good(&self) -> Value {
        template()["template"]["pod"].clone()
    }

    fn bad(&self) -> Value {
        json!({"spec": {"containers": []}})
    }

    fn order<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Order> {
        async move {
            let (key, uid) = (sojourn_sim::group::key(name), self.uid(name).await);
            Order { key, uid, group: None, config: self.good() }
        }
        .boxed()
    }

    fn lose<'a>(&'a self, order: &'a Order) -> BoxFuture<'a, ()> {
        async move {
            let now = DeleteParams::default().grace_period(0);
            let deleted = pods(&self.world).delete(&order.key.name, &now).await;
            deleted.expect("people may");
        }
        .boxed()
    }

    fn count(&self) -> BoxFuture<'_, usize> {
        async move { pod_names(&self.world).await.len() }.boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn pods_keep_the_contract_of_providers() {
    suite(&Bare::new().await).await;
}
