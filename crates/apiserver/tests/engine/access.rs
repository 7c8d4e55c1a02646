//! Who a request acts as inside the process, what they may do, and that no secret is ever logged.

use std::io::Write;
use std::sync::{Arc, Mutex};

use http::{HeaderName, HeaderValue, Method, header};
use kube::Client;
use serde_json::{Value, json};
use sojourn_apiserver::Engine;
use sojourn_apiserver::auth::identity::Identity;
use tracing_subscriber::fmt::MakeWriter;

use crate::fixture::{
    Answer, admin, delete, get, open_on_virtual_time, patch, post, put, request, send, user,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// Lets a user do something in the namespace `default`.
async fn grant(engine: &Engine, user: &str, verbs: &[&str], resource: &str) {
    let admin = admin(engine);
    let name = format!("{user}-{resource}");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": [resource], "verbs": verbs}],
    });
    post(&admin, &format!("{RBAC}/namespaces/default/roles"), &role).await.ok();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    post(&admin, &format!("{RBAC}/namespaces/default/rolebindings"), &binding).await.ok();
}

async fn get_with(client: &Client, path: &str, headers: &[(&'static str, &'static str)]) -> Answer {
    let mut request = request(&Method::GET, path, &Value::Null);
    for (name, value) in headers {
        let name = HeaderName::from_static(name);
        request.headers_mut().append(name, HeaderValue::from_static(value));
    }
    send(client, request).await
}

fn assert_forbidden(answer: &Answer, message: &str) {
    assert_eq!((answer.status.as_u16(), answer.message()), (403, message));
    assert_eq!(answer.body["reason"], "Forbidden");
}

#[tokio::test(start_paused = true)]
async fn clients_in_the_process_meet_access_rules() {
    let engine = open_on_virtual_time(1).await;
    let alice = engine.client(user("alice", &["developers"]));
    let cannot = |what: &str| format!("User \"alice\" cannot {what}");
    assert_forbidden(
        &get(&alice, MAPS).await,
        &format!(
            "configmaps is forbidden: {}",
            cannot("list resource \"configmaps\" in API group \"\" in the namespace \"default\"")
        ),
    );
    assert_forbidden(
        &get(&alice, "/api/v1/configmaps?watch=true").await,
        &format!(
            "configmaps is forbidden: {}",
            cannot("watch resource \"configmaps\" in API group \"\" at the cluster scope")
        ),
    );
    assert_forbidden(
        &patch(&alice, "/api/v1/namespaces/default/pods/p/status", &json!({})).await,
        &format!(
            "pods \"p\" is forbidden: {}",
            cannot("patch resource \"pods/status\" in API group \"\" in the namespace \"default\"")
        ),
    );
    assert_forbidden(
        &get(&alice, "/metrics").await,
        &format!("forbidden: {}", cannot("get path \"/metrics\"")),
    );
    // Everybody who is known may ask what is served, and what they may do.
    get(&alice, "/api").await.ok();

    grant(&engine, "alice", &["create", "get"], "configmaps").await;
    post(&alice, MAPS, &map("a")).await.ok();
    get(&alice, &format!("{MAPS}/a")).await.ok();
    assert_eq!(delete(&alice, &format!("{MAPS}/a")).await.status, 403);
    // A rule that is taken away is gone with the answer that says so.
    let binding = format!("{RBAC}/namespaces/default/rolebindings/alice-configmaps");
    delete(&admin(&engine), &binding).await.ok();
    assert_eq!(get(&alice, &format!("{MAPS}/a")).await.status, 403);
    engine.close().await;
}

