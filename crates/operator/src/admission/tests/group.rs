//! InstanceGroups and Machines.

use serde_json::{Value, json};
use sojourn_api::config;
use sojourn_api::group::{GroupConfig, InstanceGroup};
use sojourn_api::problem::Problem;

use super::*;
use crate::admission::group::template_rule::{Answers, Needs, TemplateRule};
use crate::admission::group::{instance_group, machine};

fn group_rule() -> TemplateRule {
    instance_group::rule(Providers::default())
}

fn machine_rule() -> TemplateRule {
    machine::rule(Providers::default())
}

fn is_of_machine(request: &AdmissionRequest<DynamicObject>) -> bool {
    request.resource.resource == "machines"
}

fn needs(request: &AdmissionRequest<DynamicObject>) -> Needs {
    match is_of_machine(request) {
        true => needs_of(&machine_rule(), request),
        false => needs_of(&group_rule(), request),
    }
}

fn review(request: &AdmissionRequest<DynamicObject>, answers: &Answers) -> AdmissionResponse {
    match is_of_machine(request) {
        true => review_of(&machine_rule(), request, answers),
        false => review_of(&group_rule(), request, answers),
    }
}

const CREATED: &str = "2026-11-16T09:00:00Z";

fn of_kind(kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "group.sojourn.dev/v1alpha1", "kind": kind,
        "metadata": { "name": name, "namespace": "red", "creationTimestamp": CREATED },
    });
    object["spec"] = spec;
    object
}

fn group(part: Value) -> Value {
    let mut spec = json!({ "size": 3, "template": { "provider": "fake", "config": {} } });
    if let (Value::Object(spec), Value::Object(part)) = (&mut spec, part) {
        spec.extend(part);
    }
    of_kind("InstanceGroup", "web", spec)
}

fn of_group(new: Value, old: Value) -> AdmissionRequest<DynamicObject> {
    request((GROUP_GROUP, "instancegroups"), new, old)
}

fn machine(part: Value) -> Value {
    let mut spec = json!({ "onDemand": true, "template": { "provider": "fake", "config": {} } });
    if let (Value::Object(spec), Value::Object(part)) = (&mut spec, part) {
        spec.extend(part);
    }
    of_kind("Machine", "one", spec)
}

fn of_machine(new: Value, old: Value) -> AdmissionRequest<DynamicObject> {
    request((GROUP_GROUP, "machines"), new, old)
}

/// Everything that could be asked for was found out, and is as it should be.
fn well() -> Answers {
    Answers {
        hold: Some(Ok(true)),
        manage: Some(Ok(true)),
        config: Some(Ok(GroupConfig::default())),
        group: Some(Ok(None)),
        template: Some(Vec::new()),
        permitted: [(orders(), Ok(true))].into(),
    }
}

/// What it takes to order something of the Machine `one`.
fn orders() -> Permission {
    Permission {
        verb: "update",
        group: GROUP_GROUP,
        resource: "machines",
        subresource: None,
        namespace: "red".to_owned(),
        name: Some("one".to_owned()),
    }
}

fn with_config(text: &str) -> Answers {
    let data = [("group.yaml".to_owned(), text.to_owned())].into();
    Answers { config: Some(Ok(config::parse(&data).expect("good options"))), ..well() }
}

fn causes(response: &AdmissionResponse) -> Vec<(&str, &str)> {
    let details = response.result.details.as_ref().map(|details| details.causes.as_slice());
    let all = details.unwrap_or_default().iter();
    all.map(|cause| (cause.field.as_str(), cause.message.as_str())).collect()
}

