//! The gateway between real sockets: a raw client in front, a real server behind.

mod isolation;
mod limits;
mod passing;
mod stream;
mod upgrade;
mod waking;

use std::collections::{BTreeMap, HashSet};
use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Extension;
use http_body_util::BodyExt as _;
use kube::client::Body as KubeBody;
use serde_json::{Value, json};
use sojourn_drivers::dial::Direct;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::*;

/// No wait of these tests is longer.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

async fn within_limit<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(TEST_TIMEOUT, future).await.expect("this happens soon")
}

/// What the gateway is told of the API and of instances.
struct FakeCluster {
    backend: watch::Sender<Backend>,
    /// The API.
    instance: Mutex<Value>,
    allowed: Mutex<HashSet<&'static str>>,
    reviews: AtomicUsize,
    patches: Mutex<Vec<Value>>,
    activity: AtomicUsize,
}

impl FakeCluster {
    fn activity(&self) -> usize {
        self.activity.load(Ordering::SeqCst)
    }

    fn forbid(&self, what: &'static str) {
        self.allowed.lock().unwrap().remove(what);
    }

    fn answer(&self, method: &Method, path: &str, body: &[u8]) -> (u16, Value) {
        let failed = |code: u16| {
            let reason = if code == 403 { "Forbidden" } else { "NotFound" };
            (
                code,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                "reason": reason, "message": reason}),
            )
        };
        let allowed = |what| self.allowed.lock().unwrap().contains(what);
        if path == "/apis/authorization.k8s.io/v1/subjectaccessreviews" {
            let review: Value = serde_json::from_slice(body).unwrap();
            let mut spec = review["spec"].clone();
            let asked = spec["resourceAttributes"].take();
            let about = json!({"user": "ada", "groups": ["staff"], "uid": "7",
                "extra": {"a": ["b"]}, "resourceAttributes": null});
            assert_eq!(spec, about);
            assert_eq!(asked["group"], "lab.sojourn.dev");
            assert_eq!(asked["resource"], "instances");
            assert_eq!((&asked["namespace"], &asked["name"]), (&json!("ns"), &json!("lab")));
            let right = match (asked["verb"].as_str(), asked["subresource"].as_str()) {
                (Some("get"), Some("access")) => "access",
                (Some("update"), None) => "update",
                other => panic!("nobody needs to know {other:?}"),
            };
            if right == "access" {
                self.reviews.fetch_add(1, Ordering::SeqCst);
            }
            return (
                201,
                json!({"apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview", "metadata": {}, "spec": {},
                "status": {"allowed": allowed(right)}}),
            );
        }
        assert_eq!(path, "/apis/lab.sojourn.dev/v1alpha1/namespaces/ns/instances/lab");
        match *method {
            Method::GET => (200, self.instance.lock().unwrap().clone()),
            Method::PATCH => {
                let patch: Value = serde_json::from_slice(body).unwrap();
                self.patches.lock().unwrap().push(patch);
                let mut instance = self.instance.lock().unwrap();
                instance["spec"]["running"] = json!(true);
                self.backend.send_replace(Backend::Starting { trouble: None });
                (200, instance.clone())
            }
            _ => failed(403),
        }
    }
}

struct FakeBackends(Arc<FakeCluster>);

impl Backends for FakeBackends {
    fn resource(&self) -> LentResource {
        LentResource { group: "lab.sojourn.dev", version: "v1alpha1", resource: "instances" }
    }

    fn wake<'a>(
        &'a self,
        client: &'a kube::Client,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<WakeOutcome, WakeError>> {
        crate::lab::wake::wake(client, key).boxed()
    }

    fn find(&self, key: &Key, environment: &str) -> Backend {
        match (key == &Key::new("ns", "lab"), environment) {
            (true, "shell") => self.0.backend.borrow().clone(),
            (true, _) => Backend::NoSuchEnvironment,
            (false, _) => Backend::Missing,
        }
    }

    fn label(&self, key: &Key, environment: &str) -> Option<String> {
        (key == &Key::new("ns", "lab")).then(|| format!("{environment}-lab-x"))
    }

    fn labelled(&self, label: &str) -> Option<(Key, String)> {
        (label == "shell-lab-x").then(|| (Key::new("ns", "lab"), "shell".to_owned()))
    }

    fn changed(&self, _: &Key) -> BoxFuture<'static, ()> {
        let mut changes = self.0.backend.subscribe();
        Box::pin(async move { drop(changes.changed().await) })
    }
}

/// URLs at both origins, for tests.
struct FakeOriginUrls;

impl OriginUrls for FakeOriginUrls {
    fn environment_url(&self, label: &str, path: &str) -> Option<String> {
        (label == "shell-lab-x").then(|| format!("http://{label}.localhost:7080{path}"))
    }

    fn own_url(&self, path: &str) -> String {
        format!("http://127.0.0.1:7080{path}")
    }
}

