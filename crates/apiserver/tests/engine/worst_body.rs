//! The worst bodies that clients may send: every list and map of every kind, filled up to the limit, one
//! at a time, with elements that are all short, all equal or all different; and lists that refer to
//! each other (`related`). Whatever is answered, its cost grows with the body and no faster.
//!
//! The measures are of a whole process, so each test runs itself again in one of its own. By default the
//! bodies are small and each is sent in two ways; `SOJOURN_WORST_BODY_BYTES=3145728` fills them to the
//! limit and sends each in all ways, which takes optimised code:
//!
//! ```sh
//! SOJOURN_WORST_BODY_BYTES=3145728 cargo test --profile simulation -p sojourn-apiserver --test engine worst_body
//! ```

mod body;
mod measure;
mod related;
mod table;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use sojourn_apiserver::Engine;

use self::body::{Fill, base, filled, patch};
use self::table::{ListField, Table};
use crate::fixture::{admin, delete, get, open, post, send, within};

/// The size of a body that the matrix is run with by default, with code that is not optimised.
const SMALL_BODY: usize = 32 << 10;
/// The same for lists that refer to each other.
const SMALL_RELATED_BODY: usize = 192 << 10;
/// The limit of the server.
const FULL_BODY: usize = 3 << 20;
/// The time that a request with a full body may take, in optimised code.
const MAX_FULL_TIME: Duration = Duration::from_secs(1);
const MAX_FULL_MEMORY: u64 = 200 << 20;
/// Code that is not optimised, with small bodies, three times what was seen. What is quadratic takes
/// many times as long.
const MAX_SMALL_TIME: Duration = Duration::from_millis(1_500);
const MAX_SMALL_RELATED_TIME: Duration = Duration::from_secs(4);
const MAX_SMALL_MEMORY: u64 = 64 << 20;
/// How often a request is sent that took too long each time.
const MAX_ATTEMPTS: usize = 3;
/// How large an answer may be, whatever was sent: the object as it was stored, or what is wrong with it.
const MAX_ANSWER_OVERHEAD: usize = 4 << 20;
/// How long somebody else may wait for an answer while such a body is worked on.
const MAX_OTHERS_WAIT: Duration = Duration::from_secs(10);

const OWN_PROCESS: &str = "SOJOURN_WORST_BODY_PROCESS";
const BYTES: &str = "SOJOURN_WORST_BODY_BYTES";
/// Runs only the cases whose name has this in it.
const FILTER: &str = "SOJOURN_WORST_BODY_FILTER";

#[test]
fn the_cost_of_every_list_grows_with_the_body_and_no_faster() {
    run_in_subprocess(
        "worst_body::the_cost_of_every_list_grows_with_the_body_and_no_faster",
        async |run| run.all_lists().await,
    );
}

#[test]
fn the_cost_of_lists_that_refer_to_each_other_grows_with_the_body_and_no_faster() {
    run_in_subprocess(
        "worst_body::the_cost_of_lists_that_refer_to_each_other_grows_with_the_body_and_no_faster",
        async |run| run.related_lists().await,
    );
}

#[tokio::test]
async fn an_object_that_takes_too_much_memory_is_refused_however_short_its_text() {
    let engine = open().await;
    let client = admin(&engine);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = base("v1", "Pod", "small");
    post(&client, pods, &pod).await.ok();
    let mut large = pod.clone();
    // Equal ones could not be applied, whatever their number.
    large["spec"]["initContainers"] =
        (0..60_000).map(|number| json!({ "name": format!("c{number}") })).collect();
    let object = format!("{pods}/small");
    for (method, path) in [
        (WriteMethod::Update, &*object),
        (WriteMethod::Apply, &object),
        (WriteMethod::Merge, &object),
        (WriteMethod::Strategic, &object),
        (WriteMethod::Create, pods),
    ] {
        let answer = send(&client, request(method, path, large.to_string())).await;
        assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE, "{method:?}: {}", answer.body);
        assert_eq!(answer.body["reason"], "RequestEntityTooLarge", "{method:?}");
    }
}

