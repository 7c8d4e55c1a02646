//! Clusters: what the schema refuses of every writer, and who may write what.

use kube::Client;
use serde_json::{Value, json};
use sojourn_api::cluster::name::FINALIZER;
use sojourn_api::install;
use sojourn_apiserver::Engine;

use crate::fixture::{
    assert_needs_hold, assert_told, bind, causes, create, create_examples, engine, mark, merge,
    refuses, user,
};

/// A cluster that is good, but for what `part` changes.
fn cluster(name: &str, part: Value) -> Value {
    let mut spec = json!({ "infraID": "blue-x7k2p", "platform": { "fake": {} } });
    if let (Value::Object(spec), Value::Object(part)) = (&mut spec, part) {
        spec.extend(part);
    }
    json!({
        "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": "ClusterDeployment",
        "metadata": { "name": name, "namespace": "default" }, "spec": spec,
    })
}

/// An engine with an owner, Ada, and somebody of the staff, Grace.
async fn people() -> (Engine, Client, Client, Client) {
    let (engine, admin) = engine().await;
    bind(&admin, "sojourn-cluster-user", "ada").await;
    bind(&admin, "sojourn-cluster-keeper", "grace").await;
    let (ada, grace) = (engine.client(user("ada", &[])), engine.client(user("grace", &[])));
    (engine, admin, ada, grace)
}

/// Gives Ada this right in the namespace of the tests.
async fn allow(admin: &Client, name: &str, resource: &str, verbs: &[&str]) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": [{ "apiGroups": [""], "resources": [resource], "verbs": verbs }],
    });
    create(admin, &role).await.expect("a role is good");
    bind(admin, name, "ada").await;
}

