//! Random exams: Jobs come, go, fail and are forgotten, decisions get lost, and nothing is handed
//! in twice or lost.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::super::ending::{environment_needs_submission, needs_submission, runs};
use super::super::super::observed::StatusAnswer;
use super::super::super::test_instance::{MINUTE, TestInstance};
use super::*;

#[derive(Debug, Clone, Copy)]
enum Event {
    Pass,
    Ends,
    Power(bool),
    Pods(Pods),
    /// The Job of the n-th environment: it ends well, ends badly, is removed, cannot be asked for.
    Succeeds(usize),
    Fails(usize),
    Vanishes(usize),
    Hides(usize),
    Request,
    Retry,
    Waive,
    Delete,
    Enabled(bool),
}

fn event() -> impl Strategy<Value = Event> {
    let n = || 0_usize..2;
    prop_oneof![
        6 => Just(Event::Pass),
        2 => Just(Event::Ends),
        1 => any::<bool>().prop_map(Event::Power),
        2 => Just(Event::Pods(Pods::Gone)),
        1 => Just(Event::Pods(Pods::Some)),
        3 => n().prop_map(Event::Succeeds),
        1 => n().prop_map(Event::Fails),
        1 => n().prop_map(Event::Vanishes),
        1 => n().prop_map(Event::Hides),
        1 => Just(Event::Request),
        1 => Just(Event::Retry),
        1 => Just(Event::Waive),
        1 => Just(Event::Delete),
        1 => prop::bool::weighted(0.8).prop_map(Event::Enabled),
    ]
}

const NAMES: [&str; 2] = ["a", "b"];

fn series(instance: &TestInstance, name: &str) -> Option<u32> {
    let entries = &instance.state.submissions.entries;
    entries.iter().find(|entry| entry.environment == name).map(|entry| entry.series)
}

fn happen(instance: &mut TestInstance, event: Event) {
    let now = instance.now;
    match event {
        Event::Pass => instance.advance_to(now + MINUTE),
        Event::Ends => instance.answer = Some(StatusAnswer::Ends),
        Event::Power(running) => instance.intent.running = running,
        Event::Pods(pods) => instance.pods = pods,
        Event::Succeeds(n) | Event::Fails(n) => {
            let known = instance.jobs.iter().find(|(name, _)| name == NAMES[n]);
            if let Some((_, Known::Is(job))) = known {
                let (series, failed) = (job.series, matches!(event, Event::Fails(_)));
                let error = || "no".to_owned();
                let end = if failed { JobEnd::Failed { error: error() } } else { super::done(now) };
                instance.job(NAMES[n], series, u32::from(failed) * 10, end);
            }
        }
        Event::Vanishes(n) | Event::Hides(n) => {
            let known = instance.jobs.iter_mut().find(|(name, _)| name == NAMES[n]);
            if let Some((_, job)) = known {
                let hidden = matches!(event, Event::Hides(_));
                *job = if hidden { Known::Unknown } else { Known::Absent };
            }
        }
        Event::Request => instance.intent.submission.requested = Some(now),
        Event::Retry => instance.intent.submission.retried = Some(now),
        Event::Waive => instance.intent.submission.waived = Some(now),
        Event::Delete => instance.intent.deleting = true,
        Event::Enabled(enabled) => instance.intent.submission.enabled = enabled,
    }
}

/// What a decision may ask for, given what is on record.
fn judge(instance: &TestInstance, recorded: &BTreeSet<(String, u32)>, effect: &Effect) {
    let entry = |name: &str| {
        let entries = &instance.state.submissions.entries;
        entries.iter().find(|entry| entry.environment == name).expect("an entry on record")
    };
    match effect {
        Effect::Submit { environment, series } => {
            let entry = entry(environment);
            assert_eq!((entry.state, entry.series), (SubmissionState::Running, *series));
            assert_eq!(instance.pods, Pods::Gone);
            // What has ended does not run, whoever wants it to.
            assert!(!runs(&instance.state, &instance.intent));
            let done = recorded.contains(&(environment.clone(), *series));
            assert!(!done, "handed in twice in one series");
        }
        Effect::RemoveJob { environment, series } => {
            let entry = entry(environment);
            let over = match entry.state {
                SubmissionState::Done | SubmissionState::Waived | SubmissionState::Skipped => true,
                SubmissionState::Waiting | SubmissionState::Running | SubmissionState::Failed => {
                    false
                }
            };
            assert!(over || *series < entry.series, "{environment} is not on record yet");
        }
        Effect::RemoveFinalizer | Effect::Delete => {
            assert!(!needs_submission(&instance.state, &instance.intent), "{:?}", instance.state);
        }
        Effect::RemoveClaimFinalizer { environment } => {
            assert!(
                !environment_needs_submission(&instance.state, &instance.intent, environment),
                "{environment} is owed"
            );
        }
        Effect::AddClaimFinalizer { .. } | Effect::Notify(_) | Effect::Stop(_) | Effect::Check => {}
    }
}

proptest! {
    #[test]
    fn nothing_is_handed_in_twice_or_lost(
        history in prop::collection::vec((event(), any::<bool>()), 1..80),
    ) {
        let mut instance = TestInstance::submitting(&[("a", None), ("b", None)]);
        let mut recorded = BTreeSet::new();
        let mut last = [0_u32; 2];
        for (event, lost) in history {
            happen(&mut instance, event);
            for _ in 0..2 {
                let decision = instance.decision();
                for effect in &decision.effects {
                    judge(&instance, &recorded, effect);
                }
                if lost {
                    let before = instance.clone();
                    instance.settle_once();
                    (instance.state, instance.check) = (before.state, instance.check);
                } else {
                    instance.settle_once();
                }
                for entry in &instance.state.submissions.entries {
                    if entry.state == SubmissionState::Done {
                        recorded.insert((entry.environment.clone(), entry.series));
                    }
                }
                for (n, name) in NAMES.into_iter().enumerate() {
                    let series = series(&instance, name).unwrap_or(last[n]);
                    prop_assert!(series >= last[n], "a series never goes back");
                    last[n] = series;
                }
            }
        }
    }
}
