//! Ends: work is handed in before anything goes, whoever ends it, and what has ended stays off.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, PropagationPolicy};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::lab::Instance;
use sojourn_api::lab::status::{EndReason, NextAction, Phase, StopReason, SubmissionState};
use sojourn_api::name::lab::{self, CLAIM_FINALIZER, condition};
use sojourn_drivers::probe::Observation;
use sojourn_sim::lab::invariants::Policy;
use sojourn_sim::lab::people::Design;
use sojourn_sim::lab::simulation::LabSimulation;

use crate::fixture::{DAY, HOUR, condition, hours, key, lend, simulation, status, told};

const EXAM: &str = "https://exam.example/one";
const HAND_IN: &str = "https://hand-in.example/";
/// Nothing of it is there before the first minute is over.
const SOON: Duration = Duration::from_secs(120);

fn kept(policy: Policy) -> Design {
    Design { policy: Policy { persistent: true, ..policy }, environments: 1 }
}

fn handing_in() -> Value {
    json!({"submission": {"url": HAND_IN}})
}

fn exam() -> Value {
    json!({"statusCheck": {"url": EXAM}, "submission": {"url": HAND_IN}})
}

fn is_off(instance: &Instance) -> bool {
    status(instance).phase == Some(Phase::Off)
}

fn is_done(instance: &Instance) -> bool {
    status(instance).submission.first().and_then(|one| one.state) == Some(SubmissionState::Done)
}

fn submitted(simulation: &LabSimulation) -> u64 {
    simulation.checker.lock().counts().submitted
}

async fn claims(simulation: &LabSimulation) -> Vec<PersistentVolumeClaim> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(simulation.client.clone(), "lab");
    api.list(&ListParams::default()).await.expect("people's requests work").items
}

fn is_held(claim: &PersistentVolumeClaim) -> bool {
    claim.finalizers().iter().any(|one| one == CLAIM_FINALIZER)
}