// case: group 11
#[test]
fn a_template_of_nobody_and_one_that_its_provider_cannot_use_are_refused() {
    let providers = Providers::default().with("fake", |config| {
        let bad = config.get("bad").map(|_| "bad: is no option".to_owned());
        bad.into_iter().collect()
    });
    let answered = |request: &AdmissionRequest<DynamicObject>| {
        let template = needs(request).template.expect("a template to look at");
        review(request, &Answers { template: Some(providers.check(&template)), ..well() })
    };
    let nobody = json!({ "template": { "provider": "cloud", "config": {} } });
    let unusable = json!({ "template": { "provider": "fake", "config": { "bad": 1 } } });
    let pod = json!({ "template": {
        "provider": "pod", "pod": { "spec": { "containers": [{ "name": 5 }] } },
    } });
    for object in [group, machine] {
        let resource =
            if object(json!({}))["kind"] == "Machine" { "machines" } else { "instancegroups" };
        let create =
            |part: &Value| request((GROUP_GROUP, resource), object(part.clone()), Value::Null);
        assert!(answered(&create(&json!({}))).allowed);
        let refused = answered(&create(&nobody));
        assert_eq!(refused.result.code, 422);
        assert_eq!(
            causes(&refused),
            [("spec.template.provider", "is no provider that is registered; there is pod, fake")]
        );
        let refused = answered(&create(&unusable));
        assert_eq!(causes(&refused), [("spec.template.config", "bad: is no option")]);
        let refused = answered(&create(&pod));
        assert_eq!(fields(&refused), ["spec.template.pod"]);
    }
}

#[test]
fn only_a_template_that_changes_is_looked_at_again() {
    let old = group(json!({}));
    let request = of_group(group(json!({ "size": 5 })), old.clone());
    assert_eq!(needs(&request), Needs { config: true, ..Needs::default() });
    let mut labelled = old.clone();
    labelled["metadata"]["labels"] = json!({ "a": "b" });
    let request = of_group(labelled, old);
    assert_eq!(needs(&request), Needs::default());
    assert!(review(&request, &Answers::default()).allowed);
}

#[test]
fn what_only_words_can_tell_is_told_at_its_place() {
    let window = |cron: &str, zone: &str| {
        let window = json!({ "cron": cron, "duration": "1h", "timeZone": zone });
        group(json!({ "budgets": [{ "max": 1, "allow": [window] }] }))
    };
    let reviewed = |new: Value, old: Value| review(&of_group(new, old), &well());
    assert!(reviewed(window("0 1 * * *", "Europe/Rome"), Value::Null).allowed);
    let refused = reviewed(window("0 1 * * *", "Europe/Atlantis"), Value::Null);
    assert_eq!(fields(&refused), ["spec.budgets[0].allow[0].timeZone"]);
    let backwards = window("0 9-5 * * *", "UTC");
    let refused = reviewed(backwards.clone(), Value::Null);
    assert_eq!(fields(&refused), ["spec.budgets[0].allow[0].cron"]);
    // One that got in before there was a rule can still be scaled.
    let mut scaled = backwards.clone();
    scaled["spec"]["size"] = json!(7);
    assert!(reviewed(scaled, backwards).allowed);
}

// case: group 2
#[test]
fn ages_are_compared_as_they_would_be_in_force() {
    let group = |age: &str| group(json!({ "expiry": { "eligibleAge": age } }));
    let month = with_config("expiry: { forcedAge: 30d }");
    assert!(review(&of_group(group("21d"), Value::Null), &month).allowed);
    let refused = review(&of_group(group("30d"), Value::Null), &month);
    let told = causes(&refused);
    assert_eq!(told[0].0, "spec.expiry");
    assert!(told[0].1.contains("is not shorter than forcedAge"), "{told:?}");
    // What the configuration broke does not hold the group's other fields back.
    let mut frozen = group("30d");
    frozen["spec"]["freezeUntil"] = json!("2026-12-01T00:00:00Z");
    assert!(review(&of_group(frozen, group("30d")), &month).allowed);
    // Nobody knows: the group's own ages are in order, and that it was not compared is said.
    let unread = Answers { config: Some(Err("the API is away".to_owned())), ..well() };
    let response = review(&of_group(group("30d"), Value::Null), &unread);
    assert!(response.allowed);
    assert!(response.warnings.expect("a warning")[0].contains("the API is away"));
}

