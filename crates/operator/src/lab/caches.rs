//! The caches of the family's objects with their indexes, and which Instances a watch event wakes.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::ListParams;
use kube::{Api, Client, Resource as _};
use sojourn_api::activity::ReplicaActivities;
use sojourn_api::lab::instance::Instance;
use sojourn_api::lab::template::Template;
use sojourn_api::lab::tenant::Tenant;
use sojourn_api::name::lab;
use sojourn_core::key::Key;

use super::object::child_name;
use super::view::{
    ChildView, JobView, NamespaceView, PodView, claim_view, ingress_view, service_view,
};
use crate::frame::cache::key_of;
use crate::frame::{Cache, Change, Guarded, Index, Queue, Read, Tasks, WatchSettings};
use crate::gateway::label;

/// The caches of the family, with what connects them.
#[derive(Debug)]
pub(crate) struct LabCaches {
    pub(crate) instances: Cache<Read<Instance>>,
    pub(crate) templates: Cache<Read<Template>>,
    pub(crate) tenants: Cache<Read<Tenant>>,
    pub(crate) namespaces: Cache<NamespaceView>,
    pub(crate) pods: Cache<PodView>,
    pub(crate) claims: Cache<ChildView>,
    pub(crate) services: Cache<ChildView>,
    pub(crate) ingresses: Cache<ChildView>,
    pub(crate) jobs: Cache<JobView>,
    of_template: Index<Key>,
    of_tenant: Index<Arc<str>>,
    of_namespace: Index<Arc<str>>,
    /// By what the labels of their origins end with.
    of_origin: Index<String>,
    /// Pods, by where they say that they answer.
    of_address: Index<(IpAddr, u16)>,
    of_ip: Index<IpAddr>,
    /// Claims, by the Instance that they say they are of.
    claims_of: Index<Key>,
    /// Pods, by the uid of the Job that made them.
    of_job: Index<String>,
    /// When the mail addresses of Tenants were changed, as far as this process has seen it.
    email_changed_at: RwLock<HashMap<Arc<str>, Timestamp>>,
    queue: Arc<Queue>,
    /// Counts the changes of instances and of their Pods, for whoever waits for one.
    pub(crate) changes: tokio::sync::watch::Sender<u64>,
    ingress_served: bool,
}

impl LabCaches {
    pub(crate) fn new(queue: Arc<Queue>, ingress_served: bool) -> Self {
        Self {
            instances: Cache::default(),
            templates: Cache::default(),
            tenants: Cache::default(),
            namespaces: Cache::default(),
            pods: Cache::default(),
            claims: Cache::default(),
            services: Cache::default(),
            ingresses: Cache::default(),
            jobs: Cache::default(),
            of_template: Index::default(),
            of_tenant: Index::default(),
            of_namespace: Index::default(),
            of_origin: Index::default(),
            of_address: Index::default(),
            of_ip: Index::default(),
            claims_of: Index::default(),
            of_job: Index::default(),
            email_changed_at: RwLock::default(),
            queue,
            changes: tokio::sync::watch::Sender::new(0),
            ingress_served,
        }
    }

    pub(crate) const fn ingress_served(&self) -> bool {
        self.ingress_served
    }

    /// Whether every cache has been filled once.
    pub(crate) async fn until_ready(&self) {
        self.instances.until_ready().await;
        self.templates.until_ready().await;
        self.tenants.until_ready().await;
        self.namespaces.until_ready().await;
        self.pods.until_ready().await;
        self.claims.until_ready().await;
        self.services.until_ready().await;
        self.jobs.until_ready().await;
        if self.ingress_served {
            self.ingresses.until_ready().await;
        }
    }

