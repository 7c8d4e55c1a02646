//! A Pod without a purpose: does what confines Pods work here?

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::pipe::PipeFlags;

use super::NetworkMode;
use crate::folder::{NodeFolder, PodFolder};
use crate::shim::handle::{CommandError, Handle, LaunchError};
use crate::shim::protocol::{
    Confinement, Network, OwnNetwork, Refusal, ShimConfig, Start, TcpPorts,
};

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
    Start(#[from] CommandError),
}

/// Puts a process into a root and a network of its own, and removes every trace of it. Where no
/// network can be made, the root alone is tried.
pub(super) async fn run(
    program: &Path,
    node: &NodeFolder,
    confinement: Confinement,
) -> Result<NetworkMode, TrialError> {
    let folder = PodFolder::new(node.path().join(NAME));
    let failed = |cause| TrialError::Folder { path: folder.path().to_owned(), cause };
    let mut first = None;
    loop {
        clean_up(node).map_err(failed)?;
        make_folders(&folder).map_err(failed)?;
        let network = match &first {
            None => Network::Own(OwnNetwork::default()),
            Some(_) => Network::Machine { ports: Some(TcpPorts::default()) },
        };
        let tried = start(program, &folder, confinement, network).await;
        clean_up(node).map_err(failed)?;
        match (tried, first) {
            (Ok((no_way_out, _)), None) => {
                return Ok(no_way_out.map_or(NetworkMode::Own, NetworkMode::NoWayOut));
            }
            (Ok((_, is_held_to_ports)), Some(why)) => {
                return Ok(NetworkMode::Machine { why, is_held_to_ports });
            }
            (Err(error), None) => first = Some(error.to_string()),
            (Err(error), Some(_)) => return Err(error),
        }
    }
}

async fn start(
    program: &Path,
    folder: &PodFolder,
    confinement: Confinement,
    network: Network,
) -> Result<(Option<String>, bool), TrialError> {
    let shim_config = ShimConfig {
        pod_uid: NAME.to_owned(),
        hostname: NAME.to_owned(),
        confinement,
        exposed: Vec::new(),
        hidden: Vec::new(),
        dies_with_node: true,
        log_limit: 0,
        containers: 1,
        network,
    };
    let failed = |cause: rustix::io::Errno| TrialError::Folder {
        path: folder.path().to_owned(),
        cause: cause.into(),
    };
    let (theirs, _ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let (handle, _ended) = Handle::launch(program, folder, &shim_config, Some(theirs)).await?;
    let started = handle.start(container()).await;
    let network = handle.network().await;
    let ended = handle.end().await;
    match started {
        // It was put into its root; that the command is missing there is another matter.
        Ok(_) | Err(CommandError::Refused { reason: Refusal::CannotRun, .. }) => {
            ended?;
            Ok(network?)
        }
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
    crate::pod_tree::remove(folder.as_fd(), NAME)
}