#[tokio::test(start_paused = true)]
async fn what_its_owner_deletes_is_handed_in_first() {
    for stopped in [false, true] {
        let simulation = simulation(&kept(Policy::default()), "").await;
        lend(&simulation, "one", handing_in()).await;
        assert!(claims(&simulation).await.iter().all(is_held));
        if stopped {
            simulation.stop(&key("one")).await;
            simulation.until(HOUR, &key("one"), is_off).await;
            simulation.pass(HOUR).await;
            assert_eq!(submitted(&simulation), 0, "a stop is no end");
        }
        simulation.remove(&key("one")).await;
        simulation.until_gone(HOUR * 3, &key("one")).await;
        assert_eq!(submitted(&simulation), 1, "stopped: {stopped}");
        simulation.pass(HOUR).await;
        assert_eq!(claims(&simulation).await.len(), 0, "and nothing is left behind");
        simulation.assert_invariants();
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_lifespan_stops_hands_in_and_then_deletes_and_says_that_it_waits() {
    let policy = Policy { delete_after: hours(2), ..Policy::default() };
    let simulation = simulation(&kept(policy), "expirationNotificationInterval: 1h\n").await;
    lend(&simulation, "one", handing_in()).await;
    simulation.kubelet.refuse(HAND_IN, true);
    let off = simulation.until(HOUR * 5, &key("one"), is_off).await;
    assert_eq!(status(&off).stop_reason, Some(StopReason::Expired));
    let ended = status(&off).ended.expect("it has ended");
    assert_eq!(ended.reason, Some(EndReason::Expired));
    simulation.pass(DAY).await;
    let waits = simulation.instance(&key("one")).await.expect("its data is not handed in");
    assert!(waits.metadata.deletion_timestamp.is_none());
    assert_eq!(condition(&waits, condition::HELD), Some(("SubmissionPending".to_owned(), true)));
    let next = status(&waits).next.expect("something comes");
    assert_eq!(next.action, Some(NextAction::Submit), "before it is deleted");
    assert_eq!(next.why, "its data is not handed in yet");
    simulation.kubelet.refuse(HAND_IN, false);
    simulation.command(&key("one"), lab::SUBMISSION_RETRY).await;
    simulation.until_gone(HOUR * 3, &key("one")).await;
    assert_eq!(submitted(&simulation), 1);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn an_exam_that_was_stopped_before_is_handed_in_when_it_ends() {
    let simulation = simulation(&kept(Policy::default()), "").await;
    lend(&simulation, "one", exam()).await;
    simulation.stop(&key("one")).await;
    simulation.until(HOUR, &key("one"), is_off).await;
    simulation.checker.lock().exam_ends(&key("one"));
    simulation.drivers.probe.set(EXAM, Observation::Ends);
    let done = simulation.until(HOUR * 2, &key("one"), is_done).await;
    assert_eq!(status(&done).ended.and_then(|ended| ended.reason), Some(EndReason::Terminated));
    assert_eq!(submitted(&simulation), 1);
    assert!(!claims(&simulation).await.iter().any(is_held), "nothing is owed any more");
    simulation.assert_invariants();
}

/// No environment ever becomes ready: the exam ends all the same.
#[tokio::test(start_paused = true)]
async fn an_exam_whose_programs_crash_ends_in_time() {
    for (spec, bound) in [(exam(), HOUR), (json!({"statusCheck": {}}), HOUR)] {
        let simulation = simulation(&kept(Policy::default()), "").await;
        simulation.kubelet.never_ready(true);
        simulation.lend(&key("one"), &crate::fixture::template(), spec).await;
        simulation.checker.lock().exam_ends(&key("one"));
        simulation.drivers.probe.set(EXAM, Observation::Ends);
        let ended = simulation.until(bound, &key("one"), |one| status(one).ended.is_some()).await;
        assert_eq!(status(&ended).ready_at, None);
        simulation.until(HOUR, &key("one"), |one| !one.spec.running).await;
        simulation.assert_invariants();
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_ended_is_not_started_again_by_its_owner_and_not_handed_in_again() {
    let simulation = simulation(&kept(Policy::default()), "").await;
    lend(&simulation, "one", exam()).await;
    simulation.checker.lock().exam_ends(&key("one"));
    simulation.drivers.probe.set(EXAM, Observation::Ends);
    let done = simulation.until(HOUR * 2, &key("one"), is_done).await;
    simulation.drivers.probe.set(EXAM, Observation::Keeps { deadline: None });
    for operator in [true, false] {
        // Whether somebody looks at that moment or not.
        simulation.operator.want(operator);
        simulation.start(&key("one")).await;
        simulation.pass(HOUR).await;
        simulation.operator.want(true);
        simulation.until(HOUR, &key("one"), |one| !one.spec.running).await;
        let pods: Api<Pod> = Api::namespaced(simulation.client.clone(), "lab");
        let pods = pods.list(&ListParams::default()).await.expect("people's requests work").items;
        assert!(pods.iter().all(|pod| pod.labels().contains_key("job-name")), "nothing of it runs");
    }
    let off = simulation.instance(&key("one")).await.expect("it is there");
    assert_eq!(status(&off).ended, status(&done).ended, "written once");
    assert_eq!(status(&off).submission, status(&done).submission);
    assert_eq!(submitted(&simulation), 1);

    // Somebody who may do so takes it back, by naming it.
    let at = status(&off).ended.and_then(|ended| ended.at).expect("a time");
    let mark = json!({lab::REOPEN: format!("{:.0}", at.0)});
    let change = json!({"metadata": {"annotations": mark}, "spec": {"running": true}});
    simulation.change(&key("one"), &change).await;
    let ready = |one: &Instance| status(one).phase == Some(Phase::Ready);
    let open = simulation.until(HOUR, &key("one"), ready).await;
    assert_eq!((status(&open).ended, status(&open).reopened), (None, Some(at)));
    simulation.drivers.probe.set(EXAM, Observation::Ends);
    let again = |one: &Instance| is_done(one) && status(one).submission[0].series == 2;
    simulation.until(HOUR * 2, &key("one"), again).await;
    assert_eq!(submitted(&simulation), 2, "what was written since is handed in");
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn without_its_template_it_runs_on_and_says_so() {
    let simulation = simulation(&kept(Policy::default()), "").await;
    lend(&simulation, "one", handing_in()).await;
    simulation.remove_template(&crate::fixture::template()).await;
    simulation.pass(HOUR).await;
    let one = simulation.instance(&key("one")).await.expect("it is there");
    assert_eq!(status(&one).phase, Some(Phase::Ready));
    let missing = Some(("TemplateMissing".to_owned(), false));
    assert_eq!(condition(&one, condition::ACCEPTED), missing);
    // And what it holds is handed in all the same.
    simulation.remove(&key("one")).await;
    simulation.until_gone(HOUR * 3, &key("one")).await;
    assert_eq!(submitted(&simulation), 1);
    simulation.assert_invariants();
}

/// A dry run: nothing is done, and everything that would have been done is there to be read.
#[tokio::test(start_paused = true)]
async fn what_is_only_observed_walks_the_whole_way_in_its_shadow() {
    let policy = Policy {
        stop_after: hours(24),
        delete_after_stopped: hours(24),
        alerts: Some(2),
        ..Policy::default()
    };
    let simulation =
        simulation(&kept(policy), "inactiveTerminationNotificationInterval: 3h\n").await;
    lend(&simulation, "one", json!({})).await;
    let mark = |value: Value| json!({"metadata": {"annotations": {"sojourn.dev/observe": value}}});
    simulation.change(&key("one"), &mark(json!("true"))).await;
    let gone = |one: &Instance| status(one).shadow.is_some_and(|shadow| shadow.gone_at.is_some());
    let walked = simulation.until(DAY * 5, &key("one"), gone).await;
    let steps = status(&walked).shadow.map(|shadow| shadow.steps).unwrap_or_default();
    let actions: Vec<_> = steps.into_iter().filter_map(|step| step.action).collect();
    use NextAction::{Delete, Stop, Warn};
    assert_eq!(actions, [Warn, Warn, Stop, Warn, Warn, Delete]);
    assert!(walked.spec.running && simulation.received().is_empty(), "nothing was done");
    simulation.change(&key("one"), &mark(Value::Null)).await;
    simulation.until(HOUR, &key("one"), |one| status(one).shadow.is_none()).await;
    simulation.assert_invariants();
}

/// Whoever deletes the claim by force, with the rights to: it is gone, and nothing hangs.
#[tokio::test(start_paused = true)]
async fn a_claim_of_an_instance_that_was_taken_away_by_force_is_let_go() {
    let simulation = simulation(&kept(Policy::default()), "").await;
    lend(&simulation, "one", handing_in()).await;
    simulation.kubelet.refuse(HAND_IN, true);
    simulation.remove(&key("one")).await;
    simulation.pass(HOUR).await;
    let named = json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Instance",
        "metadata": {"name": "one", "namespace": "lab"},
    });
    simulation.checker.lock().person_waives_submission(&key("one"));
    simulation.merge(&named, &json!({"metadata": {"finalizers": null}})).await;
    simulation.until_gone(SOON, &key("one")).await;
    simulation.pass(HOUR).await;
    assert_eq!(claims(&simulation).await.len(), 0);
}

/// Whoever may `hold` can delete the claim itself: its data is lost, and that is said once.
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_deleted_by_force_is_told_and_waits_to_be_waived() {
    let simulation = simulation(&kept(Policy::default()), "").await;
    lend(&simulation, "one", handing_in()).await;
    simulation.stop(&key("one")).await;
    simulation.until(HOUR, &key("one"), is_off).await;
    let named = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "one-web", "namespace": "lab"},
    });
    simulation.delete(&named).await;
    simulation.merge(&named, &json!({"metadata": {"finalizers": null}})).await;
    simulation.remove(&key("one")).await;
    let failed = |one: &Instance| {
        status(one).submission.first().and_then(|one| one.state) == Some(SubmissionState::Failed)
    };
    let lost = simulation.until(HOUR, &key("one"), failed).await;
    let entry = &status(&lost).submission[0];
    assert_eq!(entry.attempts, 0);
    let error = entry.error.as_deref().unwrap_or_default();
    assert!(error.starts_with("its claim was deleted"), "{error}");
    let missing = Some(("ClaimMissing".to_owned(), false));
    assert_eq!(condition(&lost, condition::SUBMITTED), missing);
    assert_eq!(condition(&lost, condition::ACCEPTED), Some(("Valid".to_owned(), true)));
    simulation.pass(DAY).await;
    assert_eq!(told(&simulation), ["submission-failed"]);
    assert!(simulation.instance(&key("one")).await.is_some(), "nobody has given it up");
    simulation.checker.lock().person_waives_submission(&key("one"));
    simulation.command(&key("one"), lab::SUBMISSION_WAIVE).await;
    simulation.until_gone(HOUR, &key("one")).await;
    assert_eq!(submitted(&simulation), 0);
    simulation.assert_invariants();
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_deleted_by_force_keeps_what_is_owed_until_it_is_waived() {
    let simulation = simulation(&kept(Policy::default()), "").await;
    lend(&simulation, "one", handing_in()).await;
    // Whoever this is may `hold`.
    let namespaces: Api<Namespace> = Api::all(simulation.client.clone());
    simulation.checker.lock().person_deletes(&key("one"));
    let foreground = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    namespaces.delete("lab", &foreground).await.expect("it is allowed");
    simulation.pass(DAY).await;
    let held = simulation.instance(&key("one")).await.expect("its data is not handed in");
    assert_eq!(condition(&held, condition::HELD), Some(("NamespaceLeaves".to_owned(), true)));
    assert!(claims(&simulation).await.iter().all(is_held));
    simulation.checker.lock().person_waives_submission(&key("one"));
    simulation.command(&key("one"), lab::SUBMISSION_WAIVE).await;
    simulation.until_gone(HOUR, &key("one")).await;
    assert_eq!(submitted(&simulation), 0);
}
