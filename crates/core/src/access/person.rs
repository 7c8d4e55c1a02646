//! A person who asks for a session or acts on one.

use super::escalation::{Allowed, Approvers};
use super::session::Session;

/// Who acts, as the API server reviewed them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Person {
    pub user: String,
    pub email: Option<String>,
    pub groups: Vec<String>,
    /// Who vouched for them, if the review says so.
    pub issuer: Option<String>,
}

impl Person {
    /// Whether the session is theirs. The same name from another issuer is somebody else's.
    pub fn owns(&self, session: &Session) -> bool {
        self.user == session.user && (session.issuer.is_none() || self.issuer == session.issuer)
    }

    /// Whether they may approve, reject and cancel what others ask for. Names are compared to the letter.
    pub fn is_among(&self, approvers: &Approvers) -> bool {
        self.is_listed(&approvers.users, &approvers.groups)
    }

    /// Whether they may ask for what an escalation offers on that cluster.
    pub fn is_allowed(&self, allowed: &Allowed, cluster: &str) -> bool {
        allowed.clusters.iter().any(|allowed| allowed == cluster)
            && self.is_listed(&allowed.users, &allowed.groups)
    }

    /// Whether they may be the one who is called `user` and has that address: a name or an address of theirs is one of
    /// the other's, in any spelling that identity providers take for the same one. Somebody may have several accounts.
    pub fn may_be(&self, user: &str, email: Option<&str>) -> bool {
        let own = names(&self.user, self.email.as_deref());
        names(user, email).any(|theirs| own.clone().any(|own| own == theirs))
    }

    /// Their address, if it is no spelling of their name: with that it says nothing more.
    pub fn other_email(&self) -> Option<&str> {
        let name = spelling(&self.user);
        let email = self.email.as_deref().map(str::trim).filter(|email| !email.is_empty());
        email.filter(|email| spelling(email) != name)
    }

    fn is_listed(&self, users: &[String], groups: &[String]) -> bool {
        !self.user.trim().is_empty()
            && (users.contains(&self.user) || self.groups.iter().any(|one| groups.contains(one)))
    }
}

/// What somebody is called. Nobody is called nothing.
fn names<'a>(user: &'a str, email: Option<&'a str>) -> impl Iterator<Item = String> + Clone + 'a {
    [Some(user), email].into_iter().flatten().map(spelling).filter(|name| !name.is_empty())
}

fn spelling(name: &str) -> String {
    name.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(user: &str, email: Option<&str>) -> Person {
        let email = email.map(str::to_owned);
        Person { user: user.to_owned(), email, ..Person::default() }
    }

    #[test]
    fn another_spelling_is_the_same_person() {
        for (user, email) in [
            ("anna@example.org", None),
            ("Anna@Example.ORG", None),
            (" anna@example.org\t", None),
            ("u-4711", Some("ANNA@example.org")),
            ("u-4711", Some("anna@example.org ")),
        ] {
            assert!(person(user, email).may_be("Anna@example.org", None), "{user:?}, {email:?}");
            let known = person("anna@Example.org", None);
            assert!(known.may_be(user, email), "{user:?}, {email:?}");
            assert!(person("u-1", Some("Anna@example.org")).may_be(user, email));
        }
        assert!(person("ÄNNE", None).may_be("änne", None));
        assert!(!person("anne@example.org", None).may_be("anna@example.org", None));
        assert!(!person("u-1", Some("anne@example.org")).may_be("u-2", Some("anna@example.org")));
        assert!(!person("", None).may_be("anna@example.org", None));
        assert!(!person("u-1", Some("")).may_be("u-2", Some(" ")), "nobody is called nothing");
    }

    #[test]
    fn an_address_that_is_the_name_says_nothing_more() {
        for (user, email, other) in [
            ("anna", None, None),
            ("anna", Some(" "), None),
            ("Anna@example.org", Some("anna@EXAMPLE.org "), None),
            ("u-1", Some(" anna@example.org"), Some("anna@example.org")),
        ] {
            assert_eq!(person(user, email).other_email(), other, "{user:?}, {email:?}");
        }
    }

    #[test]
    fn nobody_without_a_name_is_listed() {
        let approvers = Approvers {
            users: vec![String::new()],
            groups: vec!["leads".to_owned()],
            required: 1,
            self_approval: false,
        };
        let mut nobody = person(" ", None);
        nobody.groups.push("leads".to_owned());
        assert!(!nobody.is_among(&approvers));
        let lead = Person { user: "anna".to_owned(), ..nobody };
        assert!(lead.is_among(&approvers));
        assert!(!person("Leads", None).is_among(&approvers));
    }
}
