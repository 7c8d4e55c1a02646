//! What a node's agent may do: its own Node, Lease and Pods, and what those Pods refer to.

pub(crate) mod graph;
mod reference;
pub(crate) mod restriction;
#[cfg(test)]
mod tests;

use sojourn_rbac::{Attributes, User};

use crate::auth::authorize::AuthorizationDecision;
use crate::auth::identity::{NODE_USER_PREFIX, NODES_GROUP};
use crate::auth::node::graph::{NodeGraph, ReachableKind};

const LEASE_NAMESPACE: &str = "kube-node-lease";

/// What every node may do alike, besides what is decided below: verbs, groups, resources.
const COMMON_RULES: &[(&[&str], &[&str], &[&str])] = &[
    (&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
    (
        &["create"],
        &["authorization.k8s.io"],
        &["subjectaccessreviews", "localsubjectaccessreviews"],
    ),
    (READ, &[""], &["services"]),
    (&["create", "update", "patch"], &["", "events.k8s.io"], &["events"]),
    (&["get"], &[""], &["endpoints"]),
    (
        &["create", "get", "list", "watch"],
        &["certificates.k8s.io"],
        &["certificatesigningrequests"],
    ),
    (READ, &["storage.k8s.io"], &["csidrivers"]),
    (READ, &["node.k8s.io"], &["runtimeclasses"]),
];

const READ: &[&str] = &["get", "list", "watch"];

/// The name of the node that a user is the agent of, if they are one; it may be empty, and then they
/// may do nothing.
pub(crate) fn node_name(user: &User) -> Option<&str> {
    user.name.strip_prefix(NODE_USER_PREFIX).filter(|_| user.is_in(NODES_GROUP))
}

/// Decides for nodes; `None` for anybody else.
pub(crate) fn authorize(
    graph: &NodeGraph,
    request: &Attributes<'_>,
) -> Option<AuthorizationDecision> {
    let node = node_name(request.user)?;
    if node.is_empty() {
        let user = crate::go::quote(&request.user.name);
        return Some(AuthorizationDecision::no_opinion(format!("unknown node for user {user}")));
    }
    let asked = NodeRequest { graph, node, request };
    let decided = match (request.api_group, request.resource) {
        _ if !request.is_resource_request => Err(String::new()),
        ("", "secrets") => asked.read_related(ReachableKind::Secret),
        ("", "configmaps") => asked.read_related(ReachableKind::ConfigMap),
        ("", "persistentvolumeclaims") if request.subresource == "status" => {
            asked.update_claim_status()
        }
        ("", "persistentvolumeclaims") => asked.get_related(ReachableKind::Claim),
        ("", "serviceaccounts") => asked.service_account(),
        ("", "nodes") => asked.own_node(),
        ("", "pods") => asked.own_pods(),
        ("coordination.k8s.io", "leases") => asked.own_lease(),
        _ => asked.common_rules(),
    };
    Some(match decided {
        Ok(()) => AuthorizationDecision::allow(""),
        Err(reason) => AuthorizationDecision::no_opinion(reason),
    })
}

/// One request of one node. Each method gives upstream's reason why not.
struct NodeRequest<'a> {
    graph: &'a NodeGraph,
    node: &'a str,
    request: &'a Attributes<'a>,
}

