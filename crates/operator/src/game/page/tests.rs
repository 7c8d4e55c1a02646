use std::collections::BTreeMap;
use std::sync::Mutex;

use http::Request as HttpRequest;
use http_body_util::BodyExt as _;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewStatus,
};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::clock::{Clock, SystemClock};
use crate::event::Events;
use crate::frame::Queue;
use crate::game::allocator::Allocator;
use crate::game::caches::GameCaches;
use crate::game::metrics::GameMetrics;
use crate::game::ports::PortRegistry;
use crate::metrics::Metrics;

const MANY: usize = 10_000;

/// What was asked, by verb, resource and namespace.
type Asked = Arc<Mutex<Vec<String>>>;

/// An API that answers reviews so, and nothing else.
fn api(allows: impl Fn(&ResourceAttributes) -> bool + Clone + Send + 'static) -> (Client, Asked) {
    let asked = Asked::default();
    let known = asked.clone();
    let service = tower::service_fn(move |request: HttpRequest<Body>| {
        let (allows, known) = (allows.clone(), known.clone());
        async move {
            let bytes = request.into_body().collect().await?.to_bytes();
            let mut review: SubjectAccessReview = serde_json::from_slice(&bytes)?;
            let attributes = review.spec.resource_attributes.clone().unwrap_or_default();
            let words = [&attributes.verb, &attributes.resource, &attributes.namespace];
            let words = words.map(|word| word.clone().unwrap_or_default());
            known.lock().unwrap().push(words.join(" "));
            let allowed = allows(&attributes);
            review.status = Some(SubjectAccessReviewStatus { allowed, ..Default::default() });
            let answer = axum::body::Body::from(serde_json::to_vec(&review)?);
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Response::new(answer))
        }
    });
    (Client::new(service, "default"), asked)
}

fn caches() -> Arc<GameCaches> {
    let queue = || Arc::new(Queue::new(Arc::new(SystemClock)));
    Arc::new(GameCaches::new(queue(), queue(), PortRegistry::new(20_000..=30_000)))
}

fn service(caches: &Arc<GameCaches>, client: Client) -> GameService {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Metrics::default();
    let (events, _) = Events::new(client.clone(), clock.clone(), metrics.events_left_out("game"));
    let allocator = Arc::new(Allocator::new(caches, clock.clone(), GameMetrics::new(&metrics)));
    let (caches, config) = (caches.clone(), Arc::default());
    GameService { client, caches, config, allocator, clock, events }
}

fn add_collection(caches: &GameCaches, namespace: &str, name: &str, status: &Value) {
    let collection = json!({
        "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServerCollection",
        "metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"},
        "spec": {"replicas": 1, "template": {}}, "status": status,
    });
    let collection = serde_json::from_value(collection).expect("a collection");
    caches.collections.admit(&Key::new(namespace, name), Some("1"), Ok(collection), |_| {});
}

fn add_server(caches: &GameCaches, namespace: &str, name: &str, status: &Value) {
    let server = json!({
        "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServer",
        "metadata": {
            "name": name, "namespace": namespace, "uid": name, "resourceVersion": "1",
            "labels": {"DedicatedGameServerCollectionName": "arena"},
        },
        "spec": {"template": {}}, "status": status,
    });
    let server = serde_json::from_value(server).expect("a server");
    caches.created_server(&Key::new(namespace, name), server);
}

async fn page(service: &GameService, path: &str) -> (StatusCode, String) {
    let mut request = HttpRequest::get(path).header("accept", "text/html");
    let caller = FamilyCaller { user: "ada".to_owned(), ..FamilyCaller::default() };
    request.extensions_mut().expect("a request").insert(caller);
    let request = request.body(axum::body::Body::empty()).expect("a request");
    let answer = router(service.clone()).oneshot(request).await.expect("infallible");
    let code = answer.status();
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    (code, String::from_utf8(body.to_vec()).expect("text"))
}

#[tokio::test]
async fn of_many_collections_those_that_need_somebody_are_shown_and_the_rest_is_counted() {
    let caches = caches();
    for number in 0..MANY {
        let health = if number == 7_000 { "NeedsIntervention" } else { "Healthy" };
        add_collection(&caches, "play", &format!("c{number:05}"), &json!({"health": health}));
    }
    let (client, asked) = api(|_| true);
    let service = service(&caches, client);
    let (code, all) = page(&service, "/").await;
    assert_eq!((code, all.matches("<dt>Replicas</dt>").count()), (StatusCode::OK, MAX_ROWS));
    assert!(all.contains("9800 more are left out"), "{all}");
    let first = all.split("<li>").nth(1).expect("a row");
    assert!(first.contains("c07000 in play"), "{first}");
    assert_eq!(asked.lock().unwrap().len(), 2, "whoever may read all is asked for once");
    let (_, some) = page(&service, "/?health=NeedsIntervention").await;
    assert_eq!(some.matches("<dt>Replicas</dt>").count(), 1);
    assert!(!some.contains("left out"), "{some}");
}

