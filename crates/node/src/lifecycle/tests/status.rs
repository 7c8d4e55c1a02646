//! What a status says beside states: preparation, conditions, addresses, words.

use super::*;

#[test]
fn the_whole_status_of_a_running_pod() {
    let spec = json!({
        "restartPolicy": "Always",
        "containers": [{
            "name": "app", "image": "registry.example/app:1",
            "resources": { "requests": { "cpu": "100m" }, "limits": { "cpu": "200m" } },
            "volumeMounts": [
                { "name": "data", "mountPath": "/data" },
                { "name": "conf", "mountPath": "/conf", "readOnly": true },
            ],
        }],
    });
    let mut fixture = PodFixture::launched(&spec);
    fixture.publish(1);
    let decision = fixture.running("app", 0, 3).decide(4);
    let condition = |kind: &str, since: &str| {
        json!({
            "type": kind, "status": "True", "lastTransitionTime": since, "observedGeneration": 1,
        })
    };
    let expected = json!({
        "phase": "Running",
        "qosClass": "BestEffort",
        "observedGeneration": 1,
        "startTime": "2026-01-01T00:00:01Z",
        "hostIP": "10.0.0.7", "hostIPs": [{ "ip": "10.0.0.7" }],
        "podIP": "10.0.0.7", "podIPs": [{ "ip": "10.0.0.7" }],
        "conditions": [
            condition("PodReadyToStartContainers", "2026-01-01T00:00:01Z"),
            condition("Initialized", "2026-01-01T00:00:01Z"),
            condition("Ready", "2026-01-01T00:00:04Z"),
            condition("ContainersReady", "2026-01-01T00:00:04Z"),
            condition("PodScheduled", "2026-01-01T00:00:01Z"),
        ],
        "containerStatuses": [{
            "name": "app",
            "image": "registry.example/app:1",
            "imageID": "",
            "containerID": "sojourn://u-1/app/0",
            "ready": true, "started": true, "restartCount": 0,
            "state": { "running": { "startedAt": "2026-01-01T00:00:03Z" } },
            "resources": { "requests": { "cpu": "100m" }, "limits": { "cpu": "200m" } },
            "allocatedResources": { "cpu": "100m" },
            "volumeMounts": [
                { "name": "data", "mountPath": "/data" },
                { "name": "conf", "mountPath": "/conf", "readOnly": true,
                  "recursiveReadOnly": "Disabled" },
            ],
        }],
    });
    assert_eq!(serde_json::to_value(&decision.status).expect("JSON"), expected);
}

#[test]
fn ends_are_told_with_reason_signal_and_times() {
    let killed = Exit { signal: Some(9), ..exit(1, 5, 137) };
    let cases = [
        (exit(1, 5, 0), "Completed"),
        (exit(1, 5, 3), "Error"),
        (killed.clone(), "Error"),
        (Exit { oom_killed: true, ..killed }, "OOMKilled"),
    ];
    for (end, reason) in cases {
        let end = Exit { message: "last words".to_owned(), ..end };
        let mut fixture = PodFixture::launched(&one("Never"));
        fixture.set("app", 0, RunState::Ended(end.clone()));
        let status = fixture.decide(6).status;
        let shown = container(&status, "app");
        let shown = shown.state.as_ref().and_then(|state| state.terminated.clone());
        let shown = shown.expect("an end");
        assert_eq!(shown.reason.as_deref(), Some(reason));
        assert_eq!((shown.exit_code, shown.signal), (end.exit_code, end.signal));
        assert_eq!(shown.started_at, Some(at(1).into()));
        assert_eq!(shown.finished_at, Some(at(5).into()));
        assert_eq!(shown.message.as_deref(), Some("last words"));
        assert_eq!(shown.container_id.as_deref(), Some("sojourn://u-1/app/0"));
    }
}

#[test]
fn termination_messages_of_all_containers_share_twelve_kilobytes() {
    let spec =
        json!({ "restartPolicy": "Never", "containers": [{ "name": "a" }, { "name": "b" }] });
    let mut fixture = PodFixture::launched(&spec).running("b", 0, 1);
    // 3 bytes each: the limit of 6144 falls between two letters.
    let message = "€".repeat(4000);
    fixture.set("a", 0, RunState::Ended(Exit { message, ..exit(1, 2, 1) }));
    let status = fixture.decide(3).status;
    let shown = container(&status, "a").state.as_ref().and_then(|state| state.terminated.as_ref());
    let message = shown.and_then(|end| end.message.as_ref()).expect("a message");
    assert_eq!(message.len(), 6144);
}

