use std::future::pending;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::tests::{FOREIGN, Scratch, foreign_owner};
use super::reclaim::{ClaimFate, fate};
use super::*;
use crate::claim::FINALIZER;
use crate::objects::tests::server::Server;

const MOUNTED: VolumeUses = VolumeUses { mounted: true, device: false };
const DEVICE: VolumeUses = VolumeUses { mounted: false, device: true };

fn claim(uid: &str, change: impl FnOnce(&mut Value)) -> PersistentVolumeClaim {
    let mut value = claim_json(uid);
    change(&mut value);
    serde_json::from_value(value).unwrap()
}

/// A claim that is bound here.
fn claim_json(uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "team", "uid": uid,
                     "finalizers": [PROTECTION, FINALIZER]},
        "spec": {"volumeName": volume_name(uid), "volumeMode": "Filesystem"},
        "status": {"phase": "Bound"},
    })
}

fn deleted(finalizers: &[&str]) -> impl FnOnce(&mut Value) {
    let finalizers = json!(finalizers);
    |claim| {
        claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        claim["metadata"]["finalizers"] = finalizers;
    }
}

struct Node {
    scratch: Scratch,
    folder: NodeFolder,
    claims: Arc<Claims>,
}

impl Node {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let folder = NodeFolder::new(scratch.path());
        Self { claims: Arc::new(Claims::new(folder.clone())), folder, scratch }
    }

    fn pod(&self, uid: &str) -> PodFolder {
        let pod = self.folder.pod(uid);
        std::fs::create_dir_all(pod.volumes()).unwrap();
        pod
    }

    fn attach(&self, pod: &str, claim: &PersistentVolumeClaim) -> Result<PathBuf, ClaimError> {
        let source = self.claims.attach(&self.pod(pod), "v", MOUNTED, claim, foreign_owner())?;
        let VolumeSource::Folder(path) = source else { panic!("{source:?}") };
        Ok(path)
    }

    fn attach_device(
        &self,
        pod: &str,
        claim: &PersistentVolumeClaim,
    ) -> Result<PathBuf, ClaimError> {
        let source = self.claims.attach(&self.pod(pod), "v", DEVICE, claim, foreign_owner())?;
        let VolumeSource::Device(path) = source else { panic!("{source:?}") };
        Ok(path)
    }

    /// The directory of a claim, with something in it that would be missed.
    fn keep_something(&self, uid: &str) -> PathBuf {
        let file = self.folder.claims().join(uid).join("precious");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "data").unwrap();
        file
    }
}

#[test]
fn which_claims_can_be_mounted() {
    let foreign = "the claim is bound to volume \"pv-7\", which is not a directory of this node's: \
                   only claims of storage class \"sojourn\", or of none, can be mounted here";
    let other = format!("sojourn-{}", "bb");
    let cases: [(PersistentVolumeClaim, Result<&str, &str>); 7] = [
        (claim("aa", |_| ()), Ok("aa")),
        (claim("aa", |claim| claim["status"]["phase"] = json!("Pending")), Err("PVC is not bound")),
        (claim("aa", |claim| claim["status"] = json!({})), Err("PVC is not bound")),
        (claim("aa", |claim| claim["spec"]["volumeName"] = json!("pv-7")), Err(foreign)),
        // A Pod that is being restarted while its claim waits for it.
        (claim("aa", deleted(&[PROTECTION, FINALIZER])), Ok("aa")),
        (claim("aa", deleted(&[FINALIZER])), Err("PVC is being deleted")),
        (claim("../../x", |_| ()), Err("\"../../x\" is not the uid of a claim")),
    ];
    for (claim, expected) in cases {
        let got = usable(&claim).map(str::to_owned).map_err(|error| error.to_string());
        assert_eq!(got, expected.map(str::to_owned).map_err(str::to_owned));
    }
    // Somebody else's directory cannot be had by naming it.
    let stolen = claim("aa", |claim| claim["spec"]["volumeName"] = json!(other));
    assert!(matches!(usable(&stolen), Err(ClaimError::Foreign(_))));
}

