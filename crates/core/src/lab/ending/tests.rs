//! Every way in which an instance can end, by whether it was running or stopped before.

use super::super::observed::{Answer, JobEnd, Pods};
use super::super::scene::{DAY, HOUR, MINUTE, Scene, at};
use super::super::state::Action;
use super::*;
use crate::term::Term;

fn submits(scene: &Scene) -> Vec<(String, u32)> {
    let submits = scene.done.iter().filter_map(|(_, effect)| match effect {
        Effect::Submit { environment, series } => Some((environment.clone(), *series)),
        _ => None,
    });
    submits.collect()
}

fn position(scene: &Scene, wanted: impl Fn(&Effect) -> bool) -> Option<usize> {
    scene.done.iter().position(|(_, effect)| wanted(effect))
}

fn is_submit(effect: &Effect) -> bool {
    matches!(effect, Effect::Submit { .. })
}

fn hand_in(scene: &mut Scene, series: u32) {
    let now = scene.now;
    let done = JobEnd::Done { at: now, size: None, sha256: None, receipt: None };
    scene.job("main", series, 0, done);
    scene.settle();
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

fn lent(stopped: Stopped, end: End) -> Scene {
    let mut scene = Scene::handing_in(&[("main", None)]);
    scene.intent.inactivity.stop_after = Term::Never;
    if end == End::Expiration {
        scene.intent.expiration.delete_after = Term::Span(DAY * 10);
    }
    if end == End::Unused {
        scene.intent.inactivity.delete_after_stopped = Term::Span(DAY * 10);
    }
    scene.pass(DAY);
    match stopped {
        Stopped::Nobody => {}
        Stopped::Owner => {
            scene.intent.running = false;
            scene.pods = Pods::Gone;
        }
        Stopped::Inactivity => {
            scene.intent.inactivity.stop_after = Term::Span(HOUR);
            scene.intent.inactivity.max_alerts = 0;
        }
    }
    scene.pass(HOUR);
    assert_eq!(scene.intent.running, stopped == Stopped::Nobody);
    assert_eq!(submits(&scene), [], "a stop is no end");
    scene
}

fn come(scene: &mut Scene, end: End) {
    match end {
        End::Termination => scene.answer = Some(Answer::Ends),
        End::Deletion => {
            scene.intent.deleting = true;
            scene.pods = Pods::Gone;
        }
        End::Expiration | End::Unused => {}
    }
    scene.pass(DAY * 30);
}

#[test]
fn work_is_handed_in_at_every_end_and_before_it_is_gone() {
    for stopped in [Stopped::Nobody, Stopped::Owner, Stopped::Inactivity] {
        for end in [End::Termination, End::Deletion, End::Expiration, End::Unused] {
            if stopped == Stopped::Nobody && end == End::Unused {
                continue;
            }
            let mut scene = lent(stopped, end);
            come(&mut scene, end);
            let what = format!("{end:?} of what was stopped by {stopped:?}");
            assert_eq!(submits(&scene), [("main".to_owned(), 1)], "{what}");
            let goes = |effect: &Effect| matches!(effect, Effect::Delete | Effect::Release);
            assert_eq!(position(&scene, goes), None, "{what} waits");
            hand_in(&mut scene, 1);
            scene.pass(DAY);
            let gone = position(&scene, goes);
            assert_eq!(gone.is_some(), end != End::Termination, "{what}");
            assert!(gone.is_none_or(|gone| position(&scene, is_submit).unwrap() < gone), "{what}");
            assert_eq!(submits(&scene).len(), 1, "{what}: once");
            // Stop, upload, then delete.
            let stop = position(&scene, |effect| matches!(effect, Effect::Stop(_)));
            if end == End::Expiration && stopped == Stopped::Nobody {
                assert!(stop.unwrap() < position(&scene, is_submit).unwrap(), "{what}");
            }
        }
    }
}

#[test]
fn only_what_was_asked_for_is_handed_in_where_nothing_else_is_wanted() {
    for requested in [false, true] {
        for end in [End::Termination, End::Deletion, End::Expiration, End::Unused] {
            let mut scene = lent(Stopped::Owner, end);
            scene.intent.submission.wanted.as_mut().unwrap().on_termination = false;
            scene.intent.submission.requested = requested.then_some(scene.now);
            come(&mut scene, end);
            assert_eq!(submits(&scene).len(), usize::from(requested), "{end:?}");
        }
    }
}

#[test]
fn what_was_handed_in_since_the_last_start_is_not_handed_in_again() {
    let mut scene = lent(Stopped::Owner, End::Deletion);
    scene.intent.submission.requested = Some(scene.now);
    scene.settle();
    hand_in(&mut scene, 1);
    let asked = scene.state.submissions.entries[0].asked_at;
    let mut deleted = scene.clone();
    come(&mut deleted, End::Deletion);
    assert_eq!(submits(&deleted).len(), 1);
    assert!(position(&deleted, |effect| *effect == Effect::Release).is_some());
    // Somebody works in it again: that work is another.
    scene.intent.running = true;
    scene.pods = Pods::AllReady;
    scene.pass(HOUR);
    assert!(scene.claims[0].held, "there is work again");
    come(&mut scene, End::Deletion);
    assert_eq!(submits(&scene), [("main".to_owned(), 1), ("main".to_owned(), 2)]);
    assert!(scene.state.submissions.entries[0].asked_at > asked, "under another key");
}

#[test]
fn an_upload_that_was_under_way_at_a_start_says_nothing_about_later_work() {
    let mut scene = lent(Stopped::Owner, End::Deletion);
    scene.intent.submission.requested = Some(scene.now);
    scene.settle();
    assert_eq!(submits(&scene).len(), 1);
    scene.intent.running = true;
    scene.pods = Pods::AllReady;
    scene.pass(HOUR);
    hand_in(&mut scene, 1);
    come(&mut scene, End::Deletion);
    assert_eq!(submits(&scene), [("main".to_owned(), 1), ("main".to_owned(), 2)]);
}

#[test]
fn the_end_of_a_lifespan_waits_visibly() {
    let mut scene = lent(Stopped::Nobody, End::Expiration);
    come(&mut scene, End::Expiration);
    let coming = scene.state.coming.clone().expect("something comes");
    assert_eq!((coming.action, coming.why), (Action::Submit, Reason::SubmissionPending));
    assert!(scene.ask().why.contains(&Reason::SubmissionPending));
    let ended = scene.state.ended.expect("it has ended");
    assert_eq!(ended.reason, EndReason::Expired);
    assert_eq!(scene.state.power.stop_reason, Some(StopReason::Expired));
}

#[test]
fn a_claim_is_held_for_as_long_as_its_data_is_owed() {
    let mut scene = Scene::handing_in(&[("main", None)]);
    scene.claims[0].held = false;
    scene.settle();
    assert!(scene.claims[0].held, "from the first start on");
    come(&mut scene, End::Deletion);
    assert!(scene.claims[0].held);
    scene.job("main", 1, 10, JobEnd::Failed { error: "refused".to_owned() });
    scene.pass(DAY);
    assert!(scene.claims[0].held, "it has failed, and is still owed");
    scene.intent.submission.waived = Some(scene.now);
    scene.settle();
    assert!(!scene.claims[0].held);
    let freed = position(&scene, |effect| matches!(effect, Effect::FreeClaim { .. })).unwrap();
    assert!(freed < position(&scene, |effect| *effect == Effect::Release).unwrap());

    let mut scene = Scene::handing_in(&[("main", None)]);
    scene.intent.submission.wanted.as_mut().unwrap().on_termination = false;
    scene.settle();
    assert!(!scene.claims[0].held, "nobody has asked for it");
    scene.intent.submission.requested = Some(scene.now);
    scene.settle();
    assert!(scene.claims[0].held);
}

#[test]
fn what_is_waived_before_its_end_goes_without_being_handed_in() {
    let mut scene = lent(Stopped::Owner, End::Deletion);
    scene.intent.submission.waived = Some(scene.now);
    scene.settle();
    assert!(!owes(&scene.state, &scene.intent));
    come(&mut scene, End::Deletion);
    assert_eq!(submits(&scene), []);
    assert!(position(&scene, |effect| *effect == Effect::Release).is_some());
}

#[test]
fn in_a_namespace_that_is_being_deleted_no_job_is_made_and_nothing_is_let_go() {
    let mut scene = lent(Stopped::Owner, End::Deletion);
    scene.namespace_leaves = true;
    come(&mut scene, End::Deletion);
    assert_eq!(submits(&scene), []);
    assert!(scene.claims[0].held);
    assert!(scene.ask().why.contains(&Reason::NamespaceLeaves));
    assert_eq!(position(&scene, |effect| *effect == Effect::Release), None);
    scene.intent.submission.waived = Some(scene.now);
    scene.settle();
    assert!(position(&scene, |effect| *effect == Effect::Release).is_some());
}

/// An exam that has ended and was handed in.
fn ended() -> Scene {
    let mut scene = lent(Stopped::Nobody, End::Termination);
    scene.answer = Some(Answer::Ends);
    scene.pass(HOUR);
    hand_in(&mut scene, 1);
    assert!(!scene.intent.running);
    scene.done.clear();
    scene
}

#[test]
fn what_has_ended_stays_off_whoever_asks_for_it_to_run() {
    let mut scene = ended();
    let end = scene.state.ended.unwrap();
    let started = scene.state.power.started_at;
    scene.answer = Some(Answer::Keeps { deadline: None });
    for _ in 0..3 {
        scene.intent.running = true;
        assert!(!runs(&scene.state, &scene.intent));
        let first = scene.decide();
        assert!(first.why.contains(&Reason::Ended { at: end.at }));
        assert_eq!(first.effects, [Effect::Stop(StopReason::Terminated)]);
        for effect in first.effects {
            scene.follow(effect);
        }
        scene.pass(HOUR);
        assert!(!scene.intent.running);
    }
    assert_eq!(scene.state.ended, Some(end), "written once");
    assert_eq!(scene.state.power.started_at, started);
    assert_eq!(submits(&scene), [], "and it is not handed in again");
}

#[test]
fn whoever_may_reopen_starts_it_again_and_it_ends_again() {
    let mut scene = ended();
    let first = scene.state.ended.unwrap();
    for wrong in [first.at - MINUTE, first.at + MINUTE] {
        scene.intent.reopen = Some(wrong);
        scene.settle();
        assert_eq!(scene.state.ended, Some(first), "it names another end");
    }
    scene.intent.reopen = Some(first.at);
    scene.intent.running = true;
    scene.pods = Pods::AllReady;
    scene.answer = Some(Answer::Keeps { deadline: None });
    scene.pass(HOUR);
    assert_eq!((scene.state.ended, scene.state.reopened), (None, Some(first.at)));
    assert!(scene.intent.running && runs(&scene.state, &scene.intent));
    // The mark stays there, and takes no later end back.
    scene.answer = Some(Answer::Ends);
    scene.pass(HOUR);
    let second = scene.state.ended.expect("it has ended again");
    assert!(second.at > first.at);
    assert!(!scene.intent.running);
    assert_eq!(submits(&scene), [("main".to_owned(), 2)], "what was written since is handed in");
}

#[test]
fn an_end_is_on_record_before_anything_follows_from_it() {
    let mut scene = lent(Stopped::Nobody, End::Expiration);
    scene.intent.expiration.notify = false;
    scene.go_to(at(DAY * 11));
    scene.pods = Pods::AllReady;
    let mut decisions = 0;
    while scene.state.ended.is_none() {
        let decision = scene.decide();
        assert!(!decision.effects.iter().any(|one| matches!(one, Effect::Stop(_))));
        decisions += 1;
        assert!(decisions < 5, "{decision:?}");
    }
    assert!(scene.decide().effects.contains(&Effect::Stop(StopReason::Expired)));
}
