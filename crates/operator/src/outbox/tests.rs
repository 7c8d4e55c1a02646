use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use sojourn_drivers::notify::fake::{Effect, Script, ScriptedAttempt};
use sojourn_drivers::notify::{Facts, Recipient, Summary};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;

#[derive(Debug, Clone, Copy)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + self.0.elapsed()
    }
}

/// An outbox that runs, with what it woke.
struct Running {
    outbox: Outbox,
    worker: JoinHandle<()>,
    woken: Arc<Mutex<Vec<Key>>>,
    wakes: Arc<Notify>,
}

impl Running {
    fn with(channels: Vec<Arc<dyn Channel>>, limits: Limits) -> Self {
        let woken: Arc<Mutex<Vec<Key>>> = Arc::default();
        let wakes = Arc::new(Notify::new());
        let wake = {
            let (woken, wakes) = (Arc::clone(&woken), Arc::clone(&wakes));
            Arc::new(move |key: &Key| {
                woken.lock().unwrap().push(key.clone());
                wakes.notify_one();
            })
        };
        let clock = Arc::new(TokioClock(Instant::now()));
        let (outbox, worker) = Outbox::new(Arc::new(channels), clock, wake, limits);
        Self { outbox, worker: tokio::spawn(worker), woken, wakes }
    }

    fn new(script: &Script) -> Self {
        Self::with(vec![Arc::new(script.clone())], Limits::default())
    }

    /// Waits for the next outcome.
    async fn woken(&self) {
        let bound = CHANNEL_TIMEOUT * 2;
        timeout(bound, self.wakes.notified()).await.expect("an outcome in time");
    }

