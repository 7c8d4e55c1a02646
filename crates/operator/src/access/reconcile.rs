//! The family's controller: one session in five steps.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use sojourn_api::access::AccessConfig;
use sojourn_core::access::deciding::{Observed, SessionDecision, decide};
use sojourn_core::decision::Wake;
use sojourn_core::key::Key;

use super::caches::AccessCaches;
use super::cluster::Clusters;
use super::coverage::ClusterCoverage;
use super::metrics::TransitionCounts;
use super::observe::ObservedSession;
use super::report::Reports;
use super::snapshot::SessionSnapshot;
use crate::clock::Clock;
use crate::configuration::Configuration;
use crate::driver::Drivers;
use crate::event::Events;
use crate::family::WebService;
use crate::frame::status::Definitions;
use crate::frame::{Class, Reconciler, RequestError, Target};
use crate::link::Links;
use crate::outbox::Outbox;
use crate::replica::ReplicaRegistry;

/// The controller of sessions.
pub(crate) struct Access {
    pub(crate) client: Client,
    pub(crate) clock: Arc<dyn Clock>,
    /// When this process took over: what was under way before was another's.
    pub(crate) since: Timestamp,
    pub(crate) caches: Arc<AccessCaches>,
    pub(crate) config: Arc<Configuration<AccessConfig>>,
    pub(crate) reports: Reports,
    /// The other replicas, if there can be any.
    pub(crate) replicas: Option<Arc<ReplicaRegistry>>,
    /// What could be seen on the cluster of each session.
    pub(crate) coverage: Arc<ClusterCoverage>,
    pub(crate) clusters: Clusters,
    pub(crate) outbox: Outbox,
    pub(crate) events: Events,
    pub(crate) drivers: Arc<Drivers>,
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) counts: TransitionCounts,
    pub(crate) links: Links,
    /// What this process serves people.
    pub(crate) web: WebService,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

/// What was decided about a session; nothing, if nobody can tell what was asked for.
#[derive(Debug)]
pub(crate) struct DecidedSession {
    pub(crate) decision: Option<SessionDecision>,
    /// The time it was decided at.
    pub(crate) now: Timestamp,
}

impl Reconciler for Access {
    type Object = SessionSnapshot;
    type Observed = ObservedSession;
    type Decision = DecidedSession;
    type Error = RequestError;

    fn name(&self) -> &'static str {
        super::NAME
    }

    fn parse(&self, key: &Key) -> Target<SessionSnapshot> {
        let Some(read) = self.caches.sessions.get(key) else {
            self.outbox.forget(key);
            return Target::Gone;
        };
        match &*read {
            Err(problem) => {
                tracing::warn!(session = %key, problem, "unreadable");
                Target::Unusable
            }
            Ok(object)
                if self.definitions.is_waiting(object.metadata.uid.as_deref().unwrap_or("")) =>
            {
                Target::Unusable
            }
            Ok(object) => {
                let config = self.config.current();
                Target::Is(SessionSnapshot::of(&self.caches, key, object.clone(), config))
            }
        }
    }

    async fn observe(&self, snapshot: &SessionSnapshot) -> ObservedSession {
        self.observe_session(snapshot)
    }

    fn decide(
        snapshot: &SessionSnapshot,
        observed: &ObservedSession,
        now: Timestamp,
    ) -> DecidedSession {
        let Ok(session) = &snapshot.session else { return DecidedSession { decision: None, now } };
        let seen = Observed {
            usage: &observed.usage,
            coverage: &observed.coverage,
            siblings: &observed.siblings,
            outcomes: &observed.outcomes,
            channels_changed_at: observed.channels_changed_at,
            gone_replicas: &observed.gone_replicas,
            settings: observed.settings,
        };
        let decision = decide(snapshot.state.clone(), session, &seen, now);
        DecidedSession { decision: Some(decision), now }
    }

    async fn execute(
        &self,
        snapshot: &SessionSnapshot,
        _: &ObservedSession,
        decided: &DecidedSession,
    ) -> Result<(), RequestError> {
        let Some(decision) = &decided.decision else { return Ok(()) };
        self.execute_effects(snapshot, &decision.next.0, &decision.effects).await
    }

    async fn publish(
        &self,
        snapshot: &SessionSnapshot,
        observed: &ObservedSession,
        decided: &DecidedSession,
        executed: &Result<(), RequestError>,
    ) -> Result<Wake, RequestError> {
        self.publish_status(snapshot, observed, decided, executed).await
    }

    fn wake(decided: &DecidedSession) -> Wake {
        decided.decision.as_ref().map_or(Wake::OnChange, |decision| decision.wake)
    }

    fn class(error: &RequestError) -> Class {
        error.class()
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;
    use sojourn_core::access::deciding::Settings;
    use sojourn_core::access::session::State;
    use sojourn_core::access::usage::Usage;
    use sojourn_core::coverage::Coverage;

    use super::*;
    use crate::clock::SystemClock;
    use crate::frame::Queue;

    fn snapshot(idle_timeout: &str) -> SessionSnapshot {
        let object = json!({
            "apiVersion": "access.sojourn.dev/v1alpha1", "kind": "BreakglassSession",
            "metadata": {
                "name": "one", "namespace": "ops", "uid": "u-1",
                "creationTimestamp": "2026-11-17T08:00:00Z",
            },
            "spec": {
                "cluster": "prod", "user": "ada", "grantedGroup": "admins",
                "escalationRef": {"name": "e"}, "idleTimeout": idle_timeout, "maxValidFor": "8h",
            },
            "status": {
                "state": "Approved", "approvedAt": "2026-11-17T08:00:00Z",
                "activatedAt": "2026-11-17T08:00:00Z", "expiresAt": "2026-11-17T16:00:00Z",
            },
        });
        let caches = AccessCaches::new(Arc::new(Queue::new(Arc::new(SystemClock))));
        let object = serde_json::from_value(object).unwrap();
        SessionSnapshot::of(&caches, &Key::new("ops", "one"), object, Arc::default())
    }

    fn observed(until: Timestamp) -> ObservedSession {
        let mut coverage = Coverage::starting(until - SignedDuration::from_hours(10));
        coverage.mark_observed(coverage.since(), until);
        ObservedSession {
            usage: Usage::default(),
            coverage,
            siblings: Vec::new(),
            outcomes: Vec::new(),
            channels_changed_at: None,
            gone_replicas: Vec::new(),
            settings: Settings { notify: true },
        }
    }

    // case: access 89
    #[test]
    fn one_whose_time_cannot_be_read_is_skipped_and_others_are_decided() {
        let now: Timestamp = "2026-11-17T09:00:00Z".parse().unwrap();
        let (unreadable, readable) = (snapshot("soon"), snapshot("30m"));
        assert!(unreadable.session.as_ref().unwrap_err().contains("idleTimeout"));
        assert!(Access::decide(&unreadable, &observed(now), now).decision.is_none());
        let decided = Access::decide(&readable, &observed(now), now).decision.unwrap();
        assert_eq!(decided.next.0.state, Some(State::IdleExpired));
    }
}
