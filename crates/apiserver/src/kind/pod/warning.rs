//! What is allowed in a Pod but probably not meant: texts for `Warning` headers.
//!
//! Some rules speak of every pair of elements that is in each other's way. Those pairs are found through
//! an index (`port_clash`, `path_overlap`), so that pairs of which nothing is said cost nothing, and
//! the search ends when the answer is full.

mod path_overlap;
mod port_clash;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use serde_json::Value;

use self::path_overlap::SeenPaths;
use self::port_clash::TakenPorts;
use super::super::address;
use super::super::persistent_volume_claim;
use super::scheduling::{PREFERRED, REQUIRED};
use super::spec::fractional;
use super::{annotation, each_container};
use crate::field::Path;
use crate::go;
use crate::json::Access;
use crate::name;
use crate::warning::Warnings;

const NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#),
    ("beta.kubernetes.io/os", r#"deprecated since v1.14; use "kubernetes.io/os" instead"#),
    (
        "failure-domain.beta.kubernetes.io/region",
        r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#,
    ),
    (
        "beta.kubernetes.io/instance-type",
        r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#,
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", r#"use "node-role.kubernetes.io/control-plane" instead"#),
];
const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        r#"non-functional in v1.11+; use the "sysctls" field instead"#,
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        r#"non-functional in v1.11+; use the "sysctls" field instead"#,
    ),
];
const VOLUMES: [(&str, &str, &str); 9] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// The warnings about a Pod (`root` is the root) or about a template below `root`.
pub(crate) fn warnings(out: &mut Warnings, root: &Path<'_>, pod: &impl Access, is_template: bool) {
    let (metadata_path, spec_path) = (root.field("metadata"), root.field("spec"));
    let annotations_path = metadata_path.field("annotations");
    let (spec, annotations) = (pod.at("spec"), pod.at("metadata").at("annotations"));
    node_labels(out, &spec_path, spec);
    let constraints = spec_path.field("topologySpreadConstraints");
    for (i, constraint) in spec.list("topologySpreadConstraints").iter().enumerate() {
        let at = constraints.index(i);
        let key = constraint.text("topologyKey");
        if let Some(text) = deprecated_node_label(key) {
            out.push(format!("{}: {key} is {text}", at.field("topologyKey")));
        }
        if constraint.at("labelSelector").is_null() {
            out.push(format!("{}: {NO_SELECTOR}", at.field("labelSelector")));
        }
    }
    for (key, text) in ANNOTATIONS {
        if annotations.get(key).is_some() {
            out.push(format!("{}: {text}", annotations_path.key(key)));
        }
    }
    volumes(out, &spec_path.field("volumes"), spec.list("volumes"));
    for volume in spec.list("volumes") {
        overlapping_paths(out, volume);
    }
    let duplicates = [("hostAliases", "ip"), ("imagePullSecrets", "name")];
    for (list, member) in duplicates {
        let path = spec_path.field(list);
        let mut seen = HashSet::new();
        for (i, item) in spec.list(list).iter().enumerate() {
            let (at, value) = (path.index(i), item.text(member));
            if !seen.insert(value) {
                let shown = go::quote(value);
                out.push(format!("{}: duplicate {member} {shown}", at.field(member)));
            }
        }
    }
    let secrets = spec_path.field("imagePullSecrets");
    for (i, secret) in spec.list("imagePullSecrets").iter().enumerate() {
        if secret.text("name").is_empty() {
            let at = secrets.index(i);
            out.push(format!("{}: invalid empty name \"\"", at.field("name")));
        }
    }
    fractions(out, &spec_path.field("overhead"), spec.at("overhead"));
    seccomp(out, &annotations_path, annotations, spec, annotation::SECCOMP_POD);
    each_container(spec, &spec_path, |container, path| {
        let key = format!("{}{}", annotation::SECCOMP_CONTAINER, container.text("name"));
        seccomp(out, &annotations_path, annotations, container, &key);
        if is_template {
            app_armor(out, &annotations_path, annotations, spec, container);
        }
        let resources = path.field("resources");
        let limits = container.at("resources").at("limits");
        let requests = container.at("resources").at("requests");
        let (limits_path, requests_path) = (resources.field("limits"), resources.field("requests"));
        for name in ["memory", "ephemeral-storage"] {
            fraction(out, &limits_path, limits, name);
            fraction(out, &requests_path, requests, name);
        }
        hidden_variables(out, &path.field("env"), container.list("env"));
    });
    ports(out, &spec_path, spec);
    if spec.int("terminationGracePeriodSeconds").is_some_and(|period| period < 0) {
        out.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            spec_path.field("terminationGracePeriodSeconds")
        ));
    }
    affinity_selectors(out, &spec_path.field("affinity"), spec.at("affinity"));
    addresses(out, &spec_path, spec);
}

/// What to say about a label of a node that has a newer name.
pub(crate) fn deprecated_node_label(key: &str) -> Option<&'static str> {
    NODE_LABELS.iter().find(|(label, _)| *label == key).map(|(_, text)| *text)
}

