//! The `${name}` variables of a scenario.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::scenario::Scenario;

#[derive(Debug)]
pub(crate) struct Variables(BTreeMap<String, String>);

impl Variables {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let ns = scenario.namespace();
        let group = scenario.group();
        Self(BTreeMap::from([
            ("core".to_owned(), format!("/api/v1/namespaces/{ns}")),
            ("cr".to_owned(), format!("/apis/{group}/v1/namespaces/{ns}")),
            ("ns".to_owned(), ns),
            ("group".to_owned(), group),
        ]))
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    /// Unknown variables stay as they are: where an engine fails to answer what is captured, the
    /// scenario still goes on and the difference is reported at its cause.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let Some(length) = rest[start..].find('}') else { break };
            let name = &rest[start + 2..start + length];
            filled.push_str(&rest[..start]);
            match self.0.get(name) {
                Some(value) => filled.push_str(value),
                None => filled.push_str(&rest[start..=start + length]),
            }
            rest = &rest[start + length + 1..];
        }
        filled.push_str(rest);
        filled
    }

    pub(crate) fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill(text).into(),
            Value::Array(elements) => elements.iter().map(|v| self.fill_value(v)).collect(),
            Value::Object(members) => Value::Object(
                members.iter().map(|(k, v)| (self.fill(k), self.fill_value(v))).collect(),
            ),
            other => other.clone(),
        }
    }
}
