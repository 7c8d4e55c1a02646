use std::sync::Arc;

use http::Request as HttpRequest;
use http_body_util::BodyExt as _;
use kube::Client;
use sojourn_api::access::BreakglassEscalation;
use tower::ServiceExt as _;

use super::*;
use crate::access::caches::AccessCaches;
use crate::clock::{Clock, SystemClock};
use crate::event::Events;
use crate::frame::Queue;
use crate::metrics::Metrics;

const SESSIONS: usize = 10_000;

/// A replica that has these caches, and no API.
fn service(caches: Arc<AccessCaches>) -> AccessService {
    let unasked = tower::service_fn(|_: HttpRequest<kube::client::Body>| {
        std::future::ready(Err::<Response, _>(std::io::Error::other("nobody is asked")))
    });
    let client = Client::new(unasked, "default");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let left_out = Metrics::default().events_left_out("access");
    let (events, _) = Events::new(client.clone(), clock.clone(), left_out);
    let (config, definitions) = (Arc::default(), Arc::default());
    AccessService { client, clock, caches, config, events, definitions }
}

fn caches() -> Arc<AccessCaches> {
    let caches = AccessCaches::new(Arc::new(Queue::new(Arc::new(SystemClock))));
    let escalation: BreakglassEscalation = serde_json::from_value(serde_json::json!({
        "apiVersion": "access.sojourn.dev/v1alpha1", "kind": "BreakglassEscalation",
        "metadata": {"name": "oncall", "namespace": "ops", "resourceVersion": "1"},
        "spec": {
            "allowed": {"groups": ["dev"], "clusters": ["local"]}, "escalatedGroup": "admins",
            "approvers": {"users": ["grace"]},
        },
    }))
    .expect("an escalation");
    let key = Key::new("ops", "oncall");
    caches.escalations.admit(&key, Some("1"), Ok(escalation), |_| {});
    for number in 0..SESSIONS {
        let name = format!("session-{number}");
        let created = jiff::Timestamp::from_second(1_900_000_000 + number as i64);
        let session = serde_json::from_value(serde_json::json!({
            "apiVersion": "access.sojourn.dev/v1alpha1", "kind": "BreakglassSession",
            "metadata": {
                "name": name, "namespace": "ops", "uid": name, "resourceVersion": "1",
                "creationTimestamp": created.expect("a time").to_string(),
            },
            "spec": {
                "cluster": "local", "user": format!("user-{number}"), "grantedGroup": "admins",
                "escalationRef": {"name": "oncall"},
            },
            "status": {"state": "Approved"},
        }));
        caches.record_act(&Key::new("ops", name), session.expect("a session"));
    }
    Arc::new(caches)
}

async fn page(service: &AccessService, user: &str, path: &str) -> String {
    let mut request = HttpRequest::get(path).body(axum::body::Body::empty()).expect("a request");
    let caller = FamilyCaller { user: user.to_owned(), ..FamilyCaller::default() };
    request.extensions_mut().insert(caller);
    let answer = router(service.clone()).oneshot(request).await.expect("infallible");
    assert_eq!(answer.status(), StatusCode::OK, "{path}");
    let body = answer.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8(body.to_vec()).expect("text")
}

#[tokio::test]
async fn of_many_sessions_the_newest_are_shown_to_whoever_may_see_them() {
    let service = service(caches());
    let rows = |page: &str| page.matches("<dt>User</dt>").count();
    let all = page(&service, "grace", "/").await;
    assert_eq!(rows(&all), MAX_ROWS);
    assert!(all.contains("9800 older ones are left out"), "{all}");
    assert!(all.contains("user-9999<") && !all.contains("user-9799<"), "the newest are shown");
    assert_eq!(rows(&page(&service, "grace", "/?state=Pending").await), 0);
    let own = page(&service, "user-4711", "/").await;
    assert_eq!((rows(&own), own.contains("user-4711<")), (1, true), "{own}");
    assert_eq!(rows(&page(&service, "mallory", "/").await), 0);
}
