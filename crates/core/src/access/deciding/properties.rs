//! What holds for every session, whatever happens in whatever order.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::super::escalation::Approvers;
use super::super::session::{Extension, Terms};
use super::super::test_session::{HOUR, MINUTE, TestSession, approvers, person, start};
use super::super::{Grant, Verb, act, granted_until};
use super::*;
use crate::decision::Wake;
use crate::notice::Delivery;
use crate::term::Term;

const PEOPLE: [&str; 4] = ["anna", "ben", "cleo", "eve"];
const REPLICAS: usize = 3;
/// A life has a few steps, and each takes a few decisions.
const MAX_LOOKS: usize = 120;

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
enum Happens {
    /// A decision that is written down.
    Look,
    /// A decision that is lost before it is written down: a crash, or a conflict.
    LostLook,
    /// A request that a replica is asked about.
    Use(usize),
    Flush(usize),
    /// A replica dies, and what it did not write down is lost.
    Kill(usize),
    Act(Verb, usize),
    /// A decision at the very moment of the idle deadline that is stored, if that is ahead.
    LookAtDeadline,
    /// Canaries do not come back any more. Whether anybody says so.
    Blind(bool),
    See,
}

/// What a replica saw and did not write down yet.
#[derive(Debug, Clone, Copy, Default)]
struct Buffer {
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

/// A session, and what really happened to it.
struct World {
    test: TestSession,
    approvers: Approvers,
    /// The name of each replica; one that died comes back under another.
    names: [u32; REPLICAS],
    buffers: [Buffer; REPLICAS],
    gone: Vec<String>,
    /// Whether somebody says that nothing is seen.
    told_blind: bool,
    /// Every stretch in which somebody could see.
    seen: Vec<(Timestamp, Timestamp)>,
    last_use: Option<Timestamp>,
    restarted_at: Option<Timestamp>,
    /// Every use that was allowed, and those of them that died with a replica.
    uses: u64,
    lost: u64,
}

fn happens() -> impl Strategy<Value = (i64, Happens)> {
    let step = prop_oneof![3 => Just(0_i64), 6 => 1..31_i64, 3 => 31..300_i64, 1 => 300..2000_i64];
    let replica = || 0..REPLICAS;
    let verb = prop_oneof![
        4 => (Just(Verb::Approve), 1..3_usize),
        3 => (Just(Verb::Extend), Just(0)),
        1 => (prop::sample::select(Verb::ALL.to_vec()), 0..PEOPLE.len()),
    ];
    let what = prop_oneof![
        12 => Just(Happens::Look),
        3 => Just(Happens::LostLook),
        8 => replica().prop_map(Happens::Use),
        3 => replica().prop_map(Happens::Flush),
        2 => replica().prop_map(Happens::Kill),
        2 => verb.prop_map(|(verb, who)| Happens::Act(verb, who)),
        2 => Just(Happens::LookAtDeadline),
        1 => any::<bool>().prop_map(Happens::Blind),
        3 => Just(Happens::See),
    ];
    (step, what)
}

fn some_terms() -> impl Strategy<Value = Terms> {
    let minutes = |minutes: &[i64]| {
        let spans: Vec<Term> = minutes
            .iter()
            .map(|minutes| Term::Span(SignedDuration::from_mins(*minutes)))
            .chain([Term::Never])
            .collect();
        prop::sample::select(spans)
    };
    (minutes(&[1, 5, 30, 120]), prop::option::of(minutes(&[1, 10, 60])), 1..=4_i32, 0..3_u32)
        .prop_map(|(idle_timeout, first_use_timeout, hours, max)| {
            let max_valid_for = HOUR * hours;
            let fits = |term: Term| match term {
                Term::Span(span) => Term::Span(span.min(max_valid_for)),
                Term::Never => Term::Never,
            };
            let idle_timeout = fits(idle_timeout);
            let warn_before = idle_timeout.span().map_or(MINUTE * 5, |span| span / 5);
            Terms {
                max_valid_for,
                idle_timeout,
                first_use_timeout: first_use_timeout.map(fits),
                warn_before: warn_before.min(MINUTE * 5),
                extension: (max > 0).then_some(Extension { max, step: MINUTE * 45 }),
                ..super::super::test_session::terms()
            }
        })
}

impl World {
    fn new(terms: Terms, scheduled: Option<i64>, required: u32) -> Self {
        let mut test = TestSession::new();
        test.session.terms = terms;
        test.session.scheduled_start =
            scheduled.map(|seconds| start() + SignedDuration::from_secs(seconds));
        test.coverage = Coverage::starting(start()).lagging(SignedDuration::from_secs(10));
        let approvers = Approvers {
            groups: Vec::new(),
            users: ["ben", "cleo", "anna"].map(str::to_owned).to_vec(),
            required,
            ..approvers()
        };
        Self {
            test,
            approvers,
            names: [0; REPLICAS],
            buffers: [Buffer::default(); REPLICAS],
            gone: Vec::new(),
            told_blind: false,
            seen: Vec::new(),
            last_use: None,
            restarted_at: None,
            uses: 0,
            lost: 0,
        }
    }

