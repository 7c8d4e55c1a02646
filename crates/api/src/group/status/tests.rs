use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn group(value: Value) -> InstanceGroupStatus {
    serde_json::from_value(value).expect("a status always reads")
}

fn machine(value: Value) -> MachineStatus {
    serde_json::from_value(value).expect("a status always reads")
}

#[test]
fn one_bad_field_costs_that_field() {
    let status = group(json!({
        "serial": 9, "failures": "many", "retryAt": "2026-11-16T09:00:00Z",
        "reserved": [{ "name": "web-a" }, 5, { "name": "web-b", "replaces": 7 }],
        "replicas": { "desired": 3, "total": -1 },
        "rotations": [{ "machine": "web-c", "id": "r", "reason": "Tired", "tier": "Forced" }],
    }));
    assert_eq!((status.serial, status.failures), (9, 0));
    assert!(status.retry_at.is_some());
    let names: Vec<_> = status.reserved.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["web-a", "web-b"]);
    assert_eq!(status.replicas.map(|replicas| (replicas.desired, replicas.total)), Some((3, 0)));
    let rotation = &status.rotations[0];
    assert_eq!((rotation.reason, rotation.tier), (None, Some(Tier::Forced)));

    let status = machine(json!({
        "phase": "Draining", "health": "Ill",
        "drain": { "id": "d", "deadline": "2026-11-16T09:00:00Z", "outcome": "Maybe" },
    }));
    assert_eq!((status.phase, status.health), (Some(Phase::Draining), None));
    let drain = status.drain.expect("the rest of it");
    assert!(drain.deadline.is_some() && drain.outcome.is_none());
}

#[test]
fn nothing_at_all_is_a_fresh_status() {
    for nothing in [json!(null), json!("x"), json!([1]), json!({}), json!({ "unknown": 1 })] {
        assert_eq!(group(nothing.clone()), InstanceGroupStatus::default());
        assert_eq!(machine(nothing), MachineStatus::default());
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        "[a-zA-Z0-9:-]{0,24}".prop_map(Value::from),
        Just(json!("2026-11-16T09:00:00Z")),
        Just(json!("Draining")),
    ];
    let key = proptest::sample::select(vec![
        "phase",
        "rotation",
        "rotations",
        "drain",
        "deadline",
        "id",
        "reserved",
        "name",
        "started",
        "at",
        "serial",
        "replicas",
        "conditions",
        "also",
        "nonsense",
    ]);
    leaf.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..6).prop_map(|map| {
                Value::Object(map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn anything_reads_and_what_was_read_is_written_and_read_alike(value in any_json()) {
        let read = group(value.clone());
        prop_assert_eq!(group(serde_json::to_value(&read).expect("it writes")), read);
        let read = machine(value);
        prop_assert_eq!(machine(serde_json::to_value(&read).expect("it writes")), read);
    }
}
