//! Addresses: IP, MAC, host names, URIs, mail.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use regex::Regex;

use crate::go::address::{self, SloppyCidr, parse_sloppy};

/// Dotted decimal with leading zeros tolerated, or an IPv6 spelling that contains dots.
pub(super) fn is_ipv4(text: &str) -> bool {
    text.contains('.') && parse_sloppy(text).is_some()
}

pub(super) fn is_ipv6(text: &str) -> bool {
    // Go's parser takes no zone; neither does this one.
    text.contains(':') && address::parse(text).is_some()
}

pub(super) fn is_cidr(text: &str) -> bool {
    SloppyCidr::parse(text).is_some()
}

/// Pairs by `:` or `-`, or groups of four by `.`; 6, 8 or 20 bytes.
pub(super) fn is_mac(text: &str) -> bool {
    let Some(separator) = ['-', ':', '.'].into_iter().find(|c| text.contains(*c)) else {
        return false;
    };
    let (width, bytes) = if separator == '.' { (4, 2) } else { (2, 1) };
    let mut total = 0;
    for group in text.split(separator) {
        if group.len() != width || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        total += bytes;
    }
    matches!(total, 6 | 8 | 20)
}

static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    const LETTER: &str = r"[a-zA-Z0-9\p{S}\p{L}]";
    const INNER: &str = r"[a-zA-Z0-9\-\p{S}\p{L}]";
    // Lengths are checked apart: bounded repetition of Unicode classes makes huge programs.
    let pattern = format!(
        r"^(?:{LETTER}(?:-?{LETTER}*)?|(?:{LETTER}(?:{INNER}*{LETTER})?\.)+[a-zA-Z\p{{L}}]{{2}}[a-zA-Z\p{{L}}]*)$"
    );
    Regex::new(&pattern).expect("the pattern is a constant of this module")
});

pub(super) fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && HOSTNAME.is_match(text)
}

/// What Go's `url.ParseRequestURI` takes: an absolute URI or an absolute path.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else {
        return false;
    };
    let path = rest.split_once('?').map_or(rest, |(path, _)| path);
    if !path.starts_with('/') {
        // An opaque URI (`mailto:a`) needs a scheme.
        return !scheme.is_empty();
    }
    let authority =
        path.strip_prefix("//").filter(|_| !scheme.is_empty() || !path.starts_with("///"));
    let Some(authority) = authority else {
        return has_good_escapes(path);
    };
    let (authority, path) = match authority.find('/') {
        Some(at) => authority.split_at(at),
        None => (authority, ""),
    };
    is_authority(authority) && has_good_escapes(path)
}

/// A URI with a scheme and a host.
pub(crate) fn is_absolute_url(text: &str) -> bool {
    let host = text.split_once("://").map(|(_, rest)| rest);
    let has_host = host.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?']));
    has_host && !text.starts_with('/') && is_request_uri(text)
}

/// The scheme (`""` if there is none) and what follows it; nothing if the start is malformed.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at == 0 => return Some(("", text)),
            '0'..='9' | '+' | '-' | '.' => {}
            ':' if at == 0 => return None,
            ':' => return Some((&text[..at], &text[at + 1..])),
            _ => return Some(("", text)),
        }
    }
    Some(("", text))
}

fn is_authority(authority: &str) -> bool {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(allowed) || !has_good_escapes(user) {
                return false;
            }
            host
        }
        None => authority,
    };
    if let Some(bracketed) = host.strip_prefix('[') {
        let Some((inside, port)) = bracketed.rsplit_once(']') else {
            return false;
        };
        let address = inside.split_once("%25").map_or(inside, |(address, _)| address);
        return is_port(port) && address.parse::<Ipv6Addr>().is_ok();
    }
    let (name, port) = match host.rfind(':') {
        Some(at) => host.split_at(at),
        None => (host, ""),
    };
    // A percent escape in a host may only stand for a byte outside ASCII.
    let escapes = name.match_indices('%').all(|(at, _)| {
        name.get(at + 1..at + 3)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
            .is_some_and(|byte| byte >= 0x80)
    });
    let plain = |c: char| {
        !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c)
    };
    is_port(port) && escapes && name.chars().all(plain)
}

fn is_port(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_digit()),
        None => text.is_empty(),
    }
}

fn has_good_escapes(text: &str) -> bool {
    text.match_indices('%').all(|(at, _)| {
        text.as_bytes().get(at + 1..at + 3).is_some_and(|h| h.iter().all(u8::is_ascii_hexdigit))
    })
}

/// What Go's `mail.ParseAddress` takes: `a@b.c` or `Name <a@b.c>`.
pub(super) fn is_email(text: &str) -> bool {
    let text = without_comments(text);
    let Some(open) = unquoted_find(text, '<') else {
        return is_address_spec(text);
    };
    let (name, rest) = text.split_at(open);
    let Some(inside) = rest[1..].strip_suffix('>') else {
        return false;
    };
    is_phrase(name.trim_matches([' ', '\t'])) && is_address_spec(inside.trim_matches([' ', '\t']))
}

/// The text without white space and parenthesised comments at its ends.
fn without_comments(text: &str) -> &str {
    let mut text = text.trim_matches([' ', '\t']);
    while let Some(open) = text.rfind('(').filter(|_| text.ends_with(')')) {
        text = text[..open].trim_end_matches([' ', '\t']);
    }
    while let Some(close) = text.find(')').filter(|_| text.starts_with('(')) {
        text = text[close + 1..].trim_start_matches([' ', '\t']);
    }
    text
}

fn unquoted_find(text: &str, wanted: char) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c == wanted && !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

fn is_address_spec(text: &str) -> bool {
    let Some(at) = unquoted_find(text, '@') else {
        return false;
    };
    let (local, domain) = (&text[..at], &text[at + 1..]);
    let local_good = if local.starts_with('"') { is_quoted(local) } else { is_dot_atom(local) };
    let domain_good = match domain.strip_prefix('[').and_then(|d| d.strip_suffix(']')) {
        Some(literal) => {
            let literal = literal.strip_prefix("IPv6:").unwrap_or(literal);
            address::parse(literal).is_some()
        }
        None => is_dot_atom(domain),
    };
    local_good && domain_good
}

fn is_quoted(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    let Some(inner) = inner.filter(|i| !i.is_empty()) else {
        return false;
    };
    let mut escaped = false;
    for c in inner.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return false,
            c if c.is_control() && c != '\t' => return false,
            _ => {}
        }
    }
    !escaped
}

fn is_atom_char(c: char) -> bool {
    !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

/// A display name: words and quoted strings; dots are tolerated inside words.
fn is_phrase(text: &str) -> bool {
    if text.starts_with('"') && text.len() > 1 {
        return is_quoted(text);
    }
    text.split([' ', '\t']).all(|word| word.chars().all(|c| c == '.' || is_atom_char(c)))
}
