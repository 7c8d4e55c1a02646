//! From use to being stopped and deleted, with whatever may come in between.

use std::time::Duration;

use serde_json::json;
use sojourn_api::lab::status::{Stage, StopReason};
use sojourn_api::name::lab::condition;
use sojourn_core::lab::source;
use sojourn_sim::kubelet::PodFailureRates;
use sojourn_sim::lab::drivers::MailMode;
use sojourn_sim::lab::invariants::Policy;
use sojourn_sim::lab::people::Design;
use sojourn_sim::lab::simulation::{CONFIG, Setting};

use crate::fixture::{
    DAY, HOUR, MINUTE, TICK, alerts, condition, hours, kept, key, simulation, simulation_with_one,
    stage_of, status, template, told, told_at, with,
};

#[tokio::test(start_paused = true)]
async fn three_warnings_a_day_apart_and_then_it_is_stopped() {
    let simulation = simulation_with_one(&kept(), "").await;
    let begin = simulation.now();
    let stopped = simulation.until(DAY * 5, &key("one"), |one| !one.spec.running).await;
    assert_eq!(status(&stopped).stop_reason, Some(StopReason::Inactivity));
    simulation.pass(MINUTE).await;
    let kinds = ["inactivity-warning", "inactivity-warning", "inactivity-warning", "stopped"];
    assert_eq!(told(&simulation), kinds);
    assert_eq!(told_at(&simulation, begin), [24, 48, 72, 97], "each is known a tick late at most");
    simulation.assert_invariants();
}

/// Somebody was warned five minutes ago; whatever makes the controller look again gives them the
/// whole interval all the same.
#[tokio::test(start_paused = true)]
async fn warned_five_minutes_ago_then_restart_template_edit_and_resync_gives_the_full_interval() {
    let simulation =
        simulation_with_one(&kept(), "inactiveTerminationMaxNumberOfAlerts: 1\n").await;
    simulation.until(DAY * 2, &key("one"), |one| stage_of(one) == Stage::Grace).await;
    let warned_at = simulation.received()[0].at;
    simulation.pass(MINUTE * 5).await;

    simulation.operator.kill();
    simulation.pass(MINUTE).await;
    assert!(simulation.operator.is_up());
    let shorter = Policy { stop_after: hours(1), ..kept().policy };
    simulation.edit_template(&template(), &Design { policy: shorter, environments: 1 }).await;
    let again = json!({"metadata": {"labels": {"looked": "at"}}});
    simulation.change(&key("one"), &again).await;
    simulation.pass(HOUR).await;
    simulation.faults.cut_watches();

    let stopped = simulation.until(DAY * 2, &key("one"), |one| !one.spec.running).await;
    let given = simulation.now().duration_since(warned_at);
    assert!(given.as_hours() >= 24, "only {given:#} were given");
    assert!(given.as_secs() < 25 * 3600, "{given:#} is more than was promised");
    assert_eq!(status(&stopped).stop_reason, Some(StopReason::Inactivity));
    simulation.pass(MINUTE).await;
    assert_eq!(told(&simulation).len(), 2, "one warning, and that it was stopped");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn normal_watches_are_opened_anew_and_nothing_changes() {
    let setting = Setting { long_watches: false, ..Setting::default() };
    let simulation = with(&kept(), setting).await;
    simulation.lend(&key("one"), &template(), json!({})).await;
    let begin = simulation.now();
    simulation.until(DAY * 5, &key("one"), |one| !one.spec.running).await;
    assert_eq!(told_at(&simulation, begin)[..3], [24, 48, 72]);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn use_between_two_warnings_begins_the_ladder_anew() {
    let simulation = simulation_with_one(&kept(), "").await;
    simulation.until(DAY * 3, &key("one"), |one| alerts(one) == 2).await;
    simulation.use_it(&key("one"), source::NGINX);
    let used_at = simulation.now();
    simulation
        .until(TICK, &key("one"), |one| stage_of(one) == Stage::Active && alerts(one) == 0)
        .await;
    let warned = simulation.until(DAY * 2, &key("one"), |one| alerts(one) == 1).await;
    assert!(simulation.now().duration_since(used_at).as_hours() >= 24);
    assert!(warned.spec.running);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn the_idle_clock_stands_while_a_source_is_blind() {
    let simulation =
        simulation_with_one(&kept(), "inactiveTerminationMaxNumberOfAlerts: 0\n").await;
    simulation.pass(HOUR * 10 - Duration::from_secs(5)).await;
    let blind_from = simulation.now();
    simulation.set_ingress_sees(false);
    simulation.pass(DAY * 3).await;
    let blind = simulation.instance(&key("one")).await.expect("nothing was taken");
    assert!(blind.spec.running);
    let seen = condition(&blind, condition::ACTIVITY_KNOWN);
    assert_eq!(seen, Some(("SourceBlind".to_owned(), false)));
    simulation.set_ingress_sees(true);
    simulation.until(DAY, &key("one"), |one| !one.spec.running).await;
    assert!(simulation.now().duration_since(blind_from).as_hours() >= 72 + 14);
    simulation.assert_invariants();
}

// case: lab I1
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_not_selected_is_left_alone() {
    let options = "namespaceSelector: {matchLabels: {lab: ours}}\n\
                   inactiveTerminationMaxNumberOfAlerts: 0\n";
    let simulation = simulation(&kept(), options).await;
    simulation.lend(&key("one"), &template(), json!({})).await;
    simulation.pass(DAY * 3).await;
    let left = simulation.instance(&key("one")).await.expect("it is there");
    assert_eq!((left.status, left.metadata.finalizers), (None, None), "nobody touched it");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}});
    simulation.merge(&namespace, &json!({"metadata": {"labels": {"lab": "ours"}}})).await;
    simulation.until(DAY * 2, &key("one"), |one| !one.spec.running).await;
    simulation.assert_invariants();
}

