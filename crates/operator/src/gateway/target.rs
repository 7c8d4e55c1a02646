//! The address of an environment at our origin: `/access/<namespace>/<instance>/<environment>/…`. At
//! its own, the environment stands at the root.

use sojourn_core::key::Key;

/// Longer names than Kubernetes has need not be looked for.
const MAX_NAME_BYTES: usize = 253;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessTarget {
    pub key: Key,
    pub environment: String,
    /// `/access/<namespace>/<instance>/<environment>`.
    pub prefix: String,
    /// What follows the prefix, as it was sent: empty, or it begins with a slash.
    pub rest: String,
}

impl AccessTarget {
    /// Reads the path below `root` without decoding it: the names of Kubernetes need no escape, and
    /// the rest concerns nobody but the instance.
    pub(crate) fn parse(root: &str, path: &str) -> Option<Self> {
        let below = path.strip_prefix(root)?.strip_prefix('/')?;
        let mut segments = below.splitn(4, '/');
        let mut name = || segments.next().filter(|name| is_name(name));
        let (namespace, instance, environment) = (name()?, name()?, name()?);
        let rest = segments.next().map(|rest| format!("/{rest}")).unwrap_or_default();
        let key = Key::new(namespace, instance);
        let prefix = prefix(&key, environment);
        Some(Self { key, environment: environment.to_owned(), prefix, rest })
    }

    /// What was asked for at the environment's own origin.
    pub(crate) fn at_root(key: Key, environment: String, path: &str) -> Self {
        let prefix = prefix(&key, &environment);
        Self { key, environment, prefix, rest: path.to_owned() }
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
        let below = address.strip_prefix("/access").unwrap_or(&address);
        format!("/waiting{below}")
    }
}

fn with_query(path: String, query: Option<&str>) -> String {
    match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    }
}

/// What the address at our origin begins with.
pub(crate) fn prefix(key: &Key, environment: &str) -> String {
    format!("/access/{}/{}/{environment}", key.namespace, key.name)
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
            ("/access/ns/lab-1/shell", ""),
            ("/access/ns/lab-1/shell/", "/"),
            ("/access/ns/lab-1/shell/a%2Fb/../c//d", "/a%2Fb/../c//d"),
            ("/access/ns/lab-1/shell//x", "//x"),
        ] {
            let target = AccessTarget::parse("/access", path).unwrap();
            assert_eq!(target.key, Key::new("ns", "lab-1"));
            assert_eq!(target.environment, "shell");
            assert_eq!(target.prefix, "/access/ns/lab-1/shell");
            assert_eq!(target.rest, rest, "{path}");
        }
    }

    #[test]
    fn a_path_without_valid_names_is_no_target() {
        let long = format!("/access/{}/b/c/", "a".repeat(254));
        for path in [
            "/access/ns/lab",
            "/access/ns//shell/",
            "/access/../lab/shell/",
            "/access/ns/lab/../x",
            "/access/ns/%2e%2e/shell/",
            "/access/NS/lab/shell/",
            "/access/ns/lab-/shell/",
            "/access/ns/lab/.shell/",
            "/access/ns/l\"b/shell/",
            "/accessns/lab/shell/",
            "/access",
            &long,
        ] {
            assert_eq!(AccessTarget::parse("/access", path), None, "{path}");
        }
    }

    #[test]
    fn a_target_knows_its_addresses() {
        let target = AccessTarget::parse("/waiting", "/waiting/ns/lab/shell/x").unwrap();
        assert_eq!(target.address(Some("a=b")), "/access/ns/lab/shell/x?a=b");
        assert_eq!(target.waiting_address(None), "/waiting/ns/lab/shell/x");
        assert_eq!(target.own_path(Some("a=b")), "/x?a=b");
        let root = AccessTarget::at_root(Key::new("ns", "lab"), "shell".to_owned(), "//x");
        assert_eq!(root.address(None), "/access/ns/lab/shell//x");
    }
}
