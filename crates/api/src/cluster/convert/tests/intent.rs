use jiff::SignedDuration;
use sojourn_core::cluster::{
    Intent, OnDrift, OnTimeout, Platform, PoolMembership, ReadinessGates, Stopped, Timeouts, Wanted,
};
use sojourn_core::term::Term;

use super::*;
use crate::cluster::ClusterConfig;

fn intent_of(change: impl FnOnce(&mut Value)) -> Intent {
    cluster_intent(&cluster(change), &ClusterConfig::default()).expect("sensible")
}

fn with_spec(name: &str, value: Value) -> Intent {
    intent_of(|object| object["spec"][name] = value)
}

fn annotated(name: &str, text: &str) -> Intent {
    intent_of(|object| object["metadata"]["annotations"] = json!({ name: text }))
}

#[test]
fn a_cluster_of_which_little_is_said_runs_and_has_the_defaults() {
    let minutes = |count| Term::Span(SignedDuration::from_mins(count));
    let expected = Intent {
        uid: "u-1".to_owned(),
        generation: 3,
        created_at: "2026-11-19T08:00:00Z".parse().expect("a time"),
        deleting: false,
        paused: false,
        observe: false,
        keep_until: None,
        installed: true,
        wanted: Wanted::Running,
        wanted_written_at: None,
        platform: Platform::Actuated(Stopped::Removed),
        infra_disabled: false,
        fake: false,
        hibernate_after: None,
        schedules: Vec::new(),
        pool: None,
        has_kubeconfig: false,
        gates: ReadinessGates { nodes: true, cluster_operators: true, workloads: Vec::new() },
        skips_cluster_operators: false,
        timeouts: Timeouts { stop: minutes(20), resume: minutes(30) },
        on_timeout: OnTimeout::Report,
        on_drift: OnDrift::Enforce,
        has_contacts: false,
        preserve_on_delete: true,
        has_finalizer: false,
    };
    assert_eq!(intent_of(|_| {}), expected);
}

#[test]
fn everything_that_is_said_is_heard() {
    let intent = intent_of(|object| {
        object["metadata"]["deletionTimestamp"] = json!("2026-11-19T09:00:00Z");
        object["metadata"]["finalizers"] = json!(["other", "cluster.sojourn.dev/records"]);
        object["metadata"]["annotations"] = json!({
            "sojourn.dev/observe": "true", "sojourn.dev/keep-until": "2026-11-20T08:00:00.5Z",
        });
        object["spec"] = json!({
            "installed": false,
            "powerState": "Hibernating",
            "hibernateAfter": "1.5h",
            "schedule": [
                { "hibernate": "0 20 * * 1-5", "resume": "0 7 * * 1-5", "timeZone": "Europe/Rome" },
                { "hibernate": "0 12 * * 6" },
            ],
            "infraID": "green",
            "contacts": ["ada@example.org"],
            "platform": { "exec": { "name": "folder", "config": { "folder": "green" } } },
            "kubeconfigSecretRef": { "name": "green-kubeconfig" },
            "readinessGates": [
                { "type": "Workloads", "selector": { "matchLabels": { "app": "dns" } } },
                { "type": "Workloads", "selector": { "matchLabels": { "app": "dns" } } },
            ],
            "timeouts": { "stop": "90s", "resume": "never" },
            "onTimeout": "RollBack",
            "onDrift": "Report",
            "preserveOnDelete": false,
        });
    });
    assert!(intent.deleting && intent.observe && intent.has_finalizer && intent.has_contacts);
    assert!(!intent.installed && !intent.preserve_on_delete && intent.has_kubeconfig);
    let keep_until = "2026-11-20T08:00:01Z".parse().expect("a time");
    assert_eq!((intent.wanted, intent.keep_until), (Wanted::Hibernating, Some(keep_until)));
    assert_eq!(intent.hibernate_after, Some(SignedDuration::from_mins(90)));
    let texts: Vec<_> = intent.schedules.iter().map(|schedule| schedule.text.as_str()).collect();
    assert_eq!(texts, ["0 20 * * 1-5 / 0 7 * * 1-5 / Europe/Rome", "0 12 * * 6 / - / UTC"]);
    assert!(intent.schedules[0].resume.is_some() && intent.schedules[1].resume.is_none());
    assert_eq!(intent.platform, Platform::Actuated(Stopped::Kept));
    let gates = ReadinessGates {
        nodes: false,
        cluster_operators: false,
        workloads: vec!["app=dns".to_owned()],
    };
    assert_eq!(intent.gates, gates);
    let stop = Term::Span(SignedDuration::from_secs(90));
    assert_eq!(intent.timeouts, Timeouts { stop, resume: Term::Never });
    assert_eq!((intent.on_timeout, intent.on_drift), (OnTimeout::RollBack, OnDrift::Report));
}

#[test]
fn what_a_cluster_leaves_open_is_as_the_installation_says() {
    let second = Term::Span(SignedDuration::from_secs(1));
    let mut config = ClusterConfig::default();
    config.timeouts.stop = second;
    let object = cluster(|object| object["spec"]["timeouts"] = json!({ "resume": "5m" }));
    let intent = cluster_intent(&object, &config).expect("sensible");
    let resume = Term::Span(SignedDuration::from_mins(5));
    assert_eq!(intent.timeouts, Timeouts { stop: second, resume });
}

