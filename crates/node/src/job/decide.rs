//! What is to be done about a Job now: one step, and when to look again.
//!
//! A step is one write. After it, the same question is asked of what is there then, until there is
//! nothing left to do. Whatever stops the controller between two steps, the next one to ask goes on
//! where it stopped.
//!
//! A Pod that ended is counted like this, so that it is counted once: its uid is put on a list in
//! the Job's status; its finalizer is taken off; its uid is taken off the list and the counter goes
//! up. A uid on the list whose Pod has no finalizer any more is all it takes to know where that was
//! left.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::attempt::{self, TRACKING};
use super::failure_policy::{Consequence, consequence};

/// The controller that Jobs are managed by unless they say otherwise.
const CONTROLLER: &str = "kubernetes.io/job-controller";
/// Uids that are kept in a status at most.
const MAX_UNCOUNTED_UIDS: usize = 500;
const DEFAULT_BACKOFF_LIMIT: i32 = 6;

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Status(Box<JobStatus>),
    /// Make the Pod of this attempt.
    Create {
        attempt: u32,
    },
    DeletePod {
        name: String,
        uid: String,
    },
    /// Take the Pod's finalizer off.
    Release {
        name: String,
        uid: String,
    },
    DeleteJob,
}

/// Something that people are told by an Event, once the step is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventNote {
    pub(super) warning: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Decision {
    pub(super) step: Option<Step>,
    pub(super) notes: Vec<EventNote>,
    /// When to look again although nothing happened.
    pub(super) wake: Option<Timestamp>,
}

impl Decision {
    fn step(step: Step) -> Self {
        Self { step: Some(step), ..Self::default() }
    }
}

/// How a Job ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct JobResult {
    success: bool,
    reason: String,
    message: String,
}

impl JobResult {
    fn failure(reason: &str, message: impl Into<String>) -> Self {
        Self { success: false, reason: reason.to_owned(), message: message.into() }
    }
}

/// `pods` are the Pods that the Job controls.
pub(super) fn decide(job: &Job, pods: &[&Pod], now: Timestamp) -> Decision {
    let Some(spec) = &job.spec else { return Decision::default() };
    if spec.managed_by.as_deref().is_some_and(|manager| manager != CONTROLLER) {
        return Decision::default();
    }
    // The API keeps seconds.
    let now_written = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let ended = ended_at(job);
    if ended.is_some() || job.metadata.deletion_timestamp.is_some() {
        // Nothing is counted any more.
        if let Some(pod) = pods.iter().find(|pod| is_tracked(pod)) {
            return Decision::step(release(pod));
        }
        return match ended {
            Some(ended) if job.metadata.deletion_timestamp.is_none() => expire(spec, ended, now),
            _ => Decision::default(),
        };
    }
    ActiveJob::of(job, spec, pods).next(now, now_written)
}

/// A Job that has ended is deleted in time, if it says so.
fn expire(spec: &JobSpec, ended: Timestamp, now: Timestamp) -> Decision {
    let Some(seconds) = spec.ttl_seconds_after_finished else { return Decision::default() };
    let due = later(ended, seconds.into());
    if due <= now {
        return Decision::step(Step::DeleteJob);
    }
    Decision { wake: Some(due), ..Decision::default() }
}

/// A Job that has not ended.
struct ActiveJob<'a> {
    job: &'a Job,
    spec: &'a JobSpec,
    status: JobStatus,
    pods: &'a [&'a Pod],
    /// Neither ended nor being deleted.
    active: Vec<&'a Pod>,
    /// Being deleted, and not ended.
    terminating: usize,
    succeeded: usize,
    /// Failures that count.
    failed: usize,
    suspended: bool,
    /// A Pod is only replaced when it has failed, not already when it is being deleted.
    replaces_only_failed: bool,
}