#[tokio::test]
async fn the_examples_are_good() {
    let (engine, client) = engine().await;
    let kinds = create_examples(&client, "cluster").await;
    assert_eq!(kinds, ["ConfigMap", "Namespace", "Pod", "Pod", "ClusterDeployment"]);
    engine.close().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_at_its_field() {
    let (engine, client) = engine().await;
    for (part, field, says) in [
        (json!({ "hibernateAfter": "0s" }), "spec.hibernateAfter", ""),
        (json!({ "schedule": [{ "timeZone": "UTC" }] }), "spec.schedule[0]", ""),
        (json!({ "platform": {} }), "spec.platform", "exactly one"),
        (json!({ "platform": { "fake": {}, "pod": {} } }), "spec.platform", "exactly one"),
        (json!({ "powerState": "Asleep" }), "spec.powerState", ""),
        // No schema knows these.
        (
            json!({ "schedule": [{ "resume": "@daily", "timeZone": "Nowhere/Land" }] }),
            "spec.schedule[0].timeZone",
            "",
        ),
    ] {
        refuses(&client, cluster("blue", part), field, says).await;
    }
    engine.close().await;
}

// case: cluster G04
#[tokio::test]
async fn what_its_machines_are_stays_but_for_local_ssds() {
    let (engine, client) = engine().await;
    let blue = cluster("blue", json!({ "platform": { "gcp": { "project": "p" } } }));
    create(&client, &blue).await.expect("it is good");
    for (change, field) in [
        (json!({ "infraID": "green" }), "spec.infraID"),
        (json!({ "platform": { "gcp": { "project": "q" } } }), "spec.platform"),
        (json!({ "platform": { "gcp": null, "fake": {} } }), "spec.platform"),
    ] {
        let change = json!({ "spec": change });
        let refused = merge(&client, &blue, &change).await.expect_err("it stays");
        assert_eq!(refused.code, 422, "{refused:?}");
        let told = causes(&refused);
        assert!(told.iter().any(|(path, _)| path.starts_with(field)), "{field}: {told:?}");
    }
    let discards = json!({ "platform": { "gcp": { "discardLocalSsdOnHibernate": true } } });
    merge(&client, &blue, &json!({ "spec": discards })).await.expect("it may be edited");
    engine.close().await;
}

#[tokio::test]
async fn an_owner_toggles_a_cluster_of_pods_that_they_may_create_and_delete() {
    let (engine, admin, ada, _) = people().await;
    let of_pods = cluster("blue", json!({ "platform": { "pod": {} } }));
    let refused = create(&ada, &of_pods).await.expect_err("whose Pods are they?");
    assert_eq!(refused.code, 403);
    assert!(refused.message.contains("`create` on pods"), "{}", refused.message);
    allow(&admin, "makes-pods", "pods", &["create"]).await;
    let refused = create(&ada, &of_pods).await.expect_err("they are deleted, too");
    assert!(refused.message.contains("`delete` on all pods"), "{}", refused.message);
    create(&admin, &of_pods).await.expect("who may do all may do that");
    // It was asked about when it was written what it is.
    for power_state in ["Hibernating", "Running"] {
        let toggle = json!({ "spec": { "powerState": power_state } });
        merge(&ada, &of_pods, &toggle).await.expect("owners toggle");
    }
    allow(&admin, "ends-pods", "pods", &["delete"]).await;
    create(&ada, &cluster("green", json!({ "platform": { "pod": {} } }))).await.expect("both");
    engine.close().await;
}

#[tokio::test]
async fn an_owner_who_may_read_no_secrets_has_none_read() {
    let (engine, admin, ada, _) = people().await;
    let exec = json!({ "name": "acme", "credentialsSecretRef": { "name": "vault" } });
    let leads = json!({ "kubeconfigSecretRef": { "name": "vault" } });
    for (part, field) in [
        (json!({ "platform": { "exec": exec } }), "spec.platform.exec.credentialsSecretRef.name"),
        (leads.clone(), "spec.kubeconfigSecretRef.name"),
    ] {
        let refused = create(&ada, &cluster("blue", part)).await.expect_err("it is not theirs");
        assert_eq!(refused.code, 403);
        assert_eq!(causes(&refused)[0].0, field);
    }
    let plain = cluster("blue", json!({}));
    create(&ada, &plain).await.expect("it names none");
    let change = json!({ "spec": leads });
    assert_eq!(merge(&ada, &plain, &change).await.expect_err("nor later").code, 403);
    allow(&admin, "reads-secrets", "secrets", &["get"]).await;
    merge(&ada, &plain, &change).await.expect("now it is theirs");
    engine.close().await;
}

#[tokio::test]
async fn owners_pause_power_and_staff_holds() {
    let (engine, _, ada, grace) = people().await;
    let blue = cluster("blue", json!({}));
    create(&ada, &blue).await.expect("owners create");
    for name in ["sojourn.dev/paused", "sojourn.dev/observe"] {
        let held = merge(&ada, &blue, &mark(name, "true")).await;
        assert_needs_hold(&held.expect_err("not for owners"));
        merge(&grace, &blue, &mark(name, "true")).await.expect("staff holds");
    }
    let pause = mark("cluster.sojourn.dev/powerstate-pause", "true");
    merge(&ada, &blue, &pause).await.expect("their own");
    let keep = merge(&ada, &blue, &mark("sojourn.dev/keep-until", "tomorrow")).await;
    let refused = keep.expect_err("no time");
    assert_told(&refused, "metadata.annotations[sojourn.dev/keep-until]", "must be a time");
    engine.close().await;
}

#[tokio::test]
async fn only_the_operator_and_staff_let_a_cluster_go_that_has_records() {
    let (engine, admin, ada, grace) = people().await;
    let mut binding = serde_json::to_value(install::binding()).expect("JSON");
    binding["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
    binding["kind"] = json!("ClusterRoleBinding");
    create(&admin, &binding).await.expect("a binding is good");
    let operator = engine.client(user(&install::user_name(), &[]));
    let finalizers = |all: &[&str]| json!({ "metadata": { "finalizers": all } });
    for (who, name) in [(&operator, "blue"), (&grace, "green")] {
        let one = cluster(name, json!({ "preserveOnDelete": false }));
        create(&ada, &one).await.expect("owners create");
        merge(&operator, &one, &finalizers(&[FINALIZER])).await.expect("it is the operator's");
        let freed = merge(&ada, &one, &finalizers(&[])).await;
        assert_needs_hold(&freed.expect_err("not for owners"));
        merge(who, &one, &finalizers(&[])).await.expect("they may");
    }
    engine.close().await;
}
