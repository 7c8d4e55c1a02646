//! Who may pass: whoever may `get` the subresource `access` of the instance.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Extensions;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
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
    /// Acts with the visitor's rights.
    pub client: kube::Client,
    /// Whether the visitor's browser talks TLS.
    pub secure: bool,
}

impl fmt::Debug for Visitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitor").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Finds the visitor in a request's extensions, where the door put them.
pub type Visitors = Arc<dyn Fn(&Extensions) -> Option<Visitor> + Send + Sync>;

/// Why nobody knows whether a visitor may pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdmitError {
    #[error("cannot ask the API whether access to {key} is allowed: {source}")]
    Review { key: Key, source: Box<kube::Error> },
    #[error("the API did not say in time whether access to {key} is allowed")]
    Timeout { key: Key },
}

/// Verdicts of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct Admissions(Mutex<HashMap<(String, Key), Verdict>>);

#[derive(Debug)]
struct Verdict {
    allowed: bool,
    until: Instant,
}

impl Admissions {
    pub(crate) async fn allows(&self, visitor: &Visitor, key: &Key) -> Result<bool, AdmitError> {
        let question = (visitor.id.clone(), key.clone());
        if let Some(allowed) = self.recall(&question) {
            return Ok(allowed);
        }
        let asked = tokio::time::timeout(PATIENCE, ask(visitor, key)).await;
        let allowed = asked
            .map_err(|_| AdmitError::Timeout { key: key.clone() })?
            .map_err(|error| AdmitError::Review { key: key.clone(), source: Box::new(error) })?;
        self.remember(question, allowed);
        Ok(allowed)
    }

    fn recall(&self, question: &(String, Key)) -> Option<bool> {
        let verdicts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = verdicts.get(question)?;
        (verdict.until > Instant::now()).then_some(verdict.allowed)
    }

    fn remember(&self, question: (String, Key), allowed: bool) {
        let now = Instant::now();
        let mut verdicts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if verdicts.len() >= REMEMBERED {
            verdicts.retain(|_, verdict| verdict.until > now);
        }
        // Full of what still holds: asking again is all that it costs.
        if verdicts.len() < REMEMBERED {
            verdicts.insert(question, Verdict { allowed, until: now + REMEMBERED_FOR });
        }
    }
}

async fn ask(visitor: &Visitor, key: &Key) -> Result<bool, kube::Error> {
    let attributes = ResourceAttributes {
        group: Some("lab.sojourn.dev".to_owned()),
        version: Some("v1alpha1".to_owned()),
        resource: Some("instances".to_owned()),
        subresource: Some("access".to_owned()),
        verb: Some("get".to_owned()),
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
        ..ResourceAttributes::default()
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(visitor.client.clone());
    let reviewed = reviews.create(&PostParams::default(), &review).await?;
    Ok(reviewed.status.is_some_and(|status| status.allowed && status.denied != Some(true)))
}
