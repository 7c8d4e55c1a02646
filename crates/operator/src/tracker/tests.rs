use sojourn_core::lab::source;
use std::sync::atomic::AtomicU64;

use proptest::prelude::*;

use super::*;

const INTERVAL: SignedDuration = SignedDuration::from_secs(30);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn before(second: i64) -> Timestamp {
    Timestamp::from_millisecond(second * 1000 - 1).unwrap()
}

fn key(name: &str) -> Key {
    Key::new("tenant", name)
}

fn seen(second: i64, source: Source, count: u64) -> ActivityReport {
    ActivityReport { last: at(second), source, count }
}

/// A tracker, and the names that it woke since last asked.
struct TrackerTest {
    tracker: Tracker,
    woken: Arc<Mutex<Vec<String>>>,
}

impl TrackerTest {
    fn new() -> Self {
        Self::bounded(MAX_TRACKED_OBJECTS)
    }

    fn bounded(max: usize) -> Self {
        let woken = Arc::<Mutex<Vec<String>>>::default();
        let list = Arc::clone(&woken);
        let wake: Waker = Arc::new(move |key| list.lock().unwrap().push(key.name.to_string()));
        Self { tracker: Tracker::bounded(INTERVAL, wake, max), woken }
    }

    fn woken(&self) -> Vec<String> {
        std::mem::take(&mut self.woken.lock().unwrap())
    }

    /// What a reconciler does: whether there was something to write.
    fn reconcile(&self, name: &str) -> Option<ActivityReport> {
        let seen = self.tracker.peek(&key(name))?;
        self.tracker.acknowledge(&key(name), &seen);
        Some(seen)
    }
}

// case: lab A1, A13
#[test]
fn the_newest_report_wins_whichever_source_and_order_and_counts_are_summed() {
    let test = TrackerTest::new();
    test.tracker.record(&key("a"), source::NGINX, at(20), 2);
    test.tracker.record(&key("a"), source::BASTION_SSH, at(50), 1);
    test.tracker.record(&key("a"), source::WEB_SSH, at(40), 3);
    assert_eq!(test.tracker.peek(&key("a")), Some(seen(50, source::BASTION_SSH, 6)));
    assert_eq!(test.tracker.peek(&key("b")), None);

    let mut activity = sojourn_core::activity::Activity::default();
    activity.merge(seen(90, source::GATEWAY, 1));
    activity.merge(test.reconcile("a").unwrap());
    let (last, source, count) = (activity.last, activity.source, activity.count);
    assert_eq!((last, source, count), (Some(at(90)), Some(source::GATEWAY), 7), "never backwards");
}

#[test]
fn a_write_whose_answer_was_lost_is_known_by_what_it_left() {
    let object = |count| StoredUse { counter: Counter::Object, count };
    let test = TrackerTest::new();
    let tracker = &test.tracker;
    tracker.record(&key("a"), source::GATEWAY, at(10), 2);
    let first = tracker.peek(&key("a")).unwrap();
    tracker.begin_write(&key("a"), &first, object(9));
    tracker.record(&key("a"), source::GATEWAY, at(20), 1);
    tracker.resolve(&key("a"), object(7));
    assert_eq!(tracker.peek(&key("a")), Some(seen(20, source::GATEWAY, 3)), "it did not get there");
    let another = StoredUse { counter: Counter::Replica, count: 9 };
    tracker.resolve(&key("a"), another);
    assert_eq!(tracker.peek(&key("a")), Some(seen(20, source::GATEWAY, 3)), "another's count");
    tracker.resolve(&key("a"), object(9));
    assert_eq!(tracker.peek(&key("a")), Some(seen(20, source::GATEWAY, 1)), "it did");
    tracker.resolve(&key("a"), object(9));
    assert_eq!(tracker.peek(&key("a")), Some(seen(20, source::GATEWAY, 1)), "and only once");
    assert_eq!(tracker.waiting(), [key("a")]);

    // Without a count, what the object has does not tell whether the time got there.
    tracker.record(&key("b"), source::NGINX, at(10), 0);
    let report = tracker.peek(&key("b")).unwrap();
    tracker.begin_write(&key("b"), &report, object(7));
    tracker.resolve(&key("b"), object(7));
    assert_eq!(tracker.peek(&key("b")), Some(seen(10, source::NGINX, 0)));
}

