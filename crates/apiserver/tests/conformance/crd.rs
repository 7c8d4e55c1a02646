//! Short form for the custom resources that a scenario needs in place before it begins.

use serde::Deserialize;
use serde_json::{Value, json};

/// A CustomResourceDefinition with one version `v1`, without its boilerplate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CrdFixture {
    pub(crate) kind: String,
    #[serde(default)]
    cluster: bool,
    /// The schema of the whole object; by default anything goes.
    #[serde(default = "open_schema")]
    schema: Value,
    #[serde(default)]
    status: bool,
    #[serde(default)]
    scale: Option<Value>,
    #[serde(default)]
    columns: Vec<Value>,
    #[serde(default)]
    selectable: Vec<Value>,
    #[serde(default, rename = "shortNames")]
    short_names: Vec<String>,
}

fn open_schema() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

impl CrdFixture {
    pub(crate) fn plural(&self) -> String {
        format!("{}s", self.kind.to_lowercase())
    }

    /// Where the instances are listed, over all namespaces.
    pub(crate) fn collection(&self, group: &str) -> String {
        format!("/apis/{group}/v1/{}", self.plural())
    }

    pub(crate) fn object(&self, group: &str) -> Value {
        let mut version = json!({
            "name": "v1",
            "served": true,
            "storage": true,
            "schema": {"openAPIV3Schema": self.schema},
        });
        if self.status {
            version["subresources"]["status"] = json!({});
        }
        if let Some(scale) = &self.scale {
            version["subresources"]["scale"] = scale.clone();
        }
        if !self.columns.is_empty() {
            version["additionalPrinterColumns"] = json!(self.columns);
        }
        if !self.selectable.is_empty() {
            version["selectableFields"] = json!(self.selectable);
        }
        let plural = self.plural();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "scope": if self.cluster { "Cluster" } else { "Namespaced" },
                "names": {
                    "kind": self.kind,
                    "plural": plural,
                    "shortNames": self.short_names,
                },
                "versions": [version],
            },
        })
    }
}
