use jiff::SignedDuration;

use super::super::session::Terms;
use super::super::test_session::{HOUR, LAG, MINUTE, SECOND, TestSession, start};
use super::super::{Verb, granted_until};
use super::*;
use crate::term::Term;

fn ended(session: &TestSession) -> (State, Option<ReasonEnded>) {
    (session.is(), session.state.reason_ended)
}

const IDLE: (State, Option<ReasonEnded>) = (State::IdleExpired, Some(ReasonEnded::IdleTimeout));
const UNUSED: (State, Option<ReasonEnded>) = (State::IdleExpired, Some(ReasonEnded::NeverUsed));
const EXPIRED: (State, Option<ReasonEnded>) = (State::Expired, Some(ReasonEnded::TimeExpired));

fn scheduled(start: Timestamp) -> TestSession {
    let mut session = TestSession::new();
    session.session.scheduled_start = Some(start);
    session.advance(MINUTE);
    session.act(Verb::Approve, "ben").unwrap();
    session.settle();
    session
}

fn sibling(uid: &str, session: &TestSession) -> Sibling {
    Sibling {
        uid: uid.to_owned(),
        created_at: session.session.created_at,
        approved_at: session.state.approved_at,
        expires_at: session.state.expires_at,
        state: session.state.state,
    }
}

#[test]
fn a_new_session_is_pending_first_and_the_approvers_are_told_once() {
    let mut session = TestSession::new();
    let first = session.decide();
    assert_eq!((session.is(), first.effects.len()), (State::Pending, 0));
    assert_eq!(first.wake.at(), Some(start()), "it is told once it is on record");
    session.advance(MINUTE * 10);
    assert_eq!(session.sent, [(start(), NoticeKind::Requested)]);
    let upcoming = session.state.upcoming.clone().unwrap();
    assert_eq!((upcoming.action, upcoming.at), (Action::TimeOut, start() + HOUR));
}

#[test]
fn what_nobody_approves_in_time_is_over() {
    let mut session = TestSession::new();
    session.advance(HOUR - SECOND);
    assert_eq!(session.is(), State::Pending);
    session.advance(SECOND);
    let end = (State::ApprovalTimeout, Some(ReasonEnded::ApprovalTimeout));
    assert_eq!(ended(&session), end);
    assert_eq!(session.state.retained_until, Some(start() + HOUR + HOUR * 720));
}

// case: access 84, 85, 86
#[test]
fn it_ends_when_nobody_used_it_for_exactly_its_idle_timeout() {
    let mut session = TestSession::approved();
    session.advance(MINUTE * 7);
    session.used();
    let used_at = session.now;
    session.advance(MINUTE * 30 - SECOND);
    assert_eq!(session.is(), State::Approved);
    assert_eq!(session.state.idle_deadline, Some(used_at + MINUTE * 30));
    session.advance(SECOND);
    assert_eq!(ended(&session), IDLE);
    let state = &session.state;
    assert_eq!((state.idle_expired_at, state.ended_at), (Some(session.now), Some(session.now)));
    assert_eq!(state.retained_until, Some(session.now + HOUR * 720));
    assert_eq!(session.sent(NoticeKind::IdleExpired), 1);
    session.advance(HOUR * 5);
    assert_eq!(ended(&session), IDLE, "its expiry comes, and changes nothing");
}

// case: access 87
#[test]
fn a_day_is_twenty_four_hours_of_no_use() {
    let mut session = TestSession::with(|session| {
        session.terms.max_valid_for = HOUR * 72;
        session.terms.idle_timeout = "1d".parse().unwrap();
    });
    session.used();
    session.advance(HOUR * 23);
    assert_eq!(session.is(), State::Approved);
    session.advance(HOUR * 2);
    assert_eq!(ended(&session), IDLE);
}

// case: access 90
#[test]
fn what_nobody_ever_used_ends_after_its_activation() {
    let mut session = TestSession::approved();
    session.advance(MINUTE * 30);
    assert_eq!(ended(&session), UNUSED);
    assert_eq!(session.usage.count, 0);
}

