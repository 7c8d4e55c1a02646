//! Clusters by the thousand: made, toggled, and looked on.

use std::collections::HashMap;

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::cluster::ClusterDeployment;
use sojourn_api::cluster::deployment::WantedPowerState;
use sojourn_api::cluster::name::KUBECONFIG_KEY;
use sojourn_api::cluster::status::PowerState;
use sojourn_core::cluster::MachineState;
use sojourn_drivers::actuator::ActuatedMachine;
use sojourn_drivers::actuator::fake::Fake;
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};

/// Requests that are made at once.
const MAX_CONCURRENT_REQUESTS: usize = 32;
/// So many clusters share a namespace.
const PER_NAMESPACE: usize = 100;
/// How many objects one answer of a list may hold.
const PAGE: u32 = 2_000;
/// How long anything may take, beyond what machines do.
const TIMEOUT: Duration = Duration::from_secs(1_800);

/// What the clusters are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// They have APIs, and every second one sleeps.
    Rest,
    /// All of them run, and their machines are all that there is.
    Toggle,
}

/// Clusters, each with an account of its own.
#[derive(Clone)]
pub(crate) struct Fleet {
    pub(crate) client: Client,
    pub(crate) size: usize,
    pub(crate) machines: usize,
    pub(crate) purpose: Purpose,
}

/// When each cluster was toggled, and when it was seen to be there, by its name.
#[derive(Debug)]
pub(crate) struct Toggles {
    asked: HashMap<String, Instant>,
    seen: HashMap<String, Instant>,
}

impl Toggles {
    /// From the first that was asked for until the last that was seen.
    pub(crate) fn took(&self) -> Result<Duration> {
        let first = self.asked.values().min().context("none was toggled")?;
        let last = self.seen.values().max().context("none was seen")?;
        Ok(last.duration_since(*first))
    }

    /// Seconds that each took.
    pub(crate) fn each(&self) -> Vec<f64> {
        let took = |(name, seen): (&String, &Instant)| {
            Some(seen.duration_since(*self.asked.get(name)?).as_secs_f64())
        };
        self.seen.iter().filter_map(took).collect()
    }
}

impl Fleet {
    fn name(number: usize) -> String {
        format!("cluster-{number}")
    }

    fn namespace(number: usize) -> String {
        format!("team-{}", number / PER_NAMESPACE)
    }

    const fn sleeps(&self, number: usize) -> bool {
        match self.purpose {
            Purpose::Rest => !number.is_multiple_of(2),
            Purpose::Toggle => false,
        }
    }

    /// Clusters that run.
    pub(crate) fn running(&self) -> usize {
        (0..self.size).filter(|number| !self.sleeps(*number)).count()
    }

    /// Puts the machines of all clusters at the provider.
    pub(crate) fn put_machines(&self, provider: &Fake) {
        for number in 0..self.size {
            let state =
                if self.sleeps(number) { MachineState::Stopped } else { MachineState::Running };
            for machine in 0..self.machines {
                let machine = ActuatedMachine {
                    id: format!("i-{number}-{machine}"),
                    state: state.clone(),
                    spot: false,
                    node_name: Some(format!("node-{machine}")),
                    addresses: Vec::new(),
                };
                provider.put(&Self::name(number), machine);
            }
        }
    }

