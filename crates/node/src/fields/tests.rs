mod kubernetes;

use serde_json::json;

use super::*;

/// A Pod that uses what is to be had, all of it honoured or harmless.
fn good() -> Value {
    serde_json::from_str(include_str!("tests/pod.json")).expect("JSON")
}

#[test]
fn ordinary_pods_pass() {
    assert_eq!(check(&good()), Ok(()));
    assert_eq!(check(&json!({})), Ok(()));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn each_refused_field_is_named() {
    let container = "/spec/containers/0";
    for (at, value, path) in [
        ("/spec/hostPID", json!(true), "spec.hostPID"),
        ("/spec/hostIPC", json!(true), "spec.hostIPC"),
        ("/spec/runtimeClassName", json!("gvisor"), "spec.runtimeClassName"),
        ("/spec/dnsPolicy", json!("None"), "spec.dnsPolicy"),
        ("/spec/dnsConfig", json!({}), "spec.dnsConfig"),
        ("/spec/hostAliases", json!([{"ip": "1.2.3.4"}]), "spec.hostAliases"),
        ("/spec/subdomain", json!("sub"), "spec.subdomain"),
        ("/spec/setHostnameAsFQDN", json!(true), "spec.setHostnameAsFQDN"),
        ("/spec/os", json!({"name": "windows"}), "spec.os.name"),
        ("/spec/resourceClaims", json!([{"name": "gpu"}]), "spec.resourceClaims"),
        ("/spec/securityContext/runAsUser", json!(0), "spec.securityContext.runAsUser"),
        ("/spec/securityContext/fsGroup", json!(1), "spec.securityContext.fsGroup"),
        (
            "/spec/securityContext/supplementalGroups",
            json!([0]),
            "spec.securityContext.supplementalGroups",
        ),
        ("/spec/securityContext/sysctls", json!([{}]), "spec.securityContext.sysctls"),
        (
            "/spec/securityContext/seccompProfile",
            json!({"type": "Localhost"}),
            "spec.securityContext.seccompProfile.type",
        ),
        ("/spec/volumes/0/hostPath", json!({"path": "/"}), "spec.volumes[0].hostPath"),
        ("/spec/volumes/1/nfs", json!({}), "spec.volumes[1].nfs"),
        ("/spec/volumes/1/csi", json!({"driver": "x"}), "spec.volumes[1].csi"),
        ("/spec/volumes/1/emptyDir/medium", json!("HugePages"), "spec.volumes[1].emptyDir.medium"),
        (
            "/spec/volumes/2/projected/sources/0/clusterTrustBundle",
            json!({}),
            "spec.volumes[2].projected.sources[0].clusterTrustBundle",
        ),
        (
            "/spec/initContainers/0/securityContext",
            json!({"privileged": true}),
            "spec.initContainers[0].securityContext.privileged",
        ),
        ("/spec/newInKubernetes2", json!(1), "spec.newInKubernetes2"),
        ("/spec/containers", json!("none"), "spec.containers"),
    ]
    .map(|(at, value, path)| (at.to_owned(), value, path.to_owned()))
    .into_iter()
    .chain(
        [
            ("securityContext/privileged", json!(true)),
            ("securityContext/allowPrivilegeEscalation", json!(true)),
            ("securityContext/runAsUser", json!(1000)),
            ("securityContext/procMount", json!("Unmasked")),
            ("securityContext/capabilities/add", json!(["NET_ADMIN"])),
            ("securityContext/seLinuxOptions", json!({})),
            ("ports/0/hostIP", json!("127.0.0.1")),
            ("ports/0/protocol", json!("SCTP")),
            ("resources/limits", json!({"cpu": "1", "nvidia.com/gpu": "1"})),
            ("resources/requests", json!({"hugepages-2Mi": "2Mi"})),
            ("resources/claims", json!([{"name": "x"}])),
            ("terminationMessagePath", json!("/proc/1/environ")),
            ("terminationMessagePath", json!("/dev/null")),
            ("terminationMessagePath", json!("../x")),
            ("volumeMounts/0/mountPath", json!("/")),
            ("volumeMounts/0/mountPath", json!("//")),
            ("volumeMounts/0/mountPath", json!("/proc")),
            ("volumeMounts/0/mountPath", json!("/proc/sys")),
            ("volumeMounts/0/mountPath", json!("/dev/./pts")),
            ("volumeMounts/0/mountPath", json!("/sys/")),
            ("volumeMounts/0/mountPath", json!("/data/../proc")),
            ("volumeMounts/0/mountPath", json!("data")),
            ("volumeMounts/0/subPath", json!("../up")),
            ("volumeMounts/0/subPath", json!("/etc")),
            ("volumeMounts/0/mountPropagation", json!("Bidirectional")),
            ("volumeDevices/0/devicePath", json!("/")),
            ("volumeDevices/0/devicePath", json!("/dev")),
            ("volumeDevices/0/devicePath", json!("/dev/null")),
            ("volumeDevices/0/devicePath", json!("/dev//pts/0")),
            ("volumeDevices/0/devicePath", json!("/dev/shm/x")),
            ("volumeDevices/0/devicePath", json!("/dev/termination-log")),
            ("volumeDevices/0/devicePath", json!("/dev/../proc/x")),
            ("volumeDevices/0/devicePath", json!("/proc/x")),
            ("volumeDevices/0/devicePath", json!("dev/xvda")),
            ("livenessProbe/grpc", json!({"port": 1})),
            ("livenessProbe/httpGet/host", json!("example.com")),
            ("lifecycle/postStart", json!({"exec": {"command": ["x"]}})),
            ("lifecycle/preStop/tcpSocket", json!({"port": 1})),
            ("lifecycle/stopSignal", json!("SIGSEGV")),
            ("env/0/valueFrom/fileKeyRef", json!({"key": "x"})),
            ("env/0/valueFrom/resourceFieldRef/resource", json!("limits.hugepages-2Mi")),
            ("restartPolicyRules/0/action", json!("RestartAllContainers")),
            ("stdin", json!(true)),
            ("tty", json!(true)),
        ]
        .map(|(field, value)| {
            let path = field.replace("/0/", "[0].").replace('/', ".");
            (format!("{container}/{field}"), value, format!("spec.containers[0].{path}"))
        }),
    ) {
        let mut pod = good();
        let (parent, name) = at.rsplit_once('/').expect("a path");
        pod.pointer_mut(parent).expect("a parent")[name] = value.clone();
        let refused = check(&pod).expect_err(&path);
        let last = refused.fields.last().expect("one at least");
        assert_eq!(last.path, path, "{value}");
        assert!(!last.why.is_empty());
    }
}

#[test]
fn a_container_needs_a_command() {
    for command in [json!(null), json!([])] {
        let mut pod = good();
        pod["spec"]["containers"][0]["command"] = command.clone();
        pod["spec"]["initContainers"][0]["command"] = command;
        assert_eq!(
            check(&pod).expect_err("no command").to_string(),
            "spec.containers[0].command: images cannot be pulled here; give the container a \
             command; spec.initContainers[0].command: images cannot be pulled here; give the \
             container a command"
        );
    }
}

#[test]
fn a_long_list_is_cut() {
    let mut pod = good();
    let volume = json!({"name": "v", "hostPath": {"path": "/etc"}});
    pod["spec"]["volumes"] = Value::Array(vec![volume; 20]);
    pod["spec"]["x".repeat(10_000)] = json!(1);
    let refused = check(&pod).expect_err("twenty-one fields");
    assert_eq!((refused.fields.len(), refused.more), (MAX_LISTED_FIELDS, 5));
    let text = refused.to_string();
    assert!(text.starts_with("spec.volumes[0].hostPath: no folder of the machine"), "{text}");
    assert!(text.ends_with("; and 5 more"), "{text}");
    let mut strange = json!({"spec": {}});
    strange["spec"]["x".repeat(10_000)] = json!(1);
    assert!(check(&strange).expect_err("unknown").to_string().len() < 200);
}

/// The page for people. To write it anew:
/// `SOJOURN_WRITE_FIELDS=../../docs/node-fields.md cargo test -p sojourn-node the_page`.
#[test]
fn the_page_says_what_the_table_says() {
    let page = document::markdown();
    if let Some(path) = std::env::var_os("SOJOURN_WRITE_FIELDS") {
        std::fs::write(path, &page).expect("the page can be written");
        return;
    }
    let written = include_str!("../../../../docs/node-fields.md");
    assert!(written == page, "docs/node-fields.md is not what the table says: write it anew");
}
