//! Groups that only wait for their machines to grow old: what they cost, and how soon a restart has
//! their timers.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use sojourn_api::group::status::Phase;
use sojourn_drivers::machine::fake::{Fake, Script};

use super::fleet::Fleet;
use super::harness::Harness;
use super::plan::Plan;
use crate::command::print_line;
use crate::number::count;
use crate::process::{memory_of, own_processor};
use crate::report::{Goal, Report, Unit};
use crate::up::Home;

const REST: &str = "machines at rest";
const RESTART: &str = "restart, on what the provider still has";
const MEGABYTE: f64 = 1e6;
/// What everything in memory may come to, in megabytes.
const MEMORY: f64 = 512.0;
/// The share of a processor that counts as nothing, in percent.
const NOTHING: f64 = 1.0;
/// Seconds until every timer is armed.
const ARMED: f64 = 10.0;

pub(crate) async fn measure(home: &Home, plan: &Plan, report: &mut Report) -> Result<()> {
    Harness::prepare(home).await?;
    let fake = Fake::new(Script::default());
    let harness = Harness::open(home, &fake).await?;
    let fleet = Fleet(harness.people.clone());
    fleet.namespaces(plan.groups).await?;
    // Every machine is wanted at once, without one of each group being tried first.
    fleet.configure("trial: 0s\n").await?;
    harness.until_armed(0).await?;
    let empty = resident()?;
    note_memory(report, "resident, none", empty);

    let (started, before) = (Instant::now(), used()?);
    let spec = json!({
        "size": plan.of_each, "surge": 2,
        "template": {"provider": "fake", "config": {"image": "v1"}},
        "expiry": {"eligibleAge": "20d", "forcedAge": "30d"},
    });
    fleet.groups(plan.groups, Duration::ZERO, &spec).await?;
    harness.until_armed(plan.groups).await?;
    let each = (used()? - before).as_secs_f64() * 1e6 / count(plan.resting());
    let what = "from the first create until all rest";
    let name = format!("{} machines of {} groups, {what}", plan.resting(), plan.groups);
    report.note(REST, name, Unit::Seconds, started.elapsed().as_secs_f64());
    report.note(REST, "processor time of it, per machine", Unit::Microseconds, each);

    at_rest(&harness, plan, report).await?;
    let all = resident()?;
    note_memory(report, "resident, all made", all);
    report.goal(Goal::AtMost(MEMORY));
    let each = (all - empty) / count(plan.resting());
    report.note(REST, "resident per machine, with what the provider keeps", Unit::Bytes, each);
    // Last, since answering takes memory.
    let is_ready = |phase| phase == Some(Phase::Ready);
    let counted = fleet.counted(|one| is_ready(one.status.as_ref().and_then(|s| s.phase))).await?;
    ensure!(counted == [plan.resting(); 2], "there are, and are ready: {counted:?}");
    harness.close().await;

    print_line("restart");
    let (started, before) = (Instant::now(), used()?);
    let harness = Harness::open(home, &fake).await?;
    let version = harness.engine.version();
    harness.until_armed(plan.groups).await?;
    let (armed, used) = (started.elapsed(), used()? - before);
    let looks = harness.family.looks();
    let writes = harness.engine.version() - version;
    let (opened, filled) = (harness.opened, harness.filled);
    harness.close().await;
    ensure!(writes == 0, "a restart wrote {writes} times");
    let seconds = Unit::Seconds;
    report.note(RESTART, "until the engine is open", seconds, opened.as_secs_f64());
    report.note(RESTART, "until every cache is filled", seconds, filled.as_secs_f64());
    let name = format!("until the timers of {} groups are armed", plan.groups);
    report.note(RESTART, name, seconds, armed.as_secs_f64());
    report.goal(Goal::AtMost(ARMED));
    report.note(RESTART, "processor time", seconds, used.as_secs_f64());
    let each = count(usize::try_from(looks)?) / count(plan.groups);
    report.note(RESTART, "looks at each group", Unit::Number, each);
    Ok(())
}

/// Lets them rest, and sees what that takes.
async fn at_rest(harness: &Harness, plan: &Plan, report: &mut Report) -> Result<()> {
    let (version, looks) = (harness.engine.version(), harness.family.looks());
    let (watched, before) = (Instant::now(), used()?);
    tokio::time::sleep(plan.rest).await;
    let share = 100.0 * (used()? - before).as_secs_f64() / watched.elapsed().as_secs_f64();
    let name = format!("of one processor, over {} s", plan.rest.as_secs());
    report.note(REST, name, Unit::Percent, share);
    report.goal(Goal::AtMost(NOTHING));
    let looks = harness.family.looks() - looks;
    report.note(REST, "looks meanwhile", Unit::Number, count(usize::try_from(looks)?));
    let writes = harness.engine.version() - version;
    ensure!(writes == 0, "groups at rest were written {writes} times");
    Ok(())
}

fn used() -> Result<Duration> {
    own_processor().context("cannot tell what this process uses")
}

fn resident() -> Result<f64> {
    memory_of("self", "VmRSS:").context("cannot tell what this process uses")
}

fn note_memory(report: &mut Report, name: &str, bytes: f64) {
    report.note(REST, name, Unit::Megabytes, bytes / MEGABYTE);
}
