//! Benchmarks of the cluster family: `cargo xtask bench cluster`.
//!
//! The embedded API, on disk and with its admission, and the family's controllers run in the process of the benchmark,
//! where what they ask can be counted. The provider and the APIs of the clusters are scripted. A release build of
//! `sojourn up` prepares the data, so that kinds, roles and accounts are as people have them.

mod fleet;
mod harness;
mod plan;
mod requests;
mod rest;
mod target;
mod toggle;

use anyhow::Result;

use self::plan::Plan;
use crate::command::{self, BenchOptions, print, print_line};
use crate::document::Document;
use crate::machine::Machine;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::up::Home;

/// What the command line calls it.
pub(crate) const NAME: &str = "cluster";

pub(crate) fn main(arguments: &[String]) -> Result<()> {
    command::main(arguments, Plan::FULL, Plan::QUICK, run)
}

async fn run(wanted: BenchOptions<Plan>) -> Result<()> {
    let document = wanted.into.map(|path| Document::open(path, NAME)).transpose()?;
    let scratch = Scratch::make(NAME)?;
    let mut machine = Machine::detect(scratch.path())?;
    let (plan, mut report) = (wanted.plan, Report::default());

    // First, while this process has nothing else in memory.
    print_line(&format!("{} clusters at rest", plan.resting));
    rest::measure(&Home::new(scratch.folder()?)?, &plan, &mut report).await?;
    machine.note_load();
    print_line(&format!("{} clusters toggled at once", plan.toggled));
    toggle::by_the_clock(&Home::new(scratch.folder()?)?, &plan, &mut report).await?;
    machine.note_load();
    print_line("virtual time");
    for transition in plan.transitions {
        let home = Home::new(scratch.folder()?)?;
        toggle::in_virtual_time(&home, &plan, transition, &mut report).await?;
    }
    machine.note_load();

    let text = format!("{machine}\n\n{}", report.tables());
    print(&text);
    document.map_or(Ok(()), |document| document.write(&text))
}
