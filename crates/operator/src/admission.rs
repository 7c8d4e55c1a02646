//! What is refused before it is written, where a schema cannot tell: a bad configuration, and marks
//! on Instances that only some people may set.
//!
//! The judgement is pure and in two steps: [`needs`] says which permissions must be known,
//! [`judge`] decides when they are. Around it is one service, which the embedded engine calls in the
//! process and a cluster calls as a webhook. What cannot be found out is refused.

mod rule;
mod webhook;

pub use rule::{Answers, Needs, Permission, judge, needs};
pub use webhook::{PATH, Target, configuration};

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use kube::{Api, Client};
use sojourn_api::name::{LAB_GROUP, shared};
use tower::util::BoxCloneService;

/// The groups and resources whose writes are judged.
pub const GROUPS: [&str; 2] = ["", LAB_GROUP];
pub const RESOURCES: [&str; 3] = ["configmaps", "instances", "templates"];
/// What refusals are signed with.
pub const NAME: &str = "admission.sojourn.dev";

/// How long a permission may take to be found out. Whoever waits for us waits ten seconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// The judge, with a way to ask for permissions once there is one: an engine needs its hooks before
/// it has clients.
#[derive(Clone, Default)]
pub struct Admission {
    client: Arc<OnceLock<Client>>,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").field("connected", &self.client.get().is_some()).finish()
    }
}

impl Admission {
    /// Gives it the client with which permissions are asked for. Only the first counts.
    pub fn connect(&self, client: Client) {
        // Set before: then there is one, and that is all that matters.
        let _ = self.client.set(client);
    }

    /// The service that an engine calls for every write of [`RESOURCES`].
    pub fn service(
        &self,
    ) -> BoxCloneService<AdmissionRequest<DynamicObject>, AdmissionResponse, Infallible> {
        let admission = self.clone();
        BoxCloneService::new(tower::service_fn(move |request| {
            let admission = admission.clone();
            async move { Ok(admission.admit(&request).await) }
        }))
    }

    /// The same as a webhook, at [`PATH`].
    pub fn router(&self) -> Router {
        webhook::router(self.clone())
    }

    async fn admit(&self, request: &AdmissionRequest<DynamicObject>) -> AdmissionResponse {
        let needs = needs(request);
        let answers = match needs.hold {
            Some(permission) => Answers { hold: Some(self.ask(request, permission).await) },
            None => Answers::default(),
        };
        judge(request, &answers)
    }

    /// Whether whoever sent the request has a permission; an error says why nobody knows.
    async fn ask(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        permission: Permission,
    ) -> Result<bool, String> {
        let Some(client) = self.client.get() else {
            return Err("permissions cannot be asked for yet".to_owned());
        };
        let review = review(request, permission);
        let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
        let params = PostParams::default();
        let asked = tokio::time::timeout(PATIENCE, reviews.create(&params, &review)).await;
        match asked {
            Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(review)) => Ok(review.status.is_some_and(|status| status.allowed)),
        }
    }
}

fn review(
    request: &AdmissionRequest<DynamicObject>,
    permission: Permission,
) -> SubjectAccessReview {
    let user = &request.user_info;
    let attributes = ResourceAttributes {
        group: Some(LAB_GROUP.to_owned()),
        resource: Some("instances".to_owned()),
        verb: Some(shared::HOLD.to_owned()),
        namespace: Some(permission.namespace),
        name: permission.name,
        ..ResourceAttributes::default()
    };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username.clone(),
            groups: user.groups.clone(),
            uid: user.uid.clone(),
            extra: user.extra.clone(),
            resource_attributes: Some(attributes),
            non_resource_attributes: None,
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests;