#[test]
fn the_run_before_is_the_last_state() {
    let fixture = PodFixture::launched(&one("Always")).ended("app", 0, 1, 2, 7);
    let status = fixture.clone().running("app", 1, 3).decide(4).status;
    assert_eq!(state(&status, "app"), "running");
    assert_eq!(word(container(&status, "app").last_state.as_ref()), "terminated Error 7");
    assert_eq!(container(&status, "app").restart_count, 1);

    // Its record is gone, but it was published.
    let mut forgetful = fixture;
    forgetful.publish(2);
    forgetful.runs.clear();
    let mut forgetful = forgetful.running("app", 1, 3);
    for moment in [4, 5] {
        let status = forgetful.publish(moment).status;
        assert_eq!(word(container(&status, "app").last_state.as_ref()), "terminated Error 7");
    }
}

#[test]
fn what_keeps_a_pod_from_starting_is_told() {
    let waiting = |container: Option<&str>, reason| Preparation::Waiting {
        container: container.map(str::to_owned),
        reason,
        message: "secret \"s\" not found".to_owned(),
    };
    let spec = json!({ "containers": [{ "name": "a" }, { "name": "b" }] });
    let mut with_init = spec.clone();
    with_init["initContainers"] = json!([{ "name": "setup" }]);
    let cases = [
        (&spec, waiting(None, "ContainerCreating"), "a", "waiting ContainerCreating", true),
        (&with_init, waiting(None, "ContainerCreating"), "a", "waiting PodInitializing", true),
        (
            &spec,
            waiting(Some("b"), "CreateContainerConfigError"),
            "a",
            "waiting ContainerCreating",
            false,
        ),
        (
            &spec,
            waiting(Some("b"), "CreateContainerConfigError"),
            "b",
            "waiting CreateContainerConfigError",
            true,
        ),
    ];
    for (spec, preparation, name, expected, told) in cases {
        let fixture = PodFixture { preparation, ..PodFixture::new(spec) };
        let decision = fixture.decide(1);
        assert_eq!(decision.actions, []);
        assert_eq!(phase(&decision.status), "Pending");
        assert_eq!(state(&decision.status, name), expected);
        let shown = container(&decision.status, name).state.as_ref();
        let message = shown.and_then(|state| state.waiting.as_ref()?.message.as_deref());
        assert_eq!(message.is_some(), told, "{name} {expected}");
        assert_eq!(holds(&decision.status, "PodReadyToStartContainers"), "False");
        assert_eq!(decision.status.pod_ip, None);
    }
}

#[test]
fn a_container_that_cannot_be_restarted_yet_says_why() {
    let preparation = Preparation::Waiting {
        container: Some("app".to_owned()),
        reason: "CreateContainerConfigError",
        message: "secret \"s\" not found".to_owned(),
    };
    let fixture =
        PodFixture { preparation, ..PodFixture::launched(&one("Always")).ended("app", 0, 1, 2, 1) };
    let decision = fixture.decide(3);
    assert_eq!(decision.actions, []);
    assert_eq!(state(&decision.status, "app"), "waiting CreateContainerConfigError");
    let last = container(&decision.status, "app").last_state.as_ref();
    assert_eq!(word(last), "terminated Error 1");
    assert_eq!(phase(&decision.status), "Running");
}

#[test]
fn a_refused_pod_fails_in_words() {
    let refused =
        Preparation::Refused { reason: "UnsupportedField", message: "spec.hostPID".to_owned() };
    let mut fixture =
        PodFixture { preparation: refused.clone(), ..PodFixture::new(&one("Always")) };
    for moment in [1, 2] {
        let decision = fixture.publish(moment);
        assert_eq!((decision.actions, decision.wake), (vec![], None));
        assert_eq!(phase(&decision.status), "Failed");
        assert_eq!(decision.status.reason.as_deref(), Some("UnsupportedField"));
        assert_eq!(decision.status.message.as_deref(), Some("Pod was rejected: spec.hostPID"));
    }
    // What was accepted once and runs is left alone.
    let fixture = PodFixture { preparation: refused, ..PodFixture::launched(&one("Always")) };
    let decision = fixture.clone().running("app", 0, 1).decide(2);
    assert_eq!(decision.actions, []);
    assert_eq!(phase(&decision.status), "Running");
    let decision = fixture.ended("app", 0, 1, 2, 1).decide(3);
    assert_eq!(decision.actions, [Action::Conclude]);
    assert_eq!(phase(&decision.status), "Failed");
}

