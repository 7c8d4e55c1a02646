//! Terminating namespaces: their content is deleted, then their finalizer is removed, then the
//! namespace itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::engine::Shared;
use crate::follower::{Follower, TableChange};
use crate::internal::{self, Edit, FieldManager, KUBE_CONTROLLER_MANAGER};
use crate::json::{Access, Object, object_mut};
use crate::kind::namespace::FINALIZER;
use crate::meta;
use crate::registry::Resource;
use crate::status::ApiError;
use crate::store::StoredObject;
use crate::verb::delete::DeleteOptions;

use super::Backoff;

const FIELD_MANAGER: FieldManager =
    FieldManager { manager: KUBE_CONTROLLER_MANAGER, subresource: "status" };

pub(super) async fn run(engine: Arc<Shared>) {
    let Some(namespaces) = engine.registry().resource("", "namespaces") else { return };
    let mut follower = Follower::new(namespaces.table.clone());
    let mut changes = engine.store.subscribe();
    let mut terminating: BTreeMap<Arc<str>, DeletionAttempts> = BTreeMap::new();
    loop {
        changes.mark_unchanged();
        follower.drain(|change| match change {
            TableChange::Put(namespace) if namespace.index.deleting => {
                terminating.entry(namespace.key.clone()).or_default();
            }
            TableChange::Removed(namespace) => {
                terminating.remove(&namespace.key);
            }
            TableChange::Put(_) | TableChange::Reset => {}
        });
        let mut gone = Vec::new();
        for (name, attempts) in &mut terminating {
            match delete_content(&engine, &namespaces, name, attempts).await {
                Ok(true) => gone.push(name.clone()),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(
                        namespace = &**name,
                        message = error.message,
                        "cannot delete its content"
                    );
                    attempts.wait();
                }
            }
        }
        terminating.retain(|name, _| !gone.contains(name));
        // While content with finalizers remains, any change may be the one that frees it. What was
        // refused is tried again after a while, and delays no other namespace.
        let retry = terminating.values().filter_map(|attempts| attempts.retry_at).min();
        let woken = async {
            if terminating.is_empty() {
                follower.changed().await
            } else {
                changes.changed().await.is_ok()
            }
        };
        let woken = match retry {
            Some(retry) => tokio::time::timeout_at(retry, woken).await.unwrap_or(true),
            None => woken.await,
        };
        if !woken {
            return;
        }
    }
}

/// The last attempt to delete the content of a namespace.
#[derive(Debug)]
struct DeletionAttempts {
    /// Why not all could be deleted, when it was last tried: one reason for each resource.
    refused: Vec<String>,
    /// No further attempt is made before that.
    retry_at: Option<Instant>,
    backoff: Backoff,
}

impl Default for DeletionAttempts {
    fn default() -> Self {
        Self { refused: Vec::new(), retry_at: None, backoff: Backoff::new() }
    }
}

impl DeletionAttempts {
    fn is_due(&self) -> bool {
        self.retry_at.is_none_or(|retry_at| retry_at <= Instant::now())
    }

    fn wait(&mut self) {
        self.retry_at = Some(Instant::now() + self.backoff.next());
    }

    /// Records the refusals of an attempt.
    fn record(&mut self, refused: Vec<String>) {
        if refused.is_empty() {
            *self = Self::default();
        } else {
            self.refused = refused;
            self.wait();
        }
    }
}

/// Deletes what is in the namespace, as far as that is allowed; whether it is gone.
async fn delete_content(
    engine: &Arc<Shared>,
    namespaces: &Arc<Resource>,
    name: &str,
    attempts: &mut DeletionAttempts,
) -> Result<bool, ApiError> {
    let Some(namespace) = namespaces.table.get(name) else { return Ok(true) };
    let object = namespace.to_value();
    let holds = object.at("spec").list("finalizers").iter().any(|f| f == FINALIZER);
    if !holds {
        *attempts = DeletionAttempts::default();
        return Ok(false);
    }
    let due = attempts.is_due();
    let (mut remaining_content, mut refused) = (RemainingContent::default(), Vec::new());
    for resource in engine.registry().iter() {
        // Events come last upstream only by accident of order; views share their table.
        if !resource.namespaced || !resource.is_stored() || resource.is_view() {
            continue;
        }
        let mut first = None;
        for stored in content(resource, name).iter().filter(|one| due && !one.index.deleting) {
            // Nothing else has to wait for what is refused.
            let options = DeleteOptions::default();
            let deleted = internal::delete(engine, resource, &stored.key, &options).await;
            first = first.or(deleted.err().map(|error| error.message));
        }
        refused.extend(first);
        remaining_content.count(resource, name);
    }
    if due {
        attempts.record(refused);
    }
    let now = meta::time(engine.clock.now());
    let done = remaining_content.is_empty();
    internal::edit(engine, namespaces, name, FIELD_MANAGER, |object| {
        let before = object.clone();
        remaining_content.set_conditions(object, &attempts.refused, &now);
        if done {
            return remove_finalizer(object);
        }
        if *object == before { Edit::Keep } else { Edit::Put }
    })
    .await?;
    Ok(done)
}

