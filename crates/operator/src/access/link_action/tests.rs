use serde_json::{Value, json};
use sojourn_core::key::Key;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn session(state: &str, status: &Value) -> BreakglassSession {
    let mut object = json!({
        "apiVersion": "access.sojourn.dev/v1alpha1", "kind": "BreakglassSession",
        "metadata": {
            "name": "admins-1", "namespace": "ops", "uid": "u-1",
            "creationTimestamp": "2026-11-17T08:00:00Z",
        },
        "spec": {
            "cluster": "prod", "user": "ada@example.org", "grantedGroup": "admins",
            "escalationRef": {"name": "e"}, "maxValidFor": "8h", "approvalTimeout": "1h",
            "issuer": "https://id.example.org", "extension": {"max": 2, "step": "1h"},
        },
        "status": {"state": state},
    });
    for (name, value) in status.as_object().unwrap() {
        object["status"][name] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn approved(extensions: u32) -> BreakglassSession {
    let status = json!({
        "approvedAt": "2026-11-17T08:05:00Z", "activatedAt": "2026-11-17T08:05:00Z",
        "expiresAt": "2026-11-17T16:05:00Z", "extensions": extensions,
        "approvals": [{"user": "grace@example.org", "at": "2026-11-17T08:05:00Z"}],
    });
    session("Approved", &status)
}

fn claim(verb: Verb, recipient: &str, count: u32) -> LinkClaim {
    LinkClaim {
        family: "access".to_owned(),
        key: Key::new("ops", "admins-1"),
        uid: "u-1".to_owned(),
        recipient: recipient.to_owned(),
        count,
        verb: code(verb),
        expires: at("2026-11-17T09:00:00Z"),
        id: "id".to_owned(),
    }
}

fn decided(object: Option<&BreakglassSession>, claim: &LinkClaim) -> LinkStatus {
    let approvers = Approvers {
        users: vec!["grace@example.org".to_owned(), "ada@example.org".to_owned()],
        groups: vec!["leads".to_owned()],
        required: 1,
        self_approval: false,
    };
    let (config, now) = (AccessConfig::default(), at("2026-11-17T08:30:00Z"));
    decide_link(object, Some(&approvers), claim, &config, now)
}

#[test]
fn a_link_acts_as_its_recipient_under_every_check() {
    let pending = session("Pending", &json!({}));
    let status = |verb, who: &str| decided(Some(&pending), &claim(verb, who, 0));
    let refused = |status: &LinkStatus, words: &str| {
        assert!(matches!(status, LinkStatus::Refused(said) if said.contains(words)), "{status:?}");
    };
    assert!(matches!(status(Verb::Approve, "grace@example.org"), LinkStatus::Open(_)));
    assert!(matches!(status(Verb::Reject, "grace@example.org"), LinkStatus::Open(_)));
    refused(&status(Verb::Approve, "eve@example.org"), "may not approve");
    refused(&status(Verb::Approve, ""), "may not approve");
    refused(&status(Verb::Approve, "leads"), "may not approve");
    refused(&status(Verb::Approve, "ada@example.org"), "requested themselves");
    refused(&status(Verb::Drop, "grace@example.org"), "may not drop");
    refused(&status(Verb::Extend, "ada@example.org"), "Pending");
    assert!(matches!(status(Verb::Drop, "ada@example.org"), LinkStatus::Open(_)));
    refused(&status(Verb::Cancel, "grace@example.org"), "cannot do what this link asks");
}

#[test]
fn what_was_done_is_not_done_again() {
    let used = |object: &BreakglassSession, claim: &LinkClaim| {
        let status = decided(Some(object), claim);
        assert!(matches!(&status, LinkStatus::Used(_)), "{status:?}");
    };
    used(&approved(0), &claim(Verb::Approve, "Grace@example.org", 0));
    used(&approved(1), &claim(Verb::Extend, "ada@example.org", 0));
    let again = decided(Some(&approved(1)), &claim(Verb::Extend, "ada@example.org", 1));
    assert!(matches!(again, LinkStatus::Open(_)), "a newer mail extends it again: {again:?}");
    let ended = json!({
        "endedBy": "ada@example.org", "reasonEnded": "dropped", "endedAt": "2026-11-17T08:10:00Z",
    });
    used(&session("Expired", &ended), &claim(Verb::Drop, "ada@example.org", 0));
}

#[test]
fn a_link_extends_a_used_session_after_the_time_of_its_first_use() {
    let mut used = approved(0);
    used.spec.first_use_timeout = Some("5m".to_owned());
    let extend = claim(Verb::Extend, "ada@example.org", 0);
    let unused = decided(Some(&used), &extend);
    assert!(matches!(&unused, LinkStatus::Refused(said) if said.contains("has ended")));
    let status = used.status.as_mut().unwrap();
    status.last_activity = serde_json::from_value(json!("2026-11-17T08:06:00Z")).unwrap();
    assert!(matches!(decided(Some(&used), &extend), LinkStatus::Open(_)));
}

#[test]
fn a_successor_of_the_same_name_is_left_alone() {
    let other = LinkClaim { uid: "u-2".to_owned(), ..claim(Verb::Drop, "ada@example.org", 0) };
    for object in [Some(&approved(0)), None] {
        let status = decided(object, &other);
        assert!(matches!(&status, LinkStatus::Refused(said) if said.contains("not there")));
    }
}
