//! A replica writes what was reported to it into the objects, under its own name. Whoever leads takes it
//! into what it decides. In some families the one that leads does so, too; in others its controllers do.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use sojourn_core::activity::ActivityReport;
use sojourn_core::decision::Wake;
use sojourn_core::key::Key;
use sojourn_core::known::Known;

use super::ReplicaName;
use crate::frame::{Class, Reconciler, RequestError, Target};
use crate::tracker::{Counter, StoredUse, Tracker};

/// An object as it is known, with what this replica wrote into it.
#[derive(Debug, Clone)]
pub(crate) struct StoredActivity<E> {
    pub(crate) uid: String,
    pub(crate) version: String,
    /// What a report is added to.
    pub(crate) entry: E,
    /// How many uses it has of this replica.
    pub(crate) count: u64,
}

/// What was reported and is not in the object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    /// The first of those uses.
    pub(crate) first: Timestamp,
    pub(crate) seen: ActivityReport,
}

/// What is written into an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NewEntry {
    /// A merge patch of the status.
    pub(crate) status: Value,
    /// How many uses it has of this replica then.
    pub(crate) count: u64,
}

/// The objects whose use is reported.
pub(crate) trait ReportedObjects: Send + Sync + 'static {
    /// What a report is added to.
    type Entry: Send + Sync + Debug;

    /// The field that holds it, for words about one that is not kept.
    const FIELD: &'static str;

    /// What an object has of this replica; unknown, if the object is there and cannot be read.
    fn stored(&self, key: &Key, replica: &str) -> Known<StoredActivity<Self::Entry>>;

    /// What the object is to have: all that was reported, on top of what is there.
    fn with_report(entry: &Self::Entry, replica: &str, report: &Report) -> NewEntry;

    /// Patches the status of an object; what it is then is known afterwards.
    fn patch_status(
        &self,
        key: &Key,
        patch: &Value,
    ) -> impl Future<Output = Result<(), kube::Error>> + Send;

    /// Reads an object anew.
    fn refresh(&self, key: &Key) -> impl Future<Output = Result<(), kube::Error>> + Send;
}

/// Writes the reports of this replica.
pub(crate) struct ReportWriter<O> {
    pub(crate) objects: Arc<O>,
    pub(crate) tracker: Tracker,
    pub(crate) replica: ReplicaName,
}

/// An object about which something may be reported.
#[derive(Debug)]
pub(crate) struct ReportedObject<E> {
    key: Key,
    replica: ReplicaName,
    stored: StoredActivity<E>,
}

/// What is written into it, and the report that this tells.
#[derive(Debug)]
pub(crate) struct ReportedEntry {
    report: ActivityReport,
    entry: NewEntry,
}

impl<O: ReportedObjects> Reconciler for ReportWriter<O> {
    type Object = ReportedObject<O::Entry>;
    type Observed = Option<Report>;
    type Decision = Option<ReportedEntry>;
    type Error = RequestError;

    fn name(&self) -> &'static str {
        "reports"
    }

    fn parse(&self, key: &Key) -> Target<Self::Object> {
        match self.objects.stored(key, self.replica.as_str()) {
            Known::Is(stored) => {
                let replica = self.replica.clone();
                Target::Is(ReportedObject { key: key.clone(), replica, stored })
            }
            // The report waits, and with it what this replica calls written.
            Known::Unknown => Target::Unusable,
            Known::Absent => {
                // Nobody will ask for the reports of what is not there.
                self.tracker.forget(key);
                Target::Gone
            }
        }
    }

    async fn observe(&self, object: &Self::Object) -> Self::Observed {
        self.tracker.resolve(&object.key, stored_use(object.stored.count));
        let first = self.tracker.oldest(&object.key);
        let seen = self.tracker.peek(&object.key)?;
        Some(Report { first: first.unwrap_or(seen.last).min(seen.last), seen })
    }

    fn decide(object: &Self::Object, seen: &Self::Observed, _: Timestamp) -> Self::Decision {
        seen.map(|report| ReportedEntry {
            report: report.seen,
            entry: O::with_report(&object.stored.entry, object.replica.as_str(), &report),
        })
    }

    async fn execute(
        &self,
        object: &Self::Object,
        _: &Self::Observed,
        decision: &Self::Decision,
    ) -> Result<(), RequestError> {
        const WHAT: &str = "write what was reported";
        let Some(ReportedEntry { report, entry }) = decision else { return Ok(()) };
        let ReportedObject { key, stored, .. } = object;
        let patch = json!({
            "metadata": {"uid": stored.uid, "resourceVersion": stored.version},
            "status": entry.status,
        });
        self.tracker.begin_write(key, report, stored_use(entry.count));
        let written = self.objects.patch_status(key, &patch).await;
        if let Err(error) = written {
            let error = RequestError::of(WHAT, error);
            if matches!(error, RequestError::Outdated { .. }) {
                // The next look must not fail for the same reason.
                let refreshed = self.objects.refresh(key).await;
                refreshed.map_err(|error| RequestError::of("read the object", error))?;
            }
            return Err(error);
        }
        let kept = self.objects.stored(key, self.replica.as_str());
        if let Known::Is(kept) = kept
            && kept.uid == stored.uid
            && kept.count < entry.count
        {
            let fields = O::FIELD.to_owned();
            return Err(RequestError::Dropped { what: WHAT, fields });
        }
        Ok(())
    }

    async fn publish(
        &self,
        object: &Self::Object,
        _: &Self::Observed,
        decision: &Self::Decision,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        if let (Some(written), Ok(())) = (decision, executed) {
            self.tracker.acknowledge(&object.key, &written.report);
        }
        Ok(Wake::OnChange)
    }

    fn wake(_: &Self::Decision) -> Wake {
        Wake::OnChange
    }

    fn class(error: &RequestError) -> Class {
        error.class()
    }
}

const fn stored_use(count: u64) -> StoredUse {
    StoredUse { counter: Counter::Replica, count }
}

#[cfg(test)]
mod tests;
