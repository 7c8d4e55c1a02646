//! What became of the machines of a namespace, written down as the API server tells of it: every state
//! that a watch delivers, and not only those that somebody happened to look at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use sojourn_api::group::Machine;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::fleet::Draining;
use crate::wait::{EVENTUALLY_TIMEOUT, eventually};

/// A server that is away is missed only for so long.
const WATCH_RETRY_DELAY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Journal {
    state: Arc<Mutex<JournalState>>,
    tasks: [JoinHandle<()>; 2],
}

#[derive(Debug, Default)]
struct JournalState {
    pods: BTreeMap<String, PodHistory>,
    machines: BTreeMap<String, MachineHistory>,
    most_pods: usize,
    most_machines: usize,
    /// Since somebody wants to know.
    fewest_ready: Option<usize>,
}

#[derive(Debug, Clone, Default)]
struct PodHistory {
    there: bool,
    is_ready: bool,
    /// When it became ready first, by its own account.
    ready_at: Option<Timestamp>,
    /// When it was told to go.
    ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Default)]
struct MachineHistory {
    there: bool,
    phases: Vec<String>,
    drains: Vec<Draining>,
}

impl Journal {
    pub(crate) async fn start(client: &Client, namespace: &str) -> Self {
        let state = Arc::<Mutex<JournalState>>::default();
        let (ready, mut is_ready) = watch::channel(0);
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let machines: Api<Machine> = Api::namespaced(client.clone(), namespace);
        let tasks = [
            tokio::spawn(follow(
                pods,
                state.clone(),
                ready.clone(),
                JournalState::record_pod,
                JournalState::remove_pod,
            )),
            tokio::spawn(follow(
                machines,
                state.clone(),
                ready,
                JournalState::record_machine,
                JournalState::remove_machine,
            )),
        ];
        let both = is_ready.wait_for(|lists| *lists >= tasks.len());
        let both = tokio::time::timeout(EVENTUALLY_TIMEOUT, both).await.expect("the watches begin");
        drop(both.expect("the tasks run"));
        Self { state, tasks }
    }

    fn state(&self) -> MutexGuard<'_, JournalState> {
        self.state.lock().expect("no panic inside")
    }

    /// From now on the Pods that are ready are counted: so many are.
    pub(crate) fn count_ready_from(&self, size: usize) {
        let mut state = self.state();
        let ready = state.ready();
        assert_eq!(ready, size, "{state:#?}");
        state.fewest_ready = Some(size);
    }

    pub(crate) fn fewest_ready(&self) -> usize {
        self.state().fewest_ready.expect("they are counted")
    }

    pub(crate) fn most_pods(&self) -> usize {
        self.state().most_pods
    }

    pub(crate) fn most_machines(&self) -> usize {
        self.state().most_machines
    }

    /// Every machine that there ever was.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.state().machines.keys().cloned().collect()
    }

    /// The phases that a machine went through.
    pub(crate) fn phases(&self, machine: &str) -> Vec<String> {
        self.state().machines.get(machine).map(|history| history.phases.clone()).unwrap_or_default()
    }

    /// Every drain of a machine in every form that it ever had: one, if nothing about it changed.
    pub(crate) fn drains(&self, machine: &str) -> Vec<Draining> {
        self.state().machines.get(machine).map(|history| history.drains.clone()).unwrap_or_default()
    }

    /// Waits until the process of a machine was told to go; says when that was, in whole seconds.
    pub(crate) async fn ended_at(&self, machine: &str) -> Timestamp {
        eventually(&format!("{machine} has ended"), async || {
            self.state().pods.get(machine).and_then(|history| history.ended_at)
        })
        .await
    }

    /// The replacement was ready, for so long, before the drain began.
    pub(crate) fn assert_replaced_first(&self, drain: &Draining, for_at_least: SignedDuration) {
        let replacement = drain.replacement.as_deref().expect("a replacement");
        let state = self.state();
        let ready = state.pods.get(replacement).and_then(|history| history.ready_at);
        let ready = ready.unwrap_or_else(|| panic!("{replacement} was never ready: {state:#?}"));
        let settled = ready.checked_add(for_at_least).expect("in range");
        assert!(drain.started >= settled, "{replacement} was ready at {ready}: {drain:?}");
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Follows one kind, through every time that its server is away.
async fn follow<K>(
    api: Api<K>,
    state: Arc<Mutex<JournalState>>,
    listed: watch::Sender<usize>,
    record_machine: fn(&mut JournalState, &K),
    remove_machine: fn(&mut JournalState, &str),
) where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let mut seen = std::pin::pin!(watcher::watcher(api, watcher::Config::default()));
    let (mut names, mut relisted, mut first) = (BTreeSet::new(), BTreeSet::new(), true);
    while let Some(event) = seen.next().await {
        let Ok(event) = event else {
            // Then it tries again, from where it was.
            tokio::time::sleep(WATCH_RETRY_DELAY).await;
            continue;
        };
        let mut state = state.lock().expect("no panic inside");
        match event {
            Event::Init => relisted.clear(),
            Event::InitApply(object) => {
                relisted.insert(object.name_any());
                record_machine(&mut state, &object);
            }
            Event::InitDone => {
                for gone in names.difference(&relisted) {
                    remove_machine(&mut state, gone);
                }
                names.clone_from(&relisted);
                if std::mem::take(&mut first) {
                    listed.send_modify(|lists| *lists += 1);
                }
            }
            Event::Apply(object) => {
                names.insert(object.name_any());
                record_machine(&mut state, &object);
            }
            Event::Delete(object) => {
                names.remove(&object.name_any());
                remove_machine(&mut state, &object.name_any());
            }
        }
        state.count();
    }
}

