use jiff::SignedDuration;

use super::super::effect::Effect;
use super::super::reason::Reason;
use super::super::scene::{DAY, HOUR, MINUTE, Mail, Scene, at, start};
use super::super::state::{
    Action, Expiration, NoticeKind, StopReason, Submission, SubmissionState,
};
use crate::decision::Wake;
use crate::notice::{OnUndeliverable, Outcome};
use crate::term::Term;

const SECOND: SignedDuration = SignedDuration::from_secs(1);
const END: SignedDuration = SignedDuration::from_mins(5 * 24 * 60 + 1);

/// Lives five days; inactivity does not matter.
fn mortal() -> Scene {
    let mut scene = Scene::new();
    scene.intent.inactivity.stop_after = Term::Never;
    scene.intent.expiration.delete_after = Term::Span(DAY * 5);
    scene
}

// case: lab X1
#[test]
fn never_is_never() {
    let mut scene = mortal();
    scene.intent.expiration.delete_after = Term::Never;
    scene.pass(DAY * 4000);
    assert_eq!(scene.acts(), []);
    assert_eq!(scene.ask().wake, Wake::OnChange);
}

// case: lab X2
#[test]
fn a_minute_of_life_is_a_minute_from_creation() {
    let mut scene = mortal();
    scene.intent.expiration.delete_after = Term::Span(MINUTE);
    scene.intent.expiration.margin = SignedDuration::ZERO;
    let decision = scene.settle();
    assert_eq!(decision.wake, Wake::At(start() + MINUTE));
    let coming = decision.next.coming.unwrap();
    assert_eq!((coming.action, coming.at), (Action::Warn, Some(start() + MINUTE)));
    assert_eq!(coming.why, Reason::Expired { at: start() + MINUTE });
}

// case: lab X5
#[test]
fn at_its_end_it_is_warned_once_and_the_interval_runs() {
    let mut scene = mortal();
    scene.pass(END);
    assert_eq!(scene.told(), [(END, NoticeKind::ExpiryWarning)]);
    assert_eq!(scene.sent[0].1.deadline, Some(at(END + DAY)));
    assert_eq!(
        scene.state.expiration,
        Expiration {
            expires_at: Some(at(DAY * 5)),
            last_notice: Some(scene.sent[0].1.id.clone()),
            warned_at: Some(at(END)),
            deadline: Some(at(END + DAY)),
        }
    );
    assert_eq!(scene.ask().wake, Wake::At(at(END + DAY)));
}

#[test]
fn the_deadline_that_is_told_is_the_one_that_fires() {
    // How long the mail server takes, and when the interval is over for whoever reads the mail.
    for (takes, over) in [(0, 3), (1_400, 3), (2_600, 3), (2_800, 4), (60_000, 61)] {
        let mut scene = mortal();
        scene.intent.delivery = SECOND * 3;
        scene.mail = Mail::Silent;
        scene.pass(END - SECOND);
        scene.go_to(at(END) + SignedDuration::from_millis(300));
        scene.settle();
        let [(_, sent)] = &scene.sent[..] else { panic!("{:?}", scene.sent) };
        assert_eq!(sent.deadline, Some(at(END + DAY + SECOND * 3)));
        let accepted = scene.now + SignedDuration::from_millis(takes);
        scene.outcomes.push(Outcome { id: sent.id.clone(), at: accepted, result: Ok(()) });
        scene.mail = Mail::Works;
        scene.go_to(accepted);
        scene.settle();
        let fires = END + DAY + SECOND * over;
        assert_eq!(scene.state.expiration.deadline, Some(at(fires)), "after {takes} ms");
        scene.pass(DAY * 3);
        assert_eq!(scene.acts(), [(fires, Effect::Delete)], "after {takes} ms");
    }
}

// case: lab X6
#[test]
fn before_the_interval_is_over_it_stays() {
    let mut scene = mortal();
    scene.pass(END);
    scene.pass(DAY - SECOND);
    for _ in 0..5 {
        scene.settle();
    }
    assert_eq!(scene.acts(), []);
    assert_eq!(scene.ask().wake, Wake::At(at(END + DAY)));
}

// case: lab X7
#[test]
fn after_the_interval_it_is_deleted_and_its_owner_is_told() {
    let mut scene = mortal();
    scene.pass(DAY * 10);
    assert_eq!(scene.acts(), [(END + DAY, Effect::Delete)]);
    assert_eq!(scene.told(), [(END, NoticeKind::ExpiryWarning), (END + DAY, NoticeKind::Expired)]);
    assert_eq!(scene.done.last().unwrap().1, Effect::Release);
}

#[test]
fn it_ends_whether_it_runs_or_not_and_whether_it_is_used_or_not() {
    for running in [true, false] {
        for persistent in [true, false] {
            let mut scene = mortal();
            scene.intent.running = running;
            scene.intent.persistent = persistent;
            for _ in 0..10 {
                scene.pass(HOUR * 12);
                scene.used();
            }
            scene.pass(DAY * 2);
            assert_eq!(scene.acts(), [(END + DAY, Effect::Delete)]);
        }
    }
}

