use super::*;
use sojourn_core::lab::source;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn tracker() -> Tracker {
    Tracker::new(SignedDuration::from_secs(30), Arc::new(|_| {}))
}

#[test]
fn a_source_that_nobody_looks_at_has_seen_nothing() {
    let snapshot = CoverageRegistry::default().read();
    let coverage = snapshot.coverage(source::WEB_SSH);
    assert_eq!(coverage.observed(at(0), at(1000)), SignedDuration::ZERO);
    assert!(coverage.blind_since(at(1000)).is_some());
    assert_eq!((snapshot.trouble(source::WEB_SSH), snapshot.sources().count()), (None, 0));
}

#[test]
fn what_is_stored_comes_back_and_claims_no_future() {
    let coverage_registry = CoverageRegistry::default();
    let mut coverage = Coverage::starting(at(0));
    coverage.mark_observed(at(0), at(100));
    coverage.mark_blind(at(40), at(50));
    coverage.mark_blind(at(95), at(100));
    coverage_registry.put(source::NGINX, coverage.clone(), Some("words".into()));
    coverage_registry.serving(source::GATEWAY, at(60), SignedDuration::from_secs(62));

    let stored = coverage_registry.persist(&tracker(), at(97));
    let [nginx, gateway] = &stored[..] else { panic!("two sources: {stored:?}") };
    let gap = |from, to| Gap { from: at(from), to: at(to) };
    assert_eq!(nginx.gaps, [gap(40, 50), gap(95, 97)]);
    assert_eq!((gateway.since, gateway.until), (at(60), at(97)), "not its lease");

    let restored = CoverageRegistry::restore(stored).read();
    assert_eq!(restored.coverage(source::NGINX).observed(at(0), at(200)).as_secs(), 85);
    assert_eq!(restored.trouble(source::NGINX), None);
}

#[test]
fn nothing_is_claimed_that_is_not_written() {
    let coverage_registry = CoverageRegistry::default();
    let mut coverage = Coverage::starting(at(10));
    coverage.mark_observed(at(10), at(100));
    coverage_registry.put(source::NGINX, coverage, None);
    let tracker = tracker();
    let key = sojourn_core::key::Key::new("a", "b");
    tracker.record(&key, source::NGINX, at(70), 1);
    assert_eq!(coverage_registry.persist(&tracker, at(100))[0].until.as_millisecond(), 69_999);
    tracker.record(&key, source::NGINX, at(5), 1);
    assert_eq!(
        coverage_registry.persist(&tracker, at(100))[0].until,
        at(10),
        "not before its beginning"
    );
}

#[test]
fn a_process_that_was_stopped_did_not_serve() {
    let coverage_registry = CoverageRegistry::default();
    let lease = SignedDuration::from_secs(62);
    for now in [0, 30, 60, 90, 600, 630] {
        coverage_registry.serving(source::REPORT, at(now), lease);
    }
    let snapshot = coverage_registry.read();
    let gaps: Vec<_> = snapshot.coverage(source::REPORT).gaps().collect();
    assert_eq!(gaps, [Gap { from: at(90 + 62), to: at(600) }]);
}

#[test]
fn a_reader_keeps_the_snapshot_it_has() {
    let coverage_registry = CoverageRegistry::default();
    let before = coverage_registry.read();
    coverage_registry.serving(source::GATEWAY, at(0), SignedDuration::from_secs(60));
    assert_eq!((before.sources().count(), coverage_registry.read().sources().count()), (0, 1));
}
