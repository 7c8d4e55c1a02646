//! One Pod, from the moment it is bound to this node until it is gone: observe, decide, act,
//! publish, and wait for news.
//!
//! The decision is `lifecycle::decide`; everything here is the doing. A worker is one task and owns
//! all that is known of its Pod, so nothing is shared and nothing is locked. It can be killed at any
//! point: what it did is seen again in the shim, on disk and in the API.
//!
//! | file      | what                                                    |
//! |-----------|---------------------------------------------------------|
//! | `prepare` | volumes, ports, references, limits: whether it can run  |
//! | `act`     | carries out decisions                                   |
//! | `exec`    | lets probes and hooks run commands by the shim          |
//! | `stop`    | ends one run of a container                             |
//! | `runs`    | the runs of its containers                              |
//! | `publish` | writes the status                                       |

mod act;
mod exec;
mod prepare;
mod publish;
mod runs;
mod stop;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use kube::ResourceExt as _;
use tokio::sync::{mpsc, watch};

use crate::agent::Context;
use crate::event::EventType;
use crate::folder::PodFolder;
use crate::lifecycle::{self, Decision, NodeTermination, PodObservation, Probed, ShimState};
use crate::probe::ContainerProbes;
use crate::shim::handle::{Adopted, Handle};
use crate::shim::protocol::Record;

use prepare::Prepared;
use publish::PublishOutcome;
use runs::Runs;
use stop::Stopping;

/// The pauses between attempts at something that failed.
const MIN_RETRY_DELAY: SignedDuration = SignedDuration::from_secs(1);
const MAX_RETRY_DELAY: SignedDuration = SignedDuration::from_secs(60);

/// The input of a worker, as of now: a later input replaces it, so that nothing
/// waits in a queue and nothing is lost.
#[derive(Debug, Clone)]
pub(crate) struct WorkerInput {
    /// The Pod as the API has it.
    pub(crate) pod: Arc<Pod>,
    /// Counts the changes of what it refers to.
    pub(crate) changes: u64,
    /// It is no longer in the API: somebody removed it without waiting for us.
    pub(crate) vanished: bool,
    /// It uses more disk than it may, in words.
    pub(crate) over: Option<String>,
    /// The node stops: end the Pod's processes, each with its grace, and leave the Pod itself alone.
    pub(crate) shutdown: bool,
}

impl WorkerInput {
    pub(crate) const fn new(pod: Arc<Pod>) -> Self {
        Self { pod, changes: 0, vanished: false, over: None, shutdown: false }
    }
}

/// Whether there is more to do at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Wait,
    Again,
    /// The Pod is gone, and with it this worker.
    Leave,
}

/// Why a worker that waited goes on.
enum WakeReason {
    WorkerInput {
        alone: bool,
    },
    /// A run ended; `None`: the shim is gone.
    End(Option<Record>),
    Nothing,
}

#[derive(Debug)]
enum Shim {
    Absent,
    Running { since: Timestamp, handle: Handle, ended: mpsc::Receiver<Record> },
    Ended,
}

impl Shim {
    const fn state(&self) -> ShimState {
        match self {
            Self::Absent => ShimState::Absent,
            Self::Running { since, .. } => ShimState::Running { since: *since },
            Self::Ended => ShimState::Ended,
        }
    }
}

/// The probes of a container's present run, and what was read of them last.
#[derive(Debug)]
struct RunningProbes {
    attempt: u32,
    watching: ContainerProbes,
    probed: watch::Receiver<Probed>,
}

/// When what failed is tried again.
#[derive(Debug, Default)]
struct Retry {
    pause: Option<SignedDuration>,
    at: Option<Timestamp>,
}

impl Retry {
    fn failed(&mut self, now: Timestamp) {
        let pause = self.pause.map_or(MIN_RETRY_DELAY, |pause| (pause * 2).min(MAX_RETRY_DELAY));
        self.pause = Some(pause);
        self.at = now.checked_add(pause).ok();
    }

