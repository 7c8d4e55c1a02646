use jiff::SignedDuration;

use super::super::escalation::Approvers;
use super::super::test_session::{HOUR, MINUTE, SECOND, TestSession, approvers, person, start};
use super::*;
use crate::term::Term;

fn lead(user: &str) -> Person {
    Person { groups: vec!["devs".to_owned(), "leads".to_owned()], ..person(user) }
}

fn pending() -> TestSession {
    let mut session = TestSession::new();
    session.advance(MINUTE);
    assert_eq!(session.is(), State::Pending);
    session
}

fn scheduled() -> TestSession {
    let mut session = TestSession::new();
    session.session.scheduled_start = Some(start() + HOUR * 2);
    session.advance(MINUTE);
    session.act(Verb::Approve, "ben").unwrap();
    session
}

/// What comes of `verb` by `person`, with the approvers that there are now.
fn try_by(
    session: &TestSession,
    verb: Verb,
    person: &Person,
    approvers: Option<&Approvers>,
) -> Result<SessionState, u16> {
    act(verb, person, None, session.recorded(), approvers, session.now)
        .map_err(|refusal| refusal.code())
}

fn try_as(session: &TestSession, verb: Verb, user: &str) -> Result<SessionState, u16> {
    try_by(session, verb, &person(user), Some(&approvers()))
}

// case: access 39
#[test]
fn an_approver_approves_and_it_is_on_record() {
    let mut session = pending();
    let said = Some("ticket #4711: go ahead");
    let by = lead("cleo");
    let now = session.now;
    session.state =
        act(Verb::Approve, &by, said, session.recorded(), Some(&approvers()), now).unwrap();
    assert_eq!(session.is(), State::Approved);
    let reason = said.map(str::to_owned);
    let approval = Approval { user: "cleo".to_owned(), email: None, at: now, reason };
    assert_eq!(session.state.approvals, [approval]);
    assert_eq!((session.state.approved_at, session.state.activated_at), (Some(now), Some(now)));
    assert_eq!(session.state.expires_at, Some(now + HOUR * 4));
    assert_eq!(session.state.idle_deadline, Some(now + MINUTE * 30));
    session.settle();
    assert_eq!(session.sent(NoticeKind::Approved), 1);
    assert!(session.grants());
}

#[test]
fn times_are_whole_seconds_that_cut_nothing_short() {
    let mut session = pending();
    session.now += SignedDuration::from_millis(1);
    session.act(Verb::Approve, "ben").unwrap();
    let approved_at = start() + MINUTE + SECOND;
    assert_eq!(session.state.activated_at, Some(approved_at));
    assert_eq!(session.state.expires_at, Some(approved_at + HOUR * 4));
}

// case: access 40
#[test]
fn a_scheduled_session_waits_after_its_approval_and_grants_nothing() {
    let session = scheduled();
    assert_eq!(session.is(), State::WaitingForScheduledTime);
    assert_eq!(session.state.expires_at, Some(start() + HOUR * 6));
    assert_eq!((session.state.activated_at, session.grants()), (None, false));
}

// case: access 41
#[test]
fn who_may_not_act_learns_nothing_about_the_session() {
    let approved = TestSession::approved();
    let mut late = pending();
    late.sleep(HOUR * 2);
    let mut ended = approved.clone();
    ended.act(Verb::Drop, "anna").unwrap();
    let mut gone = approved.clone();
    gone.session.deleting = true;
    let mut fresh = TestSession::new();
    fresh.session.user = "dora".to_owned();
    for verb in Verb::ALL {
        let mut texts = Vec::new();
        for session in [&approved, &late, &ended, &gone, &fresh] {
            // A malformed reason must not tell, either.
            let said = Some("\u{7}");
            let approvers = approvers();
            let eve = person("eve");
            let now = session.now;
            let refusal = act(verb, &eve, said, session.recorded(), Some(&approvers), now);
            let refusal = refusal.unwrap_err();
            assert_eq!(refusal.code(), 403, "{verb:?}");
            texts.push(refusal.to_string());
        }
        texts.dedup();
        assert_eq!(texts.len(), 1, "{texts:?}");
    }
}

