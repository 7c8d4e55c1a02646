//! Execute: what was decided, as writes to the API. Nothing is decided here; every write carries
//! preconditions (uid, resourceVersion), so that one that comes too late or twice does no harm.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sojourn_api::lab::environment::Environment;
use sojourn_api::lab::instance::Instance;
use sojourn_api::name::lab::{CLAIM_FINALIZER, FINALIZER};
use sojourn_core::key::Key;
use sojourn_core::lab::effect::Effect;
use sojourn_core::lab::state::InstanceState;
use sojourn_drivers::notify::Recipient;

use super::notice::{self, NoticeContext};
use super::object::{self, FINISHED_JOB_SECONDS, SubmissionJob, Submitter};
use super::reconcile::{Lab, LabError, StatusProbe};
use super::runtime::uid_of;
use super::snapshot::InstanceSnapshot;
use super::view::owner_uid;
use crate::frame::write::{self, ObjectVersion, finalizers, with_finalizer, without_finalizer};

/// What is done about [`Effect::Submit`].
pub(super) const CREATE_JOB: &str = "create the submission's Job";

impl Lab {
    /// Carries out what was decided about the object itself.
    pub(super) async fn execute_effects(
        &self,
        snapshot: &InstanceSnapshot,
        instance: &Instance,
        next: &InstanceState,
        effects: &[Effect],
    ) -> Result<(), LabError> {
        for effect in effects {
            match effect {
                Effect::Notify(recorded) => self.notify(snapshot, instance, next, recorded),
                Effect::Stop(_) => self.stop(snapshot, instance).await?,
                Effect::Delete => self.delete(snapshot, instance).await?,
                Effect::Check => self.check(snapshot, instance),
                Effect::Submit { environment, series } => {
                    self.submit(snapshot, instance, environment, *series).await?;
                }
                Effect::RemoveJob { environment, series } => {
                    self.remove_job(snapshot, environment, *series).await?;
                }
                Effect::AddClaimFinalizer { environment } => {
                    self.update_claim_finalizer(snapshot, environment, true).await?;
                }
                Effect::RemoveClaimFinalizer { environment } => {
                    self.update_claim_finalizer(snapshot, environment, false).await?;
                }
                Effect::RemoveFinalizer => self.remove_finalizer(snapshot, instance).await?,
            }
        }
        Ok(())
    }

    fn instances(&self, snapshot: &InstanceSnapshot) -> Api<Instance> {
        Api::namespaced(self.client.clone(), &snapshot.key.namespace)
    }

    /// Changes the object under the precondition that it is still the one that was looked at.
    async fn patch(
        &self,
        snapshot: &InstanceSnapshot,
        instance: &Instance,
        change: Value,
        what: &'static str,
    ) -> Result<(), LabError> {
        let target = ObjectVersion::of(instance);
        let written = write::patch(&self.instances(snapshot), target, change, what).await?;
        self.caches.record_change(&snapshot.key, written);
        Ok(())
    }

    /// Adds our finalizer, so that the object cannot be gone before its deletion was handled.
    pub(super) async fn ensure_finalizer(
        &self,
        snapshot: &InstanceSnapshot,
        instance: &Instance,
    ) -> Result<(), LabError> {
        let missing = with_finalizer(instance.finalizers(), FINALIZER);
        let leaves = instance.metadata.deletion_timestamp.is_some();
        let Some(all) = missing.filter(|_| !leaves) else { return Ok(()) };
        self.patch(snapshot, instance, finalizers(&all), "add the finalizer").await
    }

    async fn remove_finalizer(
        &self,
        snapshot: &InstanceSnapshot,
        instance: &Instance,
    ) -> Result<(), LabError> {
        let kept = without_finalizer(instance.finalizers(), FINALIZER);
        let Some(kept) = kept else { return Ok(()) };
        match self.patch(snapshot, instance, finalizers(&kept), "remove the finalizer").await {
            Err(LabError::Gone { .. }) => Ok(()),
            other => other,
        }
    }

    async fn stop(&self, snapshot: &InstanceSnapshot, instance: &Instance) -> Result<(), LabError> {
        self.patch(snapshot, instance, json!({"spec": {"running": false}}), "stop it").await
    }

