//! One run of the test: a data folder, the Pods that are asked for, and what is known of them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, ObjectList, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client;
use crate::folder::Folder;
use crate::journal::Journal;
use crate::long_lived::{self, LongLivedPod};
use crate::observer::{self, ReportedRuns, View};
use crate::process::{self, Running};
use crate::processes;
use crate::rng::Rng;
use crate::settled::ClusterSnapshot;
use crate::shape::{CLAIM, MARK};
use crate::slot::Slot;

/// With those that stay, twenty Pods.
const SLOTS: usize = 16;
/// How long anything may take on a slow and busy machine; back-off is part of it.
const CHURN_TIMEOUT: Duration = Duration::from_secs(180);
/// Between two looks at what nobody tells of.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a server stays down at most: nothing may be left that ends by itself.
const MAX_DOWNTIME: Duration = Duration::from_secs(3);
/// So much of what each server logged is shown when something is wrong.
const LOG_LINES: usize = 60;

pub(crate) struct ChurnTest {
    folder: Folder,
    name: String,
    slots: Vec<Slot>,
    long_lived_pods: Vec<LongLivedPod>,
    reported: Arc<Mutex<ReportedRuns>>,
    journals: PathBuf,
    /// What the servers that were killed had logged.
    logs: Vec<String>,
}

