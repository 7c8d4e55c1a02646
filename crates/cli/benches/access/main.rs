//! Benchmarks of the access family: `cargo xtask bench access`.
//!
//! A replica that answers `/authorize` runs in a process of its own, on a processor of its own: what every
//! replica has of the family, behind the TLS listener of the binary, with a client that counts what is asked of
//! the API. The API, on disk, and whoever posts reviews are in this process, on another processor. A release
//! build of `sojourn up` prepares the data, so that kinds, roles and accounts are as people have them.

#![expect(
    clippy::disallowed_methods,
    reason = "figures are about real time, of a program that the environment may name"
)]

mod affinity;
mod api;
#[path = "../engine/command.rs"]
mod command;
mod connection;
#[path = "../engine/document.rs"]
mod document;
mod load;
#[path = "../engine/machine.rs"]
mod machine;
mod measure;
#[path = "../engine/number.rs"]
mod number;
mod plan;
#[path = "../engine/process.rs"]
#[allow(dead_code, reason = "the benchmark of the engine, whose it is, uses all of it")]
mod process;
#[path = "../lab/processor.rs"]
mod processor;
mod replica;
#[path = "../lab/report.rs"]
#[allow(dead_code, reason = "the benchmark of the lab, whose it is, uses all of it")]
mod report;
mod review;
#[path = "../engine/scratch.rs"]
mod scratch;
mod server;
#[path = "../lab/up.rs"]
#[allow(dead_code, reason = "the benchmark of the lab, whose it is, uses all of it")]
mod up;

use anyhow::Result;
use tikv_jemallocator::Jemalloc;

use crate::command::{BenchOptions, print};
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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [word, rest @ ..] if word == replica::WORD => replica::run(rest),
        _ => command::main(Plan::FULL, Plan::QUICK, run),
    }
}

async fn run(wanted: BenchOptions<Plan>) -> Result<()> {
    let document = wanted.into.map(|path| Document::open(path, "access")).transpose()?;
    let scratch = Scratch::make("access")?;
    let mut machine = Machine::detect(scratch.path())?;
    let (plan, mut report) = (wanted.plan, Report::default());

    let home = Home::new(scratch.folder()?)?;
    measure::measure(&home, scratch.path(), &plan, &mut report, &mut machine).await?;

    let text = format!("{machine}\n\n{}", report.tables());
    print(&text);
    document.map_or(Ok(()), |document| document.write(&text))
}
