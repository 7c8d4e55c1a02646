//! What a Job makes of a failed Pod.

use std::collections::HashSet;

use serde_json::Value;

use super::super::grammar::{Errors, invalid_unprinted, one_of, push_texts};
use super::super::pod::default::default_text;
use crate::field::{FieldError, Path};
use crate::json::{Access, Object};
use crate::name;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_POD_CONDITIONS: usize = 20;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];

pub(super) fn default(spec: &mut Object) {
    let rules = spec.get_mut("podFailurePolicy").and_then(|policy| policy.get_mut("rules"));
    for rule in rules.and_then(Value::as_array_mut).into_iter().flatten() {
        let patterns = rule.get_mut("onPodConditions").and_then(Value::as_array_mut);
        for pattern in patterns.into_iter().flatten().filter_map(Value::as_object_mut) {
            default_text(pattern, "status", "True");
        }
    }
}

pub(super) fn validate(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let rules = spec.at("podFailurePolicy").list("rules");
    let at = path.field("rules");
    if rules.len() > MAX_RULES {
        errors.push(FieldError::too_many(&at, rules.len(), MAX_RULES));
    }
    let pod = spec.at("template").at("spec");
    let containers = pod.list("containers").iter().chain(pod.list("initContainers"));
    let containers: HashSet<&str> = containers.map(|container| container.text("name")).collect();
    let per_index = !spec.at("backoffLimitPerIndex").is_null();
    for (i, rule) in rules.iter().enumerate() {
        validate_rule(errors, &at.index(i), rule, &containers, per_index);
    }
}

fn validate_rule(
    errors: &mut Errors,
    path: &Path<'_>,
    rule: &Value,
    containers: &HashSet<&str>,
    per_index: bool,
) {
    let at = path.field("action");
    match rule.text("action") {
        "" => required_one_of(errors, &at, &ACTIONS),
        "FailIndex" if !per_index => {
            let detail = "requires the backoffLimitPerIndex to be set";
            errors.push(FieldError::invalid_text(&at, "FailIndex", detail));
        }
        action => one_of(errors, &at, action, &ACTIONS),
    }
    let (codes, conditions) = (rule.at("onExitCodes"), rule.list("onPodConditions"));
    if !codes.is_null() {
        exit_codes(errors, &path.field("onExitCodes"), codes, containers);
    }
    let at = path.field("onPodConditions");
    if conditions.len() > MAX_POD_CONDITIONS {
        errors.push(FieldError::too_many(&at, conditions.len(), MAX_POD_CONDITIONS));
    }
    for (i, pattern) in conditions.iter().enumerate() {
        let at = at.index(i);
        let kind = pattern.text("type");
        push_texts(errors, &at.field("type"), kind, name::qualified_name(kind));
        match pattern.text("status") {
            "" => required_one_of(errors, &at.field("status"), &STATUSES),
            status => one_of(errors, &at.field("status"), status, &STATUSES),
        }
    }
    let detail = match (codes.is_null(), conditions.is_empty()) {
        (false, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
        (true, true) => "specifying one of OnExitCodes and OnPodConditions is required",
        _ => return,
    };
    errors.push(invalid_unprinted(path, detail));
}

fn required_one_of(errors: &mut Errors, path: &Path<'_>, values: &[&str]) {
    let listed: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
    let detail = format!("valid values: [{}]", listed.join(" "));
    errors.push(FieldError::required(path, detail));
}

fn exit_codes(
    errors: &mut Errors,
    path: &Path<'_>,
    requirement: &Value,
    containers: &HashSet<&str>,
) {
    let operator = requirement.text("operator");
    let at = path.field("operator");
    if operator.is_empty() {
        required_one_of(errors, &at, &OPERATORS);
    } else {
        one_of(errors, &at, operator, &OPERATORS);
    }
    if let Some(container) = requirement.at("containerName").as_str()
        && !containers.contains(container)
    {
        let detail = "must be one of the container or initContainer names in the pod template";
        let at = path.field("containerName");
        errors.push(FieldError::invalid_text(&at, container, detail));
    }
    let at = path.field("values");
    let values = requirement.list("values");
    if values.is_empty() {
        // Decoding no longer tells an empty list from none; upstream prints `null` for none.
        let detail = "at least one value is required";
        errors.push(FieldError::invalid_raw(&at, "[]", detail));
    } else if values.len() > MAX_EXIT_CODES {
        errors.push(FieldError::too_many(&at, values.len(), MAX_EXIT_CODES));
    }
    let mut seen = HashSet::new();
    let mut ordered = true;
    let mut last = i64::MIN;
    for (i, value) in values.iter().enumerate() {
        let code = value.as_i64().unwrap_or_default();
        let at = at.index(i);
        if operator == "In" && code == 0 {
            errors.push(FieldError::invalid(&at, value, "must not be 0 for the In operator"));
        }
        if !seen.insert(code) {
            errors.push(FieldError::duplicate(&at, value));
        }
        ordered &= last <= code;
        last = code;
    }
    if !ordered {
        errors.push(FieldError::invalid(&at, requirement.at("values"), "must be ordered"));
    }
}
