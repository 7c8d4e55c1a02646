//! InstanceGroups: what only words can tell, ages as they would be in force, and templates.

use jiff::Timestamp;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sojourn_api::group::convert::{check_group, group_intent};
use sojourn_api::group::{GroupConfig, InstanceGroup};
use sojourn_api::name::group::{GROUP_FINALIZER, ROTATE};
use sojourn_api::problem::Problem;
use sojourn_core::group::feasible::shortfall;

use super::super::reference::review_references;
use super::super::refusal::{invalid, review_held, unasked};
use super::super::request::{bad_times, part, typed};
use super::super::webhook::expression;
use super::GROUPS;
use super::marks::{HOLD_ANNOTATIONS, held_paths, hold};
use super::provider::Providers;
use super::template_rule::{Answers, Needs, TemplateRule, pod_reference};

const TIME_ANNOTATIONS: [&str; 1] = [ROTATE];

pub(in crate::admission) fn rule(providers: Providers) -> TemplateRule {
    TemplateRule { resource: GROUPS, is_reviewed, needs, review, providers }
}

fn needs(request: &AdmissionRequest<DynamicObject>) -> Needs {
    let held_paths = held_paths(request, GROUP_FINALIZER);
    let mut needs = Needs { hold: hold(request, &held_paths, GROUPS), ..Needs::default() };
    let (new, old) = part(request, "/spec");
    needs.config = new != old;
    let (new, old) = part(request, "/spec/template");
    if new != old {
        needs.template = new.and_then(|template| serde_json::from_value(template).ok());
    }
    needs.references.extend(pod_reference(request, needs.template.as_ref()));
    needs
}

fn review(request: &AdmissionRequest<DynamicObject>, answers: &Answers) -> AdmissionResponse {
    let mut problems = bad_times(request, &TIME_ANNOTATIONS);
    let mut warnings = Vec::new();
    let needs = needs(request);
    if needs.config {
        let group = match typed::<InstanceGroup>(request.object.as_ref()) {
            Ok(group) => group,
            Err(problem) => return invalid(request, &[problem]),
        };
        let old = typed::<InstanceGroup>(request.old_object.as_ref()).ok();
        problems.extend(new_problems(&group, old.as_ref(), check_group));
        match &answers.config {
            Some(Ok(config)) => {
                problems.extend(new_problems(&group, old.as_ref(), |group| ages(group, config)));
                warnings.extend(shortfall_warning(&group, config));
            }
            Some(Err(why)) => {
                let said = "its ages were not compared with those of the installation";
                warnings.push(format!("the configuration cannot be read, so {said}: {why}"));
            }
            None => return unasked(request, &["spec".to_owned()]),
        }
    }
    if needs.template.is_some() {
        let Some(found) = &answers.template else {
            return unasked(request, &["spec.template".to_owned()]);
        };
        problems.extend(found.iter().map(|problem| problem.clone().beneath("spec.template")));
        problems.dedup();
    }
    if !problems.is_empty() {
        return invalid(request, &problems);
    }
    if let Some(refused) = review_references(request, &needs.references, &answers.permitted) {
        return refused;
    }
    let held_paths = held_paths(request, GROUP_FINALIZER);
    let mut response = review_held(request, &held_paths, answers.hold.as_ref());
    response.warnings = Some(warnings).filter(|warnings| !warnings.is_empty());
    response
}

/// What is wrong with the object and was not wrong with it before: one that is bad already can
/// still be changed elsewhere. Names are the schema's business.
fn new_problems<T>(new: &T, old: Option<&T>, check: impl Fn(&T) -> Vec<Problem>) -> Vec<Problem> {
    let before = old.map(&check).unwrap_or_default();
    let mut problems = check(new);
    problems.retain(|problem| !before.contains(problem) && problem.path != "metadata.name");
    problems
}

/// What is wrong with the ages that would be in force.
fn ages(group: &InstanceGroup, config: &GroupConfig) -> Vec<Problem> {
    let wanted = group_intent(group, config).ok();
    let words = wanted.and_then(|wanted| wanted.ages);
    words.map(|words| Problem::new("spec.expiry", words)).into_iter().collect()
}

/// What a group would not manage before its machines are forced, in words.
fn shortfall_warning(group: &InstanceGroup, config: &GroupConfig) -> Option<String> {
    let intent = group_intent(group, config).ok()?.intent;
    // Windows come back, so any time tells as much as another; this one is always the same.
    let created_at = group.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let short = shortfall(&intent, created_at.unwrap_or(Timestamp::UNIX_EPOCH))?;
    Some(format!("spec.expiry.forcedAge: {short}"))
}

/// An expression: something of an InstanceGroup that we review is not as it was.
fn is_reviewed() -> String {
    let mut all = expression::any_changes(HOLD_ANNOTATIONS.into_iter().chain(TIME_ANNOTATIONS));
    all.push("oldObject == null || object.spec != oldObject.spec".to_owned());
    all.push(expression::removes_finalizer(GROUP_FINALIZER));
    all.join(" || ")
}
