//! Benchmarks of the group family: `cargo xtask bench group`.
//!
//! The embedded API, on disk and with its admission, and the family's controllers run in the process
//! of the benchmark, since nobody else has the provider `fake`. A release build of `sojourn up`
//! prepares the data, so that kinds, roles and accounts are as people have them.

mod fleet;
mod harness;
mod lateness;
mod plan;
mod rest;
mod roll;

use anyhow::Result;

use self::plan::Plan;
use crate::command::{self, BenchOptions, print, print_line};
use crate::document::Document;
use crate::machine::Machine;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::up::Home;

/// What the command line calls it.
pub(crate) const NAME: &str = "group";

pub(crate) fn main(arguments: &[String]) -> Result<()> {
    command::main(arguments, Plan::FULL, Plan::QUICK, run)
}

async fn run(wanted: BenchOptions<Plan>) -> Result<()> {
    let document = wanted.into.map(|path| Document::open(path, NAME)).transpose()?;
    let scratch = Scratch::make(NAME)?;
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
