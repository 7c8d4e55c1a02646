//! Who may do what with the kinds of the family.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use super::name::{DEPLOYMENTS, GROUP, SYNCS};
use crate::name::shared;
use crate::role::{READ, WRITE, definitions, role, rule};

/// For owners of clusters; whoever may `edit` a namespace has it there.
pub const USER: &str = "sojourn-cluster-user";
/// For onlookers; whoever may `view` a namespace has it there.
pub const VIEWER: &str = "sojourn-cluster-viewer";
/// For whoever syncs into clusters, and says so in ClusterSyncs. It is given to nobody by itself.
pub const SYNCER: &str = "sojourn-cluster-syncer";
/// For staff: also holding clusters. It is given to nobody by itself.
pub const KEEPER: &str = "sojourn-cluster-keeper";
/// For the user of a kubeconfig that a cluster names, in the cluster that it leads to. It is given to nobody by
/// itself.
pub const TARGET: &str = "sojourn-cluster-target";

const KINDS: &[&str] = &[DEPLOYMENTS, SYNCS];
/// Who signs certificates of kubelets.
const SIGNERS: [&str; 2] =
    ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"];

pub(crate) fn roles() -> Vec<ClusterRole> {
    let all = [READ, WRITE].concat();
    let held = [READ, WRITE, &[shared::HOLD]].concat();
    vec![
        role(
            USER,
            Some("edit"),
            vec![rule(GROUP, &[DEPLOYMENTS], &all), rule(GROUP, &[SYNCS], READ)],
        ),
        role(VIEWER, Some("view"), vec![rule(GROUP, KINDS, READ)]),
        role(
            SYNCER,
            None,
            vec![
                rule(GROUP, &[DEPLOYMENTS], READ),
                rule(GROUP, &[SYNCS], &all),
                rule(GROUP, &["clustersyncs/status"], &["get", "update", "patch"]),
            ],
        ),
        role(KEEPER, None, vec![rule(GROUP, &[DEPLOYMENTS], &held), rule(GROUP, &[SYNCS], &all)]),
        role(TARGET, None, target()),
    ]
}

/// What is read of a cluster, and done in it, until it counts as running.
fn target() -> Vec<PolicyRule> {
    let certificates = "certificates.k8s.io";
    vec![
        PolicyRule {
            non_resource_urls: Some(vec!["/readyz".to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        },
        rule("", &["nodes"], READ),
        // The heartbeats of nodes.
        rule("coordination.k8s.io", &["leases"], READ),
        rule("apps", &["daemonsets", "deployments", "statefulsets"], READ),
        rule("config.openshift.io", &["clusteroperators"], READ),
        // A spot machine that was ended is marked, so that nobody drains it, and deleted.
        rule("machine.openshift.io", &["machines"], &[READ, &["patch", "delete"]].concat()),
        rule(certificates, &["certificatesigningrequests"], READ),
        rule(certificates, &["certificatesigningrequests/approval"], &["update", "patch"]),
        PolicyRule {
            resource_names: Some(SIGNERS.map(str::to_owned).to_vec()),
            ..rule(certificates, &["signers"], &["approve"])
        },
    ]
}

/// What the controllers of the family do beside what every controller does.
pub(crate) fn operator() -> Vec<PolicyRule> {
    vec![
        // A power state that time has come for, and the finalizer. Without `hold` nobody takes a finalizer of ours
        // away.
        rule(GROUP, &[DEPLOYMENTS], &[READ, &["patch", shared::HOLD]].concat()),
        rule(
            GROUP,
            &["clusterdeployments/status", "clusterdeployments/finalizers"],
            &["update", "patch"],
        ),
        rule(GROUP, &[SYNCS], READ),
        definitions(GROUP, KINDS),
        // Machines of the platform `pod`: stopped, they are deleted; started, they are made again.
        rule("", &["pods"], &[READ, &["create", "delete"]].concat()),
        // Kubeconfigs and credentials that clusters name, which whoever names one must be allowed to read; and what
        // Pods are made again from, one Secret for each. Whoever creates Pods everywhere gains nothing by it.
        rule("", &["secrets"], &["get", "list", "create", "update", "delete"]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_cluster_nothing_is_made_no_secret_is_read_and_only_kubelets_get_certificates() {
        for rule in target() {
            assert!(!rule.verbs.iter().any(|verb| verb == "create" || verb == "*"), "{rule:?}");
            let resources: Vec<_> = rule.resources.iter().flatten().map(String::as_str).collect();
            assert!(!resources.contains(&"secrets") && !resources.contains(&"*"), "{rule:?}");
            let names = rule.resource_names.as_ref().map(Vec::len);
            assert_eq!(resources == ["signers"], names == Some(SIGNERS.len()), "{rule:?}");
        }
    }

    #[test]
    fn only_whoever_syncs_says_that_it_is_done() {
        let says_so = |role: &ClusterRole| {
            let mut rules = role.rules.iter().flatten();
            rules
                .any(|rule| rule.resources.iter().flatten().any(|one| one == "clustersyncs/status"))
        };
        let roles: Vec<_> = roles().into_iter().filter(says_so).collect();
        let names: Vec<_> = roles.iter().map(|role| role.metadata.name.as_deref()).collect();
        assert_eq!(names, [Some(SYNCER)]);
    }
}
