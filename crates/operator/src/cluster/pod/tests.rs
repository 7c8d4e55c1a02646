use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::{pending, ready};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use sojourn_core::key::Key;
use sojourn_drivers::actuator::contract::{ContractHarness, suite};
use sojourn_drivers::actuator::{Account, Action};

use super::*;

const NAMESPACE: &str = "team";

fn seal() -> RecordSeal {
    RecordSeal::new(&[7; 32])
}

/// Whether a request fails, counted from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// It is refused, and nothing is done.
    Before(usize),
    /// It is done, and nobody hears of it; or the process was killed right after.
    After(usize),
}

/// Pods and Secrets by kind and name, as an API server keeps them. After each request it looks whether every machine
/// is there or on record.
#[derive(Default)]
struct FakeApi {
    objects: BTreeMap<(String, String), Value>,
    versions: u64,
    requests: Vec<String>,
    failure: Option<Failure>,
    outage: bool,
    /// Machines that must never be lost.
    machines: Vec<String>,
    page: Option<usize>,
}

#[derive(Clone, Default)]
struct FakeCluster(Arc<Mutex<FakeApi>>);

type Answer = (u16, Value);

fn problem(code: u16, reason: &str) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": format!("the API says {reason}")});
    (code, status)
}

impl FakeApi {
    fn version(&mut self) -> String {
        self.versions += 1;
        self.versions.to_string()
    }

    fn put(&mut self, kind: &str, mut object: Value) -> Answer {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        object["metadata"]["namespace"] = json!(NAMESPACE);
        object["metadata"]["resourceVersion"] = json!(self.version());
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.versions));
        }
        if kind == "pods" && object["status"].is_null() {
            object["status"] = json!({"phase": "Running", "podIP": "10.0.0.7"});
        }
        self.objects.insert((kind.to_owned(), name), object.clone());
        (200, object)
    }

    fn list(&self, kind: &str, query: &str) -> Answer {
        let query: BTreeMap<String, String> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| {
                let value = value.replace("%2F", "/").replace("%3D", "=").replace("%2C", ",");
                (name.to_owned(), value)
            })
            .collect();
        let selector = query.get("labelSelector").cloned().unwrap_or_default();
        let selected = |object: &Value| {
            selector.split(',').filter(|one| !one.is_empty()).all(|one| {
                let (name, value) = one.split_once('=').expect("an equality");
                object["metadata"]["labels"][name] == value
            })
        };
        let of_kind = self.objects.iter().filter(|((of, _), _)| of == kind);
        let all: Vec<Value> =
            of_kind.map(|(_, object)| object.clone()).filter(|object| selected(object)).collect();
        let from = query.get("continue").map_or(0, |token| token.parse().expect("ours"));
        let size = self.page.unwrap_or(usize::MAX);
        let items: Vec<Value> = all.iter().skip(from).take(size).cloned().collect();
        let next = from + items.len();
        let token = if next < all.len() { json!(next.to_string()) } else { Value::Null };
        let metadata = json!({"resourceVersion": "1", "continue": token});
        (200, json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}))
    }

    fn answer(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> Answer {
        let mut parts = path.trim_start_matches("/api/v1/namespaces/").split('/');
        assert_eq!(parts.next(), Some(NAMESPACE), "nobody leaves the namespace of the cluster");
        let kind = parts.next().expect("a kind").to_owned();
        let Some(name) = parts.next() else {
            if *method == Method::GET {
                return self.list(&kind, query);
            }
            let name = body["metadata"]["name"].as_str().expect("a name").to_owned();
            if self.objects.contains_key(&(kind.clone(), name)) {
                return problem(409, "AlreadyExists");
            }
            return self.put(&kind, body.clone());
        };
        let key = (kind.clone(), name.to_owned());
        let Some(there) = self.objects.get(&key).cloned() else { return problem(404, "NotFound") };
        match *method {
            Method::GET => (200, there),
            Method::PUT => {
                if body["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"] {
                    return problem(409, "Conflict");
                }
                self.put(&kind, body.clone())
            }
            Method::DELETE => {
                if body["preconditions"]["uid"] != there["metadata"]["uid"] {
                    return problem(409, "Conflict");
                }
                self.objects.remove(&key);
                (200, there)
            }
            _ => problem(405, "MethodNotAllowed"),
        }
    }

    /// No machine is lost: each is there, or what it takes to make it again.
    fn check(&self) {
        for name in &self.machines {
            let pod = self.objects.contains_key(&("pods".to_owned(), name.clone()));
            let on_record = self.objects.iter().any(|((kind, _), object)| {
                kind == "secrets"
                    && object["metadata"]["annotations"]["cluster.sojourn.dev/machine"] == **name
            });
            assert!(pod || on_record, "{name} is lost after {:?}", self.requests.last());
        }
    }

    fn take(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> Option<Answer> {
        self.requests.push(format!("{method} {path}"));
        if self.outage {
            return Some(problem(503, "ServiceUnavailable"));
        }
        let failure = self.failure;
        self.failure = match failure {
            Some(Failure::Before(left)) => left.checked_sub(1).map(Failure::Before),
            Some(Failure::After(left)) => left.checked_sub(1).map(Failure::After),
            None => None,
        };
        if failure == Some(Failure::Before(0)) {
            return Some(problem(500, "InternalError"));
        }
        let answer = self.answer(method, path, query, body);
        self.check();
        (failure != Some(Failure::After(0))).then_some(answer)
    }
}

impl FakeCluster {
    fn api(&self) -> MutexGuard<'_, FakeApi> {
        self.0.lock().expect("unpoisoned")
    }

    fn client(&self) -> Client {
        let cluster = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let cluster = cluster.clone();
            async move {
                let (parts, body) = request.into_parts();
                let query = parts.uri.query().unwrap_or_default().to_owned();
                if query.contains("watch=true") {
                    return pending().await;
                }
                let body = body.collect().await.expect("a body").to_bytes();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let answer = cluster.api().take(&parts.method, parts.uri.path(), &query, &body);
                let Some((code, answer)) = answer else {
                    return Err(std::io::Error::other("the connection broke"));
                };
                let answer = Full::from(answer.to_string());
                Ok(Response::builder().status(code).body(answer).expect("an answer"))
            }
        });
        Client::new(service, "default")
    }

    fn actuator(&self) -> PodActuator {
        PodActuator::new(self.client(), seal())
    }

    fn put_pod(&self, pod: Value) {
        let (code, _) = self.api().put("pods", pod);
        assert_eq!(code, 200);
    }

    fn pod(&self, name: &str) -> Option<Value> {
        self.api().objects.get(&("pods".to_owned(), name.to_owned())).cloned()
    }

    fn secrets(&self) -> Vec<Value> {
        let api = self.api();
        let secrets = api.objects.iter().filter(|((kind, _), _)| kind == "secrets");
        secrets.map(|(_, secret)| secret.clone()).collect()
    }

    fn fail(&self, failure: Failure) {
        self.api().failure = Some(failure);
    }
}

