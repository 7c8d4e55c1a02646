//! The entries of `metadata.managedFields`: who owns what.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::field_set::FieldSet;
use crate::go;
use crate::json::Access;

const APPLY: &str = "Apply";
const UPDATE: &str = "Update";

const FIELDS: &str = "fieldsV1";
/// The members of an entry besides its fields.
const HEADER: [&str; 6] =
    ["manager", "operation", "apiVersion", "time", "fieldsType", "subresource"];

/// More entries of updates than this are merged into one.
const MAX_UPDATE_ENTRIES: usize = 10;
const OLD_UPDATES: &str = "ancient-changes";

/// Why managed fields that were sent cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EntryError {
    #[error("operation must be `Apply` or `Update`")]
    ManagedFieldsOperation,
    #[error("apiVersion must not be empty")]
    ApiVersion,
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    #[error("invalid fieldsType {} in managed fields entry {}", go::quote(.0), .1)]
    FieldsType(String, usize),
    #[error("error decoding set: {0}")]
    Fields(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagedFieldsOperation {
    Apply,
    Update,
}

impl ManagedFieldsOperation {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Apply => APPLY,
            Self::Update => UPDATE,
        }
    }
}

/// Tells entries apart. The version belongs to the identity of updates only, so that an applier
/// keeps its entry when it moves to another version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ManagerIdentity<'a> {
    pub(crate) manager: &'a str,
    pub(crate) operation: ManagedFieldsOperation,
    pub(crate) api_version: &'a str,
    pub(crate) subresource: &'a str,
}

/// One owner's fields.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The entry as it is stored, without its fields.
    header: Map<String, Value>,
    pub(crate) fields: FieldSet,
}

impl Entry {
    pub(crate) fn new(identity: ManagerIdentity<'_>, fields: FieldSet) -> Self {
        let mut header = Map::new();
        let text = |text: &str| Value::String(text.to_owned());
        header.insert("manager".to_owned(), text(identity.manager));
        header.insert("operation".to_owned(), text(identity.operation.as_str()));
        header.insert("apiVersion".to_owned(), text(identity.api_version));
        header.insert("fieldsType".to_owned(), text("FieldsV1"));
        if !identity.subresource.is_empty() {
            header.insert("subresource".to_owned(), text(identity.subresource));
        }
        Self { header, fields }
    }

    pub(crate) fn manager(&self) -> &str {
        self.header.text("manager")
    }

    pub(crate) fn api_version(&self) -> &str {
        self.header.text("apiVersion")
    }

    pub(crate) fn subresource(&self) -> &str {
        self.header.text("subresource")
    }

    pub(crate) fn operation(&self) -> ManagedFieldsOperation {
        if self.header.text("operation") == APPLY {
            ManagedFieldsOperation::Apply
        } else {
            ManagedFieldsOperation::Update
        }
    }

    pub(crate) fn set_api_version(&mut self, version: &str) {
        self.header.insert("apiVersion".to_owned(), Value::String(version.to_owned()));
    }

    pub(crate) fn set_time(&mut self, now: Timestamp) {
        let text = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        self.header.insert("time".to_owned(), Value::String(text));
    }

    fn is_old_updates(&self) -> bool {
        self.manager() == OLD_UPDATES && self.subresource().is_empty()
    }

    /// Turns this entry into the one for old updates and takes in another, more recent one.
    fn absorb(&mut self, other: &Self) {
        self.fields.unite(&other.fields);
        self.header.insert("manager".to_owned(), OLD_UPDATES.into());
        self.header.remove("subresource");
        match other.header.get("time") {
            Some(time) => self.header.insert("time".to_owned(), time.clone()),
            None => self.header.remove("time"),
        };
    }

    fn seconds(&self) -> i64 {
        self.header.text("time").parse::<Timestamp>().map_or(0, Timestamp::as_second)
    }

    fn into_json(mut self) -> Value {
        self.header.insert("fieldsV1".to_owned(), self.fields.into_json());
        Value::Object(self.header)
    }
}