    /// Makes all clusters, and waits until each is what it is to be.
    pub(crate) async fn make(&self) -> Result<()> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        for number in (0..self.size).step_by(PER_NAMESPACE) {
            let namespace = json!({"metadata": {"name": Self::namespace(number)}});
            api.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
        }
        let settling = self.follow(is_settled).await?;
        let all = stream::iter(0..self.size).map(|number| self.make_one(number));
        let all = all.buffer_unordered(MAX_CONCURRENT_REQUESTS);
        all.try_for_each(|()| async { Ok(()) }).await.context("cannot make clusters")?;
        settling.seen().await.map(drop)
    }

    async fn make_one(&self, number: usize) -> Result<()> {
        let (name, namespace) = (Self::name(number), Self::namespace(number));
        let account = format!("{name}-account");
        self.make_secret(&namespace, &account, &json!({"token": name})).await?;
        let mut spec = json!({
            "infraID": name,
            "platform": {"fake": {"credentialsSecretRef": {"name": account}}},
            "powerState": if self.sleeps(number) { "Hibernating" } else { "Running" },
        });
        if self.purpose == Purpose::Rest {
            let secret = format!("{name}-kubeconfig");
            let data = json!({KUBECONFIG_KEY: kubeconfig(&name).to_string()});
            self.make_secret(&namespace, &secret, &data).await?;
            spec["kubeconfigSecretRef"] = json!({"name": secret});
        }
        let cluster = json!({"metadata": {"name": name}, "spec": spec});
        let api: Api<ClusterDeployment> = Api::namespaced(self.client.clone(), &namespace);
        api.create(&PostParams::default(), &serde_json::from_value(cluster)?).await?;
        Ok(())
    }

    async fn make_secret(&self, namespace: &str, name: &str, data: &Value) -> Result<()> {
        let secret = json!({"metadata": {"name": name}, "stringData": data});
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        api.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
        Ok(())
    }

    /// Toggles all clusters at once, and waits until each is there.
    pub(crate) async fn toggle(&self, to: WantedPowerState) -> Result<Toggles> {
        let is_there = move |cluster: &ClusterDeployment| {
            cluster.spec.power_state == to && is_settled(cluster)
        };
        let arriving = self.follow(is_there).await?;
        let toggle = |number: usize| async move {
            let (name, asked) = (Self::name(number), Instant::now());
            let change = Patch::Merge(json!({"spec": {"powerState": to}}));
            let namespace = Self::namespace(number);
            let api: Api<ClusterDeployment> = Api::namespaced(self.client.clone(), &namespace);
            api.patch(&name, &PatchParams::default(), &change).await?;
            anyhow::Ok((name, asked))
        };
        let all = stream::iter(0..self.size).map(toggle).buffer_unordered(MAX_CONCURRENT_REQUESTS);
        let asked = all.try_collect().await.context("cannot toggle clusters")?;
        Ok(Toggles { asked, seen: arriving.seen().await? })
    }

    /// An error unless every cluster is what it is to be.
    pub(crate) async fn check(&self) -> Result<()> {
        let api: Api<ClusterDeployment> = Api::all(self.client.clone());
        let (mut there, mut settled) = (0, 0);
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = api.list(&page).await?;
            there += list.items.len();
            settled += list.items.iter().filter(|cluster| is_settled(cluster)).count();
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => break,
            }
        }
        let size = self.size;
        ensure!(there == size && settled == size, "of {size} clusters {settled} have settled");
        Ok(())
    }

    /// Follows all clusters from now on, until each was seen to be so.
    async fn follow(
        &self,
        is_so: impl Fn(&ClusterDeployment) -> bool + Send + 'static,
    ) -> Result<Following> {
        let (ready, begun) = oneshot::channel();
        let (api, size) = (Api::all(self.client.clone()), self.size);
        let task = tokio::spawn(follow(api, size, ready, is_so));
        begun.await.context("the watch did not begin")?;
        Ok(Following(task))
    }
}

/// Somebody who looks on.
struct Following(tokio::task::JoinHandle<Result<HashMap<String, Instant>>>);

impl Following {
    async fn seen(self) -> Result<HashMap<String, Instant>> {
        tokio::time::timeout(TIMEOUT, self.0).await.context("some clusters do not get there")??
    }
}

/// When each cluster was first seen to be so, once all were.
async fn follow(
    api: Api<ClusterDeployment>,
    size: usize,
    ready: oneshot::Sender<()>,
    is_so: impl Fn(&ClusterDeployment) -> bool,
) -> Result<HashMap<String, Instant>> {
    let listed = api.list_metadata(&ListParams::default().limit(1)).await?;
    let mut version = listed.metadata.resource_version.context("lists have a version")?;
    // Whoever waits for it has gone if it cannot be told.
    let _ = ready.send(());
    let mut seen = HashMap::new();
    while seen.len() < size {
        let events = api.watch(&WatchParams::default().timeout(290), &version).await?;
        let mut events = std::pin::pin!(events);
        while seen.len() < size
            && let Some(event) = events.try_next().await?
        {
            let cluster = match event {
                WatchEvent::Added(cluster) | WatchEvent::Modified(cluster) => cluster,
                WatchEvent::Bookmark(_) | WatchEvent::Deleted(_) => continue,
                WatchEvent::Error(error) => bail!("the watch ended: {error:?}"),
            };
            version = cluster.resource_version().unwrap_or(version);
            if is_so(&cluster) {
                seen.entry(cluster.name_any()).or_insert_with(Instant::now);
            }
        }
    }
    Ok(seen)
}

/// Whether a cluster is what it is to be.
fn is_settled(cluster: &ClusterDeployment) -> bool {
    let power_state = cluster.status.as_ref().and_then(|status| status.power_state);
    match cluster.spec.power_state {
        WantedPowerState::Unset | WantedPowerState::Running => {
            power_state == Some(PowerState::Running)
        }
        WantedPowerState::Hibernating => power_state == Some(PowerState::Hibernating),
    }
}

/// It leads to a scripted API, wherever it says.
fn kubeconfig(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "cluster",
        "clusters": [{
            "name": "cluster", "cluster": {"server": format!("https://{name}.example.org:6443")},
        }],
        "users": [{"name": "operator", "user": {"token": name}}],
        "contexts": [{
            "name": "cluster", "context": {"cluster": "cluster", "user": "operator"},
        }],
    })
}
