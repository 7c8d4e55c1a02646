//! What a container finds where it asks for block devices: the images of claims.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod, VolumeDevice};

use crate::plan::{PlanError, PlanInputs, VolumeSource, mount};
use crate::shim::is_taken_in_dev;
use crate::shim::protocol::{Mount, Source};

const DEV: &str = "/dev";

/// The image of a claim at the path of a device.
pub(super) fn mount(
    pod: &Pod,
    container: &Container,
    device: &VolumeDevice,
    inputs: &PlanInputs<'_>,
) -> Result<Mount, PlanError> {
    let refuse = |why: &str| PlanError::Device {
        volume: device.name.clone(),
        path: device.device_path.clone(),
        why: why.to_owned(),
    };
    let target = target(&device.device_path).map_err(refuse)?;
    let path = match inputs.volumes.get(&device.name) {
        Some(VolumeSource::Device(path)) => path.clone(),
        Some(VolumeSource::Folder(_) | VolumeSource::Memory { .. }) => {
            return Err(refuse("only a claim of volumeMode Block can be a device"));
        }
        None => {
            return Err(PlanError::NoSuchVolume {
                volume: device.name.clone(),
                container: container.name.clone(),
            });
        }
    };
    let claim = mount::volume(pod, &device.name).and_then(|v| v.persistent_volume_claim.as_ref());
    let read_only = claim.is_some_and(|claim| claim.read_only == Some(true));
    Ok(Mount { target, source: Source::Device { path }, read_only })
}

/// Where a container finds a device: at its path, or without a root of its own where the node keeps
/// the image.
pub(super) fn seen_at(device: &VolumeDevice, inputs: &PlanInputs<'_>) -> Option<String> {
    if inputs.confined {
        return Some(device.device_path.clone());
    }
    match inputs.volumes.get(&device.name)? {
        VolumeSource::Device(path) => Some(path.to_string_lossy().into_owned()),
        VolumeSource::Folder(_) | VolumeSource::Memory { .. } => None,
    }
}

/// A device's place in the container: where a volume may stand, and in `/dev` what is free there.
pub(crate) fn target(text: &str) -> Result<PathBuf, &'static str> {
    let path = mount::place(text)?;
    let Ok(in_dev) = path.strip_prefix(DEV) else { return mount::target(text) };
    let Some(first) = in_dev.iter().next() else {
        return Err("a device stands in /dev, not in place of it");
    };
    let is_message_file = Path::new(first).to_str().is_some_and(mount::is_termination_message_file);
    if is_message_file || is_taken_in_dev(first) {
        return Err("/dev has something else by that name; choose another");
    }
    Ok(path)
}
