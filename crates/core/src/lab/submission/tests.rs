use super::super::observed::{Claim, StatusAnswer};
use super::super::test_instance::{DAY, HOUR, MINUTE, RUNNING, TestInstance, at};
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
fn ended(environments: &[(&str, Option<&str>)]) -> TestInstance {
    let mut instance = TestInstance::submitting(environments);
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(MINUTE * 4);
    assert!(!instance.intent.running);
    instance
}

fn states(instance: &TestInstance) -> Vec<(&str, SubmissionState)> {
    let entries = instance.state.submissions.entries.iter();
    entries.map(|entry| (entry.environment.as_str(), entry.state)).collect()
}

fn submit(environment: &str, series: u32) -> Effect {
    Effect::Submit { environment: environment.to_owned(), series }
}

fn submits(instance: &TestInstance) -> Vec<Effect> {
    let done = instance.done.iter().map(|(_, effect)| effect.clone());
    done.filter(|effect| matches!(effect, Effect::Submit { .. })).collect()
}

// case: lab S1
#[test]
fn what_nobody_asked_for_is_not_handed_in() {
    let mut instance = TestInstance::submitting(&[("main", None)]);
    instance.intent.running = false;
    instance.pods = Pods::Gone;
    instance.advance(DAY);
    assert_eq!(states(&instance), []);
    assert_eq!(submits(&instance), []);
}

// case: lab T12
#[test]
fn the_end_of_an_exam_asks_for_what_can_be_handed_in() {
    let instance = ended(&[("main", None), ("cache", Some("it keeps no data"))]);
    assert_eq!(
        states(&instance),
        [("main", SubmissionState::Running), ("cache", SubmissionState::Skipped)]
    );
    assert_eq!(submits(&instance), [submit("main", 1)]);
}

#[test]
fn it_waits_until_every_pod_is_gone() {
    let mut instance = TestInstance::submitting(&[("main", None)]);
    instance.intent.submission.requested = Some(at(MINUTE));
    instance.advance(HOUR);
    assert_eq!(states(&instance), [("main", SubmissionState::Waiting)]);
    assert!(instance.intent.running, "a request does not stop it");
    instance.intent.running = false;
    for pods in [Pods::Some, Pods::Unknown] {
        instance.pods = pods;
        instance.advance(HOUR);
        assert_eq!(states(&instance), [("main", SubmissionState::Waiting)]);
    }
    instance.pods = Pods::Gone;
    let first = instance.decide();
    assert_eq!(first.effects, [], "written down first");
    assert_eq!(instance.decide().effects, [submit("main", 1)]);
}

// case: lab S6
#[test]
fn while_the_job_runs_nothing_is_written() {
    let mut instance = ended(&[("main", None)]);
    let before = instance.state.clone();
    instance.advance(DAY);
    assert_eq!(instance.state.submissions, before.submissions);
    assert_eq!(submits(&instance).len(), 1);
}

#[test]
fn what_was_handed_in_is_on_record_before_its_job_goes() {
    let mut instance = ended(&[("main", None)]);
    instance.job("main", 1, 2, done(at(HOUR)));
    let first = instance.decide();
    assert_eq!(first.effects, []);
    let entry = &first.next.submissions.entries[0];
    assert_eq!(entry.state, SubmissionState::Done);
    assert_eq!(entry.size, Some(7));
    assert_eq!(entry.sha256.as_deref(), Some("ab"));
    assert_eq!(entry.receipt.as_deref(), Some("no. 5"));
    assert_eq!(entry.submitted_at, Some(at(HOUR)));
    assert_eq!(entry.attempts, 3, "two that failed, and the one that did not");
    let removes = Effect::RemoveJob { environment: "main".to_owned(), series: 1 };
    let frees = Effect::RemoveClaimFinalizer { environment: "main".to_owned() };
    assert_eq!(instance.decide().effects, [frees, removes]);
    instance.advance(DAY);
    assert_eq!(submits(&instance).len(), 1);
    assert!(!instance.state.submissions.pending());
}

// case: lab S15
#[test]
fn a_job_that_is_gone_before_its_outcome_was_seen_is_made_again_in_the_same_series() {
    let mut instance = ended(&[("main", None)]);
    instance.jobs = vec![("main".to_owned(), Known::Unknown)];
    assert_eq!(instance.decision().effects, []);
    instance.jobs = vec![("main".to_owned(), Known::Absent)];
    assert_eq!(instance.decision().effects, [submit("main", 1)]);
}

