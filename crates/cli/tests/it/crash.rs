//! `kill -9` under load: what was acknowledged is there, and no version is given twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use tokio::task::JoinSet;

use crate::client::{self, version};
use crate::folder::Folder;
use crate::process::Running;
use crate::skip;

const WRITERS: usize = 8;
const NOT_OURS: &str = "metadata.name!=kube-root-ca.crt";
const CRASH_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost() {
    let rounds = std::env::var("SOJOURN_CRASH_ROUNDS")
        .ok()
        .map_or(3, |rounds| rounds.parse().expect("SOJOURN_CRASH_ROUNDS is a number"));
    let folder = Folder::new();
    let mut server = Running::up_on(folder.path());
    let mut follower = Follower::start(&client::config_maps(&server.kubeconfig()).await).await;
    let mut known = BTreeMap::new();
    for round in 0..rounds {
        let (load, followed) =
            tokio::join!(load_until_killed(server, round), follower.clone().follow(None));
        follower = followed;
        println!("round {round}: {} acknowledged, killed", load.acknowledged.len());

        server = Running::up_on(folder.path());
        let api = client::config_maps(&server.kubeconfig()).await;
        let stored = stored(&api).await;
        check(&load, &known, &stored);
        let used = load.acknowledged.values().chain(follower.objects.values()).max();
        let highest = used.copied().max(Some(follower.version)).unwrap_or_default();
        let marker = format!("round-{round}");
        let fresh = client::create(&api, &marker, "").await.expect("writes work again");
        assert!(fresh > highest, "version {fresh} was given after {highest}");

        follower = follower.reconnected(api.clone()).follow(Some(marker)).await;
        known = self::stored(&api).await;
        assert_eq!(follower.objects, known, "the watcher has missed something");
    }
}

/// A node that is killed cannot remove the group of its Pods. Thousands of tests would fill a
/// developer's machine with them.
#[test]
fn the_control_groups_of_a_killed_node_go_with_its_folder() {
    let folder = Folder::new();
    Running::up_on(folder.path()).crash();
    let groups = folder.control_groups();
    if groups.is_empty() {
        let why = "no control group can be made from here";
        // Only root makes any, so for root there is no other run that would.
        return match rustix::process::geteuid().is_root() {
            true => skip::whole(why),
            false => skip::left_to_another_run(why),
        };
    }
    drop(folder);
    let left: Vec<_> = groups.iter().filter(|group| group.exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// What the writers of one round did.
#[derive(Debug, Default)]
struct Load {
    acknowledged: BTreeMap<String, u64>,
    /// Asked for, but killed before the answer: there or not.
    open: BTreeSet<String>,
}

/// Creates objects from many tasks and kills the server in the middle of it.
async fn load_until_killed(server: Running, round: usize) -> Load {
    let kubeconfig = server.kubeconfig();
    let load = Arc::new(Mutex::new(Load::default()));
    let written = Arc::new(AtomicUsize::new(0));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write(
            kubeconfig.clone(),
            format!("r{round}-w{writer}"),
            load.clone(),
            written.clone(),
        ));
    }
    // The moment is chosen by progress: whatever the machine's speed, the load is on.
    let enough = 50 + random(400);
    let reached = tokio::time::timeout(CRASH_TIMEOUT, async {
        while written.load(Ordering::Relaxed) < enough {
            tokio::task::yield_now().await;
        }
    });
    reached.await.expect("the writers make progress");
    server.crash();
    let ended = tokio::time::timeout(CRASH_TIMEOUT, writers.join_all()).await;
    ended.expect("the writers notice that the server has gone");
    Arc::into_inner(load).expect("the writers have ended").into_inner().expect("no panic")
}

