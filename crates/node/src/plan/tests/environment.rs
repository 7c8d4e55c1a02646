//! The environment of a container.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::fixture::{Machine, Stored, pod};
use crate::plan::{Missing, PlanError, PlanInputs, start};

fn stored() -> Stored {
    Stored::default()
        .config_map("m", &[("A", "from-map"), ("B", "$(A)"), ("odd.key-1", "odd"), ("E", "")])
        .secret("s", &[("A", b"from-secret"), ("KEY", b"secret")])
        .secret("binary", &[("BIN", &[0xff, 0xfe]), ("NUL", b"a\0b")])
}

fn planned(
    container: Value,
    inputs: &PlanInputs<'_>,
) -> Result<BTreeMap<String, String>, PlanError> {
    let mut container = container;
    container["name"] = json!("main");
    container["command"] = json!(["x"]);
    let start = start(&pod(&container), "main", 0, inputs, &stored())?;
    let count = start.env.len();
    let env: BTreeMap<_, _> = start.env.into_iter().collect();
    assert_eq!(env.len(), count, "every name once");
    Ok(env)
}

#[test]
fn a_process_is_told_where_it_is() {
    let machine = Machine::default();
    let container = json!({
        "ports": [{"name": "http", "containerPort": 80}],
        "volumeMounts": [
            {"name": "scratch", "mountPath": "/one"},
            {"name": "scratch", "mountPath": "/two"},
            {"name": "read-claim", "mountPath": "/claim"},
        ],
        "volumeDevices": [
            {"name": "read-disk", "devicePath": "/dev/xvda"},
            {"name": "read-disk", "devicePath": "/dev/xvdb"},
        ],
    });
    let base = [
        ("HOSTNAME", "web-0"),
        ("KUBERNETES_SERVICE_HOST", "192.0.2.1"),
        ("KUBERNETES_SERVICE_PORT", "6443"),
        ("LANG", "C.UTF-8"),
        ("PATH", "/usr/bin:/bin"),
        ("SOJOURN_PORT_9090", "20002"),
        ("SOJOURN_PORT_HTTP", "20001"),
    ];
    let confined = [
        ("HOME", "/home/pod"),
        ("TMPDIR", "/tmp"),
        ("SOJOURN_MOUNT_SCRATCH", "/one"),
        ("SOJOURN_MOUNT_READ_CLAIM", "/claim"),
        ("SOJOURN_DEVICE_READ_DISK", "/dev/xvda"),
    ];
    let unconfined = [
        ("HOME", "/data/pods/uid-1/home"),
        ("TMPDIR", "/data/pods/uid-1/tmp"),
        ("SOJOURN_MOUNT_SCRATCH", "/data/volumes/scratch"),
        ("SOJOURN_MOUNT_READ_CLAIM", "/data/volumes/read-claim"),
        ("SOJOURN_DEVICE_READ_DISK", "/data/volumes/read-disk/disk.img"),
    ];
    for (is_confined, places) in [(true, confined), (false, unconfined)] {
        let inputs = PlanInputs { confined: is_confined, ..machine.inputs() };
        let env = planned(container.clone(), &inputs).expect("a plan");
        let expected = base.iter().chain(&places);
        let expected = expected.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        assert_eq!(env, expected.collect());
    }
    let inputs = PlanInputs {
        time_zone: Some("Europe/Berlin"),
        lang: None,
        api_server: None,
        ..machine.inputs()
    };
    let env = planned(json!({}), &inputs).expect("a plan");
    assert_eq!(env.get("TZ").map(String::as_str), Some("Europe/Berlin"));
    assert!(!env.contains_key("LANG") && !env.contains_key("KUBERNETES_SERVICE_HOST"));
}

#[test]
fn a_pod_gets_what_it_asks_for() {
    let machine = Machine::default();
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let resource = |resource: &str, divisor: &str| {
        let selector = json!({"resource": resource, "divisor": divisor});
        json!({"resourceFieldRef": selector})
    };
    let limited = json!({"limits": {"memory": "1500Ki"}, "requests": {"cpu": "250m"}});
    let map_key = |name: &str, key: &str| json!({"configMapKeyRef": {"name": name, "key": key}});
    let secret_key = |key: &str| json!({"secretKeyRef": {"name": "s", "key": key}});
    for (from, expected) in [
        (field("metadata.name"), "web-0"),
        (field("metadata.namespace"), "ns"),
        (field("metadata.uid"), "uid-1"),
        (field("metadata.labels['app']"), "web"),
        (field("metadata.labels['none']"), ""),
        (field("metadata.annotations['example.com/a']"), "b"),
        (field("metadata.annotations['odd['key']']"), "odd"),
        (field("spec.nodeName"), "node-1"),
        (field("spec.serviceAccountName"), "robot"),
        (field("status.hostIP"), "192.0.2.7"),
        (field("status.podIP"), "192.0.2.7"),
        (field("status.podIPs"), "192.0.2.7,2001:db8::7"),
        (field("status.hostIPs"), "192.0.2.7,2001:db8::7"),
        (resource("limits.memory", "0"), "1536000"),
        (resource("limits.memory", "1Mi"), "2"),
        (resource("requests.memory", "1"), "0"),
        (resource("requests.cpu", "1"), "1"),
        (resource("requests.cpu", "1m"), "250"),
        // No limit: what the node has.
        (resource("limits.cpu", "0"), "4"),
        (resource("limits.cpu", "1m"), "3500"),
        (resource("limits.ephemeral-storage", "1G"), "100"),
        (map_key("m", "A"), "from-map"),
        (map_key("m", "E"), ""),
        (secret_key("KEY"), "secret"),
        // A value from elsewhere is taken as it is.
        (map_key("m", "B"), "$(A)"),
    ] {
        let container = json!({
            "env": [{"name": "X", "valueFrom": from.clone()}],
            "resources": limited,
        });
        let env = planned(container, &machine.inputs()).expect("a plan");
        assert_eq!(env["X"], expected, "{from}");
    }
}

