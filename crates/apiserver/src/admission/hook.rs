//! Hooks registered by whoever embeds the engine.

use std::convert::Infallible;
use std::fmt;
use std::sync::Mutex;

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};
use serde_json::{Value, json};
use tower::ServiceExt;
use tower::util::BoxCloneService;

use crate::json::Object;
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
    let message = match response.result.message.as_str() {
        "" => format!("admission webhook \"{}\" denied the request without explanation", hook.name),
        why => format!("admission webhook \"{}\" denied the request: {why}", hook.name),
    };
    let code = http::StatusCode::from_u16(response.result.code)
        .ok()
        .filter(|c| c.is_client_error() || c.is_server_error())
        .unwrap_or(http::StatusCode::FORBIDDEN);
    let mut error = ApiError::new(code, "Forbidden", message);
    if code == http::StatusCode::UNPROCESSABLE_ENTITY {
        error.reason = "Invalid";
    }
    Err(error)
}

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
    let mut body = json!({
        "uid": call.engine.entropy.uid(),
        "kind": kind,
        "resource": plural,
        "requestKind": kind,
        "requestResource": plural,
        "name": call.path.name,
        "operation": operation,
        "userInfo": call.identity.user_info(),
        "dryRun": dry_run,
    });
    if !call.path.subresource.is_empty() {
        body["subResource"] = json!(call.path.subresource);
    }
    if !call.namespace().is_empty() {
        body["namespace"] = json!(call.namespace());
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
