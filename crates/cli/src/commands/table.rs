//! Answers on stdout: tables for people, JSON and YAML for programs.

use std::io::Write as _;

use anyhow::Context as _;
use serde_json::Value;

use crate::exit::{Exit, Failure};

/// Writes to stdout; a reader that went away is no failure.
pub(super) fn write(text: &str) {
    drop(try_write(text.as_bytes()));
}

/// The same, for what goes on until nobody reads it any more.
pub(super) fn try_write(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

pub(super) fn json(value: &Value) -> Result<(), Failure> {
    write(&json_text(value)?);
    Ok(())
}

pub(super) fn yaml(value: &Value) -> Result<(), Failure> {
    write(&yaml_text(value)?);
    Ok(())
}

pub(super) fn json_text(value: &Value) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value)
        .context("cannot write JSON")
        .map_err(|error| Failure::new(Exit::Bug, error, ""))?;
    Ok(text + "\n")
}

pub(super) fn yaml_text(value: &Value) -> Result<String, Failure> {
    serde_saphyr::to_string(value)
        .context("cannot write YAML")
        .map_err(|error| Failure::new(Exit::Bug, error, ""))
}

/// Columns as wide as their widest cell, three spaces apart, the last one open.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let head = head.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if index + 1 == row.len() {
                line.push_str(cell);
            } else {
                line.push_str(&format!("{cell:<width$}   "));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    write(&text);
}
