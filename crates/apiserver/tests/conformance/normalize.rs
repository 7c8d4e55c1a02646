//! Takes out of a transcript what differs from run to run, and nothing else:
//!
//! - uids become `uid1`, `uid2`, … in order of appearance;
//! - versions of objects become `rv1`, `rv2`, … in their numerical order, so that "newer than" is
//!   still compared; versions of lists and bookmarks become `rvN+`, where `rvN` is the newest
//!   version of an object in the transcript that they include (other scenarios' writes lie between);
//! - times within some days of now become `<time>` or `<microtime>`, ages in Tables `<age>`;
//! - the random end of a generated name becomes `<suffix1>`, …;
//! - addresses, ports, continue tokens, signed tokens and certificates get a name each.
//!
//! Some things have no promised order and are sorted: `details.causes` and the same errors listed in
//! the Status' message, and the rules of a SelfSubjectRulesReview. `managedFields` go by time, in whole seconds, so that two writes
//! are a second apart in one run and not in another: whether they are in upstream's order is found
//! out, and told if not, and then they are sorted without their times.

mod pattern;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use self::pattern::Patterns;

/// Rewrites the records of one scenario, which must be all of them, in order. Only versions that
/// also stand in `kept`, the parts of the records that will be compared, are numbered: what a
/// controller writes beside the scenario has no fixed place among the scenario's own writes.
pub(crate) fn normalize(records: &mut [Value], kept: &[Value]) {
    let mut seen = SeenValues::default();
    for record in &mut *records {
        sort_unordered(record);
        seen.collect(record);
    }
    let mut compared = BTreeSet::new();
    kept.iter().for_each(|value| collect_compared(value, &mut compared));
    seen.versions.retain(|version| compared.contains(version));
    let mut rewriter = Rewriter {
        versions: seen.versions.into_iter().collect(),
        generated: seen.generated,
        uids: BTreeMap::new(),
        patterns: Patterns::new(),
    };
    for record in &mut *records {
        rewriter.rewrite("", record);
    }
}

/// The versions of objects in what is compared: whole objects, or the version picked by itself.
fn collect_compared(value: &Value, versions: &mut BTreeSet<u64>) {
    match value {
        Value::Array(elements) => {
            elements.iter().for_each(|element| collect_compared(element, versions));
        }
        Value::Object(members) => {
            for (key, member) in members {
                let of_object = key == "resourceVersion" && is_object_metadata(members);
                if of_object || key.ends_with("/resourceVersion") {
                    versions.extend(version(member));
                }
                collect_compared(member, versions);
            }
        }
        _ => {}
    }
}

/// What must be known of the whole scenario before anything is renamed.
#[derive(Default)]
struct SeenValues {
    versions: BTreeSet<u64>,
    /// Generated names and what they become, in order of appearance.
    generated: Vec<(String, String)>,
}

impl SeenValues {
    fn collect(&mut self, value: &Value) {
        match value {
            Value::Array(elements) => elements.iter().for_each(|element| self.collect(element)),
            Value::Object(members) => {
                if let Some(Value::Object(metadata)) = members.get("metadata") {
                    self.collect_metadata(metadata);
                }
                members.values().for_each(|member| self.collect(member));
            }
            _ => {}
        }
    }

    fn collect_metadata(&mut self, metadata: &Map<String, Value>) {
        if is_object_metadata(metadata) {
            self.versions.extend(metadata.get("resourceVersion").and_then(version));
        }
        let text = |key| metadata.get(key).and_then(Value::as_str);
        let (Some(prefix), Some(name)) = (text("generateName"), text("name")) else { return };
        let known = self.generated.iter().any(|(full, _)| full == name);
        if !known && name.len() > prefix.len() && name.starts_with(prefix) {
            let number = self.generated.len() + 1;
            self.generated.push((name.to_owned(), format!("{prefix}<suffix{number}>")));
        }
    }
}

/// A stored object has a uid; the metadata of lists, Tables and bookmarks has none.
fn is_object_metadata(metadata: &Map<String, Value>) -> bool {
    metadata.contains_key("uid")
}

fn version(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok().filter(|version| *version > 0)
}

struct Rewriter {
    versions: Vec<u64>,
    generated: Vec<(String, String)>,
    uids: BTreeMap<String, String>,
    patterns: Patterns,
}

impl Rewriter {
    fn rewrite(&mut self, key: &str, value: &mut Value) {
        match value {
            Value::Object(members) => {
                if key == "metadata" {
                    self.rewrite_metadata(members);
                }
                if members.get("kind").is_some_and(|kind| kind == "Table") {
                    self.rewrite_cells(members);
                }
                // The keys of managed fields name uids too.
                *members = std::mem::take(members)
                    .into_iter()
                    .map(|(key, mut member)| {
                        self.rewrite(&key, &mut member);
                        (self.name_uids(key), member)
                    })
                    .collect();
            }
            Value::Array(elements) => {
                elements.iter_mut().for_each(|element| self.rewrite(key, element));
            }
            Value::String(text) => *text = self.text(key, text),
            Value::Number(_) if key == "nodePort" || key == "healthCheckNodePort" => {
                *value = "<port>".into();
            }
            _ => {}
        }
    }

