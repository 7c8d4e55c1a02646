//! Answers recorded from kube-apiserver 1.36.3, and what must hold beyond them.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-02T03:04:05Z";

static RECORDED: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("fixtures/recorded.json")).unwrap());

/// Errors as the server lists them, sorted, since upstream's order changes from call to call.
fn listed(errors: &[FieldError]) -> Vec<[String; 3]> {
    let mut listed: Vec<_> =
        errors.iter().map(|e| [e.kind.reason().to_owned(), e.path.clone(), e.body()]).collect();
    listed.sort();
    listed
}

/// The recorded errors, without those about the name alone, which the caller finds.
fn expected(case: &Value) -> Vec<[String; 3]> {
    let mut errors: Vec<[String; 3]> = serde_json::from_value(case.at("errors").clone()).unwrap();
    errors.retain(|[_, field, text]| field != "metadata.name" || !text.contains("RFC 1123"));
    errors
}

fn object(value: &Value) -> Object {
    value.as_object().unwrap().clone()
}

/// A merge patch, for cases that are recorded as changes.
fn merge(target: &mut Value, patch: &Value) {
    let (Value::Object(target), Value::Object(patch)) = (&mut *target, patch) else {
        *target = patch.clone();
        return;
    };
    for (key, value) in patch {
        merge(target.entry(key.clone()).or_insert(Value::Null), value);
    }
}

#[test]
fn create_is_answered_as_recorded() {
    let kind = CustomResourceDefinition;
    for case in RECORDED.list("create") {
        let name = case.text("name");
        let mut obj = object(case.at("crd"));
        kind.default(&mut obj);
        kind.prepare_create(&mut obj);
        let mut errors = crate::field::FieldErrors::new();
        kind.validate(&obj, &mut errors);
        assert_eq!(listed(&errors), expected(case), "{name}");
        if case.int("code") == Some(201) {
            let parsed = Definition::parse(&Value::Object(obj.clone()));
            assert!(parsed.is_ok(), "{name}: {parsed:?}");
        }
        // The order of properties, and so of warnings, is upstream's map order.
        let mut warnings = kind.warnings(&obj, None).into_texts();
        warnings.sort();
        let wanted: Vec<String> = case
            .list("warnings")
            .iter()
            .filter_map(Value::as_str)
            .map(|w| w.replace("\\\"", "\"").replacen("299 - \"", "", 1))
            .map(|w| w.strip_suffix('"').unwrap_or(&w).to_owned())
            .collect();
        assert_eq!(warnings, wanted, "{name}");
    }
}

#[test]
fn update_is_answered_as_recorded() {
    let kind = CustomResourceDefinition;
    let recorded = &*RECORDED;
    let old = object(recorded.at("old"));
    for case in recorded.list("update") {
        let name = case.text("name");
        let mut new = recorded.at("old").clone();
        merge(&mut new, case.at("change"));
        let mut new = object(&new);
        kind.default(&mut new);
        kind.prepare_update(&mut new, &old);
        let mut errors = crate::field::FieldErrors::new();
        kind.validate_update(&new, &old, &mut errors);
        assert_eq!(listed(&errors), expected(case), "{name}");
        if errors.is_empty() {
            let stored = new.at("status").at("storedVersions");
            assert_eq!(stored, case.at("storedVersions"), "{name}");
        }
    }
}

#[test]
fn conversion_webhooks_are_refused() {
    let mut obj = object(RECORDED.at("old"));
    obj["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://example.com"}}});
    let mut errors = crate::field::FieldErrors::new();
    CustomResourceDefinition.validate(&obj, &mut errors);
    let [error] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!(error.path, "spec.conversion.strategy");
    assert_eq!(error.kind.reason(), "FieldValueForbidden");
}

#[test]
fn a_fresh_definition_looks_like_upstreams() {
    let mut obj = object(&json!({
        "metadata": {"name": "zings.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "zings", "kind": "Zing"},
            "versions": [{"name": "v1", "served": true, "storage": true}],
        },
        "status": {"storedVersions": ["v9"]},
    }));
    CustomResourceDefinition.default(&mut obj);
    CustomResourceDefinition.prepare_create(&mut obj);
    let names =
        json!({"plural": "zings", "kind": "Zing", "singular": "zing", "listKind": "ZingList"});
    assert_eq!(obj["spec"]["names"], names);
    assert_eq!(obj["spec"]["conversion"], json!({"strategy": "None"}));
    let status = json!({
        "conditions": null,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    });
    assert_eq!(obj["status"], status);
}

fn definition(names: &Value, status: &Value) -> Object {
    object(&json!({"spec": {"group": "example.com", "names": names}, "status": status}))
}

fn fresh_status() -> Value {
    json!({
        "conditions": null,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    })
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind,
        "status": status,
        "lastTransitionTime": NOW,
        "reason": reason,
        "message": message,
    })
}

#[test]
fn free_names_are_accepted_then_established() {
    let names = json!({
        "plural": "zings", "singular": "zing", "kind": "Zing", "listKind": "ZingList",
        "shortNames": ["zg"], "categories": ["all"],
    });
    let mut obj = definition(&names, &fresh_status());
    let mut taken = TakenNames::default();
    taken.add(&obj);
    let status = accept_names(&obj, &taken, NOW).unwrap();
    assert_eq!(status["acceptedNames"], names);
    let initial = "the initial names have been accepted";
    let accepted = condition("NamesAccepted", "True", "NoConflicts", "no conflicts found");
    let installing = condition("Established", "False", "Installing", initial);
    assert_eq!(status["conditions"], json!([accepted, installing]));

    obj.insert("status".to_owned(), status);
    assert_eq!(accept_names(&obj, &taken, NOW), None);
    let status = establish(&obj, NOW).unwrap();
    let established = condition("Established", "True", "InitialNamesAccepted", initial);
    assert_eq!(status["conditions"], json!([accepted, established]));
    obj.insert("status".to_owned(), status);
    assert_eq!(establish(&obj, NOW), None);
    assert!(is_condition_true(&obj, "Established"));
}

