//! Handing in what an instance's volumes hold.
//!
//! Every environment has its own entry, so one that cannot be handed in says nothing about another.
//! Entries are made at an end ([`super::ending`]), for what is owed then, and when somebody asks. An
//! entry waits until the instance is off and its Pods are gone, then a Job archives and uploads;
//! environments take turns, so that a room of exams that end together does not upload everything at
//! once. A request does not stop a running instance: it waits until somebody does.
//!
//! What can be handed in is what a claim was made for; the template is asked only about the rest. The
//! Job is a level, not an event: while an entry is `Running` and its Job is not there, the Job is
//! asked for again, in the same series, and whoever receives an upload knows it by that. It is
//! removed only when its outcome is on record. Entries block deletion until they are done, or
//! somebody waives them; switching submission off does not.

use crate::known::Known;
use crate::notice::{NoticeId, Outbox};

use super::decision_builder::DecisionBuilder;
use super::effect::Effect;
use super::ending::{environment_needs_submission, is_settled};
use super::intent::{EnvironmentEligibility, SubmissionScope};
use super::observed::{JobEnd, ObservedJob, Pods};
use super::reason::Reason;
use super::state::{
    Action, InstanceState, NoticeKind, SubmissionEntry, SubmissionState, Submissions,
};
use crate::moment::{ceil_second, saturating_add};

/// Brings submissions forward.
pub(super) fn decide(state: &mut InstanceState, builder: &mut DecisionBuilder<'_>) {
    let orders = &builder.intent.submission;
    let nothing = state.submissions.entries.is_empty();
    if nothing && orders.wanted.is_none() && orders.waived == state.submissions.waived {
        return;
    }
    let off = (!builder.running || builder.intent.deleting) && builder.seen.pods == Pods::Gone;
    let waives = is_new(orders.waived, state.submissions.waived);
    let InstanceState { submissions, claims, outbox, .. } = state;
    for entry in &mut submissions.entries {
        let job = job_of(&entry.environment, builder);
        follow_job(entry, job, off && !waives, claims, outbox, builder);
    }
    apply_orders(state, builder);
    promote(state, off, builder);
}

fn is_new(order: Option<jiff::Timestamp>, taken: Option<jiff::Timestamp>) -> bool {
    order.is_some() && order != taken
}

fn job_of<'a>(environment: &str, builder: &DecisionBuilder<'a>) -> Known<&'a ObservedJob> {
    let found = builder.seen.jobs.iter().find(|(name, _)| name == environment);
    found.map_or(Known::Unknown, |(_, job)| job.as_ref())
}

/// Follows one entry's Job, from what is on record.
fn follow_job(
    entry: &mut SubmissionEntry,
    job: Known<&ObservedJob>,
    may_submit: bool,
    claims: &[String],
    outbox: &mut Outbox<NoticeKind>,
    builder: &mut DecisionBuilder<'_>,
) {
    let job = match job {
        Known::Unknown => return,
        Known::Absent => {
            if entry.state == SubmissionState::Running && may_submit {
                request_job(entry, claims, outbox, builder);
            }
            return;
        }
        Known::Is(job) => job,
    };
    if job.series < entry.series {
        remove_job(entry, job.series, builder);
        return;
    }
    match entry.state {
        // The status may have lost the record of a Job of this series; the Job is taken over.
        SubmissionState::Waiting | SubmissionState::Running => {
            record_job(entry, job, outbox, builder);
        }
        SubmissionState::Done | SubmissionState::Waived | SubmissionState::Skipped => {
            remove_job(entry, job.series, builder);
        }
        // The failed Job stays for inspection until a retry or a waiver.
        SubmissionState::Failed => {}
    }
}

fn remove_job(entry: &SubmissionEntry, series: u32, builder: &mut DecisionBuilder<'_>) {
    builder.effects.push(Effect::RemoveJob { environment: entry.environment.clone(), series });
}

/// Asks for the Job of an entry that is `Running`, if it can still be handed in.
fn request_job(
    entry: &mut SubmissionEntry,
    claims: &[String],
    outbox: &mut Outbox<NoticeKind>,
    builder: &mut DecisionBuilder<'_>,
) {
    let Some(wanted) = wanted(builder) else { return };
    if let Some(because) = ineligibility(wanted, claims, &entry.environment) {
        skip(entry, because);
        builder.wake_now();
        return;
    }
    if builder.seen.namespace_terminating {
        builder.because(Reason::NamespaceLeaves);
        return;
    }
    if claim_is_gone(&entry.environment, claims, builder) {
        fail(entry, CLAIM_GONE.to_owned(), outbox, builder);
        return;
    }
    let environment = entry.environment.clone();
    builder.effects.push(Effect::Submit { environment, series: entry.series });
}

