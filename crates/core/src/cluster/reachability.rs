//! Whether the API of a cluster can be reached: the condition `Unreachable`, and what it stops.

use jiff::{SignedDuration, Timestamp};

use super::intent::Settings;
use super::power::{ConditionStatus, Direction, Wanted};
use super::tick::next_tick;
use crate::moment::{ceil_second, saturating_add};

/// What came of a probe of `/readyz`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    pub at: Timestamp,
    pub result: Result<(), String>,
}

/// The reasons of the condition `Unreachable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum ReachabilityReason {
    /// It was never probed.
    #[default]
    Initialized,
    ClusterReachable,
    ErrorConnectingToCluster,
    /// It sleeps, so that nobody answers is as it should be.
    Hibernating,
}

impl ReachabilityReason {
    pub const ALL: [Self; 4] = [
        Self::Initialized,
        Self::ClusterReachable,
        Self::ErrorConnectingToCluster,
        Self::Hibernating,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initialized => "Initialized",
            Self::ClusterReachable => "ClusterReachable",
            Self::ErrorConnectingToCluster => "ErrorConnectingToCluster",
            Self::Hibernating => "Hibernating",
        }
    }

    /// The status of the condition, which is True where it cannot be reached.
    pub const fn status(self) -> ConditionStatus {
        match self {
            Self::Initialized => ConditionStatus::Unknown,
            Self::ClusterReachable => ConditionStatus::False,
            Self::ErrorConnectingToCluster | Self::Hibernating => ConditionStatus::True,
        }
    }
}

/// The condition, with since when it is so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reachability {
    pub reason: ReachabilityReason,
    pub since: Option<Timestamp>,
    /// What the probe that found it out came to.
    pub message: Option<String>,
}

impl Reachability {
    /// What it is after a look. A probe that was made before it fell asleep says nothing any more.
    #[must_use]
    pub fn observe(self, settled: Option<Wanted>, probe: Option<&Probe>, now: Timestamp) -> Self {
        if settled == Some(Wanted::Hibernating) {
            return self.become_reason(ReachabilityReason::Hibernating, None, now);
        }
        let current = match self.reason {
            // It does not sleep any more, and nobody has reached it yet.
            ReachabilityReason::Hibernating => {
                let reason = ReachabilityReason::ErrorConnectingToCluster;
                let message = "it was not reached yet since it slept".to_owned();
                Self { reason, since: self.since, message: Some(message) }
            }
            ReachabilityReason::Initialized
            | ReachabilityReason::ClusterReachable
            | ReachabilityReason::ErrorConnectingToCluster => self,
        };
        current.take_in(probe, now)
    }

    fn take_in(self, probe: Option<&Probe>, now: Timestamp) -> Self {
        match probe.map(|probe| (&probe.result, probe.at)) {
            None => self,
            Some((_, at)) if self.since.is_some_and(|since| at < since) => self,
            Some((Ok(()), _)) => {
                self.become_reason(ReachabilityReason::ClusterReachable, None, now)
            }
            Some((Err(message), _)) => {
                let reason = ReachabilityReason::ErrorConnectingToCluster;
                self.become_reason(reason, Some(message.clone()), now)
            }
        }
    }

    /// Another message alone is no change: what fails may fail in other words each time.
    fn become_reason(
        self,
        reason: ReachabilityReason,
        message: Option<String>,
        now: Timestamp,
    ) -> Self {
        if self.reason == reason && self.since.is_some() {
            return self;
        }
        Self { reason, since: Some(now), message }
    }

    /// Whether anything but a resume may be done in the cluster.
    pub const fn allows_remote_work(&self) -> bool {
        match self.reason {
            ReachabilityReason::Initialized | ReachabilityReason::ClusterReachable => true,
            ReachabilityReason::ErrorConnectingToCluster | ReachabilityReason::Hibernating => false,
        }
    }

    /// Whether an operation that goes this way may work in the cluster.
    pub const fn allows(&self, direction: Direction) -> bool {
        match direction {
            Direction::Resume => true,
            Direction::Hibernate => self.allows_remote_work(),
        }
    }