#[test]
fn an_empty_power_state_is_running_and_no_gates_are_none() {
    assert_eq!(with_spec("powerState", json!("")).wanted, Wanted::Running);
    assert_eq!(with_spec("powerState", json!("Running")).wanted, Wanted::Running);
    let gates = with_spec("readinessGates", json!([])).gates;
    assert!(!gates.nodes && !gates.cluster_operators);
    assert_eq!(with_spec("hibernateAfter", json!("never")).hibernate_after, None);
    let tiny = with_spec("hibernateAfter", json!("1us")).hibernate_after;
    assert_eq!(tiny, Some(SignedDuration::from_nanos(1_000)));
}

#[test]
fn a_pause_is_said_by_any_of_three_annotations_in_the_words_of_others() {
    let pause = "cluster.sojourn.dev/powerstate-pause";
    for text in ["true", "True", "TRUE", "t", "T", "1"] {
        assert!(annotated(pause, text).paused, "{text}");
        assert!(annotated("cluster.sojourn.dev/powerstate-paused", text).paused, "{text}");
    }
    for text in ["false", "0", "", "yes", "tRuE"] {
        assert!(!annotated(pause, text).paused, "{text}");
    }
    assert!(annotated("sojourn.dev/paused", "true").paused);
}

// case: cluster S14
#[test]
fn what_nobody_can_stop_is_unsupported() {
    for (platform, stopped) in [
        (json!({ "pod": {} }), Some(Stopped::Removed)),
        (json!({ "fake": {} }), Some(Stopped::Kept)),
        (json!({ "exec": { "name": "folder" } }), Some(Stopped::Kept)),
        (json!({ "none": {} }), None),
        (json!({ "baremetal": {} }), None),
        (json!({ "vsphere": { "vCenter": "vc.example.org" } }), None),
    ] {
        assert_eq!(with_spec("platform", platform.clone()).stopped(), stopped, "{platform}");
    }
    let disabled = annotated("cluster.sojourn.dev/infra-disabled", "true");
    assert_eq!(disabled.stopped(), None);
    assert_eq!(disabled.platform, Platform::Actuated(Stopped::Removed));
}

#[test]
fn a_fake_cluster_is_one_by_its_annotation() {
    assert!(annotated("cluster.sojourn.dev/fake-cluster", "true").fake);
    assert!(!with_spec("platform", json!({ "fake": {} })).fake);
}

#[test]
fn a_label_skips_operators() {
    let labelled = |text: &str| {
        let labels = json!({ "cluster.sojourn.dev/resume-skips-cluster-operators": text });
        intent_of(|object| object["metadata"]["labels"] = labels).skips_cluster_operators
    };
    assert!(labelled("true"));
    assert!(!labelled("false"));
}

#[test]
fn a_cluster_of_a_pool_is_claimed_once_it_says_by_whom_and_when() {
    let at = "2026-11-19T07:00:00Z";
    let claimed = Some(PoolMembership { claimed_at: Some(at.parse().expect("a time")) });
    let unclaimed = Some(PoolMembership { claimed_at: None });
    for (pool, expected) in [
        (json!({ "poolName": "p" }), unclaimed),
        (json!({ "poolName": "p", "claimName": "c" }), unclaimed),
        (json!({ "poolName": "p", "claimedTimestamp": at }), unclaimed),
        (json!({ "poolName": "p", "claimName": "c", "claimedTimestamp": at }), claimed),
        (json!({ "claimName": "c", "claimedTimestamp": at }), None),
    ] {
        assert_eq!(with_spec("clusterPoolRef", pool.clone()).pool, expected, "{pool}");
    }
}

#[test]
fn who_else_wrote_the_power_state_last_is_known_by_its_owners() {
    let entry = |manager: &str, field: &str, time: &str| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "cluster.sojourn.dev/v1alpha1",
            "time": time, "fieldsType": "FieldsV1", "fieldsV1": { "f:spec": { field: {} } },
        })
    };
    let written_at = |entries: Value| {
        let intent = intent_of(|object| object["metadata"]["managedFields"] = entries);
        intent.wanted_written_at.map(|at| at.to_string())
    };
    let (early, late) = ("2026-11-19T08:00:00Z", "2026-11-19T09:00:00Z");
    let power = "f:powerState";
    assert_eq!(written_at(json!([entry("kubectl", "f:contacts", late)])), None);
    assert_eq!(written_at(json!([entry("sojourn", power, late)])), None);
    let both = json!([entry("kubectl-patch", power, early), entry("sojourn", power, late)]);
    assert_eq!(written_at(both).as_deref(), Some(early));
    let two = json!([entry("argo", power, late), entry("kubectl-patch", power, early)]);
    assert_eq!(written_at(two).as_deref(), Some(late));
}

#[test]
fn a_cluster_that_no_api_server_has_made_is_not_decided_about() {
    let object = cluster(|object| object["metadata"]["creationTimestamp"] = json!(null));
    let problems = cluster_intent(&object, &ClusterConfig::default()).expect_err("no time");
    assert_eq!(problems.0[0].path, "metadata.creationTimestamp");
}
