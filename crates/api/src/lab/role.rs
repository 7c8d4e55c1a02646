//! Who may do what with the kinds of the family.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use crate::name::{LAB_GROUP, lab, shared};
use crate::role::{READ, WRITE, definitions, role, rule};

/// For owners; whoever may `edit` a namespace has it there.
pub const USER: &str = "sojourn-lab-user";
/// For onlookers; whoever may `view` a namespace has it there.
pub const VIEWER: &str = "sojourn-lab-viewer";
/// For staff: may pause, observe, waive and reopen, and lend to everybody. It is given to nobody by itself.
pub const KEEPER: &str = "sojourn-lab-keeper";

const REGISTRATION: &str = "admissionregistration.k8s.io";
const WEBHOOKS: &str = "validatingwebhookconfigurations";

pub(crate) fn roles() -> Vec<ClusterRole> {
    vec![
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
                    &[READ, &["update", "patch", shared::HOLD, lab::TO_REOPEN]].concat(),
                ),
                rule(LAB_GROUP, &["templates"], READ),
                // Tenants are in no namespace: this takes a ClusterRoleBinding.
                rule(LAB_GROUP, &["tenants"], &[READ, &[lab::LEND]].concat()),
            ],
        ),
    ]
}

/// What the controllers of the family do, and what every controller needs.
pub(crate) fn operator() -> Vec<PolicyRule> {
    let made = [READ, &["create"]].concat();
    let replaced = [READ, &["create", "delete"]].concat();
    vec![
        rule(LAB_GROUP, &["instances"], &[READ, &["patch", "delete", shared::HOLD]].concat()),
        // Finalizers: who makes parts that keep their owner from going must be allowed to.
        rule(LAB_GROUP, &["instances/status", "instances/finalizers"], &["update", "patch"]),
        rule(LAB_GROUP, &["templates", "tenants"], READ),
        rule("", &["namespaces"], READ),
        rule("", &["pods"], &[READ, &["create", "patch", "delete"]].concat()),
        rule("", &["services"], &replaced),
        // A claim goes with its Instance, and never because a controller says so; its finalizer is set
        // and taken away.
        rule("", &["persistentvolumeclaims"], &[&made[..], &["patch"]].concat()),
        rule("networking.k8s.io", &["ingresses"], &replaced),
        rule("batch", &["jobs"], &[READ, &["create", "patch"]].concat()),
        // The tokens with which Instances report their use.
        rule("", &["secrets"], &["create"]),
        rule("", &["events"], &["create", "patch"]),
        rule("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
        rule("authentication.k8s.io", &["tokenreviews"], &["create"]),
        // To say where admission is served. What is not there yet has no name to go by, so RBAC
        // cannot say which one may be created; no other can be changed or read.
        rule(REGISTRATION, &[WEBHOOKS], &["create"]),
        PolicyRule {
            resource_names: Some(vec![shared::ADMISSION.to_owned()]),
            ..rule(REGISTRATION, &[WEBHOOKS], &[READ, &["patch"]].concat())
        },
        definitions(LAB_GROUP, &["instances"]),
    ]
}
