use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, PodStatus, Secret};
use serde_json::{Value, json};

use super::super::tests::Scratch;
use super::*;
use crate::known::Known;

const MIB: u64 = 1 << 20;
const DEFAULT: u64 = 100 * MIB;

/// Nothing is known of any object.
struct NoClaims;

impl Lookup for NoClaims {
    fn config_map(&self, _: &str, _: &str) -> Known<Arc<ConfigMap>> {
        Known::Absent
    }
    fn secret(&self, _: &str, _: &str) -> Known<Arc<Secret>> {
        Known::Absent
    }
    fn claim(&self, _: &str, _: &str) -> Known<Arc<PersistentVolumeClaim>> {
        Known::Unknown("nobody was asked".to_owned())
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn container(name: &str, limit: Option<&str>) -> Value {
    let limits = limit.map(|limit| json!({"ephemeral-storage": limit}));
    json!({"name": name, "resources": {"limits": limits}})
}

fn spec(containers: &[Value], volumes: &Value) -> PodSpec {
    serde_json::from_value(json!({"containers": containers, "volumes": volumes})).unwrap()
}

fn usage(volume: u64, log: u64, own: u64) -> Usage {
    Usage {
        volumes: BTreeMap::from([("data".to_owned(), volume)]),
        logs: BTreeMap::from([("main".to_owned(), log)]),
        own,
        entries: 10,
    }
}

#[test]
fn the_first_limit_that_is_passed_is_told() {
    let volume = |limit: Option<&str>| json!([{"name": "data", "emptyDir": {"sizeLimit": limit}}]);
    let none = || vec![container("main", None)];
    let limited = || vec![container("main", Some("2Mi")), container("side", Some("3Mi"))];
    let partly = || vec![container("main", None), container("side", Some("3Mi"))];
    let cases = [
        (none(), volume(Some("1Mi")), usage(MIB, 0, 0), None),
        (
            none(),
            volume(Some("1Mi")),
            usage(MIB + 1, 0, 0),
            Some("Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\". "),
        ),
        (none(), volume(Some("0")), usage(MIB, 0, 0), None),
        (none(), volume(None), usage(DEFAULT, 0, 0), None),
        (
            none(),
            volume(None),
            usage(DEFAULT - 1, 1, 1),
            Some(
                "Pod ephemeral local storage usage exceeds the node's limit of 100Mi for a Pod \
                 that states none. ",
            ),
        ),
        (limited(), volume(None), usage(4 * MIB, 0, MIB), None),
        (
            limited(),
            volume(None),
            usage(4 * MIB, 0, MIB + 1),
            Some("Pod ephemeral local storage usage exceeds the total limit of containers 5Mi. "),
        ),
        (
            partly(),
            volume(None),
            usage(4 * MIB, 0, 0),
            Some("Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. "),
        ),
        (
            limited(),
            volume(None),
            usage(0, 2 * MIB + 1, 0),
            Some("Container main exceeded its local ephemeral storage limit \"2Mi\". "),
        ),
        (
            none(),
            volume(None),
            Usage { entries: MAX_ENTRIES, ..usage(0, 0, 0) },
            Some("The Pod keeps more than 1000000 files. "),
        ),
    ];
    for (containers, volumes, usage, expected) in cases {
        let got = excess(&spec(&containers, &volumes), &usage, DEFAULT);
        assert_eq!(got.as_deref(), expected, "{usage:?}");
    }
}

#[test]
fn limits_are_summed_as_a_kubelet_does() {
    let sidecar = json!({"name": "s", "restartPolicy": "Always",
                         "resources": {"limits": {"ephemeral-storage": "1Mi"}}});
    let with = |init: &[Value]| {
        let mut spec = spec(&[container("main", Some("2Mi"))], &json!([]));
        let init = init.iter().map(|c| serde_json::from_value(c.clone()).unwrap());
        spec.init_containers = Some(init.collect());
        spec
    };
    assert_eq!(pod_limit(&with(&[])), Some(2 * MIB));
    assert_eq!(pod_limit(&with(&[container("i", Some("1Mi"))])), Some(2 * MIB));
    assert_eq!(pod_limit(&with(&[container("i", Some("4Mi"))])), Some(4 * MIB));
    assert_eq!(pod_limit(&with(&[sidecar])), Some(3 * MIB));
    assert_eq!(pod_limit(&spec(&[container("main", None)], &json!([]))), None);
}

#[test]
fn amounts_are_written_with_the_largest_whole_suffix() {
    let cases = [
        (0, "0"),
        (1, "1"),
        (1000, "1000"),
        (1024, "1Ki"),
        (1536, "1536"),
        (10 << 30, "10Gi"),
        ((1 << 30) + (1 << 20), "1025Mi"),
        (1 << 60, "1Ei"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(binary(bytes), expected);
    }
}

#[test]
fn a_walk_takes_a_hundredth_of_the_time() {
    assert_eq!(pause(Duration::from_millis(1)), MEASURE_INTERVAL);
    assert_eq!(pause(Duration::from_secs(2)), SignedDuration::from_secs(200));
    assert_eq!(pause(Duration::MAX), SignedDuration::MAX);
}

fn pod(phase: &str) -> Pod {
    let spec = spec(
        &[container("main", None)],
        &json!([{"name": "data", "emptyDir": {"sizeLimit": "1Mi"}}, {"name": "map", "configMap": {}}]),
    );
    let mut pod = Pod { spec: Some(spec), ..Pod::default() };
    pod.metadata.uid = Some("uid".to_owned());
    pod.status = Some(PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() });
    pod
}

fn fill(folder: &PodFolder, path: &str, bytes: usize) {
    let file = folder.path().join(path);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    // Not zeros: a file system may not store those.
    std::fs::write(file, vec![b'x'; bytes]).unwrap();
}

#[tokio::test]
async fn a_pod_is_measured_when_it_is_due() {
    let scratch = Scratch::new("usage-due");
    let folder = PodFolder::new(scratch.path());
    fill(&folder, "volumes/data/a", 500 << 10);
    let meter = Meter::new(DEFAULT);
    assert_eq!(meter.next("uid"), Timestamp::MIN);
    assert_eq!(meter.check(&pod("Running"), &folder, at(0), &NoClaims).await, None);
    assert!(meter.next("uid") >= at(30));

    fill(&folder, "volumes/data/sub/b", 600 << 10);
    assert_eq!(meter.check(&pod("Running"), &folder, at(29), &NoClaims).await, None, "not due");
    let due = meter.next("uid");
    let over = meter.check(&pod("Running"), &folder, due, &NoClaims).await.unwrap();
    assert_eq!(over.message, "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\". ");

    // It ends; what it left is measured once more, and never again.
    std::fs::remove_file(folder.path().join("volumes/data/a")).unwrap();
    let ended = meter.next("uid");
    assert_eq!(meter.check(&pod("Failed"), &folder, ended, &NoClaims).await, None);
    fill(&folder, "volumes/data/c", 2 << 20);
    assert_eq!(meter.check(&pod("Failed"), &folder, at(1_000_000), &NoClaims).await, None);
    meter.forget("uid");
    assert!(meter.check(&pod("Failed"), &folder, at(1_000_000), &NoClaims).await.is_some());
}

#[test]
fn links_are_not_followed_and_claims_and_contents_are_not_counted() {
    let scratch = Scratch::new("usage-links");
    let folder = PodFolder::new(scratch.path().join("pod"));
    let outside = PodFolder::new(scratch.path().join("outside"));
    fill(&outside, "huge", 8 << 20);
    fill(&folder, "volumes/data/a", 100 << 10);
    fill(&folder, "volumes/map/big", 8 << 20);
    fill(&folder, "home/b", 100 << 10);
    fill(&folder, "tmp/c", 100 << 10);
    fill(&folder, "termination/main.0", 100 << 10);
    fill(&folder, "logs/main/0.log", 100 << 10);
    let link = |name: &str| {
        let path = folder.path().join("volumes/data").join(name);
        std::os::unix::fs::symlink(outside.path(), path).unwrap();
    };
    link("link");
    let pod = pod("Running");
    let usage = measure(&folder, pod.spec.as_ref().unwrap()).unwrap();
    let about = |bytes: u64| (100 << 10..160 << 10).contains(&bytes);
    assert!(about(usage.volumes["data"]), "{usage:?}");
    assert!(about(usage.logs["main"]), "{usage:?}");
    assert!((300 << 10..480 << 10).contains(&usage.own), "{usage:?}");
    assert_eq!(usage.volumes.len(), 1);
}

/// A Pod that writes gigabytes into its termination message has written them to the node's disk.
#[tokio::test]
async fn termination_messages_count() {
    let scratch = Scratch::new("usage-words");
    let folder = PodFolder::new(scratch.path());
    fill(&folder, "termination/main.0", 2 << 20);
    let mut pod = pod("Running");
    pod.spec.as_mut().unwrap().containers[0] =
        serde_json::from_value(container("main", Some("1Mi"))).unwrap();
    let over = Meter::new(DEFAULT).check(&pod, &folder, at(0), &NoClaims).await.unwrap();
    let expected = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ";
    assert_eq!(over, LimitExceeded { message: expected.to_owned(), claim: None });
}