    fn succeeded(&mut self) {
        *self = Self::default();
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.at.is_none_or(|at| at <= now)
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    context: Arc<Context>,
    pod: Arc<Pod>,
    folder: PodFolder,
    inbox: watch::Receiver<WorkerInput>,
    /// What it refers to, as of then, was looked at.
    changes: u64,
    shim: Shim,
    runs: Runs,
    prepared: Prepared,
    watching: BTreeMap<String, RunningProbes>,
    stopping: BTreeMap<String, Stopping>,
    node_termination: Option<NodeTermination>,
    /// Its shim may live and cannot be asked: nothing is known, so nothing is decided.
    shim_unknown: bool,
    adoption: Retry,
    launch: Retry,
    publication: Retry,
    removal: Retry,
    vanished: bool,
    shutting_down: bool,
}

impl Worker {
    /// A worker for a Pod, with whatever is left of the Pod from before.
    pub(crate) async fn new(
        context: Arc<Context>,
        mut inbox: watch::Receiver<WorkerInput>,
    ) -> Self {
        let WorkerInput { pod, changes, .. } = inbox.borrow_and_update().clone();
        let uid = pod.uid().unwrap_or_default();
        let folder = context.folder.pod(&uid);
        let mut worker = Self {
            context,
            pod,
            folder,
            inbox,
            changes,
            shim: Shim::Absent,
            runs: Runs::default(),
            prepared: Prepared::default(),
            watching: BTreeMap::new(),
            stopping: BTreeMap::new(),
            node_termination: None,
            shim_unknown: false,
            adoption: Retry::default(),
            launch: Retry::default(),
            publication: Retry::default(),
            removal: Retry::default(),
            vanished: false,
            shutting_down: false,
        };
        worker.adopt().await;
        worker
    }

    /// Finds the Pod's shim again, if it had one.
    async fn adopt(&mut self) {
        let now = self.context.clock.now();
        if self.folder.shim_config().exists() {
            match Handle::adopt(&self.folder).await {
                Ok(Adopted::Running(handle, ended, records)) => {
                    tracing::info!(pod = self.name(), "its processes go on");
                    records.iter().for_each(|record| self.runs.record(record));
                    let since = launched_at(&self.folder).unwrap_or(now);
                    self.shim = Shim::Running { since, handle, ended };
                }
                Ok(Adopted::Ended(records)) => {
                    records.iter().for_each(|record| self.runs.record(record));
                    self.runs.mark_lost(now);
                    self.shim = Shim::Ended;
                }
                // That it does not answer does not mean that it ended.
                Err(error) => {
                    tracing::error!(pod = self.name(), %error, "cannot adopt its processes yet");
                    self.shim = Shim::Absent;
                    self.shim_unknown = true;
                    self.adoption.failed(now);
                    return;
                }
            }
        }
        self.shim_unknown = false;
        self.adoption.succeeded();
    }

    /// Looks after the Pod until it is gone or the node stops.
    pub(crate) async fn run(mut self) {
        loop {
            let next_step =
                if self.shutting_down { self.shut_down().await } else { self.reconcile().await };
            match next_step {
                Next::Again => {}
                Next::Wait => self.wait().await,
                Next::Leave => break,
            }
        }
        self.context.log_index.remove(&self.pod);
    }

    /// Observe, decide, publish, act: once.
    async fn reconcile(&mut self) -> Next {
        if self.shim_unknown && self.adoption.is_due(self.context.clock.now()) {
            self.adopt().await;
        }
        if self.shim_unknown {
            return Next::Wait;
        }
        if self.vanished {
            return self.abandon().await;
        }
        self.prepare().await;
        self.probe();
        let now = self.context.clock.now();
        let decision = self.decide(now);
        self.context.log_index.put(&self.pod, &self.folder, self.runs.all(), &decision.status);
        self.emit_back_off(&decision);
        if self.publish(&decision, now).await == Next::Leave {
            return self.abandon().await;
        }
        self.prepared.wake = decision.wake;
        let mut next_step = Next::Wait;
        for action in decision.actions {
            match self.act(action, now).await {
                Next::Wait => {}
                Next::Again => next_step = Next::Again,
                Next::Leave => return Next::Leave,
            }
        }
        self.give_back_ports(now);
        next_step
    }

