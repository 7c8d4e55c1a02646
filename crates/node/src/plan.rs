//! From a container of a Pod to what its shim runs: command, environment, mounts.
//!
//! Pure: everything that is to be known comes in [`PlanInputs`] and by [`Lookup`], so that the same
//! Pod gives the same process before and after a restart of the node. Where Kubernetes defines the
//! result (expansion, the order of `env`, what is missing and how that is said) this is what a
//! kubelet of 1.36 does.

pub(crate) mod device;
pub(crate) mod downward;
mod env;
mod expand;
pub(crate) mod mount;
pub(crate) mod resource;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::folder::PodFolder;
use crate::known::Lookup;
use crate::plan::env::Environment;
use crate::plan::resource::Requests;
use crate::port::PortMap;
use crate::shim::protocol::Start;

pub(crate) use crate::shim::protocol::HOME;
/// The folder for temporary files as a confined container sees it.
pub(crate) const TMP: &str = "/tmp";

/// The longest argument or variable that Linux lets a program start with, its final NUL included.
const MAX_STRING_BYTES: usize = 128 << 10;
/// How large arguments and environment may be together. Linux takes about 2 MiB; this much, even if
/// every byte of it needs an escape sixfold as long, still fits a line to the shim.
const MAX_TOTAL_BYTES: usize = 1 << 20;
/// The kernel cuts longer host names.
const MAX_HOSTNAME_BYTES: usize = 63;

/// What is known of the machine and has been made ready for the Pod.
#[derive(Debug, Clone)]
pub(crate) struct PlanInputs<'a> {
    pub folder: &'a PodFolder,
    /// Whether the container gets a root of its own. Without one it sees the host's paths.
    pub confined: bool,
    pub hostname: &'a str,
    /// The node's addresses, the preferred one first; Pods have the same.
    pub host_ips: &'a [String],
    pub path: &'a str,
    pub lang: Option<&'a str>,
    pub time_zone: Option<&'a str>,
    /// Where Pods reach the API server.
    pub api_server: Option<(&'a str, u16)>,
    pub ports: &'a PortMap,
    /// Every volume of the Pod, by name.
    pub volumes: &'a BTreeMap<String, VolumeSource>,
    /// `cgroup.procs` files to enter.
    pub cgroups: &'a [PathBuf],
    pub oom_events: Option<&'a Path>,
    /// The memory limit, if the shim is to watch over it.
    pub memory_limit: Option<u64>,
    /// What the node has for Pods: the limit that a container without one is told.
    pub allocatable: Requests,
}

/// Where a prepared volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VolumeSource {
    /// A folder of the node's.
    Folder(PathBuf),
    /// A file of the node's that stands in for a block device.
    Device(PathBuf),
    /// Memory, of at most so many bytes.
    Memory { bytes: u64 },
}

/// Why a container cannot be started now. What each says is meant for the container's status, as
/// `CreateContainerConfigError`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlanError {
    /// It refers to something that is not there, and may still come.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// It refers to something that could not be read: whether it is there is not known.
    #[error("{kind} {name:?} could not be read: {why}")]
    Unknown { kind: &'static str, name: String, why: String },
    #[error("the Pod has no container {0:?}")]
    NoSuchContainer(String),
    #[error("images cannot be pulled here; give the container a command")]
    NoCommand,
    #[error("environment variable {name:?}: {why}")]
    Variable { name: String, why: String },
    #[error("argument {position} of the command: {why}")]
    Argument { position: usize, why: String },
    #[error("command and environment are larger than {MAX_TOTAL_BYTES} bytes together")]
    TooLarge,
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    NoSuchVolume { volume: String, container: String },
    #[error("volume {volume:?} at {path:?}: {why}")]
    Mount { volume: String, path: String, why: String },
    #[error("device {volume:?} at {path:?}: {why}")]
    Device { volume: String, path: String, why: String },
    #[error("terminationMessagePath {path:?}: {why}")]
    TerminationMessage { path: String, why: String },
    #[error("workingDir {0:?} is not an absolute path")]
    WorkingDir(String),
}

/// What a container refers to and cannot be had, in a kubelet's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Missing {
    #[error("configmap {0:?} not found")]
    ConfigMap(String),
    #[error("secret {0:?} not found")]
    Secret(String),
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    Key { kind: &'static str, namespace: String, name: String, key: String },
}

