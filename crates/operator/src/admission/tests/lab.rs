//! Instances and Templates.

use super::*;
use crate::admission::lab::instance::{Answers, InstanceRule, Needs};
use crate::admission::lab::template::TemplateRule;

pub(super) fn needs(request: &AdmissionRequest<DynamicObject>) -> Needs {
    needs_of(&InstanceRule, request)
}

pub(super) fn review(
    request: &AdmissionRequest<DynamicObject>,
    answers: &Answers,
) -> AdmissionResponse {
    review_of(&InstanceRule, request, answers)
}

pub(super) fn answered(hold: Result<bool, String>) -> Answers {
    Answers { hold: Some(hold), ..Answers::default() }
}

#[test]
fn marks_that_hold_an_instance_need_the_verb() {
    for mark in ["sojourn.dev/paused", "sojourn.dev/observe"] {
        let set = of_instance(instance(json!({ mark: "true" })), instance(json!({})));
        let unset = of_instance(instance(json!({})), instance(json!({ mark: "true" })));
        let created = of_instance(instance(json!({ mark: "true" })), Value::Null);
        for request in [set, unset, created] {
            let permission = Permission {
                verb: "hold",
                group: LAB_GROUP,
                resource: "instances",
                subresource: None,
                namespace: "lab".to_owned(),
                name: Some("one".to_owned()),
            };
            assert_eq!(needs(&request), Needs { hold: Some(permission), ..Needs::default() });
            assert!(review(&request, &answered(Ok(true))).allowed);
            let refused = review(&request, &answered(Ok(false)));
            assert!(!refused.allowed);
            assert_eq!(refused.result.code, 403);
            assert_eq!(fields(&refused), [format!("metadata.annotations[{mark}]")]);
            assert!(refused.result.message.contains("ada needs the verb `hold`"));
        }
    }
}

#[test]
fn giving_up_what_is_to_be_handed_in_needs_the_verb() {
    let finalized = |submission: Value, finalizers: Value| {
        let mut object = instance(json!({}));
        object["spec"]["submission"] = submission;
        object["metadata"]["finalizers"] = finalizers;
        object
    };
    let ours = || json!(["lab.sojourn.dev/instance"]);
    let submits = || json!({ "url": "https://x/" });
    let freed = of_instance(finalized(submits(), json!([])), finalized(submits(), ours()));
    assert!(needs(&freed).hold.is_some());
    assert_eq!(fields(&review(&freed, &answered(Ok(false)))), ["metadata.finalizers"]);
    assert!(review(&freed, &answered(Ok(true))).allowed);
    // Taking the submission out in the same breath does not help.
    let both = of_instance(finalized(Value::Null, json!([])), finalized(submits(), ours()));
    assert!(needs(&both).hold.is_some());
    let kept = of_instance(finalized(submits(), ours()), finalized(submits(), ours()));
    assert_eq!(needs(&kept), Needs::default());
    let nothing = of_instance(finalized(Value::Null, json!([])), finalized(Value::Null, ours()));
    assert_eq!(needs(&nothing), Needs::default());
}

#[test]
fn what_cannot_be_found_out_is_refused() {
    let request = of_instance(instance(json!({ "sojourn.dev/paused": "true" })), Value::Null);
    let unknown = review(&request, &answered(Err("the API is away".to_owned())));
    assert!(!unknown.allowed && unknown.result.message.contains("the API is away"));
    assert_eq!(unknown.result.code, 503);
    assert!(!review(&request, &Answers::default()).allowed);
}

#[test]
fn other_changes_need_nothing() {
    let mark = json!({ "sojourn.dev/paused": "true", "other": "1" });
    let mut changed = mark.clone();
    changed["other"] = json!("2");
    let request = of_instance(instance(changed), instance(mark.clone()));
    assert_eq!(needs(&request), Needs::default());
    assert!(review(&request, &Answers::default()).allowed);

    let mut status = of_instance(instance(mark.clone()), instance(json!({})));
    status.sub_resource = Some("status".to_owned());
    assert_eq!(needs(&status), Needs::default());
    let tenant = request_of_another_kind(mark);
    assert_eq!(needs(&tenant), Needs::default());
}

fn request_of_another_kind(annotations: Value) -> AdmissionRequest<DynamicObject> {
    request((LAB_GROUP, "tenants"), instance(annotations), Value::Null)
}

#[test]
fn times_must_be_times() {
    for name in ["sojourn.dev/keep-until", "lab.sojourn.dev/submission-request"] {
        let reviewed = |text: &str| {
            let request = of_instance(instance(json!({ name: text })), instance(json!({})));
            review(&request, &Answers::default())
        };
        assert!(reviewed("2026-11-17T09:00:00Z").allowed);
        assert!(reviewed("2026-11-17T10:00:00+01:00").allowed);
        let refused = reviewed("tomorrow");
        assert!(!refused.allowed);
        assert_eq!(fields(&refused), [format!("metadata.annotations[{name}]")]);
    }
}

#[test]
fn a_number_of_alerts_that_is_none_is_admitted_with_a_warning() {
    let reviewed = |text: &str| {
        let mut template = instance(json!({ "lab.sojourn.dev/custom-number-alerts": text }));
        template["kind"] = json!("Template");
        template["spec"] = json!({ "environmentList": [] });
        let request = request((LAB_GROUP, "templates"), template, Value::Null);
        review_of(&TemplateRule, &request, &Permissions::default())
    };
    assert_eq!(reviewed("4").warnings, None);
    let warned = reviewed("many");
    assert!(warned.allowed);
    assert_eq!(
        warned.warnings.as_deref(),
        Some(&["metadata.annotations[lab.sojourn.dev/custom-number-alerts]: \"many\" is not a number from 0 to 100 and is ignored".to_owned()][..])
    );
}
