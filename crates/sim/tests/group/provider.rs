//! What providers do to groups: they are slow, refuse, fail, lose machines and announce that they will.

use std::time::Duration;

use serde_json::json;
use sojourn_api::group::status::{Phase, Reason};
use sojourn_drivers::machine::fake::{Operation, Script};
use sojourn_sim::group::simulation::{GroupSimulation, Setting, key};

use crate::fixture::{
    DAY, HOUR, MINUTE, SECOND, condition, draining, gone, names, ready, require, simulation,
    simulation_with, status,
};

// case: group 72
#[tokio::test(start_paused = true)]
async fn what_is_stopped_or_gone_at_its_provider_is_replaced_without_a_drain() {
    let simulation = simulation(3, json!({})).await;
    let before = names(&simulation);
    simulation.drivers.provider.halt(&key(&before[0]));
    gone(&simulation, 2 * MINUTE, &before[0]).await;
    ready(&simulation, "web", 3).await;
    simulation.drivers.provider.lose(&key(&before[1]));
    gone(&simulation, 2 * MINUTE, &before[1]).await;
    ready(&simulation, "web", 3).await;
    assert!(simulation.checker.lock().drains.is_empty());
    assert_eq!(simulation.drivers.provider.machines().len(), 3);
    simulation.assert_invariants();
}

// case: group 66
#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_deleted() {
    let simulation = simulation(2, json!({})).await;
    let name = names(&simulation)[0].clone();
    simulation.operator.want(false);
    simulation.drivers.provider.lose(&key(&name));
    simulation.delete_machine(&name).await;
    simulation.operator.want(true);
    gone(&simulation, MINUTE, &name).await;
    ready(&simulation, "web", 2).await;
    simulation.assert_invariants();
}

// case: group 66
#[tokio::test(start_paused = true)]
async fn what_its_provider_does_not_find_when_it_is_deleted_leaves_no_record() {
    let simulation = simulation(2, json!({"drainTimeout": "1m"})).await;
    let name = names(&simulation)[0].clone();
    // It vanishes while its deletion is under way, and every answer to that is lost.
    simulation.drivers.provider.script(|script| script.latency = 20 * SECOND);
    simulation.delete_machine(&name).await;
    simulation.pass(70 * SECOND).await;
    simulation
        .drivers
        .provider
        .script(|script| (script.lost_answers, script.lag) = (1, 5 * SECOND));
    simulation.drivers.provider.lose(&key(&name));
    gone(&simulation, 5 * MINUTE, &name).await;
    simulation
        .drivers
        .provider
        .script(|script| (script.latency, script.lag) = (Duration::ZERO, Duration::ZERO));
    ready(&simulation, "web", 2).await;
    assert!(!simulation.drivers.provider.machines().contains(&key(&name)));
    simulation.assert_invariants();
}

// case: group 77, 79
#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_is_given_up_asked_again_and_asked_once_at_a_time() {
    let simulation = simulation(2, json!({"registrationTimeout": "2h"})).await;
    simulation.drivers.provider.script(|script| script.latency = 4 * HOUR);
    let before = simulation.drivers.provider.operations().len();
    simulation.change_group("web", json!({"spec": {"size": 3}})).await;
    simulation.pass(30 * MINUTE).await;
    // Nothing was carried out, nobody was hurt, and the group says what goes on.
    assert_eq!(simulation.drivers.provider.operations().len(), before);
    let failing = condition(&simulation, "web", "CreateFailing").expect("it fails");
    assert!(failing.message.contains("no answer within"), "{}", failing.message);
    assert_eq!(
        simulation.checker.lock().count("is created"),
        3,
        "one object, however often it is asked"
    );
    // A failure does not hide the next try, which works.
    simulation.drivers.provider.script(|script| script.latency = Duration::ZERO);
    ready(&simulation, "web", 3).await;
    let carried_out = simulation
        .drivers
        .provider
        .operations()
        .iter()
        .filter(|one| one.operation == Operation::Create)
        .count();
    assert_eq!(carried_out, 3);
    assert_eq!(condition(&simulation, "web", "CreateFailing"), None);
    simulation.assert_invariants();
}

// case: group 76
#[tokio::test(start_paused = true)]
async fn a_machine_that_is_unhealthy_for_moments_is_left_alone() {
    let simulation = simulation(3, json!({"unhealthyAfter": "3m"})).await;
    require(&simulation, 3, 0);
    let name = names(&simulation)[0].clone();
    for _ in 0..20 {
        simulation.drivers.provider.set_ready(&key(&name), false);
        simulation.pass(2 * MINUTE).await;
        assert!(status(&simulation, &name).rotation.is_none());
        simulation.drivers.provider.set_ready(&key(&name), true);
        simulation.pass(SECOND).await;
    }
    assert_eq!(status(&simulation, &name).phase, Some(Phase::Ready));
    assert_eq!(simulation.checker.lock().count("is created"), 3);
    simulation.assert_invariants();
}

