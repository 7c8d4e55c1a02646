//! What families serve single Pods of this machine, as the node asks for it.

use std::net::SocketAddr;
use std::sync::OnceLock;

use k8s_openapi::api::core::v1::Pod;
use sojourn_node::PodServices;
use sojourn_operator::family::ServedFamilies;

/// The families are started after the node: until then nothing is known.
#[derive(Debug, Default)]
pub(super) struct FamilyPodServices(OnceLock<Option<ServedFamilies>>);

impl FamilyPodServices {
    pub(super) fn set(&self, families: ServedFamilies) {
        // They are started once.
        let _ = self.0.set(Some(families));
    }

    /// There are no families here.
    pub(super) fn set_none(&self) {
        let _ = self.0.set(None);
    }
}

impl PodServices for FamilyPodServices {
    fn reachable(&self, pod: &Pod) -> Option<Vec<SocketAddr>> {
        match self.0.get()? {
            Some(families) => families.addresses_for_pod(pod),
            None => Some(Vec::new()),
        }
    }
}
