//! Handing in what an instance's volumes hold.
//!
//! Every environment has its own entry, so one that cannot be handed in says nothing about another.
//! An entry waits until the instance is off and its Pods are gone, then a Job archives and uploads;
//! environments take turns, so that a room of exams that end together does not upload everything at
//! once. A request does not stop a running instance: it waits until somebody does.
//!
//! The Job is a level, not an event: while an entry is `Running` and its Job is not there, the Job
//! is asked for again, in the same series, and whoever receives an upload knows it by that. It is
//! removed only when its outcome is on record. Entries block deletion until they are done, or
//! somebody waives them; switching submission off does not.

use crate::known::Known;
use crate::notice::{NoticeId, Outbox};

use super::effect::Effect;
use super::intent::{Eligible, Wanted};
use super::observed::{Job, JobEnd, Pods};
use super::reason::Reason;
use super::state::{
    Action, NoticeKind, State, StopReason, Submission, SubmissionState, Submissions,
};
use super::turn::Turn;
use crate::moment::up;

/// Brings submissions forward. `ended` says that termination has stopped the instance just now.
pub(super) fn decide(state: &mut State, ended: bool, turn: &mut Turn<'_>) {
    let orders = &turn.intent.submission;
    let nothing = state.submissions.entries.is_empty();
    if nothing && orders.wanted.is_none() && orders.waived == state.submissions.waived {
        return;
    }
    let running = turn.intent.running && !turn.intent.deleting;
    let off = !running && turn.seen.pods == Pods::Gone;
    let waives = is_new(orders.waived, state.submissions.waived);
    for entry in &mut state.submissions.entries {
        let job = job_of(&entry.environment, turn);
        follow(entry, job, off && !waives, &mut state.outbox, turn);
    }
    let terminated = state.power.stop_reason == Some(StopReason::Terminated) && !running;
    let due = terminated && (ended || state.submissions.entries.is_empty());
    take_orders(&mut state.submissions, due, turn);
    promote(&mut state.submissions, off, turn);
}

fn is_new(order: Option<jiff::Timestamp>, taken: Option<jiff::Timestamp>) -> bool {
    order.is_some() && order != taken
}

fn job_of<'a>(environment: &str, turn: &Turn<'a>) -> Known<&'a Job> {
    let found = turn.seen.jobs.iter().find(|(name, _)| name == environment);
    found.map_or(Known::Unknown, |(_, job)| job.as_ref())
}

/// Follows one entry's Job, from what is on record.
fn follow(
    entry: &mut Submission,
    job: Known<&Job>,
    may_submit: bool,
    outbox: &mut Outbox<NoticeKind>,
    turn: &mut Turn<'_>,
) {
    let job = match job {
        Known::Unknown => return,
        Known::Absent => {
            if entry.state == SubmissionState::Running && may_submit {
                ask(entry, turn);
            }
            return;
        }
        Known::Is(job) => job,
    };
    if job.series < entry.series {
        remove(entry, job.series, turn);
        return;
    }
    match entry.state {
        // A Job of this series that nobody remembers: the record was lost, not the work.
        SubmissionState::Waiting | SubmissionState::Running => adopt(entry, job, outbox, turn),
        SubmissionState::Done | SubmissionState::Waived | SubmissionState::Skipped => {
            remove(entry, job.series, turn);
        }
        // It stays to be looked at, until a retry or a waiver.
        SubmissionState::Failed => {}
    }
}

fn remove(entry: &Submission, series: u32, turn: &mut Turn<'_>) {
    turn.effects.push(Effect::RemoveJob { environment: entry.environment.clone(), series });
}

/// Asks for the Job of an entry that is `Running`, if it can still be handed in.
fn ask(entry: &mut Submission, turn: &mut Turn<'_>) {
    let Some(wanted) = wanted(turn) else { return };
    if let Some(because) = unfit(wanted, &entry.environment) {
        skip(entry, because);
        turn.again();
        return;
    }
    let environment = entry.environment.clone();
    turn.effects.push(Effect::Submit { environment, series: entry.series });
}

/// What is to be handed in, while submission is on.
fn wanted<'a>(turn: &Turn<'a>) -> Option<&'a Wanted> {
    turn.intent.submission.wanted.as_ref().filter(|_| turn.intent.submission.enabled)
}

/// Why an environment cannot be handed in.
fn unfit(wanted: &Wanted, environment: &str) -> Option<String> {
    match wanted.environments.iter().find(|one| one.environment == environment) {
        Some(Eligible { not_because, .. }) => not_because.clone(),
        None => Some("the template has no such environment any more".to_owned()),
    }
}

