//! Answers recorded from kube-apiserver 1.36.3, and what must hold beyond them.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::*;
use crate::field::FieldErrors;
use crate::json::Access;
use crate::shape::Shape;

static RECORDED: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("fixtures/recorded.json")).unwrap());
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::compile(RECORDED.at("schema")).unwrap());

fn resource(spec: &Value) -> Value {
    let metadata = json!({"name": "x"});
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": spec})
}

/// Reads an object the way a request body is read.
fn read(schema: &Schema, mut object: Value) -> Result<Value, FieldError> {
    schema.prune(&mut object, None);
    schema.coerce_embedded(&mut object, None)?;
    schema.default(&mut object).expect("a small object");
    Ok(object)
}

/// Errors as the server lists them, sorted, since upstream's order changes from call to call.
fn listed(errors: &[FieldError]) -> Vec<[String; 3]> {
    let mut listed: Vec<_> =
        errors.iter().map(|e| [e.kind.reason().to_owned(), e.path.clone(), e.body()]).collect();
    listed.sort();
    listed
}

fn expected(case: &Value) -> Vec<[String; 3]> {
    serde_json::from_value(case.at("errors").clone()).unwrap()
}

#[test]
fn create_is_refused_as_recorded() {
    let schema = &*SCHEMA;
    for case in RECORDED.list("validate") {
        let name = case.text("name");
        let object = match read(schema, resource(case.at("spec"))) {
            Ok(object) => object,
            Err(error) => {
                assert_eq!(case.int("code"), Some(400), "{name}: {error}");
                let [[_, _, message]] = &expected(case)[..] else { panic!("{name}") };
                let shown =
                    format!("Thing in version \"v1\" cannot be handled as a Thing: {error}");
                assert_eq!(&shown, message, "{name}");
                continue;
            }
        };
        let mut errors = crate::field::FieldErrors::new();
        schema.validate(&object, None, &mut errors);
        assert_eq!(listed(&errors), expected(case), "{name}");
    }
}

#[test]
fn bodies_are_pruned_and_defaulted_as_recorded() {
    let schema = &*SCHEMA;
    for case in RECORDED.list("prune") {
        let name = case.text("name");
        let mut object = resource(case.at("spec"));
        let mut unknown = Vec::new();
        schema.prune(&mut object, Some(&mut unknown));
        schema.coerce_embedded(&mut object, Some(&mut unknown)).unwrap();
        schema.default(&mut object).expect("a small object");
        // Go writes a whole float without its fraction; that is the encoder's business.
        let written = object.at("spec").to_string().replace(".0", "");
        assert_eq!(written, case.at("result").to_string(), "{name}");
        let shown: Vec<String> =
            unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
        let strict = case.text("strict").split_once("strict decoding error: ");
        assert_eq!(shown.join(", "), strict.map_or("", |(_, fields)| fields), "{name}");
    }
}

#[test]
fn updates_ratchet_as_recorded() {
    let schema = &*SCHEMA;
    for case in RECORDED.list("update") {
        let name = case.text("name");
        let old = read(schema, resource(case.at("old"))).unwrap();
        let new = read(schema, resource(case.at("new"))).unwrap();
        let mut errors = crate::field::FieldErrors::new();
        schema.validate(&new, Some(&old), &mut errors);
        assert_eq!(listed(&errors), expected(case), "{name}");
    }
}

#[test]
fn status_is_checked_as_recorded() {
    let schema = &*SCHEMA;
    let old = resource(&json!({"str": "x"}));
    for case in RECORDED.list("status") {
        let mut new = old.clone();
        new["status"] = case.at("status").clone();
        let new = read(schema, new).unwrap();
        let mut errors = crate::field::FieldErrors::new();
        schema.validate_status(&new, &old, &mut errors);
        assert_eq!(listed(&errors), expected(case), "{}", case.text("name"));
    }
}

#[test]
fn formats_are_recognised_as_recorded() {
    let schema = &*SCHEMA;
    for case in RECORDED.list("formats") {
        let format = case.text("format");
        for pair in case.list("texts") {
            let mut spec = serde_json::Map::new();
            spec.insert(format!("f-{format}"), pair[0].clone());
            let mut errors = crate::field::FieldErrors::new();
            schema.validate(&resource(&Value::Object(spec)), None, &mut errors);
            assert_eq!(errors.is_empty(), pair[1] == true, "{format}: {}", pair[0]);
        }
    }
}

