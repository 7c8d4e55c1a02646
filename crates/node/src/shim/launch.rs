//! The first stage: makes the Pod's namespaces, starts the second stage inside them, and ends as soon
//! as that can be connected to.
//!
//! A process does not enter a new PID namespace itself, only its children do; that is why there
//! are two stages. The shim is then nobody's child but the machine's init's: it outlives the node.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::fs::Mode;
use rustix::mount::MountPropagationFlags;
use rustix::thread::UnshareFlags;

use crate::folder::PodFolder;
use crate::shim::descriptor::{self, Inherited, Readiness};
use crate::shim::protocol::{Confinement, Network, ShimConfig};
use crate::shim::{INIT, StartupError, kernel, net, process};

#[expect(clippy::needless_pass_by_value, reason = "both stages are called in one way")]
pub(super) fn launch(
    folder: PodFolder,
    shim_config: ShimConfig,
    inherited: Inherited,
) -> Result<(), StartupError> {
    detach()?;
    if shim_config.confinement == Confinement::UserNamespace {
        enter_user_namespace()?;
    }
    // A process of its own makes it while the second stage starts. Before there is a PID namespace:
    // the first process in there is its init.
    let network = match &shim_config.network {
        Network::Own(settings) => Some(net::start_making(settings)?),
        Network::Machine { .. } => None,
    };
    enter_namespaces(&shim_config)?;
    let lifeline = inherited.lifeline.map_or_else(Stdio::null, Stdio::from);
    // Not by its path: the file there may be another version by now.
    let (program, _open) = match shim_config.confinement {
        Confinement::Unconfined => ("/proc/self/exe".to_owned(), None),
        Confinement::User { .. } | Confinement::UserNamespace => {
            let program = process::own_program()
                .map_err(StartupError::doing("mount the shim's own program read-only"))?;
            (format!("/proc/self/fd/{}", program.as_raw_fd()), Some(program))
        }
    };
    let readiness = Readiness::new().map_err(StartupError::doing("make a pipe"))?;
    let passed = readiness.pass_on().and_then(|readiness| {
        let network = descriptor::pass_on(network.as_ref().map(|making| &making.socket))?;
        Ok([readiness, network])
    });
    let passed = passed.map_err(StartupError::doing("pass on descriptors"))?;
    Command::new(program)
        .arg0("sojourn")
        .args(["shim", INIT])
        .args(passed)
        .arg(folder.path())
        .env_clear()
        .stdin(inherited.lock)
        .stdout(lifeline)
        .spawn()
        .map_err(StartupError::doing("start the shim inside its namespaces"))?;
    let ready = readiness.wait();
    if let Some(network) = network {
        network.end();
    }
    ready.map_err(StartupError::doing("wait for the shim inside its namespaces"))
}

/// Away from the node's terminal, folder and file modes.
pub(super) fn detach() -> Result<(), StartupError> {
    // It fails only where we lead a session already.
    let _ = rustix::process::setsid();
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    std::env::set_current_dir("/").map_err(StartupError::doing("go to /"))
}

fn enter_namespaces(shim_config: &ShimConfig) -> Result<(), StartupError> {
    if shim_config.confinement == Confinement::Unconfined {
        return Ok(());
    }
    kernel::unshare(
        UnshareFlags::NEWPID | UnshareFlags::NEWNS | UnshareFlags::NEWIPC | UnshareFlags::NEWUTS,
    )
    .map_err(StartupError::doing("make PID, mount, IPC and UTS namespaces"))?;
    // Before anything is mounted: nothing of it may show on the machine.
    let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", propagation)
        .map_err(StartupError::doing("keep the Pod's mounts from the machine"))?;
    rustix::system::sethostname(shim_config.hostname.as_bytes())
        .map_err(StartupError::doing("set the Pod's hostname"))
}

/// Root of a user namespace of our own, to which only our own user is mapped.
fn enter_user_namespace() -> Result<(), StartupError> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    kernel::unshare(UnshareFlags::NEWUSER).map_err(StartupError::doing("make a user namespace"))?;
    let write = |file, text: String| std::fs::write(file, text);
    // Groups cannot be mapped by an ordinary user as long as they could be dropped.
    write("/proc/self/setgroups", "deny".to_owned())
        .and_then(|()| write("/proc/self/uid_map", format!("0 {} 1\n", uid.as_raw())))
        .and_then(|()| write("/proc/self/gid_map", format!("0 {} 1\n", gid.as_raw())))
        .map_err(StartupError::doing("map the user into a user namespace"))
}
