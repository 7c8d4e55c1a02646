//! Whether a request may go on: superusers, then nodes, then RBAC, then the extension; and how a refusal
//! reads.

use serde_json::Value;
use sojourn_rbac::{Attributes, Policy, User};

use crate::auth::extension::{ExtensionSlot, Question};
use crate::auth::node;
use crate::auth::node::graph::NodeGraph;
use crate::go;
use crate::status::{ApiError, GroupResource};

/// The answer of an authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuthorizationDecision {
    pub(crate) allowed: bool,
    /// Why, in upstream's words; may be empty.
    pub(crate) reason: String,
}

impl AuthorizationDecision {
    pub(crate) fn allow(reason: impl Into<String>) -> Self {
        Self { allowed: true, reason: reason.into() }
    }

    pub(crate) fn no_opinion(reason: impl Into<String>) -> Self {
        Self { allowed: false, reason: reason.into() }
    }

    /// The answer of an authorizer that was asked because this one had no opinion.
    pub(crate) fn followed_by(self, next: Self) -> Self {
        if next.allowed {
            return next;
        }
        let reasons = [self.reason, next.reason];
        let given: Vec<String> = reasons.into_iter().filter(|reason| !reason.is_empty()).collect();
        Self::no_opinion(given.join("\n"))
    }
}

/// Anything that can answer for a request.
pub(crate) trait Authorizer {
    fn authorize(&self, request: &Attributes<'_>) -> AuthorizationDecision;
}

impl<F: Fn(&Attributes<'_>) -> AuthorizationDecision> Authorizer for F {
    fn authorize(&self, request: &Attributes<'_>) -> AuthorizationDecision {
        self(request)
    }
}

/// The engine's own authorizers, in upstream's order (`--authorization-mode=Node,RBAC`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Authorizers<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) graph: &'a NodeGraph,
}

impl Authorizers<'_> {
    /// Only the decision: no reason is made, so it costs no allocation for most requests.
    pub(crate) fn allows(&self, request: &Attributes<'_>) -> bool {
        request.user.is_superuser()
            || node::authorize(self.graph, request).is_some_and(|verdict| verdict.allowed)
            || self.policy.authorize(request).is_allowed()
    }

    /// The `status` of a SelfSubjectRulesReview.
    pub(crate) fn rules_review(&self, user: &User, namespace: &str) -> Value {
        let elsewhere =
            node::node_name(user).map(|_| "node authorizer does not support user rule resolution");
        self.policy.rules_for(user, namespace).to_review_status(elsewhere)
    }
}

impl Authorizer for Authorizers<'_> {
    fn authorize(&self, request: &Attributes<'_>) -> AuthorizationDecision {
        if request.user.is_superuser() {
            return AuthorizationDecision::allow("");
        }
        let by_node = node::authorize(self.graph, request).unwrap_or_default();
        if by_node.allowed {
            return by_node;
        }
        let by_policy = self.policy.authorize(request);
        let reason = by_policy.reason();
        if by_policy.is_allowed() {
            return AuthorizationDecision::allow(reason);
        }
        by_node.followed_by(AuthorizationDecision::no_opinion(reason))
    }
}

/// The engine's own authorizers and, if those have no opinion, the extension
/// (`--authorization-mode=Node,RBAC,Webhook`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtendedAuthorizers<'a> {
    pub(crate) own: Authorizers<'a>,
    pub(crate) extension: &'a ExtensionSlot,
    pub(crate) question: Question,
}

impl ExtendedAuthorizers<'_> {
    /// Only the decision.
    pub(crate) fn allows(&self, request: &Attributes<'_>) -> bool {
        self.own.allows(request) || self.extended(request).is_some_and(|verdict| verdict.allowed)
    }

    fn extended(&self, request: &Attributes<'_>) -> Option<AuthorizationDecision> {
        self.extension.ask(request, self.question).map(AuthorizationDecision::from)
    }
}

impl Authorizer for ExtendedAuthorizers<'_> {
    fn authorize(&self, request: &Attributes<'_>) -> AuthorizationDecision {
        let by_own = self.own.authorize(request);
        if by_own.allowed {
            return by_own;
        }
        match self.extended(request) {
            Some(verdict) => by_own.followed_by(verdict),
            None => by_own,
        }
    }
}

