//! What makes an object of the family a sensible one. The schemas say the same, so this finds
//! something only in objects that got in another way: before a rule was there, or around it.

use std::collections::BTreeSet;

use sojourn_core::term::Term;

use crate::annotation::{annotation, ignored};
use crate::grammar::{
    self, EMAIL, ENVIRONMENT_NAME, INSTANCE_NAME, MOUNT_PATH, NAMESPACE, PORT_NAME, QUANTITY,
    REFERENCE, SIZE, URL, VARIABLE,
};
use crate::lab::config::MAX_ALERTS;
use crate::lab::environment::{
    Environment, MODE_NEEDS_PERSISTENT, MOUNT_PATH_NEEDED, PROGRAM_NEEDED, SIZE_NEEDED,
};
use crate::lab::instance::{CheckMode, Instance, StatusCheck, URL_NEEDED};
use crate::lab::template::{SPELLINGS, Template, TemplateSpec, both_spellings};
use crate::lab::tenant::Tenant;
use crate::name::lab::CUSTOM_ALERTS;
use crate::problem::{Problem, Report};

const MAX_ENVIRONMENTS: usize = 10;
/// Of misses in a row; fewer than two would let one stray answer end an exam.
const CONFIRMATIONS: std::ops::RangeInclusive<i32> = 2..=100;

pub fn check_tenant(tenant: &Tenant) -> Vec<Problem> {
    let mut report = Report::default();
    report.take("spec.email", EMAIL.check(&tenant.spec.email));
    report.into_problems()
}

pub fn check_template(template: &Template) -> Vec<Problem> {
    let spec = &template.spec;
    let mut report = Report::default();
    terms(spec, &mut report);
    let count = spec.environment_list.len();
    if count == 0 || count > MAX_ENVIRONMENTS {
        report.note("environmentList", format!("must have 1 to {MAX_ENVIRONMENTS} items"));
    }
    let mut names = BTreeSet::new();
    for (index, environment) in spec.environment_list.iter().enumerate() {
        let path = format!("environmentList[{index}]");
        if !names.insert(&environment.name) {
            report.note(format!("{path}.name"), "must not be another environment's name");
        }
        report.add(check_environment(environment).into_iter().map(|p| p.beneath(&path)));
    }
    if spec.max_alerts.is_some_and(|alerts| !u32::try_from(alerts).is_ok_and(fits)) {
        report.note("maxAlerts", format!("must be a number from 0 to {MAX_ALERTS}"));
    }
    if spec.activity_sources.as_ref().is_some_and(Vec::is_empty) {
        report.note("activitySources", "must have an item; leave it out to mean every source");
    }
    report.into_problems().into_iter().map(|problem| problem.beneath("spec")).collect()
}

const fn fits(alerts: u32) -> bool {
    alerts <= MAX_ALERTS
}

/// The number of warnings that a Template's annotation asks for, if it asks for one.
pub(super) fn custom_alerts(template: &Template) -> Option<u32> {
    alerts(annotation(&template.metadata, CUSTOM_ALERTS)?).ok()
}

/// A number of warnings, written as text; an error says why it is none.
pub fn alerts(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| fits(*number));
    number.ok_or_else(|| ignored(text, &format!("a number from 0 to {MAX_ALERTS}")))
}

/// The terms of a Template under whichever name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) stop_after: Term,
    pub(super) delete_after_stopped: Term,
    pub(super) delete_after: Term,
}

pub(super) fn terms(spec: &TemplateSpec, report: &mut Report) -> Option<Terms> {
    let cleanup = spec.cleanup.clone().unwrap_or_default();
    let flat = [&spec.inactivity_timeout, &spec.delete_after_stopped, &spec.delete_after];
    let newer = [
        cleanup.stop_after_inactivity,
        cleanup.delete_after_inactivity,
        cleanup.delete_after_creation,
    ];
    let mut read = [None; 3];
    for index in 0..SPELLINGS.len() {
        let (flat_name, newer_name) = SPELLINGS[index];
        let flat = report.take(flat_name, grammar::term(flat[index]));
        let newer = newer[index]
            .as_ref()
            .map(|text| report.take(&format!("cleanup.{newer_name}"), grammar::term(text)));
        if newer.is_some() && flat.is_some_and(|flat| flat != Term::Never) {
            report.note(flat_name, both_spellings(newer_name));
        }
        read[index] = newer.unwrap_or(flat);
    }
    let [Some(stop_after), Some(delete_after_stopped), Some(delete_after)] = read else {
        return None;
    };
    Some(Terms { stop_after, delete_after_stopped, delete_after })
}

