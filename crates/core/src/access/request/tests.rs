use std::collections::BTreeSet;

use super::super::escalation::Allowed;
use super::super::test_session::{HOUR, MINUTE, SECOND, approvers, person, start, terms};
use super::*;

fn escalation() -> Escalation {
    Escalation {
        name: "prod-admins".to_owned(),
        uid: "e1".to_owned(),
        allowed: Allowed {
            users: vec!["anna".to_owned()],
            groups: vec!["devs".to_owned()],
            clusters: vec!["prod".to_owned(), "test".to_owned()],
        },
        escalated_group: "admins".to_owned(),
        approvers: approvers(),
        terms: terms(),
        require_reason: false,
        max_sessions_per_user: None,
    }
}

fn asked() -> Request {
    Request { cluster: "prod".to_owned(), group: "admins".to_owned(), ..Request::default() }
}

fn existing(state: Option<State>, expires_at: Option<Timestamp>) -> ExistingSession {
    ExistingSession {
        name: "admins-prod-0-1".to_owned(),
        user: "anna".to_owned(),
        cluster: "prod".to_owned(),
        group: "admins".to_owned(),
        escalation: "prod-admins".to_owned(),
        state,
        expires_at,
    }
}

fn try_request(
    asked: &Request,
    escalation: &Escalation,
    existing: &[ExistingSession],
) -> Result<NewSession, Refusal> {
    request(&person("anna"), asked, std::slice::from_ref(escalation), existing, start())
}

fn code<T: std::fmt::Debug>(result: Result<T, Refusal>) -> u16 {
    result.unwrap_err().code()
}

// case: access 17
#[test]
fn a_session_keeps_the_terms_that_it_was_requested_on() {
    let mut edited = escalation();
    let session = try_request(&asked(), &edited, &[]).unwrap();
    edited.terms.idle_timeout = Term::Never;
    edited.terms.max_valid_for = MINUTE;
    assert_eq!(session.terms, terms());
    assert_eq!((session.user.as_str(), session.escalation.as_str()), ("anna", "prod-admins"));
}

// case: access 30
#[test]
fn a_group_that_is_not_offered_is_forbidden() {
    let dora = Person { groups: vec!["ops".to_owned()], ..person("dora") };
    let offers = [escalation()];
    assert_eq!(code(request(&dora, &asked(), &offers, &[], start())), 403);
    let dev = Person { groups: vec!["devs".to_owned()], ..person("dora") };
    assert!(request(&dev, &asked(), &offers, &[], start()).is_ok());
    for wrong in [
        Request { group: "owners".to_owned(), ..asked() },
        Request { cluster: "other".to_owned(), ..asked() },
        Request { escalation: Some("other".to_owned()), ..asked() },
    ] {
        assert_eq!(code(request(&dev, &wrong, &offers, &[], start())), 403, "{wrong:?}");
    }
    assert_eq!(code(request(&dev, &asked(), &[], &[], start())), 403);
}

#[test]
fn where_several_offer_a_group_one_has_to_be_named() {
    let other = Escalation { name: "another".to_owned(), ..escalation() };
    let offers = [escalation(), other];
    let anna = person("anna");
    let refusal = request(&anna, &asked(), &offers, &[], start()).unwrap_err();
    assert_eq!(refusal.code(), 422);
    assert!(refusal.to_string().ends_with("name one of another, prod-admins"), "{refusal}");
    let named = Request { escalation: Some("another".to_owned()), ..asked() };
    let session = request(&anna, &named, &offers, &[], start()).unwrap();
    assert_eq!(session.escalation, "another");
}

// case: access 32
#[test]
fn a_reason_that_is_required_is_not_blank() {
    let strict = Escalation { require_reason: true, ..escalation() };
    for reason in [None, Some(""), Some("  \t")] {
        let asked = Request { reason: reason.map(str::to_owned), ..asked() };
        assert_eq!(code(try_request(&asked, &strict, &[])), 422, "{reason:?}");
        assert!(try_request(&asked, &escalation(), &[]).is_ok());
    }
    let reason = Some("https://tickets.example.org/4711: Änderung".to_owned());
    let session = try_request(&Request { reason: reason.clone(), ..asked() }, &strict, &[]);
    assert_eq!(session.unwrap().reason, reason);
}

