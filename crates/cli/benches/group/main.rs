//! Benchmarks of the group family: `cargo xtask bench group`.
//!
//! The embedded API, on disk and with its admission, and the family's controllers run in the process
//! of the benchmark, since nobody else has the provider `fake`. A release build of `sojourn up`
//! prepares the data, so that kinds, roles and accounts are as people have them.

#![expect(
    clippy::disallowed_methods,
    reason = "figures are about real time, of a program that the environment may name"
)]

#[path = "../engine/command.rs"]
mod command;
#[path = "../engine/document.rs"]
mod document;
mod fleet;
mod harness;
mod lateness;
#[path = "../engine/machine.rs"]
mod machine;
#[path = "../engine/number.rs"]
mod number;
mod plan;
#[path = "../engine/process.rs"]
mod process;
#[path = "../lab/report.rs"]
#[allow(dead_code, reason = "the benchmark of the lab, whose it is, uses all of it")]
mod report;
mod rest;
mod roll;
#[path = "../engine/scratch.rs"]
mod scratch;
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
    let document = wanted.into.map(|path| Document::open(path, "group")).transpose()?;
    let scratch = Scratch::make("group")?;
    let mut machine = Machine::detect(scratch.path())?;
    let (plan, mut report) = (wanted.plan, Report::default());

    // First, while this process has nothing else in memory.
    print_line(&format!("{} machines of {} groups at rest", plan.resting(), plan.groups));
    rest::measure(&Home::new(scratch.folder()?)?, &plan, &mut report).await?;
    machine.note_load();
    print_line(&format!("{} groups and {} machines on demand that are due", plan.due, plan.due));
    lateness::measure(&Home::new(scratch.folder()?)?, &plan, &mut report).await?;
    machine.note_load();
    print_line(&format!("a roll of {} machines, {} at a time", plan.rolled, plan.budget));
    roll::measure(&Home::new(scratch.folder()?)?, &plan, &mut report).await?;
    machine.note_load();

    let text = format!("{machine}\n\n{}", report.tables());
    print(&text);
    document.map_or(Ok(()), |document| document.write(&text))
}