fn cluster(infra_id: &str) -> Cluster {
    Cluster {
        key: Key::new(NAMESPACE, "one"),
        infra_id: infra_id.to_owned(),
        platform: Platform { name: NAME.to_owned(), config: Value::Null },
        account: Account::default(),
    }
}

fn pod(infra_id: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {INFRA_ID: infra_id, "app": "db"},
                     "annotations": {"who": "ada"}, "finalizers": ["a/b"]},
        "spec": {"containers": [{"name": "db", "image": "none", "ofNextYear": {"kept": true}}],
                 "nodeName": "gone", "priority": 0, "hostname": "db-host"},
    })
}

struct Harness {
    api: FakeCluster,
    actuator: PodActuator,
}

impl ContractHarness for Harness {
    fn actuator(&self) -> &dyn Actuator {
        &self.actuator
    }

    fn good(&self) -> Value {
        json!({})
    }

    fn bad(&self) -> Value {
        json!({"colour": "blue"})
    }

    fn cluster<'a>(&'a self, name: &'a str, machines: usize) -> BoxFuture<'a, Cluster> {
        let cluster = cluster(&format!("{name}-x7k2p"));
        for number in 0..machines {
            let name = format!("{}-{number}", cluster.infra_id);
            self.api.put_pod(pod(&cluster.infra_id, &name));
        }
        ready(cluster).boxed()
    }

