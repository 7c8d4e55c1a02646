use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use serde_json::{Value, json};
use sojourn_core::cluster::spot::MachinePhase;
use sojourn_core::cluster::{ObservedOperator, ObservedTarget};
use sojourn_core::known::Known;
use sojourn_drivers::metrics::Metrics;
use sojourn_drivers::notify::{Channel, Zone};
use sojourn_drivers::probe::Probe as Prober;

use super::*;
use crate::clock::VirtualClock;
use crate::driver::DriverConfig;
use crate::notice::ChannelSecrets;

const READYZ: &str = "/readyz";
const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const OPERATORS: &str = "/apis/config.openshift.io/v1/clusteroperators";
const MACHINES: &str =
    "/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/machines";
const CSRS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
const STATEFUL_SETS: &str = "/apis/apps/v1/statefulsets";
const DAEMON_SETS: &str = "/apis/apps/v1/daemonsets";

/// What a path answers.
#[derive(Clone)]
enum Says {
    Code(u16, Value),
    /// The connection is there, and nobody says anything.
    Nothing,
    /// Another part for every part, without end.
    Endless(Vec<Value>),
}

/// A cluster that answers as it is told; what is not said is not there.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    says: HashMap<String, Says>,
    requests: Vec<(Method, String, Value)>,
}

fn items(kind: &str, items: &[Value]) -> Says {
    let list = json!({"kind": format!("{kind}List"), "apiVersion": "v1", "items": items,
        "metadata": {"resourceVersion": "1"}});
    Says::Code(200, list)
}

fn failure(code: u16, message: &str) -> Says {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": if code == 404 { "NotFound" } else { "No" }, "message": message});
    Says::Code(code, status)
}

impl Scripted {
    /// A cluster that is ready, has a node, and is no OpenShift.
    fn plain() -> Self {
        let scripted = Self::default();
        scripted.say(READYZ, Says::Code(200, json!("ok")));
        scripted.say(NODES, items("Node", &[node("a", "True", "2026-01-01T00:00:00Z")]));
        scripted.say(LEASES, items("Lease", &[lease("a", "2026-01-01T00:05:00.000000Z")]));
        scripted
    }

    fn say(&self, path: &str, says: Says) {
        self.0.lock().expect("unpoisoned").says.insert(path.to_owned(), says);
    }

    fn requests(&self, method: &Method) -> Vec<(String, Value)> {
        let script = self.0.lock().expect("unpoisoned");
        let of = script.requests.iter().filter(|(one, _, _)| one == method);
        of.map(|(_, path, body)| (path.clone(), body.clone())).collect()
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let path = parts.uri.path().to_owned();
        let says = {
            let mut script = self.0.lock().expect("unpoisoned");
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            script.requests.push((parts.method.clone(), path.clone(), body));
            let keyed = format!("{} {path}", parts.method);
            script.says.get(&keyed).or_else(|| script.says.get(&path)).cloned()
        };
        let (code, answer) = match says.unwrap_or_else(|| failure(404, "not there")) {
            Says::Code(code, answer) => (code, answer),
            Says::Nothing => std::future::pending().await,
            Says::Endless(items) => {
                let metadata = json!({"resourceVersion": "1", "continue": "more"});
                (200, json!({"kind": "List", "items": items, "metadata": metadata}))
            }
        };
        Response::builder().status(code).body(Full::from(answer.to_string())).expect("an answer")
    }

    fn client(&self) -> Client {
        let scripted = self.clone();
        let service = tower::service_fn(move |request| {
            let scripted = scripted.clone();
            async move { Ok::<_, Infallible>(scripted.answer(request).await) }
        });
        Client::new(service, "default")
    }

    fn target(&self) -> TargetClient {
        TargetClient::new(self.client())
    }

    async fn read(&self, question: &TargetQuestion) -> Result<ObservedTarget, String> {
        match self.target().read(question).await {
            Target::Read(read) => Ok(*read),
            Target::Unreadable(why) => Err(why),
            Target::NotRead => panic!("it was asked"),
        }
    }
}

fn node(name: &str, ready: &str, heartbeat: &str) -> Value {
    json!({"metadata": {"name": name}, "status": {
        "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
        "conditions": [
            {"type": "DiskPressure", "status": "False"},
            {"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat},
        ],
    }})
}

fn lease(name: &str, renewed: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"renewTime": renewed}})
}

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn plain() -> TargetQuestion {
    TargetQuestion::default()
}