#[tokio::test]
async fn of_many_servers_those_that_failed_are_shown_and_the_rest_is_counted() {
    let caches = caches();
    add_collection(&caches, "play", "arena", &json!({"health": "Failed"}));
    for number in 0..MANY {
        let health = if number == 7_000 { "Failed" } else { "Healthy" };
        let status = json!({"health": health, "podState": "Running", "activePlayers": 1});
        add_server(&caches, "play", &format!("s{number:05}"), &status);
    }
    let service = service(&caches, api(|_| true).0);
    let (code, shown) = page(&service, "/collections/play/arena").await;
    let rows = shown.matches("<dt>Allocatable</dt>").count();
    assert_eq!((code, rows), (StatusCode::OK, MAX_ROWS));
    assert!(shown.contains("9800 more are left out"), "{shown}");
    assert!(shown.contains("<dt>Players</dt><dd>10000, "), "all of them are counted");
    let first = shown.split("<strong>").nth(1).expect("a row");
    assert!(first.starts_with("s07000<"), "{first}");
    assert_eq!(shown.matches("<button>").count(), MAX_ROWS, "each can be drained");
}

#[tokio::test]
async fn what_is_asked_of_the_api_for_one_page_is_bounded_and_what_may_not_be_read_is_not_shown() {
    let caches = caches();
    for number in 0..1_000 {
        add_collection(&caches, &format!("n{number:04}"), "arena", &json!({}));
    }
    let allowed = ["n0003", "n0800"];
    let (client, asked) = api(move |attributes| {
        attributes.namespace.as_deref().is_some_and(|namespace| allowed.contains(&namespace))
    });
    let service = service(&caches, client);
    let (_, shown) = page(&service, "/").await;
    assert_eq!(shown.matches("arena in ").count(), 1, "{shown}");
    assert!(shown.contains("arena in n0003") && shown.contains("There are more namespaces"));
    let count = asked.lock().unwrap().len();
    assert!(count <= 510, "{count} reviews");
    let (_, named) = page(&service, "/?namespace=n0800").await;
    assert!(named.contains("arena in n0800") && !named.contains("There are more namespaces"));
    let (_, hidden) = page(&service, "/?namespace=n0005").await;
    assert!(hidden.contains("There are none."), "{hidden}");
    let (code, _) = page(&service, "/collections/n0005/arena").await;
    assert_eq!(code, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn one_that_cannot_be_read_says_so_and_what_people_write_is_text() {
    let caches = caches();
    let bold = json!({
        "health": "NeedsIntervention", "timesFailed": 1,
        "needsInterventionSince": "2026-11-18T10:00:00Z",
        "needsInterventionBecause": {
            "at": "2026-11-18T10:00:00Z", "server": "u/0", "name": "arena-1", "reason": "<b>out</b>",
        },
        "next": {"action": "Scale to 3", "why": "<i>so</i>"},
    });
    add_collection(&caches, "play", "arena", &bold);
    let key = Key::new("play", "broken");
    caches.collections.admit(&key, Some("1"), Err("spec: <u>odd</u>".to_owned()), |_| {});
    let service = service(&caches, api(|_| true).0);
    let (_, arena) = page(&service, "/collections/play/arena").await;
    for tag in ["<b>", "<i>"] {
        assert!(!arena.contains(tag), "{arena}");
    }
    assert!(arena.contains("arena-1: &lt;b&gt;out") && arena.contains("I have looked"), "{arena}");
    let (code, broken) = page(&service, "/collections/play/broken").await;
    assert_eq!(code, StatusCode::OK);
    assert!(broken.contains("It cannot be read") && !broken.contains("<u>"), "{broken}");
    let (code, list) = page(&service, "/?namespace=%22%3E%3Cb%3E").await;
    assert!(code == StatusCode::OK && !list.contains("<b>"), "{list}");
}

#[test]
fn every_health_has_a_name_and_those_that_need_somebody_come_first() {
    let known = ["NeedsIntervention", "Failed", "Creating", "Healthy", "Idle"];
    let mut order: BTreeMap<usize, &str> = BTreeMap::new();
    for name in known {
        let health = view::health_named(name).expect("it is one");
        order.insert(view::urgency(Some(health)), name);
    }
    assert_eq!(order.into_values().collect::<Vec<_>>(), known);
    let refused = view::health_named("Well").expect_err("it is none");
    assert!(refused.contains("NeedsIntervention"), "{refused}");
}
