//! Patches, against what a real kube-apiserver 1.36.3 answered.

mod laws;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::json::Access;
use crate::shape::{Field, ListKind, PatchStrategy, Shape, ShapeId, Shapes};

/// Objects, and what became of them (or not) by patches sent as dry runs.
const RECORDED: &str = include_str!("tests/recorded.json");

#[test]
fn answers_as_the_real_server_did() {
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let (shapes, root) = service_and_deployment();
    for case in recorded.list("patches") {
        let patch = case.at("patch");
        let before = recorded.at("objects").at(case.text("object"));
        let mut object = before.clone();
        let outcome = match case.text("type") {
            "json" => json::apply(&mut object, patch),
            "merge" => merge::apply(&mut object, patch),
            _ => strategic::apply(&shapes, root, &mut object, patch),
        };
        if !case.text("message").is_empty() {
            let error = outcome.err().unwrap_or_else(|| panic!("no error for {patch}"));
            // Shapes have no names.
            let message = case.text("message").replace("struct ServiceSpec", "struct");
            assert_eq!(error.to_string(), message, "{patch}");
            let code = match error {
                PatchError::BadRequest(_) => 400,
                PatchError::TooLarge(_) => 413,
                PatchError::Rejected { .. } => 422,
                PatchError::Failed(_) => 500,
            };
            assert_eq!(Some(code), case.int("code"), "{patch}");
            continue;
        }
        assert_eq!(outcome, Ok(()), "{patch}");
        if case.flag("refusedLater") {
            continue;
        }
        let after = case.at("after");
        if before.text("kind") == "Widget" {
            assert_eq!(object, *after, "{patch}");
        } else {
            assert!(is_within(&object, after), "{patch}: {object} has more than {after}");
            assert!(is_within(after, &object), "{patch}: {object} has less than {after}");
        }
    }
}

/// What decoding and defaulting add or take away.
fn counts(name: &str, value: &Value) -> bool {
    const DEFAULTED: [&str; 14] = [
        "defaultMode",
        "dnsPolicy",
        "imagePullPolicy",
        "protocol",
        "replicas",
        "resources",
        "restartPolicy",
        "rollingUpdate",
        "schedulerName",
        "securityContext",
        "targetPort",
        "terminationGracePeriodSeconds",
        "terminationMessagePath",
        "terminationMessagePolicy",
    ];
    // Directives in what is new are dropped as unknown fields.
    let known = !name.starts_with('$') && !name.starts_with("unknown");
    let empty = match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    known && !empty && !DEFAULTED.contains(&name)
}

fn is_within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .filter(|(name, value)| counts(name, value))
            .all(|(name, value)| whole.get(name).is_some_and(|whole| is_within(value, whole))),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(p, w)| is_within(p, w))
        }
        _ => part == whole,
    }
}

