//! Nobody may grant what they don't hold: the checks that guard writes to roles and bindings.
//!
//! Superusers may write anything. Others need the `escalate` verb on the role, or the `bind` verb on
//! the role that a binding grants; failing that, they must hold every rule that they hand out.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::API_GROUP;
use crate::cover::{compact, uncovered};
use crate::object::RoleRef;
use crate::policy::{Policy, UnresolvedRole, aggregate};
use crate::quote::{Quoted, QuotedList};
use crate::request::{Attributes, User};
use crate::rule::PolicyRule;

/// Why a write to the policy is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EscalationError {
    /// Forbidden; the text is the cause.
    #[error("{0}")]
    NotHeld(String),
    /// Forbidden.
    #[error("must have cluster-admin privileges to use the aggregationRule")]
    Aggregation,
    /// The role that a binding grants isn't there. Upstream answers that the *binding's* resource
    /// has no object of the role's name.
    #[error(transparent)]
    RoleNotFound(#[from] UnresolvedRole),
}

/// The whole authorizer, of which the policy is one part; `true` means allowed.
pub type Authorize<'a> = &'a dyn Fn(&Attributes<'_>) -> bool;

/// A create or update of a Role or ClusterRole.
#[derive(Clone, Copy, Debug)]
pub struct RoleWrite<'a> {
    pub user: &'a User,
    /// `roles` or `clusterroles`.
    pub resource: &'a str,
    /// `""` for a ClusterRole.
    pub namespace: &'a str,
    /// As the request's path names it: `""` on create.
    pub name: &'a str,
    pub rules: &'a [PolicyRule],
    /// Whether the role, or the one that it replaces, has selectors to aggregate by.
    pub aggregates: bool,
}

/// Whether a role may be written as it is.
pub fn check_role(
    policy: &Policy,
    write: &RoleWrite<'_>,
    authorize: Authorize<'_>,
) -> Result<(), EscalationError> {
    let escalate = Attributes {
        namespace: write.namespace,
        name: write.name,
        ..Attributes::on_resource(write.user, "escalate", API_GROUP, write.resource)
    };
    if write.user.is_superuser() || authorize(&escalate) {
        return Ok(());
    }
    require_held(policy, write.user, write.namespace, write.rules)?;
    if write.aggregates {
        require_held(policy, write.user, write.namespace, &full_authority())
            .map_err(|_| EscalationError::Aggregation)?;
    }
    Ok(())
}

/// Whether a binding in the namespace (`""` for a ClusterRoleBinding) may grant the role.
pub fn check_binding(
    policy: &Policy,
    user: &User,
    namespace: &str,
    role_ref: &RoleRef,
    authorize: Authorize<'_>,
) -> Result<(), EscalationError> {
    if user.is_superuser() {
        return Ok(());
    }
    let resource = match role_ref.kind.as_str() {
        "ClusterRole" => Some("clusterroles"),
        "Role" => Some("roles"),
        _ => None,
    };
    let may_bind = resource.is_some_and(|resource| {
        authorize(&Attributes {
            namespace,
            name: &role_ref.name,
            ..Attributes::on_resource(user, "bind", &role_ref.api_group, resource)
        })
    });
    if may_bind {
        return Ok(());
    }
    let rules = policy.rules_of(role_ref, namespace)?;
    require_held(policy, user, namespace, rules)
}

/// Whether the user holds all of these rules in the namespace.
pub fn require_held(
    policy: &Policy,
    user: &User,
    namespace: &str,
    rules: &[PolicyRule],
) -> Result<(), EscalationError> {
    let held = policy.rules_for(user, namespace);
    let missing = uncovered(&held.rules, rules);
    if missing.is_empty() {
        return Ok(());
    }
    let described: BTreeSet<String> = compact(missing).iter().map(ToString::to_string).collect();
    let described: Vec<String> = described.into_iter().collect();
    let mut text = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        Quoted(&user.name),
        QuotedList(&user.groups),
        described.join("\n"),
    );
    if !held.unresolved.is_empty() {
        text.push_str(&format!("; resolution errors: [{}]", aggregate(&held.unresolved)));
    }
    Err(EscalationError::NotHeld(text))
}

fn full_authority() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() },
    ]
}

/// Whether an update changes only what garbage collection needs to change to delete the object; such
/// an update is free of the checks above, or a role could not be collected by who doesn't hold it.
pub fn changes_only_collection_fields(new: &Value, old: &Value) -> bool {
    const IGNORED: &[&str] = &["ownerReferences", "finalizers", "selfLink", "managedFields"];
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return false;
    };
    members(Some(new), &["metadata"]).eq(members(Some(old), &["metadata"]))
        && members(metadata_of(new), IGNORED).eq(members(metadata_of(old), IGNORED))
}

fn metadata_of(object: &Map<String, Value>) -> Option<&Map<String, Value>> {
    object.get("metadata").and_then(Value::as_object)
}

fn members<'a>(
    object: Option<&'a Map<String, Value>>,
    ignored: &'a [&str],
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object.into_iter().flatten().filter(|(key, _)| !ignored.contains(&key.as_str()))
}

#[cfg(test)]
mod tests;