    fn lose<'a>(&'a self, _: &'a Cluster, machine: &'a str) -> BoxFuture<'a, ()> {
        self.api.api().objects.remove(&("pods".to_owned(), machine.to_owned()));
        ready(()).boxed()
    }

    fn set_outage(&self, outage: bool) -> BoxFuture<'_, ()> {
        self.api.api().outage = outage;
        ready(()).boxed()
    }

    fn restart(&self) -> BoxFuture<'_, ()> {
        // It remembers nothing: what there is is the API's.
        ready(()).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn it_keeps_the_contract() {
    let api = FakeCluster::default();
    let actuator = api.actuator();
    suite(&Harness { api, actuator }).await;
}

/// Three machines of a cluster that must never be lost.
fn stage() -> (FakeCluster, Cluster, [String; 3]) {
    let api = FakeCluster::default();
    let names = ["a", "b", "c"].map(str::to_owned);
    for name in &names {
        api.put_pod(pod("one-x", name));
    }
    api.api().machines = names.to_vec();
    (api, cluster("one-x"), names)
}

/// Calls until every machine was called with success, as a decision has it. How many calls failed.
async fn call_all(
    actuator: &dyn Actuator,
    cluster: &Cluster,
    action: Action,
    names: &[String],
) -> usize {
    let mut failed = 0;
    for name in names {
        for _ in 0..5 {
            match actuator.act(cluster, action, name).await {
                Ok(()) => break,
                Err(_) => failed += 1,
            }
        }
    }
    failed
}

#[tokio::test]
async fn whichever_request_fails_or_is_the_last_of_a_process_no_machine_is_lost() {
    // More requests than there are on the way down and up.
    for number in 0..40 {
        for failure in [Failure::Before(number), Failure::After(number)] {
            let (api, cluster, names) = stage();
            let asked = api.pod("a").expect("there")["spec"]["containers"].clone();
            api.fail(failure);
            let down = call_all(&api.actuator(), &cluster, Action::Stop, &names).await;
            assert!(names.iter().all(|name| api.pod(name).is_none()), "{failure:?}");
            let actuator: Arc<dyn Actuator> = Arc::new(api.actuator());
            let on_record = async || actuator.records(&cluster).await.expect("read").len();
            if api.api().failure.is_none() {
                assert_eq!(on_record().await, 3);
            }
            let up = call_all(&*actuator, &cluster, Action::Start, &names).await;
            assert!(down + up <= 1, "one request failed: {failure:?}");
            for name in &names {
                let pod = api.pod(name).expect("it is there again");
                assert_eq!(pod["spec"]["containers"], asked, "{failure:?}");
            }
            api.api().failure = None;
            assert_eq!(on_record().await, 3, "a start removes no record");
            api.api().machines.clear();
            actuator.remove_records(&cluster).await.expect("removed");
            assert_eq!((on_record().await, api.secrets().len()), (0, 0));
        }
    }
}

#[tokio::test]
async fn a_pod_is_made_again_as_somebody_asked_for_it() {
    let (api, cluster, names) = stage();
    let before = api.pod("a").expect("there");
    let actuator = api.actuator();
    assert_eq!(call_all(&actuator, &cluster, Action::Stop, &names).await, 0);
    let secrets = api.secrets();
    assert_eq!(secrets.len(), 3, "each has its own");
    assert!(secrets.iter().all(|secret| secret["metadata"]["labels"][INFRA_ID] == "one-x"));
    assert!(secrets.iter().all(|secret| secret["metadata"]["ownerReferences"].is_null()));
    assert_eq!(call_all(&actuator, &cluster, Action::Start, &names).await, 0);
    let after = api.pod("a").expect("there again");
    for path in ["/metadata/labels", "/metadata/annotations", "/spec/containers", "/spec/hostname"]
    {
        assert_eq!(after.pointer(path), before.pointer(path), "{path}");
    }
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    for path in ["/spec/nodeName", "/spec/priority", "/metadata/finalizers"] {
        assert_eq!(after.pointer(path), None, "{path}");
    }
}

