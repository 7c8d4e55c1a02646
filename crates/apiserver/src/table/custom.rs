//! Columns of custom kinds, as their CRD declares them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::{self, Age};
use super::builtin;
use super::cells::Cells;
use crate::json::{Access, Object};
use crate::jsonpath::{JsonPath, print};

#[derive(Debug)]
pub(super) struct Column {
    path: JsonPath,
    kind: ColumnKind,
}

#[derive(Clone, Copy, Debug)]
enum ColumnKind {
    String,
    Integer,
    Number,
    Boolean,
    Date,
}

/// The definitions (the name first) and what fills them (the name is left to the caller).
/// Like upstream it stops at a path that cannot be compiled.
pub(super) fn compile(declared: &[Value]) -> (Vec<Value>, Vec<Column>) {
    let default = [json!({
        "name": "Age",
        "type": "date",
        "jsonPath": ".metadata.creationTimestamp",
        "description": builtin::creation_description(),
    })];
    let declared = if declared.is_empty() { &default } else { declared };
    let mut definitions = vec![builtin::name_column().clone()];
    let mut columns = Vec::with_capacity(declared.len());
    for column in declared {
        let path_text = column.text("jsonPath");
        let Ok(path) = JsonPath::parse(path_text) else {
            break;
        };
        let kind = match column.text("type") {
            "integer" => ColumnKind::Integer,
            "number" => ColumnKind::Number,
            "boolean" => ColumnKind::Boolean,
            "date" => ColumnKind::Date,
            _ => ColumnKind::String,
        };
        columns.push(Column { path, kind });
        let description = match column.text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path_text}"),
            text => text.to_owned(),
        };
        definitions.push(json!({
            "name": column.text("name"),
            "type": column.text("type"),
            "format": column.text("format"),
            "description": description,
            "priority": column.int("priority").unwrap_or(0),
        }));
    }
    (definitions, columns)
}

impl Column {
    /// Writes the cell; what is missing or of another type is `null`.
    pub(super) fn fill(&self, obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
        let Some(value) = self.path.first(obj) else {
            return cells.null();
        };
        match (self.kind, value) {
            (ColumnKind::String, value) => cells.text(print::text(value)),
            (ColumnKind::Integer, Value::Number(_)) => {
                let float = || value.as_f64().unwrap_or_default();
                #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
                cells.literal(print::as_int(value).unwrap_or_else(|| float() as i64));
            }
            (ColumnKind::Number, Value::Number(_)) => cells.literal(crate::go::json(value)),
            (ColumnKind::Boolean, Value::Bool(flag)) => cells.literal(flag),
            // Both stand for the zero time, which has no age.
            (ColumnKind::Date, Value::String(text)) if text.is_empty() || text == "null" => {
                cells.text(Age::of(None, now));
            }
            (ColumnKind::Date, Value::String(text)) => match age::parse(text) {
                Some(time) => cells.text(Age::of(Some(time), now)),
                None => cells.text("<invalid>"),
            },
            _ => cells.null(),
        }
    }
}
