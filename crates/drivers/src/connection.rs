//! TCP connections that this host has opened, counted by destination: how SSH use through a bastion
//! host becomes activity.
//!
//! | part       | does                                                                          |
//! |------------|-------------------------------------------------------------------------------|
//! | `diag`     | asks the kernel for all sockets, and hears of each one that closes            |
//! | `procfs`   | reads the same from `/proc`, where the kernel cannot be asked                 |
//! | `counts`   | counts each connection once, and bounds what is remembered                    |
//! | `exporter` | serves `/metrics` and `/healthz`                                              |
//!
//! Sockets are looked at once per interval. A connection that begins and ends between two looks is
//! still counted where the kernel tells of closed sockets; where it does not, such a connection is
//! missed, and a line in the log says so at the start. Nothing here needs a capability.

mod counts;
mod diag;
mod exporter;
mod ports;
mod procfs;
mod socket;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{Instant, MissedTickBehavior};

use self::counts::ConnectionCounts;
use self::diag::Closings;
use self::exporter::Exporter;
pub use self::ports::{Ports, PortsError};
use self::socket::{Closed, Snapshot};

/// Shorter intervals cost more than they gain.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// So many intervals without a successful look are a failure, even if none failed.
const MISSED_POLLS: u32 = 10;

/// What to count, and how much of it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Destination ports that count.
    pub ports: Ports,
    /// Between two polls.
    pub interval: Duration,
    /// No more destinations than this have series.
    pub max_destinations: usize,
    /// How long a destination that is not used keeps its series. Never under an hour, so that no
    /// series goes before it was scraped.
    pub keep_unused: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ports: Ports::default(),
            interval: Duration::from_secs(1),
            max_destinations: 10_000,
            keep_unused: Duration::from_hours(24),
        }
    }
}

/// Why tracking ended.
#[derive(Debug, thiserror::Error)]
pub enum TrackError {
    #[error("cannot serve metrics: {0}")]
    Serve(#[source] io::Error),
}

/// Why sockets could not be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("cannot ask the kernel for TCP sockets: {0}")]
    Ask(#[source] io::Error),
    #[error("the kernel's answer about TCP sockets makes no sense: {0}")]
    Understand(&'static str),
    #[error("cannot read {path}: {source}")]
    ReadFile { path: &'static str, source: io::Error },
    #[error("a line of {path} makes no sense")]
    ReadLine { path: &'static str },
}

/// Counts, and serves the counts on the listener, until it is dropped or the listener fails.
pub async fn track(options: Options, listener: TcpListener) -> Result<(), TrackError> {
    let interval = options.interval.max(MIN_POLL_INTERVAL);
    let tracker = Arc::new(Tracker::new(options, interval));
    let exporter = Exporter::new(Arc::clone(&tracker));
    tokio::select! {
        served = axum::serve(listener, exporter.router()) => served.map_err(TrackError::Serve),
        () = watch(&tracker, interval) => Ok(()),
    }
}

/// The counts, shared by the task that polls sockets and the exporter.
#[derive(Debug)]
struct Tracker {
    counts: Mutex<ConnectionCounts>,
    health: Mutex<Health>,
    /// The age at which the last successful look is too old.
    too_old: Duration,
}

#[derive(Debug)]
struct Health {
    last_look: Option<Instant>,
    failure: Option<String>,
}

impl Tracker {
    fn new(options: Options, interval: Duration) -> Self {
        Self {
            counts: Mutex::new(ConnectionCounts::new(options)),
            health: Mutex::new(Health { last_look: None, failure: None }),
            too_old: interval * MISSED_POLLS,
        }
    }

    fn counts(&self) -> MutexGuard<'_, ConnectionCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a snapshot of sockets, or that reading them failed.
    fn record_snapshot(&self, read_sockets: Result<Snapshot, ReadError>, now: Instant) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match read_sockets {
            Ok(snapshot) => {
                self.counts().observe(snapshot, now);
                if health.failure.take().is_some() {
                    tracing::info!("TCP connections can be read again");
                }
                health.last_look = Some(now);
            }
            Err(error) => {
                if health.failure.is_none() {
                    tracing::warn!(%error, "TCP connections cannot be read");
                }
                health.failure = Some(error.to_string());
            }
        }
    }

    fn closed(&self, closed: &Closed, now: Instant) {
        self.counts().closed(closed, now);
    }

    /// Whether the counts can be trusted, or why not.
    fn health(&self, now: Instant) -> Result<(), String> {
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match (&health.failure, health.last_look) {
            (Some(failure), _) => Err(failure.clone()),
            (None, None) => Err("TCP connections have not been read yet".to_owned()),
            (None, Some(last)) if now.duration_since(last) > self.too_old => {
                Err(format!("TCP connections have not been read for {:?}", self.too_old))
            }
            (None, Some(_)) => Ok(()),
        }
    }
}

/// Polls sockets for ever.
async fn watch(tracker: &Tracker, interval: Duration) {
    let source = Source::choose();
    let closings = source.closings();
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = Instant::now();
        for closed in closings.iter().flat_map(Closings::take) {
            tracker.closed(&closed, now);
        }
        tracker.record_snapshot(source.read_sockets(), now);
    }
}

/// Where sockets are read. Chosen once, since a socket has another number in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Kernel,
    Files,
}

impl Source {
    fn choose() -> Self {
        match diag::read_sockets() {
            Ok(_) => Self::Kernel,
            Err(error) => {
                tracing::info!(%error, "TCP connections are read from /proc instead");
                Self::Files
            }
        }
    }

    fn read_sockets(self) -> Result<Snapshot, ReadError> {
        match self {
            Self::Kernel => diag::read_sockets(),
            Self::Files => procfs::read_sockets(),
        }
    }

    fn closings(self) -> Option<Closings> {
        let subscribed = match self {
            Self::Kernel => Closings::subscribe(),
            Self::Files => Err(io::Error::from(io::ErrorKind::Unsupported)),
        };
        let missed = "connections that are shorter than the interval may be missed";
        subscribed.inspect_err(|error| tracing::info!(%error, "{missed}")).ok()
    }
}