/// One shape that serves both kinds in the recording.
pub(super) fn service_and_deployment() -> (Shapes, ShapeId) {
    let mut shapes = Shapes::default();
    let scalar = shapes.push(Shape::Scalar);
    let texts = shapes.push(Shape::Map { fields: [].into(), rest: Some(scalar), atomic: false });
    let list =
        |shapes: &mut Shapes, item| shapes.push(Shape::List { item, kind: ListKind::Atomic });
    let scalars = list(&mut shapes, scalar);
    let plain = |shape| Field {
        shape,
        default: None,
        always_present: false,
        patch: PatchStrategy::default(),
    };
    let merged = |shape, key: &str| Field {
        patch: PatchStrategy {
            merge: true,
            retain_keys: false,
            merge_key: (!key.is_empty()).then(|| key.into()),
        },
        ..plain(shape)
    };
    let object = |shapes: &mut Shapes, fields: Vec<(&str, Field)>| {
        let fields: BTreeMap<Box<str>, Field> =
            fields.into_iter().map(|(name, field)| (name.into(), field)).collect();
        shapes.push(Shape::Map { fields, rest: None, atomic: false })
    };
    let metadata = object(
        &mut shapes,
        vec![
            ("labels", plain(texts)),
            ("annotations", plain(texts)),
            ("finalizers", merged(scalars, "")),
        ],
    );
    let named = object(&mut shapes, vec![("name", plain(scalar)), ("value", plain(scalar))]);
    let named_list = list(&mut shapes, named);
    let container =
        object(&mut shapes, vec![("args", plain(scalars)), ("env", merged(named_list, "name"))]);
    let containers = list(&mut shapes, container);
    let volume = object(
        &mut shapes,
        vec![("emptyDir", plain(texts)), ("configMap", plain(texts)), ("secret", plain(texts))],
    );
    let volumes = list(&mut shapes, volume);
    let pod_spec = object(
        &mut shapes,
        vec![
            ("containers", merged(containers, "name")),
            ("initContainers", merged(containers, "name")),
            ("volumes", merged(volumes, "name")),
            ("tolerations", plain(named_list)),
            ("nodeSelector", plain(texts)),
        ],
    );
    let template =
        object(&mut shapes, vec![("metadata", plain(metadata)), ("spec", plain(pod_spec))]);
    let selector = object(&mut shapes, vec![("matchLabels", plain(texts))]);
    let port = object(&mut shapes, vec![("port", plain(scalar))]);
    let ports = list(&mut shapes, port);
    let strategy = object(&mut shapes, vec![("rollingUpdate", plain(texts))]);
    let spec = object(
        &mut shapes,
        vec![
            ("ports", merged(ports, "port")),
            ("type", plain(scalar)),
            ("template", plain(template)),
            ("strategy", plain(strategy)),
        ],
    );
    // The selector of a Service is a map, that of a Deployment a struct; the shape of the latter
    // lets the former pass because merging its scalars asks nothing of it.
    let mut fields = match shapes.get(spec) {
        Shape::Map { fields, .. } => fields.clone(),
        _ => BTreeMap::new(),
    };
    fields.insert("selector".into(), plain(selector));
    shapes.set(spec, Shape::Map { fields, rest: None, atomic: false });
    let root = object(&mut shapes, vec![("metadata", plain(metadata)), ("spec", plain(spec))]);
    (shapes, root)
}

#[test]
fn too_many_operations_and_too_much_copying_are_refused() {
    let mut object = json!({"a": "1"});
    let many = json!(vec![json!({"op": "test", "path": "/a", "value": "1"}); 10_001]);
    assert_eq!(
        json::apply(&mut object, &many).map_err(|error| error.to_string()),
        Err("Request entity too large: The allowed maximum operations in a JSON patch is 10000, \
             got 10001"
            .to_owned())
    );
    let mut operations = vec![json!({"op": "add", "path": "/big", "value": "x".repeat(100_000)})];
    for number in 0..31 {
        operations.push(json!({"op": "copy", "from": "/big", "path": format!("/c{number}")}));
    }
    assert_eq!(json::apply(&mut object, &json!(operations)), Ok(()));
    operations.push(json!({"op": "copy", "from": "/big", "path": "/last"}));
    assert!(json::apply(&mut object, &json!(operations)).is_err());
}

#[test]
fn a_patch_cannot_nest_without_bound() {
    let mut object = json!({"a": {}});
    // Each copy puts the whole chain at its own end, which doubles its length.
    let deeper: Vec<Value> = (0..8)
        .map(|step| json!({"op": "copy", "from": "/a", "path": "/a".repeat((1 << step) + 1)}))
        .collect();
    assert_eq!(json::apply(&mut object.clone(), &json!(deeper[..6])), Ok(()));
    assert!(json::apply(&mut object, &json!(deeper)).is_err());
}

#[test]
fn strict_reading_names_unknown_members() {
    let patch = json!([{"op": "add", "path": "/a", "extra": 1}, {"op": "test", "x": 1, "y": 2}]);
    assert_eq!(
        json::unknown_fields(&patch),
        [
            r#"json patch unknown field "[0].extra""#,
            r#"json patch unknown field "[1].x""#,
            r#"json patch unknown field "[1].y""#,
        ]
    );
}
