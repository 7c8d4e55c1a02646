//! How Pods are kept apart from the machine and from each other here.
//!
//! As root, Pods of each Kubernetes namespace run as a user of their own; as an ordinary user, in
//! a user namespace. Whether that works depends on kernels, distributions and whoever runs us, so
//! it is not guessed: an empty Pod is started and put into a root of its own. Where it does not
//! work, Pods are refused, unless somebody insists on running them as they are.

mod trial;
mod uid;

use std::fmt;
use std::path::Path;

pub use self::uid::UidError;
use self::uid::Users;
use crate::folder::NodeFolder;
use crate::shim::protocol::Confinement;

/// How Pods are confined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// By a user for each Kubernetes namespace.
    Users,
    /// By user namespaces.
    UserNamespace,
    /// Not at all, because somebody insisted.
    Unconfined,
    /// They are not run; in words, why.
    Refused(String),
}

/// Which network Pods have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkMode {
    /// Each its own.
    Own,
    /// Each its own, and no connection leads out of it; in words, why.
    NoWayOut(String),
    /// The machine's; in words, why. Whether each is held to its own ports there.
    Machine { why: String, is_held_to_ports: bool },
}

impl NetworkMode {
    fn shared(why: &str) -> Self {
        Self::Machine { why: why.to_owned(), is_held_to_ports: false }
    }

    pub const fn is_own(&self) -> bool {
        matches!(self, Self::Own | Self::NoWayOut(_))
    }

    /// Whether a service of one Pod can be had by that Pod, and by no other: without a way out nobody
    /// has it, and in the machine's network ports are allowed, not addresses, if anything is held.
    pub const fn enforces_pod_services(&self) -> bool {
        matches!(self, Self::Own)
    }
}

impl fmt::Display for NetworkMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("each Pod has a network of its own"),
            Self::NoWayOut(why) => write!(
                f,
                "each Pod has a network of its own, and no connection leads out of it: {why}"
            ),
            Self::Machine { why, is_held_to_ports: true } => write!(
                f,
                "Pods share the machine's network: {why}; by TCP each listens only at ports of its \
                 own or that the kernel picks, and connects only to its own, to ports for names and \
                 the web and to those that are stated"
            ),
            Self::Machine { why, is_held_to_ports: false } => write!(
                f,
                "Pods share the machine's network: {why}; nothing holds them to ports of their own"
            ),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Users => f.write_str(
                "Pods of each namespace run as an unprivileged user of their own, in PID, mount, \
                 IPC and UTS namespaces with a private root",
            ),
            Self::UserNamespace => f.write_str(
                "Pods run in user, PID, mount, IPC and UTS namespaces with a private root",
            ),
            Self::Unconfined => f.write_str("Pods run unconfined, as the user that runs the node"),
            Self::Refused(why) => write!(f, "Pods are refused: {why}"),
        }
    }
}

/// Why a Pod cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    #[error("Pods cannot be confined on this machine: {0}; --unconfined runs them nevertheless")]
    Refused(String),
    #[error("no user can be given to namespace {namespace:?}: {source}")]
    User { namespace: String, source: UidError },
}

/// Confines Pods in the way that works here.
#[derive(Debug)]
pub struct Confiner {
    mode: Mode,
    network: NetworkMode,
    users: Users,
}

impl Confiner {
    /// Finds out what works, by trying: `program` is ours and is run as a shim in `folder`, where
    /// nothing is left of it.
    pub async fn detect(program: &Path, folder: &NodeFolder, unconfined: bool) -> Self {
        let users = Users::new(folder.clone());
        let tried = if unconfined {
            Ok((Mode::Unconfined, NetworkMode::shared("Pods run unconfined")))
        } else if rustix::process::geteuid().is_root() {
            Self::try_users(program, folder, &users).await
        } else {
            let tried = trial::run(program, folder, Confinement::UserNamespace).await;
            tried.map(|network| (Mode::UserNamespace, network)).map_err(|error| error.to_string())
        };
        let (mode, network) = tried
            .unwrap_or_else(|why| (Mode::Refused(why), NetworkMode::shared("Pods are refused")));
        Self { mode, network, users }
    }

    async fn try_users(
        program: &Path,
        folder: &NodeFolder,
        users: &Users,
    ) -> Result<(Mode, NetworkMode), String> {
        let id = users.any().map_err(|error| error.to_string())?;
        let tried = trial::run(program, folder, Confinement::User { uid: id, gid: id }).await;
        tried.map(|network| (Mode::Users, network)).map_err(|error| error.to_string())
    }

    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Which network Pods have.
    pub fn network(&self) -> &NetworkMode {
        &self.network
    }

    /// How a Pod of that namespace is to be confined. As root this may give the namespace a user,
    /// for ever.
    pub fn confinement(&self, namespace: &str) -> Result<Confinement, ConfineError> {
        match &self.mode {
            Mode::Users => match self.users.of(namespace) {
                Ok(id) => Ok(Confinement::User { uid: id, gid: id }),
                Err(source) => Err(ConfineError::User { namespace: namespace.to_owned(), source }),
            },
            Mode::UserNamespace => Ok(Confinement::UserNamespace),
            Mode::Unconfined => Ok(Confinement::Unconfined),
            Mode::Refused(why) => Err(ConfineError::Refused(why.clone())),
        }
    }
}
