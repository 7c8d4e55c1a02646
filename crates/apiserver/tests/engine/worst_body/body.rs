//! Bodies with one list or map filled to a size.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::table::{Field, ListField, Table, element};

/// What a list is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// The shortest elements there are: the most of them.
    Empty,
    Equal,
    Different,
}

impl Fill {
    pub(crate) const ALL: [Self; 3] = [Self::Empty, Self::Equal, Self::Different];
}

/// Stands where the filling goes; no kind has such a value.
const MARK: &str = "\u{1}";

/// A valid, small object of a kind, so that the rules behind the first ones are reached too.
pub(crate) fn base(api_version: &str, kind: &str, name: &str) -> Value {
    let pod = json!({"containers": [{"name": "a", "image": "i"}]});
    let mut object = match kind {
        "Pod" => json!({"spec": pod}),
        "PodTemplate" => json!({"template": {"spec": pod}}),
        "Job" => {
            let mut pod = pod;
            pod["restartPolicy"] = json!("Never");
            json!({"spec": {"template": {"spec": pod}}})
        }
        "Service" => json!({"spec": {"ports": [{"port": 1}]}}),
        "PersistentVolumeClaim" => json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}},
        }}),
        "RoleBinding" | "ClusterRoleBinding" => json!({"roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view",
        }}),
        "Event" if api_version == "v1" => {
            json!({"involvedObject": {"namespace": "default", "name": "a"}})
        }
        "Event" => json!({
            "regarding": {"namespace": "default"}, "eventTime": "2024-01-01T00:00:00.000000Z",
            "reportingController": "a.b/c", "reportingInstance": "i", "action": "a",
            "reason": "r", "type": "Normal",
        }),
        "SubjectAccessReview" => {
            json!({"spec": {"user": "u", "resourceAttributes": {"verb": "get"}}})
        }
        "SelfSubjectAccessReview" | "LocalSubjectAccessReview" => {
            json!({"spec": {"user": "u", "resourceAttributes": {"verb": "get", "namespace": "default"}}})
        }
        "SelfSubjectRulesReview" => json!({"spec": {"namespace": "default"}}),
        "CustomResourceDefinition" => definition(name),
        _ => json!({}),
    };
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object["metadata"] = json!({"name": name});
    if kind == "CustomResourceDefinition" {
        object["metadata"]["name"] = json!(format!("{name}s.example.com"));
    }
    object
}

fn definition(name: &str) -> Value {
    json!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": format!("{name}s"), "singular": name, "kind": format!("K{name}")},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}},
        }}],
    }})
}

/// `base` with the list or map at `place` filled, `bytes` long in all.
pub(crate) fn filled(
    table: &Table,
    base: &Value,
    place: &ListField,
    fill: Fill,
    bytes: usize,
) -> String {
    let mut marked = base.clone();
    put(table, &mut marked, &place.steps, json!(MARK));
    let text = marked.to_string();
    let mark = json!(MARK).to_string();
    let leaf = place.steps.last().expect("a list field has steps");
    let filling = filling(table, leaf, fill, bytes.saturating_sub(text.len()));
    text.replacen(&mark, &filling, 1)
}

/// What is at the place alone, as a merge patch.
pub(crate) fn patch(table: &Table, place: &ListField, fill: Fill, bytes: usize) -> String {
    filled(table, &json!({}), place, fill, bytes)
}

fn put(table: &Table, at: &mut Value, steps: &[Field], value: Value) {
    let Some((field, rest)) = steps.split_first() else {
        *at = value;
        return;
    };
    if !at.is_object() {
        *at = Value::Object(Map::new());
    }
    let bare = table.bare(field.ty);
    let member = &mut at[field.name];
    if rest.is_empty() {
        *member = value;
        return;
    }
    match element(bare) {
        None => put(table, member, rest, value),
        Some(item) if bare.starts_with("map[") => {
            if !member.is_object() {
                *member = json!({"a": table.sample(field, item, 0, 0)});
            }
            put(table, &mut member["a"], rest, value);
        }
        Some(item) => {
            if !member.is_array() {
                *member = json!([table.sample(field, item, 0, 0)]);
            }
            put(table, &mut member[0], rest, value);
        }
    }
}

fn filling(table: &Table, leaf: &Field, fill: Fill, bytes: usize) -> String {
    let bare = table.bare(leaf.ty);
    let item = element(bare).expect("a place is a list or a map");
    let is_map = bare.starts_with("map[");
    let mut out = String::with_capacity(bytes + 64);
    out.push(if is_map { '{' } else { '[' });
    let element = |number: usize| match fill {
        Fill::Empty => empty(table, item),
        Fill::Equal | Fill::Different => table.sample(leaf, item, number, 0),
    };
    let first = element(1).to_string();
    let mut number = 1;
    while out.len() < bytes {
        if number > 1 {
            out.push(',');
        }
        let differs = fill == Fill::Different;
        if is_map {
            let key = if differs { number } else { 1 };
            write!(out, "\"a{key}\":").expect("writing to memory cannot fail");
        }
        match differs && number > 1 {
            true => write!(out, "{}", element(number)).expect("writing to memory cannot fail"),
            false => out.push_str(&first),
        }
        number += 1;
    }
    out.push(if is_map { '}' } else { ']' });
    out
}

fn empty(table: &Table, ty: &'static str) -> Value {
    match table.bare(ty) {
        "string" | "bytes" => json!(""),
        "bool" => json!(false),
        "int" | "int32" | "int64" | "float64" | "intstr.IntOrString" | "resource.Quantity" => {
            json!(0)
        }
        "meta.Time" | "meta.MicroTime" => Value::Null,
        list if list.starts_with("[]") => json!([]),
        _ => json!({}),
    }
}