// case: access 34
#[test]
fn two_who_ask_at_the_same_time_make_one_session() {
    // Neither sees the other's: both are told to create one, of the same name, which the API takes once.
    let mut api = BTreeSet::new();
    let created: Vec<bool> = (0..2)
        .map(|_| {
            let new = try_request(&asked(), &escalation(), &[]).unwrap();
            let name = session_name(&new.cluster, &new.user, &new.granted_group, [].into_iter());
            api.insert(name)
        })
        .collect();
    assert_eq!(created, [true, false]);
    // The second one reads again.
    assert_eq!(code(try_request(&asked(), &escalation(), &[existing(None, None)])), 409);
}

// case: access 35
#[test]
fn there_is_one_session_for_a_cluster_user_and_group() {
    let ahead = Some(start() + HOUR);
    for (state, expires_at) in [
        (None, None),
        (Some(State::Pending), None),
        (Some(State::Approved), ahead),
        (Some(State::WaitingForScheduledTime), ahead),
    ] {
        let refusal = try_request(&asked(), &escalation(), &[existing(state, expires_at)]);
        let refusal = refusal.unwrap_err();
        assert_eq!(refusal.code(), 409, "{state:?}");
        assert!(refusal.to_string().contains("admins-prod-0-1"), "{refusal}");
    }
    let elsewhere = Request { cluster: "test".to_owned(), ..asked() };
    let approved = existing(Some(State::Approved), ahead);
    assert!(try_request(&elsewhere, &escalation(), &[approved]).is_ok());
}

// case: access 36
#[test]
fn sessions_that_have_ended_are_in_nobodys_way() {
    let ended: Vec<ExistingSession> = State::ALL
        .into_iter()
        .filter(|state| state.is_final())
        .map(|state| existing(Some(state), Some(start() + HOUR)))
        .chain([existing(Some(State::Approved), Some(start()))])
        .collect();
    assert!(try_request(&asked(), &escalation(), &ended).is_ok());
}

// case: access 37
#[test]
fn a_user_has_no_more_sessions_than_the_limit() {
    let limited = Escalation { max_sessions_per_user: Some(2), ..escalation() };
    let other = |cluster: &str, state| ExistingSession {
        cluster: cluster.to_owned(),
        ..existing(Some(state), Some(start() + HOUR))
    };
    let waiting = other("a", State::WaitingForScheduledTime);
    let full = [waiting.clone(), other("b", State::Pending)];
    assert_eq!(code(try_request(&asked(), &limited, &full)), 422);
    assert!(try_request(&asked(), &escalation(), &full).is_ok());
    let ended = [waiting.clone(), other("b", State::Expired)];
    assert!(try_request(&asked(), &limited, &ended).is_ok());
    let elsewhere = ExistingSession { escalation: "other".to_owned(), ..full[1].clone() };
    assert!(try_request(&asked(), &limited, &[waiting, elsewhere]).is_ok());
}

#[test]
fn a_shorter_time_cuts_what_is_longer() {
    let mut offer = escalation();
    offer.terms.first_use_timeout = Some(Term::Span(HOUR * 2));
    let shorter = |duration| Request { duration: Some(duration), ..asked() };
    let session = try_request(&shorter(MINUTE * 10), &offer, &[]).unwrap();
    assert_eq!(session.terms.max_valid_for, MINUTE * 10);
    assert_eq!(session.terms.idle_timeout, Term::Span(MINUTE * 10));
    assert_eq!(session.terms.first_use_timeout, Some(Term::Span(MINUTE * 10)));
    assert_eq!(session.terms.warn_before, MINUTE * 2, "a fifth");

    let session = try_request(&shorter(HOUR), &offer, &[]).unwrap();
    assert_eq!(session.terms.idle_timeout, Term::Span(MINUTE * 30), "it was shorter");
    offer.terms.idle_timeout = Term::Never;
    offer.terms.first_use_timeout = Some(Term::Never);
    let session = try_request(&shorter(HOUR), &offer, &[]).unwrap();
    assert_eq!(session.terms.idle_timeout, Term::Never);
    assert_eq!(session.terms.first_use_timeout, Some(Term::Never));
    assert_eq!(session.terms.warn_before, MINUTE * 5);

    for wrong in [HOUR * 4 + SECOND, SECOND, SignedDuration::ZERO, -HOUR] {
        assert_eq!(code(try_request(&shorter(wrong), &offer, &[])), 422, "{wrong}");
    }
    assert!(try_request(&shorter(HOUR * 4), &offer, &[]).is_ok());
}

