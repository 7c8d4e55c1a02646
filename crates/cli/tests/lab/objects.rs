//! Objects of an API server as plain JSON, as clients without our types see them.

use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::wait::{eventually, within};

const FIELD_MANAGER: &str = "lab-tests";

/// How an API server calls what the tests touch: kind, group, version, plural.
const KINDS: [(&str, &str, &str, &str); 24] = [
    ("Instance", "lab.sojourn.dev", "v1alpha1", "instances"),
    ("Template", "lab.sojourn.dev", "v1alpha1", "templates"),
    ("Tenant", "lab.sojourn.dev", "v1alpha1", "tenants"),
    ("InstanceGroup", "group.sojourn.dev", "v1alpha1", "instancegroups"),
    ("Machine", "group.sojourn.dev", "v1alpha1", "machines"),
    ("BreakglassEscalation", "access.sojourn.dev", "v1alpha1", "breakglassescalations"),
    ("BreakglassSession", "access.sojourn.dev", "v1alpha1", "breakglasssessions"),
    (
        "DedicatedGameServerCollection",
        "game.sojourn.dev",
        "v1alpha1",
        "dedicatedgameservercollections",
    ),
    ("DedicatedGameServer", "game.sojourn.dev", "v1alpha1", "dedicatedgameservers"),
    ("ClusterDeployment", "cluster.sojourn.dev", "v1alpha1", "clusterdeployments"),
    ("Namespace", "", "v1", "namespaces"),
    ("ConfigMap", "", "v1", "configmaps"),
    ("Secret", "", "v1", "secrets"),
    ("ServiceAccount", "", "v1", "serviceaccounts"),
    ("Pod", "", "v1", "pods"),
    ("Event", "", "v1", "events"),
    ("Service", "", "v1", "services"),
    ("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"),
    ("Job", "batch", "v1", "jobs"),
    ("Ingress", "networking.k8s.io", "v1", "ingresses"),
    ("CustomResourceDefinition", "apiextensions.k8s.io", "v1", "customresourcedefinitions"),
    ("Role", "rbac.authorization.k8s.io", "v1", "roles"),
    ("RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings"),
    ("ClusterRoleBinding", "rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
];

/// What an API server holds.
#[derive(Clone)]
pub(crate) struct Objects(pub(crate) Client);

impl Objects {
    fn api(&self, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let known = KINDS.iter().find(|(known, ..)| *known == kind);
        let (_, group, version, plural) = known.unwrap_or_else(|| panic!("no kind {kind} here"));
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        match namespace {
            Some(namespace) => Api::namespaced_with(self.0.clone(), namespace, &resource),
            None => Api::all_with(self.0.clone(), &resource),
        }
    }

    /// Makes an object as it is given, or makes one that is there so. An API server that does not
    /// know the kind yet, or has no account for the namespace yet, is waited for.
    pub(crate) async fn apply(&self, object: &Value) {
        let (kind, name) = (object["kind"].as_str(), object["metadata"]["name"].as_str());
        let (kind, name) = (kind.expect("a kind"), name.expect("a name"));
        let api = self.api(kind, object["metadata"]["namespace"].as_str());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let what = format!("{kind} {name} is applied");
        eventually(&what, async || match api.patch(name, &params, &Patch::Apply(object)).await {
            Ok(_) => Some(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404 | 409) => None,
            Err(kube::Error::Api(status)) => panic!("{kind} {name}: {status:?}"),
            // The server is being started again.
            Err(_) => None,
        })
        .await;
    }

    /// Nothing if it is not there; an API server that does not answer is waited for.
    pub(crate) async fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let api = self.api(kind, Some(namespace));
        let found = eventually("the API server answers", async || api.get_opt(name).await.ok());
        found.await.map(|object| serde_json::to_value(object).expect("JSON"))
    }

    /// Those that carry these labels.
    pub(crate) async fn list(&self, kind: &str, namespace: &str, labels: &str) -> Vec<Value> {
        let api = self.api(kind, Some(namespace));
        let params = ListParams::default().labels(labels);
        let list = eventually("the API server answers", async || api.list(&params).await.ok());
        let list = list.await.items.into_iter();
        list.map(|object| serde_json::to_value(object).expect("JSON")).collect()
    }

    /// Those of every namespace.
    pub(crate) async fn list_all(&self, kind: &str) -> Vec<Value> {
        let list = self.api(kind, None).list(&ListParams::default()).await.expect("a list");
        let list = list.items.into_iter();
        list.map(|object| serde_json::to_value(object).expect("JSON")).collect()
    }

    pub(crate) async fn patch(&self, kind: &str, namespace: &str, name: &str, with: &Value) {
        let api = self.api(kind, Some(namespace));
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(with)).await;
        patched.unwrap_or_else(|e| panic!("{kind} {name}: {e}"));
    }

    pub(crate) async fn delete(&self, kind: &str, namespace: &str, name: &str) {
        let api = self.api(kind, Some(namespace));
        let deleted = api.delete(name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|e| panic!("{kind} {name}: {e}"));
    }

    /// Waits until an Instance is so, and says how it is then.
    pub(crate) async fn until(
        &self,
        instance: &Named,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until_within(crate::wait::EVENTUALLY_TIMEOUT, instance, what, is_so).await
    }

    pub(crate) async fn until_within(
        &self,
        bound: std::time::Duration,
        instance: &Named,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let last = std::sync::Mutex::new(None);
        // What it was last is what a reader of the failure wants to know.
        let shown = PrintOnPanic { instance, last: &last };
        let seen = within(bound, what, async || {
            let found = self.get("Instance", &instance.namespace, &instance.name).await;
            last.lock().expect("no panic inside").clone_from(&found);
            found.filter(&is_so)
        })
        .await;
        std::mem::forget(shown);
        seen
    }

    pub(crate) async fn until_gone(&self, kind: &str, namespace: &str, name: &str) {
        let named = Named { namespace: namespace.to_owned(), name: name.to_owned() };
        let last = std::sync::Mutex::new(None);
        let shown = PrintOnPanic { instance: &named, last: &last };
        eventually(&format!("{kind} {name} is gone"), async || {
            let found = self.get(kind, namespace, name).await;
            last.lock().expect("no panic inside").clone_from(&found);
            found.is_none().then_some(())
        })
        .await;
        std::mem::forget(shown);
    }

    pub(crate) async fn make_namespace(&self, name: &str) {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.apply(&namespace).await;
    }
}

/// Tells at a panic how an Instance was last seen.
struct PrintOnPanic<'a> {
    instance: &'a Named,
    last: &'a std::sync::Mutex<Option<Value>>,
}

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        let last = self.last.lock().map(|last| last.clone()).unwrap_or_default();
        let last = last.map_or_else(|| "not there".to_owned(), |last| format!("{last:#}"));
        println!("{}/{} is {last}", self.instance.namespace, self.instance.name);
    }
}

/// Which Instance.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A time of a status, in milliseconds.
pub(crate) fn time(at: &Value) -> i64 {
    let text = at.as_str().unwrap_or_else(|| panic!("{at} is no time"));
    text.parse::<jiff::Timestamp>().unwrap_or_else(|e| panic!("{text}: {e}")).as_millisecond()
}
