//! What is kept, across ends of all kinds; and the bound on what waits for the disk.

use std::path::Path;

use futures::future::poll_immediate;
use futures::stream::{FuturesUnordered, StreamExt};
use http::{Request, header};
use kube::Client;
use rusqlite::Connection;
use serde_json::{Value, json};
use sojourn_apiserver::{Config, Engine, Limits, OpenError, backup};

use crate::fixture::{
    Folder, TEST_TIMEOUT, admin, delete, eventually, get, on_virtual_time, patch, post, settle,
    within,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DATABASE: &str = "sojourn.db";

fn map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"value": value},
    })
}

async fn open_at(path: &Path) -> Engine {
    Engine::open(Config::at(path)).await.expect("the store opens")
}

/// What opening fails with, in words.
async fn refusal(path: &Path) -> (OpenError, String) {
    let error = Engine::open(Config::at(path)).await.expect_err("it must not open");
    let text = error.to_string();
    (error, text)
}

/// Everything of some kinds, as it is listed, without the list's own version.
async fn contents(client: &Client) -> Vec<Value> {
    let mut lists = Vec::new();
    for path in [
        "/api/v1/configmaps",
        "/api/v1/namespaces",
        "/api/v1/secrets",
        "/api/v1/serviceaccounts",
        "/api/v1/services",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/store.example/v1/things",
    ] {
        let list = get(client, path).await.ok().body;
        lists.push(list["items"].clone());
    }
    lists
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.store.example"},
        "spec": {
            "group": "store.example",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

/// Waits until the background work of a new engine is done.
async fn wait_for_defaults(client: &Client) {
    eventually("the namespaces have their defaults", TEST_TIMEOUT, async || {
        let maps = get(client, "/api/v1/configmaps").await.ok().body;
        let accounts = get(client, "/api/v1/serviceaccounts").await.ok().body;
        let count = |list: &Value| list["items"].as_array().map_or(0, Vec::len);
        (count(&maps) >= 4 && count(&accounts) >= 4).then_some(())
    })
    .await;
}

async fn fill(client: &Client) {
    wait_for_defaults(client).await;
    post(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition())
        .await
        .ok();
    let thing = json!({
        "apiVersion": "store.example/v1",
        "kind": "Thing",
        "metadata": {"name": "t", "finalizers": ["store.example/kept"]},
        "some": {"text": "é\u{1f600}", "number": 9_007_199_254_740_993_i64, "float": 1.5},
    });
    let things = "/apis/store.example/v1/namespaces/default/things";
    eventually("the definition is established", TEST_TIMEOUT, async || {
        post(client, things, &thing).await.status.is_success().then_some(())
    })
    .await;
    delete(client, &format!("{things}/t")).await.ok();
    for number in 0..20 {
        post(client, MAPS, &map(&format!("m-{number}"), "1")).await.ok();
    }
    patch(client, &format!("{MAPS}/m-1"), &json!({"data": {"value": "2"}})).await.ok();
    delete(client, &format!("{MAPS}/m-2")).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_is_there_again() {
    let folder = Folder::new();
    let engine = open_at(folder.path()).await;
    let client = admin(&engine);
    fill(&client).await;
    let (before, version) = (contents(&client).await, engine.version());
    engine.close().await;
    let answer = post(&client, MAPS, &map("late", "")).await;
    assert_eq!(answer.status, 503, "a closed engine writes nothing: {}", answer.body);

    let mut last = version;
    for _ in 0..3 {
        let engine = open_at(folder.path()).await;
        let client = admin(&engine);
        // Definitions are served at once: no background work comes first.
        assert_eq!(contents(&client).await, before);
        assert!(engine.version() >= last, "{} after {last}", engine.version());
        let made = post(&client, MAPS, &map("next", "")).await.ok();
        let given = made.body["metadata"]["resourceVersion"].as_str().expect("a version");
        let given: u64 = given.parse().expect("versions are numbers");
        assert!(given > last, "{given} after {last}");
        delete(&client, &format!("{MAPS}/next")).await.ok();
        last = engine.version();
        engine.close().await;
    }
}

/// A process that is killed closes nothing. Copies of the files, taken while the engine runs, are
/// what it would leave behind.
#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_a_crash() {
    let (folder, crashed) = (Folder::new(), Folder::new());
    let engine = open_at(folder.path()).await;
    let client = admin(&engine);
    fill(&client).await;
    let (before, version) = (contents(&client).await, engine.version());
    // No write is under way: the log and the database are of one moment.
    copy_files(folder.path(), crashed.path());
    let revived = open_at(crashed.path()).await;
    assert_eq!(contents(&admin(&revived)).await, before);
    assert!(revived.version() >= version);
    revived.close().await;
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn inline_writes_are_kept_too() {
    let folder = Folder::new();
    let config = || on_virtual_time(Config::at(folder.path()), 1);
    let engine = Engine::open(config()).await.expect("the store opens");
    post(&admin(&engine), MAPS, &map("a", "1")).await.ok();
    settle().await;
    let kept = contents_of_maps(&engine).await;
    engine.close().await;
    let engine = Engine::open(config()).await.expect("the store opens");
    assert_eq!(contents_of_maps(&engine).await, kept);
    engine.close().await;
}

async fn contents_of_maps(engine: &Engine) -> Value {
    get(&admin(engine), MAPS).await.ok().body["items"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_a_whole_store() {
    let (folder, target) = (Folder::new(), Folder::new());
    let engine = open_at(folder.path()).await;
    let client = admin(&engine);
    fill(&client).await;
    let before = contents(&client).await;
    let bytes = backup(folder.path(), &target.path().join(DATABASE)).expect("it can be copied");
    assert!(bytes > 0);
    post(&client, MAPS, &map("after", "")).await.ok();
    engine.close().await;
    let copy = open_at(target.path()).await;
    assert_eq!(contents(&admin(&copy)).await, before);
    copy.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_has_one_engine() {
    let folder = Folder::new();
    let engine = open_at(folder.path()).await;
    let (error, text) = refusal(folder.path()).await;
    assert!(matches!(error, OpenError::Locked { .. }), "{error:?}");
    let holder = format!("is in use by process {}", std::process::id());
    assert!(text.contains(&holder), "{text}");
    assert!(text.contains(&folder.path().display().to_string()), "{text}");

    engine.set_lock_holder("the kitchen");
    let (_, text) = refusal(folder.path()).await;
    assert!(text.ends_with("is in use by the kitchen"), "{text}");
    // The one that holds it is not disturbed.
    post(&admin(&engine), MAPS, &map("a", "")).await.ok();
    engine.close().await;
    open_at(folder.path()).await.close().await;
}

/// How a file is no longer what it was, in words and in deed.
type Damage = (&'static str, fn(&Path));

const DAMAGES: [Damage; 4] = [
    ("the start is overwritten", |path| {
        overwrite(path, 0, &[0xa5; 100]);
    }),
    ("the middle is overwritten", |path| {
        let length = std::fs::metadata(path).expect("it is there").len();
        for page in 2..length / 4_096 {
            overwrite(path, page * 4_096, &[0xa5; 4_096]);
        }
    }),
    ("the end is missing", |path| {
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("it can be written");
        let length = file.metadata().expect("it is there").len();
        file.set_len(length / 2).expect("it can be cut");
    }),
    ("an object is no JSON", |path| {
        let connection = Connection::open(path).expect("it opens");
        let changed =
            connection.execute("UPDATE object SET data = x'7b7b' WHERE key LIKE '%m-3'", []);
        assert_eq!(changed.expect("it can be changed"), 1);
        connection.pragma_update(None, "wal_checkpoint", "TRUNCATE").expect("it is written");
    }),
];

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("it can be written");
    file.write_all_at(bytes, at).expect("it can be written");
}

fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("it is a folder") {
        let entry = entry.expect("it can be read");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("it can be copied");
    }
}

/// The database and its log; the log's index is SQLite's own scratch.
fn files(folder: &Path) -> Vec<(String, Option<Vec<u8>>)> {
    let names = [DATABASE.to_owned(), format!("{DATABASE}-wal")];
    names.map(|name| (name.clone(), std::fs::read(folder.join(name)).ok())).into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_store_does_not_open_and_is_left_as_it_is() {
    let whole = Folder::new();
    let engine = open_at(whole.path()).await;
    fill(&admin(&engine)).await;
    engine.close().await;
    for (what, damage) in DAMAGES {
        let folder = Folder::new();
        copy_files(whole.path(), folder.path());
        damage(&folder.path().join(DATABASE));
        assert_left_alone(what, folder.path()).await;
    }
}

/// The same after a crash, when the newest writes are still in the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_store_with_a_log_is_left_as_it_is() {
    let (running, whole) = (Folder::new(), Folder::new());
    let engine = open_at(running.path()).await;
    fill(&admin(&engine)).await;
    engine.close().await;
    let engine = open_at(running.path()).await;
    post(&admin(&engine), MAPS, &map("in-the-log", "")).await.ok();
    copy_files(running.path(), whole.path());
    engine.close().await;
    let log = std::fs::metadata(whole.path().join(format!("{DATABASE}-wal"))).expect("a log");
    assert!(log.len() > 0);
    // What the log holds anew hides damage to the old pages, so most of them are hit.
    let (what, damage) = DAMAGES[1];
    damage(&whole.path().join(DATABASE));
    assert_left_alone(what, whole.path()).await;
}

async fn assert_left_alone(what: &str, folder: &Path) {
    let before = files(folder);
    let (error, text) = refusal(folder).await;
    assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {error:?}");
    assert!(text.contains("damaged") && text.contains("nothing was changed"), "{what}: {text}");
    for ((name, old), (_, new)) in before.iter().zip(files(folder)) {
        // A log that has nothing in it may come and go.
        let empty = |bytes: &Option<Vec<u8>>| bytes.as_ref().is_none_or(Vec::is_empty);
        let size = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(Vec::len);
        let (was, is) = (size(old), size(&new));
        let same = *old == new || (empty(old) && empty(&new));
        assert!(same, "{what}: {name} was changed, {was:?} bytes to {is:?}");
    }
    // And it can be tried again: nothing holds on to the folder.
    let (error, _) = refusal(folder).await;
    assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_format_is_left_alone() {
    let folder = Folder::new();
    open_at(folder.path()).await.close().await;
    let path = folder.path().join(DATABASE);
    let connection = Connection::open(&path).expect("it opens");
    connection.pragma_update(None, "user_version", 999).expect("it can be changed");
    drop(connection);
    let before = files(folder.path());
    let (error, text) = refusal(folder.path()).await;
    assert!(matches!(error, OpenError::Newer { found: 999, .. }), "{error:?}");
    assert!(text.contains("newer version"), "{text}");
    assert_eq!(files(folder.path())[0], before[0]);
}

/// What is taken in can be read again, changed and deleted, however deep it is: an object that
/// only the running engine can read would keep the next one from opening.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_accepted_can_be_read_again() {
    let folder = Folder::new();
    let engine = open_at(folder.path()).await;
    let client = admin(&engine);
    fill(&client).await;
    let things = "/apis/store.example/v1/namespaces/default/things";
    let mut accepted = Vec::new();
    for depth in 90..140 {
        let mut deep = json!(1);
        for _ in 0..depth {
            deep = json!({"a": deep});
        }
        let name = format!("deep-{depth}");
        let thing = json!({
            "apiVersion": "store.example/v1",
            "kind": "Thing",
            "metadata": {"name": name},
            "some": deep,
        });
        let answer = post(&client, things, &thing).await;
        if answer.status.is_success() {
            accepted.push(name);
        } else {
            assert!(answer.status.is_client_error(), "{depth}: {}", answer.body);
        }
    }
    assert!(accepted.len() > 5, "{accepted:?}");
    let label = json!({"metadata": {"labels": {"seen": "yes"}}});
    for name in &accepted {
        let answer = patch(&client, &format!("{things}/{name}"), &label).await;
        assert_eq!(answer.status, 200, "{name}: {}", answer.body);
    }
    engine.close().await;
    let engine = open_at(folder.path()).await;
    let client = admin(&engine);
    for name in &accepted {
        let thing = get(&client, &format!("{things}/{name}")).await;
        assert_eq!(thing.body["metadata"]["labels"]["seen"], "yes", "{name}");
        delete(&client, &format!("{things}/{name}")).await.ok();
    }
    engine.close().await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let outer = Folder::new();
    let folder = outer.path().join("data");
    let engine = open_at(&folder).await;
    post(&admin(&engine), MAPS, &map("a", "")).await.ok();
    let mode =
        |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for entry in std::fs::read_dir(&folder).expect("it is a folder") {
        let path = entry.expect("it can be read").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    engine.close().await;
}

/// While the disk takes its time, writes wait in a queue that has an end.
#[tokio::test]
async fn the_write_queue_is_bounded() {
    let folder = Folder::new();
    let engine = open_at(folder.path()).await;
    let client = admin(&engine);
    engine.add_token("admin", crate::fixture::user("admin", &["system:masters"]));
    wait_for_defaults(&client).await;
    // Whoever holds the write lock of the database is a disk that does not answer.
    let slow = Connection::open(folder.path().join(DATABASE)).expect("it opens");
    slow.busy_timeout(TEST_TIMEOUT).expect("it waits");
    slow.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");

    let mut waiting = FuturesUnordered::new();
    let mut refused = None;
    for number in 0..10_000 {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": format!("l-{number}")},
        });
        let request = Request::post("/apis/coordination.k8s.io/v1/namespaces/default/leases")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, "Bearer admin")
            .body(axum::body::Body::from(lease.to_string()))
            .expect("it is well formed");
        // Polled once, a request waits for the disk or is refused.
        let mut one = Box::pin(tower::ServiceExt::oneshot(engine.router(), request));
        match poll_immediate(&mut one).await {
            Some(answer) => {
                refused = Some(answer.expect("it is answered"));
                break;
            }
            None => waiting.push(one),
        }
    }
    let accepted = waiting.len();
    slow.execute_batch("ROLLBACK").expect("the lock is given back");
    drop(slow);
    let refused = refused.expect("a queue has an end");
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()[header::RETRY_AFTER]),
        (429, &"1".parse().expect("a value"))
    );
    assert!(accepted > 1_000, "{accepted}");
    let all = async {
        while let Some(answer) = waiting.next().await {
            let status = answer.expect("it is answered").status();
            assert_eq!(status, 201, "what was taken in is written");
        }
    };
    within("the queue empties", TEST_TIMEOUT, all).await;
    post(&client, MAPS, &map("after", "")).await.ok();
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_clipped_and_the_rest_is_behind_continue() {
    let limits = Limits { page_objects: 3, ..Limits::default() };
    let config = on_virtual_time(Config::in_memory().limits(limits), 1);
    let engine = Engine::open(config).await.expect("the store opens");
    let client = admin(&engine);
    post(&client, "/api/v1/namespaces", &json!({"metadata": {"name": "paged"}})).await.ok();
    let maps = "/api/v1/namespaces/paged/configmaps";
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    for name in names {
        post(&client, maps, &map(name, "x")).await.ok();
    }
    let own = "fieldSelector=metadata.name!=kube-root-ca.crt";
    let mut found = Vec::new();
    let mut next = String::new();
    let mut pages = 0;
    loop {
        let path = format!("{maps}?limit=9000000000000000000&{own}&continue={next}");
        let list = get(&client, &path).await.ok().body;
        let items = list["items"].as_array().expect("a list").clone();
        assert!(items.len() <= 3, "{list}");
        let named = |item: &Value| item["metadata"]["name"].as_str().map(str::to_owned);
        found.extend(items.iter().filter_map(named));
        pages += 1;
        next = list["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if next.is_empty() {
            break;
        }
    }
    assert_eq!((found, pages), (names.map(str::to_owned).to_vec(), 3));
    let first = get(&client, &format!("{maps}?limit=100")).await.ok().body;
    let count = first["items"].as_array().map_or(0, Vec::len);
    let whole = get(&client, maps).await.ok().body;
    let all = whole["items"].as_array().map_or(0, Vec::len);
    assert_eq!((count, &whole["metadata"]["continue"]), (3, &Value::Null));
    assert_eq!(first["metadata"]["remainingItemCount"], json!(all - count));
    // Whoever deletes names no page to be read.
    delete(&client, &format!("{maps}?limit=100&{own}")).await.ok();
    let left = get(&client, &format!("{maps}?{own}")).await.ok().body;
    assert_eq!(left["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_says_whether_the_store_writes() {
    let folder = Folder::new();
    let engine = open_at(folder.path()).await;
    let client = admin(&engine);
    assert_eq!(get(&client, "/readyz").await.ok().body, json!("ok"));
    let verbose = get(&client, "/readyz?verbose").await.ok().body;
    assert_eq!(verbose, json!("[+]ping ok\n[+]store ok\nreadyz check passed\n"));
    assert_eq!(get(&client, "/readyz/store").await.ok().body, json!("ok"));

    let other = Connection::open(folder.path().join(DATABASE)).expect("a database");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody writes now");
    let refused = post(&client, MAPS, &map("refused", "x")).await;
    assert_eq!(refused.status, 500, "{}", refused.body);
    let told = get(&client, "/readyz").await;
    let report = told.body.as_str().unwrap_or_default();
    assert_eq!(told.status, 500, "{report}");
    assert!(report.contains("[+]ping ok\n[-]store failed: the database cannot"), "{report}");
    assert!(report.ends_with("readyz check failed\n"), "{report}");
    assert_eq!(get(&client, "/readyz/store").await.status, 500);
    assert_eq!(get(&client, "/readyz/ping").await.status, 200);
    // A restart would not mend it.
    assert_eq!(get(&client, "/livez").await.ok().body, json!("ok"));
    assert_eq!(get(&client, "/healthz").await.ok().body, json!("ok"));

    // Nobody writes anything from here on: readiness finds out by itself.
    other.execute_batch("ROLLBACK").expect("as it was");
    eventually("the store writes again", TEST_TIMEOUT, async || {
        get(&client, "/readyz").await.status.is_success().then_some(())
    })
    .await;
    engine.close().await;
    let closed = get(&client, "/readyz/store").await;
    assert!(closed.status.is_success(), "what is known holds for a while: {}", closed.body);
}
