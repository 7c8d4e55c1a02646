//! What people type about groups and their machines. Nobody decides anything here: the statuses are
//! written by the tests.

use std::time::Duration;

use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use sojourn_api::group::{InstanceGroup, Machine};

use crate::lab::fixture::Fixture;
use crate::process::{Running, command, sojourn};

const GROUP: &str = "group.sojourn.dev/v1alpha1";
const NAMES: [&str; 2] = ["web-aaaaa", "web-bbbbb"];
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// A group without machines, and two machines on demand that are ready.
async fn stage() -> Fixture {
    let stage = Fixture::empty(&["--no-pods", "--no-controllers"]).await;
    for text in sojourn(&["crds"]).stdout.split("---\n").filter(|text| !text.trim().is_empty()) {
        stage.apply(serde_saphyr::from_str(text).expect("YAML")).await;
    }
    let pod = json!({"spec": {"containers": [{"name": "c", "image": "i", "command": ["true"]}]}});
    let template = json!({"provider": "pod", "pod": pod});
    stage
        .apply(json!({
            "apiVersion": GROUP, "kind": "InstanceGroup",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"size": 0, "template": template, "expiry": {"eligibleAge": "1h"}},
        }))
        .await;
    for name in NAMES {
        stage
            .apply(json!({
                "apiVersion": GROUP, "kind": "Machine",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"onDemand": true, "template": template},
            }))
            .await;
        set_status(&stage, name, &ready(name)).await;
    }
    stage
}

fn ready(name: &str) -> Value {
    let now = format!("{:.0}", jiff::Timestamp::now());
    json!({
        "phase": "Ready", "health": "Healthy", "providerID": format!("fake://{name}"),
        "registeredAt": now, "servedAt": now, "readyAt": now,
        "rotation": null, "drain": null,
    })
}

fn draining(id: &str, phase: &str) -> Value {
    json!({
        "phase": if phase == "Waiting" { "Ready" } else { phase },
        "rotation": {"id": id, "reason": "Manual", "phase": phase, "replacement": "web-ddddd"},
        "drain": {"id": id, "deadline": "2099-01-01T00:00:00Z", "message": "Waits for 1 Pod: a/b."},
    })
}

async fn set_status(stage: &Fixture, name: &str, status: &Value) {
    let api: Api<Machine> = Api::namespaced(stage.client.clone(), "default");
    let change = json!({"status": status});
    let params = PatchParams::default();
    api.patch_status(name, &params, &Patch::Merge(&change)).await.expect("a status");
}

async fn machine(stage: &Fixture, name: &str) -> Machine {
    let api: Api<Machine> = Api::namespaced(stage.client.clone(), "default");
    api.get(name).await.expect("it is there")
}

async fn group(stage: &Fixture) -> InstanceGroup {
    let api: Api<InstanceGroup> = Api::namespaced(stage.client.clone(), "default");
    api.get("web").await.expect("it is there")
}

#[tokio::test]
async fn plan_says_what_comes_next() {
    let stage = stage().await;
    assert_eq!(stage.prints(&["plan", "group/web"]).await, "Nothing will happen by itself.");
    let next = json!({"reason": "OnDemand", "at": "2099-01-01T00:00:00Z", "why": "it is old then"});
    set_status(&stage, NAMES[0], &json!({"next": next})).await;
    let row = json!({
        "at": "2099-01-01T00:00:00Z", "action": "Remove", "object": "machine/web-aaaaa",
        "namespace": "default", "why": "it is old then",
    });
    for args in [&["plan", "-o", "json"][..], &["plan", "machine/web-aaaaa", "-o", "json"]] {
        let printed: Value = serde_json::from_str(&stage.prints(args).await).expect("JSON");
        assert_eq!(printed, json!([row]), "{args:?}");
    }
}

