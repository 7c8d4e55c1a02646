//! What holds for any objects and patches whatever.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{json, merge, strategic};
use super::service_and_deployment;

/// Names that mean something to the patches, and some that do not.
fn any_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "metadata",
        "spec",
        "ports",
        "port",
        "finalizers",
        "labels",
        "template",
        "containers",
        "name",
        "env",
        "selector",
        "a",
        "$patch",
        "$retainKeys",
        "$setElementOrder/ports",
        "$setElementOrder/finalizers",
        "$deleteFromPrimitiveList/finalizers",
        "$setElementOrder",
    ])
    .prop_map(str::to_owned)
}

fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3i64).prop_map(Value::from),
        prop::sample::select(vec!["x", "y", "replace", "delete", "merge"]).prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(any_name(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_operation() -> impl Strategy<Value = Value> {
    let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "?"]);
    let path = prop::collection::vec(prop_oneof![any_name(), "[-0-9~/]{0,3}"], 0..4)
        .prop_map(|steps| steps.iter().map(|step| format!("/{step}")).collect::<String>());
    (op, path.clone(), path, any_value()).prop_map(
        |(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}),
    )
}

proptest! {
    #[test]
    fn garbage_never_panics(mut target in any_value(), patch in any_value()) {
        let (shapes, root) = service_and_deployment();
        let mut other = target.clone();
        let _ = strategic::apply(&shapes, root, &mut other, &patch);
        let _ = json::apply(&mut target.clone(), &patch);
        let _ = merge::apply(&mut target, &patch);
    }

    #[test]
    fn json_operations_never_panic(
        mut target in any_value(),
        operations in prop::collection::vec(any_operation(), 0..6),
    ) {
        let _ = json::apply(&mut target, &json!(operations));
    }

    /// A list that replaces an object keeps the nulls in its elements until it replaces a list.
    #[test]
    fn merging_settles(
        mut target in any_value(),
        patch in prop::collection::btree_map(any_name(), any_value(), 0..4),
    ) {
        let patch = Value::Object(patch.into_iter().collect());
        prop_assert_eq!(merge::apply(&mut target, &patch), Ok(()));
        prop_assert_eq!(merge::apply(&mut target, &patch), Ok(()));
        let settled = target.clone();
        prop_assert_eq!(merge::apply(&mut target, &patch), Ok(()));
        prop_assert_eq!(target, settled);
    }
}
