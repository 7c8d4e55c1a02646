//! Execute: what was decided, as writes to the API and operations at providers. Nothing is chosen
//! here; every write carries what makes it harmless when it comes too late or twice.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::Value;
use sojourn_api::group::convert::{template_hash, template_of};
use sojourn_api::group::machine::MachineSpec;
use sojourn_api::group::{InstanceGroup, Machine};
use sojourn_api::name::group::{GROUP, GROUP_FINALIZER, MACHINE_FINALIZER};
use sojourn_api::name::shared;
use sojourn_core::group::effect::Effect;
use sojourn_core::group::observed::OperationResult;
use sojourn_core::key::Key;
use sojourn_drivers::machine::CreateRequest;

use super::family::Family;
use super::provider::config_of;
use super::provider_queue::{MachineOperation, OperationKind, ReconcileKey, TemplateSource};
use super::snapshot::{GroupSnapshot, Member, OnDemandMachine};
use crate::api_error::api_error_message;
use crate::event::warning;
use crate::frame::RequestError;
use crate::frame::write::{self, ObjectVersion, finalizers, with_finalizer, without_finalizer};

/// Writes of one group at the same time.
const MAX_CONCURRENT_WRITES: usize = 16;

/// One write that is not finished.
pub(super) type Write<'a> = BoxFuture<'a, Result<(), RequestError>>;

/// Writes all, a few at a time; one that fails keeps no other from being tried.
pub(super) async fn run_concurrently(writes: Vec<Write<'_>>) -> Result<(), RequestError> {
    let done =
        futures::stream::iter(writes).buffer_unordered(MAX_CONCURRENT_WRITES).collect::<Vec<_>>();
    done.await.into_iter().collect()
}