#[test]
fn of_several_writes_without_an_answer_the_one_that_took_effect_counts() {
    let ours = |count| StoredUse { counter: Counter::Replica, count };
    for (took_effect, left) in [(4, Some(2)), (5, Some(1)), (6, None), (3, Some(3))] {
        let test = TrackerTest::new();
        let tracker = &test.tracker;
        // Each is tried on the object as it was before the first.
        for (number, time) in [10, 20, 30].into_iter().enumerate() {
            tracker.record(&key("a"), source::GATEWAY, at(time), 1);
            let report = tracker.peek(&key("a")).unwrap();
            tracker.begin_write(&key("a"), &report, ours(4 + number as u64));
        }
        tracker.resolve(&key("a"), ours(took_effect));
        let waiting = tracker.peek(&key("a")).map(|waiting| waiting.count);
        assert_eq!(waiting, left, "the object has {took_effect}");
    }
}

#[test]
fn reports_for_which_there_was_no_room_are_not_settled_although_no_object_waits() {
    let test = TrackerTest::bounded(0);
    test.tracker.record(&key("a"), source::GATEWAY, at(10), 1);
    assert_eq!(test.tracker.waiting(), []);
    assert_eq!(test.tracker.settled(at(20)), before(10));
}

#[test]
fn the_first_use_wakes_at_once_and_what_follows_waits_for_a_flush() {
    let test = TrackerTest::new();
    let used = |second| test.tracker.record(&key("a"), source::GATEWAY, at(second), 1);
    used(1);
    assert_eq!(test.woken(), ["a"]);
    assert_eq!(test.reconcile("a"), Some(seen(1, source::GATEWAY, 1)));
    used(2);
    used(3);
    assert_eq!(test.woken(), [] as [&str; 0], "it was written a moment ago");
    test.tracker.flush(at(30));
    assert_eq!(test.woken(), ["a"]);
    assert_eq!(test.reconcile("a"), Some(seen(3, source::GATEWAY, 2)));
    used(31);
    assert_eq!(test.woken(), [] as [&str; 0]);
    test.tracker.flush(at(60));
    assert_eq!(
        (test.woken(), test.reconcile("a").map(|seen| seen.count)),
        (vec!["a".into()], Some(1))
    );
    test.tracker.flush(at(90));
    assert_eq!((test.woken(), test.tracker.kept()), (Vec::new(), 0), "quiet: forgotten");
    used(91);
    assert_eq!(test.woken(), ["a"], "the first use after a quiet time");
}

#[test]
fn a_write_that_fails_loses_nothing() {
    let test = TrackerTest::new();
    test.tracker.record(&key("a"), source::GATEWAY, at(1), 1);
    test.woken();
    let peeked = test.tracker.peek(&key("a")).unwrap();
    // The status is not written; the reconciler gives up.
    for flush in 1..=3 {
        test.tracker.flush(at(30 * flush));
        assert_eq!(test.woken(), ["a"], "it is woken until it is taken");
    }
    assert_eq!(test.tracker.peek(&key("a")), Some(peeked));
}

#[test]
fn reports_that_come_while_the_status_is_written_stay() {
    let test = TrackerTest::new();
    test.tracker.record(&key("a"), source::NGINX, at(1), 5);
    let peeked = test.tracker.peek(&key("a")).unwrap();
    test.tracker.record(&key("a"), source::WEB_SSH, at(2), 1);
    test.tracker.acknowledge(&key("a"), &peeked);
    assert_eq!(test.tracker.peek(&key("a")), Some(seen(2, source::WEB_SSH, 1)));
    test.tracker.record(&key("a"), source::WEB_SSH, at(2), 3);
    let peeked = test.tracker.peek(&key("a")).unwrap();
    test.tracker.record(&key("a"), source::REPORT, at(2), 1);
    test.tracker.acknowledge(&key("a"), &peeked);
    assert_eq!(test.tracker.peek(&key("a")).map(|seen| seen.count), Some(1), "same time, one more");
}

