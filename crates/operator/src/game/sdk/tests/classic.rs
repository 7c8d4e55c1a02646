//! The classic routes.

use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use sojourn_core::game::server::{ServerHealth, ServerState};

use super::Served;
use crate::game::sdk::{SdkError, SdkRequest};

const ROUTES: [&str; 5] = [
    "/setactiveplayers",
    "/setsdgshealth",
    "/setdgshealth",
    "/setdgsstate",
    "/setdgsmarkedfordeletion",
];

impl Served {
    async fn set(&self, path: &str, query: &str, body: &Value) -> (u16, String) {
        let path = format!("{path}{query}");
        let (status, text) = self.send(Method::POST, &path, body.to_string()).await;
        (status.as_u16(), text)
    }
}

fn about(field: &str, value: &Value) -> Value {
    json!({ "serverName": "doom-x7", "namespace": "arena", field: value })
}

#[tokio::test]
async fn a_server_sets_its_players_health_state_and_mark() {
    let served = Served::start().await;
    for (path, field, value, request) in [
        (ROUTES[0], "playerCount", json!(0), SdkRequest::SetActivePlayers(0)),
        (ROUTES[0], "playerCount", json!(7), SdkRequest::SetActivePlayers(7)),
        (ROUTES[1], "health", json!("Creating"), SdkRequest::SetHealth(ServerHealth::Creating)),
        (ROUTES[1], "health", json!("Healthy"), SdkRequest::SetHealth(ServerHealth::Healthy)),
        (ROUTES[2], "health", json!("Failed"), SdkRequest::SetHealth(ServerHealth::Failed)),
        (ROUTES[3], "state", json!("Idle"), SdkRequest::SetState(ServerState::Idle)),
        (ROUTES[3], "state", json!("Assigned"), SdkRequest::SetState(ServerState::Assigned)),
        (ROUTES[3], "state", json!("Running"), SdkRequest::SetState(ServerState::Running)),
        (ROUTES[3], "state", json!("PostMatch"), SdkRequest::SetState(ServerState::PostMatch)),
        (ROUTES[4], "markedForDeletion", json!(true), SdkRequest::SetMarkedForDeletion(true)),
        (ROUTES[4], "markedForDeletion", json!(false), SdkRequest::SetMarkedForDeletion(false)),
    ] {
        let answer = served.set(path, "?code=a-token", &about(field, &value)).await;
        assert_eq!(answer, (200, "ok\n".to_owned()), "{path} {value}");
        assert_eq!(served.backend.heard(), [request], "{path} {value}");
    }
    served.stop().await;
}

#[tokio::test]
async fn an_invalid_value_is_refused_with_the_name_of_its_field() {
    let served = Served::start().await;
    let must = |field: &str, expected: &str| (400, format!("{field}: must be {expected}\n"));
    for (path, field, expected, values) in [
        (
            ROUTES[0],
            "playerCount",
            "a whole number from 0 on",
            [json!(-1), json!(1.5), json!("3"), json!(4_294_967_296_u64), Value::Null],
        ),
        (
            ROUTES[1],
            "health",
            "Creating, Healthy or Failed",
            [json!("healthy"), json!(""), json!(1), json!(["Healthy"]), Value::Null],
        ),
        (
            ROUTES[3],
            "state",
            "Idle, Assigned, Running or PostMatch",
            [json!("idle"), json!("Ready"), json!(0), json!({}), Value::Null],
        ),
        (
            ROUTES[4],
            "markedForDeletion",
            "true or false",
            [json!("true"), json!(1), json!(0), json!([]), Value::Null],
        ),
    ] {
        for value in values {
            let answer = served.set(path, "?code=a-token", &about(field, &value)).await;
            assert_eq!(answer, must(field, expected), "{path} {value}");
        }
        let answer = served.set(path, "?code=a-token", &about("another", &json!(1))).await;
        assert_eq!(answer, must(field, expected), "{path}");
        let nameless = json!({ "namespace": "arena", field: 1 });
        let answer = served.set(path, "?code=a-token", &nameless).await;
        assert_eq!(answer, must("serverName", "a name"), "{path}");
        let homeless = json!({ "serverName": "doom-x7", field: 1 });
        let answer = served.set(path, "?code=a-token", &homeless).await;
        assert_eq!(answer, must("namespace", "a name"), "{path}");
        for body in ["", "[]", "{", "\u{feff}{}"] {
            let path = format!("{path}?code=a-token");
            let (status, _) = served.send(Method::POST, &path, body).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{path} {body}");
        }
    }
    assert_eq!(served.backend.heard(), []);
    served.stop().await;
}

// case: game S64
#[tokio::test]
async fn a_wrong_or_missing_code_is_refused_on_every_protected_route() {
    let served = Served::start().await;
    for path in ROUTES {
        for query in ["", "?", "?code", "?code=", "?code=A-TOKEN", "?code=a-toke", "?codes=a-token"]
        {
            for body in [about("playerCount", &json!(1)), json!({}), json!("no object")] {
                let answer = served.set(path, query, &body).await;
                let words = "the code is missing or wrong\n".to_owned();
                assert_eq!(answer, (401, words), "{path}{query}");
            }
        }
        let twice = served.set(path, "?code=wrong&code=a-token", &json!({})).await;
        assert_eq!(twice.0, 401, "{path}: the first counts");
    }
    assert_eq!(served.backend.heard(), []);
    served.stop().await;
}

// case: game S65
#[tokio::test]
async fn a_servers_code_changes_no_other_server() {
    let served = Served::start().await;
    for path in ROUTES {
        for (name, namespace) in [("doom-x8", "arena"), ("doom-x7", "other"), ("", "")] {
            let value = json!({
                "serverName": name,
                "namespace": namespace,
                "playerCount": 1,
                "health": "Failed",
                "state": "Idle",
                "markedForDeletion": true,
            });
            let answer = served.set(path, "?code=a-token", &value).await;
            let words = "the code is that of another server\n".to_owned();
            assert_eq!(answer, (403, words), "{path} {name} {namespace}");
        }
    }
    assert_eq!(served.backend.heard(), []);
    served.stop().await;
}

#[tokio::test]
async fn what_the_backend_refuses_is_told() {
    let served = Served::start().await;
    served.backend.refuse(SdkError::Unavailable("nobody leads".to_owned()));
    let answer = served.set(ROUTES[0], "?code=a%2Dtoken", &about("playerCount", &json!(1))).await;
    assert_eq!(answer, (503, "unavailable: nobody leads\n".to_owned()));
    served.stop().await;
}

#[tokio::test]
async fn healthz_is_open_and_methods_are_told() {
    let served = Served::start().await;
    let (status, _) = served.send(Method::GET, "/healthz", "").await;
    assert_eq!(status, StatusCode::OK);
    for (method, path, allowed) in
        [(Method::POST, "/healthz", "GET"), (Method::GET, "/setactiveplayers?code=a-token", "POST")]
    {
        let request = Request::builder().method(method).uri(path).body(Full::default()).unwrap();
        let response = served.exchange(request).await;
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert_eq!(response.headers()["allow"], allowed, "{path}");
    }
    for path in ["/create", "/delete", "/running", "/setserverstatus"] {
        assert_eq!(served.send(Method::GET, path, "").await.0, StatusCode::NOT_FOUND, "{path}");
    }
    served.stop().await;
}
