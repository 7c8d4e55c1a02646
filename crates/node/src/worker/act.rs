//! Carries out what was decided: one command to the shim, or one request to the API, for each
//! action.

use std::fs;
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, fchown};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Preconditions};

use crate::cgroup::{ContainerGroup, Limits};
use crate::dial::PodRoute;
use crate::event::{self, EventType};
use crate::lifecycle::{Action, Preparation};
use crate::lifeline::Lifeline;
use crate::orphan;
use crate::plan::resource;
use crate::plan::{self, PlanError, PlanInputs};
use crate::port::{self, PortError};
use crate::private;
use crate::probe::{Access, ContainerProbes, Notice, PodPorts, ProbeTarget, PublishedState};
use crate::shim::handle::{CommandError, Handle, LaunchError};
use crate::shim::protocol::{
    Confinement, Network, OwnNetwork, Reachable, Refusal, ShimConfig, Start,
};

use super::stop::{Run, Stopping};
use super::{Next, RunningProbes, Shim, Worker, containers, launched_at};

/// What Kubernetes gives a Pod that does not say.
const DEFAULT_GRACE: i64 = 30;

impl Worker {
    pub(super) async fn act(&mut self, action: Action, now: Timestamp) -> Next {
        match action {
            Action::Launch => self.launch(now).await,
            Action::Start { container, attempt } => self.start(&container, attempt, now).await,
            Action::Stop { container, attempt, deadline, why } => {
                self.stop(&container, attempt, deadline, &why);
                Next::Wait
            }
            Action::Conclude => self.conclude().await,
            Action::Remove => self.remove(now).await,
        }
    }

    async fn launch(&mut self, now: Timestamp) -> Next {
        let Some(confinement) = self.prepared.confinement else { return Next::Wait };
        if !self.launch.is_due(now) {
            return Next::Wait;
        }
        let context = self.context.clone();
        // Every launch runs two processes; more at once only slow each other down.
        let Ok(_turn) = context.launches.acquire().await else { return Next::Wait };
        let shim_config = self.shim_config(confinement);
        let lifeline = context.lifeline.as_ref().map(Lifeline::for_shim);
        let lifeline = match lifeline.transpose() {
            Ok(lifeline) => lifeline,
            Err(error) => {
                return self.launch_failed(&format!("cannot share the lifeline: {error}"), now);
            }
        };
        let program = &context.config.program;
        match Handle::launch(program, &self.folder, &shim_config, lifeline).await {
            Ok((handle, ended)) => {
                self.launch.succeeded();
                let since = launched_at(&self.folder).unwrap_or(now);
                self.shim = Shim::Running { since, handle, ended };
                Next::Again
            }
            Err(error) => {
                // Only of one that has ended is it sure that it does not have the port itself.
                let has_ended = matches!(error, LaunchError::Failed { .. });
                match self.taken_port().filter(|_| has_ended) {
                    Some(taken) => self.refuse_for_port(&taken),
                    None => self.launch_failed(&error.to_string(), now),
                }
            }
        }
    }

    fn launch_failed(&mut self, why: &str, now: Timestamp) -> Next {
        let message = format!("Failed to create pod sandbox: {why}");
        self.emit_event(EventType::Warning, "FailedCreatePodSandBox", &message);
        self.launch.failed(now);
        Next::Wait
    }

    /// Somebody else took a port of the Pod's since it was given.
    fn refuse_for_port(&mut self, taken: &PortError) -> Next {
        let (reason, message) = (port::TAKEN_REASON, taken.to_string());
        self.emit_event(EventType::Warning, reason, &message);
        self.prepared.preparation = Preparation::Refused { reason, message };
        Next::Again
    }

    fn shim_config(&self, confinement: Confinement) -> ShimConfig {
        let config = &self.context.config;
        ShimConfig {
            pod_uid: self.uid(),
            hostname: plan::hostname(&self.pod),
            confinement,
            exposed: config.exposed.clone(),
            hidden: config.hidden.clone(),
            dies_with_node: self.context.lifeline.is_some(),
            log_limit: config.log_limit,
            containers: u32::try_from(containers(&self.pod).count()).unwrap_or(u32::MAX),
            network: self.network(),
        }
    }

    fn network(&self) -> Network {
        let config = &self.context.config;
        let reachable: Vec<Reachable> =
            config.reachable.iter().chain(&self.prepared.services).copied().collect();
        if !self.has_own_network() {
            let api = config.api_server.as_ref().map(|(_, port)| *port);
            let ports = port::allowed_tcp_ports(&self.prepared.listens, &reachable, api);
            return Network::Machine { ports: Some(ports) };
        }
        Network::Own(OwnNetwork {
            forwards: self.prepared.forwards.clone(),
            reachable,
            resolvers: config.resolvers.clone(),
        })
    }

