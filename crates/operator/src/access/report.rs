//! Use of sessions, from the authorizer into the objects: every replica writes its own, the one that leads too.
//!
//! A report belongs to one object and not to its name: a session that is deleted and made again gets nothing of
//! its predecessor's. So what waits is kept under the uid as well ([`report_key`]).

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use prometheus_client::metrics::counter::Counter;
use serde_json::Value;
use sojourn_api::access::{BreakglassSession, BreakglassSessionStatus, write_usage};
use sojourn_core::access::usage::Usage;
use sojourn_core::key::Key;
use sojourn_core::known::Known;

use super::NAME;
use super::caches::{AccessCaches, read_usage_of};
use super::coverage::SOURCE;
use crate::clock::Clock;
use crate::family::Setup;
use crate::frame::{Queue, Tasks, run};
use crate::replica::{
    Heartbeats, NewEntry, ReplicaName, ReplicaRegistry, Report, ReportWriter, ReportedObjects,
    StoredActivity,
};
use crate::tracker::Tracker;

/// The name of a replica that is alone.
const ALONE: &str = "local";
/// So many sessions may wait for a flush. What is used beyond that is written at once.
const MAX_BUFFERED: usize = 100_000;
/// So long the end of a process waits until everything is written.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// What use of a session waits under: the object itself, and not whatever has its name.
pub(super) fn report_key(key: &Key, uid: &str) -> Key {
    Key::new(format!("{}/{}", key.namespace, key.name), uid)
}

/// The session that use is about, with its uid.
fn session_of(report: &Key) -> Option<(Key, &str)> {
    let (namespace, name) = report.namespace.split_once('/')?;
    Some((Key::new(namespace, name), &*report.name))
}

/// The sessions that are known here.
struct SessionReports {
    /// Not fenced.
    client: Client,
    caches: Arc<AccessCaches>,
}

impl ReportedObjects for SessionReports {
    type Entry = Usage;

    const FIELD: &'static str = "status.activityByReplica";

    fn stored(&self, report: &Key, replica: &str) -> Known<StoredActivity<Usage>> {
        let Some((key, uid)) = session_of(report) else { return Known::Absent };
        let Some(session) = self.caches.sessions.get(&key) else { return Known::Absent };
        let Ok(session) = session.as_ref() else { return Known::Unknown };
        if session.metadata.uid.as_deref() != Some(uid) {
            return Known::Absent;
        }
        let entry = read_usage_of(session);
        Known::Is(StoredActivity {
            uid: uid.to_owned(),
            version: session.resource_version().unwrap_or_default(),
            count: entry.replicas.get(replica).map_or(0, |ours| ours.count),
            entry,
        })
    }

    /// Use alone: whatever became of the session, its state stays.
    fn with_report(entry: &Usage, replica: &str, report: &Report) -> NewEntry {
        let usage = entry.with_report(replica, report.first, report.seen.last, report.seen.count);
        let count = usage.replicas.get(replica).map_or(0, |ours| ours.count);
        NewEntry { status: usage_patch(entry, &usage), count }
    }

    async fn patch_status(&self, report: &Key, patch: &Value) -> Result<(), kube::Error> {
        let Some((key, _)) = session_of(report) else { return Ok(()) };
        let api: Api<BreakglassSession> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams::default();
        let written = api.patch_status(&key.name, &params, &Patch::Merge(patch)).await?;
        self.caches.record_use(&key, written);
        Ok(())
    }

    async fn refresh(&self, report: &Key) -> Result<(), kube::Error> {
        let Some((key, _)) = session_of(report) else { return Ok(()) };
        self.caches.refresh(&self.client, &key).await
    }
}

/// Where a status tells how the session was used.
const USAGE_FIELDS: [&str; 4] =
    ["firstActivity", "lastActivity", "activityCount", "activityByReplica"];

/// How the status changes from one use to another, as a merge patch, which names the entries that go.
fn usage_patch(before: &Usage, now: &Usage) -> Value {
    let mut status = BreakglassSessionStatus::default();
    write_usage(before, &mut status);
    write_usage(now, &mut status);
    let mut patch = serde_json::to_value(&status).unwrap_or_default();
    if let Some(fields) = patch.as_object_mut() {
        // What is not about use is not ours to write.
        fields.retain(|name, _| USAGE_FIELDS.contains(&name.as_str()));
    }
    patch
}

