//! Who may pass, by the API's word: whoever may `get` the subresource `access` of the instance; and
//! who may start it: whoever may `update` the instance.

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

/// How long a verdict holds without asking again.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);
const REMEMBERED: usize = 16_384;
/// How long the API may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Somebody who was let in at the door.
#[derive(Clone)]
pub struct Visitor {
    /// Two with the same one have the same rights; verdicts are remembered by it.
    pub id: String,
    pub user: User,
    /// Whether the visitor's browser talks TLS.
    pub secure: bool,
    pub ended: Ended,
    /// Of the environment at whose origin they are; at ours there is none.
    pub label: Option<String>,
    pub ways: Arc<dyn Ways>,
}

/// The ways between our origin and those of environments, for one visitor.
pub trait Ways: Send + Sync {
    /// From our origin to the environment with this label: the address, for one use. None where no
    /// name leads there.
    fn lent(&self, label: &str, path: &str) -> Option<String>;

    /// From an environment's origin to ours.
    fn own(&self, path: &str) -> String;
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
pub type Ended = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

impl fmt::Debug for Visitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitor").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Finds the visitor in a request's extensions, where the door put them.
pub type Visitors = Arc<dyn Fn(&Extensions) -> Option<Visitor> + Send + Sync>;

/// What a visitor wants of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Right {
    Use,
    Start,
}

/// Why nobody knows whether a visitor may.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdmitError {
    #[error("cannot ask the API whether access to {key} is allowed: {source}")]
    Review { key: Key, source: Box<kube::Error> },
    #[error("the API did not say in time whether access to {key} is allowed")]
    Timeout { key: Key },
}

/// Verdicts of the last seconds. They are asked for with the operator's own client, about the
/// visitor: nobody acts as somebody else.
pub(crate) struct Admissions {
    reviews: Api<SubjectAccessReview>,
    verdicts: Mutex<HashMap<Question, Verdict>>,
}

type Question = (String, Key, Right);

struct Verdict {
    allowed: bool,
    until: Instant,
}

impl Admissions {
    pub(crate) fn new(client: kube::Client) -> Self {
        Self { reviews: Api::all(client), verdicts: Mutex::default() }
    }

    pub(crate) async fn allows(
        &self,
        visitor: &Visitor,
        key: &Key,
        right: Right,
    ) -> Result<bool, AdmitError> {
        let question = (visitor.id.clone(), key.clone(), right);
        if let Some(allowed) = self.recall(&question) {
            return Ok(allowed);
        }
        let review = review(&visitor.user, key, right);
        let params = PostParams::default();
        let asked = tokio::time::timeout(PATIENCE, self.reviews.create(&params, &review)).await;
        let status = asked
            .map_err(|_| AdmitError::Timeout { key: key.clone() })?
            .map_err(|error| AdmitError::Review { key: key.clone(), source: Box::new(error) })?
            .status;
        let allowed = status.is_some_and(|status| status.allowed && status.denied != Some(true));
        self.remember(question, allowed);
        Ok(allowed)
    }

    fn recall(&self, question: &Question) -> Option<bool> {
        let verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = verdicts.get(question)?;
        (verdict.until > Instant::now()).then_some(verdict.allowed)
    }

    fn remember(&self, question: Question, allowed: bool) {
        let now = Instant::now();
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        if verdicts.len() >= REMEMBERED {
            verdicts.retain(|_, verdict| verdict.until > now);
        }
        // Full of what still holds: asking again is all that it costs.
        if verdicts.len() < REMEMBERED {
            verdicts.insert(question, Verdict { allowed, until: now + REMEMBERED_FOR });
        }
    }
}

fn review(user: &User, key: &Key, right: Right) -> SubjectAccessReview {
    let (verb, subresource) = match right {
        Right::Use => ("get", Some("access".to_owned())),
        Right::Start => ("update", None),
    };
    let attributes = ResourceAttributes {
        group: Some("lab.sojourn.dev".to_owned()),
        version: Some("v1alpha1".to_owned()),
        resource: Some("instances".to_owned()),
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
