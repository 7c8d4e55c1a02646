use std::convert::Infallible;
use std::sync::Mutex;

use axum::Extension;
use axum::body::Body;
use axum::routing::get;
use http::{HeaderMap, Method};
use http_body_util::BodyExt as _;
use kube::client::Body as KubeBody;
use serde_json::json;
use tower::ServiceExt as _;

use super::*;
use crate::listener::Arrival;
use crate::secret::Secret;

/// Remembers for whom clients were made.
#[derive(Default)]
struct Made(Mutex<Vec<String>>);

impl Clients for Made {
    fn client_as(&self, identity: &Identity) -> kube::Client {
        self.0.lock().unwrap().push(identity.name.clone());
        api()
    }
}

/// Knows the token `good` as that of `ci`.
fn api() -> kube::Client {
    let service = tower::service_fn(|request: http::Request<KubeBody>| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let review: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let good = review["spec"]["token"] == "good";
        let answer = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "metadata": {}, "spec": {},
            "status": {"authenticated": good, "user": {"username": "ci"}}});
        let answer = serde_json::to_vec(&answer).unwrap();
        Ok::<_, Infallible>(http::Response::new(KubeBody::from(answer)))
    });
    kube::Client::new(service, "default")
}

struct House {
    door: Door,
    router: Router,
    made: Arc<Made>,
}

/// What is behind the door says whom it sees, and which proofs.
async fn inside(Extension(caller): Extension<Caller>, headers: HeaderMap) -> String {
    let seen = |name| headers.get(name).map_or("-", |value| value.to_str().unwrap());
    format!("{} cookie={} auth={}", caller.identity.name, seen("cookie"), seen("authorization"))
}

fn house() -> House {
    let made = Arc::new(Made::default());
    let settings =
        Settings { public_url: Some("https://lab.example.org".to_owned()), names: Vec::new() };
    let door = Door::new(&settings, made.clone(), api()).unwrap();
    let signed_in = Router::new().route("/inside", get(inside).post(inside));
    let open = Router::new().route("/open", get(async || "open").post(async || "open"));
    let router = door.router(Mounted { signed_in, open });
    House { door, router, made }
}

fn ada() -> Identity {
    Identity { name: "ada".to_owned(), groups: vec!["<g>".to_owned()], ..Identity::default() }
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

impl House {
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
        request.extensions_mut().insert(Arrival { local, secure: false });
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
        let answer = self.redeem(&self.door.sign_in().mint(ada())).await;
        assert_eq!(answer.status, 303);
        kept(&answer)
    }
}

fn kept(answer: &Answer) -> String {
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_link_signs_in_once_by_its_button() {
    let house = house();
    let secret = house.door.sign_in().mint(ada());
    for _ in 0..3 {
        // Whoever looks at links does not use them.
        let answer = house.get(&SignIn::path(&secret), &[]).await;
        assert_eq!(answer.status, 200);
        assert!(answer.text.contains("<strong>ada</strong>"), "{}", answer.text);
        assert!(!answer.headers.contains_key("set-cookie"));
    }
    let answer = house.redeem(&secret).await;
    assert_eq!((answer.status, &answer.headers["location"]), (303, &HeaderValue::from_static("/")));
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("sojourn-7080="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict"), "{cookie}");
    assert_eq!(answer.headers["cache-control"], "no-store");

    let again = house.redeem(&secret).await;
    assert_eq!(again.status, 410);
    assert!(!again.headers.contains_key("set-cookie"));
    assert_eq!(house.get(&SignIn::path(&secret), &[]).await.status, 410);
    assert_eq!(house.get("/sign-in/x", &[]).await.status, 410);

    let front = house.get("/", &[("cookie", &kept(&answer))]).await;
    assert_eq!(front.status, 200);
    assert!(front.text.contains("<strong>ada</strong>"), "{}", front.text);
    assert!(front.text.contains("<li>&lt;g&gt;</li>"), "{}", front.text);
}

#[tokio::test]
async fn of_many_who_use_a_link_at_once_one_gets_in() {
    let house = house();
    let secret = house.door.sign_in().mint(ada());
    let answers = futures::future::join_all((0..20).map(|_| house.redeem(&secret))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 303).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.status == 410).count(), 19);
}

#[tokio::test]
async fn a_link_is_not_used_from_elsewhere() {
    let house = house();
    let secret = house.door.sign_in().mint(ada());
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
        let answer = house.send(Method::POST, &path, headers, "").await;
        assert!([403, 421].contains(&answer.status), "{headers:?}: {}", answer.status);
        assert!(!answer.headers.contains_key("set-cookie"));
    }
    assert_eq!(house.redeem(&secret).await.status, 303);
}

