//! What is wanted of groups and machines, out of everything that says something about them.

use jiff::{SignedDuration, Timestamp};
use kube::core::ObjectMeta;
use sojourn_core::group::intent;
use sojourn_core::term::Term;

use super::budget::{budget, share};
use super::template::template_hash;
use super::validity::{check_but_budgets, check_machine, out_of_order, time};
use crate::annotation::{annotation, ignored, path_of, says_true};
use crate::grammar;
use crate::group::config::GroupConfig;
use crate::group::expiry::{Expiry, ForcedPolicy};
use crate::group::instance_group::InstanceGroup;
use crate::group::machine::Machine;
use crate::group::template::MachineTemplate;
use crate::name::group::{DO_NOT_DISRUPT, DRAIN, ROTATE};
use crate::name::shared::{KEEP_UNTIL, OBSERVE, PAUSED};
use crate::problem::{Problem, Problems, Report};
use sojourn_core::moment::ceil_second;

/// What is wanted of a group, and what people should know about that.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    pub intent: intent::Intent,
    /// Why the ages that are in force make no sense together; then only the forced one applies.
    pub ages: Option<String>,
    /// What was written and is ignored, or counts as zero.
    pub ignored: Vec<Problem>,
}

/// What is wanted of a managed machine.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineWanted {
    pub machine: intent::Machine,
    /// Until when somebody asked for it to be kept.
    pub keep_until: Option<Timestamp>,
    pub ignored: Vec<Problem>,
}

/// What is wanted of a machine on demand.
#[derive(Debug, Clone, PartialEq)]
pub struct OnDemandWanted {
    pub intent: intent::OnDemand,
    pub ignored: Vec<Problem>,
}

/// Resolves a group and the configuration.
pub fn group_intent(group: &InstanceGroup, config: &GroupConfig) -> Result<Wanted, Problems> {
    let problems = check_but_budgets(group);
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let spec = &group.spec;
    let meta = &group.metadata;
    let mut notes = Report::default();
    let size = count(spec.size);
    let budgets = spec.budgets.iter().enumerate().map(|(index, wire)| {
        let (budget, problems) = budget(wire, index, size);
        notes.add(problems.into_iter().map(|problem| problem.beneath("spec")));
        budget
    });
    let budgets = budgets.collect();
    let (expiry, ages) = expiry(&spec.expiry, config);
    let intent = intent::Intent {
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        deleting: meta.deletion_timestamp.is_some(),
        paused: says_true(meta, PAUSED),
        observe: says_true(meta, OBSERVE),
        size,
        surge: count(spec.surge),
        min_healthy: spec.min_healthy.map_or(size.saturating_sub(1), count).min(size),
        min_ready: SignedDuration::from_secs(i64::from(spec.min_ready_seconds)),
        trial: config.trial,
        registration_timeout: span(&spec.registration_timeout),
        unhealthy_after: span(&spec.unhealthy_after),
        max_unhealthy: share(&spec.max_unhealthy, size).unwrap_or_default(),
        drain_timeout: drain_timeout(Some(group), config),
        expiry,
        budgets,
        freeze_until: spec
            .freeze_until
            .as_deref()
            .and_then(|text| time(text).ok())
            .map(ceil_second),
        // Machines know only the second in which they were created: none that came after the wish
        // is taken for one that was there before.
        rotate_before: time_in(meta, ROTATE, &mut notes).map(down),
        // Whoever knows what goes on in the other groups says so.
        fleet: None,
        template: template_hash(&spec.template),
    };
    Ok(Wanted { intent, ages, ignored: notes.into_problems() })
}

/// The ages that are in force: the group's where it says something, else the installation's.
fn expiry(wire: &Expiry, config: &GroupConfig) -> (intent::Expiry, Option<String>) {
    let eligible = age(wire.eligible_age.as_ref(), config.expiry.eligible_age);
    let forced = age(wire.forced_age.as_ref(), config.expiry.forced_age);
    let wrong = out_of_order(eligible, forced);
    let words = wrong.then(|| {
        format!(
            "eligibleAge {eligible} is not shorter than forcedAge {forced}: only forcedAge applies; the group and group.yaml say so together"
        )
    });
    let expiry = intent::Expiry {
        eligible: if wrong { Term::Never } else { eligible },
        forced,
        policy: wire.forced_policy.into(),
        forced_surge: count(wire.forced_surge),
        jitter: span(&wire.jitter),
    };
    (expiry, words)
}

fn age(own: Option<&String>, inherited: Term) -> Term {
    own.and_then(|text| grammar::age(text).ok()).unwrap_or(inherited)
}

/// What the drain of a machine may take.
fn drain_timeout(group: Option<&InstanceGroup>, config: &GroupConfig) -> SignedDuration {
    let own = group.and_then(|group| group.spec.drain_timeout.as_ref());
    own.and_then(|text| grammar::pause(text).ok()).unwrap_or(config.default_drain_timeout)
}

