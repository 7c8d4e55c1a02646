//! Starts a process that will be confined, and says in words why it could not be.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::pipe::PipeFlags;
use rustix::process::Pid;

use crate::shim::protocol::Refusal;

/// The longest explanation that is read from a child.
const MAX_REPORT_BYTES: u64 = 4096;

#[derive(Debug, thiserror::Error)]
pub(super) enum SpawnError {
    #[error("no command is given")]
    NoCommand,
    #[error("cannot make a pipe: {0}")]
    Pipe(#[source] io::Error),
    #[error("{0}")]
    Prepare(String),
    #[error("cannot run {program:?}: {source}")]
    Run { program: String, source: io::Error },
}

impl SpawnError {
    pub(super) fn refusal(&self) -> Refusal {
        match self {
            Self::NoCommand => Refusal::BadRequest,
            Self::Pipe(_) | Self::Prepare(_) => Refusal::CannotPrepare,
            Self::Run { .. } => Refusal::CannotRun,
        }
    }
}

/// A pipe of which our end, the first, never blocks, and the child's does.
pub(super) fn pipe() -> Result<(OwnedFd, OwnedFd), SpawnError> {
    let make = || -> io::Result<_> {
        let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok((ours, theirs))
    };
    make().map_err(SpawnError::Pipe)
}

/// Runs a program with this environment and nothing on its stdin. `prepare` is called in the
/// child before the program is: it explains its failure in the descriptor that it is given.
pub(super) fn spawn(
    argv: &[String],
    env: &[(String, String)],
    stdout: OwnedFd,
    stderr: OwnedFd,
    prepare: impl Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync + 'static,
) -> Result<Pid, SpawnError> {
    let [program, args @ ..] = argv else { return Err(SpawnError::NoCommand) };
    let (report, explain) = pipe()?;
    let mut command = Command::new(program);
    command.args(args).env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    run_before(&mut command, move || {
        prepare(explain.as_fd()).inspect_err(|_| {
            // So that a report is never empty when it was preparation that failed.
            let _ = rustix::io::write(&explain, b"\n");
        })
    });
    let spawned = command.spawn();
    // Our copies of the child's ends go with it: its pipes must end when it does.
    drop(command);
    match spawned {
        Ok(child) => Ok(pid_of(&child)),
        Err(source) => Err(explain_failure(report, program, source)),
    }
}

#[expect(unsafe_code, reason = "only pre_exec runs between fork and exec")]
fn run_before(
    command: &mut Command,
    prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: the shim has one thread, so no lock is held by another one in the forked child, and
    // it may allocate and do whatever a process may.
    unsafe { command.pre_exec(prepare) };
}

fn explain_failure(report: OwnedFd, program: &str, source: io::Error) -> SpawnError {
    let mut words = Vec::new();
    // It does not block: what is there was written before the child died.
    let _ = File::from(report).take(MAX_REPORT_BYTES).read_to_end(&mut words);
    if words.is_empty() {
        return SpawnError::Run { program: program.to_owned(), source };
    }
    let words = String::from_utf8_lossy(&words).trim().to_owned();
    SpawnError::Prepare(if words.is_empty() { source.to_string() } else { words })
}

fn pid_of(child: &std::process::Child) -> Pid {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("the kernel gives PIDs above 0")
}
