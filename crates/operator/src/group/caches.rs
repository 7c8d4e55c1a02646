//! The caches of the family, and which group or machine a change of an object wakes.
//!
//! A managed machine concerns its group. One on demand concerns itself, and so does one whose group
//! is gone: its finalizer has to be removed.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Resource as _};
use sojourn_api::group::{InstanceGroup, Machine};
use sojourn_core::group::state;
use sojourn_core::key::Key;
use sojourn_drivers::machine::{MachineRef, Provider};

use super::health::{HealthTracker, LeaseView};
use super::interner::Interner;
use super::members::Members;
use super::provider_queue::ReconcileKey;
use super::view::MachineView;
use crate::frame::{Cache, Change, Guarded, Index, Queue, Read, Tasks, WatchSettings};

/// Where the nodes of a cluster keep their own heartbeats: no machine is there.
const NODE_LEASES: &str = "metadata.namespace!=kube-node-lease";

/// The caches of the family, with what connects them.
#[derive(Debug)]
pub(crate) struct GroupCaches {
    pub(crate) groups: Cache<Read<InstanceGroup>>,
    pub(crate) machines: Cache<Read<MachineView>>,
    leases: Cache<LeaseView>,
    /// Whether a namespace is being deleted.
    namespaces: Cache<bool>,
    /// Machines by the group that owns them, and those on demand by the group they name.
    members: Members<Read<MachineView>>,
    on_demand_by_group: Index<Key>,
    pub(crate) group_queue: Arc<Queue>,
    pub(crate) machine_queue: Arc<Queue>,
    pub(crate) health_tracker: Arc<HealthTracker>,
    interner: Interner,
}

impl GroupCaches {
    pub(crate) fn new(
        group_queue: Arc<Queue>,
        machine_queue: Arc<Queue>,
        health_tracker: Arc<HealthTracker>,
    ) -> Self {
        Self {
            groups: Cache::default(),
            machines: Cache::default(),
            leases: Cache::relisting_after_failure(),
            namespaces: Cache::default(),
            members: Members::default(),
            on_demand_by_group: Index::default(),
            group_queue,
            machine_queue,
            health_tracker,
            interner: Interner::default(),
        }
    }

    pub(crate) async fn until_ready(&self) {
        self.groups.until_ready().await;
        self.machines.until_ready().await;
        self.leases.until_ready().await;
        self.namespaces.until_ready().await;
    }

    /// Keeps every cache up to date.
    pub(crate) fn follow(
        self: &Arc<Self>,
        client: &Client,
        watching: WatchSettings,
        tasks: &mut Tasks,
    ) {
        let all = watching.everything();
        let caches = self.clone();
        let (api, selection) = (Api::<Guarded<InstanceGroup>>::all(client.clone()), all.clone());
        tasks.spawn("instance groups", async move {
            let changed = |change: &Change<'_, _>| caches.group_changed(change);
            caches.groups.follow(api, selection, read_group, changed).await;
        });
        let caches = self.clone();
        let (api, selection) = (Api::<Guarded<Machine>>::all(client.clone()), all.clone());
        tasks.spawn("machines", async move {
            let changed = |change: &Change<'_, _>| caches.machine_changed(change);
            let read = |guarded| read_machine(guarded, &caches.interner);
            caches.machines.follow(api, selection, read, changed).await;
        });
        let caches = self.clone();
        let (api, selection) = (Api::<Namespace>::all(client.clone()), all.clone());
        tasks.spawn("namespaces of groups", async move {
            let changed = |change: &Change<'_, _>| caches.namespace_changed(change);
            let ending = |namespace: Namespace| namespace.metadata.deletion_timestamp.is_some();
            caches.namespaces.follow(api, selection, ending, changed).await;
        });
        let caches = self.clone();
        let (api, selection) = (Api::<Lease>::all(client.clone()), all.fields(NODE_LEASES));
        tasks.spawn("heartbeats", async move {
            let changed = |change: &Change<'_, _>| caches.lease_changed(change);
            caches.leases.follow(api, selection, |lease| LeaseView::of(&lease), changed).await;
        });
        let caches = self.clone();
        tasks.spawn("ends of heartbeats", async move {
            let ended = |key: &Key| caches.provider_changed(key);
            caches.health_tracker.watch_expiry(|key| caches.heartbeat(key), ended).await;
        });
        let caches = self.clone();
        tasks.spawn("watch health of heartbeats", async move {
            let mut health = caches.leases.watch_health();
            // The cache owns the sender and we own the cache, so this never fails.
            while health.changed().await.is_ok() {
                caches.health_tracker.restart_timers();
            }
        });
    }

