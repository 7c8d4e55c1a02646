//! An engine that knows our kinds, and plain requests to it.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind, Status};
use kube::discovery::ApiResource;
use kube::{Api, Client, Error};
use serde_json::{Value, json};
use sojourn_apiserver::auth::identity::Identity;
use sojourn_apiserver::{Config, Engine, Hook, HookScope, Hooks};
use sojourn_operator::admission::{self, Admission, Providers, Setup};
use sojourn_rbac::User;

const ESTABLISH_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn user(name: &str, groups: &[&str]) -> Identity {
    let groups = groups.iter().map(|&group| group.to_owned()).collect();
    Identity::authenticated(User { name: name.to_owned(), groups, ..User::default() })
}

/// An engine with our kinds, our roles and our admission.
pub(crate) async fn engine() -> (Engine, Client) {
    let providers = Providers::default().with("fake", |_| Vec::new());
    let admission = Admission::new(&Setup { providers, ..Setup::default() });
    let scope = HookScope { groups: admission.groups(), resources: admission.resources() };
    let hook = Hook::new(admission::NAME, scope, admission.service());
    let hooks = Hooks { mutating: Vec::new(), validating: vec![hook] };
    let engine = Engine::open(Config::in_memory().hooks(hooks)).await.expect("an engine opens");
    let client = engine.client(user("admin", &["system:masters"]));
    admission.connect(client.clone());
    install_kinds(&client).await;
    (engine, client)
}

/// Makes our kinds and roles known, and waits until they are.
pub(crate) async fn install_kinds(client: &Client) {
    let params = PatchParams::apply("test").force();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in sojourn_api::crds() {
        let name = definition.metadata.name.clone().expect("a definition has a name");
        let patch = Patch::Apply(&definition);
        definitions.patch(&name, &params, &patch).await.expect("a definition is good");
        let established = async {
            while !is_established(&definitions.get(&name).await.expect("it is there")) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(ESTABLISH_TIMEOUT, established)
            .await
            .expect("it is established in time");
    }
    for role in sojourn_api::roles() {
        let name = role.metadata.name.clone().expect("a role has a name");
        let api: Api<ClusterRole> = Api::all(client.clone());
        api.patch(&name, &params, &Patch::Apply(&role)).await.expect("a role is good");
    }
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Established" && c.status == "True"))
}

/// The API of a kind of ours, or of any other that the object names.
pub(crate) fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |path: &str| object[path].as_str().expect("a text").to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Creates the object; an error is the server's refusal.
pub(crate) async fn create(client: &Client, object: &Value) -> Result<DynamicObject, Box<Status>> {
    send(client, object, false).await
}

/// Finds out whether the object would be created.
pub(crate) async fn dry(client: &Client, object: &Value) -> Result<DynamicObject, Box<Status>> {
    send(client, object, true).await
}

async fn send(
    client: &Client,
    object: &Value,
    dry_run: bool,
) -> Result<DynamicObject, Box<Status>> {
    let typed = serde_json::from_value(object.clone()).expect("an object");
    let params = PostParams { dry_run, field_manager: None };
    refused(api(client, object).create(&params, &typed).await)
}

/// Merges `patch` into the object of that name.
pub(crate) async fn merge(
    client: &Client,
    object: &Value,
    patch: &Value,
) -> Result<DynamicObject, Box<Status>> {
    let name = object["metadata"]["name"].as_str().expect("a name");
    let params = PatchParams::default();
    refused(api(client, object).patch(name, &params, &Patch::Merge(patch)).await)
}

/// Deletes the object of that name.
pub(crate) async fn delete(
    client: &Client,
    object: &Value,
    how: &DeleteParams,
) -> Result<(), Box<Status>> {
    let name = object["metadata"]["name"].as_str().expect("a name");
    refused(api(client, object).delete(name, how).await).map(drop)
}

fn refused<T>(result: Result<T, Error>) -> Result<T, Box<Status>> {
    result.map_err(|error| match error {
        Error::Api(status) => status,
        other => panic!("the API is there: {other}"),
    })
}

/// Merges `patch` into the object's status.
pub(crate) async fn merge_status(
    client: &Client,
    object: &Value,
    patch: &Value,
) -> Result<DynamicObject, Box<Status>> {
    let name = object["metadata"]["name"].as_str().expect("a name");
    let patch = json!({ "status": patch });
    let params = PatchParams::default();
    refused(api(client, object).patch_status(name, &params, &Patch::Merge(&patch)).await)
}

/// The object is refused, at this field, in words that hold `says`.
pub(crate) async fn refuses(client: &Client, object: Value, field: &str, says: &str) {
    let status = dry(client, &object).await.expect_err("it is bad");
    assert_told(&status, field, says);
}

/// A refusal is about this field, in words that hold `says`.
pub(crate) fn assert_told(status: &Status, field: &str, says: &str) {
    assert_eq!(status.code, 422, "{status:?}");
    let causes = causes(status);
    let told = causes.iter().any(|(path, message)| *path == field && message.contains(says));
    assert!(told, "{field}: {says}: not in {causes:?}");
}

/// Gives a person a role in the namespace of the tests.
pub(crate) async fn bind(client: &Client, role: &str, person: &str) {
    bind_in(client, "default", role, person).await;
}

pub(crate) async fn bind_in(client: &Client, namespace: &str, role: &str, person: &str) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": format!("{person}-{role}"), "namespace": namespace },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
        },
        "subjects": [
            { "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": person },
        ],
    });
    create(client, &binding).await.expect("a binding is good");
}

