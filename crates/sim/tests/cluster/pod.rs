//! The actuator `pod`: machines are Pods, which go on record and come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Request;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, TokioClock};
use sojourn_core::key::Key;
use sojourn_drivers::actuator::contract::{ContractHarness, suite};
use sojourn_drivers::actuator::{Account, Actuator, Cluster, Platform};
use sojourn_operator::clock::VirtualClock;
use sojourn_operator::cluster::pod::{INFRA_ID, NAME, PodActuator, RecordSeal};
use sojourn_operator::frame::{Tasks, WatchSettings};
use sojourn_rbac::User;
use sojourn_sim::kubelet::Kubelet;
use sojourn_sim::rng::Rng;
use sojourn_sim::simulated_api::BEGIN;

const NAMESPACE: &str = "team";

struct Stage {
    _engine: Engine,
    client: Client,
    outage: Arc<AtomicBool>,
    actuator: PodActuator,
    _tasks: Tasks,
}

/// A client whose requests fail while the flag is set.
fn failing(inner: Client, outage: Arc<AtomicBool>) -> Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (inner, outage) = (inner.clone(), outage.clone());
        async move {
            if outage.load(Ordering::Relaxed) {
                return Err(kube::Error::Service("nobody answers".into()));
            }
            inner.send(request).await
        }
    });
    Client::new(service, "default")
}

impl Stage {
    async fn new() -> Self {
        let config = Config::in_memory().clock(TokioClock::starting_at(BEGIN)).inline_writes();
        let engine = Engine::open(config).await.expect("an engine opens");
        let groups = vec!["system:masters".to_owned()];
        let admin = User { name: "admin".to_owned(), groups, ..User::default() };
        let client = engine.client(Identity::authenticated(admin));
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        let namespace: Namespace = serde_json::from_value(namespace).expect("a namespace");
        let api: Api<Namespace> = Api::all(client.clone());
        api.create(&PostParams::default(), &namespace).await.expect("it is made");

        let mut tasks = Tasks::default();
        let clock = Arc::new(VirtualClock::starting_at(BEGIN));
        let kubelet = Kubelet::new(client.clone(), clock, Rng::new(7));
        tasks.spawn("kubelet", kubelet.run_pods());
        let outage = Arc::new(AtomicBool::new(false));
        let actuator =
            PodActuator::new(failing(client.clone(), outage.clone()), RecordSeal::new(&[7; 32]));
        actuator.follow(WatchSettings::default(), &mut tasks);
        Self { _engine: engine, client, outage, actuator, _tasks: tasks }
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }
}

fn runs(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

impl ContractHarness for Stage {
    fn actuator(&self) -> &dyn Actuator {
        &self.actuator
    }

    fn good(&self) -> Value {
        json!({})
    }

    fn bad(&self) -> Value {
        json!({"colour": "blue"})
    }

    fn cluster<'a>(&'a self, name: &'a str, machines: usize) -> BoxFuture<'a, Cluster> {
        async move {
            let infra_id = format!("{name}-x7k2p");
            for number in 0..machines {
                let pod = json!({
                    "metadata": {"name": format!("{infra_id}-{number}"),
                                 "labels": {INFRA_ID: infra_id}},
                    "spec": {"containers": [{"name": "machine", "image": "none"}]},
                });
                let pod: Pod = serde_json::from_value(pod).expect("a Pod");
                self.pods().create(&PostParams::default(), &pod).await.expect("it is made");
            }
            let labelled = ListParams::default().labels(&format!("{INFRA_ID}={infra_id}"));
            while !self.pods().list(&labelled).await.expect("a list").iter().all(runs) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Cluster {
                key: Key::new(NAMESPACE, name),
                infra_id,
                platform: Platform { name: NAME.to_owned(), config: Value::Null },
                account: Account::default(),
            }
        }
        .boxed()
    }

    fn lose<'a>(&'a self, _: &'a Cluster, machine: &'a str) -> BoxFuture<'a, ()> {
        async move {
            let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            self.pods().delete(machine, &now).await.expect("it is there");
        }
        .boxed()
    }

    fn set_outage(&self, outage: bool) -> BoxFuture<'_, ()> {
        self.outage.store(outage, Ordering::Relaxed);
        std::future::ready(()).boxed()
    }

    fn restart(&self) -> BoxFuture<'_, ()> {
        // It remembers nothing: what there is is the API's.
        std::future::ready(()).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn it_keeps_the_contract() {
    suite(&Stage::new().await).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_on_record_is_where_it_is_said_to_be() {
    let stage = Stage::new().await;
    let cluster = stage.cluster("told", 2).await;
    for machine in stage.actuator.list(&cluster).await.expect("a list") {
        stage.actuator.stop(&cluster, &machine.id).await.expect("it stops");
    }
    let place = stage.actuator.where_records_are(&cluster).expect("it keeps records");
    let (_, labels) = place.split_once("labels ").expect("it names labels");
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let found = secrets.list(&ListParams::default().labels(labels)).await.expect("a list");
    assert_eq!(found.items.len(), 2, "{place}");
}
