//! The node's side of a shim: starts one, finds one again, gives commands.
//!
//! Whether a shim lives is asked of its lock, never of a PID on disk. A [`Handle`] is one
//! connection to a shim. When that is lost, its receiver of ends closes, and [`Handle::adopt`]
//! says what there is: the same shim, or what it left.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::folder::PodFolder;
use crate::private;
use crate::shim::listener::ShortPath;
use crate::shim::protocol::{Answer, Executed, Record, Refusal, ShimCommand, ShimConfig, Start};
use crate::shim::record;

mod connection;
mod start;

use connection::PendingCommand;

/// How long a shim may take to answer for the first time.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a command may take: starting a container mounts its volumes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a shim may take to end by itself before it is killed; it gives up after less.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a killed shim may take to be gone, with all that runs in it.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// The waits between two looks at something that cannot be waited for.
const MIN_POLL_DELAY: Duration = Duration::from_millis(2);
const MAX_POLL_DELAY: Duration = Duration::from_millis(100);
/// How many commands may wait for the connection.
const MAX_QUEUED_REQUESTS: usize = 64;
/// How many ends may wait for the node; beyond that, they wait in the connection.
const MAX_QUEUED_EXITS: usize = 64;

/// Why a shim was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("the Pod's shim runs already")]
    AlreadyRunning,
    #[error("cannot prepare {path}: {source}", path = path.display())]
    Prepare { path: PathBuf, source: io::Error },
    #[error("cannot run {program}: {source}", program = program.display())]
    Run { program: PathBuf, source: io::Error },
    /// It ended at once. These are its own words.
    #[error("the Pod's shim could not start: {log_tail}")]
    Failed { log_tail: String },
    #[error("the Pod's shim did not answer within {} s: {log_tail}", LAUNCH_TIMEOUT.as_secs())]
    Silent { log_tail: String },
}

/// Why a shim could not be found again.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    #[error("cannot read what is known of the Pod in {path}: {source}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the Pod's shim lives but did not answer within {} s", LAUNCH_TIMEOUT.as_secs())]
    Silent,
}

/// Why a command was not executed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The shim says why.
    #[error("{message}")]
    Refused { reason: Refusal, message: String },
    /// The connection broke; nearly always that is because the shim ended.
    #[error("the Pod's shim is gone")]
    Lost,
    #[error("the Pod's shim did not answer in time")]
    Silent,
}

/// What was found of a shim.
#[derive(Debug)]
pub enum Adopted {
    /// It lives, and knows these runs.
    Running(Handle, mpsc::Receiver<Record>, Vec<Record>),
    /// It does not. A run without an end was killed with it.
    Ended(Vec<Record>),
}

/// A connection to a shim; cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    folder: PodFolder,
    commands: mpsc::Sender<PendingCommand>,
    process: Option<Arc<ShimProcess>>,
}

impl Handle {
    /// Starts the shim of a Pod: `program` is ours, `lifeline` the reading end of a pipe that ends
    /// with the node, for Pods that must.
    ///
    /// It makes the Pod's folder. What it must be told of ends comes by the receiver, which closes
    /// when the connection is lost.
    pub async fn launch(
        program: &Path,
        folder: &PodFolder,
        shim_config: &ShimConfig,
        lifeline: Option<OwnedFd>,
    ) -> Result<(Self, mpsc::Receiver<Record>), LaunchError> {
        start::launch(program, folder, shim_config, lifeline).await
    }

    /// Finds the shim of a Pod again, or what it left.
    pub async fn adopt(folder: &PodFolder) -> Result<Adopted, AdoptError> {
        let unreadable = |source| AdoptError::Read { path: folder.path().to_owned(), source };
        let deadline = Instant::now() + LAUNCH_TIMEOUT;
        let mut wait = MIN_POLL_DELAY;
        loop {
            if is_free(folder).map_err(unreadable)? {
                return Ok(Adopted::Ended(read_records(folder).map_err(unreadable)?));
            }
            if let Ok(Ok((handle, ended, records))) =
                timeout_at(deadline, Self::connect(folder)).await
            {
                return Ok(Adopted::Running(handle, ended, records));
            }
            if Instant::now() >= deadline {
                return Err(AdoptError::Silent);
            }
            sleep(wait).await;
            wait = (wait * 2).min(MAX_POLL_DELAY);
        }
    }

    /// Connects once, and asks what runs.
    async fn connect(
        folder: &PodFolder,
    ) -> Result<(Self, mpsc::Receiver<Record>, Vec<Record>), CommandError> {
        let lost = |_| CommandError::Lost;
        let short = ShortPath::of(folder).map_err(lost)?;
        let stream = UnixStream::connect(short.path()).await.map_err(lost)?;
        let process = ShimProcess::behind(&stream).map(Arc::new);
        let (commands, asked) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let (ends, ended) = mpsc::channel(MAX_QUEUED_EXITS);
        tokio::spawn(connection::run_connection(stream, asked, ends, process.clone()));
        let handle = Self(Arc::new(Shared { folder: folder.clone(), commands, process }));
        // It answers, so it lived after its process was opened: that is no other one.
        let records = handle.state().await?;
        Ok((handle, ended, records))
    }

    /// Every run that the shim knows.
    pub async fn state(&self) -> Result<Vec<Record>, CommandError> {
        match self.send_command(ShimCommand::State, REQUEST_TIMEOUT).await? {
            Answer::State { records } => Ok(records),
            other => Err(unexpected(&other)),
        }
    }