    async fn start(&mut self, container: &str, attempt: u32, now: Timestamp) -> Next {
        let Shim::Running { handle, .. } = &self.shim else { return Next::Wait };
        let handle = handle.clone();
        let start = match self.plan(container, attempt) {
            Ok(start) => start,
            // It was possible a moment ago: something changed, and is looked at again.
            Err(error) => {
                tracing::debug!(pod = self.name(), container, %error, "cannot be started now");
                self.prepared.is_stale = true;
                return Next::Again;
            }
        };
        if let Err(error) = self.make_message_file(&start) {
            let message = format!("cannot make the termination message file: {error}");
            self.runs.failed(container, attempt, now, "RunContainerError", message);
            return Next::Again;
        }
        match handle.start(start).await {
            Ok(record) => {
                self.emit_container_event(
                    container,
                    EventType::Normal,
                    "Created",
                    "Container created",
                );
                self.emit_container_event(
                    container,
                    EventType::Normal,
                    "Started",
                    "Container started",
                );
                self.runs.record(&record);
            }
            Err(CommandError::Refused { reason, message }) => {
                let reason = match reason {
                    Refusal::CannotRun => "StartError",
                    _ => "RunContainerError",
                };
                self.emit_container_event(
                    container,
                    EventType::Warning,
                    "Failed",
                    &format!("Error: {message}"),
                );
                self.runs.failed(container, attempt, now, reason, message);
            }
            // Its end will be told by the shim's own channel.
            Err(error) => {
                tracing::warn!(pod = self.name(), container, %error, "cannot start");
                return Next::Wait;
            }
        }
        Next::Again
    }

    /// What a container is started with, in a control group of its own.
    fn plan(&self, container: &str, attempt: u32) -> Result<Start, PlanError> {
        let context = &self.context;
        let uid = self.uid();
        let limits = self.container(container).map(limits).unwrap_or_default();
        let group = context
            .cgroups
            .pod(&uid, pod_limits(&self.pod), context.config.pids_per_pod)
            .and_then(|()| context.cgroups.container(&uid, container, limits))
            .unwrap_or_else(|error| {
                tracing::warn!(pod = self.name(), container, %error, "runs without control group");
                ContainerGroup { memory_limit: limits.memory, ..ContainerGroup::default() }
            });
        self.plan_in(container, attempt, &group)
    }

    pub(super) fn plan_in(
        &self,
        container: &str,
        attempt: u32,
        group: &ContainerGroup,
    ) -> Result<Start, PlanError> {
        let context = &self.context;
        let host_ips = [context.config.host_ip()];
        let ports = self.prepared.ports.clone().unwrap_or_default();
        let inputs = PlanInputs {
            folder: &self.folder,
            confined: self.prepared.confinement != Some(Confinement::Unconfined),
            hostname: &plan::hostname(&self.pod),
            host_ips: &host_ips,
            path: &context.config.path,
            lang: context.config.lang.as_deref(),
            time_zone: context.config.time_zone.as_deref(),
            api_server: context.config.api_server.as_ref().map(|(host, port)| (&**host, *port)),
            ports: &ports,
            volumes: &self.prepared.volumes,
            cgroups: &group.procs,
            oom_events: group.oom_events.as_deref(),
            memory_limit: group.memory_limit,
            allocatable: context.allocatable,
        };
        plan::start(&self.pod, container, attempt, &inputs, &context.objects)
    }

    /// The termination message file of a container, before it is mounted; in a folder that no Pod
    /// can reach, so nothing can be in its place.
    fn make_message_file(&self, start: &Start) -> io::Result<()> {
        let Some(path) = &start.termination_message else { return Ok(()) };
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(private::NO_LINK)
            .open(path)?;
        match self.prepared.confinement {
            Some(Confinement::User { uid, gid }) => fchown(file, Some(uid), Some(gid)),
            _ => Ok(()),
        }
    }

    fn stop(&mut self, container: &str, attempt: u32, deadline: Timestamp, why: &str) {
        if let Some(stopping) = self.stopping.get(container).filter(|s| s.attempt == attempt) {
            stopping.shorten(deadline);
            return;
        }
        if let Some(watched) = self.watching.get(container) {
            watched.watching.stop_liveness();
        }
        let Shim::Running { handle, .. } = &self.shim else { return };
        let Some(spec) = self.container(container) else { return };
        let context = self.context.clone();
        let about = event::about_container(&self.pod, container);
        self.emit_container_event(container, EventType::Normal, "Killing", why);
        let run = Run {
            pod: self.pod.clone(),
            container: spec.clone(),
            attempt,
            folder: self.folder.clone(),
            access: self.access(handle),
            clock: context.clock,
            is_at_once: self.has_no_grace(),
            report: Arc::new(move |message| {
                context.recorder.record(&about, EventType::Warning, "FailedPreStopHook", &message);
            }),
        };
        self.stopping.insert(container.to_owned(), Stopping::begin(run, deadline));
    }

