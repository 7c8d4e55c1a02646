//! All roles and bindings of a cluster, indexed so that a decision costs what the user's own
//! bindings cost.

mod index;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::aggregation::{UnknownOperator, aggregated_rules};
use crate::object::{Binding, ClusterRole, Role, RoleRef, Subject};
use crate::quote::Quoted;
use crate::request::{Attributes, SUPERUSER_GROUP, User};
use crate::rule::PolicyRule;
use crate::{API_GROUP, policy::index::BindingIndex};

/// The RBAC policy of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    cluster_roles: HashMap<String, ClusterRole>,
    /// By namespace, then by name.
    roles: HashMap<String, HashMap<String, Vec<PolicyRule>>>,
    cluster_bindings: BindingIndex,
    bindings: HashMap<String, BindingIndex>,
}

/// Changes.
impl Policy {
    pub fn upsert_role(&mut self, role: Role) {
        self.roles.entry(role.namespace).or_default().insert(role.name, role.rules);
    }

    pub fn remove_role(&mut self, namespace: &str, name: &str) {
        if let Some(roles) = self.roles.get_mut(namespace) {
            roles.remove(name);
            if roles.is_empty() {
                self.roles.remove(namespace);
            }
        }
    }

    pub fn upsert_cluster_role(&mut self, role: ClusterRole) {
        self.cluster_roles.insert(role.name.clone(), role);
    }

    pub fn remove_cluster_role(&mut self, name: &str) {
        self.cluster_roles.remove(name);
    }

    /// Adds or replaces a RoleBinding or, if it has no namespace, a ClusterRoleBinding.
    pub fn upsert_binding(&mut self, binding: Binding) {
        let index = if binding.namespace.is_empty() {
            &mut self.cluster_bindings
        } else if let Some(index) = self.bindings.get_mut(&binding.namespace) {
            index
        } else {
            self.bindings.entry(binding.namespace.clone()).or_default()
        };
        index.upsert(binding);
    }

    /// Removes a RoleBinding or, with no namespace, a ClusterRoleBinding.
    pub fn remove_binding(&mut self, namespace: &str, name: &str) {
        if namespace.is_empty() {
            self.cluster_bindings.remove(name);
        } else if let Some(index) = self.bindings.get_mut(namespace) {
            index.remove(name);
            if index.is_empty() {
                self.bindings.remove(namespace);
            }
        }
    }
}

/// Questions.
impl Policy {
    /// Whether some binding lets the request through. RBAC never denies: a request that it doesn't
    /// allow is left to other authorizers.
    pub fn authorize(&self, request: &Attributes<'_>) -> Decision {
        let mut unresolved = Vec::new();
        for index in self.indexes(request.namespace) {
            for binding in index.of(request.user) {
                match self.rules_of(&binding.role_ref, &binding.namespace) {
                    Ok(rules) if rules.iter().any(|rule| rule.allows(request)) => {
                        return Decision {
                            grant: Grant::new(binding, request.user),
                            unresolved: Vec::new(),
                        };
                    }
                    Ok(_) => {}
                    Err(missing) if unresolved.contains(&missing) => {}
                    Err(missing) => unresolved.push(missing),
                }
            }
        }
        Decision { grant: None, unresolved }
    }

    /// Every rule that applies to the user in the namespace (`""`: at the cluster scope only):
    /// those of the cluster's bindings first, then the namespace's, each by the binding's name.
    pub fn rules_for(&self, user: &User, namespace: &str) -> RulesFor<'_> {
        let mut found = RulesFor::default();
        for index in self.indexes(namespace) {
            let by_name: BTreeMap<&str, &Arc<Binding>> =
                index.of(user).map(|binding| (binding.name.as_str(), binding)).collect();
            for binding in by_name.values() {
                match self.rules_of(&binding.role_ref, &binding.namespace) {
                    Ok(rules) => found.rules.extend(rules),
                    Err(missing) => found.unresolved.push(missing),
                }
            }
        }
        found
    }

    /// Whoever may do this, whatever `request.user` says; superusers first. Looks at every binding.
    pub fn subjects_who_can(&self, request: &Attributes<'_>) -> Vec<Subject> {
        let mut subjects = vec![Subject {
            kind: Subject::GROUP.to_owned(),
            api_group: API_GROUP.to_owned(),
            name: SUPERUSER_GROUP.to_owned(),
            namespace: String::new(),
        }];
        let first = subjects[0].clone();
        let mut known = HashSet::from([&first]);
        let bindings = self.indexes(request.namespace).flat_map(BindingIndex::all);
        for binding in bindings {
            let rules = self.rules_of(&binding.role_ref, &binding.namespace).unwrap_or_default();
            if !rules.iter().any(|rule| rule.allows(request)) {
                continue;
            }
            for subject in &binding.subjects {
                if known.insert(subject) {
                    subjects.push(subject.clone());
                }
            }
        }
        subjects
    }

    /// The rules of the role that a binding in this namespace refers to.
    pub fn rules_of(
        &self,
        role_ref: &RoleRef,
        namespace: &str,
    ) -> Result<&[PolicyRule], UnresolvedRole> {
        let found = match role_ref.kind.as_str() {
            "ClusterRole" => {
                self.cluster_roles.get(&role_ref.name).map(|role| role.rules.as_slice())
            }
            "Role" => self
                .roles
                .get(namespace)
                .and_then(|roles| roles.get(&role_ref.name))
                .map(Vec::as_slice),
            _ => None,
        };
        found.ok_or_else(|| UnresolvedRole {
            kind: role_ref.kind.clone(),
            name: role_ref.name.clone(),
        })
    }

    pub fn cluster_role(&self, name: &str) -> Option<&ClusterRole> {
        self.cluster_roles.get(name)
    }

    /// The names of the ClusterRoles that gather their rules from others.
    pub fn aggregating_roles(&self) -> impl Iterator<Item = &str> {
        self.cluster_roles
            .values()
            .filter(|role| role.aggregation.is_some())
            .map(|role| role.name.as_str())
    }

    /// What the rules of an aggregating ClusterRole should be, if they aren't that already.
    pub fn stale_aggregation(
        &self,
        name: &str,
    ) -> Result<Option<Vec<PolicyRule>>, UnknownOperator> {
        let Some(role) = self.cluster_roles.get(name) else {
            return Ok(None);
        };
        let rules = aggregated_rules(role, self.cluster_roles.values())?;
        Ok(rules.filter(|rules| *rules != role.rules))
    }

    /// The bindings that count for a request: the cluster's, then the namespace's.
    fn indexes(&self, namespace: &str) -> impl Iterator<Item = &BindingIndex> {
        let own = (!namespace.is_empty()).then(|| self.bindings.get(namespace)).flatten();
        std::iter::once(&self.cluster_bindings).chain(own)
    }
}

