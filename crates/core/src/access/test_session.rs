//! One session for tests: time passes, notices are delivered, everything is on record.

use jiff::{SignedDuration, Timestamp};

use super::deciding::{Effect, Observed, SessionDecision, Settings, Sibling, decide};
use super::escalation::Approvers;
use super::grant::granted_until;
use super::person::Person;
use super::refusal::Refusal;
use super::session::{Extension, NoticeKind, Session, SessionState, State, Terms};
use super::usage::Usage;
use super::{Recorded, Verb, act};
use crate::coverage::Coverage;
use crate::notice::DeliveryOutcome;
use crate::term::Term;

pub(super) const SECOND: SignedDuration = SignedDuration::from_secs(1);
pub(super) const MINUTE: SignedDuration = SignedDuration::from_mins(1);
pub(super) const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// How far canaries stay behind the clock.
pub(super) const LAG: SignedDuration = SignedDuration::from_secs(10);
/// More decisions than this at one moment are a loop.
const MAX_DECISIONS: usize = 12;

/// When every test begins.
pub(super) fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

pub(super) fn person(user: &str) -> Person {
    Person { user: user.to_owned(), ..Person::default() }
}

pub(super) fn terms() -> Terms {
    Terms {
        max_valid_for: HOUR * 4,
        approval_timeout: HOUR,
        idle_timeout: Term::Span(MINUTE * 30),
        first_use_timeout: None,
        warn_before: MINUTE * 5,
        extension: Some(Extension { max: 2, step: HOUR }),
        retain_for: HOUR * 720,
    }
}

/// Ben and whoever is a lead approve, one of them.
pub(super) fn approvers() -> Approvers {
    Approvers {
        users: vec!["ben".to_owned(), "anna".to_owned()],
        groups: vec!["leads".to_owned()],
        required: 1,
        self_approval: false,
    }
}

#[derive(Debug, Clone)]
pub(super) struct TestSession {
    pub(super) session: Session,
    pub(super) state: SessionState,
    pub(super) usage: Usage,
    pub(super) now: Timestamp,
    pub(super) coverage: Coverage,
    /// Nobody can see.
    pub(super) blind: bool,
    pub(super) siblings: Vec<Sibling>,
    pub(super) gone_replicas: Vec<String>,
    pub(super) notify: bool,
    pub(super) mail_works: bool,
    pub(super) outcomes: Vec<DeliveryOutcome>,
    /// What was sent, with the time.
    pub(super) sent: Vec<(Timestamp, NoticeKind)>,
    pub(super) deleted: bool,
}

impl TestSession {
    /// Anna's, requested just now.
    pub(super) fn new() -> Self {
        let session = Session {
            uid: "u1".to_owned(),
            created_at: start(),
            cluster: "prod".to_owned(),
            user: "anna".to_owned(),
            email: None,
            granted_group: "admins".to_owned(),
            issuer: None,
            reason: None,
            scheduled_start: None,
            terms: terms(),
            deleting: false,
        };
        Self {
            session,
            state: SessionState::default(),
            usage: Usage::default(),
            now: start(),
            coverage: Coverage::starting(start() - HOUR).lagging(LAG),
            blind: false,
            siblings: Vec::new(),
            gone_replicas: Vec::new(),
            notify: true,
            mail_works: true,
            outcomes: Vec::new(),
            sent: Vec::new(),
            deleted: false,
        }
    }

    /// Approved a second after it was requested.
    pub(super) fn approved() -> Self {
        Self::with(|_| {})
    }

    /// Approved a second after it was requested, on other terms.
    pub(super) fn with(change: impl Fn(&mut Session)) -> Self {
        let mut session = Self::new();
        change(&mut session.session);
        session.advance(SECOND);
        session.act(Verb::Approve, "ben").unwrap();
        session.settle();
        session
    }

    pub(super) fn is(&self) -> State {
        self.state.state.unwrap()
    }

    pub(super) fn used(&mut self) {
        self.usage = self.usage.with_report("a", self.now, self.now, 1);
    }

    pub(super) fn act(&mut self, verb: Verb, who: &str) -> Result<(), Refusal> {
        let approvers = approvers();
        self.state = act(verb, &person(who), None, self.recorded(), Some(&approvers), self.now)?;
        Ok(())
    }

    /// As whoever acts finds it.
    pub(super) fn recorded(&self) -> Recorded<'_> {
        let last_use = self.usage.last_use();
        Recorded { session: &self.session, state: self.state.clone(), last_use }
    }

    /// Whether a request is allowed now, as the authorizer decides.
    pub(super) fn grants(&self) -> bool {
        let until = granted_until(&self.session.terms, &self.state, self.usage.last_use());
        until.is_some_and(|until| self.now < until)
    }

    /// What would be decided.
    pub(super) fn decision(&self) -> SessionDecision {
        let seen = Observed {
            usage: &self.usage,
            coverage: &self.coverage,
            siblings: &self.siblings,
            outcomes: &self.outcomes,
            channels_changed_at: None,
            gone_replicas: &self.gone_replicas,
            settings: Settings { notify: self.notify },
        };
        decide(self.state.clone(), &self.session, &seen, self.now)
    }

    /// One decision on what is on record, which then is the record.
    pub(super) fn decide(&mut self) -> SessionDecision {
        self.observe();
        let decision = self.decision();
        (self.state, self.usage) = decision.next.clone();
        self.outcomes.clear();
        for effect in &decision.effects {
            match effect {
                Effect::Notify(notice) => {
                    self.sent.push((self.now, notice.kind));
                    if self.mail_works {
                        let (id, at) = (notice.id.clone(), self.now);
                        self.outcomes.push(DeliveryOutcome { id, at, result: Ok(()) });
                    }
                }
                Effect::Delete => self.deleted = true,
            }
        }
        decision
    }

    /// Decides until nothing changes any more.
    pub(super) fn settle(&mut self) -> SessionDecision {
        for _ in 0..MAX_DECISIONS {
            let before = (self.state.clone(), self.usage.clone());
            let decision = self.decide();
            let quiet = decision.effects.is_empty() || self.deleted;
            if quiet
                && self.outcomes.is_empty()
                && before == (self.state.clone(), self.usage.clone())
            {
                return decision;
            }
        }
        panic!("it does not come to rest at {}: {:?}", self.now, self.state);
    }

    /// Lets time pass, looking whenever a decision asked for it.
    pub(super) fn advance(&mut self, span: SignedDuration) {
        let end = self.now + span;
        loop {
            let decision = self.settle();
            let next = decision.wake.at().filter(|at| *at > self.now && *at <= end);
            let Some(next) = next.filter(|_| !self.deleted) else { break };
            self.sleep_until(next);
        }
        self.sleep_until(end);
        self.settle();
    }

    /// Lets time pass while nobody decides anything; canaries go on unless they are blind.
    pub(super) fn sleep_until(&mut self, at: Timestamp) {
        self.now = at;
        self.observe();
    }

    pub(super) fn sleep(&mut self, span: SignedDuration) {
        self.sleep_until(self.now + span);
    }

    fn observe(&mut self) {
        if !self.blind {
            self.coverage.mark_observed(self.coverage.until(), self.now);
        }
    }

    /// Canaries come back again. What happened in the dark stays unknown.
    pub(super) fn unblind(&mut self) {
        self.blind = false;
        self.coverage.mark_blind(self.coverage.until(), self.now);
    }

    /// How often that was sent.
    pub(super) fn sent(&self, kind: NoticeKind) -> usize {
        self.sent.iter().filter(|(_, sent)| *sent == kind).count()
    }
}
