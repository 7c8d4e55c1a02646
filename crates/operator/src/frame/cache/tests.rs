use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Mutex;

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;

/// The longest that a test waits, on a clock that jumps.
const TEST_TIMEOUT: Duration = Duration::from_secs(600);

/// What the API answers next.
enum Answer {
    List(&'static [(&'static str, u32)]),
    /// A watch that tells this and ends.
    Watch(Vec<Value>),
    Refuse(StatusCode),
}

fn map(name: &str, version: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "a", "resourceVersion": version.to_string()},
    })
}

fn event(kind: &str, name: &str, version: u32) -> Value {
    json!({"type": kind, "object": map(name, version)})
}

/// A client of an API that answers by the script, and then no more.
fn client(script: Vec<Answer>) -> Client {
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let service = tower::service_fn(move |_: Request<kube::client::Body>| {
        let answer = script.lock().expect("no panic inside").pop_front();
        async move {
            let Some(answer) = answer else { return std::future::pending().await };
            Ok::<_, Infallible>(respond(answer))
        }
    });
    Client::new(service, "default")
}

fn respond(answer: Answer) -> Response<Full<bytes::Bytes>> {
    let (code, text) = match answer {
        Answer::List(objects) => {
            let items: Vec<_> = objects.iter().map(|(name, version)| map(name, *version)).collect();
            let newest = objects.iter().map(|(_, version)| *version).max().unwrap_or(1);
            let list = json!({
                "apiVersion": "v1", "kind": "ConfigMapList", "items": items,
                "metadata": {"resourceVersion": newest.to_string()},
            });
            (StatusCode::OK, list.to_string())
        }
        Answer::Watch(events) => {
            let lines = events.iter().map(|event| format!("{event}\n"));
            (StatusCode::OK, lines.collect())
        }
        Answer::Refuse(code) => {
            let status = json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code.as_u16(),
                "reason": "Expired", "message": "too old",
            });
            (code, status.to_string())
        }
    };
    Response::builder().status(code).body(Full::from(text)).expect("a response")
}

/// What the callbacks were told: the name, and the version before and now.
type Told = (String, Option<u64>, Option<u64>);

