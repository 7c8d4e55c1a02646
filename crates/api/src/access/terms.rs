//! The times that both kinds have: a session's are copied from its escalation.

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sojourn_core::access::{self as domain, Terms};
use sojourn_core::term::Term;

use crate::grammar::{seconds_expression, year_age, year_span, year_span_rules};
use crate::problem::Report;
use crate::schema::rule_at;

/// Nothing is found to be unused sooner.
const MIN_IDLE_TIMEOUT: SignedDuration = SignedDuration::from_mins(1);
const EXTENSIONS: std::ops::RangeInclusive<i32> = 1..=1000;

const ABOVE_VALIDITY: &str = "must not be longer than maxValidFor";
const TOO_SHORT: &str = "must be at least 1m";

/// How a session can be extended by its user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Extension {
    /// How often.
    #[schemars(range(min = 1, max = 1000))]
    pub max: i32,
    /// By how long each time.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = year_span_rules()))]
    pub step: String,
}

pub(super) fn max_valid_for() -> String {
    "1h".to_owned()
}

pub(super) fn approval_timeout() -> String {
    "1h".to_owned()
}

pub(super) fn warn_before() -> String {
    "5m".to_owned()
}

pub(super) fn retain_for() -> String {
    "720h".to_owned()
}

/// Rules of a spec as a whole, about times that depend on one another. The idle timeout of a session may be
/// shorter than the least where it is all of its time: a shorter time was asked for, and it is never idle.
pub(super) fn rules(may_be_clamped: bool) -> Value {
    // Whatever is no term is told by its own field.
    let (idle, valid) = (seconds_expression("self.idleTimeout"), max_valid_for_seconds());
    let none = "!has(self.idleTimeout) || self.idleTimeout == 'never'";
    let clamped = if may_be_clamped { format!(" || {idle} == {valid}") } else { String::new() };
    let least = MIN_IDLE_TIMEOUT.as_secs();
    json!([
        rule_at(&format!("{none} || {idle} <= {valid}"), ".idleTimeout", ABOVE_VALIDITY),
        rule_at(&format!("{none} || {idle} >= {least}.0{clamped}"), ".idleTimeout", TOO_SHORT),
    ])
}

fn max_valid_for_seconds() -> String {
    seconds_expression("self.maxValidFor")
}

/// The times of a spec, as they are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct TermTexts<'a> {
    pub(super) max_valid_for: &'a str,
    pub(super) approval_timeout: &'a str,
    pub(super) idle_timeout: Option<&'a str>,
    pub(super) first_use_timeout: Option<&'a str>,
    pub(super) warn_before: &'a str,
    pub(super) extension: Option<&'a Extension>,
    pub(super) retain_for: &'a str,
}

impl TermTexts<'_> {
    /// What they mean, unless something is noted about one of them.
    pub(super) fn read(&self, report: &mut Report) -> Option<Terms> {
        let max_valid_for = report.take("spec.maxValidFor", year_span(self.max_valid_for));
        let approval_timeout =
            report.take("spec.approvalTimeout", year_span(self.approval_timeout));
        let idle_timeout = self.idle_timeout.map_or(Ok(Term::Never), year_age);
        let idle_timeout = report.take("spec.idleTimeout", idle_timeout);
        let first_use_timeout = self.first_use_timeout.map(year_age).transpose();
        let first_use_timeout = report.take("spec.firstUseTimeout", first_use_timeout);
        let warn_before = report.take("spec.warnBefore", year_span(self.warn_before));
        let extension = self.extension.map(|extension| read_extension(extension, report));
        let retain_for = report.take("spec.retainFor", year_span(self.retain_for));
        Some(Terms {
            max_valid_for: max_valid_for?,
            approval_timeout: approval_timeout?,
            idle_timeout: idle_timeout?,
            first_use_timeout: first_use_timeout?,
            warn_before: warn_before?,
            extension: match extension {
                Some(read) => Some(read?),
                None => None,
            },
            retain_for: retain_for?,
        })
    }
}

fn read_extension(wire: &Extension, report: &mut Report) -> Option<domain::Extension> {
    let step = report.take("spec.extension.step", year_span(&wire.step));
    let (least, most) = (EXTENSIONS.start(), EXTENSIONS.end());
    let max = u32::try_from(wire.max).ok().filter(|_| EXTENSIONS.contains(&wire.max));
    let max = max.ok_or_else(|| format!("must be from {least} to {most}"));
    let max = report.take("spec.extension.max", max);
    Some(domain::Extension { max: max?, step: step? })
}

/// What is wrong with an idle timeout beside the others: it must not end what is in use, by `least`.
pub(super) fn check_idle_timeout(
    terms: &Terms,
    may_be_clamped: bool,
    least: (SignedDuration, &str),
    report: &mut Report,
) {
    let Term::Span(idle) = terms.idle_timeout else { return };
    let path = "spec.idleTimeout";
    if idle > terms.max_valid_for {
        let valid = Term::Span(terms.max_valid_for);
        report.note(path, format!("{ABOVE_VALIDITY}, which is {valid}"));
    }
    if may_be_clamped && idle == terms.max_valid_for {
        return;
    }
    if idle < MIN_IDLE_TIMEOUT {
        report.note(path, TOO_SHORT);
        return;
    }
    let (least, cluster) = least;
    if idle < least {
        let least = Term::Span(least);
        report.note(
            path,
            format!(
                "must be at least {least}: the API server of the cluster {cluster} answers for a while without asking (authorizedTTL), and what it answers is not seen as use"
            ),
        );
    }
}
