//! Who the scenarios act as. Every target knows exactly these users by these tokens.

/// A user with a static bearer token.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) name: &'static str,
    pub(crate) token: &'static str,
    pub(crate) groups: &'static [&'static str],
}

pub(crate) const ADMIN: Identity =
    Identity { name: "admin", token: "admin-token", groups: &["system:masters"] };

pub(crate) const ALL: &[Identity] = &[
    ADMIN,
    Identity { name: "alice", token: "alice-token", groups: &["developers"] },
    Identity { name: "bob", token: "bob-token", groups: &[] },
    Identity { name: "carol", token: "carol-token", groups: &["developers", "auditors"] },
];

/// The bearer token for the `as` of a step; `None` for `nobody`, who sends none.
pub(crate) fn token(who: Option<&str>) -> Option<String> {
    let Some(who) = who else { return Some(ADMIN.token.to_owned()) };
    if who == "nobody" {
        return None;
    }
    if let Some(token) = who.strip_prefix("token:") {
        return Some(token.to_owned());
    }
    let identity = ALL.iter().find(|identity| identity.name == who);
    Some(identity.unwrap_or_else(|| panic!("no user {who} in identity.rs")).token.to_owned())
}