#[test]
fn a_scheduled_start_is_five_minutes_ahead_at_least() {
    let at = |start| Request { scheduled_start: Some(start), ..asked() };
    assert_eq!(code(try_request(&at(start() + MINUTE * 5 - SECOND), &escalation(), &[])), 422);
    let between = start() + MINUTE * 5 + SignedDuration::from_millis(1);
    let session = try_request(&at(between), &escalation(), &[]).unwrap();
    assert_eq!(session.scheduled_start, Some(start() + MINUTE * 5 + SECOND));
}

#[test]
fn the_issuer_is_the_one_of_the_review() {
    let issuer = Some("https://a.example.org".to_owned());
    let anna = Person { issuer: issuer.clone(), ..person("anna") };
    let session = request(&anna, &asked(), &[escalation()], &[], start()).unwrap();
    assert_eq!(session.issuer, issuer);
}

#[test]
fn an_address_beside_the_name_is_kept() {
    for (email, kept) in
        [(None, None), (Some("ANNA"), None), (Some("anna@example.org"), Some("anna@example.org"))]
    {
        let anna = Person { email: email.map(str::to_owned), ..person("anna") };
        let session = request(&anna, &asked(), &[escalation()], &[], start()).unwrap();
        assert_eq!(session.email.as_deref(), kept, "{email:?}");
    }
}

#[test]
fn a_name_says_what_it_is_and_counts_on() {
    let name = |names: &[&str]| session_name("prod", "anna", "admins", names.iter().copied());
    let first = name(&[]);
    assert!(first.starts_with("admins-prod-") && first.ends_with("-1"), "{first}");
    let second = name(&[&first, "admins-prod-1", "something-else-9"]);
    assert_eq!(second, format!("{}2", first.strip_suffix('1').unwrap()));
    let eleventh = name(&[&second, &format!("{first}0")]);
    assert!(eleventh.ends_with("-11"), "{eleventh}");
    assert_eq!(name(&[]), first, "the same everywhere");
}

#[test]
fn a_name_is_a_dns_label_whatever_it_is_made_of() {
    let long = "x".repeat(300);
    for (cluster, user, group) in [
        ("prod", "anna@example.org", "oidc:Team Admins"),
        (&*long, &*long, &*long),
        ("prod", "u", "--"),
        ("ü", "ü", "ü"),
        ("", "", ""),
    ] {
        let most = session_name(cluster, user, group, [].into_iter());
        let most = format!("{}{}", most.strip_suffix('1').unwrap(), u64::MAX - 1);
        for name in [
            session_name(cluster, user, group, [].into_iter()),
            session_name(cluster, user, group, [&*most].into_iter()),
        ] {
            assert!(name.len() <= MAX_NAME_LENGTH, "{name}");
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(name.chars().all(fits), "{name}");
            assert!(!name.starts_with('-') && !name.ends_with('-'), "{name}");
        }
    }
}

#[test]
fn names_of_different_people_differ() {
    let mut names = BTreeSet::new();
    for (cluster, user, group) in
        [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a", "B", "c"), ("", "ab", "c")]
    {
        let name = session_name(cluster, user, group, [].into_iter());
        let hash = name.rsplit('-').nth(1).unwrap().to_owned();
        assert!(names.insert(hash), "{name}");
    }
}
