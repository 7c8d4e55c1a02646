//! Compares what a target answered with what a real server answered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;

use serde::Deserialize;
use serde_json::Value;

use crate::scenario;
use crate::transcript::Records;

/// A difference that is meant to be there. It covers the JSON path and everything below it; where that is
/// the whole answer, `ours` says what it is instead.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Allowed {
    scenario: String,
    step: String,
    path: String,
    reason: String,
    #[serde(default)]
    ours: Option<Value>,
}

impl Allowed {
    /// An answer that differs as a whole is still a certain one.
    fn check(&self) -> Result<(), &'static str> {
        match (self.path.is_empty(), self.ours.is_some()) {
            (true, false) => Err("covers the whole answer and does not say what `ours` is"),
            (false, true) => Err("says what `ours` is, which is for whole answers"),
            _ => Ok(()),
        }
    }

    fn covers(&self, path: &str, got: &Value) -> bool {
        match &self.ours {
            Some(ours) => ours == got,
            None => covers(&self.path, path),
        }
    }
}

pub(crate) fn allowed() -> Vec<Allowed> {
    let text = std::fs::read_to_string(scenario::directory().join("allowed.yaml"))
        .expect("allowed.yaml is beside this file");
    let entries: Vec<Allowed> =
        scenario::parse_yaml(&text).unwrap_or_else(|e| panic!("allowed.yaml: {e}"));
    for entry in &entries {
        assert!(!entry.reason.trim().is_empty(), "{entry:?} gives no reason");
        entry.check().unwrap_or_else(|fault| panic!("{entry:?} {fault}"));
    }
    entries
}

/// Collects the comparison of many scenarios.
#[derive(Debug)]
pub(crate) struct Report {
    allowed: Vec<Allowed>,
    used: BTreeSet<usize>,
    scenarios: usize,
    equal: usize,
    tolerated: usize,
    different: usize,
    text: String,
}

#[derive(Debug)]
struct Difference {
    path: String,
    expected: Option<Value>,
    got: Option<Value>,
}

impl Report {
    pub(crate) fn new(allowed: Vec<Allowed>) -> Self {
        Self {
            allowed,
            used: BTreeSet::new(),
            scenarios: 0,
            equal: 0,
            tolerated: 0,
            different: 0,
            text: String::new(),
        }
    }

    pub(crate) fn add(&mut self, scenario: &str, recorded: Option<&Records>, got: &Records) {
        self.scenarios += 1;
        let Some(recorded) = recorded else {
            self.different += got.len();
            self.write(format_args!(
                "{scenario}: not recorded yet (cargo xtask conformance record)"
            ));
            return;
        };
        let mut got_by_label: BTreeMap<&str, &Value> =
            got.iter().map(|(label, record)| (label.as_str(), record)).collect();
        for (label, expected) in recorded {
            match got_by_label.remove(label.as_str()) {
                Some(record) => self.add_step(scenario, label, expected, record),
                None => {
                    self.different += 1;
                    self.write(format_args!(
                        "{scenario} / {label}: recorded, but not in the scenario"
                    ));
                }
            }
        }
        for label in got_by_label.keys() {
            self.different += 1;
            self.write(format_args!("{scenario} / {label}: in the scenario, but not recorded"));
        }
    }

    /// Something that kept a scenario from running as written; explains the differences after it.
    pub(crate) fn note(&mut self, scenario: &str, problem: &str) {
        self.write(format_args!("{scenario}: {}", shown(Some(&Value::from(problem)))));
    }