impl ManagerIdentity<'_> {
    pub(crate) fn is(&self, entry: &Entry) -> bool {
        self.operation == entry.operation()
            && self.manager == entry.manager()
            && self.subresource == entry.subresource()
            && (self.operation == ManagedFieldsOperation::Apply
                || self.api_version == entry.api_version())
    }
}

/// Who owns what in one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries(Vec<Entry>);

impl Entries {
    /// Reads the entries of a stored object, which are already in their canonical spelling.
    pub(crate) fn from_storage(list: Value) -> Result<Self, EntryError> {
        Self::read(list, |entry| {
            Ok(match entry.remove(FIELDS) {
                Some(Value::Object(steps)) => FieldSet::from_node(steps),
                _ => FieldSet::default(),
            })
        })
    }

    /// Reads entries that a client sent.
    pub(crate) fn from_client(list: Value) -> Result<Self, EntryError> {
        Self::read(list, |entry| {
            let fields = match entry.remove(FIELDS) {
                None | Some(Value::Null) => FieldSet::default(),
                Some(fields) => FieldSet::parse(&fields)
                    .map_err(|error| EntryError::Fields(error.to_string()))?,
            };
            entry.retain(|name, value| HEADER.contains(&name.as_str()) && !value.is_null());
            Ok(fields)
        })
    }

    fn read(
        list: Value,
        take_fields: impl Fn(&mut Map<String, Value>) -> Result<FieldSet, EntryError>,
    ) -> Result<Self, EntryError> {
        let Value::Array(list) = list else {
            return Ok(Self::default());
        };
        let mut entries = Self(Vec::with_capacity(list.len() + 1));
        let mut places: HashMap<String, usize> = HashMap::with_capacity(list.len());
        for (index, entry) in list.into_iter().enumerate() {
            let Value::Object(mut header) = entry else {
                return Err(EntryError::ManagedFieldsOperation);
            };
            if ![APPLY, UPDATE].contains(&header.text("operation")) {
                return Err(EntryError::ManagedFieldsOperation);
            }
            if header.text("apiVersion").is_empty() {
                return Err(EntryError::ApiVersion);
            }
            match header.text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(EntryError::NoFieldsType(index)),
                other => return Err(EntryError::FieldsType(other.to_owned(), index)),
            }
            let fields = take_fields(&mut header)?;
            let entry = Entry { header, fields };
            match places.entry(entry.identity_json()) {
                Occupied(same) => entries.0[*same.get()] = entry,
                Vacant(place) => {
                    place.insert(entries.0.len());
                    entries.0.push(entry);
                }
            }
        }
        Ok(entries)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.0.iter_mut()
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&Entry) -> bool) {
        self.0.retain(keep);
    }

    pub(crate) fn find(&self, identity: ManagerIdentity<'_>) -> Option<&Entry> {
        self.0.iter().find(|entry| identity.is(entry))
    }

    pub(crate) fn find_mut(&mut self, identity: ManagerIdentity<'_>) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| identity.is(entry))
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        self.0.push(entry);
    }

    /// Merges the oldest updates of each version into one entry until there are few enough.
    pub(crate) fn cap(&mut self) {
        let is_update = |entry: &Entry| entry.operation() == ManagedFieldsOperation::Update;
        let mut count = self.0.iter().filter(|entry| is_update(entry)).count();
        if count <= MAX_UPDATE_ENTRIES {
            return;
        }
        let (mut updates, others): (Vec<Entry>, Vec<Entry>) =
            std::mem::take(&mut self.0).into_iter().partition(is_update);
        self.0 = others;
        updates.sort_by_cached_key(|entry| (entry.seconds(), entry.identity_json()));
        let mut updates: Vec<Option<Entry>> = updates.into_iter().map(Some).collect();

        // The place of the first entry seen of each version, and of the one for old updates.
        let mut firsts: HashMap<String, usize> = HashMap::new();
        let mut buckets: HashMap<String, usize> = HashMap::new();
        for (place, entry) in updates.iter().enumerate() {
            if let Some(entry) = entry.as_ref().filter(|entry| entry.is_old_updates()) {
                buckets.entry(entry.api_version().to_owned()).or_insert(place);
            }
        }
        for place in 0..updates.len() {
            if count <= MAX_UPDATE_ENTRIES {
                break;
            }
            let Some(version) = updates[place].as_ref().map(|entry| entry.api_version().to_owned())
            else {
                continue;
            };
            let Some(first) = firsts.get(&version).copied() else {
                firsts.insert(version, place);
                continue;
            };
            let (from, into) = match buckets.get(&version).copied() {
                Some(bucket) if bucket == place => (first, place),
                Some(bucket) => (place, bucket),
                None => (place, first),
            };
            if let (Some(from), Some(into)) = (updates[from].take(), &mut updates[into]) {
                into.absorb(&from);
                count -= 1;
            }
            // Whoever has absorbed another is the entry for old updates from now on.
            buckets.insert(version.clone(), into);
            firsts.insert(version, into);
        }
        self.0.extend(updates.into_iter().flatten());
    }

    pub(crate) fn into_json(mut self) -> Value {
        // The times are parsed once for each entry.
        let mut timed: Vec<(i64, Entry)> =
            self.0.into_iter().map(|entry| (entry.seconds(), entry)).collect();
        timed.sort_by(|(a_time, a), (b_time, b)| a.storage_order(*a_time, b, *b_time));
        self.0 = timed.into_iter().map(|(_, entry)| entry).collect();
        Value::Array(self.0.into_iter().map(Entry::into_json).collect())
    }
}

