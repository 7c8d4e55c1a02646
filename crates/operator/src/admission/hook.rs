//! Which requests an API server asks about.

use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, Operation};

use super::request::about;

/// Writes of one resource, as a rule of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The first part of the webhook's name.
    pub name: &'static str,
    pub group: &'static str,
    pub version: &'static str,
    /// As a webhook's rule names it: with a slash, only that subresource.
    pub resource: &'static str,
    pub operations: &'static [&'static str],
    /// `Namespaced` or `Cluster`.
    pub scope: &'static str,
    /// Only in this namespace.
    pub namespace: Option<&'static str>,
    /// Only objects that have this label.
    pub label: Option<&'static str>,
    /// Only requests of which this expression is true: what is reviewed is not as it was.
    pub expression: String,
    /// Whether the controllers' own writes are reviewed, too. The webhook is served by the same program, so
    /// it would wait for itself, and one replica that cannot review would stop the one that acts.
    pub reviews_controllers: bool,
    /// Whether the request goes on when nobody answers.
    pub ignores_failures: bool,
}

impl Hook {
    /// Creates and updates of a resource in a namespace; nobody writes them unless they are reviewed.
    pub(super) fn writes(
        (group, version, resource): (&'static str, &'static str, &'static str),
        expression: String,
    ) -> Self {
        Self {
            name: resource,
            group,
            version,
            resource,
            operations: &["CREATE", "UPDATE"],
            scope: "Namespaced",
            namespace: None,
            label: None,
            expression,
            reviews_controllers: false,
            ignores_failures: false,
        }
    }

    /// Whether a request is one of those, by its resource, operation and namespace. The label and the
    /// expression only make a cluster ask less: rules do not rely on them.
    pub(super) fn covers(&self, request: &AdmissionRequest<DynamicObject>) -> bool {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((self.resource, ""));
        let operation = match request.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        };
        about(request) == (self.group, resource, subresource)
            && self.operations.contains(&operation)
            && self
                .namespace
                .is_none_or(|namespace| request.namespace.as_deref() == Some(namespace))
    }
}
