//! Who owns which fields (`metadata.managedFields`), and server-side apply.
//!
//! [`update`] records ownership for writes of whole objects (create, update, patches): the writer
//! comes to own what it added or changed. [`apply`] merges a partial configuration into the live
//! object: the applier owns exactly what its configuration mentions, takes nothing from others
//! unless told to, and what it no longer mentions goes unless somebody else owns it.
//!
//! Both run on objects that are decoded and defaulted, before the kind's strategy touches them.

mod compare;
mod composition;
mod conflict;
mod element;
mod entries;
mod field_set;
mod last_applied;
mod merge;
mod noop;
mod owned;
mod prune;
mod reconcile;
mod validate;

use jiff::Timestamp;
use serde_json::Value;

use self::compare::{Difference, compare};
use self::composition::empty_map;
use self::conflict::OwnerConflicts;
use self::entries::{Entries, Entry, ManagedFieldsOperation, ManagerIdentity};
use self::field_set::FieldSet;
use crate::json::{Access, object_mut};
use crate::shape::{ShapeId, Shapes};

pub(crate) use self::conflict::{CONFLICT_REASON, Conflict, Conflicts};
pub(crate) use self::noop::is_noop;

/// The write that ownership is recorded for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) shapes: &'a Shapes,
    /// The shape of the whole object.
    pub(crate) root: ShapeId,
    /// The version the request is made in.
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    /// Versions in which the object can be read; entries in any other version are dropped.
    pub(crate) served: &'a [Box<str>],
    /// Who writes; empty counts as `unknown`.
    pub(crate) manager: &'a str,
    /// `""` for the main resource.
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
    /// What the kind's strategy resets on such a write and the writer therefore cannot own:
    /// `status`, `metadata.deletionTimestamp`.
    pub(crate) reset_fields: &'a [&'a str],
}

/// Why ownership could not be worked out. Upstream lets the write go on without managed fields.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to update ManagedFields: {0}")]
pub(crate) struct ManagedFieldsError(String);

/// Why a configuration was not applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum ApplyError {
    /// 400 BadRequest.
    #[error("{0}")]
    BadRequest(String),
    /// 409 Conflict, with the causes.
    #[error("{}", .0.message)]
    Conflicts(Conflicts),
    /// The configuration does not fit the schema: 500 with this message, and no reason.
    #[error("{0}")]
    Invalid(String),
}

const BEFORE_FIRST_APPLY: &str = "before-first-apply";
const MANAGED_FIELDS: &str = "managedFields";

/// Records who owns what in `new`, which is about to replace `live`.
///
/// Managed fields that came with `new` are honoured if they can be read, unless the write is to a
/// subresource; an empty list, or one with a single empty entry, forgets all owners.
///
/// # Errors
/// If elements of a list cannot be told apart by their keys; `new` then has no managed fields.
pub(crate) fn update(
    request: &Request<'_>,
    live: Option<&Value>,
    new: &mut Value,
) -> Result<(), ManagedFieldsError> {
    let sent = take_managed_fields(new);
    let mut entries = current_entries(request, live, sent);
    let exists = live.is_some_and(|live| !live.at("metadata").text("uid").is_empty());
    if entries.is_empty() && exists {
        // Nobody is tracked until somebody applies.
        return Ok(());
    }
    request
        .record_update(live.unwrap_or(empty_map()), new, &mut entries, request.manager)
        .map_err(|error| ManagedFieldsError(error.to_string()))?;
    put_managed_fields(new, entries);
    Ok(())
}

