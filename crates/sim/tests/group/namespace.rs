//! A namespace that is deleted takes its machines with it, and not before their drains are over,
//! whoever deletes their Pods.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use sojourn_api::group::status::{DrainStatus, Reason};
use sojourn_sim::group::simulation::{GroupSimulation, NAMESPACE, Setting};

use crate::fixture::{HOUR, MINUTE, SECOND, condition, deadline, gone, names, ready};
use crate::pod::{of_pods, pod_names, pods, template};

fn namespaces(simulation: &GroupSimulation) -> Api<Namespace> {
    Api::all(simulation.client.clone())
}

async fn delete_namespace(simulation: &GroupSimulation) {
    let deleted = namespaces(simulation).delete(NAMESPACE, &DeleteParams::background()).await;
    deleted.expect("people may");
}

async fn namespace(simulation: &GroupSimulation) -> Option<Namespace> {
    namespaces(simulation).get_opt(NAMESPACE).await.expect("people may read")
}

async fn until_namespace_is_gone(simulation: &GroupSimulation, limit: Duration) {
    let end = tokio::time::Instant::now() + limit;
    while let Some(left) = namespace(simulation).await {
        assert!(tokio::time::Instant::now() < end, "{:#?}\n{}", left.status, simulation.shown());
        simulation.pass(SECOND).await;
    }
}

/// Waits until a machine drains.
async fn drain_of(simulation: &GroupSimulation, name: &str) -> DrainStatus {
    simulation
        .until(MINUTE, "a drain", |checker| checker.machine(name)?.status.clone()?.drain)
        .await
}

/// Nobody has begun to end the machine.
async fn runs(simulation: &GroupSimulation, name: &str) -> bool {
    let pod = pods(simulation).get_opt(name).await.expect("people may read");
    pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none())
}