#[test]
fn a_near_deadline_does_not_wait_for_a_flush() {
    let test = TrackerTest::new();
    let used = |second| test.tracker.record(&key("a"), source::GATEWAY, at(second), 1);
    test.tracker.flush(at(0));
    used(1);
    test.reconcile("a");
    test.tracker.set_deadline(&key("a"), Some(at(100)));
    test.woken();
    used(39);
    assert_eq!(test.woken(), [] as [&str; 0], "61 s to go");
    used(40);
    assert_eq!(test.woken(), ["a"], "60 s to go");
    used(41);
    assert_eq!(test.woken(), [] as [&str; 0], "it is on its way");
    test.reconcile("a");
    test.tracker.set_deadline(&key("a"), Some(at(9000)));
    used(42);
    assert_eq!(test.woken(), [] as [&str; 0], "the use has moved it");
    test.tracker.set_deadline(&key("a"), Some(at(50)));
    assert_eq!(test.woken(), ["a"], "a report waits, and the deadline came close");
    test.reconcile("a");
    test.tracker.set_deadline(&key("a"), None);
    used(43);
    assert_eq!(test.woken(), [] as [&str; 0]);
}

#[test]
fn an_old_report_is_measured_against_the_last_flush() {
    let test = TrackerTest::new();
    test.tracker.record(&key("a"), source::NGINX, at(1), 1);
    test.reconcile("a");
    test.tracker.flush(at(1000));
    test.tracker.set_deadline(&key("a"), Some(at(1010)));
    test.woken();
    test.tracker.record(&key("a"), source::NGINX, at(2), 1);
    assert_eq!(test.woken(), ["a"], "the look found it late");
}

#[test]
fn hearing_again_of_what_is_written_is_no_news() {
    let test = TrackerTest::new();
    test.tracker.record(&key("a"), source::NGINX, at(5), 2);
    test.reconcile("a");
    test.woken();
    test.tracker.record(&key("a"), source::NGINX, at(5), 0);
    assert_eq!(test.tracker.peek(&key("a")), None);
    test.tracker.record(&key("a"), source::NGINX, at(6), 0);
    assert_eq!(test.tracker.peek(&key("a")), Some(seen(6, source::NGINX, 0)), "that is newer");
}

#[test]
fn a_handle_reports_to_the_same_place_and_keeps_it() {
    let test = TrackerTest::new();
    let handle = test.tracker.handle(&key("a"), source::GATEWAY);
    assert_eq!((test.woken(), test.tracker.peek(&key("a"))), (Vec::new(), None));
    test.tracker.flush(at(0));
    test.tracker.flush(at(30));
    assert_eq!(test.tracker.kept(), 1, "somebody may still report");
    handle.record(at(31));
    assert_eq!(test.woken(), ["a"]);
    test.tracker.record(&key("a"), source::NGINX, at(32), 1);
    assert_eq!(test.reconcile("a"), Some(seen(32, source::NGINX, 2)));
    test.tracker.forget(&key("a"));
    handle.record(at(33));
    assert_eq!(test.reconcile("a"), Some(seen(33, source::GATEWAY, 1)), "made again, same name");
    drop(handle);
    test.tracker.flush(at(60));
    test.tracker.flush(at(90));
    assert_eq!(test.tracker.kept(), 0);
}

#[test]
fn what_is_forgotten_wakes_nobody() {
    let test = TrackerTest::new();
    test.tracker.record(&key("a"), source::GATEWAY, at(1), 1);
    test.woken();
    test.tracker.forget(&key("a"));
    test.tracker.forget(&key("never there"));
    test.tracker.flush(at(30));
    assert_eq!((test.woken(), test.tracker.kept()), (Vec::new(), 0));
}

