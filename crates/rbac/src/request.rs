//! Who asks, and for what.

use std::collections::BTreeMap;

/// Its members may do anything, before any policy is asked.
pub const SUPERUSER_GROUP: &str = "system:masters";

/// An authenticated user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// [`Policy::authorize`](crate::Policy::authorize) doesn't know superusers: whoever composes
    /// authorizers asks this first, as upstream does.
    pub fn is_superuser(&self) -> bool {
        self.is_in(SUPERUSER_GROUP)
    }
}

/// One term of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    pub field: String,
    pub value: String,
    /// `=` and `==`; otherwise `!=`.
    pub equals: bool,
}

/// One request, as authorizers see it.
///
/// A list or watch with the field selector `metadata.name=x` carries `name: "x"`, so that rules with
/// `resourceNames` apply to it; a create carries no name, because authorizers run before the body is
/// read. Whoever fills this in sees to both.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    pub user: &'a User,
    pub verb: &'a str,
    /// `""` for the cluster scope.
    pub namespace: &'a str,
    pub api_group: &'a str,
    pub api_version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub name: &'a str,
    pub path: &'a str,
    pub is_resource_request: bool,
    /// RBAC doesn't look at it; other authorizers may.
    pub field_selector: &'a [FieldRequirement],
}

impl<'a> Attributes<'a> {
    /// A request for a resource at the cluster scope; set the other members with struct update.
    pub const fn on_resource(
        user: &'a User,
        verb: &'a str,
        api_group: &'a str,
        resource: &'a str,
    ) -> Self {
        Self {
            user,
            verb,
            namespace: "",
            api_group,
            api_version: "*",
            resource,
            subresource: "",
            name: "",
            path: "",
            is_resource_request: true,
            field_selector: &[],
        }
    }

    /// A request for a path that is no resource, such as `/metrics`. The verb is the HTTP method in
    /// lower case.
    pub const fn on_path(user: &'a User, verb: &'a str, path: &'a str) -> Self {
        Self {
            path,
            api_version: "",
            is_resource_request: false,
            ..Self::on_resource(user, verb, "", "")
        }
    }
}
