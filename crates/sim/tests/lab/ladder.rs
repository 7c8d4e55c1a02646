//! From use to being stopped and deleted, with whatever may come in between.

use std::time::Duration;

use serde_json::json;
use sojourn_api::lab::status::{Stage, StopReason};
use sojourn_api::name::lab::condition;
use sojourn_core::activity::Source;
use sojourn_sim::kubelet::Luck;
use sojourn_sim::outside::Mood;
use sojourn_sim::people::Design;
use sojourn_sim::truth::Policy;
use sojourn_sim::world::{CONFIG, Setting};

use crate::stage::{
    DAY, HOUR, MINUTE, TICK, alerts, condition, hours, kept, key, nothing_is_wrong, stage_of,
    status, template, told, told_at, with, world, world_with_one,
};

#[tokio::test(start_paused = true)]
async fn three_warnings_a_day_apart_and_then_it_is_stopped() {
    let world = world_with_one(&kept(), "").await;
    let begin = world.now();
    let stopped = world.until(DAY * 5, &key("one"), |one| !one.spec.running).await;
    assert_eq!(status(&stopped).stop_reason, Some(StopReason::Inactivity));
    world.pass(MINUTE).await;
    let kinds = ["inactivity-warning", "inactivity-warning", "inactivity-warning", "stopped"];
    assert_eq!(told(&world), kinds);
    assert_eq!(told_at(&world, begin), [24, 48, 72, 97], "each is known a tick late at most");
    nothing_is_wrong(&world);
}

/// Somebody was warned five minutes ago; whatever makes the controller look again gives them the
/// whole interval all the same.
#[tokio::test(start_paused = true)]
async fn warned_five_minutes_ago_then_restart_template_edit_and_resync_gives_the_full_interval() {
    let world = world_with_one(&kept(), "inactiveTerminationMaxNumberOfAlerts: 1\n").await;
    world.until(DAY * 2, &key("one"), |one| stage_of(one) == Stage::Grace).await;
    let warned_at = world.received()[0].at;
    world.pass(MINUTE * 5).await;

    world.operator.kill();
    world.pass(MINUTE).await;
    assert!(world.operator.is_up());
    let shorter = Policy { stop_after: hours(1), ..kept().policy };
    world.edit_template(&template(), &Design { policy: shorter, environments: 1 }).await;
    let again = json!({"metadata": {"labels": {"looked": "at"}}});
    world.change(&key("one"), &again).await;
    world.pass(HOUR).await;
    world.faults.cut_watches();

    let stopped = world.until(DAY * 2, &key("one"), |one| !one.spec.running).await;
    let given = world.now().duration_since(warned_at);
    assert!(given.as_hours() >= 24, "only {given:#} were given");
    assert!(given.as_secs() < 25 * 3600, "{given:#} is more than was promised");
    assert_eq!(status(&stopped).stop_reason, Some(StopReason::Inactivity));
    world.pass(MINUTE).await;
    assert_eq!(told(&world).len(), 2, "one warning, and that it was stopped");
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn normal_watches_are_opened_anew_and_nothing_changes() {
    let setting = Setting { long_watches: false, ..Setting::default() };
    let world = with(&kept(), setting).await;
    world.lend(&key("one"), &template(), json!({})).await;
    let begin = world.now();
    world.until(DAY * 5, &key("one"), |one| !one.spec.running).await;
    assert_eq!(told_at(&world, begin)[..3], [24, 48, 72]);
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn use_between_two_warnings_begins_the_ladder_anew() {
    let world = world_with_one(&kept(), "").await;
    world.until(DAY * 3, &key("one"), |one| alerts(one) == 2).await;
    world.use_it(&key("one"), Source::Nginx);
    let used_at = world.now();
    world.until(TICK, &key("one"), |one| stage_of(one) == Stage::Active && alerts(one) == 0).await;
    let warned = world.until(DAY * 2, &key("one"), |one| alerts(one) == 1).await;
    assert!(world.now().duration_since(used_at).as_hours() >= 24);
    assert!(warned.spec.running);
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn the_idle_clock_stands_while_a_source_is_blind() {
    let world = world_with_one(&kept(), "inactiveTerminationMaxNumberOfAlerts: 0\n").await;
    world.pass(HOUR * 10 - Duration::from_secs(5)).await;
    let blind_from = world.now();
    world.set_ingress_sees(false);
    world.pass(DAY * 3).await;
    let blind = world.instance(&key("one")).await.expect("nothing was taken");
    assert!(blind.spec.running);
    let seen = condition(&blind, condition::ACTIVITY_KNOWN);
    assert_eq!(seen, Some(("SourceBlind".to_owned(), false)));
    world.set_ingress_sees(true);
    world.until(DAY, &key("one"), |one| !one.spec.running).await;
    assert!(world.now().duration_since(blind_from).as_hours() >= 72 + 14);
    nothing_is_wrong(&world);
}

// case: lab I1
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_not_selected_is_left_alone() {
    let options = "namespaceSelector: {matchLabels: {lab: ours}}\n\
                   inactiveTerminationMaxNumberOfAlerts: 0\n";
    let world = world(&kept(), options).await;
    world.lend(&key("one"), &template(), json!({})).await;
    world.pass(DAY * 3).await;
    let left = world.instance(&key("one")).await.expect("it is there");
    assert_eq!((left.status, left.metadata.finalizers), (None, None), "nobody touched it");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}});
    world.merge(&namespace, &json!({"metadata": {"labels": {"lab": "ours"}}})).await;
    world.until(DAY * 2, &key("one"), |one| !one.spec.running).await;
    nothing_is_wrong(&world);
}

