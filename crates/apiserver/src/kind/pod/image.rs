//! Image references, as far as the default pull policy depends on them.

const MAX_NAME_CHARS: usize = 255;

/// The pull policy of an image that names none: a moving tag is always pulled.
pub(crate) fn default_pull_policy(image: &str) -> &'static str {
    if tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of a well-formed reference, `latest` if it has neither tag nor digest.
fn tag(image: &str) -> Option<&str> {
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    let (domain, remainder) = split_domain(named);
    let (path, tag) = match remainder.split_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (remainder, None),
    };
    let is_id = named.len() == 64 && named.bytes().all(is_lower_hex);
    // Short names are names in a library of a registry, and count as such.
    let prefix = match domain {
        Some(domain) => domain.len() + 1,
        None if path.contains('/') => "docker.io/".len(),
        None => "docker.io/library/".len(),
    };
    let well_formed = !is_id
        && prefix + path.len() <= MAX_NAME_CHARS
        && domain.is_none_or(is_domain)
        && path.split('/').all(is_path_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    if !well_formed {
        return None;
    }
    tag.or_else(|| digest.is_none().then_some("latest"))
}

/// The first component is a host only if it looks like one.
fn split_domain(named: &str) -> (Option<&str>, &str) {
    match named.split_once('/') {
        Some((first, rest))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.bytes().any(|b| b.is_ascii_uppercase()) =>
        {
            (Some(first), rest)
        }
        _ => (None, named),
    }
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host_is_good = match bracketed {
        Some(v6) => !v6.is_empty() && v6.bytes().all(|b| b.is_ascii_hexdigit() || b == b':'),
        None => host.split('.').all(|label| {
            let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
            let bytes = label.as_bytes();
            edge(bytes.first())
                && edge(bytes.last())
                && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
        }),
    };
    let digits = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    host_is_good && port.is_none_or(digits)
}

/// Lower-case words joined by one dot, one or two underscores, or any number of dashes.
fn is_path_component(component: &str) -> bool {
    let is_word = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = component.as_bytes();
    if !bytes.first().is_some_and(is_word) || !bytes.last().is_some_and(is_word) {
        return false;
    }
    bytes.split(is_word).all(|separator| {
        matches!(separator, b"" | b"." | b"_" | b"__") || separator.iter().all(|b| *b == b'-')
    })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|b| is_word(b) || matches!(b, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else {
        return false;
    };
    algorithm.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && algorithm.split(['-', '_', '+', '.']).all(|part| {
            part.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
                && part.bytes().all(|b| b.is_ascii_alphanumeric())
        })
        && match algorithm {
            "sha256" => hex.len() == 64 && hex.bytes().all(is_lower_hex),
            "sha384" => hex.len() == 96 && hex.bytes().all(is_lower_hex),
            "sha512" => hex.len() == 128 && hex.bytes().all(is_lower_hex),
            _ => hex.len() >= 32 && hex.bytes().all(|b| b.is_ascii_hexdigit()),
        }
}

const fn is_lower_hex(b: u8) -> bool {
    b.is_ascii_digit() || matches!(b, b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags() {
        let digest = format!("nginx@sha256:{}", "a".repeat(64));
        let both = format!("nginx:latest@sha256:{}", "a".repeat(64));
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1.25", "IfNotPresent"),
            ("localhost:5000/app", "Always"),
            ("localhost:5000/app:v1", "IfNotPresent"),
            ("example.com/a/b_c-d:latest", "Always"),
            ("a__b", "Always"),
            ("a___b", "IfNotPresent"),
            ("UPPER/Case", "IfNotPresent"),
            ("Nginx", "IfNotPresent"),
            ("", "IfNotPresent"),
            (" nginx", "IfNotPresent"),
            ("nginx:", "IfNotPresent"),
            (digest.as_str(), "IfNotPresent"),
            (both.as_str(), "Always"),
        ] {
            assert_eq!(default_pull_policy(image), policy, "{image:?}");
        }
    }
}