    /// Whether the Pod is to be ended without any grace: `kubectl delete --now --force`, eviction.
    fn has_no_grace(&self) -> bool {
        let node_termination =
            self.node_termination.as_ref().and_then(|node_termination| node_termination.grace);
        self.pod.metadata.deletion_grace_period_seconds.or(node_termination) == Some(0)
    }

    fn access(&self, handle: &Handle) -> Access<Handle> {
        let ports = self.prepared.ports.clone().unwrap_or_default();
        Access {
            pod_ip: self.context.config.address,
            ports: PodPorts::of(&self.pod, |container, port| ports.of(container, port)),
            exec: handle.clone(),
            route: if self.has_own_network() {
                PodRoute::Shim(self.folder.clone())
            } else {
                PodRoute::Machine
            },
        }
    }

    /// Probes whatever runs, and nothing else.
    pub(super) fn probe(&mut self) {
        let Shim::Running { handle, .. } = &self.shim else {
            self.watching.clear();
            return;
        };
        let runs = &self.runs;
        self.watching.retain(|name, watched| runs.running(name) == Some(watched.attempt));
        let unwatched: Vec<(String, u32)> = runs
            .running_all()
            .filter(|(name, _)| !self.watching.contains_key(*name))
            .map(|(name, attempt)| (name.to_owned(), attempt))
            .collect();
        for (name, attempt) in unwatched {
            let Some(container) = self.container(&name) else { continue };
            let probes =
                [&container.startup_probe, &container.liveness_probe, &container.readiness_probe];
            if probes.iter().all(|probe| probe.is_none()) {
                continue;
            }
            let target = ProbeTarget {
                pod_uid: self.uid(),
                container: container.clone(),
                attempt,
                age: self.runs.age(&name, self.context.clock.now()),
                earlier: self.earlier(&name, attempt),
            };
            let context = self.context.clone();
            let about = event::about_container(&self.pod, &name);
            let report: Arc<dyn Fn(Notice) + Send + Sync> = Arc::new(move |notice| {
                context.recorder.record(&about, EventType::Warning, notice.reason, &notice.message);
            });
            let watching = ContainerProbes::start(&target, &self.access(handle), &report);
            let probed = watching.probed();
            self.watching.insert(name, RunningProbes { attempt, watching, probed });
        }
    }

    /// What the Pod's status says of a run that was going on before this node started.
    fn earlier(&self, container: &str, attempt: u32) -> Option<PublishedState> {
        let status = self.pod.status.as_ref()?;
        let lists = [&status.init_container_statuses, &status.container_statuses];
        let seen = lists.into_iter().flatten().flatten().find(|seen| seen.name == container)?;
        let same = u32::try_from(seen.restart_count).ok() == Some(attempt)
            && seen.state.as_ref().is_some_and(|state| state.running.is_some());
        same.then(|| PublishedState { started: seen.started.unwrap_or(false), ready: seen.ready })
    }

    async fn conclude(&mut self) -> Next {
        let Shim::Running { handle, .. } = &self.shim else { return Next::Wait };
        if let Err(error) = handle.end().await {
            tracing::warn!(pod = self.name(), %error, "its shim does not end");
        }
        self.watching.clear();
        self.stopping.clear();
        self.drain_ends().await;
        self.shim = Shim::Ended;
        Next::Again
    }

    /// Takes in what the shim still told before it ended.
    async fn drain_ends(&mut self) {
        let now = self.context.clock.now();
        if let Shim::Running { ended, .. } = &mut self.shim {
            while let Some(record) = ended.recv().await {
                self.runs.record(&record);
            }
        }
        self.runs.mark_lost(now);
    }

