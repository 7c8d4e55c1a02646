//! Observe: what can be seen of a session, from caches and from memory. Nothing is written.

use jiff::{SignedDuration, Timestamp};
use sojourn_core::access::deciding::{Settings, Sibling};
use sojourn_core::access::usage::{BASE, ReplicaUse, Usage};
use sojourn_core::coverage::Coverage;
use sojourn_core::notice::DeliveryOutcome;

use super::coverage::SOURCE;
use super::reconcile::Access;
use super::snapshot::SessionSnapshot;
use crate::replica::ReplicaRegistry;

/// A replica tells of itself a moment after it wrote.
const HEARTBEAT_DELAY: SignedDuration = SignedDuration::from_secs(5);

/// What was seen.
#[derive(Debug)]
pub(crate) struct ObservedSession {
    /// What the object holds, with what this replica has in memory.
    pub(crate) usage: Usage,
    pub(crate) coverage: Coverage,
    pub(crate) siblings: Vec<Sibling>,
    pub(crate) outcomes: Vec<DeliveryOutcome>,
    pub(crate) channels_changed_at: Option<Timestamp>,
    /// Replicas that the object names and that are gone.
    pub(crate) gone_replicas: Vec<String>,
    pub(crate) settings: Settings,
}

impl Access {
    pub(super) fn observe_session(&self, snapshot: &SessionSnapshot) -> ObservedSession {
        ObservedSession {
            usage: self.usage(snapshot),
            coverage: self.coverage(snapshot),
            siblings: self.caches.siblings(&snapshot.key, &snapshot.object),
            outcomes: self.outbox.outcomes(
                &snapshot.key,
                &snapshot.state.outbox.notices,
                self.since,
            ),
            channels_changed_at: self.drivers.rebuilt_at(),
            gone_replicas: self.gone_replicas(snapshot),
            settings: Settings { notify: snapshot.config.enable_notifications },
        }
    }

    /// Use that waits to be written has been, although the object does not count it yet.
    fn usage(&self, snapshot: &SessionSnapshot) -> Usage {
        match self.reports.waiting(&snapshot.key, snapshot.uid()) {
            None => snapshot.usage.clone(),
            Some((first, last)) => {
                let replica = self.reports.replica().as_str();
                snapshot.usage.with_report(replica, first, last, 0)
            }
        }
    }

    /// What the canaries of its cluster saw, as far as the replicas to which the session was used have written what they saw.
    fn coverage(&self, snapshot: &SessionSnapshot) -> Coverage {
        let cluster = &snapshot.object.spec.cluster;
        let is_own = snapshot.config.is_own_cluster(cluster);
        let seen = self.coverage.read(cluster, is_own).coverage(SOURCE).clone();
        let Some(replicas) = &self.replicas else { return seen };
        let lag = snapshot.config.activity_interval.saturating_add(HEARTBEAT_DELAY);
        covered(seen, replicas.as_ref(), &snapshot.usage, lag)
    }

    fn gone_replicas(&self, snapshot: &SessionSnapshot) -> Vec<String> {
        let own = self.reports.replica().as_str();
        let is_gone = |name: &str, seen: &ReplicaUse| match &self.replicas {
            _ if name == BASE || name == own => false,
            // It was there when it saw that.
            Some(replicas) => replicas.is_gone_since(name, seen.last.unwrap_or(Timestamp::MIN)),
            // There can be no others.
            None => true,
        };
        let named = snapshot.usage.replicas.iter();
        named.filter(|(name, seen)| is_gone(name, seen)).map(|(name, _)| name.clone()).collect()
    }
}

/// What was seen ends where a replica that the session names has not written yet what it saw.
fn covered(
    seen: Coverage,
    replicas: &ReplicaRegistry,
    usage: &Usage,
    lag: SignedDuration,
) -> Coverage {
    let settled = usage.replicas.keys().filter_map(|name| replicas.settled(name)).min();
    settled_until(seen, settled, lag)
}

fn settled_until(seen: Coverage, settled: Option<Timestamp>, lag: SignedDuration) -> Coverage {
    match settled {
        Some(settled) if settled < seen.until() => {
            let lag = seen.lag().max(lag);
            Coverage::restore(seen.since(), settled, seen.gaps()).lagging(lag)
        }
        Some(_) | None => seen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_900_000_000 + seconds).unwrap()
    }

    #[test]
    fn nothing_is_known_to_be_unused_while_a_replica_has_not_written_what_it_saw() {
        let mut seen = Coverage::starting(at(0)).lagging(SignedDuration::from_secs(10));
        seen.mark_observed(at(0), at(600));
        let lag = SignedDuration::from_secs(35);
        assert_eq!(settled_until(seen.clone(), None, lag), seen);
        assert_eq!(settled_until(seen.clone(), Some(at(700)), lag), seen);
        let cut = settled_until(seen.clone(), Some(at(580)), lag);
        assert_eq!((cut.until(), cut.lag()), (at(580), lag));
        assert_eq!(cut.blind_since(at(600)), None, "it tells of itself every so often");
        assert_eq!(cut.blind_since(at(700)), Some(at(580)), "it should have told by now");
    }
}
