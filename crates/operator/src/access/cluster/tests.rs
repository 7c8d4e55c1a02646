use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use http_body_util::Full;
use kube::Client;
use serde_json::{Value, json};
use sojourn_api::access::AccessConfig;
use sojourn_drivers::metrics::Metrics;
use sojourn_drivers::notify::{Channel, Zone};
use sojourn_drivers::probe::Probe;
use sojourn_rbac::{Attributes, User};
use tokio::sync::Notify;

use super::*;
use crate::driver::{DriverConfig, DriverFactory};
use crate::frame::WatchSettings;
use crate::notice::ChannelSecrets;

/// Secrets of the cluster that we run on, by name, each with a kubeconfig; the API may fail.
#[derive(Default)]
struct OwnApi {
    secrets: Mutex<BTreeMap<&'static str, String>>,
    fails: Mutex<bool>,
}

impl OwnApi {
    fn put(&self, name: &'static str, kubeconfig: &Value) {
        self.secrets.lock().expect("unpoisoned").insert(name, kubeconfig.to_string());
    }

    fn client(self: &Arc<Self>) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let api = api.clone();
            async move {
                if is_watch(&request) {
                    return std::future::pending().await;
                }
                let name = request.uri().path().rsplit('/').next().unwrap_or_default();
                let found = api.secrets.lock().expect("unpoisoned").get(name).cloned();
                let failure = |code: u16, reason: &str| json!({"kind": "Status", "code": code, "reason": reason, "status": "Failure"});
                let (code, answer) = match found {
                    _ if *api.fails.lock().expect("unpoisoned") => {
                        (503, failure(503, "ServiceUnavailable"))
                    }
                    _ if name == "secrets" => (200, list("SecretList", &[])),
                    None => (404, failure(404, "NotFound")),
                    Some(kubeconfig) => {
                        let data = json!({"kubeconfig": STANDARD.encode(kubeconfig)});
                        (200, json!({"metadata": {"name": name}, "data": data}))
                    }
                };
                Ok::<_, Infallible>(answered(code, &answer))
            }
        });
        Client::new(service, "default")
    }
}

fn is_watch(request: &Request<kube::client::Body>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch=true"))
}

fn list(kind: &str, items: &[Value]) -> Value {
    json!({"kind": kind, "metadata": {"resourceVersion": "1"}, "items": items})
}

fn answered(code: u16, answer: &Value) -> Response<Full<bytes::Bytes>> {
    Response::builder().status(code).body(Full::from(answer.to_string())).expect("an answer")
}

/// Makes clients of clusters on which one group, which the server's name says, may list Pods. Counts the watches
/// that are open on all of them.
#[derive(Debug, Default, Clone)]
struct FakeClusters {
    watches: Arc<AtomicUsize>,
}

struct OpenWatch(Arc<AtomicUsize>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl DriverFactory for FakeClusters {
    fn cluster_client(&self, config: kube::Config) -> Result<Client, kube::Error> {
        let group = config.cluster_url.host().unwrap_or_default().to_owned();
        let watches = self.watches.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (group, watches) = (group.clone(), watches.clone());
            async move {
                if is_watch(&request) {
                    watches.fetch_add(1, Ordering::Relaxed);
                    let _open = OpenWatch(watches);
                    return std::future::pending().await;
                }
                let kind = request.uri().path().rsplit('/').next().unwrap_or_default();
                let metadata = json!({"name": "pods", "resourceVersion": "1"});
                let rule = json!({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]});
                let role = json!({"kind": "ClusterRole", "name": "pods"});
                let items = match kind {
                    "clusterroles" => vec![json!({"metadata": metadata, "rules": [rule]})],
                    "clusterrolebindings" => vec![json!({
                        "metadata": metadata, "roleRef": role,
                        "subjects": [{"kind": "Group", "name": group}],
                    })],
                    _ => Vec::new(),
                };
                Ok::<_, Infallible>(answered(200, &list("List", &items)))
            }
        });
        Ok(Client::new(service, "default"))
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

    fn probe(&self, _: &DriverConfig) -> Result<Arc<dyn Probe>, String> {
        Err("there is none".to_owned())
    }
}

fn kubeconfig(host: &str) -> Value {
    json!({
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("https://{host}")}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    })
}

fn config() -> AccessConfig {
    let text = json!({"cluster": "here", "clusters": {
        "here": {},
        "a": {"kubeconfigSecret": {"name": "a"}, "caller": {"commonName": "a"}},
        "b": {"kubeconfigSecret": {"name": "b"}},
        "named": {"caller": {"commonName": "named"}},
    }});
    serde_json::from_value(text).expect("a configuration")
}

