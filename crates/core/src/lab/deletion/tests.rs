use super::super::observed::{JobEnd, Pods};
use super::super::state::SubmissionState;
use super::super::test_instance::{DAY, HOUR, MINUTE, Mail, TestInstance, at};
use super::*;
use crate::term::Term;

fn released(instance: &TestInstance) -> Option<jiff::Timestamp> {
    let release = instance.done.iter().find(|(_, effect)| *effect == Effect::RemoveFinalizer);
    release.map(|(at, _)| *at)
}

#[test]
fn what_its_owner_deletes_goes_at_once_and_nobody_is_told() {
    for (paused, observe) in [(false, false), (true, false), (false, true)] {
        let mut instance = TestInstance::new();
        instance.advance(DAY * 15);
        assert_eq!(instance.sent.len(), 1);
        instance.intent.deleting = true;
        instance.intent.paused = paused;
        instance.intent.observe = observe;
        instance.settle();
        assert_eq!(released(&instance), Some(instance.now));
        assert_eq!(instance.sent.len(), 1);
    }
}

/// Deleted by expiration, with mail as it is.
fn expired(mail: Mail) -> TestInstance {
    let mut instance = TestInstance::new();
    instance.intent.expiration.delete_after = Term::Span(HOUR);
    instance.advance(HOUR * 25);
    instance.mail = mail;
    instance.advance(MINUTE);
    assert!(instance.intent.deleting);
    instance
}

#[test]
fn the_farewell_is_told_before_it_goes() {
    let instance = expired(Mail::Works);
    assert_eq!(instance.sent_notices().last().unwrap().1, NoticeKind::Expired);
    assert_eq!(released(&instance), Some(at(HOUR * 25 + MINUTE)));
}

#[test]
fn mail_that_is_down_holds_it_for_a_while_only() {
    let mut instance = expired(Mail::Down);
    assert_eq!(released(&instance), None);
    instance.advance(HOUR * 2);
    let farewells =
        instance.sent_notices().iter().filter(|(_, kind)| *kind == NoticeKind::Expired).count();
    assert_eq!(farewells, 5);
    assert!(released(&instance).unwrap() <= at(HOUR * 26 + MINUTE));
}

#[test]
fn what_nobody_accepts_is_given_up_on_record() {
    let mut instance = expired(Mail::Down);
    instance.advance(HOUR * 2);
    let farewell = instance.state.outbox.notices.iter().find(|one| one.kind == NoticeKind::Expired);
    let farewell = farewell.expect("it is not forgotten");
    assert!(matches!(farewell.delivery, Delivery::Waived { .. }));
    assert!(farewell.error.is_some());
}

#[test]
fn a_farewell_that_somebody_waives_holds_nothing_up() {
    let mut instance = expired(Mail::Down);
    instance.advance(MINUTE * 5);
    assert_eq!(released(&instance), None);
    instance.intent.notices_waived = Some(instance.now);
    instance.settle();
    assert_eq!(released(&instance), Some(instance.now));
    let farewell = instance.state.outbox.notices.iter().find(|one| one.kind == NoticeKind::Expired);
    assert_eq!(farewell.unwrap().delivery, Delivery::Waived { at: instance.now });
}

#[test]
fn a_farewell_is_told_as_soon_as_mail_is_repaired() {
    let mut instance = expired(Mail::Down);
    instance.advance(MINUTE * 5);
    instance.mail = Mail::Works;
    instance.channels_changed_at = Some(instance.now);
    instance.settle();
    assert_eq!(released(&instance), Some(instance.now));
}

#[test]
fn mail_that_says_nothing_holds_it_for_a_while_only() {
    let mut instance = expired(Mail::Silent);
    instance.advance(HOUR * 2);
    assert!(released(&instance).unwrap() <= at(HOUR * 26 + MINUTE));
}

#[test]
fn what_is_to_be_handed_in_is_handed_in_first() {
    let mut instance = TestInstance::submitting(&[("main", None)]);
    instance.intent.submission.requested = Some(at(MINUTE));
    instance.settle();
    instance.intent.deleting = true;
    instance.pods = Pods::Some;
    instance.advance(HOUR);
    assert!(instance.decision().why.contains(&Reason::SubmissionPending));
    // The runtime takes its Pods away although nobody stopped it.
    instance.pods = Pods::Gone;
    instance.advance(HOUR);
    assert_eq!(instance.state.submissions.entries[0].state, SubmissionState::Running);
    instance.job("main", 1, 10, JobEnd::Failed { error: "refused".to_owned() });
    instance.advance(DAY);
    assert_eq!(released(&instance), None);
    assert_eq!(instance.sent_notices().last().unwrap().1, NoticeKind::SubmissionFailed);
    instance.intent.submission.waived = Some(instance.now);
    instance.settle();
    assert_eq!(released(&instance), Some(instance.now));
}