impl<'a> ActiveJob<'a> {
    fn of(job: &'a Job, spec: &'a JobSpec, pods: &'a [&'a Pod]) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let replaces_only_failed = spec.pod_failure_policy.is_some()
            || spec.pod_replacement_policy.as_deref() == Some("Failed");
        let mut case = Self {
            job,
            spec,
            pods,
            active: pods.iter().copied().filter(|pod| is_active(pod)).collect(),
            terminating: pods.iter().filter(|pod| is_terminating(pod)).count(),
            succeeded: number(status.succeeded),
            failed: number(status.failed),
            suspended: spec.suspend == Some(true),
            replaces_only_failed,
            status,
        };
        let uncounted = case.status.uncounted_terminated_pods.clone().unwrap_or_default();
        let on_success = uncounted.succeeded.unwrap_or_default();
        let on_failure = uncounted.failed.unwrap_or_default();
        for pod in pods.iter().filter(|pod| is_tracked(pod)) {
            let uid = uid(pod);
            // One that was taken for failed when it was deleted stays so, however it ended.
            if on_success.contains(&uid) || on_failure.contains(&uid) {
                continue;
            }
            case.succeeded += usize::from(phase(pod) == "Succeeded");
            case.failed +=
                usize::from(case.has_failed(pod) && consequence(job, pod) != Consequence::Ignored);
        }
        case.succeeded += on_success.len();
        case.failed += on_failure.len();
        case
    }

    fn next(&self, now: Timestamp, now_written: Timestamp) -> Decision {
        let result = self.result(now);
        let (status, notes) = self.status(result.as_ref(), now_written);
        if status != self.status {
            return Decision { step: Some(Step::Status(Box::new(status))), notes, wake: None };
        }
        if let Some(decision) = self.clean_up(result.as_ref()) {
            return decision;
        }
        let mut decision = Decision::default();
        if result.is_none() && self.wanted() > self.active.len() + self.awaiting_termination() {
            let due = self.next_attempt_at();
            if due <= now {
                return Decision::step(Step::Create { attempt: self.next_attempt() });
            }
            decision.wake = Some(due);
        }
        if result.is_none()
            && let Some(deadline) = self.deadline()
        {
            decision.wake = Some(decision.wake.map_or(deadline, |wake| wake.min(deadline)));
        }
        decision
    }

    /// Whether and how the Job is to end. What was decided before stands.
    fn result(&self, now: Timestamp) -> Option<JobResult> {
        for (kind, success) in [("SuccessCriteriaMet", true), ("FailureTarget", false)] {
            if let Some(condition) = condition(&self.status, kind).filter(|c| c.status == "True") {
                return Some(JobResult {
                    success,
                    reason: condition.reason.clone().unwrap_or_default(),
                    message: condition.message.clone().unwrap_or_default(),
                });
            }
        }
        if let Some(words) = unsupported(self.spec) {
            return Some(JobResult::failure("Unsupported", words));
        }
        let failed = self.pods.iter().filter(|pod| self.has_failed(pod));
        for pod in failed {
            if let Consequence::JobFails(words) = consequence(self.job, pod) {
                return Some(JobResult::failure("PodFailurePolicy", words));
            }
        }
        let limit = self.spec.backoff_limit.unwrap_or(DEFAULT_BACKOFF_LIMIT);
        let limit = usize::try_from(limit).unwrap_or(0);
        if self.failed > limit || self.restarted_too_often(limit) {
            return Some(JobResult::failure(
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            ));
        }
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            return Some(JobResult::failure(
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
            ));
        }
        let completions = self.spec.completions.map_or(1, |count| number(Some(count)));
        (self.succeeded >= completions && self.active.is_empty()).then(|| JobResult {
            success: true,
            reason: "CompletionsReached".to_owned(),
            message: "Reached expected number of succeeded pods".to_owned(),
        })
    }

    /// Where the node restarts containers, their restarts count as failures do.
    fn restarted_too_often(&self, limit: usize) -> bool {
        let template = self.spec.template.spec.as_ref();
        if template.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
            return false;
        }
        let running = self.pods.iter().filter(|pod| matches!(phase(pod), "Running" | "Pending"));
        let restarts: usize = running
            .filter_map(|pod| pod.status.as_ref())
            .flat_map(|status| {
                let init = status.init_container_statuses.iter().flatten();
                init.chain(status.container_statuses.iter().flatten())
            })
            .map(|container| number(Some(container.restart_count)))
            .sum();
        restarts > 0 && restarts >= limit
    }

    fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.spec.active_deadline_seconds.filter(|_| !self.suspended)?;
        Some(later(self.status.start_time.as_ref()?.0, seconds))
    }

    /// The status as it should be, and what is worth telling about it.
    fn status(&self, result: Option<&JobResult>, now: Timestamp) -> (JobStatus, Vec<EventNote>) {
        let mut notes = Vec::new();
        let mut status = self.status.clone();
        let left = self.count(&mut status, result);
        // A Job that ends has begun, even if it was suspended meanwhile.
        if status.start_time.is_none() && (!self.suspended || result.is_some()) {
            status.start_time = Some(Time(now));
        }
        let ready = self.active.iter().filter(|pod| is_ready(pod)).count();
        status.active = positive(self.active.len());
        status.ready = Some(count(ready));
        status.terminating = Some(count(self.terminating));
        match result {
            None => notes.extend(self.suspension(&mut status, now)),
            Some(result) => {
                let interim = if result.success { "SuccessCriteriaMet" } else { "FailureTarget" };
                let announced = condition(&self.status, interim).is_some();
                set(&mut status, interim, "True", &result.reason, &result.message, now);
                // The end comes when everything is counted and nothing runs any more.
                if announced && left == 0 && self.active.is_empty() && self.terminating == 0 {
                    notes.push(conclude(&mut status, result, now));
                }
            }
        }
        (status, notes)
    }

    /// Moves Pods that ended along in the books. How many are left in them.
    fn count(&self, status: &mut JobStatus, result: Option<&JobResult>) -> usize {
        let mut uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
        let mut succeeded = uncounted.succeeded.take().unwrap_or_default();
        let mut failed = uncounted.failed.take().unwrap_or_default();
        let tracked: Vec<(String, &Pod)> =
            self.pods.iter().filter(|pod| is_tracked(pod)).map(|pod| (uid(pod), *pod)).collect();
        let holds = |listed: &String| tracked.iter().any(|(uid, _)| uid == listed);
        for (list, counter) in
            [(&mut succeeded, &mut status.succeeded), (&mut failed, &mut status.failed)]
        {
            let before = list.len();
            list.retain(holds);
            *counter = positive(number(*counter) + before - list.len());
        }
        let job_fails = result.is_some_and(|result| !result.success);
        for (uid, pod) in tracked {
            if succeeded.len() + failed.len() >= MAX_UNCOUNTED_UIDS {
                break;
            }
            if phase(pod) == "Succeeded" && !failed.contains(&uid) {
                if !succeeded.contains(&uid) {
                    succeeded.push(uid);
                }
            } else if (self.has_failed(pod) || job_fails)
                && !failed.contains(&uid)
                && consequence(self.job, pod) != Consequence::Ignored
            {
                failed.push(uid);
            }
        }
        let left = succeeded.len() + failed.len();
        uncounted.succeeded = Some(succeeded).filter(|list| !list.is_empty());
        uncounted.failed = Some(failed).filter(|list| !list.is_empty());
        status.uncounted_terminated_pods = Some(uncounted);
        left
    }

    /// Says whether the Job is suspended, if it is or was. Its time runs from when it goes on.
    fn suspension(&self, status: &mut JobStatus, now: Timestamp) -> Option<EventNote> {
        let was = condition(status, "Suspended").is_some_and(|c| c.status == "True");
        let note = |reason: &str, message: &str| {
            Some(EventNote {
                warning: false,
                reason: reason.to_owned(),
                message: message.to_owned(),
            })
        };
        match (was, self.suspended) {
            (false, true) => {
                set(status, "Suspended", "True", "JobSuspended", "Job suspended", now);
                status.start_time = None;
                note("Suspended", "Job suspended")
            }
            (true, false) => {
                set(status, "Suspended", "False", "JobResumed", "Job resumed", now);
                status.start_time = Some(Time(now));
                note("Resumed", "Job resumed")
            }
            _ => None,
        }
    }

    /// Ends Pods that should not run, and lets go of Pods that are in the books.
    fn clean_up(&self, result: Option<&JobResult>) -> Option<Decision> {
        if result.is_some() {
            if let Some(pod) = self.active.first() {
                return Some(delete(pod));
            }
        } else {
            let mut active = self.active.clone();
            active.sort_by_key(|pod| (attempt::number(pod), uid(pod)));
            // Kept are those that came first; one that is not tracked was about to go.
            let kept = active.iter().filter(|pod| is_tracked(pod)).take(self.wanted());
            let kept: Vec<String> = kept.map(|pod| uid(pod)).collect();
            if let Some(pod) = active.iter().find(|pod| !kept.contains(&uid(pod))) {
                // Whom the Job itself ends has not failed: it is let go of first.
                return Some(if is_tracked(pod) {
                    Decision::step(release(pod))
                } else {
                    delete(pod)
                });
            }
        }
        let done =
            |pod: &Pod| result.is_some() || phase(pod) == "Succeeded" || self.has_failed(pod);
        let pod = self.pods.iter().find(|pod| is_tracked(pod) && done(pod))?;
        Some(Decision::step(release(pod)))
    }

    /// How many Pods should run.
    fn wanted(&self) -> usize {
        let completions = self.spec.completions.map_or(1, |count| number(Some(count)));
        let parallelism = self.spec.parallelism.map_or(1, |count| number(Some(count)));
        if self.suspended { 0 } else { completions.saturating_sub(self.succeeded).min(parallelism) }
    }

    /// How many Pods must end before they are replaced.
    fn awaiting_termination(&self) -> usize {
        if self.replaces_only_failed { self.terminating } else { 0 }
    }

    /// One more than any that is known; failures that are counted were attempts, too.
    fn next_attempt(&self) -> u32 {
        let seen = self.pods.iter().filter_map(|pod| attempt::number(pod)).max();
        let counted = u32::try_from(self.failed).unwrap_or(u32::MAX);
        seen.map_or(0, |last| last.saturating_add(1)).max(counted)
    }

    /// Failures put the next attempt off; they are read from the Pods that are still there, so that
    /// a restart does not forget them.
    fn next_attempt_at(&self) -> Timestamp {
        let fallen = |pod: &&&Pod| phase(pod) == "Failed" || is_terminating(pod);
        let last = self.pods.iter().filter(fallen).map(|pod| attempt::ended_at(pod)).max();
        let seen = self.pods.iter().filter(fallen).count();
        let Some(last) = last else { return Timestamp::MIN };
        last.checked_add(attempt::backoff(self.failed.max(seen))).unwrap_or(Timestamp::MAX)
    }

    /// A Pod that is deleted counts as failed at once, unless its Job waits for its real end; on no
    /// node, there is none to wait for.
    fn has_failed(&self, pod: &Pod) -> bool {
        let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        phase(pod) == "Failed" || (is_terminating(pod) && !(self.replaces_only_failed && placed))
    }
}

