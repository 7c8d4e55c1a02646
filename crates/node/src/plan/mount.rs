//! What a container finds mounted: its volumes, its devices, and the termination message file.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod, Volume, VolumeMount};

use crate::plan::env::Environment;
use crate::plan::{PlanError, PlanInputs, VolumeSource, absolute, device, expand};
use crate::shim::protocol::{Mount, Source};

/// More mounts than any container has; each costs the kernel memory that no limit of the Pod's
/// counts.
const MAX_MOUNTS: usize = 256;
/// The kernel takes no longer path.
const MAX_PATH_BYTES: usize = 4096;

/// Where Kubernetes puts the termination message file unless told otherwise.
const DEFAULT_MESSAGE_PATH: &str = "/dev/termination-log";
/// What such files in `/dev` begin with; no device does.
const MESSAGE_IN_DEV: &str = "termination-";
const SHARED_MEMORY: &str = "/dev/shm";
/// What the kernel or the node shows there is not the Pod's to replace.
const RESERVED: [&str; 3] = ["/proc", "/dev", "/sys"];

/// The mounts of a container, parents before what lies in them. Without a root of its own a
/// container has none.
pub(super) fn mounts(
    pod: &Pod,
    container: &Container,
    environment: &Environment,
    inputs: &PlanInputs<'_>,
    message: Option<&Path>,
) -> Result<Vec<Mount>, PlanError> {
    let asked = container.volume_mounts.as_deref().unwrap_or_default();
    let mut mounts = Vec::new();
    let mut targets = BTreeSet::new();
    for mount in asked {
        let refuse = |why: String| PlanError::Mount {
            volume: mount.name.clone(),
            path: mount.mount_path.clone(),
            why,
        };
        if targets.len() >= MAX_MOUNTS {
            return Err(refuse(format!("a container may have {MAX_MOUNTS} mounts")));
        }
        let target = target(&mount.mount_path).map_err(|why| refuse(why.to_owned()))?;
        if !targets.insert(target.clone()) {
            return Err(refuse("something is mounted there already".to_owned()));
        }
        let beneath = sub_path(mount, environment).map_err(refuse)?;
        let kind = volume(pod, &mount.name).map(Kind::of).unwrap_or_default();
        mounts.push(Mount {
            target,
            source: source(container, mount, beneath, kind, inputs)?,
            read_only: kind.read_only || mount.read_only == Some(true),
        });
    }
    for asked in container.volume_devices.iter().flatten() {
        let refuse = |why: String| PlanError::Device {
            volume: asked.name.clone(),
            path: asked.device_path.clone(),
            why,
        };
        if targets.len() >= MAX_MOUNTS {
            return Err(refuse(format!("a container may have {MAX_MOUNTS} mounts")));
        }
        let mount = device::mount(pod, container, asked, inputs)?;
        if !targets.insert(mount.target.clone()) {
            return Err(refuse("something is mounted there already".to_owned()));
        }
        mounts.push(mount);
    }
    if let Some(message) = message {
        let text = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
        let text = text.unwrap_or(DEFAULT_MESSAGE_PATH);
        let refuse = |why: &str| PlanError::TerminationMessage {
            path: text.to_owned(),
            why: why.to_owned(),
        };
        let target = message_target(text).map_err(refuse)?;
        if !targets.insert(target.clone()) {
            return Err(refuse("a volume is mounted there"));
        }
        let source = Source::Host { path: message.to_owned(), beneath: None, create: false };
        mounts.push(Mount { target, source, read_only: false });
    }
    if !inputs.confined {
        return Ok(Vec::new());
    }
    mounts.sort_by(|a, b| a.target.cmp(&b.target));
    Ok(mounts)
}

/// Where a container finds a volume: at its mount path, or without a root of its own where the node
/// keeps it.
pub(super) fn seen_at(mount: &VolumeMount, inputs: &PlanInputs<'_>) -> Option<String> {
    if inputs.confined {
        return Some(mount.mount_path.clone());
    }
    let folder = match inputs.volumes.get(&mount.name)? {
        VolumeSource::Folder(folder) => folder.clone(),
        VolumeSource::Device(_) => return None,
        // Nothing can be mounted: the folder has to do.
        VolumeSource::Memory { .. } => inputs.folder.volume(&mount.name),
    };
    if mount.sub_path_expr.as_deref().is_some_and(|text| !text.is_empty()) {
        return None;
    }
    let beneath = beneath(mount.sub_path.as_deref().unwrap_or_default()).ok()?;
    let path = match beneath {
        Some(beneath) => folder.join(beneath),
        None => folder,
    };
    Some(path.to_string_lossy().into_owned())
}

