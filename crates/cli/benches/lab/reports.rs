//! Reports of use, from two threads at once.

use sojourn_core::lab::source;
use std::sync::{Arc, Barrier};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use jiff::Timestamp;
use sojourn_core::key::Key;
use sojourn_operator::tracker::{FLUSH_INTERVAL, Handle, Tracker};

use super::plan::Plan;
use crate::number::count;
use crate::processor::thread_time;
use crate::report::{Goal, Report, Unit};

const SECTION: &str = "reports of use, from two threads";
const THREADS: usize = 2;
/// Objects that are used at the same time.
const MANY: usize = 10_000;
/// From one of them to the next: never to a neighbour.
const STRIDE: usize = 7_919;
/// Nanoseconds that a report may take.
const GOAL: f64 = 100.0;

pub(crate) fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    let tracker = Tracker::new(FLUSH_INTERVAL, Arc::new(|_| {}));
    let keys: Vec<Key> =
        (0..MANY).map(|n| Key::new("workspaces", format!("notebook-{n}"))).collect();
    let at = Timestamp::now();
    for key in &keys {
        tracker.record(key, source::GATEWAY, at, 1);
    }
    let hot = &keys[0];
    note(report, "one object", plan, |_| tracker.record(hot, source::GATEWAY, at, 1))?;
    note(report, "10,000 objects", plan, |turn| {
        tracker.record(&keys[turn * STRIDE % MANY], source::GATEWAY, at, 1);
    })?;
    let handles: Vec<Handle> =
        keys.iter().map(|key| tracker.handle(key, source::GATEWAY)).collect();
    note(report, "one object, by handle", plan, |_| handles[0].record(at))?;
    note(report, "10,000 objects, by handle", plan, |turn| {
        handles[turn * STRIDE % MANY].record(at);
    })
}

/// Reports so often from each thread; `call` is told the turn, which differs between threads.
fn note(report: &mut Report, name: &str, plan: &Plan, call: impl Fn(usize) + Sync) -> Result<()> {
    let together = Barrier::new(THREADS);
    let (call, together) = (&call, &together);
    let took = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || timed(plan.reports, thread, together, call)))
            .collect();
        threads.into_iter().map(ScopedJoinHandle::join).collect::<Result<Vec<_>, _>>()
    });
    let took = took.map_err(|_| anyhow!("a thread panicked"))?;
    let calls = count(THREADS * plan.reports);
    let each = |of: fn(&(Duration, Duration)) -> Duration| {
        took.iter().map(of).sum::<Duration>().as_secs_f64() * 1e9 / calls
    };
    report.note(SECTION, format!("{name}, processor time"), Unit::Nanoseconds, each(|took| took.0));
    report.goal(Goal::AtMost(GOAL));
    report.note(SECTION, format!("{name}, by the clock"), Unit::Nanoseconds, each(|took| took.1));
    Ok(())
}

/// Processor time and time of one thread.
fn timed(
    calls: usize,
    thread: usize,
    together: &Barrier,
    call: &(impl Fn(usize) + Sync),
) -> (Duration, Duration) {
    together.wait();
    let (processor, clock) = (thread_time(), Instant::now());
    for turn in 0..calls {
        // The other thread is elsewhere.
        call(turn + thread * MANY / 2);
    }
    (thread_time().saturating_sub(processor), clock.elapsed())
}
