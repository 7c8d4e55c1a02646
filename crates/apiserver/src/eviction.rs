//! `pods/eviction`: deletes a Pod if its disruption budget allows it.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};

use crate::admission::{self, AdmissionOperation};
use crate::auth::identity::Identity;
use crate::field::FieldErrors;
use crate::json::{Access, Object};
use crate::kind::disruption::{self, Check};
use crate::meta;
use crate::request::{Query, ResourcePath};
use crate::respond::{self, Form};
use crate::status::ApiError;
use crate::store::StoredObject;
use crate::subresource::decode;
use crate::verb::delete::{DeleteOptions, delete_object};
use crate::verb::list::range;
use crate::verb::update::{Replaced, record_managed_fields, replace};
use crate::verb::{Call, FieldValidation, WriteOptions};

/// How often a write is tried again when others write too.
const MAX_WRITE_ATTEMPTS: usize = 64;
/// Who writes the status of budgets, in their managed fields.
const FIELD_MANAGER: &str = "kube-apiserver";

pub(crate) async fn evict(call: &Call, body: &Bytes) -> Result<Response<Body>, ApiError> {
    Form::negotiate_without_table(&call.headers, &call.query)?;
    let options = WriteOptions::parse(&call.query, "CreateOptions")?;
    let eviction = decode(call, body, "policy/v1", "Eviction", options.validation)?;
    let metadata = eviction.at("metadata");
    let namespace = metadata.text("namespace");
    if !namespace.is_empty() && namespace != call.namespace() {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if metadata.text("name") != call.path.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let asked = delete_options(&eviction, options.dry_run)?;
    admission::validate(call, AdmissionOperation::Create, Some(&eviction), None, asked.dry_run)
        .await?;
    for _ in 0..MAX_WRITE_ATTEMPTS {
        match attempt(call, &asked).await? {
            EvictionAttempt::Done => return Ok(success()),
            EvictionAttempt::Changed => {}
        }
    }
    Err(ApiError::modified(call.of(), &call.path.name))
}

enum EvictionAttempt {
    Done,
    /// Somebody else wrote in between.
    Changed,
}

async fn attempt(call: &Call, asked: &DeleteOptions) -> Result<EvictionAttempt, ApiError> {
    let current = call.endpoint.resource.table.get(&call.key()).ok_or_else(|| call.not_found())?;
    let pod = call.endpoint.to_object(&current);
    let mut options = asked.clone();
    if disruption::needs_no_budget(&pod) {
        // One that has not started could become ready, and count, while it is deleted.
        if pod.at("status").text("phase") == "Pending" && !meta::is_deleting(&pod) {
            options.version.get_or_insert_with(|| current.version.to_string());
        }
        return match delete_pod(call, &options).await {
            Err(error) if error.reason == "Conflict" && asked.version.is_none() => {
                Ok(EvictionAttempt::Changed)
            }
            outcome => outcome.map(|()| EvictionAttempt::Done),
        };
    }
    let budgets = budgets(call, &pod)?;
    let budget = match budgets.as_slice() {
        [] => None,
        [(budget, of)] => Some((budget, of)),
        _ => return Err(ApiError::unexplained(disruption::SEVERAL_BUDGETS)),
    };
    if let Some((budget, of)) = budget {
        match disruption::check(&of.endpoint.to_object(budget), &pod) {
            Check::Allowed => {
                if let EvictionAttempt::Changed =
                    consume_disruption(of, budget, &call.path.name, asked.dry_run).await?
                {
                    return Ok(EvictionAttempt::Changed);
                }
            }
            // It must not have become ready since.
            Check::Unhealthy => {
                options.version.get_or_insert_with(|| current.version.to_string());
            }
            Check::Refused(error) => return Err(*error),
        }
    }
    match delete_pod(call, &options).await {
        Err(error) if error.reason == "Conflict" && options.version != asked.version => {
            let name = budget.map_or("", |(budget, _)| budget.name());
            Err(disruption::in_progress(name))
        }
        outcome => outcome.map(|()| EvictionAttempt::Done),
    }
}

/// What the eviction asks of the deletion.
fn delete_options(eviction: &Object, dry_run: bool) -> Result<DeleteOptions, ApiError> {
    let mut errors = FieldErrors::new();
    let mut options = DeleteOptions::from_value(eviction.at("deleteOptions"), &mut errors);
    if !errors.is_empty() {
        return Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &errors));
    }
    options.dry_run |= dry_run;
    Ok(options)
}

