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
use sojourn_api::name::group::MACHINE;
use sojourn_api::name::{GROUP_GROUP, LAB_GROUP, VERSION, shared};

use super::{Admission, NAME, group, lab, pod};

pub(super) mod expression;

/// Where reviews are posted.
pub const PATH: &str = "/admit";
/// A review holds an object twice, and objects have at most 3 MiB.
const MAX_REVIEW_BYTES: usize = 8 << 20;
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

/// What tells an API server to ask us. It asks only about what we judge, so that everything else
/// goes on when we are not there.
pub fn configuration(target: &Target, ca_pem: &[u8]) -> ValidatingWebhookConfiguration {
    let client = || {
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
    };
    let ours = LabelSelector {
        match_labels: Some(
            [("kubernetes.io/metadata.name".to_owned(), shared::NAMESPACE.to_owned())].into(),
        ),
        match_expressions: None,
    };
    let machines = LabelSelector {
        match_labels: None,
        match_expressions: Some(vec![LabelSelectorRequirement {
            key: MACHINE.to_owned(),
            operator: "Exists".to_owned(),
            values: None,
        }]),
    };
    let named = condition("ours", format!("request.name == '{}'", shared::CONFIG_MAP));
    let judged =
        |expression| vec![condition("somebody-elses", others()), condition("judged", expression)];
    let ask = |about: (&str, &str), expression: String| {
        let (group, resource) = about;
        webhook(resource, client(), (group, VERSION, resource), judged(expression))
    };
    ValidatingWebhookConfiguration {
        metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
        webhooks: Some(vec![
            ValidatingWebhook {
                namespace_selector: Some(ours),
                ..webhook("configuration", client(), ("", "v1", "configmaps"), vec![named])
            },
            ask((LAB_GROUP, lab::INSTANCES), lab::instance_is_judged()),
            ask((LAB_GROUP, lab::TEMPLATES), lab::template_is_judged()),
            ask((GROUP_GROUP, group::GROUPS), group::group_is_judged()),
            ask((GROUP_GROUP, group::MACHINES), group::machine_is_judged()),
            ValidatingWebhook {
                rules: Some(rule((LAB_GROUP, VERSION, lab::INSTANCES), &["DELETE"], "Namespaced")),
                ..webhook(
                    "deletion",
                    client(),
                    (LAB_GROUP, VERSION, lab::INSTANCES),
                    judged(lab::deletion_is_judged()),
                )
            },
            ValidatingWebhook {
                rules: Some(rule(("", "v1", lab::CLAIMS), &["DELETE", "UPDATE"], "Namespaced")),
                ..webhook(
                    "claims",
                    client(),
                    ("", "v1", lab::CLAIMS),
                    judged(lab::claim_is_judged()),
                )
            },
            ValidatingWebhook {
                rules: Some(rule(("", "v1", lab::NAMESPACES), &["DELETE"], "Cluster")),
                // Every namespace of the cluster is asked about. What is owed stays safe without us, as
                // its finalizers hold it; that no namespace could be deleted would be worse.
                failure_policy: Some("Ignore".to_owned()),
                ..webhook(
                    "namespaces",
                    client(),
                    ("", "v1", lab::NAMESPACES),
                    judged(lab::namespace_is_judged()),
                )
            },
            ValidatingWebhook {
                rules: Some(rule(("", "v1", pod::PODS), &["DELETE"], "Namespaced")),
                // The Pods of machines alone, which can be deleted when we are not there: only their
                // drain is lost.
                object_selector: Some(machines),
                failure_policy: Some("Ignore".to_owned()),
                ..webhook(pod::PODS, client(), ("", "v1", pod::PODS), judged(pod::is_judged()))
            },
        ]),
    }
}

fn webhook(
    name: &str,
    client_config: WebhookClientConfig,
    about: (&str, &str, &str),
    conditions: Vec<MatchCondition>,
) -> ValidatingWebhook {
    ValidatingWebhook {
        name: format!("{name}.{NAME}"),
        admission_review_versions: vec!["v1".to_owned()],
        client_config,
        failure_policy: Some("Fail".to_owned()),
        match_policy: Some("Equivalent".to_owned()),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        rules: Some(rule(about, &["CREATE", "UPDATE"], "Namespaced")),
        match_conditions: Some(conditions),
        ..ValidatingWebhook::default()
    }
}

/// Which writes of a resource are asked about.
fn rule(
    (group, version, resource): (&str, &str, &str),
    operations: &[&str],
    scope: &str,
) -> Vec<RuleWithOperations> {
    vec![RuleWithOperations {
        api_groups: Some(vec![group.to_owned()]),
        api_versions: Some(vec![version.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        operations: Some(operations.iter().map(|one| (*one).to_owned()).collect()),
        scope: Some(scope.to_owned()),
    }]
}

fn condition(name: &str, expression: String) -> MatchCondition {
    MatchCondition { name: name.to_owned(), expression }
}

/// The controllers' own writes: the webhook is served by the same program, so it would wait for
/// itself, and one replica that cannot judge would stop the one that acts. What the configuration is
/// may be said by nobody without being judged, which is why its webhook does not have this.
fn others() -> String {
    format!("request.userInfo.username != '{}'", install::user_name())
}