    fn count_woken(&self) -> usize {
        self.woken.lock().unwrap().len()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

fn key(name: &str) -> Key {
    Key { namespace: "ns".into(), name: name.into() }
}

fn notice(id: &str) -> Notice {
    Notice {
        copies: Vec::new(),
        id: id.to_owned(),
        template: "stopped",
        to: Recipient::default(),
        facts: Facts::default(),
        summary: Summary::default(),
    }
}

/// A fake that goes as `decide` says.
fn script(decide: impl FnMut(&Notice) -> ScriptedAttempt + Send + 'static) -> Script {
    let start = Instant::now();
    Script::new(move || Timestamp::UNIX_EPOCH + start.elapsed(), decide)
}

/// A fake whose first attempts go as `turns` say, then well.
fn turns<const N: usize>(turns: [ScriptedAttempt; N]) -> Script {
    let mut turns = VecDeque::from(turns);
    script(move |_| turns.pop_front().unwrap_or_default())
}

fn slowly(seconds: u64) -> ScriptedAttempt {
    ScriptedAttempt { before: Duration::from_secs(seconds), ..ScriptedAttempt::default() }
}

fn failure(permanent: bool, message: &str) -> Result<Vec<&'static str>, SendFailure> {
    Err(SendFailure { permanent, message: message.to_owned() })
}

/// A channel that panics when called, or when its future is polled.
#[derive(Debug)]
struct Panicking {
    at_once: bool,
}

impl Channel for Panicking {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn send<'a>(&'a self, _: &'a Notice) -> BoxFuture<'a, Result<(), SendError>> {
        assert!(!self.at_once, "at once");
        Box::pin(async { panic!("later") })
    }
}

#[tokio::test(start_paused = true)]
async fn an_accepted_notice_has_an_outcome_and_wakes_its_object() {
    let fake = turns([slowly(3)]);
    let run = Running::new(&fake);
    assert_eq!(run.outbox.attempt(&key("a"), notice("1")), Attempt::Accepted);
    assert_eq!(run.outbox.outcome(&key("a"), "1"), None, "it is under way");
    run.woken().await;
    let outcome = run.outbox.outcome(&key("a"), "1").unwrap();
    assert_eq!(outcome.at, "1970-01-01T00:00:03Z".parse().unwrap());
    assert_eq!(outcome.result, Ok(vec!["fake"]));
    assert_eq!(*run.woken.lock().unwrap(), [key("a")]);
    assert_eq!(run.outbox.outcome(&key("a"), "2"), None);
    assert_eq!(run.outbox.outcome(&key("b"), "1"), None);
}

#[tokio::test(start_paused = true)]
async fn one_id_is_never_under_way_twice() {
    let fake = turns([slowly(10)]);
    let run = Running::new(&fake);
    for _ in 0..100 {
        assert_eq!(run.outbox.attempt(&key("a"), notice("1")), Attempt::Accepted);
        tokio::task::yield_now().await;
    }
    run.woken().await;
    // Not after it was accepted either, whether or not the outcome was looked at.
    assert_eq!(run.outbox.attempt(&key("a"), notice("1")), Attempt::Accepted);
    assert!(run.outbox.outcome(&key("a"), "1").is_some());
    assert_eq!(run.outbox.attempt(&key("a"), notice("1")), Attempt::Accepted);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fake.received().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_tried_again_only_when_it_is_on_record() {
    let fake = turns([
        Effect::FailBefore("down".into()).into(),
        Effect::FailAfter("cut".into()).into(),
        Effect::Refuse("nobody there".into()).into(),
    ]);
    let run = Running::new(&fake);
    let sent = [
        failure(false, "fake: down"),
        failure(false, "fake: cut"),
        failure(true, "fake: nobody there"),
        Ok(vec!["fake"]),
    ];
    for expected in sent {
        assert_eq!(run.outbox.attempt(&key("a"), notice("1")), Attempt::Accepted);
        run.woken().await;
        for _ in 0..2 {
            assert_eq!(run.outbox.attempt(&key("a"), notice("1")), Attempt::Accepted);
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(run.outbox.outcome(&key("a"), "1").unwrap().result, expected, "it is kept");
        }
        run.outbox.acknowledge(&key("a"), "1");
    }
    assert_eq!(run.count_woken(), 4, "no attempt was made before the last was on record");
    assert_eq!(fake.received().len(), 2, "one arrived without an answer");
}

#[tokio::test(start_paused = true)]
async fn a_taken_outcome_is_gone_and_no_other() {
    let fake = turns([]);
    let run = Running::new(&fake);
    for id in ["1", "2"] {
        assert_eq!(run.outbox.attempt(&key("a"), notice(id)), Attempt::Accepted);
        run.woken().await;
    }
    run.outbox.acknowledge(&key("a"), "2");
    assert!(run.outbox.outcome(&key("a"), "2").is_some(), "nobody had seen it");
    run.outbox.acknowledge(&key("a"), "2");
    assert_eq!(run.outbox.outcome(&key("a"), "2"), None);
    assert!(run.outbox.outcome(&key("a"), "1").is_some());
    run.outbox.acknowledge(&key("a"), "1");
    run.outbox.acknowledge(&key("a"), "1");
    let shown = format!("{:?}", run.outbox);
    assert_eq!(shown, "Outbox { known: 0, waiting: 0, closed: false, .. }");
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_object_leaves_nothing_behind_and_is_not_sent_twice_at_once() {
    let fake = turns([slowly(10), slowly(10)]);
    let run = Running::new(&fake);
    assert_eq!(run.outbox.attempt(&key("a"), notice("1")), Attempt::Accepted);
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.outbox.forget(&key("a"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((fake.received().len(), run.count_woken()), (1, 0));
    assert_eq!(run.outbox.outcome(&key("a"), "1"), None);
    assert_eq!(run.outbox.shared.state().known, 0);

    // Forgotten and wanted again while it is being sent: the attempt under way counts.
    assert_eq!(run.outbox.attempt(&key("a"), notice("2")), Attempt::Accepted);
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.outbox.forget(&key("a"));
    assert_eq!(run.outbox.attempt(&key("a"), notice("2")), Attempt::Accepted);
    run.woken().await;
    assert!(run.outbox.outcome(&key("a"), "2").is_some());
    assert_eq!(fake.received().len(), 2);
    run.outbox.forget(&key("a"));
    assert_eq!(run.outbox.shared.state().known, 0);
}

#[tokio::test(start_paused = true)]
async fn one_channel_that_accepts_is_enough_and_all_are_tried() {
    let down = turns([Effect::FailBefore("down".into()).into()]);
    let good = turns([slowly(5)]);
    let refuses = turns([Effect::Refuse("no".into()).into()]);
    let channels: Vec<Arc<dyn Channel>> =
        vec![Arc::new(down), Arc::new(good.clone()), Arc::new(refuses)];
    let run = Running::with(channels, Limits::default());
    assert_eq!(run.outbox.attempt(&key("a"), notice("1")), Attempt::Accepted);
    run.woken().await;
    assert_eq!(run.outbox.outcome(&key("a"), "1").unwrap().result, Ok(vec!["fake"]));
    assert_eq!(good.received().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_permanent_only_when_every_channel_refuses() {
    let refuse = || -> ScriptedAttempt { Effect::Refuse("no".into()).into() };
    let down = || -> ScriptedAttempt { Effect::FailBefore("down".into()).into() };
    for (second, expected) in [
        (refuse(), failure(true, "fake: no; fake: no")),
        (down(), failure(false, "fake: no; fake: down")),
    ] {
        let channels: Vec<Arc<dyn Channel>> =
            vec![Arc::new(turns([refuse()])), Arc::new(turns([second]))];
        let run = Running::with(channels, Limits::default());
        assert_eq!(run.outbox.attempt(&key("a"), notice("1")), Attempt::Accepted);
        run.woken().await;
        assert_eq!(run.outbox.outcome(&key("a"), "1").unwrap().result, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn without_channels_it_fails_and_may_be_tried_again() {
    let run = Running::with(Vec::new(), Limits::default());
    assert_eq!(run.outbox.attempt(&key("a"), notice("1")), Attempt::Accepted);
    run.woken().await;
    let outcome = run.outbox.outcome(&key("a"), "1").unwrap();
    assert_eq!(outcome.result, failure(false, "no channel is configured"));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_channel_is_a_failure_of_that_channel() {
    for at_once in [true, false] {
        let run = Running::with(vec![Arc::new(Panicking { at_once })], Limits::default());
        for id in ["1", "2"] {
            assert_eq!(run.outbox.attempt(&key("a"), notice(id)), Attempt::Accepted);
            run.woken().await;
            let outcome = run.outbox.outcome(&key("a"), id).unwrap();
            let message = "panicking: the channel panicked, which is a bug";
            assert_eq!(outcome.result, failure(false, message));
        }
        let good = turns([]);
        let both: Vec<Arc<dyn Channel>> =
            vec![Arc::new(Panicking { at_once }), Arc::new(good.clone())];
        let run = Running::with(both, Limits::default());
        assert_eq!(run.outbox.attempt(&key("a"), notice("3")), Attempt::Accepted);
        run.woken().await;
        assert_eq!(run.outbox.outcome(&key("a"), "3").unwrap().result, Ok(vec!["fake"]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_one_that_is_woken_does_not_end_the_worker() {
    let fake = turns([]);
    let channels: Vec<Arc<dyn Channel>> = vec![Arc::new(fake.clone())];
    let wake = Arc::new(|_: &Key| panic!("woken"));
    let clock = Arc::new(TokioClock(Instant::now()));
    let (outbox, worker) = Outbox::new(Arc::new(channels), clock, wake, Limits::default());
    let worker = tokio::spawn(worker);
    for id in ["1", "2"] {
        assert_eq!(outbox.attempt(&key("a"), notice(id)), Attempt::Accepted);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(outbox.outcome(&key("a"), id).is_some());
    }
    assert!(!worker.is_finished());
    worker.abort();
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_never_answers_gives_its_place_back() {
    let fake = turns([slowly(1_000_000)]);
    let limits = Limits { concurrent: 1, ..Limits::default() };
    let run = Running::with(vec![Arc::new(fake.clone())], limits);
    assert_eq!(run.outbox.attempt(&key("a"), notice("1")), Attempt::Accepted);
    assert_eq!(run.outbox.attempt(&key("b"), notice("2")), Attempt::Accepted);
    run.woken().await;
    let outcome = run.outbox.outcome(&key("a"), "1").unwrap();
    assert_eq!(outcome.result, failure(false, "fake: no answer within 300 s; it may have arrived"));
    run.woken().await;
    assert_eq!(run.outbox.outcome(&key("b"), "2").unwrap().result, Ok(vec!["fake"]));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_wait_and_one_more_is_told_so() {
    let fake = script(|_| slowly(1));
    let run = Running::new(&fake);
    // Eight are being sent, so that ten thousand can wait.
    for number in 0..8 {
        let id = format!("first-{number}");
        assert_eq!(run.outbox.attempt(&key(&id), notice(&id)), Attempt::Accepted);
    }
    tokio::task::yield_now().await;
    for number in 0..10_000 {
        let id = number.to_string();
        assert_eq!(run.outbox.attempt(&key(&id), notice(&id)), Attempt::Accepted);
    }
    assert_eq!(run.outbox.attempt(&key("late"), notice("late")), Attempt::Busy);
    assert_eq!(run.outbox.outcome(&key("late"), "late"), None);
    // What waits already is not told that there is no room.
    assert_eq!(run.outbox.attempt(&key("9999"), notice("9999")), Attempt::Accepted);
    while run.count_woken() < 10_008 {
        run.woken().await;
    }
    assert_eq!(run.outbox.attempt(&key("late"), notice("late")), Attempt::Accepted);
    while run.count_woken() < 10_009 {
        run.woken().await;
    }
    let ids: BTreeSet<_> = fake.received().into_iter().map(|sent| sent.notice.id).collect();
    assert_eq!((ids.len(), fake.received().len()), (10_009, 10_009));
    // Eight at a time, a second each.
    let last = fake.received().last().unwrap().at.as_second();
    assert_eq!(last, 10_008 / 8 + 1);
}

#[tokio::test(start_paused = true)]
async fn outcomes_that_nobody_takes_are_bounded() {
    let fake = turns([Effect::FailBefore("down".into()).into()]);
    let limits = Limits { known: 2, ..Limits::default() };
    let run = Running::with(vec![Arc::new(fake)], limits);
    for id in ["1", "2"] {
        assert_eq!(run.outbox.attempt(&key("a"), notice(id)), Attempt::Accepted);
        run.woken().await;
    }
    assert_eq!(run.outbox.attempt(&key("a"), notice("3")), Attempt::Busy);
    assert!(run.outbox.outcome(&key("a"), "1").unwrap().result.is_err());
    run.outbox.acknowledge(&key("a"), "1");
    assert_eq!(run.outbox.attempt(&key("a"), notice("3")), Attempt::Accepted);
}

#[tokio::test(start_paused = true)]
async fn closing_finishes_what_is_being_sent_and_drops_what_waits() {
    let fake = script(|_| slowly(10));
    let limits = Limits { concurrent: 2, ..Limits::default() };
    let mut run = Running::with(vec![Arc::new(fake.clone())], limits);
    for id in ["1", "2", "3", "4"] {
        assert_eq!(run.outbox.attempt(&key("a"), notice(id)), Attempt::Accepted);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.outbox.close();
    assert_eq!(run.outbox.attempt(&key("a"), notice("5")), Attempt::Busy);
    timeout(Duration::from_secs(60), &mut run.worker).await.expect("it ends").unwrap();
    assert_eq!(fake.received().len(), 2);
    for (id, known) in [("1", true), ("2", true), ("3", false), ("4", false)] {
        assert_eq!(run.outbox.outcome(&key("a"), id).is_some(), known, "{id}");
    }
    assert_eq!(run.outbox.attempt(&key("a"), notice("3")), Attempt::Busy);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_dropped_leaves_no_attempt_that_looks_alive() {
    let fake = script(|_| slowly(10));
    let mut run = Running::new(&fake);
    for number in 0..20 {
        let id = number.to_string();
        assert_eq!(run.outbox.attempt(&key(&id), notice(&id)), Attempt::Accepted);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    run.worker.abort();
    assert!((&mut run.worker).await.unwrap_err().is_cancelled());
    assert_eq!(fake.received(), []);
    assert_eq!(run.outbox.shared.state().known, 0);
    assert_eq!(run.outbox.attempt(&key("0"), notice("0")), Attempt::Busy);
}

#[test]
fn a_worker_that_never_ran_closes_the_outbox_too() {
    let none: Vec<Arc<dyn Channel>> = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let start = runtime.block_on(async { Instant::now() });
    let (outbox, worker) = Outbox::new(
        Arc::new(none),
        Arc::new(TokioClock(start)),
        Arc::new(|_: &Key| {}),
        Limits::default(),
    );
    assert_eq!(outbox.attempt(&key("a"), notice("1")), Attempt::Accepted);
    drop(worker);
    assert_eq!(outbox.attempt(&key("a"), notice("2")), Attempt::Busy);
}

#[tokio::test(start_paused = true)]
async fn channels_are_asked_for_at_every_attempt() {
    #[derive(Debug)]
    struct Live(AtomicUsize, Script);
    impl Channels for Live {
        fn current(&self) -> Vec<Arc<dyn Channel>> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Vec::new(),
                1 => panic!("no configuration"),
                _ => vec![Arc::new(self.1.clone())],
            }
        }
    }
    let wakes = Arc::new(Notify::new());
    let wake = {
        let wakes = Arc::clone(&wakes);
        Arc::new(move |_: &Key| wakes.notify_one())
    };
    let live = Arc::new(Live(AtomicUsize::new(0), turns([])));
    let clock = Arc::new(TokioClock(Instant::now()));
    let (outbox, worker) = Outbox::new(live, clock, wake, Limits::default());
    let worker = tokio::spawn(worker);
    for accepted in [false, false, true] {
        assert_eq!(outbox.attempt(&key("a"), notice("1")), Attempt::Accepted);
        timeout(CHANNEL_TIMEOUT, wakes.notified()).await.expect("an outcome");
        let outcome = outbox.outcome(&key("a"), "1").unwrap();
        assert_eq!(outcome.result.is_ok(), accepted, "{outcome:?}");
        outbox.acknowledge(&key("a"), "1");
    }
    worker.abort();
}

/// A channel that fails every third attempt and notes when an id is being sent twice at once.
#[derive(Debug, Default)]
struct Strict {
    sending: Mutex<BTreeSet<String>>,
    accepted: Mutex<Vec<String>>,
    attempts: AtomicUsize,
    overlaps: AtomicUsize,
}

impl Channel for Strict {
    fn name(&self) -> &'static str {
        "strict"
    }

    fn send<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(async move {
            if !self.sending.lock().unwrap().insert(notice.id.clone()) {
                self.overlaps.fetch_add(1, Ordering::Relaxed);
            }
            for _ in 0..notice.id.len() {
                tokio::task::yield_now().await;
            }
            self.sending.lock().unwrap().remove(&notice.id);
            if self.attempts.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
                return Err(SendError::Transient("down".to_owned()));
            }
            self.accepted.lock().unwrap().push(notice.id.clone());
            Ok(())
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_callers_at_once_get_every_notice_out_exactly_once() {
    const OBJECTS: usize = 25;
    const IDS: usize = 20;
    let strict = Arc::new(Strict::default());
    let limits = Limits { waiting: 30, ..Limits::default() };
    let run = Arc::new(Running::with(vec![Arc::clone(&strict) as Arc<dyn Channel>], limits));
    // Two callers for every object, as when a restart of a controller overlaps its end.
    let callers = (0..2 * OBJECTS).map(|number| {
        let (outbox, key) = (run.outbox.clone(), key(&(number % OBJECTS).to_string()));
        tokio::spawn(async move {
            let mut open: BTreeSet<_> = (0..IDS).map(|id| format!("{key}.{id}")).collect();
            while !open.is_empty() {
                for id in open.clone() {
                    match outbox.outcome(&key, &id) {
                        Some(AttemptOutcome { result: Ok(_), .. }) => {
                            open.remove(&id);
                        }
                        Some(_) => outbox.acknowledge(&key, &id),
                        None => {
                            let _ = outbox.attempt(&key, notice(&id));
                        }
                    }
                }
                tokio::task::yield_now().await;
            }
        })
    });
    let done = timeout(Duration::from_secs(60), futures::future::join_all(callers)).await;
    assert!(done.expect("all of them end").into_iter().all(|caller| caller.is_ok()));
    let accepted = strict.accepted.lock().unwrap().clone();
    let different: BTreeSet<_> = accepted.iter().collect();
    assert_eq!((accepted.len(), different.len()), (OBJECTS * IDS, OBJECTS * IDS));
    assert_eq!(strict.overlaps.load(Ordering::Relaxed), 0);
    for number in 0..OBJECTS {
        run.outbox.forget(&key(&number.to_string()));
    }
    let shown = format!("{:?}", run.outbox);
    assert_eq!(shown, "Outbox { known: 0, waiting: 0, closed: false, .. }");
}
