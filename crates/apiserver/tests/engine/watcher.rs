//! What kube-rs's watcher needs of a server. It lists anew only on a 410 inside the stream: told
//! in any other way it would ask for the same lost version for ever, and controllers would stand
//! still without a sound.

use std::sync::{Arc, Mutex};

use futures::{Stream, StreamExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use sojourn_apiserver::Engine;

use crate::fixture::{
    TEST_TIMEOUT, Watch, admin, delete, get, open_on_virtual_time, patch, post, put, within,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// More changes than a kind's history holds.
const MANY: usize = 9_000;

fn map(name: &str, data: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"value": data},
    })
}

fn labelled(name: &str, tier: &str) -> Value {
    let mut object = map(name, "");
    object["metadata"]["labels"] = json!({"tier": tier});
    object
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

/// Leaves out the certificate that every namespace has.
fn ours(config: Config) -> Config {
    config.fields("metadata.name!=kube-root-ca.crt")
}

/// What the watcher says next, in short.
async fn next<K: ResourceExt>(
    events: &mut (impl Stream<Item = Result<Event<K>, Error>> + Unpin),
) -> String {
    let event = within("the watcher says something", TEST_TIMEOUT, events.next()).await;
    match event.expect("a watcher never ends") {
        Ok(Event::Init) => "init".to_owned(),
        Ok(Event::InitApply(object)) => format!("has {}", object.name_any()),
        Ok(Event::InitDone) => "done".to_owned(),
        Ok(Event::Apply(object)) => format!("put {}", object.name_any()),
        Ok(Event::Delete(object)) => format!("gone {}", object.name_any()),
        Err(Error::WatchError(status)) => format!("error {}", status.code),
        Err(error) => panic!("{error}"),
    }
}

async fn expect<K: ResourceExt>(
    events: &mut (impl Stream<Item = Result<Event<K>, Error>> + Unpin),
    expected: &[&str],
) {
    let mut said = Vec::with_capacity(expected.len());
    for _ in expected {
        said.push(next(events).await);
    }
    assert_eq!(said, expected);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_behind_the_ring_lists_again() {
    let engine = open_on_virtual_time(1).await;
    let client = admin(&engine);
    post(&client, MAPS, &map("busy", "")).await.ok();
    let mut slow = Box::pin(watcher(maps(&client), ours(Config::default())));
    let mut late = Box::pin(watcher(maps(&client), ours(Config::default())));
    expect(&mut slow, &["init", "has busy", "done"]).await;
    expect(&mut late, &["init", "has busy", "done"]).await;
    // One has its watch open when history goes on without it, the other opens it too late.
    post(&client, MAPS, &map("first", "")).await.ok();
    assert_eq!(next(&mut slow).await, "put first");

    let busy = format!("{MAPS}/busy");
    for count in 0..MANY {
        put(&client, &busy, &map("busy", &count.to_string())).await.ok();
    }
    for watcher in [&mut slow, &mut late] {
        expect(watcher, &["error 410", "init", "has busy", "has first", "done"]).await;
    }
    delete(&client, &busy).await.ok();
    for watcher in [&mut slow, &mut late] {
        assert_eq!(next(watcher).await, "gone busy");
    }
    engine.close().await;
}

/// Large objects push history out sooner: what is kept is bounded in bytes too.
#[tokio::test(start_paused = true)]
async fn history_is_bounded_in_bytes() {
    let engine = open_on_virtual_time(1).await;
    let client = admin(&engine);
    let from = engine.version();
    let large = "x".repeat(512 << 10);
    post(&client, MAPS, &map("large", &large)).await.ok();
    for count in 0..40 {
        put(&client, &format!("{MAPS}/large"), &map("large", &format!("{count}{large}")))
            .await
            .ok();
    }
    let path = format!("{MAPS}?watch=true&resourceVersion={from}");
    let mut watch = Watch::open(&client, &path).await;
    let event = watch.next().await.expect("it says why");
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(event["object"]["reason"], "Expired");
    assert_eq!(watch.next().await, None, "nothing comes after an error");

    let recent = engine.version() - 3;
    let path = format!("{MAPS}?watch=true&resourceVersion={recent}");
    let mut watch = Watch::open(&client, &path).await;
    for _ in 0..3 {
        assert_eq!(watch.next().await.expect("recent changes are kept")["type"], "MODIFIED");
    }
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_version_from_the_future_is_gone_too() {
    let engine = open_on_virtual_time(1).await;
    let client = admin(&engine);
    for query in [
        "resourceVersion=999999999",
        "resourceVersion=18446744073709551615",
        "resourceVersion=999999999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &allowWatchBookmarks=true",
    ] {
        let mut watch = Watch::open(&client, &format!("{MAPS}?watch=true&{query}")).await;
        let event = watch.next().await.expect("it says why");
        assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
        assert_eq!(event["object"]["kind"], "Status");
        assert_eq!(watch.next().await, None, "nothing comes after an error");
    }
    engine.close().await;
}

/// A client whose server can be replaced, as by one that was restored from a backup.
fn switchable(engine: &Engine) -> (Client, Arc<Mutex<Client>>) {
    let current = Arc::new(Mutex::new(admin(engine)));
    let switch = current.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let client = current.lock().expect("nobody panics while holding it").clone();
        async move { client.send(request).await }
    });
    (Client::new(service, "default"), switch)
}

#[tokio::test(start_paused = true)]
async fn a_watcher_survives_a_server_that_went_back_in_time() {
    let ahead = open_on_virtual_time(1).await;
    let behind = open_on_virtual_time(2).await;
    let (client, switch) = switchable(&ahead);
    post(&admin(&behind), MAPS, &map("kept", "")).await.ok();
    for name in ["kept", "lost"] {
        post(&client, MAPS, &map(name, "")).await.ok();
    }
    for count in 0..100 {
        put(&client, &format!("{MAPS}/lost"), &map("lost", &count.to_string())).await.ok();
    }
    let mut events = Box::pin(watcher(maps(&client), ours(Config::default())));
    expect(&mut events, &["init", "has kept", "has lost", "done"]).await;
    post(&client, MAPS, &map("more", "")).await.ok();
    assert_eq!(next(&mut events).await, "put more");

    *switch.lock().expect("nobody panics while holding it") = admin(&behind);
    ahead.close().await;
    expect(&mut events, &["error 410", "init", "has kept", "done"]).await;
    post(&client, MAPS, &map("new", "")).await.ok();
    assert_eq!(next(&mut events).await, "put new");
    behind.close().await;
}

#[tokio::test(start_paused = true)]
async fn streaming_lists_end_with_their_bookmark() {
    let engine = open_on_virtual_time(1).await;
    let client = admin(&engine);
    let config = || ours(Config::default().streaming_lists());
    let mut none = Box::pin(watcher(maps(&client), config()));
    expect(&mut none, &["init", "done"]).await;
    for number in 0..600 {
        post(&client, MAPS, &map(&format!("m-{number:03}"), "")).await.ok();
    }
    let mut events = Box::pin(watcher(maps(&client), config()));
    assert_eq!(next(&mut events).await, "init");
    for number in 0..600 {
        assert_eq!(next(&mut events).await, format!("has m-{number:03}"));
    }
    assert_eq!(next(&mut events).await, "done");
    delete(&client, &format!("{MAPS}/m-007")).await.ok();
    assert_eq!(next(&mut events).await, "gone m-007");
    assert_eq!(next(&mut none).await, "put m-000", "what came after its end is news to it");
    engine.close().await;
}

/// Pages are of one state, whatever happens between them.
#[tokio::test(start_paused = true)]
async fn paged_lists_are_consistent() {
    let engine = open_on_virtual_time(1).await;
    let client = admin(&engine);
    for number in 0..5 {
        post(&client, MAPS, &map(&format!("m-{number}"), "")).await.ok();
    }
    let mut events = Box::pin(watcher(maps(&client), ours(Config::default().page_size(2))));
    expect(&mut events, &["init", "has m-0", "has m-1"]).await;
    delete(&client, &format!("{MAPS}/m-4")).await.ok();
    post(&client, MAPS, &map("m-9", "")).await.ok();
    expect(&mut events, &["has m-2", "has m-3", "has m-4", "done"]).await;
    expect(&mut events, &["gone m-4", "put m-9"]).await;
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn metadata_watches_carry_metadata_alone() {
    let engine = open_on_virtual_time(1).await;
    let client = admin(&engine);
    post(&client, MAPS, &map("a", "1")).await.ok();
    for config in [Config::default(), Config::default().streaming_lists()] {
        let metadata: Api<PartialObjectMeta<ConfigMap>> =
            Api::namespaced(client.clone(), "default");
        let mut events = Box::pin(watcher(metadata, ours(config)));
        expect(&mut events, &["init", "has a", "done"]).await;
        patch(&client, &format!("{MAPS}/a"), &json!({"data": {"value": "2"}})).await.ok();
        let Ok(Some(Event::Apply(object))) = events.try_next().await else { panic!("a change") };
        let types = object.types.as_ref().expect("it says what it is");
        assert_eq!(
            (&*types.api_version, &*types.kind),
            ("meta.k8s.io/v1", "PartialObjectMetadata")
        );
        assert!(object.metadata.uid.is_some());
        patch(&client, &format!("{MAPS}/a"), &json!({"data": {"value": "1"}})).await.ok();
        assert_eq!(next(&mut events).await, "put a");
    }
    engine.close().await;
}

/// To a watcher with a selector, an object that enters it appears and one that leaves it goes.
#[tokio::test(start_paused = true)]
async fn selectors_see_objects_come_and_go() {
    let engine = open_on_virtual_time(1).await;
    let client = admin(&engine);
    post(&client, MAPS, &labelled("a", "front")).await.ok();
    post(&client, MAPS, &labelled("b", "back")).await.ok();
    let mut front = Box::pin(watcher(maps(&client), Config::default().labels("tier=front")));
    expect(&mut front, &["init", "has a", "done"]).await;
    let version = engine.version();

    put(&client, &format!("{MAPS}/b"), &labelled("b", "front")).await.ok();
    put(&client, &format!("{MAPS}/a"), &labelled("a", "back")).await.ok();
    put(&client, &format!("{MAPS}/a"), &labelled("a", "none")).await.ok();
    put(&client, &format!("{MAPS}/a"), &labelled("a", "front")).await.ok();
    delete(&client, &format!("{MAPS}/b")).await.ok();
    expect(&mut front, &["put b", "gone a", "put a", "gone b"]).await;

    // The same on the wire: what leaves is shown as it last was, under the version of the change.
    let path = format!("{MAPS}?watch=true&resourceVersion={version}&labelSelector=tier%3Dfront");
    let mut watch = Watch::open(&client, &path).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let event = watch.next().await.expect("four changes concern it");
        let metadata = &event["object"]["metadata"];
        let at: u64 =
            metadata["resourceVersion"].as_str().expect("a version").parse().expect("digits");
        let tier = metadata["labels"]["tier"].clone();
        seen.push((event["type"].clone(), metadata["name"].clone(), tier, at - version));
    }
    let expected = [("ADDED", "b", 1), ("DELETED", "a", 2), ("ADDED", "a", 4), ("DELETED", "b", 5)];
    let expected = expected.map(|(kind, name, at)| (json!(kind), json!(name), json!("front"), at));
    assert_eq!(seen, expected);

    let mut named = Box::pin(watcher(maps(&client), Config::default().fields("metadata.name=c")));
    expect(&mut named, &["init", "done"]).await;
    post(&client, MAPS, &labelled("d", "front")).await.ok();
    post(&client, MAPS, &labelled("c", "front")).await.ok();
    assert_eq!(next(&mut named).await, "put c");
    engine.close().await;
}

/// Errors of the request itself, which no new list would cure, are no events.
#[tokio::test(start_paused = true)]
async fn invalid_watch_parameters_are_refused() {
    let engine = open_on_virtual_time(1).await;
    let client = admin(&engine);
    for (query, code) in [
        ("sendInitialEvents=true", 422),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=1", 422),
        ("labelSelector=a%20b%20c", 400),
        ("fieldSelector=spec.nothing%3Dx", 400),
        ("timeoutSeconds=soon", 400),
    ] {
        let answer = get(&client, &format!("{MAPS}?watch=true&{query}")).await;
        assert_eq!(answer.status, code, "{query}: {}", answer.body);
        assert_eq!(answer.body["kind"], "Status", "{query}");
    }
    engine.close().await;
}
