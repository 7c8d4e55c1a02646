//! Restart policies and the waits between runs.

use super::*;

#[test]
fn a_new_pod_is_launched_and_then_started() {
    let fixture = PodFixture::new(&one("Always"));
    assert_eq!(fixture.actions(1), [Action::Launch]);
    let fixture = fixture.shim(ShimState::Running { since: at(1) });
    assert_eq!(fixture.actions(2), [start("app", 0)]);
    assert_eq!(fixture.running("app", 0, 2).actions(3), []);
}

#[test]
fn policies_decide_who_runs_again() {
    // The Pod's policy, the container's own, its exit code, and what becomes of it.
    let cases = [
        ("Always", None, 0, Ok(())),
        ("Always", None, 1, Ok(())),
        ("OnFailure", None, 0, Err("Succeeded")),
        ("OnFailure", None, 1, Ok(())),
        ("Never", None, 0, Err("Succeeded")),
        ("Never", None, 7, Err("Failed")),
        ("Always", Some("Never"), 0, Err("Succeeded")),
        ("Always", Some("Never"), 1, Err("Failed")),
        ("Always", Some("OnFailure"), 0, Err("Succeeded")),
        ("Never", Some("OnFailure"), 1, Ok(())),
        ("Never", Some("Always"), 0, Ok(())),
    ];
    for (pod, own, code, expected) in cases {
        let mut spec = one(pod);
        if let Some(own) = own {
            spec["containers"][0]["restartPolicy"] = json!(own);
        }
        let fixture = PodFixture::launched(&spec).ended("app", 0, 1, 5, code);
        let decision = fixture.decide(6);
        let case = format!("{pod} {own:?} {code}");
        match expected {
            Ok(()) => {
                assert_eq!(decision.actions, [start("app", 1)], "{case}");
                assert_eq!(phase(&decision.status), "Running", "{case}");
            }
            Err(expected) => {
                assert_eq!(decision.actions, [Action::Conclude], "{case}");
                assert_eq!(phase(&decision.status), expected, "{case}");
                let over = fixture.shim(ShimState::Ended).decide(7);
                assert_eq!(over.actions, [], "{case}");
                assert_eq!(phase(&over.status), expected, "{case}");
            }
        }
    }
}

#[test]
fn rules_of_a_container_come_before_its_policy() {
    let rules = |action: &str, operator: &str| {
        json!({
            "restartPolicy": "Never",
            "containers": [{
                "name": "app", "restartPolicy": "Never",
                "restartPolicyRules": [
                    { "action": action, "exitCodes": { "operator": operator, "values": [42, 43] } },
                ],
            }],
        })
    };
    let cases = [
        ("Restart", "In", 42, true),
        ("Restart", "In", 1, false),
        ("Restart", "NotIn", 42, false),
        ("Restart", "NotIn", 1, true),
        ("Restart", "Around", 42, false),
        ("Explode", "In", 42, false),
    ];
    for (action, operator, code, again) in cases {
        let fixture = PodFixture::launched(&rules(action, operator)).ended("app", 0, 1, 2, code);
        let expected = if again { start("app", 1) } else { Action::Conclude };
        assert_eq!(fixture.actions(3), [expected], "{action} {operator} {code}");
    }
}

#[test]
fn waits_double_up_to_five_minutes() {
    // After attempt N: the wait, and how the kubelet words it.
    let waits = [
        (0, 0, ""),
        (1, 10, "10s"),
        (2, 20, "20s"),
        (3, 40, "40s"),
        (4, 80, "1m20s"),
        (5, 160, "2m40s"),
        (6, 300, "5m0s"),
        (7, 300, "5m0s"),
    ];
    let mut fixture = PodFixture::launched(&one("Always"));
    let mut clock = 0;
    for (attempt, wait, go_duration) in waits {
        fixture = fixture.ended("app", attempt, clock, clock + 1, 1);
        let end = clock + 1;
        if wait > 0 {
            for moment in [end, end + wait - 1] {
                let decision = fixture.publish(moment);
                assert_eq!(decision.actions, [], "attempt {attempt}");
                assert_eq!(decision.wake, Some(at(end + wait)), "attempt {attempt}");
                let shown = container(&decision.status, "app");
                let waiting = shown.state.clone().and_then(|state| state.waiting);
                let waiting = waiting.expect("it waits");
                assert_eq!(waiting.reason.as_deref(), Some("CrashLoopBackOff"));
                let message = format!(
                    "back-off {go_duration} restarting failed container=app pod=web-0_shop(u-1)"
                );
                assert_eq!(waiting.message, Some(message));
                assert_eq!(word(shown.last_state.as_ref()), "terminated Error 1");
                assert_eq!(phase(&decision.status), "Running");
                assert_eq!(shown.restart_count, i32::try_from(attempt).expect("small"));
            }
        }
        let decision = fixture.publish(end + wait);
        assert_eq!(decision.actions, [start("app", attempt + 1)]);
        assert_eq!(decision.wake, None);
        clock = end + wait;
    }
}

