use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::clock::VirtualClock;

/// How one look at an object goes.
#[derive(Debug, Clone, Copy)]
enum ScriptedStep {
    Good(Wake),
    Fails(Class),
    /// Publish fails, and the decision wants another look then.
    Unpublished(Class, Timestamp),
    /// Execute fails, publish works and wants another look then.
    Half(Class, Timestamp),
    Panics,
    Gone,
}

#[derive(Debug, thiserror::Error)]
#[error("it went wrong")]
struct Wrong(Class);

/// A controller whose looks go as scripted, and take a while.
#[derive(Debug)]
struct Scripted {
    clock: Arc<VirtualClock>,
    takes: Duration,
    script: Box<dyn Script>,
    /// When each object was looked at, in milliseconds.
    looks: Mutex<Vec<(String, i64)>>,
    under_way: AtomicUsize,
    most: AtomicUsize,
}

trait Script: Fn(&Key, usize) -> ScriptedStep + Send + Sync {}
impl<F: Fn(&Key, usize) -> ScriptedStep + Send + Sync> Script for F {}

impl std::fmt::Debug for dyn Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

impl Scripted {
    fn times(&self, name: &str) -> Vec<i64> {
        let looks = self.looks.lock().expect("no panic inside");
        looks.iter().filter(|(one, _)| one == name).map(|(_, at)| *at).collect()
    }
}

impl Reconciler for Scripted {
    type Object = (Key, ScriptedStep);
    type Observed = ();
    type Decision = Wake;
    type Error = Wrong;

    fn name(&self) -> &'static str {
        "scripted"
    }

    fn parse(&self, key: &Key) -> Target<(Key, ScriptedStep)> {
        let nth = self.times(&key.name).len();
        let now = self.clock.now().as_millisecond();
        self.looks.lock().expect("no panic inside").push((key.name.to_string(), now));
        match (self.script)(key, nth) {
            ScriptedStep::Gone => Target::Gone,
            step => Target::Is((key.clone(), step)),
        }
    }

    async fn observe(&self, _: &(Key, ScriptedStep)) {
        let now = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        tokio::time::sleep(self.takes).await;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    fn decide((_, step): &(Key, ScriptedStep), (): &(), _: Timestamp) -> Wake {
        assert!(!matches!(step, ScriptedStep::Panics), "on purpose");
        match step {
            ScriptedStep::Unpublished(_, at) => Wake::At(*at),
            _ => Wake::OnChange,
        }
    }

    async fn execute(
        &self,
        (_, step): &(Key, ScriptedStep),
        (): &(),
        _: &Wake,
    ) -> Result<(), Wrong> {
        match step {
            ScriptedStep::Half(class, _) => Err(Wrong(*class)),
            _ => Ok(()),
        }
    }

    async fn publish(
        &self,
        (_, step): &(Key, ScriptedStep),
        (): &(),
        _: &Wake,
        _: &Result<(), Wrong>,
    ) -> Result<Wake, Wrong> {
        match step {
            ScriptedStep::Good(wake) => Ok(*wake),
            ScriptedStep::Half(_, at) => Ok(Wake::At(*at)),
            ScriptedStep::Fails(class) | ScriptedStep::Unpublished(class, _) => Err(Wrong(*class)),
            ScriptedStep::Panics | ScriptedStep::Gone => Ok(Wake::OnChange),
        }
    }

    fn wake(decision: &Wake) -> Wake {
        *decision
    }

    fn class(error: &Wrong) -> Class {
        error.0
    }
}

/// Runs the controller on these objects for so long.
async fn run_for(
    span: Duration,
    names: &[&str],
    concurrency: usize,
    takes: Duration,
    script: impl Fn(&Key, usize) -> ScriptedStep + Send + Sync + 'static,
) -> (Arc<Scripted>, Arc<Queue>, Reconciles) {
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH));
    let queue = Arc::new(Queue::new(clock.clone()));
    let scripted = Arc::new(Scripted {
        clock: clock.clone(),
        takes,
        script: Box::new(script),
        looks: Mutex::default(),
        under_way: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
    });
    for name in names {
        queue.wake(&Key::new("", *name));
    }
    let counts = Reconciles::default();
    let running =
        run(scripted.clone(), queue.clone(), clock, Limits { concurrency }, counts.clone());
    assert!(tokio::time::timeout(span, running).await.is_err(), "it runs for ever");
    (scripted, queue, counts)
}

const HOUR: Duration = Duration::from_hours(1);

