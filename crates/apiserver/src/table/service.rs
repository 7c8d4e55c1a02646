//! How a Service is printed.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::builtin::{age, labels, name};
use super::cells::Cells;
use crate::json::{Access, Object};

pub(super) fn cells(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    let spec = obj.at("spec");
    cells.text(name(obj));
    cells.text(spec.text("type"));
    cells.text(spec.list("clusterIPs").first().and_then(Value::as_str).unwrap_or("<none>"));
    external_ip(spec, obj.at("status"), cells);
    if spec.list("ports").is_empty() {
        cells.text("<none>");
    } else {
        cells.joined(spec.list("ports").iter().map(port), ",");
    }
    cells.text(age(obj, now));
    labels(spec.at("selector"), cells);
}

fn port(port: &Value) -> String {
    let number = port.int("port").unwrap_or(0);
    let protocol = port.text("protocol");
    match port.int("nodePort").unwrap_or(0) {
        node_port if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_ip(spec: &Value, status: &Value, cells: &mut Cells<'_>) {
    let fixed = || spec.list("externalIPs").iter().filter_map(Value::as_str);
    match spec.text("type") {
        "ClusterIP" | "NodePort" if fixed().next().is_none() => cells.text("<none>"),
        "ClusterIP" | "NodePort" => cells.joined(fixed(), ","),
        "LoadBalancer" => {
            let ingress = status.at("loadBalancer").list("ingress").iter();
            let balancers: BTreeSet<&str> = ingress
                .map(|i| if i.text("ip").is_empty() { i.text("hostname") } else { i.text("ip") })
                .filter(|address| !address.is_empty())
                .collect();
            if balancers.is_empty() && fixed().next().is_none() {
                cells.text("<pending>");
            } else {
                cells.joined(balancers.into_iter().chain(fixed()), ",");
            }
        }
        "ExternalName" => cells.text(spec.text("externalName")),
        _ => cells.text("<unknown>"),
    }
}
