//! A namespace that is deleted takes its machines with it, and not before their drains are over,
//! whoever deletes their Pods.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use sojourn_api::group::status::{DrainStatus, Reason};
use sojourn_sim::group::{NAMESPACE, Setting, World};

use crate::pod::{of_pods, pod_names, pods, template};
use crate::stage::{
    HOUR, MINUTE, SECOND, condition, deadline, gone, names, nothing_is_wrong, ready,
};

fn namespaces(world: &World) -> Api<Namespace> {
    Api::all(world.client.clone())
}

async fn delete_namespace(world: &World) {
    let deleted = namespaces(world).delete(NAMESPACE, &DeleteParams::background()).await;
    deleted.expect("people may");
}

async fn namespace(world: &World) -> Option<Namespace> {
    namespaces(world).get_opt(NAMESPACE).await.expect("people may read")
}

async fn until_namespace_is_gone(world: &World, limit: Duration) {
    let end = tokio::time::Instant::now() + limit;
    while let Some(left) = namespace(world).await {
        assert!(tokio::time::Instant::now() < end, "{:#?}\n{}", left.status, world.shown());
        world.pass(SECOND).await;
    }
}

/// Waits until a machine drains.
async fn drain_of(world: &World, name: &str) -> DrainStatus {
    world.until(MINUTE, "a drain", |book| book.machine(name)?.status.clone()?.drain).await
}

/// Nobody has begun to end the machine.
async fn runs(world: &World, name: &str) -> bool {
    let pod = pods(world).get_opt(name).await.expect("people may read");
    pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none())
}

