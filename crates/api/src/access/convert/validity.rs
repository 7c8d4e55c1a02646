//! What makes an escalation or a session a sensible one. The schemas say the same, but for what depends on the
//! options: groups of Kubernetes' own, and how long an API server answers without asking.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use sojourn_core::access::{Allowed, Approvers, Terms};

use crate::access::config::{AccessConfig, SYSTEM};
use crate::access::escalation::{
    self as wire, BreakglassEscalationSpec, MAX_CLUSTERS, MAX_PRINCIPALS, NOBODY_APPROVES,
    NOBODY_ASKS, TOO_FEW,
};
use crate::access::session::BreakglassSessionSpec;
use crate::access::terms::check_idle_timeout;
use crate::grammar::{CLUSTER, Grammar, PRINCIPAL, REFERENCE};
use crate::problem::{Problem, Report};

const MAX_APPROVALS: u32 = 16;
const MAX_SESSIONS: u32 = 1000;

/// What is wrong with an escalation, by itself and by the options.
pub fn check_escalation(spec: &BreakglassEscalationSpec, config: &AccessConfig) -> Vec<Problem> {
    let mut report = Report::default();
    let parts = read_escalation(spec, &mut report);
    if !config.allows_group(&spec.escalated_group) {
        let message = format!(
            "must not be a group that begins with {SYSTEM}, with or without a prefix of groupPrefixes; the option allowedSystemGroups allows one by name"
        );
        report.note("spec.escalatedGroup", message);
    }
    if let Some(parts) = parts {
        let clusters = spec.allowed.clusters.iter().map(String::as_str);
        check_idle_timeout(&parts.terms, false, least(clusters, config), &mut report);
    }
    report.into_problems()
}

/// What is wrong with a session that is to be made, by itself and by the options.
pub fn check_session(spec: &BreakglassSessionSpec, config: &AccessConfig) -> Vec<Problem> {
    let mut report = Report::default();
    let terms = read_session(spec, &mut report);
    if !config.allows_group(&spec.granted_group) {
        let message = format!(
            "must not be a group that begins with {SYSTEM}, with or without a prefix of groupPrefixes"
        );
        report.note("spec.grantedGroup", message);
    }
    if let Some(terms) = terms {
        let clusters = [spec.cluster.as_str()].into_iter();
        check_idle_timeout(&terms, true, least(clusters, config), &mut report);
    }
    report.into_problems()
}

/// The longest of the least idle timeouts of some clusters, with the cluster whose it is.
fn least<'a>(
    clusters: impl Iterator<Item = &'a str>,
    config: &AccessConfig,
) -> (SignedDuration, &'a str) {
    let each = clusters.map(|cluster| (config.least_idle_timeout(cluster), cluster));
    each.max_by_key(|(least, _)| *least).unwrap_or_default()
}

/// The parts of an escalation that are read.
pub(super) struct EscalationParts {
    pub(super) allowed: Allowed,
    pub(super) approvers: Approvers,
    pub(super) terms: Terms,
    pub(super) max_sessions_per_user: Option<u32>,
}

/// What an escalation says, unless something is noted about it.
pub(super) fn read_escalation(
    spec: &BreakglassEscalationSpec,
    report: &mut Report,
) -> Option<EscalationParts> {
    let allowed = read_allowed(&spec.allowed, report);
    report.take("spec.escalatedGroup", PRINCIPAL.check(&spec.escalated_group));
    let approvers = read_approvers(&spec.approvers, report);
    let terms = spec.term_texts().read(report);
    let path = "spec.maxSessionsPerUser";
    let max_sessions_per_user =
        spec.max_sessions_per_user.map(|most| report.take(path, number(most, MAX_SESSIONS)));
    Some(EscalationParts {
        allowed,
        approvers: approvers?,
        terms: terms?,
        max_sessions_per_user: match max_sessions_per_user {
            Some(read) => Some(read?),
            None => None,
        },
    })
}

fn read_allowed(wire: &wire::Allowed, report: &mut Report) -> Allowed {
    let path = "spec.allowed";
    check_principals(path, &wire.users, &wire.groups, NOBODY_ASKS, report);
    let clusters = format!("{path}.clusters");
    if wire.clusters.is_empty() {
        report.note(&clusters, "must have an item: nobody could ask");
    }
    check_names(&clusters, &wire.clusters, (&CLUSTER, MAX_CLUSTERS), report);
    let wire::Allowed { users, groups, clusters } = wire.clone();
    Allowed { users, groups, clusters }
}

fn read_approvers(wire: &wire::Approvers, report: &mut Report) -> Option<Approvers> {
    let path = "spec.approvers";
    check_principals(path, &wire.users, &wire.groups, NOBODY_APPROVES, report);
    let required_path = format!("{path}.required");
    let required = report.take(&required_path, number(wire.required, MAX_APPROVALS))?;
    let users: BTreeSet<_> = wire.users.iter().collect();
    let few = u32::try_from(users.len()).is_ok_and(|users| users < required);
    if wire.groups.is_empty() && !users.is_empty() && few {
        report.note(required_path, TOO_FEW);
    }
    let wire::Approvers { users, groups, self_approval, required: _ } = wire.clone();
    Some(Approvers { users, groups, required, self_approval })
}

fn check_principals(
    path: &str,
    users: &[String],
    groups: &[String],
    nobody: &str,
    report: &mut Report,
) {
    if users.is_empty() && groups.is_empty() {
        report.note(path, nobody);
    }
    for (part, names) in [("users", users), ("groups", groups)] {
        let path = format!("{path}.{part}");
        check_names(&path, names, (&PRINCIPAL, MAX_PRINCIPALS), report);
    }
}

fn check_names(
    path: &str,
    names: &[String],
    (grammar, most): (&Grammar, usize),
    report: &mut Report,
) {
    if names.len() > most {
        report.note(path, format!("must have at most {most} items"));
    }
    let mut seen = BTreeSet::new();
    for (index, name) in names.iter().enumerate() {
        let path = format!("{path}[{index}]");
        report.take(&path, grammar.check(name));
        if !seen.insert(name) {
            report.note(path, "must not repeat another");
        }
    }
}

fn number(wire: i32, most: u32) -> Result<u32, String> {
    let number = u32::try_from(wire).ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("must be from 1 to {most}"))
}

/// The terms of a session, unless something is noted about it.
pub(super) fn read_session(spec: &BreakglassSessionSpec, report: &mut Report) -> Option<Terms> {
    report.take("spec.cluster", CLUSTER.check(&spec.cluster));
    report.take("spec.user", PRINCIPAL.check(&spec.user));
    report.take("spec.grantedGroup", PRINCIPAL.check(&spec.granted_group));
    report.take("spec.escalationRef.name", REFERENCE.check(&spec.escalation_ref.name));
    spec.term_texts().read(report)
}

#[cfg(test)]
mod tests;
