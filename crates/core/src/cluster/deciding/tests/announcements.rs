//! Contacts are told of a hibernation, and what they were told holds.

use crate::cluster::power::{PowerState, Wanted};
use crate::cluster::test_cluster::{HOUR, MINUTE, SECOND, TestCluster, at, schedule};
use crate::notice::OnUndeliverable;

/// It runs, hibernates at eight in the evening, and has contacts.
fn announced() -> TestCluster {
    TestCluster::running_with(|cluster| {
        cluster.intent.has_contacts = true;
        cluster.intent.schedules = vec![schedule(Some("0 20 * * *"), None)];
    })
}

#[test]
fn contacts_are_told_before_it_hibernates_when_they_were_told() {
    let mut cluster = announced();
    cluster.advance(HOUR * 19);
    assert!(cluster.told.is_empty());
    assert_eq!(cluster.state.upcoming.as_ref().unwrap().at, at(HOUR * 20));
    cluster.advance_until(at(HOUR * 20 - SECOND));
    assert_eq!(cluster.told, [(at(HOUR * 20 - MINUTE * 16), at(HOUR * 20))]);
    assert!(cluster.writes.is_empty());
    cluster.advance(MINUTE);
    assert_eq!(cluster.writes.len(), 1);
    assert_eq!(cluster.writes[0].0, at(HOUR * 20));
    assert_eq!(cluster.told.len(), 1);
}

#[test]
fn what_is_told_late_comes_late() {
    let mut cluster = announced();
    cluster.settle();
    // Nobody looked when it was to be announced.
    cluster.sleep_until(at(HOUR * 21));
    cluster.advance(MINUTE * 15);
    assert!(cluster.writes.is_empty(), "they have their time");
    let (_, deadline) = cluster.told[0];
    assert!(deadline >= at(HOUR * 21 + MINUTE * 15));
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.writes.len(), 1);
    assert!(cluster.writes[0].0 >= deadline);
}

#[test]
fn while_nobody_can_be_told_it_waits_as_long_as_the_policy_says() {
    let mut cluster = announced();
    cluster.mail_works = false;
    cluster.settings.on_undeliverable = OnUndeliverable::Hold;
    cluster.advance(HOUR * 40);
    assert!(cluster.writes.is_empty());
    let mut cluster = announced();
    cluster.mail_works = false;
    cluster.advance(HOUR * 22);
    assert_eq!(cluster.writes.len(), 1);
    assert!(cluster.writes[0].0 >= at(HOUR * 20 + MINUTE * 59));
}

#[test]
fn a_cluster_that_is_kept_after_all_is_announced_again() {
    let mut cluster = announced();
    cluster.advance_until(at(HOUR * 20 - MINUTE * 5));
    assert_eq!(cluster.told.len(), 1);
    cluster.intent.keep_until = Some(at(HOUR * 23));
    cluster.advance(HOUR * 4);
    let deadlines: Vec<_> = cluster.told.iter().map(|(_, deadline)| *deadline).collect();
    assert_eq!(deadlines, [at(HOUR * 20), at(HOUR * 23)]);
    assert_eq!(cluster.writes.len(), 1);
    assert_eq!(cluster.writes[0].0, at(HOUR * 23));
}

#[test]
fn only_an_edit_of_the_owner_moves_it_earlier_and_is_announced_too() {
    for owner in [true, false] {
        let mut cluster = announced();
        // Half an hour before, they are told.
        cluster.settings.announce_before = MINUTE * 30;
        cluster.advance_until(at(HOUR * 20 - MINUTE * 30));
        assert_eq!(cluster.told.len(), 1);
        cluster.settings.announce_before = MINUTE;
        let timer = Some(HOUR);
        if owner {
            cluster.edit(|intent| intent.hibernate_after = timer);
        } else {
            cluster.intent.hibernate_after = timer;
        }
        cluster.advance(HOUR * 2);
        assert_eq!(cluster.writes.len(), 1);
        let hibernated_at = cluster.writes[0].0;
        assert_eq!(hibernated_at < at(HOUR * 20), owner);
        let told = cluster.told.last().unwrap();
        assert!(hibernated_at >= told.1 && hibernated_at.duration_since(told.0) >= MINUTE);
    }
}

#[test]
fn what_is_taken_back_is_not_told_any_more() {
    let mut cluster = announced();
    cluster.mail_works = false;
    cluster.advance(HOUR * 19 + MINUTE * 50);
    assert!(cluster.state.outbox.waits());
    cluster.edit(|intent| intent.schedules.clear());
    cluster.mail_works = true;
    cluster.advance(HOUR * 3);
    assert!(cluster.told.is_empty() && cluster.writes.is_empty());
    assert_eq!(cluster.power(), PowerState::Running);
}

#[test]
fn who_writes_the_power_state_announces_nothing() {
    let mut cluster = announced();
    cluster.want(Wanted::Hibernating);
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.power(), PowerState::Hibernating);
    assert!(cluster.told.is_empty());
}
