//! What takes data away that is not handed in yet, and what takes an end back.

use super::lab::{answered, needs, review};
use super::*;
use crate::admission::lab::claim::ClaimRule;
use crate::admission::lab::instance::Answers;
use crate::admission::lab::instance_deletion::InstanceDeletionRule;
use crate::admission::lab::namespace::{self, NamespaceRule};

/// An Instance whose end hands in what it keeps, with this status.
fn exam(when: &str, status: Value) -> Value {
    let mut object = instance(json!({}));
    object["spec"] = json!({
        "template": { "name": "t" }, "tenant": { "name": "ada" },
        "submission": { "url": "https://x/", "when": when },
    });
    object["status"] = status;
    object
}

fn of_instances() -> (&'static str, &'static str) {
    (LAB_GROUP, "instances")
}

#[test]
fn an_instance_whose_data_is_owed_is_not_deleted_in_the_foreground() {
    let claimed = || json!({ "claims": ["web"] });
    let done =
        json!({ "claims": ["web"], "submission": [{ "environment": "web", "state": "Done" }] });
    let waits = json!({ "submission": [{ "environment": "web", "state": "Failed" }] });
    for (old, owed) in [
        (exam("OnTermination", claimed()), true),
        (exam("OnTermination", json!({})), false),
        (exam("OnTermination", done), false),
        (exam("OnRequest", claimed()), false),
        (exam("OnRequest", waits), true),
    ] {
        for (options, undercuts) in [
            (json!({ "propagationPolicy": "Foreground" }), true),
            (json!({ "propagationPolicy": "Orphan" }), true),
            (json!({ "orphanDependents": true }), true),
            (json!({ "propagationPolicy": "Background" }), false),
            (json!({}), false),
        ] {
            let request = deletion(of_instances(), &old, options.clone());
            let refused = owed && undercuts;
            let asked = needs_of(&InstanceDeletionRule, &request);
            let review = |hold| review_of(&InstanceDeletionRule, &request, &hold);
            assert_eq!(asked.is_some(), refused, "{options} {old}");
            assert_eq!(review(Some(Ok(false))).allowed, !refused);
            assert!(review(Some(Ok(true))).allowed);
            assert_eq!(review(None).allowed, !refused);
        }
    }
}

#[test]
fn the_mark_of_a_foreground_deletion_needs_the_verb_while_data_is_owed() {
    let old = exam("OnTermination", json!({ "claims": ["web"] }));
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    let request = of_instance(new.clone(), old);
    let refused = review(&request, &answered(Ok(false)));
    assert_eq!(fields(&refused), ["metadata.finalizers"]);
    let mut paid = exam("OnTermination", json!({}));
    paid["metadata"]["finalizers"] = json!([]);
    assert!(needs(&of_instance(new, paid)).hold.is_none());
}

fn claim(finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "one-web", "namespace": "lab", "finalizers": finalizers,
            "labels": { "lab.sojourn.dev/instance": "one" },
        },
    })
}

#[test]
fn a_claim_whose_data_is_owed_is_neither_deleted_nor_freed() {
    let about = ("", "persistentvolumeclaims");
    let held = || claim(&["kubernetes.io/pvc-protection", "lab.sojourn.dev/submission"]);
    let free = || claim(&["kubernetes.io/pvc-protection"]);
    for (request, owed) in [
        (deletion(about, &held(), json!({})), true),
        (deletion(about, &free(), json!({})), false),
        (request(about, free(), held()), true),
        (request(about, held(), held()), false),
        (request(about, held(), free()), false),
    ] {
        let asked = needs_of(&ClaimRule, &request);
        assert_eq!(asked.is_some(), owed);
        if let Some(permission) = asked {
            assert_eq!((permission.verb, permission.resource), ("hold", "instances"));
            assert_eq!(permission.name.as_deref(), Some("one"), "of the Instance that it is of");
        }
        let review = |hold| review_of(&ClaimRule, &request, &Some(Ok(hold)));
        let refused = review(false);
        assert_eq!(refused.allowed, !owed);
        assert!(refused.allowed || refused.result.message.contains("not handed in yet"));
        assert!(review(true).allowed);
    }
}

#[test]
fn a_namespace_in_which_data_is_owed_is_not_deleted() {
    let old = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "lab" } });
    let request = deletion(("", "namespaces"), &old, json!({}));
    let asked = needs_of(&NamespaceRule, &request);
    assert_eq!(asked.owing.as_deref(), Some("lab"));
    let permission = asked.hold.expect("a verb is asked about");
    assert_eq!((permission.namespace.as_str(), permission.name), ("lab", None));
    let review = |answers: &namespace::Answers| review_of(&NamespaceRule, &request, answers);
    let found = |owing: LookupResult<Vec<String>>, hold| namespace::Answers {
        owing: Some(owing),
        hold: Some(Ok(hold)),
    };
    assert!(review(&found(Ok(vec![]), false)).allowed);
    let many: Vec<String> = (0..10).map(|n| format!("i{n}")).collect();
    let refused = review(&found(Ok(many.clone()), false));
    assert!(!refused.allowed && refused.result.message.contains("i0, i1"), "{refused:?}");
    assert!(refused.result.message.contains("i7 and 2 more"), "{refused:?}");
    assert!(review(&found(Ok(many), true)).allowed);
    let unknown = review(&found(Err("the API is away".to_owned()), true));
    assert_eq!((unknown.allowed, unknown.result.code), (false, 503));
    assert!(!review(&namespace::Answers::default()).allowed);
}

#[test]
fn an_end_is_taken_back_only_by_whoever_may_reopen() {
    let mark = "lab.sojourn.dev/reopen";
    let at = "2026-11-17T09:00:00Z";
    let set = of_instance(instance(json!({ mark: at })), instance(json!({})));
    let [reference] = &needs(&set).references[..] else { panic!("one verb is asked about") };
    assert_eq!(reference.permission.verb, "reopen");
    let answers = |may: LookupResult<bool>| Answers {
        permitted: [(reference.permission.clone(), may)].into(),
        ..Answers::default()
    };
    assert!(review(&set, &answers(Ok(true))).allowed);
    let refused = review(&set, &answers(Ok(false)));
    assert_eq!(fields(&refused), ["metadata.annotations[lab.sojourn.dev/reopen]"]);
    assert!(refused.result.message.contains("`reopen` on instances"), "{refused:?}");
    assert!(!review(&set, &answers(Err("away".to_owned()))).allowed);
    assert!(!review(&set, &Answers::default()).allowed);
    let garbage = of_instance(instance(json!({ mark: "now" })), instance(json!({})));
    assert_eq!(review(&garbage, &answers(Ok(true))).result.code, 422);
    let taken_away = of_instance(instance(json!({})), instance(json!({ mark: at })));
    assert!(review(&taken_away, &Answers::default()).allowed);
}
