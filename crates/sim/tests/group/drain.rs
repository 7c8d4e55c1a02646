//! Drains: what whoever drains is told, what it may answer, and what happens without an answer.

use serde_json::json;
use sojourn_api::group::status::{DrainOutcome, Reason};
use sojourn_sim::group::simulation::{GroupSimulation, NAMESPACE};

use crate::fixture::{
    DAY, HOUR, MINUTE, SECOND, deadline, draining, gone, ready, simulation, status,
};

async fn one_drains() -> (GroupSimulation, String, sojourn_api::group::status::DrainStatus) {
    let simulation = simulation(3, json!({"expiry": {"eligibleAge": "1d"}})).await;
    let (name, drain) = draining(&simulation, DAY + HOUR).await;
    (simulation, name, drain)
}

// case: group 54, 55
#[tokio::test(start_paused = true)]
async fn a_late_watcher_finds_every_open_drain_as_it_is() {
    let (simulation, name, drain) = one_drains().await;
    simulation.pass(2 * MINUTE).await;
    let listed = simulation.machines().list(&Default::default()).await.expect("people may list");
    let open: Vec<_> = listed
        .items
        .iter()
        .filter_map(|one| Some((one, one.status.as_ref()?.drain.as_ref()?)))
        .collect();
    let [(machine, found)] = open[..] else { panic!("{open:?}") };
    assert_eq!(machine.metadata.name.as_deref(), Some(name.as_str()));
    assert_eq!(machine.metadata.namespace.as_deref(), Some(NAMESPACE));
    assert_eq!(machine.spec.group.as_deref(), Some("web"));
    let status = machine.status.as_ref().expect("one");
    assert!(status.provider_id.as_deref().is_some_and(|id| id.starts_with("fake://")));
    assert_eq!(*found, drain, "the reason, the start and the deadline are the first ones");
    assert_eq!(found.reason, Some(Reason::Expired));
    let length = deadline(found).duration_since(found.started_at.as_ref().expect("one").0);
    // Both are whole seconds, and the time in between is never less than was promised.
    assert!((300..=301).contains(&length.as_secs()), "{length}");
}

// case: group 56
#[tokio::test(start_paused = true)]
async fn without_an_answer_it_is_deleted_at_the_deadline_and_that_is_said() {
    let (simulation, name, drain) = one_drains().await;
    let went = gone(&simulation, HOUR, &name).await;
    assert_eq!(went.as_second(), deadline(&drain).as_second());
    let said = simulation.events("DrainTimedOut").await;
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].0, name);
    assert!(said[0].1.contains("nobody answered"), "{said:?}");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_shown_and_the_deadline_stands() {
    let (simulation, name, drain) = one_drains().await;
    simulation.reply(&name, &drain.id, "Refused").await.expect("it is open");
    simulation
        .until(MINUTE, "the refusal", |checker| {
            let drain = checker.machine(&name)?.status.clone()?.drain?;
            (drain.outcome == Some(DrainOutcome::Refused)).then_some(())
        })
        .await;
    assert_eq!(simulation.events("DrainRefused").await[0].0, name);
    let went = gone(&simulation, HOUR, &name).await;
    assert_eq!(went.as_second(), deadline(&drain).as_second());
    assert!(simulation.events("DrainTimedOut").await[0].1.contains("refused"));
    simulation.assert_invariants();
}

// case: group 61, 62
#[tokio::test(start_paused = true)]
async fn an_answer_to_no_drain_or_to_another_is_refused() {
    let (simulation, name, drain) = one_drains().await;
    let other =
        crate::fixture::names(&simulation).into_iter().find(|one| *one != name).expect("one");
    for (machine, id) in [(&name, ""), (&name, "another"), (&other, drain.id.as_str())] {
        let refused = simulation.reply(machine, id, "Done").await;
        assert!(refused.is_err(), "{machine} {id:?}");
    }
    simulation.pass(MINUTE).await;
    assert!(status(&simulation, &name).drain.is_some_and(|drain| drain.outcome.is_none()));
    ready(&simulation, "web", 3).await;
    simulation.assert_invariants();
}

// case: group 65
#[tokio::test(start_paused = true)]
async fn a_draining_machine_that_vanishes_needs_no_more_time() {
    let (simulation, name, drain) = one_drains().await;
    simulation.pass(30 * SECOND).await;
    simulation.drivers.provider.lose(&sojourn_sim::group::simulation::key(&name));
    let went = gone(&simulation, 30 * SECOND, &name).await;
    assert!(went < deadline(&drain));
    simulation.assert_invariants();
}

// case: group 69
#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_tried_again_ever_more_slowly() {
    let (simulation, name, drain) = one_drains().await;
    simulation.drivers.provider.script(|script| script.failures = 4);
    simulation.reply(&name, &drain.id, "Done").await.expect("it is open");
    simulation
        .until(MINUTE, "the failure on record", |checker| {
            let status = checker.machine(&name)?.status.clone()?;
            (status.attempts >= 1 && status.error.is_some()).then_some(())
        })
        .await;
    gone(&simulation, 10 * MINUTE, &name).await;
    let orders = simulation.drivers.provider.operations();
    let tries: Vec<_> = orders
        .iter()
        .filter(|one| one.operation == sojourn_drivers::machine::fake::Operation::Delete)
        .filter(|one| *one.key.name == *name)
        .collect();
    assert_eq!(tries.len(), 5);
    let waits: Vec<u64> =
        tries.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs()).collect();
    for (wait, least) in waits.iter().zip([5, 10, 20, 40]) {
        // Rounded up to a whole second, and a quarter more at most.
        assert!(*wait >= least && *wait <= least + least / 4 + 2, "{waits:?}");
    }
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn without_time_to_drain_there_is_no_drain() {
    let simulation =
        simulation(2, json!({"expiry": {"eligibleAge": "1d"}, "drainTimeout": "0s"})).await;
    let old = crate::fixture::names(&simulation);
    simulation.pass(DAY + 10 * MINUTE).await;
    ready(&simulation, "web", 2).await;
    let new = crate::fixture::names(&simulation);
    assert!(new.iter().all(|name| !old.contains(name)), "{new:?}");
    assert!(simulation.checker.lock().drains.is_empty());
    simulation.assert_invariants();
}
