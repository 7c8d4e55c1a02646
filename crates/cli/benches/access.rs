//! Benchmarks of the access family: `cargo xtask bench access`.
//!
//! A replica that answers `/authorize` runs in a process of its own, on a processor of its own: what every
//! replica has of the family, behind the TLS listener of the binary, with a client that counts what is asked of
//! the API. The API, on disk, and whoever posts reviews are in this process, on another processor. A release
//! build of `sojourn up` prepares the data, so that kinds, roles and accounts are as people have them.

mod affinity;
mod api;
mod connection;
mod load;
mod measure;
mod plan;
mod replica;
mod review;
mod server;

use anyhow::Result;

use self::plan::Plan;
use crate::command::{self, BenchOptions, print};
use crate::document::Document;
use crate::machine::Machine;
use crate::report::Report;
use crate::scratch::Scratch;
use crate::up::Home;

/// What the command line calls it.
pub(crate) const NAME: &str = "access";

pub(crate) fn main(arguments: &[String]) -> Result<()> {
    match arguments {
        [word, rest @ ..] if word == replica::WORD => replica::run(rest),
        _ => command::main(arguments, Plan::FULL, Plan::QUICK, run),
    }
}

async fn run(wanted: BenchOptions<Plan>) -> Result<()> {
    let document = wanted.into.map(|path| Document::open(path, NAME)).transpose()?;
    let scratch = Scratch::make(NAME)?;
    let mut machine = Machine::detect(scratch.path())?;
    let (plan, mut report) = (wanted.plan, Report::default());

    let home = Home::new(scratch.folder()?)?;
    measure::measure(&home, scratch.path(), &plan, &mut report, &mut machine).await?;

    let text = format!("{machine}\n\n{}", report.tables());
    print(&text);
    document.map_or(Ok(()), |document| document.write(&text))
}
