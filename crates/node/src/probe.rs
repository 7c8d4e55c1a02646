//! Probes and hooks: what is found out about a running container, and what it is told.
//!
//! | file      | what                                                       |
//! |-----------|------------------------------------------------------------|
//! | `machine` | when a probe runs and what its results amount to, pure     |
//! | `reach`   | which addresses probes and hooks may connect to            |
//! | `http`, `tcp` | the ways to ask; `exec` is the shim's, behind [`Exec`] |
//! | `hook`    | `postStart` and `preStop`                                  |
//!
//! Each probe of a container's run is a task of its own, so that a slow one holds up no other; all
//! end when their [`ContainerProbes`] is dropped. A container has at most three, each makes one
//! request at a time: what a Pod can make a node do is bounded by that.

pub(crate) mod hook;
mod http;
mod machine;
mod reach;
mod tcp;

use std::fmt;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::dial::PodRoute;
use crate::lifecycle::{Failed, Probed};
use crate::shim::protocol::Executed;

pub(crate) use machine::Kind;
pub(crate) use reach::{PodPorts, ReachError};

use machine::{Machine, Settings};

/// How often a probe that could not be run is tried again at once, as by a kubelet.
const MAX_ATTEMPTS: usize = 3;
/// How much longer than its own limit the answer about a command may take.
const EXEC_SLACK: Duration = Duration::from_secs(5);
/// How long a message for people may be: what an Event can hold.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Runs commands beside a running container.
pub(crate) trait Exec: Clone + Send + Sync + 'static {
    /// `Executed::exit_code` is `None` when the command took longer than `timeout`.
    fn exec(
        &self,
        container: &str,
        argv: Vec<String>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Executed, ExecError>> + Send;
}

/// Why a command could not be run; in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ExecError(pub String);

/// How a Pod's containers can be reached.
#[derive(Debug, Clone)]
pub(crate) struct Access<E> {
    pub pod_ip: IpAddr,
    pub ports: PodPorts,
    pub exec: E,
    pub route: PodRoute,
}

/// One run of a container that is to be probed.
#[derive(Debug, Clone)]
pub(crate) struct ProbeTarget {
    pub pod_uid: String,
    pub container: Container,
    pub attempt: u32,
    /// How long it has been running.
    pub age: Duration,
    /// What was already known of this very run, when the node was started after it.
    pub earlier: Option<PublishedState>,
}

/// What a Pod's status says of a run that is adopted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PublishedState {
    pub started: bool,
    pub ready: bool,
}

/// Something that an Event should tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub container: String,
    /// `Unhealthy` or `ProbeWarning`.
    pub reason: &'static str,
    pub message: String,
}

/// Is told what Events should tell. It must not block.
pub(crate) type Report = Arc<dyn Fn(Notice) + Send + Sync>;

/// What one run of a probe found.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ProbeOutcome {
    Success,
    /// It counts as success, but somebody should know.
    Warning(String),
    Failure(String),
}

/// A probe or hook could not be run, which says nothing about the container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct NotRun(String);

impl NotRun {
    const fn new(message: String) -> Self {
        Self(message)
    }
}

impl From<ReachError> for NotRun {
    fn from(error: ReachError) -> Self {
        Self(error.to_string())
    }
}

