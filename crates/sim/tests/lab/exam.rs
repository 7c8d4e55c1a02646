//! Exams: looked at until somebody says that they are over, then stopped and handed in.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::lab::Instance;
use sojourn_api::lab::status::{Phase, StopReason, SubmissionState};
use sojourn_api::name::lab::{self, condition};
use sojourn_drivers::probe::Observation;
use sojourn_drivers::probe::fake::Step;
use sojourn_sim::kubelet::PodFailureRates;
use sojourn_sim::lab::invariants::Policy;
use sojourn_sim::lab::people::Design;
use sojourn_sim::lab::simulation::LabSimulation;

use crate::fixture::{
    DAY, HOUR, MINUTE, condition, hours, key, lend, simulation, status, template, told,
};

const EXAM: &str = "https://exam.example/one";
const HAND_IN: &str = "https://hand-in.example/";

fn design(environments: usize) -> Design {
    let policy = Policy { persistent: true, ..Policy::default() };
    Design { policy, environments }
}

fn spec() -> Value {
    json!({
        "statusCheck": {"url": EXAM},
        "submission": {"url": HAND_IN, "when": "OnTermination"},
    })
}

async fn exam(environments: usize) -> LabSimulation {
    let simulation = simulation(&design(environments), "").await;
    lend(&simulation, "one", spec()).await;
    simulation
}

fn end(simulation: &LabSimulation) {
    simulation.checker.lock().exam_ends(&key("one"));
    simulation.drivers.probe.set(EXAM, Observation::Ends);
}

fn states(instance: &Instance) -> Vec<Option<SubmissionState>> {
    status(instance).submission.iter().map(|entry| entry.state).collect()
}

fn all_are(wanted: SubmissionState) -> impl Fn(&Instance) -> bool {
    move |one| !states(one).is_empty() && states(one).iter().all(|state| *state == Some(wanted))
}

async fn jobs(simulation: &LabSimulation) -> Vec<Job> {
    let api: Api<Job> = Api::namespaced(simulation.client.clone(), "lab");
    api.list(&ListParams::default()).await.expect("people's requests work").items
}

// case: lab T1, T4
#[tokio::test(start_paused = true)]
async fn a_status_url_makes_an_instance_watched_and_nothing_else_does() {
    let simulation = exam(1).await;
    lend(&simulation, "two", json!({})).await;
    simulation.pass(HOUR).await;
    let checks = simulation.drivers.probe.take_checks();
    assert!(checks.iter().all(|check| check.place == EXAM));
    assert!((29..=31).contains(&checks.len()), "every two minutes, not {} times", checks.len());
    simulation.assert_invariants();
}

