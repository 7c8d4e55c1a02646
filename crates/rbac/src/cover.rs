//! Whether the rules that somebody holds cover the rules that they want to grant.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::rule::{ALL, PolicyRule, Subrule, Target};

/// Rules are compared subrule by subrule, and a rule has as many subrules as the product of its lists:
/// a small body could ask for trillions. Past this many, rules count as not covered.
const MAX_SUBRULES: usize = 100_000;
/// Each subrule is compared with the rules that are held, which may be as many. Past this many comparisons
/// of single values, what is left counts as not covered.
const MAX_COMPARISONS: usize = 50_000_000;

/// The parts of `requested` that no rule of `owned` covers, broken down to single values; nothing if
/// all of it is covered.
///
/// Each part must be covered by one rule on its own: rules don't add up inside a part.
pub fn uncovered<R: Borrow<PolicyRule>>(owned: &[R], requested: &[PolicyRule]) -> Vec<PolicyRule> {
    let owned = OwnedRules::new(owned.iter().map(Borrow::borrow));
    let mut missing = Vec::new();
    let mut subrules = MAX_SUBRULES;
    let mut comparisons = MAX_COMPARISONS;
    for rule in requested {
        let Some(rest) = subrules.checked_sub(subrule_count(rule)) else {
            missing.push(rule.clone());
            continue;
        };
        subrules = rest;
        each_subrule(rule, |subrule| {
            if !owned.covers(&subrule, &mut comparisons) {
                missing.push(subrule.to_rule());
            }
        });
    }
    missing
}

/// What somebody holds, each rule once, by the verbs that it allows.
struct OwnedRules<'a> {
    by_verb: HashMap<&'a str, Vec<&'a PolicyRule>>,
}

impl<'a> OwnedRules<'a> {
    fn new(rules: impl Iterator<Item = &'a PolicyRule>) -> Self {
        let mut seen = HashSet::new();
        let mut by_verb: HashMap<&str, Vec<&PolicyRule>> = HashMap::new();
        for rule in rules.filter(|rule| seen.insert(*rule)) {
            let verbs: HashSet<&str> = rule.verbs.iter().map(String::as_str).collect();
            for verb in verbs {
                by_verb.entry(verb).or_default().push(rule);
            }
        }
        Self { by_verb }
    }

    fn covers(&self, subrule: &Subrule<'_>, comparisons: &mut usize) -> bool {
        let with = |verb: &str| self.by_verb.get(verb).into_iter().flatten();
        with(ALL).chain(with(subrule.verb)).any(|rule| {
            let Some(rest) = comparisons.checked_sub(value_count(rule)) else { return false };
            *comparisons = rest;
            rule.covers(subrule)
        })
    }
}

fn value_count(rule: &PolicyRule) -> usize {
    rule.verbs.len()
        + rule.api_groups.len()
        + rule.resources.len()
        + rule.resource_names.len()
        + rule.non_resource_urls.len()
}

fn subrule_count(rule: &PolicyRule) -> usize {
    let on_resources = rule
        .api_groups
        .len()
        .saturating_mul(rule.resources.len())
        .saturating_mul(rule.verbs.len())
        .saturating_mul(rule.resource_names.len().max(1));
    on_resources.saturating_add(rule.non_resource_urls.len().saturating_mul(rule.verbs.len()))
}

fn each_subrule<'a>(rule: &'a PolicyRule, mut visit: impl FnMut(Subrule<'a>)) {
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let mut visit_name = |name| {
                    visit(Subrule { verb, target: Target::Resource { group, resource, name } });
                };
                if rule.resource_names.is_empty() {
                    visit_name(None);
                }
                for name in &rule.resource_names {
                    visit_name(Some(name));
                }
            }
        }
    }
    for path in &rule.non_resource_urls {
        for verb in &rule.verbs {
            visit(Subrule { verb, target: Target::Path(path) });
        }
    }
}

impl Subrule<'_> {
    fn to_rule(self) -> PolicyRule {
        let one = |value: &str| vec![value.to_owned()];
        match self.target {
            Target::Resource { group, resource, name } => PolicyRule {
                verbs: one(self.verb),
                api_groups: one(group),
                resources: one(resource),
                resource_names: name.map(one).unwrap_or_default(),
                ..PolicyRule::default()
            },
            Target::Path(path) => PolicyRule {
                verbs: one(self.verb),
                non_resource_urls: one(path),
                ..PolicyRule::default()
            },
        }
    }
}

