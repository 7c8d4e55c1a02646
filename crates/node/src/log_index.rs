//! Which logs each Pod has. Workers keep the index up to date; the log server reads it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use kube::ResourceExt as _;
use tokio::sync::watch;

use crate::folder::PodFolder;
use crate::lifecycle::{Run, RunState};
use crate::server::{CurrentRun, LogLookup, Pods, Runs};

#[derive(Debug, Clone, Default)]
pub(crate) struct LogIndex(Arc<Mutex<HashMap<Name, LoggedPod>>>);

/// Namespace and name.
type Name = (String, String);

#[derive(Debug)]
struct LoggedPod {
    uid: String,
    folder: PodFolder,
    containers: BTreeMap<String, Container>,
}

#[derive(Debug, Default)]
struct Container {
    current: Option<CurrentState>,
    previous: Option<u32>,
    waiting: Option<String>,
}

#[derive(Debug)]
struct CurrentState {
    attempt: u32,
    ended: watch::Sender<bool>,
}

impl LogIndex {
    /// Puts a Pod as it is now into the index.
    pub(crate) fn put(&self, pod: &Pod, folder: &PodFolder, runs: &[Run], status: &PodStatus) {
        let uid = pod.uid().unwrap_or_default();
        let mut shown = self.lock();
        let entry = shown.entry(name(pod)).or_insert_with(|| LoggedPod {
            uid: uid.clone(),
            folder: folder.clone(),
            containers: BTreeMap::new(),
        });
        if entry.uid != uid {
            *entry = LoggedPod { uid, folder: folder.clone(), containers: BTreeMap::new() };
        }
        let lists = [&status.init_container_statuses, &status.container_statuses];
        for status in lists.into_iter().flatten().flatten() {
            let of_it = runs.iter().filter(|run| run.container == status.name);
            let container = entry.containers.entry(status.name.clone()).or_default();
            container.update(of_it, status);
        }
    }

    /// Removes a Pod; another one of that name stays.
    pub(crate) fn remove(&self, pod: &Pod) {
        let (name, uid) = (name(pod), pod.uid().unwrap_or_default());
        let mut shown = self.lock();
        if shown.get(&name).is_some_and(|shown| shown.uid == uid) {
            shown.remove(&name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, LoggedPod>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(pod: &Pod) -> Name {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}

impl Container {
    fn update<'a>(&mut self, runs: impl Iterator<Item = &'a Run>, status: &ContainerStatus) {
        // One that could not be started has no log.
        let mut ran: Vec<(u32, bool)> = runs
            .filter(|run| !matches!(run.state, RunState::Failed { .. }))
            .map(|run| (run.attempt, matches!(run.state, RunState::Ended(_))))
            .collect();
        ran.sort_unstable();
        let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
        self.waiting = waiting.and_then(|waiting| waiting.reason.clone());
        let Some((attempt, ended)) = ran.pop() else {
            self.current = None;
            self.previous = None;
            return;
        };
        // While a container waits to be run again, its last run is the present one and the
        // previous one at once, as under a kubelet.
        let earlier = ran.pop().map(|(attempt, _)| attempt);
        self.previous = if waiting.is_some() { Some(attempt) } else { earlier };
        match &self.current {
            Some(current) if current.attempt == attempt => {
                current.ended.send_if_modified(|known| {
                    let changed = *known != ended;
                    *known = ended;
                    changed
                });
            }
            other => {
                if let Some(older) = other {
                    older.ended.send_replace(true);
                }
                self.current = Some(CurrentState { attempt, ended: watch::Sender::new(ended) });
            }
        }
    }
}

impl Pods for LogIndex {
    fn find(&self, namespace: &str, pod: &str, container: &str) -> LogLookup {
        let shown = self.lock();
        let Some(pod) = shown.get(&(namespace.to_owned(), pod.to_owned())) else {
            return LogLookup::NoPod;
        };
        let Some(container) = pod.containers.get(container) else { return LogLookup::NoContainer };
        LogLookup::Container(Runs {
            folder: pod.folder.clone(),
            current: container.current.as_ref().map(|current| CurrentRun {
                attempt: current.attempt,
                ended: current.ended.subscribe(),
            }),
            previous: container.previous,
            waiting: container.waiting.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::lifecycle::Exit;

    fn pod(uid: &str) -> Pod {
        let metadata = json!({"name": "web", "namespace": "default", "uid": uid});
        serde_json::from_value(json!({"metadata": metadata})).expect("a Pod")
    }

    fn status(state: &serde_json::Value) -> PodStatus {
        serde_json::from_value(json!({"containerStatuses": [{
            "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": state,
        }]}))
        .expect("a status")
    }

    fn run(attempt: u32, ended: bool) -> Run {
        let now = Timestamp::UNIX_EPOCH;
        let state = if ended {
            RunState::Ended(Exit {
                started_at: now,
                finished_at: now,
                exit_code: 1,
                signal: None,
                oom_killed: false,
                unseen: false,
                message: String::new(),
            })
        } else {
            RunState::Running { started_at: now }
        };
        Run { container: "main".to_owned(), attempt, state }
    }

    fn found(index: &LogIndex) -> Runs {
        match index.find("default", "web", "main") {
            LogLookup::Container(runs) => runs,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn followers_are_told_of_the_end() {
        let (index, folder) = (LogIndex::default(), PodFolder::new("pod"));
        index.put(&pod("u"), &folder, &[run(0, false)], &status(&json!({"running": {}})));
        let current = found(&index).current.expect("it runs");
        assert!(!*current.ended.borrow());
        index.put(
            &pod("u"),
            &folder,
            &[run(0, true)],
            &status(&json!({"terminated": {"exitCode": 1}})),
        );
        assert!(*current.ended.borrow());
        index.put(
            &pod("u"),
            &folder,
            &[run(0, true), run(1, false)],
            &status(&json!({"running": {}})),
        );
        let runs = found(&index);
        assert_eq!((runs.current.map(|run| run.attempt), runs.previous), (Some(1), Some(0)));
    }

    #[test]
    fn another_pod_of_the_same_name_is_another() {
        let (index, folder) = (LogIndex::default(), PodFolder::new("pod"));
        index.put(&pod("old"), &folder, &[run(3, true)], &status(&json!({"running": {}})));
        index.put(&pod("new"), &folder, &[], &status(&json!({"waiting": {"reason": "X"}})));
        let runs = found(&index);
        assert!(runs.current.is_none());
        assert_eq!(runs.waiting.as_deref(), Some("X"));
        index.remove(&pod("old"));
        assert!(matches!(index.find("default", "web", "main"), LogLookup::Container(_)));
        index.remove(&pod("new"));
        assert!(matches!(index.find("default", "web", "main"), LogLookup::NoPod));
    }
}