    async fn delete(
        &self,
        snapshot: &InstanceSnapshot,
        instance: &Instance,
    ) -> Result<(), LabError> {
        let target = ObjectVersion::of(instance);
        match write::delete(&self.instances(snapshot), target, "delete it").await {
            Ok(marked) => {
                if let Some(marked) = marked {
                    self.caches.record_change(&snapshot.key, marked);
                }
                Ok(())
            }
            Err(LabError::Gone { .. }) => Ok(()),
            Err(other) => Err(other),
        }
    }

    fn notify(
        &self,
        snapshot: &InstanceSnapshot,
        instance: &Instance,
        next: &InstanceState,
        recorded: &sojourn_core::notice::Notice<sojourn_core::lab::state::NoticeKind>,
    ) {
        let context = NoticeContext {
            key: &snapshot.key,
            instance,
            tenant: snapshot.tenant(),
            persistent: snapshot.intent.as_ref().is_ok_and(|intent| intent.persistent),
            state: next,
            url: instance.status.as_ref().and_then(|status| status.url.clone()),
            links: &self.links,
            public_url: self.public_url(snapshot),
            now: self.clock.now(),
        };
        let notice = notice::notice(recorded, &context);
        if notice.to == Recipient::default() {
            tracing::debug!(object = %snapshot.key, "a notice without a recipient");
        }
        if self.outbox.attempt(&snapshot.key, notice) == crate::outbox::Attempt::Busy {
            tracing::warn!(object = %snapshot.key, "too many notices wait; it is tried again later");
        }
    }

    fn check(&self, snapshot: &InstanceSnapshot, instance: &Instance) {
        match self.status_probe(snapshot, instance) {
            Some(StatusProbe::Probe(target)) => {
                self.prober.check(&snapshot.key, target, self.drivers.probe());
            }
            Some(StatusProbe::Known(observation)) => self.prober.record(&snapshot.key, observation),
            None => {}
        }
    }

    async fn submit(
        &self,
        snapshot: &InstanceSnapshot,
        instance: &Instance,
        environment: &str,
        series: u32,
    ) -> Result<(), LabError> {
        let Some(submission) = &instance.spec.submission else { return Ok(()) };
        let entries = &snapshot.state.submissions.entries;
        let Some(entry) = entries.iter().find(|entry| entry.environment == environment) else {
            return Ok(());
        };
        // The Job mounts whatever has the claim's name.
        let claim = self.child(snapshot, environment);
        let seen = self.caches.claims.get(&claim);
        let own = seen.filter(|seen| seen.owner.as_deref() == uid_of(snapshot));
        let Some(own) = own else {
            let what = "hand in its data";
            let kind = "PersistentVolumeClaim of the Instance";
            return Err(LabError::Missing { what, kind, name: claim.name.to_string() });
        };
        let by = Submitter {
            image: snapshot
                .config
                .submit_image
                .clone()
                .unwrap_or_else(|| "sojourn.dev/sojourn".to_owned()),
            program: self.own_program.0.clone(),
            several: entries.len() > 1,
            allowed_addresses: snapshot.config.allowed_addresses.clone(),
        };
        // The same for every attempt and every retry of one request; another request is another delivery.
        let request = entry.asked_at.map_or(0, Timestamp::as_second);
        let idempotency_key =
            format!("{}.{environment}.{request}", instance.uid().unwrap_or_default());
        let submission_job = SubmissionJob {
            environment,
            block: own.claim.is_some_and(|claim| claim.block),
            series,
            idempotency_key: &idempotency_key,
        };
        let job = object::job(instance, submission, submission_job, &by);
        self.create(&snapshot.key.namespace, &job, CREATE_JOB).await
    }

    /// Sets our finalizer on the claim of an environment, or takes it away.
    async fn update_claim_finalizer(
        &self,
        snapshot: &InstanceSnapshot,
        environment: &str,
        wanted: bool,
    ) -> Result<(), LabError> {
        let key = self.child(snapshot, environment);
        let seen = self.caches.claims.get(&key);
        let own = seen.filter(|seen| seen.owner.as_deref() == uid_of(snapshot));
        let Some(own) = own else { return Ok(()) };
        match set_claim_finalizer(&self.client, &key, &own.uid, wanted).await {
            // It is gone, or another object has its name.
            Err(LabError::Gone { .. }) => Ok(()),
            other => other,
        }
    }