#[test]
fn a_long_run_starts_the_count_afresh() {
    let crashes = PodFixture::launched(&one("Always"))
        .ended("app", 0, 0, 1, 1)
        .ended("app", 1, 1, 2, 1)
        .ended("app", 2, 12, 13, 1);
    // Ten minutes are not more than ten minutes.
    let short = crashes.clone().ended("app", 3, 33, 633, 1);
    assert_eq!(short.decide(634).wake, Some(at(673)));
    let long = crashes.ended("app", 3, 33, 634, 1);
    assert_eq!(long.actions(634), [start("app", 4)]);
    let again = long.ended("app", 4, 634, 635, 1);
    assert_eq!(again.decide(636).wake, Some(at(645)), "10 s after a fresh start");
}

#[test]
fn forgotten_runs_are_taken_for_short_ones() {
    for (attempt, wait) in [(1, 10), (2, 20), (5, 160), (6, 300), (4_000_000_000, 300)] {
        let fixture = PodFixture::launched(&one("Always")).ended("app", attempt, 0, 1, 1);
        assert_eq!(fixture.decide(2).wake, Some(at(1 + wait)), "attempt {attempt}");
    }
}

#[test]
fn failed_starts_wait_in_the_same_way() {
    let mut fixture = PodFixture::launched(&one("Always")).failed("app", 0, 1);
    let decision = fixture.publish(1);
    assert_eq!(decision.actions, [start("app", 1)]);
    let shown = container(&decision.status, "app");
    assert_eq!(word(shown.state.as_ref()), "waiting RunContainerError");
    let waiting = shown.state.as_ref().and_then(|state| state.waiting.as_ref());
    let message = waiting.and_then(|waiting| waiting.message.as_deref());
    assert_eq!(message, Some("exec: \"nonsense\": no such file"));
    assert_eq!(word(shown.last_state.as_ref()), "terminated StartError 128");

    let decision = fixture.failed("app", 1, 2).decide(3);
    assert_eq!(decision.actions, []);
    assert_eq!(decision.wake, Some(at(12)));
    assert_eq!(state(&decision.status, "app"), "waiting CrashLoopBackOff");
    let last = container(&decision.status, "app").last_state.as_ref();
    let last = last.and_then(|state| state.terminated.as_ref()).expect("an end");
    assert_eq!(last.message.as_deref(), Some("exec: \"nonsense\": no such file"));
}

#[test]
fn a_failed_start_ends_a_pod_that_never_restarts() {
    let decision = PodFixture::launched(&one("Never")).failed("app", 0, 1).decide(2);
    assert_eq!(decision.actions, [Action::Conclude]);
    assert_eq!(phase(&decision.status), "Failed");
    assert_eq!(state(&decision.status, "app"), "terminated StartError 128");
}

#[test]
fn a_failed_probe_stops_the_container_and_its_policy_decides() {
    let cases = [
        ("Always", None, 35, "Container app failed liveness probe, will be restarted"),
        ("OnFailure", Some(5), 15, "Container app failed liveness probe, will be restarted"),
        ("Never", Some(0), 12, "Container app failed liveness probe"),
    ];
    for (policy, grace, deadline, why) in cases {
        let mut spec = one(policy);
        spec["terminationGracePeriodSeconds"] = json!(25);
        let fixture = PodFixture::launched(&spec).running("app", 0, 1).unhealthy("app", 0, grace);
        let expected = Action::Stop {
            container: "app".to_owned(),
            attempt: 0,
            deadline: at(deadline),
            why: why.to_owned(),
        };
        assert_eq!(fixture.actions(10), [expected], "{policy}");
        let after = fixture.ended("app", 0, 1, 12, 143).actions(12);
        let expected = if policy == "Never" { Action::Conclude } else { start("app", 1) };
        assert_eq!(after, [expected], "{policy}");
    }
}

#[test]
fn a_probe_of_an_earlier_run_says_nothing() {
    let fixture = PodFixture::launched(&one("Always"))
        .ended("app", 0, 1, 2, 1)
        .running("app", 1, 2)
        .unhealthy("app", 0, None);
    assert_eq!(fixture.actions(3), []);
}

