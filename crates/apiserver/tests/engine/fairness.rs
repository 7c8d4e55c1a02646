//! Nobody's requests, however many, keep the administrator, a node or another user waiting.

use std::convert::Infallible;
use std::time::Duration;

use futures::future::join_all;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use serde_json::{Value, json};
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, Hook, HookScope, Hooks, Limits};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::ServiceExt as _;
use tower::util::BoxCloneService;

use crate::fixture::{
    Answer, TEST_TIMEOUT, Watch, admin, delete, eventually, get, on_virtual_time, post, request,
    send, settle, user, within,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const CONTROLLER: &str = "system:serviceaccount:florist:controller";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

/// Lets these users do anything to ConfigMaps.
async fn create_fixtures(engine: &Engine, users: &[&str]) {
    let admin = admin(engine);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "maps"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}],
    });
    post(&admin, &format!("{RBAC}/clusterroles"), &role).await.ok();
    let subject = |name: &&str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "maps"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "maps"},
        "subjects": users.iter().map(subject).collect::<Vec<_>>(),
    });
    post(&admin, &format!("{RBAC}/clusterrolebindings"), &binding).await.ok();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n1"},
    });
    post(&admin, LEASES, &lease).await.ok();
    for name in users.iter().chain(&["nobody"]) {
        engine.add_token(name, user(name, &[]));
    }
}

async fn open(config: Config) -> Engine {
    let engine = Engine::open(on_virtual_time(config, 1)).await.expect("an engine in memory opens");
    settle().await;
    create_fixtures(&engine, &["ann", "bob", CONTROLLER]).await;
    engine
}

fn seats(in_flight: usize) -> Config {
    Config::in_memory().limits(Limits { in_flight, ..Limits::default() })
}

fn as_user(engine: &Engine, name: &str) -> Client {
    engine.client(user(name, &[]))
}

/// A request of `name` whose body never comes, as somebody else's task.
fn endless(engine: &Engine, name: &str) -> JoinHandle<StatusCode> {
    let pieces = futures::stream::pending::<Result<String, Infallible>>();
    let request = Request::post(MAPS)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::AUTHORIZATION, format!("Bearer {name}"))
        .body(axum::body::Body::from_stream(pieces))
        .expect("it is well formed");
    let answer = engine.router().oneshot(request);
    tokio::spawn(async move { answer.await.expect("it is answered").status() })
}

/// How many of these have been answered, by status.
async fn answered(asked: &mut Vec<JoinHandle<StatusCode>>) -> Vec<u16> {
    let (done, open): (Vec<_>, Vec<_>) = asked.drain(..).partition(JoinHandle::is_finished);
    *asked = open;
    join_all(done).await.into_iter().map(|it| it.expect("it did not panic").as_u16()).collect()
}

/// The administrator, a node and `others` are answered at once.
async fn assert_all_served(engine: &Engine, others: &[&str]) {
    let began = Instant::now();
    let administrator = admin(engine);
    get(&administrator, MAPS).await.ok();
    post(&administrator, MAPS, &map("by-admin")).await.ok();
    delete(&administrator, &format!("{MAPS}/by-admin")).await.ok();
    get(&administrator, "/readyz").await.ok();
    get(&engine.client(Identity::node("n1")), &format!("{LEASES}/n1")).await.ok();
    for other in others {
        get(&as_user(engine, other), MAPS).await.ok();
    }
    assert_eq!(began.elapsed(), Duration::ZERO, "somebody had to wait");
}

fn assert_busy(answer: &Answer) {
    assert_eq!(answer.status, 429, "{}", answer.body);
    assert_eq!(answer.body["reason"], "TooManyRequests");
    assert_eq!(answer.headers[header::RETRY_AFTER], "1");
    assert_eq!(answer.body["details"]["retryAfterSeconds"], 1);
}

/// A hook that lets ConfigMaps through once it is told to: what it holds up holds a seat.
fn gate() -> (watch::Sender<bool>, Hooks) {
    let (open, opened) = watch::channel(false);
    let service = tower::service_fn(move |asked: AdmissionRequest<DynamicObject>| {
        let mut opened = opened.clone();
        async move {
            drop(opened.wait_for(|open| *open).await);
            Ok::<_, Infallible>(AdmissionResponse::from(&asked))
        }
    });
    (open, hooks(Hook::new("gate", of_maps(), BoxCloneService::new(service))))
}