    fn name(&self, replica: usize) -> String {
        format!("replica-{replica}-{}", self.names[replica])
    }

    fn step(&mut self, seconds: i64) {
        let before = self.test.now;
        let now = before + SignedDuration::from_secs(seconds);
        self.test.now = now;
        if self.test.blind {
            if self.told_blind {
                self.test.coverage.mark_blind(before, now);
            }
        } else {
            self.test.coverage.mark_observed(before, now);
            self.seen.push((before, now));
        }
        for replica in 0..REPLICAS {
            if self.test.usage.must_write_now(&self.name(replica), now) {
                self.flush(replica);
            }
        }
    }

    fn flush(&mut self, replica: usize) {
        let Buffer { count, first, last } = std::mem::take(&mut self.buffers[replica]);
        if count > 0 {
            let before = self.test.usage.clone();
            let name = self.name(replica);
            self.test.usage = before.with_report(&name, first, last, count);
            let after = &self.test.usage;
            assert!(after.count == before.count + count && after.last >= before.last);
        }
    }

    /// A replica judges by what is stored and by what it saw itself.
    fn use_session(&mut self, replica: usize) {
        let TestSession { session, state, usage, now, .. } = &self.test;
        let now = *now;
        let own = self.buffers[replica];
        let last_use = usage.last_use().max(Some(own.last).filter(|_| own.count > 0));
        let until = granted_until(&session.terms, state, last_use);
        if until.is_none_or(|until| until <= now) {
            return;
        }
        assert!(state.state == Some(State::Approved) && Some(now) < state.expires_at);
        let store_first = Grant::of(&session.terms, state).must_store_first(usage.last_use(), now);
        let write_now = usage.must_write_now(&self.name(replica), now);
        let buffer = &mut self.buffers[replica];
        if buffer.count == 0 {
            buffer.first = now;
        }
        buffer.last = now;
        buffer.count += 1;
        self.uses += 1;
        self.last_use = Some(now);
        if store_first || write_now {
            self.flush(replica);
        }
    }

    fn kill(&mut self, replica: usize) {
        self.gone.push(self.name(replica));
        self.names[replica] += 1;
        self.lost += std::mem::take(&mut self.buffers[replica]).count;
    }

    /// Whether some replica would allow a request now.
    fn grants(&self) -> bool {
        let TestSession { session, state, usage, now, .. } = &self.test;
        let seen = self.buffers.iter().filter(|own| own.count > 0).map(|own| Some(own.last));
        let last_use = seen.fold(usage.last_use(), Option::max);
        granted_until(&session.terms, state, last_use).is_some_and(|until| *now < until)
    }

    fn act(&mut self, verb: Verb, who: &str) {
        let TestSession { session, state, now, .. } = &self.test;
        let recorded = self.test.recorded();
        let result = act(verb, &person(who), None, recorded, Some(&self.approvers), *now);
        let extension = session.terms.extension.map_or(0, |extension| extension.max);
        let can_be_extended = self.grants() && state.extensions < extension;
        match result {
            Err(refusal) => {
                assert!(who != "eve" || refusal.code() == 403);
                let owner_extends = verb == Verb::Extend && who == "anna";
                assert!(!(owner_extends && can_be_extended), "{refusal}: {state:?}");
                assert!(![401, 422].contains(&refusal.code()));
            }
            Ok(next) => {
                assert!(who != "eve" && (who != "anna" || verb != Verb::Approve));
                assert_follows(state, &next);
                if verb == Verb::Extend {
                    self.restarted_at = Some(*now);
                }
                self.test.state = next;
            }
        }
    }

    /// A decision, which is checked, and written down if `works`.
    fn look(&mut self, works: bool) -> SessionDecision {
        self.test.gone_replicas.clone_from(&self.gone);
        let before = (self.test.state.clone(), self.test.usage.clone());
        let decision = self.test.decision();
        self.check(&before, &decision);
        if works {
            (self.test.state, self.test.usage) = decision.next.clone();
            self.test.outcomes = decision
                .effects
                .iter()
                .filter_map(|effect| match effect {
                    Effect::Notify(notice) => Some(notice.id.clone()),
                    Effect::Delete => None,
                })
                .map(|id| DeliveryOutcome { id, at: self.test.now, result: Ok(()) })
                .collect();
        }
        decision
    }

