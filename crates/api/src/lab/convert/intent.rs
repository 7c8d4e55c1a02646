//! What is wanted of an Instance, out of everything that says something about it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use sojourn_core::activity::Source;
use sojourn_core::lab::ending::needs_submission_if;
use sojourn_core::lab::intent::{
    CheckTarget as Target, EnvironmentEligibility, ExpirationPolicy, InactivityPolicy, Intent,
    StatusCheck, SubmissionPolicy, SubmissionScope, TerminationPolicy,
};
use sojourn_core::lab::waking::PowerIntent;
use sojourn_core::term::Term;

use super::state::read_state;
use super::validity::{self, Terms, check_instance, check_template, check_tenant};
use crate::annotation::{annotation, says_true};
use crate::grammar;
use crate::lab::config::LabConfig;
use crate::lab::instance::{CheckMode, Instance, StatusCheck as WireCheck, SubmissionTime};
use crate::lab::template::Template;
use crate::lab::tenant::Tenant;
use crate::name::lab::{
    EXPIRATION_IGNORE, INACTIVITY_IGNORE, NOTICE_WAIVE, REOPEN, SUBMISSION_REQUEST,
    SUBMISSION_RETRY, SUBMISSION_WAIVE,
};
use crate::name::shared::{KEEP_UNTIL, OBSERVE, PAUSED};
use crate::problem::{Problem, Problems, Report};
use sojourn_core::moment::ceil_second;

/// A status is not looked at more often than this.
const MIN_CHECK_INTERVAL: SignedDuration = SignedDuration::from_secs(1);

/// A mail server that takes longer than this to accept a warning moves the deadline of that warning.
const DELIVERY_TIME: SignedDuration = SignedDuration::from_secs(3);

/// What a Namespace has opted out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OptOuts {
    pub inactivity: bool,
    pub expiration: bool,
}

impl OptOuts {
    /// `true` as label or as annotation, in either place, is an opt-out.
    pub fn of(labels: &BTreeMap<String, String>, annotations: &BTreeMap<String, String>) -> Self {
        let said = |name: &str| {
            [labels, annotations].iter().any(|map| map.get(name).is_some_and(|v| v == "true"))
        };
        Self { inactivity: said(INACTIVITY_IGNORE), expiration: said(EXPIRATION_IGNORE) }
    }
}

/// Resolves an Instance, its Template, its Namespace and the configuration. Without its Template
/// an Instance is never unused and never expires, but its end is still looked for.
pub fn intent(
    instance: &Instance,
    template: Option<&Template>,
    opt_outs: OptOuts,
    config: &LabConfig,
) -> Result<Intent, Problems> {
    let mut report = Report::default();
    report.add(check_instance(instance));
    let beneath = |problem: Problem| problem.beneath("template");
    report.add(template.map(check_template).unwrap_or_default().into_iter().map(beneath));
    let meta = &instance.metadata;
    let created_at = meta.creation_timestamp.as_ref().map(|time| time.0);
    if created_at.is_none() {
        report.note("metadata.creationTimestamp", "is missing");
    }
    let terms = terms_of(template);
    let check = instance.spec.status_check.as_ref().and_then(check_of);
    let intent = created_at.map(|created_at| Intent {
        uid: meta.uid.clone().unwrap_or_default(),
        created_at,
        deleting: meta.deletion_timestamp.is_some(),
        running: instance.spec.running,
        paused: says_true(meta, PAUSED),
        observe: says_true(meta, OBSERVE),
        reopen: time_in(instance, REOPEN),
        keep_until: time_in(instance, KEEP_UNTIL),
        persistent: template.is_some_and(|t| t.spec.environment_list.iter().any(|e| e.persistent)),
        inactivity: inactivity(terms, template, opt_outs, config),
        expiration: ExpirationPolicy {
            enabled: config.enable_instance_expiration && !opt_outs.expiration,
            notify: config.enable_expiration_notifications,
            delete_after: terms.delete_after,
            interval: config.expiration_notification_interval,
            margin: config.margin,
        },
        termination: TerminationPolicy { enabled: config.enable_instance_termination, check },
        submission: submission(instance, template, config),
        on_undeliverable: config.on_undeliverable,
        notices_waived: time_in(instance, NOTICE_WAIVE),
        delivery: DELIVERY_TIME,
    });
    report.finish(intent)
}

/// Whether anything of an Instance still has to be handed in before it may go, by its own status.
pub fn needs_submission(instance: &Instance) -> bool {
    let submission = instance.spec.submission.as_ref();
    let always = submission.is_some_and(|one| one.when == SubmissionTime::OnTermination);
    needs_submission_if(&read_state(instance.status.as_ref()), always)
}

/// What of an Instance matters to whoever comes to use it.
pub fn power_intent(instance: &Instance) -> PowerIntent {
    PowerIntent {
        running: instance.spec.running,
        deleting: instance.metadata.deletion_timestamp.is_some(),
    }
}

