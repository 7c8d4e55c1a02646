use std::sync::Mutex;

use jiff::SignedDuration;
use sojourn_core::activity::Source;

use super::*;

const SEEN: Source = Source::new(0, "Webhook");

/// One object, as it is known here.
struct One(Mutex<Known<StoredActivity<u64>>>);

impl ReportedObjects for One {
    type Entry = u64;

    const FIELD: &'static str = "status.count";

    fn stored(&self, _: &Key, _: &str) -> Known<StoredActivity<u64>> {
        self.0.lock().unwrap().clone()
    }

    fn with_report(entry: &u64, _: &str, report: &Report) -> NewEntry {
        let count = entry + report.seen.count;
        NewEntry { status: json!({ "count": count }), count }
    }

    async fn patch_status(&self, _: &Key, _: &Value) -> Result<(), kube::Error> {
        unreachable!("nothing is written in these tests")
    }

    async fn refresh(&self, _: &Key) -> Result<(), kube::Error> {
        unreachable!("nothing is read in these tests")
    }
}

fn key() -> Key {
    Key::new("ns", "one")
}

/// A writer with one report about an object of which this is known.
fn writer(known: Known<StoredActivity<u64>>) -> ReportWriter<One> {
    let tracker = Tracker::new(SignedDuration::from_secs(30), Arc::new(|_| {}));
    tracker.record(&key(), SEEN, Timestamp::UNIX_EPOCH, 1);
    let objects = Arc::new(One(Mutex::new(known)));
    ReportWriter { objects, tracker, replica: ReplicaName::new("me") }
}

#[test]
fn use_of_an_object_that_cannot_be_read_waits_until_it_can() {
    let unreadable = writer(Known::Unknown);
    assert!(matches!(unreadable.parse(&key()), Target::Unusable));
    assert!(unreadable.tracker.peek(&key()).is_some(), "somebody used it");
}

#[test]
fn use_of_an_object_that_is_gone_is_nobodys() {
    let gone = writer(Known::Absent);
    assert!(matches!(gone.parse(&key()), Target::Gone));
    assert_eq!(gone.tracker.peek(&key()), None);
}