fn node_labels(out: &mut Warnings, path: &Path<'_>, spec: &Value) {
    let selector = path.field("nodeSelector");
    for (key, _) in spec.entries("nodeSelector") {
        if let Some(text) = deprecated_node_label(key) {
            out.push(format!("{}: {text}", selector.key(key)));
        }
    }
    let affinity = spec.at("affinity").at("nodeAffinity");
    let at = path.field("affinity");
    let at = at.field("nodeAffinity");
    let required = at.field(REQUIRED);
    let terms = required.field("nodeSelectorTerms");
    for (i, term) in affinity.at(REQUIRED).list("nodeSelectorTerms").iter().enumerate() {
        selector_term(out, &terms.index(i), term, false);
    }
    let preferred = at.field(PREFERRED);
    for (i, weighted) in affinity.list(PREFERRED).iter().enumerate() {
        let at = preferred.index(i);
        selector_term(out, &at.field("preference"), weighted.at("preference"), true);
    }
}

fn selector_term(out: &mut Warnings, path: &Path<'_>, term: &Value, check_values: bool) {
    let expressions = path.field("matchExpressions");
    for (i, expression) in term.list("matchExpressions").iter().enumerate() {
        let at = expressions.index(i);
        let key = expression.text("key");
        if let Some(text) = deprecated_node_label(key) {
            out.push(format!("{}: {key} is {text}", at.field("key")));
        }
        if !check_values {
            continue;
        }
        let values = at.field("values");
        for (i, value) in expression.list("values").iter().enumerate() {
            let value = value.as_str().unwrap_or_default();
            for text in name::label_value(value) {
                out.push(format!("{}: {value} is invalid, {text}", values.index(i)));
            }
        }
    }
}

fn volumes(out: &mut Warnings, path: &Path<'_>, volumes: &[Value]) {
    for (i, volume) in volumes.iter().enumerate() {
        let at = path.index(i);
        for (kind, shown, text) in VOLUMES {
            if !volume.at(kind).is_null() {
                out.push(format!("{}: {text}", at.field(shown)));
            }
        }
        let template = volume.at("ephemeral").at("volumeClaimTemplate");
        if !template.is_null() {
            let at = at.field("ephemeral");
            let at = at.field("volumeClaimTemplate");
            out.extend(persistent_volume_claim::spec_warnings(
                &at.field("spec"),
                template.at("spec"),
            ));
        }
    }
}

fn seccomp(out: &mut Warnings, path: &Path<'_>, annotations: &Value, holder: &Value, key: &str) {
    let profile = holder.at("securityContext").at("seccompProfile");
    if profile.is_null() && annotations.get(key).is_some() {
        let text = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;
        out.push(format!("{}: {text}", path.key(key)));
    }
}

/// For Pods this is said when the annotation is turned into the field.
fn app_armor(
    out: &mut Warnings,
    path: &Path<'_>,
    annotations: &Value,
    spec: &Value,
    container: &Value,
) {
    let key = format!("{}{}", annotation::APP_ARMOR, container.text("name"));
    let Some(value) = annotations.get(&key).and_then(Value::as_str) else {
        return;
    };
    if !container.at("securityContext").at("appArmorProfile").is_null() {
        return;
    }
    let of_pod = spec.at("securityContext").at("appArmorProfile");
    if of_pod.is_null() || annotation::app_armor_field(value).as_ref() != Some(of_pod) {
        out.push(app_armor_text(path, &key));
    }
}

pub(super) fn app_armor_text(path: &Path<'_>, key: &str) -> String {
    let text = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;
    format!("{}: {text}", path.key(key))
}

fn fractions(out: &mut Warnings, path: &Path<'_>, list: &Value) {
    for name in ["memory", "ephemeral-storage"] {
        fraction(out, path, list, name);
    }
}

fn fraction(out: &mut Warnings, path: &Path<'_>, list: &Value, name: &str) {
    if let Some(amount) = fractional(list.at(name)) {
        out.push(fraction_text(&path.key(name), &amount));
    }
}

pub(crate) fn fraction_text(path: &Path<'_>, amount: &str) -> String {
    let shown = go::quote(amount);
    format!("{path}: fractional byte value {shown} is invalid, must be an integer")
}

fn hidden_variables(out: &mut Warnings, path: &Path<'_>, vars: &[Value]) {
    let mut seen = HashSet::new();
    for (i, var) in vars.iter().enumerate() {
        let name = var.text("name");
        if seen.insert(name) {
            continue;
        }
        // Extending the value before it is the one good reason to name a variable twice.
        let reference = format!("$({name})");
        let value = var.text("value");
        let extends = value.contains(&reference) && value != reference;
        if !extends || !var.at("valueFrom").is_null() {
            out.push(format!(
                "{}: hides previous definition of {}, which may be dropped when using apply",
                path.index(i),
                go::quote(name)
            ));
        }
    }
}