#[tokio::test]
async fn signing_out_needs_the_form_of_this_session() {
    let house = house();
    let (cookie, other) = (house.signed_in().await, house.signed_in().await);
    let front = house.get("/", &[("cookie", &cookie)]).await.text;
    let field = front.split("name=\"token\" value=\"").nth(1).unwrap();
    let form = format!("token={}", field.split('"').next().unwrap());
    let with = |cookie| [OURS[0], OURS[1], OURS[2], ("cookie", cookie)];
    let too_long = format!("token={}", "x".repeat(10_000));
    for (cookie, body) in
        [(&cookie, ""), (&cookie, "token="), (&other, form.as_str()), (&cookie, &too_long)]
    {
        let answer = house.send(Method::POST, "/sign-out", &with(cookie), body).await;
        assert_eq!(answer.status, 403, "{body}");
    }
    assert_eq!(house.get("/inside", &[("cookie", &cookie)]).await.status, 200);
    let answer = house.send(Method::POST, "/sign-out", &with(&cookie), &form).await;
    assert_eq!(answer.status, 200);
    assert!(answer.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    assert_eq!(house.get("/inside", &[("cookie", &cookie)]).await.status, 401);
    assert_eq!(house.get("/inside", &[("cookie", &other)]).await.status, 200);
}

#[tokio::test]
async fn proofs_end_at_the_door() {
    let house = house();
    let cookie = format!("a=1; {}; b=2", house.signed_in().await);
    // With a session, another Authorization is between the page and what it talks to.
    let headers = [("cookie", cookie.as_str()), ("authorization", "Bearer theirs")];
    let answer = house.get("/inside", &headers).await;
    assert_eq!(answer.text, "ada cookie=a=1; b=2 auth=Bearer theirs");
    let answer = house.get("/inside", &[("authorization", "Bearer good")]).await;
    assert_eq!(answer.text, "ci cookie=- auth=-");
    assert_eq!(*house.made.0.lock().unwrap(), ["ada", "ci"]);
    for bad in ["Bearer bad", "Basic good", "Bearer", "good"] {
        let answer = house.get("/inside", &[("authorization", bad)]).await;
        assert_eq!(answer.status, 401, "{bad}");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
    }
}

#[tokio::test]
async fn a_session_acts_only_from_our_own_pages() {
    let house = house();
    let cookie = house.signed_in().await;
    let cookie = ("cookie", cookie.as_str());
    let post = async |headers: &[(&str, &str)]| {
        house.send(Method::POST, "/inside", headers, "").await.status
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
    assert_eq!(house.get("/inside", &socket).await.status, 401);
    let evil = [&socket[..], &[("origin", "http://evil.example")]].concat();
    assert_eq!(house.get("/inside", &evil).await.status, 403);
    let own = [&socket[..], &[("origin", "http://127.0.0.1:7080")]].concat();
    assert_eq!(house.get("/inside", &own).await.status, 200);
}

#[tokio::test]
async fn who_follows_a_link_from_elsewhere_is_asked_to_go_on() {
    let house = house();
    let cookie = house.signed_in().await;
    let visit = [
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
        ("cookie", cookie.as_str()),
    ];
    let answer = house.get("/inside?a=b&c='d", &visit).await;
    assert_eq!(answer.status, 401);
    assert!(answer.text.contains("href=\"&#x2f;inside?a=b&amp;c=&#x27;d\""), "{}", answer.text);
    let answer = house.get("/", &visit).await;
    assert_eq!(answer.status, 401);
    let uri = |text: &str| local(&text.parse().unwrap()).to_owned();
    assert_eq!(uri("//evil.example/x"), "/");
    assert_eq!(uri("/a?b"), "/a?b");
}

#[tokio::test]
async fn scripts_and_frames_get_none_of_our_pages() {
    let house = house();
    let cookie = house.signed_in().await;
    for (mode, destination) in [("cors", "empty"), ("same-origin", "empty"), ("navigate", "iframe")]
    {
        let headers = [
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-mode", mode),
            ("sec-fetch-dest", destination),
            ("cookie", cookie.as_str()),
        ];
        let answer = house.get("/", &headers).await;
        assert_eq!(answer.status, 403, "{mode} {destination}");
        assert!(!answer.text.contains("token"), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_planted_cookie_neither_replaces_ours_nor_signs_out() {
    let house = house();
    let (mine, theirs) = (house.signed_in().await, house.signed_in().await);
    let planted = format!("sojourn-7080=planted; {mine}");
    assert_eq!(house.get("/inside", &[("cookie", &planted)]).await.status, 200);
    let twice = format!("{mine}; {mine}");
    assert_eq!(house.get("/inside", &[("cookie", &twice)]).await.status, 200);
    // Two good ones: nobody can say who is meant.
    let both = format!("{theirs}; {mine}");
    assert_eq!(house.get("/inside", &[("cookie", &both)]).await.status, 401);
    let elsewhere = mine.replace("sojourn-7080", "sojourn-7081");
    assert_eq!(house.get("/inside", &[("cookie", &elsewhere)]).await.status, 401);
}

#[tokio::test]
async fn under_the_public_name_the_cookie_is_for_tls_only() {
    let house = house();
    let secret = house.door.sign_in().mint(ada());
    let headers = [OURS[0], OURS[1], OURS[2], ("host", "lab.example.org")];
    let answer = house.send(Method::POST, &SignIn::path(&secret), &headers, "").await;
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.starts_with("__Host-sojourn="), "{cookie}");
    assert!(cookie.ends_with("; Secure"), "{cookie}");
}

#[tokio::test]
async fn names_that_are_not_ours_get_nothing() {
    let house = house();
    for path in ["/", "/open", "/inside", "/nowhere"] {
        assert_eq!(house.get(path, &[("host", "evil.example")]).await.status, 421, "{path}");
    }
    assert_eq!(house.get("/open", &[]).await.text, "open");
    assert_eq!(house.get("/nowhere", &[]).await.status, 404);
    assert_eq!(house.get("/", &[]).await.status, 401);
    let wrong = house.send(Method::PUT, "/", &OURS, "").await;
    assert_eq!(wrong.status, 405);
    assert_eq!(wrong.headers["x-content-type-options"], "nosniff");
    let plain = house.send(Method::POST, "/open", &[("sec-fetch-site", "cross-site")], "").await;
    assert_eq!(plain.status, 403);
}

#[test]
fn a_public_url_that_is_none_is_refused() {
    let settings = Settings { public_url: Some("lab".to_owned()), names: Vec::new() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let error = Door::new(&settings, Arc::new(Made::default()), api()).unwrap_err();
    assert_eq!(error.to_string(), "the public URL \"lab\" is not http:// or https:// and a host");
}
