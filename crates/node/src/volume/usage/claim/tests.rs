use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};

use super::super::super::tests::Scratch;
use super::super::{LimitExceeded, Meter};
use super::*;

const UID: &str = "6f1c2a34-0000-4000-8000-000000000001";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn claim(request: &str, mode: &str) -> PersistentVolumeClaim {
    serde_json::from_value(json!({
        "metadata": {"name": "disk", "namespace": "default", "uid": UID},
        "spec": {"volumeMode": mode, "resources": {"requests": {"storage": request}}},
    }))
    .unwrap()
}

struct OneClaim(Known<Arc<PersistentVolumeClaim>>);

impl Lookup for OneClaim {
    fn config_map(&self, _: &str, _: &str) -> Known<Arc<ConfigMap>> {
        Known::Absent
    }
    fn secret(&self, _: &str, _: &str) -> Known<Arc<Secret>> {
        Known::Absent
    }
    fn claim(&self, namespace: &str, name: &str) -> Known<Arc<PersistentVolumeClaim>> {
        assert_eq!((namespace, name), ("default", "disk"));
        self.0.clone()
    }
}

fn knows(request: &str, mode: &str) -> OneClaim {
    OneClaim(Known::Is(Arc::new(claim(request, mode))))
}

/// A node's folder with one claim.
struct Node(Scratch);

impl Node {
    fn new(name: &str) -> Self {
        let node = Self(Scratch::new(name));
        std::fs::create_dir_all(node.claim()).unwrap();
        node
    }

    fn claim(&self) -> PathBuf {
        self.0.path().join("claims").join(UID)
    }

    /// The folder of a Pod that has the claim as its volume `data`.
    fn pod(&self, uid: &str) -> PodFolder {
        let folder = PodFolder::new(self.0.path().join("pods").join(uid));
        std::fs::create_dir_all(folder.volumes()).unwrap();
        symlink(format!("../../../claims/{UID}"), folder.volume("data")).unwrap();
        folder
    }

    fn fill(&self, name: &str, bytes: usize) {
        // Not zeros: a file system may not store those.
        std::fs::write(self.claim().join(name), vec![b'x'; bytes]).unwrap();
    }
}

