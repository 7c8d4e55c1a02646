//! Which names a definition gets, and when its kind is served.
//!
//! Names are first come, first served within a group. Acceptance and establishment are two steps,
//! each a change of status that watchers see. Both are pure: the caller brings the names that are
//! taken and the time, and writes what comes back.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::go;
use crate::json::{Access, Object};
use crate::kind::set_or_remove;

/// The names that the definitions of one group hold.
#[derive(Debug, Default)]
pub(crate) struct TakenNames {
    /// Plurals, singulars and short names.
    resources: HashSet<String>,
    /// Kinds and list kinds.
    kinds: HashSet<String>,
}

impl TakenNames {
    /// Adds what a definition of the group holds. The definition that asks is one of them.
    pub(crate) fn add(&mut self, definition: &Object) {
        let names = definition.at("status").at("acceptedNames");
        let short_names = names.list("shortNames").iter().filter_map(Value::as_str);
        let singles = ["plural", "singular"].map(|member| names.text(member));
        self.resources.extend(short_names.chain(singles).map(str::to_owned));
        self.kinds.extend(["kind", "listKind"].map(|member| names.text(member).to_owned()));
    }
}

/// The status after names were settled, or nothing if it stays as it is.
pub(crate) fn accept_names(definition: &Object, taken: &TakenNames, now: &str) -> Option<Value> {
    let requested = definition.at("spec").at("names");
    let accepted = definition.at("status").at("acceptedNames");
    if same_names(requested, accepted) {
        return None;
    }
    let mut names = accepted.as_object().cloned().unwrap_or_default();
    // A later conflict hides an earlier one, so the order is upstream's.
    let mut conflict: Option<(&str, String)> = None;
    for (member, pool, reason) in [
        ("plural", &taken.resources, "PluralConflict"),
        ("singular", &taken.resources, "SingularConflict"),
        ("shortNames", &taken.resources, "ShortNamesConflict"),
        ("kind", &taken.kinds, "KindConflict"),
        ("listKind", &taken.kinds, "ListKindConflict"),
    ] {
        match clashes(requested.at(member), accepted.at(member), pool) {
            Some(message) => conflict = Some((reason, message)),
            None => set_or_remove(&mut names, member, requested.get(member).cloned()),
        }
    }
    set_or_remove(&mut names, "categories", requested.get("categories").cloned());
    let names = Value::Object(names);

    let naming = match &conflict {
        Some((reason, message)) => Condition::new("NamesAccepted", false, reason, message),
        None => Condition::new("NamesAccepted", true, "NoConflicts", "no conflicts found"),
    };
    if &names == accepted && naming.is_equivalent(find_condition(definition, naming.kind)) {
        return None;
    }
    let mut status = definition.at("status").clone();
    set_condition(&mut status, &naming, now);
    let established = find_condition(definition, "Established");
    if !is_condition_true(definition, "Established") {
        if naming.is_true {
            let detail = "the initial names have been accepted";
            let waiting = Condition::new("Established", false, "Installing", detail);
            set_condition(&mut status, &waiting, now);
        } else if established.is_none() {
            let detail = "not all names are accepted";
            let waiting = Condition::new("Established", false, "NotAccepted", detail);
            set_condition(&mut status, &waiting, now);
        }
    }
    status["acceptedNames"] = names;
    Some(status)
}

/// The status once the kind is served, or nothing if it is not due or already so.
pub(crate) fn establish(definition: &Object, now: &str) -> Option<Value> {
    if !is_condition_true(definition, "NamesAccepted")
        || is_condition_true(definition, "Established")
    {
        return None;
    }
    let mut status = definition.at("status").clone();
    let detail = "the initial names have been accepted";
    let condition = Condition::new("Established", true, "InitialNamesAccepted", detail);
    set_condition(&mut status, &condition, now);
    Some(status)
}

/// Whether the definition has the condition with status `True`.
pub(crate) fn is_condition_true(definition: &Object, kind: &str) -> bool {
    find_condition(definition, kind).is_some_and(|condition| condition.text("status") == "True")
}

fn find_condition<'d>(definition: &'d Object, kind: &str) -> Option<&'d Value> {
    definition.at("status").list("conditions").iter().find(|c| c.text("type") == kind)
}

/// What is wrong with taking a name, or a list of them, beyond those already held.
fn clashes(requested: &Value, held: &Value, pool: &HashSet<String>) -> Option<String> {
    fn each(names: &Value) -> &[Value] {
        names.as_array().map_or(std::slice::from_ref(names), Vec::as_slice)
    }
    let in_use: Vec<String> = each(requested)
        .iter()
        .filter(|name| !each(held).contains(name))
        .filter_map(Value::as_str)
        .filter(|name| pool.contains(*name))
        .map(|name| format!("{} is already in use", go::quote(name)))
        .collect();
    match &in_use[..] {
        [] => None,
        [one] => Some(one.clone()),
        many => Some(format!("[{}]", many.join(", "))),
    }
}

fn same_names(requested: &Value, accepted: &Value) -> bool {
    ["plural", "singular", "kind", "listKind"].iter().all(|m| requested.text(m) == accepted.text(m))
        && ["shortNames", "categories"].iter().all(|m| requested.list(m) == accepted.list(m))
}

struct Condition<'a> {
    kind: &'a str,
    is_true: bool,
    reason: &'a str,
    message: &'a str,
}

impl<'a> Condition<'a> {
    const fn new(kind: &'a str, is_true: bool, reason: &'a str, message: &'a str) -> Self {
        Self { kind, is_true, reason, message }
    }

    const fn status(&self) -> &'static str {
        if self.is_true { "True" } else { "False" }
    }

    fn is_equivalent(&self, other: Option<&Value>) -> bool {
        other.is_some_and(|other| {
            other.text("status") == self.status()
                && other.text("reason") == self.reason
                && other.text("message") == self.message
        })
    }
}

/// Sets a condition in place or at the end; its time moves only with its status.
fn set_condition(status: &mut Value, condition: &Condition<'_>, now: &str) {
    let Some(status) = ensure_object(status) else {
        return;
    };
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    let existing = conditions.iter_mut().find(|c| c.text("type") == condition.kind);
    let mut fresh = json!({
        "type": condition.kind,
        "status": condition.status(),
        "lastTransitionTime": now,
        "reason": condition.reason,
        "message": condition.message,
    });
    match existing {
        Some(existing) => {
            let since = existing.at("lastTransitionTime");
            if existing.text("status") == condition.status() && !since.is_null() {
                fresh["lastTransitionTime"] = since.clone();
            }
            *existing = fresh;
        }
        None => conditions.push(fresh),
    }
}

fn ensure_object(value: &mut Value) -> Option<&mut Object> {
    if !value.is_object() {
        *value = Value::Object(Object::new());
    }
    value.as_object_mut()
}
