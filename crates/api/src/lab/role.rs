//! Who may do what with the kinds of the family.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use crate::name::{LAB_GROUP, shared};
use crate::role::{READ, WRITE, role, rule};

/// For an operator that serves people (`sojourn operator --web`).
pub const GATEWAY: &str = "sojourn-gateway";
/// For owners; whoever may `edit` a namespace has it there.
pub const USER: &str = "sojourn-lab-user";
/// For onlookers; whoever may `view` a namespace has it there.
pub const VIEWER: &str = "sojourn-lab-viewer";
/// For staff: may pause, observe and waive. It is given to nobody by itself.
pub const KEEPER: &str = "sojourn-lab-keeper";

pub(crate) fn roles() -> Vec<ClusterRole> {
    vec![
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

/// What the controllers of the family do, and what every controller needs.
pub(crate) fn operator() -> Vec<PolicyRule> {
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
