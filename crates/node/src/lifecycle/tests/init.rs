//! Init containers, sidecars and what comes after them.

use super::*;

/// Two init containers, one main.
fn two(policy: &str) -> Value {
    json!({
        "restartPolicy": policy,
        "initContainers": [{ "name": "first" }, { "name": "second" }],
        "containers": [{ "name": "app" }],
    })
}

/// A sidecar with a startup probe, an init container, a second sidecar, one main.
fn sidecars(policy: &str) -> Value {
    json!({
        "restartPolicy": policy,
        "initContainers": [
            { "name": "proxy", "restartPolicy": "Always",
              "startupProbe": { "tcpSocket": { "port": 80 } } },
            { "name": "setup" },
            { "name": "logger", "restartPolicy": "Always" },
        ],
        "containers": [{ "name": "app" }],
        "terminationGracePeriodSeconds": 20,
    })
}

#[test]
fn init_containers_run_in_order() {
    let fixture = PodFixture::launched(&two("Always"));
    let initialised = |fixture: &PodFixture, now| holds(&fixture.decide(now).status, "Initialized");

    assert_eq!(fixture.actions(1), [start("first", 0)]);
    let status = fixture.decide(1).status;
    assert_eq!(state(&status, "first"), "waiting PodInitializing");
    assert_eq!(state(&status, "app"), "waiting PodInitializing");
    assert_eq!(holds(&status, "Initialized"), "False ContainersNotInitialized");
    assert_eq!(
        condition(&status, "Initialized").message.as_deref(),
        Some("containers with incomplete status: [first second]")
    );

    let fixture = fixture.running("first", 0, 2);
    assert_eq!(fixture.actions(3), []);
    assert_eq!(phase(&fixture.decide(3).status), "Pending");
    let fixture = fixture.ended("first", 0, 2, 4, 0);
    assert_eq!(fixture.actions(5), [start("second", 0)]);
    let status = fixture.decide(5).status;
    assert!(container(&status, "first").ready);
    assert_eq!(
        condition(&status, "Initialized").message.as_deref(),
        Some("containers with incomplete status: [second]")
    );
    let fixture = fixture.running("second", 0, 6).ended("second", 0, 6, 7, 0);
    assert_eq!(fixture.actions(8), [start("app", 0)]);
    assert_eq!(initialised(&fixture, 8), "True");
    let fixture = fixture.running("app", 0, 9);
    assert_eq!(fixture.actions(10), []);
    assert_eq!(phase(&fixture.decide(10).status), "Running");
    // The main one starts again, the others do not.
    assert_eq!(fixture.ended("app", 0, 9, 11, 1).actions(12), [start("app", 1)]);
}

#[test]
fn a_failed_init_container_is_restarted_by_policy() {
    for (policy, again) in [("Always", true), ("OnFailure", true), ("Never", false)] {
        let fixture = PodFixture::launched(&two(policy)).ended("first", 0, 1, 2, 3);
        let decision = fixture.decide(3);
        if again {
            assert_eq!(decision.actions, [start("first", 1)], "{policy}");
            assert_eq!(phase(&decision.status), "Pending", "{policy}");
            let waits = fixture.ended("first", 1, 3, 4, 3).decide(5);
            assert_eq!((waits.actions, waits.wake), (vec![], Some(at(14))), "{policy}");
            assert_eq!(state(&waits.status, "first"), "waiting CrashLoopBackOff", "{policy}");
        } else {
            assert_eq!(decision.actions, [Action::Conclude], "{policy}");
            assert_eq!(phase(&decision.status), "Failed", "{policy}");
            assert_eq!(state(&decision.status, "first"), "terminated Error 3");
            assert_eq!(state(&decision.status, "second"), "waiting PodInitializing");
            assert_eq!(state(&decision.status, "app"), "waiting PodInitializing");
            assert_eq!(holds(&decision.status, "Ready"), "False PodFailed");
        }
    }
}

#[test]
fn an_init_container_that_succeeded_is_done_under_every_policy() {
    for policy in ["Always", "OnFailure", "Never"] {
        let fixture = PodFixture::launched(&two(policy)).ended("first", 0, 1, 2, 0);
        assert_eq!(fixture.actions(3), [start("second", 0)], "{policy}");
    }
}