    /// Why no connection leads out of the Pod's own network, if none does; and whether in the
    /// machine's the Pod is held to its ports.
    pub async fn network(&self) -> Result<(Option<String>, bool), CommandError> {
        match self.send_command(ShimCommand::Network, REQUEST_TIMEOUT).await? {
            Answer::Network { no_way_out, is_held_to_ports } => Ok((no_way_out, is_held_to_ports)),
            other => Err(unexpected(&other)),
        }
    }

    /// Runs a container. The same attempt may be given again and is started once.
    pub async fn start(&self, spec: Start) -> Result<Record, CommandError> {
        match self.send_command(ShimCommand::Start(Box::new(spec)), REQUEST_TIMEOUT).await? {
            Answer::Started(record) => Ok(record),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a signal to a container's first process.
    pub async fn signal(&self, container: &str, signal: i32) -> Result<(), CommandError> {
        let container = container.to_owned();
        self.done(ShimCommand::Signal { container, signal }).await
    }

    /// Kills every process of a container.
    pub async fn kill(&self, container: &str) -> Result<(), CommandError> {
        self.done(ShimCommand::Kill { container: container.to_owned() }).await
    }

    /// Runs a command beside a running container.
    pub async fn exec(
        &self,
        container: &str,
        argv: Vec<String>,
        limit: Duration,
    ) -> Result<Executed, CommandError> {
        let container = container.to_owned();
        let timeout_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let timeout = limit.saturating_add(REQUEST_TIMEOUT);
        match self.send_command(ShimCommand::Exec { container, argv, timeout_ms }, timeout).await? {
            Answer::Executed(executed) => Ok(executed),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends the shim, with everything in it, and waits until it is gone. One that does not end is
    /// killed.
    pub async fn end(&self) -> Result<(), CommandError> {
        let ended = async {
            // Whatever it answers: what counts is that it is gone.
            let _ = self.done(ShimCommand::End).await;
            self.gone().await;
        };
        if timeout(SHUTDOWN_TIMEOUT, ended).await.is_ok() {
            return Ok(());
        }
        if let Some(process) = &self.0.process {
            process.kill();
        }
        timeout(KILL_TIMEOUT, self.gone()).await.map_err(|_| CommandError::Silent)
    }

    /// Waits until the shim and all that ran in it are gone.
    async fn gone(&self) {
        if let Some(process) = &self.0.process {
            process.ended().await;
        }
        let mut wait = MIN_POLL_DELAY;
        while !is_free(&self.0.folder).unwrap_or(true) {
            sleep(wait).await;
            wait = (wait * 2).min(MAX_POLL_DELAY);
        }
    }

    async fn done(&self, command: ShimCommand) -> Result<(), CommandError> {
        match self.send_command(command, REQUEST_TIMEOUT).await? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    async fn send_command(
        &self,
        command: ShimCommand,
        limit: Duration,
    ) -> Result<Answer, CommandError> {
        let answered = async {
            let (answer, answered) = oneshot::channel();
            let asked = PendingCommand { command, answer };
            self.0.commands.send(asked).await.map_err(|_| CommandError::Lost)?;
            answered.await.map_err(|_| CommandError::Lost)
        };
        match timeout(limit, answered).await.map_err(|_| CommandError::Silent)?? {
            Answer::Refused { reason, message } => Err(CommandError::Refused { reason, message }),
            answer => Ok(answer),
        }
    }
}

/// An answer to another question: of a shim that is not of this version.
fn unexpected(answer: &Answer) -> CommandError {
    let message = format!("the Pod's shim answered something else: {answer:?}");
    CommandError::Refused { reason: Refusal::BadRequest, message }
}

/// The shim's process. It ends after everything in its PID namespace has, which its lock does not:
/// a process that is killed lets go of its files first.
#[derive(Debug)]
struct ShimProcess(AsyncFd<OwnedFd>);

impl ShimProcess {
    /// Of whoever listens at the other end.
    fn behind(stream: &UnixStream) -> Option<Self> {
        let pid = Pid::from_raw(stream.peer_cred().ok()?.pid()?)?;
        let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        #[expect(unsafe_code, reason = "tokio cannot know that the descriptor stays the same")]
        // SAFETY: the descriptor is owned by what is registered, and goes with it.
        let watched = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) };
        watched.ok().map(Self)
    }

    async fn ended(&self) {
        // An error would be that of the runtime ending, and then nobody waits.
        let _ = self.0.readable().await;
        // Its parent is the machine's init. Where that is us, as in many a container, nobody else
        // reaps it.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let _ = rustix::process::waitid(WaitId::PidFd(self.0.get_ref().as_fd()), options);
    }

    fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(self.0.get_ref(), Signal::KILL);
    }
}

/// Whether nobody holds a Pod's lock.
fn is_free(folder: &PodFolder) -> io::Result<bool> {
    let flags = private::NO_LINK;
    let lock = match File::options().read(true).custom_flags(flags).open(folder.lock()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        lock => lock?,
    };
    // Shared, so that two who look do not see each other.
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn read_records(folder: &PodFolder) -> io::Result<Vec<Record>> {
    let (records, damaged) = record::read_all(folder)?;
    for error in damaged {
        tracing::warn!(%error, "a run of a container is not known");
    }
    Ok(records)
}
