//! Hooks registered by whoever embeds the engine.

use std::convert::Infallible;
use std::fmt;
use std::sync::Mutex;

use http::StatusCode;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};
use kube::core::response::Status;
use serde_json::{Value, json};
use tower::ServiceExt;
use tower::util::BoxCloneService;

use crate::json::{Access, Object};
use crate::patch;
use crate::status::ApiError;
use crate::verb::{Call, FieldValidation};

use super::Operation;

/// What a hook is: the same service that a webhook server mounts.
pub type HookService =
    BoxCloneService<AdmissionRequest<DynamicObject>, AdmissionResponse, Infallible>;

/// Which writes a hook wants to see. Empty lists mean all.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    pub groups: Vec<String>,
    pub resources: Vec<String>,
}

impl Scope {
    fn covers(&self, call: &Call) -> bool {
        let resource = &call.endpoint.resource;
        let all_or = |list: &[String], wanted: &str| {
            list.is_empty() || list.iter().any(|item| item == wanted || item == "*")
        };
        all_or(&self.groups, &resource.group) && all_or(&self.resources, &resource.plural)
    }
}

/// One registered hook.
pub struct Hook {
    name: String,
    scope: Scope,
    service: Mutex<HookService>,
}

impl Hook {
    pub fn new(name: impl Into<String>, scope: Scope, service: HookService) -> Self {
        Self { name: name.into(), scope, service: Mutex::new(service) }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("name", &self.name).field("scope", &self.scope).finish()
    }
}

/// The hooks, in the order in which they are asked.
#[derive(Debug, Default)]
pub struct Hooks {
    pub mutating: Vec<Hook>,
    pub validating: Vec<Hook>,
}

pub(super) async fn mutate(
    call: &Call,
    operation: Operation,
    mut object: Object,
    old: Option<&Object>,
    dry_run: bool,
) -> Result<Object, ApiError> {
    for hook in call.engine.hooks.mutating.iter().filter(|h| h.scope.covers(call)) {
        let response = ask(call, hook, operation, Some(&object), old, dry_run).await?;
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
    operation: Operation,
    object: Option<&Object>,
    old: Option<&Object>,
    dry_run: bool,
) -> Result<(), ApiError> {
    for hook in call.engine.hooks.validating.iter().filter(|h| h.scope.covers(call)) {
        ask(call, hook, operation, object, old, dry_run).await?;
    }
    Ok(())
}

/// Asks one hook; its refusal is the request's.
async fn ask(
    call: &Call,
    hook: &Hook,
    operation: Operation,
    object: Option<&Object>,
    old: Option<&Object>,
    dry_run: bool,
) -> Result<AdmissionResponse, ApiError> {
    let request = request(call, operation, object, old, dry_run)
        .map_err(|e| ApiError::internal(format!("admission hook {}: {e}", hook.name)))?;
    let service = hook.service.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    let Ok(response) = service.oneshot(request).await;
    for text in response.warnings.iter().flatten() {
        call.warn(text.clone());
    }
    if response.allowed {
        return Ok(response);
    }
    Err(refusal(&hook.name, &response.result))
}

/// What upstream answers when a webhook refuses: the webhook's own code, reason and details, and
/// its message with its name before it.
fn refusal(hook: &str, result: &Status) -> ApiError {
    let why = [&result.message, &result.reason].into_iter().find(|text| !text.is_empty());
    let message = match why {
        None => format!("admission webhook \"{hook}\" denied the request without explanation"),
        Some(why) => format!("admission webhook \"{hook}\" denied the request: {why}"),
    };
    let code = StatusCode::from_u16(result.code).ok().filter(|code| code.as_u16() >= 400);
    let reason = REASONS.into_iter().find(|known| *known == result.reason).unwrap_or_default();
    let error = ApiError::new(code.unwrap_or(StatusCode::BAD_REQUEST), reason, message);
    match result.details.as_ref().and_then(|details| serde_json::to_value(details).ok()) {
        Some(details) => error.with_details(details),
        None => error,
    }
}

/// The reasons that clients know.
const REASONS: [&str; 19] = [
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

fn request(
    call: &Call,
    operation: Operation,
    object: Option<&Object>,
    old: Option<&Object>,
    dry_run: bool,
) -> Result<AdmissionRequest<DynamicObject>, String> {
    let resource = &call.endpoint.resource;
    let version = &call.endpoint.version().name;
    let kind = json!({"group": resource.group, "version": version, "kind": resource.kind});
    let plural = json!({"group": resource.group, "version": version, "resource": resource.plural});
    let operation = match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    };
    // On create the path names no object, but the object does. A Namespace is in itself.
    let named = object.map(|object| object.at("metadata").text("name")).unwrap_or_default();
    let name = if call.path.name.is_empty() { named } else { &call.path.name };
    let is_namespace = resource.group.is_empty() && &*resource.plural == "namespaces";
    let namespace = if is_namespace { name } else { call.namespace() };
    let mut body = json!({
        "uid": call.engine.entropy.uid(),
        "kind": kind,
        "resource": plural,
        "requestKind": kind,
        "requestResource": plural,
        "name": name,
        "operation": operation,
        "userInfo": call.identity.user_info(),
        "dryRun": dry_run,
    });
    if !call.path.subresource.is_empty() {
        body["subResource"] = json!(call.path.subresource);
    }
    if !namespace.is_empty() {
        body["namespace"] = json!(namespace);
    }
    if let Some(object) = object {
        body["object"] = Value::Object(object.clone());
    }
    if let Some(old) = old {
        body["oldObject"] = Value::Object(old.clone());
    }
    let review: AdmissionReview<DynamicObject> = serde_json::from_value(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": body,
    }))
    .map_err(|e| e.to_string())?;
    review.try_into().map_err(|e: kube::core::admission::ConvertAdmissionReviewError| e.to_string())
}