impl ChurnTest {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let folder = Folder::new();
        let name = folder.path().display().to_string();
        let slots = (0..SLOTS).map(|number| Slot::new(number, &name, rng.fork())).collect();
        Self {
            slots,
            long_lived_pods: long_lived::all(&name, rng),
            reported: Arc::default(),
            journals: PathBuf::new(),
            logs: Vec::new(),
            name,
            folder,
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn pods_folder(&self) -> PathBuf {
        self.data().join("node/pods")
    }

    /// Starts a server, without waiting for it.
    pub(crate) fn start(&self) -> Running {
        let mut up = process::command(&["up", "--listen", "127.0.0.1:0", "--data"]);
        up.arg(self.data()).env("SOJOURN_LOG", "info");
        Running::start(up)
    }

    async fn connect(&self, server: &Running) -> Client {
        server.ready();
        client::connect(&server.kubeconfig()).await
    }

    /// Makes what is there from the beginning to the end; where Pods cannot run, says why.
    pub(crate) async fn begin(&mut self, server: &Running) -> Result<(), String> {
        let client = self.connect(server).await;
        check_confinement(&client).await?;
        let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(client.clone());
        let claim = serde_json::from_value(json!({
            "metadata": {"name": CLAIM},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "sojourn",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }));
        let claim = claims.create(&PostParams::default(), &claim.expect("a claim")).await;
        let uid = claim.expect("a claim").uid().expect("a uid");
        self.journals = self.data().join("node/claims").join(uid);

        let pods: Api<Pod> = Api::default_namespaced(client);
        for long_lived in &self.long_lived_pods {
            let pod = serde_json::from_value(long_lived.pod.clone()).expect("a Pod");
            pods.create(&PostParams::default(), &pod).await.expect("a Pod");
        }
        let deadline = Instant::now() + CHURN_TIMEOUT;
        for long_lived in &mut self.long_lived_pods {
            loop {
                let pod = pods.get(&long_lived.mark).await.expect("it was acknowledged");
                if long_lived.remember(&pod, &processes::of(&self.name)) {
                    break;
                }
                assert!(Instant::now() < deadline, "{} does not run: {pod:?}", long_lived.mark);
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Lets Pods come and go until there were so many changes, and kills the server.
    pub(crate) async fn churn(&mut self, server: Running, changes: usize) {
        let pods: Api<Pod> = Api::default_namespaced(self.connect(&server).await);
        let listed = self.reconcile(&pods).await;
        let (view, mut seen) = watch::channel(View::default());
        let observing =
            tokio::spawn(observer::observe(pods.clone(), listed, view, self.reported.clone()));
        let mut churning = JoinSet::new();
        for slot in self.slots.drain(..) {
            churning.spawn(slot.churn(pods.clone(), seen.clone()));
        }
        let enough = async {
            let enough = seen.wait_for(|view| view.changes >= changes).await;
            enough.map(drop).expect("the server is there");
        };
        tokio::time::timeout(CHURN_TIMEOUT, enough).await.expect("there is progress");
        self.kill(server);
        let ended = tokio::time::timeout(CHURN_TIMEOUT, churning.join_all()).await;
        self.slots = ended.expect("everybody notices that the server has gone");
        self.slots.sort_by(|one, other| one.name.cmp(&other.name));
        observing.await.expect("no panic");
        self.check_journals();
    }

    /// Looks at what the server, which was just started, has.
    async fn reconcile(&mut self, pods: &Api<Pod>) -> ObjectList<Pod> {
        let listed = pods.list(&ListParams::default()).await.expect("a list");
        let slots = self.slots.iter_mut();
        let mut problems: Vec<String> =
            slots.filter_map(|slot| slot.reconcile(&listed.items)).collect();
        problems.extend(self.changed_long_lived_pods(&listed.items));
        self.assert_none(&problems);
        listed
    }

    fn changed_long_lived_pods(&self, pods: &[Pod]) -> Vec<String> {
        let processes = processes::of(&self.name);
        let long_lived_pods = self.long_lived_pods.iter();
        long_lived_pods
            .filter_map(|long_lived| {
                let pod = pods.iter().find(|pod| pod.labels().get(MARK) == Some(&long_lived.mark));
                long_lived.problem(pod, &processes)
            })
            .collect()
    }

    /// Kills a server.
    pub(crate) fn kill(&mut self, server: Running) {
        server.signal("KILL");
        self.logs.push(server.ended().stderr);
        let processes = processes::of(&self.name);
        let problems: Vec<String> = self
            .long_lived_pods
            .iter()
            .filter_map(|long_lived| long_lived.problem_outside(&processes))
            .collect();
        self.assert_none(&problems);
    }

    /// Half of the time, lets some Pods end while nobody is there to see it.
    pub(crate) async fn stay_down(&self, rng: &mut Rng) {
        let awaited = usize::try_from(rng.below(8)).expect("small").saturating_sub(3);
        let ends = || Journal::read(&self.journals).0.count().1;
        let (before, deadline) = (ends(), Instant::now() + MAX_DOWNTIME);
        while ends() < before + awaited && Instant::now() < deadline {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// What was told against what was written.
    fn check_journals(&self) -> Journal {
        let (journal, mut problems) = Journal::read(&self.journals);
        problems.extend(self.reported.lock().expect("no panic").problems(&journal));
        self.assert_none(&problems);
        journal
    }

    /// Lets everything come to rest, looks at all of it, then ends it.
    pub(crate) async fn settle(&mut self, mut server: Running) {
        let pods: Api<Pod> = Api::default_namespaced(self.connect(&server).await);
        let listed = self.reconcile(&pods).await;
        let (view, _seen) = watch::channel(View::default());
        let observing =
            tokio::spawn(observer::observe(pods.clone(), listed, view, self.reported.clone()));
        server = self.until_settled(&pods, server).await;
        for pod in pods.list(&ListParams::default()).await.expect("a list") {
            let deleted = pods.delete(&pod.name_any(), &DeleteParams::default()).await;
            deleted.expect("it is there");
        }
        self.slots.iter_mut().for_each(|slot| slot.asked = None);
        self.long_lived_pods.clear();
        server = self.until_settled(&pods, server).await;
        assert_eq!(processes::of(&self.name), [], "no Pod is left");

        server.signal("INT");
        let ended = server.ended();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        observing.await.expect("no panic");
    }

    async fn until_settled(&mut self, pods: &Api<Pod>, server: Running) -> Running {
        let deadline = Instant::now() + CHURN_TIMEOUT;
        loop {
            let listed = pods.list(&ListParams::default()).await.expect("a list").items;
            let processes = processes::of(&self.name);
            // It is written before anything is told, so it is read after.
            let journal = self.check_journals();
            let seen = ClusterSnapshot {
                pods: &listed,
                journal: &journal,
                processes: &processes,
                folder: &self.pods_folder(),
            };
            let mut problems = seen.problems(&self.slots);
            problems.extend(self.changed_long_lived_pods(&listed));
            if problems.is_empty() {
                return server;
            }
            if Instant::now() >= deadline {
                // So that its log is shown.
                self.kill(server);
                panic!("{} problems:\n{}", problems.len(), problems.join("\n"));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn assert_none(&self, problems: &[String]) {
        assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    }
}

impl fmt::Display for ChurnTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (runs, ended) = Journal::read(&self.journals).0.count();
        let reported = self.reported.lock().expect("no panic").ends();
        write!(f, "{runs} runs so far, {ended} ended by themselves, {reported} ends were told")
    }
}

impl Drop for ChurnTest {
    #[expect(clippy::print_stdout, reason = "shown with the failure, as what a test prints is")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (number, log) in self.logs.iter().enumerate() {
                let lines: Vec<&str> = log.lines().collect();
                let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
                println!("server {number}:\n{last}\n");
            }
        }
        kill_shims(&self.pods_folder());
    }
}

/// An error if this machine does not let Pods be confined, so that they are refused.
async fn check_confinement(client: &Client) -> Result<(), String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let deadline = Instant::now() + CHURN_TIMEOUT;
    loop {
        let node = nodes.get_opt("local").await.expect("an answer");
        let conditions = node.and_then(|node| node.status?.conditions).unwrap_or_default();
        if let Some(confined) = conditions.iter().find(|c| c.type_ == "SojournConfined") {
            let why = confined.message.clone().unwrap_or_default();
            return if confined.status == "True" { Ok(()) } else { Err(why) };
        }
        assert!(Instant::now() < deadline, "the Node does not say whether Pods are confined");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Ends whatever is left of the Pods of a test that failed.
fn kill_shims(pods: &Path) {
    for pid in processes::shims(pods).into_values().flatten() {
        // It may have ended by itself meanwhile.
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    }
}