// case: lab I27
#[tokio::test(start_paused = true)]
async fn a_deleted_template_is_told_and_healed_when_it_returns() {
    let simulation =
        simulation_with_one(&kept(), "inactiveTerminationMaxNumberOfAlerts: 0\n").await;
    simulation.remove_template(&template()).await;
    let missing = |expected: bool| {
        move |one: &sojourn_api::lab::Instance| {
            let told = condition(one, condition::ACCEPTED);
            (told == Some(("TemplateMissing".to_owned(), false))) == expected
        }
    };
    simulation.until(MINUTE, &key("one"), missing(true)).await;
    assert_eq!(simulation.events("TemplateMissing").await.len(), 1);
    simulation.pass(DAY * 3).await;
    assert!(
        simulation.instance(&key("one")).await.expect("kept").spec.running,
        "nothing is decided"
    );
    simulation.make_template(&template(), &kept()).await;
    simulation.until(MINUTE, &key("one"), missing(false)).await;
    simulation.until(DAY, &key("one"), |one| !one.spec.running).await;
    simulation.assert_invariants();
}

// case: lab I28
#[tokio::test(start_paused = true)]
async fn without_a_tenant_nobody_can_be_told_so_it_waits_and_says_so() {
    let simulation = simulation_with_one(&kept(), "").await;
    simulation.remove_tenant().await;
    simulation.pass(DAY * 10).await;
    let held = simulation.instance(&key("one")).await.expect("it is there");
    assert!(held.spec.running);
    assert_eq!(condition(&held, condition::ACCEPTED), Some(("TenantMissing".to_owned(), false)));
    assert_eq!(
        condition(&held, condition::UNDELIVERABLE),
        Some(("NobodyAccepts".to_owned(), true))
    );
    assert_eq!(simulation.received().len(), 0);
    simulation.make_tenant().await;
    simulation.until(DAY * 5, &key("one"), |one| !one.spec.running).await;
    simulation.pass(MINUTE).await;
    assert_eq!(told(&simulation).len(), 3 + 1, "every warning, and that it was stopped");
    simulation.assert_invariants();
}

// case: lab I28
#[tokio::test(start_paused = true)]
async fn without_a_tenant_the_policy_may_say_that_time_runs_on() {
    let simulation = simulation_with_one(&kept(), "onUndeliverable: ProceedAfter(12h)\n").await;
    let begin = simulation.now();
    simulation.remove_tenant().await;
    let stopped = simulation.until(DAY * 10, &key("one"), |one| !one.spec.running).await;
    assert_eq!(status(&stopped).stop_reason, Some(StopReason::Inactivity));
    let given = simulation.now().duration_since(begin);
    assert!(given.as_hours() >= 24 + 3 * 24, "only {given:#} were given");
    assert_eq!(simulation.received().len(), 0);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn pods_that_fail_and_are_replaced_are_no_use() {
    let simulation = simulation(&kept(), "inactiveTerminationMaxNumberOfAlerts: 0\n").await;
    simulation
        .kubelet
        .set_pod_failure_rates(PodFailureRates { pod_fails: 1000, ..PodFailureRates::default() });
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        simulation.lend(&key(name), &template(), json!({})).await;
    }
    simulation.pass(HOUR * 12).await;
    // What memory holds of replaced Pods is lost; the Pods themselves still tell.
    simulation.operator.kill();
    simulation.pass(HOUR * 13).await;
    for name in names {
        let one = simulation.instance(&key(name)).await.expect("it is there");
        assert!(!one.spec.running, "{name} looks used");
    }
    simulation.assert_invariants();
}

