//! OpenAPI v3: one document per group and version, as `kubectl explain` and kubectl's own
//! validation read them.
//!
//! Documents hold the schemas whole and of each path what clients look for: the operations, their
//! kind, and the query parameters that say what the server can do. They are made when asked for.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::engine::Shared;
use crate::registry::builtin::api_version;
use crate::registry::{Registry, Resource, Rules};
use crate::respond;
use crate::status::ApiError;
use crate::typed::{self, openapi};

/// Answers `/openapi/v3` (the index) and `/openapi/v3/…` (a document).
pub(crate) fn answer(engine: &Arc<Shared>, rest: &str) -> Result<Response<Body>, ApiError> {
    let registry = engine.registry();
    if rest.is_empty() {
        let mut response = respond::json(StatusCode::OK, &index(&registry));
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
        return Ok(response);
    }
    let parts: Vec<&str> = rest.split('/').collect();
    let (group, version) = match parts.as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return Err(ApiError::unknown_resource()),
    };
    let document = document(&registry, group, version).ok_or_else(ApiError::unknown_resource)?;
    Ok(respond::json(StatusCode::OK, &document))
}

/// OpenAPI v2, which kubectl asks for when a kind is in no v3 document (`List`, or one that nobody
/// serves): a document without definitions tells it so.
pub(crate) fn version_two(headers: &HeaderMap) -> Response<Body> {
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if accept.contains("proto-openapi.spec.v2") {
        let mut response = Response::new(Body::empty());
        let protobuf = HeaderValue::from_static(PROTOBUF);
        response.headers_mut().insert(header::CONTENT_TYPE, protobuf);
        return response;
    }
    let info = json!({"title": "Kubernetes", "version": "v1.36.3"});
    let document = json!({"swagger": "2.0", "info": info, "paths": {}, "definitions": {}});
    respond::json(StatusCode::OK, &document)
}

fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let path = document_path(group, version);
            let hash = fingerprint(registry, group, version);
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

fn document_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Changes whenever the document does, so that clients can cache it by this.
fn fingerprint(registry: &Registry, group: &str, version: &str) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    context.update(env!("CARGO_PKG_VERSION").as_bytes());
    for (resource, index) in served(registry, group, version) {
        context.update(resource.plural.as_bytes());
        if let Rules::Custom(custom) = &resource.rules {
            context.update(custom.versions[index].schema_json.to_string().as_bytes());
        }
    }
    hex::encode_upper(context.finish().as_ref())
}

fn served<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = (&'a Arc<Resource>, usize)> {
    registry.iter().filter(move |r| &*r.group == group).filter_map(move |r| {
        let index = r.versions.iter().position(|v| &*v.name == version)?;
        Some((r, index))
    })
}

fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    let mut roots = Vec::new();
    let status = typed::table().lookup("v1", "Status");
    roots.extend(status);
    let status = status.and_then(openapi::model_name)?;
    for (resource, index) in served(registry, group, version) {
        let mut deleted_is_shown = false;
        let (object, list) = match &resource.rules {
            Rules::Builtin(builtin) => {
                let table = typed::table();
                let api_version = &resource.versions[index].api_version;
                let ty = table.lookup(api_version, builtin.kind)?;
                roots.push(ty);
                let list = table.lookup(api_version, &resource.list_kind);
                roots.extend(list);
                deleted_is_shown = builtin.delete_returns_object;
                let object = openapi::model_name(ty)?;
                let list = list.and_then(openapi::model_name);
                (object.clone(), list.unwrap_or(object))
            }
            Rules::Custom(custom) => {
                if resource.versions[index].scale {
                    roots.extend(typed::table().lookup("autoscaling/v1", "Scale"));
                }
                custom_schemas(resource, version, &custom.versions[index].schema_json, &mut schemas)
            }
        };
        let models = Models { object, list, status: status.clone(), deleted_is_shown };
        add_paths(resource, version, &models, &mut paths);
    }
    if paths.is_empty() {
        return None;
    }
    roots.extend(typed::table().lookup("v1", "DeleteOptions"));
    let components = openapi::component_schemas(&api_version(group, version), &roots);
    if let Value::Object(components) = components {
        schemas.extend(components);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// The schema of a custom kind and of its list, named as upstream names them; returns the names.
fn custom_schemas(
    resource: &Resource,
    version: &str,
    schema: &Value,
    schemas: &mut Map<String, Value>,
) -> (String, String) {
    let reversed: Vec<&str> = resource.group.rsplit('.').collect();
    let name = format!("{}.{version}.{}", reversed.join("."), resource.kind);
    let gvk = |kind: &str| json!([{"group": resource.group, "version": version, "kind": kind}]);
    let mut own = schema.clone();
    if let Some(own) = own.as_object_mut() {
        let properties = crate::json::object_mut(own, "properties");
        for key in ["apiVersion", "kind"] {
            properties.insert(key.to_owned(), type_meta(key));
        }
        properties.insert(
            "metadata".to_owned(),
            json!({
                "description": openapi::description("meta.PartialObjectMetadata.metadata"),
                "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}],
            }),
        );
        own.insert("x-kubernetes-group-version-kind".to_owned(), gvk(&resource.kind));
    }
    schemas.insert(name.clone(), own);
    let list = json!({
        "type": "object",
        "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": type_meta("apiVersion"),
            "kind": type_meta("kind"),
            "items": {
                "description": format!("List of {}. More info: {CONVENTIONS}", resource.plural),
                "type": "array",
                "items": {"$ref": format!("#/components/schemas/{name}")},
            },
            "metadata": {
                "description":
                    format!("Standard list metadata. More info: {CONVENTIONS}#types-kinds"),
                "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"}],
            },
        },
        "x-kubernetes-group-version-kind": gvk(&resource.list_kind),
    });
    let list_name = format!("{}.{version}.{}", reversed.join("."), resource.list_kind);
    schemas.insert(list_name.clone(), list);
    (name, list_name)
}

