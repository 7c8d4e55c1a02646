//! Machines that die young, templates that are tried first, and what all groups may do at once.

use std::time::Duration;

use serde_json::json;
use sojourn_api::group::status::Phase;
use sojourn_drivers::machine::fake::{Operation, Script};
use sojourn_sim::group::simulation::{GroupSimulation, Setting, key};

use crate::fixture::{
    DAY, HOUR, MINUTE, SECOND, condition, names, ready, require, simulation, simulation_with,
    status,
};

/// A provider whose machines run at once and end by themselves after so long.
fn dying(after: Duration) -> Setting {
    let script = Script { boot: Duration::ZERO, lifetime: Some(after), ..Script::default() };
    Setting { script, ..Setting::default() }
}

fn created(simulation: &GroupSimulation) -> usize {
    simulation
        .drivers
        .provider
        .operations()
        .iter()
        .filter(|one| one.operation == Operation::Create)
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_program_that_ends_after_a_second_makes_no_storm_of_machines() {
    let simulation = GroupSimulation::new(dying(SECOND)).await;
    simulation.make_group("web", 3, json!({})).await;
    simulation.pass(30 * SECOND).await;
    assert!((2..=4).contains(&created(&simulation)), "{} machines in 30 s", created(&simulation));
    assert_eq!(simulation.events("DyingYoung").await.len(), 1, "it is said once");
    simulation.pass(HOUR).await;
    assert!(created(&simulation) < 40, "{} machines in an hour", created(&simulation));
    let dying = condition(&simulation, "web", "DyingYoung").expect("it is visible");
    assert_eq!((&*dying.status, &*dying.reason), ("True", "EndedByItself"));
    assert!(dying.message.contains("ended by themselves"), "{}", dying.message);
    // Another process knows it from the record, and does not begin anew.
    let before = created(&simulation);
    simulation.operator.kill();
    simulation.pass(MINUTE).await;
    assert!(created(&simulation) - before <= 1, "{} more", created(&simulation) - before);
    for (_, message) in simulation.events("RotationStarted").await {
        assert!(!message.contains("unhealthy"), "{message}");
    }
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_template_whose_program_ends_after_three_seconds_costs_a_healthy_group_nobody() {
    let simulation = simulation(3, json!({})).await;
    require(&simulation, 4, 3);
    let before = names(&simulation);
    simulation.drivers.provider.script(|script| script.lifetime = Some(3 * SECOND));
    simulation
        .change_group("web", json!({"spec": {"template": {"config": {"image": "v2"}}}}))
        .await;
    simulation.pass(HOUR).await;
    let now = names(&simulation);
    assert!(before.iter().all(|name| now.contains(name)), "{now:?}");
    assert!(condition(&simulation, "web", "DyingYoung").is_some());
    // A good one is rolled out at once, one after the other.
    simulation.drivers.provider.script(|script| script.lifetime = None);
    simulation
        .change_group("web", json!({"spec": {"template": {"config": {"image": "v3"}}}}))
        .await;
    simulation
        .until(2 * HOUR, "the roll", |checker| {
            let old = |one: &&sojourn_api::group::Machine| {
                before.contains(&kube::ResourceExt::name_any(*one))
            };
            let all = checker.of("web");
            (all.len() == 3 && !all.iter().any(old)).then_some(())
        })
        .await;
    assert!(condition(&simulation, "web", "DyingYoung").is_none());
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn no_policy_empties_a_group_while_its_provider_makes_nothing() {
    for policy in ["DrainAnyway", "TerminateAnyway"] {
        let expiry = json!({"forcedAge": "1h", "forcedPolicy": policy, "forcedSurge": 3});
        let simulation = simulation(3, json!({"expiry": expiry})).await;
        let before = names(&simulation);
        simulation
            .drivers
            .provider
            .script(|script| script.refusal = Some("the quota is used up".to_owned()));
        simulation.pass(5 * HOUR).await;
        let now = names(&simulation);
        assert!(before.iter().all(|name| now.contains(name)), "{policy}: {now:?}");
        assert_eq!(simulation.drivers.provider.machines().len(), 3, "{policy}");
        simulation.assert_invariants();
    }
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_roll_is_not_blocked() {
    let simulation = simulation(3, json!({"drainTimeout": "10m"})).await;
    simulation
        .change_group("web", json!({"spec": {"template": {"config": {"image": "v2"}}}}))
        .await;
    for _ in 0..45 {
        simulation.pass(MINUTE).await;
        assert_eq!(condition(&simulation, "web", "Blocked"), None, "{}", simulation.shown());
    }
    simulation.assert_invariants();
}

/// A default that is set for everybody makes every machine of every group too old.
#[tokio::test(start_paused = true)]
async fn a_changed_default_rolls_no_more_groups_at_a_time_than_is_configured() {
    let config = "maxRotations: 2".to_owned();
    let setting = Setting { config, ..Setting::default() };
    let simulation = simulation_with(setting, 1, json!({"drainTimeout": "10m"})).await;
    for name in ["a", "b", "c", "d", "e"] {
        simulation.make_group(name, 1, json!({"drainTimeout": "10m"})).await;
        ready(&simulation, name, 1).await;
    }
    simulation.pass(2 * DAY).await;
    simulation.configure("maxRotations: 2\nexpiry: {eligibleAge: 1d, forcedAge: 36h}").await;
    let (mut most, mut waited) = (0, 0);
    for _ in 0..240 {
        simulation.pass(30 * SECOND).await;
        let checker = simulation.checker.lock();
        let rotating = |one: &&sojourn_api::group::Machine| {
            one.status.as_ref().is_some_and(|status| status.rotation.is_some())
        };
        most = most.max(checker.machines.values().filter(rotating).count());
        // A group that waits for others does not know when its turn comes.
        let nexts =
            checker.groups.values().filter_map(|group| group.status.as_ref()?.next.as_ref());
        for next in nexts.filter(|next| next.why.contains("maxRotations")) {
            assert_eq!(next.at, None, "{next:?}");
            waited += 1;
        }
    }
    assert_eq!(most, 2);
    assert!(waited > 0, "some group waited for its turn");
    let born = simulation.now() - jiff::SignedDuration::from_hours(24);
    let new = |one: &sojourn_api::group::Machine| {
        one.metadata.creation_timestamp.as_ref().is_some_and(|time| time.0 > born)
    };
    assert!(
        simulation.checker.lock().machines.values().all(new),
        "all had their turn: {}",
        simulation.shown()
    );
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_wish_to_keep_a_machine_is_answered() {
    let simulation = simulation(2, json!({"expiry": {"eligibleAge": "1d"}})).await;
    let name = names(&simulation)[0].clone();
    let until = "2030-01-09T00:00:00Z";
    let change = json!({"metadata": {"annotations": {"sojourn.dev/keep-until": until}}});
    simulation.change_machine(&name, change).await.expect("people's requests work");
    simulation.pass(SECOND).await;
    let keep = status(&simulation, &name).keep.expect("an answer");
    assert_eq!(keep.asked.map(|time| time.0.to_string()).as_deref(), Some(until));
    assert_eq!(keep.until.map(|time| time.0.to_string()).as_deref(), Some(until));
    simulation.pass(3 * DAY).await;
    assert_eq!(status(&simulation, &name).phase, Some(Phase::Ready));
    assert!(simulation.drivers.provider.machines().contains(&key(&name)));
    simulation.assert_invariants();
}