#[test]
fn a_directory_is_made_once_and_held_by_a_link() {
    let node = Node::new("claim-attach");
    let pod = node.pod("pod-1");
    assert_eq!(node.claims.attached(&pod, "v", MOUNTED), None);
    let path = node.attach("pod-1", &claim("aa", |_| ())).unwrap();
    assert_eq!(path, node.folder.claims().join("aa"));
    let made = path.metadata().unwrap();
    assert_eq!(made.mode() & 0o7777, 0o777);
    assert_eq!(node.folder.claims().metadata().unwrap().mode() & 0o7777, 0o700);
    if foreign_owner().is_some() {
        assert_eq!((made.uid(), made.gid()), (FOREIGN, FOREIGN));
    }
    let link = std::fs::read_link(pod.volume("v")).unwrap();
    assert_eq!(link, Path::new("../../../claims/aa"));
    assert!(pod.volume("v").join(".").is_dir(), "the link leads there");
    assert_eq!(node.claims.attached(&pod, "v", MOUNTED), Some(VolumeSource::Folder(path.clone())));

    std::fs::write(path.join("file"), "kept").unwrap();
    node.attach("pod-2", &claim("aa", |_| ())).unwrap();
    assert_eq!(std::fs::read_to_string(path.join("file")).unwrap(), "kept");
    assert_eq!(std::fs::read_dir(node.folder.claims()).unwrap().count(), 1);
    assert_eq!(node.claims.holder("aa").unwrap().as_deref(), Some("pod-1"));
    assert_eq!(node.claims.holder("bb").unwrap(), None);
}

fn block(uid: &str, size: &str) -> PersistentVolumeClaim {
    claim(uid, |claim| {
        claim["spec"]["volumeMode"] = json!("Block");
        claim["spec"]["resources"] = json!({"requests": {"storage": size}});
    })
}

#[test]
fn a_block_claim_is_an_image_that_outlives_pods() {
    let node = Node::new("claim-block");
    let image = node.attach_device("pod-1", &block("aa", "4Mi")).unwrap();
    assert_eq!(image, node.folder.claims().join("aa/disk.img"));
    let made = image.symlink_metadata().unwrap();
    assert!(made.is_file());
    assert_eq!((made.len(), made.mode() & 0o7777), (4 << 20, 0o600));
    if foreign_owner().is_some() {
        assert_eq!((made.uid(), made.gid()), (FOREIGN, FOREIGN));
        assert_eq!(image.parent().unwrap().metadata().unwrap().uid(), FOREIGN);
    }
    let pod = node.pod("pod-1");
    let attached = node.claims.attached(&pod, "v", DEVICE);
    assert_eq!(attached, Some(VolumeSource::Device(image.clone())));

    std::fs::OpenOptions::new().write(true).open(&image).unwrap().write_all(b"kept").unwrap();
    // The claim was made larger meanwhile.
    assert_eq!(node.attach_device("pod-2", &block("aa", "8Mi")).unwrap(), image);
    let bytes = std::fs::read(&image).unwrap();
    assert_eq!((&bytes[..4], bytes.len()), (b"kept".as_slice(), 8 << 20));
    assert_eq!(node.claims.holder("aa").unwrap().as_deref(), Some("pod-1"));
}

#[test]
fn a_claim_is_used_as_what_it_is() {
    let node = Node::new("claim-use");
    let pod = node.pod("pod");
    let both = VolumeUses { mounted: true, device: true };
    let files = || claim("ff", |_| ());
    for (claim, uses, expected) in [
        (
            block("bb", "1Mi"),
            MOUNTED,
            "volume v has volumeMode Block, but is specified in volumeMounts",
        ),
        (
            block("bb", "1Mi"),
            both,
            "volume v has volumeMode Block, but is specified in volumeMounts",
        ),
        (files(), DEVICE, "volume v has volumeMode Filesystem, but is specified in volumeDevices"),
        (files(), both, "volume v has volumeMode Filesystem, but is specified in volumeDevices"),
        (
            claim("cc", |claim| claim["spec"]["volumeMode"] = json!("Block")),
            DEVICE,
            "the claim's volumeMode is Block, and it does not say how large it is to be",
        ),
        (
            block("bb", "much"),
            DEVICE,
            "the size of the claim: \"much\" is not an amount: write a number and perhaps a suffix, \
             as in 500m, 2, 128Mi, 1e9",
        ),
        (
            claim("cc", |claim| claim["spec"]["volumeMode"] = json!("Tape")),
            MOUNTED,
            "the claim's volumeMode \"Tape\" is neither Filesystem nor Block",
        ),
    ] {
        let refused = node.claims.attach(&pod, "v", uses, &claim, foreign_owner()).unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }
    assert_eq!(node.claims.directories().unwrap(), Vec::<String>::new(), "nothing was made");
    assert_eq!(node.claims.attached(&pod, "v", DEVICE), None);
}

