//! What hibernates and resumes a cluster by itself: its timer, and its schedules.

use jiff::Timestamp;

use crate::cluster::intent::{OnDrift, PoolMembership};
use crate::cluster::machine::MachineState;
use crate::cluster::observed::ObservedSync;
use crate::cluster::operation::Trigger;
use crate::cluster::power::{Conditions, HibernatingReason, PowerState, Wanted};
use crate::cluster::reason::Reason;
use crate::cluster::test_cluster::{HOUR, MINUTE, SECOND, TestCluster, at, says, schedule, start};
use crate::known::Known;
use crate::term::Term;

pub(super) fn not_synced() -> Known<ObservedSync> {
    Known::Is(ObservedSync { first_success_at: None })
}

pub(super) fn synced(at: Timestamp) -> Known<ObservedSync> {
    Known::Is(ObservedSync { first_success_at: Some(at) })
}

/// It runs; it was installed so long ago, and runs since then.
fn installed(ago: jiff::SignedDuration) -> TestCluster {
    let mut cluster = TestCluster::running();
    cluster.state.installed_at = Some(cluster.now - ago);
    cluster.state.running_since = Some(cluster.now - ago);
    cluster
}

// case: cluster A02
#[test]
fn a_timer_does_nothing_where_nobody_can_stop_machines() {
    let mut cluster = installed(HOUR * 10);
    cluster.intent.infra_disabled = true;
    cluster.intent.hibernate_after = Some(HOUR);
    cluster.advance(HOUR);
    assert!(cluster.writes.is_empty());
    let conditions = cluster.state.conditions.unwrap();
    assert_eq!(conditions.hibernating, HibernatingReason::Unsupported);
}

// case: cluster A03
#[test]
fn a_timer_without_anything_to_count_from_waits_and_says_so() {
    let mut cluster = installed(HOUR * 10);
    cluster.state.installed_at = None;
    cluster.state.running_since = None;
    cluster.intent.hibernate_after = Some(HOUR * 8);
    let decision = cluster.settle();
    assert!(says(&decision, |why| *why == Reason::NoTimerBase));
    cluster.advance(HOUR * 100);
    assert!(cluster.writes.is_empty());
    cluster.state.running_since = Some(cluster.now);
    cluster.advance(HOUR * 8 - SECOND);
    assert!(cluster.writes.is_empty(), "it counts from when it runs");
    cluster.advance(SECOND);
    assert_eq!(cluster.writes.len(), 1);
}

// case: cluster A04, A05
#[test]
fn a_timer_counts_from_the_latest_of_what_is_known() {
    for (hours, ready_hours_ago, left) in [(12, 10, 2), (20, 6, 14)] {
        let mut cluster = installed(HOUR * 10);
        cluster.state.running_since = Some(cluster.now - HOUR * ready_hours_ago);
        cluster.edit(|intent| intent.hibernate_after = Some(HOUR * hours));
        cluster.settle();
        let due = cluster.now + HOUR * left;
        assert_eq!(cluster.state.upcoming.as_ref().unwrap().at, due);
        cluster.advance(HOUR * left - SECOND);
        assert!(cluster.writes.is_empty());
        cluster.advance(SECOND);
        assert_eq!(cluster.writes, [(due, Wanted::Hibernating, Trigger::Timer)]);
        cluster.advance(MINUTE * 2);
        assert_eq!(cluster.power(), PowerState::Hibernating);
    }
}

// case: cluster A07, A08
#[test]
fn a_timer_waits_for_the_first_sync_for_ten_minutes_at_most() {
    let mut cluster = installed(MINUTE * 8);
    cluster.sync = not_synced();
    cluster.intent.hibernate_after = Some(MINUTE * 8);
    cluster.settle();
    assert!(cluster.writes.is_empty());
    let upcoming = cluster.state.upcoming.clone().unwrap();
    assert_eq!(upcoming.at, cluster.now + MINUTE * 2);
    cluster.advance(MINUTE * 2);
    assert_eq!(cluster.writes.len(), 1);
    let mut cluster = installed(HOUR * 10);
    cluster.sync = not_synced();
    cluster.intent.hibernate_after = Some(HOUR * 8);
    cluster.advance(MINUTE * 2);
    assert_eq!(cluster.power(), PowerState::Hibernating);
}

// case: cluster A09
#[test]
fn a_cluster_that_nobody_has_claimed_is_its_pool_s() {
    let mut cluster = installed(HOUR * 10);
    cluster.intent.hibernate_after = Some(HOUR);
    cluster.intent.pool = Some(PoolMembership { claimed_at: None });
    cluster.advance(HOUR * 100);
    assert!(cluster.writes.is_empty());
}

// case: cluster A10
#[test]
fn a_timer_counts_from_the_claim() {
    let mut cluster = installed(HOUR * 100);
    cluster.intent.hibernate_after = Some(HOUR * 5);
    let claimed_at = Some(cluster.now - HOUR);
    cluster.intent.pool = Some(PoolMembership { claimed_at });
    cluster.advance(HOUR * 4 - SECOND);
    assert!(cluster.writes.is_empty());
    cluster.advance(SECOND);
    assert_eq!(cluster.writes.len(), 1);
}

