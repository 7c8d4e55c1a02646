//! Every way in which an instance can end, by whether it was running or stopped before.

use super::super::observed::{JobEnd, Pods, StatusAnswer};
use super::super::state::Action;
use super::super::test_instance::{DAY, HOUR, MINUTE, TestInstance, at};
use super::*;
use crate::term::Term;

fn submits(instance: &TestInstance) -> Vec<(String, u32)> {
    let submits = instance.done.iter().filter_map(|(_, effect)| match effect {
        Effect::Submit { environment, series } => Some((environment.clone(), *series)),
        _ => None,
    });
    submits.collect()
}

fn position(instance: &TestInstance, wanted: impl Fn(&Effect) -> bool) -> Option<usize> {
    instance.done.iter().position(|(_, effect)| wanted(effect))
}

fn is_submit(effect: &Effect) -> bool {
    matches!(effect, Effect::Submit { .. })
}

fn hand_in(instance: &mut TestInstance, series: u32) {
    let now = instance.now;
    let done = JobEnd::Done { at: now, size: None, sha256: None, receipt: None };
    instance.job("main", series, 0, done);
    instance.settle();
}

/// Who stopped it before it ends, if anybody did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    Nobody,
    Owner,
    Inactivity,
}

/// Who ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Termination,
    Deletion,
    Expiration,
    /// Stopped for long.
    Unused,
}

fn lent(stopped: Stopped, end: End) -> TestInstance {
    let mut instance = TestInstance::submitting(&[("main", None)]);
    instance.intent.inactivity.stop_after = Term::Never;
    if end == End::Expiration {
        instance.intent.expiration.delete_after = Term::Span(DAY * 10);
    }
    if end == End::Unused {
        instance.intent.inactivity.delete_after_stopped = Term::Span(DAY * 10);
    }
    instance.advance(DAY);
    match stopped {
        Stopped::Nobody => {}
        Stopped::Owner => {
            instance.intent.running = false;
            instance.pods = Pods::Gone;
        }
        Stopped::Inactivity => {
            instance.intent.inactivity.stop_after = Term::Span(HOUR);
            instance.intent.inactivity.max_alerts = 0;
        }
    }
    instance.advance(HOUR);
    assert_eq!(instance.intent.running, stopped == Stopped::Nobody);
    assert_eq!(submits(&instance), [], "a stop is no end");
    instance
}

fn come(instance: &mut TestInstance, end: End) {
    match end {
        End::Termination => instance.answer = Some(StatusAnswer::Ends),
        End::Deletion => {
            instance.intent.deleting = true;
            instance.pods = Pods::Gone;
        }
        End::Expiration | End::Unused => {}
    }
    instance.advance(DAY * 30);
}

#[test]
fn work_is_handed_in_at_every_end_and_before_it_is_gone() {
    for stopped in [Stopped::Nobody, Stopped::Owner, Stopped::Inactivity] {
        for end in [End::Termination, End::Deletion, End::Expiration, End::Unused] {
            if stopped == Stopped::Nobody && end == End::Unused {
                continue;
            }
            let mut instance = lent(stopped, end);
            come(&mut instance, end);
            let what = format!("{end:?} of what was stopped by {stopped:?}");
            assert_eq!(submits(&instance), [("main".to_owned(), 1)], "{what}");
            let goes = |effect: &Effect| matches!(effect, Effect::Delete | Effect::RemoveFinalizer);
            assert_eq!(position(&instance, goes), None, "{what} waits");
            hand_in(&mut instance, 1);
            instance.advance(DAY);
            let gone = position(&instance, goes);
            assert_eq!(gone.is_some(), end != End::Termination, "{what}");
            assert!(
                gone.is_none_or(|gone| position(&instance, is_submit).unwrap() < gone),
                "{what}"
            );
            assert_eq!(submits(&instance).len(), 1, "{what}: once");
            // Stop, upload, then delete.
            let stop = position(&instance, |effect| matches!(effect, Effect::Stop(_)));
            if end == End::Expiration && stopped == Stopped::Nobody {
                assert!(stop.unwrap() < position(&instance, is_submit).unwrap(), "{what}");
            }
        }
    }
}