    /// A Pod that is over and stays in the API has no ports any more: others may ask for them.
    fn give_back_ports(&self, now: Timestamp) {
        if !self.is_over() || matches!(self.shim, Shim::Running { .. }) {
            return;
        }
        // First on disk: the next node must not believe that they are still this Pod's.
        match std::fs::remove_file(self.folder.ports()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(pod = self.name(), %error, "its ports stay its own");
            }
            _ => self.context.ports().release(&self.uid(), now),
        }
    }

    fn decide(&mut self, now: Timestamp) -> Decision {
        let probes: BTreeMap<String, Probed> = self
            .watching
            .iter_mut()
            .map(|(container, watched)| {
                (container.clone(), watched.probed.borrow_and_update().clone())
            })
            .collect();
        let observation = PodObservation {
            pod: &self.pod,
            host_ip: &self.context.config.host_ip(),
            preparation: &self.prepared.preparation,
            shim: self.shim.state(),
            runs: self.runs.all(),
            probes: &probes,
            node_termination: self.node_termination.as_ref(),
        };
        lifecycle::decide(&observation, now)
    }

    /// Writes an Event for every container that begins to wait in its back-off.
    fn emit_back_off(&self, decision: &Decision) {
        let status = [&self.pod.status.clone().unwrap_or_default(), &decision.status];
        let [before, now] = status.map(|status| {
            let lists = [&status.init_container_statuses, &status.container_statuses];
            let all = lists.into_iter().flatten().flatten();
            all.filter(|container| is_backing_off(container)).collect::<Vec<_>>()
        });
        for container in now {
            let same = |other: &&ContainerStatus| {
                other.name == container.name && other.restart_count == container.restart_count
            };
            if !before.iter().any(same) {
                let (name, pod) = (&container.name, self.pod.name_any());
                let (namespace, uid) = (self.pod.namespace().unwrap_or_default(), self.uid());
                let message = format!(
                    "Back-off restarting failed container {name} in pod {pod}_{namespace}({uid})"
                );
                self.emit_container_event(name, EventType::Warning, "BackOff", &message);
            }
        }
    }

    async fn publish(&mut self, decision: &Decision, now: Timestamp) -> Next {
        if !self.publication.is_due(now) {
            return Next::Wait;
        }
        let client = &self.context.client;
        let ports = self.prepared.ports_annotation();
        match publish::publish(client, &self.pod, &decision.status, ports.as_deref()).await {
            PublishOutcome::Unchanged => self.publication.succeeded(),
            PublishOutcome::Done(pod) => {
                self.publication.succeeded();
                self.pod = Arc::from(pod);
            }
            PublishOutcome::Gone => return Next::Leave,
            PublishOutcome::Failed(error) => {
                tracing::warn!(pod = self.name(), %error, "cannot publish its status");
                self.publication.failed(now);
            }
        }
        Next::Wait
    }

    /// Waits for whatever comes first: news, an end, a result of a probe, or the next time.
    async fn wait(&mut self) {
        let now = self.context.clock.now();
        let times = [
            self.prepared.wake,
            self.prepared.next_check(),
            self.adoption.at,
            self.launch.at,
            self.publication.at,
            self.removal.at,
        ];
        let next = times.into_iter().flatten().filter(|at| *at > now).min();
        let pause = next.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        // What the last decision read counts as seen.
        let probed = async {
            if self.watching.is_empty() {
                return std::future::pending().await;
            }
            let watched = self.watching.values_mut();
            let changes = watched.map(|watched| Box::pin(watched.probed.changed()));
            if select_all(changes).await.0.is_err() {
                // Its tasks have ended: there will be no other result.
                std::future::pending::<()>().await;
            }
        };
        let ended = async {
            match &mut self.shim {
                Shim::Running { ended, .. } => ended.recv().await,
                Shim::Absent | Shim::Ended => std::future::pending().await,
            }
        };
        let wake = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        let reason = tokio::select! {
            input = self.inbox.changed() => WakeReason::WorkerInput { alone: input.is_err() },
            record = ended => WakeReason::End(record),
            () = probed => WakeReason::Nothing,
            () = wake => WakeReason::Nothing,
        };
        match reason {
            WakeReason::WorkerInput { alone } => self.apply_input(alone),
            WakeReason::End(Some(record)) => self.record_exit(&record),
            WakeReason::End(None) => self.readopt().await,
            WakeReason::Nothing => {}
        }
    }

