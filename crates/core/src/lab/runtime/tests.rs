use super::super::test_instance::{HOUR, MINUTE, at, start};
use super::*;

const GOING: Known<Child> = Known::Is(Child { deleting: true });

fn web(name: &str) -> Environment {
    Environment { name: name.to_owned(), persistent: true, listens: true, blocked: None }
}

fn nothing(name: &str) -> EnvironmentObjects {
    EnvironmentObjects {
        name: name.to_owned(),
        claim: Known::Absent,
        claimed: false,
        pod: Known::Absent,
        restarts: 0,
        service: Known::Absent,
        ingress: Known::Absent,
    }
}

fn pod(phase: PodPhase, ready: bool) -> Known<Pod> {
    Known::Is(Pod {
        uid: "p1".to_owned(),
        phase,
        ready,
        deleting: false,
        created: start(),
        message: None,
    })
}

fn complete(name: &str) -> EnvironmentObjects {
    EnvironmentObjects {
        claim: PRESENT,
        claimed: true,
        pod: pod(PodPhase::Running, true),
        service: PRESENT,
        ingress: PRESENT,
        ..nothing(name)
    }
}

fn look(
    running: bool,
    environments: &[Environment],
    seen: &[EnvironmentObjects],
    now: Timestamp,
) -> Runtime {
    runtime(&DesiredRuntime { running, environments, ingress: true }, seen, now)
}

fn deletes(environment: &str) -> RuntimeStep {
    RuntimeStep::DeletePod { environment: environment.to_owned(), uid: "p1".to_owned() }
}

#[test]
fn a_start_makes_everything_in_order() {
    let seen = look(true, &[web("a")], &[nothing("a")], start());
    let a = || "a".to_owned();
    assert_eq!(
        seen.steps,
        [
            RuntimeStep::EnsureClaim(a()),
            RuntimeStep::EnsurePod(a()),
            RuntimeStep::EnsureService(a()),
            RuntimeStep::EnsureIngress(a()),
        ]
    );
    assert_eq!((seen.phase, seen.pods), (Phase::Pending, Pods::Gone));
}

#[test]
fn only_what_is_wanted_is_made() {
    let plain =
        Environment { name: "a".to_owned(), persistent: false, listens: false, blocked: None };
    let seen = look(true, &[plain], &[nothing("a")], start());
    assert_eq!(seen.steps, [RuntimeStep::EnsurePod("a".to_owned())]);
    let wanted = DesiredRuntime { running: true, environments: &[web("a")], ingress: false };
    let seen = runtime(&wanted, &[nothing("a")], start());
    assert!(
        !seen.steps.contains(&RuntimeStep::EnsureIngress("a".to_owned())),
        "Ingresses are not served"
    );
}

#[test]
fn no_pod_is_made_of_what_is_barred_and_one_that_runs_goes_on() {
    let blocked = Environment { blocked: Some("it names a Secret".to_owned()), ..web("a") };
    let blocked = [blocked];
    let seen =
        look(true, &blocked, &[EnvironmentObjects { claim: PRESENT, ..nothing("a") }], start());
    assert_eq!((seen.phase, seen.steps), (Phase::Failed, vec![]));
    assert_eq!(seen.environments[0].message.as_deref(), Some("it names a Secret"));
    let seen = look(true, &blocked, &[complete("a")], start());
    assert_eq!((seen.phase, seen.steps), (Phase::Ready, vec![]));
}

#[test]
fn an_ingress_that_is_not_wanted_any_more_goes() {
    let wanted = DesiredRuntime { running: true, environments: &[web("a")], ingress: false };
    let seen = runtime(&wanted, &[complete("a")], start());
    assert_eq!(
        (seen.phase, seen.steps),
        (Phase::Ready, vec![RuntimeStep::DeleteIngress("a".to_owned())])
    );
}

#[test]
fn an_ingress_never_leads_to_a_service_that_is_not_ours() {
    let objects =
        EnvironmentObjects { service: Known::Unknown, ingress: Known::Absent, ..complete("a") };
    assert_eq!(look(true, &[web("a")], &[objects], start()).steps, []);
}

#[test]
fn phases_of_a_start() {
    for (objects, phase, pods) in [
        (complete("a"), Phase::Ready, Pods::AllReady),
        (
            EnvironmentObjects { pod: pod(PodPhase::Running, false), ..complete("a") },
            Phase::Starting,
            Pods::Some,
        ),
        (
            EnvironmentObjects { pod: pod(PodPhase::Pending, false), ..complete("a") },
            Phase::Starting,
            Pods::Some,
        ),
        (
            EnvironmentObjects { pod: Known::Unknown, ..complete("a") },
            Phase::Pending,
            Pods::Unknown,
        ),
    ] {
        let seen = look(true, &[web("a")], &[objects], start());
        assert_eq!((seen.phase, seen.pods, seen.steps), (phase, pods, vec![]));
    }
    let half = look(true, &[web("a"), web("b")], &[complete("a"), nothing("b")], start());
    assert_eq!((half.phase, half.pods), (Phase::Starting, Pods::Some));
    assert_eq!(look(true, &[], &[], start()).phase, Phase::Pending);
}

