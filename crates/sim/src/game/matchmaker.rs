//! Who asks for servers, over the service of whichever replica is up.

use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use sojourn_operator::family::{FamilyCaller, ServedFamily as _};
use tower::ServiceExt as _;

use super::simulation::{GameSimulation, NAMESPACE};

/// An answer that does not come so long after it is due is not waited for: the replica may have been killed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    pub request_id: String,
    pub collection: Option<String>,
    /// None: a whole server.
    pub seats: Option<u32>,
    pub wait_seconds: u64,
    /// As they are written in the request.
    pub selectors: Vec<Value>,
}

impl Wish {
    /// A whole server of a collection.
    pub fn whole(request_id: &str, collection: &str) -> Self {
        let (request_id, collection) = (request_id.to_owned(), Some(collection.to_owned()));
        Self { request_id, collection, ..Self::default() }
    }

    /// So many seats of one server of a collection.
    pub fn seats(request_id: &str, collection: &str, seats: u32) -> Self {
        Self { seats: Some(seats), ..Self::whole(request_id, collection) }
    }

    fn body(&self) -> Value {
        let mut body = json!({
            "requestId": self.request_id, "namespace": NAMESPACE,
            "waitSeconds": self.wait_seconds, "selectors": self.selectors,
        });
        if let Some(collection) = &self.collection {
            body["collection"] = json!(collection);
        }
        if let Some(seats) = self.seats {
            body["seats"] = json!(seats);
        }
        body
    }
}

/// What was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub server: String,
    pub address: String,
    pub grant_id: String,
    pub lease_expires: Timestamp,
}

impl GameSimulation {
    /// Asks the replica that is up something by HTTP; nothing, if none is up, or it dies before it answers.
    pub async fn http(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Option<(StatusCode, Value)> {
        let wait = body.as_ref().and_then(|body| body["waitSeconds"].as_u64()).unwrap_or(0);
        let caller = FamilyCaller {
            user: "matchmaker".to_owned(),
            groups: vec!["system:masters".to_owned()],
            ..FamilyCaller::default()
        };
        let service = self.operator.ask(|(served, _)| served.web()?.service).flatten()?;
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .extension(caller)
            .body(Body::from(body))
            .expect("a request");
        let asked = async {
            let response = service.oneshot(request).await.expect("a router answers");
            let status = response.status();
            let bytes = response.into_body().collect().await.ok()?.to_bytes();
            Some((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
        };
        tokio::time::timeout(ANSWER_TIMEOUT + Duration::from_secs(wait), asked).await.ok().flatten()
    }

    /// Asks for a server. What is given is on the checker's record before anybody else gets something.
    pub async fn allocate(&self, wish: &Wish) -> Result<Answer, Option<(StatusCode, Value)>> {
        let answered = self.http("POST", "/v1/allocate", Some(wish.body())).await;
        let (status, body) = answered.ok_or(None)?;
        if status != StatusCode::OK {
            return Err(Some((status, body)));
        }
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let answer = Answer {
            server: text("server"),
            address: text("address"),
            grant_id: text("grantId"),
            lease_expires: text("leaseExpires").parse().expect("a time"),
        };
        self.checker.lock().granted(wish, &answer);
        Ok(answer)
    }
}