// case: access 42
#[test]
fn from_the_approval_deadline_on_nobody_approves_or_rejects() {
    let mut session = pending();
    session.sleep_until(session.session.approval_deadline());
    for verb in [Verb::Approve, Verb::Reject] {
        assert_eq!(try_as(&session, verb, "ben"), Err(400), "{verb:?}");
    }
    assert_eq!(session.is(), State::Pending, "it stays until somebody looks");
    session.settle();
    assert_eq!(session.is(), State::ApprovalTimeout);
    for verb in [Verb::Approve, Verb::Reject] {
        assert_eq!(try_as(&session, verb, "ben"), Err(400), "{verb:?}");
    }
    session.now = session.session.approval_deadline() - SECOND;
    session.state.state = Some(State::Pending);
    assert!(try_as(&session, Verb::Approve, "ben").is_ok());
}

// case: access 46
#[test]
fn an_approved_session_is_neither_approved_again_nor_rejected() {
    for session in [TestSession::approved(), scheduled()] {
        assert_eq!(try_by(&session, Verb::Approve, &lead("cleo"), Some(&approvers())), Err(409));
        assert_eq!(try_as(&session, Verb::Approve, "ben"), Err(409));
        assert_eq!(try_as(&session, Verb::Reject, "ben"), Err(400));
    }
}

// case: access 47
#[test]
fn the_owner_may_reject_what_nobody_has_approved() {
    let mut session = pending();
    session.act(Verb::Reject, "anna").unwrap();
    assert_eq!(
        (session.is(), session.state.reason_ended),
        (State::Rejected, Some(ReasonEnded::Rejected))
    );
    assert_eq!(session.state.ended_by.as_deref(), Some("anna"));
    session.settle();
    assert_eq!(session.sent(NoticeKind::Rejected), 0, "they know");
}

#[test]
fn one_rejection_by_an_approver_ends_it_and_its_user_is_told() {
    let mut session = pending();
    let (ben, said) = (person("ben"), Some("not today"));
    session.state =
        act(Verb::Reject, &ben, said, session.recorded(), Some(&approvers()), session.now).unwrap();
    assert_eq!((session.is(), session.state.ended_at), (State::Rejected, Some(session.now)));
    assert_eq!(session.state.ended_because.as_deref(), said);
    assert_eq!(session.state.retained_until, Some(session.now + HOUR * 720));
    session.settle();
    assert_eq!(session.sent(NoticeKind::Rejected), 1);
    assert_eq!(try_as(&session, Verb::Approve, "ben"), Err(409));
}

// case: access 49
#[test]
fn the_owner_drops_a_session_in_whatever_state_it_is() {
    let mut approved = TestSession::approved();
    approved.sleep(MINUTE);
    approved.act(Verb::Drop, "anna").unwrap();
    assert_eq!(
        (approved.is(), approved.state.reason_ended),
        (State::Expired, Some(ReasonEnded::Dropped))
    );
    assert_eq!(approved.state.expires_at, Some(approved.now));
    assert!(!approved.grants());

    let mut waiting = scheduled();
    waiting.act(Verb::Drop, "anna").unwrap();
    assert_eq!(
        (waiting.is(), waiting.state.reason_ended),
        (State::Expired, Some(ReasonEnded::Dropped))
    );
    assert_eq!(waiting.state.approvals.len(), 1, "its history is kept");
    assert!(waiting.state.approved_at.is_some());

    let mut asked = pending();
    asked.act(Verb::Drop, "anna").unwrap();
    assert_eq!(
        (asked.is(), asked.state.reason_ended),
        (State::Withdrawn, Some(ReasonEnded::Withdrawn))
    );

    for ended in [approved, waiting, asked] {
        assert_eq!(try_as(&ended, Verb::Drop, "anna"), Err(400));
    }
}

// case: access 50
#[test]
fn an_approver_cancels_an_approved_session() {
    for mut session in [TestSession::approved(), scheduled()] {
        assert_eq!(try_as(&session, Verb::Cancel, "eve"), Err(403));
        session.act(Verb::Cancel, "ben").unwrap();
        assert_eq!(session.is(), State::Expired);
        assert_eq!(session.state.reason_ended, Some(ReasonEnded::Canceled));
        assert_eq!(session.state.ended_by.as_deref(), Some("ben"));
        assert!(!session.grants());
        session.settle();
        assert_eq!(session.sent(NoticeKind::Expired), 1);
        assert_eq!(try_as(&session, Verb::Cancel, "ben"), Err(400));
    }
    assert_eq!(try_as(&pending(), Verb::Cancel, "ben"), Err(400));
}