#[test]
fn each_resume_begins_anew() {
    let mut cluster = installed(HOUR);
    cluster.intent.hibernate_after = Some(HOUR * 2);
    cluster.advance(HOUR + MINUTE * 2);
    assert_eq!(cluster.power(), PowerState::Hibernating);
    cluster.want(Wanted::Running);
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.power(), PowerState::Running);
    let since = cluster.state.running_since.unwrap();
    cluster.advance(HOUR * 3);
    assert_eq!(cluster.writes[1].0, since + HOUR * 2);
}

#[test]
fn a_resume_that_never_ends_does_not_keep_it_awake_for_ever() {
    let mut cluster = TestCluster::hibernating();
    cluster.intent.hibernate_after = Some(MINUTE * 10);
    cluster.vm("a").deaf = true;
    cluster.want(Wanted::Running);
    cluster.settle();
    let deadline = cluster.state.operation.as_ref().unwrap().deadline.unwrap();
    cluster.advance(MINUTE * 40);
    assert_eq!(cluster.writes, [(deadline, Wanted::Hibernating, Trigger::Timer)]);
    assert_eq!(cluster.power(), PowerState::Hibernating);
}

#[test]
fn a_resume_that_may_take_for_ever_does_not_keep_it_awake_for_ever() {
    let mut cluster = TestCluster::hibernating();
    cluster.intent.hibernate_after = Some(MINUTE * 10);
    cluster.intent.timeouts.resume = Term::Never;
    cluster.vm("a").deaf = true;
    cluster.want(Wanted::Running);
    cluster.settle();
    let begun_at = cluster.state.operation.as_ref().unwrap().started_at;
    cluster.advance(MINUTE * 20);
    assert_eq!(cluster.writes, [(begun_at + MINUTE * 10, Wanted::Hibernating, Trigger::Timer)]);
    assert_eq!(cluster.power(), PowerState::Hibernating);
}

#[test]
fn the_timer_runs_on_while_a_machine_that_somebody_stopped_is_only_reported() {
    let mut cluster = installed(HOUR);
    let since = cluster.state.running_since.unwrap();
    cluster.edit(|intent| {
        intent.hibernate_after = Some(HOUR * 3);
        intent.on_drift = OnDrift::Report;
    });
    cluster.set("a", MachineState::Stopped);
    cluster.advance(MINUTE * 15);
    assert_eq!(cluster.power(), PowerState::WaitingForMachines);
    let upcoming = cluster.state.upcoming.clone().unwrap();
    assert_eq!(
        (upcoming.at, upcoming.why),
        (since + HOUR * 3, Reason::RanFor { span: HOUR * 3, since })
    );
    cluster.advance(HOUR * 2);
    assert_eq!(cluster.writes, [(since + HOUR * 3, Wanted::Hibernating, Trigger::Timer)]);
    assert_eq!(cluster.power(), PowerState::Hibernating);
}

#[test]
fn a_machine_that_is_put_back_by_somebody_else_does_not_begin_the_timer_anew() {
    let mut cluster = installed(HOUR);
    let since = cluster.state.running_since;
    cluster.edit(|intent| intent.on_drift = OnDrift::Report);
    cluster.set("a", MachineState::Stopped);
    cluster.advance(MINUTE * 15);
    assert_eq!(cluster.power(), PowerState::WaitingForMachines);
    cluster.set("a", MachineState::Running);
    cluster.advance(MINUTE * 15);
    assert_eq!(cluster.power(), PowerState::Running);
    assert_eq!(cluster.state.running_since, since);
    assert!(cluster.starts.is_empty());
    // One that we put back ourselves was resumed by us.
    cluster.edit(|intent| intent.on_drift = OnDrift::Enforce);
    cluster.set("a", MachineState::Stopped);
    cluster.advance(MINUTE * 15);
    assert_eq!(cluster.starts.len(), 1);
    assert!(cluster.state.running_since > since);
}

#[test]
fn a_schedule_writes_the_power_state() {
    let mut cluster = TestCluster::running_with(|cluster| {
        cluster.intent.schedules = vec![schedule(Some("0 20 * * *"), Some("0 8 * * *"))];
    });
    cluster.settle();
    assert_eq!(cluster.state.upcoming.as_ref().unwrap().at, at(HOUR * 20));
    cluster.advance(HOUR * 34);
    assert_eq!(
        cluster.writes,
        [
            (at(HOUR * 20), Wanted::Hibernating, Trigger::Schedule),
            (at(HOUR * 32), Wanted::Running, Trigger::Schedule),
        ]
    );
    assert_eq!(cluster.power(), PowerState::Running);
}

