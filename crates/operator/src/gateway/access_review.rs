//! Asks the API (SubjectAccessReview) who may use an object: whoever may `get` its subresource
//! `access`; and who may start it: whoever may `update` it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Extensions;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use sojourn_core::key::Key;
use tokio::time::Instant;

use super::backend::LentResource;
use super::target::LentObject;

/// How long an answer of the API holds without asking again.
const REVIEW_TTL: Duration = Duration::from_secs(10);
const MAX_CACHED_REVIEWS: usize = 16_384;
/// How long the API may take to answer.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Somebody who is signed in.
#[derive(Clone)]
pub struct Visitor {
    /// Two with the same one have the same rights; answers of the API are cached by it.
    pub id: String,
    pub user: User,
    /// Whether the visitor's browser talks TLS.
    pub secure: bool,
    pub ended: SessionEnded,
    /// Of the environment at whose origin they are; at ours there is none.
    pub label: Option<String>,
    pub origin_urls: Arc<dyn OriginUrls>,
}

/// The ways between our origin and those of environments, for one visitor.
pub trait OriginUrls: Send + Sync {
    /// From our origin to the environment with this label: the address, for one use. None where no
    /// name leads there.
    fn environment_url(&self, label: &str, path: &str) -> Option<String>;

    /// From an environment's origin to ours.
    fn own_url(&self, path: &str) -> String;
}

/// A user as the API's access rules know them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
    pub uid: String,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Waits until a visitor is not who they were any more: signed out, or without their account.
pub type SessionEnded = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

impl fmt::Debug for Visitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitor").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Finds the visitor in a request's extensions, where the sign-in put them.
pub type VisitorLookup = Arc<dyn Fn(&Extensions) -> Option<Visitor> + Send + Sync>;

/// What a visitor wants of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AccessRight {
    Use,
    Start,
}

/// Why it is not known whether a visitor may.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessReviewError {
    #[error("cannot ask the API whether access to {key} is allowed: {source}")]
    Review { key: Key, source: Box<kube::Error> },
    #[error("the API did not say in time whether access to {key} is allowed")]
    Timeout { key: Key },
}

/// Access reviews of the last seconds. They are asked for with the operator's own client, about the
/// visitor: nobody acts as somebody else.
pub(crate) struct AccessReviews {
    reviews: Api<SubjectAccessReview>,
    reviewed: Mutex<HashMap<ReviewKey, CachedReview>>,
}

type ReviewKey = (String, LentObject, AccessRight);

struct CachedReview {
    allowed: bool,
    until: Instant,
}

impl AccessReviews {
    pub(crate) fn new(client: kube::Client) -> Self {
        Self { reviews: Api::all(client), reviewed: Mutex::default() }
    }

    pub(crate) async fn allows(
        &self,
        visitor: &Visitor,
        (object, resource): (&LentObject, LentResource),
        right: AccessRight,
    ) -> Result<bool, AccessReviewError> {
        let key = &object.key;
        let review_key = (visitor.id.clone(), object.clone(), right);
        if let Some(allowed) = self.cached_answer(&review_key) {
            return Ok(allowed);
        }
        let review = review(&visitor.user, key, resource, right);
        let params = PostParams::default();
        let asked =
            tokio::time::timeout(REVIEW_TIMEOUT, self.reviews.create(&params, &review)).await;
        let status = asked
            .map_err(|_| AccessReviewError::Timeout { key: key.clone() })?
            .map_err(|error| AccessReviewError::Review {
                key: key.clone(),
                source: Box::new(error),
            })?
            .status;
        let allowed = status.is_some_and(|status| status.allowed && status.denied != Some(true));
        self.cache_answer(review_key, allowed);
        Ok(allowed)
    }

    fn cached_answer(&self, review_key: &ReviewKey) -> Option<bool> {
        let reviewed = self.reviewed.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = reviewed.get(review_key)?;
        (cached.until > Instant::now()).then_some(cached.allowed)
    }

    fn cache_answer(&self, review_key: ReviewKey, allowed: bool) {
        let now = Instant::now();
        let mut reviewed = self.reviewed.lock().unwrap_or_else(PoisonError::into_inner);
        if reviewed.len() >= MAX_CACHED_REVIEWS {
            reviewed.retain(|_, cached| cached.until > now);
        }
        // The cache is full of valid answers; this one is not cached and costs one more request.
        if reviewed.len() < MAX_CACHED_REVIEWS {
            reviewed.insert(review_key, CachedReview { allowed, until: now + REVIEW_TTL });
        }
    }
}

fn review(
    user: &User,
    key: &Key,
    resource: LentResource,
    right: AccessRight,
) -> SubjectAccessReview {
    let (verb, subresource) = match right {
        AccessRight::Use => ("get", Some("access".to_owned())),
        AccessRight::Start => ("update", None),
    };
    let attributes = ResourceAttributes {
        group: Some(resource.group.to_owned()),
        version: Some(resource.version.to_owned()),
        resource: Some(resource.resource.to_owned()),
        subresource,
        verb: Some(verb.to_owned()),
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
        ..ResourceAttributes::default()
    };
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.name.clone()),
            groups: Some(user.groups.clone()),
            uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
            extra: Some(user.extra.clone()).filter(|extra| !extra.is_empty()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}