/// What nobody could ask about is not known to be unused, until it can be asked about.
#[tokio::test(start_paused = true)]
async fn nothing_is_stopped_while_the_metrics_server_is_away() {
    let simulation =
        simulation_with_one(&kept(), "inactiveTerminationMaxNumberOfAlerts: 0\n").await;
    simulation.pass(HOUR * 10).await;
    simulation.set_metrics_answer(false);
    simulation.pass(DAY * 3).await;
    let one = simulation.instance(&key("one")).await.expect("it is there");
    assert!(one.spec.running);
    let seen = condition(&one, condition::ACTIVITY_KNOWN);
    assert_eq!(seen, Some(("SourceBlind".to_owned(), false)));
    simulation.set_metrics_answer(true);
    simulation.until(TICK, &key("one"), |one| !one.spec.running).await;
    simulation.assert_invariants();
}

// case: lab I29
#[tokio::test(start_paused = true)]
async fn a_mail_server_that_is_down_holds_the_stop_unless_the_policy_says_otherwise() {
    for (options, stops) in [("", false), ("onUndeliverable: ProceedAfter(12h)\n", true)] {
        let simulation = simulation_with_one(&kept(), options).await;
        simulation.drivers.set_mail_mode(MailMode::Down);
        simulation.pass(DAY * 8).await;
        let one = simulation.instance(&key("one")).await.expect("it is there");
        assert_eq!(!one.spec.running, stops, "{options}");
        assert_eq!(simulation.received().len(), 0);
        simulation.assert_invariants();
    }
}

/// The mail server refuses at once, and what came of it cannot be written down: there is nothing to
/// do but to wait.
#[tokio::test(start_paused = true)]
async fn a_mail_that_fails_is_not_sent_again_before_the_failure_is_on_record() {
    let simulation = simulation_with_one(&kept(), "").await;
    simulation.drivers.set_mail_mode(MailMode::Down);
    simulation.until(DAY * 2, &key("one"), |one| stage_of(one) == Stage::Idle).await;
    simulation.faults.hold(http::Method::PATCH);
    tokio::time::timeout(HOUR, simulation.faults.until_held()).await.expect("a status is written");
    let refused = simulation.checker.lock().counts().refused_notices;
    // Somebody else was faster, and the operator has not heard of it.
    simulation.faults.silence_watches();
    simulation.change(&key("one"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    simulation.faults.release();
    simulation.pass(MINUTE).await;
    let again = simulation.checker.lock().counts().refused_notices - refused;
    assert!(again <= 1, "{again} attempts within a minute");
    simulation.faults.cut_watches();
    simulation.drivers.set_mail_mode(MailMode::Works);
    simulation.until(DAY * 5, &key("one"), |one| !one.spec.running).await;
    simulation.assert_invariants();
}

// case: lab P11
#[tokio::test(start_paused = true)]
async fn an_opt_out_covers_what_is_stopped() {
    let policy = Policy { delete_after_stopped: hours(24), persistent: true, ..Policy::default() };
    let design = Design { policy, environments: 1 };
    let simulation =
        simulation_with_one(&design, "inactiveTerminationMaxNumberOfAlerts: 1\n").await;
    simulation.stop(&key("one")).await;
    simulation.opt_out("lab", [true, false]).await;
    simulation.pass(DAY * 10).await;
    assert!(simulation.instance(&key("one")).await.is_some());
    assert_eq!(told(&simulation).len(), 0);
    simulation.opt_out("lab", [false, false]).await;
    simulation.until_gone(DAY * 2, &key("one")).await;
    assert_eq!(told(&simulation), ["deletion-warning", "deleted"]);
    simulation.assert_invariants();
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
    let simulation = simulation_with_one(&Design { policy, environments: 1 }, "").await;
    simulation.stop(&key("one")).await;
    simulation.until_gone(DAY * 5, &key("one")).await;
    assert_eq!(told(&simulation), ["deletion-warning", "deletion-warning", "deleted"]);
    simulation.assert_invariants();
}

// case: lab M1
#[tokio::test(start_paused = true)]
async fn broken_mail_settings_matter_only_where_somebody_is_to_be_told() {
    let off = "enableInactivityNotifications: false\nenableExpirationNotifications: false\n";
    for (options, stops) in [(off, true), ("", false)] {
        let setting = Setting { config: format!("{CONFIG}{options}"), ..Setting::default() };
        let simulation = with(&kept(), setting).await;
        simulation.drivers.break_mail(Some("cannot read smtp-config.yaml"));
        simulation.operator.kill();
        simulation.pass(MINUTE).await;
        simulation.lend(&key("one"), &template(), json!({})).await;
        simulation.pass(DAY * 2).await;
        let one = simulation.instance(&key("one")).await.expect("it is there");
        assert_eq!(!one.spec.running, stops, "{options}");
        let accepted = condition(&one, condition::ACCEPTED).map(|(reason, _)| reason);
        let expected = if stops { "Valid" } else { "ConfigurationInvalid" };
        assert_eq!(accepted.as_deref(), Some(expected));
        simulation.assert_invariants();
    }
}
