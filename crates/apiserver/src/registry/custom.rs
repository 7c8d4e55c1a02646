//! Custom resources: everything that a write asks, compiled once from the definition.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::cel;
use crate::json::Object;
use crate::jsonpath::JsonPath;
use crate::kind::custom_resource_definition::precedence::Precedence;
use crate::kind::custom_resource_definition::{
    Definition, PrinterColumn, ScalePaths, Scope, Version as Declared,
};
use crate::schema::Schema;
use crate::store::{CommitError, Store, header};
use crate::table::Printer;

use super::builtin::api_version;
use super::{Resource, Rules, Version};

/// The rules of one custom resource, by served version.
#[derive(Debug)]
pub(crate) struct Custom {
    /// In the order of [`Resource::versions`].
    pub(crate) versions: Vec<CustomVersion>,
    /// The uid of the definition: a definition that was deleted and made anew is another one.
    pub(crate) uid: Box<str>,
    /// Objects written before this version were stored under an older schema, so defaults that
    /// came since are filled in when they are read.
    pub(crate) schema_since: u64,
    /// What is written is pruned to what the stored version declares.
    pub(crate) storage_schema: Option<Arc<Schema>>,
}

#[derive(Debug)]
pub(crate) struct CustomVersion {
    pub(crate) schema: Arc<Schema>,
    pub(crate) schema_json: Arc<Value>,
    pub(crate) rules: cel::LazyRules,
    pub(crate) printer: Printer,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) status: bool,
    /// Without the leading dot, as clients name them.
    pub(crate) selectable: Vec<Box<str>>,
    selectable_paths: Vec<JsonPath>,
}

impl CustomVersion {
    pub(crate) fn selectable_values(&self, object: &Value) -> Box<[Box<str>]> {
        self.selectable_paths.iter().map(|path| selected(path, object)).collect()
    }
}

/// The value of a selectable field as selectors compare it.
fn selected(path: &JsonPath, object: &Value) -> Box<str> {
    match path.find(object).first().copied() {
        Some(Value::String(text)) => text.as_str().into(),
        Some(Value::Null) | None => "".into(),
        Some(value) => value.to_string().into(),
    }
}

impl Resource {
    /// The resource that an established definition describes.
    pub(crate) fn custom(
        definition: &Definition,
        uid: &str,
        schema_since: u64,
        store: &Store,
    ) -> Result<Self, CommitError> {
        let kind = &definition.names.kind;
        let mut served: Vec<_> = definition.versions.iter().filter(|v| v.served).collect();
        served.sort_by_key(|v| Reverse(Precedence::of(&v.name)));
        let mut versions = Vec::with_capacity(served.len());
        let mut compiled = Vec::with_capacity(served.len());
        for version in served {
            let api_version = api_version(&definition.group, &version.name);
            versions.push(Version {
                name: version.name.as_str().into(),
                header: header(&api_version, kind).into(),
                api_version: api_version.into(),
                status: version.status,
                scale: version.scale.is_some(),
                deprecation: version.deprecation.clone(),
            });
            let selectable_paths = version
                .selectable_fields
                .iter()
                .filter_map(|path| JsonPath::parse(path).ok())
                .collect();
            compiled.push(CustomVersion {
                schema: version.schema.clone(),
                schema_json: version.schema_json.clone(),
                rules: cel::LazyRules::new(version.schema_json.clone()),
                printer: Printer::custom(&columns(version)),
                scale: version.scale.clone(),
                status: version.status,
                selectable: version
                    .selectable_fields
                    .iter()
                    .map(|path| path.strip_prefix('.').unwrap_or(path.as_str()).into())
                    .collect(),
                selectable_paths,
            });
        }
        let storage_version = definition.storage().map_or("", |v| v.name.as_str());
        let storage = api_version(&definition.group, storage_version);
        let storage_schema = definition.storage().map(|v| v.schema.clone());
        let names = &definition.names;
        let boxed = |texts: &[String]| texts.iter().map(|t| t.as_str().into()).collect();
        Ok(Self {
            group: definition.group.as_str().into(),
            plural: names.plural.as_str().into(),
            singular: names.singular.as_str().into(),
            kind: kind.as_str().into(),
            list_kind: names.list_kind.as_str().into(),
            short_names: boxed(&names.short_names),
            categories: boxed(&names.categories),
            namespaced: definition.scope == Scope::Namespaced,
            api_versions: versions.iter().map(|v: &Version| v.api_version.clone()).collect(),
            versions,
            storage: (definition.group.as_str().into(), storage_version.into()),
            storage_header: header(&storage, kind).into(),
            table: store.table(&definition.group, &definition.names.plural)?,
            zero: None,
            rules: Rules::Custom(Arc::new(Custom {
                versions: compiled,
                uid: uid.into(),
                schema_since,
                storage_schema,
            })),
        })
    }
}

/// The declared columns, in the form that the printer reads.
fn columns(version: &Declared) -> Vec<Value> {
    let column = |c: &PrinterColumn| {
        json!({
            "name": c.name, "type": c.kind, "format": c.format, "description": c.description,
            "priority": c.priority, "jsonPath": c.json_path,
        })
    };
    version.columns.iter().map(column).collect()
}

/// Drops what only the `status` subresource may set.
pub(super) fn drop_status(object: &mut Object) {
    object.remove("status");
}
