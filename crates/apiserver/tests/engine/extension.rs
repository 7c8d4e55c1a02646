//! The authorizer that the program around the engine brings: when it is asked, about whom, and how its
//! reasons read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use http::{HeaderName, HeaderValue, Method};
use kube::Client;
use serde_json::{Value, json};
use sojourn_apiserver::{Engine, ExtensionAuthorizer, ExtensionDecision, Question};
use sojourn_rbac::Attributes;

use crate::fixture::{
    Answer, admin, get, open_on_virtual_time, post, put, request, send, settle, user,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const NAMESPACED_REVIEWS: &str =
    "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";

/// What the extension was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    user: String,
    extra: BTreeMap<String, Vec<String>>,
    what: String,
    question: Question,
}

/// Lets one user do everything, and keeps what it was asked.
#[derive(Debug, Default)]
struct OneUser {
    name: &'static str,
    asked: Mutex<Vec<Asked>>,
    /// How often a request waited before it was carried out.
    waited: Arc<AtomicUsize>,
}

impl OneUser {
    fn mounted(engine: &Engine, name: &'static str) -> Arc<Self> {
        let extension = Arc::new(Self { name, ..Self::default() });
        engine.set_extension_authorizer(extension.clone());
        extension
    }

    fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().expect("unpoisoned"))
    }

    /// What it was asked, without who and why.
    fn take_texts(&self) -> Vec<String> {
        self.take().into_iter().map(|asked| asked.what).collect()
    }
}

impl ExtensionAuthorizer for OneUser {
    fn authorize(&self, request: &Attributes<'_>, question: Question) -> ExtensionDecision {
        let what = if request.is_resource_request {
            format!("{} {}", request.verb, request.resource)
        } else {
            format!("{} {}", request.verb, request.path)
        };
        self.asked.lock().expect("unpoisoned").push(Asked {
            user: request.user.name.clone(),
            extra: request.user.extra.clone(),
            what,
            question,
        });
        if request.user.name != self.name {
            return ExtensionDecision::NoOpinion { reason: "extension: not today".to_owned() };
        }
        let waited = self.waited.clone();
        let before = async move {
            settle().await;
            waited.fetch_add(1, Ordering::Relaxed);
        };
        let reason = "extension: allowed by s-1".to_owned();
        ExtensionDecision::Allow { reason, before_answer: Some(before.boxed()) }
    }
}

async fn review(client: &Client, kind: &str, path: &str, spec: Value) -> Value {
    let mut review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    if path == NAMESPACED_REVIEWS {
        review["metadata"] = json!({"namespace": "default"});
    }
    post(client, path, &review).await.ok().body["status"].clone()
}

async fn get_as(client: &Client, path: &str, headers: &[(&'static str, &'static str)]) -> Answer {
    let mut request = request(&Method::GET, path, &Value::Null);
    for (name, value) in headers {
        let name = HeaderName::from_static(name);
        request.headers_mut().append(name, HeaderValue::from_static(value));
    }
    send(client, request).await
}

