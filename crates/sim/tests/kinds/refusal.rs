//! Bad input is refused with the field's path and a sentence, by the schema alone.

use serde_json::{Value, json};
use sojourn_api::lab::Instance;
use sojourn_api::lab::convert::{read_state, write_state};
use sojourn_core::lab::state::{InstanceState, Ladder, Stage};

use crate::fixture::{
    api, causes, create, create_examples, dry, engine, instance, merge, refuses, template, tenant,
};

fn environment(part: Value) -> Value {
    let mut whole = json!({ "name": "web", "image": "i" });
    if let (Value::Object(whole), Value::Object(part)) = (&mut whole, part) {
        whole.extend(part);
    }
    template(json!({ "environmentList": [whole] }))
}

#[tokio::test]
async fn templates() {
    let (engine, client) = engine().await;
    dry(&client, &template(json!({}))).await.expect("the plain one is good");
    let term = "or a span such as 90s";
    for (field, text) in [
        ("inactivityTimeout", "10x"),
        ("deleteAfter", "10"),
        ("deleteAfterStopped", "1.5d"),
        ("deleteAfter", "1h1h"),
        ("deleteAfter", "999999w"),
        ("deleteAfter", ""),
    ] {
        refuses(&client, template(json!({ field: text })), &format!("spec.{field}"), term).await;
        let newer = template(json!({ "cleanup": { "deleteAfterCreation": text } }));
        refuses(&client, newer, "spec.cleanup.deleteAfterCreation", term).await;
    }
    let both = json!({ "deleteAfter": "1d", "cleanup": { "deleteAfterCreation": "1d" } });
    refuses(&client, template(both), "spec.deleteAfter", "which means the same").await;
    let beside = json!({ "deleteAfter": "never", "cleanup": { "deleteAfterCreation": "1d" } });
    dry(&client, &template(beside)).await.expect("never beside the other spelling is good");
    refuses(&client, template(json!({ "maxAlerts": -1 })), "spec.maxAlerts", "0").await;
    let sources = json!({ "activitySources": ["Telepathy"] });
    refuses(&client, template(sources), "spec.activitySources[0]", "supported values").await;
    engine.close().await;
}

#[tokio::test]
async fn environments() {
    let (engine, client) = engine().await;
    let at = |field: &str| format!("spec.environmentList[0].{field}");
    let none = template(json!({ "environmentList": [] }));
    refuses(&client, none, "spec.environmentList", "at least 1").await;
    let named = |name: String| json!({ "name": name, "image": "i" });
    let many: Vec<_> = (0..11).map(|n| named(format!("e{n}"))).collect();
    let eleven = template(json!({ "environmentList": many }));
    refuses(&client, eleven, "spec.environmentList", "at most 10").await;
    let twice = [named("web".to_owned()), named("web".to_owned())];
    let twice = template(json!({ "environmentList": twice }));
    refuses(&client, twice, "spec.environmentList[1]", "Duplicate value").await;

    let rows = [
        (json!({ "name": "Web" }), "name", "1 to 20 lower-case letters"),
        (json!({ "name": "e".repeat(21) }), "name", "20"),
        (json!({ "image": "" }), "image", "is needed when there is no command"),
        (json!({ "persistent": true, "size": "1Gi" }), "mountPath", "is needed"),
        (json!({ "persistent": true, "mountPath": "/data" }), "size", "is needed"),
        (json!({ "mountPath": "data" }), "mountPath", "an absolute path"),
        (json!({ "mountPath": "/a/../b" }), "mountPath", "without .."),
        (json!({ "size": "big" }), "size", "a size such as 1Gi"),
        (json!({ "volumeMode": "Block" }), "volumeMode", "persistent environments only"),
        (json!({ "volumeMode": "Tape" }), "volumeMode", "supported values"),
        (json!({ "ports": [{ "containerPort": 0 }] }), "ports[0].containerPort", "1"),
        (json!({ "ports": [{ "containerPort": 1, "name": "1" }] }), "ports[0].name", "letter"),
        (json!({ "env": [{ "name": "1X" }] }), "env[0].name", "the name of a variable"),
        (json!({ "resources": { "limits": { "cpu": "x" } } }), "resources.limits[cpu]", "500m"),
        (json!({ "readinessProbe": {} }), "readinessProbe", "exactly one of"),
    ];
    for (part, field, says) in rows {
        refuses(&client, environment(part), &at(field), says).await;
    }
    let numbers = json!({ "resources": { "limits": { "cpu": 1, "memory": "64Mi" } } });
    dry(&client, &environment(numbers)).await.expect("numbers are amounts, too");
    engine.close().await;
}

