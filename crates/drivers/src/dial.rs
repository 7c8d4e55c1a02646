//! How the port of a Pod, or of something that is none, is reached.
//!
//! On a cluster a Pod has an address that is its own, and whoever connects there reaches that Pod.
//! On one machine a Pod's port is inside a network of its own, and at its address there may be
//! anybody: there the node that runs the Pod must be asked for a connection.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use futures::future::BoxFuture;
use tokio::net::TcpStream;

/// A port that somebody listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The uid of the Pod whose port it is: the next one of the same name is another one. What is no Pod
    /// is in the network of this machine.
    pub pod: Option<String>,
    /// As the Pod's own container calls it.
    pub port: u16,
    /// Where others reach it, if its network is theirs.
    pub address: SocketAddr,
}

/// Connects to endpoints.
pub trait Dial: fmt::Debug + Send + Sync {
    /// Reaches that very Pod or nobody; what is no Pod, by its address. It may take for ever: the timeout is the caller's.
    fn dial<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<TcpStream>>;
}

/// By the network that everybody shares, as on a cluster.
#[derive(Debug, Clone, Copy, Default)]
pub struct Direct;

impl Dial for Direct {
    fn dial<'a>(&'a self, to: &'a Endpoint) -> BoxFuture<'a, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(to.address))
    }
}
