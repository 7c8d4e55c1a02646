use super::super::session::ReasonEnded;
use super::super::test_session::{HOUR, MINUTE, SECOND, TestSession};
use super::*;

// case: access 54, 56
#[test]
fn only_an_approved_session_grants_whatever_its_times_say() {
    let session = TestSession::approved();
    assert!(session.grants());
    for state in State::ALL {
        let mut other = session.clone();
        other.state.state = Some(state);
        assert!(other.state.expires_at > Some(other.now), "its expiry is still ahead");
        assert_eq!(other.grants(), state == State::Approved, "{state:?}");
    }
    let state = SessionState { state: None, ..session.state };
    assert_eq!(granted_until(&session.session.terms, &state, None), None);
}

// case: access 55
#[test]
fn it_grants_nothing_from_its_expiry_on_though_nobody_has_looked() {
    let mut session = TestSession::with(|session| session.terms.idle_timeout = Term::Never);
    let expires_at = session.state.expires_at.unwrap();
    session.sleep_until(expires_at - SignedDuration::from_nanos(1));
    session.usage = session.usage.with_report("a", session.now, session.now, 1);
    assert!(session.grants());
    session.sleep_until(expires_at);
    assert!(!session.grants());
    assert_eq!(session.is(), State::Approved, "nobody has looked");
}

// case: access 101
#[test]
fn it_grants_nothing_from_its_idle_deadline_on_though_nobody_has_looked() {
    let mut session = TestSession::approved();
    session.sleep(MINUTE);
    session.used();
    session.sleep(MINUTE * 30 - SECOND);
    assert!(session.grants(), "the deadline on record is passed, and a use is known");
    assert!(session.state.idle_deadline.unwrap() < session.now);
    session.sleep(SECOND);
    assert!(!session.grants());
    assert_eq!(session.is(), State::Approved, "nobody has looked");
}

#[test]
fn a_stored_deadline_that_is_later_counts() {
    let mut session = TestSession::approved();
    let later = session.state.idle_deadline.unwrap() + MINUTE;
    session.state.idle_deadline = Some(later);
    assert_eq!(granted_until(&session.session.terms, &session.state, None), Some(later));
    session.state.idle_deadline = None;
    let activated_at = session.state.activated_at.unwrap();
    let until = granted_until(&session.session.terms, &session.state, None);
    assert_eq!(until, Some(activated_at + MINUTE * 30));
    session.state.activated_at = None;
    assert_eq!(granted_until(&session.session.terms, &session.state, None), None);
}

#[test]
fn the_first_use_has_a_time_of_its_own() {
    let mut session = TestSession::with(|session| {
        session.terms.idle_timeout = Term::Never;
        session.terms.first_use_timeout = Some(Term::Span(MINUTE * 10));
    });
    let activated_at = session.state.activated_at.unwrap();
    let until = |session: &TestSession| {
        granted_until(&session.session.terms, &session.state, session.usage.last_use())
    };
    assert_eq!(until(&session), Some(activated_at + MINUTE * 10));
    session.used();
    assert_eq!(until(&session), session.state.expires_at);
}

#[test]
fn an_extension_counts_at_once() {
    let mut session = TestSession::approved();
    session.sleep(MINUTE * 29);
    session.act(super::super::Verb::Extend, "anna").unwrap();
    session.sleep(MINUTE * 29);
    assert!(session.grants());
    session.sleep(MINUTE);
    assert!(!session.grants());
    assert_eq!(session.state.expires_at, session.state.activated_at.map(|at| at + HOUR * 5));
    assert_eq!(session.state.reason_ended, None::<ReasonEnded>);
}

#[test]
fn a_use_near_the_deadline_is_written_down_before_it_is_answered() {
    let mut session = TestSession::approved();
    let must = |session: &TestSession| {
        let last_use = session.usage.last_use();
        Grant::of(&session.session.terms, &session.state).must_store_first(last_use, session.now)
    };
    assert!(must(&session), "the first use");
    session.used();
    assert!(!must(&session));
    session.sleep(MINUTE * 27 - SECOND);
    assert!(!must(&session));
    session.sleep(SECOND);
    assert!(must(&session), "a tenth of the idle timeout is left");
    session.session.terms.idle_timeout = Term::Span(MINUTE * 28);
    assert!(must(&session));
    session.session.terms.idle_timeout = Term::Never;
    assert!(!must(&session));
    // The time of the first use says nothing about the one after it, though it is what is stored.
    session.session.terms.first_use_timeout = Some(Term::Span(HOUR * 3));
    session.session.terms.idle_timeout = Term::Span(MINUTE * 27 + SECOND * 30);
    assert!(must(&session), "half a minute is left");
}