    async fn remove_job(
        &self,
        snapshot: &InstanceSnapshot,
        environment: &str,
        series: u32,
    ) -> Result<(), LabError> {
        let api: Api<Job> = Api::namespaced(self.client.clone(), &snapshot.key.namespace);
        let name = object::job_name(&snapshot.key.name, environment, series);
        let key = Key::new(snapshot.key.namespace.clone(), name.clone());
        let seen = self.caches.jobs.get(&key);
        let ours = seen.filter(|job| job.owner.as_deref() == uid_of(snapshot));
        let Some(job) = ours else { return Ok(()) };
        // The TTL controller deletes it later; until then people can inspect it.
        let change = json!({
            "metadata": {"uid": job.uid},
            "spec": {"ttlSecondsAfterFinished": FINISHED_JOB_SECONDS},
        });
        match api.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await {
            Ok(_) => Ok(()),
            Err(error) => match LabError::of("let the submission's Job go", error) {
                // It is gone, or another object has its name.
                LabError::Gone { .. } | LabError::Outdated { .. } => Ok(()),
                other => Err(other),
            },
        }
    }

    /// Creates a part of an Instance; one that is there already is as good, if it is the Instance's.
    pub(super) async fn create<K>(
        &self,
        namespace: &str,
        object: &K,
        what: &'static str,
    ) -> Result<(), LabError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Serialize
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        match api.create(&PostParams::default(), object).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                verify_owner(&api, object, what).await
            }
            Err(error) => Err(LabError::of(what, error)),
        }
    }

    /// Deletes a child of an Instance, if it is the one that was seen.
    pub(super) async fn remove<K>(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        what: &'static str,
    ) -> Result<(), LabError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        match write::delete_any_version(&api, (name, uid), what).await {
            // It is gone, or another object has its name.
            Ok(_) | Err(LabError::Gone { .. } | LabError::Outdated { .. }) => Ok(()),
            Err(other) => Err(other),
        }
    }
}

/// Sets our finalizer on a claim, or takes it away, if it is still the one that was seen.
pub(super) async fn set_claim_finalizer(
    client: &Client,
    key: &Key,
    uid: &str,
    wanted: bool,
) -> Result<(), LabError> {
    let what =
        if wanted { "keep the claim from being deleted" } else { "let the claim be deleted" };
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &key.namespace);
    let claim = api.get_metadata(&key.name).await.map_err(|error| LabError::of(what, error))?;
    // Nothing can be added to what is being deleted already.
    let late = wanted && claim.metadata.deletion_timestamp.is_some();
    let changed = match wanted {
        true => with_finalizer(claim.finalizers(), CLAIM_FINALIZER),
        false => without_finalizer(claim.finalizers(), CLAIM_FINALIZER),
    };
    let Some(changed) = changed.filter(|_| claim.uid().as_deref() == Some(uid) && !late) else {
        return Ok(());
    };
    write::patch(&api, ObjectVersion::of(&claim), finalizers(&changed), what).await.map(drop)
}

/// Finds out whether what has the name of a part is that part: a name says nothing about whose it is.
async fn verify_owner<K>(api: &Api<K>, part: &K, what: &'static str) -> Result<(), LabError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
{
    let name = part.name_any();
    let there = api.get_metadata(&name).await.map_err(|error| LabError::of(what, error))?;
    let (wanted, found) = (owner_uid(part), owner_uid(&there));
    let kind = K::kind(&()).into_owned();
    if wanted.is_some() && found == wanted {
        return Ok(());
    }
    if found.is_some() || there.metadata.deletion_timestamp.is_some() {
        return Err(LabError::Leaving { what, kind, name });
    }
    Err(LabError::Taken { what, kind, name })
}

pub(super) fn environment_of<'a>(
    snapshot: &'a InstanceSnapshot,
    name: &str,
) -> Option<&'a Environment> {
    snapshot.template()?.spec.environment_list.iter().find(|one| one.name == name)
}
