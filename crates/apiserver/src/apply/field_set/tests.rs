use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::growth::assert_in_proportion;

fn set(value: &Value) -> FieldSet {
    FieldSet::parse(value).unwrap()
}

#[test]
fn parsing_makes_one_spelling() {
    let cases = [
        (json!({}), json!({})),
        (json!({".": {}}), json!({})),
        (json!({"f:a": {".": {}}}), json!({"f:a": {}})),
        (json!({"f:a": {"z:x": {}}}), json!({"f:a": {}})),
        (json!({"f:a": null}), json!({"f:a": {}})),
        (
            json!({"k:{\"b\":1,\"a\":2}": {".": {}, "f:x": {}}, "k:{\"a\":2,\"b\":1.0}": {"f:y": {}}}),
            json!({"k:{\"a\":2,\"b\":1}": {".": {}, "f:x": {}, "f:y": {}}}),
        ),
    ];
    for (given, expected) in cases {
        assert_eq!(set(&given).into_json(), expected, "{given}");
    }
    for refused in [json!([]), json!({"f": {}}), json!({"f:a": 1}), json!({"f:a": {"k:1": {}}})] {
        assert!(FieldSet::parse(&refused).is_err(), "{refused}");
    }
}

#[test]
fn differences_keep_what_lies_below() {
    let cases = [
        // (a, b, a - b)
        (json!({"f:a": {".": {}, "f:b": {}}}), json!({"f:a": {}}), json!({"f:a": {"f:b": {}}})),
        (json!({"f:a": {".": {}, "f:b": {}}}), json!({"f:a": {"f:b": {}}}), json!({"f:a": {}})),
        (json!({"f:a": {"f:b": {}}}), json!({"f:a": {"f:b": {}}}), json!({})),
        (json!({"f:a": {}}), json!({"f:a": {"f:b": {}}}), json!({"f:a": {}})),
        (json!({"f:a": {".": {}, "f:b": {}}}), json!({"f:a": {".": {}, "f:b": {}}}), json!({})),
    ];
    for (a, b, expected) in cases {
        let mut left = set(&a);
        left.subtract(&set(&b));
        assert_eq!(left.into_json(), expected, "{a} - {b}");
    }
}

#[test]
fn removing_a_path_takes_everything_below() {
    let mut fields = set(&json!({"f:status": {".": {}, "f:x": {}}, "f:metadata": {"f:uid": {}}}));
    fields.remove_path(&["f:status"]);
    fields.remove_path(&["f:metadata", "f:uid"]);
    fields.remove_path(&["f:spec", "f:x"]);
    assert!(fields.is_empty());
}

#[test]
fn paths_list_members_before_what_lies_below() {
    let fields = set(&json!({
        "f:spec": {"f:z": {}, "f:ports": {
            "k:{\"port\":443}": {".": {}, "f:port": {}},
            "k:{\"port\":80}": {".": {}, "f:port": {}},
        }},
        "f:data": {},
    }));
    let texts: Vec<String> = fields.paths().iter().map(|path| path_text(path)).collect();
    assert_eq!(
        texts,
        [
            ".data",
            ".spec.z",
            ".spec.ports[port=80]",
            ".spec.ports[port=443]",
            ".spec.ports[port=80].port",
            ".spec.ports[port=443].port",
        ]
    );
}

/// What a write changes, and what each of as many managers owns.
fn owned_by_many(count: usize) -> (FieldSet, Vec<FieldSet>) {
    let changed: Node = (0..count).map(|i| (format!("f:k{i}"), leaf())).collect();
    let owned = (0..count).map(|i| set(&json!({"f:data": {format!("f:o{i}"): {}}})));
    (set(&json!({"f:data": changed})), owned.collect())
}

#[test]
fn taking_from_many_managers_takes_time_in_proportion_to_their_number() {
    assert_in_proportion(4_000, owned_by_many, |(changed, mut owned)| {
        owned.iter_mut().for_each(|fields| fields.subtract(&changed));
        assert!(owned.iter().all(|fields| !fields.is_empty()));
    });
}

#[test]
fn finding_conflicts_takes_time_in_proportion_to_the_number_of_managers() {
    assert_in_proportion(4_000, owned_by_many, |(changed, owned)| {
        assert!(!owned.iter().any(|fields| fields.intersects(&changed)));
    });
}

fn any_step() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]".prop_map(|name| format!("f:{name}")),
        (0..3i64).prop_map(|index| format!("i:{index}")),
        "[a-c]".prop_map(|name| format!("k:{{\"name\":\"{name}\"}}")),
        (0..3i64).prop_map(|value| format!("v:{value}")),
    ]
}

fn any_set() -> impl Strategy<Value = FieldSet> {
    let path = prop::collection::vec(any_step(), 1..4);
    prop::collection::vec(path, 0..8).prop_map(|paths| {
        let mut out = FieldSet::default();
        for path in paths {
            let mut node = leaf();
            for step in path.into_iter().rev() {
                node = Value::Object(Node::from_iter([(step, node)]));
            }
            out.unite(&set(&node));
        }
        out
    })
}

fn members(fields: &FieldSet) -> std::collections::BTreeSet<Vec<&str>> {
    fields.paths().into_iter().collect()
}

proptest! {
    #[test]
    fn round_trips(a in any_set()) {
        prop_assert_eq!(FieldSet::parse(&a.clone().into_json()).unwrap(), a);
    }

    #[test]
    fn operations_agree_with_plain_sets(a in any_set(), b in any_set()) {
        let (in_a, in_b) = (members(&a), members(&b));
        let mut union = a.clone();
        union.unite(&b);
        prop_assert_eq!(members(&union), in_a.union(&in_b).cloned().collect());
        let both = a.intersection(&b);
        prop_assert_eq!(members(&both), in_a.intersection(&in_b).cloned().collect());
        prop_assert_eq!(a.intersects(&b), !both.is_empty());
        let mut rest = a.clone();
        rest.subtract(&b);
        prop_assert_eq!(members(&rest), in_a.difference(&in_b).cloned().collect());
        rest.unite(&both);
        prop_assert_eq!(rest, a);
    }

    #[test]
    fn union_is_commutative_and_idempotent(a in any_set(), b in any_set()) {
        let mut ab = a.clone();
        ab.unite(&b);
        let mut ba = b.clone();
        ba.unite(&a);
        prop_assert_eq!(&ab, &ba);
        ab.unite(&b);
        prop_assert_eq!(ab, ba);
    }
}