#[test]
fn after_a_downtime_only_the_latest_firing_counts() {
    let mut cluster = TestCluster::running_with(|cluster| {
        cluster.intent.schedules = vec![schedule(Some("0 20 * * *"), Some("0 8 * * *"))];
    });
    cluster.settle();
    // Five days later, in the afternoon.
    cluster.sleep_until(at(HOUR * (5 * 24 + 15)));
    cluster.settle();
    assert!(cluster.writes.is_empty(), "the last thing it said was to run");
    cluster.sleep_until(at(HOUR * (6 * 24 + 22)));
    cluster.settle();
    assert_eq!(cluster.writes.len(), 1);
    assert_eq!(cluster.writes[0].1, Wanted::Hibernating);
}

#[test]
fn what_somebody_wrote_holds_until_the_next_firing() {
    let mut cluster = TestCluster::running_with(|cluster| {
        cluster.intent.schedules = vec![schedule(Some("0 20 * * *"), Some("0 8 * * *"))];
    });
    cluster.advance(HOUR * 21);
    assert_eq!(cluster.power(), PowerState::Hibernating);
    cluster.want(Wanted::Running);
    cluster.advance(HOUR * 10);
    assert_eq!(cluster.power(), PowerState::Running);
    assert_eq!(cluster.writes.len(), 1);
    cluster.advance(HOUR * 15);
    assert_eq!(cluster.writes.len(), 2, "the next evening");
}

#[test]
fn what_somebody_wrote_after_a_missed_firing_holds() {
    // It was written after the firing, before it, or nobody knows when.
    for (written_at, power) in [
        (Some(at(HOUR * 21)), PowerState::Running),
        (Some(at(HOUR * 7)), PowerState::Hibernating),
        (None, PowerState::Running),
    ] {
        let mut cluster = TestCluster::hibernating_with(|cluster| {
            cluster.intent.schedules = vec![schedule(Some("0 20 * * *"), None)];
        });
        cluster.want(Wanted::Running);
        cluster.intent.wanted_written_at = written_at;
        cluster.sleep_until(at(HOUR * 22));
        cluster.advance(MINUTE * 5);
        assert_eq!(cluster.power(), power, "{written_at:?}");
    }
}

#[test]
fn a_schedule_that_is_written_anew_says_nothing_of_the_past() {
    let mut cluster = TestCluster::running();
    cluster.advance(HOUR * 13);
    cluster.edit(|intent| intent.schedules = vec![schedule(Some("0 12 * * *"), None)]);
    cluster.advance(HOUR);
    assert!(cluster.writes.is_empty());
    cluster.edit(|intent| intent.schedules = vec![schedule(Some("30 12 * * *"), None)]);
    cluster.advance(HOUR * 20);
    assert!(cluster.writes.is_empty());
    cluster.advance(HOUR * 4);
    assert_eq!(cluster.writes.len(), 1);
}

#[test]
fn a_cluster_that_is_kept_hibernates_when_it_is_kept_no_longer() {
    let mut cluster = TestCluster::running_with(|cluster| {
        cluster.intent.schedules = vec![schedule(Some("0 20 * * *"), None)];
    });
    cluster.advance(HOUR * 19);
    let until = at(HOUR * 23);
    cluster.intent.keep_until = Some(until);
    cluster.settle();
    assert_eq!(cluster.state.upcoming.as_ref().unwrap().at, until);
    cluster.advance(HOUR * 5);
    assert_eq!(cluster.writes, [(until, Wanted::Hibernating, Trigger::Schedule)]);
    // Whoever writes the power state means it.
    cluster.intent.keep_until = Some(at(HOUR * 40));
    cluster.want(Wanted::Running);
    cluster.advance(MINUTE * 10);
    cluster.want(Wanted::Hibernating);
    cluster.advance(MINUTE * 10);
    assert_eq!(cluster.state.conditions, Some(Conditions::HIBERNATING));
}

#[test]
fn our_write_is_on_record_first_and_void_on_another_spec() {
    let mut cluster = installed(HOUR * 10);
    cluster.intent.hibernate_after = Some(HOUR);
    let decision = cluster.decision();
    assert!(decision.effects.is_empty() && decision.next.power_write.is_some());
    cluster.store(&decision);
    // It is killed; meanwhile the owner changes their mind.
    cluster.edit(|intent| intent.hibernate_after = None);
    cluster.advance(HOUR);
    assert!(cluster.writes.is_empty() && cluster.state.power_write.is_none());
}

#[test]
fn a_cluster_at_rest_is_not_written() {
    let mut cluster = TestCluster::new(&MachineState::Running);
    cluster.intent.schedules = vec![schedule(None, Some("0 8 * * *"))];
    cluster.advance(HOUR);
    let writes = cluster.state_writes;
    // Neither drift lists nor probes leave a trace.
    cluster.advance(HOUR * 5);
    assert_eq!(cluster.state_writes, writes);
    assert!(cluster.recent.listed_at > Some(start() + HOUR * 5));
    assert!(cluster.recent.probed_at > Some(start() + HOUR * 3));
}
