//! Who may do what with the kinds of the family.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use super::name::{COLLECTIONS, GROUP, SERVERS};
use crate::name::shared;
use crate::role::{READ, WRITE, definitions, role, rule};

/// For people who run games; whoever may `edit` a namespace has it there.
pub const USER: &str = "sojourn-game-user";
/// For onlookers; whoever may `view` a namespace has it there.
pub const VIEWER: &str = "sojourn-game-viewer";
/// For matchmakers: to be given servers. It is given to nobody by itself.
pub const MATCHMAKER: &str = "sojourn-game-matchmaker";
/// For staff: also holding collections and servers. It is given to nobody by itself.
pub const KEEPER: &str = "sojourn-game-keeper";

const KINDS: &[&str] = &[COLLECTIONS, SERVERS];
const SCALE: &str = "dedicatedgameservercollections/scale";
const ALLOCATION: &str = "dedicatedgameservers/allocate";

pub(crate) fn roles() -> Vec<ClusterRole> {
    let all = [READ, WRITE].concat();
    let held = [READ, WRITE, &[shared::HOLD]].concat();
    let scale = || rule(GROUP, &[SCALE], &["get", "update", "patch"]);
    vec![
        role(
            USER,
            Some("edit"),
            vec![rule(GROUP, KINDS, &all), scale(), rule(GROUP, &[ALLOCATION], &["create"])],
        ),
        role(VIEWER, Some("view"), vec![rule(GROUP, KINDS, READ)]),
        role(MATCHMAKER, None, vec![rule(GROUP, &[ALLOCATION], &["create"])]),
        role(KEEPER, None, vec![rule(GROUP, KINDS, &held), scale()]),
    ]
}

/// What the controllers of the family do beside what every controller does.
pub(crate) fn operator() -> Vec<PolicyRule> {
    vec![
        // Made and deleted for those who ask at the classic routes, and have the rights themselves. Without `hold` nobody
        // takes a finalizer of ours away.
        rule(GROUP, &[COLLECTIONS], &[READ, &["create", "patch", "delete", shared::HOLD]].concat()),
        rule(GROUP, &[SERVERS], &[READ, &["create", "patch", "delete"]].concat()),
        rule(
            GROUP,
            &[
                "dedicatedgameservercollections/status",
                "dedicatedgameservercollections/finalizers",
                "dedicatedgameservers/status",
                "dedicatedgameservers/finalizers",
            ],
            &["update", "patch"],
        ),
        rule(GROUP, &[SCALE], &["patch"]),
        definitions(GROUP, KINDS),
        // Who is sent where: the addresses of nodes.
        rule("", &["nodes"], READ),
        rule("", &["pods"], &[READ, &["create", "delete"]].concat()),
        // The end of what a server that failed has printed, before it goes.
        rule("", &["pods/log"], &["get"]),
        rule("", &["configmaps"], &["create"]),
    ]
}