impl Family {
    /// Carries out what was decided about a group. What fails keeps nothing else from being done
    /// but what follows it for the same machine.
    pub(super) async fn apply_effects(
        &self,
        snapshot: &GroupSnapshot,
        group: &InstanceGroup,
        effects: &[Effect],
    ) -> Result<(), RequestError> {
        let of_one = effects.chunk_by(|a, b| a.machine() == b.machine());
        let writes = of_one.map(|effects| -> Write<'_> {
            let write = async move {
                for effect in effects {
                    self.apply_effect(snapshot, group, effect).await?;
                }
                Ok(())
            };
            write.boxed()
        });
        run_concurrently(writes.collect()).await
    }

    async fn apply_effect(
        &self,
        snapshot: &GroupSnapshot,
        group: &InstanceGroup,
        effect: &Effect,
    ) -> Result<(), RequestError> {
        let owner = || ReconcileKey::Group(snapshot.key.clone());
        let member = |name: &String| snapshot.member(name);
        match effect {
            Effect::Create { name } => self.create(snapshot, group, name).await,
            Effect::Provision { name } => {
                member(name).into_iter().for_each(|member| {
                    self.submit_operation(
                        owner(),
                        member,
                        member.view().provider.as_deref(),
                        OperationKind::Create,
                    );
                });
                Ok(())
            }
            Effect::Deprovision { name } => {
                member(name).into_iter().for_each(|member| {
                    self.submit_operation(
                        owner(),
                        member,
                        member.view().provider.as_deref(),
                        OperationKind::Delete,
                    );
                });
                Ok(())
            }
            Effect::Delete { name } => match member(name) {
                Some(member) => self.delete(member).await,
                None => Ok(()),
            },
            Effect::RemoveFinalizer { name } => match member(name) {
                Some(member) => self.remove_machine_finalizer(member).await,
                None => Ok(()),
            },
            Effect::RemoveGroupFinalizer => self.remove_group_finalizer(snapshot, group).await,
        }
    }

    pub(super) async fn apply_effects_on_demand(
        &self,
        machine: &OnDemandMachine,
        effects: &[Effect],
    ) -> Result<(), RequestError> {
        let member = &machine.member;
        let submit = |kind| {
            let owner = ReconcileKey::Machine(member.key.clone());
            self.submit_operation(owner, member, machine.provider.as_deref(), kind);
        };
        for effect in effects {
            match effect {
                Effect::Provision { .. } => submit(OperationKind::Create),
                Effect::Deprovision { .. } => submit(OperationKind::Delete),
                Effect::Delete { .. } => self.delete(member).await?,
                Effect::RemoveFinalizer { .. } => self.remove_machine_finalizer(member).await?,
                // A machine without a group has no reservations.
                Effect::Create { .. } | Effect::RemoveGroupFinalizer => {}
            }
        }
        Ok(())
    }

    fn machines(&self, namespace: &str) -> Api<Machine> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates the object of a reservation. That it cannot be created is for the next decision.
    async fn create(
        &self,
        snapshot: &GroupSnapshot,
        group: &InstanceGroup,
        name: &str,
    ) -> Result<(), RequestError> {
        let key = Key::new(snapshot.key.namespace.clone(), name);
        let api = self.machines(&key.namespace);
        let result = match api.create(&PostParams::default(), &machine_of(group, name)).await {
            Ok(made) => {
                self.caches.created_machine(&key, made);
                return Ok(());
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                match api.get_opt(name).await {
                    Ok(Some(there)) if is_owned(&there, group) => {
                        self.caches.created_machine(&key, there);
                        return Ok(());
                    }
                    Ok(Some(_)) => {
                        let message = format!("there is another Machine {name}");
                        OperationResult::Refused { message }
                    }
                    Ok(None) => {
                        OperationResult::Failed { message: format!("{name} is gone again") }
                    }
                    Err(error) => OperationResult::Failed { message: api_error_message(&error) },
                }
            }
            Err(error) => {
                let message =
                    format!("cannot create the Machine {name}: {}", api_error_message(&error));
                match RequestError::of("create a Machine", error).class() {
                    crate::frame::Class::Blocked => OperationResult::Refused { message },
                    _ => OperationResult::Failed { message },
                }
            }
        };
        if let OperationResult::Refused { message } | OperationResult::Failed { message } = &result
        {
            let failed = warning("CreateFailed", message.clone());
            self.events.publish_transitions(
                &group.object_ref(&()),
                &[failed],
                self.caches.health_tracker.now(),
            );
        }
        self.failed_creations.add(&snapshot.key, name, result);
        Ok(())
    }

    fn submit_operation(
        &self,
        owner: ReconcileKey,
        member: &Member,
        provider: Option<&str>,
        kind: OperationKind,
    ) {
        let Some(provider) = provider.and_then(|name| self.providers.get(name)) else {
            tracing::warn!(machine = %member.key, provider, "nobody here knows the provider");
            return;
        };
        let view = member.view();
        self.provider_queue.submit(MachineOperation {
            owner,
            machine: member.key.clone(),
            uid: view.uid.to_string(),
            id: view.provider_id().map(str::to_owned),
            kind,
            provider: provider.clone(),
            templates: self.templates.clone(),
        });
    }

    /// Deletes the very object that was looked at; its finalizer holds it.
    async fn delete(&self, member: &Member) -> Result<(), RequestError> {
        let view = member.view();
        if view.deleting {
            return Ok(());
        }
        let api = self.machines(&member.key.namespace);
        let object = (member.name(), &*view.uid);
        match write::delete_any_version(&api, object, "delete a Machine").await {
            Ok(marked) => {
                if let Some(marked) = marked {
                    self.caches.wrote_machine(&member.key, marked);
                }
                Ok(())
            }
            Err(error) => self.unless_gone(member, error),
        }
    }

    /// Treats an object that is gone as done.
    fn unless_gone(&self, member: &Member, error: RequestError) -> Result<(), RequestError> {
        match error {
            RequestError::Gone { .. } => {
                self.caches.machine_gone(&member.key, &member.view().uid);
                Ok(())
            }
            other => Err(other),
        }
    }

    /// Adds our finalizer before anything else is done, so that the object cannot vanish meanwhile.
    pub(super) async fn ensure_machine_finalizer(
        &self,
        member: &Member,
    ) -> Result<(), RequestError> {
        let view = member.view();
        if view.has_finalizer || view.deleting {
            return Ok(());
        }
        let mut finalizers = view.other_finalizers().to_vec();
        finalizers.push(MACHINE_FINALIZER.to_owned());
        self.set_finalizers(member, &finalizers, "hold a Machine").await
    }

    async fn remove_machine_finalizer(&self, member: &Member) -> Result<(), RequestError> {
        let view = member.view();
        if !view.has_finalizer {
            return Ok(());
        }
        match self.set_finalizers(member, view.other_finalizers(), "let a Machine go").await {
            Ok(()) => Ok(()),
            Err(error) => self.unless_gone(member, error),
        }
    }

    async fn set_finalizers(
        &self,
        member: &Member,
        all: &[String],
        what: &'static str,
    ) -> Result<(), RequestError> {
        let version = self.latest_version(member, what)?;
        let target =
            ObjectVersion { name: member.name(), uid: &member.view().uid, version: &version };
        let api = self.machines(&member.key.namespace);
        let written = write::patch(&api, target, finalizers(all), what).await?;
        self.caches.wrote_machine(&member.key, written);
        Ok(())
    }

    /// The version of the object that was looked at. If only our own writes came in between, it is
    /// still that object.
    pub(super) fn latest_version(
        &self,
        member: &Member,
        what: &'static str,
    ) -> Result<String, RequestError> {
        let looked_at = member.view();
        let latest = self.caches.machine(&member.key);
        match latest.as_deref() {
            Some(Ok(latest))
                if latest.uid == looked_at.uid && latest.published == looked_at.published =>
            {
                Ok(latest.version.to_string())
            }
            Some(_) => Err(RequestError::Outdated { what }),
            None => Err(RequestError::Gone { what }),
        }
    }

    pub(super) async fn ensure_group_finalizer(
        &self,
        snapshot: &GroupSnapshot,
        group: &InstanceGroup,
    ) -> Result<(), RequestError> {
        let missing = with_finalizer(group.finalizers(), GROUP_FINALIZER);
        let leaves = group.metadata.deletion_timestamp.is_some()
            || self.caches.is_ending(&snapshot.key.namespace);
        let Some(all) = missing.filter(|_| !leaves) else { return Ok(()) };
        self.set_group_finalizers(snapshot, group, &all, "hold the group").await
    }

    async fn remove_group_finalizer(
        &self,
        snapshot: &GroupSnapshot,
        group: &InstanceGroup,
    ) -> Result<(), RequestError> {
        let kept = without_finalizer(group.finalizers(), GROUP_FINALIZER);
        let Some(kept) = kept else { return Ok(()) };
        match self.set_group_finalizers(snapshot, group, &kept, "let the group go").await {
            Err(RequestError::Gone { .. }) => Ok(()),
            other => other,
        }
    }

    async fn set_group_finalizers(
        &self,
        snapshot: &GroupSnapshot,
        group: &InstanceGroup,
        all: &[String],
        what: &'static str,
    ) -> Result<(), RequestError> {
        let api: Api<InstanceGroup> = Api::namespaced(self.client.clone(), &snapshot.key.namespace);
        let target = ObjectVersion::of(group);
        let written = write::patch(&api, target, finalizers(all), what).await?;
        self.caches.wrote_group(&snapshot.key, written);
        Ok(())
    }
}

