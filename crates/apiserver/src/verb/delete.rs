//! `delete` and `deletecollection`: preconditions, grace, finalizers, propagation.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::admission;
use crate::field::{FieldError, FieldErrors, Path};
use crate::json::{Access, Object, object_mut};
use crate::media;
use crate::meta::{self, FOREGROUND, ORPHAN};
use crate::respond::{self, Form};
use crate::status::{ApiError, GroupResource, object_details};
use crate::store::{Change, Precondition, StoredObject, WriteError, WriteOperation};

use super::options::dry_run;
use super::{Call, list, write_error};

const MAX_WRITE_ATTEMPTS: usize = 64;
/// Deletions of one `deletecollection` that run at once.
const MAX_CONCURRENT_DELETES: usize = 16;

/// What the client asks of a deletion.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) propagation: Option<Propagation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// The result of a deletion.
pub(crate) enum Deleted {
    /// Removed; this was its last state.
    Gone(Arc<StoredObject>),
    /// `deletionTimestamp` is set; finalizers or the grace period keep it.
    Marked(Arc<StoredObject>),
}

pub(crate) async fn delete(call: &Call, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let form = Form::negotiate(&call.headers, &call.query)?;
    let options = DeleteOptions::read(call, bytes)?;
    if call.endpoint.orphans_by_default() && options.propagation.is_none() {
        call.warn(
            "child pods are preserved by default when jobs are deleted; set \
             propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
             suppress this warning",
        );
    }
    match delete_object(call, &call.key(), &options).await? {
        Deleted::Marked(stored) => respond::object(call, StatusCode::OK, &stored, form),
        Deleted::Gone(stored) if call.endpoint.delete_returns_object() => {
            respond::object(call, StatusCode::OK, &stored, form)
        }
        Deleted::Gone(stored) => {
            let resource = &call.endpoint.resource;
            let mut details = object_details(&resource.group, &resource.plural, stored.name());
            details["uid"] = json!(stored.index.uid);
            Ok(respond::json(
                StatusCode::OK,
                &json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {},
                    "status": "Success", "details": details,
                }),
            ))
        }
    }
}

pub(crate) async fn delete_collection(
    call: &Call,
    bytes: &Bytes,
) -> Result<Response<Body>, ApiError> {
    use futures::stream::{self, StreamExt, TryStreamExt};

    let form = Form::negotiate(&call.headers, &call.query)?;
    let options = DeleteOptions::read(call, bytes)?;
    let page = list::select(call, usize::MAX).await?;
    let keys: Vec<Arc<str>> = page.objects.iter().map(|object| object.key.clone()).collect();
    let options = &options;
    stream::iter(keys)
        .map(|key| async move {
            match delete_object(call, &key, options).await {
                Ok(_) => Ok(()),
                Err(error) if error.code == StatusCode::NOT_FOUND => Ok(()),
                Err(error) => Err(error),
            }
        })
        .buffered(MAX_CONCURRENT_DELETES)
        .try_collect::<Vec<()>>()
        .await?;
    // As upstream: the objects as they were found.
    respond::list(call, &page, form)
}

/// Deletes one object as far as its finalizers and grace period allow.
pub(crate) async fn delete_object(
    call: &Call,
    key: &str,
    options: &DeleteOptions,
) -> Result<Deleted, ApiError> {
    let endpoint = &call.endpoint;
    let mut marked: Option<Arc<StoredObject>> = None;
    for _ in 0..MAX_WRITE_ATTEMPTS {
        let (_, name) = key.split_once('/').unwrap_or(("", key));
        let found = endpoint.resource.table.get(key);
        let current = match (found, &marked) {
            (Some(current), None) => current,
            (Some(current), Some(marked)) if current.index.uid == marked.index.uid => current,
            // Another client that saw the deletion timestamp, such as a node, has removed it before us.
            (_, Some(marked)) => return Ok(Deleted::Gone(marked.clone())),
            (None, None) => return Err(ApiError::not_found(call.of(), name)),
        };
        // What was asked for holds of the object as it was before this marked it.
        if marked.is_none() {
            options.check(call, &current)?;
        }
        let object = endpoint.to_object(&current);
        endpoint.check_delete(&current)?;
        admission::validate_deletion(call, &object, options).await?;
        let step = next_deletion_step(call, &current, object, options);
        let ends = matches!(&step, DeletionStep::Mark(object) if can_be_removed(call, object));
        let change = match step {
            DeletionStep::Nothing => return Ok(Deleted::Marked(current)),
            DeletionStep::Remove => Change::Remove,
            DeletionStep::Mark(object) => {
                Change::Put(Box::new(endpoint.draft(object, &call.engine)))
            }
        };
        if options.dry_run {
            return Ok(match change {
                Change::Remove => Deleted::Gone(current),
                Change::Put(draft) => {
                    let marked = draft.at_version(current.key.clone(), current.version);
                    Deleted::Marked(Arc::new(marked))
                }
            });
        }
        let removes = matches!(change, Change::Remove);
        let operation = WriteOperation {
            table: endpoint.resource.table.clone(),
            key: current.key.clone(),
            precondition: Precondition::Version(current.version),
            change,
        };
        match call.engine.store.write(operation).await {
            Ok(stored) if removes => return Ok(Deleted::Gone(stored)),
            // Marked, and nothing holds it: the next round removes it.
            Ok(stored) if ends => marked = Some(stored),
            Ok(stored) => return Ok(Deleted::Marked(stored)),
            Err(WriteError::Changed(_)) => {}
            Err(error) => return Err(write_error(&error)),
        }
    }
    Err(ApiError::modified(call.of(), &call.path.name))
}