    fn add_step(&mut self, scenario: &str, label: &str, expected: &Value, got: &Value) {
        let mut differences = Vec::new();
        diff(expected, got, &mut String::new(), &mut differences);
        if differences.is_empty() {
            self.equal += 1;
            return;
        }
        let mut unexpected = false;
        for difference in &differences {
            let entry = self.allowed.iter().position(|entry| {
                entry.scenario == scenario
                    && entry.step == label
                    && entry.covers(&difference.path, got)
            });
            if let Some(entry) = entry {
                self.used.insert(entry);
                continue;
            }
            unexpected = true;
            self.write(format_args!(
                "{scenario} / {label} {}\n    real: {}\n    ours: {}",
                if difference.path.is_empty() { "/" } else { &difference.path },
                shown(difference.expected.as_ref()),
                shown(difference.got.as_ref()),
            ));
        }
        if unexpected {
            self.different += 1;
        } else {
            self.tolerated += 1;
        }
    }

    fn write(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("writing to a string");
    }

    /// `N scenarios, M steps, K equal, L allowed, D different`.
    pub(crate) fn summary(&self) -> String {
        let steps = self.equal + self.tolerated + self.different;
        format!(
            "{} scenarios, {steps} steps, {} equal, {} allowed, {} different",
            self.scenarios, self.equal, self.tolerated, self.different
        )
    }

    /// The summary; panics if anything differs that may not. With `whole`, all scenarios were run, so
    /// that every allowed difference must have been seen.
    pub(crate) fn finish(mut self, whole: bool) -> String {
        let listed = std::mem::take(&mut self.allowed);
        if whole {
            for (number, entry) in listed.iter().enumerate() {
                if !self.used.contains(&number) {
                    self.different += 1;
                    let Allowed { scenario, step, path, .. } = entry;
                    self.write(format_args!(
                        "{scenario} / {step} {path}: allowed to differ, but does not"
                    ));
                }
            }
        }
        let summary = self.summary();
        if whole {
            // Not by a print macro: the list of differences is to be seen in a run that passes.
            let mut shown = String::from("allowed differences:\n");
            for Allowed { scenario, step, reason, .. } in &listed {
                let _ = writeln!(shown, "  {scenario} / {step}: {reason}");
            }
            let _ = std::io::stderr().write_all(shown.as_bytes());
        }
        assert!(
            self.different == 0,
            "answers differ from the real server's\n\n{}\n{summary}",
            self.text
        );
        summary
    }
}

fn covers(allowed: &str, path: &str) -> bool {
    path.strip_prefix(allowed).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn shown(value: Option<&Value>) -> String {
    let Some(value) = value else { return "(absent)".to_owned() };
    let mut text = value.to_string();
    if let Some((cut, _)) = text.char_indices().nth(600) {
        text.truncate(cut);
        text.push('…');
    }
    text
}

fn diff(expected: &Value, got: &Value, path: &mut String, found: &mut Vec<Difference>) {
    let mut child = |segment: &str, expected: Option<&Value>, got: Option<&Value>| {
        let length = path.len();
        path.push('/');
        path.push_str(&segment.replace('~', "~0").replace('/', "~1"));
        match (expected, got) {
            (Some(expected), Some(got)) => diff(expected, got, path, found),
            (expected, got) => found.push(Difference {
                path: path.clone(),
                expected: expected.cloned(),
                got: got.cloned(),
            }),
        }
        path.truncate(length);
    };
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            let keys: BTreeSet<&String> = expected.keys().chain(got.keys()).collect();
            for key in keys {
                child(key, expected.get(key), got.get(key));
            }
        }
        (Value::Array(expected), Value::Array(got)) => {
            for index in 0..expected.len().max(got.len()) {
                child(&index.to_string(), expected.get(index), got.get(index));
            }
        }
        (expected, got) if expected == got => {}
        (Value::String(expected), Value::String(got))
            if with_sorted_members(expected) == with_sorted_members(got) => {}
        (expected, got) => found.push(Difference {
            path: path.clone(),
            expected: Some(expected.clone()),
            got: Some(got.clone()),
        }),
    }
}

