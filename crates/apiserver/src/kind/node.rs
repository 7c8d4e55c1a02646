//! Nodes.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Value, json};

use super::address;
use super::grammar::{Errors, one_of, push_texts};
use super::pod::{default, internal, resource, scheduling};
use super::{Kind, set_or_remove};
use crate::field::{FieldError, FieldErrors, Path};
use crate::go;
use crate::json::{Access, Object, object_mut};
use crate::name;
use crate::warning::Warnings;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

#[derive(Debug)]
pub(crate) struct Node;

impl Kind for Node {
    fn default(&self, obj: &mut Object) {
        if let Some(spec) = obj.get_mut("spec").and_then(Value::as_object_mut) {
            sync_pod_cidrs(spec);
        }
        if let Some(status) = obj.get_mut("status").and_then(Value::as_object_mut) {
            resource::round_list(status, "capacity");
            resource::round_list(status, "allocatable");
            if let (true, Some(capacity)) =
                (status.at("allocatable").is_null(), status.get("capacity").cloned())
            {
                status.insert("allocatable".to_owned(), capacity);
            }
        }
    }

    fn prepare_create(&self, obj: &mut Object) {
        // Nodes may bring their status with them; configuration by reference is gone.
        for (member, dropped) in [("spec", "configSource"), ("status", "config")] {
            if let Some(part) = obj.get_mut(member).and_then(Value::as_object_mut) {
                part.remove(dropped);
            }
        }
        complete_status(obj);
    }

    fn prepare_update(&self, new: &mut Object, old: &Object) {
        set_or_remove(new, "status", old.get("status").cloned());
        if old.at("spec").at("configSource").is_null()
            && let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut)
        {
            spec.remove("configSource");
        }
    }

    fn prepare_status_update(&self, new: &mut Object, old: &Object) {
        set_or_remove(new, "spec", old.get("spec").cloned());
        if old.at("status").at("config").is_null() {
            object_mut(new, "status").remove("config");
        }
        complete_status(new);
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        let metadata = Path::new("metadata");
        // Upstream looks for taints in the metadata.
        taints(errors, &metadata.field("taints"), obj.at("spec").list("taints"));
        resources(errors, obj);
        let swap = obj.at("status").at("nodeInfo").at("swap").int("capacity");
        if let Some(swap) = swap.filter(|swap| *swap <= 0) {
            let at = metadata.field("nodeSwapStatus");
            let detail = "must be greater than zero";
            errors.push(FieldError::invalid(&at.field("capacity"), &swap.into(), detail));
        }
        declared_features(errors, obj);
        pod_cidrs(errors, obj);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        self.validate(new, errors);
        changes(errors, new, old);
    }

    fn validate_status_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        changes(errors, new, old);
    }

    fn warnings(&self, new: &Object, _old: Option<&Object>) -> Warnings {
        let mut out = Warnings::default();
        let spec = Path::new("spec");
        if !new.at("spec").at("configSource").is_null() {
            out.push(format!("{}: the feature is removed", spec.field("configSource")));
        }
        if !new.at("spec").text("externalID").is_empty() {
            let text = "this field is deprecated, and is unused by Kubernetes";
            out.push(format!("{}: {text}", spec.field("externalID")));
        }
        let cidrs = spec.field("podCIDRs");
        for (i, cidr) in new.at("spec").list("podCIDRs").iter().enumerate() {
            let cidr = cidr.as_str().unwrap_or_default();
            out.extend(address::cidr_warnings(&cidrs.index(i), cidr));
        }
        out
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }

    fn selectable_field<'a>(&self, obj: &'a Object, label: &str) -> Cow<'a, str> {
        Cow::Borrowed(match label {
            "spec.unschedulable" if obj.at("spec").flag("unschedulable") => "true",
            "spec.unschedulable" => "false",
            _ => "",
        })
    }
}

/// A new node is not ready until somebody says so.
pub(crate) fn taint_not_ready(node: &mut Object) {
    let spec = object_mut(node, "spec");
    let tainted = spec
        .list("taints")
        .iter()
        .any(|taint| taint.text("key") == NOT_READY && taint.text("effect") == "NoSchedule");
    if !tainted {
        let taints = spec.entry("taints").or_insert_with(|| json!([]));
        if let Some(taints) = taints.as_array_mut() {
            taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
        }
    }
}

