//! Benchmarks of the process node: `cargo xtask bench node`.
//!
//! A release build of `sojourn up` runs Pods that do nothing; a client of the API makes them, sees
//! them run by a watch, and deletes them. What the node and its shims use is read from `/proc`.

mod plan;
mod pods;
mod up;
mod usage;

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use self::plan::Plan;
use self::pods::Pods;
use self::up::Up;
use self::usage::Usage;
use crate::command::{self, BenchOptions, print, print_line};
use crate::document::Document;
use crate::machine::Machine;
use crate::number::{self, count, percentile};
use crate::report::{Goal, Report, Unit};
use crate::scratch::Scratch;

/// What the command line calls it.
pub(crate) const NAME: &str = "node";

const KILOBYTE: f64 = 1024.0;
const MEGABYTE: f64 = 1e6;

const START: &str = "a Pod from create to Running";
const END: &str = "a Pod from delete to gone";
const MANY: &str = "many Pods";
const MEMORY: &str = "memory";

pub(crate) fn main(arguments: &[String]) -> Result<()> {
    command::main(arguments, Plan::FULL, Plan::QUICK, run)
}

async fn run(wanted: BenchOptions<Plan>) -> Result<()> {
    let document = wanted.into.map(|path| Document::open(path, NAME)).transpose()?;
    let scratch = Scratch::make(NAME)?;
    let mut machine = Machine::detect(scratch.path())?;
    let mut report = Report::default();
    let folder = scratch.folder()?;
    let up = Up::start(&folder).await?;
    let pods = Pods::watch(up.client().await?).await?;

    print_line("one Pod at a time");
    one_at_a_time(&pods, &wanted.plan, &mut report).await?;
    machine.note_load();
    print_line(&format!("{} Pods at once", wanted.plan.some));
    some_at_once(&pods, &wanted.plan, &mut report).await?;
    machine.note_load();
    print_line(&format!("{} Pods", wanted.plan.many));
    many(&up, &pods, &wanted.plan, &mut report).await?;
    machine.note_load();
    up.stop().await?;

    let text = format!("{machine}\n\n{}", report.tables());
    print(&text);
    document.map_or(Ok(()), |document| document.write(&text))
}

async fn one_at_a_time(pods: &Pods, plan: &Plan, report: &mut Report) -> Result<()> {
    let mut took = Vec::new();
    // The first one finds nothing in any cache, and is not counted.
    for number in 0..=plan.singles {
        let names = [format!("single-{number}")];
        let running = pods.start(&names).await?;
        let gone = pods.end(&names).await?;
        if number > 0 {
            took.push((running, gone));
        }
    }
    let running: Vec<f64> = took.iter().flat_map(|(running, _)| running.milliseconds()).collect();
    note_latency(report, START, "one at a time", &running, Some((50.0, 100.0)));
    let gone: Vec<f64> = took.iter().flat_map(|(_, gone)| gone.milliseconds()).collect();
    note_latency(report, END, "one at a time", &gone, Some((50.0, 100.0)));
    Ok(())
}

async fn some_at_once(pods: &Pods, plan: &Plan, report: &mut Report) -> Result<()> {
    let (mut running, mut gone) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        let names: Vec<String> =
            (0..plan.some).map(|number| format!("some-{round}-{number}")).collect();
        running.extend(pods.start(&names).await?.milliseconds());
        gone.extend(pods.end(&names).await?.milliseconds());
    }
    let at_once = format!("{} at once", plan.some);
    note_latency(report, START, &at_once, &running, None);
    note_latency(report, END, &at_once, &gone, None);
    Ok(())
}

/// Half of the Pods take no longer than the first figure, nearly all no longer than the second.
fn note_latency(
    report: &mut Report,
    section: &'static str,
    how: &str,
    milliseconds: &[f64],
    goals: Option<(f64, f64)>,
) {
    let (p50, p99) = goals.unzip();
    for (name, share, goal) in [("p50", 0.5, p50), ("p99", 0.99, p99)] {
        let figure = percentile(milliseconds, share);
        report.note(section, format!("{how}, {name}"), Unit::Milliseconds, figure);
        if let Some(goal) = goal {
            report.goal(Goal::AtMost(goal));
        }
    }
}