fn skip(entry: &mut Submission, because: String) {
    entry.state = SubmissionState::Skipped;
    entry.error = Some(because);
}

/// Takes in what a Job of this entry's series says.
fn adopt(entry: &mut Submission, job: &Job, outbox: &mut Outbox<NoticeKind>, turn: &mut Turn<'_>) {
    entry.series = job.series;
    entry.attempts = job.failed_attempts;
    match &job.end {
        JobEnd::Running => entry.state = SubmissionState::Running,
        JobEnd::Done { at, size, sha256, receipt } => {
            entry.state = SubmissionState::Done;
            entry.size = *size;
            entry.sha256.clone_from(sha256);
            entry.receipt.clone_from(receipt);
            entry.submitted_at = Some(up(*at));
            entry.error = None;
            turn.again();
        }
        JobEnd::Failed { error } => {
            entry.state = SubmissionState::Failed;
            entry.error = Some(error.clone());
            let stage = format!("submission-{}-{}", entry.environment, entry.series);
            let id = NoticeId::new(&turn.intent.uid, &stage, turn.intent.created_at);
            outbox.record(id, NoticeKind::SubmissionFailed, None, None, turn.now);
            turn.again();
        }
    }
}

/// Takes in what was asked for: a hand-in, by termination or by a request, another try, a waiver.
fn take_orders(submissions: &mut Submissions, ended: bool, turn: &mut Turn<'_>) {
    let orders = &turn.intent.submission;
    if let Some(wanted) = wanted(turn) {
        let requested = is_new(orders.requested, submissions.requested);
        if requested {
            submissions.requested = orders.requested;
        }
        if requested || (ended && wanted.on_termination) {
            for one in &wanted.environments {
                enter(&mut submissions.entries, one, turn);
            }
        }
    }
    if is_new(orders.retried, submissions.retried) {
        submissions.retried = orders.retried;
        for entry in &mut submissions.entries {
            if entry.state == SubmissionState::Failed {
                begin(entry);
                turn.again();
            }
        }
    }
    if is_new(orders.waived, submissions.waived) {
        submissions.waived = orders.waived;
        for entry in &mut submissions.entries {
            if entry.state.blocks() {
                entry.state = SubmissionState::Waived;
                turn.again();
            }
        }
    }
}

/// Makes an entry, or lets one that is over begin anew.
fn enter(entries: &mut Vec<Submission>, eligible: &Eligible, turn: &mut Turn<'_>) {
    let known = entries.iter().position(|entry| entry.environment == eligible.environment);
    let entry = match known {
        None => {
            entries.push(Submission {
                environment: eligible.environment.clone(),
                state: SubmissionState::Waiting,
                series: 1,
                attempts: 0,
                size: None,
                sha256: None,
                receipt: None,
                submitted_at: None,
                error: None,
            });
            let last = entries.len() - 1;
            &mut entries[last]
        }
        Some(known) => {
            let entry = &mut entries[known];
            match entry.state {
                SubmissionState::Waiting | SubmissionState::Running => return,
                SubmissionState::Done
                | SubmissionState::Failed
                | SubmissionState::Waived
                | SubmissionState::Skipped => begin(entry),
            }
            entry
        }
    };
    if let Some(because) = &eligible.not_because {
        skip(entry, because.clone());
    }
    turn.again();
}

/// Another series of attempts.
fn begin(entry: &mut Submission) {
    entry.state = SubmissionState::Waiting;
    entry.series = entry.series.saturating_add(1);
    entry.attempts = 0;
    entry.error = None;
}

/// Lets the next entry that waits have its turn.
fn promote(submissions: &mut Submissions, off: bool, turn: &mut Turn<'_>) {
    if !submissions.pending() {
        return;
    }
    if submissions.entries.iter().any(|entry| entry.state == SubmissionState::Running) {
        turn.comes(Action::Submit, Some(turn.now), Reason::SubmissionPending);
        return;
    }
    let Some(wanted) = wanted(turn) else { return };
    for entry in &mut submissions.entries {
        if entry.state != SubmissionState::Waiting {
            continue;
        }
        if let Some(because) = unfit(wanted, &entry.environment) {
            skip(entry, because);
            turn.again();
        } else if off {
            entry.state = SubmissionState::Running;
            turn.comes(Action::Submit, Some(turn.now), Reason::SubmissionPending);
            turn.again();
            return;
        }
    }
    if submissions.pending() {
        turn.comes(Action::Submit, None, Reason::SubmissionPending);
    }
}

#[cfg(test)]
mod tests;
