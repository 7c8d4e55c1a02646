//! What a cluster was shown to be, written down as the API server tells of it: every state that a watch delivers, and
//! not only those that somebody happened to look at.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use sojourn_api::cluster::ClusterDeployment;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::deployment::Cluster;
use crate::wait::EVENTUALLY_TIMEOUT;

/// A server that is away is missed only for so long.
const WATCH_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The power state with both conditions, which are written together.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    power_state: String,
    hibernating: String,
    ready: String,
}

#[derive(Debug)]
pub(crate) struct Journal {
    shown: Arc<Mutex<Vec<Shown>>>,
    task: JoinHandle<()>,
}

impl Journal {
    pub(crate) async fn start(client: &Client, namespace: &str, name: &str) -> Self {
        let shown = Arc::<Mutex<Vec<Shown>>>::default();
        let (listed, mut is_listed) = watch::channel(false);
        let api: Api<ClusterDeployment> = Api::namespaced(client.clone(), namespace);
        let own = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let task = tokio::spawn(follow(api, own, shown.clone(), listed));
        let begun = tokio::time::timeout(EVENTUALLY_TIMEOUT, is_listed.wait_for(|listed| *listed));
        drop(begun.await.expect("the watch begins").expect("the task runs"));
        Self { shown, task }
    }

    /// The power states from the beginning, each as often as it came. Every one of them stood beside the conditions
    /// that it has to stand beside.
    pub(crate) fn power_states(&self) -> Vec<String> {
        let shown = self.shown.lock().expect("no panic inside").clone();
        for one in &shown {
            assert!(one.is_documented(), "{one:?} in {shown:#?}");
        }
        let mut states: Vec<String> = shown.into_iter().map(|one| one.power_state).collect();
        states.dedup();
        states
    }

    /// The way that it took since somebody asked last: these in that order, but for those that pass by unseen.
    pub(crate) fn assert_way(&self, way: &[&str], may_be_missing: &[&str]) {
        let states = self.power_states();
        let end = way.last().expect("a way");
        let is_start = |window: &[String]| window[0] != way[0] && window[1] == way[0];
        let start = states.windows(2).rposition(is_start).map_or(0, |index| index + 1);
        let taken: Vec<&str> = states[start..].iter().map(String::as_str).collect();
        let missing = |state: &&&str| !taken.contains(*state);
        let left_out: Vec<_> = way.iter().filter(missing).collect();
        let expected: Vec<&str> = way.iter().copied().filter(|one| taken.contains(one)).collect();
        assert_eq!(taken, expected, "the way to {end}: {states:?}");
        let excused = left_out.iter().all(|state| may_be_missing.contains(state));
        assert!(excused, "{left_out:?} are missing on the way to {end}: {states:?}");
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shown {
    fn of(cluster: &ClusterDeployment) -> Self {
        let cluster = Cluster(serde_json::to_value(cluster).expect("JSON"));
        Self {
            power_state: cluster.power_state().to_owned(),
            hibernating: cluster.condition("Hibernating"),
            ready: cluster.condition("Ready"),
        }
    }

    /// The table of docs/cluster.md, for clusters whose machines somebody can stop and into which nobody syncs.
    fn is_documented(&self) -> bool {
        let state = self.power_state.as_str();
        let (hibernating, ready) = match state {
            "Running" => ("False ResumingOrRunning".to_owned(), "True Running".to_owned()),
            "Hibernating" => {
                ("True Hibernating".to_owned(), "False StoppingOrHibernating".to_owned())
            }
            "Stopping" | "FailedToStop" | "WaitingForMachinesToStop" => {
                (format!("False {state}"), "False StoppingOrHibernating".to_owned())
            }
            "StartingMachines"
            | "FailedToStartMachines"
            | "WaitingForMachines"
            | "WaitingForNodes"
            | "PausingForClusterOperatorsToSettle"
            | "WaitingForClusterOperators" => {
                ("False ResumingOrRunning".to_owned(), format!("False {state}"))
            }
            "Unknown" => return self.hibernating == self.ready,
            _ => return false,
        };
        (hibernating, ready) == (self.hibernating.clone(), self.ready.clone())
    }
}

/// Follows it, through every time that its server is away.
async fn follow(
    api: Api<ClusterDeployment>,
    own: watcher::Config,
    shown: Arc<Mutex<Vec<Shown>>>,
    listed: watch::Sender<bool>,
) {
    let mut seen = std::pin::pin!(watcher::watcher(api, own));
    while let Some(event) = seen.next().await {
        match event {
            Ok(Event::Apply(cluster) | Event::InitApply(cluster)) => {
                // Before anybody has looked at it, it is shown to be nothing.
                if cluster.status.is_some() {
                    let now = Shown::of(&cluster);
                    let mut shown = shown.lock().expect("no panic inside");
                    if shown.last() != Some(&now) {
                        shown.push(now);
                    }
                }
            }
            Ok(Event::InitDone) => drop(listed.send(true)),
            Ok(Event::Init | Event::Delete(_)) => {}
            // Then it tries again, from where it was.
            Err(_) => tokio::time::sleep(WATCH_RETRY_DELAY).await,
        }
    }
}
