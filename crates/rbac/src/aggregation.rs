//! ClusterRoles whose rules are gathered from other ClusterRoles by their labels.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;

use crate::object::ClusterRole;
use crate::quote::Quoted;
use crate::rule::{PolicyRule, null_as_default};

/// A label selector of the API: every part must match, and an empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    #[serde(deserialize_with = "null_as_default")]
    pub match_labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_as_default")]
    pub match_expressions: Vec<LabelExpression>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LabelExpression {
    #[serde(deserialize_with = "null_as_default")]
    pub key: String,
    #[serde(deserialize_with = "null_as_default")]
    pub operator: String,
    #[serde(deserialize_with = "null_as_default")]
    pub values: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a valid label selector operator", Quoted(.0))]
pub struct UnknownOperator(String);

impl LabelSelector {
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> Result<bool, UnknownOperator> {
        for expression in &self.match_expressions {
            let label = labels.get(&expression.key);
            let listed = label.is_some_and(|value| expression.values.contains(value));
            let matches = match expression.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => label.is_some(),
                "DoesNotExist" => label.is_none(),
                other => return Err(UnknownOperator(other.to_owned())),
            };
            if !matches {
                return Ok(false);
            }
        }
        Ok(self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value)))
    }
}

/// The rules that `role` should have: those of every other role that one of its selectors matches,
/// selector by selector, by name, each rule once. `None` if the role doesn't aggregate.
pub fn aggregated_rules<'a>(
    role: &ClusterRole,
    all: impl IntoIterator<Item = &'a ClusterRole>,
) -> Result<Option<Vec<PolicyRule>>, UnknownOperator> {
    let Some(selectors) = &role.aggregation else {
        return Ok(None);
    };
    let mut others: Vec<&ClusterRole> =
        all.into_iter().filter(|other| other.name != role.name).collect();
    others.sort_unstable_by(|a, b| a.name.cmp(&b.name));

    let mut gathered: Vec<PolicyRule> = Vec::new();
    let mut known: HashSet<&PolicyRule> = HashSet::new();
    for selector in selectors {
        // A role that was gathered once has nothing to add.
        let mut left = Vec::with_capacity(others.len());
        for other in others {
            if selector.matches(&other.labels)? {
                let new = other.rules.iter().filter(|rule| known.insert(*rule));
                gathered.extend(new.cloned());
            } else {
                left.push(other);
            }
        }
        others = left;
    }
    Ok(Some(gathered))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(value: &serde_json::Value) -> ClusterRole {
        ClusterRole::from_value(value).unwrap()
    }

    fn rule(resource: &str) -> serde_json::Value {
        json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]})
    }

    #[test]
    fn gathers_by_selector_then_name() {
        let sum = role(&json!({
            "metadata": {"name": "sum", "labels": {"a": "1"}},
            "aggregationRule": {"clusterRoleSelectors": [
                {"matchLabels": {"b": "2"}},
                {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
            ]},
            "rules": [rule("own")],
        }));
        let all = [
            sum.clone(),
            role(
                &json!({"metadata": {"name": "z", "labels": {"a": "1"}}, "rules": [rule("pods"), rule("nodes")]}),
            ),
            role(
                &json!({"metadata": {"name": "y", "labels": {"a": "2"}}, "rules": [rule("secrets")]}),
            ),
            role(
                &json!({"metadata": {"name": "x", "labels": {"b": "2"}}, "rules": [rule("nodes")]}),
            ),
            role(&json!({"metadata": {"name": "w"}, "rules": [rule("jobs")]})),
        ];
        let rules = aggregated_rules(&sum, &all).unwrap().unwrap();
        let resources: Vec<&str> = rules.iter().map(|rule| rule.resources[0].as_str()).collect();
        assert_eq!(resources, ["nodes", "secrets", "pods"]);
        assert_eq!(aggregated_rules(&all[4], &all).unwrap(), None);
    }

    #[test]
    fn selects_by_expression() {
        let labels = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let cases = [
            ("a", "In", vec!["1", "2"], true),
            ("a", "In", vec!["2"], false),
            ("a", "NotIn", vec!["1"], false),
            ("b", "NotIn", vec!["1"], true),
            ("b", "In", vec!["1"], false),
            ("a", "Exists", vec![], true),
            ("b", "DoesNotExist", vec![], true),
        ];
        for (key, operator, values, expected) in cases {
            let selector: LabelSelector = serde_json::from_value(json!({
                "matchExpressions": [{"key": key, "operator": operator, "values": values}],
            }))
            .unwrap();
            assert_eq!(selector.matches(&labels), Ok(expected), "{key} {operator}");
        }
        assert_eq!(LabelSelector::default().matches(&labels), Ok(true));
        let odd: LabelSelector =
            serde_json::from_value(json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}))
                .unwrap();
        assert_eq!(
            odd.matches(&labels).unwrap_err().to_string(),
            r#""Near" is not a valid label selector operator"#
        );
    }
}