/// What a Pod puts into the folder of its files makes no device of it.
#[test]
fn a_file_of_that_name_is_a_file() {
    let node = Node::new("claim-name");
    let path = node.attach("pod", &claim("aa", |_| ())).unwrap();
    std::fs::write(path.join("disk.img"), "mine").unwrap();
    let pod = node.pod("pod");
    let attached = node.claims.attached(&pod, "v", MOUNTED);
    assert_eq!(attached, Some(VolumeSource::Folder(path.clone())));
    let refused = node.attach_device("other", &claim("aa", |_| ())).unwrap_err();
    assert!(matches!(refused, ClaimError::Use { .. }), "{refused}");
    assert_eq!(std::fs::read_to_string(path.join("disk.img")).unwrap(), "mine");
}

#[test]
fn a_directory_of_another_user_is_not_given_away() {
    let Some(owner) = foreign_owner() else { return };
    let node = Node::new("claim-owner");
    let path = node.attach("pod", &claim("aa", |_| ())).unwrap();
    let other = Some(Owner { uid: owner.uid + 1, gid: owner.gid + 1 });
    let pod = node.pod("other");
    let refused = node.claims.attach(&pod, "v", MOUNTED, &claim("aa", |_| ()), other).unwrap_err();
    assert!(matches!(refused, ClaimError::Owner { .. }), "{refused}");
    assert_eq!(path.metadata().unwrap().uid(), FOREIGN);
    assert_eq!(node.claims.attached(&pod, "v", MOUNTED), None);
}

#[test]
fn a_link_in_place_of_a_directory_is_refused() {
    let node = Node::new("claim-link");
    let outside = node.scratch.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::create_dir(node.folder.claims()).unwrap();
    symlink(&outside, node.folder.claims().join("aa")).unwrap();
    let before = outside.metadata().unwrap().uid();
    node.attach("pod", &claim("aa", |_| ())).unwrap_err();
    assert_eq!(outside.metadata().unwrap().uid(), before);
}

#[test]
fn a_directory_goes_only_when_no_pod_holds_it() {
    let node = Node::new("claim-delete");
    let path = node.attach("pod", &claim("aa", |_| ())).unwrap();
    let file = node.keep_something("aa");
    assert_eq!(node.claims.delete("aa").unwrap().as_deref(), Some("pod"));
    assert!(file.exists());
    std::fs::remove_file(node.pod("pod").volume("v")).unwrap();
    assert_eq!(node.claims.delete("aa").unwrap(), None);
    assert!(!path.exists());
    assert_eq!(std::fs::read_dir(node.folder.claims()).unwrap().count(), 0);
    // A Pod that was prepared from what was true a moment ago does not bring it back.
    let late = node.attach("late", &claim("aa", |_| ())).unwrap_err();
    assert!(matches!(late, ClaimError::Deleted));
    assert!(!path.exists());
    assert_eq!(node.claims.delete("aa").unwrap(), None, "twice is fine");
    assert!(node.claims.delete("../pods").is_err());
}

#[test]
fn a_deletion_that_was_decided_is_finished() {
    let node = Node::new("claim-finish");
    let kept = node.keep_something("aa");
    node.keep_something(".deleted-bb");
    let strange = node.keep_something(".deleted-");
    node.claims.finish_deletions().unwrap();
    assert!(kept.exists() && strange.exists());
    assert!(!node.folder.claims().join(".deleted-bb").exists());
    assert_eq!(node.claims.directories().unwrap(), ["aa"]);
}

#[test]
fn what_the_api_says_decides() {
    let unprotected = |claim: &mut Value| claim["metadata"]["finalizers"] = json!([PROTECTION]);
    let cases = [
        (claim("aa", |_| ()), ClaimFate::Keep),
        (claim("aa", unprotected), ClaimFate::Protect),
        (
            claim("aa", |claim| {
                unprotected(claim);
                claim["spec"]["volumeName"] = json!("pv-7");
            }),
            ClaimFate::Keep,
        ),
        (claim("aa", deleted(&[PROTECTION, FINALIZER])), ClaimFate::Wait),
        (claim("aa", deleted(&[FINALIZER, "example.com/backup"])), ClaimFate::Wait),
        (claim("aa", deleted(&[FINALIZER])), ClaimFate::Delete),
        (claim("aa", deleted(&[PROTECTION])), ClaimFate::Keep),
        (claim("aa", deleted(&[])), ClaimFate::Keep),
    ];
    for (claim, expected) in cases {
        assert_eq!(fate(&claim), expected, "{claim:?}");
    }
}

const CLAIMS: &str = "persistentvolumeclaims";