/// What is to be handed in, while submission is on.
fn wanted<'a>(builder: &DecisionBuilder<'a>) -> Option<&'a SubmissionScope> {
    builder.intent.submission.wanted.as_ref().filter(|_| builder.intent.submission.enabled)
}

/// Why an environment cannot be handed in.
fn ineligibility(wanted: &SubmissionScope, claims: &[String], environment: &str) -> Option<String> {
    if claims.iter().any(|claimed| claimed == environment) {
        return None;
    }
    let words = match wanted.environments.iter().find(|one| one.environment == environment) {
        Some(EnvironmentEligibility { not_because: Some(words), .. }) => words.as_str(),
        Some(EnvironmentEligibility { not_because: None, .. }) => NO_CLAIM,
        None => "the Template has no such environment any more, and no claim was made for it",
    };
    Some(words.to_owned())
}

const NO_CLAIM: &str = "no claim was made for it, so there is nothing to hand in";

/// Whether a claim was made and somebody has taken it away since.
fn claim_is_gone(environment: &str, claims: &[String], builder: &DecisionBuilder<'_>) -> bool {
    let made = claims.iter().any(|claimed| claimed == environment);
    made && !builder.seen.claims.iter().any(|claim| claim.environment == environment)
}

const CLAIM_GONE: &str = "its claim was deleted, and the data with it; whoever may do so gives it up: sojourn submission waive";

fn skip(entry: &mut SubmissionEntry, because: String) {
    entry.state = SubmissionState::Skipped;
    entry.error = Some(because);
}

/// Records the state of a Job of this entry's series.
fn record_job(
    entry: &mut SubmissionEntry,
    job: &ObservedJob,
    outbox: &mut Outbox<NoticeKind>,
    builder: &mut DecisionBuilder<'_>,
) {
    entry.series = job.series;
    entry.attempts = job.failed_attempts;
    entry.retry_at = None;
    match &job.end {
        JobEnd::Running { error, retry_at, late_at } => {
            entry.state = SubmissionState::Running;
            entry.error.clone_from(error);
            entry.retry_at = retry_at.map(ceil_second);
            // A Pod that never starts changes nothing that would wake anybody.
            if let Some(at) = late_at {
                builder.wake_at(*at);
            }
        }
        JobEnd::Done { at, size, sha256, receipt } => {
            entry.state = SubmissionState::Done;
            entry.attempts = job.failed_attempts.saturating_add(1);
            entry.size = *size;
            entry.sha256.clone_from(sha256);
            entry.receipt.clone_from(receipt);
            entry.submitted_at = Some(ceil_second(*at));
            entry.error = None;
            builder.wake_now();
        }
        JobEnd::Failed { error } => {
            fail(entry, error.clone(), outbox, builder);
        }
    }
}

/// Records that a series is over without an upload, and has its owner told.
fn fail(
    entry: &mut SubmissionEntry,
    error: String,
    outbox: &mut Outbox<NoticeKind>,
    builder: &mut DecisionBuilder<'_>,
) {
    entry.state = SubmissionState::Failed;
    entry.error = Some(error);
    let stage = format!("submission-{}-{}", entry.environment, entry.series);
    let id = NoticeId::new(&builder.intent.uid, &stage, builder.intent.created_at);
    outbox.record(id, NoticeKind::SubmissionFailed, None, None, builder.now);
    builder.wake_now();
}

/// Applies what was asked for: a hand-in, by an end or by a request, another try, a waiver.
fn apply_orders(state: &mut InstanceState, builder: &mut DecisionBuilder<'_>) {
    let orders = &builder.intent.submission;
    let over = builder.intent.deleting || state.ended.is_some();
    if let Some(wanted) = &orders.wanted {
        let requested = orders.enabled && is_new(orders.requested, state.submissions.requested);
        if requested {
            state.submissions.requested = orders.requested;
        }
        let owed = over && wanted.on_termination;
        for environment in environments(wanted, &state.claims) {
            if requested || (owed && !is_settled(state, &environment)) {
                add_entry(state, wanted, environment, requested, builder);
            }
        }
    }
    if is_new(orders.retried, state.submissions.retried) {
        state.submissions.retried = orders.retried;
        for entry in &mut state.submissions.entries {
            if entry.state == SubmissionState::Failed {
                start_series(entry);
                builder.wake_now();
            }
        }
    }
    if is_new(orders.waived, state.submissions.waived) {
        state.submissions.waived = orders.waived;
        waive(state, builder);
    }
}

/// Every environment that there is something to say about: the template's, and those that it has
/// lost since a claim was made for them.
fn environments(wanted: &SubmissionScope, claims: &[String]) -> Vec<String> {
    let mut all: Vec<String> =
        wanted.environments.iter().map(|one| one.environment.clone()).collect();
    let lost: Vec<_> = claims.iter().filter(|claimed| !all.contains(claimed)).cloned().collect();
    all.extend(lost);
    all
}

