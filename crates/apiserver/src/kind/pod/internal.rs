//! Objects as upstream's error messages print them: as JSON of its unversioned types, in which
//! members have their Go names and order, and what is unset is `null` or a zero value.
//!
//! `internal.txt` describes those types, a type per line: its name, then its members as
//! `GoName[:jsonName]/code`. The JSON name is the Go name with a small initial where not given. Codes:
//! `s` text, `i` number, `b` boolean, `o` number or text, `q` quantity, `t` time, `=T` a `T`, `*T` a
//! `T` or null, `[T]` a list of `T`, `*` anything or null; a trailing `?` leaves out what is empty.
//! `+T` are the members of `T`, `+T@name` those of the member `name`.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::super::grammar::quantity;
use super::super::unified_diff;
use crate::go;
use crate::json::Access;

pub(crate) const POD_SPEC: &str = "PodSpec";
pub(crate) const POD_TEMPLATE: &str = "PodTemplateSpec";
pub(crate) const CLAIM_SPEC: &str = "PersistentVolumeClaimSpec";
pub(crate) const SECURITY_CONTEXT: &str = "SecurityContext";
pub(crate) const SECCOMP_PROFILE: &str = "SeccompProfile";
pub(crate) const RESOURCE_CLAIM: &str = "PodResourceClaim";
pub(crate) const NODE_SELECTOR_TERM: &str = "NodeSelectorTerm";
pub(crate) const POD_IP: &str = "PodIP";
pub(crate) const TAINT: &str = "Taint";
pub(crate) const NODE_ADDRESS: &str = "NodeAddress";
pub(crate) const SERVICE_PORT: &str = "ServicePort";
pub(crate) const SUCCESS_POLICY: &str = "SuccessPolicy";
pub(crate) const POD_FAILURE_POLICY: &str = "PodFailurePolicy";

/// These stand in a Pod's spec, and in the unversioned type's security context.
const MOVED: [&str; 5] =
    ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

/// How deep types nest is fixed by the table; this only guards against a wrong table.
const MAX_DEPTH: usize = 32;

/// On one line.
pub(crate) fn compact(type_name: &str, value: &Value) -> String {
    let mut writer = Writer { out: String::new(), indented: false };
    writer.structure(type_name, &moved(type_name, value), 0);
    writer.out
}

/// A list, on one line.
pub(crate) fn compact_list(type_name: &str, items: &[Value]) -> String {
    let mut writer = Writer { out: String::new(), indented: false };
    writer.list(type_name, items, 0);
    writer.out
}

/// What has changed, as a unified diff of indented JSON.
pub(crate) fn diff(type_name: &str, old: &Value, new: &Value) -> String {
    let pretty = |value: &Value| {
        let mut writer = Writer { out: String::new(), indented: true };
        writer.structure(type_name, &moved(type_name, value), 0);
        writer.out
    };
    unified_diff::diff(&pretty(old), &pretty(new))
}

struct Member {
    go_name: &'static str,
    json_name: String,
    code: &'static str,
    omit_empty: bool,
}

fn types() -> &'static HashMap<&'static str, Vec<Member>> {
    static TYPES: OnceLock<HashMap<&'static str, Vec<Member>>> = OnceLock::new();
    TYPES.get_or_init(|| {
        include_str!("internal.txt")
            .lines()
            .filter_map(|line| line.split_once(' '))
            .map(parse_line)
            .collect()
    })
}

fn parse_line((name, members): (&'static str, &'static str)) -> (&'static str, Vec<Member>) {
    let members = members.split(' ').map(|member| {
        if member.starts_with('+') {
            return Member {
                go_name: "",
                json_name: String::new(),
                code: member,
                omit_empty: false,
            };
        }
        let (names, code) = member.split_once('/').unwrap_or((member, "*"));
        let (go_name, json_name) = match names.split_once(':') {
            Some((go_name, json_name)) => (go_name, json_name.to_owned()),
            None => (names, small_initial(names)),
        };
        let omit_empty = code.ends_with('?');
        Member { go_name, json_name, code: code.trim_end_matches('?'), omit_empty }
    });
    (name, members.collect())
}