// case: group K1
#[tokio::test(start_paused = true)]
async fn what_is_not_the_groups_is_left_whatever_it_is_called() {
    let simulation =
        simulation(1, json!({"expiry": {"eligibleAge": "1d"}, "drainTimeout": "1m"})).await;
    simulation.make_group("other", 1, json!({})).await;
    ready(&simulation, "other", 1).await;
    // Lent to somebody, with a name and a label like those of the group's own.
    simulation
        .make_machine("web-zzzzz", json!({"template": {"provider": "fake", "config": {}}}))
        .await;
    let label = json!({"metadata": {"labels": {"group.sojourn.dev/group": "web"}}});
    simulation.change_machine("web-zzzzz", label).await.expect("people's requests work");
    let expired = names(&simulation).into_iter().find(|name| name != "web-zzzzz").expect("one");
    gone(&simulation, DAY + HOUR, &expired).await;
    simulation.pass(2 * HOUR).await;
    // Once, replaced by one that is not old yet; where no age is set nothing goes, nor the lent one.
    assert_eq!(simulation.checker.lock().count("is created"), 4);
    assert_eq!(simulation.checker.lock().of("other").len(), 1);
    assert_eq!(status(&simulation, "web-zzzzz").phase, Some(Phase::Ready));
    assert_eq!(
        simulation.checker.lock().deleted.len(),
        1,
        "{:?}",
        simulation.checker.lock().deleted
    );
    simulation.assert_invariants();
}

// case: group 82
#[tokio::test(start_paused = true)]
async fn a_notice_that_comes_again_and_again_is_one_rotation() {
    let simulation = simulation(3, json!({})).await;
    require(&simulation, 4, 2);
    let name = names(&simulation)[0].clone();
    let taken = simulation.now() + jiff::SignedDuration::from_hours(1);
    simulation.drivers.provider.interrupt(&key(&name), taken);
    let (drained, drain) = draining(&simulation, 5 * MINUTE).await;
    assert_eq!((&drained, drain.reason), (&name, Some(Reason::Interrupted)));
    for _ in 0..20 {
        simulation.drivers.provider.interrupt(&key(&name), taken);
        simulation.pass(10 * SECOND).await;
    }
    gone(&simulation, HOUR, &name).await;
    assert_eq!(simulation.events("Interrupted").await.len(), 1);
    simulation.pass(HOUR).await;
    assert_eq!(simulation.checker.lock().count("is created"), 4);
    ready(&simulation, "web", 3).await;
    simulation.assert_invariants();
}

// case: group 35
#[tokio::test(start_paused = true)]
async fn a_replacement_that_cannot_be_made_costs_nobody_anything() {
    let simulation = simulation(3, json!({"expiry": {"eligibleAge": "1d"}})).await;
    require(&simulation, 4, 3);
    let before = names(&simulation);
    simulation
        .drivers
        .provider
        .script(|script| script.refusal = Some("the quota is used up".to_owned()));
    simulation.pass(DAY + 2 * HOUR).await;
    let now = names(&simulation);
    assert!(before.iter().all(|name| now.contains(name)), "{now:?}");
    assert_eq!(simulation.drivers.provider.machines().len(), 3);
    // The provider's own words stand in the group's status for as long as it fails.
    let failing = condition(&simulation, "web", "CreateFailing").expect("it fails");
    assert_eq!((&*failing.status, &*failing.reason), ("True", "CannotBeMade"));
    assert!(failing.message.contains("the quota is used up"), "{}", failing.message);
    let since = failing.last_transition_time.0;
    assert!(simulation.now().duration_since(since).as_hours() >= 1, "it has failed all the time");
    let tries = simulation
        .drivers
        .provider
        .operations()
        .iter()
        .filter(|one| one.operation == Operation::Create)
        .count();
    assert!(tries < 70, "{tries} orders in two hours");
    simulation.drivers.provider.script(|script| script.refusal = None);
    draining(&simulation, 10 * MINUTE).await;
    assert_eq!(condition(&simulation, "web", "CreateFailing"), None);
    simulation.assert_invariants();
}

