//! The status of a Job: what its controller reports, kept free of contradictions.
//!
//! Upstream looks at most rules only when a part that they speak of changes, so that a Job that
//! breaks one of them already can still be written. So does this.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;

use super::super::grammar::{Errors, invalid_unprinted, non_negative};
use super::{INDEXED, index_list};
use crate::field::{FieldError, Path};
use crate::json::{Access, Object};

pub(super) fn has_condition(job: &Object, kind: &str, status: &str) -> bool {
    let conditions = job.at("status").list("conditions");
    conditions.iter().any(|c| c.text("type") == kind && c.text("status") == status)
}

/// What is said about a Job by its conditions.
struct JobOutcome {
    complete: bool,
    failed: bool,
    failure_target: bool,
    criteria_met: bool,
}

impl JobOutcome {
    fn of(job: &Object) -> Self {
        let is = |kind: &str| has_condition(job, kind, "True");
        Self {
            complete: is("Complete"),
            failed: is("Failed"),
            failure_target: is("FailureTarget"),
            criteria_met: is("SuccessCriteriaMet"),
        }
    }

    const fn finished(&self) -> bool {
        self.complete || self.failed
    }
}

pub(super) fn validate(errors: &mut Errors, new: &Object, old: &Object) {
    let (now, before) = (JobOutcome::of(new), JobOutcome::of(old));
    counters(errors, new.at("status"));
    times_and_outcome(errors, new, old, &now, &before);
    indexes(errors, new, old);
    running(errors, new, old, &now, &before);
    criteria(errors, new, &now);
    steps(errors, new, old, &now, &before);
}

fn number(status: &Value, member: &str) -> i64 {
    status.int(member).unwrap_or_default()
}

fn counters(errors: &mut Errors, status: &Value) {
    let path = Path::new("status");
    for member in ["active", "succeeded", "failed", "ready", "terminating"] {
        non_negative(errors, &path.field(member), status.int(member));
    }
    let pods = status.at("uncountedTerminatedPods");
    let at = path.field("uncountedTerminatedPods");
    let mut seen = HashSet::new();
    for member in ["succeeded", "failed"] {
        let at = at.field(member);
        for (i, uid) in pods.list(member).iter().enumerate() {
            let at = at.index(i);
            let uid = uid.as_str().unwrap_or_default();
            if uid.is_empty() {
                errors.push(FieldError::invalid_text(&at, uid, "must not be empty"));
            } else if !seen.insert(uid) {
                errors.push(FieldError::duplicate(&at, &uid.into()));
            }
        }
    }
}

fn times_and_outcome(
    errors: &mut Errors,
    new: &Object,
    old: &Object,
    now: &JobOutcome,
    before: &JobOutcome,
) {
    let path = Path::new("status");
    let conditions = path.field("conditions");
    let (status, old_status) = (new.at("status"), old.at("status"));
    let changed = |member: &str| status.at(member) != old_status.at(member);
    let completed = now.complete != before.complete;
    if now.complete && now.failed && (completed || now.failed != before.failed) {
        let detail = "cannot set Complete=True and Failed=true conditions";
        errors.push(invalid_unprinted(&conditions, detail));
    }
    if now.complete
        && now.failure_target
        && (completed || now.failure_target != before.failure_target)
    {
        let detail = "cannot set Complete=True and FailureTarget=true conditions";
        errors.push(invalid_unprinted(&conditions, detail));
    }
    let end = status.at("completionTime");
    let at = path.field("completionTime");
    if completed || changed("completionTime") {
        if !end.is_null() && !now.complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            errors.push(FieldError::invalid(&at, end, detail));
        }
        if end.is_null() && now.complete {
            let detail = "completionTime is required for Complete jobs";
            errors.push(FieldError::required(&at, detail));
        }
    }
    if changed("startTime") || changed("completionTime") {
        let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
        if let (Some(start), Some(end_time)) = (time(status.at("startTime")), time(end))
            && end_time < start
        {
            errors.push(FieldError::invalid(&at, end, "must be equal to or after `startTime`"));
        }
    }
    let failing = now.failed != before.failed || changed("failedIndexes");
    if failing && now.failed && !now.failure_target {
        let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
        errors.push(invalid_unprinted(&conditions, detail));
    }
    let met = completed || now.criteria_met != before.criteria_met;
    if met && now.complete && !now.criteria_met {
        let detail =
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.push(invalid_unprinted(&conditions, detail));
    }
    finished(errors, new, old, now, before);
}

