//! What must hold of the answer to any body: for the fuzzer, and for the tests that replay its corpus.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

use super::{Callers, Credential, JSON, PATH, router};
use crate::access::authorizer::fixture::{CLUSTER, Fixture, TestSession, at, options};
use crate::clock::VirtualClock;

const TOKEN: &str = "fuzz";
/// Whose session there is.
const USER: &str = "alice";

/// A webhook with one session, and the API server that it answers.
pub struct FuzzedWebhook {
    fixture: Fixture,
    router: Router,
}

impl std::fmt::Debug for FuzzedWebhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FuzzedWebhook").finish_non_exhaustive()
    }
}

impl Default for FuzzedWebhook {
    fn default() -> Self {
        let fixture = Fixture::new(options(), &["ops"]);
        fixture.put(&TestSession::approved("s"));
        let callers = Callers::default();
        callers.set([(CLUSTER.to_owned(), Credential::Token(TOKEN.to_owned()))]);
        let clock = Arc::new(VirtualClock::starting_at(at(60)));
        let router = router(fixture.authorizer.clone(), callers, clock);
        Self { fixture, router }
    }
}

impl FuzzedWebhook {
    /// Posts a body, and checks what is answered. Returns the code, and whether the request was allowed.
    ///
    /// # Panics
    /// If it is answered as no body may be.
    pub async fn post(&self, body: &[u8]) -> (StatusCode, bool) {
        let request = Request::post(PATH)
            .header(AUTHORIZATION, format!("Bearer {TOKEN}"))
            .header(CONTENT_TYPE, JSON)
            .body(Body::from(Bytes::copy_from_slice(body)))
            .expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("an answer");
        let status = response.status();
        let answer = response.into_body().collect().await.expect("a body").to_bytes();
        let answer: Value = serde_json::from_slice(&answer).expect("every answer is JSON");
        let uses = self.fixture.told.take_uses().len();
        self.fixture.told.take_stored();
        if status != StatusCode::OK {
            assert!(matches!(status.as_u16(), 413 | 422), "{status}: {answer}");
            assert_eq!((&answer["kind"], uses), (&Value::from("Status"), 0));
            return (status, false);
        }
        let result = &answer["status"];
        assert_eq!(result.get("denied"), None, "nothing is ever denied");
        let allowed = result["allowed"].as_bool().expect("it is allowed, or not");
        if allowed {
            let asked: Value = serde_json::from_slice(body).expect("what is allowed can be read");
            assert!(may_be_allowed(&asked["spec"]), "{asked}");
        }
        assert!(uses <= usize::from(allowed), "what is not allowed is no use");
        (status, allowed)
    }
}

/// Whether it is what the role of the session's group allows, read another way.
fn may_be_allowed(spec: &Value) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let (is_resource, is_path) = (!resource.is_null(), !path.is_null());
    let attribute = |name: &str| text(&resource[name]);
    let on_pods = matches!(attribute("verb").as_str(), "get" | "list")
        && attribute("group").is_empty()
        && attribute("resource") == "pods"
        && attribute("subresource").is_empty();
    let on_reviews = attribute("verb") == "create"
        && attribute("group") == "authorization.k8s.io"
        && attribute("resource") == "selfsubjectaccessreviews"
        && attribute("subresource").is_empty();
    let read = text(&path["path"]);
    let on_path = text(&path["verb"]) == "get"
        && (matches!(read.as_str(), "/metrics" | "/api") || read.starts_with("/api/"));
    text(&spec["user"]) == USER
        && is_resource != is_path
        && if is_resource { on_pods || on_reviews } else { on_path }
}