#[test]
fn a_stop_takes_everything_away_but_the_claim() {
    let plain =
        Environment { name: "b".to_owned(), persistent: false, listens: true, blocked: None };
    let objects = [complete("a"), EnvironmentObjects { claim: Known::Absent, ..complete("b") }];
    let seen = look(false, &[web("a"), plain], &objects, start());
    let steps = |name: &str| {
        [
            RuntimeStep::DeleteIngress(name.to_owned()),
            RuntimeStep::DeleteService(name.to_owned()),
            deletes(name),
        ]
    };
    assert_eq!(seen.steps, [steps("a"), steps("b")].concat());
    assert_eq!((seen.phase, seen.pods), (Phase::Stopping, Pods::Some));
    let gone = [EnvironmentObjects { claim: PRESENT, ..nothing("a") }, nothing("b")];
    let seen = look(false, &[web("a"), web("b")], &gone, start());
    assert_eq!((seen.phase, seen.pods, seen.steps), (Phase::Off, Pods::Gone, vec![]));
}

#[test]
fn a_pod_that_is_going_is_waited_for() {
    let Known::Is(mut going) = pod(PodPhase::Running, true) else { unreachable!() };
    going.deleting = true;
    let objects = [EnvironmentObjects {
        pod: Known::Is(going),
        service: GOING,
        ingress: GOING,
        ..complete("a")
    }];
    let stops = look(false, &[web("a")], &objects, start());
    assert_eq!((stops.phase, stops.steps), (Phase::Stopping, vec![]));
    let starts = look(true, &[web("a")], &objects, start());
    assert_eq!((starts.phase, starts.steps), (Phase::Starting, vec![]));
    assert_eq!(starts.pods, Pods::Some, "it is not ready, whatever it says");
}

#[test]
fn what_is_not_known_to_be_gone_is_not_off() {
    let objects = [EnvironmentObjects { pod: Known::Unknown, ..nothing("a") }];
    let seen = look(false, &[web("a")], &objects, start());
    assert_eq!((seen.phase, seen.pods), (Phase::Stopping, Pods::Unknown));
    let unseen = look(false, &[web("a")], &[], start());
    assert_eq!((unseen.phase, unseen.pods), (Phase::Stopping, Pods::Unknown));
}

#[test]
fn a_pod_that_failed_is_replaced_after_a_while_that_grows() {
    for (restarts, wait) in [
        (0, SignedDuration::from_secs(10)),
        (1, SignedDuration::from_secs(20)),
        (4, SignedDuration::from_secs(160)),
        (5, MINUTE * 5),
        (u32::MAX, MINUTE * 5),
    ] {
        let Known::Is(mut failed) = pod(PodPhase::Failed, false) else { unreachable!() };
        failed.message = Some("Error: exit code 1".to_owned());
        let objects = [EnvironmentObjects { pod: Known::Is(failed), restarts, ..complete("a") }];
        let early =
            look(true, &[web("a")], &objects, start() + wait - SignedDuration::from_secs(1));
        assert_eq!((early.phase, early.steps), (Phase::Failed, vec![]));
        assert_eq!(early.wake, Wake::At(start() + wait));
        assert_eq!(early.environments[0].message.as_deref(), Some("Error: exit code 1"));
        let due = look(true, &[web("a")], &objects, start() + wait);
        assert_eq!((due.phase, due.steps), (Phase::Failed, vec![deletes("a")]));
    }
}

#[test]
fn a_program_that_ended_by_itself_is_started_again_and_that_is_said() {
    let objects = [EnvironmentObjects { pod: pod(PodPhase::Succeeded, false), ..complete("a") }];
    let seen = look(true, &[web("a")], &objects, at(HOUR));
    assert_eq!(seen.environments[0].message.as_deref(), Some("its program has ended"));
    assert_eq!(seen.steps, [deletes("a")]);
}

#[test]
fn lost_data_is_not_replaced_by_an_empty_volume() {
    for claim in [Known::Absent, GOING] {
        for pod in [Known::Absent, pod(PodPhase::Running, true)] {
            let objects = [EnvironmentObjects { claim, pod, ..complete("a") }];
            let seen = look(true, &[web("a")], &objects, start());
            assert_eq!((seen.phase, seen.steps), (Phase::Failed, vec![]));
            assert!(seen.environments[0].message.as_ref().unwrap().contains("data"));
        }
    }
}

#[test]
fn without_knowing_of_its_claim_no_pod_is_made() {
    let objects = [EnvironmentObjects { claim: Known::Unknown, ..nothing("a") }];
    let seen = look(true, &[web("a")], &objects, start());
    assert!(!seen.steps.iter().any(|step| matches!(step, RuntimeStep::EnsurePod(_))));
}

#[test]
fn what_the_template_lost_runs_on_and_goes_with_the_next_stop() {
    let objects = [complete("a"), complete("old")];
    let runs = look(true, &[web("a")], &objects, start());
    assert_eq!((runs.phase, runs.steps), (Phase::Ready, vec![]));
    let stops = look(false, &[web("a")], &objects, start());
    assert!(stops.steps.contains(&deletes("old")));
    assert_eq!(stops.environments.len(), 1);
    let left = look(false, &[web("a")], &[nothing("a"), complete("old")], start());
    assert_eq!((left.phase, left.pods), (Phase::Stopping, Pods::Some));
}