#[test]
fn the_first_use_may_have_a_time_of_its_own() {
    let first_use = |first, idle| {
        TestSession::with(move |session| {
            session.terms.first_use_timeout = Some(first);
            session.terms.idle_timeout = idle;
        })
    };
    let (short, long) = (Term::Span(MINUTE * 5), Term::Span(MINUTE * 30));

    let mut session = first_use(short, Term::Never);
    let activated_at = session.state.activated_at.unwrap();
    assert_eq!(session.state.idle_deadline, Some(activated_at + MINUTE * 5));
    let mut used = session.clone();
    session.advance(MINUTE * 5);
    assert_eq!(ended(&session), UNUSED);
    used.used();
    used.settle();
    assert_eq!(used.state.idle_deadline, None, "only the first use was asked for");
    used.advance(HOUR * 5);
    assert_eq!(ended(&used), EXPIRED);

    let mut session = first_use(Term::Never, long);
    assert_eq!(session.state.idle_deadline, None);
    session.advance(HOUR);
    session.used();
    session.advance(MINUTE * 30 - SECOND);
    assert_eq!(session.is(), State::Approved);
    session.advance(SECOND);
    assert_eq!(ended(&session), IDLE);

    let mut session = first_use(long, short);
    session.advance(MINUTE);
    session.used();
    session.settle();
    let deadline = session.state.idle_deadline;
    assert_eq!(deadline, Some(session.now + MINUTE * 5), "the longer time was for the first use");
    session.advance(MINUTE * 5);
    assert_eq!(ended(&session), IDLE);
}

#[test]
fn without_an_idle_timeout_only_its_expiry_ends_it() {
    let mut session = TestSession::with(|session| session.terms.idle_timeout = Term::Never);
    assert_eq!(session.state.idle_deadline, None);
    let expires_at = session.state.expires_at.unwrap();
    session.advance(expires_at.duration_since(session.now) - SECOND);
    assert_eq!(session.is(), State::Approved);
    session.advance(SECOND);
    assert_eq!(ended(&session), EXPIRED);
    assert_eq!(session.sent(NoticeKind::Expired), 1);
}

#[test]
fn a_zero_last_use_is_none() {
    let mut session = TestSession::approved();
    session.usage.last = Some("0001-01-01T00:00:00Z".parse().unwrap());
    session.advance(MINUTE * 30);
    assert_eq!(ended(&session), UNUSED);
}

// case: access 91
#[test]
fn a_scheduled_session_is_idle_from_its_activation_on() {
    let start = start() + HOUR * 2;
    let mut session = scheduled(start);
    session.advance(start.duration_since(session.now) - SECOND);
    assert_eq!((session.is(), session.grants()), (State::WaitingForScheduledTime, false));
    session.advance(SECOND);
    assert_eq!((session.is(), session.state.activated_at), (State::Approved, Some(start)));
    assert_eq!(session.state.expires_at, Some(start + HOUR * 4));
    assert_eq!(session.sent(NoticeKind::Activated), 1);
    assert_eq!(session.state.idle_deadline, Some(start + MINUTE * 30));
    session.advance(MINUTE * 30 - SECOND);
    assert_eq!(session.is(), State::Approved);
    session.advance(SECOND);
    assert_eq!(ended(&session), UNUSED);
}

// case: access 109
#[test]
fn a_scheduled_session_whose_time_is_over_is_never_activated() {
    let mut session = scheduled(start() + HOUR * 2);
    session.sleep(HOUR * 6);
    session.settle();
    assert_eq!((ended(&session), session.state.activated_at), (EXPIRED, None));
    let mut session = scheduled(start() + HOUR * 2);
    session.session.scheduled_start = None;
    session.settle();
    assert_eq!(session.state.reason_ended, Some(ReasonEnded::MissingScheduledStartTime));
}

// case: access 92
#[test]
fn a_decision_on_an_old_version_is_void_and_the_next_one_sees_the_use() {
    let mut session = TestSession::approved();
    session.used();
    session.settle();
    session.sleep(MINUTE * 30);
    let on_the_old_version = session.decision();
    assert_eq!(on_the_old_version.next.0.state, Some(State::IdleExpired));
    // Another replica wrote a use: the version has changed, so the write is refused.
    let used_at = session.now - SECOND;
    session.usage = session.usage.with_report("b", used_at, used_at, 1);
    session.settle();
    assert_eq!(session.is(), State::Approved);
    assert_eq!(session.state.idle_deadline, Some(used_at + MINUTE * 30));
}