fn inactivity(
    terms: Terms,
    template: Option<&Template>,
    opt_outs: OptOuts,
    config: &LabConfig,
) -> InactivityPolicy {
    let annotated = template.and_then(validity::custom_alerts);
    let specified = template.and_then(|t| t.spec.max_alerts).and_then(|n| u32::try_from(n).ok());
    InactivityPolicy {
        enabled: config.enable_instance_inactive_termination,
        opted_out: opt_outs.inactivity,
        notify: config.enable_inactivity_notifications,
        stop_after: terms.stop_after,
        delete_after_stopped: terms.delete_after_stopped,
        max_alerts: annotated
            .or(specified)
            .unwrap_or(config.inactive_termination_max_number_of_alerts),
        interval: config.inactive_termination_notification_interval,
        margin: config.margin,
        tick: config.activity_interval,
    }
}

fn terms_of(template: Option<&Template>) -> Terms {
    // What cannot be read is told by the check of the Template.
    let read = template.and_then(|t| validity::terms(&t.spec, &mut Report::default()));
    read.unwrap_or(Terms {
        stop_after: Term::Never,
        delete_after_stopped: Term::Never,
        delete_after: Term::Never,
    })
}

/// What cannot be read is told by the check of the Instance.
fn check_of(check: &WireCheck) -> Option<StatusCheck> {
    let interval = grammar::span(&check.interval).ok()?.max(MIN_CHECK_INTERVAL);
    let confirmations = u32::try_from(check.confirmations).ok()?;
    let target = match mode(check) {
        CheckMode::Contract => Target::Endpoint,
        CheckMode::Reachability => Target::Itself,
    };
    Some(StatusCheck { target, interval, confirmations })
}

fn submission(
    instance: &Instance,
    template: Option<&Template>,
    config: &LabConfig,
) -> SubmissionPolicy {
    let environments = template.map_or(&[][..], |template| &template.spec.environment_list);
    let wanted = instance.spec.submission.as_ref().map(|submission| SubmissionScope {
        on_termination: submission.when == SubmissionTime::OnTermination,
        environments: environments
            .iter()
            .map(|environment| EnvironmentEligibility {
                environment: environment.name.clone(),
                not_because: (!environment.persistent)
                    .then(|| "its data is not persistent".to_owned()),
            })
            .collect(),
    });
    SubmissionPolicy {
        enabled: config.enable_instance_submission,
        wanted,
        requested: time_in(instance, SUBMISSION_REQUEST),
        retried: time_in(instance, SUBMISSION_RETRY),
        waived: time_in(instance, SUBMISSION_WAIVE),
    }
}

/// The time in an annotation; one that is none says nothing. It is rounded as the status is, with
/// which it will be compared.
fn time_in(instance: &Instance, name: &str) -> Option<Timestamp> {
    annotation(&instance.metadata, name)?.trim().parse().ok().map(ceil_second)
}

/// How the status of an Instance is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckTarget {
    /// Ask this URL; the codes are of the form `404`, `2xx` or `200-299`.
    Contract { url: String, timeout: SignedDuration, keep: Vec<String>, end: Vec<String> },
    /// See whether the Instance itself answers.
    Reachability { timeout: SignedDuration },
}

/// Whom to ask about an Instance's status, if anybody.
pub fn check_target(instance: &Instance) -> Option<CheckTarget> {
    let check = instance.spec.status_check.as_ref()?;
    let timeout = grammar::span(&check.timeout).ok()?;
    match mode(check) {
        CheckMode::Reachability => Some(CheckTarget::Reachability { timeout }),
        CheckMode::Contract => Some(CheckTarget::Contract {
            url: check.url.clone()?,
            timeout,
            keep: check.keep_codes.clone(),
            end: check.end_codes.clone(),
        }),
    }
}

/// Without a URL there is nobody to ask but the Instance itself.
fn mode(check: &WireCheck) -> CheckMode {
    let usual = if check.url.is_some() { CheckMode::Contract } else { CheckMode::Reachability };
    check.mode.unwrap_or(usual)
}

/// The sources that must see before anything counts as unused: those that the Template names, or
/// every one that is configured.
pub fn sources(template: Option<&Template>, configured: &[Source]) -> Vec<Source> {
    let named = template.and_then(|template| template.spec.activity_sources.as_ref());
    named.map_or_else(
        || configured.to_vec(),
        |named| named.iter().map(|source| Source::from(*source)).collect(),
    )
}

/// To whom notices go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    pub name: String,
    pub email: String,
}

pub fn recipient(tenant: &Tenant) -> Result<Recipient, Problems> {
    let problems = check_tenant(tenant);
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let spec = &tenant.spec;
    let name = [spec.first_name.trim(), spec.last_name.trim()].join(" ").trim().to_owned();
    Ok(Recipient { name, email: spec.email.clone() })
}

#[cfg(test)]
mod tests;