// case: access 51
#[test]
fn of_two_who_act_at_the_same_time_one_wins_and_the_other_is_told() {
    let session = pending();
    // Both read the same object; the second write finds another version, reads again and decides again.
    let approved = try_as(&session, Verb::Approve, "ben").unwrap();
    let withdrawn = try_as(&session, Verb::Withdraw, "anna").unwrap();
    let after = |state: SessionState| TestSession { state, ..session.clone() };
    assert_eq!(try_as(&after(approved), Verb::Withdraw, "anna"), Err(409));
    let withdrawn = after(withdrawn);
    assert_eq!(try_as(&withdrawn, Verb::Approve, "ben"), Err(409));
    assert_eq!(withdrawn.decision().next.0.state, Some(State::Withdrawn));
}

#[test]
fn every_approver_counts_once_in_any_spelling() {
    let mut session = pending();
    let two = Approvers {
        users: ["ben@example.org", "Ben@Example.org", "u-1", "anna"].map(str::to_owned).to_vec(),
        required: 2,
        ..approvers()
    };
    let by = person("ben@example.org");
    session.state = try_by(&session, Verb::Approve, &by, Some(&two)).unwrap();
    assert_eq!((session.is(), session.state.approved_at), (State::Pending, None));
    for (user, email) in
        [("ben@example.org", None), ("Ben@Example.org", None), ("u-1", Some("BEN@example.org"))]
    {
        let again = Person { email: email.map(str::to_owned), ..person(user) };
        assert_eq!(try_by(&session, Verb::Approve, &again, Some(&two)), Err(409), "{user}");
    }
    session.state = try_by(&session, Verb::Approve, &lead("cleo"), Some(&two)).unwrap();
    assert_eq!((session.is(), session.state.approvals.len()), (State::Approved, 2));
}

#[test]
fn one_person_with_two_accounts_counts_once_whichever_comes_first() {
    let two = Approvers {
        users: ["u-1", "u-2", "ben@example.org"].map(str::to_owned).to_vec(),
        required: 2,
        ..approvers()
    };
    let account = |user: &str, email: Option<&str>| Person {
        email: email.map(str::to_owned),
        ..person(user)
    };
    let accounts = [
        account("u-1", Some("Ben@example.org")),
        account("ben@example.org", None),
        account("ben@example.org", Some("BEN@example.org")),
        account("u-2", Some("ben@example.org ")),
    ];
    for first in &accounts {
        for second in &accounts {
            let mut session = pending();
            session.state = try_by(&session, Verb::Approve, first, Some(&two)).unwrap();
            let again = try_by(&session, Verb::Approve, second, Some(&two));
            assert_eq!(again, Err(409), "{first:?}, {second:?}");
            let another = account("u-2", Some("cleo@example.org"));
            let state =
                try_by(&session, Verb::Approve, &another, Some(&two)).map(|next| next.state);
            let counts = first.user != "u-2";
            let expected = if counts { Ok(Some(State::Approved)) } else { Err(409) };
            assert_eq!(state, expected, "{first:?}");
        }
    }
}

#[test]
fn nobody_approves_what_another_account_of_theirs_asked_for() {
    let all = Approvers { groups: vec!["leads".to_owned()], ..approvers() };
    for (user, email) in [
        ("u-4711", Some("anna@example.org")),
        ("anna@example.org", None),
        ("Anna@example.org", None),
    ] {
        let mut session = pending();
        session.session.user = user.to_owned();
        session.session.email = email.map(str::to_owned);
        for (user, email) in [("ANNA@example.org", None), ("u-7", Some("Anna@Example.org"))] {
            let anna = Person { email: email.map(str::to_owned), ..lead(user) };
            assert_eq!(try_by(&session, Verb::Approve, &anna, Some(&all)), Err(403), "{user}");
        }
        assert!(try_by(&session, Verb::Approve, &lead("cleo"), Some(&all)).is_ok());
    }
}

#[test]
fn nobody_approves_their_own_request_under_whatever_name() {
    let mut session = pending();
    session.session.user = "anna@example.org".to_owned();
    let all = Approvers { groups: vec!["leads".to_owned()], ..approvers() };
    for (user, email) in [
        ("anna@example.org", None),
        ("Anna@Example.Org", None),
        (" anna@example.org", None),
        ("u-7", Some("ANNA@EXAMPLE.ORG")),
    ] {
        let anna = Person { email: email.map(str::to_owned), ..lead(user) };
        assert_eq!(try_by(&session, Verb::Approve, &anna, Some(&all)), Err(403), "{user}");
        let allowed = Approvers { self_approval: true, ..all.clone() };
        let approved = try_by(&session, Verb::Approve, &anna, Some(&allowed)).unwrap();
        assert_eq!(approved.state, Some(State::Approved));
    }
}

