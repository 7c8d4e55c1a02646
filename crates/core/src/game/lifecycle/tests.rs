use super::*;
use crate::game::server::Grant;
use crate::game::test_server::ready_server;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_900_000_000 + seconds).expect("in range")
}

fn intent() -> ServerIntent {
    ServerIntent {
        mark: None,
        quarantined_until: None,
        restarts: 0,
        health: HealthPolicy::default(),
        dev_address: None,
        has_ports: true,
        names_ports: false,
        deleting: false,
    }
}

fn pod(state: PodState) -> ObservedPod {
    ObservedPod {
        uid: "pod-1".to_owned(),
        state,
        ready: state == PodState::Running,
        node: Some("n1".to_owned()),
        address: Some("192.0.2.7".to_owned()),
        ..ObservedPod::default()
    }
}

fn seen(pod: Known<ObservedPod>) -> ServerObserved {
    let pings = Some(HeardPings { last: None, listening_since: at(-3_600) });
    ServerObserved { pod, refused: None, pings, port_changes: 0 }
}

/// One that said Ready, and runs as `pod-1`.
fn running(players: Option<u32>) -> Server {
    Server {
        pod_uid: Some("pod-1".to_owned()),
        sdk_state: Some(SdkState::Ready),
        ready_at: Some(at(0)),
        active_players: players,
        ..ready_server("s", "n1", 0)
    }
}

fn step(
    server: &Server,
    intent: &ServerIntent,
    pod: Known<ObservedPod>,
    now: i64,
) -> ServerDecision {
    decide(server.clone(), intent, &seen(pod), at(now))
}

// case: game S14, A01
#[test]
fn a_new_server_gets_a_pod_and_is_well_when_it_says_so() {
    let new = Server { uid: "u".to_owned(), ..Server::default() };
    let without = ServerIntent { has_ports: false, ..intent() };
    assert_eq!(step(&new, &without, Known::Absent, 0).why, [ServerReason::WaitsForPorts]);
    assert_eq!(step(&new, &intent(), Known::Unknown, 0).effects, []);
    let made = step(&new, &intent(), Known::Absent, 0);
    assert_eq!(made.effects, [ServerEffect::CreatePod]);
    let started = step(&made.next, &intent(), Known::Is(pod(PodState::Running)), 1);
    assert_eq!((started.effects.len(), started.next.health), (0, ServerHealth::Creating));
    assert_eq!(started.next.node.as_deref(), Some("n1"));
    assert_eq!(started.next.address.as_deref(), Some("192.0.2.7"));
    let by_pod = ServerIntent {
        health: HealthPolicy { source: HealthSource::Pod, ..HealthPolicy::default() },
        ..intent()
    };
    let well = step(&made.next, &by_pod, Known::Is(pod(PodState::Running)), 1);
    assert_eq!(well.next.health, ServerHealth::Healthy);
    let waits = step(&made.next, &by_pod, Known::Is(pod(PodState::Pending)), 1);
    assert_eq!(waits.next.health, ServerHealth::Creating);
}

