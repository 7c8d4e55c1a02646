//! Who may do what with the kinds of the family.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use super::{ESCALATIONS, GROUP, SESSIONS};
use crate::role::{READ, WRITE, definitions, role, rule};

/// For onlookers; whoever may `view` a namespace has it there. Asking and approving need no role: escalations
/// say who may.
pub const USER: &str = "sojourn-access-user";
/// For those who say which groups are given to whom, so for those who have them all. It is given to nobody by
/// itself.
pub const ADMIN: &str = "sojourn-access-admin";

const RBAC: &str = "rbac.authorization.k8s.io";

pub(crate) fn roles() -> Vec<ClusterRole> {
    vec![
        role(USER, Some("view"), vec![rule(GROUP, &[SESSIONS], READ)]),
        role(
            ADMIN,
            None,
            vec![
                rule(GROUP, &[ESCALATIONS], &[READ, WRITE].concat()),
                rule(GROUP, &[SESSIONS], READ),
            ],
        ),
    ]
}

/// What the controllers and the authorizer do beside what every controller does.
pub(crate) fn operator() -> Vec<PolicyRule> {
    vec![
        rule(GROUP, &[SESSIONS], &[READ, &["create", "delete"]].concat()),
        rule(GROUP, &["breakglasssessions/status"], &["update", "patch"]),
        rule(GROUP, &[ESCALATIONS], READ),
        // What the groups that are given may do is decided here, without a question to the API.
        rule(RBAC, &["roles", "rolebindings", "clusterroles", "clusterrolebindings"], READ),
        // Canaries.
        rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
        definitions(GROUP, &[ESCALATIONS, SESSIONS]),
    ]
}
