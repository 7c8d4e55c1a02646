//! How much of everything a run does.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

/// The sizes of a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Pods that are run one after the other.
    pub(crate) singles: usize,
    /// Pods that are run at once, and how often.
    pub(crate) some: usize,
    pub(crate) rounds: usize,
    /// Pods that are started together and stay.
    pub(crate) many: usize,
    /// How long they are left alone, until the last Event about them is written, and then watched.
    pub(crate) settle: Duration,
    pub(crate) idle: Duration,
}

impl Plan {
    const FULL: Self = Self {
        singles: 200,
        some: 20,
        rounds: 10,
        many: 500,
        settle: Duration::from_secs(30),
        idle: Duration::from_secs(30),
    };

    /// Enough to see that everything works; the figures are rough.
    const QUICK: Self = Self {
        singles: 10,
        some: 5,
        rounds: 2,
        many: 50,
        settle: Duration::from_secs(1),
        idle: Duration::from_secs(3),
    };
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) plan: Plan,
    /// The document whose marked section the tables go into.
    pub(crate) into: Option<PathBuf>,
}

/// Nothing if this is not `cargo bench`: `cargo test --all-targets` starts benchmarks as well.
pub(crate) fn wanted(arguments: impl IntoIterator<Item = String>) -> Result<Option<Wanted>> {
    let mut wanted = Wanted { plan: Plan::FULL, into: None };
    let mut by_cargo_bench = false;
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => by_cargo_bench = true,
            "--quick" => wanted.plan = Plan::QUICK,
            "--into" => match arguments.next() {
                Some(path) => wanted.into = Some(path.into()),
                None => bail!("--into needs a file"),
            },
            _ => bail!("`{argument}` is not known here; known are --quick and --into FILE"),
        }
    }
    Ok(by_cargo_bench.then_some(wanted))
}