/// Creating by PUT or by apply is creating.
#[tokio::test(start_paused = true)]
async fn other_ways_to_create_need_the_right_to_create() {
    let engine = open_on_virtual_time(1).await;
    let alice = engine.client(user("alice", &[]));
    grant(&engine, "alice", &["update", "patch", "get"], "services").await;
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80}]},
    });
    let path = "/api/v1/namespaces/default/services/s";
    assert_eq!(put(&alice, path, &service).await.status, 403);
    let apply = format!("{path}?fieldManager=alice");
    let mut request = request(&Method::PATCH, &apply, &service);
    let media = HeaderValue::from_static("application/apply-patch+yaml");
    request.headers_mut().insert(header::CONTENT_TYPE, media);
    let answer = send(&alice, request).await;
    assert_forbidden(
        &answer,
        "services \"s\" is forbidden: User \"alice\" cannot create resource \"services\" in API \
         group \"\" in the namespace \"default\"",
    );
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_grants_what_they_do_not_hold() {
    let engine = open_on_virtual_time(1).await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "smith"},
        "rules": [{
            "apiGroups": ["rbac.authorization.k8s.io"],
            "resources": ["roles", "clusterroles", "clusterrolebindings"],
            "verbs": ["create"],
        }],
    });
    let admin = admin(&engine);
    post(&admin, &format!("{RBAC}/clusterroles"), &role).await.ok();
    let binding = |name: &str, role: &str, user: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        })
    };
    let bindings = format!("{RBAC}/clusterrolebindings");
    post(&admin, &bindings, &binding("smith", "smith", "mallory")).await.ok();
    let mallory = engine.client(user("mallory", &[]));
    let mut greedy = role.clone();
    greedy["metadata"]["name"] = json!("greedy");
    greedy["rules"] = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let answer = post(&mallory, &format!("{RBAC}/clusterroles"), &greedy).await;
    assert_eq!(answer.status, 403, "{}", answer.body);
    assert!(
        answer.message().contains("is attempting to grant RBAC permissions not currently held")
    );
    let answer = post(&mallory, &bindings, &binding("greedy", "cluster-admin", "mallory")).await;
    assert_eq!(answer.status, 403, "{}", answer.body);
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn impersonation_needs_a_right_and_then_changes_who_asks() {
    let engine = open_on_virtual_time(1).await;
    engine.client(user("bob", &[]));
    grant(&engine, "bob", &["list"], "configmaps").await;
    let as_bob = [("impersonate-user", "bob")];
    let admin = admin(&engine);
    get_with(&admin, MAPS, &as_bob).await.ok();
    assert_forbidden(
        &get_with(&admin, SECRETS, &as_bob).await,
        "secrets is forbidden: User \"bob\" cannot list resource \"secrets\" in API group \"\" in \
         the namespace \"default\"",
    );
    let alice = engine.client(user("alice", &[]));
    let answer = get_with(&alice, MAPS, &as_bob).await;
    assert_eq!(answer.status, 403, "{}", answer.body);
    assert!(answer.message().contains("\"alice\" cannot impersonate"), "{}", answer.message());
    let masters = [("impersonate-user", "alice"), ("impersonate-group", "system:masters")];
    let answer = get_with(&alice, SECRETS, &masters).await;
    assert_eq!(answer.status, 403, "{}", answer.body);

    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let mut request = request(&Method::POST, path, &review);
    let headers = request.headers_mut();
    headers.insert("impersonate-user", HeaderValue::from_static("bob"));
    headers.insert("impersonate-group", HeaderValue::from_static("crew"));
    let who = send(&admin, request).await.ok().body["status"]["userInfo"].clone();
    assert_eq!(who, json!({"username": "bob", "groups": ["crew", "system:authenticated"]}));
    engine.close().await;
}

/// The identity of a client in the process is the one it was made with, whatever it sends.
#[tokio::test(start_paused = true)]
async fn a_header_does_not_change_who_asks() {
    let engine = open_on_virtual_time(1).await;
    engine.add_token("root", user("root", &["system:masters"]));
    let alice = engine.client(user("alice", &[]));
    for headers in [
        &[("authorization", "Bearer root")][..],
        &[("x-remote-user", "root"), ("x-remote-group", "system:masters")],
        &[("x-forwarded-user", "root")],
        &[("cookie", "token=root")],
    ] {
        let answer = get_with(&alice, SECRETS, headers).await;
        assert_eq!(answer.status, 403, "{headers:?}");
        assert!(answer.message().contains("User \"alice\""), "{}", answer.message());
    }
    // And a bad credential does not take it away.
    let admin = admin(&engine);
    get_with(&admin, SECRETS, &[("authorization", "Bearer wrong")]).await.ok();
    // The router, which stands at the edge, knows nobody without a credential.
    for (credential, status) in
        [(None, 401), (Some("Bearer wrong"), 401), (Some("Bearer root"), 200)]
    {
        let mut request = http::Request::get(SECRETS);
        if let Some(credential) = credential {
            request = request.header(header::AUTHORIZATION, credential);
        }
        let request = request.body(axum::body::Body::empty()).expect("it is well formed");
        let answer = tower::ServiceExt::oneshot(engine.router(), request).await;
        assert_eq!(answer.expect("it is answered").status(), status, "{credential:?}");
    }
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_to_its_own() {
    let engine = open_on_virtual_time(1).await;
    let node = engine.client(Identity::node("n1"));
    let lease = |name: &str| {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": {"holderIdentity": name},
        })
    };
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    post(&node, leases, &lease("n1")).await.ok();
    assert_eq!(post(&node, leases, &lease("n2")).await.status, 403);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
    post(&admin(&engine), SECRETS, &secret).await.ok();
    assert_eq!(get(&node, &format!("{SECRETS}/s")).await.status, 403);
    assert_eq!(get(&node, SECRETS).await.status, 403);
    engine.close().await;
}