enum DeletionStep {
    /// It is being deleted already and nothing would change.
    Nothing,
    Mark(Object),
    Remove,
}

fn next_deletion_step(
    call: &Call,
    current: &StoredObject,
    object: Object,
    options: &DeleteOptions,
) -> DeletionStep {
    let endpoint = &call.endpoint;
    let before = object.at("metadata").at("finalizers").clone();
    let finalizers = endpoint.deletion_finalizers(&object, options.propagation);
    let mut new = object;
    let grace = endpoint.grace_seconds(&new, options.grace_seconds);
    let pending_grace = new.at("metadata").int("deletionGracePeriodSeconds").unwrap_or(0);
    if current.index.deleting && pending_grace > 0 {
        // Grace may only be shortened.
        match options.grace_seconds.map(|g| if g < 0 { 1 } else { g }) {
            Some(asked) if asked < pending_grace => {
                shorten_grace(&mut new, pending_grace, asked, call.now());
                return DeletionStep::Mark(new);
            }
            _ => return DeletionStep::Nothing,
        }
    }
    let metadata = object_mut(&mut new, "metadata");
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    let held = !finalizers.is_empty() || endpoint.has_spec_finalizers(&new);
    let marked_first = endpoint.is_graceful() && !current.index.deleting;
    if !held && grace == 0 && !marked_first {
        return DeletionStep::Remove;
    }
    let unchanged = before.as_array().map_or(0, Vec::len) == finalizers.len();
    if current.index.deleting && unchanged {
        return DeletionStep::Nothing;
    }
    let bumps = endpoint.deletion_bumps_generation();
    set_deletion_timestamp(&mut new, grace, call.now(), endpoint.shows_grace_period(), bumps);
    endpoint.set_terminating(&mut new);
    DeletionStep::Mark(new)
}

/// Whether neither a finalizer nor a grace period keeps an object that is being deleted.
fn can_be_removed(call: &Call, object: &Object) -> bool {
    !meta::has_finalizers(object)
        && !call.endpoint.has_spec_finalizers(object)
        && object.at("metadata").int("deletionGracePeriodSeconds").unwrap_or(0) == 0
}

/// Sets the deletion time; the generation moves once, when it is first set.
fn set_deletion_timestamp(
    object: &mut Object,
    grace: i64,
    now: Timestamp,
    show_grace: bool,
    bumps: bool,
) {
    if !meta::is_deleting(object) {
        let generation = meta::generation(object);
        if generation > 0 && bumps {
            meta::set_generation(object, generation + 1);
        }
        let at = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
        let metadata = object_mut(object, "metadata");
        metadata.insert("deletionTimestamp".to_owned(), json!(meta::time(at)));
    }
    if show_grace {
        let metadata = object_mut(object, "metadata");
        metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
    }
}

fn shorten_grace(object: &mut Object, pending: i64, asked: i64, now: Timestamp) {
    let metadata = object_mut(object, "metadata");
    let set: Timestamp = metadata.text("deletionTimestamp").parse().unwrap_or(now);
    let moved = set.checked_sub(SignedDuration::from_secs(pending - asked)).unwrap_or(now);
    let (at, asked) = if moved < now { (now, asked.min(1)) } else { (moved, asked) };
    metadata.insert("deletionTimestamp".to_owned(), json!(meta::time(at)));
    metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(asked));
}

