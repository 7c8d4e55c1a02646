//! The family's mail templates: the built-in files in `templates/`, which files of the operator replace, and the
//! values that they can use beside the general ones (`drivers::notify::template`).
//!
//! | value | meaning |
//! |---|---|
//! | `collection` | the collection |
//! | `failures`, `window`, `limit` | how many servers failed within how long, and how many of them are handled |
//! | `servers` | how many can be played on |

use jiff::Timestamp;
use sojourn_core::game::notice::NoticeKind;
use sojourn_drivers::notify::{Facts, ObjectName, TemplateSet, TextValue};

use crate::notice::built_in;

/// The name of a kind's files, without the ending.
pub(super) const fn template(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::NeedsIntervention => "needs-intervention",
    }
}

pub(super) const FAILURES: &str = "failures";
pub(super) const WINDOW: &str = "window";
pub(super) const LIMIT: &str = "limit";
pub(super) const SERVERS: &str = "servers";

pub(in crate::game) static TEMPLATES: TemplateSet = TemplateSet {
    object: "collection",
    untitled: "a collection",
    sent_because: "this address is among those that are told when game servers need somebody",
    texts: &[
        TextValue { name: FAILURES, label: None },
        TextValue { name: WINDOW, label: None },
        TextValue { name: LIMIT, label: None },
        TextValue { name: SERVERS, label: Some("Servers") },
    ],
    links: &[],
    templates: built_in!["needs-intervention"],
    sample,
};

/// Every fact that there is.
fn sample() -> Facts {
    Facts {
        object: ObjectName {
            kind: "DedicatedGameServerCollection",
            namespace: "sample-namespace".to_owned(),
            name: "sample-1".to_owned(),
        },
        title: "sample-1".to_owned(),
        texts: vec![
            (FAILURES, "6".to_owned()),
            (WINDOW, "1h".to_owned()),
            (LIMIT, "5".to_owned()),
            (SERVERS, "3 of 4 can be played on".to_owned()),
        ],
        reason: "6 servers failed within 1h, the last at".to_owned(),
        reason_time: Some(Timestamp::UNIX_EPOCH),
        url: Some("https://sojourn.example.org/".to_owned()),
        detail: Some("1970-01-01T00:00:00Z sample-1-abcde: Error: exit code 1".to_owned()),
        ..Facts::default()
    }
}
