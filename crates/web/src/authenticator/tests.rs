mod instance;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::routing::{get, post};
use http::{HeaderMap, Method};
use http_body_util::BodyExt as _;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::client::Body as KubeBody;
use serde_json::json;
use tower::ServiceExt as _;

use super::*;
use crate::listener::TransportInfo;
use crate::secret::Secret;

/// Remembers with which tokens clients were made.
#[derive(Default)]
struct Made(Mutex<Vec<String>>);

impl Clients for Made {
    fn client_with(&self, token: &BearerToken) -> kube::Client {
        self.0.lock().unwrap().push(token.reveal().to_owned());
        api(KnownTokens::default())
    }
}

/// Whose tokens the API knows.
type KnownTokens = Arc<Mutex<BTreeMap<&'static str, UserInfo>>>;

fn known() -> KnownTokens {
    let user = |name: &str, groups: &[&str]| UserInfo {
        username: Some(name.to_owned()),
        groups: Some(groups.iter().map(|&group| group.to_owned()).collect()),
        ..UserInfo::default()
    };
    Arc::new(Mutex::new(BTreeMap::from([
        ("good", user("ci", &[])),
        ("ada's", user("ada", &["<g>", "system:authenticated"])),
        ("bob's", user("bob", &[])),
        ("root's", user("root", &["system:masters", "system:authenticated"])),
        ("node's", user("system:node:n", &["system:nodes"])),
        ("steward's", user("steward", &[])),
    ])))
}

fn api(known: KnownTokens) -> kube::Client {
    let service = tower::service_fn(move |request: http::Request<KubeBody>| {
        let known = known.clone();
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let review: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let user =
                known.lock().unwrap().get(review["spec"]["token"].as_str().unwrap()).cloned();
            let answer = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
                "metadata": {}, "spec": {},
                "status": {"authenticated": user.is_some(), "user": user}});
            let answer = serde_json::to_vec(&answer).unwrap();
            Ok::<_, Infallible>(http::Response::new(KubeBody::from(answer)))
        }
    });
    kube::Client::new(service, "default")
}

struct Fixture {
    authenticator: Authenticator,
    router: Router,
    made: Arc<Made>,
    known: KnownTokens,
}

/// The handler behind the authenticator says whom it sees, and which proofs.
async fn inside(Extension(caller): Extension<Caller>, headers: HeaderMap) -> String {
    let seen = |name| headers.get(name).map_or("-", |value| value.to_str().unwrap());
    drop(caller.client());
    format!("{} cookie={} auth={}", caller.identity.name, seen("cookie"), seen("authorization"))
}

/// What an instance says: who the gateway says calls, and every header that it gets.
async fn instance(Extension(caller): Extension<Caller>, headers: HeaderMap) -> String {
    let label = caller.label.as_deref().unwrap();
    format!("{} at {label} gets {headers:?}", caller.identity.name)
}

/// Where the gateway sends somebody.
async fn handed_over(Extension(caller): Extension<Caller>) -> String {
    caller.instance_address("web-ada-1", "/x?y=1").unwrap_or_default()
}

fn settings() -> Settings {
    Settings {
        public_url: Some("https://lab.example.org".to_owned()),
        listener_url: Some("http://127.0.0.1:7080".to_owned()),
        ..Settings::default()
    }
}

fn fixture() -> Fixture {
    fixture_with(&settings())
}

fn fixture_with(settings: &Settings) -> Fixture {
    let (made, known) = (Arc::new(Made::default()), known());
    let authenticator = Authenticator::new(settings, made.clone(), api(known.clone())).unwrap();
    let signed_in = Router::new()
        .route("/inside", get(inside).post(inside))
        .route("/handed-over", get(handed_over));
    let by_token = Router::new().route("/mint", post(inside));
    let open = Router::new().route("/open", get(async || "open").post(async || "open"));
    let path: InstancePath = Arc::new(|label| {
        let known = ["web-ada-1", "web-bob-2"].contains(&label);
        known.then(|| format!("/go/lab/ns/{}/web", &label[4..7]))
    });
    let instance = InstanceSite { router: Router::new().fallback(instance), path: Some(path) };
    let pages = vec![FrontLink { title: "Sessions", path: "/access/".to_owned() }];
    let router = authenticator.router(Routes { signed_in, by_token, open, instance, pages });
    Fixture { authenticator, router, made, known }
}

fn of(name: &str) -> Credentials {
    let identity = Identity { name: name.to_owned(), ..Identity::default() };
    Credentials { identity, token: BearerToken::new(format!("{name}'s")) }
}