pub(crate) fn mark(name: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { name: value } } })
}

pub(crate) fn assert_needs_hold(status: &Status) {
    assert_eq!(status.code, 403, "{status:?}");
    assert!(status.message.contains("needs the verb `hold`"), "{}", status.message);
}

/// Creates everything in a folder of examples, in order; the kinds of what was there.
pub(crate) async fn create_examples(client: &Client, folder: &str) -> Vec<String> {
    // Every installation has it.
    let own = serde_json::to_value(sojourn_api::install::namespace()).expect("JSON");
    create(client, &own).await.expect("it is not there yet");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("examples are there")
        .map(|file| file.expect("a file").path())
        .collect();
    files.sort();
    let mut kinds = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file");
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
        for object in objects {
            create(client, &object).await.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            if object["kind"] == "Namespace" {
                until_pods_may_be_made(client, &object).await;
            }
            kinds.push(object["kind"].as_str().expect("a kind").to_owned());
        }
    }
    kinds
}

/// The API makes the ServiceAccount of a new namespace a moment later, and refuses Pods until then.
async fn until_pods_may_be_made(client: &Client, namespace: &Value) {
    let name = namespace["metadata"]["name"].as_str().expect("a name");
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    let made = async {
        while accounts.get_opt("default").await.expect("an answer").is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), made).await.expect("it is made");
}

/// The fields that a refusal names, with what it says of each.
pub(crate) fn causes(status: &Status) -> Vec<(&str, &str)> {
    let details = status.details.as_ref();
    let causes = details.map(|details| details.causes.as_slice()).unwrap_or_default();
    causes.iter().map(|cause| (cause.field.as_str(), cause.message.as_str())).collect()
}

pub(crate) fn tenant(email: &str) -> Value {
    json!({
        "apiVersion": "lab.sojourn.dev/v1alpha1", "kind": "Tenant",
        "metadata": { "name": "ada" },
        "spec": { "firstName": "Ada", "lastName": "Lovelace", "email": email },
    })
}

/// A Tenant who signs in under that name, which is the Tenant's as well.
pub(crate) async fn make_tenant(client: &Client, name: &str) {
    let mut person = tenant("ada@example.org");
    person["metadata"]["name"] = json!(name);
    person["spec"]["user"] = json!(name);
    create(client, &person).await.expect("a Tenant is good");
}

/// A Template that is good, but for what `spec` changes.
pub(crate) fn template(spec: Value) -> Value {
    let whole = json!({ "environmentList": [{ "name": "web", "image": "i" }] });
    object("lab", "Template", "notebook", with(whole, spec))
}

/// An Instance that is good, but for what `spec` changes.
pub(crate) fn instance(name: &str, spec: Value) -> Value {
    let whole = json!({ "template": { "name": "notebook" }, "tenant": { "name": "ada" } });
    object("lab", "Instance", name, with(whole, spec))
}

/// An InstanceGroup that is good, but for what `spec` changes.
pub(crate) fn group(name: &str, spec: Value) -> Value {
    let whole = json!({ "size": 3, "template": { "provider": "fake", "config": {} } });
    object("group", "InstanceGroup", name, with(whole, spec))
}

/// A Machine on demand that is good, but for what `spec` changes.
pub(crate) fn machine(name: &str, spec: Value) -> Value {
    let whole = json!({ "onDemand": true, "template": { "provider": "fake", "config": {} } });
    object("group", "Machine", name, with(whole, spec))
}

fn with(mut whole: Value, part: Value) -> Value {
    if let (Value::Object(whole), Value::Object(part)) = (&mut whole, part) {
        whole.extend(part);
    }
    whole
}

fn object(family: &str, kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": format!("{family}.sojourn.dev/v1alpha1"), "kind": kind,
        "metadata": { "name": name, "namespace": "default" },
    });
    object["spec"] = spec;
    object
}
