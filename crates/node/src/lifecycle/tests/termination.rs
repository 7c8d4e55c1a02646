//! Deletion, deadlines and evictions.

use super::*;

fn with_sidecars() -> Value {
    json!({
        "initContainers": [
            { "name": "one", "restartPolicy": "Always" },
            { "name": "two", "restartPolicy": "Always" },
        ],
        "containers": [{ "name": "app" }, { "name": "web" }],
    })
}

#[test]
fn deletion_stops_concludes_and_removes() {
    let mut fixture = PodFixture::launched(&one("Always")).running("app", 0, 1);
    fixture.publish(2);
    let mut fixture = fixture.deleted(10, 30);
    let decision = fixture.publish(11);
    assert_eq!(decision.actions, [stop("app", 0, 41)]);
    assert_eq!(phase(&decision.status), "Running");
    assert_eq!(holds(&decision.status, "Ready"), "True", "it serves until it ends");
    for (code, expected) in [(0, "Succeeded"), (143, "Failed")] {
        let mut fixture = fixture.clone().ended("app", 0, 1, 12, code);
        let decision = fixture.publish(13);
        assert_eq!(decision.actions, [Action::Conclude]);
        assert_eq!(phase(&decision.status), expected);
        let fixture = fixture.shim(ShimState::Ended);
        assert_eq!(fixture.actions(14), [Action::Remove]);
    }
}

#[test]
fn a_pod_that_never_ran_is_removed_at_once() {
    let preparations = [
        Preparation::Ready,
        Preparation::Waiting {
            container: None,
            reason: "ContainerCreating",
            message: "configmap \"c\" not found".to_owned(),
        },
        Preparation::Refused { reason: "UnsupportedField", message: "no".to_owned() },
    ];
    for preparation in preparations {
        let fixture = PodFixture { preparation, ..PodFixture::new(&one("Always")).deleted(5, 30) };
        let decision = fixture.decide(6);
        assert_eq!(decision.actions, [Action::Remove]);
        assert_eq!(phase(&decision.status), "Failed");
        assert_eq!(
            state(&decision.status, "app"),
            "terminated ContainerStatusUnknown 137",
            "nobody takes it for a success"
        );
        let launched = fixture.shim(ShimState::Running { since: at(1) });
        assert_eq!(launched.actions(6), [Action::Conclude]);
    }
}

#[test]
fn what_waits_is_not_started_while_it_is_deleted() {
    let crashed =
        PodFixture::launched(&one("Always")).ended("app", 0, 0, 1, 1).ended("app", 1, 1, 2, 1);
    let decision = crashed.deleted(5, 30).decide(100);
    assert_eq!(decision.actions, [Action::Conclude]);
    assert_eq!(state(&decision.status, "app"), "terminated Error 1");
    assert_eq!(phase(&decision.status), "Failed");
}

#[test]
fn a_shorter_grace_brings_the_deadline_forward() {
    let fixture = PodFixture::launched(&one("Always")).running("app", 0, 1).deleted(10, 30);
    assert_eq!(fixture.actions(11), [stop("app", 0, 41)]);
    let fixture = fixture.deleted(12, 5);
    assert_eq!(fixture.actions(13), [stop("app", 0, 18)]);
    // The API knows whole seconds only, so one more makes sure of the last.
    // There is always a moment between SIGTERM and SIGKILL.
    for (grace, deadline) in [(0, 22), (1, 23), (2, 23), (3, 24)] {
        let fixture = fixture.clone().deleted(20, grace);
        assert_eq!(fixture.actions(21), [stop("app", 0, deadline)], "{grace}");
    }
}

#[test]
fn the_earliest_of_all_deadlines_holds() {
    let fixture = PodFixture::launched(&one("Always")).running("app", 0, 1).evicted(10, Some(3));
    assert_eq!(fixture.actions(11), [stop("app", 0, 13)]);
    assert_eq!(fixture.deleted(11, 30).actions(12), [stop("app", 0, 13)]);
}

