//! The objects that the measurements write, and the account that writes them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use serde_json::{Value, json};

use super::client::{Call, Client};

/// Where most of the load goes, and where the account is.
pub(crate) const NAMESPACE: &str = "bench";
/// Only the watches' events happen here.
pub(crate) const WATCHED: &str = "watched";
/// Holds a known number of objects, to be listed.
pub(crate) const LISTED: &str = "listed";
const ACCOUNT: &str = "load";

/// The account's name as RBAC sees it.
pub(crate) const USER: &str = "system:serviceaccount:bench:load";
/// The account's groups.
pub(crate) const GROUPS: [&str; 2] = ["system:serviceaccounts", "system:serviceaccounts:bench"];

const WIDGETS: &str = "/apis/bench.example.com/v1/namespaces/bench/widgets";
const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Makes the namespaces, the kind `Widget`, and an account that may use both.
pub(crate) async fn prepare(admin: &Client) -> Result<()> {
    for namespace in [NAMESPACE, WATCHED, LISTED] {
        post(
            admin,
            "/api/v1/namespaces",
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        )
        .await?;
    }
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(admin, definitions, &definition()).await?;
    post(
        admin,
        &format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"),
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}),
    )
    .await?;
    let rbac = "rbac.authorization.k8s.io";
    post(
        admin,
        &format!("/apis/{rbac}/v1/clusterroles"),
        &json!({
            "apiVersion": format!("{rbac}/v1"),
            "kind": "ClusterRole",
            "metadata": {"name": ACCOUNT},
            "rules": [{
                "apiGroups": ["", "bench.example.com"],
                "resources": ["configmaps", "widgets"],
                "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
            }],
        }),
    )
    .await?;
    post(
        admin,
        &format!("/apis/{rbac}/v1/clusterrolebindings"),
        &json!({
            "apiVersion": format!("{rbac}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
        }),
    )
    .await
}

async fn post(client: &Client, path: &str, object: &Value) -> Result<()> {
    client.finish(0, Call::post(path, object.to_string())).await.map(|_| ())
}

/// A token of the account.
pub(crate) async fn token(admin: &Client) -> Result<String> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token");
    let wanted = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 7200},
    });
    let granted = admin.json(Call::post(path, wanted.to_string())).await?;
    let token = granted["status"]["token"].as_str().context("a TokenRequest without a token")?;
    Ok(token.to_owned())
}

/// Waits until the account's rights and the kind `Widget` have come into effect.
pub(crate) async fn settled(account: &Client) -> Result<()> {
    let started = Instant::now();
    for path in [config_maps(NAMESPACE), WIDGETS.to_owned()] {
        while let Err(error) = account.finish(0, Call::get(&path)).await {
            if started.elapsed() > SETTLE_TIMEOUT {
                bail!(error.context("what was prepared did not come into effect"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

pub(crate) fn config_maps(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

/// Creates a ConfigMap of 1.4 KB.
pub(crate) fn create_config_map(namespace: &str, name: &str) -> Call {
    Call::post(config_maps(namespace), config_map(name, "created"))
}

/// Replaces it, with a change.
pub(crate) fn update_config_map(namespace: &str, name: &str, value: &str) -> Call {
    Call::put(format!("{}/{name}", config_maps(namespace)), config_map(name, value))
}

/// Changes one value in it.
pub(crate) fn patch_config_map(namespace: &str, name: &str, value: &str) -> Call {
    let patch = json!({"data": {"changing": value}});
    Call::merge_patch(format!("{}/{name}", config_maps(namespace)), patch.to_string())
}

/// Creates a custom resource of 1.4 KB, which its schema has to be held against.
pub(crate) fn create_widget(name: &str) -> Call {
    let text = filling(name);
    let variables: Vec<Value> = (0..12)
        .map(|i| json!({"name": format!("VARIABLE_{i}"), "value": &text[i * 50..][..50]}))
        .collect();
    let widget = json!({
        "apiVersion": "bench.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "load"}},
        "spec": {
            "replicas": 3,
            "image": "registry.example.com/team/widget:1.2.3",
            "paused": false,
            "environment": variables,
            "resources": {"processors": 2, "memory": 512},
            "script": &text[600..850],
        },
    });
    Call::post(WIDGETS, widget.to_string())
}

fn config_map(name: &str, value: &str) -> Bytes {
    let text = filling(name);
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "load"}},
        "data": {
            "changing": value,
            "first.conf": &text[..400],
            "second.conf": &text[400..800],
            "third.conf": &text[800..],
        },
    });
    object.to_string().into()
}

/// A text of 1,200 letters that differs from name to name. It is cheap to make, since clients and
/// servers share the processors.
fn filling(name: &str) -> String {
    let mut text = String::with_capacity(1_200 + name.len());
    while text.len() < 1_200 {
        text.push_str(name);
        text.push_str("=the quick brown fox jumps over the lazy dog;");
    }
    text.truncate(1_200);
    text
}

fn definition() -> Value {
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": widget_spec(),
            "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.bench.example.com"},
        "spec": {
            "group": "bench.example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

fn widget_spec() -> Value {
    let short = json!({"type": "string", "maxLength": 256});
    let count = json!({"type": "integer", "minimum": 0, "maximum": 1_000_000});
    let variable = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "maxLength": 64, "pattern": "^[A-Z][A-Z0-9_]*$"},
            "value": short,
        },
    });
    json!({
        "type": "object",
        "required": ["image"],
        "properties": {
            "replicas": {"type": "integer", "minimum": 0, "default": 1},
            "image": short,
            "paused": {"type": "boolean"},
            "strategy": {
                "type": "string",
                "enum": ["Rolling", "Recreate"],
                "default": "Rolling",
            },
            "script": {"type": "string", "maxLength": 4096},
            "resources": {
                "type": "object",
                "properties": {"processors": count, "memory": count},
            },
            "environment": {
                "type": "array",
                "maxItems": 64,
                "items": variable,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        },
    })
}