/// Gives up what is owed: what waits or has failed, and what would be handed in at the end.
fn waive(state: &mut InstanceState, builder: &mut DecisionBuilder<'_>) {
    for environment in state.claims.clone() {
        let owed = environment_needs_submission(state, builder.intent, &environment);
        let entries = &mut state.submissions.entries;
        if owed && !entries.iter().any(|entry| entry.environment == environment) {
            entries.push(new_entry(environment, builder));
        } else if owed
            && let Some(entry) = entries.iter_mut().find(|entry| entry.environment == environment)
            && !entry.state.blocks()
        {
            renew_request(entry, builder);
            start_series(entry);
        }
    }
    for entry in &mut state.submissions.entries {
        if entry.state.blocks() {
            entry.state = SubmissionState::Waived;
            (entry.earlier, entry.retry_at) = (false, None);
            builder.wake_now();
        }
    }
}

fn new_entry(environment: String, builder: &DecisionBuilder<'_>) -> SubmissionEntry {
    let asked_at = Some(builder.now);
    SubmissionEntry { asked_at, ..SubmissionEntry::new(environment, SubmissionState::Waiting) }
}

/// Makes an entry, or lets one that is over begin anew. One that has failed since the last start
/// waits for somebody to say what becomes of it.
fn add_entry(
    state: &mut InstanceState,
    wanted: &SubmissionScope,
    environment: String,
    requested: bool,
    builder: &mut DecisionBuilder<'_>,
) {
    let InstanceState { submissions: Submissions { entries, .. }, claims, .. } = state;
    let known = entries.iter().position(|entry| entry.environment == environment);
    let entry = match known {
        None => {
            entries.push(new_entry(environment, builder));
            let last = entries.len() - 1;
            &mut entries[last]
        }
        Some(known) => {
            let entry = &mut entries[known];
            match entry.state {
                SubmissionState::Waiting | SubmissionState::Running => return,
                SubmissionState::Failed if !requested && !entry.earlier => return,
                SubmissionState::Done
                | SubmissionState::Failed
                | SubmissionState::Waived
                | SubmissionState::Skipped => {
                    renew_request(entry, builder);
                    start_series(entry);
                }
            }
            entry
        }
    };
    // One that has no claim may still get one, unless this is the end.
    let not = ineligibility(wanted, claims, &entry.environment);
    let not = not.filter(|because| !requested || because != NO_CLAIM);
    if let Some(because) = not {
        skip(entry, because);
    }
    builder.wake_now();
}

/// Makes it a new request, so that the receiver does not take it for the last one.
fn renew_request(entry: &mut SubmissionEntry, builder: &DecisionBuilder<'_>) {
    let last = entry.asked_at.map_or(builder.now, |last| saturating_add(last, ONE_SECOND));
    entry.asked_at = Some(builder.now.max(last));
    entry.earlier = false;
}

const ONE_SECOND: jiff::SignedDuration = jiff::SignedDuration::from_secs(1);

/// Another series of attempts.
fn start_series(entry: &mut SubmissionEntry) {
    entry.state = SubmissionState::Waiting;
    entry.series = entry.series.saturating_add(1);
    entry.attempts = 0;
    entry.retry_at = None;
    entry.error = None;
}

/// Lets the next entry that waits have its turn.
fn promote(state: &mut InstanceState, off: bool, builder: &mut DecisionBuilder<'_>) {
    let InstanceState { submissions, claims, .. } = state;
    if !submissions.pending() {
        return;
    }
    if submissions.entries.iter().any(|entry| entry.state == SubmissionState::Running) {
        builder.add_upcoming(Action::Submit, Some(builder.now), Reason::SubmissionPending);
        return;
    }
    let Some(wanted) = wanted(builder) else { return };
    for entry in &mut submissions.entries {
        if entry.state != SubmissionState::Waiting {
            continue;
        }
        let not = ineligibility(wanted, claims, &entry.environment);
        if let Some(because) = not.filter(|because| off || because != NO_CLAIM) {
            skip(entry, because);
            builder.wake_now();
        } else if off {
            if entry.earlier {
                // It is retried with what was written since the last start, so it is a new request.
                renew_request(entry, builder);
            }
            entry.state = SubmissionState::Running;
            builder.add_upcoming(Action::Submit, Some(builder.now), Reason::SubmissionPending);
            builder.wake_now();
            return;
        }
    }
    if submissions.pending() {
        builder.add_upcoming(Action::Submit, None, Reason::SubmissionPending);
    }
}

#[cfg(test)]
mod tests;