// case: lab S15
#[test]
fn what_is_done_is_never_handed_in_again_though_its_job_is_gone() {
    let mut instance = ended(&[("main", None)]);
    instance.job("main", 1, 0, done(at(HOUR)));
    instance.settle();
    instance.jobs = vec![("main".to_owned(), Known::Absent)];
    instance.advance(DAY * 30);
    assert_eq!(submits(&instance).len(), 1);
}

// case: lab S8
#[test]
fn what_cannot_be_handed_in_any_more_says_why() {
    for (not, words) in [
        (Some("it keeps no data"), "it keeps no data"),
        (None, "no claim was made for it, so there is nothing to hand in"),
    ] {
        let mut instance = TestInstance::submitting(&[("main", None)]);
        // It was asked for before anything of it was there.
        instance.claims.clear();
        instance.intent.submission.requested = Some(at(MINUTE));
        instance.settle();
        assert_eq!(states(&instance), [("main", SubmissionState::Waiting)]);
        let wanted = instance.intent.submission.wanted.as_mut().unwrap();
        wanted.environments[0].not_because = not.map(str::to_owned);
        instance.intent.running = false;
        instance.pods = Pods::Gone;
        instance.settle();
        let entry = &instance.state.submissions.entries[0];
        assert_eq!(entry.state, SubmissionState::Skipped);
        assert_eq!(entry.error.as_deref(), Some(words));
        assert!(!instance.state.submissions.pending());
    }
}

#[test]
fn what_is_handed_in_follows_the_claims_and_not_the_template_as_it_is_now() {
    let mut instance = TestInstance::submitting(&[("kept", None), ("lost", None), ("cache", None)]);
    instance.claims.retain(|claim| claim.environment != "cache");
    instance.settle();
    // The template has lost one environment, and the persistence of another.
    let wanted = instance.intent.submission.wanted.as_mut().unwrap();
    wanted.environments.retain(|one| one.environment != "lost");
    wanted.environments[0].not_because = Some("it keeps no data".to_owned());
    wanted.environments[1].not_because = Some("it keeps no data".to_owned());
    instance.intent.persistent = false;
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(MINUTE * 6);
    for name in ["kept", "lost"] {
        let now = instance.now;
        instance.job(name, 1, 0, done(now));
        instance.settle();
    }
    assert_eq!(submits(&instance), [submit("kept", 1), submit("lost", 1)]);
    let skipped = ("cache", SubmissionState::Skipped);
    assert!(states(&instance).contains(&skipped), "{:?}", states(&instance));
}

#[test]
fn taking_the_destination_away_is_no_way_out() {
    let mut instance = TestInstance::submitting(&[("main", None)]);
    instance.intent.submission.requested = Some(at(MINUTE));
    instance.settle();
    instance.intent.submission.wanted = None;
    instance.intent.deleting = true;
    instance.pods = Pods::Gone;
    instance.advance(DAY * 30);
    assert!(instance.state.submissions.pending());
    assert!(!instance.done.iter().any(|(_, effect)| *effect == Effect::RemoveFinalizer));
}

// case: lab S9
#[test]
fn a_job_that_failed_for_good_is_told_and_not_made_again_until_somebody_says_so() {
    let mut instance = ended(&[("main", None)]);
    instance.job("main", 1, 10, JobEnd::Failed { error: "507 no space".to_owned() });
    instance.advance(DAY * 30);
    let entry = &instance.state.submissions.entries[0];
    assert_eq!((entry.state, entry.attempts), (SubmissionState::Failed, 10));
    assert_eq!(entry.error.as_deref(), Some("507 no space"));
    let told: Vec<_> = instance.sent_notices().into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(told, [NoticeKind::SubmissionFailed]);
    assert_eq!(submits(&instance).len(), 1);
    // Another try: the old Job goes first.
    instance.intent.submission.retried = Some(instance.now);
    instance.settle();
    let entry = &instance.state.submissions.entries[0];
    assert_eq!((entry.state, entry.series), (SubmissionState::Running, 2));
    assert_eq!(submits(&instance), [submit("main", 1), submit("main", 2)]);
    let removed = Effect::RemoveJob { environment: "main".to_owned(), series: 1 };
    assert!(instance.done.iter().any(|(_, effect)| *effect == removed));
    instance.job("main", 2, 0, done(instance.now));
    instance.settle();
    assert_eq!(states(&instance), [("main", SubmissionState::Done)]);
}

