//! What a cluster is taught before anything runs: the definitions of our kinds, and roles.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ObjectMeta;
use serde_json::Value;

use crate::family::FAMILIES;
use crate::name::shared;
use crate::role::{OPERATOR, role};

/// The definition of every kind of ours.
pub fn crds() -> Vec<CustomResourceDefinition> {
    FAMILIES.iter().flat_map(|family| (family.crds)()).map(plain).collect()
}

/// The roles of every family.
pub fn roles() -> Vec<ClusterRole> {
    let operator = FAMILIES.iter().flat_map(|family| (family.operator_rules)()).collect();
    let mut roles = vec![role(OPERATOR, None, operator)];
    roles.extend(FAMILIES.iter().flat_map(|family| (family.roles)()));
    roles
}

/// What the operator may do in its own namespace and nowhere else: its configuration, what it
/// remembers for the family, the Secrets that the configuration names, and the leases of its replicas.
pub fn operator_role() -> Role {
    let rule = |group: &str, resource: &str, verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..PolicyRule::default()
    };
    let kept = ["get", "list", "watch", "create", "update", "patch"];
    Role {
        metadata: ObjectMeta {
            name: Some(OPERATOR.to_owned()),
            namespace: Some(shared::NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        rules: Some(vec![
            rule("", "configmaps", &kept),
            // The certificate of admission is renewed; that it can be made is in the other role.
            rule("", "secrets", &["get", "list", "watch", "update"]),
            // That of a replica which is gone is deleted.
            rule("coordination.k8s.io", "leases", &[&kept[..], &["delete"]].concat()),
        ]),
    }
}

/// A definition without what the derivation adds and Kubernetes does not want: fields that may be
/// left out are left out, not null, and a description is one paragraph.
fn plain(definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(definition).expect("a definition is JSON");
    simplify(&mut value);
    serde_json::from_value(value).expect("a definition stays one")
}

fn simplify(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("nullable") == Some(&Value::Bool(true)) {
                fields.remove("nullable");
            }
            if let Some(Value::Array(values)) = fields.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            fields.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
