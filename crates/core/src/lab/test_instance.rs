//! One instance for tests: time passes, effects are carried out, everything is on record.

use jiff::{SignedDuration, Timestamp};

use crate::activity::ActivityReport;
use crate::coverage::Coverage;
use crate::known::Known;
use crate::lab::source;
use crate::notice::{DeliveryFailure, DeliveryOutcome, Notice, OnUndeliverable};
use crate::term::Term;

use super::effect::Effect;
use super::intent::{
    CheckTarget, EnvironmentEligibility, ExpirationPolicy, InactivityPolicy, Intent, StatusCheck,
    SubmissionPolicy, SubmissionScope, TerminationPolicy,
};
use super::observed::{
    Claim, JobEnd, Observed, ObservedJob, Pods, StatusAnswer, StatusCheckResult,
};
use super::state::{InstanceState, NoticeKind};
use super::{LabDecision, decide};

pub(super) const MINUTE: SignedDuration = SignedDuration::from_mins(1);
pub(super) const HOUR: SignedDuration = SignedDuration::from_hours(1);
pub(super) const DAY: SignedDuration = SignedDuration::from_hours(24);
/// More decisions than this at one moment are a loop.
const MAX_DECISIONS: usize = 12;

/// A Job whose first attempt is under way.
pub(super) const RUNNING: JobEnd = JobEnd::Running { error: None, retry_at: None, late_at: None };

/// When every test begins.
pub(super) fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// So long after the beginning.
pub(super) fn at(span: SignedDuration) -> Timestamp {
    start() + span
}

/// Whether mail gets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mail {
    Works,
    Down,
    /// It is accepted, and nobody says so.
    Silent,
}

#[derive(Debug, Clone)]
pub(super) struct TestInstance {
    pub(super) state: InstanceState,
    pub(super) intent: Intent,
    pub(super) now: Timestamp,
    pub(super) coverage: Vec<Coverage>,
    pub(super) blind: Option<Timestamp>,
    pub(super) pods: Pods,
    pub(super) pods_since: Option<Timestamp>,
    pub(super) mail: Mail,
    /// When mail was last set up anew.
    pub(super) channels_changed_at: Option<Timestamp>,
    /// What its status answers when it is looked at.
    pub(super) answer: Option<StatusAnswer>,
    pub(super) check: Option<StatusCheckResult>,
    pub(super) claims: Vec<Claim>,
    pub(super) namespace_terminating: bool,
    pub(super) jobs: Vec<(String, Known<ObservedJob>)>,
    pub(super) activity: Option<ActivityReport>,
    pub(super) outcomes: Vec<DeliveryOutcome>,
    /// What was attempted, and everything else that was done, with the time.
    pub(super) sent: Vec<(Timestamp, Notice<NoticeKind>)>,
    pub(super) done: Vec<(Timestamp, Effect)>,
}

impl TestInstance {
    /// Persistent, just created and running; two weeks unused stop it, three warnings a day apart.
    pub(super) fn new() -> Self {
        let inactivity = InactivityPolicy {
            enabled: true,
            opted_out: false,
            notify: true,
            stop_after: Term::Span(DAY * 14),
            delete_after_stopped: Term::Never,
            max_alerts: 3,
            interval: DAY,
            margin: MINUTE,
            tick: SignedDuration::from_secs(30),
        };
        let expiration = ExpirationPolicy {
            enabled: true,
            notify: true,
            delete_after: Term::Never,
            interval: DAY,
            margin: MINUTE,
        };
        let intent = Intent {
            uid: "u1".to_owned(),
            created_at: start(),
            deleting: false,
            running: true,
            paused: false,
            observe: false,
            reopen: None,
            keep_until: None,
            persistent: true,
            inactivity,
            expiration,
            termination: TerminationPolicy { enabled: true, check: None },
            submission: SubmissionPolicy {
                enabled: true,
                wanted: None,
                requested: None,
                retried: None,
                waived: None,
            },
            on_undeliverable: OnUndeliverable::Hold,
            notices_waived: None,
            delivery: SignedDuration::ZERO,
        };
        Self {
            state: InstanceState::default(),
            intent,
            now: start(),
            coverage: vec![Coverage::starting(start() - DAY)],
            blind: None,
            pods: Pods::AllReady,
            pods_since: None,
            mail: Mail::Works,
            channels_changed_at: None,
            answer: None,
            check: None,
            claims: Vec::new(),
            namespace_terminating: false,
            jobs: Vec::new(),
            activity: None,
            outcomes: Vec::new(),
            sent: Vec::new(),
            done: Vec::new(),
        }
    }