    /// Takes over the latest input; `alone` when its sender is gone.
    fn apply_input(&mut self, alone: bool) {
        let input = self.inbox.borrow_and_update().clone();
        if !is_older(&input.pod, &self.pod) && !Arc::ptr_eq(&input.pod, &self.pod) {
            self.pod = input.pod;
            self.prepared.is_stale = true;
        }
        if input.changes != self.changes {
            self.changes = input.changes;
            self.prepared.is_stale = true;
        }
        if let Some(message) = input.over
            && self.node_termination.is_none()
        {
            let since = self.context.clock.now();
            self.emit_event(EventType::Warning, "Evicted", &message);
            self.node_termination =
                Some(NodeTermination { reason: "Evicted", message, since, grace: Some(0) });
        }
        self.vanished |= input.vanished;
        self.shutting_down |= input.shutdown || alone;
    }

    fn record_exit(&mut self, record: &Record) {
        self.stopping.remove(&record.container);
        self.watching.remove(&record.container);
        self.runs.record(record);
    }

    /// The connection to the shim broke, nearly always because it ended.
    async fn readopt(&mut self) {
        self.stopping.clear();
        self.watching.clear();
        self.adopt().await;
        if matches!(self.shim, Shim::Ended) {
            tracing::warn!(pod = self.name(), "its shim ended unasked");
            // What the next one is to be told is asked anew.
            self.prepared.is_stale = true;
        }
    }

    fn name(&self) -> String {
        format!("{}/{}", self.pod.namespace().unwrap_or_default(), self.pod.name_any())
    }

    fn uid(&self) -> String {
        self.pod.uid().unwrap_or_default()
    }

    /// A container of the Pod, init containers included.
    fn container(&self, name: &str) -> Option<&Container> {
        containers(&self.pod).find(|container| container.name == name)
    }
}

fn is_backing_off(container: &ContainerStatus) -> bool {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    waiting.and_then(|waiting| waiting.reason.as_deref()) == Some("CrashLoopBackOff")
}

/// All containers of a Pod in the order in which they start.
fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.as_ref();
    let init = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
    init.chain(spec.into_iter().flat_map(|spec| &spec.containers))
}

/// Whether what a watch tells is older than what an answer told. Versions of one resource can be
/// compared as numbers.
fn is_older(input: &Pod, known: &Pod) -> bool {
    let version = |pod: &Pod| pod.resource_version().and_then(|v| v.parse::<u64>().ok());
    matches!((version(input), version(known)), (Some(input), Some(known)) if input < known)
}

/// The shim's configuration is written once, when the shim is launched.
fn launched_at(folder: &PodFolder) -> Option<Timestamp> {
    let modified = std::fs::metadata(folder.shim_config()).ok()?.modified().ok()?;
    Timestamp::try_from(modified).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_pause_longer_and_longer_up_to_a_minute() {
        let mut retry = Retry::default();
        let now = Timestamp::UNIX_EPOCH;
        assert!(retry.is_due(now));
        let pauses: Vec<i64> = (0..8)
            .map(|_| {
                retry.failed(now);
                retry.at.expect("a time").as_second()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(!retry.is_due(now));
        retry.succeeded();
        assert!(retry.is_due(now));
    }

    #[test]
    fn an_older_version_is_not_believed() {
        let pod = |version: &str| Pod {
            metadata: kube::core::ObjectMeta {
                resource_version: Some(version.to_owned()),
                ..Default::default()
            },
            ..Pod::default()
        };
        assert!(is_older(&pod("9"), &pod("10")));
        assert!(!is_older(&pod("10"), &pod("9")));
        assert!(!is_older(&pod("10"), &pod("10")));
        assert!(!is_older(&pod("strange"), &pod("10")));
    }
}
