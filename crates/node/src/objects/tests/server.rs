//! A small API server for tests: objects by name, lists, watches, merge patches and tokens, over
//! HTTP on the loopback.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

type Body = UnsyncBoxBody<Bytes, Infallible>;
/// Resource, namespace, name.
type Key = (String, String, String);

#[derive(Clone)]
pub(crate) struct Server(Arc<Inner>);

struct Inner {
    served: Mutex<Served>,
    version: watch::Sender<u64>,
    requests: watch::Sender<usize>,
    port: u16,
}

#[derive(Default)]
struct Served {
    objects: BTreeMap<Key, Value>,
    /// Version, kind of event, key, object.
    history: Vec<(u64, &'static str, Key, Value)>,
    refusal: Option<(u16, String)>,
    tokens: u32,
    requests: Vec<String>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = Mutex::default();
        let (version, requests) = (watch::Sender::new(1), watch::Sender::new(0));
        let server = Self(Arc::new(Inner { served, version, requests, port }));
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                let service = service_fn(move |request| {
                    let serving = serving.clone();
                    async move { Ok::<_, Infallible>(serving.answer(request).await) }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        server
    }

    pub(crate) fn client(&self) -> kube::Client {
        let url = format!("http://127.0.0.1:{}", self.0.port).parse().unwrap();
        kube::Client::try_from(kube::Config::new(url)).unwrap()
    }

    /// Creates or replaces an object.
    pub(crate) fn put(&self, resource: &str, namespace: &str, name: &str, mut object: Value) {
        self.change(|served, version| {
            object["metadata"]["name"] = json!(name);
            object["metadata"]["namespace"] = json!(namespace);
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
            let before = served.objects.insert(key.clone(), object.clone());
            let event = if before.is_some() { "MODIFIED" } else { "ADDED" };
            served.history.push((version, event, key, object));
        });
    }

    pub(crate) fn delete(&self, resource: &str, namespace: &str, name: &str) {
        self.change(|served, version| {
            let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
            if let Some(object) = served.objects.remove(&key) {
                served.history.push((version, "DELETED", key, object));
            }
        });
    }

    pub(crate) fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.0.served.lock().unwrap().objects.get(&key).cloned()
    }

    /// From now on everything is refused, or no longer.
    pub(crate) fn refuse(&self, with: Option<(u16, &str)>) {
        self.0.served.lock().unwrap().refusal = with.map(|(code, text)| (code, text.to_owned()));
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.0.served.lock().unwrap().requests.clone()
    }

    /// Waits until something is so that a change or a request can make so.
    pub(crate) async fn until(&self, mut is_so: impl FnMut() -> bool) {
        let (mut version, mut requests) = (self.0.version.subscribe(), self.0.requests.subscribe());
        let waiting = async {
            while !is_so() {
                tokio::select! {
                    _ = version.changed() => {}
                    _ = requests.changed() => {}
                }
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.unwrap();
    }

    fn change(&self, change: impl FnOnce(&mut Served, u64)) {
        let mut served = self.0.served.lock().unwrap();
        self.0.version.send_modify(|version| {
            *version += 1;
            change(&mut served, *version);
        });
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let line = format!("{} {}", parts.method, parts.uri);
        let refusal = {
            let mut served = self.0.served.lock().unwrap();
            served.requests.push(line);
            served.refusal.clone()
        };
        self.0.requests.send_modify(|count| *count += 1);
        if let Some((code, message)) = refusal {
            return failure(code, &message);
        }
        let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
        let (namespace, rest) = match path.as_slice() {
            ["api", "v1", "namespaces", namespace, rest @ ..] => (*namespace, rest),
            ["api", "v1", rest @ ..] => ("", rest),
            _ => return failure(404, "not found"),
        };
        let query = parts.uri.query().unwrap_or_default();
        match (parts.method, rest) {
            (Method::GET, [resource, name]) => match self.get(resource, namespace, name) {
                Some(object) => success(&object),
                None => failure(404, &format!("{resource} \"{name}\" not found")),
            },
            (Method::GET, [resource]) => {
                let wanted = Wanted::new(resource, namespace, query);
                if query.contains("watch=true") { self.watch(wanted) } else { self.list(&wanted) }
            }
            (Method::PUT, [resource, name]) => self.replace(resource, namespace, name, &body),
            (Method::POST, ["serviceaccounts", _, "token"]) => self.token(&body),
            _ => failure(405, "not allowed"),
        }
    }

    fn list(&self, wanted: &Wanted) -> Response<Body> {
        let served = self.0.served.lock().unwrap();
        let items: Vec<&Value> =
            served.objects.iter().filter(|(key, _)| wanted.matches(key)).map(|(_, o)| o).collect();
        success(&json!({
            "kind": "List", "apiVersion": "v1",
            "metadata": {"resourceVersion": self.0.version.borrow().to_string()},
            "items": items,
        }))
    }

    fn watch(&self, wanted: Wanted) -> Response<Body> {
        let state = (self.clone(), self.0.version.subscribe(), wanted);
        let lines = stream::unfold(state, |(server, mut version, mut wanted)| async move {
            loop {
                let current = *version.borrow_and_update();
                let lines: String = {
                    let served = server.0.served.lock().unwrap();
                    let new = served.history.iter().filter(|(at, _, key, _)| {
                        *at > wanted.since && *at <= current && wanted.matches(key)
                    });
                    new.map(|(_, kind, _, object)| {
                        format!("{}\n", json!({"type": kind, "object": object}))
                    })
                    .collect()
                };
                wanted.since = current;
                if !lines.is_empty() {
                    let frame = Ok(Frame::data(Bytes::from(lines)));
                    return Some((frame, (server, version, wanted)));
                }
                version.changed().await.ok()?;
            }
        });
        Response::new(StreamBody::new(lines).boxed_unsync())
    }

    /// Only the finalizers are of interest here.
    fn replace(&self, resource: &str, namespace: &str, name: &str, body: &[u8]) -> Response<Body> {
        let asked: Value = serde_json::from_slice(body).unwrap();
        let Some(mut object) = self.get(resource, namespace, name) else {
            return failure(404, "not found");
        };
        let (to, asked) = (&mut object["metadata"], &asked["metadata"]);
        if to["resourceVersion"] != asked["resourceVersion"] || to["uid"] != asked["uid"] {
            return failure(409, "the object has been modified");
        }
        to["finalizers"] = asked["finalizers"].clone();
        let is_gone = !to["deletionTimestamp"].is_null() && to["finalizers"] == json!([]);
        if is_gone {
            self.delete(resource, namespace, name);
        } else {
            self.put(resource, namespace, name, object.clone());
        }
        success(&object)
    }

    fn token(&self, body: &[u8]) -> Response<Body> {
        let mut request: Value = serde_json::from_slice(body).unwrap();
        let mut served = self.0.served.lock().unwrap();
        served.tokens += 1;
        request["status"] = json!({
            "token": format!("token {} for {}", served.tokens, request["spec"]["boundObjectRef"]["uid"]),
            "expirationTimestamp": "2030-01-01T01:00:00Z",
        });
        success(&request)
    }
}

struct Wanted {
    resource: String,
    namespace: String,
    name: Option<String>,
    since: u64,
}

impl Wanted {
    fn new(resource: &str, namespace: &str, query: &str) -> Self {
        let parameter = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        let name = parameter("fieldSelector");
        Self {
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.map(|name| name.replace("metadata.name%3D", "")),
            since: parameter("resourceVersion").and_then(|v| v.parse().ok()).unwrap_or(0),
        }
    }

    fn matches(&self, (resource, namespace, name): &Key) -> bool {
        *resource == self.resource
            && (self.namespace.is_empty() || *namespace == self.namespace)
            && self.name.as_ref().is_none_or(|wanted| wanted == name)
    }
}

fn success(value: &Value) -> Response<Body> {
    Response::new(Full::new(Bytes::from(value.to_string())).boxed_unsync())
}

fn failure(code: u16, message: &str) -> Response<Body> {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    let mut response = success(&status);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response
}
