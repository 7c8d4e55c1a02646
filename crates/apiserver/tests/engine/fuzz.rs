//! Arbitrary requests: whatever a client sends, the engine answers in time, in HTTP, with a Status that
//! explains an error, and nothing panics or grows without bound.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use sojourn_apiserver::Config;

use crate::fixture::{admin, on_virtual_time, request, settle};

mod input;

/// No answer may take longer than this, in real time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Watches go on for ever; the engine's own waits end sooner. Virtual time.
const WATCH_READ_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BODY_BYTES: usize = 3 << 20;

thread_local! {
    /// Panics on this thread, whoever caught them: a background task's are told to nobody.
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

fn count_panics() {
    static HOOK: OnceLock<()> = OnceLock::new();
    HOOK.get_or_init(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.set(PANICS.get() + 1);
            usual(panic);
        }));
    });
}

#[derive(Debug)]
struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// An engine on a thread of its own. Its clock is virtual, so that its waits take no time; ours is
/// real, so that a loop without an end is seen.
struct Server {
    requests: Sender<Request<Body>>,
    replies: Receiver<Option<Reply>>,
}

impl Server {
    fn start() -> Self {
        count_panics();
        let (requests, work) = mpsc::channel::<Request<Body>>();
        let (answers, replies) = mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .expect("a runtime can be built");
            runtime.block_on(async {
                let config = on_virtual_time(Config::in_memory(), 1);
                let engine = sojourn_apiserver::Engine::open(config).await.expect("it opens");
                settle().await;
                let client = admin(&engine);
                for object in input::SEED {
                    let (path, body): (&str, Value) = object();
                    let made = client.send(request(&Method::POST, path, &body)).await;
                    let status = made.expect("the engine answers").status();
                    assert!(status.is_success(), "{path}: {status}");
                    settle().await;
                }
                // The thread waits here between requests; whatever the engine does in the
                // background, it does before the next reply.
                while let Ok(request) = work.recv() {
                    let reply = AssertUnwindSafe(reply(&client, request)).catch_unwind().await.ok();
                    settle().await;
                    let reply = reply.filter(|_| PANICS.take() == 0);
                    if answers.send(reply).is_err() {
                        break;
                    }
                }
                engine.close().await;
            });
        });
        Self { requests, replies }
    }

    fn ask(&self, request: Request<Body>) -> Result<Reply, TestCaseError> {
        let shown = format!("{request:?}");
        self.requests.send(request).expect("the server's thread runs");
        let reply = self.replies.recv_timeout(ANSWER_TIMEOUT);
        let reply = reply.map_err(|_| TestCaseError::fail(format!("no answer to {shown}")))?;
        reply.ok_or_else(|| TestCaseError::fail(format!("a panic on or after {shown}")))
    }

    /// Asks and checks what holds for every answer.
    fn check(&self, request: Request<Body>) -> Result<Reply, TestCaseError> {
        let shown = format!("{request:?}");
        let head = request.method() == Method::HEAD;
        let reply = self.ask(request)?;
        if reply.status.is_success() || head {
            return Ok(reply);
        }
        prop_assert!(reply.status.as_u16() >= 400, "{} to {}", reply.status, shown);
        let plain = reply.status == 404 && &*reply.body == b"404 page not found\n";
        if plain {
            return Ok(reply);
        }
        let text = String::from_utf8_lossy(&reply.body);
        let body: Value = serde_json::from_slice(&reply.body)
            .map_err(|_| TestCaseError::fail(format!("{shown} is answered with {text}")))?;
        let code = reply.status.as_u16();
        let expected =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code});
        for (member, value) in expected.as_object().expect("it is an object") {
            prop_assert_eq!(&body[member], value, "{} of {} to {}", member, text, shown);
        }
        prop_assert!(body["message"].is_string(), "{} to {}", text, shown);
        Ok(reply)
    }
}

