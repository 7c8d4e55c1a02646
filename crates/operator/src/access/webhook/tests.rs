use std::convert::Infallible;
use std::path::Path;

use futures::StreamExt as _;
use http::Method;
use http::header::AUTHORIZATION;
use proptest::prelude::*;
use serde_json::Value;
use tower::ServiceExt as _;

use super::fuzz::FuzzedWebhook;
use super::*;
use crate::access::authorizer::fixture::{
    CLUSTER, Fixture, ISSUER_KEY, TestSession, at, canary_key, options,
};
use crate::access::canary;
use crate::clock::VirtualClock;

const TOKEN: &str = "prod-token";
const LIST_PODS: &str =
    r#"{"user":"alice","resourceAttributes":{"verb":"list","resource":"pods"}}"#;

/// A webhook with one session of alice, on a clock that begins a minute after its activation.
struct Served {
    fixture: Fixture,
    router: Router,
}

impl Served {
    fn new() -> Self {
        Self::with(&TestSession::approved("s"), 60)
    }

    fn with(session: &TestSession, second: i64) -> Self {
        let fixture = Fixture::new(options(), &["ops"]);
        fixture.put(session);
        let callers = Callers::default();
        callers.set([
            (CLUSTER.to_owned(), Credential::Token(TOKEN.to_owned())),
            (CLUSTER.to_owned(), Credential::CommonName("prod-apiserver".to_owned())),
            ("stage".to_owned(), Credential::Token("stage-token".to_owned())),
            ("stage".to_owned(), Credential::CommonName("stage-apiserver".to_owned())),
            ("one".to_owned(), Credential::CommonName("shared".to_owned())),
            ("two".to_owned(), Credential::CommonName("shared".to_owned())),
            ("one".to_owned(), Credential::Token("shared".to_owned())),
            ("two".to_owned(), Credential::Token("shared".to_owned())),
            ("empty".to_owned(), Credential::Token(String::new())),
            ("empty".to_owned(), Credential::CommonName(String::new())),
        ]);
        let clock = Arc::new(VirtualClock::starting_at(at(second)));
        let router = router(fixture.authorizer.clone(), callers, clock);
        Self { fixture, router }
    }

    async fn send(&self, request: Request) -> (StatusCode, HeaderMap, Value) {
        let response = self.router.clone().oneshot(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        (parts.status, parts.headers, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Posts a review with this spec as the API server of the cluster.
    async fn review(&self, spec: &str) -> Value {
        let (status, _, body) = self.send(by_token(TOKEN, review(spec))).await;
        assert_eq!(status, StatusCode::OK, "{spec}: {body}");
        body["status"].clone()
    }
}

fn review(spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","metadata":{{"creationTimestamp":null}},"spec":{spec},"status":{{"allowed":false}}}}"#
    )
}

fn post(body: impl Into<Body>) -> Request {
    let request = Request::builder().method(Method::POST).uri(PATH).header(CONTENT_TYPE, JSON);
    request.body(body.into()).expect("a request")
}

fn by_token(token: &str, body: impl Into<Body>) -> Request {
    let mut request = post(body);
    let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a token");
    request.headers_mut().insert(AUTHORIZATION, value);
    request
}

fn by_certificate(common_name: &str, body: impl Into<Body>) -> Request {
    let mut request = post(body);
    request.extensions_mut().insert(PeerCommonName(common_name.into()));
    request
}

// case: access 52, 66
#[tokio::test(start_paused = true)]
async fn an_approved_session_allows_and_is_named_and_counted() {
    let served = Served::new();
    let (status, headers, body) = served.send(by_token(TOKEN, review(LIST_PODS))).await;
    assert_eq!((status, &headers[CONTENT_TYPE]), (StatusCode::OK, &HeaderValue::from_static(JSON)));
    assert_eq!(
        body,
        json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "status": {
                "allowed": true,
                "reason": "sojourn: allowed by BreakglassSession team/s (uid uid-s)",
            },
        })
    );
    assert_eq!(served.fixture.told.take_uses(), [("s".to_owned(), "uid-s".to_owned(), at(60))]);
    let delete = r#"{"user":"alice","resourceAttributes":{"verb":"delete","resource":"pods"}}"#;
    let refused = served.review(delete).await;
    assert_eq!(refused["allowed"], false);
    assert_eq!(refused.get("denied"), None, "nothing is ever denied");
    assert_eq!(served.fixture.told.take_uses(), []);
}

