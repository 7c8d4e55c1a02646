//! How roles are written down.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::core::ObjectMeta;

use crate::name::shared;

/// For the operator: what the controllers of all families do, and nothing else.
pub(crate) const OPERATOR: &str = "sojourn-operator";

pub(crate) const READ: &[&str] = &["get", "list", "watch"];
pub(crate) const WRITE: &[&str] = &["create", "update", "patch", "delete"];

/// A role, which those of Kubernetes' own roles with the name `into` take in.
pub(crate) fn role(name: &str, into: Option<&str>, rules: Vec<PolicyRule>) -> ClusterRole {
    let mut labels = BTreeMap::from([(shared::MANAGED_BY.to_owned(), shared::MANAGER.to_owned())]);
    let aggregate = "rbac.authorization.k8s.io/aggregate-to";
    labels.extend(into.map(|into| (format!("{aggregate}-{into}"), "true".to_owned())));
    ClusterRole {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        rules: Some(rules),
        aggregation_rule: None,
    }
}

pub(crate) fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |list: &[&str]| list.iter().map(|&item| item.to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

/// To see whether the definitions of kinds are as new as the controllers that write their statuses.
pub(crate) fn definitions(group: &str, resources: &[&str]) -> PolicyRule {
    let names = resources.iter().map(|resource| format!("{resource}.{group}"));
    PolicyRule {
        resource_names: Some(names.collect()),
        ..rule("apiextensions.k8s.io", &["customresourcedefinitions"], READ)
    }
}
