//! What providers do to groups: they are slow, refuse, fail, lose machines and announce that they will.

use std::time::Duration;

use serde_json::json;
use sojourn_api::group::status::{Phase, Reason};
use sojourn_drivers::machine::fake::{Script, What};
use sojourn_sim::group::{Setting, World, key};

use crate::stage::{
    DAY, HOUR, MINUTE, SECOND, condition, draining, gone, names, nothing_is_wrong, ready, rule,
    status, world, world_with,
};

// case: group 72
#[tokio::test(start_paused = true)]
async fn what_is_stopped_or_gone_at_its_provider_is_replaced_without_a_drain() {
    let world = world(3, json!({})).await;
    let before = names(&world);
    world.fake.halt(&key(&before[0]));
    gone(&world, 2 * MINUTE, &before[0]).await;
    ready(&world, "web", 3).await;
    world.fake.lose(&key(&before[1]));
    gone(&world, 2 * MINUTE, &before[1]).await;
    ready(&world, "web", 3).await;
    assert!(world.ledger.book().drains.is_empty());
    assert_eq!(world.fake.machines().len(), 3);
    nothing_is_wrong(&world);
}

// case: group 66
#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_deleted() {
    let world = world(2, json!({})).await;
    let name = names(&world)[0].clone();
    world.operator.want(false);
    world.fake.lose(&key(&name));
    world.delete_machine(&name).await;
    world.operator.want(true);
    gone(&world, MINUTE, &name).await;
    ready(&world, "web", 2).await;
    nothing_is_wrong(&world);
}

// case: group 66
#[tokio::test(start_paused = true)]
async fn what_its_provider_does_not_find_when_it_is_deleted_leaves_no_record() {
    let world = world(2, json!({"drainTimeout": "1m"})).await;
    let name = names(&world)[0].clone();
    // It vanishes while its deletion is under way, and every answer to that is lost.
    world.fake.script(|script| script.latency = 20 * SECOND);
    world.delete_machine(&name).await;
    world.pass(70 * SECOND).await;
    world.fake.script(|script| (script.lost_answers, script.lag) = (1, 5 * SECOND));
    world.fake.lose(&key(&name));
    gone(&world, 5 * MINUTE, &name).await;
    world.fake.script(|script| (script.latency, script.lag) = (Duration::ZERO, Duration::ZERO));
    ready(&world, "web", 2).await;
    assert!(!world.fake.machines().contains(&key(&name)));
    nothing_is_wrong(&world);
}

// case: group 77, 79
#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_is_given_up_asked_again_and_asked_once_at_a_time() {
    let world = world(2, json!({"registrationTimeout": "2h"})).await;
    world.fake.script(|script| script.latency = 4 * HOUR);
    let before = world.fake.orders().len();
    world.change_group("web", json!({"spec": {"size": 3}})).await;
    world.pass(30 * MINUTE).await;
    // Nothing was carried out, nobody was hurt, and the group says what goes on.
    assert_eq!(world.fake.orders().len(), before);
    let failing = condition(&world, "web", "CreateFailing").expect("it fails");
    assert!(failing.message.contains("no answer within"), "{}", failing.message);
    assert_eq!(world.ledger.book().count("is created"), 3, "one object, however often it is asked");
    // A failure does not hide the next try, which works.
    world.fake.script(|script| script.latency = Duration::ZERO);
    ready(&world, "web", 3).await;
    let carried_out = world.fake.orders().iter().filter(|one| one.what == What::Create).count();
    assert_eq!(carried_out, 3);
    assert_eq!(condition(&world, "web", "CreateFailing"), None);
    nothing_is_wrong(&world);
}

// case: group 76
#[tokio::test(start_paused = true)]
async fn whoever_is_ill_for_moments_again_and_again_is_left_alone() {
    let world = world(3, json!({"unhealthyAfter": "3m"})).await;
    rule(&world, 3, 0);
    let name = names(&world)[0].clone();
    for _ in 0..20 {
        world.fake.set_ready(&key(&name), false);
        world.pass(2 * MINUTE).await;
        assert!(status(&world, &name).rotation.is_none());
        world.fake.set_ready(&key(&name), true);
        world.pass(SECOND).await;
    }
    assert_eq!(status(&world, &name).phase, Some(Phase::Ready));
    assert_eq!(world.ledger.book().count("is created"), 3);
    nothing_is_wrong(&world);
}