/// Runs the test `name` again, alone in a process; in there, does the work.
fn run_in_subprocess(name: &str, work: impl AsyncFnOnce(&mut Run)) {
    if std::env::var_os(OWN_PROCESS).is_none() {
        let program = std::env::current_exe().expect("a test knows its program");
        let mut command = Command::new(program);
        if std::env::var_os(BYTES).is_some() {
            // Whoever asked for all of it waits for minutes.
            command.stderr(Stdio::inherit());
        }
        let output = command
            .args(["--exact", name, "--nocapture"])
            .env(OWN_PROCESS, "1")
            // What is freed goes back at once, so that each request is measured by itself.
            .env("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")
            .output()
            .expect("a test can start itself");
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        let mut run = Run::new().await;
        work(&mut run).await;
        run.assert_no_failures();
    });
}

/// The write that a filled list is sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteMethod {
    Create,
    Update,
    Apply,
    Merge,
    Strategic,
    Json,
}

impl WriteMethod {
    /// To an object that exists.
    const CHANGES: [Self; 5] =
        [Self::Update, Self::Apply, Self::Merge, Self::Strategic, Self::Json];

    const fn method(self) -> Method {
        match self {
            Self::Create => Method::POST,
            Self::Update => Method::PUT,
            Self::Apply | Self::Merge | Self::Strategic | Self::Json => Method::PATCH,
        }
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Create | Self::Update => "application/json",
            Self::Apply => "application/apply-patch+yaml",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Json => "application/json-patch+json",
        }
    }

    const fn query(self) -> &'static str {
        match self {
            Self::Apply => "?fieldManager=worst&force=true",
            _ => "",
        }
    }
}

/// What one request cost.
struct Cost {
    status: StatusCode,
    clock: Duration,
    processor: Duration,
    memory: u64,
    warnings: usize,
    answer: Bytes,
}

impl Cost {
    /// The clock is slow where others work beside this; processor time is more where several threads work for the
    /// one answer. What is too much is too much by both.
    fn time(&self) -> Duration {
        self.clock.min(self.processor)
    }
}

/// A resource that discovery lists.
#[derive(Debug)]
struct Kind {
    api_version: String,
    kind: String,
    collection: String,
    changes: bool,
    root: &'static str,
}

pub(crate) struct Run {
    _engine: Engine,
    client: Client,
    table: Table,
    pub(crate) bytes: usize,
    /// What a small body may take.
    small_time: Duration,
    filter: String,
    sent: usize,
    failures: String,
}

