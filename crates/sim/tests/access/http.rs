//! The service as people reach it: over HTTP, behind whoever knows who they are.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use sojourn_operator::access::service;
use sojourn_operator::family::FamilyCaller;
use sojourn_sim::access::simulation::{APPROVER, AccessSimulation, CLUSTER, GROUP, NAMESPACE};
use tower::ServiceExt as _;

use crate::fixture::{ADA, ALAN, simulation};

async fn ask(
    simulation: &AccessSimulation,
    user: Option<&str>,
    method: Method,
    path: &str,
    body: &str,
) -> (StatusCode, Value) {
    let body = Full::new(Bytes::from(body.to_owned()));
    let mut request = Request::builder().method(method).uri(path).body(body).expect("a request");
    if let Some(user) = user {
        let caller = FamilyCaller { user: user.to_owned(), ..FamilyCaller::default() };
        request.extensions_mut().insert(caller);
    }
    let router = service::router(simulation.service().await);
    let answer = router.oneshot(request).await.expect("infallible");
    let status = answer.status();
    let bytes = answer.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&bytes).expect("JSON"))
}

// case: access 29, 30, 35, 41
#[tokio::test(start_paused = true)]
async fn people_request_and_act_over_http() {
    let simulation = simulation().await;
    let asked = json!({
        "namespace": NAMESPACE, "cluster": CLUSTER, "group": GROUP, "reason": "ticket 7",
        "duration": "30m",
    });
    let asked = asked.to_string();
    let create =
        async |user, body: &str| ask(&simulation, user, Method::POST, "/sessions", body).await;
    assert_eq!(create(None, &asked).await.0, 401);
    assert_eq!(create(Some("eve"), &asked).await.0, 403);
    assert_eq!(create(Some(ADA), "{").await.0, 422);
    assert_eq!(create(Some(ADA), &asked.replace("30m", "soon")).await.0, 422);
    let (code, made) = create(Some(ADA), &asked).await;
    assert_eq!((code.as_u16(), &made["status"]["state"]), (201, &json!("Pending")));
    assert_eq!(made["spec"]["maxValidFor"], "30m");
    let (code, refused) = create(Some(ADA), &asked).await;
    assert_eq!((code.as_u16(), &refused["code"]), (409, &json!(409)));
    assert_eq!(refused["session"]["name"], made["metadata"]["name"]);
    let name = made["metadata"]["name"].as_str().expect("a name");
    let act = async |user: &str, verb: &str, body: &str| {
        let path = format!("/sessions/{NAMESPACE}/{name}/{verb}");
        ask(&simulation, Some(user), Method::POST, &path, body).await
    };
    assert_eq!(act(ALAN, "approve", "nonsense").await.0, 403, "nothing else is told");
    assert_eq!(act(APPROVER, "approve", "nonsense").await.0, 400);
    assert_eq!(act(ADA, "withdraw", "{}").await.0, 400, "it takes no body");
    assert_eq!(act(APPROVER, "praise", "").await.0, 404);
    let (code, approved) = act(APPROVER, "approve", r#"{"reason": "go"}"#).await;
    assert_eq!((code.as_u16(), &approved["status"]["state"]), (200, &json!("Approved")));
    assert_eq!(approved["status"]["approvals"][0]["reason"], "go");
    let list = async |user: &str, query: &str| {
        let path = format!("/sessions{query}");
        let (code, all) = ask(&simulation, Some(user), Method::GET, &path, "").await;
        (code.as_u16(), all["items"].as_array().map_or(0, Vec::len))
    };
    assert_eq!(list(ADA, "").await, (200, 1));
    assert_eq!(list(APPROVER, "?state=approved").await, (200, 1));
    assert_eq!(list(APPROVER, "?state=Pending").await, (200, 0));
    assert_eq!(list(ALAN, "").await, (200, 0), "it is neither theirs nor theirs to approve");
    assert_eq!(list(ADA, "?state=dropped").await.0, 400);
    simulation.assert_invariants();
}
