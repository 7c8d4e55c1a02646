//! Ownership and apply, against what a real kube-apiserver 1.36.3 answered.

mod laws;
mod shapes;

use serde_json::{Value, json};

use self::shapes::Kind;
use super::*;

/// Requests and answers, in order, each on the object that the previous step left. The bodies of
/// creates and patches are left out: what counts is the object they resulted in.
const RECORDED: &str = include_str!("tests/recorded.json");

fn reset_fields(kind: &str, subresource: &str) -> &'static [&'static str] {
    match (kind, subresource) {
        ("ConfigMap" | "Lease", _) => &[],
        (_, "") => &["status"],
        ("Pod", _) => &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"],
        ("Widget", _) => &["metadata", "spec"],
        _ => &["spec"],
    }
}

/// What the server adds to a new object only after it has recorded who owns what.
fn undo_server_side_effects(object: &mut Value) {
    let paths: &[(&str, &[&str])] = &[
        ("/metadata", &["uid", "generation"]),
        (
            "/spec",
            &[
                "clusterIP",
                "clusterIPs",
                "ipFamilies",
                "ipFamilyPolicy",
                "priority",
                "preemptionPolicy",
            ],
        ),
    ];
    for (parent, names) in paths {
        if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
            names.iter().for_each(|name| {
                parent.remove(*name);
            });
        }
    }
}

/// Entries without times, in an order that does not depend on them.
fn owners(object: &Value) -> Vec<Value> {
    let mut entries = object.at("metadata").list("managedFields").to_vec();
    for entry in &mut entries {
        if let Some(time) = entry.get_mut("time") {
            *time = json!("some time");
        }
    }
    entries.sort_by_key(Value::to_string);
    entries
}

fn newest_time(object: &Value) -> Timestamp {
    let entries = object.at("metadata").list("managedFields");
    let times = entries.iter().filter_map(|entry| entry.text("time").parse().ok());
    times.max().unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Whether everything in `part` is in `whole`, which may have more (what defaulting adds). Members
/// that are null or `defaulted` need not be.
fn is_within(part: &Value, whole: &Value, defaulted: &str) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part.iter().all(|(name, value)| {
            value.is_null()
                || name == defaulted
                || whole.get(name).is_some_and(|whole| is_within(value, whole, defaulted))
        }),
        (Value::Array(part), Value::Array(whole)) => {
            let mut pairs = part.iter().zip(whole);
            part.len() == whole.len() && pairs.all(|(p, w)| is_within(p, w, defaulted))
        }
        _ => part == whole,
    }
}

#[test]
fn answers_as_the_real_server_did() {
    let scenarios: Value = serde_json::from_str(RECORDED).unwrap();
    for scenario in scenarios.as_array().unwrap() {
        let kind = Kind::named(scenario.text("kind"));
        let mut live: Option<Value> = None;
        for (number, step) in scenario.list("steps").iter().enumerate() {
            let context = format!("{}, step {number}", scenario.text("title"));
            replay(&context, &kind, &mut live, step);
        }
    }
}

#[test]
fn what_is_wrong_with_every_element_is_told_within_bounds() {
    let kind = Kind::named("ConfigMap");
    let with = |finalizers: usize| {
        let config = json!({"metadata": {"finalizers": vec!["x"; finalizers]}});
        validate::validate(&kind.shapes, kind.root, &config).unwrap_err().to_string()
    };
    let one = ".metadata.finalizers: duplicate entries for key [=\"x\"]";
    assert_eq!(with(2), one);
    assert_eq!(with(3), format!("errors:\n  {one}\n  {one}"));
    let many = with(100_000);
    assert!(many.len() < 512 << 10, "{} bytes", many.len());
    let listed = many.matches(one).count();
    let words = format!("\n  and {} more, which are not listed", 100_000 - 1 - listed);
    assert!(listed > 1_000 && many.ends_with(&words), "{listed}");
}