impl JournalState {
    fn ready(&self) -> usize {
        self.pods.values().filter(|pod| pod.there && pod.is_ready).count()
    }

    fn count(&mut self) {
        let there = self.pods.values().filter(|pod| pod.there).count();
        self.most_pods = self.most_pods.max(there);
        let there = self.machines.values().filter(|machine| machine.there).count();
        self.most_machines = self.most_machines.max(there);
        let ready = self.ready();
        self.fewest_ready = self.fewest_ready.map(|fewest| fewest.min(ready));
    }

    fn record_pod(&mut self, pod: &Pod) {
        let history = self.pods.entry(pod.name_any()).or_default();
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|one| one.type_ == "Ready" && one.status == "True");
        history.there = true;
        history.is_ready = ready.is_some() && pod.metadata.deletion_timestamp.is_none();
        let since = ready.and_then(|one| one.last_transition_time.as_ref()).map(|time| time.0);
        history.ready_at = history.ready_at.or(since);
        // It says when it has to be gone.
        if let Some(until) = &pod.metadata.deletion_timestamp {
            let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
            history.end(until.0.checked_sub(SignedDuration::from_secs(grace)).expect("in range"));
        }
    }

    fn remove_pod(&mut self, name: &str) {
        let history = self.pods.entry(name.to_owned()).or_default();
        history.there = false;
        history.end(Timestamp::now());
    }

    fn record_machine(&mut self, machine: &Machine) {
        let history = self.machines.entry(machine.name_any()).or_default();
        history.there = true;
        let phase = machine.status.as_ref().and_then(|status| status.phase);
        let phase = format!("{:?}", phase.unwrap_or_default());
        if history.phases.last() != Some(&phase) {
            history.phases.push(phase);
        }
        if let Some(drain) = Draining::of(machine).filter(|drain| !history.drains.contains(drain)) {
            history.drains.push(drain);
        }
    }

    fn remove_machine(&mut self, name: &str) {
        self.machines.entry(name.to_owned()).or_default().there = false;
    }
}

impl PodHistory {
    fn end(&mut self, at: Timestamp) {
        self.is_ready = false;
        self.ended_at.get_or_insert(at);
    }
}