/// The answer to one request.
#[derive(Clone, Debug)]
pub struct Decision {
    grant: Option<Grant>,
    unresolved: Vec<UnresolvedRole>,
}

impl Decision {
    pub const fn is_allowed(&self) -> bool {
        self.grant.is_some()
    }

    /// Why, as the API says it: the binding that allows, or the roles that could not be found, or
    /// nothing. Made only when asked for.
    pub fn reason(&self) -> String {
        match &self.grant {
            Some(grant) => format!("RBAC: allowed by {grant}"),
            None if self.unresolved.is_empty() => String::new(),
            None => format!("RBAC: {}", aggregate(&self.unresolved)),
        }
    }
}

/// The binding that allows a request, and the subject of it that matched.
#[derive(Clone, Debug)]
pub struct Grant {
    binding: Arc<Binding>,
    subject: usize,
}

impl Grant {
    fn new(binding: &Arc<Binding>, user: &User) -> Option<Self> {
        let applies = |subject: &Subject| subject.applies_to(user, &binding.namespace);
        let subject = binding.subjects.iter().position(applies)?;
        Some(Self { binding: Arc::clone(binding), subject })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.binding.describe(&self.binding.subjects[self.subject], f)
    }
}

/// A binding's role that isn't there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnresolvedRole {
    pub kind: String,
    pub name: String,
}

impl fmt::Display for UnresolvedRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let singular = match self.kind.as_str() {
            "Role" => "role",
            "ClusterRole" => "clusterrole",
            other => return write!(f, "unsupported role reference kind: {}", Quoted(other)),
        };
        write!(f, "{singular}.{API_GROUP} {} not found", Quoted(&self.name))
    }
}

/// Several errors as one text, each once: `a`, or `[a, b]`.
pub(crate) fn aggregate<E: fmt::Display>(errors: &[E]) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(errors.len());
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        1 => texts.swap_remove(0),
        _ => format!("[{}]", texts.join(", ")),
    }
}

/// The rules that apply to somebody, and the roles that could not be found on the way.
#[derive(Clone, Debug, Default)]
pub struct RulesFor<'a> {
    pub rules: Vec<&'a PolicyRule>,
    pub unresolved: Vec<UnresolvedRole>,
}

impl RulesFor<'_> {
    /// The `status` of a SelfSubjectRulesReview. `other_authorizer_error` says why the rules of another
    /// authorizer cannot be listed, if one applies to the user: the review is incomplete then.
    pub fn to_review_status(&self, other_authorizer_error: Option<&str>) -> Value {
        let on_resources = self.rules.iter().filter(|rule| !rule.resources.is_empty());
        let on_paths = self.rules.iter().filter(|rule| !rule.non_resource_urls.is_empty());
        let resource_rules: Vec<PolicyRule> = on_resources
            .map(|rule| PolicyRule { non_resource_urls: Vec::new(), ..(*rule).clone() })
            .collect();
        let non_resource_rules: Vec<PolicyRule> = on_paths
            .map(|rule| PolicyRule {
                verbs: rule.verbs.clone(),
                non_resource_urls: rule.non_resource_urls.clone(),
                ..PolicyRule::default()
            })
            .collect();
        let mut status = json!({
            "resourceRules": resource_rules,
            "nonResourceRules": non_resource_rules,
            "incomplete": other_authorizer_error.is_some(),
        });
        let errors: Vec<&dyn fmt::Display> = other_authorizer_error
            .iter()
            .map(|text| text as &dyn fmt::Display)
            .chain(self.unresolved.iter().map(|role| role as &dyn fmt::Display))
            .collect();
        if !errors.is_empty() {
            status["evaluationError"] = Value::String(aggregate(&errors));
        }
        status
    }
}
