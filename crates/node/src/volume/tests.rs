use std::cell::Cell;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret};
use serde_json::{Value, json};

use super::*;
use crate::folder::NodeFolder;
use crate::objects::tests::server::Server;

/// A user that is neither root nor anybody on the machine.
pub(super) const FOREIGN: u32 = 54_321;

/// A folder for one test.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sojourn-{name}-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub(super) fn let_everybody_in(&self) {
        std::fs::set_permissions(&self.0, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The user that files are given to: only root can.
#[track_caller]
pub(super) fn foreign_owner() -> Option<Owner> {
    if rustix::process::geteuid().is_root() {
        return Some(Owner { uid: FOREIGN, gid: FOREIGN });
    }
    // A test has a thread of its own, and asks more than once.
    thread_local!(static SAID: Cell<bool> = const { Cell::new(false) });
    if !SAID.replace(true) {
        crate::skip::left_to_another_run("what is about other users: only root gives them files");
    }
    None
}

/// Runs a shell script in a folder as somebody without any rights.
pub(super) fn as_foreign_user(uid: u32, folder: &Path, script: &str) -> Output {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &uid.to_string(), "--regid", &uid.to_string(), "--clear-groups"]);
    command.args(["sh", "-c", script]).current_dir(folder).output().unwrap()
}

/// What the API holds, in memory.
#[derive(Debug, Default, Clone)]
struct FakeApi {
    maps: BTreeMap<String, Known<Arc<ConfigMap>>>,
    secrets: BTreeMap<String, Known<Arc<Secret>>>,
    claims: BTreeMap<String, Known<Arc<PersistentVolumeClaim>>>,
}

impl FakeApi {
    fn put_map(&mut self, name: &str, data: &[(&str, &str)]) {
        let data = data.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
        let map = ConfigMap { data: Some(data.collect()), ..ConfigMap::default() };
        self.maps.insert(name.to_owned(), Known::Is(Arc::new(map)));
    }

    fn put_secret(&mut self, name: &str, data: &[(&str, &str)]) {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let data = data.iter().map(|(key, text)| ((*key).to_owned(), bytes(text)));
        let secret = Secret { data: Some(data.collect()), ..Secret::default() };
        self.secrets.insert(name.to_owned(), Known::Is(Arc::new(secret)));
    }

    fn put_claim(&mut self, name: &str, uid: &str) {
        let claim = json!({
            "metadata": {"name": name, "uid": uid},
            "spec": {"volumeName": format!("sojourn-{uid}")},
            "status": {"phase": "Bound"},
        });
        let claim = serde_json::from_value(claim).unwrap();
        self.claims.insert(name.to_owned(), Known::Is(Arc::new(claim)));
    }
}

impl Lookup for FakeApi {
    fn config_map(&self, _: &str, name: &str) -> Known<Arc<ConfigMap>> {
        self.maps.get(name).cloned().unwrap_or(Known::Absent)
    }

    fn secret(&self, _: &str, name: &str) -> Known<Arc<Secret>> {
        self.secrets.get(name).cloned().unwrap_or(Known::Absent)
    }

    fn claim(&self, _: &str, name: &str) -> Known<Arc<PersistentVolumeClaim>> {
        self.claims.get(name).cloned().unwrap_or(Known::Absent)
    }
}

struct Fixture {
    volumes: Volumes,
    pod: Pod,
    folder: PodFolder,
    server: Server,
    scratch: Scratch,
}

impl Fixture {
    async fn new(name: &str, volumes: Value) -> Self {
        let scratch = Scratch::new(name);
        let node = NodeFolder::new(scratch.path().join("node"));
        let server = Server::start().await;
        let pod = json!({
            "metadata": {"name": "web", "namespace": "team", "uid": "1234"},
            "spec": {"containers": [], "volumes": volumes, "serviceAccountName": "default"},
        });
        let folder = node.pod("1234");
        let volumes = Volumes::new(
            Arc::new(Claims::new(node)),
            Tokens::new(server.client()),
            Requests { milli_cpu: 2000, memory: 4 << 30, ephemeral_storage: 10 << 30 },
        );
        Self { volumes, pod: serde_json::from_value(pod).unwrap(), folder, server, scratch }
    }

    async fn prepare(&self, store: &FakeApi, at: &str) -> Prepared {
        let now = at.parse().unwrap();
        let wanted = VolumeRequest {
            pod: &self.pod,
            folder: &self.folder,
            owner: foreign_owner(),
            lookup: store,
            now,
        };
        self.volumes.prepare(&wanted).await
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.folder.volumes().join(path)).unwrap()
    }
}

const NOON: &str = "2030-01-01T00:00:00Z";

