//! Addresses that an instance gives out. It believes that it stands at the root of its host; a
//! browser knows it below a prefix.

use super::place::Place;

/// The address as the browser must follow it. `own` are the hosts by which the instance may call
/// itself: the one that was asked for and the one that it listens on.
pub(crate) fn outward(location: &str, place: &Place, own: &[&str]) -> String {
    if let Some(path) = local_path(location, own) {
        if place.holds(path) { path.to_owned() } else { format!("{}{path}", place.prefix) }
    } else {
        location.to_owned()
    }
}

/// The path of an address on the instance's own host.
fn local_path<'a>(location: &'a str, own: &[&str]) -> Option<&'a str> {
    let after_scheme = location
        .split_once("://")
        .filter(|(scheme, _)| ["http", "https"].iter().any(|own| scheme.eq_ignore_ascii_case(own)))
        .map(|(_, rest)| rest)
        .or_else(|| location.strip_prefix("//"));
    let Some(rest) = after_scheme else {
        return location.starts_with('/').then_some(location);
    };
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let is_own = own.iter().any(|own| own.eq_ignore_ascii_case(host));
    match path {
        "" if is_own => Some("/"),
        _ => (is_own && path.starts_with('/')).then_some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_lead_below_the_prefix_and_others_are_left() {
        let place = Place::parse("/access", "/access/ns/lab/shell/").unwrap();
        let own = ["127.0.0.1:7080", "127.0.0.1:9999"];
        for (location, expected) in [
            ("/x?y#z", "/access/ns/lab/shell/x?y#z"),
            ("/", "/access/ns/lab/shell/"),
            ("/access/ns/lab/shell/x", "/access/ns/lab/shell/x"),
            ("/access/ns/other/shell/", "/access/ns/lab/shell/access/ns/other/shell/"),
            ("/sign-out", "/access/ns/lab/shell/sign-out"),
            ("http://127.0.0.1:7080/x", "/access/ns/lab/shell/x"),
            ("HTTP://127.0.0.1:9999/x", "/access/ns/lab/shell/x"),
            ("//127.0.0.1:7080/x", "/access/ns/lab/shell/x"),
            ("http://127.0.0.1:7080", "/access/ns/lab/shell/"),
            ("https://example.org/x", "https://example.org/x"),
            ("//example.org/x", "//example.org/x"),
            ("http://127.0.0.1:7080@example.org/x", "http://127.0.0.1:7080@example.org/x"),
            ("x/y", "x/y"),
            ("?a", "?a"),
            ("", ""),
        ] {
            assert_eq!(outward(location, &place, &own), expected, "{location}");
        }
    }
}
