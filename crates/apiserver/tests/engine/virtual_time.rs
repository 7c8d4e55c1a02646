//! The engine on tokio's paused clock: expiry, timeouts, bookmarks, and the same bytes from the same seed.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use sojourn_apiserver::{Engine, TokioClock};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::controller::{install, observed};
use crate::fixture::{
    TEST_TIMEOUT, Watch, admin, delete, get, open_on_virtual_time, patch, post, settle, within,
};
use crate::florist::{Bouquet, BouquetSpec, Florist};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// A controller that runs until it is told to stop.
struct RunningController {
    florist: Florist,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl RunningController {
    async fn start(client: &Client) -> Self {
        install(client, TEST_TIMEOUT).await;
        let clock = TokioClock::starting_at(Timestamp::UNIX_EPOCH);
        let florist = Florist::new(client, "default", "anna", clock);
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(florist.clone().run(async { drop(stopped.await) }));
        Self { florist, stop, running }
    }

    async fn create_bouquet(&self, name: &str) {
        let bouquet = Bouquet::new(name, BouquetSpec { flowers: vec![name.to_owned()] });
        let by = PostParams { field_manager: Some("gardener".to_owned()), dry_run: false };
        self.florist.bouquets().create(&by, &bouquet).await.expect("a bouquet is created");
    }

    async fn set_flower_count(&self, name: &str, flowers: usize) {
        let wider = json!({"spec": {"flowers": vec![name; flowers]}});
        let by = PatchParams { field_manager: Some("gardener".to_owned()), ..Default::default() };
        let grown = self.florist.bouquets().patch(name, &by, &Patch::Merge(&wider)).await;
        grown.expect("a bouquet is changed");
    }

    async fn end(self) {
        self.stop.send(()).expect("the controller still runs");
        within("the controller stops", TEST_TIMEOUT, self.running).await.expect("it did not panic");
    }
}

fn event(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {"kind": "Bouquet", "namespace": "default", "name": "rose"},
        "reason": "Watered",
        "message": "by hand",
        "type": "Normal",
    })
}

const EVENTS: &str = "/api/v1/namespaces/default/events";

