use super::super::observed::Answer;
use super::super::scene::{DAY, HOUR, MINUTE, RUNNING, Scene, at};
use super::*;

mod history;

fn done(at: jiff::Timestamp) -> JobEnd {
    JobEnd::Done {
        at,
        size: Some(7),
        sha256: Some("ab".to_owned()),
        receipt: Some("no. 5".to_owned()),
    }
}

/// An exam that has ended, with its instance off.
fn ended(environments: &[(&str, Option<&str>)]) -> Scene {
    let mut scene = Scene::handing_in(environments);
    scene.answer = Some(Answer::Ends);
    scene.pass(MINUTE * 4);
    assert!(!scene.intent.running);
    scene
}

fn states(scene: &Scene) -> Vec<(&str, SubmissionState)> {
    let entries = scene.state.submissions.entries.iter();
    entries.map(|entry| (entry.environment.as_str(), entry.state)).collect()
}

fn submit(environment: &str, series: u32) -> Effect {
    Effect::Submit { environment: environment.to_owned(), series }
}

fn submits(scene: &Scene) -> Vec<Effect> {
    let done = scene.done.iter().map(|(_, effect)| effect.clone());
    done.filter(|effect| matches!(effect, Effect::Submit { .. })).collect()
}

// case: lab S1
#[test]
fn what_nobody_asked_for_is_not_handed_in() {
    let mut scene = Scene::handing_in(&[("main", None)]);
    scene.intent.running = false;
    scene.pods = Pods::Gone;
    scene.pass(DAY);
    assert_eq!(states(&scene), []);
    assert_eq!(submits(&scene), []);
}

// case: lab T12
#[test]
fn the_end_of_an_exam_asks_for_what_can_be_handed_in() {
    let scene = ended(&[("main", None), ("cache", Some("it keeps no data"))]);
    assert_eq!(
        states(&scene),
        [("main", SubmissionState::Running), ("cache", SubmissionState::Skipped)]
    );
    assert_eq!(submits(&scene), [submit("main", 1)]);
}

#[test]
fn it_waits_until_every_pod_is_gone() {
    let mut scene = Scene::handing_in(&[("main", None)]);
    scene.intent.submission.requested = Some(at(MINUTE));
    scene.pass(HOUR);
    assert_eq!(states(&scene), [("main", SubmissionState::Waiting)]);
    assert!(scene.intent.running, "a request does not stop it");
    scene.intent.running = false;
    for pods in [Pods::Some, Pods::Unknown] {
        scene.pods = pods;
        scene.pass(HOUR);
        assert_eq!(states(&scene), [("main", SubmissionState::Waiting)]);
    }
    scene.pods = Pods::Gone;
    let first = scene.decide();
    assert_eq!(first.effects, [], "written down first");
    assert_eq!(scene.decide().effects, [submit("main", 1)]);
}

// case: lab S6
#[test]
fn while_the_job_runs_nothing_is_written() {
    let mut scene = ended(&[("main", None)]);
    let before = scene.state.clone();
    scene.pass(DAY);
    assert_eq!(scene.state.submissions, before.submissions);
    assert_eq!(submits(&scene).len(), 1);
}

#[test]
fn what_was_handed_in_is_on_record_before_its_job_goes() {
    let mut scene = ended(&[("main", None)]);
    scene.job("main", 1, 2, done(at(HOUR)));
    let first = scene.decide();
    assert_eq!(first.effects, []);
    let entry = &first.next.submissions.entries[0];
    assert_eq!(entry.state, SubmissionState::Done);
    assert_eq!(entry.size, Some(7));
    assert_eq!(entry.sha256.as_deref(), Some("ab"));
    assert_eq!(entry.receipt.as_deref(), Some("no. 5"));
    assert_eq!(entry.submitted_at, Some(at(HOUR)));
    assert_eq!(entry.attempts, 3, "two that failed, and the one that did not");
    let removes = Effect::RemoveJob { environment: "main".to_owned(), series: 1 };
    let frees = Effect::FreeClaim { environment: "main".to_owned() };
    assert_eq!(scene.decide().effects, [frees, removes]);
    scene.pass(DAY);
    assert_eq!(submits(&scene).len(), 1);
    assert!(!scene.state.submissions.pending());
}

// case: lab S15
#[test]
fn a_job_that_is_gone_before_its_outcome_was_seen_is_made_again_in_the_same_series() {
    let mut scene = ended(&[("main", None)]);
    scene.jobs = vec![("main".to_owned(), Known::Unknown)];
    assert_eq!(scene.ask().effects, []);
    scene.jobs = vec![("main".to_owned(), Known::Absent)];
    assert_eq!(scene.ask().effects, [submit("main", 1)]);
}

// case: lab S15
#[test]
fn what_is_done_is_never_handed_in_again_though_its_job_is_gone() {
    let mut scene = ended(&[("main", None)]);
    scene.job("main", 1, 0, done(at(HOUR)));
    scene.settle();
    scene.jobs = vec![("main".to_owned(), Known::Absent)];
    scene.pass(DAY * 30);
    assert_eq!(submits(&scene).len(), 1);
}

