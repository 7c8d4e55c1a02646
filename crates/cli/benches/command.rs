//! How a benchmark is started and interrupted, whatever it measures.

use std::path::PathBuf;

use anyhow::{Result, bail};
use tokio::signal::unix::{SignalKind, signal};

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct BenchOptions<P> {
    pub(crate) plan: P,
    /// The document whose marked section the tables go into.
    pub(crate) into: Option<PathBuf>,
}

/// Runs the benchmark with the plan that the command line asks for.
pub(crate) fn main<P, F>(
    arguments: &[String],
    full: P,
    quick: P,
    run: impl FnOnce(BenchOptions<P>) -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let Some(wanted) = wanted(arguments, full, quick)? else { return Ok(()) };
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        // Servers end, and their files go, with what waits for them.
        tokio::select! {
            done = run(wanted) => done,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            _ = terminate.recv() => bail!("terminated"),
        }
    })
}

/// Nothing if this is not `cargo bench`, which says so in an argument of its own.
fn wanted<P>(arguments: &[String], full: P, quick: P) -> Result<Option<BenchOptions<P>>> {
    let mut wanted = BenchOptions { plan: full, into: None };
    let mut quick = Some(quick);
    let mut by_cargo_bench = false;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => by_cargo_bench = true,
            "--quick" => wanted.plan = quick.take().unwrap_or(wanted.plan),
            "--into" => match arguments.next() {
                Some(path) => wanted.into = Some(path.into()),
                None => bail!("--into needs a file"),
            },
            _ => bail!("`{argument}` is not known here; known are --quick and --into FILE"),
        }
    }
    Ok(by_cargo_bench.then_some(wanted))
}

/// The `sojourn` to measure: the one of this build, or, for figures of two builds from one machine,
/// the one that `$SOJOURN_BENCH_PROGRAM` names.
pub(crate) fn program() -> PathBuf {
    let other = std::env::var_os("SOJOURN_BENCH_PROGRAM");
    other.map_or_else(|| env!("CARGO_BIN_EXE_sojourn").into(), PathBuf::from)
}

/// One line for the person who waits.
#[expect(clippy::print_stderr, reason = "a benchmark has a person to talk to, and no log")]
pub(crate) fn print_line(line: &str) {
    eprintln!("{line}");
}

/// What it found.
#[expect(clippy::print_stdout, reason = "the tables are what a benchmark is run for")]
pub(crate) fn print(text: &str) {
    println!("{text}");
}