/// Runs the reclaimer until it has deleted the directory of a claim that comes last: by then it has
/// decided about all others.
async fn keep_until_settled(node: &Node, server: &Server) {
    let last = node.keep_something("last");
    let mut value = claim_json("last");
    deleted(&[FINALIZER])(&mut value);
    server.put(CLAIMS, "team", "zz-last", value);
    let reclaiming =
        tokio::spawn(run_reclaimer(server.client(), Arc::clone(&node.claims), pending()));
    server.until(|| server.get(CLAIMS, "team", "zz-last").is_none()).await;
    assert!(!last.exists());
    reclaiming.abort();
}

#[tokio::test]
async fn no_state_of_the_store_loses_a_directory() {
    let nothing = |_: &Server| ();
    let older = |server: &Server| server.put(CLAIMS, "team", "data", claim_json("aa"));
    let made_again = |server: &Server| server.put(CLAIMS, "team", "data", claim_json("bb"));
    let made_again_and_deleted = |server: &Server| {
        let mut value = claim_json("bb");
        deleted(&[FINALIZER])(&mut value);
        server.put(CLAIMS, "team", "data", value);
    };
    let damaged = |server: &Server| {
        let mut value = claim_json("");
        deleted(&[FINALIZER])(&mut value);
        server.put(CLAIMS, "team", "data", value.clone());
        value["metadata"]["uid"] = json!("../claims");
        server.put(CLAIMS, "team", "datb", value.clone());
        value["metadata"]["uid"] = json!(".");
        server.put(CLAIMS, "team", "datc", value);
    };
    let half_deleted = |server: &Server| {
        let mut value = claim_json("aa");
        deleted(&[PROTECTION, FINALIZER])(&mut value);
        server.put(CLAIMS, "team", "data", value);
    };
    let let_go_by_hand = |server: &Server| {
        let mut value = claim_json("aa");
        deleted(&["example.com/other"])(&mut value);
        server.put(CLAIMS, "team", "data", value);
    };
    type Prepare<'a> = &'a dyn Fn(&Server);
    let cases: [(&str, Prepare<'_>); 7] = [
        ("the store is empty", &nothing),
        ("the store is older", &older),
        ("another claim has the name now", &made_again),
        ("another claim of the name is deleted", &made_again_and_deleted),
        ("the store is damaged", &damaged),
        ("a Pod still uses it", &half_deleted),
        ("our finalizer was taken off", &let_go_by_hand),
    ];
    for (number, (case, prepare)) in cases.iter().enumerate() {
        let node = Node::new(&format!("claim-store-{number}"));
        let precious = node.keep_something("aa");
        let server = Server::start().await;
        prepare(&server);
        keep_until_settled(&node, &server).await;
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "data", "{case}");
    }
}

#[tokio::test]
async fn a_deleted_claim_waits_for_the_pod_that_holds_its_directory() {
    let node = Node::new("claim-held");
    let path = node.attach("pod", &claim("aa", |_| ())).unwrap();
    let server = Server::start().await;
    let mut value = claim_json("aa");
    deleted(&[FINALIZER])(&mut value);
    server.put(CLAIMS, "team", "data", value);
    keep_until_settled(&node, &server).await;
    assert!(path.exists());
    assert!(server.get(CLAIMS, "team", "data").is_some(), "the claim stays as long");

    std::fs::remove_file(node.pod("pod").volume("v")).unwrap();
    keep_until_settled_again(&node, &server).await;
    assert!(!path.exists());
}

/// Another run of the node: it finds what the first left.
async fn keep_until_settled_again(node: &Node, server: &Server) {
    let claims = Arc::new(Claims::new(node.folder.clone()));
    let reclaiming = tokio::spawn(run_reclaimer(server.client(), claims, pending()));
    server.until(|| server.get(CLAIMS, "team", "data").is_none()).await;
    reclaiming.abort();
}

#[tokio::test]
async fn a_bound_claim_gets_the_finalizer_that_it_lost() {
    let node = Node::new("claim-protect");
    let server = Server::start().await;
    let mut value = claim_json("aa");
    value["metadata"]["finalizers"] = json!([PROTECTION]);
    server.put(CLAIMS, "team", "data", value);
    let reclaiming =
        tokio::spawn(run_reclaimer(server.client(), Arc::clone(&node.claims), pending()));
    let finalizers =
        || server.get(CLAIMS, "team", "data").unwrap()["metadata"]["finalizers"].clone();
    server.until(|| finalizers() == json!([PROTECTION, FINALIZER])).await;
    reclaiming.abort();
}