    pub(super) fn stopped() -> Self {
        let mut instance = Self::new();
        instance.intent.running = false;
        instance.pods = Pods::Gone;
        instance.intent.inactivity.delete_after_stopped = Term::Span(DAY * 10);
        instance
    }

    pub(super) fn exam() -> Self {
        let mut instance = Self::new();
        instance.intent.termination.check = Some(StatusCheck {
            target: CheckTarget::Endpoint,
            interval: MINUTE * 2,
            confirmations: 3,
        });
        instance.answer = Some(StatusAnswer::Keeps { deadline: None });
        instance
    }

    /// Hands in these environments when the exam ends; the second part says why not.
    pub(super) fn submitting(environments: &[(&str, Option<&str>)]) -> Self {
        let mut instance = Self::exam();
        let eligible = |(name, not): &(&str, Option<&str>)| EnvironmentEligibility {
            environment: (*name).to_owned(),
            not_because: not.map(str::to_owned),
        };
        instance.intent.submission.wanted = Some(SubmissionScope {
            on_termination: true,
            environments: environments.iter().map(eligible).collect(),
        });
        let claimed = environments.iter().filter(|(_, not)| not.is_none());
        instance.claims = claimed
            .map(|(name, _)| Claim {
                environment: (*name).to_owned(),
                has_finalizer: true,
                bound: true,
            })
            .collect();
        instance.jobs =
            environments.iter().map(|(name, _)| ((*name).to_owned(), Known::Absent)).collect();
        instance
    }

    pub(super) fn used(&mut self) {
        self.activity = Some(ActivityReport { last: self.now, source: source::GATEWAY, count: 1 });
    }

    /// One decision on what is on record, which then is the record.
    pub(super) fn decide(&mut self) -> LabDecision {
        let decision = self.decision();
        self.state = decision.next.clone();
        self.activity = None;
        self.outcomes.clear();
        self.check = None;
        decision
    }

    /// What would be decided.
    pub(super) fn decision(&self) -> LabDecision {
        let mut coverage = self.coverage.clone();
        if self.blind.is_none() {
            for source in &mut coverage {
                source.mark_observed(source.until(), self.now);
            }
        }
        let coverage: Vec<&Coverage> = coverage.iter().collect();
        let seen = Observed {
            activity: self.activity,
            coverage: &coverage,
            blind: self.blind,
            outcomes: &self.outcomes,
            channels_changed_at: self.channels_changed_at,
            pods: self.pods,
            pods_since: self.pods_since,
            check: self.check,
            claims: &self.claims,
            namespace_terminating: self.namespace_terminating,
            jobs: &self.jobs,
        };
        decide(self.state.clone(), &seen, &self.intent, self.now)
    }

    /// Decides until nothing changes any more, and lets every effect come true.
    pub(super) fn settle(&mut self) -> LabDecision {
        for _ in 0..MAX_DECISIONS {
            let before = self.state.clone();
            let decision = self.decide();
            for effect in decision.effects.clone() {
                self.apply(effect);
            }
            let news = !self.outcomes.is_empty() || self.check.is_some();
            let quiet = decision.effects.iter().all(|effect| *effect == Effect::RemoveFinalizer);
            if self.state == before && quiet && !news {
                return decision;
            }
        }
        panic!("it does not come to rest at {}: {:?}", self.now, self.state);
    }

    /// One decision, and its effects.
    pub(super) fn settle_once(&mut self) {
        for effect in self.decide().effects {
            self.apply(effect);
        }
    }

