//! A cluster beside the one that the operator runs on: an API server of its own, with other roles and bindings.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::{Api, Client};
use serde_json::{Value, json};
use sojourn_api::name::shared;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{
    Config, Engine, ExtensionAuthorizer, ExtensionDecision, Question, SeededEntropy, TokioClock,
};
use sojourn_rbac::{Attributes, User};

use super::replica::Surroundings;
use super::simulation::{AccessSimulation, apply, list_config_maps};
use crate::fault::reliable_client;
use crate::simulated_api::BEGIN;

/// As whom the operator reads roles and sends canaries there.
const ACCOUNT: &str = "sojourn";

/// A further cluster, whose API server asks the operator's replicas.
pub struct FurtherCluster {
    pub name: String,
    engine: Engine,
    client: Client,
    caller: ApiServerCaller,
}

impl fmt::Debug for FurtherCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FurtherCluster").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Its API server, as the webhook knows it.
#[derive(Debug, Clone)]
struct ApiServerCaller {
    surroundings: Surroundings,
    cluster: String,
    reachable: Arc<AtomicBool>,
}

impl ExtensionAuthorizer for ApiServerCaller {
    fn authorize(&self, request: &Attributes<'_>, question: Question) -> ExtensionDecision {
        if !self.reachable.load(Ordering::Relaxed) {
            return ExtensionDecision::NoOpinion { reason: String::new() };
        }
        self.surroundings.ask(Some(&self.cluster), request, question)
    }
}

impl FurtherCluster {
    /// A cluster at `host`, on which these groups may list ConfigMaps. Nothing names it yet.
    ///
    /// # Panics
    /// If the engine cannot be opened.
    pub async fn open(
        simulation: &AccessSimulation,
        name: &str,
        host: &str,
        groups: &[&str],
    ) -> Self {
        let config = Config::in_memory()
            .clock(TokioClock::starting_at(BEGIN))
            .entropy(SeededEntropy::new(7))
            .inline_writes();
        let engine = Engine::open(config).await.expect("an engine in memory opens");
        let caller = ApiServerCaller {
            surroundings: simulation.drivers.clone(),
            cluster: name.to_owned(),
            reachable: Arc::new(AtomicBool::new(true)),
        };
        engine.set_extension_authorizer(Arc::new(caller.clone()));
        let identity = |name: &str, groups: &[&str]| {
            let groups = groups.iter().map(|&group| group.to_owned()).collect();
            Identity::authenticated(User { name: name.to_owned(), groups, ..User::default() })
        };
        let client = engine.client(identity("people", &["system:masters"]));
        let account = engine.client(identity(ACCOUNT, &["system:authenticated"]));
        let account = reliable_client(account, simulation.trace.clone());
        simulation.drivers.add_cluster(host, account);
        let cluster = Self { name: name.to_owned(), engine, client, caller };
        cluster.make_rights(groups).await;
        cluster
    }

    async fn make_rights(&self, groups: &[&str]) {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let subject =
            |kind: &str, name: &str| json!({"apiGroup": GROUP, "kind": kind, "name": name});
        let groups = groups.iter().map(|group| subject("Group", group)).collect::<Vec<_>>();
        self.bind(
            "lists",
            &json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]),
            &json!(groups),
        )
        .await;
        // What the document says that the kubeconfig's user needs, and nothing else.
        self.bind(
            "sojourn-access-cluster",
            &json!([
                {
                    "apiGroups": [GROUP], "verbs": ["get", "list", "watch"],
                    "resources": ["roles", "clusterroles", "rolebindings", "clusterrolebindings"],
                },
                {
                    "apiGroups": ["authorization.k8s.io"], "verbs": ["create"],
                    "resources": ["subjectaccessreviews"],
                },
            ]),
            &json!([subject("User", ACCOUNT)]),
        )
        .await;
    }

    async fn bind(&self, name: &str, rules: &Value, subjects: &Value) {
        const VERSION: &str = "rbac.authorization.k8s.io/v1";
        let role =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        let metadata = json!({"name": name});
        for object in [
            json!({"apiVersion": VERSION, "kind": "ClusterRole", "metadata": metadata, "rules": rules}),
            json!({
                "apiVersion": VERSION, "kind": "ClusterRoleBinding", "metadata": metadata,
                "roleRef": role, "subjects": subjects,
            }),
        ] {
            apply(&self.client, &object).await;
        }
    }

    /// Whether its API server can reach the webhook from now on.
    pub fn set_reachable(&self, reachable: bool) {
        self.caller.reachable.store(reachable, Ordering::Relaxed);
        self.caller.surroundings.note_reachable(&self.name, reachable);
    }

    /// Whether somebody may list ConfigMaps there just now, which is a use if they may.
    ///
    /// # Panics
    /// If the API answers neither yes nor no.
    pub async fn uses(&self, user: &str) -> bool {
        let groups = vec!["system:authenticated".to_owned()];
        let user = User { name: user.to_owned(), groups, ..User::default() };
        let client = self.engine.client(Identity::authenticated(user));
        list_config_maps(Api::namespaced(client, "default")).await
    }
}

/// A Secret with a kubeconfig that leads to `host`.
pub fn kubeconfig_secret(name: &str, host: &str) -> Value {
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": format!("https://{host}")}}],
        "users": [{"name": "us", "user": {"token": "a-token"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "us"}}],
    });
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": shared::NAMESPACE},
        "stringData": {"kubeconfig": kubeconfig.to_string()},
    })
}
