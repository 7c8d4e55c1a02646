//! The family's controller: one Instance in five steps.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use sojourn_api::lab::LabConfig;
use sojourn_api::lab::convert::{CheckTarget, check_target};
use sojourn_api::lab::instance::Instance;
use sojourn_core::coverage::Coverage;
use sojourn_core::decision::Wake;
use sojourn_core::key::Key;
use sojourn_core::lab::observed::Observed;
use sojourn_core::lab::runtime::Runtime;
use sojourn_core::lab::{LabDecision, decide};
use sojourn_drivers::probe::{Codes, Observation, Target as ProbeTarget};

use super::activity;
use super::caches::LabCaches;
use super::observe::ObservedInstance;
use super::orphaned_claim::OrphanedClaims;
use super::prober::Prober;
use super::runtime::{Restarts, runtime};
use super::snapshot::InstanceSnapshot;
use crate::clock::Clock;
use crate::collector::{CoverageRegistry, CoverageStore};
use crate::configuration::Configuration;
use crate::driver::Drivers;
use crate::event::Events;
use crate::family::{ProgramPath, WebService};
pub(crate) use crate::frame::RequestError as LabError;
use crate::frame::status::Definitions;
use crate::frame::{Class, Reconciler, Target};
use crate::installation_key::InstallationKey;
use crate::link::Links;
use crate::outbox::Outbox;
use crate::replica::{ReplicaName, ReplicaRegistry};
use crate::tracker::Tracker;

/// The controller of Instances.
pub(crate) struct Lab {
    pub(crate) client: Client,
    pub(crate) clock: Arc<dyn Clock>,
    /// When this process took over: what was under way before was another's.
    pub(crate) since: Timestamp,
    pub(crate) caches: Arc<LabCaches>,
    pub(crate) config: Arc<Configuration<LabConfig>>,
    pub(crate) tracker: Tracker,
    /// What this process is called among the replicas, if there can be others.
    pub(crate) own_name: Option<ReplicaName>,
    pub(crate) replicas: Option<Arc<ReplicaRegistry>>,
    pub(crate) coverage_registry: Arc<CoverageRegistry>,
    pub(super) coverage_store: Arc<CoverageStore>,
    pub(crate) outbox: Outbox,
    pub(crate) prober: Prober,
    pub(super) orphaned_claims: OrphanedClaims,
    pub(crate) events: Events,
    pub(crate) links: Links,
    pub(crate) installation_key: InstallationKey,
    pub(crate) drivers: Arc<Drivers>,
    pub(crate) restarts: Restarts,
    pub(crate) definitions: Arc<Definitions>,
    pub(crate) web: WebService,
    pub(crate) own_program: ProgramPath,
}

impl std::fmt::Debug for Lab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lab").finish_non_exhaustive()
    }
}

/// Everything that was decided about an Instance.
#[derive(Debug)]
pub(crate) struct InstanceDecision {
    pub(crate) lifecycle: Option<LabDecision>,
    pub(crate) runtime: Option<Runtime>,
    /// The time it was decided at.
    pub(crate) now: Timestamp,
}

impl Reconciler for Lab {
    type Object = InstanceSnapshot;
    type Observed = ObservedInstance;
    type Decision = InstanceDecision;
    type Error = LabError;

    fn name(&self) -> &'static str {
        "lab"
    }

    fn parse(&self, key: &Key) -> Target<InstanceSnapshot> {
        let config = self.config.current();
        let configured =
            activity::configured_sources(&config, &activity::pushed_sources(&self.web));
        match InstanceSnapshot::find(&self.caches, key, config, &configured) {
            Some(snapshot) if self.is_unwritable(&snapshot) => Target::Unusable,
            Some(snapshot) => Target::Is(snapshot),
            None => {
                if self.caches.instances.get(key).is_none() {
                    self.orphaned_claims.consider(key);
                    self.forget(key);
                }
                Target::Gone
            }
        }
    }

    async fn observe(&self, snapshot: &InstanceSnapshot) -> ObservedInstance {
        self.observe_instance(snapshot).await
    }

    fn decide(
        snapshot: &InstanceSnapshot,
        observed: &ObservedInstance,
        now: Timestamp,
    ) -> InstanceDecision {
        let Ok(intent) = &snapshot.intent else {
            return InstanceDecision { lifecycle: None, runtime: None, now };
        };
        let coverage: Vec<&Coverage> =
            snapshot.required.iter().map(|source| observed.coverage.coverage(*source)).collect();
        let runtime = runtime(snapshot, intent, observed, now);
        let seen = Observed {
            activity: observed.activity,
            coverage: &coverage,
            blind: blind_since(&coverage, now, intent.created_at),
            outcomes: &observed.outcomes,
            channels_changed_at: observed.channels_changed_at,
            pods: runtime.pods,
            pods_since: observed.pods_since,
            check: observed.check.as_ref().map(|found| found.check),
            claims: &observed.claims,
            namespace_terminating: snapshot.namespace_terminating,
            jobs: &observed.jobs,
        };
        let lifecycle = decide(snapshot.state.clone(), &seen, intent, now);
        InstanceDecision { lifecycle: Some(lifecycle), runtime: Some(runtime), now }
    }

    async fn execute(
        &self,
        snapshot: &InstanceSnapshot,
        _: &ObservedInstance,
        decision: &InstanceDecision,
    ) -> Result<(), LabError> {
        let Some(instance) = snapshot.instance() else { return Ok(()) };
        self.ensure_finalizer(snapshot, instance).await?;
        if let Some(plan) = &decision.runtime {
            self.apply_runtime(snapshot, instance, plan).await?;
        }
        if let Some(lifecycle) = &decision.lifecycle {
            self.execute_effects(snapshot, instance, &lifecycle.next, &lifecycle.effects).await?;
        }
        Ok(())
    }

    async fn publish(
        &self,
        snapshot: &InstanceSnapshot,
        observed: &ObservedInstance,
        decision: &InstanceDecision,
        executed: &Result<(), LabError>,
    ) -> Result<Wake, LabError> {
        self.publish_status(snapshot, observed, decision, executed).await
    }

    fn wake(decision: &InstanceDecision) -> Wake {
        Self::next_look(decision)
    }

    fn class(error: &LabError) -> Class {
        error.class()
    }
}