/// A volume's place in the container.
pub(crate) fn target(text: &str) -> Result<PathBuf, &'static str> {
    let path = place(text)?;
    if path == Path::new(SHARED_MEMORY) {
        return Ok(path);
    }
    let reserved = RESERVED.iter().any(|reserved| path.starts_with(reserved));
    if reserved || path.parent().is_none() {
        return Err("/, /proc, /dev and /sys are not a Pod's to replace; mount it elsewhere");
    }
    Ok(path)
}

/// The place of the termination message file.
pub(crate) fn message_target(text: &str) -> Result<PathBuf, &'static str> {
    let path = place(text)?;
    let name = path.strip_prefix("/dev").ok().and_then(Path::to_str).unwrap_or_default();
    if is_termination_message_file(name) && !name.contains('/') { Ok(path) } else { target(text) }
}

/// Whether what has this name in `/dev` is the termination message file.
pub(super) fn is_termination_message_file(name: &str) -> bool {
    name.starts_with(MESSAGE_IN_DEV)
}

pub(super) fn place(text: &str) -> Result<PathBuf, &'static str> {
    if text.len() >= MAX_PATH_BYTES {
        return Err("the path is longer than Linux allows");
    }
    absolute(text).ok_or("the path must be absolute, without '..'")
}

/// The part of a volume that is mounted.
fn sub_path(mount: &VolumeMount, environment: &Environment) -> Result<Option<PathBuf>, String> {
    let Some(expression) = mount.sub_path_expr.as_deref().filter(|text| !text.is_empty()) else {
        return beneath(mount.sub_path.as_deref().unwrap_or_default());
    };
    let mut missing = BTreeSet::new();
    let expanded = expand::expand(expression, MAX_PATH_BYTES, |name| {
        let value = environment.get(name).filter(|value| !value.is_empty());
        if value.is_none() {
            missing.insert(name.to_owned());
        }
        value
    });
    if !missing.is_empty() {
        let missing: Vec<_> = missing.into_iter().collect();
        return Err(format!("missing value for {}", missing.join(", ")));
    }
    beneath(&expanded.map_err(|error| error.to_string())?)
}

/// A path that can only lead further down, or `None` for the volume itself.
pub(crate) fn beneath(text: &str) -> Result<Option<PathBuf>, String> {
    if text.starts_with('/') {
        return Err(format!("error SubPath `{text}` must not be an absolute path"));
    }
    if text.split('/').any(|part| part == "..") {
        return Err(format!("unable to provision SubPath `{text}`: must not contain '..'"));
    }
    if text.contains('\0') || text.len() >= MAX_PATH_BYTES {
        return Err("its subPath is no path on Linux".to_owned());
    }
    let path: PathBuf =
        Path::new(text).components().filter(|part| matches!(part, Component::Normal(_))).collect();
    Ok((!path.as_os_str().is_empty()).then_some(path))
}

/// What the kind of a volume means for its mounts.
#[derive(Debug, Clone, Copy, Default)]
struct Kind {
    read_only: bool,
    /// Whether the Pod may make folders in it: what the node writes there is nobody else's.
    writable: bool,
}

impl Kind {
    fn of(volume: &Volume) -> Self {
        if let Some(claim) = &volume.persistent_volume_claim {
            let read_only = claim.read_only == Some(true);
            return Self { read_only, writable: !read_only };
        }
        let writable = volume.empty_dir.is_some();
        Self { read_only: !writable, writable }
    }
}

pub(super) fn volume<'a>(pod: &'a Pod, name: &str) -> Option<&'a Volume> {
    pod.spec.as_ref()?.volumes.as_ref()?.iter().find(|volume| volume.name == name)
}

fn source(
    container: &Container,
    mount: &VolumeMount,
    beneath: Option<PathBuf>,
    kind: Kind,
    inputs: &PlanInputs<'_>,
) -> Result<Source, PlanError> {
    let create = beneath.is_some() && kind.writable;
    match inputs.volumes.get(&mount.name) {
        Some(VolumeSource::Folder(path)) => {
            Ok(Source::Host { path: path.clone(), beneath, create })
        }
        Some(VolumeSource::Device(_)) => Err(PlanError::Mount {
            volume: mount.name.clone(),
            path: mount.mount_path.clone(),
            why: "a claim of volumeMode Block cannot be mounted; name it in volumeDevices"
                .to_owned(),
        }),
        Some(VolumeSource::Memory { bytes }) => {
            let path = inputs.folder.volume(&mount.name);
            Ok(Source::Memory { path, beneath, create, bytes: *bytes })
        }
        None => Err(PlanError::NoSuchVolume {
            volume: mount.name.clone(),
            container: container.name.clone(),
        }),
    }
}
