//! Admission in the process: configuration, marks that need a verb, and what roles give.

use kube::Client;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use sojourn_apiserver::Engine;

use crate::fixture::{
    assert_needs_hold, bind, bind_in, causes, create, delete, engine, instance, make_tenant, mark,
    merge, merge_status, template, user,
};

fn config_map(text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "sojourn", "namespace": "sojourn-system" },
        "data": { "lab.yaml": text },
    })
}

/// An engine with an owner, Ada, and somebody of the staff, Grace.
async fn people() -> (Engine, Client, Client, Client) {
    let (engine, admin) = engine().await;
    make_tenant(&admin, "ada").await;
    bind(&admin, "sojourn-lab-user", "ada").await;
    bind(&admin, "sojourn-lab-keeper", "grace").await;
    let (ada, grace) = (engine.client(user("ada", &[])), engine.client(user("grace", &[])));
    (engine, admin, ada, grace)
}

#[tokio::test]
async fn a_bad_configuration_does_not_get_in() {
    let (engine, client) = engine().await;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "sojourn-system" },
    });
    create(&client, &namespace).await.expect("a namespace");
    let refused = create(&client, &config_map("margin: 60\nmarign: 1m")).await.expect_err("bad");
    assert_eq!(refused.code, 422);
    let fields: Vec<_> = causes(&refused).into_iter().map(|(field, _)| field).collect();
    assert_eq!(fields, ["data[lab.yaml].margin", "data[lab.yaml].marign"]);
    create(&client, &config_map("margin: 5m")).await.expect("good");
    let patch = json!({ "data": { "lab.yaml": "margin: never" } });
    merge(&client, &config_map(""), &patch).await.expect_err("bad again");
    engine.close().await;
}

#[tokio::test]
async fn owners_do_not_hold_and_staff_does() {
    let (engine, _, ada, grace) = people().await;
    let one = instance("one", json!({}));
    create(&ada, &one).await.expect("owners create");
    for name in ["sojourn.dev/paused", "sojourn.dev/observe"] {
        let refused = merge(&ada, &one, &mark(name, "true")).await.expect_err("not for owners");
        assert_needs_hold(&refused);
        merge(&grace, &one, &mark(name, "true")).await.expect("staff holds");
        let gone = json!({ "metadata": { "annotations": { name: null } } });
        assert_needs_hold(&merge(&ada, &one, &gone).await.expect_err("nor back"));
    }
    let waive = mark("lab.sojourn.dev/submission-waive", "2026-11-17T09:00:00Z");
    assert_needs_hold(&merge(&ada, &one, &waive).await.expect_err("not for owners"));
    let mut born_paused = instance("two", json!({}));
    born_paused["metadata"]["annotations"] = json!({ "sojourn.dev/paused": "true" });
    assert_needs_hold(&create(&ada, &born_paused).await.expect_err("not for owners"));
    merge(&ada, &one, &json!({ "spec": { "running": false } })).await.expect("their own");
    engine.close().await;
}

#[tokio::test]
async fn a_wish_is_a_time() {
    let (engine, _, ada, _) = people().await;
    let one = instance("one", json!({}));
    create(&ada, &one).await.expect("owners create");
    let keep = |text: &str| mark("sojourn.dev/keep-until", text);
    merge(&ada, &one, &keep("2026-11-17T09:00:00Z")).await.expect("a time");
    let refused = merge(&ada, &one, &keep("tomorrow")).await.expect_err("no time");
    assert_eq!(causes(&refused)[0].0, "metadata.annotations[sojourn.dev/keep-until]");
    engine.close().await;
}

#[tokio::test]
async fn owners_cannot_write_a_status_or_a_template() {
    let (engine, admin, ada, _) = people().await;
    let one = instance("one", json!({}));
    create(&ada, &one).await.expect("owners create");
    let api = crate::fixture::api(&ada, &one);
    let patch = json!({ "status": { "lifecycle": { "alertsSent": 0 } } });
    let params = kube::api::PatchParams::default();
    let forged = api.patch_status("one", &params, &kube::api::Patch::Merge(&patch)).await;
    assert!(matches!(forged, Err(kube::Error::Api(status)) if status.code == 403));
    let refused = create(&ada, &template(json!({}))).await.expect_err("staff's");
    assert_eq!(refused.code, 403);
    create(&admin, &template(json!({}))).await.expect("staff's");
    engine.close().await;
}

