//! Execute: what was decided, as writes to the API. Nothing is chosen here; every write carries what
//! makes it harmless when it comes too late or twice.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
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
use sojourn_core::lab::state::State;
use sojourn_drivers::notify::Recipient;

use super::arrange::uid_of;
use super::notice::{self, Parts};
use super::object::{self, FINISHED_JOB_SECONDS, Hand, Submitter};
use super::reconcile::{Lab, LabError, Look};
use super::subject::Subject;
use super::view::owner_uid;

impl Lab {
    /// Carries out what was decided about the object itself.
    pub(super) async fn carry_out(
        &self,
        subject: &Subject,
        instance: &Instance,
        next: &State,
        effects: &[Effect],
    ) -> Result<(), LabError> {
        for effect in effects {
            match effect {
                Effect::Notify(recorded) => self.notify(subject, instance, next, recorded),
                Effect::Stop(_) => self.stop(subject, instance).await?,
                Effect::Delete => self.delete(subject, instance).await?,
                Effect::Check => self.check(subject, instance),
                Effect::Submit { environment, series } => {
                    self.submit(subject, instance, environment, *series).await?;
                }
                Effect::RemoveJob { environment, series } => {
                    self.remove_job(subject, environment, *series).await?;
                }
                Effect::HoldClaim { environment } => {
                    self.hold_claim(subject, environment, true).await?;
                }
                Effect::FreeClaim { environment } => {
                    self.hold_claim(subject, environment, false).await?;
                }
                Effect::Release => self.release(subject, instance).await?,
            }
        }
        Ok(())
    }

    fn instances(&self, subject: &Subject) -> Api<Instance> {
        Api::namespaced(self.client.clone(), &subject.key.namespace)
    }

    /// Changes the object under the precondition that it is still the one that was looked at.
    async fn patch(
        &self,
        subject: &Subject,
        instance: &Instance,
        mut change: Value,
        what: &'static str,
    ) -> Result<(), LabError> {
        change["metadata"]["resourceVersion"] = json!(instance.resource_version());
        change["metadata"]["uid"] = json!(instance.uid());
        let written = self
            .instances(subject)
            .patch(&subject.key.name, &PatchParams::default(), &Patch::Merge(&change))
            .await
            .map_err(|error| LabError::of(what, error))?;
        self.world.changed_by_us(&subject.key, written);
        Ok(())
    }

    /// Nothing is done with an object that could vanish under our hands.
    pub(super) async fn hold(
        &self,
        subject: &Subject,
        instance: &Instance,
    ) -> Result<(), LabError> {
        let held = instance.finalizers().iter().any(|one| one == FINALIZER);
        if held || instance.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let mut finalizers = instance.finalizers().to_vec();
        finalizers.push(FINALIZER.to_owned());
        let change = json!({"metadata": {"finalizers": finalizers}});
        self.patch(subject, instance, change, "add the finalizer").await
    }

    async fn release(&self, subject: &Subject, instance: &Instance) -> Result<(), LabError> {
        let kept: Vec<_> = instance.finalizers().iter().filter(|one| *one != FINALIZER).collect();
        if kept.len() == instance.finalizers().len() {
            return Ok(());
        }
        let change = json!({"metadata": {"finalizers": kept}});
        match self.patch(subject, instance, change, "remove the finalizer").await {
            Err(LabError::Gone { .. }) => Ok(()),
            other => other,
        }
    }

    async fn stop(&self, subject: &Subject, instance: &Instance) -> Result<(), LabError> {
        self.patch(subject, instance, json!({"spec": {"running": false}}), "stop it").await
    }