/// Resolves a managed machine.
pub fn machine_intent(machine: &Machine) -> Result<MachineWanted, Problems> {
    let mut problems = Report::default();
    problems.add(check_machine(machine));
    let meta = &machine.metadata;
    let created_at = meta.creation_timestamp.as_ref().map(|time| time.0);
    if created_at.is_none() {
        problems.note("metadata.creationTimestamp", "is missing");
    }
    let mut notes = Report::default();
    let machine = created_at.map(|created_at| intent::Machine {
        name: meta.name.as_deref().unwrap_or_default().into(),
        uid: meta.uid.as_deref().unwrap_or_default().into(),
        created_at,
        deleting: meta.deletion_timestamp.is_some(),
        template: made_from(machine).into(),
        kept: kept(meta, created_at, &mut notes),
        drain: time_in(meta, DRAIN, &mut notes).map(ceil_second),
        reply: machine.spec.drain_reply.as_ref().map(|reply| intent::Reply {
            id: reply.id.clone(),
            outcome: reply.outcome.into(),
            message: reply.message.clone(),
        }),
    });
    let machine = problems.finish(machine)?;
    let keep_until = time_in(meta, KEEP_UNTIL, &mut Report::default()).map(ceil_second);
    Ok(MachineWanted { machine, keep_until, ignored: notes.into_problems() })
}

/// Resolves a machine on demand, the group that it names and the configuration.
pub fn on_demand_intent(
    machine: &Machine,
    group: Option<&InstanceGroup>,
    config: &GroupConfig,
) -> Result<OnDemandWanted, Problems> {
    let MachineWanted { machine: wanted, ignored, .. } = machine_intent(machine)?;
    let of_group = group.map(|group| &group.spec);
    let expiry = of_group.map(|spec| spec.expiry.clone()).unwrap_or_default();
    let age_in_force = age(expiry.ondemand_age.as_ref(), config.expiry.ondemand_age);
    let longest = age(expiry.ondemand_max_age.as_ref(), age_in_force);
    let registration = of_group.map(|spec| span(&spec.registration_timeout));
    let intent = intent::OnDemand {
        machine: wanted,
        paused: says_true(&machine.metadata, PAUSED),
        observe: says_true(&machine.metadata, OBSERVE),
        age: age_in_force,
        max_age: longest.max(age_in_force),
        renewed_until: machine
            .spec
            .renewed_until
            .as_deref()
            .and_then(|t| time(t).ok())
            .map(ceil_second),
        warn_before: span(&expiry.ondemand_warn_before),
        registration_timeout: registration.unwrap_or(REGISTRATION_TIMEOUT),
        drain_timeout: drain_timeout(group, config),
        // Whoever knows how its namespace is says so.
        ending: false,
        announced_end: None,
    };
    Ok(OnDemandWanted { intent, ignored })
}

/// How long a machine without a group may take to register.
const REGISTRATION_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// What a machine is made from: its own template, or the group's.
pub fn template_of<'a>(
    machine: &'a Machine,
    group: Option<&'a InstanceGroup>,
) -> Option<&'a MachineTemplate> {
    machine.spec.template.as_ref().or_else(|| group.map(|group| &group.spec.template))
}

/// The hash of what a machine was made from.
fn made_from(machine: &Machine) -> String {
    let own = || machine.spec.template.as_ref().map(template_hash);
    machine.spec.template_hash.clone().or_else(own).unwrap_or_default()
}

/// The strongest of what was asked for.
fn kept(meta: &ObjectMeta, created_at: Timestamp, notes: &mut Report) -> intent::Kept {
    let until = time_in(meta, KEEP_UNTIL, notes).map(ceil_second);
    let undisturbed = match annotation(meta, DO_NOT_DISRUPT).map(str::trim) {
        None | Some("" | "false") => None,
        Some("true") => return intent::Kept::Always,
        Some(text) => match text.parse::<Term>() {
            Ok(Term::Never) => return intent::Kept::Always,
            Ok(Term::Span(span)) => Some(created_at.checked_add(span).unwrap_or(Timestamp::MAX)),
            Err(_) => {
                let what = "`true`, or a span from its creation on such as 4h";
                notes.note(path_of(DO_NOT_DISRUPT), ignored(text, what));
                None
            }
        },
    };
    until.max(undisturbed).map_or(intent::Kept::No, intent::Kept::Until)
}

/// The time in an annotation. One that is none says nothing.
fn time_in(meta: &ObjectMeta, name: &str, notes: &mut Report) -> Option<Timestamp> {
    let text = annotation(meta, name).filter(|text| !text.trim().is_empty())?;
    let read = time(text).ok();
    if read.is_none() {
        notes.note(path_of(name), ignored(text, "a time such as 2026-11-17T09:00:00Z"));
    }
    read
}

/// The whole second that a time is in.
fn down(at: Timestamp) -> Timestamp {
    let whole = ceil_second(at);
    if whole > at { whole.checked_sub(SignedDuration::from_secs(1)).unwrap_or(at) } else { whole }
}

/// What was checked before is a span.
fn span(text: &str) -> SignedDuration {
    grammar::pause(text).unwrap_or_default()
}

/// What was checked before is none too few.
fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

impl From<ForcedPolicy> for intent::ForcedPolicy {
    fn from(policy: ForcedPolicy) -> Self {
        match policy {
            ForcedPolicy::ReplaceFirst => Self::ReplaceFirst,
            ForcedPolicy::DrainAnyway => Self::DrainAnyway,
            ForcedPolicy::TerminateAnyway => Self::TerminateAnyway,
        }
    }
}

#[cfg(test)]
mod tests;