// case: access 94
#[test]
fn the_terms_that_were_read_last_decide_and_are_named() {
    let mut session = TestSession::approved();
    session.used();
    session.settle();
    session.sleep(MINUTE * 30);
    let mut live = session.clone();
    live.session.terms.idle_timeout = Term::Span(HOUR);
    live.settle();
    assert_eq!(live.is(), State::Approved);
    session.state.idle_deadline = None;
    session.session.terms.idle_timeout = Term::Span(MINUTE * 20);
    let why = session.decision().why;
    let expected = Reason::Idle { since: session.usage.last.unwrap(), timeout: MINUTE * 20 };
    assert!(why.contains(&expected), "{why:?}");
}

// case: access 99
#[test]
fn of_three_sessions_only_the_idle_one_changes() {
    let mut idle = TestSession::approved();
    idle.used();
    let mut busy = idle.clone();
    let mut off = TestSession::with(|session| session.terms.idle_timeout = Term::Never);
    for session in [&mut idle, &mut busy, &mut off] {
        session.advance(MINUTE * 25);
    }
    busy.used();
    for session in [&mut idle, &mut busy, &mut off] {
        session.advance(MINUTE * 10);
    }
    let states = [idle.is(), busy.is(), off.is()];
    assert_eq!(states, [State::IdleExpired, State::Approved, State::Approved]);
}

// case: access 106
#[test]
fn of_two_approved_sessions_the_older_is_kept() {
    let older = TestSession::approved();
    let mut newer = older.clone();
    newer.session.uid = "u2".to_owned();
    newer.state.approved_at = Some(older.state.approved_at.unwrap() + SECOND);
    let mut kept = older.clone();
    kept.siblings = vec![sibling("u2", &newer)];
    newer.siblings = vec![sibling("u1", &older)];
    kept.settle();
    newer.settle();
    assert_eq!(kept.is(), State::Approved);
    assert_eq!(ended(&newer), (State::Expired, Some(ReasonEnded::DuplicateCleanup)));
    // Its user had it, and is told that it has ended.
    assert_eq!([&kept, &newer].map(|one| one.sent(NoticeKind::Expired)), [0, 1]);
    // Of the same age: one of them, and the same one wherever it is decided.
    let mut twin = older.clone();
    twin.session.uid = "u2".to_owned();
    let mut first = older.clone();
    first.siblings = vec![sibling("u2", &twin)];
    twin.siblings = vec![sibling("u1", &older)];
    first.settle();
    twin.settle();
    assert_eq!((first.is(), twin.is()), (State::Approved, State::Expired));
}

// case: access 107
#[test]
fn an_approved_session_is_kept_before_an_older_pending_one() {
    let mut approved = TestSession::approved();
    approved.session.created_at = start() + MINUTE;
    let mut older = TestSession::new();
    older.session.uid = "u0".to_owned();
    older.settle();
    approved.siblings = vec![sibling("u0", &older)];
    older.siblings = vec![sibling("u1", &approved)];
    older.settle();
    approved.settle();
    assert_eq!(ended(&older), (State::Withdrawn, Some(ReasonEnded::DuplicateCleanup)));
    assert_eq!(approved.is(), State::Approved);
    let mut waiting = scheduled(start() + HOUR * 2);
    waiting.siblings = vec![sibling("u2", &approved)];
    waiting.settle();
    assert_eq!(waiting.is(), State::Withdrawn);
}

#[test]
fn a_session_that_has_ended_is_no_duplicate() {
    let approved = TestSession::approved();
    for state in State::ALL.into_iter().filter(|state| state.is_final()) {
        let mut session = TestSession::new();
        session.siblings = vec![Sibling { state: Some(state), ..sibling("u0", &approved) }];
        session.settle();
        assert_eq!(session.is(), State::Pending, "{state:?}");
    }
    // Its expiry has come, and nobody has looked at it yet.
    let mut session = TestSession::new();
    session.siblings = vec![Sibling { expires_at: Some(start()), ..sibling("u0", &approved) }];
    session.settle();
    assert_eq!(session.is(), State::Pending);
}