#[test]
fn an_escalation_that_is_gone_approves_nobody() {
    for verb in [Verb::Approve, Verb::Reject, Verb::Cancel] {
        assert_eq!(try_by(&pending(), verb, &person("ben"), None), Err(403));
    }
    assert!(try_by(&pending(), Verb::Withdraw, &person("anna"), None).is_ok());
}

#[test]
fn the_same_name_of_another_issuer_does_not_own_a_session() {
    let mut session = TestSession::approved();
    session.session.issuer = Some("https://a.example.org".to_owned());
    for (issuer, result) in [
        (None, Some(403)),
        (Some("https://b.example.org"), Some(403)),
        (Some("https://a.example.org"), None),
    ] {
        let anna = Person { issuer: issuer.map(str::to_owned), ..person("anna") };
        assert_eq!(try_by(&session, Verb::Drop, &anna, None).err(), result, "{issuer:?}");
    }
}

#[test]
fn an_extension_adds_its_step_and_restarts_the_idle_clock() {
    let mut session = TestSession::approved();
    let expires_at = session.state.expires_at.unwrap();
    session.advance(MINUTE * 10);
    session.used();
    session.advance(MINUTE * 20);
    let used = session.usage.clone();
    session.act(Verb::Extend, "anna").unwrap();
    session.settle();
    assert_eq!(session.state.expires_at, Some(expires_at + HOUR));
    assert_eq!(session.state.idle_deadline, Some(session.now + MINUTE * 30));
    assert_eq!(session.usage, used, "neither the last use nor the count");
    session.act(Verb::Extend, "anna").unwrap();
    assert_eq!(try_as(&session, Verb::Extend, "anna"), Err(400), "twice is all");
    assert_eq!(try_as(&session, Verb::Extend, "ben"), Err(403));
    assert_eq!(try_as(&pending(), Verb::Extend, "anna"), Err(400));
    let never = TestSession::with(|session| session.terms.extension = None);
    assert_eq!(try_as(&never, Verb::Extend, "anna"), Err(400));
}

#[test]
fn a_used_session_is_extended_after_the_time_of_its_first_use() {
    for idle_timeout in [Term::Never, Term::Span(MINUTE * 90)] {
        let mut session = TestSession::with(|session| {
            session.terms.idle_timeout = idle_timeout;
            session.terms.first_use_timeout = Some(Term::Span(MINUTE * 5));
        });
        session.advance(MINUTE);
        session.used();
        session.advance(HOUR);
        assert!(session.grants(), "{idle_timeout:?}");
        let expires_at = session.state.expires_at.unwrap();
        session.act(Verb::Extend, "anna").unwrap();
        assert_eq!(session.state.expires_at, Some(expires_at + HOUR));
    }
}

#[test]
fn a_session_that_was_never_used_is_not_extended_after_the_time_of_its_first_use() {
    let mut session = TestSession::with(|session| {
        session.terms.idle_timeout = Term::Never;
        session.terms.first_use_timeout = Some(Term::Span(MINUTE * 5));
    });
    session.sleep(MINUTE * 4);
    assert!(try_as(&session, Verb::Extend, "anna").is_ok());
    session.sleep(MINUTE);
    assert_eq!(try_as(&session, Verb::Extend, "anna"), Err(400));
}

#[test]
fn what_has_ended_is_not_extended_though_nobody_has_looked() {
    let mut session = TestSession::approved();
    session.sleep(MINUTE * 30);
    assert_eq!(session.is(), State::Approved);
    assert_eq!(try_as(&session, Verb::Extend, "anna"), Err(400));
}

#[test]
fn a_session_that_nobody_has_looked_at_is_not_acted_on() {
    let session = TestSession::new();
    assert_eq!(try_as(&session, Verb::Approve, "ben"), Err(409));
    let mut leaving = pending();
    leaving.session.deleting = true;
    assert_eq!(try_as(&leaving, Verb::Approve, "ben"), Err(409));
}
