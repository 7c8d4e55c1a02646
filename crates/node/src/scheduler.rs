//! A small scheduler: Pods without a node get one, or are told in words why not.
//!
//! | here and in `scheduler/`                                    | left out                      |
//! |-------------------------------------------------------------|-------------------------------|
//! | node selector, required node affinity, taints, conditions   | preferences and scores        |
//! | requests against what a node offers, host ports, Pod count  | preemption                    |
//! | claims that are not bound yet, claims for one Pod at a time | rules about other Pods        |
//!
//! A rule about other Pods is a promise that would be broken: such a Pod waits, and is told so. A
//! preference that is not followed breaks nothing.
//!
//! `cache` decides, from what the watches show and the time; this file watches and writes. Nothing
//! is remembered elsewhere: a Pod that is being bound counts on its node until the API says
//! otherwise, and after a restart the lists say everything.

mod cache;
mod demand;
mod machine;
mod queue;
mod report;
mod selection;
#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Binding, Node, ObjectReference, PersistentVolumeClaim, Pod, PodCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::event::{self, EventType, Recorder};
use crate::listing::{Listing, WatchEnded};
use crate::request::{ask, in_full};
use cache::{BindOutcome, BindRequest, Cache, Report};

/// Who Events are from.
const COMPONENT: &str = "default-scheduler";
/// Requests to bind that may be under way: enough to hide the way there and back.
const MAX_CONCURRENT_BINDINGS: usize = 16;
/// Requests that tell Pods why they wait; fewer, since nobody waits for those.
const MAX_CONCURRENT_REPORTS: usize = 4;

/// Schedules Pods until `shutdown`.
pub async fn run(
    client: Client,
    clock: Clock,
    shutdown: impl Future<Output = ()>,
) -> Result<(), WatchEnded> {
    let notes = client.clone();
    event::with_recorder(notes, COMPONENT, |recorder| work(client, clock, recorder, shutdown)).await
}

async fn work(
    client: Client,
    clock: Clock,
    recorder: Recorder,
    shutdown: impl Future<Output = ()>,
) -> Result<(), WatchEnded> {
    let config = watcher::Config::default;
    let mut pods = pin!(watcher(Api::<Pod>::all(client.clone()), config()).default_backoff());
    let mut nodes = pin!(watcher(Api::<Node>::all(client.clone()), config()).default_backoff());
    let mut claims = pin!(
        watcher(Api::<PersistentVolumeClaim>::all(client.clone()), config()).default_backoff()
    );
    let mut shutdown = pin!(shutdown);
    let mut scheduler = Scheduler::new(client, clock, recorder);
    loop {
        scheduler.start_work();
        let wake = scheduler.cache.wake();
        tokio::select! {
            () = &mut shutdown => return Ok(()),
            event = pods.next() => match event {
                Some(Ok(event)) => scheduler.pod_event(&event),
                Some(Err(error)) => warn_watch_failed("Pods", &error),
                None => return Err(WatchEnded("Pods")),
            },
            event = nodes.next() => match event {
                Some(Ok(event)) => scheduler.node_event(&event),
                Some(Err(error)) => warn_watch_failed("Nodes", &error),
                None => return Err(WatchEnded("Nodes")),
            },
            event = claims.next() => match event {
                Some(Ok(event)) => scheduler.claim_event(&event),
                Some(Err(error)) => warn_watch_failed("PersistentVolumeClaims", &error),
                None => return Err(WatchEnded("PersistentVolumeClaims")),
            },
            Some(finished) = scheduler.work.next(), if !scheduler.work.is_empty() => scheduler.finished(finished),
            () = sleep_until(wake), if wake.is_some() => {}
        }
    }
}

fn warn_watch_failed(what: &'static str, error: &watcher::Error) {
    tracing::warn!(%error, "cannot watch {what}; trying again");
}

async fn sleep_until(wake: Option<Instant>) {
    if let Some(wake) = wake {
        tokio::time::sleep_until(wake).await;
    }
}

/// The scheduler's state: its cache and the requests that are in flight.
struct Scheduler {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    cache: Cache,
    pods: Listing<Arc<str>>,
    nodes: Listing<String>,
    claims: Listing<String>,
    work: FuturesUnordered<BoxFuture<'static, Finished>>,
    bindings: usize,
    reports: usize,
}

enum Finished {
    BindRequest { bind_request: BindRequest, outcome: BindOutcome },
    Report { report: Report, written: bool },
}

impl Scheduler {
    fn new(client: Client, clock: Clock, recorder: Recorder) -> Self {
        Self {
            client,
            clock,
            recorder,
            cache: Cache::default(),
            pods: Listing::default(),
            nodes: Listing::default(),
            claims: Listing::default(),
            work: FuturesUnordered::new(),
            bindings: 0,
            reports: 0,
        }
    }

    /// Starts whatever requests can be started. Before all lists are read once, nothing is known
    /// well enough.
    fn start_work(&mut self) {
        if !(self.pods.was_complete() && self.nodes.was_complete() && self.claims.was_complete()) {
            return;
        }
        let now = Instant::now();
        while self.bindings < MAX_CONCURRENT_BINDINGS {
            let next = self.cache.next_retry(now).or_else(|| self.cache.next_bind_request(now));
            let Some(bind_request) = next else { break };
            self.bindings += 1;
            self.work.push(Box::pin(bind(self.client.clone(), bind_request)));
        }
        while self.reports < MAX_CONCURRENT_REPORTS {
            let Some(report) = self.cache.next_report(now) else { break };
            self.reports += 1;
            self.work.push(Box::pin(write_condition(
                self.client.clone(),
                report,
                self.clock.now(),
            )));
        }
    }

