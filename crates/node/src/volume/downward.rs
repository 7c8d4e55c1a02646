//! What a Pod may read about itself from files: fields of its metadata and what its containers may
//! use.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, Pod};

use super::content::{ContentError, Contents, Kind};
use crate::plan::downward::{self, DownwardError};
use crate::plan::resource::Requests;

/// Adds the files that `items` describe. All that is wrong is told at once.
pub(super) fn collect(
    contents: &mut Contents,
    items: &[DownwardAPIVolumeFile],
    default_mode: i32,
    pod: &Pod,
    allocatable: Requests,
) -> Result<(), ContentError> {
    let mut errors = Vec::new();
    for item in items {
        let value = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => field_value(pod, &field.field_path),
            (None, Some(of)) => downward::amount(pod, None, of, allocatable),
            (None, None) => Ok(String::new()),
        };
        let mode = item.mode.unwrap_or(default_mode);
        let put = value
            .map_err(ContentError::from)
            .and_then(|value| contents.put(&item.path, value.into_bytes(), mode, Kind::Plain));
        errors.extend(put.err());
    }
    ContentError::combine(errors)
}

/// The value of a field: those of the metadata only, and of labels and annotations also all.
fn field_value(pod: &Pod, path: &str) -> Result<String, DownwardError> {
    match path {
        "metadata.labels" => Ok(lines(pod.metadata.labels.as_ref())),
        "metadata.annotations" => Ok(lines(pod.metadata.annotations.as_ref())),
        _ if path.starts_with("metadata.") => downward::field(pod, &[], path),
        _ => Err(DownwardError::Field(path.to_owned())),
    }
}

/// `key="value"`, a line each, sorted; values quoted as Go does, which is what programs that read
/// these files expect.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let mut text = String::new();
    for (key, value) in map.into_iter().flatten() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(key);
        text.push('=');
        quote(&mut text, value);
    }
    text
}

fn quote(out: &mut String, value: &str) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                // Writing to a `String` cannot fail.
                let _ = match code {
                    ..0x80 => write!(out, "\\x{code:02x}"),
                    0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push('"');
}

/// Letters, marks, numbers, symbols and the plain space. Rust escapes the same characters, but for
/// marks that begin a text.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    c.is_alphanumeric() || format!("a{c}").escape_debug().count() == 2
}

#[cfg(test)]
mod tests;
