//! The family's mail templates: the built-in files in `templates/`, which files of the operator replace. The general
//! values (`drivers::notify::template`) are all that they use; the cluster is called `cluster`.

use jiff::{SignedDuration, Timestamp};
use sojourn_core::cluster::NoticeKind;
use sojourn_drivers::notify::{Facts, ObjectName, TemplateSet};

use crate::notice::built_in;

/// The name of a kind's files, without the ending.
pub(super) const fn template(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Hibernation => "hibernation",
    }
}

pub(in crate::cluster) static TEMPLATES: TemplateSet = TemplateSet {
    object: "cluster",
    untitled: "a cluster",
    sent_because: "this address is among the contacts of the cluster",
    texts: &[],
    links: &[],
    templates: built_in!["hibernation"],
    sample,
};

/// Every fact that there is.
fn sample() -> Facts {
    Facts {
        object: ObjectName {
            kind: "ClusterDeployment",
            namespace: "sample-namespace".to_owned(),
            name: "sample-1".to_owned(),
        },
        title: "sample-1".to_owned(),
        reason: "it has run for 8h since 1970-01-01T00:00:00Z".to_owned(),
        deadline: Some(Timestamp::UNIX_EPOCH),
        remaining: Some(SignedDuration::from_mins(15)),
        alert: Some((1, 1)),
        url: Some("https://sojourn.example.org/".to_owned()),
        ..Facts::default()
    }
}
