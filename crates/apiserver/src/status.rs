//! Errors as clients see them: `metav1.Status` with code, reason, details and causes, worded as
//! upstream words them, because kubectl and controllers key on them.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::field::FieldError;
use crate::json::budget::TooLarge;

/// A group and resource, printed as upstream prints them: `pods`, `leases.coordination.k8s.io`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupResource<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
}

impl std::fmt::Display for GroupResource<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            f.write_str(self.resource)
        } else {
            write!(f, "{}.{}", self.resource, self.group)
        }
    }
}

/// Not a reason that clients see: the answer is a plain page instead of a Status.
const PLAIN_PAGE: &str = "PlainPage";

/// Why a request was refused.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(crate) code: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Box<Value>>,
    /// `metadata.continue` of an expired list, which lets the client go on inconsistently.
    pub(crate) resume: Option<String>,
}

impl ApiError {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, resume: None }
    }

    fn with(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub(crate) fn not_found(resource: GroupResource<'_>, name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", format!("{resource} \"{name}\" not found"))
            .with(object_details(resource.group, resource.resource, name))
    }

    /// A path that leads nowhere: upstream's generic answer for unknown resources.
    pub(crate) fn unknown_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).with(json!({}))
    }

    /// Upstream's router answers some paths with a plain page.
    pub(crate) fn page_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, PLAIN_PAGE, "404 page not found\n")
    }

    pub(crate) fn already_exists(resource: GroupResource<'_>, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" already exists");
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).with(object_details(
            resource.group,
            resource.resource,
            name,
        ))
    }

    pub(crate) fn conflict(resource: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).with(object_details(
            resource.group,
            resource.resource,
            name,
        ))
    }

    /// The object changed between read and write.
    pub(crate) fn modified(resource: GroupResource<'_>, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    pub(crate) fn forbidden(resource: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = match (resource.resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{resource} is forbidden: {why}"),
            (_, name) => format!("{resource} \"{name}\" is forbidden: {why}"),
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).with(object_details(
            resource.group,
            resource.resource,
            name,
        ))
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// Validation failed: one cause per field error.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let of = GroupResource { group, resource: kind };
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let joined = match texts.as_slice() {
            [one] => one.clone(),
            // Upstream's aggregate names each distinct error once.
            many => {
                let mut seen = std::collections::HashSet::new();
                let distinct: Vec<&str> =
                    many.iter().map(String::as_str).filter(|t| seen.insert(*t)).collect();
                match distinct.as_slice() {
                    [one] => (*one).to_owned(),
                    several => format!("[{}]", several.join(", ")),
                }
            }
        };
        let causes: Vec<Value> = errors
            .iter()
            .map(|e| json!({"reason": e.kind.reason(), "message": e.body(), "field": e.path}))
            .collect();
        let mut details = object_details(group, kind, name);
        if !causes.is_empty() {
            details["causes"] = Value::Array(causes);
        }
        let message = format!("{of} \"{name}\" is invalid: {joined}");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with(details)
    }

    pub(crate) fn internal(message: impl std::fmt::Display) -> Self {
        let text = message.to_string();
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {text}"),
        )
        .with(json!({"causes": [{"message": text}]}))
    }

    /// A failure that upstream answers with 500 and no reason.
    pub(crate) fn unexplained(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    pub(crate) fn method_not_allowed(message: &str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message).with(json!({}))
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub(crate) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// Overloaded: try again in `seconds`.
    pub(crate) fn too_many_requests(message: impl Into<String>, seconds: u32) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
            .with(json!({"retryAfterSeconds": seconds}))
    }

    /// The asked-for version is gone.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The asked-for version has not been reached yet.
    pub(crate) fn version_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: {message}")).with(
            json!({
                "causes": [{
                    "reason": "ResourceVersionTooLarge",
                    "message": "Too large resource version",
                }],
                "retryAfterSeconds": 1,
            }),
        )
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
            .with(json!({"retryAfterSeconds": 1}))
    }

    /// Adds causes to the details.
    pub(crate) fn with_causes(mut self, causes: Vec<Value>) -> Self {
        let mut details = self.details.take().map_or_else(|| json!({}), |d| *d);
        details["causes"] = Value::Array(causes);
        self.with(details)
    }

    pub(crate) fn with_details(self, details: Value) -> Self {
        self.with(details)
    }

    /// The `metav1.Status` object.
    pub(crate) fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(resume) = &self.resume {
            status["metadata"]["continue"] = json!(resume);
        }
        if let Some(details) = &self.details {
            status["details"] = (**details).clone();
        }
        status
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        if self.reason == PLAIN_PAGE {
            let mut response = Response::new(Body::from(self.message));
            *response.status_mut() = self.code;
            let plain = HeaderValue::from_static("text/plain; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, plain);
            return response;
        }
        let mut response = Response::new(Body::from(self.to_value().to_string()));
        *response.status_mut() = self.code;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let retry = self.details.as_ref().and_then(|d| d["retryAfterSeconds"].as_u64());
        if let Some(seconds) = retry {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<TooLarge> for ApiError {
    fn from(error: TooLarge) -> Self {
        Self::too_large(error.to_string())
    }
}

/// `details` naming an object; members that are empty are left out, as upstream does.
pub(crate) fn object_details(group: &str, kind: &str, name: &str) -> Value {
    let mut details = serde_json::Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details.insert(key.to_owned(), json!(value));
        }
    }
    Value::Object(details)
}