#[tokio::test]
async fn a_node_beats_by_its_lease_or_its_condition_whichever_is_later() {
    let scripted = Scripted::plain();
    let nodes = [
        node("a", "True", "2026-01-01T00:00:00Z"),
        node("b", "Unknown", "2026-01-01T00:09:00Z"),
        json!({"metadata": {"name": "new"}}),
    ];
    scripted.say(NODES, items("Node", &nodes));
    let leases = ["a", "b", "elsewhere"].map(|name| lease(name, "2026-01-01T00:05:00.000000Z"));
    scripted.say(LEASES, items("Lease", &leases));
    let read = scripted.read(&plain()).await.expect("it answers");
    let seen: Vec<_> =
        read.nodes.iter().map(|one| (one.name.as_str(), one.ready, one.heartbeat)).collect();
    let expected = [
        ("a", true, Some(at("2026-01-01T00:05:00Z"))),
        ("b", false, Some(at("2026-01-01T00:09:00Z"))),
        ("new", false, None),
    ];
    assert_eq!(seen, expected);
    assert_eq!(read.nodes[0].addresses, ["10.0.0.7"]);
    assert_eq!(read.csrs, Known::Absent, "nobody asked for them");
    assert_eq!(scripted.requests(&Method::GET).iter().filter(|(path, _)| path == CSRS).count(), 0);
}

/// A heartbeat that comes from elsewhere than the one before looks like a node that has beaten.
#[tokio::test(start_paused = true)]
async fn nothing_is_said_of_nodes_whose_leases_cannot_be_read() {
    for says in [failure(403, "leases is forbidden"), failure(500, "broken"), Says::Nothing] {
        let scripted = Scripted::plain();
        scripted.say(LEASES, says);
        let why = scripted.read(&plain()).await.expect_err("half of it is missing");
        assert!(why.starts_with("leases of nodes cannot be listed"), "{why}");
    }
    let scripted = Scripted::plain();
    scripted.say(LEASES, failure(404, "not found"));
    let read = scripted.read(&plain()).await.expect("it knows no Leases");
    assert_eq!(read.nodes[0].heartbeat, Some(at("2026-01-01T00:00:00Z")));
}

// case: cluster S40
#[tokio::test(start_paused = true)]
async fn a_cluster_that_fails_hangs_or_never_ends_is_unreadable() {
    let many = |count: usize| {
        (0..count).map(|number| node(&number.to_string(), "True", "2026-01-01T00:00:00Z")).collect()
    };
    let cases = [
        (failure(500, "broken\x1b[31m"), "nodes cannot be listed: broken [31m"),
        (failure(401, "Unauthorized"), "nodes cannot be listed: Unauthorized"),
        (Says::Nothing, "nodes cannot be listed: no answer within 15 s"),
        (Says::Endless(many(100)), "there are more than 5000 nodes"),
        (Says::Endless(Vec::new()), "nodes cannot be listed: it does not come to an end"),
        (Says::Code(200, json!({"items": 5})), "nodes cannot be listed"),
        (failure(404, "not there"), "nodes are not served"),
    ];
    for (says, expected) in cases {
        let scripted = Scripted::plain();
        scripted.say(NODES, says);
        let why = scripted.read(&plain()).await.expect_err(expected);
        assert!(why.starts_with(expected), "{why}");
    }
    let scripted = Scripted::plain();
    scripted.say(NODES, failure(500, &"x".repeat(100_000)));
    let why = scripted.read(&plain()).await.expect_err("it fails");
    assert!(why.len() < 1000, "{} bytes", why.len());
}

#[tokio::test(start_paused = true)]
async fn operators_and_machines_are_absent_only_where_a_cluster_that_is_ready_serves_none() {
    let scripted = Scripted::plain();
    let read = scripted.read(&plain()).await.expect("it answers");
    assert_eq!((read.cluster_operators, read.machines), (Known::Absent, Known::Absent));
    // It does not serve them yet.
    scripted.say(READYZ, failure(500, "crd-informer-synced failed"));
    let read = scripted.read(&plain()).await.expect("it answers");
    assert_eq!((read.cluster_operators, read.machines), (Known::Unknown, Known::Unknown));
    for says in [failure(403, "forbidden"), failure(503, "later"), Says::Nothing] {
        let scripted = Scripted::plain();
        scripted.say(OPERATORS, says.clone());
        scripted.say(MACHINES, says);
        let read = scripted.read(&plain()).await.expect("it answers");
        assert_eq!((read.cluster_operators, read.machines), (Known::Unknown, Known::Unknown));
    }
}

