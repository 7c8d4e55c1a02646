//! Many clients that ask as fast as they are answered.

use anyhow::{Result, ensure};
use jiff::SignedDuration;

use super::harness::{Harness, LEASE, Time};
use super::ledger::Ledger;
use super::load::{Answered, Pace, run};
use super::plan::Plan;
use crate::command::print_line;
use crate::number::count;
use crate::report::{Goal, Report, Unit};
use crate::up::Home;

const CROWD: &str = "as fast as they are answered";
/// Allocations per second.
const RATE_GOAL: f64 = 1_000.0;
/// How many times as long a slow one may take as a slow write.
const TIMES_GOAL: f64 = 2.0;
/// Short enough that clients need not wait for servers to come free.
const SHORT_LEASE: SignedDuration = SignedDuration::from_secs(1);

/// Until all servers are somebody's.
pub(crate) async fn once(home: &Home, plan: &Plan, report: &mut Report) -> Result<()> {
    let (clients, servers) = (plan.clients, plan.crowd());
    Harness::prepare(home).await?;
    let harness = Harness::open(home, Time::Real, LEASE).await?;
    harness.fleet.make(servers).await?;
    harness.at_rest().await?;

    print_line("single writes, before");
    let pace = Pace::Times(plan.of_each);
    // Nobody is there, and says so: they are as free as before.
    let mut writes = run(harness.writers(clients, 0).await?, pace).await?;
    harness.at_rest().await?;
    print_line(&format!("{clients} clients, {} servers each", plan.of_each));
    let version = harness.engine.version();
    let answered = run(harness.matchmakers(clients, "once").await?, pace).await?;
    let granted = harness.fleet.granted().await?;
    harness.at_rest().await?;
    let written = harness.engine.version() - version;
    print_line("single writes, after");
    writes.add(run(harness.writers(clients, 1).await?, pace).await?);
    harness.close().await;

    let mut ledger = Ledger::new(LEASE);
    answered.note_in(&mut ledger);
    ensure!(answered.requests() == servers, "{} of {servers} were answered", answered.requests());
    // A run of more than a minute gives those again to which nobody came.
    let lapses = answered.took.as_secs_f64() >= LEASE.as_secs_f64();
    ensure!(lapses || granted == servers, "of {servers} servers {granted} are somebody's");

    let who = format!("{clients} clients, {} servers each of {servers}", plan.of_each);
    note_rate(report, &who, &answered);
    let p99 = note_latency(report, &who, &answered);
    note_twice(report, CROWD, &who, &ledger);
    let each = count(usize::try_from(written)?) / count(servers);
    report.note(CROWD, format!("{who}, writes per allocation"), Unit::Number, each);
    let name = format!("single writes by {clients} clients");
    report.note(CROWD, name.clone(), Unit::PerSecond, writes.per_second());
    let p99_of_write = note_latency(report, &name, &writes);
    let times = p99.zip(p99_of_write).map(|(ours, theirs)| ours / theirs);
    report.note(CROWD, "times the p99 of single writes", Unit::Number, times);
    report.goal(Goal::AtMost(TIMES_GOAL));
    Ok(())
}

/// While servers come free again to which nobody came.
pub(crate) async fn sustained(home: &Home, plan: &Plan, report: &mut Report) -> Result<()> {
    Harness::prepare(home).await?;
    let harness = Harness::open(home, Time::Real, SHORT_LEASE).await?;
    harness.fleet.make(plan.resting).await?;
    harness.at_rest().await?;
    let seconds = plan.sustained.as_secs();
    print_line(&format!("{} clients for {seconds} s", plan.clients));
    let version = harness.engine.version();
    let clients = harness.matchmakers(plan.clients, "sustained").await?;
    let answered = run(clients, Pace::During(plan.sustained)).await?;
    // Nobody came to any of them; until their leases end nothing happens.
    tokio::time::sleep(SHORT_LEASE.unsigned_abs() * 2).await;
    harness.at_rest().await?;
    let written = harness.engine.version() - version;
    let left = harness.fleet.granted().await?;
    harness.close().await;
    ensure!(left == 0, "{left} servers did not come free");

    let mut ledger = Ledger::new(SHORT_LEASE);
    answered.note_in(&mut ledger);
    let who = format!("{} clients for {seconds} s, on {} servers", plan.clients, plan.resting);
    note_rate(report, &who, &answered);
    note_latency(report, &who, &answered);
    note_twice(report, CROWD, &who, &ledger);
    let each = count(usize::try_from(written)?) / count(answered.requests());
    let name = format!("{who}, writes per allocation and its end, with the Event");
    report.note(CROWD, name, Unit::Number, each);
    Ok(())
}

fn note_rate(report: &mut Report, who: &str, answered: &Answered) {
    report.note(CROWD, who, Unit::PerSecond, answered.per_second());
    report.goal(Goal::AtLeast(RATE_GOAL));
}

/// Says the p99.
fn note_latency(report: &mut Report, who: &str, answered: &Answered) -> Option<f64> {
    let [p50, p99] = [0.5, 0.99].map(|share| answered.latency(share));
    report.note(CROWD, format!("{who}, p50"), Unit::Milliseconds, p50);
    report.note(CROWD, format!("{who}, p99"), Unit::Milliseconds, p99);
    p99
}

pub(crate) fn note_twice(report: &mut Report, section: &'static str, who: &str, ledger: &Ledger) {
    report.note(section, format!("{who}, given twice"), Unit::Number, count(ledger.twice()));
    report.goal(Goal::AtMost(0.0));
}
