//! Which requests an API server asks about.

/// Writes of one resource, as a rule of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The first part of the webhook's name.
    pub name: &'static str,
    pub group: &'static str,
    pub version: &'static str,
    pub resource: &'static str,
    pub operations: &'static [&'static str],
    /// `Namespaced` or `Cluster`.
    pub scope: &'static str,
    /// Only in this namespace.
    pub namespace: Option<&'static str>,
    /// Only objects that have this label.
    pub label: Option<&'static str>,
    /// Only requests of which this expression is true: what is judged is not as it was.
    pub expression: String,
    /// Whether the controllers' own writes are judged, too. The webhook is served by the same program, so
    /// it would wait for itself, and one replica that cannot judge would stop the one that acts.
    pub judges_controllers: bool,
    /// Whether the request goes on when nobody answers.
    pub ignores_failures: bool,
}

impl Hook {
    /// Creates and updates of a resource in a namespace; nobody writes them unless they are judged.
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
            judges_controllers: false,
            ignores_failures: false,
        }
    }
}