/// What the namespace says of its own deletion.
async fn said(world: &World, kind: &str) -> (String, String) {
    let status = namespace(world).await.and_then(|namespace| namespace.status);
    let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
    let found = conditions.into_iter().find(|one| one.type_ == kind);
    found.map(|one| (one.status, one.message.unwrap_or_default())).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_pod_runs_until_its_drain_is_acknowledged() {
    let world = of_pods(2, json!({})).await;
    let before = names(&world);
    let created = world.ledger.book().count("is created");
    delete_namespace(&world).await;
    for name in &before {
        assert_eq!(drain_of(&world, name).await.reason, Some(Reason::Scale));
    }
    world.pass(3 * MINUTE).await;
    for name in &before {
        assert!(runs(&world, name).await, "{name}\n{}", world.shown());
    }
    let (failed, words) = said(&world, "NamespaceDeletionContentFailure").await;
    assert!(failed == "True" && words.contains("is drained until"), "{words}");
    assert_ne!(
        condition(&world, "web", "CreateFailing").map(|one| one.status),
        Some("True".into())
    );
    let drain = drain_of(&world, &before[0]).await;
    world.reply(&before[0], &drain.id, "Done").await.expect("it is open");
    let went = gone(&world, MINUTE, &before[0]).await;
    assert!(went < deadline(&drain));
    assert!(runs(&world, &before[1]).await, "another's drain is not over");
    let drain = drain_of(&world, &before[1]).await;
    world.reply(&before[1], &drain.id, "Done").await.expect("it is open");
    until_namespace_is_gone(&world, MINUTE).await;
    assert!(world.now() < deadline(&drain));
    assert_eq!(world.ledger.book().count("is created"), created, "nothing came in their place");
    assert_eq!(world.ledger.book().drains.len(), 2);
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_nobody_answers_for_runs_until_the_deadline() {
    let world = of_pods(2, json!({})).await;
    let before = names(&world);
    delete_namespace(&world).await;
    let mut last = world.now();
    for name in &before {
        last = last.max(deadline(&drain_of(&world, name).await));
    }
    while world.now() < last {
        for name in &before {
            assert!(runs(&world, name).await, "{name}\n{}", world.shown());
        }
        world.pass(SECOND).await;
    }
    until_namespace_is_gone(&world, MINUTE).await;
    for name in &before {
        assert!(world.ledger.book().deleted[name] >= last);
    }
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn a_machine_on_demand_is_drained_too_even_if_it_is_paused() {
    let world = World::new(Setting::default()).await;
    world.make_machine("mine", template()).await;
    world.until(HOUR, "a guest", |book| book.machine("mine")?.status.clone()?.ready_at).await;
    let paused = json!({"metadata": {"annotations": {"sojourn.dev/paused": "true"}}});
    world.change_machine("mine", paused).await.expect("people may");
    delete_namespace(&world).await;
    let drain = drain_of(&world, "mine").await;
    world.pass(4 * MINUTE).await;
    assert!(runs(&world, "mine").await);
    let went = gone(&world, HOUR, "mine").await;
    assert!(went >= deadline(&drain));
    until_namespace_is_gone(&world, MINUTE).await;
    nothing_is_wrong(&world);
}

/// Kubernetes deletes Pods first, and may not get to Machines while one is refused.
#[tokio::test(start_paused = true)]
async fn a_drain_begins_although_nobody_deletes_the_machines() {
    let world = of_pods(1, json!({})).await;
    world.make_machine("mine", template()).await;
    world.until(HOUR, "a guest", |book| book.machine("mine")?.status.clone()?.ready_at).await;
    let name = names(&world)[0].clone();
    finalize(&world, json!(["example.com/somebody"])).await;
    delete_namespace(&world).await;
    let drains = [drain_of(&world, &name).await, drain_of(&world, "mine").await];
    for one in [&*name, "mine"] {
        let refused = pods(&world).delete(one, &DeleteParams::default()).await;
        let refused = refused.expect_err("it is drained").to_string();
        assert!(refused.contains("is drained until"), "{refused}");
    }
    for (one, drain) in [&*name, "mine"].into_iter().zip(&drains) {
        let went = gone(&world, HOUR, one).await;
        assert!(went >= deadline(drain));
    }
    world.pass(MINUTE).await;
    let group = world.groups().get("web").await.expect("nobody deletes it");
    assert_eq!(group.finalizers(), [""; 0], "nothing of ours holds it");
    assert_eq!(pod_names(&world).await, [""; 0]);
    let looks = world.looks();
    world.pass(HOUR).await;
    assert_eq!(world.looks(), looks, "there is nothing more to be done");
    finalize(&world, json!(["kubernetes"])).await;
    until_namespace_is_gone(&world, MINUTE).await;
    nothing_is_wrong(&world);
}

/// Says who is waited for before the namespace goes.
async fn finalize(world: &World, finalizers: serde_json::Value) {
    let mut whole = namespace(world).await.expect("it is there");
    let spec = json!({"finalizers": finalizers});
    whole.spec = Some(serde_json::from_value(spec).expect("a spec"));
    let params = PostParams::default();
    let put = namespaces(world).replace_subresource("finalize", NAMESPACE, &params, &whole).await;
    put.expect("people may");
}

/// Admission is every replica's; drains are begun by the one that leads.
#[tokio::test(start_paused = true)]
async fn a_controller_that_comes_back_finishes_it() {
    let world = of_pods(1, json!({})).await;
    let name = names(&world)[0].clone();
    world.operator.want(false);
    delete_namespace(&world).await;
    world.pass(HOUR).await;
    assert!(runs(&world, &name).await);
    let (failed, words) = said(&world, "NamespaceDeletionContentFailure").await;
    assert!(failed == "True" && words.contains("its drain has not begun"), "{words}");
    world.operator.want(true);
    let drain = drain_of(&world, &name).await;
    assert!(deadline(&drain) > world.now());
    until_namespace_is_gone(&world, HOUR).await;
    assert!(world.ledger.book().deleted[&name] >= deadline(&drain));
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_ended_keeps_nobody() {
    let world = of_pods(1, json!({"eligibleAge": "never"})).await;
    let name = names(&world)[0].clone();
    let ended = json!({"status": {"phase": "Failed", "conditions": []}});
    world.operator.want(false);
    let params = PatchParams::default();
    pods(&world).patch_status(&name, &params, &Patch::Merge(&ended)).await.expect("a node may");
    delete_namespace(&world).await;
    world.pass(MINUTE).await;
    assert!(!runs(&world, &name).await, "nobody is on it");
    world.operator.want(true);
    until_namespace_is_gone(&world, MINUTE).await;
    ready_again(&world).await;
}

/// The namespace comes back, and with it everything else.
async fn ready_again(world: &World) {
    let whole = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).expect("one");
    namespaces(world).create(&PostParams::default(), &whole).await.expect("people may");
    world.make_group("web", 1, template()).await;
    ready(world, "web", 1).await;
}