#[tokio::test]
async fn what_another_controller_makes_is_listed_and_not_stopped() {
    let (api, cluster, _) = stage();
    let owner = |controller: bool| {
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-web",
                "controller": controller}])
    };
    let mut controlled = pod("one-x", "web-1");
    controlled["metadata"]["ownerReferences"] = owner(true);
    api.put_pod(controlled);
    let actuator = api.actuator();
    let listed = actuator.list(&cluster).await.expect("a list");
    assert!(listed.iter().any(|one| one.id == "web-1" && one.state == MachineState::Running));
    let refused = actuator.stop(&cluster, "web-1").await.expect_err("it is not ours");
    let words = refused.to_string();
    assert!(words.contains("Refused") && words.contains("ReplicaSet web"), "{words}");
    assert!(api.pod("web-1").is_some() && api.secrets().is_empty());

    let mut owned = pod("one-x", "owned");
    owned["metadata"]["ownerReferences"] = owner(false);
    api.put_pod(owned);
    actuator.stop(&cluster, "owned").await.expect("nobody makes another");
    actuator.start(&cluster, "owned").await.expect("it is on record");
    let pod = api.pod("owned").expect("there again");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], "web", "its owner stays");
}

#[tokio::test]
async fn what_cannot_be_put_on_record_is_not_deleted() {
    let (api, cluster, _) = stage();
    let mut long = pod("one-x", "long");
    long["metadata"]["annotations"]["long"] = json!("x".repeat(600 * 1024));
    api.put_pod(long);
    let refused = api.actuator().stop(&cluster, "long").await.expect_err("it is too long");
    assert!(refused.to_string().contains("longer than"), "{refused}");
    assert!(api.pod("long").is_some());
}

#[tokio::test]
async fn a_later_pod_of_the_same_name_is_put_on_record_in_place_of_the_earlier_one() {
    let (api, cluster, _) = stage();
    let actuator = api.actuator();
    actuator.stop(&cluster, "a").await.expect("stopped");
    let mut changed = pod("one-x", "a");
    changed["metadata"]["annotations"]["who"] = json!("ben");
    api.put_pod(changed);
    actuator.stop(&cluster, "a").await.expect("stopped");
    actuator.start(&cluster, "a").await.expect("started");
    assert_eq!(api.pod("a").expect("there")["metadata"]["annotations"]["who"], "ben");
    assert_eq!(api.secrets().len(), 1);
}

#[tokio::test]
async fn whatever_is_in_the_place_of_a_pod_stays() {
    let (api, cluster, _) = stage();
    let actuator = api.actuator();
    actuator.stop(&cluster, "a").await.expect("stopped");
    let foreign = pod("two-x", "a");
    api.put_pod(foreign);
    let conflict = actuator.start(&cluster, "a").await.expect_err("it is another's");
    assert!(conflict.to_string().starts_with("Conflict"), "{conflict}");
    let uid = api.pod("a").expect("there")["metadata"]["uid"].clone();
    actuator.stop(&cluster, "a").await.expect("ours has stopped");
    actuator.end(&cluster, "a").await.expect("ours is gone");
    assert_eq!(api.pod("a").expect("there")["metadata"]["uid"], uid);

    let mut leaving = pod("one-x", "b");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    api.put_pod(leaving);
    let conflict = actuator.start(&cluster, "b").await.expect_err("it is still there");
    assert!(conflict.to_string().starts_with("Conflict"), "{conflict}");
    actuator.stop(&cluster, "b").await.expect("it goes already");
    assert_eq!(actuator.list(&cluster).await.expect("a list").len(), 2);
    let records: &dyn Actuator = &actuator;
    assert_eq!(records.records(&cluster).await.expect("read").len(), 1, "b, before it goes");
}

#[tokio::test]
async fn a_pod_that_has_ended_is_made_anew() {
    let (api, cluster, _) = stage();
    for phase in ["Succeeded", "Failed"] {
        let mut ended = pod("one-x", "a");
        ended["status"] = json!({"phase": phase});
        api.put_pod(ended);
        let actuator = api.actuator();
        let listed = actuator.list(&cluster).await.expect("a list");
        assert!(listed.iter().any(|one| one.id == "a" && one.state == MachineState::Failed));
        actuator.start(&cluster, "a").await.expect("started");
        assert_eq!(api.pod("a").expect("there")["status"]["phase"], "Running");
    }
}