/// The budgets that count a Pod, each with a request for its status.
fn budgets(call: &Call, pod: &Object) -> Result<Vec<(Arc<StoredObject>, Call)>, ApiError> {
    let registry = call.engine.registry();
    let of = || registry.endpoint("policy", "v1", "poddisruptionbudgets");
    let endpoint = of().ok_or_else(|| ApiError::internal("budgets are not served"))?;
    let (objects, _) = endpoint.resource.table.snapshot();
    let mut found = Vec::new();
    for stored in range(&objects, call.namespace(), None) {
        if !disruption::selects(&endpoint.to_object(stored), pod) {
            continue;
        }
        let path = ResourcePath {
            group: "policy".to_owned(),
            version: "v1".to_owned(),
            resource: "poddisruptionbudgets".to_owned(),
            name: stored.name().to_owned(),
            subresource: "status".to_owned(),
            ..call.path.clone()
        };
        let Some(endpoint) = of() else { break };
        found.push((stored.clone(), of_server(call, endpoint, path)));
    }
    Ok(found)
}

/// A request that the server itself makes.
fn of_server(call: &Call, endpoint: crate::registry::Endpoint, path: ResourcePath) -> Call {
    Call::new(
        call.engine.clone(),
        endpoint,
        path,
        Query::default(),
        HeaderMap::new(),
        Identity::server(),
    )
}

/// Consumes one disruption of a budget.
async fn consume_disruption(
    of: &Call,
    current: &Arc<StoredObject>,
    pod: &str,
    dry_run: bool,
) -> Result<EvictionAttempt, ApiError> {
    if dry_run {
        return Ok(EvictionAttempt::Done);
    }
    let mut old = of.endpoint.to_object(current);
    let mut new = old.clone();
    disruption::consume_disruption(&mut new, pod, &meta::time(of.now()));
    let new = record_managed_fields(of, new, &mut old, FIELD_MANAGER);
    match replace(of, current, old, new, &write_options()).await? {
        Replaced::Done(_) => Ok(EvictionAttempt::Done),
        Replaced::Changed => Ok(EvictionAttempt::Changed),
    }
}

/// Sets the `DisruptionTarget` condition of the Pod, and deletes it.
async fn delete_pod(call: &Call, options: &DeleteOptions) -> Result<(), ApiError> {
    let path = |subresource: &str| ResourcePath {
        subresource: subresource.to_owned(),
        ..call.path.clone()
    };
    let mut options = options.clone();
    if !options.dry_run {
        let status = of_server(call, call.endpoint.clone(), path("status"));
        let version = set_disruption_condition(&status, &options).await?;
        if options.version.is_some() {
            options.version = Some(version.to_string());
        }
    }
    let call = of_server(call, call.endpoint.clone(), path(""));
    match delete_object(&call, &call.key(), &options).await {
        // To say why it goes was all that it waited for.
        Err(error) if error.code == StatusCode::NOT_FOUND && !options.dry_run => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Sets the `DisruptionTarget` condition; returns the version that this made.
async fn set_disruption_condition(of: &Call, options: &DeleteOptions) -> Result<u64, ApiError> {
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let current = of.endpoint.resource.table.get(&of.key()).ok_or_else(|| of.not_found())?;
        options.check(of, &current)?;
        let old = of.endpoint.to_object(&current);
        let mut new = old.clone();
        disruption::set_disruption_condition(&mut new, &meta::time(of.now()));
        match replace(of, &current, old, new, &write_options()).await? {
            Replaced::Done(stored) => return Ok(stored.version),
            Replaced::Changed => {}
        }
    }
    Err(ApiError::modified(of.of(), &of.path.name))
}

const fn write_options() -> WriteOptions {
    WriteOptions {
        dry_run: false,
        field_manager: String::new(),
        validation: FieldValidation::Ignore,
        force: None,
    }
}

fn success() -> Response<Body> {
    let success: Value = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    respond::json(StatusCode::CREATED, &success)
}
