//! Groups and machines by the thousand.

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sojourn_api::group::{InstanceGroup, Machine};
use sojourn_api::name::shared;
use tokio::time::{Duration, Instant, sleep_until};

use crate::number::count;

/// Requests that are made at once.
const MAX_CONCURRENT_REQUESTS: usize = 32;
/// So many groups share a namespace.
const PER_NAMESPACE: usize = 100;
/// How many objects one answer of a list may hold.
const PAGE: u32 = 5_000;

/// Who makes groups, and looks at them.
#[derive(Clone)]
pub(crate) struct Fleet(pub(crate) Client);

impl Fleet {
    /// Namespaces for so many groups.
    pub(crate) async fn namespaces(&self, groups: usize) -> Result<()> {
        let api: Api<Namespace> = Api::all(self.0.clone());
        for number in 0..groups.div_ceil(PER_NAMESPACE) {
            let namespace = json!({"metadata": {"name": format!("team-{number}")}});
            api.create(&PostParams::default(), &serde_json::from_value(namespace)?).await?;
        }
        Ok(())
    }

    /// Sets options of the family.
    pub(crate) async fn configure(&self, options: &str) -> Result<()> {
        let map = json!({
            "metadata": {"name": shared::CONFIG_MAP}, "data": {"group.yaml": options},
        });
        let api: Api<ConfigMap> = Api::namespaced(self.0.clone(), shared::NAMESPACE);
        let made = api.create(&PostParams::default(), &serde_json::from_value(map)?).await;
        made.map(drop).context("cannot configure the family")
    }

    /// Creates groups: as fast as possible, or evenly over a time.
    pub(crate) async fn groups(&self, many: usize, over: Duration, spec: &Value) -> Result<()> {
        self.create::<InstanceGroup>("group", many, over, spec).await
    }

    /// Creates machines on demand, of no group.
    pub(crate) async fn on_demand(&self, many: usize, over: Duration, spec: &Value) -> Result<()> {
        self.create::<Machine>("on-demand", many, over, spec).await
    }

    async fn create<K>(&self, name: &str, many: usize, over: Duration, spec: &Value) -> Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Serialize
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        let started = Instant::now();
        let make = |number: usize| async move {
            sleep_until(started + over.mul_f64(count(number) / count(many))).await;
            let object = json!({
                "apiVersion": K::api_version(&()), "kind": K::kind(&()),
                "metadata": {"name": format!("{name}-{number}")}, "spec": spec,
            });
            let namespace = format!("team-{}", number / PER_NAMESPACE);
            let api: Api<K> = Api::namespaced(self.0.clone(), &namespace);
            api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
            anyhow::Ok(())
        };
        let all = stream::iter(0..many).map(make).buffer_unordered(MAX_CONCURRENT_REQUESTS);
        let all = all.try_for_each(|()| async { Ok(()) }).await;
        all.with_context(|| format!("cannot create objects called {name}"))
    }

    pub(crate) fn machines(&self) -> Api<Machine> {
        Api::all(self.0.clone())
    }

    /// How many machines there are, and how many of them are as wanted.
    pub(crate) async fn counted(&self, wanted: impl Fn(&Machine) -> bool) -> Result<[usize; 2]> {
        let api = self.machines();
        let mut counts = [0, 0];
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = api.list(&page).await?;
            counts[0] += list.items.len();
            counts[1] += list.items.iter().filter(|machine| wanted(machine)).count();
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(counts),
            }
        }
    }

    /// Follows every change of a Machine from now on, until `saw` has seen enough; the flag says
    /// whether it is gone.
    pub(crate) async fn watch(
        &self,
        ready: tokio::sync::oneshot::Sender<()>,
        mut saw: impl FnMut(Machine, bool) -> bool,
    ) -> Result<()> {
        let api = self.machines();
        let listed = api.list(&ListParams::default().limit(1)).await?;
        let mut version = listed.metadata.resource_version.context("lists have a version")?;
        // Whoever waits for it has gone if it cannot be told.
        let _ = ready.send(());
        loop {
            let events = api.watch(&WatchParams::default().timeout(290), &version).await?;
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.try_next().await? {
                let (machine, gone) = match event {
                    WatchEvent::Added(machine) | WatchEvent::Modified(machine) => (machine, false),
                    WatchEvent::Deleted(machine) => (machine, true),
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(error) => anyhow::bail!("the watch ended: {error:?}"),
                };
                version = machine.resource_version().unwrap_or(version);
                if saw(machine, gone) {
                    return Ok(());
                }
            }
        }
    }
}
