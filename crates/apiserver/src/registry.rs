//! Which resources are served, under which names and versions, and the rules of each.
//!
//! A [`Registry`] is an immutable snapshot; accepting or removing a custom resource definition
//! makes a new one. The engine is generic: it knows the built-in kinds by one table each and
//! everything else by its definition.

pub(crate) mod builtin;
pub(crate) mod custom;
mod endpoint;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub(crate) use builtin::Builtin;
pub(crate) use custom::Custom;
pub(crate) use endpoint::{Endpoint, Findings};

use serde_json::Value;

use crate::kind::custom_resource_definition::precedence::Precedence;
use crate::store::{CommitError, ResourceTable, Store};

/// One served resource with all its versions.
pub(crate) struct Resource {
    pub(crate) group: Box<str>,
    pub(crate) plural: Box<str>,
    pub(crate) singular: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) list_kind: Box<str>,
    pub(crate) short_names: Vec<Box<str>>,
    pub(crate) categories: Vec<Box<str>>,
    pub(crate) namespaced: bool,
    /// Served versions, the preferred one first.
    pub(crate) versions: Vec<Version>,
    /// Every `apiVersion` in which its objects can be read.
    pub(crate) api_versions: Vec<Box<str>>,
    /// Group and version in which objects are stored.
    pub(crate) storage: (Box<str>, Box<str>),
    /// `{"apiVersion":"…","kind":"…",` of the version that is stored.
    pub(crate) storage_header: Box<str>,
    pub(crate) table: Arc<ResourceTable>,
    /// What an object that nobody filled in shows; built-in kinds only.
    pub(crate) zero: Option<Value>,
    pub(crate) rules: Rules,
}

/// One served version of a resource.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) name: Box<str>,
    /// `v1`, `batch/v1`.
    pub(crate) api_version: Box<str>,
    pub(crate) header: Box<str>,
    pub(crate) status: bool,
    pub(crate) scale: bool,
    /// Sent as a `Warning` header with every answer.
    pub(crate) deprecation: Option<String>,
}

pub(crate) enum Rules {
    Builtin(&'static Builtin),
    Custom(Arc<Custom>),
}

impl Resource {
    pub(crate) fn of(&self) -> crate::status::GroupResource<'_> {
        crate::status::GroupResource { group: &self.group, resource: &self.plural }
    }

    /// Every verb that clients may use on it.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        match &self.rules {
            Rules::Builtin(builtin) => builtin.verbs,
            Rules::Custom(_) => builtin::ALL_VERBS,
        }
    }

    /// `pods.`, `jobs.batch`: how upstream's namespace controller names a resource.
    pub(crate) fn plural_dot_group(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Whether its objects are kept as another resource's.
    pub(crate) fn is_view(&self) -> bool {
        matches!(self.rules, Rules::Builtin(Builtin { view: Some(_), .. }))
    }

    /// Whether it was made from the definition with this uid.
    pub(crate) fn is_of(&self, uid: &str) -> bool {
        matches!(&self.rules, Rules::Custom(custom) if *custom.uid == *uid)
    }

    /// Whether objects of this kind are kept; access reviews are only answered.
    pub(crate) fn is_stored(&self) -> bool {
        self.verbs().contains(&"get")
    }
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resource({})", self.of())
    }
}

#[derive(Debug, Default)]
pub(crate) struct Registry {
    resources: BTreeMap<(Box<str>, Box<str>), Arc<Resource>>,
    /// By group and kind, for owner references.
    kinds: HashMap<(Box<str>, Box<str>), Arc<Resource>>,
    tables: HashMap<i64, Arc<Resource>>,
}

impl Registry {
    /// The built-in kinds.
    pub(crate) fn builtin(store: &Store) -> Result<Self, CommitError> {
        let mut registry = Self::default();
        for builtin in builtin::all() {
            registry.insert(Arc::new(builtin.resource(store)?));
        }
        Ok(registry)
    }

    /// This registry with `custom` instead of whatever custom resources it had.
    pub(crate) fn with_custom(&self, custom: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        let mut registry = Self::default();
        for resource in self.resources.values() {
            if matches!(resource.rules, Rules::Builtin(_)) {
                registry.insert(resource.clone());
            }
        }
        for resource in custom {
            registry.insert(resource);
        }
        registry
    }

    fn insert(&mut self, resource: Arc<Resource>) {
        let kind = (resource.group.clone(), resource.kind.clone());
        self.kinds.insert(kind, resource.clone());
        if resource.is_stored() && !resource.is_view() {
            self.tables.insert(resource.table.id, resource.clone());
        }
        self.resources.insert((resource.group.clone(), resource.plural.clone()), resource);
    }

    /// The endpoint of a resource in one version, if both are served.
    pub(crate) fn endpoint(&self, group: &str, version: &str, plural: &str) -> Option<Endpoint> {
        let resource = self.resource(group, plural)?;
        let index = resource.versions.iter().position(|v| &*v.name == version)?;
        Some(Endpoint { resource, index })
    }

    pub(crate) fn resource(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        self.resources.get(&(group.into(), plural.into())).cloned()
    }

    /// The resource of a kind named in an owner reference.
    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        self.kinds.get(&(group.into(), kind.into())).cloned()
    }

    /// The resource whose objects are in a table.
    pub(crate) fn by_table(&self, id: i64) -> Option<Arc<Resource>> {
        self.tables.get(&id).cloned()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// The served groups with their versions, preferred first; the core group is `""`.
    pub(crate) fn groups(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for resource in self.resources.values() {
            let versions = groups.entry(&resource.group).or_default();
            for version in &resource.versions {
                if !versions.contains(&&*version.name) {
                    versions.push(&version.name);
                }
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|name| std::cmp::Reverse(Precedence::of(name)));
        }
        groups
    }
}
