use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Mutex;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::channel::mpsc;
use futures::stream::BoxStream;
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use serde_json::{Value, json};
use sojourn_rbac::{Attributes, User};
use tokio::sync::Notify;

use super::*;

const KINDS: [(&str, &str); 4] = [
    ("roles", "Role"),
    ("clusterroles", "ClusterRole"),
    ("rolebindings", "RoleBinding"),
    ("clusterrolebindings", "ClusterRoleBinding"),
];

type Event = Result<Frame<Bytes>, Infallible>;
type Events = BoxStream<'static, Event>;

/// An API that lists what it was given, and reports what a test sends.
#[derive(Default)]
struct FakeApi {
    lists: Mutex<HashMap<&'static str, Vec<Value>>>,
    watches: Mutex<HashMap<&'static str, mpsc::UnboundedReceiver<Event>>>,
    senders: Mutex<HashMap<&'static str, mpsc::UnboundedSender<Event>>>,
    /// Whether bindings are listed at all, and told when they are.
    bindings: Notify,
}

impl FakeApi {
    fn new(lists: &[(&'static str, Value)]) -> Arc<Self> {
        let api = Self::default();
        for (resource, object) in lists {
            let mut lists = api.lists.lock().expect("unpoisoned");
            lists.entry(*resource).or_default().push(object.clone());
        }
        for (resource, _) in KINDS {
            let (send, receive) = mpsc::unbounded();
            api.senders.lock().expect("unpoisoned").insert(resource, send);
            api.watches.lock().expect("unpoisoned").insert(resource, receive);
        }
        Arc::new(api)
    }

    fn client(self: &Arc<Self>) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request.uri()).await) }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, uri: &http::Uri) -> Response<StreamBody<Events>> {
        let resource = uri.path().rsplit('/').next().unwrap_or_default();
        let (resource, kind) =
            *KINDS.iter().find(|(known, _)| *known == resource).expect("a kind of RBAC");
        if uri.query().is_some_and(|query| query.contains("watch=true")) {
            let frames = self.watches.lock().expect("unpoisoned").remove(resource);
            let frames = frames.expect("one watch of each kind");
            return Response::new(StreamBody::new(frames.boxed()));
        }
        if resource == "rolebindings" {
            self.bindings.notified().await;
        }
        let items = self.lists.lock().expect("unpoisoned").remove(resource).unwrap_or_default();
        let list = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}List"),
            "metadata": {"resourceVersion": "10"}, "items": items,
        });
        let frame = Ok(Frame::data(Bytes::from(list.to_string())));
        Response::new(StreamBody::new(futures::stream::iter([frame]).boxed()))
    }

    fn report(&self, resource: &str, event: &str, object: &Value) {
        let line = format!("{}\n", json!({"type": event, "object": object}));
        let senders = self.senders.lock().expect("unpoisoned");
        senders[resource].unbounded_send(Ok(Frame::data(line.into()))).expect("it is watched");
    }
}

fn object(kind: &str, namespace: &str, name: &str, version: u32, rest: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "resourceVersion": version.to_string()},
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    let object_mut = object.as_object_mut().expect("an object");
    object_mut.extend(rest.as_object().expect("an object").clone());
    object
}

fn lists(resource: &str) -> Value {
    json!({"rules": [{"verbs": ["list"], "apiGroups": [""], "resources": [resource]}]})
}

fn to_ops(kind: &str, role: &str) -> Value {
    json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "ops"}],
    })
}

/// Waits until the policy says so of listing `resource` in `namespace`.
async fn until(policy: &PolicyCache, namespace: &str, resource: &str, expected: bool) {
    let user = User { groups: vec!["ops".to_owned()], ..User::default() };
    let request = Attributes { namespace, ..Attributes::on_resource(&user, "list", "", resource) };
    let holds =
        || policy.read().is_some_and(|policy| policy.authorize(&request).is_allowed() == expected);
    while !holds() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_policy_follows_roles_and_bindings_of_both_scopes() {
    let api = FakeApi::new(&[
        ("roles", object("Role", "a", "pods", 1, &lists("pods"))),
        ("clusterroles", object("ClusterRole", "", "maps", 2, &lists("configmaps"))),
        ("rolebindings", object("RoleBinding", "a", "pods", 3, &to_ops("Role", "pods"))),
    ]);
    let policy = PolicyCache::default();
    let mut tasks = Tasks::default();
    policy.follow(&api.client(), WatchSettings::default(), &mut tasks);
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    assert!(!policy.is_synced(), "one kind is not listed yet");
    assert!(policy.read().is_none());
    api.bindings.notify_one();
    policy.until_synced().await;
    assert!(policy.is_synced());
    until(&policy, "a", "pods", true).await;
    until(&policy, "b", "pods", false).await;
    until(&policy, "a", "configmaps", false).await;

    let everywhere = object("ClusterRoleBinding", "", "maps", 11, &to_ops("ClusterRole", "maps"));
    api.report("clusterrolebindings", "ADDED", &everywhere);
    until(&policy, "b", "configmaps", true).await;
    let other = object("ClusterRole", "", "maps", 12, &lists("secrets"));
    api.report("clusterroles", "MODIFIED", &other);
    until(&policy, "b", "secrets", true).await;
    until(&policy, "b", "configmaps", false).await;
    api.report("clusterrolebindings", "DELETED", &everywhere);
    until(&policy, "b", "secrets", false).await;
    let namespaced = object("RoleBinding", "a", "pods", 3, &to_ops("Role", "pods"));
    api.report("rolebindings", "DELETED", &namespaced);
    until(&policy, "a", "pods", false).await;
    tasks.stop().await;
}
