//! How every client of the API is made in this program: each request is sent once.
//!
//! By itself, kube's client sends a request again for minutes when the answer is 429, 503 or 504, and
//! tells nobody. Beneath the fence of a leader that would be a write of one that leads no more.

use kube::{Client, Config};

/// A client that sends each request once.
pub(super) fn single_attempt(config: &Config) -> Result<Client, kube::Error> {
    let mut config = config.clone();
    config.default_retry = false;
    Client::try_from(config)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use axum::extract::State;
    use axum::http::{Method, StatusCode, Uri};
    use axum::response::{IntoResponse as _, Response};
    use axum::{Json, Router};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::PostParams;
    use serde_json::{Value, json};
    use sojourn_operator::clock::SystemClock;
    use sojourn_operator::leadership::Candidate;
    use sojourn_operator::metrics::Metrics;
    use sojourn_operator::retry::Retries;
    use tokio::sync::Notify;

    use super::*;

    /// An API with one Lease, which puts off the first write of anything else until its sender is
    /// deposed, and takes all later ones.
    #[derive(Default)]
    struct Server {
        lease: Mutex<Option<Value>>,
        version: AtomicUsize,
        writes: AtomicUsize,
        written: Notify,
        deposed: Notify,
    }

    impl Server {
        fn put(&self, mut lease: Value) -> Value {
            let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
            lease["metadata"]["resourceVersion"] = json!(version.to_string());
            *self.lease.lock().expect("no panic inside") = Some(lease.clone());
            lease
        }

        /// Another takes the lease.
        fn depose(&self) {
            let lease = self.lease.lock().expect("no panic inside").clone();
            let mut lease = lease.expect("a lease");
            lease["spec"]["holderIdentity"] = json!("another");
            self.put(lease);
        }
    }

    async fn answer(
        State(server): State<Arc<Server>>,
        method: Method,
        uri: Uri,
        body: axum::body::Bytes,
    ) -> Response {
        if uri.path().contains("/leases") {
            let there = server.lease.lock().expect("no panic inside").clone();
            let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
            return match (method, there) {
                (Method::GET, Some(lease)) => Json(lease).into_response(),
                (Method::GET, None) => status(StatusCode::NOT_FOUND),
                (Method::PUT, Some(there))
                    if sent["metadata"]["resourceVersion"]
                        != there["metadata"]["resourceVersion"] =>
                {
                    status(StatusCode::CONFLICT)
                }
                _ => Json(server.put(sent)).into_response(),
            };
        }
        if server.writes.fetch_add(1, Ordering::Relaxed) > 0 {
            return Json(json!({"metadata": {"name": "a"}})).into_response();
        }
        server.written.notify_one();
        server.deposed.notified().await;
        status(StatusCode::SERVICE_UNAVAILABLE)
    }

    fn status(code: StatusCode) -> Response {
        let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
        let status =
            json!({"kind": "Status", "status": "Failure", "code": code.as_u16(), "reason": reason});
        (code, Json(status)).into_response()
    }

    async fn serve(server: &Arc<Server>) -> Config {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Config::new(format!("http://{address}").parse().expect("a URL"))
    }

    #[tokio::test]
    async fn a_leader_that_is_deposed_while_the_api_answers_503_writes_nothing_any_more() {
        let server = Arc::new(Server::default());
        let client = single_attempt(&serve(&server).await).expect("a client");
        let (clock, metrics) = (Arc::new(SystemClock), Metrics::default());
        let entered = Candidate::enter(client.clone(), clock, &metrics, "us").await;
        let mut candidate = entered.expect("the API answers");
        // A new lease would be waited for; this one was given up.
        let now = "2026-11-16T04:00:00.000000Z";
        server.put(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "sojourn", "namespace": "sojourn-system", "uid": "1"},
            "spec": {
                "holderIdentity": "", "leaseDurationSeconds": 1,
                "acquireTime": now, "renewTime": now,
            },
        }));
        let term = candidate.elected().await;
        let over = term.over();
        let acting = Retries::new(&metrics).client(term.fence().client(client));
        let maps: Api<ConfigMap> = Api::namespaced(acting, "default");
        let (params, map) = (PostParams::default(), ConfigMap::default());
        let deposing = async {
            server.written.notified().await;
            server.depose();
            over.await;
            server.deposed.notify_one();
        };
        let (written, ()) = tokio::join!(maps.create(&params, &map), deposing);
        written.expect_err("it was put off, and nobody may send it again");
        assert_eq!(server.writes.load(Ordering::Relaxed), 1);
        maps.create(&params, &map).await.expect_err("it does not lead any more");
        assert_eq!(server.writes.load(Ordering::Relaxed), 1, "and sends nothing");
        assert!(metrics.text().contains("sojourn_api_request_failures_total{code=\"503\"} 1"));
    }
}
