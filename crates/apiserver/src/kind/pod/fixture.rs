//! Runs cases that a real Kubernetes 1.36 API server has answered through the rules of a kind.
//!
//! A case of a creation has a `body` and, as the server answered, the `object`, or the `causes` why it
//! was invalid, or the `message` with which admission refused it; a case of an update has `old` and
//! `new` instead of a body. What differs from request to request (times, versions) is left out.

use serde_json::{Value, json};

use super::super::Kind;
use crate::field::FieldError;
use crate::json::{Access, Object, object_mut};
use crate::typed;

/// What the server does to an object between decoding and validation, beside what the kind says.
/// A refusal is the end of a 403's message.
pub(crate) type Admit = fn(&mut Object, &Value) -> Result<(), String>;
pub(crate) type AdmitUpdate = fn(&mut Object, &Object) -> Result<(), String>;

pub(crate) fn run_creates(kind: &dyn Kind, cases: &str, admit: Admit) {
    let mut failed = Vec::new();
    let cases: Vec<Value> = serde_json::from_str(cases).expect("fixtures are JSON");
    for case in &cases {
        let mut obj = decode(kind, case.at("body"));
        if let Some(uid) = case.get("uid") {
            object_mut(&mut obj, "metadata").insert("uid".to_owned(), uid.clone());
        }
        let mut errors = crate::field::FieldErrors::new();
        let outcome = admit(&mut obj, case).map(|()| {
            kind.prepare_create(&mut obj);
            kind.validate(&obj, &mut errors);
        });
        let warnings = kind.warnings(&obj, None).into_texts();
        check(&mut failed, case, &outcome, obj, &errors, &warnings);
    }
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

pub(crate) fn run_updates(kind: &dyn Kind, cases: &str, admit: AdmitUpdate) {
    let mut failed = Vec::new();
    let cases: Vec<Value> = serde_json::from_str(cases).expect("fixtures are JSON");
    for case in &cases {
        let (mut new, old) = (decode(kind, case.at("new")), decode(kind, case.at("old")));
        let mut errors = crate::field::FieldErrors::new();
        let status = case.text("subresource") == "status";
        let outcome = if status {
            kind.prepare_status_update(&mut new, &old);
            kind.validate_status_update(&new, &old, &mut errors);
            Ok(())
        } else {
            admit(&mut new, &old).map(|()| {
                kind.prepare_update(&mut new, &old);
                kind.validate_update(&new, &old, &mut errors);
            })
        };
        let warnings =
            if status { Vec::new() } else { kind.warnings(&new, Some(&old)).into_texts() };
        check(&mut failed, case, &outcome, new, &errors, &warnings);
    }
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

/// Decodes and defaults, and sees that defaulting again changes nothing.
fn decode(kind: &dyn Kind, body: &Value) -> Object {
    let mut body = body.clone();
    let ty = typed::table().lookup(body.text("apiVersion"), body.text("kind"));
    typed::decode(ty.expect("a built-in kind"), &mut body, &mut Vec::new()).expect("a good body");
    let mut obj = body.as_object().cloned().expect("an object");
    kind.default(&mut obj);
    let once = obj.clone();
    kind.default(&mut obj);
    assert_eq!(once, obj, "defaulting is idempotent");
    obj
}

fn check(
    failed: &mut Vec<String>,
    case: &Value,
    outcome: &Result<(), String>,
    mut obj: Object,
    errors: &[FieldError],
    warnings: &[String],
) {
    let mut differ = |what: &str, expected: &str, actual: &str| {
        if expected != actual {
            let name = case.text("name");
            failed.push(format!("== {name}: {what}\n  want {expected}\n  have {actual}"));
        }
    };
    if let Err(refusal) = outcome {
        let (_, expected) = case.text("message").split_once(" is forbidden: ").unwrap_or_default();
        return differ("refusal", expected, refusal);
    }
    let mut actual: Vec<String> = errors.iter().map(shown).collect();
    let mut expected: Vec<String> = case
        .list("causes")
        .iter()
        .map(|cause| {
            format!("{} {}: {}", cause.text("reason"), cause.text("field"), cause.text("message"))
        })
        .collect();
    // Where upstream walks a map, the order is a matter of chance.
    if case.flag("unordered") {
        actual.sort_unstable();
        expected.sort_unstable();
    }
    differ("causes", &format!("{expected:#?}"), &format!("{actual:#?}"));
    let Some(stored) = case.get("object") else {
        return differ("message", case.text("message"), "");
    };
    let metadata = object_mut(&mut obj, "metadata");
    metadata.remove("creationTimestamp");
    if stored.at("metadata").at("uid").is_null() {
        metadata.remove("uid");
    }
    differ("object", &stored.to_string(), &Value::Object(obj).to_string());
    let mut warnings = warnings.to_vec();
    let mut told: Vec<String> =
        case.list("warnings").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    warnings.sort_unstable();
    told.sort_unstable();
    differ("warnings", &json!(told).to_string(), &json!(warnings).to_string());
}

fn shown(error: &FieldError) -> String {
    format!("{} {}: {}", error.kind.reason(), error.path, error.body())
}
