//! PodDisruptionBudgets.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::grammar::{Errors, label_selector, non_negative, one_of, push_texts};
use super::pod::{internal, set_generation};
use super::{Kind, set_or_remove};
use crate::field::{FieldError, FieldErrors, Path};
use crate::json::{Access, Object};
use crate::name;

const SPEC: &str = "PodDisruptionBudgetSpec";
const MAX_REASON_CHARS: usize = 1 << 10;
const MAX_MESSAGE_CHARS: usize = 32 << 10;

#[derive(Debug)]
pub(crate) struct PodDisruptionBudget;

impl Kind for PodDisruptionBudget {
    fn prepare_create(&self, obj: &mut Object) {
        obj.insert("status".to_owned(), json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        }));
    }

    fn prepare_update(&self, new: &mut Object, old: &Object) {
        set_or_remove(new, "status", old.get("status").cloned());
        let changed = new.at("spec") != old.at("spec");
        set_generation(new, old, changed);
    }

    fn prepare_status_update(&self, new: &mut Object, old: &Object) {
        set_or_remove(new, "spec", old.get("spec").cloned());
        set_generation(new, old, false);
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        let (spec, path) = (obj.at("spec"), Path::new("spec"));
        let both = ["minAvailable", "maxUnavailable"];
        if both.iter().all(|member| !spec.at(member).is_null()) {
            let why = "minAvailable and maxUnavailable cannot be both set";
            errors.push(FieldError::invalid_raw(&path, internal::compact(SPEC, spec), why));
        }
        for member in both {
            count_or_percentage(errors, &path.field(member), spec.at(member));
        }
        label_selector(errors, &path.field("selector"), spec.at("selector"));
        if let Some(policy) = spec.at("unhealthyPodEvictionPolicy").as_str() {
            let path = path.field("unhealthyPodEvictionPolicy");
            one_of(errors, &path, policy, &["AlwaysAllow", "IfHealthyBudget"]);
        }
    }

    fn validate_status_update(&self, new: &Object, _old: &Object, errors: &mut FieldErrors) {
        let (status, path) = (new.at("status"), Path::new("status"));
        conditions(errors, &path.field("conditions"), status.list("conditions"));
        for member in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            non_negative(errors, &path.field(member), status.int(member));
        }
    }
}

/// A number of Pods, or a part of them in percent.
fn count_or_percentage(errors: &mut Errors, path: &Path<'_>, value: &Value) {
    let Value::String(text) = value else {
        non_negative(errors, path, value.as_i64());
        return;
    };
    let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty());
    let Some(digits) = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_digit())) else {
        let why = name::pattern_text(
            "a valid percent string must be a numeric string followed by an ending '%'",
            "[0-9]+%",
            &["1%", "93%"],
        );
        push_texts(errors, path, text, vec![why]);
        return;
    };
    // More digits than fit are more than a hundred percent, too.
    if digits.parse::<u64>().is_ok_and(|percent| percent <= 100) {
        return;
    }
    push_texts(errors, path, text, vec!["must not be greater than 100%".to_owned()]);
}

/// Conditions as every kind that has `metav1.Condition` must have them.
fn conditions(errors: &mut Errors, path: &Path<'_>, conditions: &[Value]) {
    let mut seen = HashSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let at = path.index(i);
        let kind = condition.text("type");
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(&at.field("type"), condition.at("type")));
        }
        push_texts(errors, &at.field("type"), kind, name::qualified_name(kind));
        let statuses = ["False", "True", "Unknown"];
        one_of(errors, &at.field("status"), condition.text("status"), &statuses);
        if let Some(generation) = condition.int("observedGeneration").filter(|g| *g < 0) {
            let why = "must be greater than or equal to zero";
            let path = at.field("observedGeneration");
            errors.push(FieldError::invalid(&path, &generation.into(), why));
        }
        if condition.at("lastTransitionTime").is_null() {
            errors.push(FieldError::required(&at.field("lastTransitionTime"), ""));
        }
        let reason = condition.text("reason");
        if reason.is_empty() {
            errors.push(FieldError::required(&at.field("reason"), ""));
        } else if reason.len() > MAX_REASON_CHARS {
            errors.push(FieldError::too_long(&at.field("reason"), MAX_REASON_CHARS));
        }
        if condition.text("message").len() > MAX_MESSAGE_CHARS {
            errors.push(FieldError::too_long(&at.field("message"), MAX_MESSAGE_CHARS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(spec: &Value) -> Vec<String> {
        let mut errors = FieldErrors::new();
        let object = json!({"spec": spec});
        PodDisruptionBudget.validate(object.as_object().expect("an object"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn amounts_are_counts_or_percentages() {
        assert_eq!(faults(&json!({"minAvailable": 3})), [""; 0]);
        assert_eq!(faults(&json!({"maxUnavailable": "100%"})), [""; 0]);
        assert_eq!(
            faults(&json!({"minAvailable": -1})),
            ["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"]
        );
        assert_eq!(
            faults(&json!({"maxUnavailable": "101%"})),
            ["spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"]
        );
        assert!(faults(&json!({"maxUnavailable": "%"}))[0].contains("a valid percent string"));
        let both = faults(&json!({"minAvailable": 1, "maxUnavailable": "5%"}));
        assert_eq!(
            both,
            [
                "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":null,\"MaxUnavailable\":\"5%\",\
              \"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both \
              set"
            ]
        );
    }
}