#[test]
fn without_room_reports_collapse_and_nobody_looks_idle() {
    let test = TrackerTest::bounded(2);
    for name in ["a", "b"] {
        test.tracker.record(&key(name), source::GATEWAY, at(1), 1);
    }
    test.woken();
    test.tracker.record(&key("c"), source::REPORT, at(7), 4);
    test.tracker.record(&key("c"), source::REPORT, at(5), 4);
    test.tracker.handle(&key("c"), source::GATEWAY).record(at(6));
    assert_eq!(test.woken(), ["c", "c", "c"], "each at once");
    assert_eq!(test.tracker.kept(), 2);
    assert_eq!(test.tracker.peek(&key("c")), Some(seen(7, source::REPORT, 0)));
    test.tracker.acknowledge(&key("c"), &seen(7, source::REPORT, 0));
    assert_eq!(test.tracker.peek(&key("a")), Some(seen(1, source::GATEWAY, 1)), "its own");
    assert_eq!(test.tracker.settled(at(100)), before(1));
    for name in ["a", "b"] {
        test.reconcile(name);
    }
    assert_eq!(test.tracker.settled(at(100)), before(5), "nobody knows whether it was written");
    test.tracker.flush(at(30));
    test.tracker.flush(at(60));
    test.tracker.record(&key("c"), source::GATEWAY, at(61), 1);
    assert_eq!(test.tracker.peek(&key("c")), Some(seen(61, source::GATEWAY, 1)), "room again");
}

#[test]
fn use_is_settled_up_to_the_oldest_report_that_waits() {
    let test = TrackerTest::new();
    assert_eq!(test.tracker.settled(at(100)), at(100));
    test.tracker.record(&key("a"), source::NGINX, at(50), 1);
    test.tracker.record(&key("a"), source::NGINX, at(40), 1);
    test.tracker.record(&key("b"), source::NGINX, at(45), 1);
    assert_eq!(test.tracker.settled(at(100)), before(40));
    test.reconcile("a");
    assert_eq!(test.tracker.settled(at(100)), before(45));
    test.reconcile("b");
    assert_eq!(test.tracker.settled(at(100)), at(100));
}

#[derive(Debug)]
struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH.checked_add(self.0.elapsed()).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn it_flushes_by_tokios_clock() {
    let test = TrackerTest::new();
    let tracker = test.tracker.clone();
    let clock = Arc::new(TokioClock(tokio::time::Instant::now()));
    let task = tokio::spawn(async move { tracker.run(clock).await });
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    test.tracker.record(&key("a"), source::GATEWAY, at(1), 1);
    test.reconcile("a");
    test.tracker.record(&key("a"), source::GATEWAY, at(2), 1);
    test.woken();
    tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    assert_eq!(test.woken(), ["a"]);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn an_object_is_woken_once_an_interval_however_busy_it_is() {
    let test = TrackerTest::new();
    let tracker = test.tracker.clone();
    let clock = Arc::new(TokioClock(tokio::time::Instant::now()));
    let task = tokio::spawn({
        let clock = clock.clone();
        async move { tracker.run(clock).await }
    });
    let second = std::time::Duration::from_secs(1);
    // Nothing is there to be flushed for longer than an interval.
    tokio::time::sleep(second * 40).await;
    test.tracker.record(&key("a"), source::GATEWAY, clock.now(), 1);
    assert_eq!(test.woken(), ["a"], "the first use");
    test.reconcile("a");
    let mut gaps = Vec::new();
    let mut last = None;
    for number in 0..300 {
        test.tracker.record(&key("a"), source::GATEWAY, clock.now(), 1);
        tokio::time::sleep(second).await;
        for name in test.woken() {
            test.reconcile(&name);
            gaps.extend(last.map(|last| number - last));
            last = Some(number);
        }
    }
    assert!(gaps.len() == 9 && gaps.iter().all(|gap| *gap == 30), "{gaps:?}");
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn many_are_flushed_one_after_the_other_and_each_once_an_interval() {
    const OBJECTS: usize = 2_000;
    let test = TrackerTest::new();
    let tracker = test.tracker.clone();
    let clock = Arc::new(TokioClock(tokio::time::Instant::now()));
    let task = tokio::spawn({
        let clock = clock.clone();
        async move { tracker.run(clock).await }
    });
    let use_all = || {
        for number in 0..OBJECTS {
            test.tracker.record(&key(&format!("o{number}")), source::GATEWAY, clock.now(), 1);
        }
    };
    use_all();
    let second = std::time::Duration::from_secs(1);
    tokio::time::sleep(second * 31).await;
    test.woken();
    let mut all = Vec::new();
    let mut busiest = 0;
    for _ in 0..30 {
        use_all();
        tokio::time::sleep(second).await;
        let woken = test.woken();
        for name in &woken {
            test.reconcile(name);
        }
        busiest = busiest.max(woken.len());
        all.extend(woken);
    }
    assert!(busiest < OBJECTS / 10, "{busiest} in one second");
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), OBJECTS, "every one of them was flushed within an interval");
    task.abort();
}

