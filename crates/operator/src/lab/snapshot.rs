//! Parse: an Instance with its template, tenant, namespace and configuration, or what is wrong with them.

use std::sync::Arc;

use kube::ResourceExt as _;
use sojourn_api::lab::LabConfig;
use sojourn_api::lab::convert::{OptOuts, intent, read_state, sources};
use sojourn_api::lab::instance::Instance;
use sojourn_api::lab::template::Template;
use sojourn_api::lab::tenant::Tenant;
use sojourn_api::name::lab::FINALIZER;
use sojourn_core::activity::Source;
use sojourn_core::key::Key;
use sojourn_core::lab::intent::Intent;
use sojourn_core::lab::state::{InstanceState, Stage};

use super::caches::{LabCaches, template_key};
use crate::frame::Read;

/// An Instance that is being looked at.
#[derive(Debug)]
pub(crate) struct InstanceSnapshot {
    pub(crate) key: Key,
    instance: Arc<Read<Instance>>,
    template: Option<Arc<Read<Template>>>,
    tenant: Option<Arc<Read<Tenant>>>,
    pub(crate) config: Arc<LabConfig>,
    /// Its namespace is being deleted.
    pub(crate) namespace_terminating: bool,
    /// What is wanted, or why that cannot be told.
    pub(crate) intent: Result<Intent, String>,
    /// What the object remembers.
    pub(crate) state: InstanceState,
    /// The sources that must see before anything counts as unused.
    pub(crate) required: Vec<Source>,
}

impl InstanceSnapshot {
    /// Nothing, if it is not there or not ours.
    pub(crate) fn find(
        caches: &LabCaches,
        key: &Key,
        config: Arc<LabConfig>,
        configured: &[Source],
    ) -> Option<Self> {
        let instance = caches.instances.get(key)?;
        let namespace = caches.namespaces.get(&Key::new("", key.namespace.clone()))?;
        if !config.covers(&namespace.labels) && !waits_for_finalizer(&instance) {
            return None;
        }
        let (template, tenant, intent, state) = match &*instance {
            Ok(readable) => {
                let template = caches.templates.get(&template_key(readable));
                let tenant = caches.tenants.get(&Key::new("", readable.spec.tenant.name.clone()));
                let opt_outs = OptOuts {
                    inactivity: namespace.inactivity_ignored,
                    expiration: namespace.expiration_ignored,
                };
                let usable = match template.as_deref() {
                    Some(Err(problem)) => Err(format!("template: {problem}")),
                    Some(Ok(template)) => Ok(Some(template)),
                    None => Ok(None),
                };
                let wanted = usable.and_then(|template| {
                    intent(readable, template, opt_outs, &config).map_err(|e| e.to_string())
                });
                let state = stored_state(readable);
                (template, tenant, wanted, state)
            }
            Err(problem) => (None, None, Err(problem.clone()), InstanceState::default()),
        };
        let readable = template.as_deref().and_then(|template| template.as_ref().ok());
        let required = sources(readable, configured);
        Some(Self {
            key: key.clone(),
            instance,
            template,
            tenant,
            config,
            namespace_terminating: namespace.terminating,
            intent,
            state,
            required,
        })
    }

    /// The object, if it can be read.
    pub(crate) fn instance(&self) -> Option<&Instance> {
        self.instance.as_ref().as_ref().ok()
    }

    pub(crate) fn template(&self) -> Option<&Template> {
        self.template.as_deref().and_then(|template| template.as_ref().ok())
    }

    pub(crate) fn tenant(&self) -> Option<&Tenant> {
        self.tenant.as_deref().and_then(|tenant| tenant.as_ref().ok())
    }
}

/// Whether it is being deleted and cannot go without us, although it is no longer ours.
fn waits_for_finalizer(instance: &Read<Instance>) -> bool {
    let Ok(instance) = instance else { return false };
    let held = instance.finalizers().iter().any(|one| one == FINALIZER);
    held && instance.metadata.deletion_timestamp.is_some()
}

/// What the object remembers. One that was stopped and started again while nobody looked does not
/// show it, but its generation does: that takes two changes of the spec. It counts as a start, since
/// whoever did it came back.
fn stored_state(instance: &Instance) -> InstanceState {
    let mut state = read_state(instance.status.as_ref());
    let seen = instance.status.as_ref().and_then(|status| status.observed_generation);
    let changes =
        instance.metadata.generation.zip(seen).map(|(now, seen)| now.saturating_sub(seen));
    if instance.spec.running && changes.is_some_and(|changes| changes >= 2) {
        state.ladder.stage = Stage::Stopped;
    }
    state
}
