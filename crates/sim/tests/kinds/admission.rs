//! Admission in the process: configuration, marks that need a verb, and what roles give.

use kube::Client;
use serde_json::{Value, json};
use sojourn_apiserver::Engine;

use crate::fixture::{
    assert_needs_hold, bind, causes, create, engine, instance, make_tenant, mark, merge, template,
    user,
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
