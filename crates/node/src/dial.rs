//! Whoever wants to talk to a Pod of this node dials here, and reaches that very Pod or nobody.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::folder::{NodeFolder, PodFolder};
use crate::shim;

/// The way to the ports of a node's Pods; cheap to clone.
#[derive(Debug, Clone)]
pub struct Dialer(NodeFolder);

impl Dialer {
    pub(crate) const fn new(folder: NodeFolder) -> Self {
        Self(folder)
    }

    /// Connects to a port of a Pod. `address` is where it is reached if it shares the machine's
    /// network.
    pub async fn dial(&self, uid: &str, port: u16, address: SocketAddr) -> io::Result<TcpStream> {
        PodRoute::of(&self.0.pod(uid))?.connect(port, address).await
    }
}

/// How the ports of one Pod are reached.
#[derive(Debug, Clone)]
pub(crate) enum PodRoute {
    /// By the machine's network.
    Machine,
    /// By the shim of this folder.
    Shim(PodFolder),
}

impl PodRoute {
    /// As the Pod's shim was told when it was started.
    pub(crate) fn of(folder: &PodFolder) -> io::Result<Self> {
        let own = shim::has_own_network(folder)?;
        Ok(if own { Self::Shim(folder.clone()) } else { Self::Machine })
    }

    /// Connects to a port; in the machine's network that is an address.
    pub(crate) async fn connect(&self, port: u16, address: SocketAddr) -> io::Result<TcpStream> {
        match self {
            Self::Machine => TcpStream::connect(address).await,
            Self::Shim(folder) => shim::dial::dial(folder, port).await,
        }
    }
}
