//! The APIs of the clusters, wherever their kubeconfigs lead: each has nodes that are ready and beat, and answers at
//! once.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::ready;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use sojourn_drivers::guard::Allow;
use sojourn_drivers::metrics::Metrics;
use sojourn_drivers::notify::{Channel, Zone};
use sojourn_drivers::probe::fake::ScriptedProbe;
use sojourn_drivers::probe::{Observation, Probe};
use sojourn_operator::clock::Clock;
use sojourn_operator::driver::{DriverConfig, DriverFactory};
use sojourn_operator::kubeconfig::ClientProblem;
use sojourn_operator::notice::ChannelSecrets;
use tower::service_fn;

const NODES: usize = 3;

/// What the family uses outside of our own API; requests to clusters are counted.
#[derive(Clone)]
pub(crate) struct ScriptedTargets(Arc<Inner>);

struct Inner {
    clock: Arc<dyn Clock>,
    probes: AtomicU64,
    others: AtomicU64,
}

impl fmt::Debug for ScriptedTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedTargets").finish_non_exhaustive()
    }
}

impl ScriptedTargets {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let (probes, others) = (AtomicU64::new(0), AtomicU64::new(0));
        Self(Arc::new(Inner { clock, probes, others }))
    }

    /// How often a cluster was asked whether it is ready, and how often anything else.
    pub(crate) fn requests(&self) -> [u64; 2] {
        [&self.0.probes, &self.0.others].map(|count| count.load(Ordering::Relaxed))
    }

    fn answer(&self, path: &str) -> Response<Body> {
        let is_probe = path == "/readyz";
        let count = if is_probe { &self.0.probes } else { &self.0.others };
        count.fetch_add(1, Ordering::Relaxed);
        let list = |kind: &str, version: &str, items: Vec<Value>| {
            let list = json!({
                "apiVersion": version, "kind": kind, "metadata": {"resourceVersion": "1"},
                "items": items,
            });
            (StatusCode::OK, list.to_string())
        };
        let (status, text) = match path {
            _ if is_probe => (StatusCode::OK, "ok".to_owned()),
            "/api/v1/nodes" => {
                list("NodeList", "v1", (0..NODES).map(|one| self.node(one)).collect())
            }
            "/apis/certificates.k8s.io/v1/certificatesigningrequests" => {
                list("CertificateSigningRequestList", "certificates.k8s.io/v1", Vec::new())
            }
            _ => {
                let absent = json!({
                    "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
                    "reason": "NotFound", "code": 404,
                    "message": "the server could not find the requested resource",
                });
                (StatusCode::NOT_FOUND, absent.to_string())
            }
        };
        let mut response = Response::new(Body::from(text.into_bytes()));
        *response.status_mut() = status;
        response
    }

    /// One that has just said that it is well.
    fn node(&self, number: usize) -> Value {
        let now = format!("{:.0}", self.0.clock.now());
        json!({
            "metadata": {"name": format!("node-{number}")},
            "status": {"conditions": [{
                "type": "Ready", "status": "True", "lastHeartbeatTime": now,
            }]},
        })
    }
}

impl DriverFactory for ScriptedTargets {
    fn metrics(&self, _: &DriverConfig) -> Result<Option<Arc<dyn Metrics>>, String> {
        Ok(None)
    }

    fn channels(
        &self,
        _: &DriverConfig,
        _: &ChannelSecrets,
    ) -> Result<Vec<Arc<dyn Channel>>, String> {
        Ok(Vec::new())
    }

    fn zone(&self, _: &DriverConfig) -> Result<Zone, String> {
        Ok(Zone::utc())
    }

    fn probe(&self, _: &DriverConfig) -> Result<Arc<dyn Probe>, String> {
        Ok(Arc::new(ScriptedProbe::new(Observation::Keeps { deadline: None })))
    }

    fn target_client(&self, _: &kube::Config, _: &Allow) -> Result<Client, ClientProblem> {
        let targets = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            ready(Ok::<_, Infallible>(targets.answer(request.uri().path())))
        });
        Ok(Client::new(service, "default"))
    }
}
