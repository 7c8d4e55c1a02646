//! What was handed in, checked by the server that takes it.
//!
//! The server keeps what it gets once for each `Idempotency-Key`. A request is one end of one instance;
//! whatever happens to Jobs, every environment that keeps its data is accepted once for it.

use std::collections::BTreeMap;

use sojourn_api::lab::Instance;
use sojourn_api::lab::instance::SubmissionTime;
use sojourn_api::lab::status::SubmissionState;
use sojourn_core::key::Key;

use super::instance_history::InstanceHistory;
use super::invariant::Invariant;
use super::{InstanceChecker, status};
use crate::kubelet::{Upload, UploadServer};
use crate::record::SharedRecord;

/// What came under one key.
#[derive(Debug, Default)]
pub(super) struct Received {
    uid: String,
    environment: String,
    times: u32,
    /// Jobs that vanished after they had sent it.
    vanished: u32,
}

/// Everything that the server got, by key.
pub(super) type Server = BTreeMap<String, Received>;

impl InstanceChecker {
    /// Whether it is new to the server.
    fn uploaded(&mut self, upload: &Upload) -> bool {
        let Upload { idempotency_key, uid, environment, job } = upload;
        self.trace.add(&format!("{upload:?}"));
        let received = self.server.entry(idempotency_key.clone()).or_default();
        received.times += 1;
        if received.times > 1 {
            let (times, lost) = (received.times, received.vanished);
            self.counts.sent_again += 1;
            self.note(format!("{job} sends the same once more"));
            if times > lost + 1 {
                let message =
                    format!("{job} sends it for the {times}th time; {lost} Jobs were lost");
                self.violated(Invariant::SubmittedOnce, &Key::new("", job.as_str()), message);
            }
            return false;
        }
        received.uid.clone_from(uid);
        received.environment.clone_from(environment);
        self.note(format!("{job} has handed in"));
        self.counts.submitted += 1;
        let requests = self.histories.get(uid).map_or(0, |history| history.hand_ins);
        let accepted = self.accepted_for(uid, environment);
        if accepted > requests {
            let message = format!("{accepted} uploads of {environment} for {requests} requests");
            self.violated(Invariant::SubmittedOnce, &Key::new("", job.as_str()), message);
        }
        true
    }

    fn job_vanished(&mut self, idempotency_key: &str) {
        self.server.entry(idempotency_key.to_owned()).or_default().vanished += 1;
    }

    fn accepted_for(&self, uid: &str, environment: &str) -> usize {
        let all = self.server.values();
        all.filter(|one| one.uid == uid && one.environment == environment).count()
    }

    /// What of an instance was to be handed in and was not, although nobody gave it up.
    pub(super) fn not_handed_in(&self, history: &InstanceHistory) -> Option<String> {
        let uid = history.last.metadata.uid.as_deref().unwrap_or_default();
        let design = (*self.designs.get(&history.template)?.last())?;
        if !design.policy.persistent || history.given_up {
            return None;
        }
        let given_up = |environment: &str| {
            let entries = &status(&history.last).submission;
            let entry = entries.iter().find(|entry| entry.environment == environment);
            let over = [SubmissionState::Waived, SubmissionState::Skipped, SubmissionState::Failed];
            entry.and_then(|entry| entry.state).is_some_and(|state| over.contains(&state))
        };
        design
            .names()
            .into_iter()
            .map(|environment| (self.accepted_for(uid, &environment), environment))
            .find(|(accepted, environment)| *accepted < history.hand_ins && !given_up(environment))
            .map(|(accepted, environment)| {
                format!("{environment} was handed in {accepted} of {} times", history.hand_ins)
            })
    }
}

impl UploadServer for SharedRecord<InstanceChecker> {
    fn take(&self, upload: &Upload) -> bool {
        self.lock().uploaded(upload)
    }

    fn job_vanished(&self, idempotency_key: &str) {
        self.lock().job_vanished(idempotency_key);
    }
}

/// Whether the end of an instance hands in what it keeps.
pub(super) fn hands_in(instance: &Instance) -> bool {
    let submission = instance.spec.submission.as_ref();
    submission.is_some_and(|submission| submission.when == SubmissionTime::OnTermination)
}
