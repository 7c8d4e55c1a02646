//! Admission as a webhook, for a cluster, and its ValidatingWebhookConfiguration.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, RuleWithOperations, ServiceReference, ValidatingWebhook,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::core::admission::{
    AdmissionRequest, AdmissionResponse, AdmissionReview, ConvertAdmissionReviewError,
};
use kube::core::{DynamicObject, ObjectMeta};
use sojourn_api::install;

use super::hook::Hook;
use super::{Admission, NAME, Setup, rules};

pub(super) mod expression;

/// Where reviews are posted.
pub const PATH: &str = "/admit";
/// A review holds an object twice, and objects have at most 3 MiB.
const MAX_REVIEW_BYTES: usize = 8 << 20;
/// The label by which Kubernetes names every namespace.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// How long an API server waits for us before it refuses.
const TIMEOUT_SECONDS: i32 = 10;

pub(super) fn router(admission: Admission) -> Router {
    Router::new()
        .route(PATH, post(answer))
        .layer(DefaultBodyLimit::max(MAX_REVIEW_BYTES))
        .with_state(admission)
}

async fn answer(State(admission): State<Admission>, body: Bytes) -> Response {
    let review: Result<AdmissionReview<DynamicObject>, _> = serde_json::from_slice(&body);
    let request = review.map_err(|error| error.to_string()).and_then(|review| {
        let request: Result<AdmissionRequest<_>, ConvertAdmissionReviewError> = review.try_into();
        request.map_err(|error| error.to_string())
    });
    match request {
        Ok(request) => reply(StatusCode::OK, admission.admit(&request).await),
        Err(error) => {
            let why = format!("this is no AdmissionReview: {error}");
            reply(StatusCode::BAD_REQUEST, AdmissionResponse::invalid(why))
        }
    }
}

fn reply(status: StatusCode, response: AdmissionResponse) -> Response {
    match serde_json::to_vec(&response.into_review()) {
        Ok(body) => (status, [(CONTENT_TYPE, "application/json")], body).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Where a cluster reaches the webhook.
#[derive(Debug, Clone)]
pub enum Target {
    /// A Service in the operator's namespace.
    Service { name: String, namespace: String, port: i32 },
    /// A base address that begins with `https://`, for an operator outside of the cluster.
    Url(String),
}

/// What tells an API server to ask us. It asks only about what we review, so that everything else
/// goes on when we are not there.
pub fn configuration(target: &Target, ca_pem: &[u8]) -> ValidatingWebhookConfiguration {
    let hooks = rules(&Setup::default()).into_iter().map(|rule| rule.hook);
    ValidatingWebhookConfiguration {
        metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
        webhooks: Some(hooks.map(|hook| webhook(hook, client_config(target, ca_pem))).collect()),
    }
}

fn client_config(target: &Target, ca_pem: &[u8]) -> WebhookClientConfig {
    let mut config = WebhookClientConfig {
        ca_bundle: Some(ByteString(ca_pem.to_vec())),
        ..WebhookClientConfig::default()
    };
    match target {
        Target::Service { name, namespace, port } => {
            config.service = Some(ServiceReference {
                name: name.clone(),
                namespace: namespace.clone(),
                path: Some(PATH.to_owned()),
                port: Some(*port),
            });
        }
        Target::Url(base) => config.url = Some(format!("{}{PATH}", base.trim_end_matches('/'))),
    }
    config
}

fn webhook(hook: Hook, client_config: WebhookClientConfig) -> ValidatingWebhook {
    let policy = if hook.ignores_failures { "Ignore" } else { "Fail" };
    let rule = RuleWithOperations {
        api_groups: Some(vec![hook.group.to_owned()]),
        api_versions: Some(vec![hook.version.to_owned()]),
        resources: Some(vec![hook.resource.to_owned()]),
        operations: Some(hook.operations.iter().map(|one| (*one).to_owned()).collect()),
        scope: Some(hook.scope.to_owned()),
    };
    let conditions = match hook.reviews_controllers {
        true => vec![condition("ours", hook.expression)],
        false => {
            vec![condition("somebody-elses", others()), condition("judged", hook.expression)]
        }
    };
    ValidatingWebhook {
        name: format!("{}.{NAME}", hook.name),
        admission_review_versions: vec!["v1".to_owned()],
        client_config,
        failure_policy: Some(policy.to_owned()),
        match_policy: Some("Equivalent".to_owned()),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        rules: Some(vec![rule]),
        namespace_selector: hook.namespace.map(|name| LabelSelector {
            match_labels: Some([(NAMESPACE_NAME.to_owned(), name.to_owned())].into()),
            match_expressions: None,
        }),
        object_selector: hook.label.map(|label| LabelSelector {
            match_labels: None,
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: label.to_owned(),
                operator: "Exists".to_owned(),
                values: None,
            }]),
        }),
        match_conditions: Some(conditions),
    }
}

fn condition(name: &str, expression: String) -> MatchCondition {
    MatchCondition { name: name.to_owned(), expression }
}

/// The controllers' own writes are not asked about ([`Hook::reviews_controllers`]).
fn others() -> String {
    format!("request.userInfo.username != '{}'", install::user_name())
}