// case: access 110
#[test]
fn a_session_is_deleted_when_it_has_ended_and_was_kept_for_long_enough() {
    let mut session = TestSession::approved();
    session.act(Verb::Drop, "anna").unwrap();
    let until = session.state.retained_until.unwrap();
    session.advance(until.duration_since(session.now) - SECOND);
    assert!(!session.deleted);
    session.advance(SECOND);
    assert!(session.deleted);

    let mut live = TestSession::approved();
    live.state.retained_until = Some(start());
    live.settle();
    assert!(!live.deleted, "it is live, and the date is stale");
    live.act(Verb::Drop, "anna").unwrap();
    live.settle();
    assert!(!live.deleted && live.state.retained_until > Some(live.now));
}

#[test]
fn nothing_is_deleted_while_a_notice_is_due_or_before_the_end_is_on_record() {
    let mut session = TestSession::with(|session| session.terms.retain_for = SignedDuration::ZERO);
    session.sleep(MINUTE * 30);
    let ends = session.decide();
    assert_eq!((session.is(), ends.effects.len()), (State::IdleExpired, 0));
    let tells = session.decide();
    assert!(matches!(tells.effects[..], [Effect::Notify(_)]), "{tells:?}");
    let deletes = session.decide();
    assert_eq!(deletes.effects, [Effect::Delete]);
}

// case: access 115
#[test]
fn its_user_is_warned_once_before_it_ends_and_a_use_cancels_that() {
    let mut session = TestSession::approved();
    session.used();
    let used_at = session.now;
    session.advance(MINUTE * 25 - SECOND);
    assert_eq!(session.sent(NoticeKind::IdleWarning), 0);
    let upcoming = session.state.upcoming.clone().unwrap();
    assert_eq!((upcoming.action, upcoming.at), (Action::Warn, used_at + MINUTE * 25));
    session.advance(MINUTE * 3);
    assert_eq!(session.sent(NoticeKind::IdleWarning), 1, "five minutes before, once");
    let upcoming = session.state.upcoming.clone().unwrap();
    assert_eq!((upcoming.action, upcoming.at), (Action::IdleExpire, used_at + MINUTE * 30));
    session.used();
    session.advance(MINUTE * 25 - SECOND);
    assert_eq!((session.is(), session.sent(NoticeKind::IdleWarning)), (State::Approved, 1));
    session.advance(SECOND);
    assert_eq!(session.sent(NoticeKind::IdleWarning), 2, "of the next deadline");
}

// case: access 100
#[test]
fn a_warning_that_was_not_sent_yet_is_withdrawn_by_a_use() {
    let mut session = TestSession::approved();
    session.mail_works = false;
    session.advance(MINUTE * 26);
    let warned = session.sent(NoticeKind::IdleWarning);
    assert!(warned > 0, "nobody accepts it");
    session.used();
    session.advance(MINUTE * 20);
    assert_eq!(session.sent(NoticeKind::IdleWarning), warned);
    // A warning that nobody accepts delays nothing.
    session.advance(MINUTE * 10);
    assert_eq!(ended(&session), IDLE);
}

#[test]
fn its_user_is_warned_before_it_expires_and_again_after_an_extension() {
    let mut session = TestSession::with(|session| session.terms.idle_timeout = Term::Never);
    session.advance(HOUR * 4 - MINUTE * 4);
    assert_eq!(session.sent(NoticeKind::ExpiryWarning), 1);
    session.act(Verb::Extend, "anna").unwrap();
    session.advance(MINUTE * 30);
    assert_eq!((session.is(), session.sent(NoticeKind::ExpiryWarning)), (State::Approved, 1));
    session.advance(HOUR);
    assert_eq!((ended(&session), session.sent(NoticeKind::ExpiryWarning)), (EXPIRED, 2));
}

// case: access 100
#[test]
fn nobody_is_told_anything_where_notices_are_off() {
    let mut session = TestSession::new();
    session.notify = false;
    session.settle();
    session.act(Verb::Approve, "ben").unwrap();
    session.advance(HOUR);
    assert_eq!((ended(&session), session.sent.len()), (UNUSED, 0));
    assert!(!session.state.outbox.waits());
}