fn check_environment(environment: &Environment) -> Vec<Problem> {
    let mut report = Report::default();
    report.take("name", ENVIRONMENT_NAME.check(&environment.name));
    if environment.image.is_empty() && environment.command.is_empty() {
        report.note("image", PROGRAM_NEEDED);
    }
    match &environment.mount_path {
        Some(path) => {
            report.take("mountPath", MOUNT_PATH.check(path));
        }
        None if environment.persistent => report.note("mountPath", MOUNT_PATH_NEEDED),
        None => {}
    }
    match &environment.size {
        Some(size) => {
            report.take("size", SIZE.check(size));
        }
        None if environment.persistent => report.note("size", SIZE_NEEDED),
        None => {}
    }
    if environment.volume_mode.is_some() && !environment.persistent {
        report.note("volumeMode", MODE_NEEDS_PERSISTENT);
    }
    for (index, variable) in environment.env.iter().enumerate() {
        report.take(&format!("env[{index}].name"), VARIABLE.check(&variable.name));
    }
    check_ports(environment, &mut report);
    let amounts = environment.resources.iter().flat_map(|resources| {
        let limits = resources.limits.iter().flatten().map(|amount| ("limits", amount));
        limits.chain(resources.requests.iter().flatten().map(|amount| ("requests", amount)))
    });
    for (part, (name, amount)) in amounts {
        report.take(&format!("resources.{part}[{name}]"), QUANTITY.check(&amount.0));
    }
    report.into_problems()
}

fn check_ports(environment: &Environment, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, port) in environment.ports.iter().enumerate() {
        if !(1..=65535).contains(&port.container_port) {
            report.note(format!("ports[{index}].containerPort"), "must be from 1 to 65535");
        }
        if let Some(name) = &port.name {
            report.take(&format!("ports[{index}].name"), PORT_NAME.check(name));
        }
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        if !seen.insert((port.container_port, protocol)) {
            report.note(format!("ports[{index}]"), "must not repeat another port");
        }
    }
}

pub fn check_instance(instance: &Instance) -> Vec<Problem> {
    let spec = &instance.spec;
    let mut report = Report::default();
    let name = instance.metadata.name.as_deref().unwrap_or_default();
    report.take("metadata.name", INSTANCE_NAME.check(name));
    report.take("spec.template.name", REFERENCE.check(&spec.template.name));
    if let Some(namespace) = &spec.template.namespace {
        report.take("spec.template.namespace", NAMESPACE.check(namespace));
    }
    report.take("spec.tenant.name", REFERENCE.check(&spec.tenant.name));
    if let Some(check) = &spec.status_check {
        let problems = check_status_check(check);
        report.add(problems.into_iter().map(|problem| problem.beneath("spec.statusCheck")));
    }
    if let Some(submission) = &spec.submission {
        report.take("spec.submission.url", URL.check(&submission.url));
        if let Some(secret) = &submission.secret_ref {
            report.take("spec.submission.secretRef.name", REFERENCE.check(&secret.name));
        }
    }
    report.into_problems()
}

fn check_status_check(check: &StatusCheck) -> Vec<Problem> {
    let mut report = Report::default();
    match &check.url {
        Some(url) => {
            report.take("url", URL.check(url));
        }
        None if check.mode == Some(CheckMode::Contract) => report.note("url", URL_NEEDED),
        None => {}
    }
    report.take("interval", grammar::span(&check.interval));
    report.take("timeout", grammar::span(&check.timeout));
    if !CONFIRMATIONS.contains(&check.confirmations) {
        let (least, most) = (CONFIRMATIONS.start(), CONFIRMATIONS.end());
        report.note("confirmations", format!("must be from {least} to {most}"));
    }
    for (part, codes) in [("keepCodes", &check.keep_codes), ("endCodes", &check.end_codes)] {
        if codes.is_empty() {
            report.note(part, "must have an item");
        }
        for (index, code) in codes.iter().enumerate() {
            report.take(&format!("{part}[{index}]"), grammar::check_codes(code));
        }
    }
    report.into_problems()
}

#[cfg(test)]
mod tests;
