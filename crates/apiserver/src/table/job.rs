//! How a Job is printed.

use jiff::Timestamp;
use serde_json::Value;

use super::age::{self, Age};
use super::builtin::{age, containers, name};
use super::cells::Cells;
use crate::json::{Access, Object};
use crate::selector::LabelSelector;

pub(super) fn cells(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    let (spec, status) = (obj.at("spec"), obj.at("status"));
    cells.text(name(obj));
    cells.text(state(obj, status));
    let succeeded = status.int("succeeded").unwrap_or(0);
    match (spec.int("completions"), spec.int("parallelism").unwrap_or(0)) {
        (Some(completions), _) => cells.text(format_args!("{succeeded}/{completions}")),
        (None, workers) if workers > 1 => cells.text(format_args!("{succeeded}/1 of {workers}")),
        (None, _) => cells.text(format_args!("{succeeded}/1")),
    }
    let start = age::parse(status.text("startTime"));
    let completion = age::parse(status.text("completionTime"));
    match start {
        None => cells.text(""),
        Some(start) => cells.text(Age::between(start, completion.unwrap_or(now))),
    }
    cells.text(age(obj, now));
    containers(spec.at("template").at("spec"), cells);
    match LabelSelector::from_api(spec.at("selector")).map(|selector| selector.to_string()) {
        Ok(selector) => cells.text_or(&selector, "<none>"),
        Err(_) => cells.text("<error>"),
    }
}

fn state(obj: &Object, status: &Value) -> &'static str {
    let is = |kind: &str| {
        let condition = status.list("conditions").iter().find(|c| c.text("type") == kind);
        condition.is_some_and(|c| c.text("status") == "True")
    };
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if !obj.at("metadata").at("deletionTimestamp").is_null() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}