impl DeleteOptions {
    /// From the body or, if there is none, from the query; never merged.
    fn read(call: &Call, bytes: &Bytes) -> Result<Self, ApiError> {
        let mut errors = FieldErrors::new();
        let options = if bytes.is_empty() {
            Self::from_query(call, &mut errors)?
        } else {
            let parsed = media::read_options(&call.headers, bytes)?;
            Self::from_value(&parsed, &mut errors)
        };
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &errors))
        }
    }

    fn from_query(call: &Call, errors: &mut FieldErrors) -> Result<Self, ApiError> {
        let query = &call.query;
        Ok(Self {
            dry_run: dry_run(query.all("dryRun"), errors),
            grace_seconds: query.int("gracePeriodSeconds")?,
            uid: query.get("preconditions.uid").map(str::to_owned),
            version: query.get("preconditions.resourceVersion").map(str::to_owned),
            propagation: propagation(
                query.get("propagationPolicy"),
                query.flag("orphanDependents"),
                errors,
            ),
        })
    }

    pub(crate) fn from_value(value: &Value, errors: &mut FieldErrors) -> Self {
        let runs = value.list("dryRun").iter().filter_map(Value::as_str);
        let preconditions = value.at("preconditions");
        let text = |key: &str| preconditions.get(key).and_then(Value::as_str).map(str::to_owned);
        Self {
            dry_run: dry_run(runs, errors),
            grace_seconds: value.int("gracePeriodSeconds"),
            uid: text("uid"),
            version: text("resourceVersion"),
            propagation: propagation(
                value.get("propagationPolicy").and_then(Value::as_str),
                value.get("orphanDependents").and_then(Value::as_bool),
                errors,
            ),
        }
    }

    /// As hooks are told of it.
    pub(crate) fn written(&self) -> Value {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        if let Some(grace) = self.grace_seconds {
            options["gracePeriodSeconds"] = json!(grace);
        }
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        let propagation = self.propagation.map(|propagation| match propagation {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        });
        if let Some(propagation) = propagation {
            options["propagationPolicy"] = json!(propagation);
        }
        let mut preconditions = Object::new();
        for (name, value) in [("uid", &self.uid), ("resourceVersion", &self.version)] {
            if let Some(value) = value {
                preconditions.insert(name.to_owned(), json!(value));
            }
        }
        if !preconditions.is_empty() {
            options["preconditions"] = Value::Object(preconditions);
        }
        options
    }

    pub(crate) fn check(&self, call: &Call, current: &StoredObject) -> Result<(), ApiError> {
        let resource = &call.endpoint.resource;
        // Upstream names the kind here, not the resource.
        let of = GroupResource { group: &resource.group, resource: &resource.kind };
        if let Some(uid) = self.uid.as_deref().filter(|uid| *uid != &*current.index.uid) {
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The \
                 object might have been deleted and then recreated",
                current.index.uid
            );
            return Err(ApiError::conflict(of, current.name(), &why));
        }
        let version = current.version.to_string();
        if let Some(asked) = self.version.as_deref().filter(|asked| *asked != version) {
            let why = format!(
                "the ResourceVersion in the precondition ({asked}) does not match the \
                 ResourceVersion in record ({version}). The object might have been modified"
            );
            return Err(ApiError::conflict(of, current.name(), &why));
        }
        Ok(())
    }
}

fn propagation(
    policy: Option<&str>,
    orphan: Option<bool>,
    errors: &mut FieldErrors,
) -> Option<Propagation> {
    let path = Path::new("propagationPolicy");
    if let (Some(policy), Some(_)) = (policy, orphan) {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(&path, &json!(policy), why));
    }
    match (policy, orphan) {
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some(other), _) => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported(&path, &json!(other), &supported));
            None
        }
        (None, None) => None,
    }
}

/// The finalizers that a deletion leaves on the object.
pub(crate) fn finalizers_for(
    object: &Object,
    asked: Option<Propagation>,
    orphan_by_default: bool,
) -> Vec<String> {
    let present: Vec<&str> =
        object.at("metadata").list("finalizers").iter().filter_map(Value::as_str).collect();
    let policy = asked.unwrap_or_else(|| {
        if present.contains(&ORPHAN) {
            Propagation::Orphan
        } else if present.contains(&FOREGROUND) {
            Propagation::Foreground
        } else if orphan_by_default {
            Propagation::Orphan
        } else {
            Propagation::Background
        }
    });
    let kept = present.iter().filter(|f| ![ORPHAN, FOREGROUND].contains(f));
    let mut finalizers: Vec<String> = kept.map(|f| (*f).to_owned()).collect();
    match policy {
        Propagation::Orphan => finalizers.push(ORPHAN.to_owned()),
        Propagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
        Propagation::Background => {}
    }
    finalizers
}