// case: lab I27
#[tokio::test(start_paused = true)]
async fn a_deleted_template_is_told_and_healed_when_it_returns() {
    let world = world_with_one(&kept(), "inactiveTerminationMaxNumberOfAlerts: 0\n").await;
    world.remove_template(&template()).await;
    let missing = |expected: bool| {
        move |one: &sojourn_api::lab::Instance| {
            let told = condition(one, condition::ACCEPTED);
            (told == Some(("TemplateMissing".to_owned(), false))) == expected
        }
    };
    world.until(MINUTE, &key("one"), missing(true)).await;
    assert_eq!(world.events("TemplateMissing").await, 1);
    world.pass(DAY * 3).await;
    assert!(world.instance(&key("one")).await.expect("kept").spec.running, "nothing is decided");
    world.make_template(&template(), &kept()).await;
    world.until(MINUTE, &key("one"), missing(false)).await;
    world.until(DAY, &key("one"), |one| !one.spec.running).await;
    nothing_is_wrong(&world);
}

// case: lab I28
#[tokio::test(start_paused = true)]
async fn without_a_tenant_nobody_can_be_told_so_it_waits_and_says_so() {
    let world = world_with_one(&kept(), "").await;
    world.remove_tenant().await;
    world.pass(DAY * 10).await;
    let held = world.instance(&key("one")).await.expect("it is there");
    assert!(held.spec.running);
    assert_eq!(condition(&held, condition::ACCEPTED), Some(("TenantMissing".to_owned(), false)));
    assert_eq!(
        condition(&held, condition::UNDELIVERABLE),
        Some(("NobodyAccepts".to_owned(), true))
    );
    assert_eq!(world.received().len(), 0);
    world.make_tenant().await;
    world.until(DAY * 5, &key("one"), |one| !one.spec.running).await;
    world.pass(MINUTE).await;
    assert_eq!(told(&world).len(), 3 + 1, "every warning, and that it was stopped");
    nothing_is_wrong(&world);
}

// case: lab I28
#[tokio::test(start_paused = true)]
async fn without_a_tenant_the_policy_may_say_that_time_runs_on() {
    let world = world_with_one(&kept(), "onUndeliverable: ProceedAfter(12h)\n").await;
    let begin = world.now();
    world.remove_tenant().await;
    let stopped = world.until(DAY * 10, &key("one"), |one| !one.spec.running).await;
    assert_eq!(status(&stopped).stop_reason, Some(StopReason::Inactivity));
    let given = world.now().duration_since(begin);
    assert!(given.as_hours() >= 24 + 3 * 24, "only {given:#} were given");
    assert_eq!(world.received().len(), 0);
    nothing_is_wrong(&world);
}

#[tokio::test(start_paused = true)]
async fn pods_that_fail_and_are_replaced_are_no_use() {
    let world = world(&kept(), "inactiveTerminationMaxNumberOfAlerts: 0\n").await;
    world.kubelet.set_luck(Luck { pod_fails: 1000, ..Luck::default() });
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        world.lend(&key(name), &template(), json!({})).await;
    }
    world.pass(HOUR * 12).await;
    // What memory holds of replaced Pods is lost; the Pods themselves still tell.
    world.operator.kill();
    world.pass(HOUR * 13).await;
    for name in names {
        let one = world.instance(&key(name)).await.expect("it is there");
        assert!(!one.spec.running, "{name} looks used");
    }
    nothing_is_wrong(&world);
}