#[tokio::test]
async fn every_kind_of_volume_is_made() {
    let fixture = Fixture::new(
        "volume-kinds",
        json!([
            {"name": "map", "configMap": {"name": "m", "defaultMode": 0o640}},
            {"name": "secret", "secret": {"secretName": "s", "defaultMode": 0o644}},
            {"name": "fields", "downwardAPI": {"items": [
                {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"name": "all", "projected": {"defaultMode": 0o644, "sources": [
                {"configMap": {"name": "m", "items": [{"key": "k", "path": "sub/map"}]}},
                {"secret": {"name": "s"}},
                {"downwardAPI": {"items": [
                    {"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}},
            {"name": "disk", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
        ]),
    )
    .await;
    let mut store = FakeApi::default();
    store.put_map("m", &[("k", "from map")]);
    store.put_secret("s", &[("key", "from secret")]);
    store.put_claim("c", "claim-uid");
    let prepared = fixture.prepare(&store, NOON).await;
    assert_eq!((prepared.missing.as_slice(), prepared.warnings.as_slice()), (&[][..], &[][..]));
    assert_eq!(prepared.missing, [""; 0]);

    let folder = |name: &str| VolumeSource::Folder(fixture.folder.volume(name));
    let claim = fixture.scratch.path().join("node/claims/claim-uid");
    let mut expected: BTreeMap<String, VolumeSource> = ["map", "secret", "fields", "all", "disk"]
        .map(|name| (name.to_owned(), folder(name)))
        .into();
    expected.insert("memory".to_owned(), VolumeSource::Memory { bytes: 1 << 20 });
    expected.insert("claim".to_owned(), VolumeSource::Folder(claim));
    assert_eq!(prepared.volumes, expected);
    assert!(fixture.folder.volume("memory").is_dir(), "the shim mounts it there");

    let files = [
        ("map/k", "from map", 0o640),
        ("secret/key", "from secret", 0o600),
        ("fields/name", "web", 0o644),
        ("all/sub/map", "from map", 0o644),
        ("all/key", "from secret", 0o600),
        ("all/ns", "team", 0o644),
        ("all/token", "token 1 for \"1234\"", 0o600),
    ];
    for (path, text, mode) in files {
        assert_eq!(fixture.read(path), text, "{path}");
        let file = fixture.folder.volumes().join(path).metadata().unwrap();
        assert_eq!(file.mode() & 0o7777, mode, "{path}");
        if foreign_owner().is_some() {
            assert_eq!(file.uid(), FOREIGN, "{path}");
        }
    }
    let private = fixture.folder.volumes().metadata().unwrap();
    assert_eq!(private.mode() & 0o7777, 0o700, "nobody passes by the node's own folder");
}

#[tokio::test]
async fn contents_follow_their_objects() {
    let mut fixture = Fixture::new(
        "volume-follow",
        json!([
            {"name": "map", "configMap": {"name": "m"}},
            {"name": "fields", "downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        ]),
    )
    .await;
    let mut store = FakeApi::default();
    store.put_map("m", &[("a", "1"), ("b", "2")]);
    fixture.prepare(&store, NOON).await;
    let data = || std::fs::read_link(fixture.folder.volume("map").join("..data")).unwrap();
    let first = data();
    fixture.prepare(&store, "2030-01-01T00:00:01Z").await;
    assert_eq!(data(), first, "nothing changed, nothing is written");
    store.put_map("m", &[("a", "3")]);
    fixture.prepare(&store, "2030-01-01T00:00:02Z").await;
    assert_ne!(data(), first);
    assert_eq!(fixture.read("map/a"), "3");
    assert!(!fixture.folder.volume("map").join("b").exists());

    assert_eq!(fixture.read("fields/labels"), "");
    let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
    fixture.pod.metadata.labels = Some(labels);
    fixture.prepare(&store, "2030-01-01T00:00:03Z").await;
    assert_eq!(fixture.read("fields/labels"), "app=\"web\"");
}

#[tokio::test]
async fn what_is_missing_is_told_and_waited_for() {
    let fixture = Fixture::new(
        "volume-missing",
        json!([
            {"name": "map", "configMap": {"name": "m"}},
            {"name": "maybe", "secret": {"secretName": "none", "optional": true}},
            {"name": "all", "projected": {"sources": [
                {"secret": {"name": "s"}}, {"configMap": {"name": "m"}}]}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "host", "hostPath": {"path": "/"}},
            {"name": "huge", "emptyDir": {"medium": "HugePages"}},
        ]),
    )
    .await;
    let prepared = fixture.prepare(&FakeApi::default(), NOON).await;
    assert_eq!(
        prepared.missing,
        [
            r#"MountVolume.SetUp failed for volume "map" : configmap "m" not found"#,
            "MountVolume.SetUp failed for volume \"all\" : \
             [secret \"s\" not found, configmap \"m\" not found]",
            "MountVolume.SetUp failed for volume \"claim\" : error processing PVC team/c: failed \
             to fetch PVC from API server: persistentvolumeclaims \"c\" not found",
            "MountVolume.SetUp failed for volume \"host\" : \
             this kind of volume is not supported here",
            "MountVolume.SetUp failed for volume \"huge\" : medium \"HugePages\" is not supported \
             here: leave it out, or write Memory",
        ]
    );
    assert_eq!(prepared.volumes.keys().collect::<Vec<_>>(), ["maybe"]);
    assert_eq!(prepared.warnings, Vec::<String>::new());
    assert_eq!(prepared.refresh, Some("2030-01-01T00:01:00Z".parse().unwrap()));
}

#[tokio::test]
async fn what_a_pod_has_it_keeps() {
    let fixture = Fixture::new(
        "volume-keeps",
        json!([
            {"name": "map", "configMap": {"name": "m"}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
        ]),
    )
    .await;
    let mut store = FakeApi::default();
    store.put_map("m", &[("a", "1")]);
    store.put_claim("c", "first");
    let before = fixture.prepare(&store, NOON).await;
    // Deleted and made again, or not to be read: the Pod runs with what it has. So it does after a
    // restart of the node, which remembers nothing.
    let forgetful = Volumes::new(
        Arc::clone(&fixture.volumes.claims),
        Tokens::new(fixture.server.client()),
        fixture.volumes.allocatable,
    );
    let fixture = Fixture { volumes: forgetful, ..fixture };
    store.put_claim("c", "second");
    store.maps.insert("m".to_owned(), Known::Unknown("the API server is away".to_owned()));
    for claim in [Some(()), None] {
        if claim.is_none() {
            store.claims.clear();
            store.maps.clear();
        }
        let after = fixture.prepare(&store, "2030-01-01T00:00:01Z").await;
        assert_eq!(after.volumes, before.volumes);
        assert_eq!(after.missing, Vec::<String>::new());
        assert_eq!(after.warnings.len(), 1, "{:?}", after.warnings);
        assert_eq!(fixture.read("map/a"), "1");
    }
}

#[tokio::test]
async fn tokens_are_asked_for_once_and_renewed_in_time() {
    let fixture = Fixture::new(
        "volume-token",
        json!([{"name": "t", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]}}]),
    )
    .await;
    let store = FakeApi::default();
    let asked = || fixture.server.requests().len();
    // The server gives every token until one o'clock.
    let prepared = fixture.prepare(&store, NOON).await;
    let refresh = prepared.refresh.unwrap();
    assert!(refresh > "2030-01-01T00:47:00Z".parse().unwrap());
    assert!(refresh <= "2030-01-01T00:48:00Z".parse().unwrap());
    fixture.prepare(&store, "2030-01-01T00:47:00Z").await;
    assert_eq!(asked(), 1);
    assert_eq!(fixture.read("t/token"), "token 1 for \"1234\"");
    fixture.prepare(&store, "2030-01-01T00:48:00Z").await;
    assert_eq!(asked(), 2);
    assert_eq!(fixture.read("t/token"), "token 2 for \"1234\"");

    fixture.server.refuse(Some((403, "no")));
    let prepared = fixture.prepare(&store, "2030-01-01T00:59:00Z").await;
    assert_eq!(prepared.missing, [""; 0], "the old one is still good");
    assert_eq!(prepared.refresh, Some("2030-01-01T01:00:00Z".parse().unwrap()));
    let prepared = fixture.prepare(&store, "2030-01-01T01:00:00Z").await;
    assert_eq!(
        prepared.warnings,
        ["MountVolume.SetUp failed for volume \"t\" : token of service account \"default\" \
          expired and refresh failed: no"]
    );
    assert_eq!(prepared.refresh, Some("2030-01-01T01:01:00Z".parse().unwrap()));
}

#[tokio::test]
async fn volumes_are_taken_apart_and_claims_stay() {
    let fixture = Fixture::new(
        "volume-remove",
        json!([
            {"name": "disk", "emptyDir": {}},
            {"name": "map", "configMap": {"name": "m"}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
        ]),
    )
    .await;
    let mut store = FakeApi::default();
    store.put_map("m", &[("a", "1")]);
    store.put_claim("c", "claim-uid");
    fixture.prepare(&store, NOON).await;
    let claim = fixture.scratch.path().join("node/claims/claim-uid");
    std::fs::write(claim.join("precious"), "data").unwrap();
    let outside = fixture.scratch.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "theirs").unwrap();
    // What a Pod can leave behind.
    let disk = fixture.folder.volume("disk");
    std::os::unix::fs::symlink(&outside, disk.join("link")).unwrap();
    std::os::unix::fs::symlink(&claim, disk.join("claim")).unwrap();
    let closed = disk.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::write(closed.join("x"), "").unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o0)).unwrap();

    fixture.volumes.remove("1234", &fixture.folder).await.unwrap();
    assert!(!fixture.folder.volumes().exists());
    assert_eq!(std::fs::read_to_string(claim.join("precious")).unwrap(), "data");
    assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "theirs");
    fixture.volumes.remove("1234", &fixture.folder).await.unwrap();
    fixture.prepare(&store, "2030-01-01T00:00:01Z").await;
    assert_eq!(fixture.read("map/a"), "1", "what was removed is written again");
}
