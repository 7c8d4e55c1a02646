//! The bindings of one scope, found by whom they are for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::object::{Binding, Subject};
use crate::request::User;

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The bindings of one namespace, or the cluster's own.
#[derive(Clone, Debug, Default)]
pub(super) struct BindingIndex {
    by_name: BTreeMap<String, Arc<Binding>>,
    /// Service accounts are here too, by their user name. Each list is in the order of names.
    by_user: BySubject,
    by_group: BySubject,
}

type BySubject = HashMap<String, Vec<Arc<Binding>>>;

impl BindingIndex {
    pub(super) fn upsert(&mut self, binding: Binding) {
        self.remove(&binding.name);
        let binding = Arc::new(binding);
        for subject in &binding.subjects {
            let Some((index, key)) = self.index_entry(subject, &binding.namespace) else {
                continue;
            };
            let listed = index.entry(key).or_default();
            // A subject may be named twice in one binding.
            if let Err(at) = listed.binary_search_by(|other| other.name.cmp(&binding.name)) {
                listed.insert(at, Arc::clone(&binding));
            }
        }
        self.by_name.insert(binding.name.clone(), binding);
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(binding) = self.by_name.remove(name) else {
            return;
        };
        for subject in &binding.subjects {
            let Some((index, key)) = self.index_entry(subject, &binding.namespace) else {
                continue;
            };
            if let Some(listed) = index.get_mut(&key) {
                if let Ok(at) = listed.binary_search_by(|other| other.name.as_str().cmp(name)) {
                    listed.remove(at);
                }
                if listed.is_empty() {
                    index.remove(&key);
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Binding>> {
        self.by_name.values()
    }

    /// The bindings that apply to the user: by name first, then group by group. A binding that
    /// names several of these comes several times.
    pub(super) fn of<'a>(&'a self, user: &'a User) -> impl Iterator<Item = &'a Arc<Binding>> {
        let groups = user.groups.iter().filter_map(|group| self.by_group.get(group));
        self.by_user.get(&user.name).into_iter().chain(groups).flatten()
    }

    fn index_entry(
        &mut self,
        subject: &Subject,
        binding_namespace: &str,
    ) -> Option<(&mut BySubject, String)> {
        match subject.kind.as_str() {
            Subject::USER => Some((&mut self.by_user, subject.name.clone())),
            Subject::GROUP => Some((&mut self.by_group, subject.name.clone())),
            Subject::SERVICE_ACCOUNT => {
                let namespace = subject.namespace_in(binding_namespace);
                let user = format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{}", subject.name);
                (!namespace.is_empty()).then_some((&mut self.by_user, user))
            }
            _ => None,
        }
    }
}

impl Subject {
    /// Whether a binding in `binding_namespace` that names this subject is for the user.
    pub(super) fn applies_to(&self, user: &User, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            Self::USER => self.name == user.name,
            Self::GROUP => user.is_in(&self.name),
            Self::SERVICE_ACCOUNT => {
                let namespace = self.namespace_in(binding_namespace);
                !namespace.is_empty()
                    && user
                        .name
                        .strip_prefix(SERVICE_ACCOUNT_PREFIX)
                        .and_then(|rest| rest.strip_prefix(namespace))
                        .and_then(|rest| rest.strip_prefix(':'))
                        .is_some_and(|name| name == self.name)
            }
            _ => false,
        }
    }
}
