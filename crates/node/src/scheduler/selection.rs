//! Which nodes a Pod chooses: labels, fields, taints.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, Taint, Toleration};

/// Whether any term of a selector chooses the node. A term without requirements chooses nothing.
pub(super) fn selects(
    selector: &NodeSelector,
    name: &str,
    labels: &BTreeMap<String, String>,
) -> bool {
    let field = |key: &str| (key == "metadata.name").then_some(name);
    let label = |key: &str| labels.get(key).map(String::as_str);
    selector.node_selector_terms.iter().any(|term| {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        !(expressions.is_empty() && fields.is_empty())
            && expressions.iter().all(|requirement| meets(requirement, label(&requirement.key)))
            && fields.iter().all(|requirement| meets(requirement, field(&requirement.key)))
    })
}

/// Whether a value, or its absence, is what is required. What is not understood is not met.
fn meets(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = |value: &str| values.iter().any(|allowed| allowed == value);
    let numbers = || {
        let bound = values.first().filter(|_| values.len() == 1)?;
        Some((value?.parse::<i64>().ok()?, bound.parse::<i64>().ok()?))
    };
    match requirement.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Whether the taint keeps Pods without a toleration from being put on the node.
pub(super) fn repels(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

pub(super) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        let key = toleration.key.as_deref().unwrap_or_default();
        let effect = toleration.effect.as_deref().unwrap_or_default();
        let value = toleration.value.as_deref().unwrap_or_default();
        if !effect.is_empty() && effect != taint.effect {
            return false;
        }
        match toleration.operator.as_deref() {
            Some("Exists") => key.is_empty() || key == taint.key,
            None | Some("" | "Equal") => {
                key == taint.key && value == taint.value.as_deref().unwrap_or_default()
            }
            Some(_) => false,
        }
    })
}
