//! A SubjectAccessReview, as an API server posts it and as it is answered.

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec,
};
use serde::{Deserialize, Serialize};
use sojourn_rbac::{Attributes, User};

const API_VERSION: &str = "authorization.k8s.io/v1";
const KIND: &str = "SubjectAccessReview";

/// Why a body is no review.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("this is no {KIND} in {API_VERSION}: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("this is no {KIND} in {API_VERSION}: {0}")]
    NotText(#[from] std::str::Utf8Error),
    #[error("this is a {kind:?} in {api_version:?}, and only {KIND} in {API_VERSION} is reviewed")]
    Kind { api_version: String, kind: String },
}

/// What an API server wants to know.
#[derive(Debug)]
pub(super) struct Review {
    user: User,
    asked: Asked,
}

/// One of both, or it is not clear what is asked for.
#[derive(Debug)]
struct Asked {
    resource: Option<ResourceAttributes>,
    path: Option<NonResourceAttributes>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    api_version: String,
    kind: String,
    spec: SubjectAccessReviewSpec,
}

impl Review {
    pub(super) fn parse(body: &[u8]) -> Result<Self, ReviewError> {
        // Fields that are not read would be skipped, whatever bytes they have.
        let text = std::str::from_utf8(body)?;
        let Body { api_version, kind, spec } = serde_json::from_str(text)?;
        if api_version != API_VERSION || kind != KIND {
            return Err(ReviewError::Kind { api_version, kind });
        }
        let asked =
            Asked { resource: spec.resource_attributes, path: spec.non_resource_attributes };
        let user = User {
            name: spec.user.unwrap_or_default(),
            uid: spec.uid.unwrap_or_default(),
            // What groups it names is not for us to judge by, so they are not even read.
            groups: Vec::new(),
            extra: spec.extra.unwrap_or_default(),
        };
        Ok(Self { user, asked })
    }

    /// The request that is asked about, if it is clear which.
    pub(super) fn attributes(&self) -> Option<Attributes<'_>> {
        fn text(value: &Option<String>) -> &str {
            value.as_deref().unwrap_or_default()
        }
        let user = &self.user;
        match (&self.asked.resource, &self.asked.path) {
            (Some(resource), None) => Some(Attributes {
                namespace: text(&resource.namespace),
                api_version: text(&resource.version),
                subresource: text(&resource.subresource),
                name: text(&resource.name),
                ..Attributes::on_resource(
                    user,
                    text(&resource.verb),
                    text(&resource.group),
                    text(&resource.resource),
                )
            }),
            (None, Some(path)) => {
                Some(Attributes::on_path(user, text(&path.verb), text(&path.path)))
            }
            // Nothing that anybody could allow.
            (None, None) | (Some(_), Some(_)) => None,
        }
    }
}

/// The answer to a review. `denied` is never set: what we do not allow, others may.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReviewAnswer<'a> {
    api_version: &'static str,
    kind: &'static str,
    status: ReviewStatus<'a>,
}

#[derive(Debug, Serialize)]
struct ReviewStatus<'a> {
    allowed: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
}

impl<'a> ReviewAnswer<'a> {
    pub(super) const fn new(allowed: bool, reason: &'a str) -> Self {
        Self { api_version: API_VERSION, kind: KIND, status: ReviewStatus { allowed, reason } }
    }
}
