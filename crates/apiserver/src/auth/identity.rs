//! The identity that a request acts with.

use std::sync::Arc;

use serde_json::{Value, json};
use sojourn_rbac::{SUPERUSER_GROUP, User};

pub const ANONYMOUS: &str = "system:anonymous";
pub const AUTHENTICATED_GROUP: &str = "system:authenticated";
pub const UNAUTHENTICATED_GROUP: &str = "system:unauthenticated";
pub const NODES_GROUP: &str = "system:nodes";
pub const NODE_USER_PREFIX: &str = "system:node:";

/// The key in a user's `extra` that tells which credential was used.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// An authenticated user, as an extension of the HTTP request. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(Arc<User>);

impl Identity {
    /// A user as given, with every group already there.
    pub fn new(user: User) -> Self {
        Self(Arc::new(user))
    }

    /// A user whose credential was good: they are in `system:authenticated` too, unless they are
    /// said to be unauthenticated.
    pub fn authenticated(mut user: User) -> Self {
        let settled = user.name == ANONYMOUS
            || user.is_in(AUTHENTICATED_GROUP)
            || user.is_in(UNAUTHENTICATED_GROUP);
        if !settled {
            user.groups.push(AUTHENTICATED_GROUP.to_owned());
        }
        Self::new(user)
    }

    /// Nobody in particular: no credential was shown.
    pub fn anonymous() -> Self {
        Self::new(User {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED_GROUP.to_owned()],
            ..User::default()
        })
    }

    /// The server itself, which may do anything.
    pub fn server() -> Self {
        Self::authenticated(User {
            name: "system:apiserver".to_owned(),
            groups: vec![SUPERUSER_GROUP.to_owned()],
            ..User::default()
        })
    }

    /// A node's agent.
    pub fn node(name: &str) -> Self {
        Self::authenticated(User {
            name: format!("{NODE_USER_PREFIX}{name}"),
            groups: vec![NODES_GROUP.to_owned()],
            ..User::default()
        })
    }

    pub fn user(&self) -> &User {
        &self.0
    }

    /// The `UserInfo` of reviews: what is empty is left out.
    pub fn user_info(&self) -> Value {
        let User { name, uid, groups, extra } = &*self.0;
        let mut info = json!({"username": name});
        if !uid.is_empty() {
            info["uid"] = json!(uid);
        }
        if !groups.is_empty() {
            info["groups"] = json!(groups);
        }
        if !extra.is_empty() {
            info["extra"] = json!(extra);
        }
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(identity: &Identity) -> Vec<&str> {
        identity.user().groups.iter().map(String::as_str).collect()
    }

    #[test]
    fn the_authenticated_group_is_added_once() {
        let of = |name: &str, groups: &[&str]| {
            Identity::authenticated(User {
                name: name.to_owned(),
                groups: groups.iter().map(|&group| group.to_owned()).collect(),
                ..User::default()
            })
        };
        assert_eq!(groups(&of("bob", &["dev"])), ["dev", "system:authenticated"]);
        assert_eq!(groups(&of("bob", &["system:authenticated"])), ["system:authenticated"]);
        assert_eq!(groups(&of("bob", &["system:unauthenticated"])), ["system:unauthenticated"]);
        assert_eq!(groups(&of(ANONYMOUS, &[])), [""; 0]);
        assert_eq!(groups(&Identity::anonymous()), ["system:unauthenticated"]);
        assert_eq!(groups(&Identity::node("n1")), ["system:nodes", "system:authenticated"]);
        assert!(Identity::server().user().is_superuser());
    }

    #[test]
    fn user_info_leaves_out_what_is_empty() {
        assert_eq!(
            Identity::anonymous().user_info(),
            json!({"username": "system:anonymous", "groups": ["system:unauthenticated"]})
        );
        let full = Identity::new(User {
            name: "bob".to_owned(),
            uid: "7".to_owned(),
            groups: Vec::new(),
            extra: [("scopes".to_owned(), vec!["a".to_owned()])].into(),
        });
        assert_eq!(
            full.user_info(),
            json!({"username": "bob", "uid": "7", "extra": {"scopes": ["a"]}})
        );
    }
}