    pub(super) fn apply(&mut self, effect: Effect) {
        match effect.clone() {
            Effect::Notify(notice) => {
                let result = match self.mail {
                    Mail::Works => Some(Ok(())),
                    Mail::Down => {
                        Some(Err(DeliveryFailure::Refused("the mail server is down".to_owned())))
                    }
                    Mail::Silent => None,
                };
                let (id, at) = (notice.id.clone(), self.now);
                self.outcomes.extend(result.map(|result| DeliveryOutcome { id, at, result }));
                self.sent.push((self.now, notice));
                return;
            }
            Effect::Stop(_) => {
                self.intent.running = false;
                self.pods = Pods::Gone;
            }
            Effect::Delete => {
                self.intent.deleting = true;
                self.pods = Pods::Gone;
            }
            Effect::Check => {
                self.check = self.answer.map(|answer| StatusCheckResult { at: self.now, answer });
            }
            Effect::Submit { environment, series } => {
                self.job(&environment, series, 0, RUNNING);
            }
            Effect::RemoveJob { environment, .. } => {
                self.jobs.retain(|(name, _)| *name != environment);
                self.jobs.push((environment, Known::Absent));
            }
            Effect::AddClaimFinalizer { environment }
            | Effect::RemoveClaimFinalizer { environment } => {
                let has_finalizer = matches!(effect, Effect::AddClaimFinalizer { .. });
                let ours = |claim: &&mut Claim| claim.environment == environment;
                self.claims
                    .iter_mut()
                    .filter(ours)
                    .for_each(|claim| claim.has_finalizer = has_finalizer);
            }
            Effect::RemoveFinalizer => {}
        }
        self.done.push((self.now, effect));
    }

    /// Sets the state of the Job of an environment.
    pub(super) fn job(&mut self, environment: &str, series: u32, failed: u32, end: JobEnd) {
        self.jobs.retain(|(name, _)| name != environment);
        let job = ObservedJob { series, failed_attempts: failed, end };
        self.jobs.push((environment.to_owned(), Known::Is(job)));
    }

    /// Lets time pass, looking whenever a decision asked for it.
    pub(super) fn advance(&mut self, span: SignedDuration) {
        let end = self.now + span;
        loop {
            let decision = self.settle();
            let next = decision.wake.at().filter(|at| *at > self.now && *at <= end);
            let Some(next) = next else { break };
            self.advance_to(next);
        }
        self.advance_to(end);
        self.settle();
    }

    /// Lets time pass while nobody decides anything; sources see on unless they are blind.
    pub(super) fn advance_to(&mut self, at: Timestamp) {
        if self.blind.is_none() {
            for source in &mut self.coverage {
                source.mark_observed(source.until(), at);
            }
        }
        self.now = at;
    }

    pub(super) fn blind_sources(&mut self) {
        self.blind = Some(self.now);
    }

    /// What happened in the dark stays unknown.
    pub(super) fn unblind_sources(&mut self) {
        self.blind = None;
        for source in &mut self.coverage {
            source.mark_blind(source.until(), self.now);
            source.mark_observed(self.now - SignedDuration::from_secs(1), self.now);
        }
    }

    /// Kinds of what was sent, in order, with the time since the beginning.
    pub(super) fn sent_notices(&self) -> Vec<(SignedDuration, NoticeKind)> {
        self.sent.iter().map(|(at, notice)| (at.duration_since(start()), notice.kind)).collect()
    }

    /// What was done, in order, with the time since the beginning.
    pub(super) fn executed_effects(&self) -> Vec<(SignedDuration, Effect)> {
        let kept = |effect: &Effect| {
            !matches!(
                effect,
                Effect::Check
                    | Effect::RemoveFinalizer
                    | Effect::AddClaimFinalizer { .. }
                    | Effect::RemoveClaimFinalizer { .. }
            )
        };
        let done = self.done.iter().filter(|(_, effect)| kept(effect));
        done.map(|(at, effect)| (at.duration_since(start()), effect.clone())).collect()
    }
}