impl Run {
    async fn new() -> Self {
        let engine = open().await;
        let client = admin(&engine);
        let bytes = std::env::var(BYTES).ok().and_then(|bytes| bytes.parse().ok());
        let filter = std::env::var(FILTER).unwrap_or_default();
        Self {
            _engine: engine,
            client,
            table: Table::read(),
            bytes: bytes.unwrap_or(SMALL_BODY),
            small_time: MAX_SMALL_TIME,
            filter,
            sent: 0,
            failures: String::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.bytes > SMALL_RELATED_BODY
    }

    /// Every list and map of every kind, in turn.
    async fn all_lists(&mut self) {
        let kinds = self.kinds().await;
        assert!(kinds.len() > 15, "{kinds:?}");
        let mut seen = HashSet::new();
        let mut number = 0;
        for kind in &kinds {
            let new = self.table.places(kind.root, &mut seen);
            for place in &new {
                for fill in Fill::ALL {
                    number += 1;
                    self.list(kind, place, fill, number, true).await;
                }
            }
            if self.is_full() {
                // What other kinds have too has other rules here; metadata is the same everywhere.
                let mut elsewhere: HashSet<(&str, &str)> =
                    seen.iter().copied().filter(|(ty, _)| ty.starts_with("meta.")).collect();
                let known: HashSet<String> = new.iter().map(ListField::path).collect();
                for place in self.table.places(kind.root, &mut elsewhere) {
                    if !known.contains(&place.path()) {
                        number += 1;
                        self.list(kind, &place, Fill::ALL[number % 3], number, false).await;
                    }
                }
                self.print_progress(&format!("{}: {} requests", kind.kind, self.sent));
            }
        }
        assert!(number > 500 || !self.filter.is_empty(), "{number} lists");
    }

    /// A progress line, for whoever waits for all of them.
    #[expect(clippy::print_stderr, reason = "the whole matrix takes minutes")]
    fn print_progress(&self, line: &str) {
        eprintln!("worst-body: {line}");
    }

    /// Creates an object with one list filled, and changes one to it: with every method if `all`.
    async fn list(&mut self, kind: &Kind, place: &ListField, fill: Fill, number: usize, all: bool) {
        let name = format!("w{number}");
        let case = format!("{} {} {fill:?}", kind.kind, place.path());
        if !case.contains(&self.filter) {
            return;
        }
        let base = base(&kind.api_version, &kind.kind, &name);
        let whole = filled(&self.table, &base, place, fill, self.bytes);
        let created = self.send(&case, WriteMethod::Create, &kind.collection, whole.clone()).await;
        if !kind.changes {
            return;
        }
        if !created.is_success() {
            let made = request(WriteMethod::Create, &kind.collection, base.to_string());
            let _ = self.client.send(made).await.expect("the engine answers");
        }
        let object_name = base["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{}/{object_name}", kind.collection);
        for (i, method) in WriteMethod::CHANGES.into_iter().enumerate() {
            if !(all && self.is_full()) && number % WriteMethod::CHANGES.len() != i {
                continue;
            }
            let body = match method {
                WriteMethod::Create | WriteMethod::Update | WriteMethod::Apply => whole.clone(),
                WriteMethod::Merge | WriteMethod::Strategic => {
                    patch(&self.table, place, fill, self.bytes)
                }
                WriteMethod::Json => self.operations(place, fill),
            };
            self.send(&case, method, &path, body).await;
        }
        delete(&self.client, &path).await;
    }

    /// As many single insertions at the beginning of the list as a patch may have.
    fn operations(&self, place: &ListField, fill: Fill) -> String {
        let item = patch(&self.table, place, fill, 0);
        let parsed: Value = serde_json::from_str(&item).expect("a body is JSON");
        let root = place.steps[0].name;
        let mut out =
            format!("[{{\"op\":\"add\",\"path\":\"/{root}\",\"value\":{}}}", parsed[root]);
        let pointer = place.pointer(&self.table);
        let mut number = 0;
        while out.len() < self.bytes && number < 9_990 {
            number += 1;
            write!(out, ",{{\"op\":\"add\",\"path\":\"{pointer}\",\"value\":\"a{number}\"}}")
                .expect("writing to memory cannot fail");
        }
        out.push(']');
        out
    }

    /// Sends a request and takes its measure. One that took too long is sent again, since the machine may have
    /// been slow: what is quadratic is slow every time.
    pub(crate) async fn send(
        &mut self,
        case: &str,
        method: WriteMethod,
        path: &str,
        body: String,
    ) -> StatusCode {
        let length = body.len();
        let full = self.is_full();
        let share = self.bytes as f64 / FULL_BODY as f64;
        let time = if full { MAX_FULL_TIME.mul_f64(share.max(0.3)) } else { self.small_time };
        let most = if full { MAX_FULL_MEMORY } else { MAX_SMALL_MEMORY };
        let mut cost = self.measure(case, method, path, body.clone()).await;
        for _ in 1..MAX_ATTEMPTS {
            if cost.time() <= time {
                break;
            }
            if method == WriteMethod::Create && cost.status.is_success() {
                self.delete_created(path, &cost.answer).await;
            }
            let again = self.measure(case, method, path, body.clone()).await;
            let status = cost.status;
            cost = if again.time() < cost.time() { Cost { status, ..again } } else { cost };
        }
        self.sent += 1;
        let Cost { status, processor, clock, memory, warnings, .. } = cost;
        let faults = [
            (
                cost.time() > time,
                format!(
                    "took {processor:?} of the processor, {clock:?} by the clock, at best of \
                     {MAX_ATTEMPTS}"
                ),
            ),
            (memory > most, format!("took {} MiB", memory >> 20)),
            (
                cost.answer.len() > 16 * length + MAX_ANSWER_OVERHEAD,
                format!("answered {} bytes", cost.answer.len()),
            ),
            (warnings > 64 << 10, format!("warned with {warnings} bytes")),
            (status.is_server_error() && status != 500, format!("answered {status}")),
        ];
        for (_, fault) in faults.iter().filter(|(is_so, _)| *is_so) {
            writeln!(self.failures, "{case}, {method:?}, {length} bytes: {fault} ({status})")
                .expect("writing to memory cannot fail");
        }
        status
    }

    /// Sends a request once.
    async fn measure(&self, case: &str, method: WriteMethod, path: &str, body: String) -> Cost {
        let resident = measure::resident();
        measure::reset_peak();
        let before = measure::processor_time();
        let started = Instant::now();
        let client = self.client.clone();
        let sent = request(method, path, body);
        let answering = tokio::spawn(async move {
            let answer = client.send(sent).await.expect("the engine answers");
            let warnings: usize =
                answer.headers().get_all(header::WARNING).iter().map(http::HeaderValue::len).sum();
            let (parts, body) = answer.into_parts();
            let bytes = body.collect().await.expect("the answer has an end").to_bytes();
            (parts.status, warnings, bytes)
        });
        // Others are served meanwhile.
        tokio::task::yield_now().await;
        let others = get(&self.client, "/api/v1/namespaces/default");
        within(case, MAX_OTHERS_WAIT, others).await.ok();
        let (status, warnings, answer) = answering.await.expect("the server does not fall over");
        Cost {
            status,
            clock: started.elapsed(),
            processor: measure::processor_time().saturating_sub(before),
            memory: measure::peak().saturating_sub(resident),
            warnings,
            answer,
        }
    }

    /// Deletes the object that was created in a collection, so that it can be created again.
    async fn delete_created(&self, collection: &str, answer: &[u8]) {
        let created: Value = serde_json::from_slice(answer).expect("an object is JSON");
        let name = created["metadata"]["name"].as_str().expect("an object has a name");
        delete(&self.client, &format!("{collection}/{name}")).await;
    }

    async fn kinds(&self) -> Vec<Kind> {
        let mut kinds = Vec::new();
        for (root, api_version, kind) in table::kinds() {
            let prefix = match api_version {
                "v1" => "/api/v1".to_owned(),
                group => format!("/apis/{group}"),
            };
            let listed = get(&self.client, &prefix).await.body;
            for resource in listed["resources"].as_array().into_iter().flatten() {
                let name = resource["name"].as_str().unwrap_or_default();
                let verbs = resource["verbs"].as_array().cloned().unwrap_or_default();
                if resource["kind"] != kind
                    || name.contains('/')
                    || !verbs.contains(&json!("create"))
                {
                    continue;
                }
                let namespace =
                    if resource["namespaced"] == true { "/namespaces/default" } else { "" };
                kinds.push(Kind {
                    api_version: api_version.to_owned(),
                    kind: kind.to_owned(),
                    collection: format!("{prefix}{namespace}/{name}"),
                    changes: verbs.contains(&json!("patch")),
                    root,
                });
            }
        }
        kinds
    }

    fn assert_no_failures(&self) {
        let found = self.failures.lines().count();
        assert!(found == 0, "{found} of {} requests cost too much:\n{}", self.sent, self.failures);
        assert!(self.sent > 10 || !self.filter.is_empty(), "{} requests", self.sent);
    }
}

pub(crate) fn request(method: WriteMethod, path: &str, body: String) -> Request<Body> {
    Request::builder()
        .method(method.method())
        .uri(format!("{path}{}", method.query()))
        .header(header::CONTENT_TYPE, method.media_type())
        .body(Body::from(body.into_bytes()))
        .expect("a request of this test is well formed")
}