#[tokio::test]
async fn an_id_that_no_label_has_selects_nothing_and_a_name_that_no_pod_has_reaches_nothing() {
    let (api, _, _) = stage();
    let actuator = api.actuator();
    for id in ["", "a,b", "a!=b", "x in (a)", "-a", "a b", &"x".repeat(64)] {
        let cluster = cluster(id);
        let refused = actuator.list(&cluster).await.expect_err("no label is called so");
        assert!(refused.to_string().starts_with("Refused"), "{refused}");
        actuator.stop(&cluster, "a").await.expect_err("no label is called so");
        let dynamic: &dyn Actuator = &actuator;
        assert_eq!(dynamic.records(&cluster).await, Ok(Vec::new()));
    }
    let cluster = cluster("one-x");
    for name in ["", "..", "../secrets/keys", "a/log", "a?x", "A", &"x".repeat(254)] {
        for action in [Action::Stop, Action::Start, Action::End] {
            let absent = call_one(&actuator, &cluster, action, name).await;
            assert!(absent.to_string().starts_with("NotFound"), "{name}: {absent}");
        }
    }
    assert_eq!(api.api().requests, [""; 0]);
}

async fn call_one(
    actuator: &dyn Actuator,
    cluster: &Cluster,
    action: Action,
    name: &str,
) -> ActuatorError {
    actuator.act(cluster, action, name).await.expect_err("no Pod is called so")
}

#[tokio::test]
async fn a_list_of_several_parts_is_one_list() {
    let (api, cluster, names) = stage();
    api.api().page = Some(2);
    let actuator = api.actuator();
    let listed = actuator.list(&cluster).await.expect("a list");
    let ids: Vec<&str> = listed.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(listed[0].addresses, ["a", "db-host", "10.0.0.7"]);
    call_all(&actuator, &cluster, Action::Stop, &names).await;
    let dynamic: &dyn Actuator = &actuator;
    assert_eq!(dynamic.records(&cluster).await.expect("read").len(), 3);
}