/// Since when a source has been blind. One that never saw anything has been for as long as the
/// object is there; before, it does not matter.
fn blind_since(coverage: &[&Coverage], now: Timestamp, created: Timestamp) -> Option<Timestamp> {
    let blind = coverage.iter().filter_map(|source| source.blind_since(now)).min();
    blind.map(|since| since.max(created))
}

impl Lab {
    /// Whether nothing can be recorded about it, so that nothing may be decided either.
    fn is_unwritable(&self, snapshot: &InstanceSnapshot) -> bool {
        let uid = snapshot.instance().and_then(|instance| instance.metadata.uid.as_deref());
        uid.is_some_and(|uid| self.definitions.is_waiting(uid))
    }

    /// The object is gone: what memory holds of it may go, too.
    fn forget(&self, key: &Key) {
        self.tracker.forget(key);
        self.outbox.forget(key);
        self.prober.forget(key);
    }

    /// How to find out about the Instance's status.
    pub(super) fn status_probe(
        &self,
        snapshot: &InstanceSnapshot,
        instance: &Instance,
    ) -> Option<StatusProbe> {
        let timeout_of =
            |span: jiff::SignedDuration| Duration::try_from(span).unwrap_or(Duration::from_secs(3));
        let timeout = match check_target(instance)? {
            CheckTarget::Contract { url, timeout, keep, end } => {
                return Some(StatusProbe::Probe(ProbeTarget::Contract {
                    url,
                    timeout: timeout_of(timeout),
                    keep: Codes::parse(keep.iter().map(String::as_str)).ok()?,
                    end: Codes::parse(end.iter().map(String::as_str)).ok()?,
                }));
            }
            CheckTarget::Reachability { timeout } => timeout_of(timeout),
        };
        let listening = match snapshot.template() {
            Some(template) => {
                let mut all = template.spec.environment_list.iter();
                all.find(|one| !one.ports.is_empty()).map(|one| one.name.clone())
            }
            // It runs on without its Template, and answers where it did.
            None => {
                let mut all = instance.status.iter().flat_map(|status| &status.environments);
                all.find(|one| one.url.is_some() || one.port.is_some()).map(|one| one.name.clone())
            }
        };
        let Some(environment) = listening else {
            let words = "none of its environments listens anywhere".to_owned();
            return Some(StatusProbe::Known(Observation::Unclear(words)));
        };
        Some(match self.caches.endpoint(&snapshot.key, &environment) {
            Some(endpoint) => {
                StatusProbe::Probe(ProbeTarget::Reach { endpoint, http: true, timeout })
            }
            None => {
                let words = format!("{environment} has no Pod with an address");
                StatusProbe::Known(Observation::Unreachable(words))
            }
        })
    }
}

/// How the status of an Instance is found out.
#[derive(Debug)]
pub(super) enum StatusProbe {
    /// By asking.
    Probe(ProbeTarget),
    /// It is known already.
    Known(Observation),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_never_saw_has_been_blind_since_the_object_is_there() {
        let created: Timestamp = "2026-11-16T04:00:00Z".parse().unwrap();
        let now: Timestamp = "2026-11-16T05:00:00Z".parse().unwrap();
        let never = Coverage::starting(Timestamp::MIN);
        assert_eq!(blind_since(&[&never], now, created), Some(created));
        let mut lost = Coverage::starting(created);
        let half: Timestamp = "2026-11-16T04:30:00Z".parse().unwrap();
        lost.mark_observed(created, half);
        lost.mark_blind(half, now);
        assert_eq!(blind_since(&[&lost], now, created), Some(half));
        assert_eq!(blind_since(&[], now, created), None);
    }
}
