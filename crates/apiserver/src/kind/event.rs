//! Events, which two API groups serve in different words from one storage.
//!
//! They are stored as `v1` has them. `events.k8s.io` renames members, is stricter about what it is
//! given, and lets only the series of an Event change.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Kind;
use crate::field::{FieldError, FieldErrors, Path, go_value};
use crate::json::{Access, Object};
use crate::name;

/// The rules for Events in the form of `v1`.
#[derive(Debug)]
pub(crate) struct CoreEvent;

/// The rules for Events in the form of `events.k8s.io/v1`.
#[derive(Debug)]
pub(crate) struct Event;

/// The members that the two forms call differently: in `v1`, and in `events.k8s.io`.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("reportingComponent", "reportingController"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

const REFERENCE: [(&str, &str); 7] = [
    ("Kind", "kind"),
    ("Namespace", "namespace"),
    ("Name", "name"),
    ("UID", "uid"),
    ("APIVersion", "apiVersion"),
    ("ResourceVersion", "resourceVersion"),
    ("FieldPath", "fieldPath"),
];

const SOURCE: [(&str, &str); 2] = [("Component", "component"), ("Host", "host")];

/// Turns an Event of `events.k8s.io/v1` into one of `v1`.
pub(crate) fn to_core(obj: &mut Object) {
    for (core, new) in RENAMED {
        if let Some(value) = obj.remove(new) {
            obj.insert(core.to_owned(), value);
        }
    }
    for member in ["involvedObject", "source"] {
        obj.entry(member).or_insert_with(|| Value::Object(Map::new()));
    }
    for member in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        obj.entry(member).or_insert(Value::Null);
    }
    for member in ["reportingComponent", "reportingInstance"] {
        obj.entry(member).or_insert_with(|| "".into());
    }
    obj.insert("apiVersion".to_owned(), "v1".into());
}

/// Turns an Event of `v1` into one of `events.k8s.io/v1`.
pub(crate) fn from_core(obj: &mut Object) {
    for (core, new) in RENAMED {
        if let Some(value) = obj.remove(core) {
            obj.insert(new.to_owned(), value);
        }
    }
    for member in ["regarding", "deprecatedSource"] {
        obj.entry(member).or_insert_with(|| Value::Object(Map::new()));
    }
    for member in ["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"] {
        obj.entry(member).or_insert(Value::Null);
    }
    for member in ["reportingController", "reportingInstance", "note"] {
        if obj.text(member).is_empty() {
            obj.remove(member);
        }
    }
    obj.insert("apiVersion".to_owned(), "events.k8s.io/v1".into());
}

/// An Event whichever its form is. Errors name members as `v1` does, like upstream.
struct EventReader<'a>(&'a Object);

impl<'a> EventReader<'a> {
    fn member(&self, core: &str) -> &'a Value {
        let renamed = RENAMED.iter().find(|(name, _)| *name == core);
        match (self.0.get(core), renamed) {
            (None, Some((_, new))) => self.0.at(new),
            _ => self.0.at(core),
        }
    }

    fn text(&self, core: &str) -> &'a str {
        self.member(core).as_str().unwrap_or_default()
    }

    fn count(&self) -> i64 {
        self.member("count").as_i64().unwrap_or(0)
    }

    fn is_set(&self, time: &str) -> bool {
        !self.text(time).is_empty()
    }
}

impl Kind for CoreEvent {
    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        validate_any(&EventReader(obj), "reportingComponent", errors);
    }

    /// In the same order as the other form's, so that one index serves both.
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
            "source",
        ]
    }

    fn selectable_field<'a>(&self, obj: &'a Object, label: &str) -> Cow<'a, str> {
        selectable_field(obj, label)
    }
}

impl Kind for Event {
    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        let event = EventReader(obj);
        validate_any(&event, "reportingController", errors);
        validate_series(&event, errors);
        if !event.is_set("eventTime") {
            errors.push(FieldError::required(&Path::new("eventTime"), ""));
        }
        let mut refuse = |member: &str, detail: String| {
            errors.push(FieldError::invalid_text(&Path::new(member), "", detail));
        };
        let kind = event.text("type");
        if !matches!(kind, "Normal" | "Warning") {
            refuse("type", format!("has invalid value: {kind}"));
        }
        for time in ["firstTimestamp", "lastTimestamp"] {
            if event.is_set(time) {
                refuse(time, "needs to be unset".to_owned());
            }
        }
        if event.count() != 0 {
            refuse("count", "needs to be unset".to_owned());
        }
        let source = event.member("source");
        if SOURCE.iter().any(|(_, member)| !source.text(member).is_empty()) {
            refuse("source", "needs to be unset".to_owned());
        }
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        let (new, old) = (EventReader(new), EventReader(old));
        validate_any(&new, "reportingController", errors);
        if new.member("series") != old.member("series") {
            validate_series(&new, errors);
        }
        validate_same(&new, &old, errors);
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ]
    }

    fn indexed_fields(&self) -> &'static [&'static str] {
        CoreEvent.selectable_fields()
    }

    fn selectable_field<'a>(&self, obj: &'a Object, label: &str) -> Cow<'a, str> {
        selectable_field(obj, label)
    }
}

