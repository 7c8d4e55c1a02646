//! Runs one scenario against one target and writes down what it answered.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::identity;
use crate::merge::merge;
use crate::pick;
use crate::scenario::{Condition, Scenario, Step};
use crate::target::{Answer, Target};
use crate::variable::Variables;
use crate::watch::Watch;

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The headers that are part of an answer's meaning.
const HEADERS: [header::HeaderName; 3] =
    [header::CONTENT_TYPE, header::WARNING, header::RETRY_AFTER];

/// What happened in one step; `status` and `headers` are absent where events were read.
#[derive(Debug)]
pub(crate) struct StepOutcome {
    pub(crate) label: String,
    /// The whole answer; what is to be kept of it is picked after normalisation, which needs all.
    pub(crate) record: Value,
    pub(crate) pick: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) outcomes: Vec<StepOutcome>,
    /// What kept the scenario from running as written: set-up that failed, a wait that ended
    /// unfulfilled, a capture that found nothing. On the reference server there must be none.
    pub(crate) problems: Vec<String>,
}

pub(crate) async fn run(scenario: &Scenario, target: &dyn Target) -> Run {
    let mut runner = Runner {
        target,
        timeout: target.timeout(),
        variables: Variables::of(scenario),
        watches: BTreeMap::new(),
        problems: Vec::new(),
    };
    runner.prepare(scenario).await;
    let mut outcomes = Vec::new();
    for (step, label) in scenario.steps.iter().zip(scenario.labels()) {
        runner.step(step, &label, &mut outcomes).await;
    }
    Run { outcomes, problems: runner.problems }
}

struct Runner<'a> {
    target: &'a dyn Target,
    timeout: Duration,
    variables: Variables,
    watches: BTreeMap<String, Watch>,
    problems: Vec<String>,
}

/// An answer that has been read to its end.
struct Read {
    status: u16,
    headers: Value,
    body: Value,
}

