//! One instance of one template, in a simulation of its own.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sojourn_api::lab::Instance;
use sojourn_api::lab::status::{InstanceStatus, Stage};
use sojourn_core::key::Key;
use sojourn_sim::lab::invariants::Policy;
use sojourn_sim::lab::people::Design;
use sojourn_sim::lab::simulation::{CONFIG, LabSimulation, Setting};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);
/// How late anything may be: a tick, the step that is looked at again, and what it takes to ask.
pub(crate) const TICK: Duration = Duration::from_secs(20 * 60);

pub(crate) fn hours(hours: i64) -> Option<SignedDuration> {
    Some(SignedDuration::from_hours(hours))
}

pub(crate) fn key(name: &str) -> Key {
    Key::new("lab", name)
}

pub(crate) fn template() -> Key {
    key("notebook")
}

/// Stopped after a day without use.
pub(crate) fn kept() -> Design {
    let policy = Policy { stop_after: hours(24), persistent: true, ..Policy::default() };
    Design { policy, environments: 1 }
}

/// A simulation with one template, where `options` are added to `lab.yaml`.
pub(crate) async fn simulation(design: &Design, options: &str) -> LabSimulation {
    with(design, Setting { config: format!("{CONFIG}{options}"), ..Setting::default() }).await
}

pub(crate) async fn with(design: &Design, setting: Setting) -> LabSimulation {
    let simulation = LabSimulation::new(setting).await;
    simulation.make_namespace("lab").await;
    simulation.make_tenant().await;
    simulation.make_template(&template(), design).await;
    simulation
}

/// The same with one instance, `one`, that is ready.
pub(crate) async fn simulation_with_one(design: &Design, options: &str) -> LabSimulation {
    let simulation = simulation(design, options).await;
    lend(&simulation, "one", json!({})).await;
    simulation
}

pub(crate) async fn lend(simulation: &LabSimulation, name: &str, spec: Value) {
    simulation.lend(&key(name), &template(), spec).await;
    let ready = |one: &Instance| status(one).ready_at.is_some();
    simulation.until(MINUTE * 3, &key(name), ready).await;
}

pub(crate) fn status(instance: &Instance) -> InstanceStatus {
    instance.status.clone().unwrap_or_default()
}

pub(crate) fn stage_of(instance: &Instance) -> Stage {
    status(instance).lifecycle.and_then(|lifecycle| lifecycle.stage).unwrap_or_default()
}

pub(crate) fn alerts(instance: &Instance) -> u32 {
    status(instance).lifecycle.map_or(0, |lifecycle| lifecycle.alerts_sent)
}

/// The reason of a condition, with whether it holds.
pub(crate) fn condition(instance: &Instance, kind: &str) -> Option<(String, bool)> {
    let conditions = status(instance).conditions;
    let found = conditions.iter().find(|one| one.type_ == kind)?;
    Some((found.reason.clone(), found.status == "True"))
}

/// What was told so far, each as its template's name.
pub(crate) fn told(simulation: &LabSimulation) -> Vec<&'static str> {
    simulation.received().iter().map(|received| received.notice.template).collect()
}

/// When each thing was told, in whole hours since `from`.
pub(crate) fn told_at(simulation: &LabSimulation, from: Timestamp) -> Vec<i64> {
    simulation.received().iter().map(|one| one.at.duration_since(from).as_hours()).collect()
}
