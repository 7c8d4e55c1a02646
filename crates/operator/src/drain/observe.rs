//! Observe: what the target cluster shows of a Machine that is draining.
//!
//! Watches may be behind, and what they do not show is not always gone. So whatever would end a drain
//! (no Node, no Pod left) is listed anew before it is believed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::ListParams;
use sojourn_core::drain::{self, Drain, DrainObservation, EvictionAttempts, Volume};
use sojourn_core::known::Known;

use super::caches::{NodeMatch, confirm_absent};
use super::node::Node;
use super::node_drain::{NodeDrain, bound_to};
use super::pod::Pod;
use super::reconcile::{Agent, DrainSubject};
use crate::api_error::api_error_message;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct NodeObservation {
    node: Known<drain::Node>,
    /// Its Node was seen, now or before.
    known: bool,
    pods: Known<Vec<drain::Pod>>,
    volumes: Known<Vec<Volume>>,
    pub(super) node_drain: Option<Arc<NodeDrain>>,
    /// What came of what was tried before this look.
    pub(super) attempts: BTreeMap<String, EvictionAttempts>,
    /// Why something is unknown, if no watch reports when that changes.
    pub(super) unknown_because: Option<String>,
}

impl NodeObservation {
    pub(super) fn seen<'a>(
        &'a self,
        attempts: &'a BTreeMap<String, EvictionAttempts>,
    ) -> DrainObservation<'a> {
        let pods = match &self.pods {
            Known::Is(pods) => Known::Is(&pods[..]),
            Known::Absent | Known::Unknown => Known::Unknown,
        };
        let volumes = match &self.volumes {
            Known::Is(volumes) => Known::Is(&volumes[..]),
            Known::Absent | Known::Unknown => Known::Unknown,
        };
        DrainObservation { node: self.node.as_ref(), known: self.known, pods, volumes, attempts }
    }

    /// What came of what was tried so far, in this look as well.
    pub(super) fn newest_attempts(&self) -> BTreeMap<String, EvictionAttempts> {
        let (Some(node_drain), Known::Is(pods)) = (&self.node_drain, &self.pods) else {
            return BTreeMap::new();
        };
        node_drain.attempts(pods.iter().map(|pod| pod.uid.clone()))
    }

    fn unknown_because(words: String) -> Self {
        Self { unknown_because: Some(words), ..Self::default() }
    }
}

impl Agent {
    pub(super) async fn observe_drain(
        &self,
        subject: &DrainSubject,
        drain: &Drain,
        node_match: &NodeMatch,
    ) -> NodeObservation {
        match node_match {
            NodeMatch::Ambiguous(_) => NodeObservation::default(),
            NodeMatch::Found(node) => self.observe_node(subject, drain, node).await,
            NodeMatch::Absent => {
                match confirm_absent(&self.target, &subject.key, &subject.machine).await {
                    Ok(true) => {
                        let known = self.caches.has_seen(&subject.key, &subject.machine);
                        NodeObservation { node: Known::Absent, known, ..NodeObservation::default() }
                    }
                    Ok(false) => NodeObservation::unknown_because(
                        "Its Node is there and not known yet.".to_owned(),
                    ),
                    Err(error) => NodeObservation::unknown_because(format!(
                        "Cannot list Nodes: {}.",
                        api_error_message(&error)
                    )),
                }
            }
        }
    }

    async fn observe_node(
        &self,
        subject: &DrainSubject,
        drain: &Drain,
        node: &Node,
    ) -> NodeObservation {
        let node_seen = Known::Is(node.seen.clone());
        let mut observation =
            NodeObservation { node: node_seen, known: true, ..NodeObservation::default() };
        observation.node_drain = self.node_drains.open(&subject.key, &node.name, &drain.id);
        let Some(node_drain) = &observation.node_drain else {
            observation.unknown_because =
                Some("It waits for its turn: many Nodes are being drained.".to_owned());
            return observation;
        };
        let Some(mut pods) = node_drain.pods() else { return observation };
        if all_skipped(&pods) {
            match self.list_bound_pods(&node.name).await {
                Ok(bound) => pods = bound,
                Err(error) => {
                    let words = api_error_message(&error);
                    observation.unknown_because =
                        Some(format!("Cannot list the Pods of its Node: {words}."));
                    return observation;
                }
            }
        }
        if all_skipped(&pods) {
            observation.volumes = self.volumes(&node.name, &pods).await;
            if observation.volumes.is_unknown() {
                observation.unknown_because =
                    Some("Cannot find out which volumes are attached.".to_owned());
            }
        }
        observation.pods = Known::Is(pods.iter().map(|pod| pod.seen.clone()).collect());
        observation.attempts = observation.newest_attempts();
        observation
    }

    async fn list_bound_pods(&self, node: &str) -> Result<Vec<Arc<Pod>>, kube::Error> {
        let api: Api<v1::Pod> = Api::all(self.target.clone());
        let bound = api.list(&ListParams::default().fields(&bound_to(node))).await?;
        Ok(bound.items.iter().map(|pod| Arc::new(Pod::of(pod))).collect())
    }

    /// The volumes that are attached, and whether a Pod that stays uses them.
    async fn volumes(&self, node: &str, pods: &[Arc<Pod>]) -> Known<Vec<Volume>> {
        let Some(attached) = self.caches.attached(node) else { return Known::Unknown };
        let attached: Vec<_> = attached.iter().filter_map(|one| one.volume.clone()).collect();
        if attached.is_empty() {
            return Known::Is(Vec::new());
        }
        let Ok(in_use) = self.in_use(pods).await else { return Known::Unknown };
        let volume = |name: String| Volume { in_use: in_use.contains(&name), name };
        Known::Is(attached.into_iter().map(volume).collect())
    }

    /// The volumes behind the claims of Pods that stay.
    async fn in_use(&self, pods: &[Arc<Pod>]) -> Result<HashSet<String>, kube::Error> {
        let mut in_use = HashSet::new();
        for pod in pods.iter().filter(|pod| !pod.seen.finished) {
            let namespace = &pod.seen.key.namespace;
            let api: Api<PersistentVolumeClaim> = Api::namespaced(self.target.clone(), namespace);
            for claim in &pod.claims {
                let claim = api.get_opt(claim).await?;
                in_use.extend(claim.and_then(|claim| claim.spec?.volume_name));
            }
        }
        Ok(in_use)
    }
}

fn all_skipped(pods: &[Arc<Pod>]) -> bool {
    pods.iter().all(|pod| pod.seen.skip_reason().is_some())
}
