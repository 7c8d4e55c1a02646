//! What a rule is: which requests it reviews, what must be known for that, and what follows.

use futures::future::BoxFuture;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};

use super::Setup;
use super::hook::Hook;
use super::lookup::Lookup;

/// Makes the rules of a family.
pub(super) type FamilyRules = fn(&Setup) -> Vec<RegisteredRule>;

/// What is refused of one kind, or of its deletion. [`Rule::needs`] and [`Rule::review`] are pure;
/// in between, [`Rule::look_up`] asks the API.
pub(super) trait Rule: Send + Sync {
    type Needs: Send;
    type Answers: Send + Sync;

    /// Which requests it reviews.
    fn hook(&self) -> Hook;

    /// Whether a request that its hook covers is any of its business.
    fn concerns(&self, _request: &AdmissionRequest<DynamicObject>) -> bool {
        true
    }

    /// What must be known before a request can be reviewed.
    fn needs(&self, request: &AdmissionRequest<DynamicObject>) -> Self::Needs;

    /// What the API says about that.
    fn look_up(
        &self,
        needs: Self::Needs,
        lookup: Lookup<'_>,
    ) -> impl Future<Output = Self::Answers> + Send;

    /// Whether the request may go on.
    fn review(
        &self,
        request: &AdmissionRequest<DynamicObject>,
        answers: &Self::Answers,
    ) -> AdmissionResponse;
}

/// A rule of any kind, with its hook, which is made once.
pub(super) struct RegisteredRule {
    pub(super) hook: Hook,
    rule: Box<dyn ErasedRule>,
}

impl RegisteredRule {
    pub(super) fn new(rule: impl Rule + 'static) -> Self {
        Self { hook: rule.hook(), rule: Box::new(rule) }
    }

    /// Reviews a request; nothing if it is none of its business.
    pub(super) fn review<'a>(
        &'a self,
        request: &'a AdmissionRequest<DynamicObject>,
        lookup: Lookup<'a>,
    ) -> Option<BoxFuture<'a, AdmissionResponse>> {
        self.hook.covers(request).then(|| self.rule.ask_and_review(request, lookup)).flatten()
    }
}

/// A [`Rule`] without its types, so that rules of different kinds can be in one list.
trait ErasedRule: Send + Sync {
    fn ask_and_review<'a>(
        &'a self,
        request: &'a AdmissionRequest<DynamicObject>,
        lookup: Lookup<'a>,
    ) -> Option<BoxFuture<'a, AdmissionResponse>>;
}

impl<R: Rule> ErasedRule for R {
    fn ask_and_review<'a>(
        &'a self,
        request: &'a AdmissionRequest<DynamicObject>,
        lookup: Lookup<'a>,
    ) -> Option<BoxFuture<'a, AdmissionResponse>> {
        if !self.concerns(request) {
            return None;
        }
        Some(Box::pin(async move {
            let answers = self.look_up(self.needs(request), lookup).await;
            self.review(request, &answers)
        }))
    }
}
