//! Clients that ask for one server a second each: by the clock, and in virtual time.

use anyhow::{Result, ensure};
use tokio::time::Instant;

use super::crowd::note_twice;
use super::harness::{Harness, LEASE, Time};
use super::ledger::Ledger;
use super::load::{Answered, Pace, run};
use super::plan::Plan;
use crate::command::print_line;
use crate::number::count;
use crate::report::{Goal, Report, Unit};
use crate::up::Home;
use crate::virtual_time::in_virtual_time as run_in_virtual_time;

const STEADY: &str = "one a second each";
/// How many times as long a slow one may take as a slow write.
const TIMES_GOAL: f64 = 2.0;

/// On servers that nobody has asked for yet.
pub(crate) async fn by_the_clock(harness: Harness, plan: &Plan, report: &mut Report) -> Result<()> {
    let clients = plan.steady_clients;
    print_line(&format!("single writes, {clients} a second"));
    let writers = harness.writers(clients, 0).await?;
    let writes = run(writers, Pace::EverySecond(plan.steady_writes)).await?;
    print_line(&format!("{clients} allocations a second for {} s", plan.steady.as_secs()));
    let matchmakers = harness.matchmakers(clients, "steady").await?;
    let answered = run(matchmakers, Pace::EverySecond(plan.steady)).await?;
    harness.close().await;

    let who = format!("{clients} clients, {} s, {} servers", plan.steady.as_secs(), plan.resting);
    note_answered(report, &who, clients, plan.steady.as_secs(), &answered)?;
    let mut note = |name: String, figure: Option<f64>| {
        report.note(STEADY, name, Unit::Milliseconds, figure);
    };
    for (what, share) in [("p50", 0.5), ("p99", 0.99), ("the slowest", 1.0)] {
        note(format!("{who}, {what}"), answered.latency(share));
    }
    for (what, share) in [("p50", 0.5), ("p99", 0.99)] {
        note(format!("single writes by as many as often, {what}"), writes.latency(share));
    }
    let times = answered.latency(0.99).zip(writes.latency(0.99)).map(|(ours, one)| ours / one);
    report.note(STEADY, "times the p99 of single writes", Unit::Number, times);
    report.goal(Goal::AtMost(TIMES_GOAL));
    Ok(())
}

/// The same on a paused clock, from a thread of its own.
pub(crate) async fn in_virtual_time(home: &Home, plan: &Plan, report: &mut Report) -> Result<()> {
    Harness::prepare(home).await?;
    let (home, planned) = (home.clone(), plan.clone());
    let started = Instant::now();
    let measuring = move || async move { virtually(&home, &planned).await };
    let answered = run_in_virtual_time(measuring).await?;
    let (clients, seconds) = (plan.steady_clients, plan.virtual_steady.as_secs());
    let who = format!("{clients} clients, {seconds} virtual s, {} servers", plan.resting);
    note_answered(report, &who, clients, seconds, &answered)?;
    let took = started.elapsed().as_secs_f64();
    report.note(STEADY, format!("{who}, by the clock"), Unit::Seconds, took);
    Ok(())
}

async fn virtually(home: &Home, plan: &Plan) -> Result<Answered> {
    let harness = Harness::open(home, Time::Virtual, LEASE).await?;
    harness.fleet.make(plan.resting).await?;
    harness.at_rest().await?;
    print_line(&format!("{} virtual seconds", plan.virtual_steady.as_secs()));
    let matchmakers = harness.matchmakers(plan.steady_clients, "virtual").await?;
    let answered = run(matchmakers, Pace::EverySecond(plan.virtual_steady)).await?;
    // Nobody came to any of them.
    tokio::time::sleep(LEASE.unsigned_abs() * 2).await;
    harness.at_rest().await?;
    let left = harness.fleet.granted().await?;
    ensure!(left == 0, "{left} servers did not come free");
    harness.fleet.check(plan.resting).await?;
    harness.close().await;
    Ok(answered)
}

fn note_answered(
    report: &mut Report,
    who: &str,
    clients: usize,
    seconds: u64,
    answered: &Answered,
) -> Result<()> {
    let mut ledger = Ledger::new(LEASE);
    answered.note_in(&mut ledger);
    report.note(STEADY, format!("{who}, given"), Unit::Number, count(answered.requests()));
    report.goal(Goal::AtLeast(count(clients * usize::try_from(seconds)?)));
    note_twice(report, STEADY, who, &ledger);
    Ok(())
}