    /// Keeps every cache up to date.
    pub(crate) fn follow(
        self: &Arc<Self>,
        client: &Client,
        watching: WatchSettings,
        tasks: &mut Tasks,
    ) {
        let all = watching.everything();
        let ours = all.clone().labels(lab::INSTANCE);
        macro_rules! follow {
            ($name:literal, $kind:ty, $cache:ident, $selection:expr, $project:expr, $changed:ident) => {{
                let caches = self.clone();
                let api: Api<$kind> = Api::all(client.clone());
                let selection = $selection.clone();
                tasks.spawn($name, async move {
                    let changed = |change: &Change<'_, _>| caches.$changed(change);
                    caches.$cache.follow(api, selection, $project, changed).await;
                });
            }};
        }
        follow!("instances", Guarded<Instance>, instances, all, read_instance, instance_changed);
        follow!("templates", Guarded<Template>, templates, all, Guarded::read, template_changed);
        follow!("tenants", Guarded<Tenant>, tenants, all, Guarded::read, tenant_changed);
        follow!(
            "namespaces",
            Namespace,
            namespaces,
            all,
            |o| NamespaceView::of(&o),
            namespace_changed
        );
        follow!("pods", Pod, pods, ours, |o| PodView::of(&o), pod_changed);
        follow!("claims", PersistentVolumeClaim, claims, ours, |o| claim_view(&o), claim_changed);
        follow!("services", Service, services, ours, |o| service_view(&o), child_changed);
        follow!("jobs", Job, jobs, ours, |o| JobView::of(&o), job_changed);
        if self.ingress_served {
            follow!("ingresses", Ingress, ingresses, ours, |o| ingress_view(&o), child_changed);
        }
    }

