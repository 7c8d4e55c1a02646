//! Groups in a simulation of their own.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;
use sojourn_api::group::status::{DrainStatus, MachineStatus, Phase};
use sojourn_sim::group::invariants::GroupLimits;
use sojourn_sim::group::simulation::{GroupSimulation, Setting};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

/// A simulation with the group `web` of so many machines, all ready.
pub(crate) async fn simulation(size: u32, spec: Value) -> GroupSimulation {
    simulation_with(Setting::default(), size, spec).await
}

pub(crate) async fn simulation_with(setting: Setting, size: u32, spec: Value) -> GroupSimulation {
    let simulation = GroupSimulation::new(setting).await;
    simulation.make_group("web", size, spec).await;
    ready(&simulation, "web", size as usize).await;
    simulation
}

/// Waits until so many are ready and no other is there.
pub(crate) async fn ready(simulation: &GroupSimulation, group: &str, count: usize) {
    simulation
        .until(30 * MINUTE, "a group that is complete", |checker| {
            let all = checker.of(group).len();
            (all == count && checker.in_phase(group, Phase::Ready).len() == count).then_some(())
        })
        .await;
}

/// These must hold from now on, beside what always must.
pub(crate) fn require(simulation: &GroupSimulation, max_machines: usize, min_ready: usize) {
    simulation.checker.lock().require("web", GroupLimits { max_machines, min_ready });
}

pub(crate) fn names(simulation: &GroupSimulation) -> Vec<String> {
    let checker = simulation.checker.lock();
    checker.of("web").into_iter().map(kube::ResourceExt::name_any).collect()
}

pub(crate) fn status(simulation: &GroupSimulation, name: &str) -> MachineStatus {
    let checker = simulation.checker.lock();
    checker.machine(name).and_then(|machine| machine.status.clone()).unwrap_or_default()
}

/// Waits until a machine of the group drains; answers its name and its drain.
pub(crate) async fn draining(
    simulation: &GroupSimulation,
    limit: Duration,
) -> (String, DrainStatus) {
    simulation
        .until(limit, "a drain", |checker| {
            let name = checker.in_phase("web", Phase::Draining).first()?.clone();
            let status = checker.machine(&name)?.status.clone()?;
            Some((name, status.drain?))
        })
        .await
}

pub(crate) fn deadline(drain: &DrainStatus) -> Timestamp {
    drain.deadline.as_ref().expect("a drain has one").0
}

/// Waits until a machine's object is gone; answers when that was.
pub(crate) async fn gone(simulation: &GroupSimulation, limit: Duration, name: &str) -> Timestamp {
    simulation.until(limit, "its end", |checker| checker.deleted.get(name).copied()).await
}

/// A condition of a group.
pub(crate) fn condition(
    simulation: &GroupSimulation,
    group: &str,
    kind: &str,
) -> Option<Condition> {
    let checker = simulation.checker.lock();
    let status = checker.groups.get(group)?.status.clone()?;
    status.conditions.into_iter().find(|one| one.type_ == kind)
}
