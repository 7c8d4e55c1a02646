//! Test fixtures: engines, identities, plain requests, and waits with a timeout.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, SeededEntropy, TokioClock};
use sojourn_rbac::User;

/// How long anything that must happen may take, on a machine that is busy with other things.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// An engine in memory on the machine's own clock, with the account that Pods need.
pub(crate) async fn open() -> Engine {
    let engine = Engine::open(Config::in_memory()).await.expect("an engine in memory opens");
    let client = admin(&engine);
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    eventually(account, TEST_TIMEOUT, async || {
        get(&client, account).await.status.is_success().then_some(())
    })
    .await;
    engine
}

/// What an engine on the paused clock is opened with.
pub(crate) fn on_virtual_time(config: Config, seed: u64) -> Config {
    let clock = TokioClock::starting_at(Timestamp::UNIX_EPOCH);
    config.clock(clock).entropy(SeededEntropy::new(seed)).inline_writes()
}

/// An engine in memory on the paused clock, with its first work done.
pub(crate) async fn open_on_virtual_time(seed: u64) -> Engine {
    let config = on_virtual_time(Config::in_memory(), seed);
    let engine = Engine::open(config).await.expect("an engine in memory opens");
    settle().await;
    engine
}

/// On the paused clock, time moves only when every task waits: after this, all work is done that
/// does not itself wait for time.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// A user whose credential was good.
pub(crate) fn user(name: &str, groups: &[&str]) -> Identity {
    Identity::authenticated(User {
        name: name.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        ..User::default()
    })
}

/// A client that may do everything.
pub(crate) fn admin(engine: &Engine) -> Client {
    engine.client(user("admin", &["system:masters"]))
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// The texts of the `Warning` headers.
    pub(crate) fn warnings(&self) -> Vec<&str> {
        self.headers
            .get_all(header::WARNING)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .filter_map(|text| text.strip_prefix("299 - \"")?.strip_suffix('"'))
            .collect()
    }

    /// The answer, which must be a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert!(self.status.is_success(), "{}: {}", self.status, self.body);
        self
    }
}

/// A request with a JSON body (none if it is null).
pub(crate) fn request(method: &Method, path: &str, body: &Value) -> Request<Body> {
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let media = match *method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, media)
        .body(Body::from(bytes))
        .expect("a request of this test is well formed")
}

/// Sends a request as it is and reads the whole answer.
pub(crate) async fn send(client: &Client, request: Request<Body>) -> Answer {
    let answer = client.send(request).await.expect("the engine answers");
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await.expect("the answer has an end").to_bytes();
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Answer { status: parts.status, headers: parts.headers, body }
}

pub(crate) async fn get(client: &Client, path: &str) -> Answer {
    send(client, request(&Method::GET, path, &Value::Null)).await
}

pub(crate) async fn post(client: &Client, path: &str, body: &Value) -> Answer {
    send(client, request(&Method::POST, path, body)).await
}

pub(crate) async fn put(client: &Client, path: &str, body: &Value) -> Answer {
    send(client, request(&Method::PUT, path, body)).await
}

/// A merge patch.
pub(crate) async fn patch(client: &Client, path: &str, body: &Value) -> Answer {
    send(client, request(&Method::PATCH, path, body)).await
}

pub(crate) async fn delete(client: &Client, path: &str) -> Answer {
    send(client, request(&Method::DELETE, path, &Value::Null)).await
}

/// A watch, read event by event.
pub(crate) struct Watch {
    body: Body,
    unread: Vec<u8>,
}

impl Watch {
    pub(crate) async fn open(client: &Client, path: &str) -> Self {
        let answer = client.send(request(&Method::GET, path, &Value::Null)).await;
        let answer = answer.expect("the engine answers");
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        Self { body: answer.into_body(), unread: Vec::new() }
    }

    /// The next event; `None` once the watch is over.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("an event is JSON"));
            }
            let frame = self.body.frame().await?.expect("a watch has no broken frames");
            self.unread.extend(frame.into_data().unwrap_or_default());
        }
    }
}

/// Waits for `work`, which must end in time.
pub(crate) async fn within<T>(what: &str, bound: Duration, work: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(bound, work).await;
    outcome.unwrap_or_else(|_| panic!("{what}: still not so after {bound:?}"))
}

/// Asks until there is an answer.
pub(crate) async fn eventually<T>(
    what: &str,
    bound: Duration,
    mut ask: impl AsyncFnMut() -> Option<T>,
) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(what, bound, asking).await
}

/// Creates a definition and waits until its collection is served.
pub(crate) async fn open_definition(client: &Client, definition: &Value, collection: &str) {
    post(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.ok();
    eventually("the kind is served", TEST_TIMEOUT, async || {
        (get(client, collection).await.status == StatusCode::OK).then_some(())
    })
    .await;
}

/// A folder of its own for one test; it goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sojourn-engine-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("the temporary folder can be written");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left-over files in the temporary folder harm nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
