//! The status of a Pod: what its node reports, within limits.

use std::collections::HashMap;

use serde_json::Value;

use super::super::address;
use super::super::grammar::{Errors, IMMUTABLE, id, push_texts};
use super::{annotation, internal, update};
use crate::field::{FieldError, Path};
use crate::go::address::parse_sloppy;
use crate::json::{Access, Object, object_mut};
use crate::name;

/// Conditions that Kubernetes itself made before their names had to be qualified.
const SYSTEM_CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

/// Before a status update is validated: everything but the status comes from `old`, and what the
/// writer left out of the status although it cannot be unset.
pub(super) fn prepare_update(new: &mut Object, old: &Object) {
    super::super::set_or_remove(new, "spec", old.get("spec").cloned());
    let references = old.at("metadata").get("ownerReferences").cloned();
    let metadata = object_mut(new, "metadata");
    metadata.remove("deletionTimestamp");
    super::super::set_or_remove(metadata, "ownerReferences", references);
    let old_status = old.at("status");
    let status = object_mut(new, "status");
    if status.text("qosClass").is_empty()
        && let Some(class) = old_status.get("qosClass")
    {
        status.insert("qosClass".to_owned(), class.clone());
    }
    keep_observed_generations(status, old_status);
}

fn keep_observed_generations(status: &mut Object, old: &Value) {
    const MEMBER: &str = "observedGeneration";
    let keep = |obj: &mut Object, generation: Option<i64>| {
        if obj.int(MEMBER).unwrap_or_default() == 0
            && let Some(generation) = generation.filter(|generation| *generation != 0)
        {
            obj.insert(MEMBER.to_owned(), generation.into());
        }
    };
    keep(status, old.int(MEMBER));
    // There may be several conditions of a type; they are taken in order.
    let mut before: HashMap<&str, Vec<i64>> = HashMap::new();
    for condition in old.list("conditions").iter().rev() {
        let generation = condition.int(MEMBER).unwrap_or_default();
        before.entry(condition.text("type")).or_default().push(generation);
    }
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        let generation = before.get_mut(condition.text("type")).and_then(Vec::pop);
        keep(condition, generation);
    }
}

pub(super) fn validate(errors: &mut Errors, new: &Object, old: &Object) {
    let metadata = Path::new("metadata");
    annotation::validate_update(errors, &metadata.field("annotations"), new, old);
    let path = Path::new("status");
    let (status, old_status) = (new.at("status"), old.at("status"));
    conditions(errors, &path.field("conditions"), status.list("conditions"));
    nominated_node(errors, &path.field("nominatedNodeName"), new, old);
    if let Some(generation) = status.int("observedGeneration").filter(|generation| *generation < 0)
    {
        let at = path.field("observedGeneration");
        let detail = "must be a non-negative integer";
        errors.push(FieldError::invalid(&at, &generation.into(), detail));
    }
    if status.text("qosClass") != old_status.text("qosClass") {
        let at = path.field("qosClass");
        errors.push(FieldError::invalid_text(&at, status.text("qosClass"), IMMUTABLE));
    }
    let spec = old.at("spec");
    let all_at_once = restarts_all(spec);
    for (statuses, containers) in [
        ("containerStatuses", spec.list("containers")),
        ("initContainerStatuses", spec.list("initContainers")),
        ("ephemeralContainerStatuses", &[]),
    ] {
        let (new, old) = (status.list(statuses), old_status.list(statuses));
        let ephemeral = statuses == "ephemeralContainerStatuses";
        let at = path.field(statuses);
        let mut by_name: HashMap<&str, &Value> = HashMap::new();
        for container in containers {
            by_name.entry(container.text("name")).or_insert(container);
        }
        transitions(errors, &at, new, old, |name, code| {
            let container = by_name.get(name).copied();
            !ephemeral && (all_at_once || may_restart(spec, container, code))
        });
    }
    pod_ips(errors, &path.field("podIPs"), status, old_status);
    host_ips(errors, &path.field("hostIPs"), status, old_status);
    for statuses in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        users(errors, &path.field(statuses), status.list(statuses));
    }
}

fn conditions(errors: &mut Errors, path: &Path<'_>, conditions: &[Value]) {
    for (i, condition) in conditions.iter().enumerate() {
        let at = path.index(i);
        let generation = condition.int("observedGeneration").unwrap_or_default();
        if generation < 0 {
            let at = at.field("observedGeneration");
            let detail = "must be a non-negative integer";
            errors.push(FieldError::invalid(&at, &generation.into(), detail));
        }
        let kind = condition.text("type");
        if !SYSTEM_CONDITIONS.contains(&kind) {
            push_texts(errors, &at.field("Type"), kind, name::qualified_name(kind));
        }
    }
}

