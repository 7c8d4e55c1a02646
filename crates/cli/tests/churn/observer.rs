//! What the API tells of Pods while they churn, and whether it contradicts itself or the journals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectList, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use tokio::sync::watch;

use crate::journal::Journal;
use crate::shape::MARK;

/// What processes that are being deleted may end with unsaid: killed, or asked to end before they
/// could listen.
const CODES_OF_THE_DELETED: [i32; 2] = [137, 143];

/// The Pods as they are now.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) pods: BTreeMap<String, Pod>,
    /// By uid.
    pub(crate) gone: BTreeSet<String>,
    pub(crate) changes: usize,
}

/// Keeps a view up to date until the server is gone.
pub(crate) async fn observe(
    api: Api<Pod>,
    listed: ObjectList<Pod>,
    view: watch::Sender<View>,
    reported: Arc<Mutex<ReportedRuns>>,
) {
    let mut version = listed.metadata.resource_version.expect("lists have a version");
    view.send_modify(|view| {
        let mut reported = reported.lock().expect("no panic");
        for pod in listed.items {
            reported.record_pod(&pod);
            view.pods.insert(pod.name_any(), pod);
        }
    });
    loop {
        let Ok(events) = api.watch(&WatchParams::default(), &version).await else { return };
        let mut events = std::pin::pin!(events);
        while let Ok(Some(event)) = events.try_next().await {
            let (pod, is_gone) = match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => (pod, false),
                WatchEvent::Deleted(pod) => (pod, true),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(status) => panic!("a watch was refused: {status:?}"),
            };
            version = pod.resource_version().expect("stored objects have a version");
            reported.lock().expect("no panic").record_pod(&pod);
            view.send_modify(|view| {
                view.changes += 1;
                if is_gone {
                    view.gone.extend(pod.uid());
                    view.pods.remove(&pod.name_any());
                } else {
                    view.pods.insert(pod.name_any(), pod);
                }
            });
        }
    }
}

/// One run of a container: mark of the Pod, name of the container, attempt.
type RunId = (String, String, usize);

/// Everything that the API ever reported of runs.
#[derive(Debug, Default)]
pub(crate) struct ReportedRuns {
    ends: BTreeMap<RunId, End>,
    starts: BTreeMap<RunId, String>,
    /// When each Pod was started, by its mark.
    pods: BTreeMap<String, String>,
    restarts: BTreeMap<(String, String), i32>,
    /// Containers that are said to have ended without ever having run: their Pod ended before.
    unstarted: BTreeSet<(String, String)>,
    contradictions: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    code: i32,
    finished: String,
    /// The Pod was being deleted when this was told for the first time.
    deleting: bool,
}

impl ReportedRuns {
    fn record_pod(&mut self, pod: &Pod) {
        let mark = pod.labels().get(MARK).cloned().unwrap_or_default();
        let Some(status) = &pod.status else { return };
        if let Some(Time(started)) = &status.start_time {
            let started = started.to_string();
            let known = self.pods.entry(mark.clone()).or_insert_with(|| started.clone());
            if *known != started {
                let problem = format!("{mark}: started at {known}, and then at {started}");
                self.contradictions.push(problem);
            }
        }
        let deleting = pod.metadata.deletion_timestamp.is_some();
        for container in statuses(pod) {
            self.record_container(&mark, container, deleting);
        }
    }

    fn record_container(&mut self, mark: &str, container: &ContainerStatus, deleting: bool) {
        let name = &container.name;
        let count = container.restart_count;
        let known = self.restarts.entry((mark.to_owned(), name.clone())).or_insert(count);
        if *known > count {
            let problem = format!("{mark}.{name}: restarts went from {known} to {count}");
            self.contradictions.push(problem);
        }
        *known = count;
        for state in [&container.state, &container.last_state].into_iter().flatten() {
            if let Some(running) = &state.running {
                match attempt(container.container_id.as_deref()) {
                    Some(attempt) => {
                        let run = (mark.to_owned(), name.clone(), attempt);
                        self.started(&run, running.started_at.as_ref());
                    }
                    None => self.contradictions.push(format!("{mark}.{name} runs without id")),
                }
            }
            if let Some(ended) = &state.terminated {
                let Some(attempt) = attempt(ended.container_id.as_deref()) else {
                    self.unstarted.insert((mark.to_owned(), name.clone()));
                    continue;
                };
                let run = (mark.to_owned(), name.clone(), attempt);
                self.started(&run, ended.started_at.as_ref());
                let (code, finished) = (ended.exit_code, text(ended.finished_at.as_ref()));
                self.ended(&run, &End { code, finished, deleting });
            }
        }
    }

    fn started(&mut self, run: &RunId, at: Option<&Time>) {
        let at = text(at);
        let known = self.starts.entry(run.clone()).or_insert_with(|| at.clone());
        if *known != at {
            self.contradictions.push(format!("{run:?} started at {known}, and then at {at}"));
        }
    }

    fn ended(&mut self, run: &RunId, end: &End) {
        let known = self.ends.entry(run.clone()).or_insert_with(|| end.clone());
        if (known.code, &known.finished) != (end.code, &end.finished) {
            self.contradictions.push(format!("{run:?} ended as {known:?}, and then as {end:?}"));
        }
    }

    /// How many ends of runs were told.
    pub(crate) fn ends(&self) -> usize {
        self.ends.len()
    }

    /// What contradicts itself, or what containers wrote of themselves.
    pub(crate) fn problems(&self, journal: &Journal) -> Vec<String> {
        let wrong = self.ends.iter().filter_map(|((mark, container, attempt), end)| {
            let said = journal.of(mark, container).get(*attempt).map(|run| run.end);
            let excused = end.deleting && CODES_OF_THE_DELETED.contains(&end.code);
            (said != Some(Some(end.code)) && !excused).then(|| {
                format!("{mark}.{container}, attempt {attempt}: {said:?} in its journal; {end:?}")
            })
        });
        let unstarted = self.unstarted.iter().filter_map(|(mark, container)| {
            let runs = journal.of(mark, container);
            (!runs.is_empty())
                .then(|| format!("{mark}.{container} is said not to have run: {runs:?}"))
        });
        self.contradictions.iter().cloned().chain(wrong).chain(unstarted).collect()
    }
}

/// The statuses of all containers.
pub(crate) fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let lists = status.map(|status| [&status.init_container_statuses, &status.container_statuses]);
    lists.into_iter().flatten().flatten().flatten()
}

/// The run that a container's status is about, if it ever ran, and with which code it ended.
pub(crate) fn last_run(container: &ContainerStatus) -> Option<(usize, Option<i32>)> {
    let ended = |state: &Option<ContainerState>| {
        let ended = state.as_ref()?.terminated.as_ref()?;
        Some((attempt(ended.container_id.as_deref())?, Some(ended.exit_code)))
    };
    let running = || {
        container.state.as_ref()?.running.as_ref()?;
        Some((attempt(container.container_id.as_deref())?, None))
    };
    running().or_else(|| ended(&container.state)).or_else(|| ended(&container.last_state))
}

/// The last part of a container's id.
fn attempt(id: Option<&str>) -> Option<usize> {
    id?.rsplit('/').next()?.parse().ok()
}

fn text(time: Option<&Time>) -> String {
    time.map(|Time(time)| time.to_string()).unwrap_or_default()
}
