//! What is wanted of a cluster: its spec, labels and annotations, and the configuration, as values.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::call::RetryPolicy;
use super::machine::Stopped;
use super::power::{Direction, Wanted};
use crate::moment::saturating_add;
use crate::notice::OnUndeliverable;
use crate::schedule::Cron;
use crate::term::Term;

/// When a cluster is to hibernate and to resume, by the clock on a wall.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// As it was written: a schedule that is written otherwise begins anew.
    pub text: String,
    pub hibernate: Option<Cron>,
    pub resume: Option<Cron>,
    pub zone: TimeZone,
}

/// Who can stop and start its machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    Actuated(Stopped),
    /// No actuator can handle it.
    Unsupported,
}

/// What has to hold in the cluster before it counts as running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadinessGates {
    pub nodes: bool,
    pub cluster_operators: bool,
    /// Selectors of workloads.
    pub workloads: Vec<String>,
}

/// What becomes of an operation that takes too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnTimeout {
    #[default]
    Report,
    Retry,
    RollBack,
}

/// What becomes of machines that somebody else moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDrift {
    /// It is shown, and nothing is called.
    Report,
    #[default]
    Enforce,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    pub stop: Term,
    pub resume: Term,
}

impl Timeouts {
    pub const fn of(self, direction: Direction) -> Term {
        match direction {
            Direction::Hibernate => self.stop,
            Direction::Resume => self.resume,
        }
    }
}

/// A cluster that belongs to a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolMembership {
    /// None: nobody has claimed it yet.
    pub claimed_at: Option<Timestamp>,
}

/// What is wanted of one cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    pub uid: String,
    /// Of the spec.
    pub generation: i64,
    pub created_at: Timestamp,
    /// Somebody deletes it.
    pub deleting: bool,
    /// An annotation says hands off.
    pub paused: bool,
    /// Decide and publish, execute nothing.
    pub observe: bool,
    pub keep_until: Option<Timestamp>,
    pub installed: bool,
    pub wanted: Wanted,
    /// When somebody else than us last wrote the power state, where that is known.
    pub wanted_written_at: Option<Timestamp>,
    pub platform: Platform,
    /// An annotation says to do as if no actuator could handle it.
    pub infra_disabled: bool,
    /// An annotation says to make believe.
    pub fake: bool,
    pub hibernate_after: Option<SignedDuration>,
    pub schedules: Vec<Schedule>,
    pub pool: Option<PoolMembership>,
    /// Whether its API can be asked at all; without that, machines that run are enough.
    pub has_kubeconfig: bool,
    pub gates: ReadinessGates,
    /// A label says not to wait for operators.
    pub skips_cluster_operators: bool,
    pub timeouts: Timeouts,
    pub on_timeout: OnTimeout,
    pub on_drift: OnDrift,
    /// Whether there are contacts to be told.
    pub has_contacts: bool,
    /// Copies that only we hold outlive the object.
    pub preserve_on_delete: bool,
    pub has_finalizer: bool,
}

impl Intent {
    /// What stopping makes of its machines, if somebody can stop them.
    pub const fn stopped(&self) -> Option<Stopped> {
        match self.platform {
            Platform::Actuated(stopped) if !self.infra_disabled => Some(stopped),
            Platform::Actuated(_) | Platform::Unsupported => None,
        }
    }
}

/// How often to look while something moves: soon at first, ever later, and never later than `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    pub min: SignedDuration,
    pub max: SignedDuration,
}

impl Poll {
    /// When to look next at what has moved since then: after as long again.
    pub fn next(self, since: Timestamp, now: Timestamp) -> Timestamp {
        let elapsed = now.duration_since(since);
        saturating_add(now, elapsed.min(self.max).max(self.min))
    }
}

/// What the installation wants of every cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// While machines start or stop.
    pub machine_poll: Poll,
    /// While nodes come back, and CSRs with them.
    pub node_poll: Poll,
    /// While operators settle down.
    pub operator_poll: Poll,
    pub retry: RetryPolicy,
    /// So long a call may take to show.
    pub call_visibility: SignedDuration,
    /// So long after its installation a cluster waits for its first sync.
    pub sync_grace: SignedDuration,
    /// Between nodes that are ready and the first look at operators.
    pub settle: SignedDuration,
    /// When to look again after spot machines were replaced.
    pub replacement_wait: SignedDuration,
    /// How often machines of a settled cluster are listed.
    pub drift_interval: SignedDuration,
    /// How often a cluster is probed that could be reached.
    pub probe_interval: SignedDuration,
    /// How often one is probed that could not.
    pub probe_poll: Poll,
    /// So long after it became ready CSRs of a cluster are still approved.
    pub csr_window: SignedDuration,
    /// So long before a hibernation contacts are told.
    pub announce_before: SignedDuration,
    /// How long a delivery may take.
    pub delivery: SignedDuration,
    pub on_undeliverable: OnUndeliverable,
}

impl Settings {
    pub const DEFAULT: Self = Self {
        machine_poll: Poll {
            min: SignedDuration::from_secs(10),
            max: SignedDuration::from_mins(1),
        },
        node_poll: Poll { min: SignedDuration::from_secs(10), max: SignedDuration::from_secs(30) },
        operator_poll: Poll {
            min: SignedDuration::from_secs(10),
            max: SignedDuration::from_secs(30),
        },
        retry: RetryPolicy {
            min: SignedDuration::from_secs(10),
            max: SignedDuration::from_mins(5),
            auth: SignedDuration::from_mins(5),
            accepted: SignedDuration::from_mins(1),
        },
        call_visibility: SignedDuration::from_mins(2),
        sync_grace: SignedDuration::from_mins(10),
        settle: SignedDuration::from_mins(2),
        replacement_wait: SignedDuration::from_mins(4),
        drift_interval: SignedDuration::from_mins(10),
        probe_interval: SignedDuration::from_hours(2),
        probe_poll: Poll { min: SignedDuration::from_secs(10), max: SignedDuration::from_mins(5) },
        csr_window: SignedDuration::from_mins(10),
        announce_before: SignedDuration::from_mins(15),
        delivery: SignedDuration::from_mins(1),
        on_undeliverable: OnUndeliverable::ProceedAfter(SignedDuration::from_hours(1)),
    };
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}
