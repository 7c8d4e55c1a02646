//! Who may do what with the kinds of the family.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use crate::name::{GROUP_GROUP, shared};
use crate::role::{READ, WRITE, definitions, role, rule};

/// For people: machines on demand, and answers to drains; whoever may `edit` a namespace has it.
pub const USER: &str = "sojourn-group-user";
/// For onlookers; whoever may `view` a namespace has it there.
pub const VIEWER: &str = "sojourn-group-viewer";
/// For programs that drain: they watch Machines and answer. It is given to nobody by itself.
pub const DRAINER: &str = "sojourn-group-drainer";
/// For `sojourn drain-agent`, in the cluster whose Nodes it empties. It is given to nobody by itself.
pub const DRAIN_AGENT: &str = "sojourn-drain-agent";
/// For staff: groups themselves, and holding them. It is given to nobody by itself.
pub const KEEPER: &str = "sojourn-group-keeper";

const KINDS: &[&str] = &["instancegroups", "machines"];

pub(crate) fn roles() -> Vec<ClusterRole> {
    let machines = [READ, WRITE].concat();
    let groups = [READ, WRITE, &[shared::HOLD]].concat();
    vec![
        role(
            USER,
            Some("edit"),
            vec![
                rule(GROUP_GROUP, &["machines"], &machines),
                rule(GROUP_GROUP, &["instancegroups"], READ),
            ],
        ),
        role(VIEWER, Some("view"), vec![rule(GROUP_GROUP, KINDS, READ)]),
        role(DRAINER, None, vec![rule(GROUP_GROUP, &["machines"], &[READ, &["patch"]].concat())]),
        role(DRAIN_AGENT, None, drain_agent()),
        role(
            KEEPER,
            None,
            vec![
                rule(GROUP_GROUP, KINDS, &groups),
                rule(GROUP_GROUP, &["instancegroups/scale"], &["get", "update", "patch"]),
            ],
        ),
    ]
}

/// What it takes to empty a Node.
fn drain_agent() -> Vec<PolicyRule> {
    vec![
        rule("", &["nodes"], &[READ, &["patch"]].concat()),
        rule("", &["pods"], &[READ, &["delete"]].concat()),
        rule("", &["pods/eviction"], &["create"]),
        rule("", &["persistentvolumeclaims"], &["get"]),
        rule("storage.k8s.io", &["volumeattachments"], READ),
        rule("", &["events"], &["create"]),
    ]
}

/// What the controllers of the family do beside what every controller does.
pub(crate) fn operator() -> Vec<PolicyRule> {
    vec![
        rule(GROUP_GROUP, &["instancegroups"], &[READ, &["patch", shared::HOLD]].concat()),
        rule(
            GROUP_GROUP,
            &["machines"],
            &[READ, &["create", "patch", "delete", shared::HOLD]].concat(),
        ),
        rule(
            GROUP_GROUP,
            &[
                "instancegroups/status",
                "instancegroups/finalizers",
                "machines/status",
                "machines/finalizers",
            ],
            &["update", "patch"],
        ),
        definitions(GROUP_GROUP, &["instancegroups", "machines"]),
        // The heartbeats of machines that are no Pods.
        rule("coordination.k8s.io", &["leases"], READ),
    ]
}
