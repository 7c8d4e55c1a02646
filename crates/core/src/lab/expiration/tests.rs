use jiff::SignedDuration;

use super::super::effect::Effect;
use super::super::reason::Reason;
use super::super::state::{
    Action, ExpirationState, NoticeKind, StopReason, SubmissionEntry, SubmissionState,
};
use super::super::test_instance::{DAY, HOUR, MINUTE, Mail, TestInstance, at, start};
use crate::decision::Wake;
use crate::notice::{DeliveryOutcome, OnUndeliverable};
use crate::term::Term;

const SECOND: SignedDuration = SignedDuration::from_secs(1);
const END: SignedDuration = SignedDuration::from_mins(5 * 24 * 60 + 1);

/// Lives five days; inactivity does not matter.
fn mortal() -> TestInstance {
    let mut instance = TestInstance::new();
    instance.intent.inactivity.stop_after = Term::Never;
    instance.intent.expiration.delete_after = Term::Span(DAY * 5);
    instance
}

// case: lab X1
#[test]
fn never_is_never() {
    let mut instance = mortal();
    instance.intent.expiration.delete_after = Term::Never;
    instance.advance(DAY * 4000);
    assert_eq!(instance.executed_effects(), []);
    assert_eq!(instance.decision().wake, Wake::OnChange);
}

// case: lab X2
#[test]
fn a_minute_of_life_is_a_minute_from_creation() {
    let mut instance = mortal();
    instance.intent.expiration.delete_after = Term::Span(MINUTE);
    instance.intent.expiration.margin = SignedDuration::ZERO;
    let decision = instance.settle();
    assert_eq!(decision.wake, Wake::At(start() + MINUTE));
    let upcoming = decision.next.upcoming.unwrap();
    assert_eq!((upcoming.action, upcoming.at), (Action::Warn, Some(start() + MINUTE)));
    assert_eq!(upcoming.why, Reason::Expired { at: start() + MINUTE });
}

// case: lab X5
#[test]
fn at_its_end_it_is_warned_once_and_the_interval_runs() {
    let mut instance = mortal();
    instance.advance(END);
    assert_eq!(instance.sent_notices(), [(END, NoticeKind::ExpiryWarning)]);
    assert_eq!(instance.sent[0].1.deadline, Some(at(END + DAY)));
    assert_eq!(
        instance.state.expiration,
        ExpirationState {
            expires_at: Some(at(DAY * 5)),
            last_notice: Some(instance.sent[0].1.id.clone()),
            warned_at: Some(at(END)),
            deadline: Some(at(END + DAY)),
        }
    );
    assert_eq!(instance.decision().wake, Wake::At(at(END + DAY)));
}

#[test]
fn the_deadline_that_is_told_is_the_one_that_fires() {
    // How long the mail server takes, and when the interval is over for whoever reads the mail.
    for (takes, over) in [(0, 3), (1_400, 3), (2_600, 3), (2_800, 4), (60_000, 61)] {
        let mut instance = mortal();
        instance.intent.delivery = SECOND * 3;
        instance.mail = Mail::Silent;
        instance.advance(END - SECOND);
        instance.advance_to(at(END) + SignedDuration::from_millis(300));
        instance.settle();
        let [(_, sent)] = &instance.sent[..] else { panic!("{:?}", instance.sent) };
        assert_eq!(sent.deadline, Some(at(END + DAY + SECOND * 3)));
        let accepted = instance.now + SignedDuration::from_millis(takes);
        instance.outcomes.push(DeliveryOutcome {
            id: sent.id.clone(),
            at: accepted,
            result: Ok(()),
        });
        instance.mail = Mail::Works;
        instance.advance_to(accepted);
        instance.settle();
        let fires = END + DAY + SECOND * over;
        assert_eq!(instance.state.expiration.deadline, Some(at(fires)), "after {takes} ms");
        instance.advance(DAY * 3);
        assert_eq!(instance.executed_effects(), [(fires, Effect::Delete)], "after {takes} ms");
    }
}

// case: lab X6
#[test]
fn before_the_interval_is_over_it_stays() {
    let mut instance = mortal();
    instance.advance(END);
    instance.advance(DAY - SECOND);
    for _ in 0..5 {
        instance.settle();
    }
    assert_eq!(instance.executed_effects(), []);
    assert_eq!(instance.decision().wake, Wake::At(at(END + DAY)));
}

// case: lab X7
#[test]
fn after_the_interval_it_is_deleted_and_its_owner_is_told() {
    let mut instance = mortal();
    instance.advance(DAY * 10);
    assert_eq!(instance.executed_effects(), [(END + DAY, Effect::Delete)]);
    assert_eq!(
        instance.sent_notices(),
        [(END, NoticeKind::ExpiryWarning), (END + DAY, NoticeKind::Expired)]
    );
    assert_eq!(instance.done.last().unwrap().1, Effect::RemoveFinalizer);
}