#[test]
fn without_notices_it_is_deleted_at_its_end_after_that_was_written_down() {
    let mut scene = mortal();
    scene.intent.expiration.notify = false;
    scene.pass(END - SECOND);
    scene.go_to(at(END));
    assert_eq!(scene.decide().effects, []);
    assert_eq!(scene.state.expiration.deadline, Some(at(END)));
    assert_eq!(scene.decide().effects, [Effect::Delete]);
    assert_eq!(scene.sent, []);
}

// case: lab X9
#[test]
fn who_opted_out_stays_and_is_warned_after_opting_in_again() {
    let mut scene = mortal();
    scene.intent.expiration.enabled = false;
    scene.pass(DAY * 50);
    assert_eq!(scene.acts(), []);
    scene.intent.expiration.enabled = true;
    scene.pass(DAY);
    assert_eq!(scene.told()[0], (DAY * 50, NoticeKind::ExpiryWarning));
    assert_eq!(scene.acts(), [(DAY * 51, Effect::Delete)]);
}

// case: lab X10
#[test]
fn another_lifespan_counts_at_once() {
    let mut scene = mortal();
    scene.pass(DAY * 2);
    scene.intent.expiration.delete_after = Term::Span(DAY);
    scene.settle();
    assert_eq!(scene.told(), [(DAY * 2, NoticeKind::ExpiryWarning)]);
}

// case: lab X11
#[test]
fn without_a_delivered_warning_nothing_is_deleted() {
    let mut scene = mortal();
    scene.mail = Mail::Down;
    scene.pass(DAY * 20);
    assert_eq!(scene.acts(), []);
    scene.mail = Mail::Works;
    scene.pass(HOUR * 2);
    let given = scene.state.expiration.warned_at.unwrap();
    scene.pass(DAY * 2);
    assert_eq!(scene.acts(), [(given.duration_since(start()) + DAY, Effect::Delete)]);
}

// case: lab X11
#[test]
fn where_the_policy_says_so_it_is_deleted_a_bounded_time_after_the_warning_failed() {
    let mut scene = mortal();
    scene.mail = Mail::Down;
    scene.intent.on_undeliverable = OnUndeliverable::ProceedAfter(HOUR * 3);
    scene.pass(END + HOUR * 3 + DAY);
    assert_eq!(scene.acts(), [(END + HOUR * 3 + DAY, Effect::Delete)]);
}

// case: lab X12
#[test]
fn a_longer_life_is_warned_about_anew() {
    let mut scene = mortal();
    scene.pass(END + HOUR);
    scene.intent.expiration.delete_after = Term::Span(DAY * 30);
    scene.settle();
    assert_eq!(scene.state.expiration, Expiration::default());
    scene.pass(DAY * 40);
    let end = DAY * 30 + MINUTE;
    assert_eq!(scene.told()[1], (end, NoticeKind::ExpiryWarning));
    assert_eq!(scene.acts(), [(end + DAY, Effect::Delete)]);
}

#[test]
fn a_shorter_life_does_not_shorten_what_was_announced() {
    let mut scene = mortal();
    scene.pass(END + HOUR);
    scene.intent.expiration.delete_after = Term::Span(DAY);
    scene.intent.expiration.interval = MINUTE;
    scene.intent.expiration.notify = false;
    scene.pass(DAY * 3);
    assert_eq!(scene.acts(), [(END + DAY, Effect::Delete)]);
}

// case: lab X15
#[test]
fn what_is_being_handed_in_is_not_deleted() {
    let mut scene = mortal();
    scene.settle();
    let asked_at = Some(scene.now);
    let running = Submission::new("main".to_owned(), SubmissionState::Running);
    scene.state.submissions.entries.push(Submission { asked_at, ..running });
    scene.pass(DAY * 20);
    let stop = Effect::Stop(StopReason::Expired);
    assert_eq!(scene.acts(), [(END + DAY, stop.clone())]);
    assert!(scene.ask().why.contains(&Reason::SubmissionPending));
    scene.state.submissions.entries[0].state = SubmissionState::Done;
    scene.settle();
    assert_eq!(scene.acts(), [(END + DAY, stop), (DAY * 20, Effect::Delete)]);
}

#[test]
fn only_one_farewell_is_told_when_both_ladders_end_it() {
    let mut scene = mortal();
    scene.intent.persistent = false;
    scene.intent.inactivity.stop_after = Term::Span(DAY * 3);
    scene.intent.inactivity.interval = DAY;
    scene.pass(DAY * 10);
    let farewells = scene.told().into_iter().filter(|(_, kind)| kind.is_farewell()).count();
    assert_eq!(farewells, 1);
    assert_eq!(scene.acts().len(), 1);
}