#[test]
fn sidecars_wait_for_the_main_containers_and_each_other() {
    let fixture = PodFixture::launched(&with_sidecars())
        .running("one", 0, 1)
        .running("two", 0, 2)
        .running("app", 0, 3)
        .running("web", 0, 3)
        .deleted(10, 30);
    let decision = fixture.decide(11);
    assert_eq!(decision.actions, [stop("app", 0, 41), stop("web", 0, 41)]);
    assert_eq!(decision.wake, Some(at(41)), "their turn comes then at the latest");
    let fixture = fixture.ended("app", 0, 3, 12, 0);
    assert_eq!(fixture.actions(13), [stop("web", 0, 41)]);
    let cleared = fixture.clone().ended("web", 0, 3, 14, 0);
    let decision = cleared.decide(15);
    assert_eq!(decision.actions, [stop("two", 0, 41)]);
    assert_eq!(decision.wake, Some(at(41)));
    assert_eq!(cleared.ended("two", 0, 2, 39, 0).actions(39), [stop("one", 0, 41)]);
    // The deadline passes with a main container still there.
    let expected = [stop("web", 0, 41), stop("two", 0, 43), stop("one", 0, 43)];
    assert_eq!(fixture.actions(41), expected);
    assert_eq!(fixture.actions(42), expected);
}

#[test]
fn a_running_init_container_is_stopped_at_once() {
    let spec = json!({
        "initContainers": [{ "name": "side", "restartPolicy": "Always" }, { "name": "setup" }],
        "containers": [{ "name": "app" }],
    });
    let fixture =
        PodFixture::launched(&spec).running("side", 0, 1).running("setup", 0, 2).deleted(10, 30);
    assert_eq!(fixture.actions(11), [stop("setup", 0, 41), stop("side", 0, 41)]);
    let decision = fixture.ended("setup", 0, 2, 12, 143).ended("side", 0, 1, 12, 143).decide(13);
    assert_eq!(decision.actions, [Action::Conclude]);
    assert_eq!(phase(&decision.status), "Failed");
    assert_eq!(state(&decision.status, "app"), "waiting PodInitializing");
}