/// A text with the JSON that it quotes written in one order: an error that prints a whole object
/// prints the members in the order of a Go struct, which is not promised to anybody.
fn with_sorted_members(text: &str) -> String {
    let plain = text.replace("\\\"", "\"");
    let mut sorted = String::with_capacity(plain.len());
    let mut rest = plain.as_str();
    while let Some(start) = rest.find(['{', '[']) {
        let (before, from) = rest.split_at(start);
        sorted.push_str(before);
        let mut values = serde_json::Deserializer::from_str(from).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                sorted.push_str(&value.to_string());
                rest = &from[values.byte_offset()..];
            }
            _ => {
                sorted.push_str(&from[..1]);
                rest = &from[1..];
            }
        }
    }
    sorted.push_str(rest);
    sorted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn records(value: Value) -> Records {
        vec![("get".to_owned(), value)]
    }

    fn entry(path: &str) -> Allowed {
        let [scenario, step, reason] = ["s", "get", "because"].map(str::to_owned);
        Allowed { scenario, step, path: path.to_owned(), reason, ours: None }
    }

    #[test]
    fn an_answer_that_differs_as_a_whole_is_an_exact_one() {
        assert!(entry("").check().is_err());
        let whole = |ours: Value| Allowed { ours: Some(ours), ..entry("") };
        assert!(whole(json!(1)).check().is_ok());
        assert!(Allowed { ours: Some(json!(1)), ..entry("/body") }.check().is_err());
        for (ours, summary) in [
            (json!({"status": 406}), "1 scenarios, 1 steps, 0 equal, 1 allowed, 0 different"),
            (json!({"status": 404}), "1 scenarios, 1 steps, 0 equal, 0 allowed, 1 different"),
        ] {
            let mut report = Report::new(vec![whole(ours)]);
            let real = records(json!({"status": 200, "body": "x"}));
            report.add("s", Some(&real), &records(json!({"status": 406})));
            assert_eq!(report.summary(), summary);
        }
    }

    #[test]
    fn differences_are_counted_by_step_and_named_by_path() {
        let mut report = Report::new(Vec::new());
        let real = records(json!({"body": {"a": [1, 2], "b": 1}}));
        report.add("s", Some(&real), &records(json!({"body": {"a": [1], "b": 1.5}})));
        assert_eq!(report.summary(), "1 scenarios, 1 steps, 0 equal, 0 allowed, 1 different");
        for line in ["/body/a/1", "real: 2", "ours: (absent)", "/body/b", "ours: 1.5"] {
            assert!(report.text.contains(line), "{line} is not in {}", report.text);
        }
    }

    #[test]
    fn quoted_objects_are_compared_whatever_their_order() {
        let real = r#"Invalid value: "{\"b\":1,\"a\":[{\"d\":2,\"c\":3}]}": no"#;
        let ours = r#"Invalid value: "{\"a\":[{\"c\":3,\"d\":2}],\"b\":1}": no"#;
        let other = r#"Invalid value: "{\"a\":[{\"c\":3,\"d\":2}],\"b\":2}": no"#;
        assert_eq!(with_sorted_members(real), with_sorted_members(ours));
        assert_ne!(with_sorted_members(real), with_sorted_members(other));
        assert_eq!(with_sorted_members("a [b {c"), "a [b {c");
    }

    #[test]
    fn an_allowed_path_covers_what_is_below_it_and_no_neighbour() {
        for (path, summary) in [
            ("/body/a", "1 scenarios, 1 steps, 0 equal, 1 allowed, 0 different"),
            ("/body/a/b", "1 scenarios, 1 steps, 0 equal, 1 allowed, 0 different"),
            ("/bod", "1 scenarios, 1 steps, 0 equal, 0 allowed, 1 different"),
        ] {
            let mut report = Report::new(vec![entry(path)]);
            let real = records(json!({"body": {"a": {"b": 1}}}));
            report.add("s", Some(&real), &records(json!({"body": {"a": {"b": 2}}})));
            assert_eq!(report.summary(), summary, "{path}");
        }
    }
}
