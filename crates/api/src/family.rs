//! The families, and what each brings to the API.
//!
//! Definitions, roles, the keys of the configuration, the short names of kinds and `sojourn families`
//! are all taken from [`FAMILIES`]: a new family adds its modules and one line there.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::config::ConfigKey;
use crate::{access, cluster, game, group, lab};

/// What a family brings to the API. Its modules, its document and its examples have its name.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    pub name: &'static str,
    /// The API group of its kinds.
    pub api_group: &'static str,
    /// Its options in the ConfigMap.
    pub config: ConfigKey,
    /// Names of its kinds that commands take beside those in the definitions, each with the kind.
    pub aliases: &'static [(&'static str, &'static str)],
    pub(crate) crds: fn() -> Vec<CustomResourceDefinition>,
    /// Roles for people and programs that use it.
    pub(crate) roles: fn() -> Vec<ClusterRole>,
    /// The role of whoever uses the browser of `sojourn up`, if people open what it lends.
    pub(crate) person_role: Option<&'static str>,
    /// What its controllers do, for the role of the operator.
    pub(crate) operator_rules: fn() -> Vec<PolicyRule>,
}

/// Every family, in the order in which definitions are applied and options are listed.
pub const FAMILIES: &[Family] = &[
    lab::FAMILY,
    group::FAMILY,
    access::FAMILY,
    game::FAMILY,
    cluster::FAMILY,
    #[cfg(feature = "toy")]
    crate::toy::FAMILY,
];

/// A kind of ours, as people name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindNames {
    pub kind: String,
    pub plural: String,
    /// What people may write instead, in the definition or as an alias.
    pub short: Vec<String>,
    pub namespaced: bool,
}

impl Family {
    /// Its kinds by name.
    pub fn kinds(&self) -> Vec<KindNames> {
        let names = |definition: CustomResourceDefinition| {
            let (names, scope) = (definition.spec.names, definition.spec.scope);
            let aliases = self.aliases.iter().filter(|(_, kind)| *kind == names.kind);
            let mut short = names.short_names.unwrap_or_default();
            short.extend(aliases.map(|(alias, _)| (*alias).to_owned()));
            KindNames {
                kind: names.kind,
                plural: names.plural,
                short,
                namespaced: scope == "Namespaced",
            }
        };
        (self.crds)().into_iter().map(names).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_kinds_have_a_name_in_common() {
        let mut seen = BTreeSet::new();
        for kind in FAMILIES.iter().flat_map(Family::kinds) {
            let singular = kind.kind.to_ascii_lowercase();
            for name in kind.short.into_iter().chain([singular, kind.plural]) {
                assert!(seen.insert(name.clone()), "{name} means two kinds");
            }
        }
        assert!(seen.contains("inst") && seen.contains("groups"), "{seen:?}");
    }

    #[test]
    fn the_kinds_of_a_family_are_in_its_group_and_its_options_under_its_name() {
        for family in FAMILIES {
            assert_eq!(family.api_group, format!("{}.sojourn.dev", family.name));
            assert_eq!(family.config.key, format!("{}.yaml", family.name));
            let definitions = (family.crds)();
            assert!(!definitions.is_empty(), "{}", family.name);
            let roles: Vec<_> = (family.roles)().into_iter().map(|one| one.metadata.name).collect();
            let person = family.person_role.map(|name| Some(name.to_owned()));
            assert!(person.is_none_or(|name| roles.contains(&name)), "{}: {roles:?}", family.name);
            for definition in definitions {
                assert_eq!(definition.spec.group, family.api_group);
            }
            let known: BTreeSet<String> =
                family.kinds().into_iter().map(|kind| kind.kind).collect();
            for (alias, kind) in family.aliases {
                assert!(known.contains(*kind), "{alias} stands for {kind}, which there is not");
            }
        }
    }
}
