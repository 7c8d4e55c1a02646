//! Where a Pod may run: node selectors, affinity, tolerations, spreading, gates.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::super::grammar::{
    Errors, label_selector, one_of, push_texts, selector_operator, unsupported,
};
use crate::field::{FieldError, Path};
use crate::json::Access;
use crate::name;

pub(crate) const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
pub(super) const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn tolerations(errors: &mut Errors, path: &Path<'_>, tolerations: &[Value]) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let at = path.index(i);
        let operator_path = at.field("operator");
        let (key, value) = (toleration.text("key"), toleration.text("value"));
        let (operator, effect) = (toleration.text("operator"), toleration.text("effect"));
        if !key.is_empty() {
            push_texts(errors, &at.field("key"), key, name::qualified_name(key));
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all \
                          values and all keys\"";
            errors.push(FieldError::invalid_text(&operator_path, operator, detail));
        }
        if !toleration.at("tolerationSeconds").is_null() && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid_text(&at.field("effect"), effect, detail));
        }
        match operator {
            "Equal" | "" => {
                let texts = name::label_value(value);
                if !texts.is_empty() {
                    errors.push(FieldError::invalid_text(&operator_path, value, texts.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid_text(&operator_path, value, detail));
            }
            "Exists" => {}
            "Lt" | "Gt" => {
                let listed = ["Equal", "Exists", "Lt", "Gt"];
                errors.push(unsupported(&operator_path, operator, &listed));
            }
            _ => errors.push(unsupported(&operator_path, operator, &["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            one_of(errors, &at.field("effect"), effect, &TAINT_EFFECTS);
        }
    }
}

pub(super) fn affinity(errors: &mut Errors, path: &Path<'_>, affinity: &Value) {
    node_affinity(errors, &path.field("nodeAffinity"), affinity.at("nodeAffinity"));
    for kind in ["podAffinity", "podAntiAffinity"] {
        let at = path.field(kind);
        let required = at.field(REQUIRED);
        for (i, term) in affinity.at(kind).list(REQUIRED).iter().enumerate() {
            pod_affinity_term(errors, &required.index(i), term);
        }
        let preferred = at.field(PREFERRED);
        for (i, weighted) in affinity.at(kind).list(PREFERRED).iter().enumerate() {
            let at = preferred.index(i);
            weight(errors, &at.field("weight"), weighted);
            let term = weighted.at("podAffinityTerm");
            pod_affinity_term(errors, &at.field("podAffinityTerm"), term);
        }
    }
}

fn node_affinity(errors: &mut Errors, path: &Path<'_>, affinity: &Value) {
    let required = affinity.at(REQUIRED);
    if !required.is_null() {
        let at = path.field(REQUIRED);
        let terms_path = at.field("nodeSelectorTerms");
        let terms = required.list("nodeSelectorTerms");
        if terms.is_empty() {
            let detail = "must have at least one node selector term";
            errors.push(FieldError::required(&terms_path, detail));
        }
        for (i, term) in terms.iter().enumerate() {
            node_selector_term(errors, &terms_path.index(i), term, true);
        }
    }
    let preferred = path.field(PREFERRED);
    for (i, preference) in affinity.list(PREFERRED).iter().enumerate() {
        let at = preferred.index(i);
        weight(errors, &at.field("weight"), preference);
        let term = preference.at("preference");
        node_selector_term(errors, &at.field("preference"), term, false);
    }
}

fn weight(errors: &mut Errors, path: &Path<'_>, weighted: &Value) {
    let weight = weighted.int("weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(path, &weight.into(), "must be in the range 1-100"));
    }
}

/// Label values are only checked where the scheduler must obey the term.
fn node_selector_term(errors: &mut Errors, path: &Path<'_>, term: &Value, check_values: bool) {
    let expressions = path.field("matchExpressions");
    for (i, requirement) in term.list("matchExpressions").iter().enumerate() {
        let at = expressions.index(i);
        let values = requirement.list("values");
        let operator = requirement.at("operator");
        if matches!(operator.as_str(), Some("Gt" | "Lt")) {
            if values.len() != 1 {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.push(FieldError::required(&at.field("values"), detail));
            }
        } else {
            selector_operator(errors, &at, operator, values);
        }
        let key = requirement.text("key");
        push_texts(errors, &at.field("key"), key, name::qualified_name(key));
        if check_values {
            let values_path = at.field("values");
            for (i, value) in values.iter().enumerate() {
                let value = value.as_str().unwrap_or_default();
                push_texts(errors, &values_path.index(i), value, name::label_value(value));
            }
        }
    }
    let fields = path.field("matchFields");
    for (i, requirement) in term.list("matchFields").iter().enumerate() {
        node_field(errors, &fields.index(i), requirement);
    }
}

fn node_field(errors: &mut Errors, path: &Path<'_>, requirement: &Value) {
    let values = requirement.list("values");
    let values_path = path.field("values");
    match requirement.text("operator") {
        "In" | "NotIn" if values.len() != 1 => {
            let detail =
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(&values_path, detail));
        }
        "In" | "NotIn" => {}
        other => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid_text(&path.field("operator"), other, detail));
        }
    }
    let key = requirement.text("key");
    if key != "metadata.name" {
        let detail = "not a valid field selector key";
        errors.push(FieldError::invalid_text(&path.field("key"), key, detail));
        return;
    }
    for (i, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        push_texts(errors, &values_path.index(i), value, name::dns1123_subdomain(value));
    }
}

