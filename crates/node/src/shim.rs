//! The shim: one small process per Pod that its containers are children of.
//!
//! A node may be killed, upgraded or restarted; what it would lose then, a shim keeps: exit codes,
//! the ends of the log pipes, and the PID namespace without which a stray grandchild could not be
//! found. It decides nothing: restarts, order, grace and probes are the node's affair.
//!
//! | part | does |
//! |---|---|
//! | `protocol` | what node and shim say to each other |
//! | `handle` | the node's side: starts a shim, finds one again, sends commands |
//! | `launch` | first stage: makes the namespaces and starts the second one inside |
//! | `init` | second stage: the loop that everything below hangs on |
//! | `container`, `exec`, `child` | what runs: a container, a command beside it, a process |
//! | `net`, `dial` | the Pod's network, and the node's way into it |
//! | `process`, `root`, `mounts`, `filter`, `landlock`, `kernel` | how that is kept apart from the machine |
//! | `log`, `record`, `history`, `message` | what is kept of it: output, exit, termination message |
//! | `sweep`, `memory` | finds the processes of a container, to kill or to weigh them |
//!
//! The shim is the same binary as everything else, entered before anything else is done. It has
//! one thread, because it forks, and few allocations, because there is one per Pod.

mod child;
mod connection;
mod container;
mod descriptor;
pub mod dial;
mod exec;
mod filter;
pub mod handle;
mod history;
mod init;
mod kernel;
mod landlock;
mod launch;
mod listener;
mod log;
mod log_line;
mod memory;
mod message;
mod mounts;
mod net;
mod process;
pub mod protocol;
mod record;
mod root;
mod signal;
mod sweep;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::folder::PodFolder;
use crate::shim::descriptor::Passed;
use crate::shim::log_line::log_line;
use crate::shim::protocol::{Network, ShimConfig};

pub(crate) use root::is_taken_in_dev;

/// Tells the second stage from the first.
const INIT: &str = "--init";
/// The configuration of a shim is small; a larger file is not one.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// What keeps a shim from starting. It is written to `shim.log`, and the node quotes it.
#[derive(Debug, thiserror::Error)]
enum StartupError {
    #[error("usage: sojourn shim FOLDER; it is started by a node, not by hand")]
    Usage,
    #[error("cannot read {path}: {source}", path = path.display())]
    ShimConfig { path: PathBuf, source: io::Error },
    #[error("standard input is not the lock of {path}: a shim is started by its node", path = path.display())]
    NotTheLock { path: PathBuf },
    #[error("the charter asks to end with the node, but standard output is not a pipe of the node")]
    NoLifeline,
    #[error(transparent)]
    Network(#[from] net::NetworkError),
    #[error("cannot {doing}: {source}")]
    System { doing: &'static str, source: io::Error },
}

impl StartupError {
    /// For `map_err`: what we were doing when the system refused.
    fn doing<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { doing, source: source.into() }
    }
}

/// Runs a shim: the arguments are those after `sojourn shim`.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match run(&args.into_iter().collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log_line(format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[OsString]) -> Result<(), StartupError> {
    let (stage, path, passed): (fn(_, _, _) -> _, _, _) = match args {
        [path] => (launch::launch, path, None),
        [init, starting, network, path] if init == INIT => {
            let passed = Passed::parse(starting, network).ok_or(StartupError::Usage)?;
            (init::run, path, Some(passed))
        }
        _ => return Err(StartupError::Usage),
    };
    let path = Path::new(path);
    if !path.is_absolute() {
        return Err(StartupError::Usage);
    }
    let folder = PodFolder::new(path);
    let shim_config = read_config(&folder)?;
    let inherited = descriptor::take(&folder, shim_config.dies_with_node, passed)?;
    stage(folder, shim_config, inherited)
}

/// Whether a Pod's shim was told to give it a network of its own.
pub(crate) fn has_own_network(folder: &PodFolder) -> io::Result<bool> {
    let shim_config: ShimConfig = record::read_json(&folder.shim_config(), MAX_CONFIG_BYTES)?;
    Ok(matches!(shim_config.network, Network::Own(_)))
}

fn read_config(folder: &PodFolder) -> Result<ShimConfig, StartupError> {
    let path = folder.shim_config();
    record::read_json(&path, MAX_CONFIG_BYTES)
        .map_err(|source| StartupError::ShimConfig { path, source })
}