    fn check(&self, before: &(SessionState, Usage), decision: &SessionDecision) {
        let (state, usage) = before;
        let (next, next_usage) = &decision.next;
        let now = self.test.now;
        assert_follows(state, next);
        assert!(next_usage.count >= usage.count && next_usage.last >= usage.last);
        if state.state.is_some_and(State::is_final) {
            assert_eq!(next_usage, usage);
        }
        // With one span the deadline never moves earlier.
        if self.test.session.terms.first_use_timeout.is_none() {
            assert!(next.idle_deadline >= state.idle_deadline);
        }
        if state.state != next.state {
            match next.state {
                Some(State::IdleExpired) => self.check_idle(next),
                Some(State::Expired) => assert!(state.expires_at <= Some(now)),
                Some(State::ApprovalTimeout) => {
                    assert!(self.test.session.approval_deadline() <= now);
                }
                Some(State::Approved) => {
                    assert!(self.test.session.scheduled_start.is_some_and(|start| start <= now));
                }
                Some(State::Pending) => assert_eq!(state.state, None),
                other => panic!("{other:?} does not come by itself"),
            }
        }
        for effect in &decision.effects {
            match effect {
                Effect::Notify(notice) => {
                    let stored = state.outbox.find(&notice.id).expect("it is on record");
                    assert!(matches!(stored.delivery, Delivery::Waiting { .. }));
                }
                Effect::Delete => {
                    assert!(state.state.is_some_and(State::is_final));
                    assert!(state.retained_until.is_some_and(|until| until <= now));
                }
            }
        }
    }

    /// Nobody used it, whatever has been written down, for as long as somebody could see.
    fn check_idle(&self, next: &SessionState) {
        let Terms { idle_timeout, first_use_timeout, .. } = self.test.session.terms;
        let first = first_use_timeout.filter(|_| self.last_use.is_none());
        let span = first.unwrap_or(idle_timeout).span().expect("it can be idle");
        let used = self.last_use.max(self.restarted_at).max(next.activated_at).unwrap();
        let now = self.test.now;
        let seen = |(from, to): &(Timestamp, Timestamp)| {
            (*to).min(now).duration_since((*from).max(used)).max(SignedDuration::ZERO)
        };
        let idle: SignedDuration =
            self.seen.iter().map(seen).fold(SignedDuration::ZERO, |sum, span| sum + span);
        assert!(idle >= span, "unused for {idle} that were seen, of {span}");
        let never = next.reason_ended == Some(ReasonEnded::NeverUsed);
        assert_eq!(never, self.last_use.is_none());
    }

    fn blind(&mut self, told: bool) {
        self.test.blind = true;
        self.told_blind = told;
    }

    fn see(&mut self) {
        if std::mem::take(&mut self.test.blind) {
            self.test.unblind();
        }
    }

    fn happens(&mut self, what: Happens) {
        match what {
            Happens::Look => drop(self.look(true)),
            Happens::LostLook => drop(self.look(false)),
            Happens::Use(replica) => self.use_session(replica),
            Happens::Flush(replica) => self.flush(replica),
            Happens::Kill(replica) => self.kill(replica),
            Happens::Act(verb, who) => self.act(verb, PEOPLE[who]),
            Happens::LookAtDeadline => {
                let ahead =
                    self.test.state.idle_deadline.map(|at| at.duration_since(self.test.now));
                self.step(ahead.map_or(0, |ahead| ahead.as_secs().max(0)));
                drop(self.look(true));
            }
            Happens::Blind(told) => self.blind(told),
            Happens::See => self.see(),
        }
    }

    /// Nobody does anything any more, and looks come when they were asked for.
    fn run_out(&mut self) {
        self.see();
        (0..REPLICAS).for_each(|replica| self.flush(replica));
        assert_eq!(self.test.usage.count, self.uses - self.lost);
        for _ in 0..MAX_LOOKS {
            let before = self.test.state.clone();
            let decision = self.look(true);
            if decision.effects.contains(&Effect::Delete) {
                return;
            }
            match decision.wake {
                Wake::At(at) if at > self.test.now => {
                    self.step(at.duration_since(self.test.now).as_secs());
                }
                Wake::At(_) => assert!(
                    before != self.test.state || !decision.effects.is_empty(),
                    "it asks for another look, and changed nothing: {decision:?}"
                ),
                Wake::OnChange => assert!(!decision.effects.is_empty(), "{decision:?}"),
            }
        }
        panic!("it does not come to its end: {:?}", self.test.state);
    }
}

/// Whether what is written comes after what was: by the table, and not after the end.
fn assert_follows(state: &SessionState, next: &SessionState) {
    match (state.state, next.state) {
        (None, next) => assert!(next.is_none_or(|next| next == State::Pending)),
        (Some(state), next) => {
            assert!(next.is_some_and(|next| state.may_become(next)), "{state:?} to {next:?}");
        }
    }
    if state.state.is_some_and(State::is_final) {
        // Notices are told, and what comes next is said anew.
        let (outbox, upcoming) = (state.outbox.clone(), state.upcoming.clone());
        assert_eq!(&SessionState { outbox, upcoming, ..next.clone() }, state);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn transitions_counts_and_deadlines_hold_whatever_happens(
        terms in some_terms(),
        scheduled in prop::option::weighted(0.2, 300..7000_i64),
        required in prop_oneof![4 => Just(1_u32), 1 => Just(2)],
        approved in prop::bool::weighted(0.8),
        all in prop::collection::vec(happens(), 1..120),
    ) {
        let mut world = World::new(terms, scheduled, required);
        world.look(true);
        if approved {
            world.act(Verb::Approve, "ben");
        }
        for (step, what) in all {
            world.step(step);
            world.happens(what);
        }
        world.run_out();
    }
}
