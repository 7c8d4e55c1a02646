//! A replica that does not lead writes what was reported to it into the objects, under its own name.
//! Whoever leads takes it into what it decides.

use std::future::Future;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use sojourn_api::activity::ReplicaActivityStatus;
use sojourn_core::activity::ActivityReport;
use sojourn_core::decision::Wake;
use sojourn_core::key::Key;
use sojourn_core::known::Known;

use super::ReplicaName;
use crate::frame::{Class, Reconciler, RequestError, Target};
use crate::tracker::{Counter, StoredUse, Tracker};

/// An object as it is known, with what this replica wrote into it.
#[derive(Debug, Clone)]
pub(crate) struct StoredActivity {
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) ours: ReplicaActivityStatus,
}

/// The objects whose use is reported.
pub(crate) trait ReportedObjects: Send + Sync + 'static {
    /// What an object has of this replica; unknown, if the object is there and cannot be read.
    fn stored(&self, key: &Key, replica: &str) -> Known<StoredActivity>;

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
pub(crate) struct ReportedObject {
    key: Key,
    stored: StoredActivity,
}

/// What is written into it, if anything is.
#[derive(Debug)]
pub(crate) struct NewEntry {
    report: ActivityReport,
    entry: ReplicaActivityStatus,
}

/// What is to be written, if anything is: all that was reported, on top of what is there.
fn decide(stored: &StoredActivity, report: Option<&ActivityReport>) -> Option<NewEntry> {
    report.map(|report| NewEntry { report: *report, entry: stored.ours.with(report) })
}

impl<O: ReportedObjects> Reconciler for ReportWriter<O> {
    type Object = ReportedObject;
    type Observed = Option<ActivityReport>;
    type Decision = Option<NewEntry>;
    type Error = RequestError;

    fn name(&self) -> &'static str {
        "reports"
    }

    fn parse(&self, key: &Key) -> Target<Self::Object> {
        match self.objects.stored(key, self.replica.as_str()) {
            Known::Is(stored) => Target::Is(ReportedObject { key: key.clone(), stored }),
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
        self.tracker.resolve(&object.key, stored_use(&object.stored.ours));
        self.tracker.peek(&object.key)
    }

    fn decide(&self, object: &Self::Object, seen: &Self::Observed, _: Timestamp) -> Self::Decision {
        decide(&object.stored, seen.as_ref())
    }

    async fn execute(
        &self,
        object: &Self::Object,
        decision: &Self::Decision,
    ) -> Result<(), RequestError> {
        const WHAT: &str = "write what was reported";
        let Some(NewEntry { report, entry }) = decision else { return Ok(()) };
        let ReportedObject { key, stored } = object;
        let patch = json!({
            "metadata": {"uid": stored.uid, "resourceVersion": stored.version},
            "status": {"activity": {"replicas": {self.replica.as_str(): entry}}},
        });
        self.tracker.begin_write(key, report, stored_use(entry));
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
            && kept.ours.count < entry.count
        {
            let fields = "status.activity.replicas".to_owned();
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

    fn wake(&self, _: &Self::Decision) -> Wake {
        Wake::OnChange
    }

    fn class(error: &RequestError) -> Class {
        error.class()
    }
}

fn stored_use(ours: &ReplicaActivityStatus) -> StoredUse {
    StoredUse { counter: Counter::Replica, count: ours.count }
}

#[cfg(test)]
mod tests;
