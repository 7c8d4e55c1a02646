//! The process of a program.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::process::{Child, Command};

use super::folder::{FolderError, Program};

/// A process that was killed is gone by then.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts something that speaks the protocol.
pub(super) trait Launch: fmt::Debug + Send + Sync + 'static {
    fn launch(&self) -> Result<Launched, LaunchError>;
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LaunchError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot start it")]
    Spawn(#[source] io::Error),
    #[error("cannot watch its process")]
    Watch(#[source] io::Error),
}

/// What was started.
pub(super) struct Launched {
    pub(super) input: Box<dyn AsyncWrite + Send + Unpin>,
    pub(super) output: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) errors: Box<dyn AsyncRead + Send + Unpin>,
    pub(super) process: ProgramProcess,
}

impl Launch for Program {
    fn launch(&self) -> Result<Launched, LaunchError> {
        self.check()?;
        let mut child = Command::new(self.path())
            .env_clear()
            .current_dir(self.folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // What it starts is ended with it, and a Ctrl-C in our terminal is not for it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(LaunchError::Spawn)?;
        let piped = || LaunchError::Spawn(io::Error::other("it has no pipes"));
        let input = child.stdin.take().ok_or_else(piped)?;
        let output = child.stdout.take().ok_or_else(piped)?;
        let errors = child.stderr.take().ok_or_else(piped)?;
        Ok(Launched {
            input: Box::new(input),
            output: Box::new(output),
            errors: Box::new(errors),
            process: ProgramProcess::Child(Box::new(ChildProcess::of(child)?)),
        })
    }
}

/// The process behind the pipes, where there is one.
#[derive(Debug)]
pub(super) enum ProgramProcess {
    Child(Box<ChildProcess>),
    /// A test plays the program.
    #[cfg(test)]
    Played,
}

impl ProgramProcess {
    pub(super) fn id(&self) -> Option<u32> {
        match self {
            Self::Child(child) => child.child.id(),
            #[cfg(test)]
            Self::Played => None,
        }
    }

    /// Waits until it has ended by itself.
    pub(super) async fn ended(&self) {
        match self {
            Self::Child(child) => child.ended().await,
            #[cfg(test)]
            Self::Played => std::future::pending().await,
        }
    }

    /// Ends whatever is left of it; how it ended, if that is known.
    pub(super) async fn kill(self) -> Option<ExitStatus> {
        match self {
            Self::Child(child) => child.kill().await,
            #[cfg(test)]
            Self::Played => None,
        }
    }
}

/// A child process and all that it has started. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct ChildProcess {
    child: Child,
    /// Readable once the process has ended; it is not reaped by that.
    ended: AsyncFd<OwnedFd>,
}

impl ChildProcess {
    fn of(child: Child) -> Result<Self, LaunchError> {
        let gone = || LaunchError::Watch(io::Error::other("it has no process id"));
        let pid = pid_of(&child).ok_or_else(gone)?;
        let process = pidfd_open(pid, PidfdFlags::empty())
            .map_err(|error| LaunchError::Watch(error.into()))?;
        #[expect(unsafe_code, reason = "tokio cannot know that the descriptor stays the same")]
        // SAFETY: the descriptor is owned by what is registered, and goes with it.
        let ended = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) };
        let ended = ended.map_err(|error| LaunchError::Watch(error.into()))?;
        Ok(Self { child, ended })
    }

    async fn ended(&self) {
        // Without an answer of the kernel, the end of its output tells.
        if self.ended.readable().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn kill_group(&self) {
        // It has an id until it is reaped; until then no other process can have the same.
        if let Some(group) = pid_of(&self.child) {
            // An error says that nobody is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    async fn kill(mut self) -> Option<ExitStatus> {
        self.kill_group();
        tokio::time::timeout(KILL_TIMEOUT, self.child.wait()).await.ok()?.ok()
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill_group();
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}
