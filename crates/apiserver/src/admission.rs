//! Admission of decoded objects before they are stored, in upstream's order.
//!
//! On a write the mutating steps come first (the namespace must be there, then the built-in
//! plugins, then the registered hooks, whose result is decoded anew), then the validating ones.
//! A hook is a `tower::Service` from `AdmissionRequest` to `AdmissionResponse`; the same service
//! can be mounted as an HTTPS webhook on a cluster.

mod builtin;
mod hook;

use hook::AdmissionOptions;
pub use hook::{Hook, HookScope, HookService, Hooks};

use crate::json::{Access, Object};
use crate::status::{ApiError, GroupResource};
use crate::verb::Call;
use crate::verb::delete::DeleteOptions;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionOperation {
    Create,
    Update,
    Delete,
}

/// Runs the mutating steps and returns the object as it is now.
pub(crate) async fn mutate(
    call: &Call,
    operation: AdmissionOperation,
    mut object: Object,
    old: Option<&Object>,
    dry_run: bool,
) -> Result<Object, ApiError> {
    if operation == AdmissionOperation::Create {
        check_namespace(call, &object)?;
        check_definition(call, &object)?;
    }
    if call.path.subresource.is_empty() {
        builtin::mutate(call, operation, &mut object, old)?;
    }
    hook::mutate(call, operation, object, old, AdmissionOptions { dry_run, deletion: None }).await
}

/// Runs the validating steps.
pub(crate) async fn validate(
    call: &Call,
    operation: AdmissionOperation,
    object: Option<&Object>,
    old: Option<&Object>,
    dry_run: bool,
) -> Result<(), ApiError> {
    builtin::validate(call, operation, object, old)?;
    hook::validate(call, operation, object, old, AdmissionOptions { dry_run, deletion: None }).await
}

/// Runs the validating steps of a deletion.
pub(crate) async fn validate_deletion(
    call: &Call,
    old: &Object,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let operation = AdmissionOperation::Delete;
    builtin::validate(call, operation, None, Some(old))?;
    let options = AdmissionOptions { dry_run: options.dry_run, deletion: Some(options) };
    hook::validate(call, operation, None, Some(old), options).await
}

/// Refuses to create an object whose definition is being deleted.
fn check_definition(call: &Call, object: &Object) -> Result<(), ApiError> {
    let resource = &call.endpoint.resource;
    if call.endpoint.custom().is_none() {
        return Ok(());
    }
    let registry = call.engine.registry();
    let definitions = registry.resource("apiextensions.k8s.io", "customresourcedefinitions");
    let name = format!("{}.{}", resource.plural, resource.group);
    let ending = definitions.and_then(|d| d.table.get(&name)).is_none_or(|d| d.index.deleting);
    if !ending {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating";
    Err(ApiError::forbidden(call.of(), object.at("metadata").text("name"), why))
}

/// Refuses to create an object in a namespace that is missing or terminating.
fn check_namespace(call: &Call, object: &Object) -> Result<(), ApiError> {
    if !call.endpoint.resource.namespaced {
        return Ok(());
    }
    let name = call.namespace();
    let registry = call.engine.registry();
    let namespaces = registry.resource("", "namespaces");
    let found = namespaces.and_then(|n| n.table.get(name));
    let of = GroupResource { group: "", resource: "namespaces" };
    let Some(namespace) = found else { return Err(ApiError::not_found(of, name)) };
    if !namespace.index.deleting {
        return Ok(());
    }
    let why =
        format!("unable to create new content in namespace {name} because it is being terminated");
    let cause = serde_json::json!({
        "reason": "NamespaceTerminating",
        "message": format!("namespace {name} is being terminated"),
        "field": "metadata.namespace",
    });
    Err(ApiError::forbidden(call.of(), shown_name(object), &why).with_causes(vec![cause]))
}

/// The name in error messages of an object that may not have a name yet.
fn shown_name(object: &Object) -> &str {
    let metadata = object.at("metadata");
    match metadata.text("name") {
        "" => metadata.text("generateName"),
        name => name,
    }
}