#[tokio::test(start_paused = true)]
async fn a_day_of_a_controller_takes_seconds() {
    let started = Instant::now();
    let engine = open_on_virtual_time(1).await;
    let client = admin(&engine);
    let controller = RunningController::start(&client).await;
    for name in ["aster", "dahlia", "rose"] {
        controller.create_bouquet(name).await;
    }
    for hour in 0..24_usize {
        tokio::time::sleep(HOUR).await;
        controller.set_flower_count("rose", hour + 2).await;
        post(&client, EVENTS, &event(&format!("hour-{hour}"))).await.ok();
    }
    let grown = await_condition(controller.florist.bouquets(), "rose", observed(25));
    within("the last change is arranged", TEST_TIMEOUT, grown).await.expect("it can be watched");

    let lease = controller.florist.leases().get("florist").await.expect("the lease is there");
    let renewed = lease.spec.and_then(|spec| spec.renew_time).expect("it was renewed").0;
    assert!(renewed >= timestamp(24 * HOUR - 2 * MINUTE), "{renewed}");
    controller.end().await;
    let kept = get(&client, EVENTS).await.ok();
    let kept: Vec<_> = items(&kept.body).iter().map(|e| &e["metadata"]["name"]).collect();
    assert_eq!(kept, ["hour-23"], "older ones have expired");
    engine.close().await;
    // A virtual day waits for nothing: this is all work, and machines may be slow.
    let took = started.elapsed();
    println!("a day took {took:?}");
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn events_expire_an_hour_after_they_were_last_written() {
    let engine = open_on_virtual_time(1).await;
    let client = admin(&engine);
    post(&client, EVENTS, &event("once")).await.ok();
    post(&client, EVENTS, &event("again")).await.ok();
    tokio::time::sleep(30 * MINUTE).await;
    patch(&client, &format!("{EVENTS}/again"), &json!({"count": 2})).await.ok();
    let names = async || -> Vec<String> {
        let list = get(&client, EVENTS).await.ok().body;
        let name = |event: &Value| event["metadata"]["name"].as_str().unwrap_or("?").to_owned();
        items(&list).iter().map(name).collect()
    };
    let from = format!("{EVENTS}?watch=true&resourceVersion={}", engine.version());
    let mut watch = Watch::open(&client, &from).await;

    tokio::time::sleep(29 * MINUTE).await;
    assert_eq!(names().await, ["again", "once"]);
    let gone = watch.next().await.expect("the watch goes on");
    assert_eq!(
        (&gone["type"], &gone["object"]["metadata"]["name"]),
        (&json!("DELETED"), &json!("once"))
    );
    assert_eq!(names().await, ["again"]);
    tokio::time::sleep(29 * MINUTE).await;
    assert_eq!(names().await, ["again"]);
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(names().await, [""; 0]);
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_timeout() {
    let engine = open_on_virtual_time(1).await;
    let client = admin(&engine);
    let lasts = async |query: &str| {
        let opened = tokio::time::Instant::now();
        let path = format!("/api/v1/configmaps?watch=true&resourceVersion=1{query}");
        let mut watch = Watch::open(&client, &path).await;
        while watch.next().await.is_some() {}
        opened.elapsed().as_secs()
    };
    assert_eq!(lasts("&timeoutSeconds=77").await, 77);
    assert_eq!(lasts("&timeoutSeconds=1").await, 1);
    for _ in 0..4 {
        let seconds = lasts("").await;
        assert!((1_800..3_600).contains(&seconds), "{seconds}");
    }
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_each_minute_and_before_the_end() {
    let engine = open_on_virtual_time(1).await;
    let client = admin(&engine);
    let version = engine.version();
    let path = format!(
        "/api/v1/configmaps?watch=true&allowWatchBookmarks=true&timeoutSeconds=305\
         &resourceVersion={version}"
    );
    let opened = tokio::time::Instant::now();
    let mut watch = Watch::open(&client, &path).await;
    // What happens to other kinds moves the bookmarks on.
    let namespace = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    post(&client, "/api/v1/namespaces/default/secrets", &namespace).await.ok();
    let now = engine.version();
    let mut seconds = Vec::new();
    while let Some(event) = watch.next().await {
        let expected = json!({
            "type": "BOOKMARK",
            "object": {
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": now.to_string()},
            },
        });
        assert_eq!(event, expected);
        seconds.push(opened.elapsed().as_secs());
    }
    assert_eq!(seconds, [60, 120, 180, 240, 300, 303]);
    assert_eq!(opened.elapsed().as_secs(), 305);

    let quiet = path.replace("allowWatchBookmarks=true&", "");
    assert_eq!(Watch::open(&client, &quiet).await.next().await, None, "nobody asked");
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_not_reached_is_waited_for_briefly() {
    let engine = open_on_virtual_time(1).await;
    let client = admin(&engine);
    let asked = tokio::time::Instant::now();
    let far = engine.version() + 1_000;
    let answer = get(&client, &format!("/api/v1/configmaps?resourceVersion={far}")).await;
    assert_eq!(answer.status, 504);
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(answer.body["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(asked.elapsed().as_secs(), 3);

    let next = engine.version() + 1;
    let path = format!("/api/v1/configmaps?resourceVersion={next}");
    let (answer, ()) = tokio::join!(get(&client, &path), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        post(&client, EVENTS, &event("e")).await.ok();
    });
    assert_eq!(answer.status, 200);
    engine.close().await;
}

/// The lists of every kind after two virtual hours of activity.
fn lists_after_activity(seed: u64) -> Vec<(String, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime can be built");
    runtime.block_on(async {
        let engine = open_on_virtual_time(seed).await;
        let client = admin(&engine);
        let controller = RunningController::start(&client).await;
        for name in ["aster", "dahlia", "rose"] {
            controller.create_bouquet(name).await;
        }
        tokio::time::sleep(HOUR).await;
        controller.set_flower_count("rose", 2).await;
        create_and_delete_objects(&client).await;
        let aster = "/apis/florist.example/v1/namespaces/default/bouquets/aster";
        delete(&client, aster).await.ok();
        tokio::time::sleep(HOUR).await;
        controller.end().await;
        settle().await;
        let lists = list_everything(&engine, &client).await;
        engine.close().await;
        lists
    })
}

/// Work for the background: generated names, owners that go, namespaces that go.
async fn create_and_delete_objects(client: &Client) {
    for namespace in ["east", "north", "south", "west"] {
        let made =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        post(client, "/api/v1/namespaces", &made).await.ok();
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
        let owner = post(client, &maps, &owner).await.ok();
        for _ in 0..5 {
            let owned = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"generateName": "owned-", "ownerReferences": [{
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": "owner",
                    "uid": owner.body["metadata"]["uid"],
                }]},
            });
            post(client, &maps, &owned).await.ok();
        }
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"generateName": "s-"},
            "spec": {"ports": [{"port": 80}]},
        });
        post(client, &format!("/api/v1/namespaces/{namespace}/services"), &service).await.ok();
        tokio::time::sleep(MINUTE).await;
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "p-"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        post(client, &format!("/api/v1/namespaces/{namespace}/pods"), &pod).await.ok();
    }
    delete(client, "/api/v1/namespaces/east/configmaps/owner").await.ok();
    delete(client, "/api/v1/namespaces/north").await.ok();
    delete(client, "/api/v1/namespaces/south").await.ok();
}

/// Every kind that can be listed, in every version, as its list's text.
async fn list_everything(engine: &Engine, client: &Client) -> Vec<(String, String)> {
    let mut roots = vec!["/api/v1".to_owned()];
    let groups = get(client, "/apis").await.ok().body;
    for group in groups["groups"].as_array().expect("there are groups") {
        for version in group["versions"].as_array().expect("a group has versions") {
            let name = version["groupVersion"].as_str().expect("a version has a name");
            roots.push(format!("/apis/{name}"));
        }
    }
    // The CA's key never comes from the seed, so its certificate is the one text that differs.
    let authority =
        get(client, "/api/v1/namespaces/default/configmaps/kube-root-ca.crt").await.ok();
    let authority = authority.body["data"]["ca.crt"].to_string();
    let mut lists = vec![("version".to_owned(), engine.version().to_string())];
    for root in roots {
        let resources = get(client, &root).await.ok().body;
        for resource in resources["resources"].as_array().expect("a version has resources") {
            let listable = resource["verbs"].as_array().is_some_and(|v| v.contains(&json!("list")));
            let name = resource["name"].as_str().expect("a resource has a name");
            if listable && !name.contains('/') {
                let path = format!("{root}/{name}");
                let request = http::Request::get(&path).body(Vec::new());
                let request = request.expect("a path is well formed");
                let text = client.request_text(request).await.expect("it can be listed");
                lists.push((path, text.replace(&authority, "\"\"")));
            }
        }
    }
    lists
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let (first, second) = (lists_after_activity(7), lists_after_activity(7));
    assert!(first.len() > 15, "{} kinds", first.len());
    for (one, other) in first.iter().zip(&second) {
        assert_eq!(one, other);
    }
    assert_eq!(first.len(), second.len());
    assert_ne!(first, lists_after_activity(8));
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn timestamp(after: Duration) -> Timestamp {
    Timestamp::UNIX_EPOCH.checked_add(after).expect("a day after 1970 is a time")
}
