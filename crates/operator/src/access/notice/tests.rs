use jiff::Timestamp;
use serde_json::json;
use sojourn_core::notice::{Delivery, NoticeId};
use sojourn_drivers::notify::Zone;
use sojourn_drivers::notify::template::Templates;

use super::*;

const KINDS: [NoticeKind; 8] = [
    NoticeKind::Requested,
    NoticeKind::Approved,
    NoticeKind::Rejected,
    NoticeKind::Activated,
    NoticeKind::IdleWarning,
    NoticeKind::ExpiryWarning,
    NoticeKind::IdleExpired,
    NoticeKind::Expired,
];

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_900_000_000 + seconds).unwrap()
}

fn session(user: &str) -> BreakglassSession {
    let object = json!({
        "apiVersion": "access.sojourn.dev/v1alpha1", "kind": "BreakglassSession",
        "metadata": {"name": "admins-1", "namespace": "ops", "uid": "u-1"},
        "spec": {
            "cluster": "prod", "user": user, "grantedGroup": "admins",
            "escalationRef": {"name": "e"}, "reason": "ticket <7>",
            "extension": {"max": 1, "step": "30m"},
        },
    });
    serde_json::from_value(object).unwrap()
}

fn made(kind: NoticeKind, user: &str, config: &AccessConfig) -> Notice {
    let approvers = Approvers {
        users: vec!["grace@example.org".to_owned(), "hedy".to_owned()],
        groups: vec!["leads".to_owned()],
        required: 1,
        self_approval: false,
    };
    let state = SessionState {
        activated_at: Some(at(0)),
        expires_at: Some(at(3600)),
        ended_by: Some("grace@example.org".to_owned()),
        ..SessionState::default()
    };
    let recorded = Recorded {
        id: NoticeId::new("u-1", template(kind), at(900)),
        kind,
        alert: None,
        deadline: Some(at(900)),
        recorded_at: at(0),
        attempts: 1,
        delivery: Delivery::Waiting { next: at(30) },
        error: None,
    };
    let session = session(user);
    notice(
        &recorded,
        &NoticeContext {
            key: &Key::new("ops", "admins-1"),
            session: &session,
            config,
            approvers: Some(approvers),
            state: &state,
            usage: &Usage::default(),
            links: &Links::new([7; 32]),
            public_url: Some("https://sojourn.example.org/".to_owned()),
            now: at(600),
        },
    )
}

#[test]
fn every_kind_has_a_mail_that_names_the_session() {
    let templates = Templates::load(&TEMPLATES, None, Zone::utc()).unwrap();
    for kind in KINDS {
        let made = made(kind, "ada@example.org", &AccessConfig::default());
        let mail = templates.render(&made).unwrap();
        assert!(mail.subject.contains("admins on prod"), "{}", mail.subject);
        assert!(mail.text.contains("admins on prod"), "{}", mail.text);
        assert!(!mail.html.contains("<7>"), "{}", mail.html);
    }
}

// case: access 100
#[test]
fn whom_a_notice_goes_to() {
    let mut config = AccessConfig::default();
    let email = |kind, user: &str, config: &AccessConfig| {
        let made = made(kind, user, config);
        made.for_each().map(|one| one.to.email).collect::<Vec<_>>().join(",")
    };
    let requested = NoticeKind::Requested;
    assert_eq!(email(requested, "ada", &config), "grace@example.org");
    assert_eq!(email(NoticeKind::Expired, "ada", &config), "", "an Event says it");
    assert_eq!(email(NoticeKind::Expired, "ada@example.org", &config), "ada@example.org");
    let mut put = |who: &str, address: &str, groups: bool| {
        let addresses = &mut config.addresses;
        let into = if groups { &mut addresses.groups } else { &mut addresses.users };
        into.insert(who.to_owned(), address.to_owned());
    };
    put("ada", "ada@example.net", false);
    put("leads", "leads@example.org", true);
    assert_eq!(email(requested, "ada", &config), "grace@example.org,leads@example.org");
    assert_eq!(email(NoticeKind::IdleWarning, "ada", &config), "ada@example.net");
}

/// The names of the links that each of those who are told has.
fn offered(kind: NoticeKind, config: &AccessConfig) -> Vec<(String, Vec<&'static str>)> {
    let told = made(kind, "ada@example.org", config);
    let names = |one: &Notice| {
        let links = one.facts.links.iter().filter(|link| link.url.is_some());
        links.map(|link| link.name).collect()
    };
    told.for_each().map(|one| (one.to.email.clone(), names(&one))).collect()
}

#[test]
fn who_is_told_can_do_by_a_click_what_they_may() {
    let mut config = AccessConfig::default();
    let ada = |links: &[&'static str]| vec![("ada@example.org".to_owned(), links.to_vec())];
    for kind in [NoticeKind::Approved, NoticeKind::Activated] {
        assert_eq!(offered(kind, &config), ada(&[DROP]));
    }
    for kind in [NoticeKind::IdleWarning, NoticeKind::ExpiryWarning] {
        assert_eq!(offered(kind, &config), ada(&[EXTEND, DROP]));
    }
    for kind in [NoticeKind::Rejected, NoticeKind::IdleExpired, NoticeKind::Expired] {
        assert_eq!(offered(kind, &config), ada(&[]));
    }
    config.addresses.groups.insert("leads".to_owned(), "leads@example.org".to_owned());
    let grace = ("grace@example.org".to_owned(), vec![APPROVE, REJECT]);
    let leads = ("leads@example.org".to_owned(), Vec::new());
    assert_eq!(offered(NoticeKind::Requested, &config), [grace, leads]);
    // Nobody knows which of the two reads it.
    config.addresses.users.insert("hedy".to_owned(), "grace@example.org".to_owned());
    let shared = offered(NoticeKind::Requested, &config);
    assert_eq!(shared[0], ("grace@example.org".to_owned(), Vec::new()));
}

/// What is sent, as it was recorded: operators and programs rely on it. Whoever changes a mail on purpose changes the
/// recording with it.
#[test]
fn mails_and_events_are_as_recorded() {
    let mut config = AccessConfig::default();
    config.addresses.groups.insert("leads".to_owned(), "leads@example.org".to_owned());
    let templates = Templates::load(&TEMPLATES, None, Zone::utc()).unwrap();
    let mut sent = String::new();
    for kind in KINDS {
        for notice in made(kind, "ada@example.org", &config).for_each() {
            let mail = templates.render(&notice).unwrap();
            let Summary { reason, warning, sentence } = &notice.summary;
            let severity = if *warning { "Warning" } else { "Normal" };
            sent.push_str(&format!(
                "=== {}, to {}\nSubject: {}\n{}--- HTML\n{}\n--- Event\n{severity} {reason}: {sentence}\n",
                notice.template, notice.to.email, mail.subject, mail.text, mail.html
            ));
        }
    }
    let recorded = include_str!("golden/sent.txt");
    for (number, (recorded, now)) in recorded.split('\n').zip(sent.split('\n')).enumerate() {
        assert_eq!(now, recorded, "line {} of golden/sent.txt", number + 1);
    }
    assert_eq!(sent.len(), recorded.len(), "golden/sent.txt is longer or shorter\n{sent}");
}