#[test]
fn only_what_was_asked_for_is_handed_in_where_nothing_else_is_wanted() {
    for requested in [false, true] {
        for end in [End::Termination, End::Deletion, End::Expiration, End::Unused] {
            let mut instance = lent(Stopped::Owner, end);
            instance.intent.submission.wanted.as_mut().unwrap().on_termination = false;
            instance.intent.submission.requested = requested.then_some(instance.now);
            come(&mut instance, end);
            assert_eq!(submits(&instance).len(), usize::from(requested), "{end:?}");
        }
    }
}

#[test]
fn what_was_handed_in_since_the_last_start_is_not_handed_in_again() {
    let mut instance = lent(Stopped::Owner, End::Deletion);
    instance.intent.submission.requested = Some(instance.now);
    instance.settle();
    hand_in(&mut instance, 1);
    let asked = instance.state.submissions.entries[0].asked_at;
    let mut deleted = instance.clone();
    come(&mut deleted, End::Deletion);
    assert_eq!(submits(&deleted).len(), 1);
    assert!(position(&deleted, |effect| *effect == Effect::RemoveFinalizer).is_some());
    // Somebody works in it again: that work is another.
    instance.intent.running = true;
    instance.pods = Pods::AllReady;
    instance.advance(HOUR);
    assert!(instance.claims[0].has_finalizer, "there is work again");
    come(&mut instance, End::Deletion);
    assert_eq!(submits(&instance), [("main".to_owned(), 1), ("main".to_owned(), 2)]);
    assert!(instance.state.submissions.entries[0].asked_at > asked, "under another key");
}

#[test]
fn an_upload_that_was_under_way_at_a_start_says_nothing_about_later_work() {
    let mut instance = lent(Stopped::Owner, End::Deletion);
    instance.intent.submission.requested = Some(instance.now);
    instance.settle();
    assert_eq!(submits(&instance).len(), 1);
    instance.intent.running = true;
    instance.pods = Pods::AllReady;
    instance.advance(HOUR);
    hand_in(&mut instance, 1);
    come(&mut instance, End::Deletion);
    assert_eq!(submits(&instance), [("main".to_owned(), 1), ("main".to_owned(), 2)]);
}

#[test]
fn the_end_of_a_lifespan_waits_visibly() {
    let mut instance = lent(Stopped::Nobody, End::Expiration);
    come(&mut instance, End::Expiration);
    let upcoming = instance.state.upcoming.clone().expect("something comes");
    assert_eq!((upcoming.action, upcoming.why), (Action::Submit, Reason::SubmissionPending));
    assert!(instance.decision().why.contains(&Reason::SubmissionPending));
    let ended = instance.state.ended.expect("it has ended");
    assert_eq!(ended.reason, EndReason::Expired);
    assert_eq!(instance.state.power.stop_reason, Some(StopReason::Expired));
}

#[test]
fn a_claim_is_held_for_as_long_as_its_data_is_owed() {
    let mut instance = TestInstance::submitting(&[("main", None)]);
    instance.claims[0].has_finalizer = false;
    instance.settle();
    assert!(instance.claims[0].has_finalizer, "from the first start on");
    come(&mut instance, End::Deletion);
    assert!(instance.claims[0].has_finalizer);
    instance.job("main", 1, 10, JobEnd::Failed { error: "refused".to_owned() });
    instance.advance(DAY);
    assert!(instance.claims[0].has_finalizer, "it has failed, and is still owed");
    instance.intent.submission.waived = Some(instance.now);
    instance.settle();
    assert!(!instance.claims[0].has_finalizer);
    let freed = position(&instance, |effect| matches!(effect, Effect::RemoveClaimFinalizer { .. }))
        .unwrap();
    assert!(freed < position(&instance, |effect| *effect == Effect::RemoveFinalizer).unwrap());

    let mut instance = TestInstance::submitting(&[("main", None)]);
    instance.intent.submission.wanted.as_mut().unwrap().on_termination = false;
    instance.settle();
    assert!(!instance.claims[0].has_finalizer, "nobody has asked for it");
    instance.intent.submission.requested = Some(instance.now);
    instance.settle();
    assert!(instance.claims[0].has_finalizer);
}