/// The whole answer, or as much as there is to a watch.
async fn reply(client: &kube::Client, request: Request<Body>) -> Reply {
    let answer = client.send(request).await.expect("the engine answers");
    let (parts, mut body) = answer.into_parts();
    let mut read = Vec::new();
    let all = async {
        while let Some(frame) = body.frame().await {
            read.extend(
                frame.expect("a body of the engine is whole").into_data().unwrap_or_default(),
            );
        }
    };
    // A watch has no end of its own.
    drop(tokio::time::timeout(WATCH_READ_TIMEOUT, all).await);
    Reply { status: parts.status, headers: parts.headers, body: read.into() }
}

/// Runs a property on one server: what earlier cases left behind is part of the garbage.
fn hold<S: Strategy>(
    cases: u32,
    input: &S,
    check: impl Fn(&Server, S::Value) -> Result<(), TestCaseError>,
) {
    let server = Server::start();
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = TestRunner::new(config).run(input, |value| check(&server, value));
    if let Err(error) = outcome {
        panic!("{error}");
    }
    // It still works.
    let alive = server.ask(request(&Method::GET, "/api/v1/namespaces/default", &Value::Null));
    assert_eq!(alive.expect("it answers").status, 200);
}

#[test]
fn any_path_and_query_is_answered() {
    hold(
        128,
        &(input::method(), input::path(), input::query()),
        |server, (method, path, query)| {
            let uri = format!("{path}?{query}");
            let Ok(uri) = uri.parse::<http::Uri>() else { return Ok(()) };
            let request = Request::builder().method(method).uri(uri).body(Body::from(Vec::new()));
            server.check(request.expect("it is well formed")).map(drop)
        },
    );
}

#[test]
fn any_header_is_answered() {
    hold(128, &(input::target(), input::headers()), |server, (target, headers)| {
        let mut request = Request::get(target).body(Body::from(Vec::new())).expect("well formed");
        for (name, value) in headers {
            let name = header::HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, header::HeaderValue::from_bytes(&value)) {
                request.headers_mut().append(name, value);
            }
        }
        server.check(request).map(drop)
    });
}

#[test]
fn any_body_is_answered() {
    hold(128, &(input::write(), input::body()), |server, ((method, target), (media, body))| {
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::CONTENT_TYPE, media)
            .body(Body::from(body));
        server.check(request.expect("it is well formed")).map(drop)
    });
}

#[test]
fn any_object_is_answered() {
    hold(
        128,
        &(input::create(), input::member(), input::value()),
        |server, (create, member, value)| {
            let (target, mut object) = create;
            input::set(&mut object, &member, value);
            server.check(request(&Method::POST, target, &object)).map(drop)
        },
    );
}

#[test]
fn any_patch_is_answered() {
    hold(128, &(input::existing(), input::patch()), |server, (target, (media, patch))| {
        let request = Request::patch(format!("{target}?fieldManager=garbage"))
            .header(header::CONTENT_TYPE, media)
            .body(Body::from(patch.to_string().into_bytes()));
        server.check(request.expect("it is well formed")).map(drop)
    });
}

#[test]
fn any_selector_is_answered() {
    let verb = prop_oneof![Just(Method::GET), Just(Method::DELETE)];
    let input = (verb, input::target(), input::selector(), input::selector(), any::<bool>());
    hold(128, &input, |server, (method, target, labels, fields, watch)| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("labelSelector", &labels).append_pair("fieldSelector", &fields);
        if watch {
            query.append_pair("watch", "true").append_pair("timeoutSeconds", "1");
        }
        let target = format!("{target}?{}", query.finish());
        let request = Request::builder().method(method).uri(target).body(Body::from(Vec::new()));
        server.check(request.expect("it is well formed")).map(drop)
    });
}

