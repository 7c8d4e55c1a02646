//! Sockets, as every way of reading them tells of them.

use std::collections::HashSet;
use std::net::SocketAddr;

/// All TCP sockets of one moment that matter here.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) sockets: Vec<Socket>,
    /// Local ports on which somebody waits for connections. One that came in there is not ours to
    /// count, whatever port it came from.
    pub(super) listening: HashSet<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Socket {
    /// No other living socket has this number; a later one may.
    pub(super) id: u64,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Open,
    /// It was open; one side is done.
    Closing,
    /// Closing, or the mere memory of a connection that is over: the kernel numbers those anew.
    Fading,
}

/// A socket that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) id: u64,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    /// Whether it ever was a connection, rather than the attempt of one.
    pub(super) was_open: bool,
}

/// States as the kernel numbers them.
pub(super) const LISTEN: u8 = 10;

/// Nothing for states in which there is no connection (yet, or any more).
pub(super) fn stage(state: u8) -> Option<Stage> {
    match state {
        1 => Some(Stage::Open),
        // FIN-WAIT-1, CLOSE-WAIT, LAST-ACK, CLOSING
        4 | 8 | 9 | 11 => Some(Stage::Closing),
        // FIN-WAIT-2
        5 => Some(Stage::Fading),
        _ => None,
    }
}

/// IPv4 addresses are IPv4 addresses, also in sockets of IPv6.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