fn ada() -> Credentials {
    of("ada")
}

const OURS: [(&str, &str); 3] = [
    ("sec-fetch-site", "same-origin"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-dest", "document"),
];

struct Answer {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Fixture {
    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("accept", "text/html");
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "127.0.0.1:7080");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::from(body.to_owned())).unwrap();
        let local = "127.0.0.1:7080".parse().unwrap();
        request.extensions_mut().insert(TransportInfo { local, secure: false });
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer { status: parts.status.as_u16(), headers: parts.headers, text }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(Method::GET, path, headers, "").await
    }

    async fn redeem(&self, secret: &Secret) -> Answer {
        self.send(Method::POST, &SignIn::path(secret), &OURS, "").await
    }

    /// Signs in; what the browser keeps.
    async fn signed_in(&self) -> String {
        self.sign_in_as(ada()).await
    }

    async fn sign_in_as(&self, credentials: Credentials) -> String {
        let answer = self.redeem(&self.authenticator.sign_in().mint(credentials)).await;
        assert_eq!(answer.status, 303);
        kept(&answer)
    }

    /// From now on, a token is that of whoever has another one, or nobody's.
    fn reassign(&self, token: &'static str, to: Option<&str>) {
        let mut known = self.known.lock().unwrap();
        let user = to.map(|other| known[other].clone());
        known.remove(token);
        known.extend(user.map(|user| (token, user)));
    }

    /// What the forms of the front page send.
    async fn form(&self, cookie: &str) -> String {
        let front = self.get("/", &[("cookie", cookie)]).await.text;
        let field = front.split("name=\"token\" value=\"").nth(1).unwrap();
        format!("token={}", field.split('"').next().unwrap())
    }
}

fn kept(answer: &Answer) -> String {
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_link_signs_in_once_by_its_button() {
    let fixture = fixture();
    let secret = fixture.authenticator.sign_in().mint(ada());
    for _ in 0..3 {
        // Whoever looks at links does not use them.
        let answer = fixture.get(&SignIn::path(&secret), &[]).await;
        assert_eq!(answer.status, 200);
        assert!(answer.text.contains("<strong>ada</strong>"), "{}", answer.text);
        assert!(!answer.headers.contains_key("set-cookie"));
    }
    let answer = fixture.redeem(&secret).await;
    assert_eq!((answer.status, &answer.headers["location"]), (303, &HeaderValue::from_static("/")));
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("sojourn-7080="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict"), "{cookie}");
    assert_eq!(answer.headers["cache-control"], "no-store");

    let again = fixture.redeem(&secret).await;
    assert_eq!(again.status, 410);
    assert!(!again.headers.contains_key("set-cookie"));
    assert_eq!(fixture.get(&SignIn::path(&secret), &[]).await.status, 410);
    assert_eq!(fixture.get("/sign-in/x", &[]).await.status, 410);

    let front = fixture.get("/", &[("cookie", &kept(&answer))]).await;
    assert_eq!(front.status, 200);
    assert!(front.text.contains("<strong>ada</strong>"), "{}", front.text);
    assert!(front.text.contains("<li>&lt;g&gt;</li>"), "{}", front.text);
}

#[tokio::test]
async fn of_many_who_use_a_link_at_once_one_gets_in() {
    let fixture = fixture();
    let secret = fixture.authenticator.sign_in().mint(ada());
    let answers = futures::future::join_all((0..20).map(|_| fixture.redeem(&secret))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 303).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.status == 410).count(), 19);
}

#[tokio::test]
async fn a_link_is_not_used_from_elsewhere() {
    let fixture = fixture();
    let secret = fixture.authenticator.sign_in().mint(ada());
    let path = SignIn::path(&secret);
    for headers in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
        // A script of an instance, which has our origin.
        &[
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-mode", "cors"),
            ("sec-fetch-dest", "empty"),
        ],
        &[("host", "evil.example:7080")],
    ] {
        let answer = fixture.send(Method::POST, &path, headers, "").await;
        assert!([403, 421].contains(&answer.status), "{headers:?}: {}", answer.status);
        assert!(!answer.headers.contains_key("set-cookie"));
    }
    assert_eq!(fixture.redeem(&secret).await.status, 303);
}

