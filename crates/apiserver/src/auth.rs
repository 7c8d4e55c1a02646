//! Who somebody is, and what they may do: credentials, impersonation, authorization, certificates.
//!
//! Everything here is told the time, the policy and the objects; it keeps no store of its own.

pub(crate) mod authenticate;
pub(crate) mod authorize;
pub mod certificate;
pub(crate) mod extension;
pub mod identity;
pub(crate) mod impersonate;
mod jwt;
pub mod kubeconfig;
pub(crate) mod node;
pub(crate) mod service_account;
pub mod token;

use jiff::Timestamp;

use crate::json::{Access, Object};

/// What authentication and the node rules ask of the store.
pub(crate) trait LiveObjects {
    /// Whether an object is there, and as what. The namespace of a node is `""`.
    fn state(&self, kind: LiveKind, namespace: &str, name: &str) -> Option<ObjectState>;

    /// A whole Pod.
    fn pod(&self, namespace: &str, name: &str) -> Option<Object>;
}

/// The kinds that a service account's token depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LiveKind {
    ServiceAccount,
    Pod,
    Secret,
    Node,
}

impl LiveKind {
    pub(crate) const fn resource(self) -> &'static str {
        match self {
            Self::ServiceAccount => "serviceaccounts",
            Self::Pod => "pods",
            Self::Secret => "secrets",
            Self::Node => "nodes",
        }
    }
}

/// As much of an object as a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectState {
    pub(crate) uid: String,
    /// Since when the object is being deleted.
    pub(crate) deleted_at: Option<Timestamp>,
}

impl ObjectState {
    pub(crate) fn of(object: &impl Access) -> Self {
        let metadata = object.at("metadata");
        let deleted_at = metadata.at("deletionTimestamp").as_str();
        Self {
            uid: metadata.text("uid").to_owned(),
            deleted_at: deleted_at.and_then(|text| text.parse().ok()),
        }
    }
}