fn nominated_node(errors: &mut Errors, path: &Path<'_>, new: &Object, old: &Object) {
    let of = |pod: &Object| pod.at("status").text("nominatedNodeName").to_owned();
    let (nominated, before) = (of(new), of(old));
    if nominated.is_empty() || nominated == before {
        return;
    }
    update::node_name(errors, path, &nominated);
    if !old.at("spec").text("nodeName").is_empty() {
        let detail = "may not be set on pods that are already bound to a node";
        errors.push(FieldError::forbidden(path, detail));
    }
}

/// A container that has ended must not run again, unless its restart policy lets it.
fn transitions(
    errors: &mut Errors,
    path: &Path<'_>,
    new: &[Value],
    old: &[Value],
    may_restart: impl Fn(&str, i64) -> bool,
) {
    let mut by_name: HashMap<&str, &Value> = HashMap::new();
    new.iter().for_each(|after| {
        by_name.entry(after.text("name")).or_insert(after);
    });
    for (i, before) in old.iter().enumerate() {
        let ended = before.at("state").at("terminated");
        if ended.is_null() {
            continue;
        }
        let name = before.text("name");
        let after = by_name.get(name);
        let runs = after.is_some_and(|after| after.at("state").at("terminated").is_null());
        if runs && !may_restart(name, ended.int("exitCode").unwrap_or_default()) {
            let at = path.index(i);
            let detail = "may not be transitioned to non-terminated state";
            errors.push(FieldError::forbidden(&at.field("state"), detail));
        }
    }
}

/// Whether a rule of some container starts all of them again.
fn restarts_all(spec: &Value) -> bool {
    spec.list("initContainers").iter().chain(spec.list("containers")).any(|container| {
        let mut rules = container.list("restartPolicyRules").iter();
        rules.any(|rule| rule.text("action") == "RestartAllContainers")
    })
}

fn may_restart(spec: &Value, container: Option<&Value>, code: i64) -> bool {
    let Some(container) = container else {
        return false;
    };
    let matching = container.list("restartPolicyRules").iter().find(|rule| {
        let codes = rule.at("exitCodes");
        let listed = codes.list("values").iter().any(|value| value.as_i64() == Some(code));
        match codes.text("operator") {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
    });
    if !container.at("restartPolicy").is_null()
        && matching.is_some_and(|rule| rule.text("action") == "Restart")
    {
        return true;
    }
    let policy = match container.text("restartPolicy") {
        "" => spec.text("restartPolicy"),
        own => own,
    };
    match policy {
        "OnFailure" => code != 0,
        "Never" => false,
        _ => true,
    }
}

fn pod_ips(errors: &mut Errors, path: &Path<'_>, status: &Value, old: &Value) {
    let existing = texts(old.list("podIPs"), "ip");
    addresses(errors, path, status.list("podIPs"), &existing);
}

fn host_ips(errors: &mut Errors, path: &Path<'_>, status: &Value, old: &Value) {
    let list = status.list("hostIPs");
    let Some(first) = list.first() else { return };
    if status.text("hostIP") != first.text("ip") {
        let at = path.index(0);
        let detail = "must be equal to `hostIP`";
        errors.push(FieldError::invalid_text(&at.field("ip"), first.text("ip"), detail));
    }
    let existing = texts(old.list("hostIPs"), "ip");
    addresses(errors, path, list, &existing);
}

fn texts(items: &[Value], member: &str) -> Vec<Value> {
    items.iter().map(|item| item.at(member).clone()).collect()
}

fn addresses(errors: &mut Errors, path: &Path<'_>, list: &[Value], existing: &[Value]) {
    for (i, item) in list.iter().enumerate() {
        address::ip(errors, &path.index(i), item.text("ip"), existing);
    }
    if list.len() < 2 {
        return;
    }
    let dual = address::is_dual_stack(list.iter().map(|item| item.text("ip")));
    if dual.is_none() {
        let bad = list.iter().enumerate().find(|(_, item)| parse_sloppy(item.text("ip")).is_none());
        let (i, text) = bad.map_or((0, ""), |(i, item)| (i, item.text("ip")));
        let detail = format!("failed to check for dual stack with error:invalid IP[{i}]: {text}");
        errors.push(FieldError::internal(path, detail));
    }
    if dual != Some(true) || list.len() > 2 {
        let shown = internal::compact_list(internal::POD_IP, list);
        let detail = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid_raw(path, shown, detail));
    }
}

fn users(errors: &mut Errors, path: &Path<'_>, statuses: &[Value]) {
    for (i, status) in statuses.iter().enumerate() {
        let linux = status.at("user").at("linux");
        if linux.is_null() {
            continue;
        }
        let at = path.index(i);
        let at = at.field("linux");
        for member in ["uid", "gid"] {
            id(errors, &at.field(member), linux.int(member));
        }
        let groups = at.field("supplementalGroups");
        for (i, group) in linux.list("supplementalGroups").iter().enumerate() {
            id(errors, &groups.index(i), group.as_i64());
        }
    }
}