#[tokio::test]
async fn an_operator_holds_what_it_says_and_nothing_else() {
    let scripted = Scripted::plain();
    let operator =
        |name: &str, status: Value| json!({"metadata": {"name": name}, "status": status});
    let conditions = |all: &[(&str, &str)]| {
        let of = |(kind, status): &(&str, &str)| json!({"type": kind, "status": status});
        json!({"conditions": all.iter().map(of).collect::<Vec<_>>()})
    };
    let all = [
        operator("good", conditions(&[("Available", "True"), ("Degraded", "False")])),
        operator("moving", conditions(&[("Available", "True"), ("Progressing", "True")])),
        operator("unsure", conditions(&[("Available", "Unknown")])),
        operator("silent", Value::Null),
        operator("broken", json!({"conditions": [5]})),
    ];
    scripted.say(OPERATORS, items("ClusterOperator", &all));
    let read = scripted.read(&plain()).await.expect("it answers");
    let Known::Is(operators) = read.cluster_operators else { panic!("they are served") };
    let healthy: Vec<_> =
        operators.iter().filter(|one| one.is_healthy()).map(|one| one.name.as_str()).collect();
    assert_eq!(healthy, ["good"]);
    let moving = ObservedOperator {
        name: "moving".to_owned(),
        available: true,
        progressing: true,
        degraded: false,
    };
    assert_eq!(operators[1], moving);
}

#[tokio::test]
async fn machines_are_read_with_what_their_provider_calls_them() {
    let scripted = Scripted::plain();
    let machines = [
        json!({
            "metadata": {"name": "spot-1", "uid": "u-1",
                         "labels": {"machine.openshift.io/interruptible-instance": ""}},
            "spec": {"providerID": "aws:///eu-west-1a/i-0abc"},
            "status": {"phase": "Running", "lastUpdated": "2026-01-01T00:00:00Z",
                       "nodeRef": {"name": "ip-10-0-0-7"},
                       "addresses": [{"type": "InternalDNS", "address": "ip-10-0-0-7.internal"}]},
        }),
        json!({"metadata": {"name": "failed", "deletionTimestamp": "2026-01-01T00:00:00Z"},
               "status": {"phase": "Failed"}}),
        json!({"metadata": {"name": "odd"}, "spec": {"providerID": 5}, "status": "?"}),
    ];
    scripted.say(MACHINES, items("Machine", &machines));
    let read = scripted.read(&plain()).await.expect("it answers");
    let Known::Is(machines) = read.machines else { panic!("they are served") };
    let spot = &machines[0];
    assert_eq!((spot.instance.as_deref(), spot.interruptible), (Some("i-0abc"), true));
    assert_eq!((spot.phase, spot.uid.as_str()), (MachinePhase::Live, "u-1"));
    assert_eq!(spot.node_name.as_deref(), Some("ip-10-0-0-7"));
    assert_eq!(spot.addresses, ["ip-10-0-0-7.internal"]);
    assert_eq!(spot.updated_at, Some(at("2026-01-01T00:00:00Z")));
    assert!(machines[1].deleting && machines[1].phase == MachinePhase::Failed);
    assert_eq!((machines[2].phase, &machines[2].instance), (MachinePhase::Unset, &None));
}

