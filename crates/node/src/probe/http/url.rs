//! What is asked for: the path that a Pod gives, made fit for a request, and where a redirect leads.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use http::Uri;

/// How long a path may become by redirects.
const MAX_PATH_BYTES: usize = 8 << 10;

/// An address of the Pod's own, and what to ask for there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) secure: bool,
    address: SocketAddr,
    /// Path and query, fit for a request line.
    target: String,
}

impl Url {
    pub(super) fn new(secure: bool, address: SocketAddr, path: &str) -> Self {
        Self { secure, address, target: target(path) }
    }

    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// Where a redirect leads; `None` if that is not this very server.
    pub(super) fn redirected(&self, location: &str) -> Option<Self> {
        if location.len() > MAX_PATH_BYTES {
            return None;
        }
        let (secure, rest) = match split_scheme(location) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some(_) => return None,
            None => (self.secure, location),
        };
        let path = match rest.strip_prefix("//") {
            Some(rest) => {
                let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
                let (authority, path) = rest.split_at(end);
                if !self.is_at(authority, secure) {
                    return None;
                }
                path.to_owned()
            }
            None if rest.starts_with(['/', '#']) || rest.is_empty() => rest.to_owned(),
            None => {
                // Relative to where we are: beside the last part of the path, or with another query.
                let path = self.target.split('?').next().unwrap_or_default();
                let folder = if rest.starts_with('?') {
                    path
                } else {
                    &path[..path.rfind('/').map_or(0, |slash| slash + 1)]
                };
                format!("{folder}{rest}")
            }
        };
        let target = target(&path);
        (target.len() <= MAX_PATH_BYTES).then_some(Self { secure, address: self.address, target })
    }

    fn is_at(&self, authority: &str, secure: bool) -> bool {
        // A name and password before the host are not for us to send.
        if authority.contains('@') {
            return false;
        }
        let Ok(uri) = authority.parse::<Uri>() else { return false };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        host.parse::<IpAddr>().is_ok_and(|ip| SocketAddr::new(ip, port) == self.address)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.address, self.target)
    }
}

/// `http` and `//host/path` of `http://host/path`.
fn split_scheme(location: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = location.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    (is_scheme && rest.starts_with("//")).then_some((scheme, rest))
}

/// What stands in the request line. Of a whole URL only its path counts: the host is not the Pod's
/// to choose.
fn target(path: &str) -> String {
    let path = match split_scheme(path) {
        Some((_, rest)) => {
            let rest = &rest["//".len()..];
            &rest[rest.find(['/', '?', '#']).unwrap_or(rest.len())..]
        }
        None => path,
    };
    let path = path.split('#').next().unwrap_or_default();
    let mut target = String::with_capacity(path.len() + 1);
    if !path.starts_with('/') {
        target.push('/');
    }
    for byte in path.bytes() {
        match byte {
            0..=b' ' | 0x7f.. | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {
                target.push_str(&format!("%{byte:02X}"));
            }
            _ => target.push(char::from(byte)),
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(path: &str) -> Url {
        Url::new(false, "127.0.0.1:20001".parse().unwrap(), path)
    }

    #[test]
    fn paths_become_fit() {
        let cases = [
            ("", "/"),
            ("/", "/"),
            ("/healthz", "/healthz"),
            ("healthz", "/healthz"),
            ("/a?b=c&d=%20#e", "/a?b=c&d=%20"),
            ("?b", "/?b"),
            ("/a b\r\nX: y", "/a%20b%0D%0AX:%20y"),
            ("/ü{}", "/%C3%BC%7B%7D"),
            ("http://example.com/x?y", "/x?y"),
            ("http://example.com", "/"),
            ("//example.com/x", "//example.com/x"),
            ("/proxy/http://example.com/", "/proxy/http://example.com/"),
        ];
        for (path, expected) in cases {
            assert_eq!(url(path).target(), expected, "{path:?}");
            assert!(expected.parse::<http::uri::PathAndQuery>().is_ok(), "{expected:?}");
        }
        assert_eq!(url("/x").to_string(), "http://127.0.0.1:20001/x");
        let v6 = Url::new(true, "[::1]:443".parse().unwrap(), "x");
        assert_eq!(v6.to_string(), "https://[::1]:443/x");
    }

    #[test]
    fn redirects_lead_to_the_same_server_or_nowhere() {
        let cases = [
            ("/b", Some("http://127.0.0.1:20001/b")),
            ("b?c", Some("http://127.0.0.1:20001/dir/b?c")),
            ("?c", Some("http://127.0.0.1:20001/dir/a?c")),
            ("", Some("http://127.0.0.1:20001/")),
            ("http://127.0.0.1:20001/b", Some("http://127.0.0.1:20001/b")),
            ("HTTP://127.0.0.1:20001", Some("http://127.0.0.1:20001/")),
            ("https://127.0.0.1:20001/b", Some("https://127.0.0.1:20001/b")),
            ("//127.0.0.1:20001/b", Some("http://127.0.0.1:20001/b")),
            ("//127.0.0.1:20001?b", Some("http://127.0.0.1:20001/?b")),
            ("http://127.0.0.1/b", None),
            ("http://127.0.0.1:22/b", None),
            ("//127.0.0.1:22/b", None),
            ("http://localhost:20001/b", None),
            ("http://example.com:20001/b", None),
            ("http://127.0.0.1:20001@example.com/", None),
            ("http://x@127.0.0.1:20001/", None),
            ("http://", None),
            ("file:///etc/passwd", None),
            ("gopher://127.0.0.1:20001/", None),
        ];
        for (location, expected) in cases {
            let led = url("/dir/a?q").redirected(location).map(|url| url.to_string());
            assert_eq!(led.as_deref(), expected, "{location:?}");
        }
        assert_eq!(url("/").redirected(&"x".repeat(MAX_PATH_BYTES + 1)), None);
        assert_eq!(url("/").redirected(&" ".repeat(MAX_PATH_BYTES)), None);
    }

    proptest! {
        /// Whatever a Pod or its server say, the request goes to the same address and is one.
        #[test]
        fn nothing_leads_away(path in ".*", location in "(http:|https:|/|)(//|/|)[^ ]{0,40}") {
            let url = url(&path);
            prop_assert!(url.target().parse::<http::uri::PathAndQuery>().is_ok());
            if let Some(next) = url.redirected(&location) {
                prop_assert_eq!(next.address, url.address);
                prop_assert!(next.target().parse::<http::uri::PathAndQuery>().is_ok());
            }
        }
    }
}