#[test]
fn while_nobody_can_see_it_does_not_become_idle() {
    let mut session = TestSession::approved();
    session.used();
    let used_at = session.now;
    session.advance(MINUTE * 20);
    session.blind = true;
    session.advance(HOUR);
    assert_eq!(session.is(), State::Approved);
    assert!(session.grants(), "its deadline stays ahead");
    let decision = session.decision();
    let since = used_at + MINUTE * 20;
    assert!(decision.why.contains(&Reason::Blind { since }), "{:?}", decision.why);
    assert_eq!(session.sent(NoticeKind::IdleWarning), 0, "nobody knows when to warn");
    session.unblind();
    let seen_again = session.now;
    session.advance(MINUTE * 10 - SECOND);
    assert_eq!(session.is(), State::Approved);
    session.advance(MINUTE * 6);
    assert_eq!(ended(&session), IDLE);
    let end = session.state.idle_expired_at.unwrap();
    assert!(end >= seen_again + MINUTE * 10, "ten minutes were missing: {end}");
}

#[test]
fn while_nobody_can_see_the_deadline_is_not_written_with_every_look() {
    let mut session = TestSession::approved();
    session.settle();
    session.blind = true;
    let (mut writes, mut looks) = (0, 0);
    let end = session.now + HOUR * 2;
    while session.now < end {
        let before = session.state.clone();
        let decision = session.decide();
        writes += u32::from(before.idle_deadline != session.state.idle_deadline);
        looks += 1;
        assert!(session.grants());
        let next = decision.wake.at().unwrap();
        assert!(next > session.now, "{decision:?}");
        session.sleep_until(next.min(session.now + MINUTE));
    }
    assert!(looks >= 120 && writes <= 10, "{writes} writes in {looks} looks");
}

#[test]
fn it_ends_only_once_everything_up_to_the_deadline_is_known() {
    let mut session = TestSession::approved();
    let deadline = session.state.idle_deadline.unwrap();
    session.sleep_until(deadline - SECOND);
    session.now = deadline;
    let waits = session.decision();
    assert_eq!(waits.next.0.state, Some(State::Approved));
    assert!(waits.why.contains(&Reason::NotObservedYet { deadline }), "{:?}", waits.why);
    assert_eq!(waits.wake.at(), Some(deadline + LAG));
    assert!(!session.grants(), "it grants nothing from its deadline on");
    session.now = deadline + LAG;
    let late = session.decision();
    assert_eq!(late.wake.at(), Some(session.now + SECOND * 5), "the canary is late");
    session.sleep_until(deadline + LAG);
    session.settle();
    assert_eq!(ended(&session), UNUSED);
}

#[test]
fn a_cluster_whose_webhook_was_never_seen_is_never_idle() {
    let mut session = TestSession::approved();
    session.coverage = Coverage::starting(session.now).lagging(LAG);
    session.blind = true;
    session.advance(HOUR * 3);
    assert!(session.is() == State::Approved && session.grants());
    session.advance(HOUR * 2);
    assert_eq!(ended(&session), EXPIRED, "its time is over all the same");
}

#[test]
fn a_replica_that_is_gone_adds_half_a_minute_once() {
    let mut session = TestSession::approved();
    session.used();
    session.settle();
    let deadline = session.state.idle_deadline.unwrap();
    session.sleep(MINUTE);
    session.gone_replicas = vec!["a".to_owned(), "never-seen".to_owned()];
    let decision = session.decide();
    let names = vec!["a".to_owned()];
    assert!(decision.why.contains(&Reason::ReplicasGone { names }), "{:?}", decision.why);
    assert_eq!(session.state.idle_deadline, Some(deadline + SECOND * 30));
    assert_eq!((session.usage.count, session.usage.replicas.len()), (1, 1));
    session.settle();
    session.advance(deadline.duration_since(session.now) + SECOND * 29);
    assert_eq!(session.state.idle_deadline, Some(deadline + SECOND * 30));
    assert_eq!(session.is(), State::Approved);
    session.advance(SECOND);
    assert_eq!(ended(&session), IDLE);
    let ended = session.state.clone();
    session.usage = session.usage.with_report("b", deadline, deadline, 2);
    session.gone_replicas = vec!["b".to_owned()];
    session.settle();
    assert_eq!((session.state, session.usage.count), (ended, 3), "a late report raises the count");
}