/// Joins rules that differ only in their verbs, so that messages stay short.
pub(crate) fn compact(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut simple: BTreeMap<_, PolicyRule> = BTreeMap::new();
    let mut compacted = Vec::new();
    for rule in rules {
        let (1, 1, true, 0 | 1) = (
            rule.api_groups.len(),
            rule.resources.len(),
            rule.non_resource_urls.is_empty(),
            rule.resource_names.len(),
        ) else {
            compacted.push(rule);
            continue;
        };
        let key = (rule.api_groups.clone(), rule.resources.clone(), rule.resource_names.clone());
        match simple.get_mut(&key) {
            Some(known) => known.verbs.extend(rule.verbs),
            None => {
                simple.insert(key, rule);
            }
        }
    }
    compacted.extend(simple.into_values());
    compacted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};
    use serde_json::json;

    use super::*;
    use crate::request::{Attributes, User};

    fn rules(value: serde_json::Value) -> Vec<PolicyRule> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn reports_what_is_missing() {
        let owned = rules(json!([
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "*/status"]},
            {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"], "resourceNames": ["a"]},
            {"verbs": ["get"], "nonResourceURLs": ["/api*"]},
        ]));
        let cases = [
            // Two rules may cover one requested rule together.
            (
                json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]),
                json!([]),
            ),
            (
                json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["nodes/status"]}]),
                json!([]),
            ),
            (
                json!([{"verbs": ["get"], "apiGroups": ["", "apps"], "resources": ["pods"], "resourceNames": ["a", "b"]}]),
                json!([{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["pods"], "resourceNames": ["b"]}]),
            ),
            // No names means all names, which a rule for some names doesn't cover.
            (
                json!([{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["x"]}]),
                json!([{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["x"]}]),
            ),
            (
                json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}]),
                json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}]),
            ),
            (json!([{"verbs": ["get"], "nonResourceURLs": ["/apis", "/api/*"]}]), json!([])),
            (
                json!([{"verbs": ["get", "post"], "nonResourceURLs": ["/api", "*"]}]),
                json!([
                    {"verbs": ["post"], "nonResourceURLs": ["/api"]},
                    {"verbs": ["get"], "nonResourceURLs": ["*"]},
                    {"verbs": ["post"], "nonResourceURLs": ["*"]},
                ]),
            ),
        ];
        for (requested, missing) in cases {
            assert_eq!(uncovered(&owned, &rules(requested.clone())), rules(missing), "{requested}");
        }
    }

    #[test]
    fn enormous_rules_are_refused_without_being_taken_apart() {
        let many: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
        let rule = PolicyRule {
            verbs: many.clone(),
            api_groups: many.clone(),
            resources: many.clone(),
            resource_names: many,
            ..PolicyRule::default()
        };
        let owner = rules(json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]));
        assert_eq!(uncovered(&owner, std::slice::from_ref(&rule)), [rule]);
    }

    #[test]
    fn compacts_by_verb() {
        let loose = rules(json!([
            {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get"], "nonResourceURLs": ["/x"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
        ]));
        assert_eq!(
            compact(loose),
            rules(json!([
                {"verbs": ["get"], "nonResourceURLs": ["/x"]},
                {"verbs": ["list", "get"], "apiGroups": [""], "resources": ["pods"]},
                {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
            ]))
        );
    }

    fn some_of(values: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
        subsequence(values, 0..=2)
            .prop_map(|chosen| chosen.into_iter().map(str::to_owned).collect())
    }

    fn any_rule() -> impl Strategy<Value = PolicyRule> {
        (
            some_of(&["get", "list", "*"]),
            some_of(&["", "apps", "*"]),
            some_of(&["pods", "pods/status", "*/status", "secrets", "*"]),
            some_of(&["a", "b"]),
            some_of(&["/x", "/x/*", "/x/y", "*", "/*"]),
            any::<bool>(),
        )
            .prop_map(|(verbs, api_groups, resources, resource_names, paths, on_paths)| {
                if on_paths {
                    PolicyRule { verbs, non_resource_urls: paths, ..PolicyRule::default() }
                } else {
                    PolicyRule {
                        verbs,
                        api_groups,
                        resources,
                        resource_names,
                        ..Default::default()
                    }
                }
            })
    }

    fn any_request() -> impl Strategy<Value = [&'static str; 6]> {
        (
            select(&["get", "list", "watch"][..]),
            select(&["", "apps", "batch"][..]),
            select(&["pods", "secrets", "nodes"][..]),
            select(&["", "status", "exec"][..]),
            select(&["", "a", "b", "c"][..]),
            select(&["", "/x", "/x/y", "/x/z", "/q"][..]),
        )
            .prop_map(|(verb, group, resource, subresource, name, path)| {
                [verb, group, resource, subresource, name, path]
            })
    }

    proptest! {
        #[test]
        fn what_is_covered_is_allowed(
            owned in prop::collection::vec(any_rule(), 0..4),
            requested in prop::collection::vec(any_rule(), 0..3),
            requests in prop::collection::vec(any_request(), 20),
        ) {
            let user = User::default();
            let missing = uncovered(&owned, &requested);
            for [verb, group, resource, subresource, name, path] in requests {
                let request = if path.is_empty() {
                    Attributes { subresource, name, ..Attributes::on_resource(&user, verb, group, resource) }
                } else {
                    Attributes::on_path(&user, verb, path)
                };
                let allows = |rules: &[PolicyRule]| rules.iter().any(|rule| rule.allows(&request));
                // Whatever is granted is either held already or named as missing.
                prop_assert!(
                    !allows(&requested) || allows(&owned) || allows(&missing),
                    "{request:?}"
                );
            }
            // And what is missing, once held, makes the grant good.
            let mut enough = owned;
            enough.extend(missing);
            prop_assert!(uncovered(&enough, &requested).is_empty());
        }
    }
}