/// Deep, wide and self-repeating bodies cost no more than their size.
#[test]
fn alias_and_nesting_bombs_are_refused() {
    let server = Server::start();
    let laughs = {
        let mut yaml = "a0: &a0 [lol]\n".to_owned();
        for level in 1..32 {
            let below = format!("*a{}", level - 1);
            let nine = vec![below; 9].join(",");
            yaml.push_str(&format!("a{level}: &a{level} [{nine}]\n"));
        }
        yaml
    };
    let deep_json = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let deep_object = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let deep_yaml = "- ".repeat(100_000);
    let deep_flow = "[".repeat(100_000);
    let wide = format!("{{\"metadata\":{{{}\"name\":\"x\"}}}}", "\"a\":1,".repeat(20_000));
    let aliases = format!("a: &a {{}}\nb: [{}]\n", vec!["*a"; 50_000].join(","));
    let bodies = [laughs, deep_json, deep_object, deep_yaml, deep_flow, wide, aliases];
    let medias = [
        "application/json",
        "application/yaml",
        "application/apply-patch+yaml",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/vnd.kubernetes.protobuf",
    ];
    for body in &bodies {
        for media in medias {
            for (method, target) in [
                (Method::POST, input::MAPS.to_owned()),
                (Method::PUT, format!("{}/seed", input::MAPS)),
                (Method::PATCH, format!("{}/seed?fieldManager=bomb", input::MAPS)),
                (Method::DELETE, format!("{}/none", input::MAPS)),
            ] {
                let request = Request::builder()
                    .method(&method)
                    .uri(&target)
                    .header(header::CONTENT_TYPE, media)
                    .body(Body::from(body.clone().into_bytes()))
                    .expect("it is well formed");
                let start: String = body.chars().take(40).collect();
                let reply = server.check(request).unwrap_or_else(|e| panic!("{start}: {e}"));
                let status = reply.status;
                assert!(!status.is_server_error(), "{method} {media} {start}: {status}");
            }
        }
    }
}

/// Bodies as deep as bodies may be, and somewhat deeper, by every way that an object takes.
#[test]
fn depth_is_bounded() {
    let server = Server::start();
    let seed = format!("{}/seed", input::WIDGETS);
    for depth in (60..140).chain([1_000, 5_000]) {
        let deep = |leaf: &str| format!("{}{leaf}{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let flow = |leaf: &str| format!("{}{leaf}{}", "{a: ".repeat(depth), "}".repeat(depth));
        let head = "\"apiVersion\":\"garbage.example/v1\",\"kind\":\"Widget\"";
        let object = |name: &str, free: &str| {
            format!("{{{head},\"metadata\":{{\"name\":\"{name}\"}},\"spec\":{{\"free\":{free}}}}}")
        };
        let pointer = format!("/spec/free{}", "/a".repeat(depth));
        let fresh = format!("deep-{depth}");
        let bodies = [
            (Method::POST, input::WIDGETS, "application/json", object(&fresh, &deep("1"))),
            (Method::POST, input::WIDGETS, "application/yaml", object("yaml", &flow("1"))),
            (Method::PUT, &seed, "application/json", object("seed", &deep("[]"))),
            (Method::PATCH, &seed, "application/merge-patch+json", object("seed", &deep("2"))),
            (Method::PATCH, &seed, "application/apply-patch+yaml", object("seed", &deep("3"))),
            (Method::PATCH, &seed, "application/apply-patch+yaml", object("seed", &flow("4"))),
            (
                Method::PATCH,
                &seed,
                "application/json-patch+json",
                format!("[{{\"op\":\"add\",\"path\":\"/spec/free\",\"value\":{}}}]", deep("5")),
            ),
            (
                Method::PATCH,
                &seed,
                "application/json-patch+json",
                format!("[{{\"op\":\"copy\",\"from\":\"/spec/free\",\"path\":\"{pointer}\"}}]"),
            ),
            (
                Method::POST,
                input::DEFINITIONS,
                "application/json",
                input::definition("gizmos").to_string().replacen(
                    "\"default\":3",
                    &format!("\"default\":{}", deep("3")),
                    1,
                ),
            ),
        ];
        for (method, target, media, body) in bodies {
            let separator =
                if method == Method::PATCH { "?fieldManager=deep&force=true" } else { "" };
            let separator = if media.contains("apply") { separator } else { "" };
            let request = Request::builder()
                .method(&method)
                .uri(format!("{target}{separator}"))
                .header(header::CONTENT_TYPE, media)
                .body(Body::from(body.into_bytes()))
                .expect("it is well formed");
            let reply = server.check(request).unwrap_or_else(|e| panic!("{depth} {media}: {e}"));
            let text = String::from_utf8_lossy(&reply.body);
            let start: String = text.chars().take(300).collect();
            assert!(!reply.status.is_server_error(), "{depth} {method} {media}: {start}");
        }
        for path in [&*seed, input::WIDGETS] {
            let mut request = request(&Method::GET, path, &Value::Null);
            let table =
                header::HeaderValue::from_static("application/json;as=Table;g=meta.k8s.io;v=v1");
            request.headers_mut().insert(header::ACCEPT, table);
            let reply = server.check(request).unwrap_or_else(|e| panic!("{depth} {path}: {e}"));
            assert_eq!(reply.status, 200, "{depth} {path}");
        }
    }
}

/// A body is read up to the limit and not further, whatever it says its length is.
#[test]
fn bodies_are_bounded() {
    let server = Server::start();
    let of = |length: usize| {
        let padding = "x".repeat(length);
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "large"},
            "data": {"a": padding},
        });
        let room = map.to_string().len() - length;
        let body = map.to_string().replacen(&"x".repeat(room), "", 1);
        assert_eq!(body.len(), length);
        Request::post(input::MAPS)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.into_bytes()))
            .expect("it is well formed")
    };
    let over = server.check(of(MAX_BODY_BYTES + 1)).expect("it is answered");
    assert_eq!(over.status, 413);
    let message = String::from_utf8_lossy(&over.body).into_owned();
    assert!(message.contains("Request entity too large: limit is 3145728"), "{message}");
    // As large as may be is read, and refused as an object for what it is.
    let at = server.check(of(MAX_BODY_BYTES)).expect("it is answered");
    assert_eq!(at.status, 422, "{}", String::from_utf8_lossy(&at.body));
}