#[test]
fn probes_make_containers_started_and_ready() {
    // Has a startup probe, a readiness probe; what they say; started and ready.
    let cases = [
        (false, false, None, None, (true, true)),
        (true, false, None, None, (false, false)),
        (true, false, Some(false), None, (false, false)),
        (true, false, Some(true), None, (true, true)),
        (true, true, Some(true), None, (true, false)),
        (true, true, None, Some(true), (false, false)),
        (false, true, None, None, (true, false)),
        (false, true, None, Some(true), (true, true)),
        (false, true, None, Some(false), (true, false)),
    ];
    for (startup, readiness, started, ready, expected) in cases {
        let mut spec = one("Always");
        let probe = json!({ "tcpSocket": { "port": 80 } });
        if startup {
            spec["containers"][0]["startupProbe"] = probe.clone();
        }
        if readiness {
            spec["containers"][0]["readinessProbe"] = probe;
        }
        let fixture =
            PodFixture::launched(&spec).running("app", 0, 1).probed("app", 0, started, ready);
        let status = fixture.decide(2).status;
        let shown = container(&status, "app");
        let case = format!("{startup} {readiness} {started:?} {ready:?}");
        assert_eq!((shown.started, shown.ready), (Some(expected.0), expected.1), "{case}");
        assert_eq!(condition(&status, "Ready").status == "True", expected.1, "{case}");
        assert_eq!(phase(&status), "Running", "{case}");
    }
}

#[test]
fn a_node_that_restarts_does_not_take_readiness_back() {
    let mut spec = one("Always");
    spec["containers"][0]["startupProbe"] = json!({ "tcpSocket": { "port": 80 } });
    spec["containers"][0]["readinessProbe"] = json!({ "tcpSocket": { "port": 80 } });
    let mut fixture =
        PodFixture::launched(&spec).running("app", 0, 1).probed("app", 0, Some(true), Some(true));
    fixture.publish(2);
    fixture.probes.clear();
    let status = fixture.publish(3).status;
    assert!(container(&status, "app").ready);
    assert_eq!(container(&status, "app").started, Some(true));
    // Of the next run nothing is known.
    let status = fixture.ended("app", 0, 1, 4, 1).running("app", 1, 5).decide(6).status;
    assert!(!container(&status, "app").ready);
    assert_eq!(container(&status, "app").started, Some(false));
}

#[test]
fn readiness_gates_are_asked() {
    let mut spec = one("Always");
    spec["readinessGates"] = json!([{ "conditionType": "example.org/lit" }]);
    let gate = |status: &str| PodCondition {
        type_: "example.org/lit".to_owned(),
        status: status.to_owned(),
        ..PodCondition::default()
    };
    let cases = [
        (
            None,
            "False ReadinessGatesNotReady",
            "corresponding condition of pod readiness gate \"example.org/lit\" does not exist.",
        ),
        (
            Some("False"),
            "False ReadinessGatesNotReady",
            "the status of pod readiness gate \"example.org/lit\" is not \"True\", but False",
        ),
        (Some("True"), "True", ""),
    ];
    for (given, expected, message) in cases {
        let mut fixture = PodFixture::launched(&spec).running("app", 0, 1);
        let status = fixture.pod.status.as_mut().expect("a status");
        status.conditions = given.map(|status| vec![gate(status)]);
        let status = fixture.decide(2).status;
        assert_eq!(holds(&status, "Ready"), expected);
        assert_eq!(holds(&status, "ContainersReady"), "True");
        assert_eq!(condition(&status, "Ready").message.as_deref().unwrap_or_default(), message);
        if let Some(given) = given {
            assert_eq!(condition(&status, "example.org/lit"), &gate(given), "it is not ours");
        }
    }
}