fn finished(
    errors: &mut Errors,
    new: &Object,
    old: &Object,
    now: &JobOutcome,
    before: &JobOutcome,
) {
    if !now.finished() {
        return;
    }
    let path = Path::new("status");
    let (spec, status, old_status) = (new.at("spec"), new.at("status"), old.at("status"));
    let just = now.finished() != before.finished();
    let changed = |member: &str| just || status.at(member) != old_status.at(member);
    let active = number(status, "active");
    if changed("active") && active > 0 {
        let detail = "active>0 is invalid for finished job";
        errors.push(FieldError::invalid(&path.field("active"), &active.into(), detail));
    }
    let nothing_to_do = spec.flag("suspend") && spec.int("completions") == Some(0);
    if changed("startTime") && !nothing_to_do && status.at("startTime").is_null() {
        let detail = "startTime is required for finished job";
        errors.push(FieldError::required(&path.field("startTime"), detail));
    }
    let pods = status.at("uncountedTerminatedPods");
    let uncounted = pods.list("succeeded").len() + pods.list("failed").len();
    if changed("uncountedTerminatedPods") && uncounted > 0 {
        let at = path.field("uncountedTerminatedPods");
        let texts = |member: &str| match pods.at(member) {
            Value::Null => "null".to_owned(),
            list => list.to_string(),
        };
        let shown =
            format!(r#"{{"Succeeded":{},"Failed":{}}}"#, texts("succeeded"), texts("failed"));
        errors.push(FieldError::invalid_raw(&at, shown, "must be empty for finished job"));
    }
}

fn indexes(errors: &mut Errors, new: &Object, old: &Object) {
    let path = Path::new("status");
    let (spec, status, old_status) = (new.at("spec"), new.at("status"), old.at("status"));
    let (completed, failed) = (status.text("completedIndexes"), status.at("failedIndexes"));
    let completed_changed = completed != old_status.text("completedIndexes");
    let failed_changed = failed != old_status.at("failedIndexes");
    let completions = spec.int("completions");
    let per_index = !spec.at("backoffLimitPerIndex").is_null();
    let completed_path = path.field("completedIndexes");
    let failed_path = path.field("failedIndexes");
    let failed = failed.as_str();
    let mut parse = |at: &Path<'_>, member: &str, list: &str| {
        let Some(completions) = completions else {
            return;
        };
        if let Err(error) = index_list::count(list, completions) {
            let detail = format!("error parsing {member}: {error}");
            errors.push(FieldError::invalid_text(at, list, detail));
        }
    };
    if completed_changed {
        parse(&completed_path, "completedIndexes", completed);
    }
    if let Some(failed) = failed.filter(|_| failed_changed && per_index) {
        parse(&failed_path, "failedIndexes", failed);
    }
    if completed_changed && !completed.is_empty() && spec.text("completionMode") != INDEXED {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.push(FieldError::invalid_text(&completed_path, completed, detail));
    }
    let Some(failed) = failed else { return };
    if failed_changed && !per_index {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.push(FieldError::invalid_text(&failed_path, failed, detail));
    }
    if let Some(completions) = completions.filter(|_| completed_changed || failed_changed)
        && let Some(index) = index_list::overlap(completed, failed, completions)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.push(FieldError::invalid_text(&failed_path, failed, detail));
    }
}

fn running(errors: &mut Errors, new: &Object, old: &Object, now: &JobOutcome, before: &JobOutcome) {
    let path = Path::new("status");
    let (status, old_status) = (new.at("status"), old.at("status"));
    let changed = |member: &str| status.at(member) != old_status.at(member);
    let terminating = number(status, "terminating");
    let just = now.finished() != before.finished();
    if (just || changed("terminating")) && now.finished() && terminating > 0 {
        let detail = "terminating>0 is invalid for finished job";
        errors.push(FieldError::invalid(&path.field("terminating"), &terminating.into(), detail));
    }
    let ready = status.int("ready").filter(|ready| *ready > number(status, "active"));
    if let Some(ready) = ready.filter(|_| changed("ready") || changed("active")) {
        let detail = "cannot set more ready pods than active";
        errors.push(FieldError::invalid(&path.field("ready"), &ready.into(), detail));
    }
}

fn criteria(errors: &mut Errors, new: &Object, now: &JobOutcome) {
    let path = Path::new("status");
    let at = path.field("conditions");
    let unmet = !new.at("spec").at("successPolicy").is_null() && !now.criteria_met && now.complete;
    for (wrong, detail) in [
        (
            now.criteria_met && now.failed,
            "cannot set SuccessCriteriaMet=True and Failed=true conditions",
        ),
        (
            now.criteria_met && now.failure_target,
            "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ),
        (
            unmet,
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        ),
    ] {
        if wrong {
            errors.push(invalid_unprinted(&at, detail));
        }
    }
}

/// What must not be taken back.
fn steps(errors: &mut Errors, new: &Object, old: &Object, now: &JobOutcome, before: &JobOutcome) {
    let path = Path::new("status");
    let conditions = path.field("conditions");
    for (was, is, kind) in [
        (before.failed, now.failed, "Failed"),
        (before.complete, now.complete, "Complete"),
        (before.failure_target, now.failure_target, "FailureTarget"),
    ] {
        if was && !is {
            let detail = format!("cannot disable the terminal {kind}=True condition");
            errors.push(invalid_unprinted(&conditions, detail));
        }
    }
    let (spec, status, old_status) = (new.at("spec"), new.at("status"), old.at("status"));
    let scaled =
        spec.text("completionMode") == INDEXED && spec.at("completions") == spec.at("parallelism");
    for (member, free) in [("failed", false), ("succeeded", scaled)] {
        let value = number(status, member);
        if !free && value < number(old_status, member) {
            let detail = format!("cannot decrease the {member} counter");
            errors.push(FieldError::invalid(&path.field(member), &value.into(), detail));
        }
    }
    let (end, old_end) = (status.at("completionTime"), old_status.at("completionTime"));
    if !end.is_null() && !old_end.is_null() && end != old_end {
        errors.push(FieldError::invalid(&path.field("completionTime"), end, "field is immutable"));
    }
    let (start, old_start) = (status.at("startTime"), old_status.at("startTime"));
    let resuming =
        has_condition(old, "Suspended", "True") && has_condition(new, "Suspended", "False");
    if !old_start.is_null() && start != old_start && !resuming && !spec.flag("suspend") {
        let detail = "field is immutable for unsuspended job once set";
        errors.push(FieldError::invalid(&path.field("startTime"), start, detail));
    }
    if before.criteria_met && !now.criteria_met {
        let detail = "cannot disable the SuccessCriteriaMet=True condition";
        errors.push(invalid_unprinted(&conditions, detail));
    }
    if before.complete && !before.criteria_met && now.criteria_met {
        let detail =
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        errors.push(invalid_unprinted(&conditions, detail));
    }
}