/// Merges `config` into `live` for its manager.
///
/// # Errors
/// If it does not fit the schema, or would change what others own and `force` is not given.
pub(crate) fn apply(
    request: &Request<'_>,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<Value, ApplyError> {
    request.check_config(config)?;
    let live = live.unwrap_or(empty_map());
    let mut object = live.clone();
    let stored = take_managed_fields(&mut object).unwrap_or_default();
    let mut entries = Entries::from_storage(stored).map_err(|error| {
        ApplyError::Invalid(format!("failed to decode managed fields: {error}"))
    })?;
    if entries.is_empty() {
        let (live, manager) = (&object, BEFORE_FIRST_APPLY);
        request.record_update(empty_map(), live, &mut entries, manager).map_err(|error| {
            ApplyError::Invalid(format!("failed to create manager for existing fields: {error}"))
        })?;
    }
    let Applied { entries, mut conflicts } =
        request.apply_to(live, &mut object, config, entries)?;
    let is_kubectl = request.manager == last_applied::KUBECTL;
    if !force && !conflicts.is_empty() {
        if is_kubectl {
            let (shapes, root) = (request.shapes, request.root);
            last_applied::drop_own_conflicts(
                shapes,
                root,
                request.api_version,
                live,
                &mut conflicts,
            );
        }
        if !conflicts.is_empty() {
            return Err(ApplyError::Conflicts(Conflicts::new(conflicts)));
        }
    }
    take_managed_fields(&mut object);
    if is_kubectl {
        last_applied::update_last_applied(&mut object, config);
    }
    put_managed_fields(&mut object, entries);
    Ok(object)
}

/// The outcome of an apply, as it is if the conflicts are disregarded.
struct Applied {
    entries: Entries,
    conflicts: Vec<OwnerConflicts>,
}

impl Request<'_> {
    fn identity<'b>(
        &'b self,
        manager: &'b str,
        operation: ManagedFieldsOperation,
    ) -> ManagerIdentity<'b> {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        let (api_version, subresource) = (self.api_version, self.subresource);
        ManagerIdentity { manager, operation, api_version, subresource }
    }

    fn check_config(&self, config: &Value) -> Result<(), ApplyError> {
        let (api_version, kind) = (config.text("apiVersion"), config.text("kind"));
        if (api_version, kind) != (self.api_version, self.kind) {
            let given = go_group_version_kind(api_version, kind);
            return Err(ApplyError::BadRequest(format!("invalid object type: {given}")));
        }
        if config.at("metadata").at(MANAGED_FIELDS).is_array() {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
        }
        validate::validate(self.shapes, self.root, config).map_err(|errors| {
            let metadata = config.at("metadata");
            ApplyError::Invalid(format!(
                "failed to create typed patch object ({}/{}; {}): {errors}",
                metadata.text("namespace"),
                metadata.text("name"),
                go_group_version_kind(api_version, kind)
            ))
        })
    }

    /// Drops entries that cannot be understood any more and adapts those written under another
    /// shape.
    fn migrate_entries(&self, entries: &mut Entries) {
        entries.retain(|entry| self.served.iter().any(|version| **version == *entry.api_version()));
        for entry in entries.iter_mut() {
            reconcile::reconcile(self.shapes, self.root, &mut entry.fields);
        }
    }

    fn compare(&self, old: &Value, new: &Value) -> Result<Difference, element::ItemError> {
        let mut difference = compare(self.shapes, self.root, old, new, self.reset_fields)?;
        self.drop_reset_fields(&mut difference.changed);
        self.drop_reset_fields(&mut difference.removed);
        Ok(difference)
    }

    fn drop_reset_fields(&self, fields: &mut FieldSet) {
        if fields.is_empty() {
            return;
        }
        for path in self.reset_fields {
            let steps: Vec<String> = path.split('.').map(element::field_key).collect();
            let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
            fields.remove_path(&steps);
        }
    }

    fn record_update(
        &self,
        live: &Value,
        new: &Value,
        entries: &mut Entries,
        manager: &str,
    ) -> Result<(), element::ItemError> {
        self.migrate_entries(entries);
        let Difference { changed, removed } = self.compare(live, new)?;
        for entry in entries.iter_mut() {
            entry.fields.subtract(&changed);
            entry.fields.subtract(&removed);
        }
        entries.retain(|entry| !entry.fields.is_empty());
        if changed.is_empty() {
            entries.cap();
            return Ok(());
        }
        let identity = self.identity(manager, ManagedFieldsOperation::Update);
        if let Some(own) = entries.find_mut(identity) {
            own.fields.unite(&changed);
            own.set_time(self.now);
        } else {
            let mut own = Entry::new(identity, changed);
            own.set_time(self.now);
            entries.push(own);
        }
        entries.cap();
        Ok(())
    }

    /// Merges `config` into `object`, which is the live object without its managed fields.
    fn apply_to(
        &self,
        live: &Value,
        object: &mut Value,
        config: &Value,
        mut entries: Entries,
    ) -> Result<Applied, ApplyError> {
        let (shapes, root) = (self.shapes, self.root);
        self.migrate_entries(&mut entries);
        merge::merge(shapes, root, object, config)
            .map_err(|error| ApplyError::Invalid(format!("failed to merge config: {error}")))?;

        let mut mentioned = owned::fields_of(shapes, root, config);
        self.drop_reset_fields(&mut mentioned);
        let identity = self.identity(self.manager, ManagedFieldsOperation::Apply);
        if let Some(last) = entries.find(identity) {
            self.prune(object, &entries, identity, &last.fields, &mentioned);
        }

        let Difference { changed, removed } = self
            .compare(live, object)
            .map_err(|error| ApplyError::Invalid(format!("failed to compare objects: {error}")))?;
        let mut conflicts = Vec::new();
        for entry in entries.iter_mut().filter(|entry| !identity.is(entry)) {
            if entry.fields.intersects(&changed) {
                let fields = entry.fields.intersection(&changed);
                conflicts.push(OwnerConflicts::new(entry, fields));
                entry.fields.subtract(&changed);
            }
            entry.fields.subtract(&removed);
        }

        owned::strip_unowned(&mut mentioned);
        match entries.find_mut(identity) {
            Some(own) => {
                own.fields = mentioned;
                own.set_api_version(self.api_version);
            }
            None => entries.push(Entry::new(identity, mentioned)),
        }
        // An apply that changes nothing does not count as a write.
        let unchanged = match (live, &*object) {
            (Value::Object(live), Value::Object(object)) => {
                noop::equal_but_for_owners(live, object)
            }
            _ => false,
        };
        if let (false, Some(own)) = (unchanged, entries.find_mut(identity)) {
            own.set_time(self.now);
        }
        entries.retain(|entry| !entry.fields.is_empty());
        Ok(Applied { entries, conflicts })
    }

    /// Removes what the applier owned and no longer mentions, unless others own it.
    fn prune(
        &self,
        object: &mut Value,
        entries: &Entries,
        identity: ManagerIdentity<'_>,
        last: &FieldSet,
        mentioned: &FieldSet,
    ) {
        let mut dropped = last.clone();
        dropped.subtract(mentioned);
        if dropped.is_empty() {
            return;
        }
        let mut owned = mentioned.clone();
        for entry in entries.iter().filter(|entry| !identity.is(entry)) {
            owned.unite(&entry.fields);
        }
        prune::prune(self.shapes, self.root, object, last, &owned);
    }
}

