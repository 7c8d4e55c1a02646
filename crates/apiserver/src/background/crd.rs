//! Custom resource definitions: their names are accepted, they are established, and when one is
//! deleted its objects go first.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::engine::Shared;
use crate::internal::{self, Edit, FieldManager, KUBE_APISERVER};
use crate::json::{Access, Object, object_mut};
use crate::kind::custom_resource_definition::{
    TakenNames, accept_names, establish, is_condition_true,
};
use crate::meta;
use crate::registry::Resource;
use crate::status::ApiError;
use crate::verb::delete::DeleteOptions;

use super::Backoff;

const FIELD_MANAGER: FieldManager = FieldManager { manager: KUBE_APISERVER, subresource: "status" };

pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Whether a definition's resources are served. They still are while its objects are deleted.
pub(crate) fn is_established(definition: &Value) -> bool {
    definition.as_object().is_some_and(|d| is_condition_true(d, "Established"))
}

pub(super) async fn run(engine: Arc<Shared>) {
    let definitions =
        engine.registry().resource("apiextensions.k8s.io", "customresourcedefinitions");
    let Some(definitions) = definitions else { return };
    let mut own = definitions.table.subscribe();
    let mut all = engine.store.subscribe();
    let mut backoff = Backoff::new();
    loop {
        own.mark_unchanged();
        all.mark_unchanged();
        let pending = match reconcile(&engine, &definitions).await {
            Ok(pending) => pending,
            Err(error) => {
                tracing::warn!(message = error.message, "cannot reconcile a definition");
                backoff.wait().await;
                continue;
            }
        };
        backoff.reset();
        // While objects of a definition that is being deleted have finalizers, any change may be the one
        // that removes the last of them.
        let changed = if pending { all.changed().await } else { own.changed().await };
        if changed.is_err() {
            return;
        }
    }
}

/// Reconciles every definition; whether a deletion is waiting for objects.
async fn reconcile(engine: &Arc<Shared>, definitions: &Arc<Resource>) -> Result<bool, ApiError> {
    let (all, _) = definitions.table.snapshot();
    let mut pending = false;
    for stored in all.values() {
        if stored.index.deleting {
            pending |= !delete_objects(engine, definitions, &stored.key).await?;
            continue;
        }
        let now = meta::time(engine.clock.now());
        internal::edit(engine, definitions, &stored.key, FIELD_MANAGER, |definition| {
            let taken = taken_names(definitions, definition);
            // Names first; what they allow is then established in the same write.
            let named = accept_names(definition, &taken, &now);
            let changed = named.is_some();
            if let Some(status) = named {
                definition.insert("status".to_owned(), status);
            }
            match establish(definition, &now) {
                Some(status) => {
                    definition.insert("status".to_owned(), status);
                    Edit::Put
                }
                None if changed => Edit::Put,
                None => Edit::Keep,
            }
        })
        .await?;
    }
    Ok(pending)
}

/// The names that the definitions of the same group hold.
fn taken_names(definitions: &Resource, definition: &Object) -> TakenNames {
    let mut taken = TakenNames::default();
    let group = definition.at("spec").text("group");
    let (all, _) = definitions.table.snapshot();
    for other in all.values() {
        let other = other.to_value();
        if other.at("spec").text("group") == group {
            taken.add(&other);
        }
    }
    taken
}

/// Deletes the objects of a definition that is being deleted; whether it is gone.
async fn delete_objects(
    engine: &Arc<Shared>,
    definitions: &Arc<Resource>,
    key: &str,
) -> Result<bool, ApiError> {
    let Some(stored) = definitions.table.get(key) else { return Ok(true) };
    let definition = stored.to_value();
    let holds = definition.at("metadata").list("finalizers").iter().any(|f| f == CLEANUP_FINALIZER);
    if !holds {
        return Ok(true);
    }
    let spec = definition.at("spec");
    let served = engine.registry().resource(spec.text("group"), spec.at("names").text("plural"));
    let mut left = 0;
    if let Some(resource) = served {
        let (objects, _) = resource.table.snapshot();
        for object in objects.values().filter(|o| !o.index.deleting) {
            internal::delete(engine, &resource, &object.key, &DeleteOptions::default()).await?;
        }
        left = resource.table.len();
    }
    let now = meta::time(engine.clock.now());
    internal::edit(engine, definitions, key, FIELD_MANAGER, |definition| {
        if left > 0 {
            return set_terminating(definition, &now);
        }
        let metadata = object_mut(definition, "metadata");
        let mut finalizers = metadata.list("finalizers").to_vec();
        finalizers.retain(|f| f != CLEANUP_FINALIZER);
        if finalizers.is_empty() {
            return Edit::Remove;
        }
        metadata.insert("finalizers".to_owned(), Value::Array(finalizers));
        Edit::Put
    })
    .await?;
    Ok(left == 0)
}

fn set_terminating(definition: &mut Object, now: &str) -> Edit {
    if is_condition_true(definition, "Terminating") {
        return Edit::Keep;
    }
    let status = object_mut(definition, "status");
    let mut conditions = status.list("conditions").to_vec();
    conditions.push(json!({
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress",
    }));
    status.insert("conditions".to_owned(), Value::Array(conditions));
    Edit::Put
}