/// What is asked for that is more than one Pod that runs to its end.
fn unsupported(spec: &JobSpec) -> Option<&'static str> {
    if spec.completion_mode.as_deref() == Some("Indexed") {
        return Some("spec.completionMode: Indexed is not supported here, only NonIndexed");
    }
    let more_than_one = match spec.completions {
        Some(completions) => completions > 1,
        None => spec.parallelism.is_some_and(|parallelism| parallelism > 1),
    };
    if more_than_one {
        return Some("spec.completions: more than 1 is not supported here");
    }
    if spec.manual_selector == Some(true) {
        return Some("spec.manualSelector is not supported here");
    }
    None
}

fn conclude(status: &mut JobStatus, result: &JobResult, now: Timestamp) -> EventNote {
    let JobResult { success, reason, message } = result;
    if *success {
        set(status, "Complete", "True", reason, message, now);
        status.completion_time = Some(Time(now));
        let (reason, message) = ("Completed".to_owned(), "Job completed".to_owned());
        EventNote { warning: false, reason, message }
    } else {
        set(status, "Failed", "True", reason, message, now);
        EventNote { warning: true, reason: reason.clone(), message: message.clone() }
    }
}

fn ended_at(job: &Job) -> Option<Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let ended = conditions.iter().find(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    })?;
    Some(ended.last_transition_time.as_ref().map_or(Timestamp::MIN, |time| time.0))
}

