use super::*;

#[test]
fn a_status_keeps_others_conditions_and_replaces_addresses() {
    let status = NodeStatus {
        addresses: Some(vec![NodeAddress { type_: "Hostname".into(), address: "here".into() }]),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: 10_250 }),
        }),
        ..NodeStatus::default()
    };
    assert_eq!(
        status_patch(&status),
        json!({ "status": {
            "addresses": [{ "$patch": "replace" }, { "type": "Hostname", "address": "here" }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10_250 } },
        } })
    );
}

#[test]
fn a_hostname_becomes_a_label() {
    let long = "h".repeat(70);
    for (hostname, want) in [
        ("here", "here"),
        ("My_Host.local", "My_Host.local"),
        ("-odd host-", "odd-host"),
        ("", ""),
        (&long, &long[..63]),
    ] {
        assert_eq!(label_value(hostname), want, "{hostname:?}");
    }
}
