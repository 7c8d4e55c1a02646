//! Carries out what was decided about a Job: one write each.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::{Api, Client};
use serde_json::json;

use super::attempt::{self, TRACKING};
use super::cache::controller;
use super::decide::{EventNote, Step};
use crate::request::{RequestError, ask, in_full};

/// A write and its outcome.
pub(super) struct FinishedStep {
    /// The uid of the Job.
    pub(super) job: String,
    pub(super) about: ObjectReference,
    /// What to tell people now.
    pub(super) notes: Vec<EventNote>,
    pub(super) outcome: StepOutcome,
}

pub(super) enum StepOutcome {
    Job(Box<Job>),
    Pod(Box<Pod>),
    /// No Pod of this uid is there.
    PodGone(String),
    /// Something else has happened to it, of which the watch will tell.
    Overtaken,
    /// The Pod's name is somebody else's.
    NameTaken,
    /// In words.
    Failed(String),
}

/// Takes a step. `notes` are told if it is done.
pub(super) async fn take(
    client: Client,
    job: Job,
    step: Step,
    name_collisions: u32,
    notes: Vec<EventNote>,
) -> FinishedStep {
    let namespace = job.metadata.namespace.clone().unwrap_or_default();
    let uid = job.metadata.uid.clone().unwrap_or_default();
    let about = about(&job);
    let jobs = Api::<Job>::namespaced(client.clone(), &namespace);
    let pods = Api::<Pod>::namespaced(client, &namespace);
    let job_name = job.metadata.name.clone().unwrap_or_default();
    let mut written = Vec::new();
    let outcome = match step {
        Step::Create { attempt } => {
            create(&pods, &job, attempt, name_collisions, &mut written).await
        }
        Step::Status(status) => {
            let job = Job { status: Some(*status), ..job };
            let params = PostParams::default();
            let sent = jobs.replace_status(&job_name, &params, &job);
            match ask("write the status of a Job", sent).await {
                Ok(job) => StepOutcome::Job(job.into()),
                Err(error) => failure(&error),
            }
        }
        Step::DeletePod { name, uid } => {
            let own = Preconditions { uid: Some(uid.clone()), resource_version: None };
            let params = DeleteParams::default().preconditions(own);
            let sent = async { Ok(pods.delete(&name, &params).await?.left()) };
            pod_outcome(ask("delete a Pod of a Job", sent).await, uid)
        }
        Step::Release { name, uid } => release(&pods, &name, uid).await,
        Step::DeleteJob => {
            // Whoever gave it more time meanwhile is heard.
            let seen = Preconditions {
                uid: job.metadata.uid.clone(),
                resource_version: job.metadata.resource_version.clone(),
            };
            let params = DeleteParams {
                propagation_policy: Some(PropagationPolicy::Foreground),
                preconditions: Some(seen),
                ..DeleteParams::default()
            };
            match ask("delete a Job whose time is up", jobs.delete(&job_name, &params)).await {
                Ok(answer) => match answer.left() {
                    Some(job) => StepOutcome::Job(job.into()),
                    None => StepOutcome::Overtaken,
                },
                Err(error) => failure(&error),
            }
        }
    };
    if !matches!(outcome, StepOutcome::Failed(_) | StepOutcome::Overtaken) {
        written.extend(notes);
    }
    FinishedStep { job: uid, about, notes: written, outcome }
}

/// Makes the Pod of an attempt. That it is there already is as good.
async fn create(
    pods: &Api<Pod>,
    job: &Job,
    attempt: u32,
    name_collisions: u32,
    written: &mut Vec<EventNote>,
) -> StepOutcome {
    let Some(pod) = attempt::pod(job, attempt, name_collisions) else {
        return StepOutcome::Overtaken;
    };
    let name = pod.metadata.name.clone().unwrap_or_default();
    match ask("make a Pod of a Job", pods.create(&PostParams::default(), &pod)).await {
        Ok(pod) => {
            let message = format!("Created pod: {name}");
            written.push(EventNote {
                warning: false,
                reason: "SuccessfulCreate".to_owned(),
                message,
            });
            StepOutcome::Pod(pod.into())
        }
        Err(error) if error.code() == Some(409) => {
            // A list of one: controllers of Jobs may list Pods, and need not get any.
            let named = ListParams::default().fields(&format!("metadata.name={name}"));
            let found = async { Ok(pods.list(&named).await?.items.pop()) };
            match ask("look up a Pod of a Job", found).await {
                Ok(Some(pod)) if is_controlled_by(&pod, job) => StepOutcome::Pod(pod.into()),
                Ok(Some(_)) => StepOutcome::NameTaken,
                Ok(None) => StepOutcome::Overtaken,
                Err(error) => failure(&error),
            }
        }
        Err(error) => {
            let message = format!("Error creating: {}", in_full(&error));
            written.push(EventNote { warning: true, reason: "FailedCreate".to_owned(), message });
            failure(&error)
        }
    }
}

/// Takes the finalizer off a Pod, whatever else changes in it meanwhile.
async fn release(pods: &Api<Pod>, name: &str, uid: String) -> StepOutcome {
    let patch = Patch::Strategic(json!({
        "metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [TRACKING]},
    }));
    let params = PatchParams::default();
    let sent = ask("let go of a Pod of a Job", pods.patch(name, &params, &patch)).await;
    pod_outcome(sent.map(Some), uid)
}

/// Lets go of a Pod that no Job will count any more, if that is so.
pub(super) async fn release_orphan(client: Client, job: String, pod: Pod) -> FinishedStep {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let name = pod.metadata.name.clone().unwrap_or_default();
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let mut outcome = None;
    if let Some(owner) = controller(&pod) {
        let jobs = Api::<Job>::namespaced(client.clone(), &namespace);
        outcome = match ask("look up the Job of a Pod", jobs.get_opt(&owner.name)).await {
            Ok(Some(found)) if found.metadata.uid.as_deref() == Some(&owner.uid) => {
                Some(StepOutcome::Job(found.into()))
            }
            Ok(_) => None,
            Err(error) => Some(failure(&error)),
        };
    }
    let outcome = match outcome {
        Some(outcome) => outcome,
        None => release(&Api::namespaced(client, &namespace), &name, uid).await,
    };
    FinishedStep { job, about: ObjectReference::default(), notes: Vec::new(), outcome }
}

fn is_controlled_by(pod: &Pod, job: &Job) -> bool {
    controller(pod).is_some_and(|owner| Some(&owner.uid) == job.metadata.uid.as_ref())
}

/// What became of a Pod; that it is answered with nothing says nothing.
fn pod_outcome(answer: Result<Option<Pod>, RequestError>, uid: String) -> StepOutcome {
    match answer {
        Ok(Some(pod)) => StepOutcome::Pod(pod.into()),
        Ok(None) => StepOutcome::Overtaken,
        Err(error) if error.code() == Some(404) => StepOutcome::PodGone(uid),
        Err(error) => failure(&error),
    }
}

fn failure(error: &RequestError) -> StepOutcome {
    match error.code() {
        Some(404 | 409) => StepOutcome::Overtaken,
        _ => StepOutcome::Failed(in_full(error)),
    }
}

fn about(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some("batch/v1".to_owned()),
        kind: Some("Job".to_owned()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        field_path: None,
    }
}
