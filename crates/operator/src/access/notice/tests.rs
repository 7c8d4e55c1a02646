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
    let email = |kind, user: &str, config: &AccessConfig| made(kind, user, config).to.email;
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