fn condition<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// Sets a condition; one that says so already keeps its times.
fn set(
    status: &mut JobStatus,
    kind: &str,
    value: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let new = JobCondition {
        type_: kind.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|condition| condition.type_ == kind) {
        Some(old)
            if old.status == value && old.reason == new.reason && old.message == new.message => {}
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

fn release(pod: &Pod) -> Step {
    Step::Release { name: pod.metadata.name.clone().unwrap_or_default(), uid: uid(pod) }
}

fn delete(pod: &Pod) -> Decision {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let note = EventNote {
        warning: false,
        reason: "SuccessfulDelete".to_owned(),
        message: format!("Deleted pod: {name}"),
    };
    let step = Step::DeletePod { name, uid: uid(pod) };
    Decision { step: Some(step), notes: vec![note], wake: None }
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

fn is_active(pod: &Pod) -> bool {
    !has_ended(pod) && pod.metadata.deletion_timestamp.is_none()
}

fn is_terminating(pod: &Pod) -> bool {
    !has_ended(pod) && pod.metadata.deletion_timestamp.is_some()
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether the Pod is still to be counted.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == TRACKING)
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

fn number(value: Option<i32>) -> usize {
    usize::try_from(value.unwrap_or(0)).unwrap_or(0)
}

fn count(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Counters that are 0 are left out, as the API leaves them out.
fn positive(value: usize) -> Option<i32> {
    Some(count(value)).filter(|value| *value > 0)
}