// case: group K1
#[tokio::test(start_paused = true)]
async fn what_is_not_the_groups_is_left_whatever_it_is_called() {
    let world = world(1, json!({"expiry": {"eligibleAge": "1d"}, "drainTimeout": "1m"})).await;
    world.make_group("other", 1, json!({})).await;
    ready(&world, "other", 1).await;
    // Lent to somebody, with a name and a label like those of the group's own.
    world.make_machine("web-zzzzz", json!({"template": {"provider": "fake", "config": {}}})).await;
    let label = json!({"metadata": {"labels": {"group.sojourn.dev/group": "web"}}});
    world.change_machine("web-zzzzz", label).await.expect("people's requests work");
    let expired = names(&world).into_iter().find(|name| name != "web-zzzzz").expect("one");
    gone(&world, DAY + HOUR, &expired).await;
    world.pass(2 * HOUR).await;
    // Once, replaced by one that is not old yet; where no age is set nothing goes, nor the lent one.
    assert_eq!(world.ledger.book().count("is created"), 4);
    assert_eq!(world.ledger.book().of("other").len(), 1);
    assert_eq!(status(&world, "web-zzzzz").phase, Some(Phase::Ready));
    assert_eq!(world.ledger.book().deleted.len(), 1, "{:?}", world.ledger.book().deleted);
    nothing_is_wrong(&world);
}

// case: group 82
#[tokio::test(start_paused = true)]
async fn a_notice_that_comes_again_and_again_is_one_rotation() {
    let world = world(3, json!({})).await;
    rule(&world, 4, 2);
    let name = names(&world)[0].clone();
    let taken = world.now() + jiff::SignedDuration::from_hours(1);
    world.fake.interrupt(&key(&name), taken);
    let (drained, drain) = draining(&world, 5 * MINUTE).await;
    assert_eq!((&drained, drain.reason), (&name, Some(Reason::Interrupted)));
    for _ in 0..20 {
        world.fake.interrupt(&key(&name), taken);
        world.pass(10 * SECOND).await;
    }
    gone(&world, HOUR, &name).await;
    assert_eq!(world.events("Interrupted").await.len(), 1);
    world.pass(HOUR).await;
    assert_eq!(world.ledger.book().count("is created"), 4);
    ready(&world, "web", 3).await;
    nothing_is_wrong(&world);
}

// case: group 35
#[tokio::test(start_paused = true)]
async fn a_replacement_that_cannot_be_made_costs_nobody_anything() {
    let world = world(3, json!({"expiry": {"eligibleAge": "1d"}})).await;
    rule(&world, 4, 3);
    let before = names(&world);
    world.fake.script(|script| script.refusal = Some("the quota is used up".to_owned()));
    world.pass(DAY + 2 * HOUR).await;
    let now = names(&world);
    assert!(before.iter().all(|name| now.contains(name)), "{now:?}");
    assert_eq!(world.fake.machines().len(), 3);
    // The provider's own words stand in the group's status for as long as it fails.
    let failing = condition(&world, "web", "CreateFailing").expect("it fails");
    assert_eq!((&*failing.status, &*failing.reason), ("True", "CannotBeMade"));
    assert!(failing.message.contains("the quota is used up"), "{}", failing.message);
    let since = failing.last_transition_time.0;
    assert!(world.now().duration_since(since).as_hours() >= 1, "it has failed all the time");
    let tries = world.fake.orders().iter().filter(|one| one.what == What::Create).count();
    assert!(tries < 70, "{tries} orders in two hours");
    world.fake.script(|script| script.refusal = None);
    draining(&world, 10 * MINUTE).await;
    assert_eq!(condition(&world, "web", "CreateFailing"), None);
    nothing_is_wrong(&world);
}

