//! The server acting on its own objects: bootstrap and background work use the same verbs as
//! clients, as the server's own identity.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::Value;

use crate::apply;
use crate::auth::identity::Identity;
use crate::engine::Shared;
use crate::json::Object;
use crate::registry::{Endpoint, Resource};
use crate::request::{Query, ResourcePath};
use crate::status::ApiError;
use crate::store::{Change, Precondition, StoredObject, WriteError, WriteOperation};
use crate::verb::delete::{DeleteOptions, Deleted, delete_object};
use crate::verb::{Call, FieldValidation, WriteOptions, create, write_error};

/// How often an edit is tried again when others write too.
const MAX_WRITE_ATTEMPTS: usize = 64;

/// A call by the server itself on an object of a resource.
pub(crate) fn call(
    engine: &Arc<Shared>,
    resource: &Arc<Resource>,
    namespace: &str,
    name: &str,
) -> Call {
    let path = ResourcePath {
        group: resource.group.to_string(),
        version: resource.versions[0].name.to_string(),
        namespace: namespace.to_owned(),
        resource: resource.plural.to_string(),
        name: name.to_owned(),
        subresource: String::new(),
        rest: Vec::new(),
        legacy_watch: false,
    };
    let endpoint = Endpoint { resource: resource.clone(), index: 0 };
    let headers = HeaderMap::new();
    Call::new(engine.clone(), endpoint, path, Query::default(), headers, Identity::server())
}

/// Creates an object; one that is already there is left as it is.
pub(crate) async fn create_if_missing(
    engine: &Arc<Shared>,
    resource: &Arc<Resource>,
    namespace: &str,
    object: Value,
    manager: &str,
) -> Result<(), ApiError> {
    let call = call(engine, resource, namespace, "");
    let object = call.decode_value(object, Vec::new(), FieldValidation::Ignore)?;
    let options = WriteOptions {
        dry_run: false,
        field_manager: manager.to_owned(),
        validation: FieldValidation::Ignore,
        force: None,
    };
    match create::create_object(&call, object, &options).await {
        Ok(_) => Ok(()),
        Err(error) if error.reason == "AlreadyExists" => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes an object as a client would.
pub(crate) async fn delete(
    engine: &Arc<Shared>,
    resource: &Arc<Resource>,
    key: &str,
    options: &DeleteOptions,
) -> Result<Option<Deleted>, ApiError> {
    let (namespace, name) = key.split_once('/').unwrap_or(("", key));
    let call = call(engine, resource, namespace, name);
    match delete_object(&call, key, options).await {
        Ok(deleted) => Ok(Some(deleted)),
        Err(error) if error.code == http::StatusCode::NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}

/// What an edit makes of an object.
pub(crate) enum Edit {
    Keep,
    Put,
    Remove,
}

/// Who an edit is recorded for in `managedFields`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldManager {
    pub(crate) manager: &'static str,
    pub(crate) subresource: &'static str,
}

/// What upstream's controllers call themselves.
pub(crate) const KUBE_CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(crate) const KUBE_APISERVER: &str = "kube-apiserver";

/// Changes an object in the store, beside validation and admission: for the server's own fields.
pub(crate) async fn edit(
    engine: &Arc<Shared>,
    resource: &Arc<Resource>,
    key: &str,
    field_manager: FieldManager,
    mut change: impl FnMut(&mut Object) -> Edit,
) -> Result<Option<Arc<StoredObject>>, ApiError> {
    let endpoint = Endpoint { resource: resource.clone(), index: 0 };
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let Some(current) = resource.table.get(key) else { return Ok(None) };
        let mut object = endpoint.to_object(&current);
        let change = match change(&mut object) {
            Edit::Keep => return Ok(Some(current)),
            Edit::Put => {
                let live = Value::Object(endpoint.to_object(&current));
                let FieldManager { manager, subresource } = field_manager;
                let request = endpoint.apply_request(manager, subresource, engine.clock.now());
                let mut value = Value::Object(object);
                if let Err(error) = apply::update(&request, Some(&live), &mut value) {
                    tracing::debug!(%error, "cannot record field owners");
                }
                let object = crate::json::into_object(value);
                Change::Put(Box::new(endpoint.draft(object, engine)))
            }
            Edit::Remove => Change::Remove,
        };
        let operation = WriteOperation {
            table: resource.table.clone(),
            key: current.key.clone(),
            precondition: Precondition::Version(current.version),
            change,
        };
        match engine.store.write(operation).await {
            Ok(stored) => return Ok(Some(stored)),
            Err(WriteError::Changed(_)) => {}
            Err(error) => return Err(write_error(&error)),
        }
    }
    Err(ApiError::modified(resource.of(), key))
}