fn selectable_field<'a>(obj: &'a Object, label: &str) -> Cow<'a, str> {
    let event = EventReader(obj);
    Cow::Borrowed(match label {
        "reason" | "type" => obj.text(label),
        "reportingComponent" | "reportingController" => event.text("reportingComponent"),
        "source" => match event.member("source").text("component") {
            "" => event.text("reportingComponent"),
            component => component,
        },
        _ => match label.split_once('.') {
            Some(("involvedObject" | "regarding", member)) => {
                event.member("involvedObject").text(member)
            }
            _ => "",
        },
    })
}

/// What holds for every Event, whichever group it comes through.
fn validate_any(event: &EventReader<'_>, controller_name: &str, errors: &mut FieldErrors) {
    let namespace = event.0.at("metadata").text("namespace");
    let involved = event.member("involvedObject").text("namespace");
    let is_new = event.is_set("eventTime");
    // Events of cluster-scoped objects live in `default`, new ones also in `kube-system`.
    let agrees = match (involved, is_new) {
        ("", false) => matches!(namespace, "" | "default"),
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (involved, false) => involved == namespace,
        (_, true) => true,
    };
    if !agrees {
        let path = Path::new("involvedObject");
        let detail = "does not match event.namespace";
        errors.push(FieldError::invalid_text(&path.field("namespace"), involved, detail));
    }
    if is_new {
        validate_new(event, controller_name, errors);
    }
    for fault in name::dns1123_subdomain(namespace) {
        errors.push(FieldError::invalid_text(&Path::new("namespace"), namespace, fault));
    }
}

/// An Event with an `eventTime` is of the new kind, and must say who did what.
fn validate_new(event: &EventReader<'_>, controller_name: &str, errors: &mut FieldErrors) {
    let controller = event.text("reportingComponent");
    let path = Path::new(controller_name);
    if controller.is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    for fault in name::qualified_name(controller) {
        errors.push(FieldError::invalid_text(&path, controller, fault));
    }
    for (member, limit) in
        [("reportingInstance", 128), ("action", 128), ("reason", 128), ("message", 1024)]
    {
        let text = event.text(member);
        if text.is_empty() && member != "message" {
            errors.push(FieldError::required(&Path::new(member), ""));
        }
        if text.len() > limit {
            let detail = format!("can have at most {limit} characters");
            errors.push(FieldError::invalid_text(&Path::new(member), "", detail));
        }
    }
}

fn validate_series(event: &EventReader<'_>, errors: &mut FieldErrors) {
    let series = event.member("series");
    if !series.is_object() {
        return;
    }
    if series.int("count").unwrap_or(0) < 2 {
        let detail = "should be at least 2";
        errors.push(FieldError::invalid_text(&Path::new("series.count"), "", detail));
    }
    if series.text("lastObservedTime").is_empty() {
        errors.push(FieldError::required(&Path::new("series.lastObservedTime"), ""));
    }
}

/// How a member that must stay is compared and shown.
enum GoShape {
    Text,
    /// Absent is shown as null.
    Time,
    Count,
    Struct(&'static [(&'static str, &'static str)]),
    /// A struct that may be absent, which is not the same as an empty one.
    Optional(&'static [(&'static str, &'static str)]),
}

/// Everything but the series. Upstream looks at the reason twice, and so reports it twice.
const IMMUTABLE: [(&str, GoShape); 14] = [
    ("involvedObject", GoShape::Struct(&REFERENCE)),
    ("reason", GoShape::Text),
    ("message", GoShape::Text),
    ("source", GoShape::Struct(&SOURCE)),
    ("firstTimestamp", GoShape::Time),
    ("lastTimestamp", GoShape::Time),
    ("count", GoShape::Count),
    ("reason", GoShape::Text),
    ("type", GoShape::Text),
    ("eventTime", GoShape::Time),
    ("action", GoShape::Text),
    ("related", GoShape::Optional(&REFERENCE)),
    ("reportingComponent", GoShape::Text),
    ("reportingInstance", GoShape::Text),
];

fn validate_same(new: &EventReader<'_>, old: &EventReader<'_>, errors: &mut FieldErrors) {
    for (member, shape) in IMMUTABLE {
        let (value, previous) = (new.member(member), old.member(member));
        let same_text = new.text(member) == old.text(member);
        let same_fields = |fields: &[(&str, &str)]| {
            fields.iter().all(|(_, field)| value.text(field) == previous.text(field))
        };
        let (same, shown) = match shape {
            GoShape::Text => (same_text, go_value(&new.text(member).into())),
            GoShape::Time => (same_text, go_value(value)),
            GoShape::Count => (new.count() == old.count(), new.count().to_string()),
            GoShape::Struct(fields) => (same_fields(fields), go_struct(value, fields)),
            GoShape::Optional(fields) => {
                let same = value.is_object() == previous.is_object() && same_fields(fields);
                (same, if value.is_object() { go_struct(value, fields) } else { "null".to_owned() })
            }
        };
        if !same {
            let name = if member == "reportingComponent" { "reportingController" } else { member };
            let detail = "field is immutable";
            errors.push(FieldError::invalid_raw(&Path::new(name), shown, detail));
        }
    }
}

/// A struct of strings as Go encodes it: every field is there, under its Go name.
fn go_struct(value: &Value, fields: &[(&str, &str)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(go_name, member)| format!("\"{go_name}\":{}", Value::from(value.text(member))))
        .collect();
    format!("{{{}}}", fields.join(","))
}

#[cfg(test)]
mod tests;
