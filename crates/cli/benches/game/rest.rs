//! Servers that nobody asks for: what making them takes, and what they cost at rest.

use anyhow::{Context as _, Result, ensure};
use tokio::time::Instant;

use super::harness::{Harness, LEASE, Time};
use super::plan::Plan;
use super::requests::Kind;
use crate::number::count;
use crate::process::{memory_of, own_processor};
use crate::report::{Goal, Report, Unit};
use crate::up::Home;

const MADE: &str = "servers that are made";
const REST: &str = "servers at rest";
const MEGABYTE: f64 = 1e6;
/// The server, its Pod, and one status.
const WRITES_GOAL: f64 = 3.0;
/// What everything in memory may come to, in megabytes.
const MEMORY_GOAL: f64 = 150.0;
/// The share of a processor that counts as nothing, in percent.
const NOTHING: f64 = 1.0;

/// Leaves them as they are, for whoever asks for them next.
pub(crate) async fn measure(home: &Home, plan: &Plan, report: &mut Report) -> Result<Harness> {
    Harness::prepare(home).await?;
    let harness = Harness::open(home, Time::Real, LEASE).await?;
    harness.at_rest().await?;
    let empty = resident()?;
    made(&harness, plan, report).await?;
    at_rest(&harness, plan, report).await?;
    let all = resident()?;
    note_memory(report, "resident, none", empty);
    note_memory(report, &format!("resident, {} servers", plan.resting), all);
    report.goal(Goal::AtMost(MEMORY_GOAL));
    let each = (all - empty) / count(plan.resting);
    report.note(REST, "resident per server, with its Pod and their Events", Unit::Bytes, each);
    // Last, since answering takes memory.
    harness.fleet.check(plan.resting).await?;
    Ok(harness)
}

async fn made(harness: &Harness, plan: &Plan, report: &mut Report) -> Result<()> {
    let (servers, requests) = (plan.resting, &harness.requests);
    let all = [
        Kind::ServerMade,
        Kind::PodMade,
        Kind::ServerStatus,
        Kind::OtherOfServer,
        Kind::Collection,
        Kind::Event,
    ];
    let before = all.map(|kind| requests.of(kind));
    let (started, used_before) = (Instant::now(), used()?);
    harness.fleet.make(servers).await?;
    let rested = harness.at_rest().await?;
    let (took, used) = (rested.duration_since(started), used()?.saturating_sub(used_before));
    let mut each = [0.0; 6];
    for ((each, kind), before) in each.iter_mut().zip(all).zip(before) {
        *each = count(usize::try_from(requests.of(kind) - before)?) / count(servers);
    }
    let [created, pods, statuses, others, collection, events] = each;

    let name = format!("{servers} servers, from the first create until all rest");
    report.note(MADE, name, Unit::Seconds, took.as_secs_f64());
    let processor = used.as_secs_f64() * 1e6 / count(servers);
    report.note(MADE, "processor time of it, per server", Unit::Microseconds, processor);
    let mut note = |name: &str, figure| report.note(MADE, name, Unit::Number, figure);
    note("of a server, when it is made", created);
    note("of its Pod, when it is made", pods);
    note("of the server's status", statuses);
    note("of either, any other", others);
    note("writes per server", created + pods + statuses + others);
    report.goal(Goal::AtMost(WRITES_GOAL));
    report.note(MADE, "writes of the collection, per server", Unit::Number, collection);
    report.note(MADE, "Events per server", Unit::Number, events);
    Ok(())
}

async fn at_rest(harness: &Harness, plan: &Plan, report: &mut Report) -> Result<()> {
    let state = || (harness.requests.total(), harness.family.looks(), harness.engine.version());
    let before = state();
    let (watched, used_before) = (Instant::now(), used()?);
    tokio::time::sleep(plan.rest).await;
    let share = 100.0 * (used()? - used_before).as_secs_f64() / watched.elapsed().as_secs_f64();
    let after = state();
    let name = format!("of one processor, over {} s", plan.rest.as_secs());
    report.note(REST, name, Unit::Percent, share);
    report.goal(Goal::AtMost(NOTHING));
    for (name, figure) in [
        ("requests to the API meanwhile", after.0 - before.0),
        ("looks meanwhile", after.1 - before.1),
    ] {
        report.note(REST, name, Unit::Number, count(usize::try_from(figure)?));
        report.goal(Goal::AtMost(0.0));
    }
    let writes = after.2 - before.2;
    ensure!(writes == 0, "servers at rest were written {writes} times");
    Ok(())
}

fn used() -> Result<std::time::Duration> {
    own_processor().context("cannot tell what this process uses")
}

fn resident() -> Result<f64> {
    memory_of("self", "VmRSS:").context("cannot tell what this process uses")
}

fn note_memory(report: &mut Report, name: &str, bytes: f64) {
    report.note(REST, name, Unit::Megabytes, bytes / MEGABYTE);
}
