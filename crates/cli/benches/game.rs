//! Benchmarks of the game family: `cargo xtask bench game`.
//!
//! The embedded API, on disk and with its admission, and the family's controllers run in the process of the benchmark,
//! where what they ask of each other can be counted. Servers are objects: their Pods are placed on ten Nodes that are
//! played here, and no process is started. A release build of `sojourn up` prepares the data, so that kinds, roles and
//! accounts are as people have them.

mod client;
mod connection;
mod crowd;
mod fleet;
mod harness;
mod ledger;
mod load;
mod nodes;
mod picks;
mod plan;
mod requests;
mod rest;
mod steady;

use anyhow::Result;

use self::plan::Plan;
use crate::command::{self, BenchOptions, print, print_line};
use crate::document::Document;
use crate::machine::Machine;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::up::Home;

/// What the command line calls it.
pub(crate) const NAME: &str = "game";

pub(crate) fn main(arguments: &[String]) -> Result<()> {
    command::main(arguments, Plan::FULL, Plan::QUICK, run)
}

async fn run(wanted: BenchOptions<Plan>) -> Result<()> {
    let document = wanted.into.map(|path| Document::open(path, NAME)).transpose()?;
    let scratch = Scratch::make(NAME)?;
    let mut machine = Machine::detect(scratch.path())?;
    let (plan, mut report) = (wanted.plan, Report::default());

    // First, while this process has nothing else in memory.
    print_line(&format!("{} servers at rest", plan.resting));
    let harness = rest::measure(&Home::new(scratch.folder()?)?, &plan, &mut report).await?;
    machine.note_load();
    steady::by_the_clock(harness, &plan, &mut report).await?;
    machine.note_load();
    print_line("virtual time");
    steady::in_virtual_time(&Home::new(scratch.folder()?)?, &plan, &mut report).await?;
    machine.note_load();
    print_line(&format!("{} servers for a crowd", plan.crowd()));
    crowd::once(&Home::new(scratch.folder()?)?, &plan, &mut report).await?;
    machine.note_load();
    print_line(&format!("{} servers that come free again", plan.resting));
    crowd::sustained(&Home::new(scratch.folder()?)?, &plan, &mut report).await?;
    machine.note_load();
    print_line("picks in memory");
    picks::measure(&plan, &mut report)?;
    machine.note_load();

    let text = format!("{machine}\n\n{}", report.tables());
    print(&text);
    document.map_or(Ok(()), |document| document.write(&text))
}
