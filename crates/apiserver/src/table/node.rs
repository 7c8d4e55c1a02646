//! How a Node is printed.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::builtin::{age, name};
use super::cells::Cells;
use crate::json::{Access, Object};

pub(super) fn cells(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    let status = obj.at("status");
    let info = status.at("nodeInfo");
    cells.text(name(obj));
    let ready = status.list("conditions").iter().rfind(|c| c.text("type") == "Ready");
    let state = match ready.map(|c| c.text("status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let unschedulable = obj.at("spec").flag("unschedulable");
    cells.text(format_args!("{state}{}", if unschedulable { ",SchedulingDisabled" } else { "" }));
    let roles = roles(obj.at("metadata").at("labels"));
    if roles.is_empty() {
        cells.text("<none>");
    } else {
        cells.joined(roles, ",");
    }
    cells.text(age(obj, now));
    cells.text(info.text("kubeletVersion"));
    for kind in ["InternalIP", "ExternalIP"] {
        let address = status.list("addresses").iter().find(|a| a.text("type") == kind);
        cells.text(address.map_or("<none>", |a| a.text("address")));
    }
    cells.text_or(info.text("osImage"), "<unknown>");
    let kernel = match info.text("kernelVersion") {
        "" => "<unknown>",
        version => version,
    };
    match info.text("architecture") {
        "" => cells.text(kernel),
        architecture => cells.text(format_args!("{kernel} ({architecture})")),
    }
    cells.text_or(info.text("containerRuntimeVersion"), "<unknown>");
}

fn roles(labels: &Value) -> BTreeSet<&str> {
    let labels = labels.as_object().into_iter().flatten();
    labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect()
}
