//! An API server without a node, and a stand-in for the node.

use std::fmt::Debug;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, SeededEntropy, TokioClock};
use sojourn_node::clock::Clock;
use sojourn_rbac::User;
use tokio::task::JoinHandle;

/// How long anything may take, in virtual time.
const EVENTUALLY_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

pub(crate) struct TestCluster {
    engine: Engine,
    pub(crate) client: Client,
    pub(crate) clock: Clock,
}

impl TestCluster {
    pub(crate) async fn open() -> Self {
        let config = Config::in_memory()
            .clock(TokioClock::starting_at(Timestamp::UNIX_EPOCH))
            .entropy(SeededEntropy::new(1))
            .inline_writes();
        let clock = Clock::following_tokio(Timestamp::UNIX_EPOCH);
        let engine = Engine::open(config).await.unwrap();
        let admin = Identity::authenticated(User {
            name: "admin".to_owned(),
            groups: vec!["system:masters".to_owned()],
            ..User::default()
        });
        let cluster = Self { client: engine.client(admin), engine, clock };
        cluster.pass(Duration::from_millis(10)).await;
        cluster
    }

    /// A client with the rights that upstream's controller of this name has, and no others.
    pub(crate) fn controller(&self, name: &str) -> Client {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
        self.engine.client(Identity::authenticated(User {
            name: format!("system:serviceaccount:kube-system:{name}"),
            groups: groups.map(str::to_owned).into(),
            ..User::default()
        }))
    }

    /// A client with the rights of upstream's scheduler.
    pub(crate) fn scheduler(&self) -> Client {
        let name = "system:kube-scheduler".to_owned();
        self.engine.client(Identity::authenticated(User { name, ..User::default() }))
    }

    /// Lets time pass, and with it everything that is to happen.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn create<K>(&self, value: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let object = serde_json::from_value(value).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap()
    }

    /// A Node that is ready and offers so much.
    pub(crate) async fn node(&self, name: &str, allocatable: Value) {
        let node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "capacity": allocatable,
                "allocatable": allocatable,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        let node: Node = serde_json::from_value(node).unwrap();
        let api = Api::<Node>::all(self.client.clone());
        api.create(&PostParams::default(), &node).await.unwrap();
    }

    pub(crate) async fn pod(&self, name: &str) -> Option<Pod> {
        self.api::<Pod>().get_opt(name).await.unwrap()
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn job(&self, name: &str) -> Option<Job> {
        self.api::<Job>().get_opt(name).await.unwrap()
    }

    /// Plays the node: what becomes of a Pod.
    pub(crate) async fn set_status(&self, pod: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<Pod>().patch_status(pod, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Plays the node: a Pod's only container ends now.
    pub(crate) async fn end_pod(&self, pod: &str, exit_code: i32) {
        let now = self.clock.now().to_string();
        let status = json!({
            "phase": if exit_code == 0 { "Succeeded" } else { "Failed" },
            "containerStatuses": [{
                "name": "main", "image": "none", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": exit_code, "finishedAt": now}},
            }],
        });
        self.set_status(pod, status).await;
    }

    /// Plays the node: a Pod that is being deleted is gone.
    pub(crate) async fn remove_pod(&self, pod: &str) {
        let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.api::<Pod>().delete(pod, &params).await.unwrap();
    }

    /// Events of a reason, as `object: message`, with how often they happened.
    pub(crate) async fn events(&self, reason: &str) -> Vec<(String, i32)> {
        let events = self.api::<Event>().list(&ListParams::default()).await.unwrap();
        let events = events.items.into_iter().filter(|e| e.reason.as_deref() == Some(reason));
        events
            .map(|event| {
                let name = event.involved_object.name.unwrap_or_default();
                let text = format!("{name}: {}", event.message.unwrap_or_default());
                (text, event.count.unwrap_or_default())
            })
            .collect()
    }

    /// Asks until there is an answer.
    pub(crate) async fn eventually<T>(
        &self,
        what: &str,
        mut ask: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let asking = async {
            loop {
                if let Some(answer) = ask().await {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let answer = tokio::time::timeout(EVENTUALLY_TIMEOUT, asking).await;
        answer.unwrap_or_else(|_| panic!("{what}: never came"))
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        self.engine.end_watches();
    }
}

/// A controller that runs until it is dropped, like one that is killed.
pub(crate) struct Running<E>(JoinHandle<Result<(), E>>);

impl<E: Send + 'static> Running<E> {
    pub(crate) fn start(work: impl Future<Output = Result<(), E>> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl<E> Drop for Running<E> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
