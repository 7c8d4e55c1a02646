//! Benchmarks of the lab family: `cargo xtask bench lab`.
//!
//! Decisions, reports of use and the collector are measured in this process, each alone. What many
//! instances cost and how punctual their ends are is measured of a release build of `sojourn up`,
//! without Pods, from the outside.

#![expect(
    clippy::disallowed_methods,
    reason = "figures are about real time, of a program that the environment may name"
)]

mod collecting;
#[path = "../engine/command.rs"]
mod command;
mod decisions;
#[path = "../engine/document.rs"]
mod document;
mod fleet;
mod lateness;
#[path = "../engine/machine.rs"]
mod machine;
#[path = "../engine/number.rs"]
mod number;
mod plan;
#[path = "../engine/process.rs"]
mod process;
mod processor;
mod prometheus;
mod report;
mod reports;
mod rest;
#[path = "../engine/scratch.rs"]
mod scratch;
mod up;
mod valgrind;

use anyhow::{Context as _, Result};

use crate::command::{BenchOptions, print, print_line};
use crate::document::Document;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::up::Home;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, times] = arguments.as_slice()
        && word == decisions::WORD
    {
        return decisions::repeat(times.parse().context("not a number of decisions")?);
    }
    command::main(Plan::FULL, Plan::QUICK, run)
}

async fn run(wanted: BenchOptions<Plan>) -> Result<()> {
    let document = wanted.into.map(|path| Document::open(path, "lab")).transpose()?;
    let scratch = Scratch::make("lab")?;
    let mut machine = Machine::detect(scratch.path())?;
    let (plan, mut report) = (wanted.plan, Report::default());

    print_line("decisions");
    decisions::measure(&plan, &mut report)?;
    print_line("reports of use");
    reports::measure(&plan, &mut report)?;
    machine.note_load();
    print_line("looks at the use of all instances");
    collecting::measure(&plan, &mut report).await?;
    machine.note_load();
    print_line(&format!("{} instances that are due", plan.due));
    lateness::measure(&Home::new(scratch.folder()?)?, &plan, &mut report).await?;
    machine.note_load();
    print_line(&format!("{} instances at rest", plan.resting));
    rest::measure(&Home::new(scratch.folder()?)?, &plan, &mut report).await?;
    machine.note_load();

    let text = format!("{machine}\n\n{}", report.tables());
    print(&text);
    document.map_or(Ok(()), |document| document.write(&text))
}