fn pod_affinity_term(errors: &mut Errors, path: &Path<'_>, term: &Value) {
    let selector = term.at("labelSelector");
    label_selector(errors, &path.field("labelSelector"), selector);
    label_selector(errors, &path.field("namespaceSelector"), term.at("namespaceSelector"));
    for namespace in term.list("namespaces") {
        let namespace = namespace.as_str().unwrap_or_default();
        let texts = name::dns1123_label(namespace);
        push_texts(errors, &path.field("namespace"), namespace, texts);
    }
    label_keys(errors, path, term, selector);
    let key = term.text("topologyKey");
    let at = path.field("topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(&at, "can not be empty"));
    }
    push_texts(errors, &at, key, name::qualified_name(key));
}

/// `matchLabelKeys` and `mismatchLabelKeys`. On creation they have been merged into the selector
/// as expressions, so a key that is in the selector otherwise too is there twice.
fn label_keys(errors: &mut Errors, path: &Path<'_>, term: &Value, selector: &Value) {
    for member in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = term.list(member);
        let at = path.field(member);
        if keys.is_empty() {
            continue;
        }
        if selector.is_null() {
            let detail = "must not be specified when labelSelector is not set";
            errors.push(FieldError::forbidden(&at, detail));
            continue;
        }
        for (i, key) in keys.iter().enumerate() {
            let key = key.as_str().unwrap_or_default();
            push_texts(errors, &at.index(i), key, name::qualified_name(key));
        }
    }
    let keys = term.list("matchLabelKeys");
    // Of a key that is listed more than once the last place counts.
    let places: HashMap<&str, usize> =
        keys.iter().enumerate().filter_map(|(place, key)| Some((key.as_str()?, place))).collect();
    let mut selected: HashSet<&str> =
        selector.entries("matchLabels").map(|(key, _)| key.as_str()).collect();
    for expression in selector.list("matchExpressions") {
        let key = expression.text("key");
        if let Some(i) = places.get(key).copied()
            && selected.contains(key)
        {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid_text(&path.index(i), key, detail));
        }
        selected.insert(key);
    }
    let at = path.field("matchLabelKeys");
    let mismatched: HashSet<&Value> = term.list("mismatchLabelKeys").iter().collect();
    for (i, key) in keys.iter().enumerate() {
        if mismatched.contains(key) {
            let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
            errors.push(FieldError::invalid(&at.index(i), key, detail));
        }
    }
}

pub(super) fn topology_spread(errors: &mut Errors, path: &Path<'_>, constraints: &[Value]) {
    let pair = |constraint: &'_ Value| {
        (constraint.text("topologyKey").to_owned(), constraint.text("whenUnsatisfiable").to_owned())
    };
    let mut later: HashMap<(String, String), usize> = HashMap::new();
    constraints.iter().for_each(|each| *later.entry(pair(each)).or_default() += 1);
    for (i, constraint) in constraints.iter().enumerate() {
        let at = path.index(i);
        let skew = constraint.int("maxSkew").unwrap_or_default();
        if skew <= 0 {
            let detail = "must be greater than zero";
            errors.push(FieldError::invalid(&at.field("maxSkew"), &skew.into(), detail));
        }
        let (key, action) = (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        if key.is_empty() {
            errors.push(FieldError::required(&at.field("topologyKey"), "can not be empty"));
        }
        let action_path = at.field("whenUnsatisfiable");
        one_of(errors, &action_path, action, &["DoNotSchedule", "ScheduleAnyway"]);
        let left = later.entry(pair(constraint)).or_default();
        *left = left.saturating_sub(1);
        if *left > 0 {
            let shown = format!("{{{key}, {action}}}");
            let at = at.field("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(&at, &shown.into()));
        }
        if let Some(domains) = constraint.int("minDomains") {
            min_domains(errors, &at.field("minDomains"), domains, action);
        }
        for member in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = constraint.at(member).as_str() {
                one_of(errors, &at.field(member), policy, &["Honor", "Ignore"]);
            }
        }
        let selector = constraint.at("labelSelector");
        label_keys(errors, &at, constraint, selector);
        label_selector(errors, &at.field("labelSelector"), selector);
    }
}

fn min_domains(errors: &mut Errors, path: &Path<'_>, domains: i64, action: &str) {
    if domains <= 0 {
        errors.push(FieldError::invalid(path, &domains.into(), "must be greater than zero"));
    }
    if action != "DoNotSchedule" {
        let detail =
            format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.push(FieldError::invalid(path, &domains.into(), detail));
    }
}

pub(super) fn scheduling_gates(errors: &mut Errors, path: &Path<'_>, gates: &[Value]) {
    let mut seen = HashSet::new();
    for (i, gate) in gates.iter().enumerate() {
        let at = path.index(i);
        let name = gate.text("name");
        push_texts(errors, &at, name, name::qualified_name(name));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at, &name.into()));
        }
    }
}