fn seconds(list: &[i64]) -> Vec<i64> {
    list.iter().map(|second| second * 1000).collect()
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_ever_later_and_success_forgets_it() {
    let (scripted, ..) = run_for(HOUR, &["a"], 1, Duration::ZERO, |_, nth| match nth {
        0..=3 => ScriptedStep::Fails(Class::Transient),
        4 => ScriptedStep::Good(Wake::At(Timestamp::from_second(100).expect("in range"))),
        5 => ScriptedStep::Fails(Class::Transient),
        _ => ScriptedStep::Good(Wake::OnChange),
    })
    .await;
    assert_eq!(scripted.times("a"), seconds(&[0, 1, 3, 7, 15, 100, 101]));
}

#[tokio::test(start_paused = true)]
async fn retries_back_off_to_thirty_seconds_at_most() {
    let (scripted, _, counts) =
        run_for(HOUR, &["a"], 1, Duration::ZERO, |_, _| ScriptedStep::Fails(Class::Transient))
            .await;
    let times = scripted.times("a");
    let max = times.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert_eq!(max, Some(30_000));
    assert_eq!(counts.total(), u64::try_from(times.len()).expect("few"));
    assert!(times.len() < 130, "no hot loop: {}", times.len());
}

#[tokio::test(start_paused = true)]
async fn an_announced_time_is_kept_although_nothing_could_be_written() {
    for class in [Class::Transient, Class::Blocked] {
        let at = Timestamp::from_second(5).expect("in range");
        let (scripted, ..) =
            run_for(Duration::from_secs(20), &["a"], 1, Duration::ZERO, move |_, nth| match nth {
                0..=3 => ScriptedStep::Unpublished(class, at),
                _ => ScriptedStep::Good(Wake::OnChange),
            })
            .await;
        let times = scripted.times("a");
        assert!(times.contains(&5000), "{class:?}: {times:?}");
        assert!(times.len() <= 5, "a time that is past makes no hot loop: {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_nobody_waits_for_long() {
    let (scripted, ..) = run_for(HOUR, &["a"], 1, Duration::ZERO, |_, nth| match nth {
        0..=20 => ScriptedStep::Fails(Class::Transient),
        _ => ScriptedStep::Good(Wake::OnChange),
    })
    .await;
    let times = scripted.times("a");
    let last = &times[times.len() - 2..];
    assert!(last[1] - last[0] <= 30_000, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_blocked_is_retried_slowly() {
    for class in [Class::Blocked, Class::Bug] {
        let (scripted, ..) =
            run_for(Duration::from_secs(80), &["a"], 1, Duration::ZERO, move |_, _| {
                ScriptedStep::Fails(class)
            })
            .await;
        assert_eq!(scripted.times("a"), seconds(&[0, 32, 64]), "{class:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_is_looked_at_again_at_once_but_not_for_ever() {
    let (scripted, ..) = run_for(Duration::from_secs(10), &["a"], 1, Duration::ZERO, |_, _| {
        ScriptedStep::Fails(Class::Outdated)
    })
    .await;
    let times = scripted.times("a");
    assert_eq!(times[..4], [0, 50, 100, 4100]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_one_look_and_no_other_object() {
    let (scripted, queue, _) =
        run_for(Duration::from_mins(1), &["bad", "good"], 1, Duration::ZERO, |key, nth| {
            match (&*key.name, nth) {
                ("bad", 0) => ScriptedStep::Panics,
                _ => ScriptedStep::Good(Wake::OnChange),
            }
        })
        .await;
    assert_eq!(scripted.times("bad"), seconds(&[0, 32]));
    assert_eq!(scripted.times("good"), seconds(&[0]));
    assert!(queue.is_idle());
}

#[tokio::test(start_paused = true)]
async fn half_a_success_wakes_for_whatever_comes_first_but_never_at_once() {
    for (wanted, looked) in [(20, 1), (0, 1)] {
        let wanted = Timestamp::from_second(wanted).expect("in range");
        let (scripted, ..) =
            run_for(Duration::from_secs(5), &["a"], 1, Duration::ZERO, move |_, nth| match nth {
                0 => ScriptedStep::Half(Class::Transient, wanted),
                _ => ScriptedStep::Good(Wake::OnChange),
            })
            .await;
        assert_eq!(scripted.times("a"), seconds(&[0, looked]));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_due_and_fails_is_retried_with_a_growing_delay() {
    let due = Timestamp::UNIX_EPOCH;
    let (scripted, ..) = run_for(HOUR, &["a"], 1, Duration::ZERO, move |_, _| {
        ScriptedStep::Half(Class::Transient, due)
    })
    .await;
    let times = scripted.times("a");
    assert_eq!(times[..5], seconds(&[0, 1, 3, 7, 15]));
    assert!(times.len() < 130, "{} looks in an hour", times.len());
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_is_not_looked_at_again() {
    let (scripted, queue, _) =
        run_for(HOUR, &["a"], 1, Duration::ZERO, |_, _| ScriptedStep::Gone).await;
    assert_eq!(scripted.times("a"), seconds(&[0]));
    assert_eq!((queue.depth(), queue.is_idle()), ((0, 0), true));
}

#[tokio::test(start_paused = true)]
async fn so_many_are_looked_at_at_a_time_and_each_by_one() {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let (scripted, ..) =
        run_for(HOUR, &names, 3, Duration::from_secs(1), |_, _| ScriptedStep::Good(Wake::OnChange))
            .await;
    assert_eq!(scripted.most.load(Ordering::Relaxed), 3);
    let mut all: Vec<i64> = names.iter().flat_map(|name| scripted.times(name)).collect();
    all.sort_unstable();
    assert_eq!(all, seconds(&[0, 0, 0, 1, 1, 1, 2]));
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_look_is_followed_by_another_look() {
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH));
    let queue = Arc::new(Queue::new(clock.clone()));
    let scripted = Arc::new(Scripted {
        clock: clock.clone(),
        takes: Duration::from_secs(10),
        script: Box::new(|_: &Key, _| ScriptedStep::Good(Wake::OnChange)),
        looks: Mutex::default(),
        under_way: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
    });
    let key = Key::new("", "a");
    queue.wake(&key);
    let running =
        run(scripted.clone(), queue.clone(), clock, Limits::default(), Reconciles::default());
    let changing = async {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            queue.wake(&key);
        }
        std::future::pending::<()>().await;
    };
    let both = async { tokio::join!(running, changing) };
    assert!(tokio::time::timeout(HOUR, both).await.is_err(), "it runs for ever");
    assert_eq!(scripted.times("a"), seconds(&[0, 10]), "three changes, one more look");
    assert_eq!(scripted.most.load(Ordering::Relaxed), 1);
}
