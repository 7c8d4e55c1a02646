//! Pods that do nothing: made, seen to run, deleted, seen to be gone.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;

/// How long everything together may take.
const PODS_TIMEOUT: Duration = Duration::from_secs(600);
/// Requests that are made at once.
const MAX_CONCURRENT_REQUESTS: usize = 20;

/// When each Pod was first seen to run, and to be gone.
#[derive(Debug, Default)]
struct PodTimes {
    running: HashMap<String, Instant>,
    gone: HashMap<String, Instant>,
}

#[derive(Debug)]
pub(crate) struct Pods {
    api: Api<Pod>,
    seen: watch::Receiver<PodTimes>,
}

/// How long something took for each Pod.
#[derive(Debug)]
pub(crate) struct Took(Vec<Duration>);

impl Took {
    pub(crate) fn milliseconds(&self) -> Vec<f64> {
        self.0.iter().map(|took| took.as_secs_f64() * 1e3).collect()
    }
}

impl Pods {
    /// Watches the Pods of a server from now on.
    pub(crate) async fn watch(client: Client) -> Result<Self> {
        let api: Api<Pod> = Api::default_namespaced(client);
        let listed = api.list(&ListParams::default()).await?;
        let version = listed.metadata.resource_version.context("lists have a version")?;
        let (sender, seen) = watch::channel(PodTimes::default());
        tokio::spawn(follow(api.clone(), version, sender));
        Ok(Self { api, seen })
    }

    /// Creates Pods, waits until all of them run, and says how long that took for each.
    pub(crate) async fn start(&self, names: &[String]) -> Result<Took> {
        let asked = self.all(names, async |name| {
            self.api.create(&PostParams::default(), &idle_pod(name)?).await?;
            Ok(())
        });
        let asked = asked.await.context("cannot create Pods")?;
        self.await_all(&asked, |seen| &seen.running).await.context("Pods do not run")
    }

    /// Deletes Pods, and waits until all of them are gone.
    pub(crate) async fn end(&self, names: &[String]) -> Result<Took> {
        let asked = self.all(names, async |name| {
            self.api.delete(name, &DeleteParams::default()).await?;
            Ok(())
        });
        let asked = asked.await.context("cannot delete Pods")?;
        self.await_all(&asked, |seen| &seen.gone).await.context("Pods do not go")
    }

    /// Asks for something for each of these Pods, and says when.
    async fn all<'a>(
        &self,
        names: &'a [String],
        ask: impl AsyncFn(&str) -> Result<()>,
    ) -> Result<Vec<(&'a str, Instant)>> {
        let ask = &ask;
        stream::iter(names)
            .map(|name| async move {
                let started = Instant::now();
                ask(name).await?;
                Ok((name.as_str(), started))
            })
            .buffer_unordered(MAX_CONCURRENT_REQUESTS)
            .try_collect()
            .await
    }

    async fn await_all(
        &self,
        asked: &[(&str, Instant)],
        of: fn(&PodTimes) -> &HashMap<String, Instant>,
    ) -> Result<Took> {
        let mut seen = self.seen.clone();
        let all = seen.wait_for(|seen| asked.iter().all(|(name, _)| of(seen).contains_key(*name)));
        let Ok(Ok(seen)) = tokio::time::timeout(PODS_TIMEOUT, all).await else {
            let seen = self.seen.borrow();
            let missing = asked.iter().filter(|(name, _)| !of(&seen).contains_key(*name));
            bail!("{} of {} are missing", missing.count(), asked.len());
        };
        let since = |(name, asked): &(&str, Instant)| {
            of(&seen).get(*name).map(|at| at.saturating_duration_since(*asked))
        };
        Ok(Took(asked.iter().filter_map(since).collect()))
    }
}

/// Takes in what the server tells, until it tells no more.
async fn follow(api: Api<Pod>, mut version: String, sender: watch::Sender<PodTimes>) {
    while let Ok(events) = api.watch(&WatchParams::default(), &version).await {
        let mut events = std::pin::pin!(events);
        while let Ok(Some(event)) = events.try_next().await {
            let now = Instant::now();
            let (pod, is_gone) = match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => (pod, false),
                WatchEvent::Deleted(pod) => (pod, true),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(_) => return,
            };
            version = pod.resource_version().unwrap_or(version);
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            let is_running = phase == Some("Running");
            sender.send_if_modified(|seen| {
                let map = if is_gone { &mut seen.gone } else { &mut seen.running };
                let is_news = (is_gone || is_running) && !map.contains_key(&pod.name_any());
                if is_news {
                    map.insert(pod.name_any(), now);
                }
                is_news
            });
        }
    }
}

fn idle_pod(name: &str) -> Result<Pod> {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "image": "none", "command": ["sleep", "1000000"]}],
        },
    });
    Ok(serde_json::from_value(pod)?)
}