/// The object of a machine of a group.
fn machine_of(group: &InstanceGroup, name: &str) -> Machine {
    let owner = OwnerReference {
        api_version: InstanceGroup::api_version(&()).into_owned(),
        kind: InstanceGroup::kind(&()).into_owned(),
        name: group.name_any(),
        uid: group.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let labels = [(GROUP, group.name_any()), (shared::MANAGED_BY, shared::MANAGER.to_owned())];
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: group.namespace(),
        labels: Some(labels.map(|(name, value)| (name.to_owned(), value)).into()),
        finalizers: Some(vec![MACHINE_FINALIZER.to_owned()]),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    let spec = MachineSpec {
        group: Some(group.name_any()),
        on_demand: false,
        template: Some(group.spec.template.clone()),
        template_hash: Some(template_hash(&group.spec.template)),
        drain_reply: None,
        renewed_until: None,
    };
    Machine { metadata, spec, status: None }
}

fn is_owned(machine: &Machine, group: &InstanceGroup) -> bool {
    let owners = machine.owner_references().iter();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.any(|owner| Some(&owner.uid) == group.metadata.uid.as_ref())
}

/// Reads the Machine again at the moment at which it is made, so that nothing is made for an object
/// that is gone or going.
pub(super) struct ApiTemplates {
    pub(super) client: Client,
}

impl std::fmt::Debug for ApiTemplates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiTemplates").finish_non_exhaustive()
    }
}

impl ApiTemplates {
    async fn read_request(&self, key: &Key, uid: &str) -> Result<CreateRequest, String> {
        let words = |error: kube::Error| {
            format!("cannot read what it is made from: {}", api_error_message(&error))
        };
        let api: Api<Machine> = Api::namespaced(self.client.clone(), &key.namespace);
        let machine = api.get_opt(&key.name).await.map_err(words)?;
        let machine = machine
            .filter(|machine| machine.metadata.uid.as_deref() == Some(uid))
            .filter(|machine| machine.metadata.deletion_timestamp.is_none())
            .ok_or("its object is gone or being deleted")?;
        let group = match (&machine.spec.group, &machine.spec.template) {
            (Some(name), None) => {
                let api: Api<InstanceGroup> = Api::namespaced(self.client.clone(), &key.namespace);
                api.get_opt(name).await.map_err(words)?
            }
            _ => None,
        };
        let template = template_of(&machine, group.as_ref());
        let config = template.map(config_of).unwrap_or(Value::Null);
        let group = machine.spec.group.clone();
        Ok(CreateRequest { key: key.clone(), uid: uid.to_owned(), group, config })
    }
}

impl TemplateSource for ApiTemplates {
    fn create_request<'a>(
        &'a self,
        key: &'a Key,
        uid: &'a str,
    ) -> BoxFuture<'a, Result<CreateRequest, String>> {
        self.read_request(key, uid).boxed()
    }
}

/// Reads templates from the API.
pub(super) fn templates(client: Client) -> Arc<dyn TemplateSource> {
    Arc::new(ApiTemplates { client })
}