#[tokio::test]
async fn workloads_that_are_not_ready_are_named_for_each_selector() {
    let scripted = Scripted::plain();
    let question =
        TargetQuestion { workloads: vec!["app=web".to_owned(), "x".to_owned()], csrs: false };
    let object = |name: &str, spec: Value, status: Value| {
        json!({"metadata": {"name": name, "namespace": "shop", "generation": 2},
               "spec": spec, "status": status})
    };
    let spec = json!({"replicas": 2, "selector": {}, "template": {}});
    let deployments = [
        object("ready", spec.clone(), json!({"observedGeneration": 2, "availableReplicas": 2})),
        object("stale", spec.clone(), json!({"observedGeneration": 1, "availableReplicas": 2})),
        object("few", spec.clone(), json!({"observedGeneration": 2, "availableReplicas": 1})),
        object("new", spec, json!({})),
    ];
    scripted.say(DEPLOYMENTS, items("Deployment", &deployments));
    let spec = json!({"replicas": 1, "selector": {}, "serviceName": "db", "template": {}});
    let sets = [
        object("db", spec.clone(), json!({"observedGeneration": 2, "replicas": 1})),
        object("queue", spec, json!({"observedGeneration": 2, "replicas": 1, "readyReplicas": 1})),
    ];
    scripted.say(STATEFUL_SETS, items("StatefulSet", &sets));
    let status = json!({"observedGeneration": 2, "desiredNumberScheduled": 3, "numberReady": 2,
        "currentNumberScheduled": 3, "numberMisscheduled": 0});
    let set = object("agent", json!({"selector": {}, "template": {}}), status);
    scripted.say(DAEMON_SETS, items("DaemonSet", &[set]));
    let read = scripted.read(&question).await.expect("it answers");
    let expected = [
        "Deployment shop/stale",
        "Deployment shop/few",
        "Deployment shop/new",
        "StatefulSet shop/db",
        "DaemonSet shop/agent",
    ];
    let unready: Vec<_> = read.workloads.iter().map(|one| one.unready.clone()).collect();
    assert_eq!(unready, vec![Known::Is(expected.map(str::to_owned).to_vec()); 2]);
    assert_eq!(read.workloads[0].selector, "app=web");
    scripted.say(DAEMON_SETS, failure(403, "forbidden"));
    let read = scripted.read(&question).await.expect("it answers");
    assert!(read.workloads.iter().all(|one| one.unready.is_unknown()));
}

fn csr(name: &str, status: &Value) -> Value {
    json!({"metadata": {"name": name, "uid": format!("u-{name}"), "resourceVersion": "7"},
        "spec": {"signerName": "kubernetes.io/kubelet-serving", "username": "system:node:a",
                 "request": STANDARD.encode("-----BEGIN GARBAGE-----")},
        "status": status})
}

// case: cluster R09
#[tokio::test(start_paused = true)]
async fn requests_for_certificates_are_read_one_by_one_and_not_without_end() {
    let question = TargetQuestion { csrs: true, ..plain() };
    let scripted = Scripted::plain();
    let approved = json!({"conditions": [{"type": "Approved", "status": "True"}]});
    let all = [
        csr("one", &Value::Null),
        json!({"metadata": {"name": "odd"}, "spec": 5}),
        csr("decided", &approved),
        csr("two", &json!({})),
    ];
    scripted.say(CSRS, items("CertificateSigningRequest", &all));
    let read = scripted.read(&question).await.expect("it answers");
    let Known::Is(csrs) = read.csrs else { panic!("they are served") };
    let names: Vec<_> = csrs.iter().map(|csr| csr.name.as_str()).collect();
    assert_eq!(names, ["one", "odd", "two"]);
    assert!(csrs.iter().all(|csr| csr.request.is_none()), "none of them can be read");

    let many = (0..500).map(|number| csr(&number.to_string(), &Value::Null)).collect();
    for says in [Says::Endless(many), failure(403, "forbidden"), Says::Nothing] {
        scripted.say(CSRS, says);
        let read = scripted.read(&question).await.expect("the rest answers");
        assert_eq!(read.csrs, Known::Unknown, "none is looked at");
        assert_eq!(read.nodes.len(), 1);
    }
}

#[tokio::test]
async fn one_request_is_approved_under_the_version_that_was_read() {
    let path = format!("{CSRS}/one");
    let approval = |uid: &str| Approval { name: "one".to_owned(), uid: uid.to_owned() };
    let scripted = Scripted::plain();
    let target = scripted.target();
    assert_eq!(target.approve(&approval("u-one")).await, Ok(Approved::Gone));
    scripted.say(&path, Says::Code(200, csr("one", &json!(5))));
    assert_eq!(target.approve(&approval("u-earlier")).await, Ok(Approved::Gone));
    let to = format!("{path}/approval");
    scripted.say(&to, Says::Code(200, csr("one", &Value::Null)));
    assert_eq!(target.approve(&approval("u-one")).await, Ok(Approved::Now));
    let [(sent_to, sent)] = &*scripted.requests(&Method::PUT) else { panic!("it was sent once") };
    assert_eq!(*sent_to, to);
    assert_eq!(sent["metadata"]["resourceVersion"], "7");
    assert_eq!(sent["metadata"]["uid"], "u-one");
    let [condition] = &**sent["status"]["conditions"].as_array().expect("a list") else {
        panic!("there is one")
    };
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Approved"), &json!("True")));
    assert_eq!(sent["spec"]["signerName"], "kubernetes.io/kubelet-serving", "nothing is lost");

    scripted.say(&to, failure(409, "the object has been modified"));
    let lost = target.approve(&approval("u-one")).await;
    assert_eq!(lost, Err("the object has been modified".to_owned()));
    let denied = json!({"conditions": [{"type": "Denied", "status": "True"}]});
    scripted.say(&path, Says::Code(200, csr("one", &denied)));
    assert_eq!(target.approve(&approval("u-one")).await, Ok(Approved::Decided));
    assert_eq!(scripted.requests(&Method::PUT).len(), 2);
}