#[test]
fn sidecars_start_in_order_and_stay() {
    let fixture = PodFixture::launched(&sidecars("Always"));
    assert_eq!(fixture.actions(1), [start("proxy", 0)]);
    let fixture = fixture.running("proxy", 0, 2);
    assert_eq!(fixture.actions(3), [], "its startup probe has not spoken");
    let fixture = fixture.probed("proxy", 0, Some(true), None);
    assert_eq!(fixture.actions(4), [start("setup", 0)]);
    let fixture = fixture.running("setup", 0, 5);
    assert_eq!(fixture.actions(6), []);
    let fixture = fixture.ended("setup", 0, 5, 7, 0);
    assert_eq!(fixture.actions(8), [start("logger", 0)]);
    assert_eq!(phase(&fixture.decide(8).status), "Pending");
    let fixture = fixture.running("logger", 0, 9);
    assert_eq!(fixture.actions(10), [start("app", 0)]);
    let fixture = fixture.running("app", 0, 11);
    let decision = fixture.decide(12);
    assert_eq!(decision.actions, []);
    assert_eq!(phase(&decision.status), "Running");
    assert_eq!(holds(&decision.status, "Ready"), "True");
}

#[test]
fn a_sidecar_that_ends_is_restarted_whatever_the_policy_and_the_progress() {
    for policy in ["Always", "OnFailure", "Never"] {
        // While a later init container runs.
        let fixture = PodFixture::launched(&sidecars(policy))
            .ended("proxy", 0, 1, 4, 0)
            .probed("proxy", 0, Some(true), None)
            .running("setup", 0, 3);
        assert_eq!(fixture.actions(5), [start("proxy", 1)], "{policy}");
        // Before its successor has had its turn.
        let fixture = PodFixture::launched(&sidecars(policy)).ended("proxy", 0, 1, 2, 1);
        assert_eq!(fixture.actions(3), [start("proxy", 1)], "{policy}");
        // Beside the main container; the Pod stays initialised and running.
        let fixture = PodFixture::launched(&sidecars(policy))
            .running("proxy", 0, 1)
            .probed("proxy", 0, Some(true), None)
            .ended("setup", 0, 2, 3, 0)
            .ended("logger", 0, 4, 9, 2)
            .running("app", 0, 5);
        let decision = fixture.decide(10);
        assert_eq!(decision.actions, [start("logger", 1)], "{policy}");
        assert_eq!(phase(&decision.status), "Running", "{policy}");
        assert_eq!(holds(&decision.status, "Initialized"), "True", "{policy}");
        assert_eq!(holds(&decision.status, "ContainersReady"), "False ContainersNotReady");
    }
}

#[test]
fn a_sidecar_in_trouble_does_not_take_initialisation_back() {
    let mut fixture = PodFixture::launched(&sidecars("Always"))
        .running("proxy", 0, 1)
        .probed("proxy", 0, Some(true), None)
        .ended("setup", 0, 2, 3, 0)
        .running("logger", 0, 4)
        .running("app", 0, 5);
    fixture.publish(6);
    // It starts anew, and its startup probe has not spoken.
    let restarted = fixture.clone().ended("proxy", 0, 1, 7, 1).running("proxy", 1, 8).decide(9);
    assert_eq!(restarted.actions, []);
    assert_eq!(phase(&restarted.status), "Running");
    assert_eq!(holds(&restarted.status, "Initialized"), "True");
    // It waits, and a main container goes on by its own count.
    let fixture = fixture.ended("logger", 0, 4, 7, 1).ended("logger", 1, 8, 9, 1);
    let waits = fixture.clone().ended("app", 0, 5, 10, 1).decide(11);
    assert_eq!(waits.actions, [start("app", 1)]);
    let both = fixture.ended("app", 0, 5, 6, 1).ended("app", 1, 7, 10, 1).decide(11);
    assert_eq!((both.actions, both.wake), (vec![], Some(at(19))));
    assert_eq!(phase(&both.status), "Running");
    assert_eq!(holds(&both.status, "Initialized"), "True");
}

#[test]
fn an_unhealthy_sidecar_is_stopped() {
    let fixture = PodFixture::launched(&sidecars("Never"))
        .running("proxy", 0, 1)
        .unhealthy("proxy", 0, Some(7))
        .running("setup", 0, 2);
    let actions = fixture.actions(10);
    let [Action::Stop { container, deadline, .. }] = actions.as_slice() else {
        panic!("{actions:?}");
    };
    assert_eq!((container.as_str(), *deadline), ("proxy", at(17)));
}

