//! The plugins that a Kubernetes API server runs by default and that matter for the kinds served
//! here: ServiceAccount, DefaultTolerationSeconds, Priority, RuntimeClass, claim protection, node
//! restriction; and, for RBAC objects, the rule that nobody grants what they do not hold.

use serde_json::Value;
use sojourn_rbac::escalation::{self, RoleWrite};
use sojourn_rbac::{Attributes, Binding, PolicyRule};

use crate::auth::extension::Question;
use crate::auth::node::restriction;
use crate::json::{Access, Object};
use crate::kind::pod::admission as pod;
use crate::kind::{node, persistent_volume_claim};
use crate::status::ApiError;
use crate::verb::Call;

use super::{AdmissionOperation, shown_name};

pub(super) fn mutate(
    call: &Call,
    operation: AdmissionOperation,
    object: &mut Object,
    old: Option<&Object>,
) -> Result<(), ApiError> {
    let resource = &call.endpoint.resource;
    match (&*resource.group, &*resource.kind, operation) {
        ("", "Pod", AdmissionOperation::Create) => mutate_pod(call, object),
        ("", "Pod", AdmissionOperation::Update) => {
            pod::default_tolerations(object);
            if let Some(old) = old {
                pod::keep_priority(object, old);
            }
            Ok(())
        }
        ("", "PersistentVolumeClaim", AdmissionOperation::Create) => {
            persistent_volume_claim::protect(object);
            Ok(())
        }
        ("", "Node", AdmissionOperation::Create) => {
            node::taint_not_ready(object);
            Ok(())
        }
        _ => Ok(()),
    }
}

fn mutate_pod(call: &Call, object: &mut Object) -> Result<(), ApiError> {
    let name = shown_name(object).to_owned();
    let refuse =
        |why: &dyn std::fmt::Display| ApiError::forbidden(call.of(), &name, &why.to_string());
    if let Some(account) = pod::service_account_name(object).map_err(|e| refuse(&e))? {
        let namespace = call.namespace();
        let found = call.engine.core_object("serviceaccounts", namespace, &account);
        let Some(Value::Object(found)) = found else {
            return Err(refuse(&format!(
                "error looking up service account {namespace}/{account}: serviceaccount \
                 \"{account}\" not found"
            )));
        };
        let suffix = call.engine.entropy.suffix().map_err(ApiError::internal)?;
        pod::admit_service_account(object, &found, &suffix).map_err(|e| refuse(&e))?;
    }
    pod::admit_priority(object, None).map_err(|e| refuse(&e))?;
    pod::default_tolerations(object);
    pod::admit_runtime_class(object, None).map_err(|e| refuse(&e))?;
    let node = object.at("spec").text("nodeName");
    if let Some(Value::Object(node)) = call.engine.core_object("nodes", "", node) {
        pod::copy_topology_labels(object, &node);
    }
    Ok(())
}

pub(super) fn validate(
    call: &Call,
    operation: AdmissionOperation,
    object: Option<&Object>,
    old: Option<&Object>,
) -> Result<(), ApiError> {
    restrict_node(call, operation, object, old)?;
    let resource = &call.endpoint.resource;
    if let (true, Some(object)) = (call.path.subresource.is_empty(), object) {
        check_workload(call, object, old)?;
    }
    let Some(object) = object.filter(|_| &*resource.group == sojourn_rbac::API_GROUP) else {
        return Ok(());
    };
    match &*resource.kind {
        "Role" | "ClusterRole" => check_role(call, object, old),
        _ => check_binding(call, object, old),
    }
}

/// What the default plugins refuse of Pods and claims after they were validated.
fn check_workload(call: &Call, object: &Object, old: Option<&Object>) -> Result<(), ApiError> {
    let resource = &call.endpoint.resource;
    match (&*resource.group, &*resource.kind, old) {
        ("", "Pod", None) => {
            pod::validate_runtime_class(object, None).map_err(|why| refuse(call, object, &why))
        }
        // No storage class is served, so none allows a claim to grow.
        ("", "PersistentVolumeClaim", Some(old)) => {
            persistent_volume_claim::admit_resize(object, old, |_| false)
                .map_err(|why| refuse(call, object, &why))
        }
        _ => Ok(()),
    }
}

fn restrict_node(
    call: &Call,
    operation: AdmissionOperation,
    object: Option<&Object>,
    old: Option<&Object>,
) -> Result<(), ApiError> {
    let body_name = object.map(|o| o.at("metadata").text("name")).unwrap_or_default();
    let name = if call.path.name.is_empty() { body_name } else { &call.path.name };
    let write = restriction::NodeWrite {
        user: call.identity.user(),
        operation: match operation {
            AdmissionOperation::Create => restriction::NodeWriteOperation::Create,
            AdmissionOperation::Update => restriction::NodeWriteOperation::Update,
            AdmissionOperation::Delete => restriction::NodeWriteOperation::Delete,
        },
        group: &call.endpoint.resource.group,
        resource: &call.endpoint.resource.plural,
        subresource: &call.path.subresource,
        namespace: call.namespace(),
        name,
        object,
        old,
    };
    let access = call.engine.access.current();
    let authorizers = access.all_authorizers(&call.engine, Question::Request);
    restriction::admit(&write, &*call.engine, &authorizers)
}

fn check_role(call: &Call, object: &Object, old: Option<&Object>) -> Result<(), ApiError> {
    if only_collection_fields_change(object, old) {
        return Ok(());
    }
    let rules: Vec<PolicyRule> =
        serde_json::from_value(Value::Array(object.list("rules").to_vec()))
            .map_err(ApiError::internal)?;
    let aggregates = |o: &Object| !o.at("aggregationRule").is_null();
    let write = RoleWrite {
        user: call.identity.user(),
        resource: &call.endpoint.resource.plural,
        namespace: call.namespace(),
        name: &call.path.name,
        rules: &rules,
        aggregates: aggregates(object) || old.is_some_and(aggregates),
    };
    let access = call.engine.access.current();
    let authorizers = access.all_authorizers(&call.engine, Question::Request);
    let authorize = |attributes: &Attributes<'_>| authorizers.allows(attributes);
    escalation::check_role(&access.policy, &write, &authorize)
        .map_err(|why| refuse(call, object, &why))
}

fn check_binding(call: &Call, object: &Object, old: Option<&Object>) -> Result<(), ApiError> {
    if only_collection_fields_change(object, old) {
        return Ok(());
    }
    let binding =
        Binding::from_value(&Value::Object(object.clone())).map_err(ApiError::internal)?;
    let access = call.engine.access.current();
    let authorizers = access.all_authorizers(&call.engine, Question::Request);
    let authorize = |attributes: &Attributes<'_>| authorizers.allows(attributes);
    escalation::check_binding(
        &access.policy,
        call.identity.user(),
        call.namespace(),
        &binding.role_ref,
        &authorize,
    )
    .map_err(|why| match why {
        // Upstream names the binding's resource, not the role's.
        escalation::EscalationError::RoleNotFound(role) => {
            ApiError::not_found(call.of(), &role.name)
        }
        why => refuse(call, object, &why),
    })
}

/// Garbage collection may take owners and finalizers off whatever it grants.
fn only_collection_fields_change(new: &Object, old: Option<&Object>) -> bool {
    old.is_some_and(|old| {
        let (new, old) = (Value::Object(new.clone()), Value::Object(old.clone()));
        escalation::changes_only_collection_fields(&new, &old)
    })
}

fn refuse(call: &Call, object: &Object, why: &dyn std::fmt::Display) -> ApiError {
    ApiError::forbidden(call.of(), object.at("metadata").text("name"), &why.to_string())
}