#[tokio::test]
async fn why_tells_the_way_of_a_machine_out() {
    let stage = stage().await;
    set_status(&stage, NAMES[0], &draining("d1", "Draining")).await;
    let text = stage.prints(&["why", "machine/web-aaaaa"]).await;
    for words in [
        "machine/web-aaaaa is Draining\n",
        "rotation   Manual, Draining, replaced by machine/web-ddddd\n",
        "drain      until 2099-01-01T00:00:00Z, Waits for 1 Pod: a/b.",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

#[tokio::test]
async fn drain_asks_and_waits_until_it_is_done() {
    let stage = stage().await;
    stage.prints(&["drain", "machine/web-bbbbb", "--no-wait"]).await;
    let asked = |machine: &Machine| {
        let annotations = machine.metadata.annotations.clone().unwrap_or_default();
        annotations.get("group.sojourn.dev/drain").cloned()
    };
    let at = asked(&machine(&stage, NAMES[1]).await).expect("it was asked for");
    at.parse::<jiff::Timestamp>().expect("a time");

    let mut typed = command(&["drain", "machine/web-aaaaa"]);
    typed.arg("--kubeconfig").arg(&stage.kubeconfig);
    let drain = Running::start(typed);
    let waiting = async {
        while asked(&machine(&stage, NAMES[0]).await).is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(COMMAND_TIMEOUT, waiting).await.expect("it is asked for in time");
    set_status(&stage, NAMES[0], &draining("d1", "Waiting")).await;
    let drain = seen(drain, "waits for its replacement, machine/web-ddddd.").await;
    set_status(&stage, NAMES[0], &draining("d1", "Draining")).await;
    let drain = seen(drain, "until 2099-01-01T00:00:00Z: Waits for 1 Pod: a/b.").await;
    set_status(&stage, NAMES[0], &draining("d1", "Deleting")).await;
    let ended = tokio::task::spawn_blocking(|| drain.ended()).await.expect("it ends");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("machine/web-aaaaa is drained."), "{}", ended.stderr);
}

/// Waits for a line of a command that still runs.
async fn seen(running: Running, words: &'static str) -> Running {
    let waiting = tokio::task::spawn_blocking(move || {
        running.stderr_line(words);
        running
    });
    waiting.await.expect("it is said")
}

#[tokio::test]
async fn rotate_and_freeze_are_written_down() {
    let stage = stage().await;
    let rotated = stage.types(&["rotate", "group/web"]).await;
    assert_eq!(rotated.code, Some(0), "{}", rotated.stderr);
    assert!(rotated.stderr.contains("that group/web has now (0)"), "{}", rotated.stderr);
    let annotations = group(&stage).await.metadata.annotations.unwrap_or_default();
    let before = annotations.get("group.sojourn.dev/rotate").expect("it was asked for");
    before.parse::<jiff::Timestamp>().expect("a time");

    stage.prints(&["freeze", "ig/web", "--until", "2099-01-01T00:00:00Z"]).await;
    assert_eq!(group(&stage).await.spec.freeze_until.as_deref(), Some("2099-01-01T00:00:00Z"));
    let rotated = stage.types(&["rotate", "group/web"]).await;
    assert!(rotated.stderr.contains("frozen until 2099-01-01T00:00:00Z"), "{}", rotated.stderr);
    stage.prints(&["freeze", "group/web", "--until", "2h"]).await;
    let until = group(&stage).await.spec.freeze_until.expect("a time");
    assert!(until.parse::<jiff::Timestamp>().expect("a time") > jiff::Timestamp::now());
    stage.prints(&["freeze", "group/web", "--lift"]).await;
    assert_eq!(group(&stage).await.spec.freeze_until, None);
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let stage = stage().await;
    for (args, code, words) in [
        (&["drain", "group/web"][..], 2, "group/web is nothing that is drained"),
        (&["rotate", "machine/web-aaaaa"], 2, "Name one that is: group/web."),
        (&["freeze", "machine/web-aaaaa", "--until", "2h"], 2, "is nothing that is frozen"),
        (&["keep", "group/web"], 2, "group/web is nothing that is kept"),
        (&["keep", "machine/web-aaaaa"], 2, "It was lent for a time"),
        (&["extend", "group/web"], 2, "sojourn freeze group/web"),
        (&["freeze", "group/web"], 2, "--until"),
        (&["freeze", "group/web", "--until", "2h", "--lift"], 2, "cannot be used with"),
        (&["freeze", "group/web", "--until", "soon"], 2, "neither a time nor a span"),
        (&["freeze", "group/web", "--until", "2001-01-01T00:00:00Z"], 2, "is over"),
        (&["drain", "machine/nobody"], 1, "not found"),
        (&["rotate", "group/nobody"], 1, "not found"),
    ] {
        let (ended, told) = stage.refuses(args).await;
        assert_eq!(ended, code, "{args:?}: {told}");
        assert!(told.contains(words), "{args:?}: {told}");
    }
    let nowhere = sojourn(&["drain-agent", "--kubeconfig", "/nowhere/at/all"]);
    assert_eq!(nowhere.code, Some(2), "{}", nowhere.stderr);
    assert!(nowhere.stderr.contains("/nowhere/at/all"), "{}", nowhere.stderr);
}

#[tokio::test]
async fn the_agent_says_what_it_lacks() {
    let stage = Fixture::empty(&["--no-pods", "--no-controllers"]).await;
    let (code, told) = stage.refuses(&["drain-agent"]).await;
    assert_eq!(code, 3, "{told}");
    assert!(told.contains("cannot list Machines") && told.contains("sojourn crds"), "{told}");
}
