//! What makes a cluster a sensible one. The schema says nearly the same; what it cannot say (whether a time zone
//! exists, whether a selector can be read) admission refuses with these words.

use jiff::Timestamp;
use kube::core::Selector;

use crate::annotation::{annotation, path_of};
use crate::cluster::deployment::{
    ClusterDeployment, ClusterDeploymentSpec, ClusterPoolRef, GateType, INFRA_ID_STAYS,
    MAX_CONTACTS, MAX_SCHEDULES, ReadinessGate, SCHEDULE_EMPTY, SELECTOR_NEEDED, ScheduleSpec,
};
use crate::cluster::platform::{
    NO_ENDPOINT, ONE_PLATFORM, PLATFORM_STAYS, PlatformSpec, WITHOUT_ENDPOINT,
};
use crate::grammar::{self, EMAIL, INFRA_ID, PROVIDER, REFERENCE, URL};
use crate::name::shared::KEEP_UNTIL;
use crate::problem::{Problem, Report};
use crate::window;

const TIME: &str = "must be a time such as 2026-11-20T08:00:00Z";

/// Everything that is wrong with a cluster.
pub fn check_cluster(cluster: &ClusterDeployment) -> Vec<Problem> {
    let mut report = Report::default();
    let keep = annotation(&cluster.metadata, KEEP_UNTIL);
    if keep.is_some_and(|text| text.parse::<Timestamp>().is_err()) {
        report.note(path_of(KEEP_UNTIL), TIME);
    }
    report.add(check_spec(&cluster.spec));
    report.into_problems()
}

/// Everything in a cluster that cannot be changed as it was.
pub fn check_change(old: &ClusterDeployment, new: &ClusterDeployment) -> Vec<Problem> {
    let mut report = Report::default();
    if old.spec.infra_id != new.spec.infra_id {
        report.note("spec.infraID", INFRA_ID_STAYS);
    }
    if old.spec.platform.fixed() != new.spec.platform.fixed() {
        report.note("spec.platform", PLATFORM_STAYS);
    }
    report.into_problems()
}

/// The Secrets of its namespace that a cluster names, each with the field. We read them with our own rights, so whoever
/// names one must be allowed to read it.
pub fn named_secrets(spec: &ClusterDeploymentSpec) -> Vec<(String, &str)> {
    let kubeconfig = spec.kubeconfig_secret_ref.as_ref();
    let kubeconfig = kubeconfig.map(|secret| ("spec.kubeconfigSecretRef".to_owned(), secret));
    let credentials = spec.platform.given().into_iter().filter_map(|(name, access)| {
        let path = format!("spec.platform.{name}.credentialsSecretRef");
        Some((path, access.credentials_secret_ref.as_ref()?))
    });
    let all = kubeconfig.into_iter().chain(credentials);
    all.map(|(path, secret)| (format!("{path}.name"), secret.name.as_str())).collect()
}

/// Everything that is wrong with what is asked for.
pub(super) fn check_spec(spec: &ClusterDeploymentSpec) -> Vec<Problem> {
    let mut report = Report::default();
    report.take("infraID", INFRA_ID.check(&spec.infra_id));
    if let Some(text) = &spec.hibernate_after {
        report.take("hibernateAfter", grammar::go_age(text));
    }
    let timeouts =
        [("timeouts.stop", &spec.timeouts.stop), ("timeouts.resume", &spec.timeouts.resume)];
    for (path, text) in timeouts {
        let _ = text.as_ref().map(|text| report.take(path, grammar::age(text)));
    }
    if spec.schedule.len() > MAX_SCHEDULES {
        report.note("schedule", format!("must be at most {MAX_SCHEDULES} lines"));
    }
    for (index, line) in spec.schedule.iter().enumerate() {
        let problems = check_schedule(line).into_iter();
        report.add(problems.map(|problem| problem.beneath(&format!("schedule[{index}]"))));
    }
    if spec.contacts.len() > MAX_CONTACTS {
        let message = format!("must be at most {MAX_CONTACTS}; a mailing list reaches more");
        report.note("contacts", message);
    }
    for (index, address) in spec.contacts.iter().enumerate() {
        report.take(&format!("contacts[{index}]"), EMAIL.check(address));
    }
    for (index, gate) in spec.readiness_gates.iter().enumerate() {
        check_gate(gate, &format!("readinessGates[{index}].selector"), &mut report);
    }
    if let Some(secret) = &spec.kubeconfig_secret_ref {
        report.take("kubeconfigSecretRef.name", REFERENCE.check(&secret.name));
    }
    if let Some(pool) = &spec.cluster_pool_ref {
        check_pool(pool, &mut report);
    }
    let problems = check_platform(&spec.platform).into_iter();
    report.add(problems.map(|problem| problem.beneath("platform")));
    report.into_problems().into_iter().map(|problem| problem.beneath("spec")).collect()
}

fn check_schedule(line: &ScheduleSpec) -> Vec<Problem> {
    let mut report = Report::default();
    if line.hibernate.is_none() && line.resume.is_none() {
        report.note("", SCHEDULE_EMPTY);
    }
    for (path, text) in [("hibernate", &line.hibernate), ("resume", &line.resume)] {
        let _ = text.as_ref().map(|text| report.take(path, window::cron(text)));
    }
    report.take("timeZone", window::zone(&line.time_zone));
    report.into_problems()
}

fn check_gate(gate: &ReadinessGate, path: &str, report: &mut Report) {
    if (gate.gate == GateType::Workloads) != gate.selector.is_some() {
        report.note(path, SELECTOR_NEEDED);
    }
    if let Some(selector) = gate.selector.clone()
        && let Err(error) = Selector::try_from(selector)
    {
        report.note(path, format!("is no label selector: {error}"));
    }
}

fn check_pool(pool: &ClusterPoolRef, report: &mut Report) {
    let claimed = pool.claimed_timestamp.as_ref();
    if claimed.is_some_and(|at| at.parse::<Timestamp>().is_err()) {
        report.note("clusterPoolRef.claimedTimestamp", TIME);
    }
}

fn check_platform(platform: &PlatformSpec) -> Vec<Problem> {
    let mut report = Report::default();
    let given = platform.given();
    if given.len() != 1 {
        report.note("", ONE_PLATFORM);
    }
    for (name, access) in given {
        if access.endpoint.is_some() && WITHOUT_ENDPOINT.contains(&name) {
            report.note(format!("{name}.endpoint"), NO_ENDPOINT);
        } else if let Some(endpoint) = &access.endpoint {
            report.take(&format!("{name}.endpoint"), URL.check(endpoint));
        }
        if let Some(secret) = &access.credentials_secret_ref {
            let path = format!("{name}.credentialsSecretRef.name");
            report.take(&path, REFERENCE.check(&secret.name));
        }
    }
    if let Some(exec) = &platform.exec {
        report.take("exec.name", PROVIDER.check(&exec.name));
    }
    let texts = [
        ("aws.region", platform.aws.as_ref().map(|one| &one.region)),
        ("azure.subscription", platform.azure.as_ref().map(|one| &one.subscription)),
        ("gcp.project", platform.gcp.as_ref().map(|one| &one.project)),
        ("openstack.cloud", platform.openstack.as_ref().map(|one| &one.cloud)),
        ("libvirt.uri", platform.libvirt.as_ref().map(|one| &one.uri)),
    ];
    for (path, text) in texts {
        if text.is_some_and(String::is_empty) {
            report.note(path, "must not be empty");
        }
    }
    report.into_problems()
}
