use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn read(value: Value) -> InstanceStatus {
    serde_json::from_value(value).expect("a status always reads")
}

// case: lab I18
#[test]
fn a_counter_that_is_no_number_heals_and_costs_nothing_else() {
    let status = read(json!({
        "phase": "Ready",
        "lifecycle": { "stage": "Warned", "alertsSent": "two", "deadline": "2026-11-17T09:00:00Z" },
        "activity": { "last": "2026-11-16T09:00:00Z", "count": 7 },
    }));
    assert_eq!(status.phase, Some(Phase::Ready));
    let lifecycle = status.lifecycle.expect("the rest of it");
    assert_eq!(lifecycle.alerts_sent, 0);
    assert_eq!(lifecycle.stage, Some(Stage::Warned));
    assert!(lifecycle.deadline.is_some());
    assert_eq!(status.activity.map(|activity| activity.count), Some(7));
}

#[test]
fn of_a_list_the_items_that_make_sense_stay() {
    let status = read(json!({
        "notices": [
            { "id": "a", "attempts": 1 },
            "what",
            { "id": "b", "attempts": -1, "kind": "Nonsense", "state": "Delivered" },
        ],
        "conditions": [
            { "type": "Ready" },
            {
                "type": "Held", "status": "True", "reason": "Paused", "message": "",
                "lastTransitionTime": "2026-11-16T09:00:00Z",
            },
        ],
        "submission": 5,
    }));
    let notices: Vec<_> =
        status.notices.iter().map(|n| (n.id.as_str(), n.attempts, n.kind, n.state)).collect();
    let delivered = Some(NoticeState::Delivered);
    assert_eq!(notices, [("a", 1, None, None), ("b", 0, None, delivered)]);
    let conditions: Vec<_> = status.conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(conditions, ["Held"]);
    assert!(status.submission.is_empty());
}

#[test]
fn nothing_at_all_is_a_fresh_status() {
    for nothing in [json!(null), json!("x"), json!([1]), json!({}), json!({ "unknown": 1 })] {
        assert_eq!(read(nothing), InstanceStatus::default());
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-zA-Z0-9:-]{0,24}".prop_map(Value::from),
        Just(json!("2026-11-16T09:00:00Z")),
        Just(json!("Ready")),
    ];
    let key = prop_oneof![
        "[a-z]{1,8}".boxed(),
        proptest::sample::select(vec![
            "phase",
            "lifecycle",
            "stage",
            "alertsSent",
            "notices",
            "id",
            "activity",
            "last",
            "count",
            "conditions",
            "type",
            "status",
            "submission",
            "environments",
            "next",
            "at",
        ])
        .prop_map(str::to_owned)
        .boxed(),
    ];
    leaf.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn anything_reads_and_what_was_read_is_written_and_read_alike(value in any_json()) {
        let status = read(value);
        let written = serde_json::to_value(&status).expect("a status always writes");
        prop_assert_eq!(read(written), status);
    }
}