#[tokio::test]
async fn what_somebody_wrote_over_a_record_makes_no_other_pod() {
    let (api, cluster, _) = stage();
    let actuator = api.actuator();
    actuator.stop(&cluster, "a").await.expect("stopped");
    let secret = api.secrets().remove(0);
    api.api().machines.clear();
    let written = |manifest: &Value| {
        use base64::Engine as _;
        let mut secret = secret.clone();
        let text = base64::engine::general_purpose::STANDARD.encode(manifest.to_string());
        secret["data"] = json!({"pod.json": text});
        api.api().put("secrets", secret);
    };
    let mut other_kind = pod("one-x", "a");
    other_kind["kind"] = json!("Secret");
    // By the right name, but nobody who may create Pods has asked for that one.
    let mut privileged = pod("one-x", "a");
    privileged["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    let forged = [privileged, pod("one-x", "b"), pod("two-x", "a"), other_kind, json!("nothing")];
    for manifest in forged {
        written(&manifest);
        let refused = actuator.start(&cluster, "a").await.expect_err("it is no record of a");
        assert!(refused.to_string().starts_with("Refused"), "{refused}");
        assert!(api.pod("a").is_none());
    }
    api.api().put("secrets", secret.clone());
    actuator.start(&cluster, "a").await.expect("as it was written, it is a record");
}

#[tokio::test]
async fn a_record_counts_where_it_was_written_and_nowhere_else() {
    let (api, cluster, _) = stage();
    let actuator = api.actuator();
    for name in ["a", "b"] {
        actuator.stop(&cluster, name).await.expect("stopped");
    }
    api.api().machines.clear();
    let (of_a, of_b): (Vec<_>, Vec<_>) = api.secrets().into_iter().partition(|secret| {
        secret["metadata"]["annotations"]["cluster.sojourn.dev/machine"] == "a"
    });
    let seal =
        |secret: &Value| secret["metadata"]["annotations"]["cluster.sojourn.dev/seal"].clone();
    assert_ne!(seal(&of_a[0]), seal(&of_b[0]));
    for wrong in [Some(seal(&of_b[0])), Some(json!("zz")), Some(json!("")), None] {
        let mut secret = of_a[0].clone();
        let annotations = &mut secret["metadata"]["annotations"];
        match wrong {
            Some(wrong) => annotations["cluster.sojourn.dev/seal"] = wrong,
            None => *annotations = json!({"cluster.sojourn.dev/machine": "a"}),
        }
        api.api().put("secrets", secret);
        let refused = actuator.start(&cluster, "a").await.expect_err("it has no seal of ours");
        assert!(refused.to_string().contains("create the Pod from pod.json"), "{refused}");
    }
    api.api().put("secrets", of_a[0].clone());
    let elsewhere = PodActuator::new(api.client(), RecordSeal::new(&[8; 32]));
    elsewhere.start(&cluster, "a").await.expect_err("another installation wrote it");
    assert!(api.pod("a").is_none());
    actuator.start(&cluster, "a").await.expect("it is ours");
    // What is on record without a seal is written anew by the next stop.
    let mut secret = of_b[0].clone();
    secret["metadata"]["annotations"]["cluster.sojourn.dev/seal"] = json!("");
    api.api().put("secrets", secret);
    api.put_pod(pod("one-x", "b"));
    actuator.stop(&cluster, "b").await.expect("stopped");
    actuator.start(&cluster, "b").await.expect("sealed");
}

#[test]
fn answers_of_the_api_have_the_class_that_they_mean() {
    let class = |code: u16, message: &str| {
        let status = kube::core::Status::failure(message, "reason").with_code(code);
        match failed("do it", &kube::Error::Api(Box::new(status))) {
            ActuatorError::Failed { class, .. } => class,
            ActuatorError::Unknown(message) => panic!("it was answered: {message}"),
        }
    };
    let quota = "pods \"a\" is forbidden: exceeded quota: pods";
    let rights = "pods is forbidden: User \"sojourn\" cannot create resource \"pods\"";
    let security = "pods \"a\" is forbidden: violates PodSecurity \"restricted\"";
    let cases = [
        (401, "", ErrorClass::Auth),
        (403, quota, ErrorClass::Quota),
        (403, rights, ErrorClass::Auth),
        (403, security, ErrorClass::Refused),
        (422, "", ErrorClass::Refused),
        (404, "", ErrorClass::NotFound),
        (409, "", ErrorClass::Conflict),
        (429, "", ErrorClass::Throttled),
        (500, "", ErrorClass::Transient),
        (503, "", ErrorClass::Transient),
    ];
    for (code, message, expected) in cases {
        assert_eq!(class(code, message), expected, "{code} {message}");
    }
    let broken = kube::Error::Service(Box::new(std::io::Error::other("broken")));
    assert!(matches!(failed("do it", &broken), ActuatorError::Unknown(_)));
    assert!(matches!(read_failed("read it", &broken), ActuatorError::Failed { .. }));
}

/// A watch that tells of Pods.
#[tokio::test(start_paused = true)]
async fn changes_of_pods_are_told_with_their_cluster() {
    let listed = Arc::new(Mutex::new(vec![pod("one-x", "a")]));
    let shown = listed.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let shown = shown.clone();
        async move {
            let query = request.uri().query().unwrap_or_default();
            assert!(query.contains("labelSelector=cluster.sojourn.dev%2Finfra-id"), "{query}");
            if query.contains("watch=true") {
                // Every watch ends with the need to list again.
                tokio::time::sleep(Duration::from_secs(1)).await;
                let gone = json!({"type": "ERROR", "object": problem(410, "Gone").1});
                return Ok(Response::new(Full::from(gone.to_string())));
            }
            let items = shown.lock().expect("unpoisoned").clone();
            let list = json!({"kind": "PodList", "apiVersion": "v1", "items": items,
                "metadata": {"resourceVersion": "1"}});
            Ok::<_, Infallible>(Response::new(Full::from(list.to_string())))
        }
    });
    let actuator = PodActuator::new(Client::new(service, "default"), seal());
    let mut changes = actuator.changes();
    let mut tasks = Tasks::default();
    actuator.follow(WatchSettings::default(), &mut tasks);
    assert_eq!(changes.next().await, Some(ActuatorChange::Cluster("one-x".into())));
    listed.lock().expect("unpoisoned").clear();
    assert_eq!(changes.next().await, Some(ActuatorChange::Cluster("one-x".into())));
    tasks.stop().await;
}
