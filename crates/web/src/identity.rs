//! Who calls, as the API knows them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{Context, SHA256};

/// A user of the API: what its access rules are about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    pub groups: Vec<String>,
    pub uid: String,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// A text that two identities share only if they are equal: what verdicts about them may be
    /// remembered by.
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
}

/// Makes clients that act as somebody: in-process on the embedded engine, by impersonation on a
/// cluster.
pub trait Clients: Send + Sync {
    fn client_as(&self, identity: &Identity) -> kube::Client;
}

/// Who sent a request, in its extensions for whatever is mounted behind the door.
#[derive(Clone)]
pub struct Caller {
    pub identity: Arc<Identity>,
    /// Acts with the caller's rights and no others.
    pub client: kube::Client,
    /// Whether the caller's browser talks TLS, to us or to somebody in front of us.
    pub secure: bool,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("identity", &self.identity).finish_non_exhaustive()
    }
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
}
