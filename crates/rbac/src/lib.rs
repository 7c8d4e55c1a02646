//! Kubernetes RBAC, evaluated in memory.
//!
//! [`Policy`] holds the roles and bindings of a cluster, indexed by subject, and answers as the RBAC
//! authorizer of kube-apiserver answers: the same decisions, the same reasons. Beside it stand the
//! checks that guard writes to the policy itself ([`escalation`]) and the rules that an aggregated
//! ClusterRole gathers ([`aggregation`]).
//!
//! Nothing here does I/O, reads a clock or waits.

pub mod aggregation;
mod cover;
pub mod escalation;
mod object;
mod policy;
mod quote;
mod request;
mod rule;

pub use cover::uncovered;
pub use object::{Binding, ClusterRole, DecodeError, Role, RoleRef, Subject};
pub use policy::{Decision, Grant, Policy, RulesFor, UnresolvedRole};
pub use request::{Attributes, FieldRequirement, SUPERUSER_GROUP, User};
pub use rule::PolicyRule;

/// The API group of roles and bindings.
pub const API_GROUP: &str = "rbac.authorization.k8s.io";