// case: game A11, A12, A13
#[test]
fn a_server_whose_pings_stop_has_failed_and_a_late_one_revives_nobody() {
    let server = running(None);
    let mut with_ping = seen(Known::Is(pod(PodState::Running)));
    with_ping.pings = Some(HeardPings { last: Some(at(100)), listening_since: at(-3_600) });
    let decide_at = |server: &Server, seen: &ServerObserved, policy: HealthPolicy, now| {
        decide(server.clone(), &ServerIntent { health: policy, ..intent() }, seen, at(now))
    };
    let policy = HealthPolicy::default();
    assert_eq!(decide_at(&server, &with_ping, policy, 114).wake, Wake::At(at(115)));
    let lost = decide_at(&server, &with_ping, policy, 115);
    assert_eq!(lost.next.health, ServerHealth::Failed);
    assert_eq!(lost.next.failure.as_ref().expect("why").reason, health::PINGS_LOST);
    with_ping.pings = Some(HeardPings { last: Some(at(116)), listening_since: at(-3_600) });
    assert_eq!(decide_at(&lost.next, &with_ping, policy, 117).next.health, ServerHealth::Failed);
    let disabled = HealthPolicy { disabled: true, ..policy };
    with_ping.pings = Some(HeardPings { last: None, listening_since: at(-3_600) });
    let quiet = decide_at(&server, &with_ping, disabled, 9_999);
    assert_eq!((quiet.next.health, quiet.wake), (ServerHealth::Healthy, Wake::OnChange));
    with_ping.pings = Some(HeardPings { last: None, listening_since: at(9_990) });
    let blind = decide_at(&server, &with_ping, policy, 9_999);
    assert_eq!(blind.next.health, ServerHealth::Healthy, "nobody could have heard a ping");
    with_ping.pings = None;
    let elsewhere = decide_at(&server, &with_ping, policy, 9_999);
    assert_eq!(
        (elsewhere.next.health, elsewhere.wake),
        (ServerHealth::Healthy, Wake::OnChange),
        "who hears them says when they are missing"
    );
    let slow = Server { sdk_state: None, ready_at: None, ..running(None) };
    let starting = Server { health: ServerHealth::Creating, ..slow };
    let slow = decide_at(&starting, &seen(Known::Is(pod(PodState::Running))), policy, 600);
    assert_eq!(slow.next.health, ServerHealth::Creating, "it has as long as it needs");
}

// case: game S16
#[test]
fn a_pod_that_is_missing_is_made_again_and_knows_nobody() {
    let mut server = running(Some(4));
    let lease = |id: &str, claimed| Grant {
        id: id.to_owned(),
        request_id: id.to_owned(),
        seats: Some(1),
        lease_expires: at(900),
        claimed,
        arrived: u32::from(claimed),
    };
    server.grants = vec![lease("came", true), lease("comes", false)];
    let again = step(&server, &intent(), Known::Absent, 10);
    assert_eq!(again.effects, [ServerEffect::CreatePod]);
    assert_eq!(again.next.health, ServerHealth::Creating);
    assert_eq!((again.next.active_players, again.next.sdk_state), (None, None));
    assert_eq!(again.next.grants.len(), 1, "whoever has not come yet finds it at the same place");
    let mut other = pod(PodState::Running);
    "pod-2".clone_into(&mut other.uid);
    let replaced = step(&server, &intent(), Known::Is(other), 10);
    assert_eq!(replaced.next.health, ServerHealth::Creating);
    assert_eq!(replaced.next.active_players, None);
}

// case: game S16
#[test]
fn a_pod_that_somebody_deletes_has_neither_failed_nor_finished_however_it_ends() {
    for state in [PodState::Running, PodState::Succeeded, PodState::Failed] {
        let deleted = ObservedPod { deleting: true, ..pod(state) };
        let ends = step(&running(Some(4)), &intent(), Known::Is(deleted), 10);
        assert_eq!(
            (ends.effects.len(), ends.next.health),
            (0, ServerHealth::Creating),
            "{state:?}"
        );
        let again = step(&ends.next, &intent(), Known::Absent, 20);
        assert_eq!(again.effects, [ServerEffect::CreatePod], "{state:?}");
        assert_eq!((again.next.active_players, again.next.failure), (None, None), "{state:?}");
    }
}

