use serde_json::{Value, json};
use sojourn_core::lab::source;
use sojourn_core::notice::OnUndeliverable;

use super::*;

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn instance(spec: Value, annotations: Value) -> Instance {
    let mut whole = json!({ "template": { "name": "t" }, "tenant": { "name": "ada" } });
    merge(&mut whole, spec);
    let mut object = json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Instance",
        "metadata": {
            "name": "one", "namespace": "lab", "uid": "u",
            "creationTimestamp": "2026-11-16T09:00:00Z",
        },
        "spec": whole,
    });
    object["metadata"]["annotations"] = annotations;
    serde_json::from_value(object).expect("an Instance")
}

fn template(spec: Value, annotations: Value) -> Template {
    let mut whole = json!({ "environmentList": [{ "name": "web", "image": "i" }] });
    merge(&mut whole, spec);
    let mut object = json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Template",
        "metadata": { "name": "t" },
        "spec": whole,
    });
    object["metadata"]["annotations"] = annotations;
    serde_json::from_value(object).expect("a Template")
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

fn resolve(instance: &Instance, template: Option<&Template>) -> Intent {
    intent(instance, template, OptOuts::default(), &LabConfig::default()).expect("an intent")
}

fn plain() -> Instance {
    instance(json!({}), json!({}))
}

#[test]
fn defaults_are_those_of_the_configuration() {
    let intent = resolve(&plain(), Some(&template(json!({}), json!({}))));
    assert_eq!(intent.uid, "u");
    assert!(intent.running && !intent.paused && !intent.observe && !intent.persistent);
    assert_eq!(intent.inactivity.max_alerts, 3);
    assert_eq!(intent.inactivity.interval, DAY);
    assert_eq!(intent.inactivity.margin, SignedDuration::from_mins(1));
    assert_eq!(intent.inactivity.stop_after, Term::Never);
    assert_eq!(intent.expiration.delete_after, Term::Never);
    assert_eq!(intent.termination.check, None);
    assert_eq!(intent.submission.wanted, None);
    assert_eq!(intent.on_undeliverable, OnUndeliverable::Hold);
}

#[test]
fn both_spellings_of_a_term_mean_the_same() {
    let flat =
        json!({ "inactivityTimeout": "14d", "deleteAfterStopped": "10d", "deleteAfter": "1w" });
    let newer = json!({ "cleanup": {
        "stopAfterInactivity": "14d", "deleteAfterInactivity": "10d", "deleteAfterCreation": "1w",
    } });
    let flat = resolve(&plain(), Some(&template(flat, json!({}))));
    assert_eq!(flat, resolve(&plain(), Some(&template(newer, json!({})))));
    assert_eq!(flat.inactivity.stop_after, Term::Span(14 * DAY));
    assert_eq!(flat.inactivity.delete_after_stopped, Term::Span(10 * DAY));
    assert_eq!(flat.expiration.delete_after, Term::Span(7 * DAY));
}

#[test]
fn the_annotation_wins_over_the_template_which_wins_over_the_configuration() {
    let alerts = |spec, annotations| {
        resolve(&plain(), Some(&template(spec, annotations))).inactivity.max_alerts
    };
    let custom = |text: &str| json!({ CUSTOM: text });
    const CUSTOM: &str = "lab.sojourn.dev/custom-number-alerts";
    assert_eq!(alerts(json!({ "maxAlerts": 5 }), json!({})), 5);
    assert_eq!(alerts(json!({ "maxAlerts": 5 }), custom("4")), 4);
    assert_eq!(alerts(json!({ "maxAlerts": 5 }), custom("0")), 0);
    assert_eq!(alerts(json!({ "maxAlerts": 5 }), custom("many")), 5);
    assert_eq!(alerts(json!({}), custom("-1")), 3);
    assert_eq!(alerts(json!({}), custom("101")), 3);
}

#[test]
fn a_namespace_opts_out_by_label_or_annotation() {
    let map = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let none = BTreeMap::new();
    let inactivity = OptOuts { inactivity: true, expiration: false };
    let yes = map(INACTIVITY_IGNORE, "true");
    assert_eq!(OptOuts::of(&yes, &none), inactivity);
    assert_eq!(OptOuts::of(&none, &yes), inactivity);
    assert_eq!(OptOuts::of(&map(INACTIVITY_IGNORE, "false"), &yes), inactivity);
    assert_eq!(OptOuts::of(&map(INACTIVITY_IGNORE, "yes"), &none), OptOuts::default());
    assert!(OptOuts::of(&none, &map(EXPIRATION_IGNORE, "true")).expiration);

    let out = intent(&plain(), None, inactivity, &LabConfig::default()).expect("an intent");
    assert!(out.inactivity.opted_out && out.expiration.enabled);
}

#[test]
fn without_its_template_nothing_is_taken_and_its_end_is_still_looked_for() {
    let exam = instance(json!({ "statusCheck": { "url": "http://exam/" } }), json!({}));
    let intent = resolve(&exam, None);
    assert_eq!(intent.inactivity.stop_after, Term::Never);
    assert_eq!(intent.expiration.delete_after, Term::Never);
    let check = intent.termination.check.expect("a check");
    let interval = SignedDuration::from_mins(2);
    let target = Target::Endpoint;
    assert_eq!(check, StatusCheck { target, interval, confirmations: 3 });
}