/// What was used and is not written yet, on this replica. Clones share everything.
#[derive(Clone)]
pub(crate) struct Reports {
    tracker: Tracker,
    replica: ReplicaName,
    queue: Arc<Queue>,
    caches: Arc<AccessCaches>,
    heartbeats: Option<Arc<Heartbeats>>,
    serving_since: Timestamp,
    clock: Arc<dyn Clock>,
    lost: Counter,
}

impl std::fmt::Debug for Reports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reports").field("replica", &self.replica).finish_non_exhaustive()
    }
}

impl Reports {
    /// Makes this replica known, and writes what is used here for ever.
    pub(crate) async fn start(
        client: &Client,
        setup: &Setup,
        caches: Arc<AccessCaches>,
        interval: SignedDuration,
        tasks: &mut Tasks,
    ) -> Result<Self, kube::Error> {
        let clock = setup.clock.clone();
        let queue = Arc::new(Queue::new(clock.clone()));
        let tracker = {
            let queue = queue.clone();
            Tracker::new(interval, Arc::new(move |key| queue.wake(key)))
        };
        let replica = setup.replica.clone().unwrap_or_else(|| ReplicaName::new(ALONE));
        let serving_since = clock.now();
        let heartbeats = match &setup.replica {
            None => None,
            Some(replica) => {
                let heartbeats = Arc::new(Heartbeats::new(
                    client,
                    clock.clone(),
                    NAME,
                    replica.clone(),
                    tracker.clone(),
                    interval,
                ));
                heartbeats.register().await?;
                tasks.spawn("heartbeat of access", heartbeats.clone().run());
                Some(heartbeats)
            }
        };
        let writer = Arc::new(ReportWriter {
            objects: Arc::new(SessionReports { client: client.clone(), caches: caches.clone() }),
            tracker: tracker.clone(),
            replica: replica.clone(),
        });
        let reconciles = setup.metrics.reconciles("access_reports");
        let work = run(writer, queue.clone(), clock.clone(), setup.limits, reconciles);
        tasks.spawn("reports of access", work);
        let flushing = (tracker.clone(), clock.clone());
        tasks.spawn("tracker of access", async move { flushing.0.run(flushing.1).await });
        let lost = setup.metrics.counter(
            "access_activity_lost",
            "Uses of sessions that a process could not write before its end",
        );
        Ok(Self { tracker, replica, queue, caches, heartbeats, serving_since, clock, lost })
    }

    /// What waits to be written.
    pub(crate) const fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    pub(crate) const fn replica(&self) -> &ReplicaName {
        &self.replica
    }

    /// A session was used. Never blocks.
    pub(crate) fn record(&self, key: &Key, uid: &str, at: Timestamp) {
        let report = report_key(key, uid);
        self.tracker.record(&report, SOURCE, at, 1);
        if self.tracker.kept() > MAX_BUFFERED || self.is_overdue(key, uid, at) {
            self.queue.wake(&report);
        }
    }

    /// Whether a use does not wait for the next flush: if this process is lost, what is on record of it must not be
    /// older than what a session is given for that.
    fn is_overdue(&self, key: &Key, uid: &str, at: Timestamp) -> bool {
        let Some(session) = self.caches.sessions.get(key) else { return false };
        let Ok(session) = session.as_ref() else { return false };
        session.metadata.uid.as_deref() == Some(uid)
            && read_usage_of(session).must_write_now(self.replica.as_str(), at)
    }

    /// The first and the last use of a session that wait to be written.
    pub(crate) fn waiting(&self, key: &Key, uid: &str) -> Option<(Timestamp, Timestamp)> {
        let report = report_key(key, uid);
        let seen = self.tracker.peek(&report)?;
        Some((self.tracker.oldest(&report).unwrap_or(seen.last).min(seen.last), seen.last))
    }