#[test]
fn shapes_follow_the_extensions() {
    let schema = Schema::compile(&json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "properties": {
            "atomic": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "map": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string", "default": "d"}}},
            },
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic"},
            "open": {"x-kubernetes-preserve-unknown-fields": true},
            "quantity": {"x-kubernetes-int-or-string": true},
        },
    }}}))
    .unwrap();
    let (shapes, root) = schema.shapes();
    let field = |id: ShapeId, name: &str| match shapes.get(id) {
        Shape::Map { fields, .. } => fields[name].clone(),
        other => panic!("{name}: {other:?}"),
    };
    let spec = field(root, "spec").shape;
    let list = |name: &str| match shapes.get(field(spec, name).shape) {
        Shape::List { item, kind } => (*item, kind.clone()),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(list("atomic").1, ListKind::Atomic);
    assert_eq!(list("set").1, ListKind::Set);
    assert_eq!(list("map").1, ListKind::Map(vec!["k".into()]));
    assert_eq!(field(list("map").0, "k").default, Some(json!("d")));
    assert!(matches!(shapes.get(field(spec, "whole").shape), Shape::Map { atomic: true, .. }));
    assert!(matches!(shapes.get(field(spec, "open").shape), Shape::Any));
    assert!(matches!(shapes.get(field(spec, "quantity").shape), Shape::Scalar));
    let metadata = field(root, "metadata").shape;
    let owners = field(metadata, "ownerReferences").shape;
    assert!(matches!(shapes.get(owners),
        Shape::List { kind: ListKind::Map(keys), .. } if **keys == ["uid".into()]));
    let labels = field(metadata, "labels").shape;
    assert!(matches!(shapes.get(labels), Shape::Map { rest: Some(_), atomic: false, .. }));
}

#[test]
fn too_deep_a_schema_is_refused() {
    let mut deep = json!({"type": "string"});
    for _ in 0..200 {
        deep = json!({"type": "array", "items": deep});
    }
    assert!(matches!(Schema::compile(&deep), Err(CompileError::TooDeep)));
}

mod invariants {
    use proptest::prelude::*;

    use super::*;

    /// Objects that use members of the recorded schema, rightly or wrongly.
    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e6..1e6_f64).prop_map(Value::from),
            "[a-z]{0,4}".prop_map(Value::from),
        ];
        let key = prop_oneof![
            prop::sample::select(vec![
                "str", "int", "obj", "arr", "def", "defArr", "defMap", "map", "map2", "set", "emb",
                "embSpec", "keep", "keepArr", "addTrue", "any", "oneOf", "all", "x", "a", "k",
                "in",
            ])
            .prop_map(str::to_owned),
            "[a-z]{1,3}",
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.clone(), inner, 0..5)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reading_twice_changes_nothing(spec in any_value()) {
            let schema = &*SCHEMA;
            if let Ok(once) = read(schema, resource(&spec)) {
                let twice = read(schema, once.clone()).unwrap();
                prop_assert_eq!(&once, &twice);
                let mut unknown = Vec::new();
                schema.prune(&mut once.clone(), Some(&mut unknown));
                prop_assert!(unknown.is_empty(), "{unknown:?}");
            }
        }

        #[test]
        fn what_is_valid_stays_valid_on_update(spec in any_value(), other in any_value()) {
            let schema = &*SCHEMA;
            let (Ok(new), Ok(old)) = (read(schema, resource(&spec)), read(schema, resource(&other)))
            else { return Ok(()) };
            let (mut fresh, mut update) = (FieldErrors::new(), FieldErrors::new());
            schema.validate(&new, None, &mut fresh);
            schema.validate(&new, Some(&old), &mut update);
            // An update can only be held to less than a create.
            prop_assert!(update.iter().all(|e| fresh.contains(e)), "{update:?} {fresh:?}");
        }
    }
}

#[test]
fn defaults_are_bounded_in_all() {
    let schema = json!({"type": "object", "properties": {"items": {"type": "array", "items": {
        "type": "object",
        "properties": {"text": {"type": "string", "default": "t".repeat(10_000)}},
    }}}});
    let schema = Schema::compile(&schema).unwrap();
    let mut few = json!({"items": vec![json!({}); 100]});
    assert!(schema.default(&mut few).is_ok());
    assert_eq!(few.list("items")[0].text("text").len(), 10_000);
    let mut many = json!({"items": vec![json!({}); 10_000]});
    assert!(schema.default(&mut many).is_err());
}
