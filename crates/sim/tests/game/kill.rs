//! Killing the operator anywhere, and another taking over, changes no outcome.

use serde_json::json;
use sojourn_sim::fault::Rates;
use sojourn_sim::game::matchmaker::Wish;
use sojourn_sim::game::simulation::{GameSimulation, Setting};
use sojourn_sim::simulation::kill_after_each_write;

use crate::fixture::{ARENA, HOUR, MINUTE, SECOND, available, former, members, simulation, status};

// case: game A41
#[tokio::test(start_paused = true)]
async fn whoever_takes_over_finishes_what_was_begun() {
    let mut simulation = simulation(2, json!({})).await;
    simulation.scale(ARENA, 8).await;
    simulation.faults.kill_after(4);
    simulation.pass(SECOND).await;
    simulation.take_over(2 * SECOND).await;
    available(&simulation, 8).await;
    simulation.pass(10 * MINUTE).await;
    assert_eq!(simulation.checker.lock().created, 8, "and makes nothing twice");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_it_does_the_same() {
    let kills = kill_after_each_write(async |write| {
        let simulation = GameSimulation::new(Setting::default()).await;
        simulation.make_collection(ARENA, 3, json!({})).await;
        simulation.faults.kill_after(write);
        available(&simulation, 3).await;
        let name = members(&simulation).remove(0);
        while !simulation.come(&name, 1).await {
            simulation.pass(SECOND).await;
        }
        simulation.scale(ARENA, 2).await;
        available(&simulation, 2).await;
        let crashed = members(&simulation).into_iter().find(|one| *one != name).expect("another");
        assert!(simulation.crash(&crashed).await);
        simulation
            .until(HOUR, "a failure that is counted and handled", |checker| {
                let status = checker.status(ARENA);
                let kept = checker.former(ARENA).len() == 1;
                (status.times_failed == 1 && kept && status.available_replicas == 2).then_some(())
            })
            .await;
        let wish = Wish::whole("match", ARENA);
        simulation.pass(10 * SECOND).await;
        let answer = loop {
            match simulation.allocate(&wish).await {
                Ok(answer) => break answer,
                Err(_) => simulation.pass(SECOND).await,
            }
        };
        assert_ne!(answer.server, name, "somebody plays there");
        simulation.pass(MINUTE).await;
        assert_eq!((members(&simulation).len(), former(&simulation).len()), (2, 1));
        assert_eq!(status(&simulation).times_failed, 1, "killed after write {write}");
        simulation.assert_invariants();
        simulation
    })
    .await;
    assert!(kills > 15, "only {kills} kills");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_fails_all_the_time_gives_nothing_twice() {
    let rates = Rates { before: 100, after: 150, conflict: 100, read: 100, lost: 50 };
    for seed in 1..=2 {
        let simulation = GameSimulation::new(Setting { seed, rates, ..Setting::default() }).await;
        simulation.make_collection(ARENA, 6, json!({})).await;
        available(&simulation, 6).await;
        for round in 0..40 {
            let wishes: Vec<Wish> = (0..3)
                .map(|client| Wish::whole(&format!("{}-{client}", round / 2), ARENA))
                .collect();
            let asked = wishes.iter().map(|wish| simulation.allocate(wish));
            drop(futures::future::join_all(asked).await);
            simulation.pass(7 * SECOND).await;
        }
        simulation.assert_invariants();
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_changes_nothing() {
    let simulation = simulation(3, json!({})).await;
    let name = members(&simulation).remove(0);
    assert!(simulation.come(&name, 1).await);
    simulation.pass(10 * MINUTE).await;
    let before = simulation.checker.lock().versions();
    simulation.operator.kill();
    simulation.pass(10 * MINUTE).await;
    simulation.checker.lock().check_same_versions(&before);
    simulation.assert_invariants();
}