/// Which of these groups may list Pods on a cluster; why that is not known, if it is not.
fn groups_on(clusters: &Clusters, cluster: &str) -> Result<Vec<&'static str>, String> {
    let policy = clusters.policy(cluster).map_err(|problem| problem.to_string())?;
    let policy = policy.read().ok_or("not listed yet")?;
    let may = |group: &&str| {
        let user = User { groups: vec![(*group).to_owned()], ..User::default() };
        policy.authorize(&Attributes::on_resource(&user, "list", "", "pods")).is_allowed()
    };
    Ok(["one", "two", "three"].into_iter().filter(may).collect())
}

#[tokio::test(start_paused = true)]
async fn clusters_follow_the_configuration_and_its_secrets() {
    let api = Arc::new(OwnApi::default());
    let configured = Arc::new(Mutex::new(Arc::new(config())));
    let clusters = Clusters::new(PolicyCache::default());
    let (factory, changed) = (FakeClusters::default(), Arc::new(Notify::new()));
    let watcher = ClusterWatcher {
        client: api.client(),
        watching: WatchSettings::default(),
        clusters: clusters.clone(),
        factory: Arc::new(factory.clone()),
        config: {
            let configured = configured.clone();
            Box::new(move || configured.lock().expect("unpoisoned").clone())
        },
        changed: changed.clone(),
    };
    let settle = || async {
        changed.notify_one();
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let open = || factory.watches.load(Ordering::Relaxed);
    let problem = |cluster: &str| clusters.policy(cluster).err();
    let names = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
    let steps = async {
        assert_eq!(*clusters.further().borrow(), None, "nothing was read");
        settle().await;
        assert_eq!(*clusters.further().borrow(), names(&["a", "b"]));
        assert_eq!(problem("a"), Some(ClusterProblem::NoSecret));
        assert_eq!(problem("named"), Some(ClusterProblem::NotConfigured), "it is our own");
        assert_eq!(problem("elsewhere"), Some(ClusterProblem::NotConfigured));

        // Each is followed by a kubeconfig of its own.
        api.put("a", &kubeconfig("one"));
        api.put("b", &kubeconfig("two"));
        settle().await;
        assert_eq!(groups_on(&clusters, "a"), Ok(vec!["one"]));
        assert_eq!(groups_on(&clusters, "b"), Ok(vec!["two"]));
        assert_eq!(open(), 8);
        assert!(clusters.client("a").is_ok());
        assert_eq!(clusters.client("b").err(), Some(ClusterProblem::NoCaller));

        // The same kubeconfig needs nothing; another one is followed in its place.
        settle().await;
        assert_eq!(open(), 8);
        api.put("a", &kubeconfig("three"));
        settle().await;
        assert_eq!(groups_on(&clusters, "a"), Ok(vec!["three"]));
        assert_eq!(open(), 8, "the old watches are over");

        // What cannot be read now stays, and is read again.
        *api.fails.lock().expect("unpoisoned") = true;
        api.put("a", &kubeconfig("one"));
        settle().await;
        assert_eq!(groups_on(&clusters, "a"), Ok(vec!["three"]));
        *api.fails.lock().expect("unpoisoned") = false;
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(groups_on(&clusters, "a"), Ok(vec!["one"]));

        // One that is refused, or gone, says nothing about its cluster, and nothing about others.
        let mut program = kubeconfig("one");
        program["users"][0]["user"] = json!({"exec": {"command": "sh"}});
        api.put("a", &program);
        settle().await;
        assert!(matches!(problem("a"), Some(ClusterProblem::Kubeconfig(_))), "{:?}", problem("a"));
        assert_eq!(open(), 4);
        api.secrets.lock().expect("unpoisoned").remove("b");
        settle().await;
        assert_eq!(problem("b"), Some(ClusterProblem::NoSecret));
        assert_eq!(open(), 0);

        // Neither is one that is not configured any more.
        api.put("b", &kubeconfig("two"));
        settle().await;
        assert_eq!((groups_on(&clusters, "b"), open()), (Ok(vec!["two"]), 4));
        *configured.lock().expect("unpoisoned") = Arc::default();
        settle().await;
        assert_eq!(problem("b"), Some(ClusterProblem::NotConfigured));
        assert_eq!((clusters.further().borrow().clone(), open()), (names(&[]), 0));
    };
    tokio::select! {
        () = watcher.run() => panic!("it runs for ever"),
        () = steps => {}
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_cluster_is_followed_once_its_watcher_is_gone() {
    let api = Arc::new(OwnApi::default());
    api.put("a", &kubeconfig("one"));
    let factory = FakeClusters::default();
    let watcher = ClusterWatcher {
        client: api.client(),
        watching: WatchSettings::default(),
        clusters: Clusters::new(PolicyCache::default()),
        factory: Arc::new(factory.clone()),
        config: Box::new(|| Arc::new(config())),
        changed: Arc::default(),
    };
    let ended = tokio::time::timeout(Duration::from_secs(1), watcher.run()).await;
    assert!(ended.is_err(), "it runs for ever");
    tokio::task::yield_now().await;
    assert_eq!(factory.watches.load(Ordering::Relaxed), 0);
}
