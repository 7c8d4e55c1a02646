//! The defaults of a Pod and of a Pod template.
//!
//! Runs on every body that is decoded, so it only ever adds what is missing. It also keeps the
//! fields that exist twice in the API (`serviceAccount`, `podIP`) in step.

use serde_json::{Value, json};

use super::super::grammar::quantity;
use super::{image, resource};
use crate::json::{Access, Object, object_mut};

const CONTAINER_LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const STATUS_LISTS: [&str; 3] =
    ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
/// 0644, as JSON has no octal.
const FILE_MODE: i64 = 0o644;

/// A whole Pod: the template's defaults and those that only a Pod has.
pub(crate) fn pod(obj: &mut Object) {
    drop_init_container_annotations(obj);
    if let Some(spec) = obj.get_mut("spec").and_then(Value::as_object_mut) {
        for list in ["containers", "initContainers"] {
            each_object(spec, list, requests_from_limits);
        }
        resource::default_pod_level(spec);
        default_value(spec, "enableServiceLinks", true);
        if spec.flag("hostNetwork") {
            for list in ["containers", "initContainers"] {
                each_object(spec, list, host_ports);
            }
        }
        if spec.int("terminationGracePeriodSeconds").is_some_and(|period| period < 0) {
            spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
        }
        pod_spec(spec);
    }
    if let Some(status) = obj.get_mut("status").and_then(Value::as_object_mut) {
        pod_status(status);
    }
}

/// The `template` of a PodTemplate or of a controller: metadata and spec.
pub(crate) fn template(template: &mut Object) {
    drop_init_container_annotations(template);
    pod_spec(object_mut(template, "spec"));
}

fn pod_spec(spec: &mut Object) {
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "restartPolicy", "Always");
    default_text(spec, "schedulerName", "default-scheduler");
    default_value(spec, "terminationGracePeriodSeconds", 30);
    if !spec.get("securityContext").is_some_and(Value::is_object) {
        spec.insert("securityContext".to_owned(), json!({}));
    }
    mirror_service_account(spec);
    each_object(spec, "volumes", volume);
    for list in CONTAINER_LISTS {
        each_object(spec, list, container);
    }
    resource::round_list(spec, "overhead");
    round_requirements(spec, "resources");
}

/// `serviceAccount` is an older name of `serviceAccountName`; both are always shown.
pub(super) fn mirror_service_account(spec: &mut Object) {
    let name = match spec.text("serviceAccountName") {
        "" => spec.text("serviceAccount"),
        name => name,
    };
    if name.is_empty() {
        spec.remove("serviceAccount");
        spec.remove("serviceAccountName");
        return;
    }
    let name = Value::String(name.to_owned());
    spec.insert("serviceAccount".to_owned(), name.clone());
    spec.insert("serviceAccountName".to_owned(), name);
}

fn container(container: &mut Object) {
    if container.text("imagePullPolicy").is_empty() {
        let policy = image::default_pull_policy(container.text("image"));
        container.insert("imagePullPolicy".to_owned(), policy.into());
    }
    default_text(container, "terminationMessagePath", "/dev/termination-log");
    default_text(container, "terminationMessagePolicy", "File");
    each_object(container, "ports", |port| {
        default_text(port, "protocol", "TCP");
    });
    each_object(container, "env", |var| {
        let Some(source) = var.get_mut("valueFrom").and_then(Value::as_object_mut) else {
            return;
        };
        field_refs(source);
        if let Some(file) = source.get_mut("fileKeyRef").and_then(Value::as_object_mut) {
            default_value(file, "optional", false);
        }
    });
    round_requirements(container, "resources");
    for name in PROBES {
        if let Some(probe) = container.get_mut(name).and_then(Value::as_object_mut) {
            probe_numbers(probe);
        }
    }
    if let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) {
        for hook in ["postStart", "preStop"] {
            if let Some(handler) = lifecycle.get_mut(hook).and_then(Value::as_object_mut) {
                http_get(handler);
            }
        }
    }
}

fn probe_numbers(probe: &mut Object) {
    for (key, value) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        if probe.int(key).unwrap_or_default() == 0 {
            probe.insert(key.to_owned(), value.into());
        }
    }
    http_get(probe);
    if let Some(grpc) = probe.get_mut("grpc").and_then(Value::as_object_mut) {
        default_value(grpc, "service", "");
    }
}

fn http_get(handler: &mut Object) {
    if let Some(get) = handler.get_mut("httpGet").and_then(Value::as_object_mut) {
        default_text(get, "path", "/");
        default_text(get, "scheme", "HTTP");
    }
}

/// What the downward API reads: from the Pod (`fieldRef`) or from its resources.
fn field_refs(source: &mut Object) {
    if let Some(field) = source.get_mut("fieldRef").and_then(Value::as_object_mut) {
        default_text(field, "apiVersion", "v1");
    }
    if let Some(resource) = source.get_mut("resourceFieldRef").and_then(Value::as_object_mut) {
        default_value(resource, "divisor", "0");
    }
}

fn volume(volume: &mut Object) {
    let has_source = volume.iter().any(|(key, value)| key != "name" && !value.is_null());
    if !has_source {
        volume.insert("emptyDir".to_owned(), json!({}));
        return;
    }
    for (key, value) in volume.iter_mut() {
        let Some(source) = value.as_object_mut() else {
            continue;
        };
        volume_source(key, source);
    }
}