#[test]
fn limits_are_told_as_a_kubelet_tells_them() {
    let machine = Machine::default();
    let mut pod = pod(&json!({
        "name": "main", "command": ["x"], "resources": {"limits": {"memory": "1Mi"}},
    }));
    let spec = pod.spec.as_mut().expect("a spec");
    let init = json!({"name": "init", "command": ["x"], "env": [
        {"name": "OWN", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "SAME", "valueFrom":
            {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "init"}}},
        {"name": "MAIN", "valueFrom":
            {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "main"}}},
        {"name": "MEMORY", "valueFrom":
            {"resourceFieldRef": {"resource": "limits.memory", "containerName": "main"}}},
    ]});
    spec.init_containers = Some(vec![serde_json::from_value(init).expect("a container")]);
    let resources = json!({"limits": {"cpu": "2"}});
    spec.resources = Some(serde_json::from_value(resources).expect("resources"));
    let start = start(&pod, "init", 0, &machine.inputs(), &stored()).expect("a plan");
    let env: BTreeMap<_, _> = start.env.into_iter().collect();
    let told = ["OWN", "SAME", "MAIN", "MEMORY"].map(|name| env[name].as_str());
    // The Pod's own limit comes before the node's; an init container that is named is told its own
    // figures only.
    assert_eq!(told, ["2", "0", "2", "1048576"]);
}

#[test]
fn later_variables_see_and_replace_earlier_ones() {
    let machine = Machine::default();
    let container = json!({
        "envFrom": [
            {"configMapRef": {"name": "m"}},
            {"prefix": "P_", "secretRef": {"name": "s"}},
            {"configMapRef": {"name": "none", "optional": true}},
            {"secretRef": {"name": "none", "optional": true}},
            {},
        ],
        "env": [
            {"name": "FIRST", "value": "$(A)-$(LATER)-$(PATH)-$(SOJOURN_PORT_HTTP)"},
            {"name": "LATER", "value": "later"},
            {"name": "SECOND", "value": "$(FIRST)/$(LATER)"},
            {"name": "A", "value": "own-$(A)"},
            {"name": "AGAIN", "value": "$(A)"},
            {"name": "ESCAPED", "value": "$$(A)"},
            {"name": "EMPTY"},
            {"name": "SKIPPED", "valueFrom":
                {"configMapKeyRef": {"name": "none", "key": "k", "optional": true}}},
            {"name": "SKIPPED_TOO", "valueFrom":
                {"secretKeyRef": {"name": "s", "key": "none", "optional": true}}},
            {"name": "PATH", "value": "/own"},
            {"name": "KUBERNETES_SERVICE_HOST", "value": "own"},
        ],
    });
    let env = planned(container, &machine.inputs()).expect("a plan");
    for (name, expected) in [
        ("A", Some("own-from-map")),
        ("B", Some("$(A)")),
        ("odd.key-1", Some("odd")),
        ("P_A", Some("from-secret")),
        ("P_KEY", Some("secret")),
        ("FIRST", Some("from-map-$(LATER)-$(PATH)-20001")),
        ("SECOND", Some("from-map-$(LATER)-$(PATH)-20001/later")),
        ("AGAIN", Some("own-from-map")),
        ("ESCAPED", Some("$(A)")),
        ("EMPTY", Some("")),
        ("SKIPPED", None),
        ("SKIPPED_TOO", None),
        ("PATH", Some("/own")),
        ("KUBERNETES_SERVICE_HOST", Some("own")),
    ] {
        assert_eq!(env.get(name).map(String::as_str), expected, "{name}");
    }
}

