//! Who lends something to whom: the Tenant of an Instance is told about it by mail.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use serde_json::Value;
use sojourn_api::lab::Tenant;
use sojourn_api::name::LAB_GROUP;
use sojourn_api::name::lab::LEND;

use super::super::lookup::{LookupResult, Permission, Permissions};
use super::super::reference::Reference;
use super::super::refusal::{causes, refuse, unasked, unknown};
use super::super::request::{part, sender};

const TENANTS: &str = "tenants";

/// The paths whose change speaks to the Tenant, in mails that are ours.
pub(super) fn visible_paths(request: &AdmissionRequest<DynamicObject>) -> Vec<String> {
    let changes = |path: &str| {
        let (new, old) = part(request, &format!("/spec/{path}"));
        let text = |value: Option<Value>| value.unwrap_or_else(|| Value::from(""));
        text(new) != text(old)
    };
    let paths = [("tenant/name", "spec.tenant.name"), ("prettyName", "spec.prettyName")];
    let changed = paths.into_iter().filter(|(path, _)| changes(path));
    changed.map(|(_, field)| field.to_owned()).collect()
}

pub(super) fn named_tenant(request: &AdmissionRequest<DynamicObject>) -> String {
    let (tenant, _) = part(request, "/spec/tenant/name");
    tenant.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(super) fn to_lend(path: &str, tenant: &str) -> Reference {
    let permission = Permission {
        verb: LEND,
        group: LAB_GROUP,
        resource: TENANTS,
        subresource: None,
        namespace: String::new(),
        name: Some(tenant.to_owned()),
    };
    Reference { path: path.to_owned(), permission }
}

/// Whoever lends something to somebody, or names it, is that very person or may `lend` to them.
pub(super) fn review_lending(
    request: &AdmissionRequest<DynamicObject>,
    found: Option<&LookupResult<Option<Tenant>>>,
    permitted: &Permissions,
) -> Option<AdmissionResponse> {
    let paths = visible_paths(request);
    let tenant = named_tenant(request);
    let permission = to_lend(paths.first()?, &tenant).permission;
    let (Some(person), Some(may)) = (found, permitted.get(&permission)) else {
        return Some(unasked(request, &paths));
    };
    let user = sender(request);
    let own = |found: &Tenant| {
        request.user_info.username.as_deref().is_some_and(|name| found.spec.is_user(name))
    };
    match (person, may) {
        (_, Ok(true)) => None,
        (Ok(Some(person)), _) if own(person) => None,
        (_, Err(why)) => {
            let what = format!("whether the sender has {permission}");
            Some(unknown(request, &paths, &what, why))
        }
        (Err(why), Ok(false)) => {
            let what = format!("whether the Tenant {tenant} is the sender");
            Some(unknown(request, &paths, &what, why))
        }
        (Ok(_), Ok(false)) => {
            let message = format!(
                "{user} is not the `spec.user` of the Tenant {tenant}, who is told about it by mail, and needs {permission} to set this"
            );
            Some(refuse(request, 403, "Forbidden", &causes(&paths, &message)))
        }
    }
}