/// What run number `attempt` of a container is started with.
pub(crate) fn start(
    pod: &Pod,
    container: &str,
    attempt: u32,
    inputs: &PlanInputs<'_>,
    lookup: &impl Lookup,
) -> Result<Start, PlanError> {
    let container = find(pod, container)?;
    let message = folder_message(container, attempt, inputs);
    let environment = Environment::of(pod, container, inputs, lookup)?;
    let argv = arguments(container, &environment)?;
    let mounts = mount::mounts(pod, container, &environment, inputs, message.as_deref())?;
    let working_dir = working_dir(container)?;
    let env = environment.finish();

    let size = |text: &str| text.len() + 1;
    let total = argv.iter().map(|arg| size(arg)).sum::<usize>()
        + env.iter().map(|(name, value)| size(name) + size(value)).sum::<usize>();
    if total > MAX_TOTAL_BYTES {
        return Err(PlanError::TooLarge);
    }
    let security = container.security_context.as_ref();
    Ok(Start {
        container: container.name.clone(),
        attempt,
        argv,
        env,
        working_dir,
        mounts,
        read_only_root: security.and_then(|s| s.read_only_root_filesystem).unwrap_or(false),
        cgroups: inputs.cgroups.to_vec(),
        oom_events: inputs.oom_events.map(Path::to_owned),
        memory_limit: inputs.memory_limit,
        termination_message: message,
        message_from_log: container.termination_message_policy.as_deref()
            == Some("FallbackToLogsOnError"),
    })
}

/// The name that a Pod's machine has for itself: as in Kubernetes its own, or the one it asks for,
/// cut to what the kernel takes.
pub(crate) fn hostname(pod: &Pod) -> String {
    let spec = pod.spec.as_ref();
    let asked = spec.and_then(|spec| {
        let hostname = spec.hostname.as_deref().filter(|name| !name.is_empty());
        spec.hostname_override.as_deref().or(hostname)
    });
    let name = asked.or(pod.metadata.name.as_deref()).unwrap_or_default();
    let mut end = name.len().min(MAX_HOSTNAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let cut = &name[..end];
    if end < name.len() { cut.trim_end_matches(['-', '.']) } else { cut }.to_owned()
}

fn find<'a>(pod: &'a Pod, name: &str) -> Result<&'a Container, PlanError> {
    let spec = pod.spec.as_ref();
    let main = spec.into_iter().flat_map(|spec| &spec.containers);
    let init = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
    main.chain(init)
        .find(|container| container.name == name)
        .ok_or_else(|| PlanError::NoSuchContainer(name.to_owned()))
}

fn arguments(container: &Container, environment: &Environment) -> Result<Vec<String>, PlanError> {
    let command = container.command.as_deref().unwrap_or_default();
    if command.is_empty() {
        return Err(PlanError::NoCommand);
    }
    let mut total = 0;
    let args = container.args.iter().flatten();
    command
        .iter()
        .chain(args)
        .enumerate()
        .map(|(position, text)| {
            let argument = environment
                .expand(text)
                .map_err(|error| PlanError::Argument { position, why: error.to_string() })?;
            if argument.contains('\0') {
                let why = "it contains a NUL, which no argument can".to_owned();
                return Err(PlanError::Argument { position, why });
            }
            total += argument.len();
            if total > MAX_TOTAL_BYTES { Err(PlanError::TooLarge) } else { Ok(argument) }
        })
        .collect()
}

fn working_dir(container: &Container) -> Result<Option<PathBuf>, PlanError> {
    let Some(text) = container.working_dir.as_deref().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    match absolute(text) {
        Some(path) => Ok(Some(path)),
        None => Err(PlanError::WorkingDir(text.to_owned())),
    }
}

/// Where the container's termination message is kept. Without a root of its own a container would
/// look for it at a path of the host's, so there it has none.
fn folder_message(container: &Container, attempt: u32, inputs: &PlanInputs<'_>) -> Option<PathBuf> {
    inputs.confined.then(|| inputs.folder.termination(&container.name, attempt))
}

/// An absolute path in its plainest spelling. Nothing if it is relative, goes up, or is none.
fn absolute(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let plain =
        path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    (path.is_absolute() && plain && !text.contains('\0')).then(|| path.components().collect())
}

#[cfg(test)]
mod tests;