/// What clients make up does not pile up in the metrics.
#[test]
fn metrics_do_not_grow_with_what_clients_make_up() {
    let server = Server::start();
    let lines = || {
        let request = request(&Method::GET, "/metrics", &Value::Null);
        let reply = server.check(request).expect("there are metrics");
        String::from_utf8_lossy(&reply.body).lines().count()
    };
    let mut made_up = 0;
    let mut try_all = |from: usize| {
        for number in from..from + 50 {
            let targets = [
                (Method::GET, format!("/api/v1/thing{number}")),
                (Method::GET, format!("/apis/group{number}/v1/things?limit=x")),
                (Method::PATCH, format!("/api/v1/namespaces/default/thing{number}/x")),
                (Method::OPTIONS, format!("/api/v1/thing{number}")),
                (
                    Method::from_bytes(format!("VERB{number}").as_bytes()).expect("a token"),
                    "/api/v1/pods".to_owned(),
                ),
            ];
            for (method, target) in targets {
                // Nobody in particular is refused before anything is known about the path.
                for agent in ["impersonate-user", "user-agent"] {
                    let mut request = request(&method, &target, &Value::Null);
                    let name = header::HeaderName::from_static(agent);
                    request.headers_mut().insert(name, header::HeaderValue::from_static("eve"));
                    server.check(request).expect("it is answered");
                    made_up += 1;
                }
            }
        }
    };
    try_all(0);
    lines();
    let before = lines();
    try_all(50);
    let after = lines();
    assert!(after <= before, "{made_up} requests, {before} lines of metrics, then {after}");
}

#[test]
fn answers_name_their_type() {
    let server = Server::start();
    for (path, media) in [
        ("/api/v1/pods", "application/json"),
        ("/api/v1/none", "application/json"),
        ("/nowhere", "application/json"),
        ("/healthz", "text/plain; charset=utf-8"),
    ] {
        let reply = server.check(request(&Method::GET, path, &Value::Null)).expect("answered");
        let given = reply.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let page = &*reply.body == b"404 page not found\n";
        assert!(given == Some(media) || page, "{path}: {given:?}");
    }
}