#[test]
fn sidecars_end_with_the_last_main_container() {
    let fixture = PodFixture::launched(&sidecars("OnFailure"))
        .running("proxy", 0, 1)
        .probed("proxy", 0, Some(true), None)
        .ended("setup", 0, 2, 3, 0)
        .running("logger", 0, 4)
        .ended("app", 0, 5, 50, 0);
    let decision = fixture.decide(51);
    assert_eq!(decision.actions, [stop("logger", 0, 70)], "the last one first");
    assert_eq!(phase(&decision.status), "Running", "processes are left");
    let fixture = fixture.ended("logger", 0, 4, 52, 143);
    assert_eq!(fixture.actions(53), [stop("proxy", 0, 70)]);
    let decision = fixture.ended("proxy", 0, 1, 54, 143).decide(55);
    assert_eq!(decision.actions, [Action::Conclude]);
    assert_eq!(phase(&decision.status), "Succeeded", "sidecars have no say");
}

#[test]
fn a_failed_init_container_takes_sidecars_with_it() {
    let fixture = PodFixture::launched(&sidecars("Never"))
        .running("proxy", 0, 1)
        .probed("proxy", 0, Some(true), None)
        .ended("setup", 0, 2, 3, 9);
    let decision = fixture.decide(4);
    assert_eq!(decision.actions, [stop("proxy", 0, 23)]);
    assert_eq!(phase(&decision.status), "Pending", "an end is told when nothing runs");
    let decision = fixture.ended("proxy", 0, 1, 5, 0).decide(6);
    assert_eq!(decision.actions, [Action::Conclude]);
    assert_eq!(phase(&decision.status), "Failed");
}

#[test]
fn a_new_shim_initialises_anew() {
    let before = |policy: &str| {
        PodFixture::launched(&two(policy))
            .ended("first", 0, 1, 2, 0)
            .ended("second", 0, 3, 4, 0)
            .running("app", 0, 5)
    };
    let fixture = before("Always").shim(ShimState::Ended);
    assert_eq!(fixture.actions(10), [Action::Launch]);
    let mut lost = exit(5, 10, 137);
    lost.unseen = true;
    let mut fixture = fixture.shim(ShimState::Running { since: at(11) });
    fixture.set("app", 0, RunState::Ended(lost));
    assert_eq!(fixture.actions(12), [start("first", 1)]);
    let fixture = fixture.ended("first", 1, 12, 13, 0);
    assert_eq!(fixture.actions(14), [start("second", 1)]);
    let fixture = fixture.running("second", 1, 14);
    assert_eq!(fixture.actions(15), []);
    let fixture = fixture.ended("second", 1, 14, 16, 0);
    assert_eq!(fixture.actions(17), [start("app", 1)]);

    let decision = before("Never").shim(ShimState::Ended).decide(10);
    assert_eq!(decision.actions, []);
    assert_eq!(phase(&decision.status), "Failed");
}

#[test]
fn a_main_container_that_began_proves_initialisation() {
    // Whatever became of the records of init containers.
    assert_eq!(PodFixture::launched(&two("Always")).running("app", 0, 5).actions(6), []);
    let fixture = PodFixture::launched(&sidecars("Always")).running("app", 0, 5);
    assert_eq!(fixture.actions(6), [start("proxy", 0), start("logger", 0)]);
}

#[test]
fn what_must_never_run_twice_does_not_in_a_new_shim() {
    let fixture = PodFixture::new(&two("Never"))
        .ended("first", 0, 1, 2, 0)
        .shim(ShimState::Running { since: at(10) });
    assert_eq!(fixture.actions(11), [start("second", 0)]);
}

#[test]
fn a_main_container_that_is_done_does_not_start_with_the_others() {
    let mut spec = two("OnFailure");
    spec["containers"] = json!([{ "name": "app" }, { "name": "once" }]);
    let fixture = PodFixture::new(&spec)
        .ended("first", 0, 1, 2, 0)
        .ended("second", 0, 3, 4, 0)
        .ended("once", 0, 5, 6, 0)
        .ended("app", 0, 5, 7, 1)
        .shim(ShimState::Ended);
    assert_eq!(fixture.actions(8), [Action::Launch]);
    let fixture = fixture
        .shim(ShimState::Running { since: at(8) })
        .ended("first", 1, 9, 10, 0)
        .ended("second", 1, 10, 11, 0);
    assert_eq!(fixture.actions(12), [start("app", 1)]);
}