    fn finished(&mut self, finished: Finished) {
        let now = Instant::now();
        match finished {
            Finished::BindRequest { bind_request, outcome } => {
                self.bindings -= 1;
                self.cache.record_outcome(&bind_request.uid, outcome, now);
                if outcome == BindOutcome::Bound {
                    let BindRequest { namespace, name, node, .. } = &bind_request;
                    let words = format!("Successfully assigned {namespace}/{name} to {node}");
                    let pod =
                        reference(&bind_request.namespace, &bind_request.name, &bind_request.uid);
                    self.recorder.record(&pod, EventType::Normal, "Scheduled", &words);
                }
            }
            Finished::Report { report, written } => {
                self.reports -= 1;
                if written {
                    let pod = reference(&report.namespace, &report.name, &report.uid);
                    let words = &report.message;
                    self.recorder.record(&pod, EventType::Warning, "FailedScheduling", words);
                } else {
                    self.cache.report_failed(&report.uid, now);
                }
            }
        }
    }

    fn pod_event(&mut self, event: &watcher::Event<Pod>) {
        match event {
            watcher::Event::Init => self.pods.begin(),
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => {
                if let Some(uid) = &pod.metadata.uid {
                    self.pods.insert(uid.as_str().into());
                    self.cache.put_pod(pod);
                }
            }
            watcher::Event::Delete(pod) => {
                if let Some(uid) = pod.metadata.uid.as_deref().map(Arc::from) {
                    self.pods.remove(&uid);
                    self.cache.remove_pod(&uid);
                }
            }
            watcher::Event::InitDone => {
                for uid in self.pods.end() {
                    self.cache.remove_pod(&uid);
                }
            }
        }
    }

    fn node_event(&mut self, event: &watcher::Event<Node>) {
        let name = |node: &Node| node.metadata.name.clone().unwrap_or_default();
        match event {
            watcher::Event::Init => self.nodes.begin(),
            watcher::Event::Apply(node) | watcher::Event::InitApply(node) => {
                self.nodes.insert(name(node));
                self.cache.put_node(node);
            }
            watcher::Event::Delete(node) => {
                self.nodes.remove(&name(node));
                self.cache.remove_node(&name(node));
            }
            watcher::Event::InitDone => {
                for name in self.nodes.end() {
                    self.cache.remove_node(&name);
                }
            }
        }
    }

    fn claim_event(&mut self, event: &watcher::Event<PersistentVolumeClaim>) {
        match event {
            watcher::Event::Init => self.claims.begin(),
            watcher::Event::Apply(claim) | watcher::Event::InitApply(claim) => {
                self.claims.insert(cache::claim_key(claim));
                self.cache.put_claim(claim);
            }
            watcher::Event::Delete(claim) => {
                let key = cache::claim_key(claim);
                self.claims.remove(&key);
                self.cache.remove_claim(&key);
            }
            watcher::Event::InitDone => {
                for key in self.claims.end() {
                    self.cache.remove_claim(&key);
                }
            }
        }
    }
}

fn reference(namespace: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

/// Binds a Pod, that very one: another of the same name is refused.
async fn bind(client: Client, bind_request: BindRequest) -> Finished {
    let binding = Binding {
        metadata: ObjectMeta {
            namespace: Some(bind_request.namespace.clone()),
            name: Some(bind_request.name.clone()),
            uid: Some(bind_request.uid.to_string()),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(bind_request.node.clone()),
            ..ObjectReference::default()
        },
    };
    let api = Api::<Pod>::namespaced(client, &bind_request.namespace);
    let params = PostParams::default();
    let sent = api.create_subresource::<_, Value>("binding", &bind_request.name, &params, &binding);
    let outcome = match ask("bind a Pod", sent).await {
        Ok(_) => BindOutcome::Bound,
        Err(error) => {
            let BindRequest { namespace, name, node, .. } = &bind_request;
            let cause = in_full(&error);
            tracing::warn!(%cause, "Pod {namespace}/{name} is not bound to {node} yet");
            // That it is bound already, or gone, the watch tells in better words.
            let refused = error.is_final() && error.code() != Some(404);
            if refused { BindOutcome::Refused } else { BindOutcome::Unclear }
        }
    };
    Finished::BindRequest { bind_request, outcome }
}

async fn write_condition(client: Client, report: Report, now: Timestamp) -> Finished {
    let condition = PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        message: Some(report.message.to_string()),
        observed_generation: report.generation,
        last_transition_time: Some(Time(report.since.unwrap_or(now))),
        ..PodCondition::default()
    };
    // With its uid, the patch is for that Pod alone.
    let patch = Patch::Strategic(json!({
        "metadata": {"uid": &*report.uid},
        "status": {"conditions": [condition]},
    }));
    let api = Api::<Pod>::namespaced(client, &report.namespace);
    let params = PatchParams::default();
    let sent = api.patch_status(&report.name, &params, &patch);
    let sent = ask("tell a Pod why it waits", sent).await;
    if let Err(error) = &sent {
        let Report { namespace, name, .. } = &report;
        tracing::debug!(
            cause = in_full(error),
            "Pod {namespace}/{name} does not know why it waits"
        );
    }
    Finished::Report { written: sent.is_ok(), report }
}
