use super::*;
use crate::cluster::ClusterConfig;

const ENDPOINT: &str = "https://cloud.example.org";

fn paths(change: impl FnOnce(&mut Value)) -> Vec<String> {
    check_cluster(&cluster(change)).into_iter().map(|problem| problem.path).collect()
}

fn with_spec(name: &str, value: Value) -> Vec<String> {
    paths(|object| object["spec"][name] = value)
}

#[test]
fn what_makes_no_sense_is_refused_at_its_field() {
    assert_eq!(paths(|_| {}), Vec::<String>::new());
    let workloads = |selector: Value| json!([{ "type": "Workloads", "selector": selector }]);
    let bad = json!({ "matchExpressions": [{ "key": "a", "operator": "Near" }] });
    for (field, value, path) in [
        ("infraID", json!("a b"), "infraID"),
        ("hibernateAfter", json!("0s"), "hibernateAfter"),
        ("hibernateAfter", json!("8"), "hibernateAfter"),
        ("schedule", json!([{ "timeZone": "UTC" }]), "schedule[0]"),
        ("schedule", json!([{ "hibernate": "60 * * * *" }]), "schedule[0].hibernate"),
        ("schedule", json!([{ "resume": "5-1 * * * *" }]), "schedule[0].resume"),
        (
            "schedule",
            json!([{ "resume": "@daily" }, { "resume": "@daily", "timeZone": "Nowhere/Land" }]),
            "schedule[1].timeZone",
        ),
        ("schedule", json!(vec![json!({ "resume": "@daily" }); 33]), "schedule"),
        ("contacts", json!(["ada@example.org", "ada"]), "contacts[1]"),
        ("contacts", json!(vec!["ada@example.org"; 11]), "contacts"),
        (
            "clusterPoolRef",
            json!({ "claimedTimestamp": "soon" }),
            "clusterPoolRef.claimedTimestamp",
        ),
        ("kubeconfigSecretRef", json!({ "name": "No" }), "kubeconfigSecretRef.name"),
        ("readinessGates", json!([{ "type": "Workloads" }]), "readinessGates[0].selector"),
        (
            "readinessGates",
            json!([{ "type": "Nodes", "selector": {} }]),
            "readinessGates[0].selector",
        ),
        ("readinessGates", workloads(bad), "readinessGates[0].selector"),
        ("timeouts", json!({ "stop": "0s" }), "timeouts.stop"),
        ("timeouts", json!({ "resume": "1x" }), "timeouts.resume"),
        ("platform", json!({}), "platform"),
        ("platform", json!({ "pod": {}, "fake": {} }), "platform"),
        ("platform", json!({ "exec": { "name": "../sh" } }), "platform.exec.name"),
        ("platform", json!({ "aws": { "region": "" } }), "platform.aws.region"),
        ("platform", json!({ "vsphere": { "endpoint": "here" } }), "platform.vsphere.endpoint"),
        ("platform", json!({ "pod": { "endpoint": ENDPOINT } }), "platform.pod.endpoint"),
        ("platform", json!({ "fake": { "endpoint": ENDPOINT } }), "platform.fake.endpoint"),
        (
            "platform",
            json!({ "exec": { "name": "acme", "endpoint": ENDPOINT } }),
            "platform.exec.endpoint",
        ),
        (
            "platform",
            json!({ "gcp": { "project": "p", "credentialsSecretRef": { "name": "a b" } } }),
            "platform.gcp.credentialsSecretRef.name",
        ),
    ] {
        assert_eq!(with_spec(field, value.clone()), [format!("spec.{path}")], "{field}: {value}");
        let object = cluster(|object| object["spec"][field] = value.clone());
        let wanted = cluster_intent(&object, &ClusterConfig::default());
        assert!(wanted.is_err(), "{field}: {value}");
    }
}

#[test]
fn a_wish_that_cannot_be_read_is_refused_and_keeps_nothing_from_being_decided() {
    let keep = |object: &mut Value| {
        object["metadata"]["annotations"] = json!({ "sojourn.dev/keep-until": "tomorrow" });
    };
    assert_eq!(paths(keep), ["metadata.annotations[sojourn.dev/keep-until]"]);
    let intent = cluster_intent(&cluster(keep), &ClusterConfig::default()).expect("sensible");
    assert_eq!(intent.keep_until, None);
}

#[test]
fn its_machines_stay_where_they_are_and_are_known_by_the_same_name() {
    let of = |platform: Value| cluster(|object| object["spec"]["platform"] = platform);
    let changed = |old: &ClusterDeployment, new: &ClusterDeployment| -> Vec<String> {
        check_change(old, new).into_iter().map(|problem| problem.path).collect()
    };
    let pods = cluster(|_| {});
    assert_eq!(
        changed(&pods, &cluster(|object| object["spec"]["powerState"] = json!("Hibernating"))),
        [""; 0]
    );
    let renamed = cluster(|object| object["spec"]["infraID"] = json!("green"));
    assert_eq!(changed(&pods, &renamed), ["spec.infraID"]);
    assert_eq!(changed(&pods, &of(json!({ "fake": {} }))), ["spec.platform"]);
    let exec =
        |folder: &str| of(json!({ "exec": { "name": "folder", "config": { "folder": folder } } }));
    assert_eq!(changed(&exec("a"), &exec("b")), ["spec.platform"]);
    assert_eq!(changed(&exec("a"), &exec("a")), [""; 0]);
    let secret = of(json!({ "pod": { "credentialsSecretRef": { "name": "other" } } }));
    assert_eq!(changed(&pods, &secret), ["spec.platform"]);
}

// case: cluster G04
#[test]
fn the_option_for_local_ssds_may_be_edited_and_nothing_beside_it() {
    let gcp = |project: &str, discards: Value| {
        let platform =
            json!({ "gcp": { "project": project, "discardLocalSsdOnHibernate": discards } });
        cluster(|object| object["spec"]["platform"] = platform)
    };
    for (before, after) in
        [(json!(null), json!(true)), (json!(true), json!(false)), (json!(false), json!(null))]
    {
        assert_eq!(check_change(&gcp("p", before), &gcp("p", after)), []);
    }
    assert_eq!(check_change(&gcp("p", json!(true)), &gcp("q", json!(true))).len(), 1);
}

#[test]
fn secrets_that_a_cluster_names_are_known_by_their_fields() {
    assert_eq!(named_secrets(&cluster(|_| {}).spec), []);
    let object = cluster(|object| {
        object["spec"]["kubeconfigSecretRef"] = json!({ "name": "way-in" });
        object["spec"]["platform"] =
            json!({ "exec": { "name": "folder", "credentialsSecretRef": { "name": "account" } } });
    });
    let secrets = named_secrets(&object.spec);
    let expected = [
        ("spec.kubeconfigSecretRef.name".to_owned(), "way-in"),
        ("spec.platform.exec.credentialsSecretRef.name".to_owned(), "account"),
    ];
    assert_eq!(secrets, expected);
}
