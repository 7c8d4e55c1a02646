//! An authorizer of the program around the engine, asked about requests that no other authorizer allows.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use futures::future::BoxFuture;
use sojourn_rbac::Attributes;

use crate::auth::authorize::AuthorizationDecision;

/// Answers for requests about which superusers, nodes and RBAC have no opinion. It is called while a
/// request waits, so it must not block, and it must not call the engine before it has answered.
pub trait ExtensionAuthorizer: Send + Sync + fmt::Debug {
    /// `request.user` is who the request acts as, with groups and `extra`: whom the caller impersonates,
    /// if they do.
    fn authorize(&self, request: &Attributes<'_>, question: Question) -> ExtensionDecision;
}

/// Why somebody wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The request is about to be made, or another server decides about one of its own by a
    /// SubjectAccessReview.
    Request,
    /// Users ask what they themselves may do, by a SelfSubjectAccessReview.
    SelfReview,
}

/// The answer of an [`ExtensionAuthorizer`]. It never denies.
pub enum ExtensionDecision {
    Allow {
        reason: String,
        /// What must be over before the request is carried out. It has a limit of its own; what it comes to
        /// changes nothing. It is dropped where an answer cannot wait, as within a review.
        before_answer: Option<BoxFuture<'static, ()>>,
    },
    NoOpinion {
        reason: String,
    },
}

impl fmt::Debug for ExtensionDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allow { reason, before_answer } => f
                .debug_struct("Allow")
                .field("reason", reason)
                .field("waits", &before_answer.is_some())
                .finish(),
            Self::NoOpinion { reason } => {
                f.debug_struct("NoOpinion").field("reason", reason).finish()
            }
        }
    }
}

impl From<ExtensionDecision> for AuthorizationDecision {
    fn from(decision: ExtensionDecision) -> Self {
        match decision {
            ExtensionDecision::Allow { reason, before_answer: _ } => Self::allow(reason),
            ExtensionDecision::NoOpinion { reason } => Self::no_opinion(reason),
        }
    }
}

/// The extension of an engine, which may come after the engine was opened, and be replaced.
#[derive(Debug, Default)]
pub(crate) struct ExtensionSlot(RwLock<Option<Arc<dyn ExtensionAuthorizer>>>);

impl ExtensionSlot {
    pub(crate) fn set(&self, extension: Arc<dyn ExtensionAuthorizer>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(extension);
    }

    /// Its answer; nothing, if there is none.
    pub(crate) fn ask(
        &self,
        request: &Attributes<'_>,
        question: Question,
    ) -> Option<ExtensionDecision> {
        let extension = self.0.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(extension.authorize(request, question))
    }
}
