//! Instances and Templates: marks that only some people may set, and what binds an exam.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use serde_json::Value;
use sojourn_api::lab::convert::alerts;
use sojourn_api::name::LAB_GROUP;
use sojourn_api::name::lab::{
    CUSTOM_ALERTS, FINALIZER, SUBMISSION_REQUEST, SUBMISSION_RETRY, SUBMISSION_WAIVE,
};
use sojourn_api::name::shared::{KEEP_UNTIL, OBSERVE, PAUSED};

use super::rule::{
    Answers, Needs, bad_times, changed, changed_marks, invalid, judge_held, part, path_of,
    releases, to_hold, value,
};
use super::webhook::expression;

pub(super) const INSTANCES: &str = "instances";
pub(super) const TEMPLATES: &str = "templates";

/// Annotations of an Instance that take it out of its owner's hands.
const HELD: [&str; 3] = [PAUSED, OBSERVE, SUBMISSION_WAIVE];
/// Annotations of an Instance that are times.
const TIMES: [&str; 4] = [KEEP_UNTIL, SUBMISSION_REQUEST, SUBMISSION_RETRY, SUBMISSION_WAIVE];

/// Parts of an Instance's spec that bind its owner once they are there.
const BINDING: [&str; 2] = ["statusCheck", "submission"];

/// Which permissions an Instance's change needs.
pub(super) fn needs(request: &AdmissionRequest<DynamicObject>) -> Needs {
    let hold = (!held(request).is_empty()).then(|| to_hold(request, (LAB_GROUP, INSTANCES)));
    Needs { hold, ..Needs::default() }
}

pub(super) fn judge_instance(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> AdmissionResponse {
    let problems = bad_times(request, &TIMES);
    if !problems.is_empty() {
        return invalid(request, &problems);
    }
    judge_held(request, &held(request), answers.hold.as_ref())
}

/// The paths that a request changes and that only those who may `hold` can change.
fn held(request: &AdmissionRequest<DynamicObject>) -> Vec<String> {
    let released = gives_up(request).then(|| "metadata.finalizers".to_owned());
    let bound = BINDING.into_iter().filter(|part| loosens(request, part));
    let bound = bound.map(|part| format!("spec.{part}"));
    changed_marks(request, &HELD).chain(released).chain(bound).collect()
}

/// Whether the request takes away what keeps an Instance until its data is handed in.
fn gives_up(request: &AdmissionRequest<DynamicObject>) -> bool {
    let (_, submission) = part(request, "/spec/submission");
    submission.as_ref().is_some_and(Value::is_object) && releases(request, FINALIZER)
}

/// Whether the request changes what an exam was begun with.
fn loosens(request: &AdmissionRequest<DynamicObject>, name: &str) -> bool {
    let (new, old) = part(request, &format!("/spec/{name}"));
    old.is_some() && old != new
}

pub(super) fn judge_template(request: &AdmissionRequest<DynamicObject>) -> AdmissionResponse {
    let mut response = AdmissionResponse::from(request);
    let text = value(request.object.as_ref(), CUSTOM_ALERTS);
    if let Err(why) = alerts(text)
        && !text.is_empty()
        && changed(request, CUSTOM_ALERTS)
    {
        response.warnings = Some(vec![format!("{}: {why}", path_of(CUSTOM_ALERTS))]);
    }
    response
}

/// An expression: something of an Instance that we judge is not as it was.
pub(super) fn instance_is_judged() -> String {
    let mut all = expression::any_changes(HELD.into_iter().chain(TIMES));
    all.push(expression::releases(FINALIZER));
    all.extend(BINDING.map(expression::loosens));
    all.join(" || ")
}

/// An expression: something of a Template that we judge is not as it was.
pub(super) fn template_is_judged() -> String {
    expression::any_changes([CUSTOM_ALERTS]).join(" || ")
}
