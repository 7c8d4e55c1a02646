//! Hooks registered by whoever embeds the engine.

use std::convert::Infallible;
use std::fmt;
use std::sync::Mutex;

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::core::admission::{self, AdmissionRequest, AdmissionResponse};
use kube::core::response::Status;
use kube::core::{DynamicObject, GroupVersionKind, GroupVersionResource, ObjectMeta, TypeMeta};
use serde::Deserialize as _;
use serde_json::Value;
use tower::ServiceExt;
use tower::util::BoxCloneService;

use crate::clock::NoRandomness;
use crate::json::{Access, Object};
use crate::patch;
use crate::status::ApiError;
use crate::verb::delete::DeleteOptions;
use crate::verb::{Call, FieldValidation};

use super::AdmissionOperation;

/// What a hook is: the same service that a webhook server mounts.
pub type HookService =
    BoxCloneService<AdmissionRequest<DynamicObject>, AdmissionResponse, Infallible>;

/// Which writes a hook wants to see, named as in a webhook's rule: `pods` is not `pods/status`,
/// `pods/*` is everything of a Pod, `*` every resource, `*/*` whatever there is. Empty lists mean
/// all.
#[derive(Debug, Clone, Default)]
pub struct HookScope {
    pub groups: Vec<String>,
    pub resources: Vec<String>,
}

impl HookScope {
    fn matches(&self, call: &Call) -> bool {
        let resource = &call.endpoint.resource;
        let group = |group: &String| *group == *resource.group || group == "*";
        let named = |rule: &String| rule_matches(rule, &resource.plural, &call.path.subresource);
        (self.groups.is_empty() || self.groups.iter().any(group))
            && (self.resources.is_empty() || self.resources.iter().any(named))
    }
}

/// Whether a rule's resource is this one.
fn rule_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    match rule.split_once('/') {
        None => subresource.is_empty() && [resource, "*"].contains(&rule),
        Some((of, "*")) => [resource, "*"].contains(&of),
        Some((of, part)) => part == subresource && [resource, "*"].contains(&of),
    }
}

/// One registered hook.
pub struct Hook {
    name: String,
    scope: HookScope,
    service: Mutex<HookService>,
}

impl Hook {
    pub fn new(name: impl Into<String>, scope: HookScope, service: HookService) -> Self {
        Self { name: name.into(), scope, service: Mutex::new(service) }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("name", &self.name).field("scope", &self.scope).finish()
    }
}

/// The hooks, in the order in which they are called.
#[derive(Debug, Default)]
pub struct Hooks {
    pub mutating: Vec<Hook>,
    pub validating: Vec<Hook>,
}

/// The options of the write that is reviewed.
#[derive(Clone, Copy)]
pub(super) struct AdmissionOptions<'a> {
    pub(super) dry_run: bool,
    pub(super) deletion: Option<&'a DeleteOptions>,
}

pub(super) async fn mutate(
    call: &Call,
    operation: AdmissionOperation,
    mut object: Object,
    old: Option<&Object>,
    options: AdmissionOptions<'_>,
) -> Result<Object, ApiError> {
    for hook in call.engine.hooks.mutating.iter().filter(|h| h.scope.matches(call)) {
        let response = call_hook(call, hook, operation, Some(&object), old, options).await?;
        let Some(bytes) = response.patch else { continue };
        let failed = |why: &dyn fmt::Display| {
            ApiError::internal(format!("the patch of admission hook {} fails: {why}", hook.name))
        };
        let operations: Value = serde_json::from_slice(&bytes).map_err(|e| failed(&e))?;
        let mut value = Value::Object(object);
        patch::json::apply(&mut value, &operations).map_err(|e| failed(&e))?;
        // What a hook adds is typed and defaulted like what a client sends.
        object = call.decode_value(value, Vec::new(), FieldValidation::Ignore)?;
    }
    Ok(object)
}

pub(super) async fn validate(
    call: &Call,
    operation: AdmissionOperation,
    object: Option<&Object>,
    old: Option<&Object>,
    options: AdmissionOptions<'_>,
) -> Result<(), ApiError> {
    for hook in call.engine.hooks.validating.iter().filter(|h| h.scope.matches(call)) {
        call_hook(call, hook, operation, object, old, options).await?;
    }
    Ok(())
}

/// Calls one hook; if it denies, the request is denied.
async fn call_hook(
    call: &Call,
    hook: &Hook,
    operation: AdmissionOperation,
    object: Option<&Object>,
    old: Option<&Object>,
    options: AdmissionOptions<'_>,
) -> Result<AdmissionResponse, ApiError> {
    let request = admission_request(call, operation, object, old, options)
        .map_err(|e| ApiError::internal(format!("admission hook {}: {e}", hook.name)))?;
    let service = hook.service.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    let Ok(response) = service.oneshot(request).await;
    for text in response.warnings.iter().flatten() {
        call.warn(text.clone());
    }
    if response.allowed {
        return Ok(response);
    }
    Err(denial(&hook.name, &response.result))
}