    /// When it is probed next; not while it sleeps.
    pub fn next_probe(&self, uid: &str, settings: &Settings, now: Timestamp) -> Option<Timestamp> {
        match self.reason {
            ReachabilityReason::Hibernating => None,
            ReachabilityReason::Initialized => Some(now),
            ReachabilityReason::ClusterReachable => {
                Some(next_tick(settings.probe_interval, uid, now))
            }
            ReachabilityReason::ErrorConnectingToCluster => {
                let since = self.since.unwrap_or(now);
                Some(ceil_second(settings.probe_poll.next(since, now)))
            }
        }
    }

    /// Whether it is to be probed now, if it was last probed then.
    pub fn is_probe_due(
        &self,
        last: Option<Timestamp>,
        uid: &str,
        settings: &Settings,
        now: Timestamp,
    ) -> bool {
        let Some(last) = last else { return self.reason != ReachabilityReason::Hibernating };
        // Seen from the last probe, so that looking more often does not put the next one off.
        self.next_probe(uid, settings, last)
            .is_some_and(|next| next.max(saturating_add(last, SignedDuration::from_secs(1))) <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn probed(seconds: i64, result: Result<(), &str>) -> Probe {
        Probe { at: at(seconds), result: result.map_err(str::to_owned) }
    }

    // case: cluster U01
    #[test]
    fn a_cluster_that_sleeps_is_unreachable_and_only_a_resume_works_in_it() {
        let reachable = Reachability::default().observe(None, Some(&probed(0, Ok(()))), at(0));
        assert!(reachable.allows_remote_work());
        let failed = probed(10, Err("connection refused"));
        let asleep = reachable.observe(Some(Wanted::Hibernating), Some(&failed), at(10));
        assert_eq!(asleep.reason, ReachabilityReason::Hibernating);
        assert_eq!(asleep.reason.status(), ConditionStatus::True);
        assert!(!asleep.allows_remote_work());
        assert!(asleep.allows(Direction::Resume) && !asleep.allows(Direction::Hibernate));
        assert_eq!(asleep.next_probe("u1", &Settings::DEFAULT, at(20)), None);
        assert!(!asleep.is_probe_due(None, "u1", &Settings::DEFAULT, at(20)));
        let awake = asleep.observe(None, Some(&probed(5, Ok(()))), at(30));
        assert!(!awake.allows_remote_work(), "that probe was before");
        assert!(awake.is_probe_due(Some(at(5)), "u1", &Settings::DEFAULT, at(30)));
        let awake = awake.observe(None, Some(&probed(31, Ok(()))), at(31));
        assert_eq!(awake.reason.status(), ConditionStatus::False);
    }

    #[test]
    fn what_cannot_be_reached_is_probed_ever_less_often_and_is_written_once() {
        let settings = Settings::DEFAULT;
        let first = Reachability::default().observe(None, Some(&probed(0, Err("no route"))), at(0));
        let waits = [0, 30, 400].map(|seconds| {
            let next = first.next_probe("u1", &settings, at(seconds)).unwrap();
            next.duration_since(at(seconds)).as_secs()
        });
        assert_eq!(waits, [10, 30, 300]);
        let again = first.clone().observe(None, Some(&probed(60, Err("timeout"))), at(60));
        assert_eq!(again, first);
        assert!(first.is_probe_due(Some(at(0)), "u1", &settings, at(10)));
        assert!(!first.is_probe_due(Some(at(0)), "u1", &settings, at(9)));
    }

    #[test]
    fn what_can_be_reached_is_probed_every_two_hours_at_its_own_time() {
        let settings = Settings::DEFAULT;
        let reachable = Reachability::default().observe(None, Some(&probed(0, Ok(()))), at(0));
        let next = reachable.next_probe("u1", &settings, at(0)).unwrap();
        assert!(next > at(0) && next <= at(7200));
        let after = reachable.next_probe("u1", &settings, next).unwrap();
        assert_eq!(after.duration_since(next), SignedDuration::from_hours(2));
        assert_ne!(reachable.next_probe("u2", &settings, at(0)).unwrap(), next);
    }
}
