//! The lines of `sojourn why`, made from one object's status.

use serde_json::Value;

/// Lines with a label each; what a status does not say has no line.
pub(in crate::commands) struct StatusLines<'a> {
    status: &'a Value,
    lines: Vec<String>,
}

impl<'a> StatusLines<'a> {
    pub(in crate::commands) fn of(status: &'a Value) -> Self {
        Self { status, lines: Vec::new() }
    }

    /// The text at a place of the status; empty and missing are the same.
    pub(in crate::commands) fn text(&self, pointer: &str) -> &'a str {
        self.status.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// What is at a place of the status.
    pub(super) fn value(&self, pointer: &str) -> Option<&'a Value> {
        self.status.pointer(pointer)
    }

    /// The entries of a list in the status.
    pub(in crate::commands) fn list(
        &self,
        pointer: &str,
    ) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.value(pointer).and_then(Value::as_array).into_iter().flatten()
    }

    /// A line with a value.
    pub(in crate::commands) fn field(&mut self, label: &str, value: &str) {
        if !value.is_empty() {
            self.lines.push(format!("  {label:<10} {value}"));
        }
    }

    /// A line with the text at a place.
    pub(super) fn text_field(&mut self, label: &str, pointer: &str) {
        self.field(label, self.text(pointer));
    }

    /// A line with the texts at several places, one after the other.
    pub(super) fn texts(&mut self, label: &str, pointers: &[&str]) {
        let texts: Vec<_> = pointers.iter().map(|pointer| self.text(pointer)).collect();
        self.field(label, texts.join(" ").trim());
    }

    /// A line with several parts, each with the words before it.
    pub(super) fn parts(&mut self, label: &str, parts: &[(&str, &str)]) {
        let said = parts.iter().filter(|(_, value)| !value.is_empty());
        let said: Vec<_> = said.map(|(before, value)| format!("{before}{value}")).collect();
        self.field(label, &said.join(", "));
    }

    /// What comes next, from these places, and why.
    pub(super) fn next(&mut self, pointers: &[&str]) {
        self.texts("next", pointers);
        self.text_field("why", "/next/why");
    }

    pub(super) fn kept_until(&mut self) {
        self.text_field("kept until", "/keep/until");
    }

    /// A line as it is.
    pub(in crate::commands) fn push(&mut self, line: String) {
        self.lines.push(line);
    }

    pub(in crate::commands) fn finish(self) -> Vec<String> {
        self.lines
    }
}

pub(in crate::commands) const fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}