// case: game S19, A15, A16, A03
#[test]
fn an_error_is_a_failure_and_an_end_is_not() {
    let mut crashed = pod(PodState::Failed);
    crashed.failure = Some(("Error".to_owned(), "exit code 1".to_owned()));
    let failed = step(&running(Some(3)), &intent(), Known::Is(crashed), 10);
    assert_eq!((failed.effects.len(), failed.next.health), (0, ServerHealth::Failed));
    assert_eq!(failed.next.failure.as_ref().expect("why").message, "exit code 1");
    let gone = step(&failed.next, &intent(), Known::Absent, 20);
    assert_eq!(gone.effects, [], "its collection says what becomes of it");
    let ended = step(&running(None), &intent(), Known::Is(pod(PodState::Succeeded)), 10);
    assert_eq!(ended.effects, [ServerEffect::Delete(DeleteReason::Finished)]);
    let shutdown = Server { sdk_state: Some(SdkState::Shutdown), ..running(None) };
    let ended = step(&shutdown, &intent(), Known::Is(pod(PodState::Running)), 10);
    assert_eq!(ended.effects, [ServerEffect::Delete(DeleteReason::Finished)]);
    let mut refused = seen(Known::Absent);
    refused.refused = Some("spec.containers: Required value".to_owned());
    let refused = decide(Server::default(), &intent(), &refused, at(10));
    assert_eq!(refused.effects, []);
    assert_eq!(refused.next.failure.expect("why").at, at(10));
}

#[test]
fn one_that_begins_again_waits_for_its_old_pod_and_a_while_more() {
    let mut server = running(Some(3));
    server.fail("Error", "exit code 1", at(10));
    let restart = ServerIntent { restarts: 1, ..intent() };
    let old = step(&server, &restart, Known::Is(pod(PodState::Failed)), 11);
    assert_eq!(old.effects, [ServerEffect::DeletePod { uid: "pod-1".to_owned() }]);
    let waits = step(&server, &restart, Known::Absent, 12);
    let ServerReason::RestartsAt(then) = waits.why[0] else { panic!("{:?}", waits.why) };
    assert!(then >= at(15) && then <= at(17), "{then}");
    let begun = decide(server, &restart, &seen(Known::Absent), then);
    assert_eq!(begun.effects, [ServerEffect::CreatePod]);
    assert_eq!((begun.next.restarts, begun.next.health), (1, ServerHealth::Creating));
}

#[test]
fn one_that_began_again_before_that_was_written_down_has_begun_another_life() {
    let mut server = running(Some(3));
    server.fail("Error", "exit code 1", at(10));
    let restart = ServerIntent { restarts: 1, ..intent() };
    let new = ObservedPod { uid: "pod-2".to_owned(), ..pod(PodState::Running) };
    let begun = step(&server, &restart, Known::Is(new), 20);
    assert_eq!((begun.next.restarts, begun.next.failure), (1, None));
    assert_eq!(begun.next.health, ServerHealth::Creating);
}

#[test]
fn a_marked_server_whose_pod_is_gone_has_nobody_on_it_and_goes() {
    let marked = ServerIntent { mark: Some(Mark { drain_by: None }), ..intent() };
    let mut server = running(Some(2));
    let gone = step(&server, &marked, Known::Absent, 10);
    assert_eq!(gone.effects, [ServerEffect::Delete(DeleteReason::Drained)]);
    server.grants.push(Grant {
        id: "g".to_owned(),
        request_id: "r".to_owned(),
        seats: None,
        lease_expires: at(60),
        claimed: false,
        arrived: 0,
    });
    let promised = step(&server, &marked, Known::Absent, 10);
    assert_eq!((promised.effects.len(), promised.wake.at()), (0, Some(at(60))));
}

#[test]
fn what_a_new_process_says_is_not_about_the_one_before() {
    let mut server = running(Some(3));
    assert!(!server.speaks_from("pod-1"));
    assert_eq!(server.active_players, Some(3));
    assert!(server.speaks_from("pod-2"));
    assert_eq!((server.active_players, server.health), (None, ServerHealth::Creating));
    assert!(!Server::default().speaks_from("pod-1"), "there was none before");
}