/// A gateway that is served: our origin, and that of the environment.
struct Served {
    cluster: Arc<FakeCluster>,
    gateway: Gateway,
    address: SocketAddr,
    /// Ends the visitor's session.
    signed_out: CancellationToken,
}

fn api(cluster: Arc<FakeCluster>) -> kube::Client {
    let service = tower::service_fn(move |request: http::Request<KubeBody>| {
        let cluster = cluster.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let (status, answer) = cluster.answer(&parts.method, parts.uri.path(), &body);
            let answer = serde_json::to_vec(&answer).unwrap();
            let response = http::Response::builder().status(status);
            Ok::<_, Infallible>(response.body(KubeBody::from(answer)).unwrap())
        }
    });
    kube::Client::new(service, "default")
}

async fn served(backend: Backend, limits: GatewayLimits) -> Served {
    let cluster = Arc::new(FakeCluster {
        backend: watch::Sender::new(backend),
        instance: Mutex::new(json!({"apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Instance",
            "metadata": {"namespace": "ns", "name": "lab", "uid": "u1", "resourceVersion": "7"},
            "spec": {"running": false, "template": {"name": "t"}, "tenant": {"name": "ada"}}})),
        allowed: Mutex::new(HashSet::from(["access", "update"])),
        reviews: AtomicUsize::new(0),
        patches: Mutex::default(),
        activity: AtomicUsize::new(0),
    });
    let (client, counted) = (api(cluster.clone()), cluster.clone());
    let family = FamilyGateway {
        backends: Arc::new(FakeBackends(cluster.clone())),
        activity: Arc::new(move |key| {
            assert_eq!(*key, Key::new("ns", "lab"));
            counted.activity.fetch_add(1, Ordering::SeqCst);
        }),
    };
    let gateway = Gateway::new(Settings {
        families: vec![("lab", family)],
        dial: Arc::new(Direct),
        visitors: Arc::new(|extensions| extensions.get::<Visitor>().cloned()),
        client,
        reserved_cookies: &["sojourn-", "__host-sojourn"],
        limits,
    });
    let user = User {
        name: "ada".to_owned(),
        groups: vec!["staff".to_owned()],
        uid: "7".to_owned(),
        extra: BTreeMap::from([("a".to_owned(), vec!["b".to_owned()])]),
    };
    let signed_out = CancellationToken::new();
    let over = signed_out.clone();
    let ended: SessionEnded = Arc::new(move || Box::pin(over.clone().cancelled_owned()));
    let origin_urls = Arc::new(FakeOriginUrls);
    let label = Some("shell-lab-x".to_owned());
    let id = "ada".to_owned();
    let there = Visitor { id, user, secure: false, ended, label, origin_urls };
    let ours = Visitor { label: None, ..there.clone() };
    // The paths of our origin are none of the environment's here, so one listener does for both.
    let lent = gateway.environment_router().layer(Extension(there));
    let router = gateway.router().layer(Extension(ours)).fallback_service(lent);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, service).into_future());
    Served { cluster, gateway, address, signed_out }
}

/// An environment that answers there.
fn ready(address: SocketAddr) -> Backend {
    let endpoint = Endpoint { pod: Some("uid".to_owned()), port: address.port(), address };
    Backend::Ready { endpoint }
}

/// An environment behind the gateway that talks raw HTTP: what it is told is the whole head of each
/// request, and the connection to answer on.
async fn environment<F, R>(answer: F) -> Backend
where
    F: Fn(String, BufReader<TcpStream>) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let head = read_head(&mut stream).await;
            tokio::spawn(answer(head, stream));
        }
    });
    ready(address)
}

/// One that says one thing to everybody; heads come out of the other end.
async fn saying(answer: &'static str) -> (Backend, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let (heads, seen) = tokio::sync::mpsc::unbounded_channel();
    let backend = environment(move |head, mut stream| {
        heads.send(head).unwrap();
        async move {
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    (backend, seen)
}

async fn read_head<S: tokio::io::AsyncRead + Unpin>(stream: &mut BufReader<S>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = within_limit(stream.read_line(&mut head)).await;
        if read.is_err() || read.is_ok_and(|read| read == 0) {
            break;
        }
    }
    head
}

impl Served {
    async fn connect(&self) -> BufReader<TcpStream> {
        BufReader::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// Sends it as it is and reads until the end.
    async fn exchange(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        within_limit(stream.read_to_end(&mut answer)).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    async fn get(&self, path: &str, headers: &str) -> String {
        self.exchange(&format!(
            "GET {path} HTTP/1.1\r\nHost: shell-lab-x.localhost:7080\r\nConnection: close\r\n{headers}\r\n"
        ))
        .await
    }
}

const HTML: &str = "Accept: text/html\r\n";
const VISIT: &str = "Accept: text/html\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

fn lent() -> LentObject {
    LentObject { family: "lab".to_owned(), key: Key::new("ns", "lab") }
}
