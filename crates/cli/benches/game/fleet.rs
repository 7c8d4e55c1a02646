//! One collection of servers, and what its clients may do.

use anyhow::{Context as _, Result, bail, ensure};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::game::name::{ALLOCATE, GROUP, SERVERS};
use sojourn_api::game::{DedicatedGameServer, DedicatedGameServerCollection};
use sojourn_api::name::shared;
use tokio::time::{Duration, Instant};

use super::harness::{MATCHMAKER, WRITER};

pub(crate) const NAMESPACE: &str = "play";
pub(crate) const COLLECTION: &str = "arena";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// How many objects one answer of a list may hold.
const PAGE: u32 = 5_000;
/// How long it may take until all can be played on.
const TIMEOUT: Duration = Duration::from_secs(1_800);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Who makes servers, and looks at them.
#[derive(Clone)]
pub(crate) struct Fleet(Client);

impl Fleet {
    /// A namespace, the options of the family, and the roles of clients.
    pub(crate) async fn prepare(people: Client, lease: SignedDuration) -> Result<Self> {
        let params = PostParams::default();
        let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
        Api::<Namespace>::all(people.clone()).create(&params, &namespace).await?;
        let options = format!("grantLease: {}s\n", lease.as_secs());
        let map = json!({
            "metadata": {"name": shared::CONFIG_MAP}, "data": {"game.yaml": options},
        });
        let maps: Api<ConfigMap> = Api::namespaced(people.clone(), shared::NAMESPACE);
        maps.create(&params, &serde_json::from_value(map)?).await?;
        let fleet = Self(people);
        fleet.allow(MATCHMAKER, "create", ALLOCATE).await?;
        fleet.allow(WRITER, "patch", "status").await?;
        Ok(fleet)
    }

    /// Lets somebody do one thing to a subresource of servers.
    async fn allow(&self, user: &str, verb: &str, subresource: &str) -> Result<()> {
        let params = PostParams::default();
        let role: Role = serde_json::from_value(json!({
            "metadata": {"name": user},
            "rules": [{
                "apiGroups": [GROUP], "verbs": [verb],
                "resources": [format!("{SERVERS}/{subresource}")],
            }],
        }))?;
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": {"name": user},
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": "Role", "name": user},
            "subjects": [{"apiGroup": RBAC_GROUP, "kind": "User", "name": user}],
        }))?;
        Api::namespaced(self.0.clone(), NAMESPACE).create(&params, &role).await?;
        Api::namespaced(self.0.clone(), NAMESPACE).create(&params, &binding).await?;
        Ok(())
    }

    /// Makes a collection of so many servers, and waits until all of them can be played on.
    pub(crate) async fn make(&self, servers: usize) -> Result<()> {
        let collection: DedicatedGameServerCollection = serde_json::from_value(json!({
            "apiVersion": "game.sojourn.dev/v1alpha1", "kind": "DedicatedGameServerCollection",
            "metadata": {"name": COLLECTION},
            "spec": {
                "replicas": servers, "template": template(), "health": {"source": "Pod"},
                "ports": [{"name": "game", "containerPort": 7777, "protocol": "UDP"}],
                "maxPlayersPerServer": 10,
            },
        }))?;
        let api: Api<DedicatedGameServerCollection> = Api::namespaced(self.0.clone(), NAMESPACE);
        api.create(&PostParams::default(), &collection).await?;
        let started = Instant::now();
        loop {
            let status = api.get(COLLECTION).await?.status.unwrap_or_default();
            let available = usize::try_from(status.available_replicas)?;
            if available == servers {
                return Ok(());
            }
            if started.elapsed() > TIMEOUT {
                bail!("of {servers} servers {available} can be played on: {status:?}");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn all(&self) -> Result<Vec<DedicatedGameServer>> {
        let api: Api<DedicatedGameServer> = Api::namespaced(self.0.clone(), NAMESPACE);
        let mut all = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = api.list(&page).await?;
            all.extend(list.items);
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// The names of all servers.
    pub(crate) async fn names(&self) -> Result<Vec<String>> {
        Ok(self.all().await?.iter().map(DedicatedGameServer::name_any).collect())
    }

    /// How many servers are somebody's, as they are on record.
    pub(crate) async fn granted(&self) -> Result<usize> {
        let all = self.all().await?;
        let granted = |one: &&DedicatedGameServer| {
            one.status.as_ref().is_some_and(|status| !status.grants.is_empty())
        };
        Ok(all.iter().filter(granted).count())
    }

    /// Sees that there are so many servers, that all are on a Node, and that no two have the same port of one.
    pub(crate) async fn check(&self, servers: usize) -> Result<()> {
        let all = self.all().await?;
        ensure!(all.len() == servers, "of {servers} servers there are {}", all.len());
        let mut ports = std::collections::HashSet::new();
        for server in &all {
            let status = server.status.clone().unwrap_or_default();
            let node =
                status.node_name.with_context(|| format!("{} has no Node", server.name_any()))?;
            ensure!(!status.ports.is_empty(), "{} has no port", server.name_any());
            for port in status.ports {
                let place = (node.clone(), port.host_port);
                ensure!(ports.insert(place.clone()), "two servers have the port {place:?}");
            }
        }
        Ok(())
    }
}

/// The Pod that a server is, about as long as people write it.
fn template() -> Value {
    let amounts = json!({"cpu": "100m", "memory": "128Mi"});
    json!({
        "metadata": {"labels": {"app": "arena", "tier": "game"}},
        "spec": {"containers": [{
            "name": "game", "image": "registry.example.org/arena/server:1.42.0",
            "command": ["/srv/arena"], "args": ["--map", "harbour", "--tick-rate", "60"],
            "env": [{"name": "REGION", "value": "eu-west"}, {"name": "LOG", "value": "info"}],
            "resources": {"requests": amounts, "limits": amounts},
        }]},
    })
}
