//! What becomes of copies that only we hold when the object is deleted.

use crate::cluster::effect::Effect;
use crate::cluster::intent::Platform;
use crate::cluster::machine::Stopped;
use crate::cluster::reason::Reason;
use crate::cluster::test_cluster::{HOUR, MINUTE, TestCluster, says};

fn asleep(preserve: bool) -> TestCluster {
    let mut cluster = TestCluster::hibernating_with(|cluster| {
        cluster.intent.platform = Platform::Actuated(Stopped::Removed);
        cluster.intent.preserve_on_delete = preserve;
    });
    assert_eq!(cluster.intent.has_finalizer, !preserve);
    cluster.intent.deleting = true;
    cluster
}

#[test]
fn what_is_the_only_copy_is_kept_and_that_is_said_once() {
    let mut cluster = asleep(true);
    let decision = cluster.settle();
    assert!(says(&decision, |why| *why == Reason::RecordsKept));
    cluster.advance(HOUR);
    assert_eq!(cluster.others, [Effect::TellRecordsKept]);
    assert_eq!(cluster.records.len(), 3);
}

#[test]
fn what_is_not_to_be_kept_goes_before_the_object_does() {
    let mut cluster = asleep(false);
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.others, [Effect::RemoveRecords, Effect::RemoveFinalizer]);
}

#[test]
fn what_is_to_be_kept_after_all_lets_the_object_go() {
    let mut cluster = asleep(false);
    cluster.intent.preserve_on_delete = true;
    cluster.advance(MINUTE * 5);
    assert_eq!(cluster.others, [Effect::TellRecordsKept, Effect::RemoveFinalizer]);
    assert_eq!(cluster.records.len(), 3);
}

#[test]
fn records_go_only_after_the_cluster_was_seen_to_run() {
    let mut cluster = TestCluster::hibernating_with(|cluster| {
        cluster.intent.platform = Platform::Actuated(Stopped::Removed);
    });
    cluster.want(crate::cluster::power::Wanted::Running);
    while cluster.state.running_since.is_none() {
        assert_eq!(cluster.records.len(), 3);
        cluster.decide();
        cluster.sleep(jiff::SignedDuration::from_secs(1));
    }
    assert_eq!(cluster.records.len(), 3, "that it runs is on record first");
    cluster.advance(MINUTE);
    assert!(cluster.records.is_empty());
    assert_eq!(cluster.others, [Effect::RemoveRecords]);
}
