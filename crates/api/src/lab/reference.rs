//! What a Template names in the namespace of its Instances.

use std::collections::BTreeSet;

use super::environment::Environment;
use super::template::TemplateSpec;

/// An object of an Instance's namespace whose content its programs are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Referent<'a> {
    Secret(&'a str),
    ConfigMap(&'a str),
}

impl<'a> Referent<'a> {
    pub const fn name(self) -> &'a str {
        match self {
            Self::Secret(name) | Self::ConfigMap(name) => name,
        }
    }

    /// What the API calls objects of its kind.
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Secret(_) => "secrets",
            Self::ConfigMap(_) => "configmaps",
        }
    }
}

impl Environment {
    /// What its variables are read from, each once.
    pub fn referents(&self) -> BTreeSet<Referent<'_>> {
        let sources = self.env.iter().filter_map(|variable| variable.value_from.as_ref());
        let secrets = sources.clone().filter_map(|source| source.secret_key_ref.as_ref());
        let maps = sources.filter_map(|source| source.config_map_key_ref.as_ref());
        let secrets = secrets.map(|key| Referent::Secret(&key.name));
        secrets.chain(maps.map(|key| Referent::ConfigMap(&key.name))).collect()
    }
}

impl TemplateSpec {
    /// What the variables of all its programs are read from, each once.
    pub fn referents(&self) -> BTreeSet<Referent<'_>> {
        self.environment_list.iter().flat_map(Environment::referents).collect()
    }

    /// What the programs that are not as they were in `before` are given. Whoever writes a program
    /// decides where it takes what it reads, so every change of one counts, not only of a name.
    pub fn referents_since(&self, before: Option<&Self>) -> BTreeSet<Referent<'_>> {
        let known = before.map(|before| before.environment_list.as_slice()).unwrap_or_default();
        let changed = self.environment_list.iter().filter(|program| !known.contains(program));
        changed.flat_map(Environment::referents).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(program: &str) -> TemplateSpec {
        serde_json::from_value(json!({ "environmentList": [
            {
                "name": "web", "image": program,
                "env": [
                    { "name": "A", "valueFrom": { "secretKeyRef": { "name": "s", "key": "a" } } },
                    { "name": "B", "valueFrom": { "secretKeyRef": { "name": "s", "key": "b" } } },
                    { "name": "C", "valueFrom": { "configMapKeyRef": { "name": "s", "key": "c" } } },
                    { "name": "D", "value": "d" },
                ],
            },
            { "name": "plain", "image": "i" },
        ]}))
        .expect("a Template")
    }

    #[test]
    fn every_object_is_named_once() {
        let spec = template("i");
        let all: Vec<_> = spec.referents().into_iter().collect();
        assert_eq!(all, [Referent::Secret("s"), Referent::ConfigMap("s")]);
    }

    #[test]
    fn a_program_that_changes_counts_with_all_that_it_reads() {
        let (before, after) = (template("i"), template("another"));
        assert!(before.referents_since(Some(&before)).is_empty());
        assert_eq!(after.referents_since(Some(&before)).len(), 2);
        assert_eq!(after.referents_since(None).len(), 2);
    }
}
