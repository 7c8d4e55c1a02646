//! Collections in a simulation of their own.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde_json::Value;
use sojourn_api::game::status::{CollectionHealth, CollectionStatus, ServerStatus};
use sojourn_sim::game::simulation::{GameSimulation, Setting};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// The collection that most stories are about.
pub(crate) const ARENA: &str = "arena";

/// A simulation with the collection `arena` of so many servers, all of which can be played on.
pub(crate) async fn simulation(replicas: u32, spec: Value) -> GameSimulation {
    simulation_with(Setting::default(), replicas, spec).await
}

pub(crate) async fn simulation_with(
    setting: Setting,
    replicas: u32,
    spec: Value,
) -> GameSimulation {
    let simulation = GameSimulation::new(setting).await;
    simulation.make_collection(ARENA, replicas, spec).await;
    available(&simulation, replicas).await;
    simulation
}

/// Waits until so many can be played on, and no other is a member.
pub(crate) async fn available(simulation: &GameSimulation, count: u32) {
    simulation
        .until(30 * MINUTE, "a collection that is complete", |checker| {
            let members = checker.members(ARENA).len();
            let has = checker.status(ARENA).available_replicas;
            (has == count && members == count as usize).then_some(())
        })
        .await;
}

/// Waits until the status of a server is so.
pub(crate) async fn until_server(
    simulation: &GameSimulation,
    name: &str,
    what: &str,
    is_so: impl Fn(&ServerStatus) -> bool,
) {
    simulation
        .until(MINUTE, what, |checker| {
            let status = checker.servers.get(name)?.status.as_ref()?;
            is_so(status).then_some(())
        })
        .await;
}

pub(crate) fn members(simulation: &GameSimulation) -> Vec<String> {
    let checker = simulation.checker.lock();
    checker.members(ARENA).into_iter().map(kube::ResourceExt::name_any).collect()
}

/// Those that left the collection and are there.
pub(crate) fn former(simulation: &GameSimulation) -> Vec<String> {
    let checker = simulation.checker.lock();
    checker.former(ARENA).into_iter().map(kube::ResourceExt::name_any).collect()
}

pub(crate) fn uid(simulation: &GameSimulation, name: &str) -> String {
    simulation.checker.lock().servers[name].uid().unwrap_or_default()
}

pub(crate) fn status(simulation: &GameSimulation) -> CollectionStatus {
    simulation.checker.lock().status(ARENA)
}

pub(crate) fn server(simulation: &GameSimulation, name: &str) -> ServerStatus {
    let checker = simulation.checker.lock();
    checker.servers.get(name).and_then(|server| server.status.clone()).unwrap_or_default()
}

/// Waits until the collection is so.
pub(crate) async fn healthy(simulation: &GameSimulation, health: CollectionHealth) {
    let what = format!("a collection that is {health:?}");
    simulation
        .until(30 * MINUTE, &what, |checker| {
            (checker.status(ARENA).health == Some(health)).then_some(())
        })
        .await;
}

/// Waits until a server is gone.
pub(crate) async fn gone(simulation: &GameSimulation, limit: Duration, name: &str) {
    simulation
        .until(limit, "its end", |checker| checker.deleted.contains_key(name).then_some(()))
        .await;
}

/// A condition of the collection.
pub(crate) fn condition(simulation: &GameSimulation, kind: &str) -> Option<Condition> {
    status(simulation).conditions.into_iter().find(|one| one.type_ == kind)
}