/// Parts of a status that are never missing.
fn complete_status(node: &mut Object) {
    const INFO: [&str; 10] = [
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "kubeletVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ];
    let status = object_mut(node, "status");
    let endpoint = object_mut(object_mut(status, "daemonEndpoints"), "kubeletEndpoint");
    default::default_value(endpoint, "Port", 0);
    let info = object_mut(status, "nodeInfo");
    for member in INFO {
        default::default_value(info, member, "");
    }
}

/// `podCIDR` is an older name of the first of `podCIDRs`; the older one wins.
fn sync_pod_cidrs(spec: &mut Object) {
    let first = spec.list("podCIDRs").first().and_then(Value::as_str);
    let single = spec.text("podCIDR");
    if single.is_empty() {
        if let Some(first) = first.map(str::to_owned) {
            spec.insert("podCIDR".to_owned(), first.into());
        }
    } else if first != Some(single) {
        let list = json!([single]);
        spec.insert("podCIDRs".to_owned(), list);
    }
}

fn taints(errors: &mut Errors, path: &Path<'_>, taints: &[Value]) {
    let mut seen = HashSet::new();
    for (i, taint) in taints.iter().enumerate() {
        let at = path.index(i);
        let (key, value, effect) = (taint.text("key"), taint.text("value"), taint.text("effect"));
        push_texts(errors, &at.field("key"), key, name::qualified_name(key));
        let texts = name::label_value(value);
        if !texts.is_empty() {
            errors.push(FieldError::invalid_text(&at.field("value"), value, texts.join(";")));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(&at.field("effect"), ""));
        } else {
            one_of(errors, &at.field("effect"), effect, &scheduling::TAINT_EFFECTS);
        }
        if !seen.insert((key, effect)) {
            let mut error = FieldError::duplicate(&at, &Value::Null);
            error.value = Some(internal::compact(internal::TAINT, taint));
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
    }
}

fn resources(errors: &mut Errors, node: &Object) {
    let path = Path::new("status");
    for member in ["capacity", "allocatable"] {
        let at = path.field(member);
        for (name, amount) in node.at("status").entries(member) {
            resource::quantity_value(errors, &at.field(name), name, amount);
        }
    }
}

fn declared_features(errors: &mut Errors, node: &Object) {
    let status = Path::new("status");
    let path = status.field("declaredFeatures");
    let features = node.at("status").list("declaredFeatures");
    for (i, feature) in features.iter().enumerate() {
        let text = feature.as_str().unwrap_or_default();
        let why = if text.len() > name::MAX_SUBDOMAIN_CHARS {
            "must be no more than 253 characters"
        } else if !is_feature_name(text) {
            "must start with an UpperCamelCase segment, with subsequent segments separated by '/' \
             (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters \
             and slashes"
        } else {
            ""
        };
        if !why.is_empty() {
            let detail = format!("invalid feature name {}: {why}", go::quote(text));
            errors.push(FieldError::invalid_text(&path.index(i), text, detail));
        }
        let Some(next) = features.get(i + 1).and_then(Value::as_str) else {
            continue;
        };
        let at = path.index(i + 1);
        if text == next {
            errors.push(FieldError::duplicate(&at, &next.into()));
        } else if text > next {
            let detail = "list must be sorted alphabetically";
            errors.push(FieldError::invalid_text(&at, next, detail));
        }
    }
}

fn is_feature_name(name: &str) -> bool {
    let mut segments = name.split('/');
    let first_is_good = segments.next().is_some_and(|first| {
        first.starts_with(|c: char| c.is_ascii_uppercase())
            && first.bytes().all(|b| b.is_ascii_alphanumeric())
    });
    first_is_good
        && segments.all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphabetic())
                && part.bytes().all(|b| b.is_ascii_alphanumeric())
        })
}

fn pod_cidrs(errors: &mut Errors, node: &Object) {
    let spec = Path::new("spec");
    let path = spec.field("podCIDRs");
    let cidrs = node.at("spec").list("podCIDRs");
    for (i, cidr) in cidrs.iter().enumerate() {
        address::cidr(errors, &path.index(i), cidr.as_str().unwrap_or_default(), &[]);
    }
    if cidrs.len() < 2 {
        return;
    }
    let texts = || cidrs.iter().map(|cidr| cidr.as_str().unwrap_or_default());
    let dual = address::is_dual_stack_cidr(texts());
    if let Some((i, bad)) = texts().enumerate().find(|(_, cidr)| !address::is_cidr(cidr)) {
        let detail = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{i}]: <nil> \
             (invalid CIDR address: {bad})"
        );
        errors.push(FieldError::internal(&path, detail));
    }
    if dual != Some(true) || cidrs.len() > 2 {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid(&path, node.at("spec").at("podCIDRs"), detail));
    }
}

/// What an update, of the whole or of the status, must satisfy.
fn changes(errors: &mut Errors, new: &Object, old: &Object) {
    resources(errors, new);
    declared_features(errors, new);
    let status = Path::new("status");
    let addresses = status.field("addresses");
    let mut seen = HashSet::new();
    for (i, item) in new.at("status").list("addresses").iter().enumerate() {
        if !seen.insert((item.text("type"), item.text("address"))) {
            let mut error = FieldError::duplicate(&addresses.index(i), &Value::Null);
            error.value = Some(internal::compact(internal::NODE_ADDRESS, item));
            errors.push(error);
        }
    }
    let path = Path::new("spec");
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let (cidrs, old_cidrs) = (spec.list("podCIDRs"), old_spec.list("podCIDRs"));
    if !old_cidrs.is_empty() {
        let changed = if cidrs.len() == old_cidrs.len() {
            cidrs.iter().zip(old_cidrs).filter(|(new, old)| new != old).count()
        } else {
            1
        };
        for _ in 0..changed {
            let detail = "node updates may not change podCIDR except from \"\" to valid";
            errors.push(FieldError::forbidden(&path.field("podCIDRs"), detail));
        }
    }
    let provider = old_spec.text("providerID");
    if !provider.is_empty() && provider != spec.text("providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden(&path.field("providerID"), detail));
    }
    let metadata = Path::new("metadata");
    taints(errors, &metadata.field("taints"), spec.list("taints"));
    if spec.text("externalID") != old_spec.text("externalID") {
        errors.push(FieldError::forbidden(&path.field("externalID"), "may not be updated"));
    }
}

#[cfg(test)]
mod tests;