// case: group 36, K11
#[tokio::test(start_paused = true)]
async fn a_replacement_that_never_runs_is_taken_away_and_the_old_one_stays() {
    let simulation = simulation(2, json!({"expiry": {"eligibleAge": "1d"}})).await;
    require(&simulation, 3, 2);
    let before = names(&simulation);
    simulation.drivers.provider.script(|script| script.dead_on_arrival = true);
    simulation.pass(DAY + HOUR).await;
    let now = names(&simulation);
    assert!(before.iter().all(|name| now.contains(name)), "{now:?}");
    assert!(before.iter().all(|name| status(&simulation, name).phase == Some(Phase::Ready)));
    assert!(!simulation.events("MachineFailed").await.is_empty());
    simulation.assert_invariants();
}

// case: group 44
#[tokio::test(start_paused = true)]
async fn a_long_drain_in_one_group_delays_no_other() {
    let simulation =
        simulation(2, json!({"expiry": {"eligibleAge": "1d"}, "drainTimeout": "3d"})).await;
    simulation.pass(HOUR).await;
    simulation.make_group("other", 2, json!({"expiry": {"eligibleAge": "1d"}})).await;
    ready(&simulation, "other", 2).await;
    let due = simulation.now() + jiff::SignedDuration::from_hours(24);
    draining(&simulation, DAY).await;
    simulation
        .until(2 * DAY, "a drain in the other group", |checker| {
            (!checker.in_phase("other", Phase::Draining).is_empty()).then_some(())
        })
        .await;
    let late = simulation.now().duration_since(due).as_secs();
    assert!(late.abs() < 120, "{late} s late");
    simulation.assert_invariants();
}

// case: group 45
#[tokio::test(start_paused = true)]
async fn a_slow_provider_in_one_group_delays_no_other() {
    let simulation = GroupSimulation::new(Setting::default()).await;
    let slow = json!({"template": {"config": {"latencyMs": 3_600_000}}});
    simulation.make_group("slow", 50, slow).await;
    simulation.pass(MINUTE).await;
    let begun = simulation.now();
    simulation.make_group("web", 3, json!({})).await;
    ready(&simulation, "web", 3).await;
    assert!(
        simulation.now().duration_since(begun).as_secs() < 95,
        "two boots and a trial: {}",
        simulation.now()
    );
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_provider_deletes_nothing() {
    let simulation =
        simulation(3, json!({"expiry": {"eligibleAge": "1d", "forcedAge": "2d"}})).await;
    require(&simulation, 5, 0);
    let before = names(&simulation);
    simulation.drivers.provider.script(|script| script.outage = true);
    simulation.pass(5 * DAY).await;
    let now = names(&simulation);
    assert!(before.iter().all(|name| now.contains(name)), "{now:?}");
    simulation.drivers.provider.script(|script| script.outage = false);
    assert_eq!(simulation.drivers.provider.machines().len(), 3);
    simulation
        .until(2 * HOUR, "all are new", |checker| {
            let all = checker.of("web");
            let old = |one: &&sojourn_api::group::Machine| {
                before.contains(&kube::ResourceExt::name_any(*one))
            };
            (all.len() == 3 && !all.iter().any(old)).then_some(())
        })
        .await;
    simulation.assert_invariants();
}

/// What was made shows late, answers get lost, and nobody is made twice.
#[tokio::test(start_paused = true)]
async fn a_provider_that_is_slow_to_show_and_loses_answers_makes_nobody_twice() {
    let script = Script {
        boot: Duration::from_secs(20),
        lag: Duration::from_secs(15),
        stop: Duration::from_secs(10),
        latency: Duration::from_secs(2),
        lost_answers: 5,
        ..Script::default()
    };
    let spec = json!({"expiry": {"eligibleAge": "1h"}, "drainTimeout": "1m"});
    let simulation = simulation_with(Setting { script, ..Setting::default() }, 3, spec).await;
    require(&simulation, 4, 2);
    for _ in 0..6 {
        simulation.drivers.provider.script(|script| script.lost_answers = 2);
        simulation.pass(20 * MINUTE).await;
    }
    ready(&simulation, "web", 3).await;
    assert_eq!(simulation.drivers.provider.machines(), {
        let mut keys: Vec<_> = names(&simulation).iter().map(|name| key(name)).collect();
        keys.sort_unstable();
        keys
    });
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_machine_is_watched_anew_after_a_restart() {
    let simulation = simulation(3, json!({"unhealthyAfter": "3m"})).await;
    let name = names(&simulation)[0].clone();
    simulation.drivers.provider.set_ready(&key(&name), false);
    simulation.pass(2 * MINUTE).await;
    simulation.operator.kill();
    simulation.pass(2 * MINUTE).await;
    assert!(status(&simulation, &name).rotation.is_none(), "nobody watched for three minutes");
    let (drained, drain) = draining(&simulation, 5 * MINUTE).await;
    assert_eq!((drained, drain.reason), (name, Some(Reason::Unhealthy)));
    simulation.assert_invariants();
}