fn replay(context: &str, kind: &Kind, live: &mut Option<Value>, step: &Value) {
    let api_version = match step.text("version") {
        "" => kind.api_version,
        other => other,
    };
    if let Some(live) = live {
        live["apiVersion"] = json!(api_version);
    }
    let request = Request {
        shapes: &kind.shapes,
        root: kind.root,
        api_version,
        kind: kind.name,
        served: &kind.served,
        manager: step.text("manager"),
        subresource: step.text("subresource"),
        now: newest_time(step.at("after")),
        reset_fields: reset_fields(kind.name, step.text("subresource")),
    };
    let after = step.at("after");
    if step.text("op") == "apply" {
        let outcome = apply(&request, live.as_ref(), step.at("body"), step.flag("force"));
        match step.int("code") {
            Some(200 | 201) => {
                let object = outcome.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_eq!(json!(owners(&object)), json!(owners(after)), "{context}");
                // What the strategy resets shows in the result here, not in the answer.
                let mut merged = object;
                for name in request.reset_fields.iter().chain(&["metadata"]) {
                    merged.as_object_mut().unwrap().remove(*name);
                }
                let within = is_within(&merged, after, "");
                assert!(within, "{context}: {merged} has more than {after}");
                if kind.name == "Widget" && request.subresource.is_empty() {
                    let (merged, after) = (merged.at("spec"), after.at("spec"));
                    let complete = is_within(after, merged, "protocol");
                    assert!(complete, "{context}: {merged} has less than {after}");
                }
            }
            Some(code @ (400 | 409 | 500)) => {
                let message = step.at("status").text("message");
                if message.contains("expected string, got") {
                    return; // Shapes do not know one scalar from another.
                }
                let error = outcome.err().unwrap_or_else(|| panic!("{context}: no error"));
                assert_eq!(error.to_string(), message, "{context}");
                match error {
                    ApplyError::BadRequest(_) => assert_eq!(code, 400, "{context}"),
                    ApplyError::Invalid(_) => assert_eq!(code, 500, "{context}"),
                    ApplyError::Conflicts(conflicts) => {
                        assert_eq!(code, 409, "{context}");
                        let mut causes: Vec<Value> = conflicts
                            .causes
                            .iter()
                            .map(|cause| {
                                json!({
                                    "reason": CONFLICT_REASON,
                                    "message": cause.message,
                                    "field": cause.field,
                                })
                            })
                            .collect();
                        let mut expected = step.at("status").at("details").list("causes").to_vec();
                        // The order of owners changes from call to call there.
                        causes.sort_by_key(Value::to_string);
                        expected.sort_by_key(Value::to_string);
                        assert_eq!(causes, expected, "{context}");
                    }
                }
            }
            // Refused later, by validation.
            _ => assert!(outcome.is_ok(), "{context}"),
        }
    } else if !after.is_null() {
        let mut new = after.clone();
        take_managed_fields(&mut new);
        let sent = step.at("body").at("metadata").get("managedFields");
        // Decoding a custom object's metadata drops empty lists.
        let sent = sent.filter(|sent| kind.name != "Widget" || **sent != json!([]));
        if let Some(sent) = sent {
            new["metadata"]["managedFields"] = sent.clone();
        } else if let (true, Some(live)) = (step.text("op") != "update", &live)
            && let Some(entries) = live.at("metadata").get("managedFields")
        {
            new["metadata"]["managedFields"] = entries.clone();
        }
        if live.is_none() {
            undo_server_side_effects(&mut new);
        }
        update(&request, live.as_ref(), &mut new).unwrap();
        assert_eq!(json!(owners(&new)), json!(owners(after)), "{context}");
    }
    if !after.is_null() {
        *live = Some(after.clone());
    }
}

fn config_map_request<'a>(kind: &'a Kind, manager: &'a str, now: &str) -> Request<'a> {
    Request {
        shapes: &kind.shapes,
        root: kind.root,
        api_version: "v1",
        kind: "ConfigMap",
        served: &kind.served,
        manager,
        subresource: "",
        now: now.parse().unwrap(),
        reset_fields: &[],
    }
}

fn times(object: &Value) -> Vec<(String, String)> {
    let entries = object.at("metadata").list("managedFields").iter();
    entries.map(|e| (e.text("manager").to_owned(), e.text("time").to_owned())).collect()
}

#[test]
fn times_move_only_when_something_changes() {
    let kind = Kind::named("ConfigMap");
    let pair = |manager: &str, time: &str| (manager.to_owned(), time.to_owned());
    let (t1, t2, t3) = ("2024-01-01T00:00:01Z", "2024-01-01T00:00:02Z", "2024-01-01T00:00:03Z");
    let mut live = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1"},
    });
    update(&config_map_request(&kind, "creator", t1), None, &mut live).unwrap();
    live["metadata"]["uid"] = json!("u");
    assert_eq!(times(&live), [pair("creator", t1)]);

    // An update that changes nothing, and one that does.
    let mut same = live.clone();
    update(&config_map_request(&kind, "creator", t2), Some(&live), &mut same).unwrap();
    assert_eq!(times(&same), [pair("creator", t1)]);
    let mut other = live.clone();
    other["data"]["b"] = json!("2");
    update(&config_map_request(&kind, "creator", t2), Some(&live), &mut other).unwrap();
    assert_eq!(times(&other), [pair("creator", t2)]);

    // An apply that shares a value records an owner, but no write; one that changes it does.
    let config = |value: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {"a": value},
        })
    };
    let request = config_map_request(&kind, "one", t3);
    let shared = apply(&request, Some(&live), &config("1"), false).unwrap();
    assert_eq!(times(&shared), [pair("one", ""), pair("creator", t1)]);
    let taken = apply(&request, Some(&live), &config("2"), true).unwrap();
    assert_eq!(times(&taken), [pair("one", t3), pair("creator", t1)]);
}

#[test]
fn entries_in_versions_no_longer_served_are_dropped() {
    let kind = Kind::named("ConfigMap");
    let mut live = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"},
        "metadata": {"name": "a", "uid": "u", "managedFields": [{
            "manager": "old", "operation": "Update", "apiVersion": "v0", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}},
        }]},
    });
    let before = live.clone();
    live["data"]["b"] = json!("2");
    let request = config_map_request(&kind, "new", "2024-01-01T00:00:00Z");
    update(&request, Some(&before), &mut live).unwrap();
    assert_eq!(times(&live).len(), 1);
    assert_eq!(live.pointer("/metadata/managedFields/0/manager"), Some(&json!("new")));
}

#[test]
fn parts_of_what_became_atomic_are_owned_as_a_whole() {
    let kind = Kind::named("Widget");
    let mut fields = FieldSet::parse(&json!({"f:spec": {
        "f:config": {".": {}, "f:k": {}},
        "f:args": {"v:\"a\"": {}},
        "f:labels": {"f:l": {}},
        "f:free": {"f:x": {}},
        "f:gone": {"f:y": {}},
    }}))
    .unwrap();
    reconcile::reconcile(&kind.shapes, kind.root, &mut fields);
    assert_eq!(
        fields.into_json(),
        json!({"f:spec": {
            "f:config": {},
            "f:args": {},
            "f:labels": {"f:l": {}},
            "f:free": {"f:x": {}},
            "f:gone": {"f:y": {}},
        }})
    );
}
