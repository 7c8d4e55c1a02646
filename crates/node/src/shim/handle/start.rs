//! Starting a shim.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::FlockOperation;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use crate::folder::PodFolder;
use crate::private;
use crate::shim::handle::{
    Handle, LAUNCH_TIMEOUT, LaunchError, MAX_POLL_DELAY, MIN_POLL_DELAY, is_free,
};
use crate::shim::protocol::{Confinement, Record, ShimConfig};

/// How much of what a shim said is quoted.
const MAX_QUOTED_BYTES: u64 = 1024;
/// How often a lock is tried: whoever looks whether it is free has it for a moment.
const MAX_LOCK_ATTEMPTS: u32 = 10;

pub(super) async fn launch(
    program: &Path,
    folder: &PodFolder,
    shim_config: &ShimConfig,
    lifeline: Option<OwnedFd>,
) -> Result<(Handle, mpsc::Receiver<Record>), LaunchError> {
    make_folder(folder, shim_config)?;
    let lock = lock(folder).await?;
    write_config(folder, shim_config).map_err(prepare(folder.shim_config()))?;
    let path = folder.shim_log();
    // The shim's words alone: what is left of an earlier one goes.
    let log = private::open_or_create(&path).and_then(|log| log.set_len(0).map(|()| log));
    let log = log.map_err(prepare(path))?;
    spawn(program, folder, lock, lifeline, log).await?;
    let deadline = Instant::now() + LAUNCH_TIMEOUT;
    let mut wait = MIN_POLL_DELAY;
    loop {
        if let Ok(Ok((handle, ended, _))) = timeout_at(deadline, Handle::connect(folder)).await {
            return Ok((handle, ended));
        }
        if is_free(folder).map_err(prepare(folder.lock()))? {
            return Err(LaunchError::Failed { log_tail: log_tail(folder) });
        }
        if Instant::now() >= deadline {
            return Err(LaunchError::Silent { log_tail: log_tail(folder) });
        }
        sleep(wait).await;
        wait = (wait * 2).min(MAX_POLL_DELAY);
    }
}

/// Runs the first stage to its end. Afterwards we have no descriptor of the lock any more.
async fn spawn(
    program: &Path,
    folder: &PodFolder,
    lock: File,
    lifeline: Option<OwnedFd>,
    log: File,
) -> Result<(), LaunchError> {
    let mut command = Command::new(program);
    command.arg("shim").arg(folder.path()).env_clear();
    command.stdin(lock).stdout(lifeline.map_or_else(Stdio::null, Stdio::from)).stderr(log);
    let spawned = command.spawn();
    drop(command);
    let failed = |source| LaunchError::Run { program: program.to_owned(), source };
    let mut child = spawned.map_err(failed)?;
    let deadline = Instant::now() + LAUNCH_TIMEOUT;
    match timeout_at(deadline, child.wait()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(_)) => Err(LaunchError::Failed { log_tail: log_tail(folder) }),
        Ok(Err(source)) => Err(failed(source)),
        Err(_) => {
            let _ = child.kill().await;
            Err(LaunchError::Silent { log_tail: log_tail(folder) })
        }
    }
}

fn make_folder(folder: &PodFolder, shim_config: &ShimConfig) -> Result<(), LaunchError> {
    make(folder.path(), 0o700)?;
    let parts = [folder.records(), folder.volumes(), folder.root()];
    let beneath = ["logs", "termination"].map(|name| folder.path().join(name));
    for part in parts.iter().chain(&beneath) {
        make(part, 0o700)?;
    }
    for (own, mode) in [(folder.home(), 0o700), (folder.tmp(), 0o1777)] {
        if make(&own, mode)?
            && let Confinement::User { uid, gid } = shim_config.confinement
        {
            lchown(&own, Some(uid), Some(gid)).map_err(prepare(own))?;
        }
    }
    Ok(())
}

/// Makes a folder with exactly this mode. Says whether it was not there.
fn make(path: &Path, mode: u32) -> Result<bool, LaunchError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {
            let mode = Permissions::from_mode(mode);
            std::fs::set_permissions(path, mode).map_err(prepare(path.to_owned()))?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(prepare(path.to_owned())(error)),
    }
}

async fn lock(folder: &PodFolder) -> Result<File, LaunchError> {
    let path = folder.lock();
    let lock = private::open_or_create(&path).map_err(prepare(path.clone()))?;
    for _ in 0..MAX_LOCK_ATTEMPTS {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(rustix::io::Errno::WOULDBLOCK) => sleep(MIN_POLL_DELAY).await,
            Err(error) => return Err(prepare(path)(error.into())),
        }
    }
    Err(LaunchError::AlreadyRunning)
}

fn write_config(folder: &PodFolder, shim_config: &ShimConfig) -> io::Result<()> {
    private::write(&folder.shim_config(), &serde_json::to_vec(shim_config)?)
}

/// The end of what the shim said.
fn log_tail(folder: &PodFolder) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut log = File::open(folder.shim_log())?;
        let size = log.metadata()?.len();
        log.seek(SeekFrom::Start(size.saturating_sub(MAX_QUOTED_BYTES)))?;
        let mut log_tail = Vec::new();
        log.take(MAX_QUOTED_BYTES).read_to_end(&mut log_tail)?;
        Ok(log_tail)
    };
    match read() {
        Ok(log_tail) if log_tail.is_empty() => "it said nothing".to_owned(),
        Ok(log_tail) => String::from_utf8_lossy(&log_tail).trim().to_owned(),
        Err(error) => format!("what it said cannot be read: {error}"),
    }
}

fn prepare(path: PathBuf) -> impl FnOnce(io::Error) -> LaunchError {
    move |source| LaunchError::Prepare { path, source }
}
