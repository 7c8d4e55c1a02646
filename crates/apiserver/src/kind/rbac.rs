//! Roles and their bindings. Who may write which rule is decided elsewhere.

use serde_json::Value;

use super::Kind;
use super::grammar::unsupported;
use crate::field::{FieldError, FieldErrors, Path, go_value};
use crate::json::{Access, Object, object_mut};
use crate::name;
use crate::selector::LabelSelector;
use crate::selector::label::{self, Leniency};

const GROUP: &str = "rbac.authorization.k8s.io";

#[derive(Debug)]
pub(crate) struct Role;

#[derive(Debug)]
pub(crate) struct ClusterRole;

#[derive(Debug)]
pub(crate) struct RoleBinding;

#[derive(Debug)]
pub(crate) struct ClusterRoleBinding;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Namespaced,
    Cluster,
}

impl Kind for Role {
    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        validate_rules(obj, Scope::Namespaced, errors);
    }
}

impl Kind for ClusterRole {
    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        validate_rules(obj, Scope::Cluster, errors);
        validate_aggregation(obj.at("aggregationRule"), Leniency::default(), errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        let mut stored = FieldErrors::new();
        validate_selectors(old.at("aggregationRule"), Leniency::default(), &mut stored);
        let leniency = Leniency { any_value: !stored.is_empty(), ..Leniency::default() };
        validate_rules(new, Scope::Cluster, errors);
        validate_aggregation(new.at("aggregationRule"), leniency, errors);
    }
}

impl Kind for RoleBinding {
    fn default(&self, obj: &mut Object) {
        default_binding(obj);
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        validate_binding(obj, Scope::Namespaced, errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        self.validate(new, errors);
        validate_same_role(new, old, errors);
    }
}

impl Kind for ClusterRoleBinding {
    fn default(&self, obj: &mut Object) {
        default_binding(obj);
    }

    fn validate(&self, obj: &Object, errors: &mut FieldErrors) {
        validate_binding(obj, Scope::Cluster, errors);
    }

    fn validate_update(&self, new: &Object, old: &Object, errors: &mut FieldErrors) {
        self.validate(new, errors);
        validate_same_role(new, old, errors);
    }
}

fn default_binding(obj: &mut Object) {
    if obj.at("roleRef").text("apiGroup").is_empty() {
        object_mut(obj, "roleRef").insert("apiGroup".to_owned(), GROUP.into());
    }
    let Some(Value::Array(subjects)) = obj.get_mut("subjects") else {
        return;
    };
    for subject in subjects {
        let is_person = matches!(subject.text("kind"), "User" | "Group");
        if is_person
            && subject.text("apiGroup").is_empty()
            && let Some(subject) = subject.as_object_mut()
        {
            subject.insert("apiGroup".to_owned(), GROUP.into());
        }
    }
}

fn validate_rules(obj: &Object, scope: Scope, errors: &mut FieldErrors) {
    let rules = Path::new("rules");
    for (i, rule) in obj.list("rules").iter().enumerate() {
        validate_rule(rule, scope, &rules.index(i), errors);
    }
}

fn validate_rule(rule: &Value, scope: Scope, path: &Path<'_>, errors: &mut FieldErrors) {
    let lacks = |member: &str| rule.list(member).is_empty();
    if lacks("verbs") {
        let detail = "verbs must contain at least one value";
        errors.push(FieldError::required(&path.field("verbs"), detail));
    }
    if !lacks("nonResourceURLs") {
        let urls = rule.at("nonResourceURLs");
        let path = path.field("nonResourceURLs");
        if scope == Scope::Namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(&path, urls, detail));
        }
        if !(lacks("apiGroups") && lacks("resources") && lacks("resourceNames")) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(&path, urls, detail));
        }
        return;
    }
    if lacks("apiGroups") {
        let detail = "resource rules must supply at least one api group";
        errors.push(FieldError::required(&path.field("apiGroups"), detail));
    }
    if lacks("resources") {
        let detail = "resource rules must supply at least one resource";
        errors.push(FieldError::required(&path.field("resources"), detail));
    }
}