#[test]
fn a_group_that_cannot_keep_up_is_admitted_with_the_shortfall_in_words() {
    let warnings = |size: i32, part: Value| {
        let mut spec = json!({
            "size": size, "expiry": { "eligibleAge": "21d", "forcedAge": "30d" },
        });
        if let (Value::Object(spec), Value::Object(part)) = (&mut spec, part) {
            spec.extend(part);
        }
        let response = review(&of_group(group(spec), Value::Null), &well());
        assert!(response.allowed, "it is a warning: {response:?}");
        response.warnings.unwrap_or_default()
    };
    // Nine days between the ages, seven minutes each.
    assert_eq!(warnings(1851, json!({})), Vec::<String>::new());
    assert_eq!(
        warnings(2000, json!({})),
        [
            "spec.expiry.forcedAge: 1851 of 2000 machines of one age can be replaced in the 9d between eligibleAge and forcedAge, one at a time, each taking about 7m; 149 would be forced: 17h20m more are needed, or a shorter drainTimeout, or smaller groups"
        ]
    );
    // Nine windows of an hour.
    let window = json!({ "cron": "0 3 * * *", "duration": "1h" });
    let nightly = json!({ "budgets": [{ "max": 1, "allow": [window] }] });
    assert_eq!(warnings(50, nightly.clone()), Vec::<String>::new());
    let told = warnings(150, nightly);
    assert!(told[0].contains("of 150 machines of one age can be replaced"), "{told:?}");
    // The drain time may be the installation's.
    let slow = with_config("defaultDrainTimeout: 1d");
    let ages = json!({ "size": 20, "expiry": { "eligibleAge": "21d", "forcedAge": "30d" } });
    let told = review(&of_group(group(ages), Value::Null), &slow).warnings.expect("a warning");
    assert!(told[0].starts_with("spec.expiry.forcedAge: 8 of 20 machines"), "{told:?}");
}

#[test]
fn marks_that_hold_need_the_verb_on_their_own_kind() {
    for (resource, object) in
        [("instancegroups", group(json!({}))), ("machines", machine(json!({})))]
    {
        for mark in ["sojourn.dev/paused", "sojourn.dev/observe"] {
            let mut marked = object.clone();
            marked["metadata"]["annotations"] = json!({ mark: "true" });
            let request = request((GROUP_GROUP, resource), marked, object.clone());
            let hold = needs(&request).hold.expect("a permission");
            assert_eq!((hold.verb, hold.group, hold.resource), ("hold", GROUP_GROUP, resource));
            assert!(review(&request, &well()).allowed);
            let refused = review(&request, &Answers { hold: Some(Ok(false)), ..well() });
            assert_eq!(refused.result.code, 403);
            assert_eq!(fields(&refused), [format!("metadata.annotations[{mark}]")]);
            assert!(
                refused.result.message.contains(&format!("needs the verb `hold` on {resource}"))
            );
        }
    }
}

#[test]
fn nobody_skips_a_drain_by_taking_the_finalizer_away() {
    let rows = [
        ("instancegroups", group(json!({})), "group.sojourn.dev/group"),
        ("machines", machine(json!({})), "group.sojourn.dev/machine"),
    ];
    for (resource, free, finalizer) in rows {
        let mut finalized = free.clone();
        finalized["metadata"]["finalizers"] = json!([finalizer, "others"]);
        let freed = request((GROUP_GROUP, resource), free.clone(), finalized.clone());
        assert!(needs(&freed).hold.is_some());
        let refused = review(&freed, &Answers { hold: Some(Ok(false)), ..well() });
        assert_eq!(fields(&refused), ["metadata.finalizers"]);
        let kept = request((GROUP_GROUP, resource), finalized.clone(), finalized);
        assert_eq!(needs(&kept), Needs::default());
    }
}

fn owned(controller: bool, name: &str) -> Value {
    let mut object = machine(json!({ "onDemand": false, "group": "web" }));
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "group.sojourn.dev/v1alpha1", "kind": "InstanceGroup",
        "name": name, "uid": "u", "controller": controller,
    }]);
    object
}

