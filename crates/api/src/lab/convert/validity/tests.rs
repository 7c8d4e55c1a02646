use serde_json::{Value, json};

use super::*;

fn problems(spec: Value) -> Vec<String> {
    let mut object = json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Template", "metadata": { "name": "t" },
    });
    object["spec"] = spec;
    let template = serde_json::from_value(object).expect("a Template");
    check_template(&template).iter().map(ToString::to_string).collect()
}

fn with_environment(environment: Value) -> Vec<String> {
    problems(json!({ "environmentList": Value::Array(vec![environment]) }))
}

#[test]
fn a_template_has_one_to_ten_environments_of_different_names() {
    let environment = |name: String| json!({ "name": name, "image": "i" });
    let many: Vec<_> = (0..11).map(|n| environment(format!("e{n}"))).collect();
    let limit = ["spec.environmentList: must have 1 to 10 items"];
    assert_eq!(problems(json!({ "environmentList": [] })), limit);
    assert_eq!(problems(json!({ "environmentList": many })), limit);
    assert_eq!(
        problems(json!({ "environmentList": [environment("a".into()), environment("a".into())] })),
        ["spec.environmentList[1].name: must not be another environment's name"]
    );
}

#[test]
fn what_is_persistent_needs_a_place_and_a_size() {
    assert_eq!(
        with_environment(json!({ "name": "a", "image": "i", "persistent": true })),
        [
            "spec.environmentList[0].mountPath: is needed for a persistent environment",
            "spec.environmentList[0].size: is needed for a persistent environment",
        ]
    );
    assert_eq!(
        with_environment(json!({ "name": "a", "image": "i", "volumeMode": "Block" })),
        ["spec.environmentList[0].volumeMode: is for persistent environments only"]
    );
}

#[test]
fn a_program_is_needed() {
    assert_eq!(
        with_environment(json!({ "name": "a" })),
        ["spec.environmentList[0].image: is needed when there is no command"]
    );
    assert!(with_environment(json!({ "name": "a", "command": ["true"] })).is_empty());
}

#[test]
fn fields_of_pods_are_looked_at() {
    let found = with_environment(json!({
        "name": "a", "image": "i",
        "env": [{ "name": "1X" }],
        "ports": [
            { "containerPort": 0 },
            { "containerPort": 80, "name": "80" },
            { "containerPort": 80, "protocol": "TCP" },
        ],
        "resources": { "limits": { "memory": "much" }, "requests": { "cpu": 1 } },
    }));
    let paths: Vec<_> = found.iter().map(|text| text.split(": ").next().unwrap_or("")).collect();
    assert_eq!(
        paths,
        [
            "spec.environmentList[0].env[0].name",
            "spec.environmentList[0].ports[0].containerPort",
            "spec.environmentList[0].ports[1].name",
            "spec.environmentList[0].ports[2]",
            "spec.environmentList[0].resources.limits[memory]",
        ]
    );
}

#[test]
fn a_flat_value_beside_its_cleanup_spelling_is_refused() {
    let both = |flat: &str| {
        problems(json!({
            "environmentList": [{ "name": "a", "image": "i" }],
            "inactivityTimeout": flat,
            "cleanup": { "stopAfterInactivity": "1d" },
        }))
    };
    assert!(both("never").is_empty());
    assert_eq!(
        both("1d"),
        [
            "spec.inactivityTimeout: must be left out, or be `never`, beside cleanup.stopAfterInactivity, which means the same"
        ]
    );
}
