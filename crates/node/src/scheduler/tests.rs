//! What fits where, in tables, and that nothing ever is put where it does not fit.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cache::{BindOutcome, BindRequest, Cache};
use crate::taint;

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn node(name: &str, more: &Value) -> Node {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"zone": "a", "size": "7"}},
        "spec": {},
        "status": {
            "allocatable": {
                "cpu": "2", "memory": "1Gi", "ephemeral-storage": "10Gi", "pods": "3",
            },
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    merge(&mut node, more);
    serde_json::from_value(node).expect("a node")
}

fn pod(uid: &str, more: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {
            "name": uid, "namespace": "default", "uid": uid,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "main"}]},
        "status": {"phase": "Pending"},
    });
    merge(&mut pod, more);
    serde_json::from_value(pod).expect("a pod")
}

fn requests(amounts: &Value) -> Value {
    json!({"spec": {"containers": [{"name": "main", "resources": {"requests": amounts}}]}})
}

fn affinity(requirement: &Value) -> Value {
    json!({"spec": {"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [requirement]},
    }}}})
}

fn label(operator: &str, key: &str, values: &Value) -> Value {
    affinity(&json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
}

fn port(port: i32, address: &str) -> Value {
    port_by("TCP", port, address)
}

fn port_by(protocol: &str, port: i32, address: &str) -> Value {
    let port =
        json!({"containerPort": 1, "hostPort": port, "protocol": protocol, "hostIP": address});
    json!({"spec": {"containers": [{"name": "main", "ports": [port]}]}})
}

/// Where a Pod goes in a cluster that has one node, or what it is told.
fn schedule(node: &Node, before: &[Pod], claims: &[Value], pod: &Pod) -> Result<String, String> {
    let mut cache = Cache::default();
    cache.put_node(node);
    for claim in claims {
        let claim: PersistentVolumeClaim = serde_json::from_value(claim.clone()).expect("a claim");
        cache.put_claim(&claim);
    }
    for pod in before {
        cache.put_pod(pod);
    }
    cache.put_pod(pod);
    let now = Instant::now();
    if let Some(bind_request) = cache.next_bind_request(now) {
        return Ok(bind_request.node);
    }
    Err(cache.next_report(now).expect("who does not fit is told").message.to_string())
}

fn check(node: &Value, more: &Value, expected: Result<&str, &str>) {
    let outcome = schedule(&self::node("n1", node), &[], &[], &pod("p", more));
    let expected = expected.map(str::to_owned).map_err(str::to_owned);
    assert_eq!(outcome, expected, "{node} {more}");
}

#[test]
fn labels_and_fields() {
    const NO: &str =
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
    let fits = Ok("n1");
    let field = |value: &str| {
        let field = json!({"key": "metadata.name", "operator": "In", "values": [value]});
        affinity(&json!({"matchFields": [field]}))
    };
    for (more, expected) in [
        (json!({"spec": {"nodeSelector": {"zone": "a"}}}), fits),
        (json!({"spec": {"nodeSelector": {"zone": "b"}}}), Err(NO)),
        (json!({"spec": {"nodeSelector": {"zone": "a", "disk": "ssd"}}}), Err(NO)),
        (label("In", "zone", &json!(["b", "a"])), fits),
        (label("In", "zone", &json!(["b"])), Err(NO)),
        (label("NotIn", "zone", &json!(["b"])), fits),
        (label("NotIn", "zone", &json!(["a"])), Err(NO)),
        (label("NotIn", "disk", &json!(["hdd"])), fits),
        (label("Exists", "zone", &Value::Null), fits),
        (label("Exists", "disk", &Value::Null), Err(NO)),
        (label("DoesNotExist", "disk", &Value::Null), fits),
        (label("DoesNotExist", "zone", &Value::Null), Err(NO)),
        (label("Gt", "size", &json!(["6"])), fits),
        (label("Gt", "size", &json!(["7"])), Err(NO)),
        (label("Lt", "size", &json!(["8"])), fits),
        (label("Lt", "size", &json!(["7"])), Err(NO)),
        (label("Lt", "zone", &json!(["7"])), Err(NO)),
        (label("Gt", "disk", &json!(["7"])), Err(NO)),
        (label("Near", "zone", &json!(["a"])), Err(NO)),
        (field("n1"), fits),
        (field("n2"), Err(NO)),
        (affinity(&json!({})), Err(NO)),
    ] {
        check(&json!({}), &more, expected);
    }
}

#[test]
fn taints_and_conditions() {
    let said = |words: &str| format!("0/1 nodes are available: 1 {words}.");
    let tainted = |effect: &str| json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": effect}]}});
    let ready =
        |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let tolerating = |toleration: Value| json!({"spec": {"tolerations": [toleration]}});
    let plain = json!({});
    let untolerated = said("node(s) had untolerated taint(s)");
    let not_ready = said("node(s) were not ready");
    let unreachable = said("node(s) were unreachable");
    let unschedulable = said("node(s) were unschedulable");
    let everything = tolerating(json!({"operator": "Exists"}));
    let fits: Result<&str, &str> = Ok("n1");
    for (node, pod, expected) in [
        (tainted("NoSchedule"), plain.clone(), Err(untolerated.as_str())),
        (tainted("NoExecute"), plain.clone(), Err(untolerated.as_str())),
        (tainted("PreferNoSchedule"), plain.clone(), fits),
        (tainted("NoSchedule"), tolerating(json!({"key": "gpu", "operator": "Exists"})), fits),
        (tainted("NoSchedule"), tolerating(json!({"key": "gpu", "value": "yes"})), fits),
        (
            tainted("NoSchedule"),
            tolerating(json!({"key": "gpu", "operator": "Equal", "value": "no"})),
            Err(untolerated.as_str()),
        ),
        (
            tainted("NoExecute"),
            tolerating(json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"})),
            Err(untolerated.as_str()),
        ),
        (tainted("NoExecute"), everything.clone(), fits),
        (ready("False"), plain.clone(), Err(not_ready.as_str())),
        (ready("Unknown"), plain.clone(), Err(unreachable.as_str())),
        (json!({"status": {"conditions": []}}), plain.clone(), Err(not_ready.as_str())),
        (ready("False"), everything.clone(), fits),
        (json!({"spec": {"unschedulable": true}}), plain.clone(), Err(unschedulable.as_str())),
        (json!({"spec": {"unschedulable": true}}), everything, fits),
        // A taint that its condition has outlived means nothing.
        (
            json!({"spec": {"taints": [{"key": taint::NOT_READY, "effect": "NoSchedule"}]}}),
            plain,
            fits,
        ),
    ] {
        check(&node, &pod, expected);
    }
}

#[test]
fn taints_follow_conditions() {
    let keys = |node: &Node| -> Vec<String> {
        taint::desired_taints(node).into_iter().map(|taint| taint.key).collect()
    };
    let own = json!({"key": "gpu", "effect": "NoSchedule"});
    let late = json!({"key": taint::NOT_READY, "effect": "NoSchedule"});
    let healthy = node("n", &json!({"spec": {"taints": [own, late]}}));
    assert_eq!(keys(&healthy), ["gpu"]);
    let ill = node(
        "n",
        &json!({
            "spec": {"taints": [own], "unschedulable": true},
            "status": {"conditions": [
                {"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "True"},
            ]},
        }),
    );
    assert_eq!(
        keys(&ill),
        [
            "gpu",
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/disk-pressure",
            "node.kubernetes.io/unschedulable",
        ]
    );
}

#[test]
fn requests_and_ports() {
    let said = |words: &str| Err(format!("0/1 nodes are available: {words}."));
    let placed = |uid: &str, mut more: Value| {
        merge(&mut more, &json!({"spec": {"nodeName": "n1"}}));
        pod(uid, &more)
    };
    let ended = |mut more: Value| {
        merge(&mut more, &json!({"status": {"phase": "Succeeded"}}));
        placed("old", more)
    };
    let half = || placed("old", requests(&json!({"cpu": "1500m", "memory": "512Mi"})));
    let fits = || Ok("n1".to_owned());
    for (before, more, expected) in [
        (vec![], requests(&json!({"cpu": "2", "memory": "1Gi"})), fits()),
        (vec![], requests(&json!({"cpu": "2001m"})), said("1 Insufficient cpu")),
        (vec![half()], requests(&json!({"cpu": "500m", "memory": "512Mi"})), fits()),
        (
            vec![half()],
            requests(&json!({"cpu": "501m", "memory": "513Mi"})),
            said("1 Insufficient cpu, 1 Insufficient memory"),
        ),
        (
            vec![],
            requests(&json!({"ephemeral-storage": "11Gi"})),
            said("1 Insufficient ephemeral-storage"),
        ),
        (
            vec![],
            requests(&json!({"example.com/gpu": "1"})),
            said("1 Insufficient example.com/gpu"),
        ),
        (vec![], requests(&json!({"example.com/gpu": "0"})), fits()),
        (vec![ended(requests(&json!({"cpu": "2"})))], requests(&json!({"cpu": "2"})), fits()),
        // Somebody bound more than there is: what asks for nothing still fits.
        (vec![placed("old", requests(&json!({"cpu": "9"})))], json!({}), fits()),
        (
            vec![placed("a", json!({})), placed("b", json!({})), placed("c", json!({}))],
            json!({}),
            said("1 Too many pods"),
        ),
        (vec![placed("old", port(80, ""))], port(81, ""), fits()),
        (
            vec![placed("old", port(80, ""))],
            port(80, "127.0.0.1"),
            said("1 node(s) didn't have free ports for the requested pod ports"),
        ),
        (vec![placed("old", port(80, "127.0.0.1"))], port(80, "127.0.0.2"), fits()),
        (vec![placed("old", port(80, ""))], port_by("UDP", 80, ""), fits()),
        (
            vec![placed("old", port_by("UDP", 80, ""))],
            port_by("UDP", 80, ""),
            said("1 node(s) didn't have free ports for the requested pod ports"),
        ),
    ] {
        let outcome = schedule(&node("n1", &json!({})), &before, &[], &pod("p", &more));
        assert_eq!(outcome, expected, "{more}");
    }
}

#[test]
fn rules_about_other_pods_are_not_ignored() {
    let term = json!([{"topologyKey": "zone"}]);
    let required = |kind: &str| {
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": term});
        json!({"spec": {"affinity": {kind: required}}})
    };
    let spread = |when: &str| {
        let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when});
        json!({"spec": {"topologySpreadConstraints": [constraint]}})
    };
    let said = |field: &str| format!("0/1 nodes are available: {field} is not supported here.");
    for (more, field) in [
        (required("podAffinity"), "spec.affinity.podAffinity"),
        (required("podAntiAffinity"), "spec.affinity.podAntiAffinity"),
        (spread("DoNotSchedule"), "spec.topologySpreadConstraints"),
    ] {
        check(&json!({}), &more, Err(&said(field)));
    }
    check(&json!({}), &spread("ScheduleAnyway"), Ok("n1"));
}

#[test]
fn claims_come_first() {
    let claim = |phase: &str, more: &Value| {
        let mut claim = json!({
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"]},
            "status": {"phase": phase},
        });
        merge(&mut claim, more);
        claim
    };
    let more = json!({"spec": {"volumes": [
        {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
    ]}});
    let user = {
        let mut more = more.clone();
        merge(&mut more, &json!({"spec": {"nodeName": "n1"}}));
        pod("user", &more)
    };
    let said = |words: &str| Err(format!("0/1 nodes are available: {words}."));
    let alone = json!({"spec": {"accessModes": ["ReadWriteOncePod"]}});
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    for (claims, before, expected) in [
        (vec![], vec![], said("persistentvolumeclaim \"data\" not found")),
        (
            vec![claim("Pending", &json!({}))],
            vec![],
            said("pod has unbound immediate PersistentVolumeClaims"),
        ),
        (
            vec![claim("Bound", &deleting)],
            vec![],
            said("persistentvolumeclaim \"data\" is being deleted"),
        ),
        (vec![claim("Bound", &json!({}))], vec![user.clone()], Ok("n1".to_owned())),
        (vec![claim("Bound", &alone)], vec![], Ok("n1".to_owned())),
        (
            vec![claim("Bound", &alone)],
            vec![user],
            said(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode \
                 already in-use by another pod",
            ),
        ),
    ] {
        let outcome = schedule(&node("n1", &json!({})), &before, &claims, &pod("p", &more));
        assert_eq!(outcome, expected, "{claims:?}");
    }
}

#[test]
fn obstacles_are_counted_by_node() {
    let mut cache = Cache::default();
    for (name, more) in [
        ("n1", json!({"spec": {"unschedulable": true}})),
        ("n2", json!({})),
        ("n3", json!({"status": {"allocatable": {"cpu": "1"}}})),
    ] {
        cache.put_node(&node(name, &more));
    }
    cache.put_pod(&pod("p", &requests(&json!({"cpu": "3"}))));
    let now = Instant::now();
    assert_eq!(cache.next_bind_request(now), None);
    assert_eq!(
        cache.next_report(now).map(|report| report.message.to_string()).as_deref(),
        Some("0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.")
    );
}

#[test]
fn priority_then_age() {
    let mut cache = Cache::default();
    let at = |created: &str, priority: i32, cpu: &str| {
        let mut more = requests(&json!({"cpu": cpu}));
        merge(&mut more, &json!({"metadata": {"creationTimestamp": created}}));
        merge(&mut more, &json!({"spec": {"priority": priority}}));
        more
    };
    for (uid, more) in [
        ("young", at("2026-01-03T00:00:00Z", 0, "1m")),
        ("old", at("2026-01-01T00:00:00Z", 0, "1m")),
        ("different", at("2026-01-02T00:00:00Z", 0, "2m")),
        ("urgent", at("2026-01-04T00:00:00Z", 9, "1m")),
        ("urgent and large", at("2026-01-04T00:00:00Z", 10, "5")),
    ] {
        cache.put_pod(&pod(uid, &more));
    }
    cache.put_node(&node("n1", &json!({"status": {"allocatable": {"pods": "9"}}})));
    let now = Instant::now();
    let bind_request: Vec<String> = std::iter::from_fn(|| cache.next_bind_request(now))
        .map(|bind_request| bind_request.uid.to_string())
        .collect();
    assert_eq!(bind_request, ["urgent", "old", "different", "young"]);
}

#[test]
fn the_emptier_node_is_chosen() {
    let mut cache = Cache::default();
    for name in ["n1", "n2"] {
        cache.put_node(&node(name, &json!({})));
    }
    for number in 0..4 {
        cache.put_pod(&pod(&format!("p{number}"), &requests(&json!({"cpu": "400m"}))));
    }
    let now = Instant::now();
    let nodes: Vec<String> = std::iter::from_fn(|| cache.next_bind_request(now))
        .map(|bind_request| bind_request.node)
        .collect();
    assert_eq!(nodes, ["n1", "n2", "n1", "n2"]);
}

/// Everybody is told once, however often something changes, and a reason that flickers is told at
/// a slower and slower pace.
#[test]
fn many_pods_of_one_template() {
    const BOMB: usize = 10_000;
    let mut cache = Cache::default();
    cache.put_node(&node("n1", &json!({})));
    let start = Instant::now();
    for number in 0..BOMB {
        cache.put_pod(&pod(&format!("p{number}"), &json!({})));
    }
    let orders: Vec<BindRequest> = std::iter::from_fn(|| cache.next_bind_request(start)).collect();
    assert_eq!(orders.len(), 3);
    let told = std::iter::from_fn(|| cache.next_report(start)).count();
    assert_eq!(told, BOMB - 3);
    // One goes, one comes: the others know already what there is to know.
    for bind_request in orders {
        cache.record_outcome(&bind_request.uid, BindOutcome::Bound, start);
        cache.remove_pod(&bind_request.uid);
        assert!(cache.next_bind_request(start).is_some());
        assert_eq!(cache.next_bind_request(start), None);
        assert_eq!(cache.next_report(start), None);
    }
    // The node comes and goes all the time.
    let mut writes = 0;
    for second in 1..=120 {
        let now = start + Duration::from_secs(second);
        let unschedulable = second % 2 == 1;
        cache.put_node(&node("n1", &json!({"spec": {"unschedulable": unschedulable}})));
        assert_eq!(cache.next_bind_request(now), None);
        writes += std::iter::from_fn(|| cache.next_report(now)).count();
    }
    assert!(writes <= 8 * BOMB, "{writes} writes in two minutes");
}

#[test]
fn a_binding_that_failed_is_tried_again() {
    let mut cache = Cache::default();
    cache.put_node(&node("n1", &json!({"status": {"allocatable": {"pods": "1"}}})));
    let waiting = pod("p", &json!({}));
    cache.put_pod(&waiting);
    let uid: Arc<str> = "p".into();
    let start = Instant::now();
    let first = cache.next_bind_request(start).expect("it fits");

    // Surely it was not bound: it waits its time, and somebody else gets its place.
    cache.record_outcome(&uid, BindOutcome::Refused, start);
    cache.put_pod(&waiting);
    cache.put_pod(&pod("q", &json!({})));
    assert_eq!(
        cache.next_bind_request(start).map(|bind_request| bind_request.uid.to_string()).as_deref(),
        Some("q")
    );
    let later = start + Duration::from_secs(1);
    assert_eq!(cache.wake(), Some(later));
    assert_eq!(cache.next_retry(later), None);
    assert_eq!(cache.next_bind_request(later), None);
    cache.remove_pod(&"q".into());
    assert_eq!(cache.next_bind_request(later), Some(first.clone()));

    // Perhaps it was: the same again, whatever the next answer is, until the watch shows it.
    cache.put_pod(&pod("r", &json!({})));
    let mut now = later;
    for (outcome, wait) in
        [(BindOutcome::Unclear, 2), (BindOutcome::Refused, 4), (BindOutcome::Refused, 8)]
    {
        cache.record_outcome(&uid, outcome, now);
        assert_eq!(cache.next_bind_request(now), None);
        now += Duration::from_secs(wait);
        assert_eq!(cache.next_retry(now), Some(first.clone()));
    }
    cache.put_pod(&pod("p", &json!({"spec": {"nodeName": "n1"}, "status": {"phase": "Failed"}})));
    assert_eq!(
        cache.next_bind_request(now).map(|bind_request| bind_request.uid.to_string()).as_deref(),
        Some("r")
    );
}

/// What the API has, and what the watch has not shown yet.
#[derive(Default)]
struct Cluster {
    pods: BTreeMap<String, Value>,
    unseen: VecDeque<(String, Option<Value>)>,
    made: usize,
}

#[derive(Debug, Clone)]
enum Act {
    Create { cpu: u32, memory: u32, port: Option<u8> },
    Show,
    Bind { arrives: bool, answer: Answer },
    Finish(usize),
    Delete(usize),
    Pass(u8),
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Given,
    Lost,
}

impl Cluster {
    fn write(&mut self, uid: &str, pod: Option<Value>) {
        match &pod {
            Some(pod) => self.pods.insert(uid.to_owned(), pod.clone()),
            None => self.pods.remove(uid),
        };
        self.unseen.push_back((uid.to_owned(), pod));
    }

    fn show(&mut self, cache: &mut Cache) {
        match self.unseen.pop_front() {
            Some((_, Some(pod))) => cache.put_pod(&serde_json::from_value(pod).expect("a pod")),
            Some((uid, None)) => cache.remove_pod(&uid.as_str().into()),
            None => {}
        }
    }

    fn bind(&mut self, bind_request: &BindRequest, arrives: bool, answer: Answer) -> BindOutcome {
        let Some(pod) = self.pods.get(&*bind_request.uid).filter(|_| arrives) else {
            let refused = matches!(answer, Answer::Given) && !arrives;
            return if refused { BindOutcome::Refused } else { BindOutcome::Unclear };
        };
        if !pod["spec"]["nodeName"].is_null() {
            return BindOutcome::Unclear;
        }
        let mut pod = pod.clone();
        pod["spec"]["nodeName"] = json!(bind_request.node);
        self.write(&bind_request.uid, Some(pod));
        if matches!(answer, Answer::Given) { BindOutcome::Bound } else { BindOutcome::Unclear }
    }

    fn nth(&self, at: usize) -> Option<String> {
        self.pods.keys().nth(at.checked_rem(self.pods.len())?).cloned()
    }

    /// No node has more on it than it offers: 2000m, 1024Mi, 3 Pods, each port once.
    fn check(&self) {
        for node in ["n1", "n2"] {
            let on_it = self.pods.values().filter(|pod| {
                pod["spec"]["nodeName"] == node && pod["status"]["phase"] == "Pending"
            });
            let (mut cpu, mut memory, mut count, mut ports) = (0, 0, 0, Vec::new());
            for pod in on_it {
                let container = &pod["spec"]["containers"][0];
                let requests = &container["resources"]["requests"];
                let amount = |name: &str, unit: &str| -> u64 {
                    let text = requests[name].as_str().expect("an amount");
                    text.trim_end_matches(unit).parse().expect("a number")
                };
                cpu += amount("cpu", "m");
                memory += amount("memory", "Mi");
                count += 1;
                ports.extend(container["ports"][0]["hostPort"].as_i64());
            }
            assert!(cpu <= 2000 && memory <= 1024 && count <= 3, "{node}: {cpu} {memory} {count}");
            let all = ports.len();
            ports.sort_unstable();
            ports.dedup();
            assert_eq!(ports.len(), all, "{node}: a port twice");
        }
    }
}

fn act() -> impl Strategy<Value = Act> {
    let answer = prop_oneof![Just(Answer::Given), Just(Answer::Lost)];
    prop_oneof![
        3 => (1..1500_u32, 1..900_u32, proptest::option::of(0..3_u8))
            .prop_map(|(cpu, memory, port)| Act::Create { cpu, memory, port }),
        4 => Just(Act::Show),
        4 => (proptest::bool::weighted(0.8), answer)
            .prop_map(|(arrives, answer)| Act::Bind { arrives, answer }),
        1 => any::<usize>().prop_map(Act::Finish),
        1 => any::<usize>().prop_map(Act::Delete),
        1 => any::<u8>().prop_map(Act::Pass),
    ]
}

proptest! {
    /// Whatever arrives late, twice or never.
    #[test]
    fn never_over_capacity(acts in proptest::collection::vec(act(), 1..120)) {
        let mut cache = Cache::default();
        for name in ["n1", "n2"] {
            cache.put_node(&node(name, &json!({})));
        }
        let mut cluster = Cluster::default();
        let mut now = Instant::now();
        let step = |cache: &mut Cache, cluster: &mut Cluster, now, arrives, answer| {
            let bind_request = cache.next_retry(now).or_else(|| cache.next_bind_request(now));
            let Some(bind_request) = bind_request else { return false };
            let outcome = cluster.bind(&bind_request, arrives, answer);
            cache.record_outcome(&bind_request.uid, outcome, now);
            true
        };
        for act in acts {
            match act {
                Act::Create { cpu, memory, port } => {
                    cluster.made += 1;
                    let uid = format!("p{}", cluster.made);
                    let mut more = requests(&json!({
                        "cpu": format!("{cpu}m"), "memory": format!("{memory}Mi"),
                    }));
                    if let Some(port) = port {
                        more["spec"]["containers"][0]["ports"] =
                            json!([{"containerPort": 1, "hostPort": 8000 + u16::from(port)}]);
                    }
                    let pod = serde_json::to_value(pod(&uid, &more)).expect("a Pod is JSON");
                    cluster.write(&uid, Some(pod));
                }
                Act::Show => cluster.show(&mut cache),
                Act::Bind { arrives, answer } => {
                    step(&mut cache, &mut cluster, now, arrives, answer);
                }
                Act::Finish(at) => {
                    let bound = cluster.nth(at).filter(|uid| {
                        !cluster.pods[uid]["spec"]["nodeName"].is_null()
                    });
                    if let Some(uid) = bound {
                        let mut pod = cluster.pods[&uid].clone();
                        pod["status"]["phase"] = json!("Succeeded");
                        cluster.write(&uid, Some(pod));
                    }
                }
                Act::Delete(at) => {
                    if let Some(uid) = cluster.nth(at) {
                        cluster.write(&uid, None);
                    }
                }
                Act::Pass(seconds) => now += Duration::from_secs(seconds.into()),
            }
            cluster.check();
        }
        // When all is shown and every request arrives, nobody waits who would fit.
        for _ in 0..20 {
            while !cluster.unseen.is_empty() {
                cluster.show(&mut cache);
            }
            while step(&mut cache, &mut cluster, now, true, Answer::Given) {
                cluster.check();
            }
            now += Duration::from_secs(20);
        }
        let waiting = cluster.pods.values().filter(|pod| pod["spec"]["nodeName"].is_null());
        let told = std::iter::from_fn(|| cache.next_report(now)).count();
        prop_assert_eq!(waiting.count(), told);
        for pod in cluster.pods.values().filter(|pod| pod["spec"]["nodeName"].is_null()) {
            let mut alone = Cache::default();
            for name in ["n1", "n2"] {
                alone.put_node(&node(name, &json!({})));
            }
            for other in cluster.pods.values().filter(|pod| !pod["spec"]["nodeName"].is_null()) {
                alone.put_pod(&serde_json::from_value(other.clone()).expect("a pod"));
            }
            alone.put_pod(&serde_json::from_value(pod.clone()).expect("a pod"));
            prop_assert_eq!(alone.next_bind_request(now), None);
        }
    }
}
