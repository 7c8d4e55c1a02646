//! A server with one Instance that Ada was lent, and what people type about it.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::client;
use crate::folder::Folder;
use crate::process::{Ended, Running, command, sojourn};

const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
const LAB: &str = "lab.sojourn.dev/v1alpha1";

/// A server, and somebody at a terminal.
pub(crate) struct Fixture {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) client: Client,
    pub(crate) server: Running,
    _folder: Folder,
}

impl Fixture {
    /// A server with nothing in it.
    pub(crate) async fn empty(more: &[&str]) -> Self {
        let folder = Folder::new();
        let server = Running::up_in_memory(&folder, more);
        let kubeconfig = server.kubeconfig();
        let client = client::connect(&kubeconfig).await;
        Self { kubeconfig, client, server, _folder: folder }
    }

    /// One with Ada's instance, whose Pods are played by nobody: commands only look and ask.
    pub(crate) async fn with_instance() -> Self {
        let stage = Self::empty(&["--no-pods"]).await;
        stage.lend().await;
        stage.until(|status| status["next"]["at"].is_string()).await;
        stage
    }

    /// The same, where nobody decides anything: a status is what a test writes.
    pub(crate) async fn without_controllers() -> Self {
        let stage = Self::empty(&["--no-pods", "--no-controllers"]).await;
        for text in sojourn(&["crds"]).stdout.split("---\n").filter(|text| !text.trim().is_empty())
        {
            stage.apply(serde_saphyr::from_str(text).expect("YAML")).await;
        }
        stage.lend().await;
        stage
    }

    /// Makes Ada's instance, and what it names.
    async fn lend(&self) {
        self.apply(json!({
            "apiVersion": LAB, "kind": "Tenant", "metadata": {"name": "ada"},
            "spec": {"firstName": "Ada", "lastName": "Lovelace", "email": "ada@example.org"},
        }))
        .await;
        self.apply(json!({
            "apiVersion": LAB, "kind": "Template",
            "metadata": {"name": "notebook", "namespace": "default"},
            "spec": {
                "inactivityTimeout": "30d", "deleteAfter": "90d",
                "environmentList": [{"name": "web", "command": ["true"]}],
            },
        }))
        .await;
        self.apply(json!({
            "apiVersion": LAB, "kind": "Instance",
            "metadata": {"name": "one", "namespace": "default"},
            "spec": {"template": {"name": "notebook"}, "tenant": {"name": "ada"}},
        }))
        .await;
    }

    /// Writes into the instance's status.
    pub(crate) async fn set_status(&self, status: Value) {
        let named = json!({
            "apiVersion": LAB, "kind": "Instance",
            "metadata": {"name": "one", "namespace": "default"},
        });
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        self.api(&named).patch_status("one", &params, &patch).await.expect("a status");
    }

    fn api(&self, object: &Value) -> Api<DynamicObject> {
        let text = |name: &str| object[name].as_str().expect("a text").to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Applies an object as kubectl would; an error is the server's refusal.
    pub(crate) async fn try_apply(&self, object: Value) -> Result<(), String> {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let params = PatchParams::apply("test").force();
        let applied = self.api(&object).patch(&name, &params, &Patch::Apply(object)).await;
        applied.map(drop).map_err(|error| match error {
            kube::Error::Api(status) => status.message,
            other => panic!("the API is there: {other}"),
        })
    }

    pub(crate) async fn apply(&self, object: Value) {
        self.try_apply(object.clone()).await.unwrap_or_else(|error| panic!("{object}: {error}"));
    }

    pub(crate) async fn instance(&self) -> DynamicObject {
        let named = json!({
            "apiVersion": LAB, "kind": "Instance",
            "metadata": {"name": "one", "namespace": "default"},
        });
        self.api(&named).get("one").await.expect("it is there")
    }

    /// Waits until the instance's status is as it should be.
    pub(crate) async fn until(&self, is: impl Fn(&Value) -> bool) -> Value {
        let waiting = async {
            loop {
                let status = self.instance().await.data["status"].clone();
                if is(&status) {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(COMMAND_TIMEOUT, waiting).await.expect("in time")
    }

    /// Types a command, and waits for its end.
    pub(crate) async fn types<A: AsRef<OsStr>>(&self, args: &[A]) -> Ended {
        let mut typed = command(args);
        typed.arg("--kubeconfig").arg(&self.kubeconfig);
        let ended = tokio::task::spawn_blocking(|| Running::start(typed).ended());
        ended.await.expect("it ends")
    }

    /// The same, for one that works; what it prints.
    pub(crate) async fn prints(&self, args: &[&str]) -> String {
        let ended = self.types(args).await;
        assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.stderr);
        ended.stdout
    }

    /// The same, for one that does not; the code, and what people are told.
    pub(crate) async fn refuses(&self, args: &[&str]) -> (i32, String) {
        let ended = self.types(args).await;
        assert_eq!(ended.stdout, "", "{args:?}");
        (ended.code.expect("it ends by itself"), ended.stderr)
    }
}