/// Everything that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panics while holding it").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("nobody panics while holding it"))
            .into_owned()
    }
}

const PASSWORD: &str = "correct-horse-battery-staple";
/// The same in base64, as it is stored.
const ENCODED: &str = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ==";

/// On this runtime all work is done on one thread, the writer's too, so one subscriber sees it all.
#[tokio::test(start_paused = true)]
async fn no_secret_is_logged() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let engine = open_on_virtual_time(1).await;
    engine.add_token("bearer-of-the-admin", user("admin", &["system:masters"]));
    let client = admin(&engine);
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"password": PASSWORD},
    });
    let made = post(&client, SECRETS, &secret).await.ok();
    assert_eq!(made.body["data"]["password"], ENCODED);
    let path = format!("{SECRETS}/s");
    patch(&client, &path, &json!({"data": {"again": ENCODED}})).await.ok();
    // What is refused may not be told either.
    for (media, body) in [
        ("application/merge-patch+json", json!({"data": {"bad": {PASSWORD: ENCODED}}})),
        ("application/merge-patch+json", json!({"data": {"bad": PASSWORD}})),
        ("application/strategic-merge-patch+json", json!({"data": {"$patch": PASSWORD}})),
        (
            "application/json-patch+json",
            json!([{"op": "test", "path": "/data/password", "value": format!("{PASSWORD}!")}]),
        ),
        (
            "application/json-patch+json",
            json!([{"op": "remove", "path": "/data/absent", "value": ENCODED}]),
        ),
        ("application/apply-patch+yaml", json!({"data": PASSWORD})),
    ] {
        let target = format!("{path}?fieldManager=test");
        let mut request = request(&Method::PATCH, &target, &body);
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        let answer = send(&client, request).await;
        assert!(answer.status.as_u16() >= 400, "{media} {body}: {}", answer.body);
    }
    let mut broken = secret.clone();
    broken["data"] = json!([PASSWORD]);
    assert_eq!(post(&client, SECRETS, &broken).await.status, 400);

    let token =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let account = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let issued = post(&client, account, &token).await.ok();
    let issued = issued.body["status"]["token"].as_str().expect("a token").to_owned();
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": issued},
    });
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let reviewed = post(&client, reviews, &review).await.ok();
    assert_eq!(reviewed.body["status"]["authenticated"], true);
    for credential in [&*issued, "bearer-of-the-admin", "a-wrong-credential"] {
        let request = http::Request::get("/api/v1/nodes?token=in-the-query")
            .header(header::AUTHORIZATION, format!("Bearer {credential}"))
            .body(axum::body::Body::empty());
        let request = request.expect("it is well formed");
        tower::ServiceExt::oneshot(engine.router(), request).await.expect("it is answered");
    }
    engine.close().await;
    drop(guard);

    let text = log.text();
    assert!(text.contains("sojourn_apiserver"), "the engine logs something: {text}");
    let signature = issued.rsplit('.').next().expect("a token has three parts");
    for secret in [
        PASSWORD,
        ENCODED,
        &issued,
        signature,
        "bearer-of-the-admin",
        "a-wrong-credential",
        "in-the-query",
        "PRIVATE KEY",
    ] {
        let line = text.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} is in the log");
    }
}
