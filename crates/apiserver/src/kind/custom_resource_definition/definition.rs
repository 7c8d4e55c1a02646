//! An accepted definition in the form that serving its kind needs: typed, and compiled.

use std::sync::Arc;

use serde_json::Value;

use super::precedence::Precedence;
use crate::json::Access;
use crate::schema::{CompileError, Schema};

/// A definition that was accepted.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) group: String,
    pub(crate) names: Names,
    pub(crate) scope: Scope,
    pub(crate) versions: Vec<Version>,
}

/// What the kind is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Cluster,
    Namespaced,
}

/// One version of the kind.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    /// The warning that every use of a deprecated version gets.
    pub(crate) deprecation: Option<String>,
    /// Versions with the same schema share it.
    pub(crate) schema: Arc<Schema>,
    pub(crate) schema_json: Arc<Value>,
    /// Whether `status` is a subresource.
    pub(crate) status: bool,
    pub(crate) scale: Option<ScalePaths>,
    /// As declared; a version that declares none shows its age.
    pub(crate) columns: Vec<PrinterColumn>,
    /// Paths such as `.spec.color`.
    pub(crate) selectable_fields: Vec<String>,
}

/// Where the `scale` subresource finds its numbers: paths such as `.spec.replicas`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) label_selector: Option<String>,
}

/// A column of tables of this kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrinterColumn {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i32,
    pub(crate) json_path: String,
}

/// Why a definition cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DefinitionError {
    #[error("{definition} has no scope")]
    NoScope { definition: String },
    #[error("version {version} of {definition} has no schema")]
    NoSchema { definition: String, version: String },
    #[error("the schema of version {version} of {definition} does not compile")]
    Schema { definition: String, version: String, source: CompileError },
}

impl Definition {
    /// Reads a definition that validation accepted.
    pub(crate) fn parse(definition: &Value) -> Result<Self, DefinitionError> {
        let name = definition.at("metadata").text("name").to_owned();
        let spec = definition.at("spec");
        let scope = match spec.text("scope") {
            "Cluster" => Scope::Cluster,
            "Namespaced" => Scope::Namespaced,
            _ => return Err(DefinitionError::NoScope { definition: name }),
        };
        let mut versions: Vec<Version> = Vec::new();
        for version in spec.list("versions") {
            let parsed = Version::parse(version, &versions, &name)?;
            versions.push(Version { deprecation: deprecation(version, spec), ..parsed });
        }
        let group = spec.text("group").to_owned();
        Ok(Self { group, names: Names::parse(spec.at("names")), scope, versions })
    }

    /// The version that objects are stored in.
    pub(crate) fn storage(&self) -> Option<&Version> {
        self.versions.iter().find(|v| v.storage)
    }
}

impl Names {
    /// Reads `spec.names` or `status.acceptedNames`.
    pub(crate) fn parse(names: &Value) -> Self {
        Self {
            plural: names.text("plural").to_owned(),
            singular: names.text("singular").to_owned(),
            kind: names.text("kind").to_owned(),
            list_kind: names.text("listKind").to_owned(),
            short_names: texts(names.list("shortNames")),
            categories: texts(names.list("categories")),
        }
    }
}

/// The declared warning, or upstream's words, which name the best version to use instead.
fn deprecation(version: &Value, spec: &Value) -> Option<String> {
    if !version.flag("deprecated") {
        return None;
    }
    if let Some(declared) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(declared.to_owned());
    }
    let (group, kind) = (spec.text("group"), spec.at("names").text("kind"));
    let name = version.text("name");
    let better = spec
        .list("versions")
        .iter()
        .filter(|v| v.flag("served") && !v.flag("deprecated"))
        .map(|v| v.text("name"))
        .filter(|candidate| Precedence::of(candidate) > Precedence::of(name))
        .max_by_key(|candidate| Precedence::of(candidate));
    let advice = better.map(|b| format!("; use {group}/{b} {kind}")).unwrap_or_default();
    Some(format!("{group}/{name} {kind} is deprecated{advice}"))
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

impl Version {
    fn parse(version: &Value, before: &[Self], definition: &str) -> Result<Self, DefinitionError> {
        let name = version.text("name").to_owned();
        let json = version.at("schema").at("openAPIV3Schema");
        let shared = before.iter().find(|other| *other.schema_json == *json);
        let (schema, schema_json) = match shared {
            Some(other) => (Arc::clone(&other.schema), Arc::clone(&other.schema_json)),
            None if !json.is_object() => {
                let definition = definition.to_owned();
                return Err(DefinitionError::NoSchema { definition, version: name });
            }
            None => match Schema::compile(json) {
                Ok(schema) => (Arc::new(schema), Arc::new(json.clone())),
                Err(source) => {
                    let definition = definition.to_owned();
                    return Err(DefinitionError::Schema { definition, version: name, source });
                }
            },
        };
        let subresources = version.at("subresources");
        let fields = version.list("selectableFields").iter();
        Ok(Self {
            name,
            served: version.flag("served"),
            storage: version.flag("storage"),
            deprecation: None,
            schema,
            schema_json,
            status: subresources.at("status").is_object(),
            scale: ScalePaths::parse(subresources.at("scale")),
            columns: version
                .list("additionalPrinterColumns")
                .iter()
                .map(PrinterColumn::parse)
                .collect(),
            selectable_fields: fields.map(|field| field.text("jsonPath").to_owned()).collect(),
        })
    }
}

impl ScalePaths {
    fn parse(scale: &Value) -> Option<Self> {
        let label_selector = scale.text("labelSelectorPath");
        scale.is_object().then(|| Self {
            spec_replicas: scale.text("specReplicasPath").to_owned(),
            status_replicas: scale.text("statusReplicasPath").to_owned(),
            label_selector: Some(label_selector.to_owned()).filter(|path| !path.is_empty()),
        })
    }
}

impl PrinterColumn {
    fn parse(column: &Value) -> Self {
        Self {
            name: column.text("name").to_owned(),
            kind: column.text("type").to_owned(),
            format: column.text("format").to_owned(),
            description: column.text("description").to_owned(),
            priority: column
                .int("priority")
                .and_then(|p| i32::try_from(p).ok())
                .unwrap_or_default(),
            json_path: column.text("jsonPath").to_owned(),
        }
    }
}