#[test]
fn it_ends_whether_it_runs_or_not_and_whether_it_is_used_or_not() {
    for running in [true, false] {
        for persistent in [true, false] {
            let mut instance = mortal();
            instance.intent.running = running;
            instance.intent.persistent = persistent;
            for _ in 0..10 {
                instance.advance(HOUR * 12);
                instance.used();
            }
            instance.advance(DAY * 2);
            assert_eq!(instance.executed_effects(), [(END + DAY, Effect::Delete)]);
        }
    }
}

#[test]
fn without_notices_it_is_deleted_at_its_end_after_that_was_written_down() {
    let mut instance = mortal();
    instance.intent.expiration.notify = false;
    instance.advance(END - SECOND);
    instance.advance_to(at(END));
    assert_eq!(instance.decide().effects, []);
    assert_eq!(instance.state.expiration.deadline, Some(at(END)));
    assert_eq!(instance.decide().effects, [Effect::Delete]);
    assert_eq!(instance.sent, []);
}

// case: lab X9
#[test]
fn who_opted_out_stays_and_is_warned_after_opting_in_again() {
    let mut instance = mortal();
    instance.intent.expiration.enabled = false;
    instance.advance(DAY * 50);
    assert_eq!(instance.executed_effects(), []);
    instance.intent.expiration.enabled = true;
    instance.advance(DAY);
    assert_eq!(instance.sent_notices()[0], (DAY * 50, NoticeKind::ExpiryWarning));
    assert_eq!(instance.executed_effects(), [(DAY * 51, Effect::Delete)]);
}

// case: lab X10
#[test]
fn another_lifespan_counts_at_once() {
    let mut instance = mortal();
    instance.advance(DAY * 2);
    instance.intent.expiration.delete_after = Term::Span(DAY);
    instance.settle();
    assert_eq!(instance.sent_notices(), [(DAY * 2, NoticeKind::ExpiryWarning)]);
}

// case: lab X11
#[test]
fn without_a_delivered_warning_nothing_is_deleted() {
    let mut instance = mortal();
    instance.mail = Mail::Down;
    instance.advance(DAY * 20);
    assert_eq!(instance.executed_effects(), []);
    instance.mail = Mail::Works;
    instance.advance(HOUR * 2);
    let given = instance.state.expiration.warned_at.unwrap();
    instance.advance(DAY * 2);
    assert_eq!(
        instance.executed_effects(),
        [(given.duration_since(start()) + DAY, Effect::Delete)]
    );
}

// case: lab X11
#[test]
fn where_the_policy_says_so_it_is_deleted_a_bounded_time_after_the_warning_failed() {
    let mut instance = mortal();
    instance.mail = Mail::Down;
    instance.intent.on_undeliverable = OnUndeliverable::ProceedAfter(HOUR * 3);
    instance.advance(END + HOUR * 3 + DAY);
    assert_eq!(instance.executed_effects(), [(END + HOUR * 3 + DAY, Effect::Delete)]);
}

// case: lab X12
#[test]
fn a_longer_life_is_warned_about_anew() {
    let mut instance = mortal();
    instance.advance(END + HOUR);
    instance.intent.expiration.delete_after = Term::Span(DAY * 30);
    instance.settle();
    assert_eq!(instance.state.expiration, ExpirationState::default());
    instance.advance(DAY * 40);
    let end = DAY * 30 + MINUTE;
    assert_eq!(instance.sent_notices()[1], (end, NoticeKind::ExpiryWarning));
    assert_eq!(instance.executed_effects(), [(end + DAY, Effect::Delete)]);
}

#[test]
fn a_shorter_life_does_not_shorten_what_was_announced() {
    let mut instance = mortal();
    instance.advance(END + HOUR);
    instance.intent.expiration.delete_after = Term::Span(DAY);
    instance.intent.expiration.interval = MINUTE;
    instance.intent.expiration.notify = false;
    instance.advance(DAY * 3);
    assert_eq!(instance.executed_effects(), [(END + DAY, Effect::Delete)]);
}

// case: lab X15
#[test]
fn what_is_being_handed_in_is_not_deleted() {
    let mut instance = mortal();
    instance.settle();
    let asked_at = Some(instance.now);
    let running = SubmissionEntry::new("main".to_owned(), SubmissionState::Running);
    instance.state.submissions.entries.push(SubmissionEntry { asked_at, ..running });
    instance.advance(DAY * 20);
    let stop = Effect::Stop(StopReason::Expired);
    assert_eq!(instance.executed_effects(), [(END + DAY, stop.clone())]);
    assert!(instance.decision().why.contains(&Reason::SubmissionPending));
    instance.state.submissions.entries[0].state = SubmissionState::Done;
    instance.settle();
    assert_eq!(instance.executed_effects(), [(END + DAY, stop), (DAY * 20, Effect::Delete)]);
}

#[test]
fn only_one_farewell_is_told_when_both_ladders_end_it() {
    let mut instance = mortal();
    instance.intent.persistent = false;
    instance.intent.inactivity.stop_after = Term::Span(DAY * 3);
    instance.intent.inactivity.interval = DAY;
    instance.advance(DAY * 10);
    let farewells = instance.sent_notices().into_iter().filter(|(_, kind)| kind.is_final()).count();
    assert_eq!(farewells, 1);
    assert_eq!(instance.executed_effects().len(), 1);
}
