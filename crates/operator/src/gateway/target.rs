//! The address of an environment at our origin: `/go/<family>/<namespace>/<object>/<environment>/…`. At
//! its own, the environment stands at the root.

use std::fmt;

use sojourn_core::key::Key;

/// What addresses at our origin begin with.
pub(crate) const ROOT: &str = "/go";
/// What the addresses begin with at which a browser waits.
pub(crate) const WAITING_ROOT: &str = "/waiting";

/// Longer names than Kubernetes has need not be looked for.
const MAX_NAME_BYTES: usize = 253;

/// An object that the gateway leads to: names are one family's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LentObject {
    pub family: String,
    pub key: Key,
}

impl fmt::Display for LentObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessTarget {
    pub object: LentObject,
    pub environment: String,
    /// `/go/<family>/<namespace>/<object>/<environment>`.
    pub prefix: String,
    /// What follows the prefix, as it was sent: empty, or it begins with a slash.
    pub rest: String,
}

impl AccessTarget {
    /// Reads the path below `root` without decoding it: the names of Kubernetes need no escape, and
    /// the rest concerns nobody but the instance.
    pub(crate) fn parse(root: &str, path: &str) -> Option<Self> {
        let below = path.strip_prefix(root)?.strip_prefix('/')?;
        let mut segments = below.splitn(5, '/');
        let mut name = || segments.next().filter(|name| is_name(name));
        let (family, namespace, object) = (name()?, name()?, name()?);
        let environment = name()?;
        let rest = segments.next().map(|rest| format!("/{rest}")).unwrap_or_default();
        let object = LentObject { family: family.to_owned(), key: Key::new(namespace, object) };
        let prefix = prefix(family, &object.key, environment);
        Some(Self { object, environment: environment.to_owned(), prefix, rest })
    }

    /// What was asked for at the environment's own origin.
    pub(crate) fn at_root(object: LentObject, environment: String, path: &str) -> Self {
        let prefix = prefix(&object.family, &object.key, &environment);
        Self { object, environment, prefix, rest: path.to_owned() }
    }

    /// The path at the environment's own origin, with the query of a request.
    pub(crate) fn own_path(&self, query: Option<&str>) -> String {
        let rest = if self.rest.is_empty() { "/" } else { &self.rest };
        with_query(rest.to_owned(), query)
    }

    /// The address at our origin, with the query of a request.
    pub(crate) fn address(&self, query: Option<&str>) -> String {
        format!("{}{}", self.prefix, self.own_path(query))
    }

    /// The address at which a browser waits until it can open the other one.
    pub(crate) fn waiting_address(&self, query: Option<&str>) -> String {
        let address = self.address(query);
        let below = address.strip_prefix(ROOT).unwrap_or(&address);
        format!("{WAITING_ROOT}{below}")
    }
}

fn with_query(path: String, query: Option<&str>) -> String {
    match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    }
}

/// What the address at our origin begins with.
pub(crate) fn prefix(family: &str, key: &Key, environment: &str) -> String {
    format!("{ROOT}/{family}/{}/{}/{environment}", key.namespace, key.name)
}

fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let inner = |byte: u8| plain(byte) || byte == b'.';
    let ends = [text.bytes().next(), text.bytes().last()];
    text.len() <= MAX_NAME_BYTES
        && ends.iter().all(|end| end.is_some_and(|byte| plain(byte) && byte != b'-'))
        && text.bytes().all(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_the_rest_is_left_as_it_is() {
        for (path, rest) in [
            ("/go/f/ns/lab-1/shell", ""),
            ("/go/f/ns/lab-1/shell/", "/"),
            ("/go/f/ns/lab-1/shell/a%2Fb/../c//d", "/a%2Fb/../c//d"),
            ("/go/f/ns/lab-1/shell//x", "//x"),
        ] {
            let target = AccessTarget::parse(ROOT, path).unwrap();
            assert_eq!(target.object.family, "f");
            assert_eq!(target.object.key, Key::new("ns", "lab-1"));
            assert_eq!(target.environment, "shell");
            assert_eq!(target.prefix, "/go/f/ns/lab-1/shell");
            assert_eq!(target.rest, rest, "{path}");
        }
    }

    #[test]
    fn a_path_without_valid_names_is_no_target() {
        let long = format!("/go/f/{}/b/c/", "a".repeat(254));
        for path in [
            "/go/f/ns/lab",
            "/go/f/ns//shell/",
            "/go/f/../lab/shell/",
            "/go/f/ns/lab/../x",
            "/go/f/ns/%2e%2e/shell/",
            "/go/f/NS/lab/shell/",
            "/go/f/ns/lab-/shell/",
            "/go/f/ns/lab/.shell/",
            "/go/f/ns/l\"b/shell/",
            "/gof/ns/lab/shell/",
            ROOT,
            "/go/f",
            &long,
        ] {
            assert_eq!(AccessTarget::parse(ROOT, path), None, "{path}");
        }
    }

    #[test]
    fn a_target_knows_its_addresses() {
        let target = AccessTarget::parse(WAITING_ROOT, "/waiting/f/ns/lab/shell/x").unwrap();
        assert_eq!(target.address(Some("a=b")), "/go/f/ns/lab/shell/x?a=b");
        assert_eq!(target.waiting_address(None), "/waiting/f/ns/lab/shell/x");
        assert_eq!(target.own_path(Some("a=b")), "/x?a=b");
        let object = LentObject { family: "f".to_owned(), key: Key::new("ns", "lab") };
        let root = AccessTarget::at_root(object, "shell".to_owned(), "//x");
        assert_eq!(root.address(None), "/go/f/ns/lab/shell//x");
    }
}
