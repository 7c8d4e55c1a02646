//! The classic routes for whoever runs a fleet: what runs, and making and deleting a collection.

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::StatusCode;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use sojourn_api::game::DedicatedGameServerCollection;
use sojourn_api::game::name::{GROUP, SERVERS};

use super::{Action, GameService, collections, parameter, refused};
use crate::api_error::api_error_message;
use crate::family::FamilyCaller;

const NAMESPACE: &str = "default";

/// The servers that can be played on.
pub(super) async fn running(
    State(service): State<GameService>,
    Extension(caller): Extension<FamilyCaller>,
    query: RawQuery,
) -> Response {
    let namespace = parameter(&query, "namespace").unwrap_or(NAMESPACE);
    let action = Action {
        group: GROUP,
        verb: "list",
        resource: SERVERS,
        subresource: None,
        namespace,
        name: None,
    };
    if let Err(response) = service.allows(&caller, action).await {
        return response;
    }
    let mut found = Vec::new();
    for key in service.caches.servers.keys() {
        if *key.namespace != *namespace {
            continue;
        }
        let Some(read) = service.caches.server(&key) else { continue };
        let Ok(view) = &*read else { continue };
        if !view.server().is_available() {
            continue;
        }
        let status = view.status();
        found.push(json!({
            "name": &*key.name,
            "namespace": &*key.namespace,
            "publicIP": status.and_then(|status| status.public_ip.as_ref()),
            "ports": status.map(|status| &status.ports),
            "activePlayers": status.and_then(|status| status.active_players),
            "state": status.and_then(|status| status.state),
            "collection": view.collection(),
        }));
    }
    found.sort_by_key(|one| one["name"].as_str().map(str::to_owned));
    Json(found).into_response()
}

/// Makes a collection, with everything that was written.
pub(super) async fn create(
    State(service): State<GameService>,
    Extension(caller): Extension<FamilyCaller>,
    query: RawQuery,
    body: Bytes,
) -> Response {
    let namespace = parameter(&query, "namespace").unwrap_or(NAMESPACE);
    // Whoever makes a collection makes Pods with our rights, so they need theirs.
    let pods = Action {
        group: "",
        verb: "create",
        resource: "pods",
        subresource: None,
        namespace,
        name: None,
    };
    for action in [collections("create", namespace, None), pods] {
        if let Err(response) = service.allows(&caller, action).await {
            return response;
        }
    }
    let collection = serde_json::from_slice::<Value>(&body)
        .map_err(|error| error.to_string())
        .and_then(|body| read(body, namespace));
    let collection = match collection {
        Ok(collection) => collection,
        Err(words) => return refused(StatusCode::UNPROCESSABLE_ENTITY, &words),
    };
    let problems = sojourn_api::game::convert::check_collection(&collection);
    if !problems.is_empty() {
        let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
        return refused(StatusCode::UNPROCESSABLE_ENTITY, &words.join("; "));
    }
    // Our rights are used for somebody who was found to have their own: only what they may create is created.
    let api: Api<DedicatedGameServerCollection> =
        Api::namespaced(service.client.clone(), namespace);
    match api.create(&PostParams::default(), &collection).await {
        Ok(made) => (StatusCode::CREATED, Json(made)).into_response(),
        Err(error) => refused_by_api(&error),
    }
}

/// Deletes a collection: its servers drain.
pub(super) async fn delete(
    State(service): State<GameService>,
    Extension(caller): Extension<FamilyCaller>,
    query: RawQuery,
) -> Response {
    let namespace = parameter(&query, "namespace").unwrap_or(NAMESPACE);
    let Some(name) = parameter(&query, "name") else {
        return refused(StatusCode::UNPROCESSABLE_ENTITY, "name is needed");
    };
    let action = collections("delete", namespace, Some(name));
    if let Err(response) = service.allows(&caller, action).await {
        return response;
    }
    let api: Api<DedicatedGameServerCollection> =
        Api::namespaced(service.client.clone(), namespace);
    match api.delete(name, &DeleteParams::background()).await {
        Ok(_) => Json(json!({ "deleted": name })).into_response(),
        Err(error) => refused_by_api(&error),
    }
}

