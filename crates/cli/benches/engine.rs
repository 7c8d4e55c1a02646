//! Benchmarks of the embedded engine beside a real kube-apiserver with etcd, in one run:
//! `cargo xtask bench engine`.
//!
//! Both get the same requests from the same client, by an account that RBAC binds, and both sync
//! every write to disk. They are measured in turns, each time started anew, so that whatever else
//! the machine does meets both. Without `KUBEBUILDER_ASSETS` only the engine is measured.

mod client;
mod kubernetes;
mod load;
mod measure;
mod plan;
mod report;
mod server;
mod workload;

use std::path::Path;

use anyhow::{Context as _, Result};

use self::plan::Plan;
use self::report::{Column, Report};
use self::server::Server;
use crate::command::{self, BenchOptions, print, print_line};
use crate::document::Document;
use crate::machine::Machine;
use crate::scratch::Scratch;

/// What the command line calls it.
pub(crate) const NAME: &str = "engine";

pub(crate) fn main(arguments: &[String]) -> Result<()> {
    command::main(arguments, Plan::FULL, Plan::QUICK, run)
}

async fn run(wanted: BenchOptions<Plan>) -> Result<()> {
    let document = wanted.into.map(|path| Document::open(path, NAME)).transpose()?;
    let assets = kubernetes::assets();
    if assets.is_none() {
        print_line("$KUBEBUILDER_ASSETS is not set: there is no real server to compare with");
    }
    let scratch = Scratch::make(NAME)?;
    let mut machine = Machine::detect(scratch.path())?;
    let mut report = Report::default();
    let plan = &wanted.plan;
    for number in 1..=plan.rounds {
        print_line(&format!("round {number} of {}", plan.rounds));
        round(&scratch, assets.as_deref(), plan, &mut report).await?;
        machine.note_load();
    }
    print_line(&format!("with {} objects", plan.many));
    with_many(&scratch, assets.as_deref(), plan, &mut report).await?;
    machine.note_load();

    let text = format!("{machine}\n\n{}", report.tables());
    print(&text);
    document.map_or(Ok(()), |document| document.write(&text))
}

/// Each server once, started on an empty folder.
async fn round(
    scratch: &Scratch,
    assets: Option<&Path>,
    plan: &Plan,
    report: &mut Report,
) -> Result<()> {
    let folder = scratch.folder()?;
    measure::in_process(&folder, plan, report).await.context("in process")?;

    let folder = scratch.folder()?;
    let server = Server::sojourn(&folder).await?;
    measure::fresh(&server, Column::Sojourn, plan, report).await.context("sojourn up")?;
    server.processes.stop().await?;
    second_start(
        async |folder| Server::sojourn(folder).await,
        scratch,
        Column::Sojourn,
        plan,
        report,
    )
    .await?;

    let Some(assets) = assets else { return Ok(()) };
    let folder = scratch.folder()?;
    let server = Server::kubernetes(assets, &folder).await?;
    measure::fresh(&server, Column::Kubernetes, plan, report).await.context("kube-apiserver")?;
    server.processes.stop().await?;
    let start = async |folder: &Path| Server::kubernetes(assets, folder).await;
    second_start(start, scratch, Column::Kubernetes, plan, report).await
}

/// A server is started on an empty folder and stopped, and then on what it left there.
async fn second_start(
    start: impl AsyncFn(&Path) -> Result<Server>,
    scratch: &Scratch,
    column: Column,
    plan: &Plan,
    report: &mut Report,
) -> Result<()> {
    let folder = scratch.folder()?;
    start(&folder).await?.processes.stop().await?;
    let server = start(&folder).await?;
    measure::started_again(&server, column, plan, report).await;
    server.processes.stop().await
}

/// Each server once, with many objects, and started again with them.
async fn with_many(
    scratch: &Scratch,
    assets: Option<&Path>,
    plan: &Plan,
    report: &mut Report,
) -> Result<()> {
    let folder = scratch.folder()?;
    let start = async || Server::sojourn(&folder).await;
    let server = start().await?;
    measure::with_many(server, start, Column::Sojourn, plan, report).await?;

    let Some(assets) = assets else { return Ok(()) };
    let folder = scratch.folder()?;
    let start = async || Server::kubernetes(assets, &folder).await;
    let server = start().await?;
    measure::with_many(server, start, Column::Kubernetes, plan, report).await
}
