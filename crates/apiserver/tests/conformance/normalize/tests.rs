use serde_json::json;

use super::*;

fn normalized(mut records: Vec<Value>) -> Vec<Value> {
    let kept = records.clone();
    normalize(&mut records, &kept);
    records
}

#[test]
fn versions_keep_their_order_and_lists_say_what_they_include() {
    let uid = "0a1b2c3d-0000-4000-8000-000000000001";
    let object = |version: &str| json!({"metadata": {"uid": uid, "resourceVersion": version}});
    let list = |version: &str| json!({"metadata": {"resourceVersion": version}});
    let records = normalized(vec![object("120"), list("130"), object("99"), list("99"), list("5")]);
    let versions: Vec<&str> = records
        .iter()
        .map(|record| record["metadata"]["resourceVersion"].as_str().unwrap())
        .collect();
    assert_eq!(versions, ["rv2", "rv2+", "rv1", "rv1+", "rv0+"]);
    assert_eq!(records[0]["metadata"]["uid"], "uid1");
}

#[test]
fn versions_that_are_not_compared_take_no_number() {
    let object = |version: &str| json!({"metadata": {"uid": "u", "resourceVersion": version}});
    let mut records = vec![object("7"), object("8"), object("9")];
    normalize(&mut records, &[object("7"), json!({"/kind": "Secret"}), object("9")]);
    assert_eq!(records[2]["metadata"]["resourceVersion"], "rv2");
}

#[test]
fn only_volatile_texts_are_replaced() {
    let now = jiff::Timestamp::now();
    let cases = [
        (format!("{now:.0}"), "<time>"),
        (format!("{now:.6}"), "<microtime>"),
        ("2019-01-02T03:04:05Z".to_owned(), "2019-01-02T03:04:05Z"),
        ("10.0.0.17".to_owned(), "<ip>"),
        ("10.1.0.17".to_owned(), "10.1.0.17"),
        (
            "Too large resource version: 9999, current: 312".to_owned(),
            "Too large resource version: <rv>, current: <rv>",
        ),
        ("spec.replicas: Invalid value: 7".to_owned(), "spec.replicas: Invalid value: 7"),
    ];
    for (text, expected) in cases {
        assert_eq!(normalized(vec![json!({"x": text})]), [json!({"x": expected})]);
    }
}

#[test]
fn a_generated_name_is_renamed_wherever_it_stands() {
    let records = normalized(vec![
        json!({"metadata": {"generateName": "a-", "name": "a-x7k2p", "uid": "u"}}),
        json!({"message": "pods \"a-x7k2p\" not found"}),
    ]);
    assert_eq!(records[0]["metadata"]["name"], "a-<suffix1>");
    assert_eq!(records[1]["message"], "pods \"a-<suffix1>\" not found");
}

#[test]
fn causes_are_sorted_in_the_details_and_in_the_message() {
    let cause = |field: &str| json!({"field": field, "message": "Required value", "reason": "R"});
    let records = normalized(vec![json!({
        "kind": "Status",
        "message": "W \"x\" is invalid: [spec.b: Required value, spec.a: Required value]",
        "details": {"causes": [cause("spec.b"), cause("spec.a")]},
    })]);
    assert_eq!(
        records[0]["message"],
        "W \"x\" is invalid: [spec.a: Required value, spec.b: Required value]"
    );
    assert_eq!(records[0]["details"]["causes"], json!([cause("spec.a"), cause("spec.b")]));
}

#[test]
fn owners_that_are_not_in_upstreams_order_are_told() {
    let entry = |operation: &str, time: &str, manager: &str| json!({"operation": operation, "time": time, "manager": manager});
    let (early, late) = ("2019-01-01T00:00:00Z", "2019-01-01T00:00:01Z");
    let owners = |entries: Vec<Value>| {
        normalized(vec![json!({"managedFields": entries})])[0]["managedFields"].clone()
    };
    let in_order = owners(vec![
        entry("Apply", late, "z"),
        json!({"operation": "Update", "manager": "scale"}),
        entry("Update", early, "b"),
        entry("Update", late, "a"),
    ]);
    let managers: Vec<&str> =
        in_order.as_array().unwrap().iter().map(|e| e["manager"].as_str().unwrap()).collect();
    assert_eq!(managers, ["z", "a", "b", "scale"]);
    let swapped = owners(vec![entry("Update", late, "a"), entry("Update", early, "b")]);
    assert_eq!(swapped[2], OUT_OF_ORDER);
}

#[test]
fn ages_are_replaced_in_tables_only() {
    let records = normalized(vec![
        json!({"kind": "Table", "rows": [{"cells": ["web", "3m20s", "2", "2 (3m20s ago)"]}]}),
        json!({"spec": {"period": "3m20s"}}),
    ]);
    assert_eq!(records[0]["rows"][0]["cells"], json!(["web", "<age>", "2", "2 (<age> ago)"]));
    assert_eq!(records[1]["spec"]["period"], "3m20s");
}