fn refused_by_api(error: &kube::Error) -> Response {
    let code = match error {
        kube::Error::Api(status) => StatusCode::from_u16(status.code).ok(),
        _ => None,
    };
    refused(code.unwrap_or(StatusCode::SERVICE_UNAVAILABLE), &api_error_message(error))
}

/// The names that the classic form has for fields, each with ours.
const RENAMED: [(&str, &str); 1] = [("dgsActivePlayersAutoScalerDetails", "podAutoScalerDetails")];

/// A collection as it is written today, or in its classic form: a bare PodSpec as the template, and older names.
fn read(mut body: Value, namespace: &str) -> Result<DedicatedGameServerCollection, String> {
    let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) else {
        return Err("spec is needed".to_owned());
    };
    for (classic, ours) in RENAMED {
        if let Some(value) = spec.remove(classic) {
            spec.entry(ours.to_owned()).or_insert(value);
        }
    }
    if let Some(details) = spec.get_mut("podAutoScalerDetails").and_then(Value::as_object_mut) {
        // What the autoscaler remembers is in the status now.
        details.remove("lastScaleOperationDateTime");
    }
    if let Some(template) = spec.get_mut("template")
        && template.get("spec").is_none()
        && template.get("containers").is_some()
    {
        *template = json!({ "spec": template.take() });
    }
    body["apiVersion"] = json!("game.sojourn.dev/v1alpha1");
    body["kind"] = json!("DedicatedGameServerCollection");
    let mut collection: DedicatedGameServerCollection =
        serde_json::from_value(body).map_err(|error| format!("is no collection: {error}"))?;
    if collection.namespace().is_some_and(|named| named != namespace) {
        return Err(format!("metadata.namespace must be {namespace}, or left out"));
    }
    collection.metadata = kube::api::ObjectMeta {
        name: collection.metadata.name,
        namespace: Some(namespace.to_owned()),
        labels: collection.metadata.labels,
        annotations: collection.metadata.annotations,
        ..kube::api::ObjectMeta::default()
    };
    collection.status = None;
    Ok(collection)
}

#[cfg(test)]
mod tests {
    use super::*;

    // case: game S66
    #[test]
    fn a_classic_collection_keeps_everything_that_was_written() {
        let classic = json!({
            "metadata": {"name": "arena", "finalizers": ["x/y"]},
            "spec": {
                "replicas": 3,
                "portsToExpose": [7777],
                "dgsFailBehavior": "Delete",
                "dgsMaxFailures": 2,
                "dgsActivePlayersAutoScalerDetails": {
                    "enabled": true, "minimumReplicas": 1, "maximumReplicas": 5,
                    "scaleInThreshold": 60, "scaleOutThreshold": 80, "coolDownInMinutes": 5,
                    "maxPlayersPerServer": 10, "lastScaleOperationDateTime": "",
                },
                "template": {"containers": [{"name": "game", "image": "openarena"}]},
            },
        });
        let read = read(classic, "default").expect("a collection");
        assert_eq!((read.spec.replicas, &*read.spec.ports_to_expose), (3, &[7777][..]));
        assert_eq!(read.spec.dgs_max_failures, 2);
        let details = read.spec.pod_auto_scaler_details.expect("an autoscaler");
        assert_eq!((details.scale_out_threshold, details.cool_down_in_minutes), (Some(80), 5));
        assert_eq!(read.spec.template["spec"]["containers"][0]["name"], "game");
        assert_eq!(read.metadata.finalizers, None, "only what people may say of it");
        assert_eq!(read.metadata.namespace.as_deref(), Some("default"));
    }
}