/// What upstream answers when a webhook refuses: the webhook's own code, reason and details, and
/// its message with its name before it.
fn denial(hook: &str, result: &Status) -> ApiError {
    let why = [&result.message, &result.reason].into_iter().find(|text| !text.is_empty());
    let message = match why {
        None => format!("admission webhook \"{hook}\" denied the request without explanation"),
        Some(why) => format!("admission webhook \"{hook}\" denied the request: {why}"),
    };
    let code = StatusCode::from_u16(result.code).ok().filter(|code| code.as_u16() >= 400);
    let reason =
        STATUS_REASONS.into_iter().find(|known| *known == result.reason).unwrap_or_default();
    let error = ApiError::new(code.unwrap_or(StatusCode::BAD_REQUEST), reason, message);
    match result.details.as_ref().and_then(|details| serde_json::to_value(details).ok()) {
        Some(details) => error.with_details(details),
        None => error,
    }
}

/// The reasons that clients know.
const STATUS_REASONS: [&str; 19] = [
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "Expired",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "RequestEntityTooLarge",
    "ServerTimeout",
    "ServiceUnavailable",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
    "UnsupportedMediaType",
];

/// Why an admission review could not be put together.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

fn admission_request(
    call: &Call,
    operation: AdmissionOperation,
    object: Option<&Object>,
    old: Option<&Object>,
    options: AdmissionOptions<'_>,
) -> Result<AdmissionRequest<DynamicObject>, ReviewError> {
    let resource = &call.endpoint.resource;
    let version = &call.endpoint.version().name;
    let kind = GroupVersionKind::gvk(&resource.group, version, &resource.kind);
    let plural = GroupVersionResource::gvr(&resource.group, version, &resource.plural);
    // On create the path names no object, but the object does. A Namespace is in itself.
    let named = object.map(|object| object.at("metadata").text("name")).unwrap_or_default();
    let name = if call.path.name.is_empty() { named } else { &call.path.name };
    let is_namespace = resource.group.is_empty() && &*resource.plural == "namespaces";
    let namespace = if is_namespace { name } else { call.namespace() };
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Ok(AdmissionRequest {
        types: TypeMeta {
            api_version: "admission.k8s.io/v1".to_owned(),
            kind: "AdmissionReview".to_owned(),
        },
        uid: call.engine.entropy.uid()?,
        kind: kind.clone(),
        resource: plural.clone(),
        sub_resource: some(&call.path.subresource),
        request_kind: Some(kind),
        request_resource: Some(plural),
        request_sub_resource: None,
        name: name.to_owned(),
        namespace: some(namespace),
        operation: match operation {
            AdmissionOperation::Create => admission::Operation::Create,
            AdmissionOperation::Update => admission::Operation::Update,
            AdmissionOperation::Delete => admission::Operation::Delete,
        },
        user_info: serde_json::from_value(call.identity.user_info())?,
        object: object.map(to_dynamic).transpose()?,
        old_object: old.map(to_dynamic).transpose()?,
        dry_run: options.dry_run,
        options: options.deletion.map(|deletion| RawExtension(deletion.written())),
    })
}

/// The object as hooks get it.
fn to_dynamic(object: &Object) -> Result<DynamicObject, serde_json::Error> {
    let types = TypeMeta {
        api_version: object.text("apiVersion").to_owned(),
        kind: object.text("kind").to_owned(),
    };
    let metadata = object.get("metadata").map(ObjectMeta::deserialize).transpose()?;
    let rest = object.iter().filter(|(name, _)| !TYPE_AND_METADATA.contains(&name.as_str()));
    let data = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(DynamicObject {
        types: Some(types),
        metadata: metadata.unwrap_or_default(),
        data: Value::Object(data),
    })
}

/// The members that every kind has.
const TYPE_AND_METADATA: [&str; 3] = ["apiVersion", "kind", "metadata"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_names_resources_as_a_webhook_s_does() {
        for (rule, resource, subresource, expected) in [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods", "services", "", false),
            ("pods/status", "pods", "status", true),
            ("pods/status", "pods", "", false),
            ("pods/*", "pods", "", true),
            ("pods/*", "pods", "binding", true),
            ("*", "pods", "", true),
            ("*", "pods", "status", false),
            ("*/status", "pods", "status", true),
            ("*/status", "pods", "scale", false),
            ("*/*", "pods", "scale", true),
        ] {
            assert_eq!(rule_matches(rule, resource, subresource), expected, "{rule} {subresource}");
        }
    }
}