    async fn delete(&self, subject: &Subject, instance: &Instance) -> Result<(), LabError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: instance.uid(),
                resource_version: instance.resource_version(),
            }),
            ..DeleteParams::background()
        };
        match self.instances(subject).delete(&subject.key.name, &params).await {
            Ok(either) => {
                if let Some(marked) = either.left() {
                    self.world.changed_by_us(&subject.key, marked);
                }
                Ok(())
            }
            Err(error) => match LabError::of("delete it", error) {
                LabError::Gone { .. } => Ok(()),
                other => Err(other),
            },
        }
    }

    fn notify(
        &self,
        subject: &Subject,
        instance: &Instance,
        next: &State,
        recorded: &sojourn_core::notice::Notice<sojourn_core::lab::state::NoticeKind>,
    ) {
        let parts = Parts {
            key: &subject.key,
            instance,
            tenant: subject.tenant(),
            persistent: subject.intent.as_ref().is_ok_and(|intent| intent.persistent),
            state: next,
            url: instance.status.as_ref().and_then(|status| status.url.clone()),
            links: &self.links,
            public_url: self.public_url(subject),
            now: self.clock.now(),
        };
        let notice = notice::notice(recorded, &parts);
        if notice.to == Recipient::default() {
            tracing::debug!(object = %subject.key, "a notice without a recipient");
        }
        if self.outbox.attempt(&subject.key, notice) == crate::outbox::Attempt::Busy {
            tracing::warn!(object = %subject.key, "too many notices wait; it is tried again later");
        }
    }

    fn check(&self, subject: &Subject, instance: &Instance) {
        match self.look_at(subject, instance) {
            Some(Look::At(target)) => {
                self.prober.check(&subject.key, target, self.parts.probe());
            }
            Some(Look::Found(observation)) => self.prober.find(&subject.key, observation),
            None => {}
        }
    }

    async fn submit(
        &self,
        subject: &Subject,
        instance: &Instance,
        environment: &str,
        series: u32,
    ) -> Result<(), LabError> {
        let Some(submission) = &instance.spec.submission else { return Ok(()) };
        let entries = &subject.state.submissions.entries;
        let Some(entry) = entries.iter().find(|entry| entry.environment == environment) else {
            return Ok(());
        };
        // The Job mounts whatever has the claim's name.
        let claim = self.child(subject, environment);
        let seen = self.world.claims.get(&claim);
        let own = seen.filter(|seen| seen.owner.as_deref() == uid_of(subject));
        let Some(own) = own else {
            let what = "hand in its data";
            let kind = "PersistentVolumeClaim of the Instance";
            return Err(LabError::Missing { what, kind, name: claim.name.to_string() });
        };
        let by = Submitter {
            image: subject
                .config
                .submit_image
                .clone()
                .unwrap_or_else(|| "sojourn.dev/sojourn".to_owned()),
            program: self.settings.submit_program.clone(),
            user: self.settings.submit_user,
            several: entries.len() > 1,
            allowed_addresses: subject.config.allowed_addresses.clone(),
        };
        // The same for every attempt and every retry of one wish; another wish is another delivery.
        let wish = entry.asked_at.map_or(0, Timestamp::as_second);
        let idempotency_key =
            format!("{}.{environment}.{wish}", instance.uid().unwrap_or_default());
        let hand = Hand {
            environment,
            block: own.claim.is_some_and(|claim| claim.block),
            series,
            idempotency_key: &idempotency_key,
        };
        let job = object::job(instance, submission, hand, &by);
        self.create(&subject.key.namespace, &job, "create the submission's Job").await
    }

    /// Sets our finalizer on the claim of an environment, or takes it away.
    async fn hold_claim(
        &self,
        subject: &Subject,
        environment: &str,
        held: bool,
    ) -> Result<(), LabError> {
        let key = self.child(subject, environment);
        let seen = self.world.claims.get(&key);
        let own = seen.filter(|seen| seen.owner.as_deref() == uid_of(subject));
        let Some(own) = own else { return Ok(()) };
        match set_claim_finalizer(&self.client, &key, &own.uid, held).await {
            // Gone, or another one by that name, which was not meant.
            Err(LabError::Gone { .. }) => Ok(()),
            other => other,
        }
    }

    async fn remove_job(
        &self,
        subject: &Subject,
        environment: &str,
        series: u32,
    ) -> Result<(), LabError> {
        let api: Api<Job> = Api::namespaced(self.client.clone(), &subject.key.namespace);
        let name = object::job_name(&subject.key.name, environment, series);
        let key = Key::new(subject.key.namespace.clone(), name.clone());
        let seen = self.world.jobs.get(&key);
        let ours = seen.filter(|job| job.owner.as_deref() == uid_of(subject));
        let Some(job) = ours else { return Ok(()) };
        // It goes by itself then, and can be looked at until it does.
        let change = json!({
            "metadata": {"uid": job.uid},
            "spec": {"ttlSecondsAfterFinished": FINISHED_JOB_SECONDS},
        });
        match api.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await {
            Ok(_) => Ok(()),
            Err(error) => match LabError::of("let the submission's Job go", error) {
                // Gone, or another one by that name, which was not meant.
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
                recognise(&api, object, what).await
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
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        match api.delete(name, &params).await {
            Ok(_) => Ok(()),
            Err(error) => match LabError::of(what, error) {
                // Gone, or another one by that name, which was not meant.
                LabError::Gone { .. } | LabError::Outdated { .. } => Ok(()),
                other => Err(other),
            },
        }
    }
}

/// Sets our finalizer on a claim, or takes it away, if it is still the one that was seen.
pub(super) async fn set_claim_finalizer(
    client: &Client,
    key: &Key,
    uid: &str,
    held: bool,
) -> Result<(), LabError> {
    let what = if held { "keep the claim from being deleted" } else { "let the claim be deleted" };
    let api: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &key.namespace);
    let claim = api.get_metadata(&key.name).await.map_err(|error| LabError::of(what, error))?;
    let has = claim.finalizers().iter().any(|one| one == CLAIM_FINALIZER);
    // Nothing can be added to what is being deleted already.
    let late = held && claim.metadata.deletion_timestamp.is_some();
    if claim.uid().as_deref() != Some(uid) || has == held || late {
        return Ok(());
    }
    let mut finalizers = claim.finalizers().to_vec();
    finalizers.retain(|one| one != CLAIM_FINALIZER);
    finalizers.extend(held.then(|| CLAIM_FINALIZER.to_owned()));
    let change = json!({"metadata": {
        "uid": uid, "resourceVersion": claim.resource_version(), "finalizers": finalizers,
    }});
    let patch = Patch::Merge(&change);
    let written = api.patch(&key.name, &PatchParams::default(), &patch).await;
    written.map(drop).map_err(|error| LabError::of(what, error))
}

/// Finds out whether what has the name of a part is that part: a name says nothing about whose it is.
async fn recognise<K>(api: &Api<K>, part: &K, what: &'static str) -> Result<(), LabError>
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

pub(super) fn environment_of<'a>(subject: &'a Subject, name: &str) -> Option<&'a Environment> {
    subject.template()?.spec.environment_list.iter().find(|one| one.name == name)
}