/// What nobody could ask about is not known to be unused, until it can be asked about.
#[tokio::test(start_paused = true)]
async fn nothing_is_stopped_while_the_metrics_server_is_away() {
    let world = world_with_one(&kept(), "inactiveTerminationMaxNumberOfAlerts: 0\n").await;
    world.pass(HOUR * 10).await;
    world.set_metrics_answer(false);
    world.pass(DAY * 3).await;
    let one = world.instance(&key("one")).await.expect("it is there");
    assert!(one.spec.running);
    let seen = condition(&one, condition::ACTIVITY_KNOWN);
    assert_eq!(seen, Some(("SourceBlind".to_owned(), false)));
    world.set_metrics_answer(true);
    world.until(TICK, &key("one"), |one| !one.spec.running).await;
    nothing_is_wrong(&world);
}

// case: lab I29
#[tokio::test(start_paused = true)]
async fn a_mail_server_that_is_down_holds_the_stop_unless_the_policy_says_otherwise() {
    for (options, stops) in [("", false), ("onUndeliverable: ProceedAfter(12h)\n", true)] {
        let world = world_with_one(&kept(), options).await;
        world.outside.set_mood(Mood::Down);
        world.pass(DAY * 8).await;
        let one = world.instance(&key("one")).await.expect("it is there");
        assert_eq!(!one.spec.running, stops, "{options}");
        assert_eq!(world.received().len(), 0);
        nothing_is_wrong(&world);
    }
}

/// The mail server refuses at once, and what came of it cannot be written down: there is nothing to
/// do but to wait.
#[tokio::test(start_paused = true)]
async fn a_mail_that_fails_is_not_sent_again_before_the_failure_is_on_record() {
    let world = world_with_one(&kept(), "").await;
    world.outside.set_mood(Mood::Down);
    world.until(DAY * 2, &key("one"), |one| stage_of(one) == Stage::Idle).await;
    world.faults.hold(http::Method::PATCH);
    tokio::time::timeout(HOUR, world.faults.until_held()).await.expect("a status is written");
    let refused = world.truth.lock().tally().refused_notices;
    // Somebody else was faster, and the operator has not heard of it.
    world.faults.deafen();
    world.change(&key("one"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    world.faults.let_go();
    world.pass(MINUTE).await;
    let again = world.truth.lock().tally().refused_notices - refused;
    assert!(again <= 1, "{again} attempts within a minute");
    world.faults.cut_watches();
    world.outside.set_mood(Mood::Works);
    world.until(DAY * 5, &key("one"), |one| !one.spec.running).await;
    nothing_is_wrong(&world);
}

// case: lab P11
#[tokio::test(start_paused = true)]
async fn an_opt_out_covers_what_is_stopped() {
    let policy = Policy { delete_after_stopped: hours(24), persistent: true, ..Policy::default() };
    let design = Design { policy, environments: 1 };
    let world = world_with_one(&design, "inactiveTerminationMaxNumberOfAlerts: 1\n").await;
    world.stop(&key("one")).await;
    world.opt_out("lab", [true, false]).await;
    world.pass(DAY * 10).await;
    assert!(world.instance(&key("one")).await.is_some());
    assert_eq!(told(&world).len(), 0);
    world.opt_out("lab", [false, false]).await;
    world.until_gone(DAY * 2, &key("one")).await;
    assert_eq!(told(&world), ["deletion-warning", "deleted"]);
    nothing_is_wrong(&world);
}

// case: lab P12
#[tokio::test(start_paused = true)]
async fn a_template_s_own_number_of_warnings_holds_for_deletion_too() {
    let policy = Policy {
        delete_after_stopped: hours(24),
        alerts: Some(2),
        persistent: true,
        ..Policy::default()
    };
    let world = world_with_one(&Design { policy, environments: 1 }, "").await;
    world.stop(&key("one")).await;
    world.until_gone(DAY * 5, &key("one")).await;
    assert_eq!(told(&world), ["deletion-warning", "deletion-warning", "deleted"]);
    nothing_is_wrong(&world);
}

// case: lab M1
#[tokio::test(start_paused = true)]
async fn broken_mail_settings_matter_only_where_somebody_is_to_be_told() {
    let off = "enableInactivityNotifications: false\nenableExpirationNotifications: false\n";
    for (options, stops) in [(off, true), ("", false)] {
        let setting = Setting { config: format!("{CONFIG}{options}"), ..Setting::default() };
        let world = with(&kept(), setting).await;
        world.outside.break_mail(Some("cannot read smtp-config.yaml"));
        world.operator.kill();
        world.pass(MINUTE).await;
        world.lend(&key("one"), &template(), json!({})).await;
        world.pass(DAY * 2).await;
        let one = world.instance(&key("one")).await.expect("it is there");
        assert_eq!(!one.spec.running, stops, "{options}");
        let accepted = condition(&one, condition::ACCEPTED).map(|(reason, _)| reason);
        let expected = if stops { "Valid" } else { "ConfigurationInvalid" };
        assert_eq!(accepted.as_deref(), Some(expected));
        nothing_is_wrong(&world);
    }
}