// case: lab T2
#[tokio::test(start_paused = true)]
async fn what_has_ended_is_left_alone() {
    let simulation = exam(1).await;
    end(&simulation);
    let ended = simulation.until(HOUR, &key("one"), all_are(SubmissionState::Done)).await;
    simulation.pass(HOUR).await;
    simulation.drivers.probe.take_checks();
    let before = simulation.instance(&key("one")).await.expect("it is there");
    assert_eq!(status(&ended).stop_reason, Some(StopReason::Terminated));
    // The exam's server has changed its mind, and the operator has forgotten everything.
    simulation.drivers.probe.set(EXAM, Observation::Keeps { deadline: None });
    simulation.operator.kill();
    simulation.pass(DAY).await;
    assert_eq!(simulation.drivers.probe.take_checks(), [], "nobody asks about it any more");
    assert_eq!(simulation.instance(&key("one")).await, Some(before), "and nothing is written");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn what_was_switched_off_stays_off() {
    let simulation = simulation(&design(1), "enableInstanceTermination: false\n").await;
    simulation.drivers.probe.set(EXAM, Observation::Ends);
    lend(&simulation, "one", spec()).await;
    simulation.pass(DAY).await;
    assert!(simulation.instance(&key("one")).await.expect("it is there").spec.running);
    assert_eq!(simulation.drivers.probe.take_checks(), []);
    simulation.assert_invariants();
}

// case: lab T11
#[tokio::test(start_paused = true)]
async fn without_a_url_its_own_endpoint_is_looked_at_and_garbage_is_told_without_haste() {
    let simulation = simulation(&design(1), "").await;
    lend(&simulation, "one", json!({"statusCheck": {}})).await;
    simulation.pass(HOUR).await;
    let checks = simulation.drivers.probe.take_checks();
    assert!(!checks.is_empty() && checks.iter().all(|check| check.place.ends_with(":8080")));
    let place = checks[0].place.clone();
    simulation.drivers.probe.set(place, Observation::Unclear("not HTTP".to_owned()));
    let before = simulation.operator.reconciles();
    simulation.pass(HOUR).await;
    let one = simulation.instance(&key("one")).await.expect("it is there");
    assert!(one.spec.running);
    let told = condition(&one, condition::STATUS_CHECKED);
    assert_eq!(told, Some(("Unclear".to_owned(), false)));
    let looks = simulation.operator.reconciles() - before;
    assert!(looks <= 150, "{looks} looks for 30 checks");
    simulation.assert_invariants();
}

// case: lab T14
#[tokio::test(start_paused = true)]
async fn what_others_wrote_on_it_is_still_there_after_the_end() {
    let simulation = exam(1).await;
    let others = json!({"metadata": {"labels": {"room": "12"}, "annotations": {"seat": "3"}}});
    simulation.change(&key("one"), &others).await;
    end(&simulation);
    let ended = simulation.until(HOUR, &key("one"), all_are(SubmissionState::Done)).await;
    assert_eq!(ended.labels().get("room").map(String::as_str), Some("12"));
    assert_eq!(ended.annotations().get("seat").map(String::as_str), Some("3"));
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn one_stray_answer_ends_nothing_and_three_in_a_row_do() {
    let simulation = exam(1).await;
    let keeps = Observation::Keeps { deadline: None };
    let stray = [Observation::Ends, Observation::Ends, keeps.clone(), Observation::Ends, keeps];
    simulation.drivers.probe.script(EXAM, stray.map(Step::answer));
    simulation.pass(HOUR).await;
    assert!(simulation.instance(&key("one")).await.expect("it is there").spec.running);
    end(&simulation);
    let begin = simulation.now();
    let ended = simulation.until(HOUR, &key("one"), |one| !one.spec.running).await;
    assert_eq!(status(&ended).stop_reason, Some(StopReason::Terminated));
    assert!(simulation.now().duration_since(begin).as_secs() <= 3 * 120 + 5);
    simulation.assert_invariants();
}

// case: lab T15
#[tokio::test(start_paused = true)]
async fn a_slow_endpoint_is_asked_no_more_often_than_the_interval() {
    let simulation = exam(1).await;
    let slow =
        Step::answer(Observation::Keeps { deadline: None }).after(Duration::from_millis(2500));
    simulation.drivers.probe.script(EXAM, std::iter::repeat_n(slow, 100));
    simulation.drivers.probe.take_checks();
    simulation.pass(HOUR * 2).await;
    let checks = simulation.drivers.probe.take_checks().len();
    assert!((55..=60).contains(&checks), "{checks} checks in two hours");
    simulation.assert_invariants();
}

// case: lab T16
#[tokio::test(start_paused = true)]
async fn a_missing_template_does_not_hinder_the_stop() {
    let simulation = exam(1).await;
    simulation.remove_template(&template()).await;
    end(&simulation);
    let ended = simulation.until(HOUR, &key("one"), |one| !one.spec.running).await;
    assert_eq!(status(&ended).stop_reason, Some(StopReason::Terminated));
    simulation.make_template(&template(), &design(1)).await;
    simulation.until(HOUR, &key("one"), all_are(SubmissionState::Done)).await;
    simulation.assert_invariants();
}

// case: lab S3
#[tokio::test(start_paused = true)]
async fn an_environment_that_can_be_handed_in_gets_a_job_with_owner_and_labels() {
    let simulation = exam(1).await;
    end(&simulation);
    let off = simulation.until(HOUR, &key("one"), |one| !states(one).is_empty()).await;
    simulation
        .until(HOUR, &key("one"), |one| states(one) == [Some(SubmissionState::Running)])
        .await;
    simulation.pass(Duration::from_secs(1)).await;
    let jobs = jobs(&simulation).await;
    assert_eq!(jobs.len(), 1);
    let owner = &jobs[0].owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Instance", "one"));
    assert_eq!(Some(&owner.uid), off.metadata.uid.as_ref());
    let label = |name: &str| jobs[0].labels().get(name).map(String::as_str);
    assert_eq!((label(lab::INSTANCE), label(lab::ENVIRONMENT)), (Some("one"), Some("web")));
    let done = simulation.until(HOUR, &key("one"), all_are(SubmissionState::Done)).await;
    assert_eq!(status(&done).phase, Some(Phase::Off));
    let entry = &status(&done).submission[0];
    assert_eq!((entry.size, entry.attempts), (Some(4096), 1), "a first success is attempt 1");
    assert_eq!(entry.sha256.as_deref(), Some("0f".repeat(32).as_str()));
    simulation.assert_invariants();
}

// case: lab S9
#[tokio::test(start_paused = true)]
async fn a_job_that_failed_for_good_is_told_and_tried_again_only_when_somebody_says_so() {
    let simulation = exam(1).await;
    simulation.kubelet.refuse(HAND_IN, true);
    end(&simulation);
    let retries = |one: &Instance| status(one).submission.iter().any(|entry| entry.attempts == 2);
    let failing = simulation.until(DAY, &key("one"), retries).await;
    let entry = &status(&failing).submission[0];
    assert_eq!(entry.error.as_deref(), Some("the upload answered 500"));
    assert!(entry.retry_at.is_some(), "{entry:?}");
    assert_eq!(condition(&failing, condition::SUBMITTED), Some(("Retrying".to_owned(), false)));
    let failed = simulation.until(DAY, &key("one"), all_are(SubmissionState::Failed)).await;
    assert_eq!(status(&failed).submission[0].attempts, 10);
    simulation.pass(DAY).await;
    assert_eq!(jobs(&simulation).await.len(), 1, "no other Job was made");
    assert_eq!(told(&simulation), ["submission-failed"]);
    let one = simulation.instance(&key("one")).await.expect("it is there");
    assert_eq!(condition(&one, condition::SUBMITTED), Some(("Failed".to_owned(), false)));

    simulation.kubelet.refuse(HAND_IN, false);
    simulation.command(&key("one"), lab::SUBMISSION_RETRY).await;
    simulation.until(HOUR, &key("one"), all_are(SubmissionState::Done)).await;
    assert_eq!(simulation.checker.lock().counts().submitted, 1);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn an_upload_whose_pod_never_starts_says_so_and_goes_on_when_it_can() {
    let simulation = exam(1).await;
    simulation.kubelet.attempts_wait_for(Some("secret \"hand-in\" not found"));
    end(&simulation);
    let late = |one: &Instance| status(one).submission.iter().any(|entry| entry.error.is_some());
    let stuck = simulation.until(HOUR, &key("one"), late).await;
    let entry = &status(&stuck).submission[0];
    assert_eq!((entry.state, entry.attempts), (Some(SubmissionState::Running), 0));
    let error = entry.error.as_deref().unwrap_or_default();
    assert!(error.contains("has not started: secret \"hand-in\" not found"), "{error}");
    assert_eq!(condition(&stuck, condition::SUBMITTED), Some(("NotStarted".to_owned(), false)));
    let before = simulation.operator.reconciles();
    simulation.pass(HOUR).await;
    let looks = simulation.operator.reconciles() - before;
    assert!(looks <= 30, "{looks} looks at what only waits");
    simulation.kubelet.attempts_wait_for(None);
    let done = simulation.until(HOUR, &key("one"), all_are(SubmissionState::Done)).await;
    let entry = &status(&done).submission[0];
    assert_eq!((entry.attempts, entry.error.as_deref()), (1, None));
    simulation.assert_invariants();
}

// case: lab S10, S15
#[tokio::test(start_paused = true)]
async fn what_was_handed_in_is_not_handed_in_again() {
    let simulation = exam(2).await;
    end(&simulation);
    let first_is_done = |one: &Instance| states(one).first() == Some(&Some(SubmissionState::Done));
    simulation.until(HOUR, &key("one"), first_is_done).await;
    simulation.operator.want(false);
    simulation.pass(HOUR).await;
    simulation.operator.want(true);
    simulation.until(HOUR, &key("one"), all_are(SubmissionState::Done)).await;
    simulation.operator.kill();
    simulation.pass(DAY).await;
    assert_eq!(jobs(&simulation).await.len(), 0, "finished Jobs go");
    assert_eq!(simulation.checker.lock().counts().submitted, 2, "one per environment");
    simulation.assert_invariants();
}

/// A Template of two environments, of which the second keeps nothing if `second` does not.
fn environments(second: bool) -> Value {
    let port = json!([{"containerPort": 8080}]);
    let one = |name: &str, persistent: bool| {
        let mut one =
            json!({"name": name, "image": "none", "ports": port, "persistent": persistent});
        if persistent {
            one["size"] = json!("1Gi");
            one["mountPath"] = json!("/data");
        }
        one
    };
    json!({"spec": {"environmentList": [one("web", true), one("more-1", second)]}})
}

fn named_template() -> Value {
    json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Template",
        "metadata": {"name": "notebook", "namespace": "lab"},
    })
}

// case: lab S11
#[tokio::test(start_paused = true)]
async fn one_environment_without_submission_does_not_undo_the_other_s() {
    let simulation = simulation(&design(2), "").await;
    simulation.merge(&named_template(), &environments(false)).await;
    lend(&simulation, "one", spec()).await;
    end(&simulation);
    let over = [Some(SubmissionState::Done), Some(SubmissionState::Skipped)];
    let done = simulation.until(HOUR, &key("one"), |one| states(one) == over).await;
    assert_eq!(condition(&done, condition::SUBMITTED), Some(("DoneInPart".to_owned(), true)));
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn what_is_handed_in_follows_the_claims_and_not_the_template_as_it_is_now() {
    let simulation = exam(2).await;
    // The second has lost its persistence by the end, and the data is there all the same.
    simulation.merge(&named_template(), &environments(false)).await;
    end(&simulation);
    let done = simulation.until(HOUR, &key("one"), all_are(SubmissionState::Done)).await;
    assert_eq!(status(&done).submission.len(), 2);
    // Nor does it help to take it out of the Template.
    lend(&simulation, "two", spec()).await;
    assert_eq!(simulation.checker.lock().counts().submitted, 2);
    simulation.assert_invariants();
}

// case: lab X15
#[tokio::test(start_paused = true)]
async fn nothing_expires_in_the_middle_of_a_submission() {
    let policy = Policy { delete_after: hours(2), persistent: true, ..Policy::default() };
    let simulation =
        simulation(&Design { policy, environments: 2 }, "expirationNotificationInterval: 1h\n")
            .await;
    lend(&simulation, "one", spec()).await;
    simulation.kubelet.refuse(HAND_IN, true);
    end(&simulation);
    simulation.pass(DAY * 2).await;
    let held = simulation.instance(&key("one")).await.expect("its data is not handed in");
    assert!(held.metadata.deletion_timestamp.is_none());
    simulation.kubelet.refuse(HAND_IN, false);
    simulation.command(&key("one"), lab::SUBMISSION_RETRY).await;
    simulation.until_gone(DAY, &key("one")).await;
    assert_eq!(simulation.checker.lock().counts().submitted, 2);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_job_that_vanishes_is_made_again_under_the_same_key() {
    let simulation = exam(1).await;
    simulation.kubelet.set_pod_failure_rates(PodFailureRates {
        job_vanishes: 1000,
        ..PodFailureRates::default()
    });
    end(&simulation);
    simulation.pass(HOUR * 2).await;
    simulation.kubelet.set_pod_failure_rates(PodFailureRates::default());
    simulation.until(HOUR, &key("one"), all_are(SubmissionState::Done)).await;
    let counts = simulation.checker.lock().counts();
    assert_eq!(counts.submitted, 1, "the server takes it once");
    assert!(counts.sent_again >= 1, "{counts:?}");
    simulation.pass(MINUTE).await;
    simulation.assert_invariants();
}