// case: lab S10
#[test]
fn a_slow_second_does_not_touch_the_first() {
    let mut instance = ended(&[("one", None), ("two", None)]);
    assert_eq!(submits(&instance), [submit("one", 1)]);
    instance.job("one", 1, 0, done(at(HOUR)));
    instance.settle();
    assert_eq!(
        states(&instance),
        [("one", SubmissionState::Done), ("two", SubmissionState::Running)]
    );
    instance.advance(DAY);
    instance.job("two", 1, 3, done(instance.now));
    instance.settle();
    assert_eq!(submits(&instance), [submit("one", 1), submit("two", 1)]);
    assert_eq!(instance.state.submissions.entries[0].submitted_at, Some(at(HOUR)));
}

// case: lab S11
#[test]
fn each_environment_has_its_own_outcome() {
    let mut instance = ended(&[("a", None), ("b", Some("it has no volume")), ("c", None)]);
    instance.job("a", 1, 10, JobEnd::Failed { error: "refused".to_owned() });
    instance.settle();
    instance.job("c", 1, 0, done(at(HOUR)));
    instance.settle();
    assert_eq!(
        states(&instance),
        [
            ("a", SubmissionState::Failed),
            ("b", SubmissionState::Skipped),
            ("c", SubmissionState::Done)
        ]
    );
    assert_eq!(instance.state.submissions.entries[1].error.as_deref(), Some("it has no volume"));
}

#[test]
fn what_is_waived_blocks_nothing_and_its_job_goes() {
    let mut instance = ended(&[("a", None), ("b", None)]);
    instance.intent.submission.waived = Some(instance.now);
    let first = instance.decide();
    assert_eq!(first.effects, []);
    assert_eq!(states(&instance), [("a", SubmissionState::Waived), ("b", SubmissionState::Waived)]);
    let removes = Effect::RemoveJob { environment: "a".to_owned(), series: 1 };
    let frees = |name: &str| Effect::RemoveClaimFinalizer { environment: name.to_owned() };
    assert_eq!(instance.decide().effects, [frees("a"), frees("b"), removes]);
}

#[test]
fn what_waits_goes_on_waiting_when_it_is_started_again() {
    let mut instance = TestInstance::submitting(&[("a", None), ("b", None)]);
    instance.settle();
    instance.intent.submission.requested = Some(at(MINUTE));
    instance.intent.running = false;
    instance.pods = Pods::Gone;
    instance.settle();
    instance.intent.running = true;
    instance.pods = Pods::AllReady;
    instance.job("a", 1, 0, done(instance.now));
    instance.advance(HOUR);
    assert_eq!(states(&instance), [("a", SubmissionState::Done), ("b", SubmissionState::Waiting)]);
    instance.intent.running = false;
    instance.pods = Pods::Gone;
    instance.settle();
    assert_eq!(submits(&instance), [submit("a", 1), submit("b", 1)]);
}

#[test]
fn a_second_request_hands_in_again_in_another_series() {
    let mut instance = ended(&[("main", None)]);
    instance.job("main", 1, 0, done(at(HOUR)));
    instance.settle();
    instance.intent.submission.requested = Some(at(HOUR * 2));
    instance.settle();
    assert_eq!(submits(&instance), [submit("main", 1), submit("main", 2)]);
    instance.advance(DAY);
    assert_eq!(submits(&instance).len(), 2, "the same request is not a new one");
}

#[test]
fn switched_off_nothing_begins_and_what_is_pending_still_blocks() {
    let mut instance = TestInstance::submitting(&[("main", None)]);
    instance.intent.submission.enabled = false;
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(HOUR);
    assert_eq!(states(&instance), [("main", SubmissionState::Waiting)]);
    assert_eq!(submits(&instance), []);
    instance.intent.submission.enabled = true;
    instance.settle();
    assert_eq!(submits(&instance), [submit("main", 1)]);
    let mut instance = ended(&[("a", None), ("b", None)]);
    instance.intent.submission.enabled = false;
    instance.job("a", 1, 0, done(at(HOUR)));
    instance.advance(HOUR);
    assert_eq!(states(&instance), [("a", SubmissionState::Done), ("b", SubmissionState::Waiting)]);
    assert!(instance.state.submissions.pending());
}