#[test]
fn what_others_wrote_stays() {
    let mut fixture = PodFixture::launched(&one("Always")).running("app", 0, 1);
    let status = fixture.pod.status.as_mut().expect("a status");
    status.nominated_node_name = Some("elsewhere".to_owned());
    status.qos_class = Some("Guaranteed".to_owned());
    let scheduled = PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(at(-5).into()),
        ..PodCondition::default()
    };
    status.conditions = Some(vec![scheduled]);
    let status = fixture.decide(2).status;
    assert_eq!(status.nominated_node_name.as_deref(), Some("elsewhere"));
    assert_eq!(status.qos_class.as_deref(), Some("Guaranteed"));
    assert_eq!(condition(&status, "PodScheduled").last_transition_time, Some(at(-5).into()));
}

#[test]
fn times_of_conditions_change_with_their_status_only() {
    let mut fixture = PodFixture::launched(&one("Always"));
    fixture.publish(1);
    let unready = fixture.publish(5).status;
    assert_eq!(condition(&unready, "Ready").last_transition_time, Some(at(1).into()));
    let mut fixture = fixture.running("app", 0, 6);
    let ready = fixture.publish(7).status;
    assert_eq!(condition(&ready, "Ready").last_transition_time, Some(at(7).into()));
    let later = fixture.publish(60).status;
    assert_eq!(ready, later, "nothing happened, nothing changes");
    let unready = fixture.ended("app", 0, 6, 70, 1).publish(71).status;
    assert_eq!(condition(&unready, "Ready").last_transition_time, Some(at(71).into()));
}

#[test]
fn a_succeeded_pod_is_completed() {
    let mut fixture = PodFixture::launched(&one("Never")).ended("app", 0, 1, 2, 0);
    fixture.publish(3);
    let status = fixture.shim(ShimState::Ended).decide(4).status;
    assert_eq!(phase(&status), "Succeeded");
    assert_eq!(holds(&status, "Ready"), "False PodCompleted");
    assert_eq!(holds(&status, "ContainersReady"), "False PodCompleted");
    assert_eq!(holds(&status, "Initialized"), "True PodCompleted");
    assert_eq!(holds(&status, "PodReadyToStartContainers"), "False");
    assert_eq!(status.pod_ip.as_deref(), Some("10.0.0.7"), "it keeps its address");
}

#[test]
fn containers_are_sorted_by_name_and_init_containers_are_not() {
    let spec = json!({
        "initContainers": [{ "name": "z" }, { "name": "m" }],
        "containers": [{ "name": "c" }, { "name": "a" }, { "name": "b" }],
    });
    let status = PodFixture::new(&spec).decide(1).status;
    let names = |statuses: Option<Vec<ContainerStatus>>| -> Vec<String> {
        statuses.into_iter().flatten().map(|status| status.name).collect()
    };
    assert_eq!(names(status.container_statuses), ["a", "b", "c"]);
    assert_eq!(names(status.init_container_statuses), ["z", "m"]);
}

#[test]
fn a_pod_without_anything_is_no_reason_to_panic() {
    let mut fixture = PodFixture::new(&json!({ "containers": [] }));
    fixture.pod = Pod::default();
    let decision = fixture.decide(1);
    assert_eq!(decision.actions, []);
    assert_eq!(phase(&decision.status), "Pending");
    // Nor is a deadline that no API server would let through.
    for seconds in [i64::MIN, 0, i64::MAX] {
        let mut spec = one("Always");
        spec["activeDeadlineSeconds"] = json!(seconds);
        let wake = PodFixture::launched(&spec).running("app", 0, 1).decide(1).wake;
        assert_eq!(wake, (seconds > 0).then_some(Timestamp::MAX), "{seconds}");
    }
}

#[test]
fn two_reasons_make_one_message() {
    let mut spec = one("Always");
    spec["readinessGates"] = json!([{ "conditionType": "a" }, { "conditionType": "b" }]);
    let status = PodFixture::launched(&spec).running("app", 0, 1).decide(2).status;
    let message = condition(&status, "Ready").message.clone().expect("a message");
    assert_eq!(
        message,
        "corresponding condition of pod readiness gate \"a\" does not exist., \
         corresponding condition of pod readiness gate \"b\" does not exist."
    );
}