    fn rewrite_metadata(&self, metadata: &mut Map<String, Value>) {
        let of_object = is_object_metadata(metadata);
        if let Some(value) = metadata.get_mut("resourceVersion")
            && let Some(number) = version(value)
        {
            let rank = self.versions.partition_point(|version| *version <= number);
            *value = if of_object { format!("rv{rank}") } else { format!("rv{rank}+") }.into();
        }
        if let Some(Value::String(token)) = metadata.get_mut("continue")
            && !token.is_empty()
        {
            *token = "<continue>".to_owned();
        }
    }

    fn rewrite_cells(&self, table: &mut Map<String, Value>) {
        let Some(Value::Array(rows)) = table.get_mut("rows") else { return };
        for cell in rows.iter_mut().filter_map(|row| row["cells"].as_array_mut()).flatten() {
            if let Value::String(text) = cell {
                *text = self.patterns.without_age(text);
            }
        }
    }

    fn text(&mut self, key: &str, text: &str) -> String {
        // A version outside of metadata, as in an Event's reference to its object.
        if key == "resourceVersion"
            && let Ok(number) = text.parse()
            && let Ok(rank) = self.versions.binary_search(&number)
        {
            return format!("rv{}", rank + 1);
        }
        let mut text = self.patterns.replace_volatile(text);
        for (name, replacement) in &self.generated {
            if text.contains(name) {
                text = text.replace(name, replacement);
            }
        }
        self.name_uids(text)
    }

    fn name_uids(&mut self, mut text: String) -> String {
        for uid in self.patterns.uids(&text) {
            let number = self.uids.len() + 1;
            let name = self.uids.entry(uid.clone()).or_insert_with(|| format!("uid{number}"));
            text = text.replace(&uid, name);
        }
        text
    }
}

fn sort_unordered(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(sort_unordered),
        Value::Object(members) => {
            if let Some(Value::Array(entries)) = members.get_mut("managedFields") {
                let in_order = entries.is_sorted_by_key(owner_order);
                entries.sort_by_key(|entry| {
                    ["operation", "manager", "subresource", "apiVersion"]
                        .map(|key| text(entry, key))
                });
                if !in_order {
                    entries.push(OUT_OF_ORDER.into());
                }
            }
            // Upstream's order is not stable from one request to the next, so there is none to be
            // equal to: its resolver visits all ClusterRoleBindings and then the namespace's
            // RoleBindings, but each lister lists the items of an informer's store, which is a Go
            // map. Everybody is in `system:authenticated`, which has several bindings, so even one
            // binding of a scenario's own lies anywhere among them. What is stable, the order of
            // groups, resources, names and verbs within a rule, is compared.
            for key in ["resourceRules", "nonResourceRules"] {
                if let Some(Value::Array(rules)) = members.get_mut(key) {
                    rules.sort_by_key(Value::to_string);
                }
            }
            if members.get("kind").is_some_and(|kind| kind == "Status") {
                sort_causes(members);
            }
            members.values_mut().for_each(sort_unordered);
        }
        _ => {}
    }
}

/// Stands behind owners that are not in upstream's order.
const OUT_OF_ORDER: &str = "<not in upstream's order>";

/// By which upstream sorts owners. Times have one form and sort as texts; none comes first.
fn owner_order(entry: &Value) -> [String; 5] {
    ["operation", "time", "manager", "apiVersion", "subresource"].map(|key| text(entry, key))
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// Sorts the causes, and the errors in the message if they are the same ones.
fn sort_causes(status: &mut Map<String, Value>) {
    let Some(causes) = status.get_mut("details").and_then(|details| details.get_mut("causes"))
    else {
        return;
    };
    let Value::Array(causes) = causes else { return };
    causes.sort_by_key(|cause| ["field", "reason", "message"].map(|key| text(cause, key)));
    let mut errors: Vec<String> = causes
        .iter()
        .map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message")))
        .collect();
    let Some(Value::String(message)) = status.get_mut("message") else { return };
    let Some((start, listed)) = message.split_once(": [") else { return };
    let Some(listed) = listed.strip_suffix(']') else { return };
    // Upstream lists equal errors once in the message, but once each as causes.
    errors.dedup();
    let length = errors.iter().map(String::len).sum::<usize>() + 2 * (errors.len() - 1);
    if length == listed.len() && errors.iter().all(|error| listed.contains(error.as_str())) {
        *message = format!("{start}: [{}]", errors.join(", "));
    }
}

#[cfg(test)]
mod tests;