// case: access 59, 60
#[tokio::test(start_paused = true)]
async fn both_or_neither_kinds_of_attributes_are_no_opinion_and_paths_are_judged() {
    let served = Served::new();
    let metrics = r#"{"user":"alice","nonResourceAttributes":{"path":"/metrics","verb":"get"}}"#;
    assert_eq!(served.review(metrics).await["allowed"], true);
    let neither = r#"{"user":"alice"}"#;
    let both = r#"{"user":"alice","resourceAttributes":{"verb":"list","resource":"pods"},"nonResourceAttributes":{"path":"/metrics","verb":"get"}}"#;
    for spec in [neither, both] {
        let status = served.review(spec).await;
        let expected =
            json!({"allowed": false, "reason": "sojourn: it is not clear what is asked for"});
        assert_eq!(status, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_not_known_is_refused_before_anything_is_read() {
    let served = Served::new();
    let unread = || Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>());
    let mut twice = by_token(TOKEN, unread());
    twice.headers_mut().append(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
    let mut basic = post(unread());
    let value = HeaderValue::from_str(&format!("Basic {TOKEN}")).expect("a value");
    basic.headers_mut().insert(AUTHORIZATION, value);
    for request in [
        post(unread()),
        by_token("prod-toke", unread()),
        by_token("prod-token2", unread()),
        by_token(" ", unread()),
        by_token("shared", unread()),
        by_certificate("somebody", unread()),
        by_certificate("shared", unread()),
        by_certificate("", unread()),
        twice,
        basic,
    ] {
        let (status, headers, body) = served.send(request).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{body}");
        assert_eq!(headers[WWW_AUTHENTICATE], "Bearer");
        assert_eq!(body["kind"], "Status");
    }
    assert_eq!(served.fixture.authorizer.metrics().totals(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn decisions_are_counted_by_their_answer_and_with_how_long_they_took() {
    let served = Served::new();
    served.send(by_token(TOKEN, review(LIST_PODS))).await;
    let bob = review(&LIST_PODS.replace("alice", "bob"));
    served.send(by_token(TOKEN, bob)).await;
    let metrics = served.fixture.metrics.text();
    for line in [
        "sojourn_access_decisions_total{answer=\"allowed\"} 1\n",
        "sojourn_access_decisions_total{answer=\"no_opinion\"} 1\n",
        "sojourn_access_decision_seconds_count 2\n",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_of_another_cluster_gets_no_opinion_and_counts_nothing() {
    let served = Served::new();
    for request in [
        by_token("stage-token", review(LIST_PODS)),
        by_certificate("stage-apiserver", review(LIST_PODS)),
    ] {
        let (status, _, body) = served.send(request).await;
        assert_eq!((status, &body["status"]), (StatusCode::OK, &json!({"allowed": false})));
    }
    assert_eq!(served.fixture.told.take_uses(), []);
    // A certificate counts before a token, so a token of another cluster gives nobody its sessions.
    let mut both = by_certificate("stage-apiserver", review(LIST_PODS));
    let token = HeaderValue::from_str(&format!("Bearer {TOKEN}")).expect("a token");
    both.headers_mut().insert(AUTHORIZATION, token);
    assert_eq!(served.send(both).await.2["status"]["allowed"], false);
    let own = by_certificate("prod-apiserver", review(LIST_PODS));
    assert_eq!(served.send(own).await.2["status"]["allowed"], true);
}

// case: access 64
#[tokio::test(start_paused = true)]
async fn forged_groups_and_extras_grant_nothing() {
    let mut session = TestSession::approved("s");
    session.session.issuer = Some("https://a.example".to_owned());
    let served = Served::with(&session, 60);
    let list = r#""resourceAttributes":{"verb":"list","resource":"pods"}"#;
    let groups = r#""groups":["ops","system:masters","sojourn:session:uid-s"]"#;
    for spec in [
        format!(r#"{{"user":"alice",{list}}}"#),
        format!(r#"{{"user":"alice",{groups},{list}}}"#),
        format!(r#"{{"user":"bob",{groups},{list}}}"#),
        format!(r#"{{"user":"alice","extra":{{"{ISSUER_KEY}":["https://b.example"]}},{list}}}"#),
        format!(
            r#"{{"user":"alice","extra":{{"{ISSUER_KEY}":["https://b.example","https://a.example"]}},{list}}}"#
        ),
        format!(
            r#"{{"user":"alice","extra":{{"Example.com/Issuer":["https://a.example"]}},{list}}}"#
        ),
    ] {
        assert_eq!(served.review(&spec).await, json!({"allowed": false}), "{spec}");
    }
    assert_eq!(served.fixture.told.take_uses(), []);
    let right =
        format!(r#"{{"user":"alice","extra":{{"{ISSUER_KEY}":["https://a.example"]}},{list}}}"#);
    assert_eq!(served.review(&right).await["allowed"], true);
}

#[tokio::test(start_paused = true)]
async fn another_type_is_415_and_the_parameters_of_json_do_not_matter() {
    let served = Served::new();
    for (media, code) in [
        (None, 415),
        (Some("text/plain"), 415),
        (Some("application/yaml"), 415),
        (Some("application/vnd.kubernetes.protobuf"), 415),
        (Some("application/jsonx"), 415),
        (Some("application/json"), 200),
        (Some("Application/JSON; charset=utf-8"), 200),
    ] {
        let mut request = by_token(TOKEN, review(LIST_PODS));
        request.headers_mut().remove(CONTENT_TYPE);
        if let Some(media) = media {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
        }
        assert_eq!(served.send(request).await.0.as_u16(), code, "{media:?}");
    }
    let mut packed = by_token(TOKEN, review(LIST_PODS));
    packed.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    assert_eq!(served.send(packed).await.0.as_u16(), 415);
    let mut get = by_token(TOKEN, Body::empty());
    *get.method_mut() = Method::GET;
    assert_eq!(served.send(get).await.0.as_u16(), 405);
}

#[tokio::test(start_paused = true)]
async fn a_body_over_one_mebibyte_is_413_however_it_is_sent() {
    let served = Served::new();
    let spec = format!(r#"{{"user":"alice","uid":"{}"}}"#, "x".repeat(MAX_BODY_BYTES));
    let (status, headers, _) = served.send(by_token(TOKEN, review(&spec))).await;
    assert_eq!((status.as_u16(), &headers[CONNECTION]), (413, &HeaderValue::from_static("close")));
    // In parts without a length, of which the last never comes.
    let part = Bytes::from(vec![b' '; MAX_BODY_BYTES / 4]);
    let parts = futures::stream::iter(vec![Ok::<_, Infallible>(part); 5]);
    let endless = Body::from_stream(parts.chain(futures::stream::pending()));
    assert_eq!(served.send(by_token(TOKEN, endless)).await.0.as_u16(), 413);
    // One that is said to be too long is not read.
    let mut said =
        by_token(TOKEN, Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>()));
    said.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("1048577"));
    assert_eq!(served.send(said).await.0.as_u16(), 413);
    let spec = format!(r#"{{"user":"alice","uid":"{}"}}"#, "x".repeat(MAX_BODY_BYTES - 400));
    assert_eq!(served.send(by_token(TOKEN, review(&spec))).await.0.as_u16(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_is_cut() {
    let served = Served::new();
    let started = Instant::now();
    // A byte every second would take minutes.
    let bytes = futures::stream::iter(review(LIST_PODS).into_bytes()).then(|byte| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok::<_, Infallible>(Bytes::from(vec![byte]))
    });
    let (status, headers, _) = served.send(by_token(TOKEN, Body::from_stream(bytes))).await;
    assert_eq!((status.as_u16(), &headers[CONNECTION]), (408, &HeaderValue::from_static("close")));
    assert_eq!(started.elapsed(), BODY_TIMEOUT);
    let broken = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("broken"))]);
    let (status, ..) = served.send(by_token(TOKEN, Body::from_stream(broken))).await;
    assert_eq!(status.as_u16(), 400);
}

#[tokio::test(start_paused = true)]
async fn garbage_is_422_and_strange_reviews_are_no_opinion() {
    let webhook = FuzzedWebhook::default();
    for (folder, code, allowed) in
        [("malformed", 422, false), ("strange", 200, false), ("allowed", 200, true)]
    {
        for (name, body) in corpus(folder) {
            let answered = webhook.post(&body).await;
            assert_eq!((answered.0.as_u16(), answered.1), (code, allowed), "{folder}/{name}");
        }
    }
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    let deep = [br#"{"spec":"#.as_slice(), &deep, b"}"].concat();
    assert_eq!(webhook.post(&deep).await.0.as_u16(), 422);
    assert_eq!(webhook.post(&vec![b' '; MAX_BODY_BYTES + 1]).await.0.as_u16(), 413);
}

/// Bodies as somebody who means harm, or a broken program, might post them; the fuzzer begins with them, too.
fn corpus(folder: &str) -> Vec<(String, Vec<u8>)> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/access/webhook/corpus").join(folder);
    let files = std::fs::read_dir(&folder).expect("the folder is there");
    let files: Vec<_> = files
        .map(|file| file.expect("a file").path())
        .map(|path| (path.display().to_string(), std::fs::read(&path).expect("it can be read")))
        .collect();
    assert!(files.len() > 1, "{} is nearly empty", folder.display());
    files
}

// case: access 114
#[tokio::test(start_paused = true)]
async fn no_caller_is_ever_told_to_slow_down() {
    let served = Served::new();
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    for _ in 0..200 {
        ticks.tick().await;
        assert_eq!(served.review(LIST_PODS).await["allowed"], true);
    }
    assert_eq!(served.fixture.told.take_uses().len(), 200);
}

// case: access 55, 56, 101
#[tokio::test(start_paused = true)]
async fn a_session_that_has_ended_is_refused_at_once_whatever_its_state_says() {
    let mut never_idle = TestSession::approved("s");
    never_idle.session.terms.idle_timeout = sojourn_core::term::Term::Never;
    never_idle.state.idle_deadline = None;
    let mut idle_expired = TestSession::approved("s");
    idle_expired.state.state = Some(sojourn_core::access::session::State::IdleExpired);
    for (session, second, expected) in [
        (&never_idle, 3599, true),
        (&never_idle, 3600, false),
        (&TestSession::approved("s"), 599, true),
        (&TestSession::approved("s"), 600, false),
        (&idle_expired, 60, false),
    ] {
        let served = Served::with(session, second);
        assert_eq!(served.review(LIST_PODS).await["allowed"], expected, "{second}");
    }
}

#[tokio::test(start_paused = true)]
async fn use_near_the_deadline_is_stored_before_it_is_answered() {
    let served = Served::with(&TestSession::approved("s"), 590);
    assert_eq!(served.review(LIST_PODS).await["allowed"], true);
    assert_eq!(served.fixture.told.take_stored(), [TestSession::approved("s").key]);
    let mut used = TestSession::approved("s");
    used.usage = used.usage.with_report("r1", at(0), at(0), 1);
    let served = Served::with(&used, 60);
    assert_eq!(served.review(LIST_PODS).await["allowed"], true);
    assert_eq!(served.fixture.told.take_stored(), []);
}

/// The user of canaries has no sessions, and what is asked about them is no use of anybody's.
#[tokio::test(start_paused = true)]
async fn a_canary_is_answered_with_proof_and_a_forged_one_is_not() {
    let mut session = TestSession::approved("s");
    session.session.user = canary::USER.to_owned();
    let served = Served::with(&session, 60);
    let spec = |path: &str| {
        let path = json!(path);
        format!(
            r#"{{"user":"sojourn:canary","nonResourceAttributes":{{"path":{path},"verb":"get"}}}}"#
        )
    };
    let path = canary_key().path("abc-1");
    let proof = canary_key().answer(&path).expect("a proof");
    let answered = served.review(&spec(&path)).await;
    assert_eq!(answered, json!({"allowed": false, "reason": proof}));
    assert!(proof.contains("abc-1") && !proof.contains(&path), "{proof}");
    let other = canary::CanaryKey::of(&[8; 32]).path("abc-1");
    let forged = path.replace("abc-1", "abc-2");
    for path in
        [other.as_str(), &forged, "/sojourn-canary/abc-1", "/sojourn-canary/abc-1.", "/metrics"]
    {
        assert_eq!(served.review(&spec(path)).await, json!({"allowed": false}), "{path}");
    }
    let list =
        r#"{"user":"sojourn:canary","resourceAttributes":{"verb":"list","resource":"pods"}}"#;
    assert_eq!(served.review(list).await, json!({"allowed": false}), "a session changes nothing");
    let (_, _, elsewhere) = served.send(by_token("stage-token", review(&spec(&path)))).await;
    assert_eq!(
        elsewhere["status"],
        json!({"allowed": false}),
        "nobody watches that cluster's roles"
    );
    assert_eq!(served.fixture.told.take_uses(), []);
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime")
}

proptest! {
    #[test]
    fn no_body_makes_it_fail(body in prop::collection::vec(any::<u8>(), 0..512)) {
        let status = runtime().block_on(async {
            Served::new().send(by_token(TOKEN, body)).await.0
        });
        prop_assert_eq!(status.as_u16(), 422);
    }

    /// A review of which a part was overwritten.
    #[test]
    fn no_damage_makes_it_fail(
        at in 0..200_usize,
        damage in prop::collection::vec(any::<u8>(), 1..8),
    ) {
        let mut body = review(LIST_PODS).into_bytes();
        for (index, byte) in damage.into_iter().enumerate() {
            if let Some(old) = body.get_mut(at + index) {
                *old = byte;
            }
        }
        let status = runtime().block_on(async {
            Served::new().send(by_token(TOKEN, body)).await.0
        });
        prop_assert!([200, 422].contains(&status.as_u16()), "{}", status);
    }
}