#[tokio::test]
async fn editors_are_owners_and_viewers_look() {
    let (engine, admin) = engine().await;
    make_tenant(&admin, "ada").await;
    bind(&admin, "edit", "ada").await;
    bind(&admin, "view", "bob").await;
    let (ada, bob) = (engine.client(user("ada", &[])), engine.client(user("bob", &[])));
    let one = instance("one", json!({}));
    create(&ada, &one).await.expect("editors create");
    crate::fixture::api(&bob, &one).get("one").await.expect("viewers look");
    assert_eq!(create(&bob, &instance("two", json!({}))).await.expect_err("no more").code, 403);
    assert_needs_hold(
        &merge(&ada, &one, &mark("sojourn.dev/paused", "true")).await.expect_err("no"),
    );
    engine.close().await;
}

/// An object of the namespace in which data is owed.
fn in_room(mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!("room");
    object
}

fn owed_claim(name: &str, of: &str) -> Value {
    in_room(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name, "labels": { "lab.sojourn.dev/instance": of },
            "finalizers": ["lab.sojourn.dev/submission"],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
        },
    }))
}

/// Their data is not handed in yet: one is to hand in at its end, the other's has failed.
async fn owe(admin: &Client) -> [Value; 2] {
    let submission = json!({ "submission": { "url": "https://exam.example/in" } });
    let ends = in_room(instance("ends", submission));
    // Taking the destination away pays nothing.
    let failed = in_room(instance("failed", json!({})));
    let entry = json!({ "environment": "web", "state": "Failed" });
    for (object, status) in [
        (&ends, json!({ "claims": ["web"] })),
        (&failed, json!({ "claims": ["web"], "submission": [entry] })),
    ] {
        create(admin, object).await.expect("an Instance");
        merge_status(admin, object, &status).await.expect("a status");
    }
    for (name, of) in [("ends-web", "ends"), ("failed-web", "failed")] {
        create(admin, &owed_claim(name, of)).await.expect("a claim");
    }
    [ends, failed]
}

#[tokio::test]
async fn what_is_owed_is_not_taken_away_by_whoever_may_only_edit() {
    let (engine, admin, ada, grace) = people().await;
    let room = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "room" } });
    create(&admin, &room).await.expect("a namespace");
    let remover = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "remover" },
        "rules": [{ "apiGroups": [""], "resources": ["namespaces"], "verbs": ["delete"] }],
    });
    create(&admin, &remover).await.expect("a role");
    for (role, person) in [
        ("edit", "ada"),
        ("remover", "ada"),
        ("edit", "grace"),
        ("remover", "grace"),
        ("sojourn-lab-keeper", "grace"),
    ] {
        bind_in(&admin, "room", role, person).await;
    }
    let [ends, failed] = owe(&admin).await;
    let claim = owed_claim("ends-web", "ends");
    let foreground = DeleteParams::foreground();
    let background = DeleteParams::background();
    let orphan = DeleteParams::orphan();
    for (object, how) in [
        (&claim, &background),
        (&ends, &foreground),
        (&ends, &orphan),
        (&failed, &foreground),
        (&room, &background),
    ] {
        let refused = delete(&ada, object, how).await.expect_err("its data is owed");
        assert_needs_hold(&refused);
        assert!(refused.message.contains("not handed in yet"), "{}", refused.message);
    }
    let freed = json!({ "metadata": { "finalizers": null } });
    assert_needs_hold(&merge(&ada, &claim, &freed).await.expect_err("nor freed"));
    delete(&ada, &ends, &background).await.expect("it waits for its data by itself");
    delete(&grace, &claim, &background).await.expect("staff holds");
    delete(&grace, &failed, &foreground).await.expect("staff holds");
    create(&admin, &in_room(template(json!({})))).await.expect("the namespace is still there");
    delete(&grace, &room, &background).await.expect("staff holds");
    engine.close().await;
}
