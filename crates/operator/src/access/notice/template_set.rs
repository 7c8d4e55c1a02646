//! The family's mail templates: the built-in files in `templates/`, which files of the operator replace, and the
//! values that they can use beside the general ones (`drivers::notify::template`).
//!
//! | value | meaning |
//! |---|---|
//! | `session`, `group`, `cluster`, `user`, `request_reason` | what was asked for, by whom and why |
//! | `actor` | who approved, rejected or ended it |
//! | `approve`, `reject`, `extend`, `drop` | signed links |

use jiff::{SignedDuration, Timestamp};
use sojourn_core::access::session::NoticeKind;
use sojourn_drivers::notify::{Facts, LinkValue, ObjectName, SignedLink, TemplateSet, TextValue};

use crate::notice::built_in;

/// The name of a kind's files, without the ending.
pub(super) const fn template(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Requested => "requested",
        NoticeKind::Approved => "approved",
        NoticeKind::Rejected => "rejected",
        NoticeKind::Activated => "activated",
        NoticeKind::IdleWarning => "idle-warning",
        NoticeKind::ExpiryWarning => "expiry-warning",
        NoticeKind::IdleExpired => "idle-expired",
        NoticeKind::Expired => "expired",
    }
}

pub(super) const GROUP: &str = "group";
pub(super) const CLUSTER: &str = "cluster";
pub(super) const USER: &str = "user";
pub(super) const REQUEST_REASON: &str = "request_reason";
pub(super) const ACTOR: &str = "actor";
pub(super) const APPROVE: &str = "approve";
pub(super) const REJECT: &str = "reject";
pub(super) const EXTEND: &str = "extend";
pub(super) const DROP: &str = "drop";

pub(in crate::access) static TEMPLATES: TemplateSet = TemplateSet {
    object: "session",
    untitled: "a session",
    sent_because: "you asked for this session or may approve it",
    texts: &[
        TextValue { name: USER, label: Some("User") },
        TextValue { name: GROUP, label: Some("Group") },
        TextValue { name: CLUSTER, label: Some("Cluster") },
        TextValue { name: REQUEST_REASON, label: Some("Reason") },
        TextValue { name: ACTOR, label: None },
    ],
    links: &[
        LinkValue { name: APPROVE, label: "approve it" },
        LinkValue { name: REJECT, label: "reject it" },
        LinkValue { name: EXTEND, label: "extend it" },
        LinkValue { name: DROP, label: "give it back now, I am done" },
    ],
    templates: built_in![
        "requested",
        "approved",
        "rejected",
        "activated",
        "idle-warning",
        "expiry-warning",
        "idle-expired",
        "expired",
    ],
    sample,
};

/// Every fact.
pub(super) fn sample() -> Facts {
    Facts {
        object: ObjectName {
            kind: "BreakglassSession",
            namespace: "sample-namespace".to_owned(),
            name: "sample-1".to_owned(),
        },
        title: "sample-group on sample-cluster".to_owned(),
        texts: vec![
            (USER, "ada@example.org".to_owned()),
            (GROUP, "sample-group".to_owned()),
            (CLUSTER, "sample-cluster".to_owned()),
            (REQUEST_REASON, "ticket 4711".to_owned()),
            (ACTOR, "grace@example.org".to_owned()),
        ],
        reason: "nobody used it since".to_owned(),
        reason_time: Some(Timestamp::UNIX_EPOCH),
        deadline: Some(Timestamp::UNIX_EPOCH),
        remaining: Some(SignedDuration::from_mins(5)),
        alert: Some((1, 1)),
        url: Some("https://sojourn.example.org/".to_owned()),
        links: [APPROVE, REJECT, EXTEND, DROP]
            .map(|name| SignedLink {
                name,
                url: Some(format!("https://sojourn.example.org/notice/{name}")),
            })
            .into(),
        detail: Some("it is over".to_owned()),
    }
}
