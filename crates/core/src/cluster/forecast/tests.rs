use super::*;
use crate::cluster::intent::OnDrift;
use crate::cluster::machine::MachineState;
use crate::cluster::test_cluster::{HOUR, MINUTE, TestCluster, at, schedule};

fn foreseen(cluster: &TestCluster, steps: usize) -> Vec<(Action, Timestamp)> {
    let TestCluster { state, sync, intent, settings, now, .. } = cluster;
    let upcoming = forecast(state.clone(), *sync, intent, settings, *now, steps);
    upcoming.into_iter().map(|next| (next.action, next.at)).collect()
}

#[test]
fn what_is_foreseen_is_what_happens() {
    let mut cluster = TestCluster::running_with(|cluster| {
        cluster.intent.has_contacts = true;
        cluster.intent.schedules = vec![schedule(Some("0 20 * * *"), Some("0 8 * * *"))];
    });
    cluster.settle();
    let foreseen = foreseen(&cluster, 4);
    assert_eq!(
        foreseen,
        [
            (Action::Announce, at(HOUR * 20 - MINUTE * 16)),
            (Action::Hibernate, at(HOUR * 20)),
            (Action::Resume, at(HOUR * 32)),
            (Action::Announce, at(HOUR * 44 - MINUTE * 16)),
        ]
    );
    cluster.advance(HOUR * 46);
    let written: Vec<_> = cluster.writes.iter().map(|(at, ..)| *at).collect();
    assert_eq!(written, [at(HOUR * 20), at(HOUR * 32), at(HOUR * 44)]);
    assert_eq!(cluster.told[0].0, foreseen[0].1);
}

#[test]
fn a_timer_is_foreseen_once() {
    let mut cluster = TestCluster::running();
    cluster.edit(|intent| intent.hibernate_after = Some(HOUR * 8));
    cluster.settle();
    let due = cluster.state.running_since.unwrap() + HOUR * 8;
    assert_eq!(foreseen(&cluster, 3), [(Action::Hibernate, due)]);
}

#[test]
fn a_timer_is_foreseen_while_somebody_else_s_move_is_reported() {
    let mut cluster = TestCluster::running();
    cluster.edit(|intent| {
        intent.on_drift = OnDrift::Report;
        intent.hibernate_after = Some(HOUR * 24 * 30);
    });
    cluster.set("a", MachineState::Stopped);
    cluster.advance(MINUTE * 15);
    let due = cluster.state.running_since.unwrap() + HOUR * 24 * 30;
    assert_eq!(foreseen(&cluster, 1), [(Action::Hibernate, due)]);
}

#[test]
fn what_is_foreseen_comes_for_the_reason_that_the_status_gives() {
    let mut cluster = TestCluster::running_with(|cluster| {
        cluster.intent.schedules = vec![schedule(Some("0 20 * * *"), Some("0 8 * * *"))];
    });
    cluster.settle();
    let TestCluster { state, sync, intent, settings, now, .. } = &cluster;
    let upcoming = forecast(state.clone(), *sync, intent, settings, *now, 3);
    let why: Vec<_> = upcoming.iter().map(|next| next.why.clone()).collect();
    let scheduled = |hours: i32, to| Reason::ScheduledFor { at: at(HOUR * hours), to };
    assert_eq!(
        why,
        [
            scheduled(20, Wanted::Hibernating),
            scheduled(32, Wanted::Running),
            scheduled(44, Wanted::Hibernating),
        ]
    );
    assert_eq!(cluster.state.upcoming.clone().unwrap().why, why[0]);

    let mut cluster = TestCluster::running();
    cluster.edit(|intent| intent.hibernate_after = Some(HOUR * 8));
    cluster.settle();
    let TestCluster { state, sync, intent, settings, now, .. } = &cluster;
    let upcoming = forecast(state.clone(), *sync, intent, settings, *now, 1);
    let since = cluster.state.running_since.unwrap();
    assert_eq!(upcoming[0].why, Reason::RanFor { span: HOUR * 8, since });
}

#[test]
fn the_first_thing_foreseen_is_what_the_status_says() {
    for has_contacts in [false, true] {
        let mut cluster = TestCluster::running();
        cluster.edit(|intent| {
            intent.has_contacts = has_contacts;
            intent.hibernate_after = Some(HOUR * 8);
        });
        cluster.settle();
        let upcoming = cluster.state.upcoming.clone().unwrap();
        let foreseen = foreseen(&cluster, 3);
        let hibernation = foreseen.iter().find(|(action, _)| *action == Action::Hibernate);
        assert_eq!(hibernation, Some(&(upcoming.action, upcoming.at)));
    }
}

#[test]
fn nothing_is_foreseen_where_nothing_comes_by_itself() {
    assert_eq!(foreseen(&TestCluster::running(), 5), []);
    assert_eq!(foreseen(&TestCluster::new(&MachineState::Stopped), 5), []);
    let mut cluster = TestCluster::running();
    cluster.intent.hibernate_after = Some(HOUR);
    cluster.intent.paused = true;
    assert_eq!(foreseen(&cluster, 5), []);
}
