//! The ports of a Pod as its folder keeps them, so that they are its own under the next node, too.
//!
//! The annotation says the same, but anybody who may create Pods can write it, and would get another's
//! ports by it.

use std::io;

use k8s_openapi::api::core::v1::Pod;

use super::{PortMap, PortRequest, Ports, requests};
use crate::folder::{NodeFolder, PodFolder};
use crate::private;

/// What the ports of one Pod can take at most, and much more.
const MAX_PORTS_BYTES: u64 = 4 << 20;
/// No API server keeps larger Pods.
const MAX_POD_BYTES: u64 = 8 << 20;

/// The ports that a Pod was given, if it was. `requests` are its own.
pub(crate) fn read(folder: &PodFolder, requests: &[PortRequest]) -> Option<PortMap> {
    let path = folder.ports();
    let text = match private::read(&path, MAX_PORTS_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        text => text.and_then(|text| String::from_utf8(text).map_err(io::Error::other)),
    };
    let ports = text.and_then(|text| Ok(PortMap::from_record(&text, requests)?));
    ports
        .inspect_err(|error| {
            tracing::warn!(path = %path.display(), %error, "cannot tell which ports a Pod has");
        })
        .ok()
}

pub(crate) fn write(folder: &PodFolder, ports: &PortMap) -> io::Result<()> {
    private::write(&folder.ports(), &ports.record()?)
}

/// Notes the ports of all Pods that are still here, before any other is given one: a Pod that does not
/// run at this moment binds none of its own.
pub(crate) fn restore_all<'a>(
    ports: &mut Ports,
    node: &NodeFolder,
    uids: impl IntoIterator<Item = &'a String>,
) {
    for uid in uids {
        let folder = node.pod(uid);
        let Some(had) = read(&folder, &requests_of(&folder)) else { continue };
        if let Err(error) = ports.restore(uid, &had) {
            tracing::warn!(uid, %error, "two Pods were given the same port");
        }
    }
}

/// What a Pod asks for, as it was when it was taken; nothing if that is not known.
fn requests_of(folder: &PodFolder) -> Vec<PortRequest> {
    let pod = private::read(&folder.pod(), MAX_POD_BYTES).ok();
    let pod = pod.and_then(|text| serde_json::from_slice::<Pod>(&text).ok());
    pod.and_then(|pod| requests(&pod).ok()).unwrap_or_default()
}
