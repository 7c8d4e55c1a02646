//! Use that replicas wrote into an object's status, each under its own name.
//!
//! Whoever decides takes it into the object's own `last` and `count`, and notes how much of it. A
//! replica that writes the same again, because an answer was lost, changes nothing.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sojourn_core::activity::{ActivityReport, ReplicaActivity, Source};

use crate::limit::MAX_INTEGER;
use crate::schema;
use crate::time::{read, written};

/// By the name of the replica. One that is to be taken away is nothing, which a merge patch says as
/// null; the API keeps no such value.
pub type ReplicaActivities = BTreeMap<String, Option<ReplicaActivityStatus>>;

/// What one replica wrote.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaActivityStatus {
    /// The newest use that was reported to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last: Option<Time>,
    /// Who saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub source: Option<String>,
    /// How many uses were reported to it.
    #[schemars(schema_with = "schema::count")]
    pub count: u64,
    /// How many of them are in the sum.
    #[schemars(schema_with = "schema::count")]
    pub counted: u64,
}

impl ReplicaActivityStatus {
    /// What it will be when a report is in it.
    #[must_use]
    pub fn with(&self, report: &ActivityReport) -> Self {
        let last = written(Some(report.last));
        let newer = self.last.as_ref().map(|last| last.0) < last.as_ref().map(|last| last.0);
        let count = self.count.saturating_add(report.count).min(MAX_INTEGER);
        let (last, source) = if newer {
            (last, Some(report.source.as_str().to_owned()))
        } else {
            (self.last.clone(), self.source.clone())
        };
        Self { last, source, count, counted: self.counted }
    }
}

/// What is not counted yet, in words of the family.
pub(crate) fn read_replicas(
    replicas: &ReplicaActivities,
    parse: impl Fn(&str) -> Option<Source>,
) -> impl Iterator<Item = ReplicaActivity> {
    replicas.values().flatten().map(move |replica| ReplicaActivity {
        last: read(replica.last.as_ref()),
        source: replica.source.as_deref().and_then(&parse),
        count: replica.count,
        counted: replica.counted,
    })
}

/// Notes that all of it is in the sum.
pub(crate) fn mark_counted(replicas: &mut ReplicaActivities) {
    for replica in replicas.values_mut().flatten() {
        replica.counted = replica.count;
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const SEEN: Source = Source::new(0, "Webhook");

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    #[test]
    fn the_newest_use_wins_and_counts_add_up() {
        let none = ReplicaActivityStatus::default();
        let first = none.with(&ActivityReport { last: at(100), source: SEEN, count: 2 });
        assert_eq!((first.count, first.counted, first.source.as_deref()), (2, 0, Some("Webhook")));
        let other = Source::new(1, "Other");
        let second = first.with(&ActivityReport { last: at(50), source: other, count: 3 });
        assert_eq!((second.count, second.source.as_deref()), (5, Some("Webhook")));
        assert_eq!(read(second.last.as_ref()), Some(at(100)));
        let whole = second.with(&ActivityReport { last: at(100), source: SEEN, count: u64::MAX });
        assert_eq!(whole.count, MAX_INTEGER);
    }
}