#[tokio::test(start_paused = true)]
async fn the_extension_allows_what_nobody_else_does_and_is_not_asked_before() {
    let engine = open_on_virtual_time(1).await;
    let alice = engine.client(user("alice", &[]));
    assert_eq!(get(&alice, MAPS).await.status, 403);
    let extension = OneUser::mounted(&engine, "alice");
    get(&alice, MAPS).await.ok();
    get(&alice, "/metrics").await.ok();
    let asked = extension.take();
    assert_eq!(asked[0].user, "alice");
    assert_eq!(asked[0].question, Question::Request);
    let texts: Vec<_> = asked.into_iter().map(|asked| asked.what).collect();
    assert_eq!(texts, ["list configmaps", "get /metrics"]);
    assert_eq!(extension.waited.load(Ordering::Relaxed), 2, "each waited for what comes before");

    // What everybody may do, and what superusers may, is no question for it.
    get(&alice, "/api").await.ok();
    get(&admin(&engine), MAPS).await.ok();
    assert_eq!(extension.take(), []);
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_has_the_reason_of_the_extension() {
    let engine = open_on_virtual_time(1).await;
    let extension = OneUser::mounted(&engine, "alice");
    let bob = engine.client(user("bob", &[]));
    let answer = get(&bob, MAPS).await;
    let message = "configmaps is forbidden: User \"bob\" cannot list resource \"configmaps\" in API \
                   group \"\" in the namespace \"default\": extension: not today";
    assert_eq!((answer.status.as_u16(), answer.message()), (403, message));
    assert_eq!(extension.take_texts(), ["list configmaps"], "it is asked once");

    // Another one takes its place.
    let other = OneUser::mounted(&engine, "bob");
    get(&bob, MAPS).await.ok();
    assert_eq!((extension.take_texts().len(), other.take_texts().len()), (0, 1));
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn creating_by_put_asks_for_both_verbs() {
    let engine = open_on_virtual_time(1).await;
    let extension = OneUser::mounted(&engine, "alice");
    let alice = engine.client(user("alice", &[]));
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {"ports": [{"port": 80}]},
    });
    put(&alice, "/api/v1/namespaces/default/services/s", &service).await.ok();
    assert_eq!(extension.take_texts(), ["update services", "create services"]);
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn reviews_ask_the_extension_and_show_its_reason() {
    let engine = open_on_virtual_time(1).await;
    let extension = OneUser::mounted(&engine, "alice");
    let (admin, alice) = (admin(&engine), engine.client(user("alice", &[])));
    let list = json!({"verb": "list", "resource": "pods", "namespace": "default"});
    let of = |user: &str| {
        json!({
            "user": user, "groups": ["g"], "extra": {"example.com/issuer": ["a", "b"]},
            "resourceAttributes": list,
        })
    };
    let cluster_wide = format!("{AUTHORIZATION}/subjectaccessreviews");
    for (kind, path) in [
        ("SubjectAccessReview", cluster_wide.as_str()),
        ("LocalSubjectAccessReview", NAMESPACED_REVIEWS),
    ] {
        let allowed = json!({"allowed": true, "reason": "extension: allowed by s-1"});
        assert_eq!(review(&admin, kind, path, of("alice")).await, allowed, "{kind}");
        let refused = json!({"allowed": false, "reason": "extension: not today"});
        assert_eq!(review(&admin, kind, path, of("bob")).await, refused, "{kind}");
        let asked = extension.take();
        let extra = BTreeMap::from([(
            "example.com/issuer".to_owned(),
            vec!["a".to_owned(), "b".to_owned()],
        )]);
        assert_eq!(asked.len(), 2);
        assert!(asked.iter().all(|asked| asked.question == Question::Request), "{asked:?}");
        assert!(asked.iter().all(|asked| asked.extra == extra), "{asked:?}");
    }

    let own = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let spec = json!({"resourceAttributes": list});
    let allowed = review(&alice, "SelfSubjectAccessReview", &own, spec).await;
    assert_eq!(allowed["allowed"], true);
    let asked = extension.take();
    assert_eq!((asked.len(), asked[0].question), (1, Question::SelfReview), "{asked:?}");

    let rules = format!("{AUTHORIZATION}/selfsubjectrulesreviews");
    let spec = json!({"namespace": "default"});
    let listed = review(&alice, "SelfSubjectRulesReview", &rules, spec).await;
    assert_eq!(listed["incomplete"], false);
    assert_eq!(extension.take(), [], "rules are not listed by it");
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn the_no_opinion_of_the_extension_comes_after_that_of_others() {
    let engine = open_on_virtual_time(1).await;
    OneUser::mounted(&engine, "alice");
    let admin = admin(&engine);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "dangling"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nope"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    post(&admin, &format!("{RBAC}/clusterrolebindings"), &binding).await.ok();
    let spec = json!({"user": "bob", "nonResourceAttributes": {"verb": "get", "path": "/x"}});
    let path = format!("{AUTHORIZATION}/subjectaccessreviews");
    let status = review(&admin, "SubjectAccessReview", &path, spec).await;
    assert_eq!(
        status["reason"],
        "RBAC: clusterrole.rbac.authorization.k8s.io \"nope\" not found\nextension: not today"
    );
    engine.close().await;
}

#[tokio::test(start_paused = true)]
async fn an_impersonated_user_is_the_one_who_is_asked_about() {
    let engine = open_on_virtual_time(1).await;
    let extension = OneUser::mounted(&engine, "alice");
    let admin = admin(&engine);
    let as_alice = [("impersonate-user", "alice"), ("impersonate-extra-issuer", "a")];
    get_as(&admin, MAPS, &as_alice).await.ok();
    let asked = extension.take();
    assert_eq!((asked.len(), asked[0].user.as_str()), (1, "alice"), "{asked:?}");
    assert_eq!(asked[0].extra["issuer"], ["a"]);
    assert_eq!(get_as(&admin, MAPS, &[("impersonate-user", "bob")]).await.status, 403);
    extension.take();

    // Whoever may impersonate by the extension alone acts as the other, with the other's rights.
    let alice = engine.client(user("alice", &[]));
    let answer = get_as(&alice, MAPS, &[("impersonate-user", "bob")]).await;
    assert_eq!(answer.status, 403);
    assert!(answer.message().contains("User \"bob\" cannot list"), "{}", answer.message());
    let asked = extension.take();
    let users: Vec<_> = asked.iter().map(|asked| asked.user.as_str()).collect();
    assert_eq!(users.first().zip(users.last()), Some((&"alice", &"bob")), "{asked:?}");
    engine.close().await;
}

/// A right to bind that the extension gives is a right to bind.
#[tokio::test(start_paused = true)]
async fn rights_over_roles_may_come_from_the_extension() {
    let engine = open_on_virtual_time(1).await;
    let alice = engine.client(user("alice", &[]));
    OneUser::mounted(&engine, "alice");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "all"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    });
    post(&alice, &format!("{RBAC}/clusterroles"), &role).await.ok();
    engine.close().await;
}