/// The entries to go on from: those sent, or else those of the live object.
fn current_entries(request: &Request<'_>, live: Option<&Value>, sent: Option<Value>) -> Entries {
    let stored = live.map_or(&Value::Null, |live| live.at("metadata").at(MANAGED_FIELDS));
    let from_live = || Entries::from_storage(stored.clone()).unwrap_or_default();
    match sent {
        // Most writers send back what they read: no need to copy it.
        Some(sent) if sent == *stored => Entries::from_storage(sent).unwrap_or_default(),
        Some(sent) if request.subresource.is_empty() => {
            if asks_for_reset(&sent) {
                return Entries::default();
            }
            match Entries::from_client(sent) {
                Ok(entries) if !entries.is_empty() => entries,
                // Clients that do not understand managed fields must not lose them by accident.
                _ => from_live(),
            }
        }
        _ => from_live(),
    }
}

fn asks_for_reset(sent: &Value) -> bool {
    let is_blank = |value: &Value| value.is_null() || value.as_str().is_some_and(str::is_empty);
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(only)]) => only.values().all(is_blank),
        _ => false,
    }
}

fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove(MANAGED_FIELDS)
}

fn put_managed_fields(object: &mut Value, entries: Entries) {
    if let (false, Some(object)) = (entries.is_empty(), object.as_object_mut()) {
        object_mut(object, "metadata").insert(MANAGED_FIELDS.to_owned(), entries.into_json());
    }
}

/// `apps/v1, Kind=Deployment`; the core group prints as `/v1, Kind=Pod`.
fn go_group_version_kind(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

#[cfg(test)]
mod tests;