async fn many(up: &Up, pods: &Pods, plan: &Plan, report: &mut Report) -> Result<()> {
    let count = plan.many;
    let before = up.usage().context("cannot tell what the node uses")?;
    let names: Vec<String> = (0..count).map(|number| format!("many-{number}")).collect();
    let started = Instant::now();
    let took = pods.start(&names).await?;
    let all = seconds(started.elapsed());
    let name = format!("{count} Pods, from the first create until all run");
    report.note(MANY, name, Unit::Seconds, all);
    report.goal(Goal::AtMost(30.0));
    let used = up.usage().context("cannot tell what the node uses")?;
    let each = milliseconds(used.processor.saturating_sub(before.processor)) / number::count(count);
    report.note(MANY, "processor time of the node per Pod", Unit::Milliseconds, each);
    note_latency(
        report,
        MANY,
        &format!("of {count}: create to Running"),
        &took.milliseconds(),
        None,
    );

    tokio::time::sleep(plan.settle).await;
    idle(up, plan, report).await?;
    memory(up, count, before, report)?;

    let started = Instant::now();
    pods.end(&names).await?;
    let name = format!("{count} Pods, from the first delete until all are gone");
    report.note(MANY, name, Unit::Seconds, seconds(started.elapsed()));
    report.goal(Goal::AtMost(30.0));
    Ok(())
}

/// What is used while nothing happens.
async fn idle(up: &Up, plan: &Plan, report: &mut Report) -> Result<()> {
    let look = || -> Result<(Duration, Duration)> {
        let node = up.usage().context("cannot tell what the node uses")?.processor;
        Ok((node, up.shims()?.iter().map(|shim| shim.processor).sum()))
    };
    let (node, shims) = look()?;
    let started = Instant::now();
    tokio::time::sleep(plan.idle).await;
    let took = started.elapsed();
    let (node_after, shims_after) = look()?;
    let share = |after: Duration, before| {
        100.0 * after.saturating_sub(before).as_secs_f64() / took.as_secs_f64()
    };
    let names = ["idle, node, of one processor", "idle, all shims, of one processor"];
    let shares = [share(node_after, node), share(shims_after, shims)];
    for (name, figure) in names.into_iter().zip(shares) {
        report.note(MANY, name, Unit::Percent, figure);
        report.goal(Goal::AtMost(1.0));
    }
    Ok(())
}

fn memory(up: &Up, pods: usize, before: Usage, report: &mut Report) -> Result<()> {
    let node = up.usage().context("cannot tell what the node uses")?;
    let per_pod = node.private.saturating_sub(before.private) as f64 / count(pods) / KILOBYTE;
    report.note(MEMORY, "node, private", Unit::Megabytes, node.private as f64 / MEGABYTE);
    report.note(MEMORY, "node, private, per Pod", Unit::Kilobytes, per_pod);
    let shims = up.shims()?;
    if shims.len() != pods {
        bail!("{pods} Pods have {} shims", shims.len());
    }
    let kilobytes = |of: fn(&Usage) -> u64| -> Vec<f64> {
        shims.iter().map(|shim| of(shim) as f64 / KILOBYTE).collect()
    };
    let private = kilobytes(|shim| shim.private);
    let goal = Goal::Below(2.0 * MEGABYTE / KILOBYTE);
    report.note(MEMORY, "shim, private, p50", Unit::Kilobytes, percentile(&private, 0.5));
    report.note(MEMORY, "shim, private, the largest", Unit::Kilobytes, percentile(&private, 1.0));
    report.goal(goal);
    let shared = kilobytes(|shim| shim.proportional);
    report.note(
        MEMORY,
        "shim, with its part of what is shared, p50",
        Unit::Kilobytes,
        percentile(&shared, 0.5),
    );
    report.goal(goal);
    Ok(())
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
