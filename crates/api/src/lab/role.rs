//! Who may do what with the kinds of the family.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::core::ObjectMeta;

use crate::name::{LAB_GROUP, shared};

/// For the operator: what the controllers do, and nothing else.
pub const OPERATOR: &str = "sojourn-operator";
/// For an operator that serves people (`sojourn operator --web`).
pub const GATEWAY: &str = "sojourn-gateway";
/// For owners; whoever may `edit` a namespace has it there.
pub const USER: &str = "sojourn-lab-user";
/// For onlookers; whoever may `view` a namespace has it there.
pub const VIEWER: &str = "sojourn-lab-viewer";
/// For staff: may pause, observe and waive. It is given to nobody by itself.
pub const KEEPER: &str = "sojourn-lab-keeper";

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "update", "patch", "delete"];

pub(crate) fn roles() -> Vec<ClusterRole> {
    vec![
        role(OPERATOR, None, operator()),
        role(GATEWAY, None, gateway()),
        role(
            USER,
            Some("edit"),
            vec![
                rule(LAB_GROUP, &["instances"], &[READ, WRITE].concat()),
                rule(LAB_GROUP, &["instances/access"], &["get"]),
                rule(LAB_GROUP, &["templates"], READ),
            ],
        ),
        role(VIEWER, Some("view"), vec![rule(LAB_GROUP, &["instances", "templates"], READ)]),
        role(
            KEEPER,
            None,
            vec![
                rule(
                    LAB_GROUP,
                    &["instances"],
                    &[READ, &["update", "patch", shared::HOLD]].concat(),
                ),
                rule(LAB_GROUP, &["templates", "tenants"], READ),
            ],
        ),
    ]
}

fn operator() -> Vec<PolicyRule> {
    let kept = [READ, &["create", "patch", "delete"]].concat();
    vec![
        rule(
            LAB_GROUP,
            &["instances"],
            &[READ, &["update", "patch", "delete", shared::HOLD]].concat(),
        ),
        rule(LAB_GROUP, &["instances/status", "instances/finalizers"], &["update", "patch"]),
        rule(LAB_GROUP, &["templates", "tenants"], READ),
        rule("", &["namespaces"], READ),
        rule("", &["pods", "services", "persistentvolumeclaims"], &kept),
        rule("networking.k8s.io", &["ingresses"], &kept),
        rule("batch", &["jobs"], &kept),
        // The tokens with which Instances report their use.
        rule("", &["secrets"], &["create"]),
        rule("", &["events"], &["create", "patch"]),
        rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
        rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
        // To say where admission is served.
        rule(
            "admissionregistration.k8s.io",
            &["validatingwebhookconfigurations"],
            &["create", "get", "patch"],
        ),
    ]
}

/// To act as whoever signed in: for an operator that serves people. Whoever has it may act as
/// anybody, so it is bound to nobody by itself.
fn gateway() -> Vec<PolicyRule> {
    vec![rule("", &["users", "groups", "serviceaccounts"], &["impersonate"])]
}

/// A role, which those of Kubernetes' own roles with the name `into` take in.
fn role(name: &str, into: Option<&str>, rules: Vec<PolicyRule>) -> ClusterRole {
    let mut labels = BTreeMap::from([(shared::MANAGED_BY.to_owned(), shared::MANAGER.to_owned())]);
    let aggregate = "rbac.authorization.k8s.io/aggregate-to";
    labels.extend(into.map(|into| (format!("{aggregate}-{into}"), "true".to_owned())));
    ClusterRole {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        rules: Some(rules),
        aggregation_rule: None,
    }
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |list: &[&str]| list.iter().map(|&item| item.to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
