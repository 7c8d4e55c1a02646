//! Execute: what was decided, as calls beside the controller and as writes to the API. Nothing is chosen here; every
//! write carries what makes it harmless when it comes too late or twice.

use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use kube::{Api, Resource as _, ResourceExt as _};
use serde_json::json;
use sojourn_api::cluster::ClusterDeployment;
use sojourn_api::cluster::deployment::WantedPowerState;
use sojourn_api::cluster::name::FINALIZER;
use sojourn_api::name::shared;
use sojourn_core::cluster::{Approval, Effect, OperationId, Replacement, Trigger, Wanted};

use super::calls::MachineCall;
use super::family::Family;
use super::lookups::Asker;
use super::memory::Gone;
use super::notice::{self, NoticeContext};
use super::question::{Place, Way};
use super::reconcile::DecidedCluster;
use super::snapshot::ClusterSnapshot;
use super::written::{self, Written};
use crate::event::{Severity, normal};
use crate::frame::RequestError;
use crate::frame::write::{self, ObjectVersion, finalizers, with_finalizer, without_finalizer};
use crate::outbox::Attempt;

const WRITE_POWER_STATE: &str = "write the power state of a ClusterDeployment";

impl Family {
    /// Carries out what was decided. What fails keeps nothing else from being tried; the spec is written last, since
    /// the rest was decided about the spec as it was.
    pub(super) async fn apply_effects(
        &self,
        snapshot: &ClusterSnapshot,
        decided: &DecidedCluster,
    ) -> Result<(), RequestError> {
        let Some(decision) = &decided.decision else { return Ok(()) };
        // Before it is on record that another operation has begun, none of the one before begins.
        let acting = decision.next.operation_under_way().filter(|_| may_call(snapshot));
        self.calls.keep_only(&snapshot.uid(), acting.map(|operation| operation.id));
        let is_last = |effect: &&Effect| matches!(effect, Effect::WritePowerState { .. });
        let (last, first): (Vec<_>, Vec<_>) = decision.effects.iter().partition(is_last);
        let mut done = Ok(());
        for effect in first.into_iter().chain(last) {
            let applied = self.apply_effect(snapshot, decided, effect).await;
            done = done.and(applied);
        }
        done
    }

    async fn apply_effect(
        &self,
        snapshot: &ClusterSnapshot,
        decided: &DecidedCluster,
        effect: &Effect,
    ) -> Result<(), RequestError> {
        match effect {
            Effect::Stop { operation, machines } => {
                let calls = machines.iter().map(MachineCall::from).collect();
                self.call(snapshot, *operation, calls).await;
            }
            Effect::Start { operation, machines } => {
                let calls = machines.iter().map(MachineCall::start).collect();
                self.call(snapshot, *operation, calls).await;
            }
            Effect::WritePowerState { to, trigger, generation } => {
                return self.write_power_state(snapshot, *to, *trigger, *generation).await;
            }
            Effect::Replace { operation: _, machines } => self.replace(snapshot, machines),
            Effect::Approve { csrs } => self.approve(snapshot, csrs),
            Effect::Notify(recorded) => {
                let Some(cluster) = snapshot.cluster() else { return Ok(()) };
                let upcoming = decided.decision.as_ref().and_then(|one| one.next.upcoming.as_ref());
                let context = NoticeContext {
                    key: &snapshot.key,
                    contacts: &cluster.spec.contacts,
                    upcoming,
                    public_url: self.public_url(),
                    now: decided.now,
                };
                let sent = self.outbox.attempt(&snapshot.key, notice::notice(recorded, &context));
                if sent == Attempt::Busy {
                    tracing::warn!(cluster = %snapshot.key, "too many notices wait; it is tried again later");
                }
            }
            Effect::AddFinalizer => {
                let with = |all: &[String]| with_finalizer(all, FINALIZER);
                return self.set_finalizers(snapshot, with, "hold a ClusterDeployment").await;
            }
            Effect::RemoveFinalizer => {
                let without = |all: &[String]| without_finalizer(all, FINALIZER);
                let what = "let a ClusterDeployment go";
                return match self.set_finalizers(snapshot, without, what).await {
                    Err(RequestError::Gone { .. }) => Ok(()),
                    other => other,
                };
            }
            Effect::RemoveRecords => self.remove_records(snapshot),
            Effect::TellRecordsKept => {
                let place = self.place_of_records(snapshot);
                if let (Some(cluster), Some(place)) = (snapshot.cluster(), place) {
                    let told = [normal("RecordsKept", records_kept(&place))];
                    let about = cluster.object_ref(&());
                    self.events.publish_transitions(&about, &told, decided.now);
                }
            }
        }
        Ok(())
    }

    /// Hands calls over. They are made beside the controller, and what comes of them wakes the cluster.
    async fn call(
        &self,
        snapshot: &ClusterSnapshot,
        operation: OperationId,
        calls: Vec<MachineCall>,
    ) {
        let (uid, place) = (snapshot.uid(), Place::of(snapshot, &self.client));
        let account = &snapshot.access.account;
        match place.cluster().await {
            Ok(cluster) => self.calls.submit(&uid, account, &Arc::new(cluster), operation, calls),
            Err(failure) => {
                let cluster = Arc::new(place.without_account());
                self.calls.refuse(&uid, account, &cluster, operation, calls, &failure);
            }
        }
    }