/// Follows the script until so many changes were told.
async fn follow(cache: &Cache<u64>, script: Vec<Answer>, changes: usize) -> Vec<Told> {
    let (tell, mut told) = mpsc::unbounded_channel();
    let api: Api<ConfigMap> = Api::all(client(script));
    let version = |map: ConfigMap| -> u64 {
        map.metadata.resource_version.and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    let following = cache.follow(api, watcher::Config::default(), version, |change| {
        let one = (change.key.name.to_string(), change.before.copied(), change.now.copied());
        tell.send(one).expect("the test listens");
    });
    let mut all = Vec::new();
    let collecting = async {
        while all.len() < changes {
            all.push(told.recv().await.expect("the cache follows"));
        }
        cache.until_ready().await;
    };
    let both = async {
        tokio::select! {
            () = following => panic!("it follows for ever"),
            () = collecting => {}
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, both).await.expect("in time");
    all
}

fn told(name: &str, before: Option<u64>, now: Option<u64>) -> Told {
    (name.to_owned(), before, now)
}

fn names(cache: &Cache<u64>) -> Vec<String> {
    let mut names: Vec<_> = cache.keys().into_iter().map(|key| key.name.to_string()).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn it_lists_then_follows_and_is_ready_only_then() {
    let cache = Cache::default();
    assert!(!cache.is_ready());
    let script = vec![
        Answer::List(&[("one", 3), ("two", 5)]),
        Answer::Watch(vec![
            event("MODIFIED", "one", 6),
            event("ADDED", "three", 7),
            event("DELETED", "two", 8),
        ]),
    ];
    let all = follow(&cache, script, 5).await;
    assert_eq!(
        all,
        [
            told("one", None, Some(3)),
            told("two", None, Some(5)),
            told("one", Some(3), Some(6)),
            told("three", None, Some(7)),
            told("two", Some(5), None),
        ]
    );
    assert!(cache.is_ready());
    assert_eq!(names(&cache), ["one", "three"]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_drops_what_is_gone_and_tells_only_what_changed() {
    let too_old = json!({"type": "ERROR", "object": {
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
        "message": "too old",
    }});
    for refusal in [Answer::Watch(vec![too_old]), Answer::Refuse(StatusCode::GONE)] {
        let cache = Cache::default();
        let script = vec![
            Answer::List(&[("gone", 3), ("same", 4), ("newer", 5)]),
            refusal,
            Answer::List(&[("same", 4), ("newer", 9)]),
        ];
        let all = follow(&cache, script, 5).await;
        assert_eq!(all[3..], [told("newer", Some(5), Some(9)), told("gone", Some(3), None)]);
        assert_eq!(names(&cache), ["newer", "same"]);
    }
}

#[tokio::test(start_paused = true)]
async fn errors_are_retried_with_patience_and_nothing_is_forgotten_meanwhile() {
    let cache = Cache::default();
    let began = tokio::time::Instant::now();
    let mut script = vec![Answer::List(&[("kept", 3)])];
    script.extend((0..8).map(|_| Answer::Refuse(StatusCode::INTERNAL_SERVER_ERROR)));
    script.push(Answer::Watch(vec![event("MODIFIED", "kept", 4)]));
    let all = follow(&cache, script, 2).await;
    assert_eq!(all[1], told("kept", Some(3), Some(4)));
    // 0.5, 1, 2, 4, 8, 16, and twice the longest.
    assert_eq!(began.elapsed().as_millis(), 31_500 + 2 * MAX_RETRY_DELAY.as_millis());
}

fn quiet(_: &Change<'_, u64>) {}

#[test]
fn an_own_write_is_not_overtaken_by_an_older_event() {
    let cache = Cache::default();
    let key = Key::new("a", "one");
    cache.store(&key, Some("3"), 3, IfAbsent::Insert, quiet);
    cache.put(&key, Some("5"), 5, quiet);
    cache.store(&key, Some("4"), 4, IfAbsent::Insert, |_| panic!("it is old news"));
    assert_eq!(cache.get(&key).as_deref(), Some(&5));
    cache.store(&key, Some("5"), 5, IfAbsent::Insert, |_| panic!("it is known"));
    cache.store(&key, Some("6"), 6, IfAbsent::Insert, quiet);
    assert_eq!(cache.get(&key).as_deref(), Some(&6));
    cache.put(&key, Some("5"), 5, |_| panic!("the answer came late"));
    assert_eq!(cache.get(&key).as_deref(), Some(&6));
}

#[test]
fn what_was_deleted_does_not_come_back_by_a_write_of_ours() {
    let cache = Cache::default();
    let key = Key::new("a", "one");
    cache.store(&key, Some("3"), 3, IfAbsent::Insert, quiet);
    cache.remove(&key, quiet);
    cache.put(&key, Some("4"), 4, |_| panic!("it is gone"));
    assert!(cache.is_empty());
    cache.store(&key, Some("7"), 7, IfAbsent::Insert, quiet);
    assert_eq!((cache.len(), cache.get(&key).as_deref()), (1, Some(&7)), "a new one by that name");
    cache.remove(&Key::new("a", "other"), |_| panic!("it was never here"));
}

#[tokio::test(start_paused = true)]
async fn what_was_made_while_everything_is_listed_is_not_taken_for_gone() {
    let cache = Cache::default();
    let (early, late) = (Key::new("a", "early"), Key::new("a", "late"));
    cache.admit(&early, Some("2"), 2, quiet);
    cache.set_listing(true);
    cache.admit(&late, Some("9"), 9, quiet);
    assert_eq!(cache.set_listing(false), HashSet::from([late.clone()]));
    cache.admit(&early, Some("10"), 10, quiet);
    assert_eq!(cache.set_listing(true), HashSet::new(), "nothing was listed then");
    cache.evict(&late, quiet);
    assert_eq!(names(&cache), ["early"]);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_lists_anew_knows_since_when_its_watch_works() {
    let cache = Cache::relisting_after_failure();
    let began = Instant::now();
    let watch_health = cache.watch_health();
    assert_eq!(*watch_health.borrow(), WatchHealth::Lost { since: began });
    let script = vec![
        Answer::List(&[("one", 3)]),
        Answer::Refuse(StatusCode::INTERNAL_SERVER_ERROR),
        Answer::Refuse(StatusCode::INTERNAL_SERVER_ERROR),
        Answer::List(&[("one", 4)]),
    ];
    follow(&cache, script, 2).await;
    let unbroken = *watch_health.borrow();
    assert_eq!(unbroken, WatchHealth::Healthy { since: began + FIRST_RETRY_DELAY * 3 });
    cache.mark_watch_lost();
    tokio::time::advance(FIRST_RETRY_DELAY).await;
    cache.mark_watch_lost();
    let lost = *watch_health.borrow();
    assert_eq!(
        lost,
        WatchHealth::Lost { since: began + FIRST_RETRY_DELAY * 3 },
        "since the first failure"
    );
}
