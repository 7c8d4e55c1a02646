//! Who was connected to: each connection once, by destination, within bounds.
//!
//! A series is shown while its destination is used and for `keep_unused` after that. Then it is no
//! longer shown, but remembered for as long again: a destination that comes back in that time goes
//! on counting where it was. So whoever scrapes never sees a count fall, nor stand still over a new
//! connection, within `keep_unused` of the last time they saw the series. Only then it is forgotten
//! and would start anew with 1.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::Instant;

use super::Options;
use super::ports::Ports;
use super::socket::{Closed, Snapshot, Socket, Stage};

/// Longer than any sane scrape interval, many times over.
const MIN_RETENTION: Duration = Duration::from_hours(1);

/// A connection that was reset is seen no more, but its number is heard once more when its process
/// lets go of it. For so long it is not taken for another one.
const VANISHED_RETENTION: Duration = Duration::from_mins(10);

#[derive(Debug)]
pub(super) struct ConnectionCounts {
    ports: Ports,
    max_destinations: usize,
    keep_unused: Duration,
    /// By the socket's number.
    known: HashMap<u64, CountedConnection>,
    listening: HashSet<u16>,
    tallies: HashMap<Destination, Tally>,
    left_out: u64,
}

/// What a series is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Destination {
    pub(super) ip: IpAddr,
    pub(super) port: u16,
}

/// A connection that was counted.
#[derive(Debug, Clone, Copy)]
struct CountedConnection {
    local: SocketAddr,
    destination: Destination,
    open: bool,
    /// In the series of its destination, rather than among those left out.
    has_series: bool,
    last_seen: Instant,
}

#[derive(Debug)]
struct Tally {
    opened: u64,
    open: u64,
    last_used: Instant,
}

/// The state of one series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) destination: Destination,
    /// Connections so far.
    pub(super) opened: u64,
    /// Connections now.
    pub(super) open: u64,
}

impl ConnectionCounts {
    pub(super) fn new(options: Options) -> Self {
        Self {
            ports: options.ports,
            max_destinations: options.max_destinations,
            keep_unused: options.keep_unused.max(MIN_RETENTION),
            known: HashMap::new(),
            listening: HashSet::new(),
            tallies: HashMap::new(),
            left_out: 0,
        }
    }

    /// Takes in all sockets of one moment.
    pub(super) fn observe(&mut self, snapshot: Snapshot, now: Instant) {
        self.listening = snapshot.listening;
        for tally in self.tallies.values_mut() {
            tally.open = 0;
        }
        let mut before = std::mem::take(&mut self.known);
        for socket in &snapshot.sockets {
            if self.is_ours(socket.local, socket.remote) {
                let known = before.remove(&socket.id).filter(|known| known.is(socket));
                self.observe_socket(socket, known, now);
            }
        }
        for (id, vanished) in before {
            if now.duration_since(vanished.last_seen) < VANISHED_RETENTION {
                self.known.entry(id).or_insert(CountedConnection { open: false, ..vanished });
            }
        }
        self.forget(now);
    }

    /// Takes in that a socket is gone; one that was never seen was a short connection.
    pub(super) fn closed(&mut self, closed: &Closed, now: Instant) {
        // A socket that was aborted no longer says where it led, but its number is known.
        if let Some(known) = self.known.remove(&closed.id) {
            if let Some(tally) = self.tallies.get_mut(&known.destination)
                && known.open
                && known.has_series
            {
                tally.open = tally.open.saturating_sub(1);
                tally.last_used = now;
            }
        } else if closed.was_open && self.is_ours(closed.local, closed.remote) {
            self.count(destination(closed.remote), now);
        }
    }

    /// What is shown, in order.
    pub(super) fn series(&self, now: Instant) -> Vec<Series> {
        let shown = self.tallies.iter().filter(|(_, tally)| !tally.unused(self.keep_unused, now));
        let mut series: Vec<_> = shown
            .map(|(destination, tally)| Series {
                destination: *destination,
                opened: tally.opened,
                open: tally.open,
            })
            .collect();
        series.sort_unstable_by_key(|series| series.destination);
        series
    }

    /// Connections that are in no series, because there are too many destinations.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether this host opened the connection, to a port that counts.
    fn is_ours(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        self.ports.contains(remote.port()) && !self.listening.contains(&local.port())
    }

    fn observe_socket(&mut self, socket: &Socket, known: Option<CountedConnection>, now: Instant) {
        let destination = destination(socket.remote);
        let has_series = match (known, socket.stage) {
            (Some(known), _) => known.has_series,
            (None, Stage::Open | Stage::Closing) => self.count(destination, now),
            (None, Stage::Fading) => return,
        };
        let open = socket.stage == Stage::Open;
        if let Some(tally) = self.tallies.get_mut(&destination)
            && open
            && has_series
        {
            tally.open += 1;
            tally.last_used = now;
        }
        let known = CountedConnection {
            local: socket.local,
            destination,
            open,
            has_series,
            last_seen: now,
        };
        self.known.insert(socket.id, known);
    }

    /// Counts one connection more; false if it had to be left out.
    fn count(&mut self, destination: Destination, now: Instant) -> bool {
        if !self.tallies.contains_key(&destination) && !self.make_room(now) {
            if self.left_out == 0 {
                let most = self.max_destinations;
                tracing::warn!(most, "connections to more destinations are in no series");
            }
            self.left_out += 1;
            return false;
        }
        let fresh = Tally { opened: 0, open: 0, last_used: now };
        let tally = self.tallies.entry(destination).or_insert(fresh);
        tally.opened += 1;
        tally.last_used = now;
        true
    }

    /// Whether one more destination has its place, if need be that of one that is not shown.
    fn make_room(&mut self, now: Instant) -> bool {
        if self.tallies.len() < self.max_destinations {
            return true;
        }
        let unused = self.tallies.iter().filter(|(_, tally)| tally.unused(self.keep_unused, now));
        let oldest = unused.min_by_key(|(_, tally)| tally.last_used).map(|(at, _)| *at);
        oldest.is_some_and(|oldest| self.tallies.remove(&oldest).is_some())
    }

    fn forget(&mut self, now: Instant) {
        let remember = self.keep_unused.saturating_mul(2);
        self.tallies.retain(|_, tally| !tally.unused(remember, now));
    }
}

impl CountedConnection {
    /// Whether it is this one, rather than one before it with the same number.
    fn is(&self, socket: &Socket) -> bool {
        self.local == socket.local && self.destination == destination(socket.remote)
    }
}

impl Tally {
    fn unused(&self, duration: Duration, now: Instant) -> bool {
        self.open == 0 && now.duration_since(self.last_used) >= duration
    }
}

fn destination(remote: SocketAddr) -> Destination {
    Destination { ip: remote.ip(), port: remote.port() }
}
