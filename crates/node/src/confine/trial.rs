//! A Pod without a purpose: does what confines Pods work here?

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::pipe::PipeFlags;

use crate::folder::{NodeFolder, PodFolder};
use crate::shim::handle::{Handle, LaunchError, OrderError};
use crate::shim::protocol::{Charter, Confinement, Refusal, Start};

/// Its folder, in the node's.
const NAME: &str = "trial";
/// Ends at once. Whether it is there at all does not matter.
const COMMAND: &str = "true";

#[derive(Debug, thiserror::Error)]
pub(super) enum TrialError {
    #[error("cannot prepare {}: {cause}", path.display())]
    Folder { path: PathBuf, cause: io::Error },
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Start(#[from] OrderError),
}

/// Puts a process into a root of its own, and removes every trace of it.
pub(super) async fn run(
    program: &Path,
    node: &NodeFolder,
    confinement: Confinement,
) -> Result<(), TrialError> {
    let folder = PodFolder::new(node.path().join(NAME));
    let failed = |cause| TrialError::Folder { path: folder.path().to_owned(), cause };
    clean_up(node).map_err(failed)?;
    make_folders(&folder).map_err(failed)?;
    let tried = start(program, &folder, confinement).await;
    clean_up(node).map_err(failed)?;
    tried
}

async fn start(
    program: &Path,
    folder: &PodFolder,
    confinement: Confinement,
) -> Result<(), TrialError> {
    let charter = Charter {
        pod_uid: NAME.to_owned(),
        hostname: NAME.to_owned(),
        confinement,
        exposed: Vec::new(),
        hidden: Vec::new(),
        dies_with_node: true,
        log_limit: 0,
        containers: 1,
    };
    let failed = |cause: rustix::io::Errno| TrialError::Folder {
        path: folder.path().to_owned(),
        cause: cause.into(),
    };
    let (theirs, _ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let (handle, _ended) = Handle::launch(program, folder, &charter, Some(theirs)).await?;
    let started = handle.start(container()).await;
    let ended = handle.end().await;
    match started {
        // It was put into its root; that the command is missing there is another matter.
        Ok(_) | Err(OrderError::Refused { reason: Refusal::CannotRun, .. }) => Ok(ended?),
        Err(error) => Err(error.into()),
    }
}

fn container() -> Start {
    Start {
        container: NAME.to_owned(),
        argv: vec![COMMAND.to_owned()],
        read_only_root: true,
        ..Start::default()
    }
}

fn make_folders(folder: &PodFolder) -> io::Result<()> {
    for path in [folder.home(), folder.tmp(), folder.root()] {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    }
    Ok(())
}

fn clean_up(node: &NodeFolder) -> io::Result<()> {
    let folder = std::fs::File::open(node.path())?;
    crate::beneath::remove(folder.as_fd(), NAME)
}