// case: group 36, K11
#[tokio::test(start_paused = true)]
async fn a_replacement_that_never_runs_is_taken_away_and_the_old_one_stays() {
    let world = world(2, json!({"expiry": {"eligibleAge": "1d"}})).await;
    rule(&world, 3, 2);
    let before = names(&world);
    world.fake.script(|script| script.dead_on_arrival = true);
    world.pass(DAY + HOUR).await;
    let now = names(&world);
    assert!(before.iter().all(|name| now.contains(name)), "{now:?}");
    assert!(before.iter().all(|name| status(&world, name).phase == Some(Phase::Ready)));
    assert!(!world.events("MachineFailed").await.is_empty());
    nothing_is_wrong(&world);
}

// case: group 44
#[tokio::test(start_paused = true)]
async fn a_long_drain_in_one_group_delays_no_other() {
    let world = world(2, json!({"expiry": {"eligibleAge": "1d"}, "drainTimeout": "3d"})).await;
    world.pass(HOUR).await;
    world.make_group("other", 2, json!({"expiry": {"eligibleAge": "1d"}})).await;
    ready(&world, "other", 2).await;
    let due = world.now() + jiff::SignedDuration::from_hours(24);
    draining(&world, DAY).await;
    world
        .until(2 * DAY, "a drain in the other group", |book| {
            (!book.in_phase("other", Phase::Draining).is_empty()).then_some(())
        })
        .await;
    let late = world.now().duration_since(due).as_secs();
    assert!(late.abs() < 120, "{late} s late");
    nothing_is_wrong(&world);
}

// case: group 45
#[tokio::test(start_paused = true)]
async fn a_slow_provider_in_one_group_delays_no_other() {
    let world = World::new(Setting::default()).await;
    let slow = json!({"template": {"config": {"latencyMs": 3_600_000}}});
    world.make_group("slow", 50, slow).await;
    world.pass(MINUTE).await;
    let begun = world.now();
    world.make_group("web", 3, json!({})).await;
    ready(&world, "web", 3).await;
    assert!(
        world.now().duration_since(begun).as_secs() < 95,
        "two boots and a trial: {}",
        world.now()
    );
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_provider_deletes_nothing() {
    let world = world(3, json!({"expiry": {"eligibleAge": "1d", "forcedAge": "2d"}})).await;
    rule(&world, 5, 0);
    let before = names(&world);
    world.fake.script(|script| script.outage = true);
    world.pass(5 * DAY).await;
    let now = names(&world);
    assert!(before.iter().all(|name| now.contains(name)), "{now:?}");
    world.fake.script(|script| script.outage = false);
    assert_eq!(world.fake.machines().len(), 3);
    world
        .until(2 * HOUR, "all are new", |book| {
            let all = book.of("web");
            let old = |one: &&sojourn_api::group::Machine| {
                before.contains(&kube::ResourceExt::name_any(*one))
            };
            (all.len() == 3 && !all.iter().any(old)).then_some(())
        })
        .await;
    nothing_is_wrong(&world);
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
    let world = world_with(Setting { script, ..Setting::default() }, 3, spec).await;
    rule(&world, 4, 2);
    for _ in 0..6 {
        world.fake.script(|script| script.lost_answers = 2);
        world.pass(20 * MINUTE).await;
    }
    ready(&world, "web", 3).await;
    assert_eq!(world.fake.machines(), {
        let mut keys: Vec<_> = names(&world).iter().map(|name| key(name)).collect();
        keys.sort_unstable();
        keys
    });
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn an_ill_machine_is_watched_anew_after_a_restart() {
    let world = world(3, json!({"unhealthyAfter": "3m"})).await;
    let name = names(&world)[0].clone();
    world.fake.set_ready(&key(&name), false);
    world.pass(2 * MINUTE).await;
    world.operator.kill();
    world.pass(2 * MINUTE).await;
    assert!(status(&world, &name).rotation.is_none(), "nobody watched for three minutes");
    let (drained, drain) = draining(&world, 5 * MINUTE).await;
    assert_eq!((drained, drain.reason), (name, Some(Reason::Unhealthy)));
    nothing_is_wrong(&world);
}
