//! Server-side printing: `metav1.Table`, which is what kubectl shows.
//!
//! A table is written straight into bytes from borrowed objects: a page of 500 rows clones nothing.

mod age;
mod builtin;
mod cells;
mod custom;
mod event;
mod job;
mod node;
mod pod;
mod service;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::Value;

pub(crate) use builtin::printer;

use crate::field::{FieldError, Path};
use crate::json::{Access, Object};
use cells::Cells;

/// How one kind is printed: its columns, and how an object fills them.
#[derive(Debug)]
pub(crate) struct Printer {
    /// `columnDefinitions`, as JSON.
    definitions: String,
    fill: Fill,
    conditions: fn(&Object) -> Option<&'static str>,
    /// Upstream's table of last resort shows no rows as null.
    null_rows: bool,
}

#[derive(Debug)]
enum Fill {
    Builtin(fn(&Object, Timestamp, &mut Cells<'_>)),
    Custom(Vec<custom::Column>),
}

impl Printer {
    /// The printer of a custom kind, from the `additionalPrinterColumns` of one of its versions.
    pub(crate) fn custom(columns: &[Value]) -> Self {
        let (definitions, columns) = custom::compile(columns);
        let definitions = Value::Array(definitions).to_string();
        Self { definitions, fill: Fill::Custom(columns), conditions: |_| None, null_rows: false }
    }

    fn cells(&self, obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
        match &self.fill {
            Fill::Builtin(fill) => fill(obj, now, cells),
            Fill::Custom(columns) => {
                cells.text(obj.at("metadata").text("name"));
                columns.iter().for_each(|column| column.fill(obj, now, cells));
            }
        }
    }
}

/// The version of `meta.k8s.io` in which a table is asked for; they differ only in name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1beta1,
}

impl MetaVersion {
    pub(crate) const fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What a row carries besides its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Include {
    /// Reads the `includeObject` query parameter; the error is the message of a 400.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            "None" => Ok(Self::None),
            other => {
                let detail = "must be 'Metadata', 'Object', 'None', or empty";
                let error = FieldError::invalid_text(&Path::new("includeObject"), other, detail);
                Err(format!("Unable to convert to Table as requested: {error}"))
            }
        }
    }
}

/// How a table is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) version: MetaVersion,
    pub(crate) include: Include,
    /// A watch describes the columns with its first event only.
    pub(crate) headers: bool,
    /// What ages are counted from.
    pub(crate) now: Timestamp,
}

/// The metadata of the list that a table stands for. For a single object only its version is set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ListMeta<'a> {
    pub(crate) resource_version: &'a str,
    pub(crate) continue_token: &'a str,
    pub(crate) remaining: Option<u64>,
}

impl<'a> ListMeta<'a> {
    /// The metadata of the table of one object.
    pub(crate) fn of_object(obj: &'a Object) -> Self {
        let resource_version = obj.at("metadata").text("resourceVersion");
        Self { resource_version, ..Self::default() }
    }
}

/// Writes a table as JSON.
pub(crate) fn render<'o>(
    printer: &Printer,
    view: &View,
    list: &ListMeta<'_>,
    objects: impl IntoIterator<Item = &'o Object>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    let version = view.version.api_version();
    push(&mut out, &format!(r#"{{"kind":"Table","apiVersion":"{version}","metadata":{{"#));
    list_metadata(list, &mut out);
    push(&mut out, r#"},"columnDefinitions":"#);
    push(&mut out, if view.headers { &printer.definitions } else { "null" });
    let mut objects = objects.into_iter().peekable();
    if printer.null_rows && objects.peek().is_none() {
        push(&mut out, r#","rows":null}"#);
        return out;
    }
    push(&mut out, r#","rows":["#);
    for (i, obj) in objects.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        row(printer, view, obj, &mut out);
    }
    push(&mut out, "]}");
    out
}

fn list_metadata(list: &ListMeta<'_>, out: &mut Vec<u8>) {
    let mut separator = "";
    for (key, text) in
        [("resourceVersion", list.resource_version), ("continue", list.continue_token)]
    {
        if !text.is_empty() {
            push(out, separator);
            push(out, &format!(r#""{key}":"#));
            cells::string(text, out);
            separator = ",";
        }
    }
    if let Some(remaining) = list.remaining {
        push(out, &format!(r#"{separator}"remainingItemCount":{remaining}"#));
    }
}

fn row(printer: &Printer, view: &View, obj: &Object, out: &mut Vec<u8>) {
    push(out, r#"{"cells":["#);
    printer.cells(obj, view.now, &mut Cells::new(out));
    out.push(b']');
    if let Some(conditions) = (printer.conditions)(obj) {
        push(out, r#","conditions":"#);
        push(out, conditions);
    }
    push(out, r#","object":"#);
    match view.include {
        Include::Object => json(obj, out),
        // The end of the initial events is told by an annotation, so it is never left out.
        Include::None if !ends_initial_events(obj) => push(out, "null"),
        Include::None | Include::Metadata => partial_metadata(obj, view.version, out),
    }
    out.push(b'}');
}

fn ends_initial_events(obj: &Object) -> bool {
    obj.at("metadata").at("annotations").text("k8s.io/initial-events-end") == "true"
}

/// Writes an object's `PartialObjectMetadata`.
pub(crate) fn partial_metadata(obj: &Object, version: MetaVersion, out: &mut Vec<u8>) {
    let version = version.api_version();
    push(out, &format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"{version}","metadata":"#));
    match obj.get("metadata") {
        Some(metadata) => json(metadata, out),
        None => push(out, "{}"),
    }
    out.push(b'}');
}

fn json(value: &impl serde::Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("JSON values can always be written to memory");
}

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}