fn pod(uid: &str, phase: &str, read_only: bool) -> Pod {
    let source: Value = json!({"claimName": "disk", "readOnly": read_only});
    serde_json::from_value(json!({
        "metadata": {"name": uid, "namespace": "default", "uid": uid},
        "spec": {
            "containers": [{"name": "main"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": source}],
        },
        "status": {"phase": phase},
    }))
    .unwrap()
}

async fn said(meter: &Meter, pod: &Pod, folder: &PodFolder, known: &OneClaim) -> Option<String> {
    let over: Option<LimitExceeded> = meter.check(pod, folder, at(0), known).await;
    over.map(|over| over.message)
}

#[tokio::test]
async fn whoever_can_write_to_an_overfull_claim_is_evicted() {
    let node = Node::new("claim-over");
    node.fill("a", 800 << 10);
    let (one, two, three) = (node.pod("one"), node.pod("two"), node.pod("three"));
    let (meter, roomy) = (Meter::new(1 << 40), knows("1Mi", "Filesystem"));
    assert_eq!(said(&meter, &pod("one", "Running", false), &one, &roomy).await, None);

    node.fill("b", 800 << 10);
    let meter = Meter::new(1 << 40);
    let known = knows("1Mi", "Filesystem");
    for (name, folder) in [("one", &one), ("two", &two)] {
        let message = said(&meter, &pod(name, "Running", false), folder, &known).await.unwrap();
        assert!(message.starts_with("Usage of claim \"disk\" is "), "{message}");
        assert!(message.contains(" exceeds its request of 1Mi. Raise the request"), "{message}");
    }
    // Who only reads it has not filled it, and may save what is in it.
    assert_eq!(said(&meter, &pod("three", "Running", true), &three, &known).await, None);
    let four = node.pod("four");
    assert_eq!(said(&meter, &pod("four", "Succeeded", false), &four, &known).await, None);
    let granted = knows("2Mi", "Filesystem");
    assert_eq!(said(&meter, &pod("two", "Running", false), &two, &granted).await, None);
}

#[tokio::test]
async fn what_is_not_known_evicts_nobody() {
    let node = Node::new("claim-unknown");
    node.fill("a", 2 << 20);
    let folder = node.pod("one");
    let mut other = claim("1Mi", "Filesystem");
    other.metadata.uid = Some("another".to_owned());
    let mut boundless = claim("1Mi", "Filesystem");
    boundless.spec = None;
    for known in [
        Known::Absent,
        Known::Unknown("no answer".to_owned()),
        Known::Is(Arc::new(other)),
        Known::Is(Arc::new(boundless)),
    ] {
        let words = format!("{known:?}");
        let meter = Meter::new(1 << 40);
        let said = said(&meter, &pod("one", "Running", false), &folder, &OneClaim(known)).await;
        assert_eq!(said, None, "{words}");
    }
}

#[tokio::test]
async fn a_claim_that_several_pods_have_is_walked_once() {
    let node = Node::new("claim-once");
    node.fill("a", 100 << 10);
    let measurements = Measurements::default();
    let known = knows("1Mi", "Filesystem");
    let check = |pod: Pod, folder: PodFolder, seconds: i64| {
        let (measurements, known) = (&measurements, &known);
        async move { measurements.check(&pod, &folder, at(seconds), known).await }
    };
    assert_eq!(check(pod("one", "Running", false), node.pod("one"), 0).await, None);
    node.fill("b", 2 << 20);
    let other = node.pod("two");
    assert_eq!(check(pod("two", "Running", false), other.clone(), 5).await, None, "not yet");
    assert!(check(pod("two", "Running", false), other, 1_000).await.is_some());
}

#[tokio::test]
async fn a_device_is_no_longer_than_it_was_asked_for() {
    let node = Node::new("claim-block");
    let folder = node.pod("one");
    let image = std::fs::File::create(node.claim().join(device::IMAGE)).unwrap();
    image.set_len(1 << 20).unwrap();
    let known = knows("1Mi", "Block");
    let pod = pod("one", "Running", false);
    assert_eq!(said(&Meter::new(1 << 40), &pod, &folder, &known).await, None);
    // Full to the brim it is not too much, whatever the file system keeps about it.
    node.fill(device::IMAGE, 1 << 20);
    assert_eq!(said(&Meter::new(1 << 40), &pod, &folder, &known).await, None);
    // Sparse or not: what it may grow to is what counts.
    image.set_len((1 << 20) + 1).unwrap();
    let message = said(&Meter::new(1 << 40), &pod, &folder, &known).await.unwrap();
    let expected = "Usage of claim \"disk\" is 1048577 and exceeds its request of 1Mi. ";
    assert!(message.starts_with(expected), "{message}");
    // Room that was taken beyond the end shows in no length.
    let used = ClaimUsage::Image { length: 1 << 20, on_disk: 8 << 20 };
    assert!(used.needs() > 1 << 20);
}

#[test]
fn a_raised_request_is_seen_before_anybody_is_evicted() {
    let overfull = ClaimOverLimit {
        namespace: "default".to_owned(),
        name: "disk".to_owned(),
        uid: UID.to_owned(),
        needs: 2 << 20,
        requested: 1 << 20,
        too_many_files: false,
    };
    assert!(overfull.is_over_limit(&claim("1Mi", "Filesystem")));
    assert!(!overfull.is_over_limit(&claim("2Mi", "Filesystem")));
    let mut another = claim("1Mi", "Filesystem");
    another.metadata.uid = Some("another".to_owned());
    assert!(!overfull.is_over_limit(&another));
}
