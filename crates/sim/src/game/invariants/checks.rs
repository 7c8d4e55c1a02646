//! The checks of the invariants, one by one.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use sojourn_api::game::convert::collection_intent;
use sojourn_api::game::status::{CollectionHealth, CollectionStatus, FailureStatus};
use sojourn_api::game::{DedicatedGameServer, DedicatedGameServerCollection};
use sojourn_core::term::Term;

use super::super::matchmaker::Wish;
use super::{GameChecker, Invariant, collection_of, is_marked};

/// So much later than it happened a failure may be counted, because nobody looked.
const MAX_COUNT_DELAY: SignedDuration = SignedDuration::from_hours(2);

/// A port of a node.
type NodePort = (String, String, i32);

fn ports_of(pod: &Pod) -> Vec<NodePort> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let Some(spec) = &pod.spec else { return Vec::new() };
    let Some(node) = spec.node_name.clone() else { return Vec::new() };
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return Vec::new();
    }
    let ports = spec.containers.iter().flat_map(|one| one.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            Some((node.clone(), protocol, port.host_port?))
        })
        .collect()
}

impl GameChecker {
    /// Who asks again is told the same while it is theirs.
    pub(super) fn check_same(&mut self, wish: &Wish, uid: &str, now: Timestamp) {
        let Some((before, before_uid)) = self.given.get(&wish.request_id).cloned() else { return };
        let is_there = self.uid_of(&before).is_some_and(|known| known == before_uid);
        let there = self.occupancy.get(&before_uid).filter(|one| !one.failed && !one.ended);
        let lives = there.is_some_and(|one| one.live_grant(&wish.request_id, now).is_some());
        if before_uid != uid && is_there && lives {
            let message = format!("{} has it, and was given another", wish.request_id);
            self.violated(Invariant::NoDoubleGrant, &before, message);
        }
    }

    pub(super) fn check_ports(&mut self, pod: &Pod) {
        let (name, uid) = (pod.name_any(), pod.uid());
        let mine = ports_of(pod);
        let mut found = Vec::new();
        for other in self.pods.values().filter(|other| other.uid() != uid) {
            for port in ports_of(other).into_iter().filter(|port| mine.contains(port)) {
                found.push(format!("{port:?} is also the port of {}", other.name_any()));
            }
        }
        for message in found {
            self.violated(Invariant::PortsOnce, &name, message);
        }
    }

    pub(super) fn check_deletion(&mut self, server: &DedicatedGameServer) {
        let (name, uid) = (server.name_any(), server.uid().unwrap_or_default());
        let now = self.log.now();
        let there = self.occupancy.get(&uid).cloned().unwrap_or_default();
        let spared = there.failed || there.ended || self.deleted_by_people.contains(&uid);
        if spared || !there.is_occupied(now) {
            return;
        }
        let timeout = collection_of(server).and_then(|name| self.drain_timeouts.get(name));
        let span = timeout.copied().and_then(Term::span);
        let marked_at = self.marked_at.get(&uid).copied();
        let over = marked_at.zip(span).is_some_and(|(at, span)| now.duration_since(at) >= span);
        if !over {
            let message = format!("it was deleted, marked at {marked_at:?}, and has {there:?}");
            self.violated(Invariant::OccupiedUntouched, &name, message);
        }
    }

    pub(super) fn check_failures(
        &mut self,
        name: &str,
        collection: &DedicatedGameServerCollection,
        status: &CollectionStatus,
    ) {
        let wanted = collection_intent(collection).ok();
        if let Some(wanted) = &wanted {
            self.drain_timeouts.insert(name.to_owned(), wanted.drain_timeout);
        }
        let mut found = Vec::new();
        let mut by_server: BTreeMap<&str, usize> = BTreeMap::new();
        for FailureStatus { at, server: life, .. } in &status.failures {
            let uid = life.split('/').next().unwrap_or_default();
            *by_server.entry(uid).or_default() += 1;
            let at = at.as_ref().map(|at| at.0).unwrap_or_default();
            match self.counted.insert(life.clone(), at) {
                Some(before) if before != at => {
                    found.push(format!("{life} was counted at {before} and at {at}"));
                }
                Some(_) | None => {}
            }
        }
        for (uid, counted) in by_server {
            let crashed = self.crashed.get(uid).map_or(0, |(_, times)| times.len());
            if counted > crashed {
                found.push(format!("{uid} crashed {crashed} times, and {counted} are counted"));
            }
        }
        let trips = status.health == Some(CollectionHealth::NeedsIntervention)
            && self.status(name).health != Some(CollectionHealth::NeedsIntervention);
        if trips {
            let since = self.acknowledged.get(name).copied().unwrap_or(Timestamp::MIN);
            let window = wanted
                .map_or(SignedDuration::ZERO, |one| one.intent.failure_policy.window)
                + MAX_COUNT_DELAY;
            let now = self.log.now();
            let counts = |at: &&Timestamp| now.duration_since(**at) < window;
            let theirs = self.crashed.values().filter(|(collection, _)| collection == name);
            let crashes = theirs.flat_map(|(_, times)| times).filter(counts).count();
            let max = usize::try_from(collection.spec.dgs_max_failures).unwrap_or(0);
            if crashes <= max {
                found.push(format!("{crashes} crashes tripped it since {since}, and {max} may be"));
            }
        }
        for message in found {
            self.violated(Invariant::FailureCountedOnce, name, message);
        }
    }

    /// What must hold once nothing has failed for a while, and nobody plays.
    pub fn check_rest(&mut self) {
        let mut found = Vec::new();
        for (name, collection) in &self.collections {
            let status = collection.status.clone().unwrap_or_default();
            let wanted = u32::try_from(collection.spec.replicas).unwrap_or(0);
            let stopped = status.health == Some(CollectionHealth::NeedsIntervention);
            let (members, has) = (self.members(name).len(), status.available_replicas);
            let complete = has == wanted && members == usize::try_from(wanted).unwrap_or(0);
            if !complete && !stopped {
                let message = format!("it has {has} available of {members}, and wants {wanted}");
                found.push((name.clone(), message));
            }
        }
        let now = self.log.now();
        for (name, server) in &self.servers {
            if is_marked(server) && !self.occupancy(name).is_occupied(now) {
                found.push((name.clone(), "it is marked and empty, and still there".to_owned()));
            }
        }
        for (name, message) in found {
            self.violated(Invariant::Converges, &name, message);
        }
    }

    /// Everything that is there, with its version: what is written changes it.
    pub fn versions(&self) -> BTreeMap<String, String> {
        let collections = self.collections.values().map(|one| ("collection", &one.metadata));
        let servers = self.servers.values().map(|one| ("server", &one.metadata));
        let pods = self.pods.values().map(|one| ("pod", &one.metadata));
        let all = collections.chain(servers).chain(pods);
        all.map(|(kind, meta)| {
            let name = meta.name.clone().unwrap_or_default();
            (format!("{kind} {name}"), meta.resource_version.clone().unwrap_or_default())
        })
        .collect()
    }

    /// A restart changed nothing.
    pub fn check_same_versions(&mut self, before: &BTreeMap<String, String>) {
        let now = self.versions();
        if *before == now {
            return;
        }
        let changed: Vec<&String> = now
            .iter()
            .filter(|(name, version)| before.get(*name) != Some(version))
            .map(|(name, _)| name)
            .chain(before.keys().filter(|name| !now.contains_key(*name)))
            .collect();
        let message = format!("a restart changed {changed:?}");
        self.violated(Invariant::Converges, "", message);
    }
}