#[test]
fn the_machines_of_a_group_are_made_by_whoever_keeps_it() {
    let request = of_machine(owned(true, "web"), Value::Null);
    let manage = needs(&request).manage.expect("a permission");
    assert_eq!((manage.verb, manage.subresource), ("update", Some("status")));
    assert_eq!((manage.resource, manage.name.as_deref()), ("instancegroups", Some("web")));
    assert!(review(&request, &well()).allowed);
    let refused = review(&request, &Answers { manage: Some(Ok(false)), ..well() });
    assert_eq!((refused.result.code, fields(&refused)), (403, vec!["spec.onDemand"]));
    let unknown = review(&request, &Answers { manage: Some(Err("away".to_owned())), ..well() });
    assert_eq!(unknown.result.code, 503);
    assert_eq!(review(&request, &Answers { manage: None, ..well() }).result.code, 500);

    let by_hand = machine(json!({ "onDemand": false, "group": "web" }));
    for machine in [by_hand.clone(), owned(false, "web"), owned(true, "another")] {
        let request = of_machine(machine, Value::Null);
        assert_eq!(needs(&request).manage, None);
        let refused = review(&request, &well());
        assert_eq!((refused.result.code, fields(&refused)), (422, vec!["spec.onDemand"]));
        assert!(refused.result.message.contains("ask for one on demand"));
    }
    // What is there already may be answered and marked.
    assert!(review(&of_machine(by_hand.clone(), by_hand), &well()).allowed);
}

#[test]
fn a_renewal_goes_no_further_than_it_may() {
    let until = |time: &str| machine(json!({ "group": "web", "renewedUntil": time }));
    let week = with_config("expiry: { ondemandAge: 7d }");
    let request = of_machine(until("2026-11-23T09:00:00Z"), machine(json!({ "group": "web" })));
    let asked = needs(&request);
    assert_eq!((asked.config, asked.group), (true, Some(Key::new("red", "web"))));
    assert!(review(&request, &week).allowed);
    let later = of_machine(until("2026-11-23T09:00:01Z"), machine(json!({ "group": "web" })));
    let refused = review(&later, &week);
    assert_eq!(
        causes(&refused),
        [(
            "spec.renewedUntil",
            "must not be later than 2026-11-23T09:00:00Z, when one is 7d old: ondemandMaxAge"
        )]
    );
    let longer: InstanceGroup =
        serde_json::from_value(group(json!({ "expiry": { "ondemandMaxAge": "8d" } })))
            .expect("a group");
    assert!(review(&later, &Answers { group: Some(Ok(Some(longer))), ..week.clone() }).allowed);
    assert!(review(&later, &well()).allowed, "nothing expires, so nothing is too late");
    let unknown = review(&later, &Answers { group: Some(Err("away".to_owned())), ..week });
    assert_eq!((unknown.result.code, fields(&unknown)), (503, vec!["spec.renewedUntil"]));
    // What stands there is not reviewed again.
    let same = of_machine(until("2030-01-01T00:00:00Z"), until("2030-01-01T00:00:00Z"));
    assert_eq!(needs(&same), Needs::default());
}

#[test]
fn marks_that_are_times_must_be_and_protection_that_means_nothing_is_warned_about() {
    let marked = |name: &str, text: &str| {
        let mut marked = machine(json!({}));
        marked["metadata"]["annotations"] = json!({ name: text });
        review(&of_machine(marked, machine(json!({}))), &well())
    };
    for name in ["sojourn.dev/keep-until", "group.sojourn.dev/drain"] {
        assert!(marked(name, CREATED).allowed);
        assert_eq!(fields(&marked(name, "soon")), [format!("metadata.annotations[{name}]")]);
    }
    let mut rotate = group(json!({}));
    rotate["metadata"]["annotations"] = json!({ "group.sojourn.dev/rotate": "soon" });
    let refused = review(&of_group(rotate, group(json!({}))), &well());
    assert_eq!(fields(&refused), ["metadata.annotations[group.sojourn.dev/rotate]"]);

    assert_eq!(marked("group.sojourn.dev/do-not-disrupt", "4h").warnings, None);
    let warned = marked("group.sojourn.dev/do-not-disrupt", "a while");
    assert!(warned.allowed);
    let warnings = warned.warnings.expect("a warning");
    assert!(warnings[0].contains("\"a while\" is not `true`"), "{warnings:?}");
}

