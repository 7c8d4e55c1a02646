//! Lab's mail templates: the built-in files in `templates/`, which files of the operator replace, and
//! the values that they can use beside the general ones (`drivers::notify::template`).
//!
//! | value | meaning |
//! |---|---|
//! | `instance`, `pretty_name`, `template` | names |
//! | `keep_hour`, `keep_tomorrow`, `stop` | signed links |

use jiff::{SignedDuration, Timestamp};
use sojourn_drivers::notify::{Facts, LinkValue, ObjectName, SignedLink, TemplateSet, TextValue};

use crate::notice::built_in;

/// Which text is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoticeTemplate {
    /// It is idle and will be stopped; its data stays.
    InactivityWarning,
    Stopped,
    /// It is idle and will be deleted, with its data.
    DeletionWarning,
    Deleted,
    /// Its time is up, used or not, and it will be deleted.
    ExpiryWarning,
    Expired,
    SubmissionFailed,
}

impl NoticeTemplate {
    /// The name of its files, without the ending.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::InactivityWarning => "inactivity-warning",
            Self::Stopped => "stopped",
            Self::DeletionWarning => "deletion-warning",
            Self::Deleted => "deleted",
            Self::ExpiryWarning => "expiry-warning",
            Self::Expired => "expired",
            Self::SubmissionFailed => "submission-failed",
        }
    }
}

pub(super) const PRETTY_NAME: &str = "pretty_name";
pub(super) const TEMPLATE: &str = "template";
pub(super) const KEEP_HOUR: &str = "keep_hour";
pub(super) const KEEP_TOMORROW: &str = "keep_tomorrow";
pub(super) const STOP: &str = "stop";

pub(in crate::lab) static TEMPLATES: TemplateSet = TemplateSet {
    object: "instance",
    untitled: "your environment",
    sent_because: "this environment was lent to you",
    texts: &[
        TextValue { name: PRETTY_NAME, label: None },
        TextValue { name: TEMPLATE, label: Some("Template") },
    ],
    links: &[
        LinkValue { name: KEEP_HOUR, label: "keep it for one more hour" },
        LinkValue { name: KEEP_TOMORROW, label: "keep it until tomorrow, 09:00 {zone}" },
        LinkValue { name: STOP, label: "stop it now, I am done" },
    ],
    templates: built_in![
        "inactivity-warning",
        "stopped",
        "deletion-warning",
        "deleted",
        "expiry-warning",
        "expired",
        "submission-failed",
    ],
    sample,
};

/// Every fact.
pub(super) fn sample() -> Facts {
    let address = |path: &str| Some(format!("https://sojourn.example.org/{path}"));
    Facts {
        object: ObjectName {
            kind: "Instance",
            namespace: "sample-namespace".to_owned(),
            name: "sample-7f3a".to_owned(),
        },
        title: "Sample environment".to_owned(),
        texts: vec![
            (PRETTY_NAME, "Sample environment".to_owned()),
            (TEMPLATE, "sample-template".to_owned()),
        ],
        reason: "it has not been used for 14 days".to_owned(),
        reason_time: None,
        deadline: Some(Timestamp::UNIX_EPOCH),
        remaining: Some(SignedDuration::from_hours(24)),
        alert: Some((1, 3)),
        url: address("access"),
        links: vec![
            SignedLink { name: KEEP_HOUR, url: address("keep-hour") },
            SignedLink { name: KEEP_TOMORROW, url: address("keep-tomorrow") },
            SignedLink { name: STOP, url: address("stop") },
        ],
        detail: Some("the server answered 500".to_owned()),
    }
}
