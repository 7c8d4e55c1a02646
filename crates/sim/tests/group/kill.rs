//! Killing the operator anywhere, and running two of them, changes no outcome.

use std::time::Duration;

use serde_json::{Value, json};
use sojourn_sim::fault::Rates;
use sojourn_sim::group::simulation::{GroupSimulation, Setting};
use sojourn_sim::simulation::kill_after_each_write;

use crate::fixture::{
    DAY, HOUR, MINUTE, SECOND, deadline, draining, gone, names, ready, require, simulation,
    simulation_with,
};

/// Replaced after an hour, with a minute to drain.
fn short() -> Value {
    json!({"expiry": {"eligibleAge": "1h"}, "drainTimeout": "1m"})
}

/// Until everybody that was there is replaced.
async fn renewed(simulation: &GroupSimulation, old: &[String], limit: Duration) {
    let count = old.len();
    simulation
        .until(limit, "a group that is renewed", |checker| {
            let all = checker.of("web");
            let new = all.iter().all(|one| !old.contains(&kube::ResourceExt::name_any(*one)));
            let ready = checker.in_phase("web", sojourn_api::group::status::Phase::Ready).len();
            (new && all.len() == count && ready == count).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_it_does_the_same() {
    let kills = kill_after_each_write(async |write| {
        let simulation = GroupSimulation::new(Setting::default()).await;
        simulation.make_group("web", 2, short()).await;
        require(&simulation, 3, 1);
        simulation.faults.kill_after(write);
        ready(&simulation, "web", 2).await;
        let old = names(&simulation);
        renewed(&simulation, &old, 3 * HOUR).await;
        simulation.assert_invariants();
        let machines = simulation.drivers.provider.machines().len();
        assert_eq!(machines, 2, "killed after write {write}");
        simulation
    })
    .await;
    assert!(kills > 20, "only {kills} kills");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_fails_all_the_time_changes_nothing_but_the_minute() {
    let rates = Rates { before: 100, after: 100, conflict: 100, read: 100, lost: 50 };
    for seed in 1..=5 {
        let simulation = GroupSimulation::new(Setting { seed, rates, ..Setting::default() }).await;
        simulation.make_group("web", 2, short()).await;
        require(&simulation, 3, 0);
        ready(&simulation, "web", 2).await;
        let old = names(&simulation);
        renewed(&simulation, &old, 6 * HOUR).await;
        simulation.assert_invariants();
        assert_eq!(simulation.drivers.provider.machines().len(), 2, "seed {seed}");
    }
}

// case: group 50
#[tokio::test(start_paused = true)]
async fn whoever_takes_over_ends_the_drain_at_its_deadline_and_trims_nothing() {
    let simulation = simulation(3, json!({"expiry": {"eligibleAge": "1d"}})).await;
    require(&simulation, 4, 2);
    let (name, drain) = draining(&simulation, DAY + HOUR).await;
    simulation.pass(MINUTE).await;
    simulation.set_down_for(2 * MINUTE);
    simulation.operator.kill();
    simulation.pass(3 * MINUTE).await;
    assert_eq!(simulation.operator.starts(), 2);
    assert_eq!(names(&simulation).len(), 4, "nobody was trimmed");
    let went = gone(&simulation, HOUR, &name).await;
    assert_eq!(went.as_second(), deadline(&drain).as_second());
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_drain_whose_deadline_passed_unseen_ends_with_the_next_start() {
    let simulation = simulation(3, json!({"expiry": {"eligibleAge": "1d"}})).await;
    let (name, drain) = draining(&simulation, DAY + HOUR).await;
    simulation.operator.want(false);
    simulation.pass(HOUR).await;
    assert!(names(&simulation).contains(&name), "nobody was there to delete it");
    simulation.operator.want(true);
    let went = gone(&simulation, MINUTE, &name).await;
    assert!(went > deadline(&drain));
    ready(&simulation, "web", 3).await;
    simulation.assert_invariants();
}

// case: group 49
#[tokio::test(start_paused = true)]
async fn age_is_the_same_whoever_asks() {
    let simulation = simulation(1, json!({"expiry": {"eligibleAge": "10d"}})).await;
    let name = names(&simulation)[0].clone();
    let expires = crate::fixture::status(&simulation, &name).expires_at.expect("one");
    for _ in 0..3 {
        simulation.pass(DAY).await;
        simulation.operator.kill();
        simulation.pass(MINUTE).await;
        assert_eq!(crate::fixture::status(&simulation, &name).expires_at, Some(expires.clone()));
    }
    let (old, _) = draining(&simulation, 8 * DAY).await;
    assert_eq!(old, name);
    let late = simulation.now().duration_since(expires.0);
    assert!(!late.is_negative() && late.as_secs() < 120, "{late}");
}

// case: group 46
#[tokio::test(start_paused = true)]
async fn whoever_was_killed_does_nothing_any_more() {
    let simulation = simulation(2, short()).await;
    simulation.operator.want(false);
    let orders = simulation.drivers.provider.operations().len();
    let requests = simulation.faults.requests();
    simulation.pass(DAY).await;
    assert_eq!(simulation.drivers.provider.operations().len(), orders);
    assert_eq!(simulation.faults.requests(), requests);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn two_at_the_same_time_make_no_machine_too_many() {
    for seed in 1..=3 {
        let simulation = simulation_with(Setting { seed, ..Setting::default() }, 2, short()).await;
        require(&simulation, 3, 1);
        let second = simulation.second_operator();
        let old = names(&simulation);
        renewed(&simulation, &old, 4 * HOUR).await;
        simulation.change_group("web", json!({"spec": {"size": 5}})).await;
        require(&simulation, 6, 1);
        ready(&simulation, "web", 5).await;
        simulation.change_group("web", json!({"spec": {"size": 2}})).await;
        simulation.pass(10 * MINUTE).await;
        ready(&simulation, "web", 2).await;
        assert!(second.is_up() && simulation.operator.is_up());
        assert_eq!(simulation.drivers.provider.machines().len(), 2);
        simulation.assert_invariants();
    }
}

/// Watches that break while machines are made: what was made and is not listed yet is not lost.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_older_than_what_was_made_loses_nothing() {
    let simulation = GroupSimulation::new(Setting::default()).await;
    simulation.make_group("web", 3, short()).await;
    require(&simulation, 4, 0);
    for _ in 0..40 {
        simulation.faults.cut_watches();
        simulation.pass(SECOND).await;
    }
    ready(&simulation, "web", 3).await;
    let old = names(&simulation);
    for _ in 0..100 {
        simulation.pass(MINUTE).await;
        simulation.faults.cut_watches();
    }
    renewed(&simulation, &old, HOUR).await;
    simulation.assert_invariants();
}