/// The script of whatever page has a person's cookie could become that person for ever.
#[tokio::test]
async fn a_session_never_mints_another() {
    let fixture = fixture();
    let cookie = fixture.signed_in().await;
    let headers = [OURS[0], ("cookie", cookie.as_str())];
    assert_eq!(fixture.send(Method::POST, "/inside", &headers, "").await.status, 200);
    let refused = fixture.send(Method::POST, "/mint", &headers, "").await;
    assert_eq!(
        (refused.status, &refused.headers["www-authenticate"]),
        (401, &"Bearer".parse().unwrap())
    );
    let minted = fixture.send(Method::POST, "/mint", &[("authorization", "Bearer good")], "").await;
    assert_eq!((minted.status, minted.text.as_str()), (200, "ci cookie=- auth=-"));
    // Beside a good token, a session neither helps nor harms.
    let both = [headers[0], headers[1], ("authorization", "Bearer good")];
    assert_eq!(fixture.send(Method::POST, "/mint", &both, "").await.text, "ci cookie=- auth=-");
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_with_its_account() {
    for end in [None, Some("bob's")] {
        let fixture = fixture();
        let (cookie, other) = (fixture.signed_in().await, fixture.sign_in_as(of("bob")).await);
        assert_eq!(fixture.get("/inside", &[("cookie", &cookie)]).await.status, 200);
        fixture.reassign("ada's", end);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(fixture.get("/inside", &[("cookie", &cookie)]).await.status, 401);
        assert_eq!(fixture.get("/inside", &[("cookie", &other)]).await.status, 200);
        // It does not come back with the account.
        *fixture.known.lock().unwrap() = super::tests::known().lock().unwrap().clone();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(fixture.get("/inside", &[("cookie", &cookie)]).await.status, 401);
    }
}

#[tokio::test]
async fn signing_out_everywhere_ends_every_session_and_link_of_the_user() {
    let fixture = fixture();
    let (cookie, second) = (fixture.signed_in().await, fixture.signed_in().await);
    let bobs = fixture.sign_in_as(of("bob")).await;
    let unused = fixture.authenticator.sign_in().mint(ada());
    let form = fixture.form(&cookie).await;
    let with = |cookie| [OURS[0], OURS[1], OURS[2], ("cookie", cookie)];
    let foreign = fixture.send(Method::POST, "/sign-out-everywhere", &with(&second), &form).await;
    assert_eq!(foreign.status, 403);
    let answer = fixture.send(Method::POST, "/sign-out-everywhere", &with(&cookie), &form).await;
    assert_eq!(answer.status, 200);
    assert!(answer.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    for ended in [&cookie, &second] {
        assert_eq!(fixture.get("/inside", &[("cookie", ended)]).await.status, 401);
    }
    assert_eq!(fixture.redeem(&unused).await.status, 410);
    assert_eq!(fixture.get("/inside", &[("cookie", &bobs)]).await.status, 200);
}

#[tokio::test]
async fn rights_of_kubernetes_own_groups_do_not_come_in() {
    let fixture = fixture();
    for token in ["Bearer root's", "Bearer node's"] {
        for (method, path) in [(Method::POST, "/mint"), (Method::GET, "/inside")] {
            let refused = fixture.send(method, path, &[("authorization", token)], "").await;
            assert_eq!(refused.status, 403, "{token} {path}");
            assert!(refused.text.contains("bound by a role"), "{}", refused.text);
        }
    }
    let fixture = fixture_with(&Settings { superuser: Some(of("steward")), ..settings() });
    let stands_in = fixture.get("/inside", &[("authorization", "Bearer root's")]).await;
    assert_eq!(stands_in.text, "steward cookie=- auth=-");
    assert_eq!(*fixture.made.0.lock().unwrap(), ["steward's"], "with no right of the other");
    let node = fixture.get("/inside", &[("authorization", "Bearer node's")]).await;
    assert_eq!(node.status, 403);
}

#[tokio::test(start_paused = true)]
async fn a_caller_ends_with_session_or_account() {
    let fixture = fixture();
    let caller = |cookie: Option<&str>| {
        let session = cookie.map(|one| {
            fixture.authenticator.0.sessions.find(one.split_once('=').unwrap().1).unwrap()
        });
        let account = session
            .as_ref()
            .map_or_else(|| Arc::new(Account::new(ada())), |one| one.account.clone());
        let identity = Arc::new(Identity { groups: vec!["<g>".to_owned()], ..ada().identity });
        let zone = Zone::Own { loopback: true };
        let site = Site { authority: "localhost".to_owned(), port: 80, secure: false, zone };
        Caller {
            identity,
            site,
            label: None,
            account,
            session,
            authenticator: fixture.authenticator.clone(),
        }
    };
    let cookie = fixture.signed_in().await;
    let (browser, program) = (caller(Some(&cookie)), caller(None));
    assert!(browser.credentials().is_none() && program.credentials().is_some());
    let (mut signed_out, mut unknown) = (browser.ended(), program.ended());
    let day = Duration::from_secs(24 * 60 * 60);
    assert!(tokio::time::timeout(day, &mut signed_out).await.is_err(), "while nothing changes");
    assert!(tokio::time::timeout(day, &mut unknown).await.is_err());
    fixture.authenticator.0.sessions.close(browser.session.as_ref().unwrap());
    tokio::time::timeout(Duration::from_millis(1), signed_out).await.expect("at once");
    fixture.known.lock().unwrap().remove("ada's");
    tokio::time::timeout(Duration::from_secs(121), unknown).await.expect("within two minutes");
}

#[tokio::test]
async fn signing_out_needs_the_form_of_this_session() {
    let fixture = fixture();
    let (cookie, other) = (fixture.signed_in().await, fixture.signed_in().await);
    let form = fixture.form(&cookie).await;
    let with = |cookie| [OURS[0], OURS[1], OURS[2], ("cookie", cookie)];
    let too_long = format!("token={}", "x".repeat(10_000));
    for (cookie, body) in
        [(&cookie, ""), (&cookie, "token="), (&other, form.as_str()), (&cookie, &too_long)]
    {
        let answer = fixture.send(Method::POST, "/sign-out", &with(cookie), body).await;
        assert_eq!(answer.status, 403, "{body}");
    }
    assert_eq!(fixture.get("/inside", &[("cookie", &cookie)]).await.status, 200);
    let answer = fixture.send(Method::POST, "/sign-out", &with(&cookie), &form).await;
    assert_eq!(answer.status, 200);
    assert!(answer.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(fixture.get("/inside", &[("cookie", &cookie)]).await.status, 401);
    assert_eq!(fixture.get("/inside", &[("cookie", &other)]).await.status, 200);
}

#[tokio::test]
async fn proofs_end_at_the_door() {
    let fixture = fixture();
    let cookie = format!("a=1; {}; b=2", fixture.signed_in().await);
    // With a session, another Authorization is between the page and what it talks to.
    let headers = [("cookie", cookie.as_str()), ("authorization", "Bearer theirs")];
    let answer = fixture.get("/inside", &headers).await;
    assert_eq!(answer.text, "ada cookie=a=1; b=2 auth=Bearer theirs");
    let answer = fixture.get("/inside", &[("authorization", "Bearer good")]).await;
    assert_eq!(answer.text, "ci cookie=- auth=-");
    assert_eq!(*fixture.made.0.lock().unwrap(), ["ada's", "good"]);
    for bad in ["Bearer bad", "Basic good", "Bearer", "good"] {
        let answer = fixture.get("/inside", &[("authorization", bad)]).await;
        assert_eq!(answer.status, 401, "{bad}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
    }
}

#[tokio::test]
async fn a_session_acts_only_from_our_own_pages() {
    let fixture = fixture();
    let cookie = fixture.signed_in().await;
    let cookie = ("cookie", cookie.as_str());
    let post = async |headers: &[(&str, &str)]| {
        fixture.send(Method::POST, "/inside", headers, "").await.status
    };
    assert_eq!(post(&[cookie, ("sec-fetch-site", "same-origin")]).await, 200);
    assert_eq!(post(&[cookie, ("origin", "http://127.0.0.1:7080")]).await, 200);
    assert_eq!(post(&[cookie, ("sec-fetch-site", "cross-site")]).await, 403);
    assert_eq!(post(&[cookie, ("origin", "http://127.0.0.1:8080")]).await, 403);
    // Nobody says where it comes from: then the cookie proves nothing.
    assert_eq!(post(&[cookie]).await, 401);
    assert_eq!(post(&[cookie, ("authorization", "Bearer good")]).await, 200);
    assert_eq!(post(&[("authorization", "Bearer good")]).await, 200);
    let socket = [cookie, ("connection", "upgrade"), ("upgrade", "websocket")];
    assert_eq!(fixture.get("/inside", &socket).await.status, 401);
    let evil = [&socket[..], &[("origin", "http://evil.example")]].concat();
    assert_eq!(fixture.get("/inside", &evil).await.status, 403);
    let own = [&socket[..], &[("origin", "http://127.0.0.1:7080")]].concat();
    assert_eq!(fixture.get("/inside", &own).await.status, 200);
}

#[tokio::test]
async fn who_follows_a_link_from_elsewhere_is_asked_to_go_on() {
    let fixture = fixture();
    let cookie = fixture.signed_in().await;
    let visit = [
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
        ("cookie", cookie.as_str()),
    ];
    let answer = fixture.get("/inside?a=b&c='d", &visit).await;
    assert_eq!(answer.status, 401);
    assert!(answer.text.contains("href=\"&#x2f;inside?a=b&amp;c=&#x27;d\""), "{}", answer.text);
    let answer = fixture.get("/", &visit).await;
    assert_eq!(answer.status, 401);
    let uri = |text: &str| local(&text.parse().unwrap()).to_owned();
    assert_eq!(uri("//evil.example/x"), "/");
    assert_eq!(uri("/a?b"), "/a?b");
}

#[tokio::test]
async fn scripts_and_frames_get_none_of_our_pages() {
    let fixture = fixture();
    let cookie = fixture.signed_in().await;
    for (mode, destination) in [("cors", "empty"), ("same-origin", "empty"), ("navigate", "iframe")]
    {
        let headers = [
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-mode", mode),
            ("sec-fetch-dest", destination),
            ("cookie", cookie.as_str()),
        ];
        let answer = fixture.get("/", &headers).await;
        assert_eq!(answer.status, 403, "{mode} {destination}");
        assert!(!answer.text.contains("token"), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_planted_cookie_neither_replaces_ours_nor_signs_out() {
    let fixture = fixture();
    let (mine, theirs) = (fixture.signed_in().await, fixture.signed_in().await);
    let planted = format!("sojourn-7080=planted; {mine}");
    assert_eq!(fixture.get("/inside", &[("cookie", &planted)]).await.status, 200);
    let twice = format!("{mine}; {mine}");
    assert_eq!(fixture.get("/inside", &[("cookie", &twice)]).await.status, 200);
    // Two good ones: nobody can say who is meant.
    let both = format!("{theirs}; {mine}");
    assert_eq!(fixture.get("/inside", &[("cookie", &both)]).await.status, 401);
    let elsewhere = mine.replace("sojourn-7080", "sojourn-7081");
    assert_eq!(fixture.get("/inside", &[("cookie", &elsewhere)]).await.status, 401);
}

#[tokio::test]
async fn under_the_public_name_the_cookie_is_for_tls_only() {
    let fixture = fixture();
    let secret = fixture.authenticator.sign_in().mint(ada());
    let headers = [OURS[0], OURS[1], OURS[2], ("host", "lab.example.org")];
    let answer = fixture.send(Method::POST, &SignIn::path(&secret), &headers, "").await;
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-sojourn="), "{cookie}");
    assert!(cookie.ends_with("; Secure"), "{cookie}");
}

#[tokio::test]
async fn names_that_are_not_ours_get_nothing() {
    let fixture = fixture();
    for path in ["/", "/open", "/inside", "/nowhere"] {
        assert_eq!(fixture.get(path, &[("host", "evil.example")]).await.status, 421, "{path}");
    }
    assert_eq!(fixture.get("/open", &[]).await.text, "open");
    assert_eq!(fixture.get("/nowhere", &[]).await.status, 404);
    assert_eq!(fixture.get("/", &[]).await.status, 401);
    let wrong = fixture.send(Method::PUT, "/", &OURS, "").await;
    assert_eq!(wrong.status, 405);
    assert_eq!(wrong.headers["x-content-type-options"], "nosniff");
    let plain = fixture.send(Method::POST, "/open", &[("sec-fetch-site", "cross-site")], "").await;
    assert_eq!(plain.status, 403);
}

#[tokio::test]
async fn the_public_name_can_change_while_people_come() {
    let fixture = fixture();
    let at = async |host| fixture.get("/open", &[("host", host)]).await.status;
    assert_eq!(at("new.example.org").await, 421);
    fixture.authenticator.set_public_url(Some("https://new.example.org")).unwrap();
    assert_eq!(at("new.example.org").await, 200);
    assert_eq!(at("lab.example.org").await, 421, "the old one is nobody's any more");
    assert!(fixture.authenticator.set_public_url(Some("nowhere")).is_err());
    assert_eq!(at("new.example.org").await, 200, "what is none changes nothing");
    fixture.authenticator.set_public_url(None).unwrap();
    assert_eq!(at("new.example.org").await, 421);
}

#[test]
fn a_public_url_that_is_none_is_refused() {
    let settings = Settings { public_url: Some("lab".to_owned()), ..Settings::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let error = Authenticator::new(&settings, Arc::new(Made::default()), api(known())).unwrap_err();
    assert_eq!(error.to_string(), "the public URL \"lab\" is not http:// or https:// and a host");
}
