//! Roles and bindings, read from the JSON of the API.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use crate::aggregation::LabelSelector;
use crate::quote::Quoted;
use crate::rule::{PolicyRule, null_as_default};

/// An object that isn't what it is said to be.
#[derive(Debug, thiserror::Error)]
#[error("not a valid {kind}: {source}")]
pub struct DecodeError {
    kind: &'static str,
    source: serde_json::Error,
}

fn decode<'a, T: Deserialize<'a>>(kind: &'static str, object: &'a Value) -> Result<T, DecodeError> {
    T::deserialize(object).map_err(|source| DecodeError { kind, source })
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default, deserialize_with = "null_as_default")]
    name: String,
    #[serde(default, deserialize_with = "null_as_default")]
    namespace: String,
    #[serde(default, deserialize_with = "null_as_default")]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleObject {
    metadata: Metadata,
    #[serde(default, deserialize_with = "null_as_default")]
    rules: Vec<PolicyRule>,
    #[serde(default)]
    aggregation_rule: Option<AggregationRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregationRule {
    #[serde(default, deserialize_with = "null_as_default")]
    cluster_role_selectors: Vec<LabelSelector>,
}

/// A namespace's role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    pub namespace: String,
    pub name: String,
    pub rules: Vec<PolicyRule>,
}

impl Role {
    pub fn from_value(object: &Value) -> Result<Self, DecodeError> {
        let RoleObject { metadata, rules, .. } = decode("Role", object)?;
        Ok(Self { namespace: metadata.namespace, name: metadata.name, rules })
    }
}

/// A role of the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRole {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub rules: Vec<PolicyRule>,
    /// Present where the rules are gathered from other roles, even if it selects none.
    pub aggregation: Option<Vec<LabelSelector>>,
}

impl ClusterRole {
    pub fn from_value(object: &Value) -> Result<Self, DecodeError> {
        let RoleObject { metadata, rules, aggregation_rule } = decode("ClusterRole", object)?;
        Ok(Self {
            name: metadata.name,
            labels: metadata.labels,
            rules,
            aggregation: aggregation_rule.map(|rule| rule.cluster_role_selectors),
        })
    }
}

/// The role that a binding grants.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleRef {
    #[serde(default, deserialize_with = "null_as_default")]
    pub api_group: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub kind: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
}

/// Whom a binding grants its role to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// `User`, `Group` or `ServiceAccount`; a subject of any other kind matches nobody.
    #[serde(default, deserialize_with = "null_as_default")]
    pub kind: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub api_group: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub name: String,
    /// Of a service account; `""` means the binding's own.
    #[serde(default, deserialize_with = "null_as_default")]
    pub namespace: String,
}

/// A RoleBinding, or with no namespace a ClusterRoleBinding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// `""` for the whole cluster.
    pub namespace: String,
    pub name: String,
    pub role_ref: RoleRef,
    pub subjects: Vec<Subject>,
}

impl Binding {
    pub fn from_value(object: &Value) -> Result<Self, DecodeError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct BindingObject {
            metadata: Metadata,
            role_ref: RoleRef,
            #[serde(default, deserialize_with = "null_as_default")]
            subjects: Vec<Subject>,
        }
        let BindingObject { metadata, role_ref, subjects } = decode("role binding", object)?;
        Ok(Self { namespace: metadata.namespace, name: metadata.name, role_ref, subjects })
    }

    /// How the binding and one of its subjects read in the reason of a decision.
    pub(crate) fn describe(&self, subject: &Subject, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "ClusterRoleBinding {}", Quoted(&self.name))?;
        } else {
            let full = format!("{}/{}", self.name, self.namespace);
            write!(f, "RoleBinding {}", Quoted(&full))?;
        }
        write!(
            f,
            " of {} {} to {} ",
            self.role_ref.kind,
            Quoted(&self.role_ref.name),
            subject.kind
        )?;
        if subject.kind == Subject::SERVICE_ACCOUNT {
            let namespace = subject.namespace_in(&self.namespace);
            write!(f, "{}", Quoted(&format!("{}/{namespace}", subject.name)))
        } else {
            write!(f, "{}", Quoted(&subject.name))
        }
    }
}

impl Subject {
    pub(crate) const USER: &str = "User";
    pub(crate) const GROUP: &str = "Group";
    pub(crate) const SERVICE_ACCOUNT: &str = "ServiceAccount";

    /// The namespace of a service account that a binding of `binding_namespace` names.
    pub(crate) fn namespace_in<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() { binding_namespace } else { &self.namespace }
    }
}
