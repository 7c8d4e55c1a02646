//! What will happen to an instance if nobody does anything: the same decision, with time passing.
//!
//! Every notice is accepted at once, every source goes on seeing, the status goes on as it was, a
//! submission succeeds, and nobody uses anything.

use jiff::{SignedDuration, Timestamp};

use crate::coverage::Coverage;
use crate::decision::Wake;
use crate::known::Known;
use crate::moment;
use crate::notice::DeliveryOutcome;

use super::decide;
use super::effect::Effect;
use super::intent::Intent;
use super::observed::{JobEnd, Observed, ObservedJob, Pods, StatusAnswer, StatusCheckResult};
use super::reason::Reason;
use super::state::{Action, InstanceState, NoticeKind, UpcomingAction};

/// A step takes a few decisions.
const DECISIONS_PER_STEP: usize = 16;
/// The status is checked once; after that no check is due within the forecast.
const NO_MORE_CHECKS: SignedDuration = SignedDuration::from_hours(100 * 366 * 24);

/// The next things that will happen by themselves, at most `steps`, in order. What has no time yet
/// (a source is blind) comes last and ends the forecast.
pub fn forecast(
    state: InstanceState,
    seen: &Observed<'_>,
    intent: &Intent,
    now: Timestamp,
    steps: usize,
) -> Vec<UpcomingAction> {
    let mut future = Forecast::new(state, seen, intent, now);
    let mut upcoming = Vec::new();
    for _ in 0..steps.saturating_mul(DECISIONS_PER_STEP) {
        if upcoming.len() >= steps || !future.advance(&mut upcoming) {
            break;
        }
    }
    upcoming.truncate(steps);
    upcoming
}

/// The instance as it is going to be.
struct Forecast<'a> {
    state: InstanceState,
    intent: Intent,
    now: Timestamp,
    coverage: Vec<Coverage>,
    seen: &'a Observed<'a>,
    pods: Pods,
    outcomes: Vec<DeliveryOutcome>,
    check: Option<StatusCheckResult>,
    jobs: Vec<(String, Known<ObservedJob>)>,
    /// What was reported before is taken in once.
    first: bool,
}

impl<'a> Forecast<'a> {
    fn new(state: InstanceState, seen: &'a Observed<'a>, intent: &Intent, now: Timestamp) -> Self {
        let mut intent = Intent { observe: false, ..intent.clone() };
        if let Some(check) = &mut intent.termination.check {
            check.interval = NO_MORE_CHECKS;
        }
        Self {
            state,
            intent,
            now: moment::ceil_second(now),
            coverage: seen.coverage.iter().map(|&source| source.clone()).collect(),
            seen,
            pods: seen.pods,
            outcomes: seen.outcomes.to_vec(),
            check: seen.check,
            jobs: seen.jobs.to_vec(),
            first: true,
        }
    }

    /// One decision and what follows from it; false at the end of what can be foreseen.
    fn advance(&mut self, upcoming: &mut Vec<UpcomingAction>) -> bool {
        let coverage: Vec<&Coverage> = self.coverage.iter().collect();
        let observed = Observed {
            activity: self.seen.activity.filter(|_| self.first),
            coverage: &coverage,
            blind: self.seen.blind,
            outcomes: &self.outcomes,
            channels_changed_at: self.seen.channels_changed_at,
            pods: self.pods,
            pods_since: self.seen.pods_since,
            check: self.check,
            claims: self.seen.claims,
            namespace_terminating: self.seen.namespace_terminating,
            jobs: &self.jobs,
        };
        let decision = decide(self.state.clone(), &observed, &self.intent, self.now);
        self.first = false;
        self.outcomes.clear();
        let changed = decision.next != self.state;
        let acted = !decision.effects.is_empty();
        let deleted = decision.effects.contains(&Effect::Delete);
        let why = decision.why.last().cloned();
        let next = decision.next.upcoming.clone();
        self.state = decision.next;
        for effect in decision.effects {
            upcoming.extend(self.apply(effect, why.as_ref()));
        }
        if deleted || self.intent.deleting {
            return false;
        }
        match decision.wake {
            // The effects changed what is observed, so the next decision comes at once.
            _ if acted => {}
            Wake::At(at) if at > self.now => self.wait(at),
            Wake::At(_) => {}
            Wake::OnChange if changed => {}
            Wake::OnChange => {
                upcoming.extend(next.filter(|next| next.at.is_none()));
                return false;
            }
        }
        true
    }

    /// Lets time pass, and every source see.
    fn wait(&mut self, until: Timestamp) {
        self.now = until;
        for source in &mut self.coverage {
            let from = source.until();
            source.mark_observed(from, until);
        }
    }

    /// Lets an effect succeed at once, and says what it is to the owner.
    fn apply(&mut self, effect: Effect, why: Option<&Reason>) -> Option<UpcomingAction> {
        let now = self.now;
        let add_upcoming = |action| {
            let why = why.cloned().unwrap_or(Reason::LadderDone);
            Some(UpcomingAction { action, at: Some(now), why })
        };
        match effect {
            Effect::Notify(notice) => {
                let outcome = DeliveryOutcome { id: notice.id, at: now, result: Ok(()) };
                self.outcomes.push(outcome);
                match (notice.kind, notice.alert) {
                    (
                        NoticeKind::InactivityWarning
                        | NoticeKind::DeletionWarning
                        | NoticeKind::ExpiryWarning,
                        Some((alert, of)),
                    ) => {
                        let why = Reason::WarningDue { alert, of };
                        Some(UpcomingAction { action: Action::Warn, at: Some(now), why })
                    }
                    _ => None,
                }
            }
            Effect::Stop(_) => {
                self.intent.running = false;
                self.pods = Pods::Gone;
                add_upcoming(Action::Stop)
            }
            Effect::Delete => add_upcoming(Action::Delete),
            Effect::Check => {
                let answer = StatusAnswer::Keeps { deadline: self.state.termination.deadline };
                self.check = Some(StatusCheckResult { at: now, answer });
                None
            }
            Effect::Submit { environment, series } => {
                let end = JobEnd::Done { at: now, size: None, sha256: None, receipt: None };
                self.job(&environment, Known::Is(ObservedJob { series, failed_attempts: 0, end }));
                Some(UpcomingAction {
                    action: Action::Submit,
                    at: Some(now),
                    why: Reason::SubmissionPending,
                })
            }
            Effect::RemoveJob { environment, .. } => {
                self.job(&environment, Known::Absent);
                None
            }
            Effect::AddClaimFinalizer { .. }
            | Effect::RemoveClaimFinalizer { .. }
            | Effect::RemoveFinalizer => None,
        }
    }

    fn job(&mut self, environment: &str, job: Known<ObservedJob>) {
        self.jobs.retain(|(name, _)| name != environment);
        self.jobs.push((environment.to_owned(), job));
    }
}

#[cfg(test)]
mod tests;