const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// `apiVersion` and `kind`, which every kind describes in the same words.
fn type_meta(member: &str) -> Value {
    let text = openapi::description(&format!("meta.TypeMeta.{member}"));
    json!({"type": "string", "description": text})
}

/// What an operation answers with: the kind itself, its list, or a Status.
struct Models {
    object: String,
    list: String,
    status: String,
    /// Whether DELETE answers with the object.
    deleted_is_shown: bool,
}

impl Models {
    fn of(&self, action: &str) -> &str {
        match action {
            "list" => &self.list,
            "deletecollection" => &self.status,
            "delete" if !self.deleted_is_shown => &self.status,
            _ => &self.object,
        }
    }
}

fn add_paths(resource: &Resource, version: &str, models: &Models, paths: &mut Map<String, Value>) {
    let root = if resource.group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{}/{version}", resource.group)
    };
    let collection = if resource.namespaced {
        format!("{root}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("{root}/{}", resource.plural)
    };
    let operations = |pairs: &[(&str, &str)]| {
        let mut item = Map::new();
        for (method, action) in pairs {
            let operation = operation(resource, version, models.of(action), method, action);
            item.insert((*method).to_owned(), operation);
        }
        item
    };
    let verbs = resource.verbs();
    let has = |verb: &str| verbs.contains(&verb);
    let mut pairs = Vec::new();
    if has("list") {
        pairs.push(("get", "list"));
    }
    if has("create") {
        pairs.push(("post", "post"));
    }
    if has("deletecollection") {
        pairs.push(("delete", "deletecollection"));
    }
    paths.insert(collection.clone(), Value::Object(operations(&pairs)));
    if !has("get") {
        return;
    }
    let item = format!("{collection}/{{name}}");
    let pairs = [("get", "get"), ("put", "put"), ("patch", "patch"), ("delete", "delete")];
    paths.insert(item.clone(), Value::Object(operations(&pairs)));
    if resource.versions.iter().any(|v| &*v.name == version && v.status) {
        let pairs = [("get", "get"), ("put", "put"), ("patch", "patch")];
        paths.insert(format!("{item}/status"), Value::Object(operations(&pairs)));
    }
    if resource.versions.iter().any(|v| &*v.name == version && v.scale) {
        let scale = typed::table().lookup("autoscaling/v1", "Scale");
        if let Some(model) = scale.and_then(openapi::model_name) {
            let mut item_operations = Map::new();
            for method in ["get", "put", "patch"] {
                let operation = operation(resource, version, &model, method, method);
                item_operations.insert(method.to_owned(), operation);
            }
            paths.insert(format!("{item}/scale"), Value::Object(item_operations));
        }
    }
    if resource.namespaced && has("list") {
        let everywhere = format!("{root}/{}", resource.plural);
        paths.insert(everywhere, Value::Object(operations(&[("get", "list")])));
    }
}

/// Query parameters of writes; kubectl looks for them before it trusts the server to validate.
const WRITE_PARAMETERS: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];

fn operation(resource: &Resource, version: &str, model: &str, method: &str, action: &str) -> Value {
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let mut parameters = Vec::new();
    if matches!(method, "post" | "put" | "patch") {
        parameters.extend(WRITE_PARAMETERS.map(parameter));
    }
    if method == "patch" {
        let schema = json!({"type": "boolean", "uniqueItems": true});
        parameters.push(json!({"name": "force", "in": "query", "schema": schema}));
    }
    if action == "list" {
        let names = [
            "continue",
            "fieldSelector",
            "labelSelector",
            "resourceVersion",
            "resourceVersionMatch",
        ];
        parameters.extend(names.map(parameter));
    }
    let schema = json!({"$ref": format!("#/components/schemas/{model}")});
    let mut value = json!({
        "description": format!("{action} {}", resource.kind),
        "operationId": format!("{action}{}{}", title(version), resource.kind),
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "OK",
                "content": {"application/json": {"schema": schema}},
            },
        },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind":
            {"group": resource.group, "version": version, "kind": resource.kind},
    });
    if matches!(method, "post" | "put") {
        value["requestBody"] = json!({"content": {"*/*": {"schema": schema}}, "required": true});
    }
    if method == "patch" {
        let mut content = Map::new();
        for media in patch_media(resource) {
            content.insert((*media).to_owned(), json!({"schema": {"type": "object"}}));
        }
        value["requestBody"] = json!({"content": content, "required": true});
    }
    value
}

fn patch_media(resource: &Resource) -> &'static [&'static str] {
    match resource.rules {
        Rules::Builtin(_) => &[
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ],
        Rules::Custom(_) => &[
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ],
    }
}

fn title(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}
