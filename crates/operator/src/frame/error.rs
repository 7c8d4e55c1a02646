//! What could not be done at the API.

use super::reconcile::Class;

/// A request of a controller that did not do what it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("cannot {what}: it is gone")]
    Gone { what: &'static str },
    #[error("cannot {what}: it has changed meanwhile")]
    Outdated { what: &'static str },
    /// Names are built from an object's own, and anybody may have taken one before.
    #[error("cannot {what}: there is another {kind} {name}, which is not ours and stays as it is")]
    Taken { what: &'static str, kind: String, name: String },
    #[error("cannot {what}: an earlier {kind} {name} is not gone yet")]
    Leaving { what: &'static str, kind: String, name: String },
    #[error("cannot {what}: the {kind} {name} is not there")]
    Missing { what: &'static str, kind: &'static str, name: String },
    #[error("cannot {what}: the definition of its kind is too old to keep {fields}")]
    Dropped { what: &'static str, fields: String },
    #[error("cannot {what}")]
    Api { what: &'static str, source: Box<kube::Error> },
}

impl RequestError {
    /// What came of trying to do `what`.
    pub(crate) fn of(what: &'static str, error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) if status.is_not_found() => Self::Gone { what },
            kube::Error::Api(status) if status.is_conflict() => Self::Outdated { what },
            _ => Self::Api { what, source: Box::new(error) },
        }
    }

    /// Whether a write that failed so may have taken effect all the same.
    pub(crate) fn is_unclear(error: &kube::Error) -> bool {
        match error {
            kube::Error::Api(status) => status.code >= 500,
            _ => true,
        }
    }

    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Outdated { .. } | Self::Gone { .. } => Class::Outdated,
            Self::Leaving { .. } => Class::Transient,
            Self::Taken { .. } | Self::Missing { .. } | Self::Dropped { .. } => Class::Blocked,
            Self::Api { source, .. } => match &**source {
                kube::Error::Api(status) if matches!(status.code, 400 | 401 | 403 | 422) => {
                    Class::Blocked
                }
                kube::Error::SerdeError(_) => Class::Bug,
                _ => Class::Transient,
            },
        }
    }
}