    /// When the session ends unless it is used: use near that does not wait for a flush.
    pub(crate) fn set_deadline(&self, key: &Key, uid: &str, deadline: Option<Timestamp>) {
        self.tracker.set_deadline(&report_key(key, uid), deadline);
    }

    /// The session is gone.
    pub(crate) fn forget(&self, key: &Key, uid: &str) {
        self.tracker.forget(&report_key(key, uid));
    }

    /// Writes the use of a session that waits; ends when it is written. Whoever calls it bounds the time.
    pub(crate) async fn store_now(&self, key: &Key) {
        let Some(uid) = self.caches.uid(key) else { return };
        let report = report_key(key, &uid);
        let Some(seen) = self.tracker.peek(&report) else { return };
        let mut changes = self.caches.changes();
        self.queue.wake(&report);
        let written = || {
            let session = self.caches.get(key).filter(|one| one.uid().as_ref() == Some(&uid));
            let usage = session.map(|session| read_usage_of(&session));
            let ours = usage.and_then(|usage| usage.replicas.get(self.replica.as_str()).copied());
            ours.and_then(|ours| ours.last).is_some_and(|last| last >= seen.last)
        };
        while !written() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// How long the oldest use that is not written yet has been waiting.
    pub(crate) fn lag(&self) -> SignedDuration {
        let now = self.clock.now();
        now.duration_since(self.tracker.settled(now)).max(SignedDuration::ZERO)
    }

    /// How many sessions are remembered as used lately.
    pub(crate) fn buffered(&self) -> usize {
        self.tracker.kept()
    }

    /// The other replicas, as the one that leads sees them; nothing, if there can be none.
    pub(crate) fn registry(&self, client: &Client) -> Option<Arc<ReplicaRegistry>> {
        self.heartbeats.as_ref()?;
        let (me, since) = (self.replica.clone(), self.serving_since);
        Some(Arc::new(ReplicaRegistry::new(client, NAME, me, since)))
    }

    /// Writes what is not written yet, and leaves. What cannot be written in time is counted and said.
    pub(crate) async fn finish(&self) {
        let mut changes = self.caches.changes();
        let flush = async {
            loop {
                let waiting = self.tracker.waiting();
                if waiting.is_empty() {
                    return;
                }
                waiting.iter().for_each(|key| self.queue.wake(key));
                // A write is taken out of what waits right after the object has it.
                let _ = tokio::time::timeout(Duration::from_millis(200), changes.changed()).await;
            }
        };
        if tokio::time::timeout(FINISH_TIMEOUT, flush).await.is_err() {
            let waiting = self.tracker.waiting();
            let uses: u64 =
                waiting.iter().filter_map(|key| self.tracker.peek(key)).map(|one| one.count).sum();
            self.lost.inc_by(uses);
            tracing::error!(
                sessions = waiting.len(),
                uses,
                "the use of sessions could not be written before the end"
            );
        }
        if let Some(heartbeats) = &self.heartbeats
            && let Err(error) = heartbeats.leave().await
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the other replicas learn late that this one has ended");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_900_000_000 + seconds).unwrap()
    }

    fn session(uid: &str) -> BreakglassSession {
        let object = serde_json::json!({
            "apiVersion": "access.sojourn.dev/v1alpha1", "kind": "BreakglassSession",
            "metadata": {"name": "one", "namespace": "ops", "uid": uid, "resourceVersion": "1"},
            "spec": {
                "cluster": "prod", "user": "ada", "grantedGroup": "admins",
                "escalationRef": {"name": "e"},
            },
        });
        serde_json::from_value(object).unwrap()
    }

    /// Reports of a replica that is alone; whatever the tracker wakes is not looked at.
    fn reports() -> Reports {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let caches = AccessCaches::new(Arc::new(Queue::new(clock.clone())));
        Reports {
            tracker: Tracker::new(SignedDuration::from_secs(30), Arc::new(|_| {})),
            replica: ReplicaName::new(ALONE),
            queue: Arc::new(Queue::new(clock.clone())),
            caches: Arc::new(caches),
            heartbeats: None,
            serving_since: at(0),
            clock,
            lost: Counter::default(),
        }
    }

    // case: access 80
    #[test]
    fn a_use_for_which_there_is_no_room_is_written_at_once_and_none_is_lost() {
        let reports = reports();
        let key = |number: usize| Key::new("ops", format!("session-{number}"));
        for number in 0..MAX_BUFFERED {
            reports.record(&key(number), "u", at(1));
        }
        assert!(reports.queue.is_idle(), "all of them wait for a flush");
        reports.record(&key(MAX_BUFFERED), "u", at(2));
        assert_eq!(reports.queue.depth().0, 1, "the one too many does not");
        assert_eq!(reports.tracker.waiting().len(), MAX_BUFFERED + 1);
        for number in [0, MAX_BUFFERED / 2, MAX_BUFFERED] {
            let seen = reports.tracker.peek(&report_key(&key(number), "u"));
            assert_eq!(seen.map(|seen| seen.count), Some(1), "{number}");
        }
    }

    #[test]
    fn what_is_on_record_of_a_replica_is_never_much_older_than_what_it_saw() {
        let key = Key::new("ops", "one");
        let used = |last: Option<i64>| {
            let mut used = session("u-1");
            let usage = last.map(|last| Usage::default().with_report(ALONE, at(0), at(last), 1));
            let mut status = BreakglassSessionStatus::default();
            write_usage(&usage.unwrap_or_default(), &mut status);
            used.status = Some(status);
            used
        };
        for (stored, at_second, waits) in
            [(None, 1, false), (Some(1), 30, true), (Some(1), 31, false), (Some(31), 45, true)]
        {
            let reports = reports();
            reports.caches.record_act(&key, used(stored));
            reports.record(&key, "u-1", at(at_second));
            assert_eq!(reports.queue.is_idle(), waits, "{stored:?}, used at {at_second}");
        }
    }

    // case: access 74, 75
    #[tokio::test]
    async fn use_of_a_session_that_was_made_again_is_its_own() {
        let queue = Arc::new(Queue::new(Arc::new(SystemClock)));
        let caches = Arc::new(AccessCaches::new(queue));
        let key = Key::new("ops", "one");
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::ready(Err::<http::Response<kube::client::Body>, _>(std::io::Error::other(
                "nobody is asked",
            )))
        });
        let objects = SessionReports { client: Client::new(service, "default"), caches };
        let tracker = Tracker::new(SignedDuration::from_secs(30), Arc::new(|_| {}));
        let (old, new) = (report_key(&key, "u-1"), report_key(&key, "u-2"));
        tracker.record(&old, SOURCE, at(1), 3);
        tracker.record(&new, SOURCE, at(2), 1);
        assert_eq!(tracker.peek(&new).map(|seen| seen.count), Some(1));
        objects.caches.record_act(&key, session("u-2"));
        assert!(matches!(objects.stored(&old, "me"), Known::Absent));
        let Known::Is(stored) = objects.stored(&new, "me") else { panic!("it is there") };
        assert_eq!((stored.uid.as_str(), stored.count), ("u-2", 0));
        assert_eq!(session_of(&new), Some((key, "u-2")));
    }

    // case: access 76
    #[test]
    fn a_report_touches_what_is_used_and_nothing_else() {
        let before = Usage::default().with_report("gone", at(1), at(1), 2);
        let mut folded = before.clone();
        folded.fold(|name| name == "gone");
        let report = Report {
            first: at(5),
            seen: sojourn_core::activity::ActivityReport { last: at(6), source: SOURCE, count: 4 },
        };
        let entry = SessionReports::with_report(&before, "me", &report);
        assert_eq!(entry.count, 4);
        let fields: Vec<&str> =
            entry.status.as_object().unwrap().keys().map(String::as_str).collect();
        assert!(fields.iter().all(|field| USAGE_FIELDS.contains(field)), "{fields:?}");
        assert_eq!(entry.status["activityCount"], 6);
        let patch = usage_patch(&before, &folded);
        assert!(patch["activityByReplica"]["gone"].is_null(), "what is folded is taken away");
        assert_eq!(patch["activityByReplica"]["base"]["count"], 2);
    }
}
