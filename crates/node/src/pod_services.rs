//! Services of this machine that belong to one Pod alone.

use std::fmt::Debug;
use std::net::SocketAddr;

use k8s_openapi::api::core::v1::Pod;

/// Says which services of this machine single Pods have for themselves.
///
/// It is asked each time before a Pod's shim is started, and not again while that runs, whatever
/// becomes of the node: an address must stay that Pod's, and the service be found there again after a
/// restart. Where [`Agent::enforces_pod_services`](crate::Agent::enforces_pod_services) is false, other
/// Pods may reach it too, and whoever serves there must tell them apart by other means.
pub trait PodServices: Send + Sync + Debug {
    /// Addresses of this machine that this Pod, and no other, may reach, at most 16. They hide the
    /// same ports of the Pod's own loopback from it.
    ///
    /// `None` is not none: it is not known yet, the Pod waits, and is asked about again after a while.
    /// Must not block.
    fn reachable(&self, pod: &Pod) -> Option<Vec<SocketAddr>>;
}
