//! Benchmarks of the lab family: `cargo xtask bench lab`.
//!
//! Decisions, reports of use and the collector are measured in this process, each alone. What many
//! instances cost and how punctual their ends are is measured of a release build of `sojourn up`,
//! without Pods, from the outside.

mod collecting;
mod decisions;
mod fleet;
mod lateness;
mod plan;
mod prometheus;
mod reports;
mod rest;
mod valgrind;

use anyhow::{Context as _, Result};

use self::plan::Plan;
use crate::command::{self, BenchOptions, print, print_line};
use crate::document::Document;
use crate::machine::Machine;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::up::Home;

/// What the command line calls it.
pub(crate) const NAME: &str = "lab";

pub(crate) fn main(arguments: &[String]) -> Result<()> {
    if let [word, times] = arguments
        && word == decisions::WORD
    {
        return decisions::repeat(times.parse().context("not a number of decisions")?);
    }
    command::main(arguments, Plan::FULL, Plan::QUICK, run)
}

async fn run(wanted: BenchOptions<Plan>) -> Result<()> {
    let document = wanted.into.map(|path| Document::open(path, NAME)).transpose()?;
    let scratch = Scratch::make(NAME)?;
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
