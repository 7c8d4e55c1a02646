//! Fields of the status of a group: counts, open rotations, blockers.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sojourn_api::group::status::{OpenRotation, Replicas};
use sojourn_api::name::group::GROUP;
use sojourn_core::group::observed::{Health, Observed};
use sojourn_core::group::reason::Reason;
use sojourn_core::group::state::{self, Phase};

use super::condition::blocker;

/// A status lists at most this many rotations, and this many blockers.
const MAX_STATUS_ITEMS: usize = 20;

/// Which Machines are a group's.
pub(super) fn selector(group: &str) -> String {
    format!("{GROUP}={group}")
}

/// How many machines there are, by how they are. Each counts once, but for `total`.
pub(super) fn replicas(next: &state::GroupState, seen: &Observed, desired: u32) -> Replicas {
    let mut replicas = Replicas { desired, ..Replicas::default() };
    let mut observed = seen.machines.walk();
    for (name, machine) in next.machines.iter() {
        replicas.total += 1;
        let seen = observed.find(name);
        let unknown = seen.is_none_or(|seen| seen.provider.is_unknown());
        let health = seen.and_then(|seen| seen.health.is());
        match machine.phase {
            Phase::Draining | Phase::Deleting => replicas.draining += 1,
            Phase::Failed => replicas.unhealthy += 1,
            _ if unknown => replicas.unknown += 1,
            _ if machine.served_at.is_none() => replicas.starting += 1,
            Phase::Ready if health == Some(Health::Ready) => replicas.ready += 1,
            _ => replicas.unhealthy += 1,
        }
    }
    replicas
}

/// The open rotations, the oldest first.
pub(super) fn open_rotations(next: &state::GroupState) -> Vec<OpenRotation> {
    let mut open: Vec<(&Arc<str>, &state::Rotation)> = next
        .machines
        .iter()
        .filter_map(|(name, machine)| Some((name, machine.rotation.as_deref()?)))
        .collect();
    open.sort_by_key(|(name, rotation)| (rotation.started_at, *name));
    let shown = open.into_iter().take(MAX_STATUS_ITEMS);
    shown
        .map(|(name, rotation)| OpenRotation {
            machine: name.to_string(),
            id: rotation.id.clone(),
            reason: Some(rotation.cause.into()),
            tier: Some(rotation.tier.into()),
            phase: Some(rotation.phase.into()),
            replacement: rotation.replacement.clone(),
            drain_deadline: rotation.drain.as_ref().map(|drain| Time(drain.deadline)),
        })
        .collect()
}

/// What keeps something that is due from happening, in words.
pub(super) fn blocked_by(why: &[Reason]) -> Vec<String> {
    let blockers = why.iter().filter(|why| blocker(why).is_some());
    blockers.map(ToString::to_string).take(MAX_STATUS_ITEMS).collect()
}