/// The answer to a request that no authorizer allows.
pub(crate) fn forbidden(request: &Attributes<'_>, reason: &str) -> ApiError {
    let mut why = sanitized(&cannot(request));
    if !reason.is_empty() {
        why.push_str(": ");
        why.push_str(reason);
    }
    let resource = GroupResource { group: request.api_group, resource: request.resource };
    ApiError::forbidden(resource, request.name, &why)
}

fn cannot(request: &Attributes<'_>) -> String {
    let user = go::quote(&request.user.name);
    let verb = request.verb;
    if !request.is_resource_request {
        return format!("User {user} cannot {verb} path {}", go::quote(request.path));
    }
    let resource = if request.subresource.is_empty() {
        go::quote(request.resource)
    } else {
        go::quote(&format!("{}/{}", request.resource, request.subresource))
    };
    let group = go::quote(request.api_group);
    let scope = if request.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {}", go::quote(request.namespace))
    };
    format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
}

/// Upstream avoids answers that a browser could take for HTML.
fn sanitized(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sojourn_rbac::Binding;

    use super::*;

    fn alice() -> User {
        User { name: "alice".to_owned(), ..User::default() }
    }

    #[test]
    fn refusals_read_as_upstreams() {
        let alice = alice();
        let list = Attributes::on_resource(&alice, "list", "", "pods");
        let cases = [
            (
                Attributes { namespace: "default", ..list },
                r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default""#,
                json!({"kind": "pods"}),
            ),
            (
                list,
                r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope"#,
                json!({"kind": "pods"}),
            ),
            (
                Attributes {
                    verb: "get",
                    namespace: "default",
                    name: "x",
                    subresource: "status",
                    ..list
                },
                r#"pods "x" is forbidden: User "alice" cannot get resource "pods/status" in API group "" in the namespace "default""#,
                json!({"kind": "pods", "name": "x"}),
            ),
            (
                Attributes {
                    verb: "get",
                    api_group: "apps",
                    resource: "deployments",
                    name: "x",
                    namespace: "default",
                    ..list
                },
                r#"deployments.apps "x" is forbidden: User "alice" cannot get resource "deployments" in API group "apps" in the namespace "default""#,
                json!({"kind": "deployments", "group": "apps", "name": "x"}),
            ),
            (
                Attributes::on_path(&alice, "get", "/met<rics>\""),
                r#"forbidden: User "alice" cannot get path "/met&lt;rics&gt;\"""#,
                json!({}),
            ),
        ];
        for (request, message, details) in cases {
            let status = forbidden(&request, "").to_value();
            assert_eq!(status["message"], message);
            assert_eq!(status["details"], details);
            assert_eq!((&status["reason"], &status["code"]), (&json!("Forbidden"), &json!(403)));
        }
        assert_eq!(
            forbidden(&list, "because").message,
            r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope: because"#
        );
    }

    #[test]
    fn authorizers_are_asked_in_turn() {
        let mut policy = Policy::default();
        let dangling = json!({
            "metadata": {"name": "a"},
            "roleRef": {"kind": "ClusterRole", "name": "nope"},
            "subjects": [{"kind": "Group", "name": "system:nodes"}],
        });
        policy.upsert_binding(Binding::from_value(&dangling).unwrap());
        let graph = NodeGraph::default();
        let all = Authorizers { policy: &policy, graph: &graph };

        let root = User { groups: vec!["system:masters".to_owned()], ..alice() };
        let of = |user, verb| Attributes::on_resource(user, verb, "", "nodes");
        assert_eq!(all.authorize(&of(&root, "list")), AuthorizationDecision::allow(""));
        assert!(all.allows(&of(&root, "list")));
        let node = crate::auth::identity::Identity::node("n1");
        assert!(all.allows(&of(node.user(), "create")));
        assert_eq!(
            all.authorize(&of(node.user(), "list")),
            AuthorizationDecision::no_opinion(
                "node 'n1' cannot read all nodes, only its own Node object\n\
                 RBAC: clusterrole.rbac.authorization.k8s.io \"nope\" not found"
            )
        );
        assert_eq!(all.authorize(&of(&alice(), "list")), AuthorizationDecision::default());
        assert_eq!(
            all.rules_review(node.user(), "x")["evaluationError"],
            "[node authorizer does not support user rule resolution, \
             clusterrole.rbac.authorization.k8s.io \"nope\" not found]"
        );
    }
}
