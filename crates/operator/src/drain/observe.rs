//! Observe: what the target cluster shows of a Machine that is draining.
//!
//! Watches may be behind, and what they do not show is not always gone. So whatever would end a drain
//! (no Node, no Pod left) is asked for itself before it is believed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::ListParams;
use sojourn_core::drain::{self, Drain, Seen, Tried, Volume};
use sojourn_core::known::Known;

use super::node::Node;
use super::pod::Pod;
use super::reconcile::{Agent, Subject};
use super::ward::{Ward, bound_to};
use super::world::{Place, is_really_absent};
use crate::spoken::spoken;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Sight {
    node: Known<drain::Node>,
    /// Its Node was seen, now or before.
    known: bool,
    pods: Known<Vec<drain::Pod>>,
    volumes: Known<Vec<Volume>>,
    pub(super) ward: Option<Arc<Ward>>,
    /// Why something is not known that will not tell by itself when it is.
    pub(super) blind: Option<String>,
}

impl Sight {
    pub(super) fn seen<'a>(&'a self, tried: &'a BTreeMap<String, Tried>) -> Seen<'a> {
        let pods = match &self.pods {
            Known::Is(pods) => Known::Is(&pods[..]),
            Known::Absent | Known::Unknown => Known::Unknown,
        };
        let volumes = match &self.volumes {
            Known::Is(volumes) => Known::Is(&volumes[..]),
            Known::Absent | Known::Unknown => Known::Unknown,
        };
        Seen { node: self.node.as_ref(), known: self.known, pods, volumes, tried }
    }

    /// What came of what was tried so far.
    pub(super) fn tried(&self) -> BTreeMap<String, Tried> {
        let (Some(ward), Known::Is(pods)) = (&self.ward, &self.pods) else {
            return BTreeMap::new();
        };
        ward.tried(pods.iter().map(|pod| pod.uid.clone()))
    }

    fn blind(words: String) -> Self {
        Self { blind: Some(words), ..Self::default() }
    }
}

impl Agent {
    pub(super) async fn look(&self, subject: &Subject, drain: &Drain, place: &Place) -> Sight {
        match place {
            Place::Unclear(_) => Sight::default(),
            Place::At(node) => self.look_at(subject, drain, node).await,
            Place::Absent => {
                match is_really_absent(&self.target, &subject.key, &subject.machine).await {
                    Ok(true) => {
                        let known = self.world.has_seen(&subject.key, &subject.machine);
                        Sight { node: Known::Absent, known, ..Sight::default() }
                    }
                    Ok(false) => Sight::blind("Its Node is there and not known yet.".to_owned()),
                    Err(error) => Sight::blind(format!("Cannot list Nodes: {}.", spoken(&error))),
                }
            }
        }
    }

    async fn look_at(&self, subject: &Subject, drain: &Drain, node: &Node) -> Sight {
        let node_seen = Known::Is(node.seen.clone());
        let mut sight = Sight { node: node_seen, known: true, ..Sight::default() };
        sight.ward = self.wards.open(&subject.key, &node.name, &drain.id);
        let Some(ward) = &sight.ward else {
            sight.blind = Some("It waits for its turn: many Nodes are being drained.".to_owned());
            return sight;
        };
        let Some(mut pods) = ward.pods() else { return sight };
        if nobody_goes(&pods) {
            match self.really_bound(&node.name).await {
                Ok(bound) => pods = bound,
                Err(error) => {
                    let words = spoken(&error);
                    sight.blind = Some(format!("Cannot list the Pods of its Node: {words}."));
                    return sight;
                }
            }
        }
        if nobody_goes(&pods) {
            sight.volumes = self.volumes(&node.name, &pods).await;
            if sight.volumes.is_unknown() {
                sight.blind = Some("Cannot find out which volumes are attached.".to_owned());
            }
        }
        sight.pods = Known::Is(pods.iter().map(|pod| pod.seen.clone()).collect());
        sight
    }

    async fn really_bound(&self, node: &str) -> Result<Vec<Arc<Pod>>, kube::Error> {
        let api: Api<v1::Pod> = Api::all(self.target.clone());
        let bound = api.list(&ListParams::default().fields(&bound_to(node))).await?;
        Ok(bound.items.iter().map(|pod| Arc::new(Pod::of(pod))).collect())
    }

    /// The volumes that are attached, and whether a Pod that stays uses them.
    async fn volumes(&self, node: &str, pods: &[Arc<Pod>]) -> Known<Vec<Volume>> {
        let Some(attached) = self.world.attached(node) else { return Known::Unknown };
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

fn nobody_goes(pods: &[Arc<Pod>]) -> bool {
    pods.iter().all(|pod| pod.seen.stays().is_some())
}