fn content(resource: &Resource, namespace: &str) -> Vec<Arc<StoredObject>> {
    let (objects, _) = resource.table.snapshot();
    crate::verb::list::range(&objects, namespace, None).cloned().collect()
}

/// Removes our finalizer; without any other the namespace is removed.
fn remove_finalizer(object: &mut Object) -> Edit {
    let spec = object_mut(object, "spec");
    let mut finalizers = spec.list("finalizers").to_vec();
    finalizers.retain(|f| f != FINALIZER);
    if finalizers.is_empty() {
        spec.remove("finalizers");
    } else {
        spec.insert("finalizers".to_owned(), Value::Array(finalizers.clone()));
    }
    if finalizers.is_empty() && !meta::has_finalizers(object) { Edit::Remove } else { Edit::Put }
}

/// The content that remains, for the namespace's conditions.
#[derive(Default)]
struct RemainingContent {
    resources: Vec<String>,
    finalizers: BTreeMap<String, usize>,
}

impl RemainingContent {
    fn count(&mut self, resource: &Resource, namespace: &str) {
        let remaining = content(resource, namespace);
        if remaining.is_empty() {
            return;
        }
        let count = remaining.len();
        self.resources
            .push(format!("{} has {count} resource instances", resource.plural_dot_group()));
        for stored in remaining {
            let object = stored.to_value();
            for finalizer in object.at("metadata").list("finalizers") {
                let name = finalizer.as_str().unwrap_or_default().to_owned();
                *self.finalizers.entry(name).or_default() += 1;
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    fn set_conditions(&self, object: &mut Object, refused: &[String], now: &str) {
        let finalizers: Vec<String> = self
            .finalizers
            .iter()
            .map(|(name, count)| format!("{name} in {count} resource instances"))
            .collect();
        let remaining = format!("Some resources are remaining: {}", self.resources.join(", "));
        let held = format!(
            "Some content in the namespace has finalizers remaining: {}",
            finalizers.join(", ")
        );
        let failed = format!(
            "Failed to delete all resource types, {} remaining: {}",
            refused.len(),
            refused.join(", ")
        );
        let conditions = [
            (
                "NamespaceDeletionDiscoveryFailure",
                false,
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                false,
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            if refused.is_empty() {
                (
                    "NamespaceDeletionContentFailure",
                    false,
                    "ContentDeleted",
                    "All content successfully deleted, may be waiting on finalization",
                )
            } else {
                ("NamespaceDeletionContentFailure", true, "ContentDeletionFailed", failed.as_str())
            },
            if self.resources.is_empty() {
                (
                    "NamespaceContentRemaining",
                    false,
                    "ContentRemoved",
                    "All content successfully removed",
                )
            } else {
                ("NamespaceContentRemaining", true, "SomeResourcesRemain", remaining.as_str())
            },
            if self.finalizers.is_empty() {
                (
                    "NamespaceFinalizersRemaining",
                    false,
                    "ContentHasNoFinalizers",
                    "All content-preserving finalizers finished",
                )
            } else {
                ("NamespaceFinalizersRemaining", true, "SomeFinalizersRemain", held.as_str())
            },
        ];
        let status = object_mut(object, "status");
        let before = status.list("conditions").to_vec();
        let listed: Vec<Value> = conditions
            .into_iter()
            .map(|(kind, value, reason, message)| {
                let value = if value { "True" } else { "False" };
                let old = before.iter().find(|c| c.text("type") == kind);
                let since = old
                    .filter(|c| c.text("status") == value)
                    .map_or(now, |c| c.text("lastTransitionTime"));
                json!({
                    "type": kind, "status": value, "reason": reason, "message": message,
                    "lastTransitionTime": since,
                })
            })
            .collect();
        status.insert("conditions".to_owned(), Value::Array(listed));
    }
}
