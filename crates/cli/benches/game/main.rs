//! Benchmarks of the game family: `cargo xtask bench game`.
//!
//! The embedded API, on disk and with its admission, and the family's controllers run in the process of the benchmark,
//! where what they ask of each other can be counted. Servers are objects: their Pods are placed on ten Nodes that are
//! played here, and no process is started. A release build of `sojourn up` prepares the data, so that kinds, roles and
//! accounts are as people have them.

#![expect(
    clippy::disallowed_methods,
    reason = "figures are about real time, of a program that the environment may name"
)]

mod client;
#[path = "../engine/command.rs"]
mod command;
mod connection;
mod crowd;
#[path = "../engine/document.rs"]
mod document;
mod fleet;
mod harness;
mod ledger;
mod load;
#[path = "../engine/machine.rs"]
mod machine;
mod nodes;
#[path = "../engine/number.rs"]
mod number;
mod picks;
mod plan;
#[path = "../engine/process.rs"]
#[allow(dead_code, reason = "the benchmark of the engine, whose it is, uses all of it")]
mod process;
#[path = "../lab/report.rs"]
#[allow(dead_code, reason = "the benchmark of the lab, whose it is, uses all of it")]
mod report;
mod requests;
mod rest;
#[path = "../engine/scratch.rs"]
mod scratch;
mod steady;
#[path = "../lab/up.rs"]
#[allow(dead_code, reason = "the benchmark of the lab, whose it is, uses all of it")]
mod up;

use anyhow::Result;
use tikv_jemallocator::Jemalloc;

use crate::command::{BenchOptions, print, print_line};
use crate::document::Document;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::up::Home;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> Result<()> {
    command::main(Plan::FULL, Plan::QUICK, run)
}

async fn run(wanted: BenchOptions<Plan>) -> Result<()> {
    let document = wanted.into.map(|path| Document::open(path, "game")).transpose()?;
    let scratch = Scratch::make("game")?;
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