impl Entry {
    fn storage_order(&self, time: i64, other: &Self, other_time: i64) -> Ordering {
        self.operation()
            .as_str()
            .cmp(other.operation().as_str())
            .then_with(|| time.cmp(&other_time))
            .then_with(|| self.manager().cmp(other.manager()))
            .then_with(|| self.api_version().cmp(other.api_version()))
            .then_with(|| self.subresource().cmp(other.subresource()))
    }

    /// What upstream uses as the entry's name: its text decides between equals.
    pub(crate) fn identity_json(&self) -> String {
        let mut parts = Vec::with_capacity(4);
        let mut part = |name: &str, value: &str| {
            if !value.is_empty() {
                parts.push(format!("\"{name}\":{}", Value::String(value.to_owned())));
            }
        };
        part("manager", self.manager());
        part("operation", self.operation().as_str());
        if self.operation() == ManagedFieldsOperation::Update {
            part("apiVersion", self.api_version());
        }
        part("subresource", self.subresource());
        format!("{{{}}}", parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::growth::assert_in_proportion;

    /// Updates of so many managers, and old updates that come last: whoever looks for those from the
    /// front passes all others.
    fn updates(count: usize) -> Value {
        let update = |manager: String, time: &str, key: usize| {
            json!({
                "manager": manager, "operation": "Update", "apiVersion": "v1", "time": time,
                "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {format!("f:k{key}"): {}}},
            })
        };
        let old = update(OLD_UPDATES.to_owned(), "2024-01-02T00:00:00Z", count);
        let managers = (0..count).map(|i| update(format!("m{i}"), "2024-01-01T00:00:00Z", i));
        managers.chain([old]).collect()
    }

    #[test]
    fn reading_entries_takes_time_in_proportion_to_their_number() {
        assert_in_proportion(2_000, updates, |list| Entries::from_client(list).unwrap());
    }

    #[test]
    fn merging_old_updates_takes_time_in_proportion_to_their_number() {
        let entries = |count| Entries::from_client(updates(count)).unwrap();
        assert_in_proportion(2_000, entries, |mut entries| {
            entries.cap();
            assert_eq!(entries.0.len(), MAX_UPDATE_ENTRIES);
            entries
        });
    }
}