    /// Takes everything apart, then removes the Pod from the API, then forgets it.
    async fn remove(&mut self, now: Timestamp) -> Next {
        // What its end was must be known before it is gone.
        if self.publication.at.is_some() || !self.removal.is_due(now) {
            return Next::Wait;
        }
        if let Err(error) = self.tear_down(now).await {
            tracing::warn!(pod = self.name(), error, "cannot be taken apart yet");
            self.removal.failed(now);
            return Next::Wait;
        }
        let api: Api<Pod> =
            Api::namespaced(self.context.client.clone(), &self.pod.namespace().unwrap_or_default());
        let delete = DeleteParams::default()
            .grace_period(0)
            .preconditions(Preconditions { uid: self.pod.uid(), resource_version: None });
        match api.delete(&self.pod.name_any(), &delete).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
            Err(error) => {
                tracing::warn!(pod = self.name(), %error, "cannot be removed from the API yet");
                self.removal.failed(now);
                return Next::Wait;
            }
        }
        self.forget_folder().await;
        Next::Leave
    }

    /// The Pod is gone from the API already: so must be everything of it here.
    pub(super) async fn abandon(&mut self) -> Next {
        self.conclude().await;
        let now = self.context.clock.now();
        if let Err(error) = self.tear_down(now).await {
            tracing::warn!(pod = self.name(), error, "is not wholly taken apart");
        }
        self.forget_folder().await;
        Next::Leave
    }

    async fn tear_down(&self, now: Timestamp) -> Result<(), String> {
        let (context, uid) = (&self.context, self.uid());
        context.volumes.remove(&uid, &self.folder).await.map_err(|error| error.to_string())?;
        let (cgroups, group) = (context.cgroups.clone(), uid.clone());
        let removed = tokio::task::spawn_blocking(move || {
            cgroups.kill(&group).and_then(|()| cgroups.remove(&group))
        });
        removed.await.map_err(|e| e.to_string())?.map_err(|error| error.to_string())?;
        context.objects.forget(&uid);
        context.ports().release(&uid, now);
        Ok(())
    }

    /// Removes the Pod's folder; what is left of it is found again at the next start.
    async fn forget_folder(&self) {
        let (pods, uid) = (self.context.folder.pods(), self.uid());
        let removed = tokio::task::spawn_blocking(move || orphan::remove_folder(&pods, &uid));
        if let Ok(Err(error)) = removed.await {
            tracing::warn!(pod = self.name(), %error, "its folder stays");
        }
    }

    /// The node stops: every process gets its grace, sidecars after the others, and the Pod stays
    /// as it is, to be run again by the next node.
    pub(super) async fn shut_down(&mut self) -> Next {
        let now = self.context.clock.now();
        if self.shim_unknown {
            return Next::Leave;
        }
        let Shim::Running { .. } = &self.shim else {
            let decision = self.decide(now);
            self.publish(&decision, now).await;
            return Next::Leave;
        };
        let spec = self.pod.spec.as_ref();
        let grace = self.pod.metadata.deletion_grace_period_seconds;
        let grace = grace.or_else(|| spec?.termination_grace_period_seconds);
        let grace = SignedDuration::from_secs(grace.unwrap_or(DEFAULT_GRACE).max(0));
        let deadline = now.checked_add(grace).unwrap_or(now);
        let running: Vec<(String, u32)> =
            self.runs.running_all().map(|(name, attempt)| (name.to_owned(), attempt)).collect();
        if running.is_empty() {
            return self.conclude().await;
        }
        let is_sidecar = |name: &str| {
            let init = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
            init.into_iter().any(|container| container.name == name)
        };
        let first: Vec<_> = running.iter().filter(|(name, _)| !is_sidecar(name)).collect();
        let now_ending: Vec<_> = if first.is_empty() { running.iter().collect() } else { first };
        for (name, attempt) in now_ending.into_iter().cloned().collect::<Vec<_>>() {
            self.stop(&name, attempt, deadline, "The node stops");
        }
        Next::Wait
    }

    pub(super) fn emit_event(&self, kind: EventType, reason: &'static str, message: &str) {
        let about = event::about_pod(&self.pod);
        self.context.recorder.record(&about, kind, reason, message);
    }

    pub(super) fn emit_container_event(
        &self,
        container: &str,
        kind: EventType,
        reason: &'static str,
        message: &str,
    ) {
        let about = event::about_container(&self.pod, container);
        self.context.recorder.record(&about, kind, reason, message);
    }
}

fn limits(container: &Container) -> Limits {
    let limits = resource::container_limits(container);
    Limits {
        memory: limits.memory,
        milli_cpu: limits.milli_cpu,
        milli_cpu_request: resource::container_requests(container).milli_cpu,
    }
}

/// A Pod is held to what its containers may use together, where each of them has a limit.
fn pod_limits(pod: &Pod) -> Limits {
    let Some(spec) = &pod.spec else { return Limits::default() };
    let limits = resource::limits(spec);
    Limits {
        memory: limits.memory,
        milli_cpu: limits.milli_cpu,
        milli_cpu_request: resource::requests(spec).milli_cpu,
    }
}