/// The probes of one run of a container; dropping it ends them.
#[derive(Debug)]
pub(crate) struct ContainerProbes {
    probed: watch::Sender<Probed>,
    terminating: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl ContainerProbes {
    /// Begins to probe.
    pub(crate) fn start<E: Exec>(
        target: &ProbeTarget,
        access: &Access<E>,
        report: &Report,
    ) -> Self {
        let container = &target.container;
        let has = |probe: &Option<Probe>, earlier: Option<bool>| {
            probe.as_ref().map(|_| earlier.unwrap_or(false))
        };
        let earlier = target.earlier;
        let probed = watch::Sender::new(Probed {
            attempt: target.attempt,
            started: has(&container.startup_probe, earlier.map(|earlier| earlier.started)),
            ready: has(&container.readiness_probe, earlier.map(|earlier| earlier.ready)),
            failed: None,
        });
        let terminating = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        let probes = [
            (Kind::Startup, &container.startup_probe),
            (Kind::Liveness, &container.liveness_probe),
            (Kind::Readiness, &container.readiness_probe),
        ];
        for (kind, probe) in probes {
            let Some(probe) = probe else { continue };
            let settings = Settings::of(kind, probe);
            let initial_delay = match earlier {
                Some(_) => initial_delay(target, kind, settings.period),
                None => Duration::ZERO,
            };
            let first = settings.first(target.age, initial_delay, Instant::now());
            let task = Task {
                settings,
                probe: probe.clone(),
                container: container.name.clone(),
                access: access.clone(),
                probed: probed.clone(),
                report: report.clone(),
            };
            tasks.spawn(task.run(Machine::new(settings, first), terminating.subscribe()));
        }
        Self { probed, terminating, _tasks: tasks }
    }

    /// What is known, now and from now on. It is closed when this is dropped and not before, even
    /// if there is nothing more to find out.
    pub(crate) fn probed(&self) -> watch::Receiver<Probed> {
        self.probed.subscribe()
    }

    /// The Pod is being deleted: whether it is alive is no longer of interest, whether it is ready
    /// still is.
    pub(crate) fn stop_liveness(&self) {
        self.terminating.send_replace(true);
        clear_failure(&self.probed);
    }
}

/// Clears the failure of a probe.
fn clear_failure(probed: &watch::Sender<Probed>) {
    probed.send_if_modified(|probed| probed.failed.take().is_some());
}

/// The delay before the first run: a share of the period, different for every probe and always the
/// same for one.
fn initial_delay(target: &ProbeTarget, kind: Kind, period: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    (&target.pod_uid, &target.container.name, kind).hash(&mut hasher);
    let share = u128::from(hasher.finish());
    let nanos = (period.as_nanos() * share) >> 64;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(period)
}

/// One probe.
struct Task<E> {
    settings: Settings,
    probe: Probe,
    container: String,
    access: Access<E>,
    probed: watch::Sender<Probed>,
    report: Report,
}

impl<E: Exec> Task<E> {
    async fn run(self, mut machine: Machine, mut terminating: watch::Receiver<bool>) {
        let left = async {
            if self.settings.kind == Kind::Readiness
                || terminating.wait_for(|left| *left).await.is_err()
            {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            // First: nothing is published any more once the Pod is leaving.
            biased;
            () = left => clear_failure(&self.probed),
            () = self.probe_on_and_on(&mut machine) => {}
        }
    }

    async fn probe_on_and_on(&self, machine: &mut Machine) {
        let mut probed = self.probed.subscribe();
        if self.settings.kind == Kind::Startup {
            if probed.borrow().started == Some(true) {
                return;
            }
        } else if probed.wait_for(|probed| probed.started != Some(false)).await.is_err() {
            return;
        }
        machine.open(Instant::now());
        while !machine.is_over() {
            tokio::time::sleep_until(machine.next()).await;
            let result = self.probe_once().await;
            if let Some(succeeded) = machine.observe(result, Instant::now()) {
                self.publish(succeeded);
            }
        }
    }

    /// Runs the probe and says what is worth an Event. `None`: nothing was found out.
    async fn probe_once(&self) -> Option<bool> {
        let mut outcome = self.ask().await;
        for _ in 1..MAX_ATTEMPTS {
            if outcome.is_ok() {
                break;
            }
            outcome = self.ask().await;
        }
        let kind = self.settings.kind;
        let notice = |reason, message| {
            let message = bounded(message);
            (self.report)(Notice { container: self.container.clone(), reason, message });
        };
        match outcome {
            Ok(ProbeOutcome::Success) => Some(true),
            Ok(ProbeOutcome::Warning(why)) => {
                notice("ProbeWarning", format!("{kind} probe warning: {why}"));
                Some(true)
            }
            Ok(ProbeOutcome::Failure(why)) => {
                notice("Unhealthy", format!("{kind} probe failed: {why}"));
                Some(false)
            }
            Err(why) => {
                let message = format!("{kind} probe errored and resulted in unknown state: {why}");
                notice("Unhealthy", message);
                None
            }
        }
    }

    async fn ask(&self) -> Result<ProbeOutcome, NotRun> {
        let Self { probe, container, access, settings, .. } = self;
        if let Some(action) = &probe.exec {
            let argv = action.command.clone().unwrap_or_default();
            return exec(access, container, argv, settings.timeout).await;
        }
        if let Some(action) = &probe.http_get {
            let host = action.host.as_deref();
            let address = access.ports.address(access.pod_ip, container, host, &action.port)?;
            return http::probe(action, &access.route, address, settings.timeout).await;
        }
        if let Some(action) = &probe.tcp_socket {
            let host = action.host.as_deref();
            let address = access.ports.address(access.pod_ip, container, host, &action.port)?;
            return Ok(tcp::probe(&access.route, address, settings.timeout).await);
        }
        Err(NotRun::new(format!("the probe of container {container:?} does not say what to do")))
    }

    fn publish(&self, succeeded: bool) {
        let Self { container, probe, settings, .. } = self;
        let failed = |word: &str| Failed {
            message: format!("Container {container} failed {word} probe"),
            grace: probe.termination_grace_period_seconds,
        };
        self.probed.send_if_modified(|probed| {
            let before = probed.clone();
            match settings.kind {
                Kind::Readiness => probed.ready = Some(succeeded),
                Kind::Startup => {
                    probed.started = Some(succeeded);
                    if !succeeded {
                        probed.failed.get_or_insert_with(|| failed("startup"));
                    }
                }
                Kind::Liveness if succeeded => {}
                Kind::Liveness => {
                    probed.failed.get_or_insert_with(|| failed("liveness"));
                }
            }
            *probed != before
        });
    }
}

impl<E> fmt::Debug for Task<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, container, .. } = self;
        f.debug_struct("Task")
            .field("settings", settings)
            .field("container", container)
            .finish_non_exhaustive()
    }
}

/// Asks by a command beside a container.
async fn exec<E: Exec>(
    access: &Access<E>,
    container: &str,
    argv: Vec<String>,
    timeout: Duration,
) -> Result<ProbeOutcome, NotRun> {
    let command = argv.join(" ");
    let executed = execute(access, container, argv, timeout).await?;
    Ok(match executed.exit_code {
        Some(0) => ProbeOutcome::Success,
        Some(_) => ProbeOutcome::Failure(executed.output),
        None => ProbeOutcome::Failure(format!(
            "command timed out: {command:?} timed out after {timeout:?}"
        )),
    })
}

/// Runs a command beside a container. That it failed is an answer, that it could not be run is not.
async fn execute<E: Exec>(
    access: &Access<E>,
    container: &str,
    argv: Vec<String>,
    timeout: Duration,
) -> Result<Executed, NotRun> {
    let answer = access.exec.exec(container, argv, timeout);
    match tokio::time::timeout(timeout.saturating_add(EXEC_SLACK), answer).await {
        Ok(Ok(executed)) => Ok(executed),
        Ok(Err(error)) => Err(NotRun::new(error.to_string())),
        Err(_) => Err(NotRun::new("the Pod's shim did not answer".to_owned())),
    }
}

/// The beginning of a message that a Pod has its part in.
fn bounded(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
    message
}

#[cfg(test)]
mod tests;