fn ports(out: &mut Warnings, path: &Path<'_>, spec: &Value) {
    let mut taken: HashMap<(i64, &str), TakenPorts<'_>> = HashMap::new();
    each_container(spec, path, |container, path| {
        let ports = path.field("ports");
        for (i, port) in container.list("ports").iter().enumerate() {
            if out.is_full() {
                return;
            }
            let at = ports.index(i).to_string();
            let (ip, host) = (port.text("hostIP"), port.int("hostPort").unwrap_or_default());
            let number = port.int("containerPort").unwrap_or_default();
            if !ip.is_empty() && host == 0 {
                out.push(format!(
                    "{at}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{number} \
                     Protocol:{} HostIP:{ip}}}",
                    port.text("name"),
                    port.text("protocol"),
                ));
            }
            let others = taken.entry((number, port.text("protocol"))).or_default();
            for (clash, other) in others.clashes(host, ip) {
                out.push(format!("{at}: {} port definition with {other}", clash.word()));
            }
            others.add(at, host, ip);
        }
    });
    port_names(out, path, spec);
}

fn port_names(out: &mut Warnings, path: &Path<'_>, spec: &Value) {
    let mut names: HashMap<&str, String> = HashMap::new();
    each_container(spec, path, |container, path| {
        let ports = path.field("ports");
        for (i, port) in container.list("ports").iter().enumerate() {
            let name = port.text("name");
            if name.is_empty() || out.is_full() {
                continue;
            }
            match names.entry(name) {
                Entry::Occupied(other) => out.push(format!(
                    "{}: duplicate port name {} with {other}, services and probes that select \
                     ports by name will use {other}",
                    ports.index(i),
                    go::quote(name),
                    other = other.get(),
                )),
                Entry::Vacant(vacant) => {
                    vacant.insert(ports.index(i).to_string());
                }
            }
        }
    });
}

fn affinity_selectors(out: &mut Warnings, path: &Path<'_>, affinity: &Value) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let at = path.field(kind);
        let required = at.field(REQUIRED);
        for (i, term) in affinity.at(kind).list(REQUIRED).iter().enumerate() {
            if term.at("labelSelector").is_null() {
                let at = required.index(i);
                out.push(format!("{}: {NO_SELECTOR}", at.field("labelSelector")));
            }
        }
        let preferred = at.field(PREFERRED);
        for (i, term) in affinity.at(kind).list(PREFERRED).iter().enumerate() {
            if term.at("podAffinityTerm").at("labelSelector").is_null() {
                let at = preferred.index(i);
                let at = at.field("podAffinityTerm");
                out.push(format!("{}: {NO_SELECTOR}", at.field("labelSelector")));
            }
        }
    }
}

fn addresses(out: &mut Warnings, path: &Path<'_>, spec: &Value) {
    let dns = path.field("dnsConfig");
    let servers = dns.field("nameservers");
    for (i, server) in spec.at("dnsConfig").list("nameservers").iter().enumerate() {
        out.extend(address::ip_warning(&servers.index(i), server.as_str().unwrap_or_default()));
    }
    let aliases = path.field("hostAliases");
    for (i, alias) in spec.list("hostAliases").iter().enumerate() {
        let at = aliases.index(i);
        out.extend(address::ip_warning(&at.field("ip"), alias.text("ip")));
    }
}

/// Files of one volume that hide each other.
fn overlapping_paths(out: &mut Warnings, volume: &Value) {
    let volume_name = go::quote(volume.text("name"));
    for (kind, word, name_member) in [
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ] {
        let source = volume.at(kind);
        let described = match name_member {
            "" => word.to_owned(),
            member => format!("{word} {}", go::quote(source.text(member))),
        };
        let mut seen = SeenPaths::default();
        for item in source.list("items") {
            if out.is_full() {
                return;
            }
            for overlap in seen.overlaps(item.text("path"), "") {
                out.push(format!(
                    "volume {volume_name} ({described}): overlapping paths: {overlap}"
                ));
            }
        }
    }
    let mut seen = SeenPaths::default();
    for source in volume.at("projected").list("sources") {
        if out.is_full() {
            return;
        }
        if source.as_object().is_some_and(serde_json::Map::is_empty) {
            out.push(format!("volume {volume_name} (Projected) has no sources provided"));
        }
        let (paths, from) = projected_paths(source);
        for path in paths {
            if out.is_full() {
                return;
            }
            for overlap in seen.overlaps(path, &from) {
                out.push(format!("volume {volume_name} (Projected): overlapping paths: {overlap}"));
            }
        }
    }
}

/// The files of one source of a projected volume, and what the source is called.
fn projected_paths(source: &Value) -> (Vec<&str>, String) {
    for (kind, word) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        let items = source.at(kind).list("items");
        if !items.is_empty() {
            let from = format!("{word} {}", go::quote(source.at(kind).text("name")));
            return (items.iter().map(|item| item.text("path")).collect(), from);
        }
    }
    let downward = source.at("downwardAPI").list("items");
    if !downward.is_empty() {
        let paths = downward.iter().map(|item| item.text("path")).collect();
        return (paths, "DownwardAPI".to_owned());
    }
    let token = source.at("serviceAccountToken").get("path").and_then(Value::as_str);
    (token.into_iter().collect(), "ServiceAccountToken".to_owned())
}
