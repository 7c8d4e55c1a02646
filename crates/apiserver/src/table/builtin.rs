//! The printers of built-in kinds: which there are, and those that are a line long.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::Value;

use super::age::Age;
use super::cells::Cells;
use super::{Fill, Printer, event, job, node, pod, service};
use crate::json::{Access, Object};

/// The definitions of every kind's columns, as the API serves them.
static COLUMNS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("columns.json")).expect("the file is part of the program")
});

/// The columns of kinds that have none of their own.
const DEFAULT: &str = "default";

type Fills = fn(&Object, Timestamp, &mut Cells<'_>);

const KINDS: &[(&str, &str, Fills)] = &[
    ("", "ConfigMap", config_map),
    ("", "Event", event::core_cells),
    ("", "Namespace", namespace),
    ("", "Node", node::cells),
    ("", "PersistentVolumeClaim", claim),
    ("", "Pod", pod::cells),
    ("", "PodTemplate", pod_template),
    ("", "Secret", secret),
    ("", "Service", service::cells),
    ("", "ServiceAccount", service_account),
    ("batch", "Job", job::cells),
    ("coordination.k8s.io", "Lease", lease),
    ("events.k8s.io", "Event", event::cells),
    ("policy", "PodDisruptionBudget", disruption_budget),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", role_binding),
    ("rbac.authorization.k8s.io", "RoleBinding", role_binding),
];

/// In the order of [`KINDS`], then the default.
static PRINTERS: LazyLock<Vec<Printer>> = LazyLock::new(|| {
    let kinds = KINDS.iter().map(|(_, kind, fill)| (*kind, *fill));
    kinds
        .chain([(DEFAULT, name_and_creation as Fills)])
        .map(|(kind, fill)| Printer {
            definitions: COLUMNS.at(kind).to_string(),
            fill: Fill::Builtin(fill),
            conditions: if kind == "Pod" { pod::conditions } else { |_| None },
            null_rows: kind == DEFAULT,
        })
        .collect()
});

/// The printer of a built-in kind.
pub(crate) fn printer(group: &str, kind: &str) -> &'static Printer {
    let at = KINDS.iter().position(|(g, k, _)| *g == group && *k == kind);
    &PRINTERS[at.unwrap_or(KINDS.len())]
}

/// The definition of the column that every table begins with.
pub(super) fn name_column() -> &'static Value {
    &COLUMNS.at(DEFAULT)[0]
}

/// What every kind says of its creation time.
pub(super) fn creation_description() -> &'static str {
    COLUMNS.at(DEFAULT)[1].text("description")
}

pub(super) fn name(obj: &Object) -> &str {
    obj.at("metadata").text("name")
}

/// How old the object is.
pub(super) fn age(obj: &Object, now: Timestamp) -> Age {
    Age::since(obj.at("metadata").text("creationTimestamp"), now)
}

/// The names and the images of containers, each as one cell.
pub(super) fn containers(pod_spec: &Value, cells: &mut Cells<'_>) {
    for member in ["name", "image"] {
        cells.joined(pod_spec.list("containers").iter().map(|c| c.text(member)), ",");
    }
}

/// Labels as `a=1,b=2` in one cell.
pub(super) fn labels(labels: &Value, cells: &mut Cells<'_>) {
    match labels.as_object() {
        Some(labels) if !labels.is_empty() => {
            let pairs = labels.iter();
            let pairs = pairs.map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()));
            cells.joined(pairs, ",");
        }
        _ => cells.text("<none>"),
    }
}

fn name_and_creation(obj: &Object, _now: Timestamp, cells: &mut Cells<'_>) {
    cells.text(name(obj));
    cells.text_or(obj.at("metadata").text("creationTimestamp"), "0001-01-01T00:00:00Z");
}

fn namespace(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    cells.text(name(obj));
    cells.text(obj.at("status").text("phase"));
    cells.text(age(obj, now));
}

fn config_map(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    cells.text(name(obj));
    cells.count(obj.entries("data").count() + obj.entries("binaryData").count());
    cells.text(age(obj, now));
}

fn disruption_budget(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    let spec = obj.at("spec");
    cells.text(name(obj));
    for member in ["minAvailable", "maxUnavailable"] {
        match spec.at(member) {
            Value::String(percentage) => cells.text(percentage),
            Value::Number(count) => cells.text(count),
            _ => cells.text("N/A"),
        }
    }
    cells.literal(obj.at("status").int("disruptionsAllowed").unwrap_or(0));
    cells.text(age(obj, now));
}

fn secret(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    cells.text(name(obj));
    cells.text(obj.text("type"));
    cells.count(obj.entries("data").count());
    cells.text(age(obj, now));
}

fn service_account(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    cells.text(name(obj));
    cells.text(age(obj, now));
}

fn lease(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    cells.text(name(obj));
    cells.text(obj.at("spec").text("holderIdentity"));
    cells.text(age(obj, now));
}

fn claim(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    let (metadata, spec, status) = (obj.at("metadata"), obj.at("spec"), obj.at("status"));
    cells.text(name(obj));
    if metadata.at("deletionTimestamp").is_null() {
        cells.text(status.text("phase"));
    } else {
        cells.text("Terminating");
    }
    let volume = spec.text("volumeName");
    cells.text(volume);
    if volume.is_empty() {
        cells.text("");
        cells.text("");
    } else {
        cells.text_or(status.at("capacity").text("storage"), "0");
        let held = |mode: &str| status.list("accessModes").iter().any(|m| m == mode);
        let short = [
            ("ReadWriteOnce", "RWO"),
            ("ReadOnlyMany", "ROX"),
            ("ReadWriteMany", "RWX"),
            ("ReadWriteOncePod", "RWOP"),
        ];
        cells.joined(short.iter().filter(|(mode, _)| held(mode)).map(|(_, short)| short), ",");
    }
    let legacy_class = metadata.at("annotations").at("volume.beta.kubernetes.io/storage-class");
    cells.text(legacy_class.as_str().unwrap_or_else(|| spec.text("storageClassName")));
    cells.text(spec.at("volumeAttributesClassName").as_str().unwrap_or("<unset>"));
    cells.text(age(obj, now));
    cells.text(spec.at("volumeMode").as_str().unwrap_or("<unset>"));
}

fn pod_template(obj: &Object, _now: Timestamp, cells: &mut Cells<'_>) {
    let template = obj.at("template");
    cells.text(name(obj));
    containers(template.at("spec"), cells);
    labels(template.at("metadata").at("labels"), cells);
}

fn role_binding(obj: &Object, now: Timestamp, cells: &mut Cells<'_>) {
    let role = obj.at("roleRef");
    cells.text(name(obj));
    cells.text(format_args!("{}/{}", role.text("kind"), role.text("name")));
    cells.text(age(obj, now));
    let of_kind = |kind| obj.list("subjects").iter().filter(move |s| s.text("kind") == kind);
    cells.joined(of_kind("User").map(|s| s.text("name")), ", ");
    cells.joined(of_kind("Group").map(|s| s.text("name")), ", ");
    let accounts = of_kind("ServiceAccount");
    cells.joined(accounts.map(|s| format!("{}/{}", s.text("namespace"), s.text("name"))), ", ");
}