    /// Whether everything that is in a namespace is to go. Nothing can be made there any more, and its
    /// objects may be deleted late: a cluster deletes Pods first.
    pub(crate) fn is_ending(&self, namespace: &str) -> bool {
        self.namespaces.get(&Key::new("", namespace)).is_some_and(|ending| *ending)
    }

    /// The heartbeat of a machine.
    pub(crate) fn heartbeat(&self, key: &Key) -> Option<LeaseView> {
        self.leases.get(key).map(|lease| *lease)
    }

    pub(crate) fn machine(&self, key: &Key) -> Option<Arc<Read<MachineView>>> {
        self.machines.get(key)
    }

    /// The machines that a group owns, whatever their names are.
    pub(crate) fn members(&self, group: &Key) -> Vec<(Key, Arc<Read<MachineView>>)> {
        self.members.of(group)
    }

    /// What the machines of every group remember, as far as it can be read.
    pub(crate) fn remembered(&self) -> impl Iterator<Item = (Key, state::Machine)> {
        self.machines.keys().into_iter().filter_map(|key| {
            let read = self.machines.get(&key)?;
            let view = readable(Some(&read))?;
            let group = Key::new(key.namespace.clone(), view.owner.as_ref()?.name.clone());
            Some((group, view.state()))
        })
    }

    /// The group or machine whose reconciler decides about a machine.
    pub(crate) fn reconcile_key(&self, key: &Key) -> ReconcileKey {
        let view = self.machines.get(key);
        let owner = view.as_deref().and_then(|read| read.as_ref().ok()?.owner.as_ref());
        match owner {
            Some(owner) => {
                let group = Key::new(key.namespace.clone(), owner.name.clone());
                if self.owns(&group, &owner.uid) {
                    ReconcileKey::Group(group)
                } else {
                    ReconcileKey::Machine(key.clone())
                }
            }
            None => ReconcileKey::Machine(key.clone()),
        }
    }

    /// Whether the group is the very one that owns a machine.
    pub(crate) fn owns(&self, group: &Key, uid: &str) -> bool {
        match self.groups.get(group).as_deref() {
            Some(Ok(found)) => found.meta().uid.as_deref() == Some(uid),
            // It is there and cannot be read; its machines wait for it.
            Some(Err(_)) => true,
            None => false,
        }
    }

    pub(crate) fn wake(&self, owner: &ReconcileKey) {
        match owner {
            ReconcileKey::Group(key) => self.group_queue.wake(key),
            ReconcileKey::Machine(key) => self.machine_queue.wake(key),
        }
    }

    /// Records the health of a machine at the moment at which it may have changed.
    pub(crate) fn record_health(&self, key: &Key, provider: &dyn Provider) {
        let Some(read) = self.machines.get(key) else { return };
        let Ok(view) = &*read else { return };
        view.seen_healthy.invalidate();
        let machine = MachineRef { key, uid: &view.uid, id: view.provider_id() };
        let status = provider.status(machine);
        self.health_tracker.update(key, &status, self.heartbeat(key));
    }

    /// The status of a machine at its provider may have changed.
    pub(crate) fn provider_changed(&self, key: &Key) {
        if let Some(read) = self.machines.get(key) {
            invalidate(&read);
            self.wake(&self.reconcile_key(key));
        }
    }

    /// Wakes everything: the configuration changed, or a provider as a whole.
    pub(crate) fn wake_all(&self) {
        self.wake_matching(|_| true);
    }

    fn wake_matching(&self, concerned: impl Fn(&Key) -> bool) {
        let mut groups = self.groups.keys();
        groups.retain(&concerned);
        groups.sort_unstable();
        groups.iter().for_each(|key| self.group_queue.wake(key));
        let mut machines = self.machines.keys();
        machines.retain(&concerned);
        machines.iter().filter_map(|key| self.machines.get(key)).for_each(|read| invalidate(&read));
        machines.retain(|key| matches!(self.reconcile_key(key), ReconcileKey::Machine(_)));
        machines.sort_unstable();
        machines.iter().for_each(|key| self.machine_queue.wake(key));
    }

    /// Stores the object that a write of our own returned. Nobody is woken for it.
    pub(crate) fn wrote_group(&self, key: &Key, group: InstanceGroup) {
        let version = group.metadata.resource_version.clone();
        self.groups.put(key, version.as_deref(), Ok(slim(group)), |_| {});
    }

    pub(crate) fn wrote_machine(&self, key: &Key, machine: Machine) {
        let version = machine.metadata.resource_version.clone();
        let view = Ok(MachineView::of(machine, &self.interner));
        self.machines.put(key, version.as_deref(), view, |change| self.index(change));
    }