#[test]
fn many_threads_lose_nothing() {
    const THREADS: i64 = 4;
    const REPORTS: i64 = 5_000;
    let test = TrackerTest::new();
    let total = AtomicU64::new(0);
    let take = || {
        for name in ["a", "b", "c"] {
            if let Some(seen) = test.reconcile(name) {
                total.fetch_add(seen.count, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let tracker = &test.tracker;
            scope.spawn(move || {
                let handle = tracker.handle(&key("c"), source::GATEWAY);
                for report in 0..REPORTS {
                    let name = if report % 2 == 0 { "a" } else { "b" };
                    tracker.record(&key(name), source::REPORT, at(report + thread), 1);
                    handle.record(at(report));
                }
            });
        }
        scope.spawn(|| (0..2_000).for_each(|_| take()));
        scope.spawn(|| (0..500).for_each(|second| test.tracker.flush(at(second))));
    });
    take();
    assert_eq!(total.load(Ordering::Relaxed), u64::try_from(2 * THREADS * REPORTS).unwrap());
    test.tracker.flush(at(0));
    test.tracker.flush(at(0));
    assert_eq!((test.tracker.kept(), test.tracker.settled(at(7))), (0, at(7)));
}

#[derive(Debug, Clone)]
enum Step {
    Record(usize, i64, u64),
    /// Peek, the given report in between, then taken or not.
    Write(usize, Option<(i64, u64)>, bool),
    Flush,
    Forget(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let between = prop::option::of((0..100_i64, 0..4_u64));
    prop_oneof![
        4 => (0..3_usize, 0..100_i64, 0..4_u64).prop_map(|(n, t, c)| Step::Record(n, t, c)),
        3 => (0..3_usize, between, any::<bool>()).prop_map(|(n, b, ok)| Step::Write(n, b, ok)),
        2 => Just(Step::Flush),
        1 => (0..3_usize).prop_map(Step::Forget),
    ]
}

proptest! {
    /// Whatever happens, in any order: statuses and what waits add up to what was reported.
    #[test]
    fn nothing_is_lost_and_nothing_twice(steps in prop::collection::vec(step(), 0..60)) {
        let test = TrackerTest::new();
        let names = ["a", "b", "c"];
        let mut reported = [(i64::MIN, 0_u64); 3];
        let mut written = [(i64::MIN, 0_u64); 3];
        for step in steps {
            let mut report = |n: usize, time: i64, count: u64| {
                test.tracker.record(&key(names[n]), source::REPORT, at(time), count);
                reported[n] = (reported[n].0.max(time), reported[n].1 + count);
            };
            match step {
                Step::Record(n, time, count) => report(n, time, count),
                Step::Write(n, between, works) => {
                    let Some(peeked) = test.tracker.peek(&key(names[n])) else { continue };
                    if let Some((time, count)) = between {
                        report(n, time, count);
                    }
                    if works {
                        let last = written[n].0.max(peeked.last.as_second());
                        written[n] = (last, written[n].1 + peeked.count);
                        test.tracker.acknowledge(&key(names[n]), &peeked);
                    }
                }
                Step::Flush => test.tracker.flush(at(0)),
                Step::Forget(n) => {
                    test.tracker.forget(&key(names[n]));
                    (reported[n], written[n]) = ((i64::MIN, 0), (i64::MIN, 0));
                }
            }
            for n in 0..3 {
                let waiting = test.tracker.peek(&key(names[n]));
                let last = waiting.map_or(i64::MIN, |seen| seen.last.as_second());
                let count = waiting.map_or(0, |seen| seen.count);
                prop_assert_eq!((written[n].0.max(last), written[n].1 + count), reported[n]);
            }
        }
    }
}