// case: game S07, S09, S11
#[test]
fn a_marked_server_goes_when_it_is_empty_or_when_its_players_had_time_enough() {
    let health = HealthPolicy { disabled: true, ..HealthPolicy::default() };
    let marked = |drain_by| ServerIntent { mark: Some(Mark { drain_by }), health, ..intent() };
    let runs = || Known::Is(pod(PodState::Running));
    let empty = step(&running(Some(0)), &marked(None), runs(), 10);
    assert_eq!(empty.effects, [ServerEffect::Delete(DeleteReason::Drained)]);
    assert!(empty.next.marked_for_deletion);
    let never = step(&running(Some(2)), &marked(None), runs(), 10);
    assert_eq!(never.effects, []);
    let waits = step(&running(Some(2)), &marked(Some(at(20))), runs(), 10);
    assert_eq!((waits.effects.len(), waits.wake.at()), (0, Some(at(20))));
    let over = step(&running(Some(2)), &marked(Some(at(20))), runs(), 20);
    assert_eq!(over.effects, [ServerEffect::Delete(DeleteReason::DrainDeadline)]);
    let mut broken = running(Some(2));
    broken.fail("Error", "", at(5));
    let broken = step(&broken, &marked(None), runs(), 10);
    assert_eq!(broken.effects, [ServerEffect::Delete(DeleteReason::Drained)]);
}

#[test]
fn a_port_that_somebody_else_has_is_no_failure_and_others_are_asked_for_at_once() {
    let taken = ObservedPod { port_taken: true, created_at: Some(at(0)), ..pod(PodState::Failed) };
    let server = Server { uid: "u".to_owned(), ..Server::default() };
    let refused = step(&server, &intent(), Known::Is(taken.clone()), 5);
    assert_eq!(refused.effects, [ServerEffect::ReplacePorts]);
    assert_ne!(refused.next.health, ServerHealth::Failed);
    assert_eq!(refused.wake, Wake::At(at(30)), "without others it is tried again");
    let delete = || ServerEffect::DeletePod { uid: "pod-1".to_owned() };
    let again = step(&server, &intent(), Known::Is(taken.clone()), 30);
    assert_eq!(again.effects, [ServerEffect::ReplacePorts, delete()]);
    let changed = ObservedPod { has_other_ports: true, ..taken.clone() };
    assert_eq!(step(&server, &intent(), Known::Is(changed), 5).effects, [delete()]);
    let leaving = ObservedPod { deleting: true, ..taken.clone() };
    assert_eq!(step(&server, &intent(), Known::Is(leaving), 60).effects, []);
    let named = ServerIntent { names_ports: true, ..intent() };
    let waits = step(&server, &named, Known::Is(taken.clone()), 5);
    assert_eq!((waits.effects.len(), waits.wake), (0, Wake::At(at(30))), "nobody else has it");
    let mut unlucky = seen(Known::Is(taken.clone()));
    unlucky.port_changes = 3;
    let waits = decide(server.clone(), &intent(), &unlucky, at(5));
    assert_eq!((waits.effects.len(), waits.wake), (0, Wake::At(at(30))));
    let marked = ServerIntent { mark: Some(Mark { drain_by: None }), ..named };
    let goes = step(&server, &marked, Known::Is(taken), 5);
    assert_eq!(goes.effects, [ServerEffect::Delete(DeleteReason::Drained)]);
}

// case: game A42
#[test]
fn a_server_that_somebody_runs_by_hand_is_ready_at_its_address() {
    let by_hand = ServerIntent { dev_address: Some("192.0.2.9".to_owned()), ..intent() };
    let ready = step(&Server::default(), &by_hand, Known::Absent, 10);
    assert_eq!(ready.effects, []);
    assert!(ready.next.is_available());
    assert_eq!(ready.next.address.as_deref(), Some("192.0.2.9"));
}

#[test]
fn one_that_failed_stays_to_be_looked_at_for_a_while() {
    let mut server = running(None);
    server.fail("Error", "", at(0));
    let kept = ServerIntent { quarantined_until: Some(at(100)), ..intent() };
    let stays = step(&server, &kept, Known::Is(pod(PodState::Failed)), 10);
    assert_eq!((stays.effects.len(), stays.wake), (0, Wake::At(at(100))));
    let over = step(&server, &kept, Known::Is(pod(PodState::Failed)), 100);
    assert_eq!(over.effects, [ServerEffect::Delete(DeleteReason::QuarantineOver)]);
}