#[test]
fn what_is_waived_before_its_end_goes_without_being_handed_in() {
    let mut instance = lent(Stopped::Owner, End::Deletion);
    instance.intent.submission.waived = Some(instance.now);
    instance.settle();
    assert!(!needs_submission(&instance.state, &instance.intent));
    come(&mut instance, End::Deletion);
    assert_eq!(submits(&instance), []);
    assert!(position(&instance, |effect| *effect == Effect::RemoveFinalizer).is_some());
}

#[test]
fn in_a_namespace_that_is_being_deleted_no_job_is_made_and_nothing_is_let_go() {
    let mut instance = lent(Stopped::Owner, End::Deletion);
    instance.namespace_terminating = true;
    come(&mut instance, End::Deletion);
    assert_eq!(submits(&instance), []);
    assert!(instance.claims[0].has_finalizer);
    assert!(instance.decision().why.contains(&Reason::NamespaceLeaves));
    assert_eq!(position(&instance, |effect| *effect == Effect::RemoveFinalizer), None);
    instance.intent.submission.waived = Some(instance.now);
    instance.settle();
    assert!(position(&instance, |effect| *effect == Effect::RemoveFinalizer).is_some());
}

/// An exam that has ended and was handed in.
fn ended() -> TestInstance {
    let mut instance = lent(Stopped::Nobody, End::Termination);
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(HOUR);
    hand_in(&mut instance, 1);
    assert!(!instance.intent.running);
    instance.done.clear();
    instance
}

#[test]
fn what_has_ended_stays_off_whoever_asks_for_it_to_run() {
    let mut instance = ended();
    let end = instance.state.ended.unwrap();
    let started = instance.state.power.started_at;
    instance.answer = Some(StatusAnswer::Keeps { deadline: None });
    for _ in 0..3 {
        instance.intent.running = true;
        assert!(!runs(&instance.state, &instance.intent));
        let first = instance.decide();
        assert!(first.why.contains(&Reason::Ended { at: end.at }));
        assert_eq!(first.effects, [Effect::Stop(StopReason::Terminated)]);
        for effect in first.effects {
            instance.apply(effect);
        }
        instance.advance(HOUR);
        assert!(!instance.intent.running);
    }
    assert_eq!(instance.state.ended, Some(end), "written once");
    assert_eq!(instance.state.power.started_at, started);
    assert_eq!(submits(&instance), [], "and it is not handed in again");
}

#[test]
fn whoever_may_reopen_starts_it_again_and_it_ends_again() {
    let mut instance = ended();
    let first = instance.state.ended.unwrap();
    for wrong in [first.at - MINUTE, first.at + MINUTE] {
        instance.intent.reopen = Some(wrong);
        instance.settle();
        assert_eq!(instance.state.ended, Some(first), "it names another end");
    }
    instance.intent.reopen = Some(first.at);
    instance.intent.running = true;
    instance.pods = Pods::AllReady;
    instance.answer = Some(StatusAnswer::Keeps { deadline: None });
    instance.advance(HOUR);
    assert_eq!((instance.state.ended, instance.state.reopened), (None, Some(first.at)));
    assert!(instance.intent.running && runs(&instance.state, &instance.intent));
    // The mark stays there, and takes no later end back.
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(HOUR);
    let second = instance.state.ended.expect("it has ended again");
    assert!(second.at > first.at);
    assert!(!instance.intent.running);
    assert_eq!(submits(&instance), [("main".to_owned(), 2)], "what was written since is handed in");
}

#[test]
fn an_end_is_on_record_before_anything_follows_from_it() {
    let mut instance = lent(Stopped::Nobody, End::Expiration);
    instance.intent.expiration.notify = false;
    instance.advance_to(at(DAY * 11));
    instance.pods = Pods::AllReady;
    let mut decisions = 0;
    while instance.state.ended.is_none() {
        let decision = instance.decide();
        assert!(!decision.effects.iter().any(|one| matches!(one, Effect::Stop(_))));
        decisions += 1;
        assert!(decisions < 5, "{decision:?}");
    }
    assert!(instance.decide().effects.contains(&Effect::Stop(StopReason::Expired)));
}
