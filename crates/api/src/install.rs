//! What a cluster gets once so that the operator can run there: its namespace, its account, and
//! what that account may do.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, RoleRef, Subject};
use kube::core::ObjectMeta;

use crate::family::{FAMILIES, Family};
use crate::name::shared;
use crate::role::OPERATOR;

/// The account that the controllers act as.
pub const ACCOUNT: &str = "sojourn";
/// Who uses the browser of a machine that runs everything (`sojourn up`).
pub const PERSON: &str = "sojourn-person";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Where everything of ours that is not somebody's own lives.
pub fn namespace() -> Namespace {
    Namespace { metadata: named(shared::NAMESPACE), ..Namespace::default() }
}

pub fn account() -> ServiceAccount {
    ServiceAccount { metadata: ours(ACCOUNT), ..ServiceAccount::default() }
}

/// The user that the API knows that account by.
pub fn user_name() -> String {
    format!("system:serviceaccount:{}:{ACCOUNT}", shared::NAMESPACE)
}

/// Gives the account the rights of the controllers.
pub fn binding() -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: named(OPERATOR),
        role_ref: reference("ClusterRole", OPERATOR),
        subjects: Some(vec![subject()]),
    }
}

/// Gives the account its rights in our namespace.
pub fn own_binding() -> RoleBinding {
    RoleBinding {
        metadata: ours(OPERATOR),
        role_ref: reference("Role", OPERATOR),
        subjects: Some(vec![subject()]),
    }
}

/// Let [`PERSON`] use and manage what each family lends through the gateway, and nothing else. Only
/// `sojourn up` applies them.
pub fn person_bindings() -> Vec<ClusterRoleBinding> {
    let binding = |family: &Family| {
        Some(ClusterRoleBinding {
            metadata: named(&format!("{PERSON}-{}", family.name)),
            role_ref: reference("ClusterRole", family.person_role?),
            subjects: Some(vec![Subject {
                kind: "User".to_owned(),
                name: PERSON.to_owned(),
                namespace: None,
                api_group: Some(RBAC.to_owned()),
            }]),
        })
    };
    FAMILIES.iter().filter_map(binding).collect()
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

fn ours(name: &str) -> ObjectMeta {
    ObjectMeta { namespace: Some(shared::NAMESPACE.to_owned()), ..named(name) }
}

fn reference(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: Some(RBAC.to_owned()), kind: kind.to_owned(), name: name.to_owned() }
}

fn subject() -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: ACCOUNT.to_owned(),
        namespace: Some(shared::NAMESPACE.to_owned()),
        api_group: None,
    }
}
