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

use super::effect::Effect;
use super::ending::{is_settled, owes_of};
use super::intent::{Eligible, Wanted};
use super::observed::{Job, JobEnd, Pods};
use super::reason::Reason;
use super::state::{Action, NoticeKind, State, Submission, SubmissionState, Submissions};
use super::turn::Turn;
use crate::moment::{later, up};

/// Brings submissions forward.
pub(super) fn decide(state: &mut State, turn: &mut Turn<'_>) {
    let orders = &turn.intent.submission;
    let nothing = state.submissions.entries.is_empty();
    if nothing && orders.wanted.is_none() && orders.waived == state.submissions.waived {
        return;
    }
    let off = (!turn.running || turn.intent.deleting) && turn.seen.pods == Pods::Gone;
    let waives = is_new(orders.waived, state.submissions.waived);
    let State { submissions, claims, outbox, .. } = state;
    for entry in &mut submissions.entries {
        let job = job_of(&entry.environment, turn);
        follow(entry, job, off && !waives, claims, outbox, turn);
    }
    take_orders(state, turn);
    promote(state, off, turn);
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
    claims: &[String],
    outbox: &mut Outbox<NoticeKind>,
    turn: &mut Turn<'_>,
) {
    let job = match job {
        Known::Unknown => return,
        Known::Absent => {
            if entry.state == SubmissionState::Running && may_submit {
                ask(entry, claims, turn);
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
fn ask(entry: &mut Submission, claims: &[String], turn: &mut Turn<'_>) {
    let Some(wanted) = wanted(turn) else { return };
    if let Some(because) = unfit(wanted, claims, &entry.environment) {
        skip(entry, because);
        turn.again();
        return;
    }
    if turn.seen.namespace_leaves {
        turn.because(Reason::NamespaceLeaves);
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
fn unfit(wanted: &Wanted, claims: &[String], environment: &str) -> Option<String> {
    if claims.iter().any(|claimed| claimed == environment) {
        return None;
    }
    let words = match wanted.environments.iter().find(|one| one.environment == environment) {
        Some(Eligible { not_because: Some(words), .. }) => words.as_str(),
        Some(Eligible { not_because: None, .. }) => NO_CLAIM,
        None => "the Template has no such environment any more, and no claim was made for it",
    };
    Some(words.to_owned())
}

const NO_CLAIM: &str = "no claim was made for it, so there is nothing to hand in";

fn skip(entry: &mut Submission, because: String) {
    entry.state = SubmissionState::Skipped;
    entry.error = Some(because);
}

/// Takes in what a Job of this entry's series says.
fn adopt(entry: &mut Submission, job: &Job, outbox: &mut Outbox<NoticeKind>, turn: &mut Turn<'_>) {
    entry.series = job.series;
    entry.attempts = job.failed_attempts;
    entry.retry_at = None;
    match &job.end {
        JobEnd::Running { error, retry_at } => {
            entry.state = SubmissionState::Running;
            entry.error.clone_from(error);
            entry.retry_at = retry_at.map(up);
        }
        JobEnd::Done { at, size, sha256, receipt } => {
            entry.state = SubmissionState::Done;
            entry.attempts = job.failed_attempts.saturating_add(1);
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

/// Takes in what was asked for: a hand-in, by an end or by a request, another try, a waiver.
fn take_orders(state: &mut State, turn: &mut Turn<'_>) {
    let orders = &turn.intent.submission;
    let over = turn.intent.deleting || state.ended.is_some();
    if let Some(wanted) = &orders.wanted {
        let requested = orders.enabled && is_new(orders.requested, state.submissions.requested);
        if requested {
            state.submissions.requested = orders.requested;
        }
        let owed = over && wanted.on_termination;
        for environment in environments(wanted, &state.claims) {
            if requested || (owed && !is_settled(state, &environment)) {
                enter(state, wanted, environment, requested, turn);
            }
        }
    }
    if is_new(orders.retried, state.submissions.retried) {
        state.submissions.retried = orders.retried;
        for entry in &mut state.submissions.entries {
            if entry.state == SubmissionState::Failed {
                begin(entry);
                turn.again();
            }
        }
    }
    if is_new(orders.waived, state.submissions.waived) {
        state.submissions.waived = orders.waived;
        waive(state, turn);
    }
}

/// Every environment that there is something to say about: the template's, and those that it has
/// lost since a claim was made for them.
fn environments(wanted: &Wanted, claims: &[String]) -> Vec<String> {
    let mut all: Vec<String> =
        wanted.environments.iter().map(|one| one.environment.clone()).collect();
    let lost: Vec<_> = claims.iter().filter(|claimed| !all.contains(claimed)).cloned().collect();
    all.extend(lost);
    all
}

/// Gives up what is owed: what waits or has failed, and what would be handed in at the end.
fn waive(state: &mut State, turn: &mut Turn<'_>) {
    for environment in state.claims.clone() {
        let owed = owes_of(state, turn.intent, &environment);
        let entries = &mut state.submissions.entries;
        if owed && !entries.iter().any(|entry| entry.environment == environment) {
            entries.push(fresh(environment, turn));
        } else if owed
            && let Some(entry) = entries.iter_mut().find(|entry| entry.environment == environment)
            && !entry.state.blocks()
        {
            ask_anew(entry, turn);
            begin(entry);
        }
    }
    for entry in &mut state.submissions.entries {
        if entry.state.blocks() {
            entry.state = SubmissionState::Waived;
            (entry.earlier, entry.retry_at) = (false, None);
            turn.again();
        }
    }
}

fn fresh(environment: String, turn: &Turn<'_>) -> Submission {
    let asked_at = Some(turn.now);
    Submission { asked_at, ..Submission::new(environment, SubmissionState::Waiting) }
}

/// Makes an entry, or lets one that is over begin anew. One that has failed since the last start
/// waits for somebody to say what becomes of it.
fn enter(
    state: &mut State,
    wanted: &Wanted,
    environment: String,
    requested: bool,
    turn: &mut Turn<'_>,
) {
    let State { submissions: Submissions { entries, .. }, claims, .. } = state;
    let known = entries.iter().position(|entry| entry.environment == environment);
    let entry = match known {
        None => {
            entries.push(fresh(environment, turn));
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
                    ask_anew(entry, turn);
                    begin(entry);
                }
            }
            entry
        }
    };
    // One that has no claim may still get one, unless this is the end.
    let not = unfit(wanted, claims, &entry.environment);
    let not = not.filter(|because| !requested || because != NO_CLAIM);
    if let Some(because) = not {
        skip(entry, because);
    }
    turn.again();
}

/// Another wish: whoever receives it must not take it for the last one.
fn ask_anew(entry: &mut Submission, turn: &Turn<'_>) {
    let last = entry.asked_at.map_or(turn.now, |last| later(last, ONE_SECOND));
    entry.asked_at = Some(turn.now.max(last));
    entry.earlier = false;
}

const ONE_SECOND: jiff::SignedDuration = jiff::SignedDuration::from_secs(1);

/// Another series of attempts.
fn begin(entry: &mut Submission) {
    entry.state = SubmissionState::Waiting;
    entry.series = entry.series.saturating_add(1);
    entry.attempts = 0;
    entry.retry_at = None;
    entry.error = None;
}

/// Lets the next entry that waits have its turn.
fn promote(state: &mut State, off: bool, turn: &mut Turn<'_>) {
    let State { submissions, claims, .. } = state;
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
        let not = unfit(wanted, claims, &entry.environment);
        if let Some(because) = not.filter(|because| off || because != NO_CLAIM) {
            skip(entry, because);
            turn.again();
        } else if off {
            if entry.earlier {
                // Another try, and of what was written since.
                ask_anew(entry, turn);
            }
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
