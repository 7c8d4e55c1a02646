use super::*;
use crate::cluster::{ClusterSync, FAMILY};

fn definition<K: kube::CustomResourceExt>() -> Value {
    serde_json::to_value(K::crd()).expect("a definition is JSON")
}

fn schema() -> Value {
    let definition = definition::<ClusterDeployment>();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].clone()
}

fn rules(schema: &Value) -> Vec<(String, String)> {
    let rules = schema["x-kubernetes-validations"].as_array().cloned().unwrap_or_default();
    let text = |rule: &Value, name: &str| rule[name].as_str().unwrap_or_default().to_owned();
    rules.iter().map(|rule| (text(rule, "rule"), text(rule, "message"))).collect()
}

#[test]
fn kubectl_knows_it_as_cd_and_shows_how_it_is() {
    let definition = definition::<ClusterDeployment>();
    assert_eq!(definition["spec"]["names"]["shortNames"], json!(["cd"]));
    assert_eq!(definition["spec"]["scope"], json!("Namespaced"));
    let columns = definition["spec"]["versions"][0]["additionalPrinterColumns"].clone();
    let columns = columns.as_array().expect("columns");
    let shown =
        columns.iter().filter(|column| column["priority"].as_i64().unwrap_or_default() == 0);
    let names: Vec<_> = shown.map(|column| column["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["PowerState", "Hibernating", "Ready", "Age"]);
}

#[test]
fn the_family_has_both_kinds_in_its_group() {
    let kinds: Vec<_> =
        FAMILY.kinds().into_iter().map(|kind| (kind.kind, kind.namespaced)).collect();
    assert_eq!(kinds, [("ClusterDeployment".to_owned(), true), ("ClusterSync".to_owned(), true)]);
    let sync = definition::<ClusterSync>();
    let version = &sync["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    assert!(schema.get("required").is_none_or(|required| required == &json!([])), "{schema}");
    assert!(version["subresources"]["status"].is_object(), "whoever syncs writes it alone");
}

#[test]
fn defaults_are_those_of_the_schema() {
    let spec = &schema()["spec"];
    assert_eq!(spec["required"], json!(["infraID", "platform"]));
    let defaults = [
        ("installed", json!(true)),
        ("preserveOnDelete", json!(true)),
        ("onTimeout", json!("Report")),
        ("onDrift", json!("Enforce")),
        ("readinessGates", json!([{ "type": "Nodes" }, { "type": "ClusterOperators" }])),
    ];
    for (field, default) in defaults {
        assert_eq!(spec["properties"][field]["default"], default, "{field}");
    }
    let power = spec["properties"]["powerState"]["enum"].as_array().expect("words");
    assert_eq!(power.len(), 3);
    assert!(power.contains(&json!("")), "nothing is Running: {power:?}");
    let schedule = &spec["properties"]["schedule"]["items"]["properties"];
    assert_eq!(schedule["timeZone"]["default"], json!("UTC"));
}

// case: cluster G04
#[test]
fn the_schema_keeps_machines_where_they_are_but_for_local_ssds() {
    let spec = &schema()["spec"]["properties"];
    let infra_id = rules(&spec["infraID"]);
    assert!(infra_id.contains(&("self == oldSelf".to_owned(), INFRA_ID_STAYS.to_owned())));
    let platform = &spec["platform"];
    let whole = rules(platform);
    assert!(whole[0].0.ends_with(".filter(x, x).size() == 1"), "{whole:?}");
    let platforms = platform["properties"].as_object().expect("platforms");
    assert_eq!(platforms.len(), 11);
    for (name, schema) in platforms {
        assert!(whole[1].0.contains(&format!("has(self.{name}) == has(oldSelf.{name})")), "{name}");
        let access = schema["properties"].as_object().expect("fields");
        assert!(access.contains_key("endpoint"), "{name}");
        assert!(access.contains_key("credentialsSecretRef"), "{name}");
        let rules = rules(schema);
        assert_eq!(rules.len(), 1, "{name}");
        match name.as_str() {
            "gcp" => assert!(!rules[0].0.contains("discardLocalSsdOnHibernate"), "{rules:?}"),
            _ => assert_eq!(rules[0].0, "self == oldSelf", "{name}"),
        }
    }
}

#[test]
fn an_object_is_read_as_it_is_written() {
    let object = json!({
        "apiVersion": "cluster.sojourn.dev/v1alpha1", "kind": "ClusterDeployment",
        "metadata": { "name": "blue", "namespace": "clusters" },
        "spec": {
            "installed": true,
            "powerState": "Hibernating",
            "hibernateAfter": "8h",
            "schedule": [{ "hibernate": "0 20 * * *", "timeZone": "UTC" }],
            "infraID": "blue",
            "contacts": ["ada@example.org"],
            "clusterPoolRef": {
                "poolName": "p", "claimName": "c", "claimedTimestamp": "2026-11-19T08:00:00Z",
            },
            "platform": { "gcp": {
                "project": "p", "discardLocalSsdOnHibernate": false, "endpoint": "https://gcp.example.org",
                "credentialsSecretRef": { "name": "account" },
            } },
            "kubeconfigSecretRef": { "name": "way-in" },
            "readinessGates": [
                { "type": "Workloads", "selector": { "matchLabels": { "app": "dns" } } },
            ],
            "timeouts": { "stop": "20m", "resume": "never" },
            "onTimeout": "Retry",
            "onDrift": "Report",
            "preserveOnDelete": false,
        },
    });
    let cluster: ClusterDeployment = serde_json::from_value(object.clone()).expect("a cluster");
    assert_eq!(serde_json::to_value(cluster).expect("JSON"), object);
}