fn validate_aggregation(rule: &Value, leniency: Leniency, errors: &mut FieldErrors) {
    if rule.is_object() && rule.list("clusterRoleSelectors").is_empty() {
        let path = Path::new("aggregationRule");
        errors.push(FieldError::required(
            &path.field("clusterRoleSelectors"),
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        ));
    }
    validate_selectors(rule, leniency, errors);
}

fn validate_selectors(rule: &Value, leniency: Leniency, errors: &mut FieldErrors) {
    let path = Path::new("aggregationRule");
    let path = path.field("clusterRoleSelectors");
    for (i, selector) in rule.list("clusterRoleSelectors").iter().enumerate() {
        let path = path.index(i);
        label::validate(selector, leniency, &path, errors);
        if LabelSelector::from_api(selector).is_err() {
            errors.push(FieldError::invalid(&path, &Value::Null, "invalid label selector."));
        }
    }
}

fn validate_binding(obj: &Object, scope: Scope, errors: &mut FieldErrors) {
    let role = obj.at("roleRef");
    let path = Path::new("roleRef");
    if role.text("apiGroup") != GROUP {
        errors.push(unsupported(&path.field("apiGroup"), role.text("apiGroup"), &[GROUP]));
    }
    let kinds: &[&str] = match scope {
        Scope::Namespaced => &["Role", "ClusterRole"],
        Scope::Cluster => &["ClusterRole"],
    };
    if !kinds.contains(&role.text("kind")) {
        errors.push(unsupported(&path.field("kind"), role.text("kind"), kinds));
    }
    let name = role.text("name");
    if name.is_empty() {
        errors.push(FieldError::required(&path.field("name"), ""));
    }
    for fault in name::path_segment(name) {
        errors.push(FieldError::invalid_text(&path.field("name"), name, fault));
    }
    let subjects = Path::new("subjects");
    for (i, subject) in obj.list("subjects").iter().enumerate() {
        validate_subject(subject, scope, &subjects.index(i), errors);
    }
}

fn validate_subject(subject: &Value, scope: Scope, path: &Path<'_>, errors: &mut FieldErrors) {
    let name = subject.text("name");
    let group = subject.text("apiGroup");
    if name.is_empty() {
        errors.push(FieldError::required(&path.field("name"), ""));
    }
    match subject.text("kind") {
        "ServiceAccount" => {
            let faults = if name.is_empty() { vec![] } else { name::dns1123_subdomain(name) };
            for fault in faults {
                errors.push(FieldError::invalid_text(&path.field("name"), name, fault));
            }
            if !group.is_empty() {
                errors.push(unsupported(&path.field("apiGroup"), group, &[""]));
            }
            if scope == Scope::Cluster && subject.text("namespace").is_empty() {
                errors.push(FieldError::required(&path.field("namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(unsupported(&path.field("apiGroup"), group, &[GROUP]));
            }
        }
        kind => {
            let known = ["ServiceAccount", "User", "Group"];
            errors.push(unsupported(&path.field("kind"), kind, &known));
        }
    }
}

fn validate_same_role(new: &Object, old: &Object, errors: &mut FieldErrors) {
    let (new, old) = (new.at("roleRef"), old.at("roleRef"));
    if ["apiGroup", "kind", "name"].iter().all(|member| new.text(member) == old.text(member)) {
        return;
    }
    // Shown as upstream's internal type is encoded.
    let shown = format!(
        r#"{{"APIGroup":{},"Kind":{},"Name":{}}}"#,
        go_value(&new.text("apiGroup").into()),
        go_value(&new.text("kind").into()),
        go_value(&new.text("name").into()),
    );
    errors.push(FieldError::invalid_raw(&Path::new("roleRef"), shown, "cannot change roleRef"));
}

#[cfg(test)]
mod tests;