    /// Stores an object that we have just created. It has our finalizer, so it cannot be gone.
    pub(crate) fn created_machine(&self, key: &Key, machine: Machine) {
        let version = machine.metadata.resource_version.clone();
        let view = Ok(MachineView::of(machine, &self.interner));
        self.machines.admit(key, version.as_deref(), view, |change| self.index(change));
    }

    /// Removes the machine of this uid: the API says that it is gone.
    pub(crate) fn machine_gone(&self, key: &Key, uid: &str) {
        let same = |view: &MachineView| *view.uid == *uid;
        if self.machines.get(key).as_deref().is_some_and(|read| read.as_ref().is_ok_and(same)) {
            self.machines.evict(key, |change| self.index(change));
        }
    }

    fn index(&self, change: &Change<'_, Read<MachineView>>) {
        let (before, now) = (readable(change.before), readable(change.now));
        let owner = |view: &MachineView| {
            let owner = view.owner.as_ref()?;
            Some(Key::new(change.key.namespace.clone(), owner.name.clone()))
        };
        let groups = [before, now].into_iter().flatten().filter_map(owner);
        self.members.update(change.key, groups, || {
            let latest = self.machines.get(change.key)?;
            Some((owner(readable(Some(&latest))?)?, latest))
        });
        let host = |view: &MachineView| {
            let group = view.on_demand()?.spec.group.clone()?;
            Some(Key::new(change.key.namespace.clone(), group))
        };
        self.on_demand_by_group.update(change.key, before.and_then(host), now.and_then(host));
    }

    fn machine_changed(&self, change: &Change<'_, Read<MachineView>>) {
        self.index(change);
        if change.now.is_none() {
            self.health_tracker.forget(change.key);
        }
        let owner = |read: Option<&Read<MachineView>>| {
            let owner = readable(read)?.owner.as_ref()?;
            Some(Key::new(change.key.namespace.clone(), owner.name.clone()))
        };
        for group in [owner(change.before), owner(change.now)].into_iter().flatten() {
            self.group_queue.wake(&group);
        }
        if let ReconcileKey::Machine(key) = self.reconcile_key(change.key) {
            self.machine_queue.wake(&key);
        }
    }

    fn group_changed(&self, change: &Change<'_, Read<InstanceGroup>>) {
        self.group_queue.wake(change.key);
        let spec = |read: Option<&Read<InstanceGroup>>| {
            read.and_then(|read| read.as_ref().ok()).map(|group| group.spec.clone())
        };
        if spec(change.before) != spec(change.now) {
            self.on_demand_by_group
                .of(change.key)
                .iter()
                .for_each(|key| self.machine_queue.wake(key));
        }
        let uid = |read: Option<&Read<InstanceGroup>>| {
            read.and_then(|read| read.as_ref().ok()?.metadata.uid.clone())
        };
        // The machines of a group that is gone are decided about by themselves now.
        if uid(change.before) != uid(change.now) {
            self.members.of(change.key).iter().for_each(|(key, _)| self.provider_changed(key));
        }
    }

    /// Wakes everything in a namespace when its deletion begins, once.
    fn namespace_changed(&self, change: &Change<'_, bool>) {
        let ends = change.now == Some(&true) && change.before != Some(&true);
        if ends {
            self.wake_matching(|key| key.namespace == change.key.name);
        }
    }

    /// A heartbeat wakes whoever decides about its machine when the machine is healthy again; when
    /// it ends, the clock does.
    fn lease_changed(&self, change: &Change<'_, LeaseView>) {
        let Some(machine) = self.machines.get(change.key) else { return };
        invalidate(&machine);
        self.health_tracker.heartbeats.wake(change.key);
        let fresh = |lease: Option<&LeaseView>| {
            lease.map(|lease| lease.is_fresh(self.health_tracker.now()))
        };
        if fresh(change.before) != fresh(change.now) {
            self.provider_changed(change.key);
        }
    }
}

const fn readable(read: Option<&Read<MachineView>>) -> Option<&MachineView> {
    match read {
        Some(Ok(view)) => Some(view),
        Some(Err(_)) | None => None,
    }
}

/// The next look at it asks its provider.
fn invalidate(read: &Read<MachineView>) {
    if let Ok(view) = read {
        view.seen_healthy.invalidate();
    }
}

fn read_machine(guarded: Guarded<Machine>, interner: &Interner) -> Read<MachineView> {
    guarded.read().map(|machine| MachineView::of(machine, interner))
}

fn read_group(guarded: Guarded<InstanceGroup>) -> Read<InstanceGroup> {
    guarded.read().map(slim)
}

/// A group without the fields that are never read here.
fn slim(mut group: InstanceGroup) -> InstanceGroup {
    group.metadata.managed_fields = None;
    if let Some(annotations) = &mut group.metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    group
}

#[cfg(test)]
mod tests;