#[tokio::test]
async fn a_machine_is_not_drained_and_deleted_if_it_is_that_very_one() {
    let path = format!("{MACHINES}/spot-1");
    let replacement = |uid: &str| Replacement { name: "spot-1".to_owned(), uid: uid.to_owned() };
    let scripted = Scripted::plain();
    let target = scripted.target();
    assert_eq!(target.replace(&replacement("u-1")).await, Ok(Replaced::Gone));
    let machine = json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {"name": "spot-1", "uid": "u-1"}});
    scripted.say(&path, Says::Code(200, machine.clone()));
    assert_eq!(target.replace(&replacement("u-0")).await, Ok(Replaced::Gone));
    assert_eq!(target.replace(&replacement("u-1")).await, Ok(Replaced::Now));
    let [(_, marked)] = &*scripted.requests(&Method::PATCH) else { panic!("it is marked once") };
    assert_eq!(marked["metadata"]["annotations"]["machine.openshift.io/exclude-node-draining"], "");
    assert_eq!(marked["metadata"]["uid"], "u-1");
    let [(_, deleted)] = &*scripted.requests(&Method::DELETE) else { panic!("once") };
    assert_eq!(deleted["preconditions"]["uid"], "u-1");
    scripted.say(&format!("PATCH {path}"), failure(500, "broken"));
    assert_eq!(target.replace(&replacement("u-1")).await, Err("broken".to_owned()));
    assert_eq!(scripted.requests(&Method::DELETE).len(), 1, "what is not marked would be drained");
    let mut going = machine;
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    scripted.say(&path, Says::Code(200, going));
    assert_eq!(target.replace(&replacement("u-1")).await, Ok(Replaced::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_probe_asks_whether_the_api_is_ready_and_waits_for_nobody() {
    let clock = VirtualClock::starting_at(at("2026-01-01T00:00:00Z"));
    let scripted = Scripted::plain();
    let probe = scripted.target().probe(&clock).await;
    assert_eq!(probe, Probe { at: at("2026-01-01T00:00:00Z"), result: Ok(()) });
    scripted.say(READYZ, failure(500, "etcd failed"));
    assert_eq!(scripted.target().probe(&clock).await.result, Err("etcd failed".to_owned()));
    scripted.say(READYZ, Says::Nothing);
    let probe = scripted.target().probe(&clock).await;
    assert_eq!(probe.result, Err("no answer within 15 s".to_owned()));
    assert_eq!(probe.at, at("2026-01-01T00:00:00Z"), "it is as old as its question");
}

/// Counts clients that it makes; reaches nobody but the scripted cluster.
#[derive(Clone, Default)]
struct Factory {
    made: Arc<AtomicUsize>,
    /// Otherwise it reaches what the guard lets it reach.
    scripted: Option<Scripted>,
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Factory").finish_non_exhaustive()
    }
}

impl DriverFactory for Factory {
    fn target_client(&self, config: &kube::Config, allow: &Allow) -> Result<Client, ClientProblem> {
        self.made.fetch_add(1, Ordering::Relaxed);
        let client = kubeconfig::guarded_client(config, allow)?;
        Ok(self.scripted.as_ref().map_or(client, Scripted::client))
    }

    fn metrics(&self, _: &DriverConfig) -> Result<Option<Arc<dyn Metrics>>, String> {
        Ok(None)
    }

    fn channels(
        &self,
        _: &DriverConfig,
        _: &ChannelSecrets,
    ) -> Result<Vec<Arc<dyn Channel>>, String> {
        Ok(Vec::new())
    }

    fn zone(&self, _: &DriverConfig) -> Result<Zone, String> {
        Ok(Zone::utc())
    }

    fn probe(&self, _: &DriverConfig) -> Result<Arc<dyn Prober>, String> {
        Err("there is none".to_owned())
    }
}

const SECRET: &str = "/api/v1/namespaces/team/secrets/one";
const KUBECONFIG: KubeconfigRef<'static> =
    KubeconfigRef { namespace: "team", name: "one", key: "kubeconfig" };

fn kubeconfig_of(server: &str) -> Value {
    json!({
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "hunter2"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    })
}

fn secret(version: &str, kubeconfig: &Value) -> Says {
    let data = json!({"kubeconfig": STANDARD.encode(kubeconfig.to_string())});
    let metadata = json!({"name": "one", "uid": "u-1", "resourceVersion": version});
    Says::Code(200, json!({"metadata": metadata, "data": data}))
}

fn allow(ranges: &[&str]) -> Allow {
    Allow::parse(ranges).expect("ranges")
}

#[tokio::test]
async fn a_client_is_made_once_for_each_version_of_its_secret() {
    let hub = Scripted::default();
    let factory = Factory { scripted: Some(Scripted::plain()), ..Factory::default() };
    let targets = Targets::new(hub.client(), Arc::new(factory.clone()));
    let made = || factory.made.load(Ordering::Relaxed);
    let inner = allow(&["192.0.2.0/24"]);
    let problem = async |allow: &Allow| match targets.client(KUBECONFIG, allow).await {
        Ok(_) => String::new(),
        Err(problem) => problem.to_string(),
    };
    assert_eq!(problem(&inner).await, "the Secret one with its kubeconfig is not there");
    hub.say(SECRET, secret("1", &kubeconfig_of("https://192.0.2.1:6443")));
    for _ in 0..3 {
        let target = targets.client(KUBECONFIG, &inner).await.expect("it is good");
        assert!(matches!(target.read(&plain()).await, Target::Read(_)));
    }
    assert_eq!(made(), 1);
    hub.say(SECRET, secret("2", &kubeconfig_of("https://192.0.2.2:6443")));
    assert_eq!(problem(&inner).await, "");
    assert_eq!(made(), 2);
    // What is allowed now is what counts.
    assert!(problem(&Allow::default()).await.contains("no address that is allowed"));
    assert_eq!(problem(&inner).await, "");
    hub.say(SECRET, failure(503, "later"));
    let words = problem(&inner).await;
    assert_eq!(words, "the Secret one with its kubeconfig cannot be read: later");
    hub.say(SECRET, Says::Code(200, json!({"metadata": {"name": "one"}, "data": {}})));
    assert_eq!(problem(&inner).await, "the Secret one has no key kubeconfig");
}

#[tokio::test]
async fn a_kubeconfig_is_data_and_its_server_is_guarded() {
    let hub = Scripted::default();
    let targets = Targets::new(hub.client(), Arc::new(Factory::default()));
    let problem = async |kubeconfig: &Value| {
        hub.say(SECRET, secret(&kubeconfig.to_string(), kubeconfig));
        let made = targets.client(KUBECONFIG, &Allow::default()).await;
        made.err().map_or_else(String::new, |problem| problem.to_string())
    };
    let mut program = kubeconfig_of("https://1.1.1.1");
    program["users"][0]["user"] =
        json!({"exec": {"command": "sh", "apiVersion": "client.authentication.k8s.io/v1"}});
    let words = problem(&program).await;
    assert!(words.contains("`exec` is refused"), "{words}");
    let mut insecure = kubeconfig_of("https://1.1.1.1");
    insecure["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = json!(true);
    let words = problem(&insecure).await;
    assert!(words.contains("`insecure-skip-tls-verify` is refused"), "{words}");
    for server in ["https://127.0.0.1:6443", "https://169.254.169.254", "https://[::1]:6443"] {
        let words = problem(&kubeconfig_of(server)).await;
        assert!(words.contains("no address that is allowed"), "{server}: {words}");
        assert!(!words.contains("hunter2"), "{words}");
    }
    assert_eq!(problem(&kubeconfig_of("https://1.1.1.1")).await, "");
    // A name is judged by what it resolves to, when somebody connects.
    assert_eq!(problem(&kubeconfig_of("https://localhost:1")).await, "");
    let target = targets.client(KUBECONFIG, &Allow::default()).await.expect("it is good");
    let clock = VirtualClock::starting_at(at("2026-01-01T00:00:00Z"));
    let result = target.probe(&clock).await.result;
    assert_eq!(result, Err("localhost is at no address that is allowed".to_owned()));
}
