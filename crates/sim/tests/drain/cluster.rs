//! The target cluster: an engine, budgets that refuse evictions, and a node that ends Pods.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Preconditions};
use kube::client::Body;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_operator::clock::{Clock as _, VirtualClock};
use tokio::task::JoinSet;
use tower::Service;

/// Why an eviction is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Budget {
    /// One budget has nothing left.
    Spent,
    /// Two budgets select the Pod.
    Two,
}

/// What was asked of the cluster, when, and with what answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) at: Timestamp,
    pub(crate) pod: String,
    pub(crate) code: u16,
}

/// What evictions meet.
#[derive(Debug)]
pub(crate) struct Cluster {
    clock: Arc<VirtualClock>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    budgets: BTreeMap<String, Budget>,
    /// Just before such a Pod is evicted, another takes its name.
    replaced: Option<String>,
    asked: Vec<Asked>,
    /// Pods that take all the time that they are given.
    slow: Vec<String>,
}

impl Cluster {
    pub(crate) fn new(clock: Arc<VirtualClock>) -> Arc<Self> {
        Arc::new(Self { clock, inner: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Evictions of a Pod are refused from now on, or not any more.
    pub(crate) fn refuse(&self, pod: &str, budget: Option<Budget>) {
        let mut inner = self.lock();
        match budget {
            Some(budget) => inner.budgets.insert(pod.to_owned(), budget),
            None => inner.budgets.remove(pod),
        };
    }

    pub(crate) fn replace_before_eviction(&self, pod: &str) {
        self.lock().replaced = Some(pod.to_owned());
    }

    pub(crate) fn make_slow(&self, pod: &str) {
        self.lock().slow.push(pod.to_owned());
    }

    /// What was asked about a Pod.
    pub(crate) fn asked(&self, pod: &str) -> Vec<Asked> {
        self.lock().asked.iter().filter(|asked| asked.pod == pod).cloned().collect()
    }

    /// A client of the cluster: the engine's, with evictions.
    pub(crate) fn client(self: &Arc<Self>, engine: Client) -> Client {
        Client::new(Evicting { engine, cluster: self.clone() }, "default")
    }

    /// Ends Pods that are to go, as a node would, for ever.
    pub(crate) async fn end_pods(self: Arc<Self>, client: Client) {
        let api: Api<Pod> = Api::all(client.clone());
        let config = watcher::Config::default().timeout(0);
        let mut stream = std::pin::pin!(watcher::watcher(api, config));
        let mut ends: BTreeMap<String, Timestamp> = BTreeMap::new();
        let mut work = JoinSet::new();
        while let Some(event) = stream.next().await {
            let Ok(Event::Apply(pod) | Event::InitApply(pod)) = event else { continue };
            let Some(at) = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0) else {
                continue;
            };
            let uid = pod.uid().unwrap_or_default();
            // An earlier end counts, as it does for a node.
            if ends.get(&uid).is_none_or(|end| at < *end) {
                ends.insert(uid, at);
                work.spawn(end(self.clone(), client.clone(), pod, at));
            }
        }
    }
}

async fn end(cluster: Arc<Cluster>, client: Client, pod: Pod, at: Timestamp) {
    let slow = cluster.lock().slow.contains(&pod.name_any());
    let left = Duration::try_from(at.duration_since(cluster.clock.now())).unwrap_or_default();
    tokio::time::sleep(if slow { left } else { left.min(Duration::from_secs(1)) }).await;
    let api: Api<Pod> = Api::namespaced(client, &pod.namespace().unwrap_or_default());
    let only = Preconditions { uid: pod.uid(), resource_version: None };
    let params = DeleteParams::default().grace_period(0).preconditions(only);
    // It may have gone by an earlier end.
    drop(api.delete(&pod.name_any(), &params).await);
}

#[derive(Clone)]
struct Evicting {
    engine: Client,
    cluster: Arc<Cluster>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, Failure>>;

impl Service<Request<Body>> for Evicting {
    type Response = Answer;
    type Error = Failure;
    type Future = BoxFuture<'static, Result<Answer, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (engine, cluster) = (self.engine.clone(), self.cluster.clone());
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let parts: Vec<&str> = path.split('/').collect();
            match (request.method().clone(), &parts[..]) {
                (
                    Method::POST,
                    [_, "api", "v1", "namespaces", namespace, "pods", pod, "eviction"],
                ) => {
                    let body = request.into_body().collect().await?.to_bytes();
                    let body: Value = serde_json::from_slice(&body)?;
                    cluster.evict(engine, namespace, pod, &body).await
                }
                _ => {
                    let answer = engine.send(request).await?;
                    Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
                }
            }
        })
    }
}

impl Cluster {
    async fn evict(
        &self,
        engine: Client,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<Answer, Failure> {
        let pods: Api<Pod> = Api::namespaced(engine, namespace);
        let replaced = self.lock().replaced.take_if(|replaced| replaced == name);
        if replaced.is_some() {
            replace(&pods, name).await?;
        }
        assert_eq!(body["kind"], "Eviction");
        let uid = body["deleteOptions"]["preconditions"]["uid"].as_str().map(str::to_owned);
        let budget = self.lock().budgets.get(name).copied();
        let answer = match budget {
            Some(Budget::Spent) => spent(),
            Some(Budget::Two) => two(),
            None => {
                let only = Preconditions { uid, resource_version: None };
                match pods.delete(name, &DeleteParams::default().preconditions(only)).await {
                    Ok(_) => json!({"kind": "Status", "status": "Success", "code": 201}),
                    Err(kube::Error::Api(status)) => serde_json::to_value(*status)?,
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let code = answer["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
        let at = self.clock.now();
        self.lock().asked.push(Asked { at, pod: name.to_owned(), code });
        let text = Full::new(Bytes::from(answer.to_string())).map_err(|never| match never {});
        let mut answer = Response::new(text.boxed_unsync());
        *answer.status_mut() = StatusCode::from_u16(code)?;
        Ok(answer)
    }
}

/// Another Pod with the same name, on another Node.
async fn replace(pods: &Api<Pod>, name: &str) -> Result<(), kube::Error> {
    pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
    let another = super::fixture::pod(name, "elsewhere", &json!({}));
    let another: Pod = serde_json::from_value(another).map_err(kube::Error::SerdeError)?;
    pods.create(&kube::api::PostParams::default(), &another).await.map(drop)
}

/// What a kube-apiserver answers when a budget has nothing left.
fn spent() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 429,
        "reason": "TooManyRequests",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"causes": [{
            "reason": "DisruptionBudget",
            "message": "The disruption budget web needs 1 healthy pods and has 1 currently",
        }]},
    })
}

/// What it answers when there are two.
fn two() -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500,
        "reason": "InternalError",
        "message": "This pod has more than one PodDisruptionBudget, which the eviction \
                    subresource does not support.",
    })
}
