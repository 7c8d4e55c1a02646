//! Whether a replica can do its work: it asks the API something that only an account with the
//! operator's rights is told, again and again, and is ready while it was told lately.
//!
//! A replica whose token is dead, or that cannot reach the API, can judge nothing. Kubernetes takes it
//! out of the endpoints of its Service when `/readyz` says so, and sends reviews to the others.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::StatusCode;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus_client::metrics::gauge::Gauge;
use sojourn_api::install;
use sojourn_api::name::shared;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use crate::metrics::Metrics;

/// Where it is asked for.
pub const PATH: &str = "/readyz";
/// How often the API is asked.
const PROBE_INTERVAL: Duration = Duration::from_secs(3);
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// So long an answer is good: a single failed probe makes no replica unready.
const READY_TTL: Duration = Duration::from_secs(10);

/// What the last questions came to.
#[derive(Debug, Clone)]
enum Access {
    /// Nothing was asked yet.
    Unknown,
    Works {
        since: Instant,
    },
    Fails {
        worked: Option<Instant>,
        why: Arc<str>,
    },
}

/// Whether this replica is ready. Clones share it.
#[derive(Debug, Clone)]
pub struct Readiness {
    access: watch::Receiver<Access>,
}

impl Readiness {
    /// The answer, and the work that finds it out for as long as it is polled.
    pub fn new(
        client: Client,
        metrics: &Metrics,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (sender, access) = watch::channel(Access::Unknown);
        let ready = metrics.gauge("ready", "Whether this replica can use the Kubernetes API");
        (Self { access }, probe(client, sender, ready))
    }

    /// Nothing, or why it is not ready.
    pub fn problem(&self) -> Option<String> {
        match &*self.access.borrow() {
            Access::Unknown => Some("the Kubernetes API was not asked yet".to_owned()),
            Access::Works { since } if since.elapsed() <= READY_TTL => None,
            Access::Works { .. } => Some("the Kubernetes API is not asked any more".to_owned()),
            Access::Fails { worked: Some(at), .. } if at.elapsed() <= READY_TTL => None,
            Access::Fails { why, .. } => Some(format!("the Kubernetes API cannot be used: {why}")),
        }
    }

    /// `/readyz`, which says so.
    pub fn router(&self) -> Router {
        let readiness = self.clone();
        let answer = move || {
            let answer = match readiness.problem() {
                None => (StatusCode::OK, "ok".to_owned()),
                Some(problem) => (StatusCode::SERVICE_UNAVAILABLE, problem),
            };
            std::future::ready(answer)
        };
        Router::new().route(PATH, get(answer))
    }
}

async fn probe(client: Client, access: watch::Sender<Access>, ready: Gauge) {
    let reviews: Api<SubjectAccessReview> = Api::all(client);
    let mut ticks = tokio::time::interval(PROBE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (params, review) = (PostParams::default(), review());
        let asked = tokio::time::timeout(PROBE_TIMEOUT, reviews.create(&params, &review)).await;
        let now = match asked {
            Ok(Ok(_)) => Access::Works { since: Instant::now() },
            Ok(Err(error)) => failed(&access, &error.to_string()),
            Err(_) => failed(&access, &format!("no answer within {PROBE_TIMEOUT:?}")),
        };
        ready.set(i64::from(matches!(now, Access::Works { .. })));
        access.send_replace(now);
    }
}

fn failed(access: &watch::Sender<Access>, why: &str) -> Access {
    let worked = match &*access.borrow() {
        Access::Unknown => None,
        Access::Works { since } => Some(*since),
        Access::Fails { worked, .. } => *worked,
    };
    tracing::warn!(error = why, "the Kubernetes API cannot be used");
    Access::Fails { worked, why: why.into() }
}

/// What admission asks, too, about ourselves. Only that there is an answer counts.
fn review() -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(install::user_name()),
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(shared::NAMESPACE.to_owned()),
                resource: Some("configmaps".to_owned()),
                verb: Some("get".to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU16, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use tower::ServiceExt as _;

    use super::*;

    /// What `/readyz` says at the end of some seconds with an API that answers like this.
    async fn says(readiness: &Readiness, seconds: u64) -> StatusCode {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let request = Request::get(PATH).body(axum::body::Body::empty()).expect("a request");
        readiness.router().oneshot(request).await.expect("infallible").status()
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_with_a_dead_token_is_not_ready_until_it_has_another() {
        let status = Arc::new(AtomicU16::new(401));
        let answers = status.clone();
        let service = tower::service_fn(move |_: Request<Body>| {
            let status = answers.load(Ordering::Relaxed);
            let body = if status == 201 {
                r#"{"spec":{},"status":{"allowed":true}}"#
            } else {
                r#"{"kind":"Status","status":"Failure","message":"Unauthorized","code":401}"#
            };
            let response = Response::builder().status(status);
            let response = response.body(Body::from(body.as_bytes().to_vec())).expect("a response");
            std::future::ready(Ok::<_, Infallible>(response))
        });
        let metrics = Metrics::default();
        let (readiness, work) = Readiness::new(Client::new(service, "default"), &metrics);
        assert!(readiness.problem().is_some(), "nothing is known");
        let script = async {
            assert_eq!(says(&readiness, 1).await, 503, "the token was never good");
            assert!(readiness.problem().expect("a problem").contains("Unauthorized"));
            status.store(201, Ordering::Relaxed);
            assert_eq!(says(&readiness, 4).await, 200);
            status.store(401, Ordering::Relaxed);
            assert_eq!(says(&readiness, 4).await, 200, "one bad answer takes nobody out");
            assert_eq!(says(&readiness, 20).await, 503);
            assert!(metrics.text().contains("sojourn_ready 0"), "{}", metrics.text());
            status.store(201, Ordering::Relaxed);
            assert_eq!(says(&readiness, 4).await, 200);
        };
        tokio::select! {
            () = work => panic!("it asks for ever"),
            () = script => {}
        }
    }
}