impl Runner<'_> {
    /// The namespace with what the controllers put into it, the custom resources, the set-up steps.
    async fn prepare(&mut self, scenario: &Scenario) {
        let ns = scenario.namespace();
        let core = format!("/api/v1/namespaces/{ns}");
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ns}});
        self.require_success("POST", "/api/v1/namespaces", Some(&namespace)).await;
        self.await_ok(&format!("{core}/serviceaccounts/default")).await;
        self.await_ok(&format!("{core}/configmaps/kube-root-ca.crt")).await;

        let group = scenario.group();
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        for crd in &scenario.crds {
            self.require_success("POST", definitions, Some(&crd.object(&group))).await;
        }
        for crd in &scenario.crds {
            self.await_ok(&crd.collection(&group)).await;
        }

        let mut unrecorded = Vec::new();
        for step in &scenario.setup {
            self.step(step, "set-up", &mut unrecorded).await;
        }
        for StepOutcome { label, record, .. } in unrecorded {
            let status = record["status"].as_u64();
            if !status.is_some_and(|status| (200..300).contains(&status)) {
                self.problems.push(format!("{label} failed: {record}"));
            }
        }
    }

    async fn require_success(&mut self, method: &str, path: &str, body: Option<&Value>) {
        let read = self.exchange(request(method, path, body)).await;
        if !(200..300).contains(&read.status) {
            self.problems.push(format!("{method} {path}: {} {}", read.status, read.body));
        }
    }

    async fn await_ok(&mut self, path: &str) {
        let start = Instant::now();
        while self.exchange(request("GET", path, None)).await.status != 200 {
            if start.elapsed() > self.timeout {
                self.problems.push(format!("{path} does not appear"));
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// One step, or one per element of `each` and `cases`.
    async fn step(&mut self, step: &Step, label: &str, outcomes: &mut Vec<StepOutcome>) {
        if step.events.is_some() {
            let record = self.read_events(step).await;
            outcomes.push(StepOutcome { label: label.to_owned(), record, pick: self.picks(step) });
            return;
        }
        let whole = Value::Object(serde_json::Map::new());
        let items: Vec<Option<&str>> = match step.each.as_slice() {
            [] => vec![None],
            each => each.iter().map(|item| Some(item.as_str())).collect(),
        };
        let cases: Vec<(Option<&str>, &Value)> = if step.cases.is_empty() {
            vec![(None, &whole)]
        } else {
            step.cases.iter().map(|(name, patch)| (Some(name.as_str()), patch)).collect()
        };
        for item in items {
            for (case, patch) in &cases {
                let mut label = label.to_owned();
                for (variable, value) in [("item", item), ("case", *case)] {
                    if let Some(value) = value {
                        self.variables.set(variable, &self.variables.fill(value));
                        label = format!("{label} [{value}]");
                    }
                }
                let body = step.body.as_ref().map(|body| {
                    let mut body = body.clone();
                    if case.is_some() {
                        merge(&mut body, patch);
                    }
                    body
                });
                let known = self.problems.len();
                let record = self.send_step(step, body.as_ref()).await;
                for problem in &mut self.problems[known..] {
                    *problem = format!("{label}: {problem}");
                }
                outcomes.push(StepOutcome { label, record, pick: self.picks(step) });
            }
        }
    }

    fn picks(&self, step: &Step) -> Vec<String> {
        step.pick.iter().map(|expression| self.variables.fill(expression)).collect()
    }

    async fn send_step(&mut self, step: &Step, body: Option<&Value>) -> Value {
        if let Some(name) = &step.watch {
            return self.open_watch(name, step).await;
        }
        let start = Instant::now();
        let until = step.until.as_ref().map(|condition| condition.filled(&self.variables));
        let read = loop {
            let read = self.exchange(self.build(step, body)).await;
            let Some(condition) = &until else { break read };
            if condition.holds(Some(read.status), &read.body) {
                break read;
            }
            if start.elapsed() > self.timeout {
                self.problems.push(format!("{condition:?} never held; last: {}", read.body));
                break read;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        };
        if read.status == 0 {
            self.problems.push(format!("no answer: {}", read.body));
        }
        self.capture(step, &read.body);
        json!({"status": read.status, "headers": read.headers, "body": read.body})
    }

    async fn open_watch(&mut self, name: &str, step: &Step) -> Value {
        let answer = match self.send(self.build(step, None)).await {
            Ok(answer) => answer,
            Err(problem) => return json!({"status": 0, "headers": {}, "body": problem}),
        };
        let status = answer.status().as_u16();
        let headers = recorded(answer.headers());
        if status != 200 {
            let read = read(answer).await;
            return json!({"status": status, "headers": read.headers, "body": read.body});
        }
        self.watches.insert(name.to_owned(), Watch::new(answer.into_body()));
        json!({"status": status, "headers": headers, "body": "(events)"})
    }

    async fn read_events(&mut self, step: &Step) -> Value {
        let name = step.events.as_deref().unwrap_or_default();
        let Some(watch) = self.watches.get_mut(name) else {
            return json!({"body": "(the watch was not opened)"});
        };
        let until = step.until.as_ref().map(|condition| condition.filled(&self.variables));
        let taken = watch.take(step.count, until.as_ref(), self.timeout).await;
        if taken.late {
            self.problems.push(format!("watch {name}: gave up after {:?}", taken.events));
        }
        let events = Value::Array(taken.events);
        self.capture(step, &events);
        json!({"body": events, "ended": taken.ended})
    }

    fn capture(&mut self, step: &Step, body: &Value) {
        for (variable, expression) in &step.capture {
            match pick::select(body, expression) {
                Some(Value::String(text)) => self.variables.set(variable, &text),
                Some(value) => self.variables.set(variable, &value.to_string()),
                None => self.problems.push(format!("nothing at {expression} to capture: {body}")),
            }
        }
    }

    fn build(&self, step: &Step, body: Option<&Value>) -> Request<Bytes> {
        let text = self.variables.fill(step.request.as_deref().unwrap_or_default());
        let (method, path) = text.split_once(' ').unwrap_or((&text, "/"));
        let mut uri = path.to_owned();
        for (key, value) in &step.query {
            uri.push(if uri.contains('?') { '&' } else { '?' });
            uri.push_str(&format!("{key}={}", percent_encode(&self.variables.fill(value))));
        }
        let mut builder = Request::builder().method(method).uri(uri);
        if !step.headers.keys().any(|name| name.eq_ignore_ascii_case("user-agent")) {
            builder = builder.header(header::USER_AGENT, "conformance/1.0");
        }
        let identity = step.identity.as_deref().map(|who| self.variables.fill(who));
        if let Some(token) = identity::token(identity.as_deref()) {
            builder = builder.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in &step.headers {
            builder = builder.header(name, self.variables.fill(value));
        }
        let own_type = step.headers.keys().any(|name| name.eq_ignore_ascii_case("content-type"));
        let payload: Option<Bytes> = match (body, &step.raw, &step.base64) {
            (Some(body), ..) => Some(self.variables.fill_value(body).to_string().into()),
            (None, Some(raw), _) => Some(self.variables.fill(raw).into()),
            (None, None, Some(text)) => {
                Some(BASE64_STANDARD.decode(text).expect("a scenario's base64 is valid").into())
            }
            (None, None, None) => None,
        };
        if payload.is_some() && !own_type {
            let media_type = step.patch.map_or("application/json", |patch| patch.media_type());
            builder = builder.header(header::CONTENT_TYPE, media_type);
        }
        builder.body(payload.unwrap_or_default()).expect("a scenario's request is valid")
    }

    async fn exchange(&self, request: Request<Bytes>) -> Read {
        let reading = async {
            match self.send(request).await {
                Ok(answer) => read(answer).await,
                Err(problem) => Read { status: 0, headers: json!({}), body: problem.into() },
            }
        };
        tokio::time::timeout(self.timeout, reading).await.unwrap_or_else(|_| Read {
            status: 0,
            headers: json!({}),
            body: "(no end of the answer)".into(),
        })
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Answer, String> {
        match tokio::time::timeout(self.timeout, self.target.send(request)).await {
            Ok(answer) => answer.map_err(|e| format!("({e})")),
            Err(_) => Err("(no answer)".to_owned()),
        }
    }
}

impl Condition {
    fn filled(&self, variables: &Variables) -> Self {
        Self {
            path: self.path.as_deref().map(|path| variables.fill(path)),
            equals: self.equals.as_ref().map(|value| variables.fill_value(value)),
            ..*self
        }
    }

    pub(crate) fn holds(&self, status: Option<u16>, body: &Value) -> bool {
        if self.status.is_some() && self.status != status {
            return false;
        }
        let Some(path) = &self.path else { return true };
        let Some(found) = pick::select(body, path) else {
            return self.equals == Some(Value::Null);
        };
        self.equals.as_ref().is_none_or(|expected| found == *expected)
            && self.length.is_none_or(|length| found.as_array().map(Vec::len) == Some(length))
    }
}

/// A request of the runner's own, as the administrator.
fn request(method: &str, path: &str, body: Option<&Value>) -> Request<Bytes> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::USER_AGENT, "conformance/1.0")
        .header(header::AUTHORIZATION, format!("Bearer {}", identity::ADMIN.token))
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.map(ToString::to_string).unwrap_or_default().into())
        .expect("the runner's own requests are valid")
}

async fn read(answer: Answer) -> Read {
    let status = answer.status().as_u16();
    let headers = recorded(answer.headers());
    let body = match answer.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(e) => return Read { status, headers, body: format!("(broken off: {e})").into() },
    };
    let text = || Value::from(String::from_utf8_lossy(&body).into_owned());
    let body = if body.starts_with(b"{") {
        serde_json::from_slice(&body).unwrap_or_else(|_| text())
    } else {
        text()
    };
    Read { status, headers, body }
}

fn recorded(headers: &HeaderMap) -> Value {
    let kept = HEADERS.iter().filter_map(|name| {
        let values: Vec<Value> = headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned().into())
            .collect();
        (!values.is_empty()).then(|| (name.to_string(), Value::Array(values)))
    });
    Value::Object(kept.collect())
}

fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
