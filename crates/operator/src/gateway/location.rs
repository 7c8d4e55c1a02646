//! Addresses that an instance gives out. It may call itself by where it listens, or by another scheme
//! than the browser's; a browser knows it by its origin alone.

/// The address as the browser must follow it. `own` are the hosts by which the instance may call
/// itself: the one that was asked for and the one that it listens on.
pub(crate) fn outward<'a>(location: &'a str, own: &[&str]) -> &'a str {
    own_path(location, own).unwrap_or(location)
}

/// The path of an address that names the instance's own host.
fn own_path<'a>(location: &'a str, own: &[&str]) -> Option<&'a str> {
    let rest = location
        .split_once("://")
        .filter(|(scheme, _)| ["http", "https"].iter().any(|own| scheme.eq_ignore_ascii_case(own)))
        .map(|(_, rest)| rest)
        .or_else(|| location.strip_prefix("//"))?;
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let is_own = own.iter().any(|own| own.eq_ignore_ascii_case(host));
    match path {
        "" if is_own => Some("/"),
        // Two slashes would name another host.
        _ => (is_own && path.starts_with('/') && !path.starts_with("//")).then_some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_become_paths_and_others_are_left() {
        let own = ["a.localhost:7080", "127.0.0.1:9999"];
        for (location, expected) in [
            ("/x?y#z", "/x?y#z"),
            ("/", "/"),
            ("http://a.localhost:7080/x", "/x"),
            ("https://a.localhost:7080/x?y", "/x?y"),
            ("HTTP://127.0.0.1:9999/x", "/x"),
            ("//a.localhost:7080/x", "/x"),
            ("http://a.localhost:7080", "/"),
            ("http://a.localhost:7080//x", "http://a.localhost:7080//x"),
            ("https://example.org/x", "https://example.org/x"),
            ("//example.org/x", "//example.org/x"),
            ("http://a.localhost:7080@example.org/x", "http://a.localhost:7080@example.org/x"),
            ("x/y", "x/y"),
            ("?a", "?a"),
            ("", ""),
        ] {
            assert_eq!(outward(location, &own), expected, "{location}");
        }
    }
}
