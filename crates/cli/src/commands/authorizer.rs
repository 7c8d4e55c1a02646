//! What sessions allow, asked in the process of the API server.

use std::sync::Arc;

use sojourn_apiserver::{ExtensionAuthorizer, ExtensionDecision, Question};
use sojourn_operator::access::authorizer::{AccessAuthorizer, Answer};
use sojourn_operator::clock::Clock;
use sojourn_rbac::Attributes;

/// Answers for the cluster that we run on: nobody else can ask here.
#[derive(Debug)]
pub(super) struct InProcessAuthorizer {
    pub(super) authorizer: AccessAuthorizer,
    pub(super) clock: Arc<dyn Clock>,
}

impl ExtensionAuthorizer for InProcessAuthorizer {
    fn authorize(&self, request: &Attributes<'_>, question: Question) -> ExtensionDecision {
        let (authorizer, now) = (&self.authorizer, self.clock.now());
        let own = &authorizer.options().cluster;
        let answer = match question {
            Question::Request => authorizer.authorize(own, request, now),
            Question::SelfReview => authorizer.self_review(own, request, now),
        };
        match answer {
            Answer::Allowed { reason, near_deadline } => {
                let waits = !near_deadline.is_empty();
                let before_answer = waits.then(|| authorizer.stored(near_deadline));
                ExtensionDecision::Allow { reason, before_answer }
            }
            Answer::NoOpinion { reason } => ExtensionDecision::NoOpinion { reason },
        }
    }
}