#[test]
fn an_active_deadline_fails_the_pod() {
    let mut spec = one("Always");
    spec["activeDeadlineSeconds"] = json!(60);
    spec["terminationGracePeriodSeconds"] = json!(10);
    let mut fixture = PodFixture::launched(&spec).running("app", 0, 6);
    let decision = fixture.publish(5);
    assert_eq!(decision.wake, Some(at(65)), "it counts from the status' startTime");
    assert_eq!(fixture.decide(64).actions, []);
    let decision = fixture.publish(65);
    assert_eq!(decision.actions, [stop("app", 0, 75)]);
    assert_eq!(phase(&decision.status), "Running");
    assert_eq!(decision.status.reason, None);
    assert_eq!(holds(&decision.status, "Ready"), "False PodFailed");
    let mut fixture = fixture.ended("app", 0, 6, 66, 0);
    let decision = fixture.publish(67);
    assert_eq!(decision.actions, [Action::Conclude]);
    assert_eq!(phase(&decision.status), "Failed");
    assert_eq!(decision.status.reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!(
        decision.status.message.as_deref(),
        Some("Pod was active on the node longer than the specified deadline")
    );
    let later = fixture.shim(ShimState::Ended).decide(1000);
    assert_eq!((later.actions, later.wake), (vec![], None));
    assert_eq!(later.status.reason.as_deref(), Some("DeadlineExceeded"));
}

#[test]
fn of_two_reasons_the_first_one_counts() {
    let mut spec = one("Always");
    spec["activeDeadlineSeconds"] = json!(60);
    let mut fixture = PodFixture::launched(&spec).running("app", 0, 1);
    fixture.publish(0);
    let fixture = fixture.ended("app", 0, 1, 80, 1);
    for (since, reason) in [(59, "Evicted"), (61, "DeadlineExceeded")] {
        let status = fixture.clone().evicted(since, None).decide(81).status;
        assert_eq!(status.reason.as_deref(), Some(reason), "evicted at {since}");
    }
}

#[test]
fn who_was_done_before_the_deadline_has_not_exceeded_it() {
    let mut spec = one("Never");
    spec["activeDeadlineSeconds"] = json!(60);
    let mut fixture = PodFixture::launched(&spec).running("app", 0, 1);
    fixture.publish(0);
    let decision = fixture.ended("app", 0, 1, 59, 0).decide(100);
    assert_eq!(phase(&decision.status), "Succeeded");
    assert_eq!(decision.status.reason, None);
}

#[test]
fn a_deadline_passes_before_anything_ran() {
    let mut spec = one("Always");
    spec["activeDeadlineSeconds"] = json!(60);
    let mut fixture = PodFixture::new(&spec);
    fixture.publish(0);
    let decision = fixture.decide(60);
    assert_eq!(decision.actions, []);
    assert_eq!(phase(&decision.status), "Failed");
    assert_eq!(decision.status.reason.as_deref(), Some("DeadlineExceeded"));
}

#[test]
fn an_eviction_fails_the_pod_however_it_ends() {
    let mut spec = one("Always");
    spec["terminationGracePeriodSeconds"] = json!(10);
    for (grace, deadline) in [(None, 30), (Some(0), 22), (Some(5), 25)] {
        let mut fixture = PodFixture::launched(&spec).running("app", 0, 1);
        fixture.publish(2);
        let mut fixture = fixture.evicted(20, grace);
        let decision = fixture.publish(21);
        assert_eq!(decision.actions, [stop("app", 0, deadline)]);
        assert_eq!(phase(&decision.status), "Running");
        let mut fixture = fixture.ended("app", 0, 1, 22, 0);
        let decision = fixture.publish(23);
        assert_eq!(decision.actions, [Action::Conclude]);
        assert_eq!(phase(&decision.status), "Failed");
        assert_eq!(decision.status.reason.as_deref(), Some("Evicted"));
        assert_eq!(decision.status.message.as_deref(), Some("The node was low on disk."));
        assert_eq!(holds(&decision.status, "DisruptionTarget"), "True TerminationByKubelet");
        // The node forgets why; the Pod does not.
        fixture.node_termination = None;
        let later = fixture.shim(ShimState::Ended).decide(99);
        assert_eq!(later.actions, []);
        assert_eq!(later.status.reason.as_deref(), Some("Evicted"));
        assert_eq!(
            condition(&later.status, "DisruptionTarget").last_transition_time,
            Some(at(23).into())
        );
    }
}

#[test]
fn an_eviction_does_not_touch_what_is_done() {
    let fixture = PodFixture::launched(&one("Never")).ended("app", 0, 1, 5, 0).evicted(6, None);
    let decision = fixture.decide(7);
    assert_eq!(phase(&decision.status), "Succeeded");
    assert_eq!(decision.status.reason, None);
}

#[test]
fn a_pod_that_somebody_declared_failed_is_stopped() {
    let mut fixture = PodFixture::launched(&one("Always")).running("app", 0, 1);
    fixture.publish(2);
    fixture.pod.status.as_mut().expect("a status").phase = Some("Failed".to_owned());
    let decision = fixture.decide(10);
    assert_eq!(decision.actions, [stop("app", 0, 40)]);
    assert_eq!(phase(&decision.status), "Failed");
    assert_eq!(holds(&decision.status, "Ready"), "False PodFailed");
    // A node that wants it gone as well has not caused it.
    let decision = fixture.ended("app", 0, 1, 11, 0).evicted(10, None).decide(12);
    assert_eq!(decision.actions, [Action::Conclude]);
    assert_eq!(decision.status.reason, None);
    let conditions = decision.status.conditions.into_iter().flatten();
    assert!(conditions.into_iter().all(|condition| condition.type_ != "DisruptionTarget"));
}

#[test]
fn a_lost_shim_ends_a_deletion() {
    let fixture = PodFixture::launched(&one("Always")).running("app", 0, 1).deleted(10, 30);
    let decision = fixture.shim(ShimState::Ended).decide(11);
    assert_eq!(decision.actions, [Action::Remove]);
    assert_eq!(phase(&decision.status), "Failed");
    assert_eq!(state(&decision.status, "app"), "terminated ContainerStatusUnknown 137");
}
