use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::json;

use super::*;

/// An API that knows one token and counts what it is asked.
fn api(asked: Arc<AtomicUsize>) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let asked = asked.clone();
        async move {
            assert_eq!(request.uri().path(), "/apis/authentication.k8s.io/v1/tokenreviews");
            asked.fetch_add(1, Ordering::Relaxed);
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let review: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let token = review["spec"]["token"].as_str().unwrap();
            if token == "broken" {
                let broken = Response::builder().status(StatusCode::INTERNAL_SERVER_ERROR);
                return Ok::<_, Infallible>(broken.body(Body::from(Vec::new())).unwrap());
            }
            let status = match token {
                "good" => json!({"authenticated": true, "user": {
                    "username": "ci", "groups": ["robots", "system:authenticated"], "uid": "7", "extra": {"a": ["b"]}}}),
                "root" => json!({"authenticated": true, "user": {
                    "username": "admin", "groups": ["system:masters", "system:authenticated"]}}),
                "nameless" => json!({"authenticated": true, "user": {"username": ""}}),
                _ => json!({"authenticated": false}),
            };
            let answer = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                "metadata": {}, "spec": {}, "status": status});
            Ok(Response::new(Body::from(serde_json::to_vec(&answer).unwrap())))
        }
    });
    kube::Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn a_token_is_asked_about_once_a_minute() {
    let asked = Arc::new(AtomicUsize::new(0));
    let tokens = Tokens::new(api(asked.clone()));
    for _ in 0..3 {
        let Holder::Ordinary(identity) = tokens.identify("good").await.unwrap() else {
            panic!("somebody has it");
        };
        assert_eq!(identity.name, "ci");
        assert_eq!(identity.groups, ["robots"]);
        assert_eq!(identity.uid, "7");
        assert_eq!(identity.extra["a"], ["b"]);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    tokio::time::advance(ACCEPTED_TTL).await;
    assert!(matches!(tokens.identify("good").await.unwrap(), Holder::Ordinary(_)));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn bad_tokens_are_nobodys_and_a_broken_api_is_an_error() {
    let asked = Arc::new(AtomicUsize::new(0));
    let tokens = Tokens::new(api(asked.clone()));
    assert_eq!(tokens.identify("bad").await.unwrap(), Holder::Nobody);
    assert_eq!(tokens.identify("bad").await.unwrap(), Holder::Nobody);
    assert_eq!(tokens.identify("nameless").await.unwrap(), Holder::Nobody);
    assert_eq!(tokens.identify(&"x".repeat(MAX_TOKEN_BYTES + 1)).await.unwrap(), Holder::Nobody);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert!(matches!(tokens.identify("broken").await, Err(TokenError::Review(_))));
    assert!(matches!(tokens.identify("broken").await, Err(TokenError::Review(_))));
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn who_has_rights_by_a_group_of_kubernetes_own_is_told_apart() {
    let tokens = Tokens::new(api(Arc::default()));
    let group = "system:masters".to_owned();
    assert_eq!(tokens.identify("root").await.unwrap(), Holder::Privileged { group });
}

#[tokio::test(start_paused = true)]
async fn an_api_that_says_nothing_is_not_waited_for() {
    let silent = tower::service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Body>, Infallible>>()
    });
    let tokens = Tokens::new(kube::Client::new(silent, "default"));
    assert!(matches!(tokens.identify("good").await, Err(TokenError::Timeout)));
}

#[tokio::test(start_paused = true)]
async fn no_flood_of_tokens_is_remembered_without_bound() {
    let tokens = Tokens::new(api(Arc::default()));
    for n in 0..MAX_REMEMBERED + 10 {
        tokens.remember(Digest::of(n.to_string().as_bytes()), Holder::Nobody);
    }
    assert_eq!(tokens.remembered.lock().unwrap().len(), MAX_REMEMBERED);
    tokio::time::advance(REJECTED_TTL).await;
    tokens.remember(Digest::of(b"one"), Holder::Nobody);
    assert_eq!(tokens.remembered.lock().unwrap().len(), 1);
}

#[test]
fn only_bearer_tokens_are_ours() {
    let of = |value: &'static str| {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]);
        bearer(&headers).map(str::to_owned)
    };
    assert_eq!(of("Bearer a.b"), Some("a.b".to_owned()));
    assert_eq!(of("bearer  a"), Some("a".to_owned()));
    assert_eq!(of("Basic YTpi"), None);
    assert_eq!(of("Bearer"), None);
    assert_eq!(of("Bearer  "), None);
}