#[tokio::test]
async fn tenants_and_instances() {
    let (engine, client) = engine().await;
    refuses(&client, tenant("ada"), "spec.email", "an e-mail address").await;
    refuses(&client, tenant("a@b.org\nBcc: c@d.org"), "spec.email", "an e-mail address").await;

    let check = |check: Value| instance("one", json!({ "statusCheck": check }));
    let at = |field: &str| format!("spec.statusCheck.{field}");
    let rows = [
        (json!({ "mode": "Contract" }), "url", "is needed when mode is Contract"),
        (json!({ "url": "ftp://x" }), "url", "http://"),
        (json!({ "url": "http://me:pw@x/" }), "url", "no user name"),
        (json!({ "interval": "never" }), "interval", "longer than zero"),
        (json!({ "timeout": "0s" }), "timeout", "longer than zero"),
        (json!({ "confirmations": 1 }), "confirmations", "2"),
        (json!({ "endCodes": ["4x"] }), "endCodes[0]", "an HTTP status"),
        (json!({ "keepCodes": ["299-200"] }), "keepCodes[0]", "an HTTP status"),
    ];
    for (part, field, says) in rows {
        refuses(&client, check(part), &at(field), says).await;
    }
    let fax = instance("one", json!({ "submission": { "url": "http://x", "method": "Fax" } }));
    refuses(&client, fax, "spec.submission.method", "supported values").await;
    for name in ["1one", "one.two", &"a".repeat(33)] {
        let status = dry(&client, &instance(name, json!({}))).await.expect_err("a bad name");
        assert!(status.message.contains("metadata.name must be at most 32"), "{}", status.message);
    }
    engine.close().await;
}

#[tokio::test]
async fn defaults_are_filled_in_and_some_things_stay() {
    let (engine, client) = engine().await;
    let one = instance("one", json!({ "statusCheck": {} }));
    let made = create(&client, &one).await.expect("it is good");
    let spec = &made.data["spec"];
    assert_eq!(spec["running"], true);
    assert_eq!(
        spec["statusCheck"],
        json!({
            "interval": "2m", "timeout": "3s", "confirmations": 3,
            "keepCodes": ["2xx"], "endCodes": ["404"],
        })
    );
    let made = create(&client, &template(json!({}))).await.expect("it is good");
    assert_eq!(made.data["spec"]["inactivityTimeout"], "never");
    assert_eq!(made.data["spec"]["deleteAfterStopped"], "never");

    for part in ["template", "tenant"] {
        let patch = json!({ "spec": { part: { "name": "another" } } });
        let status = merge(&client, &one, &patch).await.expect_err("it stays");
        let field = format!("spec.{part}");
        let causes = causes(&status);
        assert!(
            causes.iter().any(|(path, text)| *path == field && text.contains("stays the same"))
        );
    }
    merge(&client, &one, &json!({ "spec": { "running": false } })).await.expect("that may change");
    engine.close().await;
}

#[tokio::test]
async fn a_state_survives_the_api() {
    let (engine, client) = engine().await;
    let one = instance("one", json!({}));
    create(&client, &one).await.expect("it is good");
    let deadline = Some("2026-11-17T09:00:00Z".parse().expect("a time"));
    let ladder = Ladder { stage: Stage::Grace, alerts_sent: 3, deadline, ..Ladder::default() };
    let state = InstanceState { ladder, ..InstanceState::default() };

    let typed: kube::Api<Instance> = kube::Api::namespaced(client.clone(), "default");
    let mut object = typed.get("one").await.expect("it is there");
    let mut status = object.status.take().unwrap_or_default();
    write_state(&state, &mut status);
    object.status = Some(status);
    let params = kube::api::PostParams::default();
    typed.replace_status("one", &params, &object).await.expect("the status is good");
    let back = typed.get("one").await.expect("it is there");
    assert_eq!(read_state(back.status.as_ref()), state);

    // Somebody's nonsense does not get in.
    let patch = json!({ "status": { "lifecycle": { "alertsSent": "two" } } });
    let params = kube::api::PatchParams::default();
    let patch = kube::api::Patch::Merge(&patch);
    assert!(api(&client, &one).patch_status("one", &params, &patch).await.is_err());
    engine.close().await;
}

#[tokio::test]
async fn the_examples_are_good() {
    let (engine, client) = engine().await;
    let kinds = create_examples(&client, "lab").await;
    assert_eq!(
        kinds,
        ["ConfigMap", "Namespace", "Tenant", "Template", "Template", "Instance", "Instance"]
    );
    engine.close().await;
}