    /// Reads every Instance as it is now. A watch may be behind without anybody noticing, and whoever led
    /// before has written into the objects what must not be done again.
    pub(crate) async fn catch_up(&self, client: &Client) -> Result<(), kube::Error> {
        let api: Api<Guarded<Instance>> = Api::all(client.clone());
        let mut params = ListParams::default().limit(CATCH_UP_PAGE);
        loop {
            let page = api.list(&params).await?;
            for instance in page.items {
                self.admit_instance(instance);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    /// Caches an Instance that was read beside the watch.
    pub(super) fn admit_instance(&self, instance: Guarded<Instance>) {
        let (key, version) = (key_of(&instance), instance.meta().resource_version.clone());
        let read = read_instance(instance);
        self.instances.admit(&key, version.as_deref(), read, |change| self.index(change));
    }

    /// Forgets an Instance that the API says is gone.
    pub(super) fn evict_instance(&self, key: &Key) {
        self.instances.evict(key, |change| self.instance_changed(change));
    }

    /// Caches the object that a change of our own returned, and wakes it: what follows from the change
    /// was not decided yet.
    pub(crate) fn record_change(&self, key: &Key, instance: Instance) {
        self.record_write(key, instance);
        self.wake(key);
    }

    /// Caches the object that a write of our own returned. It needs no look because of it.
    pub(crate) fn record_write(&self, key: &Key, instance: Instance) {
        let version = instance.metadata.resource_version.clone();
        let stored = without_unused_metadata(instance);
        self.instances.put(key, version.as_deref(), Ok(stored), |change| self.index(change));
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(super) fn index(&self, change: &Change<'_, Read<Instance>>) {
        let (before, now) = (readable(change.before), readable(change.now));
        self.of_template.update(change.key, before.map(template_key), now.map(template_key));
        let tenant = |instance: &Instance| Arc::from(instance.spec.tenant.name.as_str());
        self.of_tenant.update(change.key, before.map(tenant), now.map(tenant));
        let there = |read: Option<&Read<Instance>>| read.map(|_| change.key.namespace.clone());
        self.of_namespace.update(change.key, there(change.before), there(change.now));
        let origin = |instance: &Instance| {
            let uid = instance.metadata.uid.as_deref()?;
            Some(label::hash(change.key, uid))
        };
        self.of_origin.update(change.key, before.and_then(origin), now.and_then(origin));
    }

    /// The Instances whose origins have labels that end like this.
    pub(crate) fn by_origin(&self, hash: &str) -> Vec<Key> {
        self.of_origin.of(hash)
    }

    /// What somebody else decided, another operator in a failover, is looked at in its time. Two that
    /// saw differently would otherwise write against each other without end.
    fn instance_changed(&self, change: &Change<'_, Read<Instance>>) {
        self.index(change);
        let (before, now) = (readable(change.before), readable(change.now));
        if before
            .zip(now)
            .is_some_and(|(before, now)| without_status(before) == without_status(now))
        {
            if before.map(reported) == now.map(reported) {
                self.queue.wake_within(change.key, FOREIGN_STATUS_DELAY);
            } else {
                self.queue.wake(change.key);
            }
            self.changes.send_modify(|count| *count = count.wrapping_add(1));
        } else {
            self.wake(change.key);
        }
    }

    /// Wakes the instances of a template when it changed in what concerns them.
    fn template_changed(&self, change: &Change<'_, Read<Template>>) {
        if policy(change.before) != policy(change.now) {
            self.wake_all(&self.of_template.of(change.key));
        }
    }

    fn tenant_changed(&self, change: &Change<'_, Read<Tenant>>) {
        let spec = |read: Option<&Read<Tenant>>| {
            read.map(|read| read.as_ref().map(|t| t.spec.clone()).ok())
        };
        if spec(change.before) == spec(change.now) {
            return;
        }
        self.record_email_change(change);
        self.wake_all(&self.of_tenant.of(&change.key.name));
    }

    /// Remembers when a Tenant came to have another mail address. The first list is no change.
    fn record_email_change(&self, change: &Change<'_, Read<Tenant>>) {
        let address = |read: Option<&Read<Tenant>>| {
            read.and_then(|read| read.as_ref().ok()).map(|tenant| tenant.spec.email.clone())
        };
        let now = address(change.now);
        let mut all = self.email_changed_at.write().unwrap_or_else(PoisonError::into_inner);
        if now.is_none() {
            all.remove(&change.key.name);
        } else if self.tenants.is_ready() && address(change.before) != now {
            all.insert(change.key.name.clone(), self.queue.now());
        }
    }

    /// When the Tenant was last given another mail address, as far as this process has seen it.
    pub(crate) fn email_changed_at(&self, tenant: &str) -> Option<Timestamp> {
        self.email_changed_at.read().unwrap_or_else(PoisonError::into_inner).get(tenant).copied()
    }

    fn namespace_changed(&self, change: &Change<'_, NamespaceView>) {
        if change.before != change.now {
            self.wake_all(&self.of_namespace.of(&change.key.name));
        }
    }

    fn pod_changed(&self, change: &Change<'_, PodView>) {
        let addresses = |pod: Option<&PodView>| {
            let pod = pod.filter(|pod| !pod.submission && !pod.deleting)?;
            Some((pod.ip?, pod.ports.clone()))
        };
        let (before, now) = (addresses(change.before), addresses(change.now));
        if before != now {
            if let Some((ip, ports)) = before {
                self.of_ip.update(change.key, Some(ip), None);
                for (_, port) in ports {
                    self.of_address.update(change.key, Some((ip, port)), None);
                }
            }
            if let Some((ip, ports)) = now {
                self.of_ip.update(change.key, None, Some(ip));
                for (_, port) in ports {
                    self.of_address.update(change.key, None, Some((ip, port)));
                }
            }
        }
        let job = |pod: Option<&PodView>| pod.and_then(|pod| pod.job.clone());
        self.of_job.update(change.key, job(change.before), job(change.now));
        if change.before != change.now {
            self.wake_owner(change.before.and_then(|pod| pod.instance.as_ref()));
            self.wake_owner(change.now.and_then(|pod| pod.instance.as_ref()));
        }
    }

    fn claim_changed(&self, change: &Change<'_, ChildView>) {
        let instance = |claim: Option<&ChildView>| claim.and_then(|claim| claim.instance.clone());
        self.claims_of.update(change.key, instance(change.before), instance(change.now));
        self.child_changed(change);
    }

    /// The claims that were made for an Instance of this name, each with its key.
    pub(crate) fn claims_of(&self, instance: &Key) -> Vec<(Key, Arc<ChildView>)> {
        let keys = self.claims_of.of(instance).into_iter();
        keys.filter_map(|key| self.claims.get(&key).map(|claim| (key, claim))).collect()
    }

    fn child_changed(&self, change: &Change<'_, ChildView>) {
        if change.before != change.now {
            self.wake_owner(change.before.and_then(|child| child.instance.as_ref()));
            self.wake_owner(change.now.and_then(|child| child.instance.as_ref()));
        }
    }

    fn job_changed(&self, change: &Change<'_, JobView>) {
        if change.before != change.now {
            self.wake_owner(change.before.and_then(|job| job.instance.as_ref()));
            self.wake_owner(change.now.and_then(|job| job.instance.as_ref()));
        }
    }

    fn wake_owner(&self, owner: Option<&Key>) {
        if let Some(owner) = owner {
            self.wake(owner);
        }
    }

    fn wake(&self, key: &Key) {
        self.queue.wake(key);
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn wake_all(&self, keys: &[Key]) {
        for key in keys {
            self.wake(key);
        }
    }

    /// Something concerns everybody: the configuration, or a source that turned blind or healed.
    pub(crate) fn wake_all_instances(&self) {
        let mut keys = self.instances.keys();
        keys.sort_unstable();
        self.wake_all(&keys);
    }

    /// The Pod of an environment, if it was made for this very Instance.
    pub(crate) fn pod(&self, key: &Key, environment: &str) -> Option<Arc<PodView>> {
        let name = Key::new(key.namespace.clone(), child_name(&key.name, environment));
        let pod = self.pods.get(&name)?;
        self.owns(key, pod.owner.as_deref()).then_some(pod)
    }

    /// The Pods that a Job made, each with its key.
    pub(super) fn attempts_of(&self, job: &str) -> Vec<(Key, Arc<PodView>)> {
        let keys = self.of_job.of(job).into_iter();
        keys.filter_map(|key| self.pods.get(&key).map(|pod| (key, pod))).collect()
    }

    /// The Instance behind a Service, by its exact name.
    pub(crate) fn by_service(&self, namespace: &str, service: &str) -> Option<Key> {
        let service = self.services.get(&Key::new(namespace, service))?;
        let named = service.instance.clone()?;
        self.owns(&named, service.owner.as_deref()).then_some(named)
    }

    /// The Instance at an address; without a port only if it is the only one there.
    pub(crate) fn by_address(&self, ip: IpAddr, port: Option<u16>) -> Option<Key> {
        let pods = match port {
            Some(port) => self.of_address.of(&(ip, port)),
            None => self.of_ip.of(&ip),
        };
        let mut found = None;
        for pod in pods.iter().filter_map(|pod| self.pods.get(pod)) {
            let Some(named) = pod.instance.as_ref() else { continue };
            if !self.owns(named, pod.owner.as_deref()) || found.as_ref() == Some(named) {
                continue;
            }
            if found.replace(named.clone()).is_some() {
                return None;
            }
        }
        found
    }

    /// Whether an object with this owner belongs to the Instance of that name. Anybody can write a
    /// label; and an Instance that was made again is not the one that its predecessor's parts were
    /// made for.
    fn owns(&self, instance: &Key, owner: Option<&str>) -> bool {
        let read = self.instances.get(instance);
        let uid = readable(read.as_deref()).and_then(|instance| instance.metadata.uid.as_deref());
        uid.is_some() && uid == owner
    }
}

/// How many Instances are read at a time before a term begins.
const CATCH_UP_PAGE: u32 = 500;

/// How long a status that we did not write may wait for a look.
const FOREIGN_STATUS_DELAY: SignedDuration = SignedDuration::from_mins(5);

/// What other replicas reported about an instance.
fn reported(instance: &Instance) -> Option<&ReplicaActivities> {
    instance.status.as_ref()?.activity.as_ref().map(|activity| &activity.replicas)
}

/// An instance without what was decided about it.
fn without_status(instance: &Instance) -> Instance {
    let mut without_status = instance.clone();
    without_status.status = None;
    without_status.metadata.resource_version = None;
    without_status
}

const fn readable(read: Option<&Read<Instance>>) -> Option<&Instance> {
    match read {
        Some(Ok(instance)) => Some(instance),
        Some(Err(_)) | None => None,
    }
}

/// What of a template concerns its instances: all but what people call it.
fn policy(
    template: Option<&Read<Template>>,
) -> Option<(sojourn_api::lab::template::TemplateSpec, Option<String>)> {
    let template = template?.as_ref().ok()?;
    let mut spec = template.spec.clone();
    spec.pretty_name.clear();
    let annotations = template.metadata.annotations.as_ref();
    let alerts = annotations.and_then(|map| map.get(lab::CUSTOM_ALERTS)).cloned();
    Some((spec, alerts))
}

pub(crate) fn template_key(instance: &Instance) -> Key {
    let template = &instance.spec.template;
    let own = || instance.metadata.namespace.clone().unwrap_or_default();
    Key::new(template.namespace.clone().unwrap_or_else(own), template.name.clone())
}

fn read_instance(guarded: Guarded<Instance>) -> Read<Instance> {
    guarded.read().map(without_unused_metadata)
}

/// An instance without what nobody here reads: there may be a hundred thousand of them.
fn without_unused_metadata(mut instance: Instance) -> Instance {
    instance.metadata.managed_fields = None;
    if let Some(annotations) = &mut instance.metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    instance
}

/// Keys that wait for something, each once.
#[derive(Debug, Default)]
pub(crate) struct PendingKeys(Mutex<HashSet<Key>>);

impl PendingKeys {
    /// Whether it was not waiting before.
    pub(crate) fn add(&self, key: &Key) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone())
    }

    pub(crate) fn remove(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests;
