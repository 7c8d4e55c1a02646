//! Drains: what whoever drains is told, what it may answer, and what happens without an answer.

use serde_json::json;
use sojourn_api::group::status::{DrainOutcome, Reason};
use sojourn_sim::group::{NAMESPACE, World};

use crate::stage::{
    DAY, HOUR, MINUTE, SECOND, deadline, draining, gone, nothing_is_wrong, ready, status, world,
};

async fn one_drains() -> (World, String, sojourn_api::group::status::DrainStatus) {
    let world = world(3, json!({"expiry": {"eligibleAge": "1d"}})).await;
    let (name, drain) = draining(&world, DAY + HOUR).await;
    (world, name, drain)
}

// case: group 54, 55
#[tokio::test(start_paused = true)]
async fn a_late_watcher_finds_every_open_drain_as_it_is() {
    let (world, name, drain) = one_drains().await;
    world.pass(2 * MINUTE).await;
    let listed = world.machines().list(&Default::default()).await.expect("people may list");
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
    let (world, name, drain) = one_drains().await;
    let went = gone(&world, HOUR, &name).await;
    assert_eq!(went.as_second(), deadline(&drain).as_second());
    let said = world.events("DrainTimedOut").await;
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].0, name);
    assert!(said[0].1.contains("nobody answered"), "{said:?}");
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_shown_and_the_deadline_stands() {
    let (world, name, drain) = one_drains().await;
    world.reply(&name, &drain.id, "Refused").await.expect("it is open");
    world
        .until(MINUTE, "the refusal", |book| {
            let drain = book.machine(&name)?.status.clone()?.drain?;
            (drain.outcome == Some(DrainOutcome::Refused)).then_some(())
        })
        .await;
    assert_eq!(world.events("DrainRefused").await[0].0, name);
    let went = gone(&world, HOUR, &name).await;
    assert_eq!(went.as_second(), deadline(&drain).as_second());
    assert!(world.events("DrainTimedOut").await[0].1.contains("refused"));
    nothing_is_wrong(&world);
}

// case: group 61, 62
#[tokio::test(start_paused = true)]
async fn an_answer_to_no_drain_or_to_another_is_refused() {
    let (world, name, drain) = one_drains().await;
    let other = crate::stage::names(&world).into_iter().find(|one| *one != name).expect("one");
    for (machine, id) in [(&name, ""), (&name, "another"), (&other, drain.id.as_str())] {
        let refused = world.reply(machine, id, "Done").await;
        assert!(refused.is_err(), "{machine} {id:?}");
    }
    world.pass(MINUTE).await;
    assert!(status(&world, &name).drain.is_some_and(|drain| drain.outcome.is_none()));
    ready(&world, "web", 3).await;
    nothing_is_wrong(&world);
}

// case: group 65
#[tokio::test(start_paused = true)]
async fn a_draining_machine_that_vanishes_needs_no_more_time() {
    let (world, name, drain) = one_drains().await;
    world.pass(30 * SECOND).await;
    world.fake.lose(&sojourn_sim::group::key(&name));
    let went = gone(&world, 30 * SECOND, &name).await;
    assert!(went < deadline(&drain));
    nothing_is_wrong(&world);
}

// case: group 69
#[tokio::test(start_paused = true)]
async fn a_deletion_that_fails_is_tried_again_ever_more_slowly() {
    let (world, name, drain) = one_drains().await;
    world.fake.script(|script| script.failures = 4);
    world.reply(&name, &drain.id, "Done").await.expect("it is open");
    world
        .until(MINUTE, "the failure on record", |book| {
            let status = book.machine(&name)?.status.clone()?;
            (status.attempts >= 1 && status.error.is_some()).then_some(())
        })
        .await;
    gone(&world, 10 * MINUTE, &name).await;
    let orders = world.fake.orders();
    let tries: Vec<_> = orders
        .iter()
        .filter(|one| one.what == sojourn_drivers::machine::fake::What::Delete)
        .filter(|one| *one.key.name == *name)
        .collect();
    assert_eq!(tries.len(), 5);
    let waits: Vec<u64> =
        tries.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs()).collect();
    for (wait, least) in waits.iter().zip([5, 10, 20, 40]) {
        // Rounded up to a whole second, and a quarter more at most.
        assert!(*wait >= least && *wait <= least + least / 4 + 2, "{waits:?}");
    }
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn without_time_to_drain_there_is_no_drain() {
    let world = world(2, json!({"expiry": {"eligibleAge": "1d"}, "drainTimeout": "0s"})).await;
    let old = crate::stage::names(&world);
    world.pass(DAY + 10 * MINUTE).await;
    ready(&world, "web", 2).await;
    let new = crate::stage::names(&world);
    assert!(new.iter().all(|name| !old.contains(name)), "{new:?}");
    assert!(world.ledger.book().drains.is_empty());
    nothing_is_wrong(&world);
}