    /// Writes the power state into the very spec that it was decided for.
    async fn write_power_state(
        &self,
        snapshot: &ClusterSnapshot,
        to: Wanted,
        trigger: Trigger,
        generation: i64,
    ) -> Result<(), RequestError> {
        let outdated = RequestError::Outdated { what: WRITE_POWER_STATE };
        let Some(cluster) = self.latest(snapshot) else { return Err(outdated) };
        if cluster.metadata.generation != Some(generation) {
            return Err(outdated);
        }
        let change = json!({
            "metadata": { "uid": cluster.uid(), "resourceVersion": cluster.resource_version() },
            "spec": { "powerState": WantedPowerState::from(to) },
        });
        let params = PatchParams {
            field_manager: Some(shared::MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api = self.api(snapshot);
        let written = api.patch(&snapshot.key.name, &params, &Patch::Merge(&change)).await;
        let written = written.map_err(|error| RequestError::of(WRITE_POWER_STATE, error))?;
        tracing::info!(
            cluster = %snapshot.key, power_state = to.as_str(), trigger = trigger.as_str(),
            "wrote the power state"
        );
        self.caches.wrote(&snapshot.key, written);
        self.caches.queue.wake(&snapshot.key);
        Ok(())
    }

    async fn set_finalizers(
        &self,
        snapshot: &ClusterSnapshot,
        change: impl Fn(&[String]) -> Option<Vec<String>>,
        what: &'static str,
    ) -> Result<(), RequestError> {
        let Some(cluster) = self.latest(snapshot) else {
            return Err(RequestError::Outdated { what });
        };
        let Some(all) = change(cluster.finalizers()) else { return Ok(()) };
        let target = ObjectVersion::of(&cluster);
        let written = write::patch(&self.api(snapshot), target, finalizers(&all), what).await?;
        self.caches.wrote(&snapshot.key, written);
        Ok(())
    }

    /// The object as it was looked at, or as we have written it since; nothing, if somebody else has.
    pub(super) fn latest(&self, snapshot: &ClusterSnapshot) -> Option<ClusterDeployment> {
        let looked_at = snapshot.cluster()?;
        let read = self.caches.cluster(&snapshot.key)?;
        let latest = read.as_ref().as_ref().ok()?;
        (latest.status == looked_at.status && latest.uid() == looked_at.uid())
            .then(|| latest.clone())
    }

    pub(super) fn api(&self, snapshot: &ClusterSnapshot) -> Api<ClusterDeployment> {
        Api::namespaced(self.client.clone(), &snapshot.key.namespace)
    }

    fn remove_records(&self, snapshot: &ClusterSnapshot) {
        let cluster = Place::of(snapshot, &self.client).without_account();
        let actuators = self.actuators.clone();
        let removal = async move {
            if let Err(failure) = actuators.remove_records(&cluster).await {
                tracing::warn!(cluster = %cluster.key, %failure, "cannot remove records of machines");
            }
        };
        let uid = snapshot.uid();
        self.removals.ask(alone(snapshot, &uid), removal, || ());
    }

    /// Approves CSRs in the cluster.
    fn approve(&self, snapshot: &ClusterSnapshot, csrs: &[Approval]) {
        let Some(way) = self.way(snapshot) else { return };
        let approving = written::approve(way, csrs.to_vec());
        let uid = snapshot.uid();
        self.approvals.ask(alone(snapshot, &uid), approving, Written::unknown);
    }

    /// Has the cluster make Machines anew.
    fn replace(&self, snapshot: &ClusterSnapshot, machines: &[Replacement]) {
        let Some(way) = self.way(snapshot) else { return };
        let replacing = written::replace(way, machines.to_vec());
        let uid = snapshot.uid();
        self.replacements.ask(alone(snapshot, &uid), replacing, Written::unknown);
    }

    fn way(&self, snapshot: &ClusterSnapshot) -> Option<Way> {
        let config = self.config.current();
        Way::of(snapshot, &self.targets, &config.allowed_addresses)
    }

    pub(super) fn place_of_records(&self, snapshot: &ClusterSnapshot) -> Option<String> {
        let place = Place::of(snapshot, &self.client);
        self.actuators.where_records_are(&place.without_account())
    }

    /// An object is gone. What is on record of its machines is not, and nobody else knows any more where that is.
    pub(super) fn vanished(&self, gone: &Gone) {
        self.forget(&gone.uid);
        if let Some(kept) = &gone.records_kept {
            let message = records_kept(&kept.place);
            self.events.publish(&kept.about, Severity::Normal, "RecordsKept", &message, "deleted");
        }
    }
}

/// Nobody else's questions count with those of a cluster itself.
const fn alone<'a>(snapshot: &'a ClusterSnapshot, uid: &'a str) -> Asker<'a> {
    Asker { key: &snapshot.key, uid, account: uid }
}

/// Whether machines of the cluster may be called at all.
fn may_call(snapshot: &ClusterSnapshot) -> bool {
    let Ok(intent) = &snapshot.wanted else { return false };
    let hands_off = intent.deleting || intent.paused || intent.observe || !intent.installed;
    !hands_off && intent.stopped().is_some()
}

fn records_kept(place: &str) -> String {
    format!("What its machines are made again from is kept: {place}")
}