/// What the namespace says of its own deletion.
async fn said(simulation: &GroupSimulation, kind: &str) -> (String, String) {
    let status = namespace(simulation).await.and_then(|namespace| namespace.status);
    let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
    let found = conditions.into_iter().find(|one| one.type_ == kind);
    found.map(|one| (one.status, one.message.unwrap_or_default())).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_pod_runs_until_its_drain_is_acknowledged() {
    let simulation = of_pods(2, json!({})).await;
    let before = names(&simulation);
    let created = simulation.checker.lock().count("is created");
    delete_namespace(&simulation).await;
    for name in &before {
        assert_eq!(drain_of(&simulation, name).await.reason, Some(Reason::Scale));
    }
    simulation.pass(3 * MINUTE).await;
    for name in &before {
        assert!(runs(&simulation, name).await, "{name}\n{}", simulation.shown());
    }
    let (failed, words) = said(&simulation, "NamespaceDeletionContentFailure").await;
    assert!(failed == "True" && words.contains("is drained until"), "{words}");
    assert_ne!(
        condition(&simulation, "web", "CreateFailing").map(|one| one.status),
        Some("True".into())
    );
    let drain = drain_of(&simulation, &before[0]).await;
    simulation.reply(&before[0], &drain.id, "Done").await.expect("it is open");
    let went = gone(&simulation, MINUTE, &before[0]).await;
    assert!(went < deadline(&drain));
    assert!(runs(&simulation, &before[1]).await, "another's drain is not over");
    let drain = drain_of(&simulation, &before[1]).await;
    simulation.reply(&before[1], &drain.id, "Done").await.expect("it is open");
    until_namespace_is_gone(&simulation, MINUTE).await;
    assert!(simulation.now() < deadline(&drain));
    assert_eq!(
        simulation.checker.lock().count("is created"),
        created,
        "nothing came in their place"
    );
    assert_eq!(simulation.checker.lock().drains.len(), 2);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_nobody_answers_for_runs_until_the_deadline() {
    let simulation = of_pods(2, json!({})).await;
    let before = names(&simulation);
    delete_namespace(&simulation).await;
    let mut last = simulation.now();
    for name in &before {
        last = last.max(deadline(&drain_of(&simulation, name).await));
    }
    while simulation.now() < last {
        for name in &before {
            assert!(runs(&simulation, name).await, "{name}\n{}", simulation.shown());
        }
        simulation.pass(SECOND).await;
    }
    until_namespace_is_gone(&simulation, MINUTE).await;
    for name in &before {
        assert!(simulation.checker.lock().deleted[name] >= last);
    }
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_machine_on_demand_is_drained_too_even_if_it_is_paused() {
    let simulation = GroupSimulation::new(Setting::default()).await;
    simulation.make_machine("mine", template()).await;
    simulation
        .until(HOUR, "a guest", |checker| checker.machine("mine")?.status.clone()?.ready_at)
        .await;
    let paused = json!({"metadata": {"annotations": {"sojourn.dev/paused": "true"}}});
    simulation.change_machine("mine", paused).await.expect("people may");
    delete_namespace(&simulation).await;
    let drain = drain_of(&simulation, "mine").await;
    simulation.pass(4 * MINUTE).await;
    assert!(runs(&simulation, "mine").await);
    let went = gone(&simulation, HOUR, "mine").await;
    assert!(went >= deadline(&drain));
    until_namespace_is_gone(&simulation, MINUTE).await;
    simulation.assert_invariants();
}

/// Kubernetes deletes Pods first, and may not get to Machines while one is refused.
#[tokio::test(start_paused = true)]
async fn a_drain_begins_although_nobody_deletes_the_machines() {
    let simulation = of_pods(1, json!({})).await;
    simulation.make_machine("mine", template()).await;
    simulation
        .until(HOUR, "a guest", |checker| checker.machine("mine")?.status.clone()?.ready_at)
        .await;
    let name = names(&simulation)[0].clone();
    finalize(&simulation, json!(["example.com/somebody"])).await;
    delete_namespace(&simulation).await;
    let drains = [drain_of(&simulation, &name).await, drain_of(&simulation, "mine").await];
    for one in [&*name, "mine"] {
        let refused = pods(&simulation).delete(one, &DeleteParams::default()).await;
        let refused = refused.expect_err("it is drained").to_string();
        assert!(refused.contains("is drained until"), "{refused}");
    }
    for (one, drain) in [&*name, "mine"].into_iter().zip(&drains) {
        let went = gone(&simulation, HOUR, one).await;
        assert!(went >= deadline(drain));
    }
    simulation.pass(MINUTE).await;
    let group = simulation.groups().get("web").await.expect("nobody deletes it");
    assert_eq!(group.finalizers(), [""; 0], "nothing of ours holds it");
    assert_eq!(pod_names(&simulation).await, [""; 0]);
    let looks = simulation.reconciles();
    simulation.pass(HOUR).await;
    assert_eq!(simulation.reconciles(), looks, "there is nothing more to be done");
    finalize(&simulation, json!(["kubernetes"])).await;
    until_namespace_is_gone(&simulation, MINUTE).await;
    simulation.assert_invariants();
}

/// Says who is waited for before the namespace goes.
async fn finalize(simulation: &GroupSimulation, finalizers: serde_json::Value) {
    let mut whole = namespace(simulation).await.expect("it is there");
    let spec = json!({"finalizers": finalizers});
    whole.spec = Some(serde_json::from_value(spec).expect("a spec"));
    let params = PostParams::default();
    let put =
        namespaces(simulation).replace_subresource("finalize", NAMESPACE, &params, &whole).await;
    put.expect("people may");
}

/// Admission is every replica's; drains are begun by the one that leads.
#[tokio::test(start_paused = true)]
async fn a_controller_that_comes_back_finishes_it() {
    let simulation = of_pods(1, json!({})).await;
    let name = names(&simulation)[0].clone();
    simulation.operator.want(false);
    delete_namespace(&simulation).await;
    simulation.pass(HOUR).await;
    assert!(runs(&simulation, &name).await);
    let (failed, words) = said(&simulation, "NamespaceDeletionContentFailure").await;
    assert!(failed == "True" && words.contains("its drain has not begun"), "{words}");
    simulation.operator.want(true);
    let drain = drain_of(&simulation, &name).await;
    assert!(deadline(&drain) > simulation.now());
    until_namespace_is_gone(&simulation, HOUR).await;
    assert!(simulation.checker.lock().deleted[&name] >= deadline(&drain));
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_ended_keeps_nobody() {
    let simulation = of_pods(1, json!({"eligibleAge": "never"})).await;
    let name = names(&simulation)[0].clone();
    let ended = json!({"status": {"phase": "Failed", "conditions": []}});
    simulation.operator.want(false);
    let params = PatchParams::default();
    pods(&simulation)
        .patch_status(&name, &params, &Patch::Merge(&ended))
        .await
        .expect("a node may");
    delete_namespace(&simulation).await;
    simulation.pass(MINUTE).await;
    assert!(!runs(&simulation, &name).await, "nobody is on it");
    simulation.operator.want(true);
    until_namespace_is_gone(&simulation, MINUTE).await;
    ready_again(&simulation).await;
}

/// The namespace comes back, and with it everything else.
async fn ready_again(simulation: &GroupSimulation) {
    let whole = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).expect("one");
    namespaces(simulation).create(&PostParams::default(), &whole).await.expect("people may");
    simulation.make_group("web", 1, template()).await;
    ready(simulation, "web", 1).await;
}