/// Creates one object after the other until the server is gone.
async fn write(
    kubeconfig: impl AsRef<Path>,
    prefix: String,
    load: Arc<Mutex<Load>>,
    written: Arc<AtomicUsize>,
) {
    let api = client::config_maps(kubeconfig.as_ref()).await;
    for number in 0.. {
        let name = format!("{prefix}-{number}");
        load.lock().expect("no panic").open.insert(name.clone());
        let created = client::create(&api, &name, &prefix).await;
        let mut load = load.lock().expect("no panic");
        match created {
            Ok(version) => {
                load.open.remove(&name);
                load.acknowledged.insert(name, version);
                written.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                assert_eq!(client::refusal(&error), None, "{name} was refused: {error}");
                return;
            }
        }
    }
}

/// Every acknowledged object as it was acknowledged, and nothing that nobody asked for.
fn check(load: &Load, before: &BTreeMap<String, u64>, stored: &BTreeMap<String, u64>) {
    for (name, version) in before.iter().chain(&load.acknowledged) {
        assert_eq!(stored.get(name), Some(version), "{name} was acknowledged");
    }
    for name in stored.keys() {
        let asked = before.contains_key(name)
            || load.acknowledged.contains_key(name)
            || load.open.contains(name);
        assert!(asked, "nobody has created {name}");
    }
    let versions: BTreeSet<_> = stored.values().collect();
    assert_eq!(versions.len(), stored.len(), "a version was given twice");
}

async fn stored(api: &Api<ConfigMap>) -> BTreeMap<String, u64> {
    let all = api.list(&written()).await.expect("a list");
    all.iter().map(|object| (object.name_any(), version(object))).collect()
}

/// Leaves out what the server itself makes in every namespace.
fn written() -> ListParams {
    ListParams::default().fields(NOT_OURS)
}

/// A client that keeps a copy by watching, as every controller does.
#[derive(Clone)]
struct Follower {
    api: Api<ConfigMap>,
    objects: BTreeMap<String, u64>,
    version: u64,
}

impl Follower {
    async fn start(api: &Api<ConfigMap>) -> Self {
        let mut follower = Self { api: api.clone(), objects: BTreeMap::new(), version: 0 };
        follower.list().await;
        follower
    }

    fn reconnected(self, api: Api<ConfigMap>) -> Self {
        Self { api, ..self }
    }

    async fn list(&mut self) {
        let all = self.api.list(&written()).await.expect("a list");
        self.objects = all.iter().map(|object| (object.name_any(), version(object))).collect();
        let at = all.metadata.resource_version.expect("lists have a version");
        self.version = at.parse().expect("versions are numbers");
    }

    /// Takes events in until `last` was created, or, if none is named, until the server is gone.
    async fn follow(mut self, last: Option<String>) -> Self {
        let followed = tokio::time::timeout(CRASH_TIMEOUT, async {
            while !last.as_ref().is_some_and(|last| self.objects.contains_key(last)) {
                if let Err(error) = self.watch_once(last.as_deref()).await {
                    match client::refusal(&error) {
                        Some(410) => self.list().await,
                        Some(_) => panic!("a watch was refused: {error}"),
                        None => assert_eq!(last, None, "the server has gone: {error}"),
                    }
                    if last.is_none() {
                        break;
                    }
                }
            }
        });
        followed.await.expect("events arrive");
        self
    }

    async fn watch_once(&mut self, last: Option<&str>) -> Result<(), kube::Error> {
        let from = self.version.to_string();
        let mut events =
            Box::pin(self.api.watch(&WatchParams::default().fields(NOT_OURS), &from).await?);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    let at = version(&object);
                    assert!(at > self.version, "event {at} after {}", self.version);
                    self.version = at;
                    self.objects.insert(object.name_any(), at);
                    if last == Some(&object.name_any()) {
                        return Ok(());
                    }
                }
                WatchEvent::Deleted(object) => panic!("nobody deletes {}", object.name_any()),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            }
        }
        Ok(())
    }
}

/// A number below `limit` that differs from run to run.
fn random(limit: usize) -> usize {
    use std::hash::{BuildHasher, RandomState};
    let number = RandomState::new().hash_one(0) % u64::try_from(limit).expect("small");
    usize::try_from(number).expect("below limit")
}