#[test]
fn taken_names_are_refused_as_recorded() {
    let held = json!({
        "plural": "zings", "singular": "zing", "kind": "Zing", "listKind": "ZingList",
        "shortNames": ["zg"],
    });
    let holder = definition(&held, &json!({"acceptedNames": held}));
    let wanted = json!({
        "plural": "zangs", "singular": "zing", "kind": "Zing", "listKind": "ZingList",
        "shortNames": ["zg", "zings", "ok"],
    });
    let mut obj = definition(&wanted, &fresh_status());
    let mut taken = TakenNames::default();
    taken.add(&holder);
    taken.add(&obj);
    let status = accept_names(&obj, &taken, NOW).unwrap();
    assert_eq!(status["acceptedNames"], json!({"plural": "zangs", "kind": ""}));
    let conflict =
        condition("NamesAccepted", "False", "ListKindConflict", "\"ZingList\" is already in use");
    let waiting = condition("Established", "False", "NotAccepted", "not all names are accepted");
    assert_eq!(status["conditions"], json!([conflict, waiting]));

    obj.insert("status".to_owned(), status);
    obj["spec"]["names"] = json!({
        "plural": "zangs", "singular": "zang", "kind": "Zang", "listKind": "ZangList",
        "shortNames": ["zg", "zings", "ok"],
    });
    let status = accept_names(&obj, &taken, "2026-01-02T03:04:06Z").unwrap();
    let names =
        json!({"plural": "zangs", "singular": "zang", "kind": "Zang", "listKind": "ZangList"});
    assert_eq!(status["acceptedNames"], names);
    let message = "[\"zg\" is already in use, \"zings\" is already in use]";
    // The time stays: the status of the condition did not change.
    let conflict = condition("NamesAccepted", "False", "ShortNamesConflict", message);
    assert_eq!(status["conditions"], json!([conflict, waiting]));
    assert_eq!(establish(&obj, NOW), None);
}

#[test]
fn definitions_are_read_into_their_typed_form() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name,
            "served": true,
            "storage": storage,
            "schema": {"openAPIV3Schema": schema},
        })
    };
    let mut second = version("v2", true);
    merge(
        &mut second,
        &json!({
            "deprecated": true,
            "deprecationWarning": "use v3",
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color",
                "priority": 1}],
            "selectableFields": [{"jsonPath": ".spec.color"}],
        }),
    );
    let parsed = Definition::parse(&json!({
        "metadata": {"name": "zings.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "zings", "singular": "zing", "kind": "Zing", "listKind": "ZingList",
                "shortNames": ["zg"], "categories": ["all"]},
            "versions": [version("v1", false), second],
        },
    }))
    .unwrap();
    assert_eq!((parsed.group.as_str(), parsed.scope), ("example.com", Scope::Cluster));
    assert_eq!(parsed.names.short_names, ["zg"]);
    let [first, second] = &parsed.versions[..] else { panic!() };
    assert!(std::sync::Arc::ptr_eq(&first.schema, &second.schema));
    assert!(!first.status && second.status);
    assert_eq!(second.deprecation.as_deref(), Some("use v3"));
    let scale = second.scale.as_ref().unwrap();
    assert_eq!(scale.spec_replicas, ".spec.replicas");
    assert_eq!(scale.label_selector, None);
    assert_eq!(second.columns[0].priority, 1);
    assert_eq!(second.selectable_fields, [".spec.color"]);
    assert_eq!(parsed.storage().map(|v| v.name.as_str()), Some("v2"));
}

#[test]
fn too_deep_a_schema_is_refused() {
    let mut deep = json!({"type": "string"});
    for _ in 0..400 {
        deep = json!({"type": "array", "items": deep});
    }
    let mut obj = object(RECORDED.at("old"));
    obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = deep;
    let mut errors = crate::field::FieldErrors::new();
    CustomResourceDefinition.validate(&obj, &mut errors);
    let [error] = &errors[..] else { panic!("{} errors", errors.len()) };
    assert!(error.detail.contains("levels deep"), "{error}");
}

mod invariants {
    use proptest::prelude::*;

    use super::*;

    /// JSON that looks like a schema from afar.
    fn any_schema() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3..9_i64).prop_map(Value::from),
            prop::sample::select(vec![
                "object", "array", "string", "integer", "map", "set", "atomic", "(", "x", "uuid",
            ])
            .prop_map(Value::from),
        ];
        let key = prop::sample::select(vec![
            "type",
            "properties",
            "items",
            "additionalProperties",
            "anyOf",
            "allOf",
            "oneOf",
            "not",
            "default",
            "enum",
            "required",
            "pattern",
            "format",
            "nullable",
            "metadata",
            "kind",
            "a",
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-validations",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
            "maximum",
            "maxLength",
        ]);
        leaf.prop_recursive(6, 48, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_panics_and_what_is_accepted_compiles(schema in any_schema()) {
            let mut obj = object(RECORDED.at("old"));
            let root = json!({"type": "object", "properties": {"spec": schema}});
            obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = root;
            let mut errors = crate::field::FieldErrors::new();
            CustomResourceDefinition.validate(&obj, &mut errors);
            if errors.is_empty() {
                let parsed = Definition::parse(&Value::Object(obj));
                prop_assert!(parsed.is_ok(), "{parsed:?}");
            }
        }
    }
}