#[test]
fn what_cannot_be_read_is_refused_and_never_panics() {
    let mut odd = group(json!({}));
    odd["spec"]["size"] = json!("three");
    let refused = review(&of_group(odd, Value::Null), &well());
    assert_eq!((refused.result.code, fields(&refused)), (422, vec!["spec"]));
    let mut odd = machine(json!({}));
    odd["spec"]["onDemand"] = json!("yes");
    let request = of_machine(odd, Value::Null);
    assert_eq!(needs(&request), Needs::default());
    assert!(!review(&request, &well()).allowed);
    let none = Answers { template: Some(vec![Problem::new("", "is bad")]), ..well() };
    let refused = review(&of_group(group(json!({})), Value::Null), &none);
    assert_eq!(causes(&refused), [("spec.template", "is bad")]);
}

/// The role of drainers has `patch` on Machines, which RBAC cannot narrow down to a field.
#[test]
fn whoever_may_only_answer_drains_orders_none_and_keeps_nothing() {
    let marked = |mark: &str, value: &str| {
        let mut object = machine(json!({}));
        object["metadata"]["annotations"] = json!({ mark: value });
        object
    };
    let time = "2030-01-01T00:00:00Z";
    let orders = [
        marked("group.sojourn.dev/drain", time),
        marked("sojourn.dev/keep-until", time),
        marked("group.sojourn.dev/do-not-disrupt", "true"),
        machine(json!({ "renewedUntil": "2026-11-16T10:00:00Z" })),
    ];
    for order in orders {
        let request = of_machine(order, machine(json!({})));
        let references = needs(&request).references;
        assert_eq!(references.len(), 1, "{references:?}");
        assert_eq!(
            references[0].permission.to_string(),
            "`update` on machines \"one\" in namespace \"red\""
        );
        let permitted = |allowed: bool| Answers {
            permitted: [(references[0].permission.clone(), Ok(allowed))].into(),
            ..well()
        };
        assert!(review(&request, &permitted(true)).allowed);
        let refused = review(&request, &permitted(false));
        assert_eq!((refused.allowed, refused.result.code), (false, 403));
    }
    // To withdraw an order is one, too.
    let withdrawn = of_machine(machine(json!({})), marked("group.sojourn.dev/drain", time));
    assert_eq!(needs(&withdrawn).references.len(), 1);
    let renewed = machine(json!({ "renewedUntil": "2026-11-16T10:00:00Z" }));
    let ended = of_machine(machine(json!({})), renewed);
    assert_eq!(needs(&ended).references[0].path, "spec.renewedUntil");
    // The garbage collector would delete a Machine whose owner is not there; labels say whose it is.
    let parts = [
        (
            "ownerReferences",
            json!([{ "apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "gone" }]),
        ),
        ("labels", json!({ "group.sojourn.dev/group": "other" })),
        ("annotations", json!({ "somebody.example/note": "x" })),
    ];
    for (part, value) in parts {
        let mut object = machine(json!({}));
        object["metadata"][part] = value;
        let request = of_machine(object, machine(json!({})));
        let references = needs(&request).references;
        assert_eq!(references.len(), 1, "{part}: {references:?}");
        assert_eq!(references[0].path, format!("metadata.{part}"));
        let permitted = [(references[0].permission.clone(), Ok(false))].into();
        let refused = review(&request, &Answers { permitted, ..well() });
        assert_eq!((refused.allowed, refused.result.code), (false, 403), "{part}");
    }
    let reply = json!({ "drainReply": { "id": "d", "outcome": "Done" } });
    let answer = of_machine(machine(reply), machine(json!({})));
    assert!(needs(&answer).references.is_empty() && review(&answer, &well()).allowed);
}