impl NodeRequest<'_> {
    fn common_rules(&self) -> Result<(), String> {
        let Attributes { verb, api_group, resource, subresource, .. } = *self.request;
        let allows = |(verbs, groups, resources): &(&[&str], &[&str], &[&str])| {
            verbs.contains(&verb) && groups.contains(&api_group) && resources.contains(&resource)
        };
        let allowed = subresource.is_empty() && COMMON_RULES.iter().any(allows);
        if allowed { Ok(()) } else { refuse("") }
    }

    /// Reads of one named object that a Pod of the node refers to.
    fn read_related(&self, kind: ReachableKind) -> Result<(), String> {
        let request = self.request;
        if !READ.contains(&request.verb) {
            return refuse("can only read resources of this type");
        }
        if !request.subresource.is_empty() {
            return refuse("cannot read subresource");
        }
        if request.namespace.is_empty() {
            return refuse("can only read namespaced object of this type");
        }
        self.related(kind)
    }

    fn get_related(&self, kind: ReachableKind) -> Result<(), String> {
        if self.request.verb != "get" {
            return refuse("can only get individual resources of this type");
        }
        if !self.request.subresource.is_empty() {
            return refuse("cannot get subresource");
        }
        self.related(kind)
    }

    fn related(&self, kind: ReachableKind) -> Result<(), String> {
        if self.request.name.is_empty() {
            return refuse("No Object name found");
        }
        if self.graph.reaches(self.node, kind, self.request.namespace, self.request.name) {
            return Ok(());
        }
        Err(format!("no relationship found between node '{}' and this object", self.node))
    }

    fn update_claim_status(&self) -> Result<(), String> {
        if !matches!(self.request.verb, "update" | "patch") {
            return refuse("can only get/update/patch this type");
        }
        self.related(ReachableKind::Claim)
    }

    fn service_account(&self) -> Result<(), String> {
        let Attributes { verb, subresource, name, .. } = *self.request;
        if verb == "get" && subresource.is_empty() {
            return self.read_related(ReachableKind::ServiceAccount);
        }
        if verb != "create" || name.is_empty() {
            return refuse("can only create tokens for individual service accounts");
        }
        if subresource != "token" {
            return refuse("can only create token subresource of serviceaccount");
        }
        self.related(ReachableKind::ServiceAccount)
    }

    fn own_lease(&self) -> Result<(), String> {
        let Attributes { verb, namespace, name, .. } = *self.request;
        if !matches!(verb, "get" | "create" | "update" | "patch" | "delete") {
            return refuse("can only get, create, update, patch, or delete a node lease");
        }
        if namespace != LEASE_NAMESPACE {
            return Err(other_lease_namespace());
        }
        // The name of what is created isn't known yet; admission looks at it.
        if verb != "create" && name != self.node {
            return refuse(OTHER_LEASE);
        }
        Ok(())
    }

    /// Admission sees to it that a node writes only its own object.
    fn own_node(&self) -> Result<(), String> {
        let Attributes { verb, subresource, name, .. } = *self.request;
        match (subresource, verb) {
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") if name == self.node => Ok(()),
            ("", "get" | "list" | "watch") if name.is_empty() => {
                Err(format!("node '{}' cannot read all nodes, only its own Node object", self.node))
            }
            ("", "get" | "list" | "watch") => {
                Err(format!("node '{}' cannot read '{name}', only its own Node object", self.node))
            }
            _ => refuse(""),
        }
    }

    /// Admission sees to it that a node writes only to Pods that are bound to it.
    fn own_pods(&self) -> Result<(), String> {
        let Attributes { verb, subresource, name, .. } = *self.request;
        match (subresource, verb) {
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Ok(())
            }
            ("", "get") => self.get_related(ReachableKind::Pod),
            ("", "list" | "watch") => {
                let selects_own = self.request.field_selector.iter().any(|requirement| {
                    requirement.equals
                        && requirement.field == "spec.nodeName"
                        && requirement.value == self.node
                });
                if selects_own {
                    return Ok(());
                }
                if !name.is_empty() {
                    return self.related(ReachableKind::Pod);
                }
                refuse("can only list/watch pods with spec.nodeName field selector")
            }
            _ => refuse(""),
        }
    }
}

const OTHER_LEASE: &str = "can only access node lease with the same name as the requesting node";

fn other_lease_namespace() -> String {
    format!("can only access leases in the \"{LEASE_NAMESPACE}\" system namespace")
}

fn refuse(reason: &str) -> Result<(), String> {
    Err(reason.to_owned())
}
