//! Exams that end because their own environment does not answer any more.

use http::StatusCode;
use serde_json::{Value, json};

use crate::external::ExternalServices;
use crate::fixture::{Engine, Fixture};
use crate::objects::{Named, time};
use crate::person::{Person, is_phase};
use crate::smtp::Encryption;
use crate::upload::Uploads;
use crate::visitor::Visitor;

/// So many misses end it, and so far apart they are, in milliseconds.
const CONFIRMATIONS: i64 = 3;
const INTERVAL: i64 = 1_000;

#[tokio::test(flavor = "multi_thread")]
async fn embedded_what_stops_answering_is_ended_and_handed_in() {
    // A program that listens no more, and one that takes connections and says nothing.
    fall_silent(Engine::Embedded, &["close", "hang"]).await;
}

/// Whoever is no part of the node reaches Pods by ports of the machine (`--publish-ports`), where
/// every connection is taken, whether the program listens or not: only silence is clear there.
#[tokio::test(flavor = "multi_thread")]
async fn real_what_stops_answering_is_ended_and_handed_in() {
    fall_silent(Engine::Real, &["hang"]).await;
}

async fn fall_silent(engine: Engine, ways: &[&str]) {
    let Some(external) = ExternalServices::start(Encryption::StartTls).await else { return };
    let Some(stage) = Fixture::start(engine, &external.options()).await else { return };
    let uploads = Uploads::start().await;
    let examined = |name: &str| {
        let interval = format!("{INTERVAL}ms");
        Person::new(name).spec(&json!({
            "statusCheck": {"mode": "Reachability", "interval": interval, "timeout": "1s",
                            "confirmations": CONFIRMATIONS},
            "submission": {"url": uploads.url(&format!("/{name}"))},
        }))
    };
    let answering = examined("answering");
    let silent: Vec<_> = ways.iter().map(|way| (*way, examined(way))).collect();
    for person in silent.iter().map(|(_, person)| person).chain([&answering]) {
        person.apply(&stage.objects).await;
    }
    let answered = |instance: &Value| instance["status"]["termination"]["answeredAt"].is_string();
    for person in silent.iter().map(|(_, person)| person).chain([&answering]) {
        stage.objects.until(&person.instance, "it is ready", is_phase("Ready")).await;
        stage.objects.until(&person.instance, "it has answered", answered).await;
    }
    let mut visitor = stage.visitor().await;
    for (way, person) in &silent {
        silence(person, way, &mut visitor).await;
        // It is the program that is silent, and nobody stopped it.
        let missed = |found: &Value| misses(found) > 0;
        stage.objects.until(&person.instance, "it does not answer", missed).await;
        assert_alive(&stage, person).await;
    }
    for (way, person) in &silent {
        let off = stage.objects.until(&person.instance, "it is off", is_phase("Off")).await;
        assert_eq!(off["spec"]["running"], false, "{way}");
        assert_eq!(off["status"]["stopReason"], "Terminated", "{way}");
        assert_eq!(off["status"]["ended"]["reason"], "Terminated", "{way}");
        assert_eq!(misses(&off), CONFIRMATIONS, "{way}: every one was asked for");
        let answered = time(&off["status"]["termination"]["answeredAt"]);
        let ended = time(&off["status"]["ended"]["at"]);
        assert!(ended - answered >= (CONFIRMATIONS - 1) * INTERVAL, "{way}: {off}");
        let done = |instance: &Value| instance["status"]["submission"][0]["state"] == "Done";
        stage.objects.until(&person.instance, "it is handed in", done).await;
        let upload = uploads.wait_for(&format!("/{way}")).await;
        let entries = upload.entries(&external.tools.python);
        assert!(entries.contains_key("visits"), "{way}: what it wrote: {entries:?}");
    }
    // What answers goes on, and being looked at is no use of it.
    let Named { namespace, name } = &answering.instance;
    let kept = stage.objects.get("Instance", namespace, name).await.expect("it is there");
    assert_eq!((&kept["spec"]["running"], misses(&kept)), (&json!(true), 0), "{kept}");
    assert!(kept["status"]["ended"].is_null(), "{kept}");
    assert!(kept["status"]["activity"]["last"].is_null(), "{kept}");
    assert_eq!(uploads.to("/answering").len(), 0);
    stage.stop();
}

/// Tells a program to answer nothing from now on.
async fn silence(person: &Person, way: &str, visitor: &mut Visitor) {
    let page = visitor.open(&format!("{}{way}", person.access("web"))).await;
    assert_eq!(page.status, StatusCode::OK, "{page:?}");
}

fn misses(instance: &Value) -> i64 {
    instance["status"]["termination"]["misses"].as_i64().unwrap_or_default()
}

/// The first run of its program goes on.
async fn assert_alive(stage: &Fixture, person: &Person) {
    let pods = person.children(&stage.objects, "Pod").await;
    let [pod] = &pods[..] else { panic!("not one Pod: {pods:?}") };
    let container = &pod["status"]["containerStatuses"][0];
    assert!(container["state"]["running"].is_object(), "{container}");
    assert_eq!(container["restartCount"], 0, "{container}");
    assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{pod}");
}