// case: lab S8
#[test]
fn what_cannot_be_handed_in_any_more_says_why() {
    for (not, words) in [
        (Some("it keeps no data"), "it keeps no data"),
        (None, "no claim was made for it, so there is nothing to hand in"),
    ] {
        let mut scene = Scene::handing_in(&[("main", None)]);
        // It was asked for before anything of it was there.
        scene.claims.clear();
        scene.intent.submission.requested = Some(at(MINUTE));
        scene.settle();
        assert_eq!(states(&scene), [("main", SubmissionState::Waiting)]);
        let wanted = scene.intent.submission.wanted.as_mut().unwrap();
        wanted.environments[0].not_because = not.map(str::to_owned);
        scene.intent.running = false;
        scene.pods = Pods::Gone;
        scene.settle();
        let entry = &scene.state.submissions.entries[0];
        assert_eq!(entry.state, SubmissionState::Skipped);
        assert_eq!(entry.error.as_deref(), Some(words));
        assert!(!scene.state.submissions.pending());
    }
}

#[test]
fn what_is_handed_in_follows_the_claims_and_not_the_template_as_it_is_now() {
    let mut scene = Scene::handing_in(&[("kept", None), ("lost", None), ("cache", None)]);
    scene.claims.retain(|claim| claim.environment != "cache");
    scene.settle();
    // The template has lost one environment, and the persistence of another.
    let wanted = scene.intent.submission.wanted.as_mut().unwrap();
    wanted.environments.retain(|one| one.environment != "lost");
    wanted.environments[0].not_because = Some("it keeps no data".to_owned());
    wanted.environments[1].not_because = Some("it keeps no data".to_owned());
    scene.intent.persistent = false;
    scene.answer = Some(Answer::Ends);
    scene.pass(MINUTE * 6);
    for name in ["kept", "lost"] {
        let now = scene.now;
        scene.job(name, 1, 0, done(now));
        scene.settle();
    }
    assert_eq!(submits(&scene), [submit("kept", 1), submit("lost", 1)]);
    let skipped = ("cache", SubmissionState::Skipped);
    assert!(states(&scene).contains(&skipped), "{:?}", states(&scene));
}

#[test]
fn taking_the_destination_away_is_no_way_out() {
    let mut scene = Scene::handing_in(&[("main", None)]);
    scene.intent.submission.requested = Some(at(MINUTE));
    scene.settle();
    scene.intent.submission.wanted = None;
    scene.intent.deleting = true;
    scene.pods = Pods::Gone;
    scene.pass(DAY * 30);
    assert!(scene.state.submissions.pending());
    assert!(!scene.done.iter().any(|(_, effect)| *effect == Effect::Release));
}

// case: lab S9
#[test]
fn a_job_that_failed_for_good_is_told_and_not_made_again_until_somebody_says_so() {
    let mut scene = ended(&[("main", None)]);
    scene.job("main", 1, 10, JobEnd::Failed { error: "507 no space".to_owned() });
    scene.pass(DAY * 30);
    let entry = &scene.state.submissions.entries[0];
    assert_eq!((entry.state, entry.attempts), (SubmissionState::Failed, 10));
    assert_eq!(entry.error.as_deref(), Some("507 no space"));
    let told: Vec<_> = scene.told().into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(told, [NoticeKind::SubmissionFailed]);
    assert_eq!(submits(&scene).len(), 1);
    // Another try: the old Job goes first.
    scene.intent.submission.retried = Some(scene.now);
    scene.settle();
    let entry = &scene.state.submissions.entries[0];
    assert_eq!((entry.state, entry.series), (SubmissionState::Running, 2));
    assert_eq!(submits(&scene), [submit("main", 1), submit("main", 2)]);
    let removed = Effect::RemoveJob { environment: "main".to_owned(), series: 1 };
    assert!(scene.done.iter().any(|(_, effect)| *effect == removed));
    scene.job("main", 2, 0, done(scene.now));
    scene.settle();
    assert_eq!(states(&scene), [("main", SubmissionState::Done)]);
}

// case: lab S10
#[test]
fn a_slow_second_does_not_touch_the_first() {
    let mut scene = ended(&[("one", None), ("two", None)]);
    assert_eq!(submits(&scene), [submit("one", 1)]);
    scene.job("one", 1, 0, done(at(HOUR)));
    scene.settle();
    assert_eq!(states(&scene), [("one", SubmissionState::Done), ("two", SubmissionState::Running)]);
    scene.pass(DAY);
    scene.job("two", 1, 3, done(scene.now));
    scene.settle();
    assert_eq!(submits(&scene), [submit("one", 1), submit("two", 1)]);
    assert_eq!(scene.state.submissions.entries[0].submitted_at, Some(at(HOUR)));
}