#[test]
fn a_use_whose_time_is_lost_counts_as_just_now() {
    let mut session = TestSession::approved();
    session.advance(MINUTE * 20);
    session.usage.count = 5;
    session.settle();
    assert_eq!(session.usage.last, Some(session.now));
    assert_eq!(session.state.idle_deadline, Some(session.now + MINUTE * 30));
}

#[test]
fn at_the_same_moment_its_expiry_comes_before_its_idleness() {
    let mut session = TestSession::with(|session| {
        session.terms.idle_timeout = Term::Span(session.terms.max_valid_for);
    });
    session.advance(HOUR * 4);
    assert_eq!(ended(&session), EXPIRED);
    assert_eq!(session.sent(NoticeKind::IdleWarning), 0);
    assert_eq!(session.sent(NoticeKind::ExpiryWarning), 1);
}

#[test]
fn what_an_approval_should_have_written_is_mended() {
    let mut session = TestSession::approved();
    (session.state.activated_at, session.state.expires_at) = (None, None);
    assert!(!session.grants());
    session.settle();
    assert_eq!(session.state.activated_at, session.state.approved_at);
    assert!(session.grants());
}

#[test]
fn nothing_is_decided_about_a_session_that_is_being_deleted() {
    let mut session = TestSession::approved();
    session.session.deleting = true;
    session.sleep(HOUR * 9);
    let decision = session.settle();
    assert_eq!((session.is(), decision.why), (State::Approved, vec![Reason::Deleting]));
}

#[test]
fn a_forecast_tells_the_whole_life() {
    let steps = |session: &TestSession| -> Vec<(Action, SignedDuration)> {
        let upcoming =
            forecast(session.state.clone(), &session.session, &session.usage, session.now);
        upcoming.iter().map(|one| (one.action, one.at.duration_since(start()))).collect()
    };
    let retained = HOUR * 720;
    let session = TestSession::new();
    assert_eq!(steps(&session), [(Action::TimeOut, HOUR), (Action::Delete, HOUR + retained)]);
    let session = TestSession::approved();
    assert_eq!(
        steps(&session),
        [
            (Action::Warn, SECOND + MINUTE * 25),
            (Action::IdleExpire, SECOND + MINUTE * 30),
            (Action::Delete, SECOND + MINUTE * 30 + retained),
        ]
    );
    let mut session = scheduled(start() + HOUR);
    session.session.terms.idle_timeout = Term::Never;
    assert_eq!(
        steps(&session),
        [
            (Action::Activate, HOUR),
            (Action::Warn, HOUR * 5 - MINUTE * 5),
            (Action::Expire, HOUR * 5),
            (Action::Delete, HOUR * 5 + retained),
        ]
    );
    let why = forecast(session.state.clone(), &session.session, &session.usage, session.now);
    assert_eq!(why[0].why.to_string(), "it was scheduled to start at 2026-01-01T01:00:00Z");
}

#[test]
fn what_is_decided_and_what_the_authorizer_grants_agree() {
    let terms: Vec<Terms> = ["1m", "30m", "4h", "never"]
        .into_iter()
        .flat_map(|idle| [None, Some("1m"), Some("1h"), Some("never")].map(|first| (idle, first)))
        .map(|(idle, first)| Terms {
            idle_timeout: idle.parse().unwrap(),
            first_use_timeout: first.map(|first| first.parse().unwrap()),
            ..super::super::test_session::terms()
        })
        .collect();
    for terms in terms {
        let mut session = TestSession::with(|session| session.terms = terms.clone());
        for step in 0..30 {
            let last_use = session.usage.last_use();
            let until = granted_until(&terms, &session.state, last_use);
            let Some(until) = until else { break };
            let expected = session.state.expires_at.min(session.state.idle_deadline);
            let expected = expected.or(session.state.expires_at);
            assert_eq!(Some(until), expected, "{terms:?}, step {step}");
            session.advance(SECOND * 47);
            if session.grants() && step % 3 != 2 {
                session.used();
                session.settle();
            }
        }
    }
}
