//! Answers on stdout: tables for people, JSON and YAML for programs.

use std::io::Write as _;

use anyhow::Context as _;
use serde_json::Value;

use crate::exit::{Exit, Failure};

/// What stands between two columns.
const GAP: usize = 3;
/// The width of a terminal, where none says its own.
const DEFAULT_ROOM: usize = 80;

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

/// The columns of a table that fit into a width: of these sets of columns to leave out, the first one
/// without which it does; the last one if none is enough.
pub(super) fn left_out<'a>(
    head: &[&str],
    rows: &[Vec<String>],
    sets: &[&'a [&'a str]],
    width: usize,
) -> &'a [&'a str] {
    let widest = |index: usize| {
        let cells = rows.iter().filter_map(|row| row.get(index));
        let cells = cells.map(|cell| cell.chars().count());
        cells.fold(head[index].chars().count(), usize::max)
    };
    let is_enough = |out: &&&[&str]| {
        let shown = (0..head.len()).filter(|index| !out.contains(&head[*index]));
        let widths: Vec<usize> = shown.map(widest).collect();
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1) <= width
    };
    std::iter::once(&&[][..])
        .chain(sets)
        .find(is_enough)
        .or(sets.last())
        .copied()
        .unwrap_or_default()
}

/// A table without some of its columns.
pub(super) fn without(
    head: &[&'static str],
    rows: Vec<Vec<String>>,
    out: &[&str],
) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let shown: Vec<bool> = head.iter().map(|name| !out.contains(name)).collect();
    let keep = |row: Vec<String>| {
        row.into_iter().zip(&shown).filter(|(_, shown)| **shown).map(|(cell, _)| cell).collect()
    };
    let names = head.iter().zip(&shown).filter(|(_, shown)| **shown).map(|(name, _)| *name);
    (names.collect(), rows.into_iter().map(keep).collect())
}

/// How wide a table for people may be: as `$COLUMNS` or the terminal says, else as terminals are.
pub(super) fn room() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let of_terminal = || {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    };
    said.filter(|columns| *columns > 0).or_else(of_terminal).unwrap_or(DEFAULT_ROOM)
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
                line.push_str(&format!("{cell:<width$}{:GAP$}", ""));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    write(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_columns_are_left_out_until_the_table_fits() {
        let head = ["AT", "IN", "WHY"];
        let rows = vec![vec!["x".repeat(20), "y".repeat(5), "z".repeat(30)]];
        let sets: [&[&str]; 3] = [&["AT"], &["WHY"], &["AT", "WHY"]];
        for (width, expected) in [
            (200, &[][..]),
            (61, &[]),
            (60, &["AT"]),
            (38, &["AT"]),
            (37, &["WHY"]),
            (28, &["WHY"]),
            (27, &["AT", "WHY"]),
            (1, &["AT", "WHY"]),
        ] {
            assert_eq!(left_out(&head, &rows, &sets, width), expected, "{width}");
        }
        let (shown, cells) = without(&head, rows, &["AT", "WHY"]);
        assert_eq!((shown, cells), (vec!["IN"], vec![vec!["yyyyy".to_owned()]]));
    }
}
