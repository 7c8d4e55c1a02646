//! What makes an object of the family a sensible one. The schemas say nearly the same; what they
//! cannot say (whether a time zone exists) admission refuses with these words.

use sojourn_core::term::Term;

use super::budget::{MAX_BUDGETS, budget, share};
use super::template::pod_template;
use crate::grammar::{self, GROUP_NAME, MACHINE_NAME, PROVIDER};
use crate::group::expiry::{Expiry, LESS_THAN_AGE, OUT_OF_ORDER};
use crate::group::instance_group::{InstanceGroup, InstanceGroupSpec};
use crate::group::machine::{GROUP_NEEDED, Machine, RENEWED_NEEDS_ON_DEMAND, TEMPLATE_NEEDED};
use crate::group::template::{CONFIG_NEEDED, CONFIG_ONLY, MachineTemplate, POD_NEEDED, POD_ONLY};
use crate::name::group::POD_PROVIDER;
use crate::problem::{Problem, Report};

const SIZES: std::ops::RangeInclusive<i32> = 0..=100_000;
const SURGES: std::ops::RangeInclusive<i32> = 0..=1000;
const FORCED_SURGES: std::ops::RangeInclusive<i32> = 1..=1000;
const READY_SECONDS: std::ops::RangeInclusive<i32> = 0..=86_400;

/// Everything that is wrong with a group, its budgets too.
pub fn check_group(group: &InstanceGroup) -> Vec<Problem> {
    let mut report = Report::default();
    report.add(check_but_budgets(group));
    let size = u32::try_from(group.spec.size).unwrap_or_default();
    for (index, wire) in group.spec.budgets.iter().enumerate() {
        let (_, problems) = budget(wire, index, size);
        report.add(problems.into_iter().map(|problem| problem.beneath("spec")));
    }
    report.into_problems()
}

/// What is wrong with a group so that nothing can be decided about it.
pub(super) fn check_but_budgets(group: &InstanceGroup) -> Vec<Problem> {
    let mut report = Report::default();
    let name = group.metadata.name.as_deref().unwrap_or_default();
    report.take("metadata.name", GROUP_NAME.check(name));
    let problems = check_spec(&group.spec);
    report.add(problems.into_iter().map(|problem| problem.beneath("spec")));
    report.into_problems()
}

fn check_spec(spec: &InstanceGroupSpec) -> Vec<Problem> {
    let mut report = Report::default();
    let numbers = [
        ("size", Some(spec.size), SIZES),
        ("surge", Some(spec.surge), SURGES),
        ("minHealthy", spec.min_healthy, SIZES),
        ("minReadySeconds", Some(spec.min_ready_seconds), READY_SECONDS),
        ("expiry.forcedSurge", Some(spec.expiry.forced_surge), FORCED_SURGES),
    ];
    for (field, number, range) in numbers {
        if number.is_some_and(|number| !range.contains(&number)) {
            report.note(field, format!("must be from {} to {}", range.start(), range.end()));
        }
    }
    if let Some(span) = &spec.drain_timeout {
        report.take("drainTimeout", grammar::pause(span));
    }
    report.take("registrationTimeout", grammar::span(&spec.registration_timeout));
    report.take("unhealthyAfter", grammar::span(&spec.unhealthy_after));
    report.take("maxUnhealthy", share(&spec.max_unhealthy, 0));
    if let Some(until) = &spec.freeze_until {
        report.take("freezeUntil", time(until));
    }
    if spec.budgets.len() > MAX_BUDGETS {
        report.note("budgets", format!("must have at most {MAX_BUDGETS} items"));
    }
    report.add(check_expiry(&spec.expiry).into_iter().map(|problem| problem.beneath("expiry")));
    let problems = check_template(&spec.template);
    report.add(problems.into_iter().map(|problem| problem.beneath("template")));
    report.into_problems()
}

fn check_expiry(expiry: &Expiry) -> Vec<Problem> {
    let mut report = Report::default();
    let mut age = |field: &str, text: &Option<String>| {
        text.as_ref().and_then(|text| report.take(field, grammar::age(text)))
    };
    let eligible = age("eligibleAge", &expiry.eligible_age);
    let forced = age("forcedAge", &expiry.forced_age);
    let on_demand = age("ondemandAge", &expiry.ondemand_age);
    let longest = age("ondemandMaxAge", &expiry.ondemand_max_age);
    if let (Some(eligible), Some(forced)) = (eligible, forced)
        && out_of_order(eligible, forced)
    {
        report.note("eligibleAge", OUT_OF_ORDER);
    }
    if let (Some(Term::Span(age)), Some(Term::Span(longest))) = (on_demand, longest)
        && longest < age
    {
        report.note("ondemandMaxAge", LESS_THAN_AGE);
    }
    report.take("ondemandWarnBefore", grammar::pause(&expiry.ondemand_warn_before));
    report.take("jitter", grammar::pause(&expiry.jitter));
    report.into_problems()
}

/// Whether nothing would ever be eligible before it is forced.
pub(super) fn out_of_order(eligible: Term, forced: Term) -> bool {
    !eligible.is_never() && eligible >= forced
}

/// What is wrong with a template; paths begin at it.
fn check_template(template: &MachineTemplate) -> Vec<Problem> {
    let mut report = Report::default();
    report.take("provider", PROVIDER.check(&template.provider));
    let is_pod = template.provider == POD_PROVIDER;
    match (&template.pod, is_pod) {
        (Some(_), true) => {
            report.add(pod_template(template).err());
        }
        (Some(_), false) => report.note("pod", POD_ONLY),
        (None, true) => report.note("pod", POD_NEEDED),
        (None, false) => {}
    }
    match (&template.config, is_pod) {
        (Some(_), true) => report.note("config", CONFIG_ONLY),
        (None, false) => report.note("config", CONFIG_NEEDED),
        (Some(_), false) | (None, true) => {}
    }
    report.into_problems()
}

/// Everything that is wrong with a Machine.
pub fn check_machine(machine: &Machine) -> Vec<Problem> {
    let spec = &machine.spec;
    let mut report = Report::default();
    let name = machine.metadata.name.as_deref().unwrap_or_default();
    report.take("metadata.name", MACHINE_NAME.check(name));
    match &spec.group {
        Some(group) => {
            report.take("spec.group", GROUP_NAME.check(group));
        }
        None if !spec.on_demand => report.note("spec.group", GROUP_NEEDED),
        None => {}
    }
    match &spec.template {
        Some(template) => {
            let problems = check_template(template);
            report.add(problems.into_iter().map(|problem| problem.beneath("spec.template")));
        }
        None if !(spec.on_demand && spec.group.is_some()) => {
            report.note("spec.template", TEMPLATE_NEEDED);
        }
        None => {}
    }
    match &spec.renewed_until {
        Some(_) if !spec.on_demand => report.note("spec.renewedUntil", RENEWED_NEEDS_ON_DEMAND),
        Some(until) => {
            report.take("spec.renewedUntil", time(until));
        }
        None => {}
    }
    report.into_problems()
}

/// A time as an API writes it.
pub(super) fn time(text: &str) -> Result<jiff::Timestamp, String> {
    text.trim().parse().map_err(|_| "must be a time such as 2026-11-17T09:00:00Z".to_owned())
}
