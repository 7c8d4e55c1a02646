//! Requests that the API did not answer well: every one is counted, and a read that was put off
//! (429, 503, 504) is sent again, a bounded number of times.
//!
//! A write is never sent again from here. Its reconciler looks at the object anew, decides anew, and
//! sends what is right by then. The clients beneath send each request once, so that whatever stands
//! above them, such as the fence of a leader, is asked before every attempt.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tower::service_fn;

use crate::metrics::Metrics;

/// How often a read is sent again.
const MAX_RETRIES: u32 = 3;
/// Doubles with every attempt, unless the server says when.
const FIRST_DELAY: Duration = Duration::from_millis(200);
/// However long the server asks to wait.
const MAX_DELAY: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Code {
    /// The status, or `none` if there was no answer.
    code: String,
}

/// Counts failures, and repeats reads. Clones count together.
#[derive(Debug, Clone)]
pub struct Retries {
    failures: Family<Code, Counter>,
    retries: Counter,
}

impl Retries {
    pub fn new(metrics: &Metrics) -> Self {
        let help = "Requests to the Kubernetes API that failed, by status code";
        let failures = metrics.family("api_request_failures", help);
        let retries = metrics.counter("api_request_retries", "Reads that were sent again");
        Self { failures, retries }
    }

    /// A client whose requests are counted, and whose reads are repeated.
    pub fn client(&self, inner: Client) -> Client {
        let namespace = inner.default_namespace().to_owned();
        let retries = self.clone();
        let service = service_fn(move |request| {
            let (inner, retries) = (inner.clone(), retries.clone());
            async move { retries.send(&inner, request).await }
        });
        Client::new(service, namespace)
    }

    async fn send(
        &self,
        inner: &Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, kube::Error> {
        if !is_read(&request) {
            let answer = inner.send(request).await;
            self.count(&answer);
            return answer;
        }
        let (head, _) = request.into_parts();
        let mut attempt = 0;
        loop {
            let answer = inner.send(Request::from_parts(head.clone(), Body::empty())).await;
            self.count(&answer);
            let response = answer?;
            if attempt >= MAX_RETRIES || !is_put_off(response.status()) {
                return Ok(response);
            }
            tokio::time::sleep(delay(&response, attempt)).await;
            self.retries.inc();
            attempt += 1;
        }
    }

    fn count(&self, answer: &Result<Response<Body>, kube::Error>) {
        let code = match answer {
            Ok(response) if is_failure(response.status()) => response.status().as_u16().to_string(),
            Ok(_) => return,
            Err(_) => "none".to_owned(),
        };
        self.failures.get_or_create(&Code { code }).inc();
    }
}

/// What is not there, and what changed meanwhile, is an ordinary answer.
fn is_failure(status: StatusCode) -> bool {
    (status.is_client_error() || status.is_server_error())
        && !matches!(status, StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::GONE)
}

const fn is_put_off(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// Whether it may be sent again. Watches are restarted by the watcher instead.
fn is_read(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == Method::GET && !query.split('&').any(|pair| pair.starts_with("watch="))
}

fn delay(response: &Response<Body>, attempt: u32) -> Duration {
    let stated = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let stated = stated.and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    stated.unwrap_or(FIRST_DELAY * 2_u32.saturating_pow(attempt)).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::PostParams;
    use tokio::time::Instant;

    use super::*;

    /// An API that puts off the first `times` requests, and the methods of those that it got.
    fn api(times: usize, after: Option<&'static str>) -> (Client, Arc<Mutex<Vec<Method>>>) {
        let got = Arc::new(Mutex::new(Vec::new()));
        let seen = got.clone();
        let service = service_fn(move |request: Request<Body>| {
            let mut seen = seen.lock().expect("no panic inside");
            seen.push(request.method().clone());
            let response = if seen.len() > times {
                let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
                Response::new(Body::from(map.as_bytes().to_vec()))
            } else {
                let mut refusal = Response::builder().status(503);
                if let Some(after) = after {
                    refusal = refusal.header("retry-after", after);
                }
                refusal.body(Body::empty()).expect("a response")
            };
            std::future::ready(Ok::<_, Infallible>(response))
        });
        (Client::new(service, "default"), got)
    }

    fn maps(client: Client) -> Api<ConfigMap> {
        Api::namespaced(client, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_is_sent_again_a_few_times_and_each_failure_is_counted() {
        let metrics = Metrics::default();
        let retries = Retries::new(&metrics);
        let (client, got) = api(2, Some("3600"));
        let begun = Instant::now();
        maps(retries.client(client)).get("a").await.expect("the third attempt is answered");
        assert_eq!(got.lock().expect("no panic inside").len(), 3);
        assert_eq!(begun.elapsed(), MAX_DELAY * 2, "the server does not say how long we wait");
        let (client, got) = api(usize::MAX, None);
        maps(retries.client(client)).get("a").await.expect_err("it has an end");
        assert_eq!(got.lock().expect("no panic inside").len(), 4);
        let text = metrics.text();
        assert!(text.contains("sojourn_api_request_failures_total{code=\"503\"} 6"), "{text}");
        assert!(text.contains("sojourn_api_request_retries_total 5"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_sent_once() {
        let metrics = Metrics::default();
        let (client, got) = api(usize::MAX, None);
        let maps = maps(Retries::new(&metrics).client(client));
        let map = ConfigMap::default();
        maps.create(&PostParams::default(), &map).await.expect_err("it is put off");
        assert_eq!(*got.lock().expect("no panic inside"), [Method::POST]);
        let text = metrics.text();
        assert!(text.contains("sojourn_api_request_failures_total{code=\"503\"} 1"), "{text}");
    }
}