#[test]
fn annotations_of_an_owner_are_read_and_garbage_in_them_is_not() {
    let asked = instance(
        json!({}),
        json!({
            "sojourn.dev/paused": "true",
            "sojourn.dev/observe": "yes",
            "sojourn.dev/keep-until": "2026-11-17T09:00:00.25Z",
            "lab.sojourn.dev/submission-request": "2026-11-16T10:00:00+01:00",
            "lab.sojourn.dev/submission-waive": "please",
        }),
    );
    let intent = resolve(&asked, None);
    assert!(intent.paused && !intent.observe);
    let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
    assert_eq!(text(intent.keep_until).as_deref(), Some("2026-11-17T09:00:01Z"));
    assert_eq!(text(intent.submission.requested).as_deref(), Some("2026-11-16T09:00:00Z"));
    assert_eq!(intent.submission.waived, None);
}

#[test]
fn only_persistent_environments_have_something_to_hand_in() {
    let template = template(
        json!({ "environmentList": [
            { "name": "web", "image": "i", "persistent": true, "size": "1Gi", "mountPath": "/d" },
            { "name": "tmp", "image": "i" },
        ] }),
        json!({}),
    );
    let submission =
        json!({ "submission": { "url": "https://in.example.org/", "when": "OnRequest" } });
    let intent = resolve(&instance(submission, json!({})), Some(&template));
    assert!(intent.persistent);
    let wanted = intent.submission.wanted.expect("something");
    assert!(!wanted.on_termination);
    let because: Vec<_> =
        wanted.environments.iter().map(|e| (&*e.environment, e.not_because.is_some())).collect();
    assert_eq!(because, [("web", false), ("tmp", true)]);
}

#[test]
fn whom_to_ask_depends_on_the_url() {
    let target = |check: Value| check_target(&instance(json!({ "statusCheck": check }), json!({})));
    let seconds = SignedDuration::from_secs;
    assert_eq!(target(json!({})), Some(CheckTarget::Reachability { timeout: seconds(3) }));
    assert_eq!(
        target(json!({ "url": "http://exam/", "timeout": "5s", "endCodes": ["404", "410"] })),
        Some(CheckTarget::Contract {
            url: "http://exam/".to_owned(),
            timeout: seconds(5),
            keep: vec!["2xx".to_owned()],
            end: vec!["404".to_owned(), "410".to_owned()],
        })
    );
    assert_eq!(
        target(json!({ "url": "http://exam/", "mode": "Reachability" })),
        Some(CheckTarget::Reachability { timeout: seconds(3) })
    );
    assert_eq!(target(json!({ "mode": "Contract" })), None);
    assert_eq!(check_target(&plain()), None);
}

#[test]
fn a_contract_without_a_url_is_a_problem_and_not_a_hot_loop() {
    let exam = instance(json!({ "statusCheck": { "mode": "Contract" } }), json!({}));
    let problems = intent(&exam, None, OptOuts::default(), &LabConfig::default()).unwrap_err();
    assert_eq!(problems.to_string(), "spec.statusCheck.url: is needed when mode is Contract");
}

#[test]
fn all_problems_are_told_at_once() {
    let bad = instance(
        json!({
            "statusCheck": { "interval": "never", "confirmations": 1, "endCodes": ["4x"] },
            "submission": { "url": "ftp://x" },
        }),
        json!({}),
    );
    let template = template(json!({ "deleteAfter": "10x" }), json!({}));
    let result = intent(&bad, Some(&template), OptOuts::default(), &LabConfig::default());
    let paths: Vec<_> = result.unwrap_err().0.into_iter().map(|problem| problem.path).collect();
    assert_eq!(
        paths,
        [
            "spec.statusCheck.interval",
            "spec.statusCheck.confirmations",
            "spec.statusCheck.endCodes[0]",
            "spec.submission.url",
            "template.spec.deleteAfter",
        ]
    );
}

#[test]
fn sources_are_those_named_or_all_that_are_configured() {
    let configured = [source::GATEWAY, source::NGINX];
    assert_eq!(sources(None, &configured), configured);
    let named = template(json!({ "activitySources": ["Report"] }), json!({}));
    assert_eq!(sources(Some(&named), &configured), [source::REPORT]);
}

#[test]
fn a_recipient_has_an_address_and_perhaps_a_name() {
    let tenant = |spec: Value| {
        let whole = json!({
            "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Tenant",
            "metadata": { "name": "ada" }, "spec": spec,
        });
        recipient(&serde_json::from_value(whole).expect("a Tenant"))
    };
    let ada =
        tenant(json!({ "firstName": "Ada", "lastName": "Lovelace", "email": "ada@example.org" }));
    assert_eq!(ada.map(|r| r.name).as_deref(), Ok("Ada Lovelace"));
    assert_eq!(tenant(json!({ "email": "x@example.org" })).map(|r| r.name).as_deref(), Ok(""));
    let bad = tenant(json!({ "email": "ada" })).unwrap_err();
    assert_eq!(bad.to_string(), "spec.email: must be an e-mail address such as ada@example.org");
}
