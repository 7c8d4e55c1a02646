//! What makes an object of the family a sensible one. The schemas say nearly the same; what they cannot say (what is
//! in a Pod template, whether a time zone exists) admission refuses with these words.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use serde_json::Value;

use super::autoscaler::autoscaler;
use super::template::pod_template;
use crate::annotation::{annotation, path_of};
use crate::game::autoscaler::{ONE_WEBHOOK, PodAutoScalerDetails};
use crate::game::collection::{DedicatedGameServerCollection, PLAYERS_DIFFER, SEATS_NEEDED};
use crate::game::name::DEV_ADDRESS;
use crate::game::port::{
    CONTAINER_PORT_NEEDED, GamePort, HOST_PORT_NEEDED, MAX_PORTS, PASSTHROUGH_PORT, PortPolicy,
};
use crate::game::server::{DedicatedGameServer, HealthSpec};
use crate::grammar::{self, COLLECTION_NAME, PORT_NAME, SERVER_NAME};
use crate::problem::{Problem, Report};

/// Everything that is wrong with a collection.
pub fn check_collection(collection: &DedicatedGameServerCollection) -> Vec<Problem> {
    let mut problems = check_stored_collection(collection);
    let details = collection.spec.pod_auto_scaler_details.as_ref();
    let counts_seats = details.is_some_and(PodAutoScalerDetails::counts_seats);
    if counts_seats && collection.spec.seats().is_none() {
        problems.push(Problem::new("spec.maxPlayersPerServer", SEATS_NEEDED));
    }
    if details.is_some_and(|details| details.webhooks() > 1) {
        problems.push(Problem::new("spec.podAutoScalerDetails.terms", ONE_WEBHOOK));
    }
    problems
}

/// The same of one that is there already. Terms that count seats which nobody has named abstain, and of several webhooks
/// the first one is asked: neither is a reason to leave its servers alone.
pub(super) fn check_stored_collection(collection: &DedicatedGameServerCollection) -> Vec<Problem> {
    let spec = &collection.spec;
    let mut report = Report::default();
    let name = collection.metadata.name.as_deref().unwrap_or_default();
    report.take("metadata.name", COLLECTION_NAME.check(name));
    let mut own = Report::default();
    let numbers = [
        ("replicas", Some(spec.replicas), 0..=100_000),
        ("maxPlayersPerServer", spec.max_players_per_server, 1..=100_000),
        ("dgsMaxFailures", Some(spec.dgs_max_failures), 0..=100),
        ("quarantine.max", Some(spec.quarantine.max), 0..=100),
    ];
    for (field, number, range) in numbers {
        if number.is_some_and(|number| !range.contains(&number)) {
            own.note(field, format!("must be from {} to {}", range.start(), range.end()));
        }
    }
    own.take("dgsFailureWindow", grammar::span(&spec.dgs_failure_window));
    own.take("drainTimeout", grammar::age(&spec.drain_timeout));
    own.take("quarantine.ttl", grammar::span(&spec.quarantine.ttl));
    if let Some(details) = &spec.pod_auto_scaler_details {
        let mut inner = Report::default();
        autoscaler(details, &mut inner);
        let problems = inner.into_problems().into_iter();
        own.add(problems.map(|problem| problem.beneath("podAutoScalerDetails")));
        let both = details.max_players_per_server.zip(spec.max_players_per_server);
        if both.is_some_and(|(one, other)| one != other) {
            own.note("podAutoScalerDetails.maxPlayersPerServer", PLAYERS_DIFFER);
        }
    }
    own.add(check_made_from(&spec.template, &spec.ports, &spec.ports_to_expose, &spec.health));
    report.add(own.into_problems().into_iter().map(|problem| problem.beneath("spec")));
    report.into_problems()
}

/// Everything that is wrong with a server.
pub fn check_server(server: &DedicatedGameServer) -> Vec<Problem> {
    let (spec, meta) = (&server.spec, &server.metadata);
    let mut report = Report::default();
    let name = meta.name.as_deref().unwrap_or_default();
    report.take("metadata.name", SERVER_NAME.check(name));
    if annotation(meta, DEV_ADDRESS).is_some_and(|address| address.parse::<IpAddr>().is_err()) {
        report.note(path_of(DEV_ADDRESS), "must be an IP address");
    }
    let problems =
        check_made_from(&spec.template, &spec.ports, &spec.ports_to_expose, &spec.health);
    report.add(problems.into_iter().map(|problem| problem.beneath("spec")));
    report.into_problems()
}

/// What is wrong with what servers are made from.
fn check_made_from(
    template: &Value,
    ports: &[GamePort],
    to_expose: &[i32],
    health: &HealthSpec,
) -> Vec<Problem> {
    let mut report = Report::default();
    let pod = pod_template(template).map_err(|problem| problem.beneath("template"));
    match &pod {
        Ok(pod) => {
            let problems = check_resources(pod).into_iter();
            report.add(problems.map(|problem| problem.beneath("template")));
        }
        Err(problem) => report.add([problem.clone()]),
    }
    if ports.len() + to_expose.len() > MAX_PORTS {
        report.note("ports", format!("must be at most {MAX_PORTS}, with those of portsToExpose"));
    }
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let problems = check_port(port).into_iter();
        report.add(problems.map(|problem| problem.beneath(&format!("ports[{index}]"))));
        if !names.insert(&port.name) {
            report.note(format!("ports[{index}].name"), "must not be another port's");
        }
    }
    let exposed: BTreeSet<&i32> = to_expose.iter().collect();
    if exposed.len() < to_expose.len() {
        report.note("portsToExpose", "must not name a port twice");
    }
    report.take("health.period", grammar::span(&health.period));
    report.take("health.initialDelay", grammar::pause(&health.initial_delay));
    if health.failure_threshold < 1 {
        report.note("health.failureThreshold", "must be at least 1");
    }
    report.into_problems()
}

fn check_port(port: &GamePort) -> Vec<Problem> {
    let mut report = Report::default();
    report.take("name", PORT_NAME.check(&port.name));
    let passes = port.policy == PortPolicy::Passthrough;
    match port.container_port {
        None if !passes => report.note("containerPort", CONTAINER_PORT_NEEDED),
        Some(_) if passes => report.note("containerPort", PASSTHROUGH_PORT),
        None | Some(_) => {}
    }
    if port.policy == PortPolicy::Static && port.host_port.is_none() {
        report.note("hostPort", HOST_PORT_NEEDED);
    }
    report.into_problems()
}

/// Servers that say nothing of what they need starve each other: every container has requests and limits.
fn check_resources(pod: &PodTemplateSpec) -> Vec<Problem> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers).enumerate();
    containers.flat_map(|(index, container)| missing_resources(index, container)).collect()
}

fn missing_resources(index: usize, container: &Container) -> Vec<Problem> {
    let resources = container.resources.as_ref();
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let mut report = Report::default();
    for (part, amounts) in [("requests", requests), ("limits", limits)] {
        for resource in ["cpu", "memory"] {
            if amounts.is_none_or(|amounts| !amounts.contains_key(resource)) {
                let path = format!("spec.containers[{index}].resources.{part}.{resource}");
                let name = &container.name;
                report.note(path, format!("is needed: container {name} shares its node"));
            }
        }
    }
    report.into_problems()
}