fn small_initial(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|c| c.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

fn moved(type_name: &str, value: &Value) -> Value {
    let mut value = value.clone();
    let spec = match type_name {
        POD_SPEC => Some(&mut value),
        POD_TEMPLATE => value.get_mut("spec"),
        _ => None,
    };
    if let Some(spec) = spec.and_then(Value::as_object_mut) {
        let taken =
            MOVED.into_iter().filter_map(|name| Some((name.to_owned(), spec.remove(name)?)));
        let taken: Map<String, Value> = taken.collect();
        let context = spec.entry("securityContext").or_insert(Value::Null);
        if !context.is_object() {
            *context = Value::Object(Map::new());
        }
        if let Some(context) = context.as_object_mut() {
            context.extend(taken);
        }
    }
    value
}

struct Writer {
    out: String,
    indented: bool,
}

impl Writer {
    fn structure(&mut self, type_name: &str, value: &Value, depth: usize) {
        self.out.push('{');
        let mut first = true;
        self.members(type_name, value, depth + 1, &mut first);
        if !first {
            self.line(depth);
        }
        self.out.push('}');
    }

    fn members(&mut self, type_name: &str, value: &Value, depth: usize, first: &mut bool) {
        let Some(members) = types().get(type_name).filter(|_| depth < MAX_DEPTH) else {
            return;
        };
        for member in members {
            if let Some(embedded) = member.code.strip_prefix('+') {
                let (embedded, value) = match embedded.split_once('@') {
                    Some((embedded, name)) => (embedded, value.at(name)),
                    None => (embedded, value),
                };
                self.members(embedded, value, depth, first);
                continue;
            }
            let value = value.at(&member.json_name);
            if member.omit_empty && is_empty(value) {
                continue;
            }
            if !std::mem::take(first) {
                self.out.push(',');
            }
            self.line(depth);
            self.text(member.go_name);
            self.out.push_str(if self.indented { ": " } else { ":" });
            self.member(member.code, value, depth);
        }
    }

    fn member(&mut self, code: &str, value: &Value, depth: usize) {
        match (code, value) {
            ("s", Value::Null) => self.out.push_str("\"\""),
            ("i" | "o", Value::Null) => self.out.push('0'),
            ("b", Value::Null) => self.out.push_str("false"),
            ("q", value) => self.text(&quantity(value).canonical()),
            _ => {
                if let Some(type_name) = code.strip_prefix('=') {
                    self.structure(type_name, value, depth);
                } else if value.is_null() {
                    self.out.push_str("null");
                } else if let Some(type_name) =
                    code.strip_prefix('*').filter(|name| !name.is_empty())
                {
                    self.structure(type_name, value, depth);
                } else if let (Some(type_name), Some(items)) = (
                    code.strip_prefix('[').and_then(|code| code.strip_suffix(']')),
                    value.as_array(),
                ) {
                    self.list(type_name, items, depth);
                } else {
                    self.plain(value, depth);
                }
            }
        }
    }

    fn list(&mut self, type_name: &str, items: &[Value], depth: usize) {
        self.out.push('[');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push(',');
            }
            self.line(depth + 1);
            self.structure(type_name, item, depth + 1);
        }
        if !items.is_empty() {
            self.line(depth);
        }
        self.out.push(']');
    }

    /// What has no Go type of its own: scalars, lists of text, maps.
    fn plain(&mut self, value: &Value, depth: usize) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) if depth < MAX_DEPTH => {
                self.out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        self.out.push(',');
                    }
                    self.line(depth + 1);
                    self.plain(item, depth + 1);
                }
                if !items.is_empty() {
                    self.line(depth);
                }
                self.out.push(']');
            }
            Value::Object(members) if depth < MAX_DEPTH => {
                self.out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    if i > 0 {
                        self.out.push(',');
                    }
                    self.line(depth + 1);
                    self.text(key);
                    self.out.push_str(if self.indented { ": " } else { ":" });
                    self.plain(value, depth + 1);
                }
                if !members.is_empty() {
                    self.line(depth);
                }
                self.out.push('}');
            }
            other => self.out.push_str(&other.to_string()),
        }
    }

    fn line(&mut self, depth: usize) {
        if self.indented {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', depth));
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push_str(&go::json_string(text));
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_type_that_is_referred_to_is_there() {
        let types = types();
        for member in types.values().flatten() {
            let name = member.code.trim_start_matches(['+', '=', '*', '[']).trim_end_matches(']');
            let name = name.split('@').next().unwrap_or_default();
            assert!(name.len() < 2 || types.contains_key(name), "{name}");
        }
    }

    #[test]
    fn printed_as_go_prints_it() {
        assert_eq!(
            compact(TAINT, &json!({"key": "z", "effect": "NoExecute"})),
            r#"{"Key":"z","Value":"","Effect":"NoExecute","TimeAdded":null}"#
        );
        assert_eq!(
            compact(SERVICE_PORT, &json!({"protocol": "TCP", "port": 1})),
            r#"{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":1,"TargetPort":0,"NodePort":0}"#
        );
        assert_eq!(
            compact(SECCOMP_PROFILE, &json!({"type": "<&>", "localhostProfile": "x"})),
            r#"{"Type":"\u003c\u0026\u003e","LocalhostProfile":"x"}"#
        );
    }
}