fn of_maps() -> HookScope {
    HookScope { groups: vec![String::new()], resources: vec!["configmaps".to_owned()] }
}

fn hooks(hook: Hook) -> Hooks {
    Hooks { mutating: Vec::new(), validating: vec![hook] }
}

fn creates(engine: &Engine, name: &'static str, count: usize) -> Vec<JoinHandle<StatusCode>> {
    let client = as_user(engine, name);
    let create = |number| {
        let client = client.clone();
        tokio::spawn(async move {
            send(&client, request(&http::Method::POST, MAPS, &map(&format!("{name}-{number}"))))
                .await
                .status
        })
    };
    (0..count).map(create).collect()
}

fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|it| **it == status).count()
}

#[tokio::test(start_paused = true)]
async fn requests_without_rights_hold_nothing() {
    let engine = open(Config::in_memory()).await;
    let mut asked: Vec<_> = (0..700).map(|_| endless(&engine, "nobody")).collect();
    settle().await;
    assert_all_served(&engine, &["ann"]).await;
    // Nobody waits for a body that would change nothing.
    assert_eq!(answered(&mut asked).await, vec![403; 700]);
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_arrives_delays_no_other_user() {
    let engine = open(Config::in_memory()).await;
    let began = Instant::now();
    let mut asked: Vec<_> = (0..700).map(|_| endless(&engine, "ann")).collect();
    settle().await;
    assert_all_served(&engine, &["ann", "bob"]).await;
    let refused = answered(&mut asked).await;
    assert_eq!((count(&refused, 429), refused.len()), (700 - 128, 700 - 128));
    post(&as_user(&engine, "bob"), MAPS, &map("b")).await.ok();
    for late in asked {
        let late = within("a body is given up", Duration::from_secs(86_400), late).await;
        assert_eq!(late.expect("it did not panic"), 504);
    }
    assert_eq!(began.elapsed().as_secs(), 10);
    post(&as_user(&engine, "ann"), MAPS, &map("a")).await.ok();
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_too_slowly_is_given_up() {
    let engine = open(Config::in_memory()).await;
    let pieces = futures::stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Some((Ok::<_, Infallible>(" "), ()))
    });
    let request = Request::post(MAPS)
        .header(header::AUTHORIZATION, "Bearer ann")
        .body(axum::body::Body::from_stream(pieces))
        .expect("it is well formed");
    let began = Instant::now();
    let answer = engine.router().oneshot(request).await.expect("it is answered");
    assert_eq!((answer.status().as_u16(), began.elapsed().as_secs()), (504, 60));
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn one_user_never_holds_every_seat() {
    let (open_gate, hooks) = gate();
    let engine = open(seats(20).hooks(hooks)).await;
    let mut asked = creates(&engine, "ann", 100);
    settle().await;
    // Half of what is not kept for others, and a short queue.
    let refused = answered(&mut asked).await;
    assert_eq!((count(&refused, 429), asked.len()), (100 - 9 - 64, 9 + 64));
    let metrics = get(&admin(&engine), "/metrics").await.ok();
    let metrics = metrics.body.as_str().expect("it is text").to_owned();
    for line in [
        r#"apiserver_flowcontrol_current_executing_seats{priority_level="workload"} 9"#,
        r#"apiserver_flowcontrol_current_inqueue_requests{priority_level="workload"} 64"#,
        r#"apiserver_flowcontrol_rejected_requests_total{priority_level="workload",reason="queue-full"} 27"#,
        r#"apiserver_flowcontrol_nominal_limit_seats{priority_level="reserved"} 4"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    assert_eq!(get(&as_user(&engine, "bob"), MAPS).await.status, 200);
    get(&engine.client(Identity::node("n1")), &format!("{LEASES}/n1")).await.ok();
    get(&admin(&engine), MAPS).await.ok();

    open_gate.send_replace(true);
    settle().await;
    assert_eq!(answered(&mut asked).await, vec![201; 73]);
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_too_long_for_a_seat_is_told_so() {
    let (_never, hooks) = gate();
    let engine = open(seats(2).hooks(hooks)).await;
    let _holds = creates(&engine, "ann", 1);
    settle().await;
    let began = Instant::now();
    assert_busy(&get(&as_user(&engine, "bob"), MAPS).await);
    assert_eq!(began.elapsed().as_secs(), 10);
    // Neither the administrator nor who is named in the configuration waits.
    get(&admin(&engine), MAPS).await.ok();
    get(&engine.client(Identity::node("n1")), &format!("{LEASES}/n1")).await.ok();
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn reserved_users_have_seats_of_their_own() {
    let (_never, hooks) = gate();
    let config = seats(20).hooks(hooks).reserved_users([CONTROLLER.to_owned()]);
    let engine = open(config).await;
    let mut held = creates(&engine, "ann", 40);
    held.extend(creates(&engine, "bob", 40));
    settle().await;
    let began = Instant::now();
    get(&as_user(&engine, CONTROLLER), MAPS).await.ok();
    assert_eq!(began.elapsed(), Duration::ZERO);
    let other = tokio::spawn({
        let client = as_user(&engine, "carl");
        async move { get(&client, MAPS).await.status }
    });
    // Whoever is not named waits with the rest; rights come first.
    assert_eq!(other.await.expect("it did not panic"), 403);
    engine.close().await;
}

/// The user that a request acts as is the one that counts.
#[tokio::test(start_paused = true)]
async fn impersonating_does_not_bring_the_requesters_seats_along() {
    let (_never, hooks) = gate();
    let engine = open(seats(2).hooks(hooks)).await;
    let _holds = creates(&engine, "ann", 1);
    settle().await;
    let mut asked = request(&http::Method::GET, MAPS, &Value::Null);
    asked.headers_mut().insert("impersonate-user", "bob".parse().expect("a value"));
    assert_busy(&send(&admin(&engine), asked).await);
    engine.close().await;
}

/// What a hook asks the API while it is asked is a part of that request.
#[tokio::test(start_paused = true)]
async fn a_hooks_own_requests_do_not_wait_for_the_seat_it_holds() {
    let inner = std::sync::Arc::new(std::sync::OnceLock::<Client>::new());
    let asks = inner.clone();
    let service = tower::service_fn(move |asked: AdmissionRequest<DynamicObject>| {
        let client = asks.get().cloned();
        async move {
            if let Some(client) = client {
                get(&client, MAPS).await.ok();
            }
            Ok::<_, Infallible>(AdmissionResponse::from(&asked))
        }
    });
    let hook = Hook::new("asks", of_maps(), BoxCloneService::new(service));
    let engine = open(seats(2).hooks(hooks(hook))).await;
    assert!(inner.set(as_user(&engine, "ann")).is_ok(), "it is set once");
    let began = Instant::now();
    let created = join_all(creates(&engine, "ann", 10)).await;
    assert!(created.iter().all(|it| matches!(it, Ok(StatusCode::CREATED))), "{created:?}");
    assert_eq!(began.elapsed(), Duration::ZERO);
    engine.close().await;
}

/// Whoever waits for a version that is not there yet is not at work.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_version_takes_no_seat() {
    let engine = open(seats(2)).await;
    let future = format!("{MAPS}?resourceVersion={}", engine.version() + 1_000);
    let client = as_user(&engine, "ann");
    let asked: Vec<_> = (0..50)
        .map(|_| {
            let (client, future) = (client.clone(), future.clone());
            tokio::spawn(async move { get(&client, &future).await.status })
        })
        .collect();
    settle().await;
    assert_all_served(&engine, &["ann", "bob"]).await;
    for asked in asked {
        assert_eq!(asked.await.expect("it did not panic"), 504);
    }
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn watches_are_bounded_by_user() {
    let limits = Limits { watches: 16, watches_per_user: 5, ..Limits::default() };
    let engine = open(Config::in_memory().limits(limits)).await;
    let (ann, bob) = (as_user(&engine, "ann"), as_user(&engine, "bob"));
    let path = format!("{MAPS}?watch=true");
    let mut of_ann = Vec::new();
    for path in [&path, "/api/v1/watch/configmaps", &path, &path, &path] {
        of_ann.push(Watch::open(&ann, path).await);
    }
    assert_busy(&get(&ann, &path).await);
    assert_busy(&get(&ann, &format!("{MAPS}/kube-root-ca.crt?watch=true")).await);
    get(&ann, MAPS).await.ok();
    let mut others = Vec::new();
    for _ in 0..5 {
        others.push(Watch::open(&bob, &path).await);
    }
    // However many users watch, some places are kept for the cluster itself.
    for _ in 0..2 {
        others.push(Watch::open(&as_user(&engine, CONTROLLER), &path).await);
    }
    assert_busy(&get(&as_user(&engine, CONTROLLER), &path).await);
    others.push(Watch::open(&admin(&engine), &path).await);
    drop(of_ann.pop());
    let mut again = Watch::open(&ann, &path).await;
    assert!(again.next().await.is_some());
    engine.close().await;
}

/// An answer that nobody reads any more gives back what it held.
#[tokio::test(start_paused = true)]
async fn an_unread_response_is_dropped() {
    let limits = Limits { watches: 2, watches_per_user: 1, ..Limits::default() };
    let engine = open(Config::in_memory().limits(limits)).await;
    let client = as_user(&engine, "ann");
    for _ in 0..10 {
        let path = format!("{MAPS}?watch=true");
        let answer = client.send(request(&http::Method::GET, &path, &Value::Null)).await;
        let mut body = answer.expect("the engine answers").into_body();
        let frame = tokio::time::timeout(Duration::from_secs(1), body.frame()).await;
        assert!(matches!(frame, Ok(Some(Ok(_)))), "each has the only place there is");
    }
    engine.close().await;
}

/// One user's lists, however many at once, leave room for everybody's small requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_lists_of_one_user_leave_room_for_small_requests() {
    const LISTS: usize = 2_000;
    /// How long a small request may take, on a busy machine and without optimisation.
    const MAX_WAIT: Duration = Duration::from_secs(5);
    let engine = Engine::open(Config::in_memory()).await.expect("an engine in memory opens");
    create_fixtures(&engine, &["ann", "bob"]).await;
    let administrator = admin(&engine);
    for number in 0..1_200 {
        let mut one = map(&format!("m-{number}"));
        one["data"]["text"] = "x".repeat(2_000).into();
        post(&administrator, MAPS, &one).await.ok();
    }
    let lists: Vec<_> = (0..LISTS)
        .map(|_| {
            let ann = as_user(&engine, "ann");
            tokio::spawn(async move {
                let answer = ann.send(request(&http::Method::GET, MAPS, &Value::Null)).await;
                let (parts, body) = answer.expect("it is answered").into_parts();
                let size = body.collect().await.expect("it has an end").to_bytes().len();
                (parts.status.as_u16(), size)
            })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    let one = format!("{MAPS}/m-1");
    for _ in 0..20 {
        for client in [as_user(&engine, "bob"), admin(&engine)] {
            let began = std::time::Instant::now();
            get(&client, &one).await.ok();
            slowest = slowest.max(began.elapsed());
        }
    }
    let mut whole = 0;
    for list in lists {
        match within("a list ends", TEST_TIMEOUT, list).await.expect("it did not panic") {
            (200, size) if size > 2_400_000 => whole += 1,
            (429, _) => {}
            other => panic!("{other:?}"),
        }
    }
    println!("the slowest of the small requests took {slowest:?} beside {whole} lists");
    assert!(slowest < MAX_WAIT, "{slowest:?}");
    assert!(whole > 0, "whoever asks for much is served too");
    engine.close().await;
}

/// With one async worker, whatever keeps it busy keeps everybody waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_large_body_leaves_the_worker_to_others() {
    let engine = Engine::open(Config::in_memory()).await.expect("an engine in memory opens");
    create_fixtures(&engine, &["ann", "bob"]).await;
    let mut large = map("large");
    for number in 0..25_000 {
        large["data"][format!("key-{number}")] = "a value of some length".into();
    }
    // A dry run waits for nothing: it is one piece of work.
    let dry = format!("{MAPS}?dryRun=All");
    let ann = as_user(&engine, "ann");
    let large = tokio::spawn(async move { post(&ann, &dry, &large).await.status });
    let holds = |metrics: &str| {
        let line = r#"apiserver_flowcontrol_current_executing_seats{priority_level="workload"} "#;
        let (_, rest) = metrics.split_once(line)?;
        rest.lines().next()?.parse().ok().filter(|seats: &usize| *seats > 1)
    };
    // Asked by the thread of this test, which is not a worker.
    eventually("the large one is at work", TEST_TIMEOUT, async || {
        let metrics = get(&admin(&engine), "/metrics").await.ok();
        holds(metrics.body.as_str().expect("it is text"))
    })
    .await;
    let bob = as_user(&engine, "bob");
    let small = tokio::spawn(async move { get(&bob, MAPS).await.status });
    let small = within("a small one is answered", TEST_TIMEOUT, small).await;
    assert_eq!(small.expect("it did not panic"), 200);
    assert!(!large.is_finished(), "the small one had to wait for the large one");
    assert_eq!(large.await.expect("it did not panic"), 201);
    engine.close().await;
}
