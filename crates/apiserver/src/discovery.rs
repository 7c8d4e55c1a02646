//! Discovery: which groups, versions and resources are served, plain and aggregated.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::engine::Shared;
use crate::registry::builtin::{Subresource, api_version};
use crate::registry::{Registry, Resource, Rules, Version};
use crate::respond;
use crate::status::ApiError;

const AGGREGATED: &str = "v2";

/// What `/version` says.
pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": concat!("v1.36.3+sojourn.", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "rustc",
        "platform": concat!("linux/", "amd64"),
    })
}

/// Answers a discovery path.
pub(crate) fn answer(
    engine: &Arc<Shared>,
    path: &str,
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let registry = engine.registry();
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let groups = registry.groups();
    let body = match parts.as_slice() {
        ["api"] => {
            if let Some(version) = aggregated(headers) {
                return Ok(aggregated_list(&registry, version, true));
            }
            json!({
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs":
                    [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
            })
        }
        ["apis"] => {
            if let Some(version) = aggregated(headers) {
                return Ok(aggregated_list(&registry, version, false));
            }
            let listed: Vec<Value> = groups
                .iter()
                .filter(|(group, _)| !group.is_empty())
                .map(|(group, versions)| group_value(group, versions, false))
                .collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
        }
        ["apis", group] => match groups.get(group) {
            Some(versions) => group_value(group, versions, true),
            None => return Err(unknown_path()),
        },
        ["api", version] => {
            resources(&registry, "", version).ok_or_else(ApiError::unknown_resource)?
        }
        ["apis", group, version] => {
            resources(&registry, group, version).ok_or_else(unknown_path)?
        }
        [] => {
            json!({"paths": ["/api", "/apis", "/livez", "/metrics", "/openapi/v3", "/readyz", "/version"]})
        }
        _ => return Err(unknown_path()),
    };
    Ok(respond::json(StatusCode::OK, &body))
}

fn unknown_path() -> ApiError {
    ApiError::page_not_found()
}

fn group_value(group: &str, versions: &[&str], whole: bool) -> Value {
    let entry =
        |version: &str| json!({"groupVersion": api_version(group, version), "version": version});
    let mut value = json!({
        "name": group,
        "versions": versions.iter().map(|v| entry(v)).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(|v| entry(v)),
    });
    if whole {
        value["kind"] = json!("APIGroup");
        value["apiVersion"] = json!("v1");
    }
    value
}

/// The plain list of one group version.
fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut listed = Vec::new();
    for (resource, served) in in_group_version(registry, group, version) {
        listed.push(plain_entry(resource));
        listed
            .extend(subresources(resource, served).iter().map(|s| plain_subresource(resource, s)));
    }
    if listed.is_empty() {
        return None;
    }
    listed.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version(group, version),
        "resources": listed,
    }))
}

fn in_group_version<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = (&'a Arc<Resource>, &'a Version)> {
    registry.iter().filter(move |r| &*r.group == group).filter_map(move |r| {
        let served = r.versions.iter().find(|v| &*v.name == version)?;
        Some((r, served))
    })
}

fn plain_entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs(),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    if resource.is_stored() {
        entry["storageVersionHash"] = json!(storage_hash(resource));
    }
    entry
}

fn plain_subresource(resource: &Resource, subresource: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", resource.plural, subresource.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind_of(resource, subresource),
        "verbs": subresource.verbs,
    });
    if !subresource.group.is_empty() {
        entry["group"] = json!(subresource.group);
        entry["version"] = json!(subresource.version);
    }
    entry
}

fn kind_of<'a>(resource: &'a Resource, subresource: &'a Subresource) -> &'a str {
    if subresource.kind.is_empty() { &resource.kind } else { subresource.kind }
}

static CUSTOM_STATUS: [Subresource; 1] = [Subresource {
    name: "status",
    group: "",
    version: "",
    kind: "",
    verbs: &["get", "patch", "update"],
}];
static CUSTOM_SCALE: [Subresource; 1] = [Subresource {
    name: "scale",
    group: "autoscaling",
    version: "v1",
    kind: "Scale",
    verbs: &["get", "patch", "update"],
}];

fn subresources(resource: &Resource, version: &Version) -> Vec<&'static Subresource> {
    match &resource.rules {
        Rules::Builtin(builtin) => builtin.subresources.iter().collect(),
        Rules::Custom(_) => {
            let mut listed: Vec<&'static Subresource> = Vec::new();
            if version.status {
                listed.extend(&CUSTOM_STATUS);
            }
            if version.scale {
                listed.extend(&CUSTOM_SCALE);
            }
            listed
        }
    }
}

/// Tells clients when the stored form of a resource changes.
fn storage_hash(resource: &Resource) -> String {
    use base64::Engine as _;
    let (group, version) = &resource.storage;
    let kind = format!("{group}/{version}/{}", resource.kind);
    let digest = ring::digest::digest(&ring::digest::SHA256, kind.as_bytes());
    base64::prelude::BASE64_STANDARD.encode(&digest.as_ref()[..8])
}

/// Which aggregated form the client prefers, if any.
fn aggregated(headers: &HeaderMap) -> Option<&'static str> {
    let accept = headers.get(header::ACCEPT)?.to_str().ok()?;
    accept.split(',').find_map(|clause| {
        let parts: Vec<&str> = clause.split(';').map(str::trim).collect();
        let has = |wanted: &str| parts.contains(&wanted);
        let offered = parts.first() == Some(&"application/json")
            && has("g=apidiscovery.k8s.io")
            && has("as=APIGroupDiscoveryList");
        (offered && has("v=v2")).then_some(AGGREGATED)
    })
}

fn aggregated_list(registry: &Registry, version: &str, core: bool) -> Response<Body> {
    let items: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| aggregated_group(registry, group, versions))
        .collect();
    let body = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    });
    let text = body.to_string();
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let mut response = respond::bytes(StatusCode::OK, text);
    let media =
        format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&media) {
        headers.insert(header::CONTENT_TYPE, value);
    }
    if let Ok(value) = HeaderValue::from_str(&format!("\"{}\"", hex::encode_upper(digest.as_ref())))
    {
        headers.insert(header::ETAG, value);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}

fn aggregated_group(registry: &Registry, group: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let mut listed: Vec<Value> = in_group_version(registry, group, version)
                .map(|(resource, served)| aggregated_resource(resource, served, group, version))
                .collect();
            listed.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
            json!({"version": version, "resources": listed, "freshness": "Current"})
        })
        .collect();
    let mut value = json!({"metadata": {}, "versions": versions});
    if !group.is_empty() {
        value["metadata"]["name"] = json!(group);
    }
    value
}

fn aggregated_resource(resource: &Resource, served: &Version, group: &str, version: &str) -> Value {
    // Upstream names group and version here for custom kinds only.
    let builtin = matches!(resource.rules, Rules::Builtin(_));
    let (group, version) = if builtin { ("", "") } else { (group, version) };
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": {"group": group, "version": version, "kind": resource.kind},
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs(),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    let subresources: Vec<Value> = subresources(resource, served)
        .iter()
        .map(|s| {
            let (group, version) =
                if s.group.is_empty() { (group, version) } else { (s.group, s.version) };
            let kind = kind_of(resource, s);
            json!({
                "subresource": s.name,
                "responseKind": {"group": group, "version": version, "kind": kind},
                "verbs": s.verbs,
            })
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = json!(subresources);
    }
    entry
}