fn volume_source(kind: &str, source: &mut Object) {
    match kind {
        "hostPath" => default_value(source, "type", ""),
        "secret" | "configMap" => default_value(source, "defaultMode", FILE_MODE),
        "downwardAPI" => {
            default_value(source, "defaultMode", FILE_MODE);
            each_object(source, "items", field_refs);
        }
        "projected" => {
            default_value(source, "defaultMode", FILE_MODE);
            each_object(source, "sources", projection);
        }
        "image" => {
            let policy = image::default_pull_policy(source.text("reference"));
            default_text(source, "pullPolicy", policy);
        }
        "ephemeral" => {
            if let Some(template) =
                source.get_mut("volumeClaimTemplate").and_then(Value::as_object_mut)
            {
                claim_spec(object_mut(template, "spec"));
            }
        }
        "iscsi" => default_text(source, "iscsiInterface", "default"),
        "rbd" => {
            default_text(source, "pool", "rbd");
            default_text(source, "user", "admin");
            default_text(source, "keyring", "/etc/ceph/keyring");
        }
        "azureDisk" => {
            default_value(source, "cachingMode", "ReadWrite");
            default_value(source, "fsType", "ext4");
            default_value(source, "readOnly", false);
            default_value(source, "kind", "Shared");
        }
        "scaleIO" => {
            default_text(source, "storageMode", "ThinProvisioned");
            default_text(source, "fsType", "xfs");
        }
        _ => {}
    }
}

fn projection(source: &mut Object) {
    if let Some(downward) = source.get_mut("downwardAPI").and_then(Value::as_object_mut) {
        each_object(downward, "items", field_refs);
    }
    if let Some(token) = source.get_mut("serviceAccountToken").and_then(Value::as_object_mut) {
        default_value(token, "expirationSeconds", 3600);
    }
}

/// The spec of a PersistentVolumeClaim, or of the claim that an ephemeral volume makes.
pub(crate) fn claim_spec(spec: &mut Object) {
    default_value(spec, "volumeMode", "Filesystem");
    round_requirements(spec, "resources");
}

fn requests_from_limits(container: &mut Object) {
    let limits = container.at("resources").at("limits").as_object();
    let Some(limits) = limits.filter(|limits| !limits.is_empty()).cloned() else {
        return;
    };
    let requests = object_mut(object_mut(container, "resources"), "requests");
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

fn host_ports(container: &mut Object) {
    each_object(container, "ports", |port| {
        if port.int("hostPort").unwrap_or_default() == 0
            && let Some(number) = port.int("containerPort")
        {
            port.insert("hostPort".to_owned(), number.into());
        }
    });
}

fn pod_status(status: &mut Object) {
    // The list is the truth, but an older client that sets only the single address wins.
    let ip = status.text("podIP");
    if ip.is_empty() {
        let first = status.list("podIPs").first().map(|first| first.text("ip").to_owned());
        if let Some(first) = first {
            status.insert("podIP".to_owned(), first.into());
        }
    } else if status.list("podIPs").first().is_none_or(|first| first.text("ip") != ip) {
        let list = json!([{"ip": ip}]);
        status.insert("podIPs".to_owned(), list);
    }
    for list in STATUS_LISTS {
        each_object(status, list, |container| {
            resource::round_list(container, "allocatedResources");
            round_requirements(container, "resources");
        });
    }
    resource::round_list(status, "allocatedResources");
    round_requirements(status, "resources");
}

fn round_requirements(parent: &mut Object, key: &str) {
    if let Some(requirements) = parent.get_mut(key).and_then(Value::as_object_mut) {
        resource::round_list(requirements, "limits");
        resource::round_list(requirements, "requests");
    }
}

/// Annotations of Kubernetes 1.7 and before; no reader is left, and every write drops them.
fn drop_init_container_annotations(obj: &mut Object) {
    let annotations = obj.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        for stage in ["alpha", "beta"] {
            for what in ["init-containers", "init-container-statuses"] {
                annotations.remove(&format!("pod.{stage}.kubernetes.io/{what}"));
            }
        }
    }
}

fn each_object(parent: &mut Object, key: &str, mut change: impl FnMut(&mut Object)) {
    let items = parent.get_mut(key).and_then(Value::as_array_mut);
    for item in items.into_iter().flatten().filter_map(Value::as_object_mut) {
        change(item);
    }
}

/// Sets a member that is missing or empty text.
pub(crate) fn default_text(obj: &mut Object, key: &str, value: &str) {
    if obj.text(key).is_empty() {
        obj.insert(key.to_owned(), value.into());
    }
}

/// Sets a member that is missing.
pub(crate) fn default_value(obj: &mut Object, key: &str, value: impl Into<Value>) {
    if obj.at(key).is_null() {
        obj.insert(key.to_owned(), value.into());
    }
}

/// Rounds the amounts of a resource list up to thousandths, and spells them canonically.
pub(super) fn round_amount(amount: &mut Value) {
    let rounded = quantity(amount).round_up_milli().canonical();
    if amount.as_str() != Some(&rounded) {
        *amount = rounded.into();
    }
}
