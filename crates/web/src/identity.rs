//! Who calls, as the API knows them, and the token that proves it.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{Context, SHA256};

/// Groups with this prefix are Kubernetes' own; the API alone decides who is in them.
const SYSTEM: &str = "system:";
/// Everybody whom the API knows is in it.
const AUTHENTICATED: &str = "system:authenticated";
/// Every service account is in it, and in the one of its namespace.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
/// What the name of a service account begins with; its namespace follows.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// A user of the API: what its access rules are about. It holds no group of Kubernetes' own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    pub groups: Vec<String>,
    pub uid: String,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// A text that two identities share only if they are equal: what review results about them may
    /// be remembered by.
    pub fn fingerprint(&self) -> String {
        let mut context = Context::new(&SHA256);
        let mut add = |text: &str| {
            context.update(&text.len().to_be_bytes());
            context.update(text.as_bytes());
        };
        let mut add_list = |list: &[String]| {
            add(&list.len().to_string());
            list.iter().for_each(|text| add(text));
        };
        add_list(&[self.name.clone(), self.uid.clone()]);
        add_list(&self.groups);
        for (key, values) in &self.extra {
            add_list(std::slice::from_ref(key));
            add_list(values);
        }
        URL_SAFE_NO_PAD.encode(context.finish())
    }

    /// The groups that access is reviewed with: the identity's own, and those of Kubernetes that
    /// follow from having been authenticated under this name.
    pub fn review_groups(&self) -> Vec<String> {
        let mut groups = self.groups.clone();
        groups.extend(implied_groups(&self.name));
        groups
    }

    /// Whether it is the same user, whatever groups they are in by now.
    pub(crate) fn is_same_user(&self, other: &Self) -> bool {
        self.name == other.name && self.uid == other.uid
    }

    /// Takes out the groups of Kubernetes' own. The first that grants more than being known is
    /// told: whoever is in such a group does not come in with it.
    pub(crate) fn remove_system_groups(&mut self) -> Option<String> {
        let implied = implied_groups(&self.name);
        let (system, own): (Vec<_>, Vec<_>) =
            self.groups.drain(..).partition(|group| group.starts_with(SYSTEM));
        self.groups = own;
        system.into_iter().find(|group| !implied.contains(group))
    }
}

/// The groups that the API puts a user in because of the name alone.
fn implied_groups(name: &str) -> Vec<String> {
    let mut groups = vec![AUTHENTICATED.to_owned()];
    let account = name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
    if let Some((namespace, _)) = account {
        groups.push(SERVICE_ACCOUNTS.to_owned());
        groups.push(format!("{SERVICE_ACCOUNTS}:{namespace}"));
    }
    groups
}

/// A bearer token of the API. It is kept in memory only, and shown only on demand.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(String);

impl BearerToken {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(…)")
    }
}

/// Somebody, with the token that the API knows them by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    pub identity: Identity,
    pub token: BearerToken,
}

/// Makes clients that show somebody's own token, and so have their rights and no others.
pub trait Clients: Send + Sync {
    fn client_with(&self, token: &BearerToken) -> kube::Client;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str, groups: &[&str], extra: &[(&str, &str)]) -> Identity {
        Identity {
            name: name.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            uid: String::new(),
            extra: extra.iter().map(|&(k, v)| (k.to_owned(), vec![v.to_owned()])).collect(),
        }
    }

    #[test]
    fn only_equal_identities_share_a_fingerprint() {
        let all = [
            identity("ada", &[], &[]),
            identity("adab", &[], &[]),
            identity("ada", &["b"], &[]),
            identity("ada", &["b", "c"], &[]),
            identity("ada", &["bc"], &[]),
            identity("ada", &[], &[("b", "c")]),
            identity("ada", &["b", "c"], &[("b", "c")]),
            Identity { uid: "b".to_owned(), ..identity("ada", &[], &[]) },
        ];
        for (i, one) in all.iter().enumerate() {
            for (j, other) in all.iter().enumerate() {
                assert_eq!(one.fingerprint() == other.fingerprint(), i == j, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn no_group_of_kubernetes_own_stays_and_those_that_grant_more_are_told() {
        let robot = "system:serviceaccount:ci:robot";
        for (name, groups, own, told) in [
            ("ada", &["staff", "system:authenticated"][..], &["staff"][..], None),
            ("ada", &["system:masters", "staff"], &["staff"], Some("system:masters")),
            ("n", &["system:nodes", "system:authenticated"], &[], Some("system:nodes")),
            ("ada", &["system:serviceaccounts"], &[], Some("system:serviceaccounts")),
            (robot, &["system:serviceaccounts", "system:serviceaccounts:ci"], &[], None),
            (robot, &["system:serviceaccounts:x"], &[], Some("system:serviceaccounts:x")),
        ] {
            let mut somebody = identity(name, groups, &[]);
            assert_eq!(somebody.remove_system_groups().as_deref(), told, "{name} {groups:?}");
            assert_eq!(somebody.groups, own, "{name} {groups:?}");
        }
    }

    #[test]
    fn access_is_reviewed_with_the_groups_that_the_api_implies() {
        let ada = identity("ada", &["staff"], &[]);
        assert_eq!(ada.review_groups(), ["staff", "system:authenticated"]);
        let robot = identity("system:serviceaccount:ci:robot", &[], &[]);
        let implied =
            ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:ci"];
        assert_eq!(robot.review_groups(), implied);
    }
}