#[test]
fn one_container_waits_while_the_other_runs() {
    let spec = json!({ "containers": [{ "name": "b" }, { "name": "a" }] });
    let fixture = PodFixture::launched(&spec)
        .running("a", 0, 1)
        .ended("b", 0, 1, 2, 1)
        .ended("b", 1, 2, 3, 1);
    let decision = fixture.decide(4);
    assert_eq!(decision.actions, []);
    assert_eq!(phase(&decision.status), "Running");
    assert_eq!(holds(&decision.status, "Ready"), "False ContainersNotReady");
    let ready = condition(&decision.status, "Ready");
    assert_eq!(ready.message.as_deref(), Some("containers with unready status: [b]"));
}

#[test]
fn a_lost_shim_is_replaced_and_runs_go_on_counting() {
    for (policy, expected) in [("Always", None), ("OnFailure", None), ("Never", Some("Failed"))] {
        let mut fixture = PodFixture::launched(&one(policy)).running("app", 0, 1);
        fixture.publish(2);
        let mut fixture = fixture.shim(ShimState::Ended);
        let decision = fixture.publish(100);
        let shown = container(&decision.status, "app");
        assert_eq!(word(shown.state.as_ref()), "terminated ContainerStatusUnknown 137");
        let end = shown.state.as_ref().and_then(|state| state.terminated.as_ref());
        assert_eq!(
            end.and_then(|end| end.message.as_deref()),
            Some("The container could not be located when the pod was terminated")
        );
        if let Some(expected) = expected {
            assert_eq!(decision.actions, []);
            assert_eq!(phase(&decision.status), expected);
            continue;
        }
        assert_eq!(decision.actions, [Action::Launch]);
        assert_eq!(phase(&decision.status), "Running");
        let mut gone = exit(1, 100, 0);
        gone.unseen = true;
        fixture.set("app", 0, RunState::Ended(gone));
        let fixture = fixture.shim(ShimState::Running { since: at(101) });
        assert_eq!(fixture.actions(102), [start("app", 1)], "{policy}");
    }
}

#[test]
fn a_shim_is_not_launched_only_to_wait() {
    let fixture = PodFixture::launched(&one("Always"))
        .shim(ShimState::Ended)
        .ended("app", 0, 0, 1, 1)
        .ended("app", 1, 1, 2, 1);
    let decision = fixture.decide(3);
    assert_eq!((decision.actions, decision.wake), (vec![], Some(at(12))));
    assert_eq!(fixture.actions(12), [Action::Launch]);
}

#[test]
fn without_records_the_published_status_is_remembered() {
    // How the container had ended when the node lost its folder, if it had; and what comes next.
    let cases = [
        ("Always", None, vec![Action::Launch], "terminated ContainerStatusUnknown 137"),
        ("Never", None, vec![], "terminated ContainerStatusUnknown 137"),
        ("OnFailure", Some(1), vec![], "waiting CrashLoopBackOff"),
        ("Never", Some(1), vec![], "terminated Error 1"),
    ];
    for (policy, code, actions, shown) in cases {
        let fixture = PodFixture::launched(&one(policy));
        let mut fixture = match code {
            None => fixture.running("app", 3, 50),
            Some(code) => fixture.ended("app", 3, 50, 60, code),
        };
        fixture.publish(62);
        fixture.runs.clear();
        let mut fixture = fixture.shim(ShimState::Absent);
        for moment in [63, 64] {
            let decision = fixture.publish(moment);
            assert_eq!(decision.actions, actions, "{policy} {shown}");
            assert_eq!(state(&decision.status, "app"), shown, "{policy}");
            assert_eq!(container(&decision.status, "app").restart_count, 3);
        }
        if !actions.is_empty() {
            let fixture = fixture.shim(ShimState::Running { since: at(70) });
            assert_eq!(fixture.actions(71), [start("app", 4)], "{policy}");
        }
    }
}

#[test]
fn a_failed_start_is_remembered_although_it_left_no_record() {
    let before = PodFixture::launched(&one("Always")).ended("app", 0, 0, 1, 1).failed("app", 1, 2);
    let mut fixture = before;
    let told = fixture.publish(3);
    assert_eq!(state(&told.status, "app"), "waiting CrashLoopBackOff");
    fixture.runs.retain(|run| matches!(run.state, RunState::Ended(_)));
    assert_eq!(fixture.decide(4), told, "a node that was restarted says the same");
    assert_eq!(fixture.actions(12), [start("app", 2)]);
    // What runs is what the shim says, whatever was published.
    assert_eq!(fixture.running("app", 0, 1).actions(13), []);
}