// case: lab S11
#[test]
fn each_environment_has_its_own_outcome() {
    let mut scene = ended(&[("a", None), ("b", Some("it has no volume")), ("c", None)]);
    scene.job("a", 1, 10, JobEnd::Failed { error: "refused".to_owned() });
    scene.settle();
    scene.job("c", 1, 0, done(at(HOUR)));
    scene.settle();
    assert_eq!(
        states(&scene),
        [
            ("a", SubmissionState::Failed),
            ("b", SubmissionState::Skipped),
            ("c", SubmissionState::Done)
        ]
    );
    assert_eq!(scene.state.submissions.entries[1].error.as_deref(), Some("it has no volume"));
}

#[test]
fn what_is_waived_blocks_nothing_and_its_job_goes() {
    let mut scene = ended(&[("a", None), ("b", None)]);
    scene.intent.submission.waived = Some(scene.now);
    let first = scene.decide();
    assert_eq!(first.effects, []);
    assert_eq!(states(&scene), [("a", SubmissionState::Waived), ("b", SubmissionState::Waived)]);
    let removes = Effect::RemoveJob { environment: "a".to_owned(), series: 1 };
    let frees = |name: &str| Effect::FreeClaim { environment: name.to_owned() };
    assert_eq!(scene.decide().effects, [frees("a"), frees("b"), removes]);
}

#[test]
fn what_waits_goes_on_waiting_when_it_is_started_again() {
    let mut scene = Scene::handing_in(&[("a", None), ("b", None)]);
    scene.settle();
    scene.intent.submission.requested = Some(at(MINUTE));
    scene.intent.running = false;
    scene.pods = Pods::Gone;
    scene.settle();
    scene.intent.running = true;
    scene.pods = Pods::AllReady;
    scene.job("a", 1, 0, done(scene.now));
    scene.pass(HOUR);
    assert_eq!(states(&scene), [("a", SubmissionState::Done), ("b", SubmissionState::Waiting)]);
    scene.intent.running = false;
    scene.pods = Pods::Gone;
    scene.settle();
    assert_eq!(submits(&scene), [submit("a", 1), submit("b", 1)]);
}

#[test]
fn a_second_request_hands_in_again_in_another_series() {
    let mut scene = ended(&[("main", None)]);
    scene.job("main", 1, 0, done(at(HOUR)));
    scene.settle();
    scene.intent.submission.requested = Some(at(HOUR * 2));
    scene.settle();
    assert_eq!(submits(&scene), [submit("main", 1), submit("main", 2)]);
    scene.pass(DAY);
    assert_eq!(submits(&scene).len(), 2, "the same request is not a new one");
}

#[test]
fn switched_off_nothing_begins_and_what_is_pending_still_blocks() {
    let mut scene = Scene::handing_in(&[("main", None)]);
    scene.intent.submission.enabled = false;
    scene.answer = Some(Answer::Ends);
    scene.pass(HOUR);
    assert_eq!(states(&scene), [("main", SubmissionState::Waiting)]);
    assert_eq!(submits(&scene), []);
    scene.intent.submission.enabled = true;
    scene.settle();
    assert_eq!(submits(&scene), [submit("main", 1)]);
    let mut scene = ended(&[("a", None), ("b", None)]);
    scene.intent.submission.enabled = false;
    scene.job("a", 1, 0, done(at(HOUR)));
    scene.pass(HOUR);
    assert_eq!(states(&scene), [("a", SubmissionState::Done), ("b", SubmissionState::Waiting)]);
    assert!(scene.state.submissions.pending());
}

#[test]
fn a_job_whose_record_was_lost_is_taken_up() {
    let mut scene = ended(&[("main", None)]);
    scene.state.submissions.entries.clear();
    scene.job("main", 3, 1, RUNNING);
    scene.settle();
    let entry = &scene.state.submissions.entries[0];
    assert_eq!((entry.state, entry.series), (SubmissionState::Running, 3));
    assert_eq!(submits(&scene).len(), 1);
}

#[test]
fn an_upload_that_fails_is_told_while_it_is_tried_again() {
    let mut scene = ended(&[("main", None)]);
    let entry = |scene: &Scene| scene.state.submissions.entries[0].clone();
    assert_eq!((entry(&scene).attempts, entry(&scene).error), (0, None));
    let retry_at = Some(scene.now + MINUTE);
    let error = Some("the upload answered 500".to_owned());
    scene.job("main", 1, 2, JobEnd::Running { error: error.clone(), retry_at });
    scene.settle();
    let failing = entry(&scene);
    assert_eq!(failing.state, SubmissionState::Running);
    assert_eq!((failing.attempts, failing.error, failing.retry_at), (2, error, retry_at));
    scene.job("main", 1, 2, done(at(HOUR)));
    scene.settle();
    let over = entry(&scene);
    assert_eq!((over.attempts, over.error, over.retry_at), (3, None, None));
    // A first success is attempt 1.
    let mut scene = ended(&[("main", None)]);
    scene.job("main", 1, 0, done(at(HOUR)));
    scene.settle();
    assert_eq!(entry(&scene).attempts, 1);
}