#[test]
fn a_job_whose_record_was_lost_is_taken_up() {
    let mut instance = ended(&[("main", None)]);
    instance.state.submissions.entries.clear();
    instance.job("main", 3, 1, RUNNING);
    instance.settle();
    let entry = &instance.state.submissions.entries[0];
    assert_eq!((entry.state, entry.series), (SubmissionState::Running, 3));
    assert_eq!(submits(&instance).len(), 1);
}

#[test]
fn an_upload_that_fails_is_told_while_it_is_tried_again() {
    let mut instance = ended(&[("main", None)]);
    let entry = |instance: &TestInstance| instance.state.submissions.entries[0].clone();
    assert_eq!((entry(&instance).attempts, entry(&instance).error), (0, None));
    let retry_at = Some(instance.now + MINUTE);
    let error = Some("the upload answered 500".to_owned());
    instance.job("main", 1, 2, JobEnd::Running { error: error.clone(), retry_at, late_at: None });
    instance.settle();
    let failing = entry(&instance);
    assert_eq!(failing.state, SubmissionState::Running);
    assert_eq!((failing.attempts, failing.error, failing.retry_at), (2, error, retry_at));
    instance.job("main", 1, 2, done(at(HOUR)));
    instance.settle();
    let over = entry(&instance);
    assert_eq!((over.attempts, over.error, over.retry_at), (3, None, None));
    // A first success is attempt 1.
    let mut instance = ended(&[("main", None)]);
    instance.job("main", 1, 0, done(at(HOUR)));
    instance.settle();
    assert_eq!(entry(&instance).attempts, 1);
}

#[test]
fn an_attempt_that_does_not_start_is_looked_at_when_it_is_late_and_says_why() {
    let mut instance = ended(&[("main", None)]);
    let late = instance.now + MINUTE;
    let waits = JobEnd::Running { error: None, retry_at: None, late_at: Some(late) };
    instance.job("main", 1, 0, waits);
    let settled = instance.settle();
    assert!(settled.wake.at().is_some_and(|at| at <= late), "{:?}", settled.wake);
    assert_eq!(instance.state.submissions.entries[0].error, None);
    let error = Some("its Pod has not started".to_owned());
    instance.job(
        "main",
        1,
        0,
        JobEnd::Running { error: error.clone(), retry_at: None, late_at: None },
    );
    instance.settle();
    let entry = &instance.state.submissions.entries[0];
    assert_eq!((entry.state, entry.attempts), (SubmissionState::Running, 0));
    assert_eq!(entry.error, error);
    instance.job("main", 1, 0, RUNNING);
    instance.settle();
    assert_eq!(instance.state.submissions.entries[0].error, None, "it runs after all");
}

#[test]
fn a_claim_that_was_taken_away_is_told_and_waits_to_be_waived() {
    let mut instance = TestInstance::submitting(&[("main", None), ("other", None)]);
    instance.settle();
    instance.claims.retain(|claim| claim.environment != "main");
    instance.answer = Some(StatusAnswer::Ends);
    instance.advance(MINUTE * 6);
    assert_eq!(
        states(&instance),
        [("main", SubmissionState::Failed), ("other", SubmissionState::Running)]
    );
    let error = instance.state.submissions.entries[0].error.clone().unwrap_or_default();
    assert!(error.starts_with("its claim was deleted"), "{error}");
    let told: Vec<_> = instance.sent_notices().into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(told, [NoticeKind::SubmissionFailed]);
    assert_eq!(submits(&instance), [submit("other", 1)], "there is nothing to hand in");
    instance.advance(DAY);
    assert_eq!(submits(&instance).len(), 1);
    // Somebody has restored it.
    let restored = Claim { environment: "main".to_owned(), has_finalizer: true, bound: true };
    instance.claims.push(restored);
    instance.job("other", 1, 0, done(instance.now));
    instance.intent.submission.retried = Some(instance.now);
    instance.settle();
    assert_eq!(submits(&instance), [submit("other", 1), submit("main", 2)]);
}
