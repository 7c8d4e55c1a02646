//! Matchmakers are given servers, each once.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::json;
use sojourn_api::game::status::ServerState;
use sojourn_sim::game::matchmaker::Wish;

use crate::fixture::{ARENA, MINUTE, SECOND, available, former, members, server, simulation};

// case: game A20, A21, S69
#[tokio::test(start_paused = true)]
async fn ten_clients_get_a_hundred_distinct_servers_while_the_collection_is_scaled() {
    let simulation = simulation(60, json!({})).await;
    let clients = (0..10).map(|client| {
        let simulation = &simulation;
        async move {
            let mut given = Vec::new();
            for number in 0..10 {
                let mut wish = Wish::whole(&format!("{client}-{number}"), ARENA);
                wish.wait_seconds = 300;
                let answer = simulation.allocate(&wish).await.expect("one becomes free");
                assert!(simulation.come(&answer.server, 1).await);
                given.push(answer.server);
                simulation.pass(SECOND).await;
            }
            given
        }
    });
    let scaling = async {
        for replicas in [80, 50, 120, 100, 110] {
            simulation.scale(ARENA, replicas).await;
            simulation.pass(3 * SECOND).await;
        }
    };
    let (given, ()) = futures::future::join(futures::future::join_all(clients), scaling).await;
    let given: Vec<String> = given.into_iter().flatten().collect();
    assert_eq!((given.len(), given.iter().collect::<BTreeSet<_>>().len()), (100, 100));
    simulation.pass(10 * MINUTE).await;
    let checker = simulation.checker.lock();
    assert!(given.iter().all(|name| !checker.deleted.contains_key(name)), "none was deleted");
    drop(checker);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn who_asks_again_gets_the_same_and_who_does_not_come_loses_it() {
    let simulation = simulation(3, json!({})).await;
    let wish = Wish::whole("match-1", ARENA);
    let both = futures::future::join(simulation.allocate(&wish), simulation.allocate(&wish)).await;
    let (one, two) = (both.0.expect("one is free"), both.1.expect("the same"));
    assert_eq!(one, two, "asked twice at the same time");
    simulation.pass(SECOND).await;
    assert_eq!(server(&simulation, &one.server).state, Some(ServerState::Assigned));
    assert_eq!(one.address, "10.1.2.3");
    simulation.pass(29 * SECOND).await;
    assert_eq!(simulation.allocate(&wish).await.expect("the same"), one);
    simulation.pass(31 * SECOND).await;
    assert_eq!(server(&simulation, &one.server).state, Some(ServerState::Idle), "nobody came");
    assert_eq!(server(&simulation, &one.server).grants, []);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_one_write_and_so_is_what_its_server_says() {
    let simulation = simulation(3, json!({})).await;
    simulation.pass(MINUTE).await;
    let before = simulation.engine.version();
    let answer = simulation.allocate(&Wish::whole("match-1", ARENA)).await.expect("one is free");
    simulation.pass(SECOND).await;
    assert_eq!(simulation.engine.version() - before, 1, "who looks at it afterwards adds nothing");
    let next = server(&simulation, &answer.server).next.expect("it returns");
    assert_eq!(next.action, "ReturnGrant");
    assert_eq!(next.at.map(|at| at.0), Some(answer.lease_expires));
    assert!(simulation.allocated(&answer.server).await);
    simulation.pass(SECOND).await;
    assert_eq!(simulation.engine.version() - before, 2);
    assert_eq!(server(&simulation, &answer.server).next, None, "somebody came");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_kill_before_the_answer_costs_nobody_a_second_server() {
    for seed in 1..=3 {
        let simulation = simulation(3, json!({})).await;
        let wish = Wish::whole(&format!("match-{seed}"), ARENA);
        simulation.faults.kill_after(seed);
        drop(tokio::time::timeout(5 * SECOND, simulation.allocate(&wish)).await);
        simulation.pass(20 * SECOND).await;
        let mut answered = simulation.allocate(&wish).await;
        for _ in 0..60 {
            // How many writes a grant takes decides whether this is the request that is cut off.
            if answered.is_ok() {
                break;
            }
            simulation.pass(SECOND).await;
            answered = simulation.allocate(&wish).await;
        }
        let answer = answered.expect("a replica is up again");
        simulation.pass(SECOND).await;
        let granted = members(&simulation)
            .into_iter()
            .filter(|name| !server(&simulation, name).grants.is_empty())
            .collect::<Vec<_>>();
        assert_eq!(granted, [answer.server], "seed {seed}");
        simulation.assert_invariants();
    }
}

// case: game A23, A26
#[tokio::test(start_paused = true)]
async fn seats_fill_one_server_before_another_and_each_grant_is_stamped() {
    let simulation = simulation(3, json!({})).await;
    let first = simulation.allocate(&Wish::seats("a", ARENA, 2)).await.expect("seats are free");
    assert!(simulation.come(&first.server, 2).await);
    simulation.pass(SECOND).await;
    let stamp = server(&simulation, &first.server).last_allocated.expect("it has one");
    simulation.pass(MINUTE).await;
    let second = simulation.allocate(&Wish::seats("b", ARENA, 2)).await.expect("seats are free");
    assert_eq!(second.server, first.server, "it has room");
    simulation.pass(SECOND).await;
    let later = server(&simulation, &first.server).last_allocated.expect("it has one");
    assert!(later.0 > stamp.0);
    let third = simulation.allocate(&Wish::seats("c", ARENA, 2)).await.expect("seats are free");
    assert_ne!(third.server, first.server, "it is full");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn the_seats_of_a_party_are_nobody_elses_when_its_first_member_has_come() {
    let simulation = simulation(1, json!({})).await;
    let party = simulation.allocate(&Wish::seats("party", ARENA, 3)).await.expect("it is empty");
    simulation.pass(10 * SECOND).await;
    assert!(simulation.come(&party.server, 1).await);
    simulation.pass(SECOND).await;
    let others = Wish::seats("others", ARENA, 2);
    let refused = simulation.allocate(&others).await.expect_err("two are on their way");
    assert_eq!(refused.expect("somebody answers").0, StatusCode::TOO_MANY_REQUESTS);
    let next = server(&simulation, &party.server).next.expect("it is told what comes");
    assert_eq!(next.at.map(|at| at.0), Some(party.lease_expires));
    simulation.pass(MINUTE).await;
    let given = simulation.allocate(&others).await.expect("two did not come in time");
    assert_eq!(given.server, party.server);
    simulation.pass(SECOND).await;
    let grants = server(&simulation, &party.server).grants;
    assert_eq!(grants.iter().map(|one| one.seats).collect::<Vec<_>>(), [Some(1), Some(2)]);
    simulation.assert_invariants();
}

// case: game A25
#[tokio::test(start_paused = true)]
async fn with_nothing_free_nothing_is_changed_and_it_is_told_why() {
    let simulation = simulation(1, json!({})).await;
    let name = members(&simulation).remove(0);
    assert!(simulation.come(&name, 1).await);
    simulation.pass(SECOND).await;
    let before = simulation.engine.version();
    let refused = simulation.allocate(&Wish::whole("a", ARENA)).await.expect_err("it is occupied");
    let (status, body) = refused.expect("somebody answers");
    assert_eq!((status, &body["misses"]["occupied"]), (StatusCode::TOO_MANY_REQUESTS, &json!(1)));
    assert_eq!(simulation.engine.version(), before);
    simulation.assert_invariants();
}

// case: game S62
#[tokio::test(start_paused = true)]
async fn running_are_those_that_can_be_played_on() {
    let simulation = simulation(4, json!({"dgsMaxFailures": 0})).await;
    let names = members(&simulation);
    assert!(simulation.come(&names[0], 1).await);
    simulation.mark(&names[0]).await;
    assert!(simulation.crash(&names[1]).await);
    simulation.pass(SECOND).await;
    assert_eq!(former(&simulation).len(), 1);
    let (status, body) =
        simulation.http("GET", "/running?namespace=play", None).await.expect("it is up");
    assert_eq!(status, StatusCode::OK);
    let running = body.as_array().expect("a list").iter();
    let running: BTreeSet<&str> = running.filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(running, BTreeSet::from([names[2].as_str(), names[3].as_str()]));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_is_the_signal_to_scale_from_zero() {
    let spec = json!({"podAutoScalerDetails": {
        "enabled": true, "minimumReplicas": 0, "maximumReplicas": 5,
        "terms": [{"pendingDemand": {}}],
    }});
    let simulation = simulation(0, spec).await;
    let mut wish = Wish::whole("a", ARENA);
    wish.wait_seconds = 300;
    let answer = simulation.allocate(&wish).await.expect("one is made for it");
    assert!(simulation.come(&answer.server, 1).await);
    available(&simulation, 1).await;
    simulation.assert_invariants();
}
