//! What a node's agent may write: upstream's NodeRestriction admission plugin.

use serde_json::Value;
use sojourn_rbac::{Attributes, User};

use crate::auth::authorize::Authorizer;
use crate::auth::node::{
    LEASE_NAMESPACE, OTHER_LEASE, node_name, other_lease_namespace, reference,
};
use crate::auth::{LiveKind, LiveObjects, ObjectState};
use crate::go;
use crate::json::{Access, Object};
use crate::status::{ApiError, GroupResource};

/// A write, as admission sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeWrite<'a> {
    pub(crate) user: &'a User,
    pub(crate) operation: NodeWriteOperation,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) namespace: &'a str,
    /// As the path names it, or on create the body; may be `""`.
    pub(crate) name: &'a str,
    /// What is to be stored; not on delete.
    pub(crate) object: Option<&'a Object>,
    /// What is stored; not on create.
    pub(crate) old: Option<&'a Object>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeWriteOperation {
    Create,
    Update,
    Delete,
}

impl NodeWriteOperation {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// Why a write is refused.
enum NodeRefusal {
    Forbidden(String),
    NotFound(LiveKind, String),
}

impl From<String> for NodeRefusal {
    fn from(why: String) -> Self {
        Self::Forbidden(why)
    }
}

impl From<&str> for NodeRefusal {
    fn from(why: &str) -> Self {
        Self::Forbidden(why.to_owned())
    }
}

/// Whether the write may go on; whoever is no node is not restricted.
pub(crate) fn admit(
    write: &NodeWrite<'_>,
    objects: &dyn LiveObjects,
    authorizer: &dyn Authorizer,
) -> Result<(), ApiError> {
    let Some(node) = node_name(write.user) else {
        return Ok(());
    };
    let writer = NodeRestriction { node, write, objects, authorizer };
    writer.admit().map_err(|refusal| match refusal {
        NodeRefusal::Forbidden(why) => {
            let resource = GroupResource { group: write.group, resource: write.resource };
            ApiError::forbidden(resource, writer.object_name().unwrap_or("Unknown!"), &why)
        }
        NodeRefusal::NotFound(kind, name) => {
            ApiError::not_found(GroupResource { group: "", resource: kind.resource() }, &name)
        }
    })
}

struct NodeRestriction<'a> {
    node: &'a str,
    write: &'a NodeWrite<'a>,
    objects: &'a dyn LiveObjects,
    authorizer: &'a dyn Authorizer,
}

