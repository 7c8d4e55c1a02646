use super::super::observed::{JobEnd, Pods};
use super::super::scene::{DAY, HOUR, MINUTE, Mail, Scene, at};
use super::super::state::SubmissionState;
use super::*;
use crate::term::Term;

fn released(scene: &Scene) -> Option<jiff::Timestamp> {
    let release = scene.done.iter().find(|(_, effect)| *effect == Effect::Release);
    release.map(|(at, _)| *at)
}

#[test]
fn what_its_owner_deletes_goes_at_once_and_nobody_is_told() {
    for (paused, observe) in [(false, false), (true, false), (false, true)] {
        let mut scene = Scene::new();
        scene.pass(DAY * 15);
        assert_eq!(scene.sent.len(), 1);
        scene.intent.deleting = true;
        scene.intent.paused = paused;
        scene.intent.observe = observe;
        scene.settle();
        assert_eq!(released(&scene), Some(scene.now));
        assert_eq!(scene.sent.len(), 1);
    }
}

/// Deleted by expiration, with mail as it is.
fn expired(mail: Mail) -> Scene {
    let mut scene = Scene::new();
    scene.intent.expiration.delete_after = Term::Span(HOUR);
    scene.pass(HOUR * 25);
    scene.mail = mail;
    scene.pass(MINUTE);
    assert!(scene.intent.deleting);
    scene
}

#[test]
fn the_farewell_is_told_before_it_goes() {
    let scene = expired(Mail::Works);
    assert_eq!(scene.told().last().unwrap().1, NoticeKind::Expired);
    assert_eq!(released(&scene), Some(at(HOUR * 25 + MINUTE)));
}

#[test]
fn mail_that_is_down_holds_it_for_a_while_only() {
    let mut scene = expired(Mail::Down);
    assert_eq!(released(&scene), None);
    scene.pass(HOUR * 2);
    let farewells = scene.told().iter().filter(|(_, kind)| *kind == NoticeKind::Expired).count();
    assert_eq!(farewells, 5);
    assert!(released(&scene).unwrap() <= at(HOUR * 26 + MINUTE));
}

#[test]
fn what_nobody_accepts_is_given_up_on_record() {
    let mut scene = expired(Mail::Down);
    scene.pass(HOUR * 2);
    let farewell = scene.state.outbox.notices.iter().find(|one| one.kind == NoticeKind::Expired);
    let farewell = farewell.expect("it is not forgotten");
    assert!(matches!(farewell.delivery, Delivery::Waived { .. }));
    assert!(farewell.error.is_some());
}

#[test]
fn a_farewell_that_somebody_waives_holds_nothing_up() {
    let mut scene = expired(Mail::Down);
    scene.pass(MINUTE * 5);
    assert_eq!(released(&scene), None);
    scene.intent.notices_waived = Some(scene.now);
    scene.settle();
    assert_eq!(released(&scene), Some(scene.now));
    let farewell = scene.state.outbox.notices.iter().find(|one| one.kind == NoticeKind::Expired);
    assert_eq!(farewell.unwrap().delivery, Delivery::Waived { at: scene.now });
}

#[test]
fn a_farewell_is_told_as_soon_as_mail_is_repaired() {
    let mut scene = expired(Mail::Down);
    scene.pass(MINUTE * 5);
    scene.mail = Mail::Works;
    scene.repaired = Some(scene.now);
    scene.settle();
    assert_eq!(released(&scene), Some(scene.now));
}

#[test]
fn mail_that_says_nothing_holds_it_for_a_while_only() {
    let mut scene = expired(Mail::Silent);
    scene.pass(HOUR * 2);
    assert!(released(&scene).unwrap() <= at(HOUR * 26 + MINUTE));
}

#[test]
fn what_is_to_be_handed_in_is_handed_in_first() {
    let mut scene = Scene::handing_in(&[("main", None)]);
    scene.intent.submission.requested = Some(at(MINUTE));
    scene.settle();
    scene.intent.deleting = true;
    scene.pods = Pods::Some;
    scene.pass(HOUR);
    assert!(scene.ask().why.contains(&Reason::SubmissionPending));
    // The runtime takes its Pods away although nobody stopped it.
    scene.pods = Pods::Gone;
    scene.pass(HOUR);
    assert_eq!(scene.state.submissions.entries[0].state, SubmissionState::Running);
    scene.job("main", 1, 10, JobEnd::Failed { error: "refused".to_owned() });
    scene.pass(DAY);
    assert_eq!(released(&scene), None);
    assert_eq!(scene.told().last().unwrap().1, NoticeKind::SubmissionFailed);
    scene.intent.submission.waived = Some(scene.now);
    scene.settle();
    assert_eq!(released(&scene), Some(scene.now));
}
