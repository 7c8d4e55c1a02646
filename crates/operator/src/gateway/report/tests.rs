use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use tower::ServiceExt as _;

use super::*;
use crate::gateway::ActivityCallback;

struct One;

impl ReportVerifier for One {
    fn verify(&self, key: &Key, token: &str) -> bool {
        *key == Key::new("ns", "lab") && token == "right"
    }
}

fn reporting() -> (Router, Arc<AtomicUsize>) {
    let reported = Arc::new(AtomicUsize::new(0));
    let counted = reported.clone();
    let activity: ActivityCallback = Arc::new(move |key| {
        assert_eq!(*key, Key::new("ns", "lab"));
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let family = FamilyReports { verifier: Arc::new(One), activity };
    (ReportServer::new(vec![("f", family)]).router(), reported)
}

async fn post(router: &Router, path: &str, authorization: &str, body: &str) -> StatusCode {
    let request = http::Request::post(path)
        .header(AUTHORIZATION, authorization)
        .body(Body::from(body.to_owned()))
        .unwrap();
    router.clone().oneshot(request).await.unwrap().status()
}

#[tokio::test(start_paused = true)]
async fn the_instances_own_token_is_activity_and_nothing_else_is() {
    let (router, reported) = reporting();
    assert_eq!(post(&router, "/report/f/ns/lab", "Bearer right", "{}").await, 204);
    assert_eq!(post(&router, "/report/f/ns/lab", "bearer  right", "").await, 204);
    for (path, authorization) in [
        ("/report/f/ns/lab", "Bearer wrong"),
        ("/report/f/ns/lab", "Bearer "),
        ("/report/f/ns/lab", "Basic right"),
        ("/report/f/ns/other", "Bearer right"),
    ] {
        assert_eq!(post(&router, path, authorization, "").await, 401, "{path} {authorization}");
    }
    let long = "x".repeat(MAX_BODY_BYTES + 1);
    assert_eq!(post(&router, "/report/f/ns/lab", "Bearer right", &long).await, 413);
    assert_eq!(reported.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn reports_are_counted_per_instance() {
    let (router, reported) = reporting();
    for _ in 0..BURST {
        assert_eq!(post(&router, "/report/f/ns/lab", "Bearer right", "").await, 204);
    }
    assert_eq!(post(&router, "/report/f/ns/lab", "Bearer right", "").await, 429);
    tokio::time::advance(REFILL_INTERVAL).await;
    assert_eq!(post(&router, "/report/f/ns/lab", "Bearer right", "").await, 204);
    assert_eq!(post(&router, "/report/f/ns/lab", "Bearer right", "").await, 429);
    tokio::time::advance(REFILL_INTERVAL * BURST).await;
    for _ in 0..BURST {
        assert_eq!(post(&router, "/report/f/ns/lab", "Bearer right", "").await, 204);
    }
    assert_eq!(reported.load(Ordering::Relaxed), 21);
}