impl NodeRestriction<'_> {
    fn admit(&self) -> Result<(), NodeRefusal> {
        if self.node.is_empty() {
            let user = go::quote(&self.write.user.name);
            return Err(format!("could not determine node from user {user}").into());
        }
        let NodeWrite { group, resource, subresource, operation, .. } = *self.write;
        match (group, resource, subresource) {
            ("", "pods", "") => self.pod(),
            ("", "pods", "status") => self.pod_status(),
            ("", "pods", "eviction") => self.eviction(),
            ("", "pods", other) => Err(format!(
                "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                go::quote(other)
            )
            .into()),
            ("", "nodes", _) => self.own_node(),
            ("", "persistentvolumeclaims", "status") => self.claim_status(),
            ("", "persistentvolumeclaims", _) => Err("may only update PVC status".into()),
            ("", "serviceaccounts", "token") if operation == NodeWriteOperation::Create => {
                self.token()
            }
            ("coordination.k8s.io", "leases", _) => self.own_lease(),
            _ => Ok(()),
        }
    }

    /// What the write is about: the path's name, else the body's.
    fn object_name(&self) -> Option<&str> {
        let metadata = self.write.object.map(|object| object.at("metadata"));
        let in_body = |member| metadata.map(|metadata| metadata.text(member)).unwrap_or_default();
        [self.write.name, in_body("name"), in_body("generateName")]
            .into_iter()
            .find(|name| !name.is_empty())
    }

    fn new_object(&self) -> Result<&Object, NodeRefusal> {
        self.write.object.ok_or_else(|| "unexpected type <nil>".into())
    }

    fn old_object(&self) -> Result<&Object, NodeRefusal> {
        self.write.old.ok_or_else(|| "unexpected type <nil>".into())
    }

    fn unexpected_operation(&self) -> NodeRefusal {
        format!("unexpected operation {}", go::quote(self.write.operation.as_str())).into()
    }

    fn stored_pod(&self, name: &str) -> Result<Object, NodeRefusal> {
        self.objects
            .pod(self.write.namespace, name)
            .ok_or_else(|| NodeRefusal::NotFound(LiveKind::Pod, name.to_owned()))
    }

    fn is_bound_here(&self, pod: &Object) -> bool {
        pod.at("spec").text("nodeName") == self.node
    }

    fn pod(&self) -> Result<(), NodeRefusal> {
        let node = go::quote(self.node);
        match self.write.operation {
            NodeWriteOperation::Create => self.mirror_pod(self.new_object()?),
            NodeWriteOperation::Delete => {
                let found = match self.write.old {
                    Some(pod) => self.is_bound_here(pod),
                    None => self.is_bound_here(&self.stored_pod(self.write.name)?),
                };
                if found {
                    return Ok(());
                }
                Err(format!("node {node} can only delete pods with spec.nodeName set to itself")
                    .into())
            }
            NodeWriteOperation::Update => Err(format!(
                "unexpected operation \"UPDATE\", node {node} can only create and delete mirror pods"
            )
            .into()),
        }
    }

    fn mirror_pod(&self, pod: &Object) -> Result<(), NodeRefusal> {
        let node = go::quote(self.node);
        if !reference::is_mirror(pod) {
            return Err(format!(
                "pod does not have \"{}\" annotation, node {node} can only create mirror pods",
                reference::MIRROR_ANNOTATION
            )
            .into());
        }
        if !self.is_bound_here(pod) {
            return Err(format!(
                "node {node} can only create pods with spec.nodeName set to itself"
            )
            .into());
        }
        let owner = match pod.at("metadata").list("ownerReferences") {
            [owner] => owner,
            [] => return Err(self.not_own("an owner reference")),
            _ => return Err(self.not_own("a single owner reference")),
        };
        let of = [owner.text("apiVersion"), owner.text("kind"), owner.text("name")];
        if of != ["v1", "Node", self.node] {
            return Err(self.not_own("an owner reference"));
        }
        if !owner.flag("controller") {
            return Err(self.not_own("a controller owner reference"));
        }
        if owner.flag("blockOwnerDeletion") {
            return Err(format!(
                "node {node} must not set blockOwnerDeletion on an owner reference"
            )
            .into());
        }
        let stored = self
            .objects
            .state(LiveKind::Node, "", self.node)
            .ok_or_else(|| NodeRefusal::NotFound(LiveKind::Node, self.node.to_owned()))?;
        let uid = owner.text("uid");
        if uid != stored.uid {
            let (name, stored) = (self.node, stored.uid);
            return Err(format!("node {name} UID mismatch: expected {uid} got {stored}").into());
        }
        match reference::forbidden_in_mirror(pod.at("spec")) {
            Ok(None) => Ok(()),
            Ok(Some(what)) => {
                Err(format!("node {node} can not create pods that reference {what}").into())
            }
            Err(why) => Err(format!("error checking mirror pod for API references: {why}").into()),
        }
    }

    fn not_own(&self, what: &str) -> NodeRefusal {
        let node = go::quote(self.node);
        format!("node {node} can only create pods with {what} set to itself").into()
    }

    fn pod_status(&self) -> Result<(), NodeRefusal> {
        if self.write.operation != NodeWriteOperation::Update {
            return Err(self.unexpected_operation());
        }
        let (old, new) = (self.old_object()?, self.new_object()?);
        let node = go::quote(self.node);
        if !self.is_bound_here(old) {
            return Err(format!(
                "node {node} can only update pod status for pods with spec.nodeName set to itself"
            )
            .into());
        }
        if !old.at("metadata").entries("labels").eq(new.at("metadata").entries("labels")) {
            return Err(format!("node {node} cannot update labels through pod status").into());
        }
        let (old, new) = (old.at("status"), new.at("status"));
        if old.list("resourceClaimStatuses") != new.list("resourceClaimStatuses") {
            return Err(format!("node {node} cannot update resource claim statues").into());
        }
        if old.at("extendedResourceClaimStatus") != new.at("extendedResourceClaimStatus") {
            return Err(format!("node {node} cannot update extended resource claim status").into());
        }
        Ok(())
    }

    fn eviction(&self) -> Result<(), NodeRefusal> {
        if self.write.operation != NodeWriteOperation::Create {
            let operation = self.write.operation.as_str();
            return Err(format!("unexpected operation {operation}").into());
        }
        let name = self
            .object_name()
            .ok_or_else(|| NodeRefusal::from("could not determine pod from request data"))?;
        if self.is_bound_here(&self.stored_pod(name)?) {
            return Ok(());
        }
        Err(format!("node {} can only evict pods with spec.nodeName set to itself", self.node)
            .into())
    }

    fn own_node(&self) -> Result<(), NodeRefusal> {
        let node = go::quote(self.node);
        let name = self.object_name().unwrap_or_default();
        if name != self.node {
            return Err(
                format!("node {node} is not allowed to modify node {}", go::quote(name)).into()
            );
        }
        match self.write.operation {
            NodeWriteOperation::Delete => Ok(()),
            NodeWriteOperation::Create => {
                let new = self.new_object()?;
                if !new.at("spec").at("configSource").is_null() {
                    return Err(format!(
                        "node {node} is not allowed to create pods with a non-nil configSource"
                    )
                    .into());
                }
                let forbidden = forbidden_labels(new.at("metadata"), &Value::Null);
                if forbidden.is_empty() {
                    return Ok(());
                }
                let labels = forbidden.join(", ");
                Err(format!("node {node} is not allowed to set the following labels: {labels}")
                    .into())
            }
            NodeWriteOperation::Update => {
                self.own_node_update(self.old_object()?, self.new_object()?)
            }
        }
    }

    fn own_node_update(&self, old: &Object, new: &Object) -> Result<(), NodeRefusal> {
        let node = go::quote(self.node);
        let (old_spec, spec) = (old.at("spec"), new.at("spec"));
        let source = spec.at("configSource");
        if !source.is_null() && source != old_spec.at("configSource") {
            return Err(format!(
                "node {node} is not allowed to update configSource to a new non-nil configSource"
            )
            .into());
        }
        if spec.list("taints") != old_spec.list("taints") {
            return Err(format!("node {node} is not allowed to modify taints").into());
        }
        let (old, new) = (old.at("metadata"), new.at("metadata"));
        if new.list("ownerReferences") != old.list("ownerReferences") {
            return Err(format!("node {node} is not allowed to modify ownerReferences").into());
        }
        let forbidden = forbidden_labels(new, old);
        if forbidden.is_empty() {
            return Ok(());
        }
        Err(format!("is not allowed to modify labels: {}", forbidden.join(", ")).into())
    }

    /// A node may report what a claim's volume holds and the conditions of it, nothing else.
    fn claim_status(&self) -> Result<(), NodeRefusal> {
        if self.write.operation != NodeWriteOperation::Update {
            return Err(self.unexpected_operation());
        }
        let rest = |claim: &Object| {
            let mut rest = claim.clone();
            let reported =
                ["capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"];
            for (part, members) in
                [("status", &reported[..]), ("metadata", &["resourceVersion", "managedFields"])]
            {
                if let Some(part) = rest.get_mut(part).and_then(Value::as_object_mut) {
                    part.retain(|member, _| !members.contains(&member.as_str()));
                }
            }
            rest
        };
        if rest(self.old_object()?) == rest(self.new_object()?) {
            return Ok(());
        }
        let node = go::quote(self.node);
        Err(format!(
            "node {node} is not allowed to update fields other than status.quantity and \
             status.conditions"
        )
        .into())
    }

    /// A node gets tokens only for Pods that are bound to it, and only for their audiences.
    fn token(&self) -> Result<(), NodeRefusal> {
        let spec = self.new_object()?.at("spec");
        let bound = spec.at("boundObjectRef");
        let (name, uid) = (bound.text("name"), bound.text("uid"));
        if [bound.text("apiVersion"), bound.text("kind")] != ["v1", "Pod"] || name.is_empty() {
            return Err("node requested token not bound to a pod".into());
        }
        if uid.is_empty() {
            return Err("node requested token with a pod binding without a uid".into());
        }
        let pod = self.stored_pod(name)?;
        if ObjectState::of(&pod).uid != uid {
            return Err(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            )
            .into());
        }
        if !self.is_bound_here(&pod) {
            return Err("node requested token bound to a pod scheduled on a different node".into());
        }
        let audience = match spec.list("audiences") {
            [] => "",
            [one] => one.as_str().unwrap_or_default(),
            _ => return Err("node may only request 0 or 1 audiences".into()),
        };
        if reference::has_token_for(pod.at("spec"), audience) || self.may_request(audience) {
            return Ok(());
        }
        Err(format!(
            "audience {} not found in pod spec volume, {} is not authorized to request tokens for \
             this audience",
            go::quote(audience),
            self.write.user.name
        )
        .into())
    }

    /// Tokens for further audiences are a matter of policy: the audience is the resource.
    fn may_request(&self, audience: &str) -> bool {
        let verb = "request-serviceaccounts-token-audience";
        let request = Attributes {
            namespace: self.write.namespace,
            name: self.write.name,
            api_version: "v1",
            ..Attributes::on_resource(self.write.user, verb, "", audience)
        };
        self.authorizer.authorize(&request).allowed
    }

    fn own_lease(&self) -> Result<(), NodeRefusal> {
        if self.write.namespace != LEASE_NAMESPACE {
            return Err(other_lease_namespace().into());
        }
        if self.object_name() != Some(self.node) {
            return Err(OTHER_LEASE.into());
        }
        Ok(())
    }
}

/// The labels that differ and that a node must not set, sorted: those that steer workloads.
fn forbidden_labels(new: &Value, old: &Value) -> Vec<String> {
    let changed = |(key, value): &(&String, &Value), other: &Value| {
        other.at("labels").get(key.as_str()) != Some(*value)
    };
    let added = new.entries("labels").filter(|entry| changed(entry, old));
    let removed = old.entries("labels").filter(|entry| changed(entry, new));
    let mut forbidden: Vec<String> = added
        .chain(removed)
        .map(|(key, _)| key.clone())
        .filter(|key| is_forbidden_label(key))
        .collect();
    forbidden.sort_unstable();
    forbidden.dedup();
    forbidden
}

fn is_forbidden_label(key: &str) -> bool {
    const ALLOWED: [&str; 11] = [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    ];
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };
    let is_under = |parent: &str| {
        domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if is_under("node-restriction.kubernetes.io") {
        return true;
    }
    let allowed = ALLOWED.contains(&key)
        || is_under("kubelet.kubernetes.io")
        || is_under("node.kubernetes.io");
    (is_under("kubernetes.io") || is_under("k8s.io")) && !allowed
}
