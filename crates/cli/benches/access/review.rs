//! What is asked: a fifth of the reviews are allowed by a session, the others by none.

use bytes::Bytes;
use serde_json::json;

use super::plan::Plan;

/// Namespaces with roles and bindings.
pub(crate) const NAMESPACES: usize = 50;
/// Groups whose rights sessions give.
const GROUPS: usize = 500;
/// Of so many reviews, one is allowed.
pub(crate) const ONE_ALLOWED_OF: usize = 5;
/// From one session to the next: never to a neighbour.
const STRIDE: usize = 7_919;

pub(crate) fn group_of(number: usize) -> String {
    format!("on-call-{}", number % GROUPS)
}

pub(crate) fn namespace_of(number: usize) -> String {
    format!("team-{}", number % NAMESPACES)
}

pub(crate) fn user_of(session: usize) -> String {
    format!("user-{session}@example.org")
}

/// A review, with what should be answered.
#[derive(Debug, Clone)]
pub(crate) struct Review {
    pub(crate) body: Bytes,
    pub(crate) is_allowed: bool,
}

impl Review {
    /// The user of a session wants something that its group may do.
    pub(crate) fn allowed(session: usize) -> Self {
        let namespace = namespace_of(session);
        Self { body: body(&user_of(session), "get", "pods", &namespace), is_allowed: true }
    }

    /// The user of a session wants something that its group may not do.
    fn refused(session: usize) -> Self {
        let namespace = namespace_of(session);
        Self { body: body(&user_of(session), "delete", "secrets", &namespace), is_allowed: false }
    }

    /// Somebody without a session.
    fn of_stranger(number: usize) -> Self {
        let user = format!("system:serviceaccount:{}:worker-{number}", namespace_of(number));
        Self { body: body(&user, "get", "pods", &namespace_of(number)), is_allowed: false }
    }
}

/// Reviews about every session that is not used steadily; of every five, one is allowed, two are of a user
/// whose session does not allow it, and two are of strangers.
pub(crate) fn all(plan: &Plan) -> Vec<Review> {
    let sessions = plan.sessions - plan.steady;
    let review = |number: usize| {
        let session = plan.steady + number / ONE_ALLOWED_OF * STRIDE % sessions;
        match number % ONE_ALLOWED_OF {
            0 => Review::allowed(session),
            1 | 2 => Review::refused(session),
            _ => Review::of_stranger(number),
        }
    };
    (0..sessions * ONE_ALLOWED_OF).map(review).collect()
}

/// As kube-apiserver posts it.
fn body(user: &str, verb: &str, resource: &str, namespace: &str) -> Bytes {
    let review = json!({
        "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "metadata": {"creationTimestamp": null},
        "spec": {
            "resourceAttributes": {
                "namespace": namespace, "verb": verb, "version": "v1", "resource": resource,
                "name": "checkout-7d5c6f9b8-x2x4q",
            },
            "user": user, "groups": ["developers", "system:authenticated"],
            "uid": "6f6f2f3e-6a39-4a3c-9d0a-0c8f2f7c9f11",
            "extra": {"authentication.kubernetes.io/credential-id": ["X509SHA256=4f6c0e"]},
        },
        "status": {"allowed": false},
    });
    review.to_string().into()
}