#[test]
fn what_is_missing_is_named_as_a_kubelet_names_it() {
    let machine = Machine::default();
    let key = |kind: &str, name: &str, key: &str| {
        let mut from = json!({});
        from[kind] = json!({"name": name, "key": key});
        json!({"env": [{"name": "X", "valueFrom": from}]})
    };
    let all = |kind: &str, name: &str| {
        let mut from = json!({});
        from[kind] = json!({"name": name});
        json!({"envFrom": [from]})
    };
    let mut unknown_optional = key("secretKeyRef", "unknown", "k");
    unknown_optional["env"][0]["valueFrom"]["secretKeyRef"]["optional"] = json!(true);
    for (container, expected) in [
        (key("configMapKeyRef", "none", "k"), "configmap \"none\" not found"),
        (key("secretKeyRef", "none", "k"), "secret \"none\" not found"),
        (key("configMapKeyRef", "m", "k"), "couldn't find key k in ConfigMap ns/m"),
        (key("secretKeyRef", "s", "k"), "couldn't find key k in Secret ns/s"),
        (all("configMapRef", "none"), "configmap \"none\" not found"),
        (all("secretRef", "none"), "secret \"none\" not found"),
        (
            all("configMapRef", "unknown"),
            "configmap \"unknown\" could not be read: the API server is not there",
        ),
        // That it may be absent does not say that it is.
        (unknown_optional, "secret \"unknown\" could not be read: the API server is not there"),
    ] {
        let error = planned(container, &machine.inputs()).expect_err(expected);
        assert_eq!(error.to_string(), expected);
        let unknown = expected.contains("could not be read");
        assert_eq!(matches!(error, PlanError::Unknown { .. }), unknown);
        assert_eq!(matches!(error, PlanError::Missing(_)), !unknown);
    }
    let missing = planned(key("secretKeyRef", "none", "k"), &machine.inputs());
    assert_eq!(missing, Err(PlanError::Missing(Missing::Secret("none".to_owned()))));
}

#[test]
fn what_no_process_can_have_is_refused() {
    let machine = Machine::default();
    let variable = |value: Value| json!({"env": [value]});
    for (container, expected) in [
        (
            variable(json!({"name": "A=B", "value": "x"})),
            "environment variable \"A=B\": no variable can have this name",
        ),
        (
            variable(json!({"name": "", "value": "x"})),
            "environment variable \"\": no variable can have this name",
        ),
        (
            variable(json!({"name": "A", "value": "x\0"})),
            "environment variable \"A\": its value contains a NUL, which no variable can",
        ),
        (
            variable(json!({"name": "A", "value": "x".repeat(128 << 10)})),
            "environment variable \"A\": it is longer than 131071 bytes once its references are \
             replaced",
        ),
        (
            variable(json!({"name": "A", "value": "x".repeat((128 << 10) - 2)})),
            "environment variable \"A\": it is longer than the 128 KiB that Linux allows",
        ),
        (
            variable(
                json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}),
            ),
            "environment variable \"A\": unsupported fieldPath: status.phase",
        ),
        (
            variable(json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x['y']"}}})),
            "environment variable \"A\": unsupported fieldPath: spec.x['y']",
        ),
        (
            variable(json!({"name": "A", "valueFrom":
                {"resourceFieldRef": {"resource": "limits.gpu"}}})),
            "environment variable \"A\": unsupported container resource : limits.gpu",
        ),
        (
            variable(json!({"name": "A", "valueFrom":
                {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "none"}}})),
            "environment variable \"A\": container none not found",
        ),
        (
            variable(json!({"name": "A", "valueFrom":
                {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "x"}}})),
            "environment variable \"A\": divisor \"x\" is not an amount: write a number and \
             perhaps a suffix, as in 500m, 2, 128Mi, 1e9",
        ),
        (
            variable(json!({"name": "A", "valueFrom": {}})),
            "environment variable \"A\": it comes from a source that is not known here",
        ),
        (
            variable(json!({"name": "A", "valueFrom":
                {"secretKeyRef": {"name": "binary", "key": "BIN"}}})),
            "environment variable \"A\": its value is not text (UTF-8): mount the Secret as a \
             volume instead",
        ),
        (
            json!({"envFrom": [{"secretRef": {"name": "binary"}}]}),
            "environment variable \"BIN\": its value is not text (UTF-8): mount the Secret as a \
             volume instead",
        ),
    ] {
        let error = planned(container, &machine.inputs()).expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn variables_that_double_each_other_are_stopped() {
    let machine = Machine::default();
    let mut env = vec![json!({"name": "V0", "value": "0123456789"})];
    env.extend((1..60).map(|at| {
        let before = at - 1;
        json!({"name": format!("V{at}"), "value": format!("$(V{before})$(V{before})")})
    }));
    let error = planned(json!({"env": env}), &machine.inputs()).expect_err("2^60 bytes");
    assert!(matches!(error, PlanError::Variable { .. }), "{error}");

    let mut env = vec![json!({"name": "V", "value": "x".repeat(100_000)})];
    env.extend((0..20).map(|at| json!({"name": format!("V{at}"), "value": "$(V)"})));
    assert_eq!(planned(json!({"env": env}), &machine.inputs()), Err(PlanError::TooLarge));

    // Replacing a variable does not count twice.
    let same = vec![json!({"name": "V", "value": "x".repeat(100_000)}); 30];
    assert!(planned(json!({"env": same}), &machine.inputs()).is_ok());
}
