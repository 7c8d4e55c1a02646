//! The session's cookie, and reading what browsers send.

use http::HeaderMap;
use http::header::{COOKIE, HeaderValue};

use crate::secret::Secret;
use crate::session;

/// Names that begin like this (in any case) are ours: nothing behind the authenticator may see or
/// set them.
pub const RESERVED_COOKIES: [&str; 2] = ["sojourn-", "__host-sojourn"];

/// How many cookies of our name are looked at; browsers send one.
const CANDIDATES: usize = 8;

/// What our cookie is called. Browsers keep one jar per host, not per port, so two listeners on one
/// machine need two names; over TLS the prefix makes browsers refuse one from anywhere else.
pub(crate) fn name(secure: bool, port: u16) -> String {
    if secure { "__Host-sojourn".to_owned() } else { format!("sojourn-{port}") }
}

/// What the cookie is called that an instance's origin has.
pub(crate) fn entry_name(secure: bool, port: u16) -> String {
    if secure { "__Host-sojourn-entry".to_owned() } else { format!("sojourn-entry-{port}") }
}

/// The cookie of an instance's origin. A link from elsewhere may lead there, and the instance's own
/// pages are to be found then; what acts is looked at more closely.
pub(crate) fn set_entry(name: &str, secret: &Secret, secure: bool) -> HeaderValue {
    written(name, secret.reveal(), session::SESSION_LIFETIME.as_secs(), "Lax", secure)
}

pub(crate) fn set(name: &str, secret: &Secret, secure: bool) -> HeaderValue {
    written(name, secret.reveal(), session::SESSION_LIFETIME.as_secs(), "Strict", secure)
}

pub(crate) fn unset(name: &str, secure: bool) -> HeaderValue {
    written(name, "", 0, "Strict", secure)
}

/// Without `Domain`, it is of that one host.
fn written(name: &str, value: &str, max_age: u64, same_site: &str, secure: bool) -> HeaderValue {
    let secure = if secure { "; Secure" } else { "" };
    let text = format!(
        "{name}={value}; Path=/; Max-Age={max_age}; HttpOnly; SameSite={same_site}{secure}"
    );
    HeaderValue::try_from(text).expect("names and secrets are plain ASCII")
}

/// The values of every cookie of that name. A page may add one with a longer path, so there can be
/// several.
pub(crate) fn values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    pairs(headers)
        .filter(|pair| name_of(pair) == name.as_bytes())
        .filter_map(|pair| std::str::from_utf8(pair).ok()?.split_once('='))
        .map(|(_, value)| value.trim())
        .take(CANDIDATES)
        .collect()
}

/// Takes our cookies out of a request and leaves the others.
pub(crate) fn remove_reserved(headers: &mut HeaderMap) {
    let kept: Vec<&[u8]> = pairs(headers).filter(|pair| !is_reserved(pair)).collect();
    let kept = HeaderValue::from_bytes(&kept.join(&b"; "[..])).expect("it was part of a header");
    headers.remove(COOKIE);
    if !kept.is_empty() {
        headers.insert(COOKIE, kept);
    }
}

/// Bytes, because any page may leave a cookie that is no text among ours.
fn pairs(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers
        .get_all(COOKIE)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.is_empty())
}

fn name_of(pair: &[u8]) -> &[u8] {
    pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii()
}

fn is_reserved(pair: &[u8]) -> bool {
    let name = name_of(pair).to_ascii_lowercase();
    RESERVED_COOKIES.iter().any(|reserved| name.starts_with(reserved.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(lines: &[&'static str]) -> HeaderMap {
        lines.iter().map(|line| (COOKIE, HeaderValue::from_static(line))).collect()
    }

    #[test]
    fn the_cookie_cannot_be_read_by_scripts_or_sent_from_other_sites() {
        let secret = Secret::random();
        let text = secret.reveal();
        assert_eq!(
            set(&name(false, 7080), &secret, false),
            format!("sojourn-7080={text}; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict")
        );
        assert_eq!(
            set(&name(true, 443), &secret, true),
            format!(
                "__Host-sojourn={text}; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure"
            )
        );
        assert_eq!(
            unset("sojourn-7080", false),
            "sojourn-7080=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
        );
    }

    #[test]
    fn the_cookie_of_an_instance_is_of_its_host_alone() {
        let secret = Secret::random();
        let text = secret.reveal();
        assert_eq!(
            set_entry(&entry_name(true, 443), &secret, true),
            format!(
                "__Host-sojourn-entry={text}; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax; Secure"
            )
        );
        let plain = set_entry(&entry_name(false, 7080), &secret, false);
        let expected =
            format!("sojourn-entry-7080={text}; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax");
        assert_eq!(plain, expected);
        for name in [entry_name(true, 443), entry_name(false, 7080)] {
            assert!(is_reserved(name.as_bytes()), "{name} goes to no instance");
        }
    }

    #[test]
    fn every_cookie_of_the_name_is_seen_and_no_other() {
        let headers = request(&["a=1; sojourn-7080=x", "sojourn-7080=y;sojourn-70800=z; b"]);
        assert_eq!(values(&headers, "sojourn-7080"), ["x", "y"]);
    }

    #[test]
    fn ours_are_taken_out_and_others_stay() {
        let mut headers =
            request(&["a=1; sojourn-7080=x; b=2", "SOJOURN-1=y; __Host-sojourn=z", "c"]);
        remove_reserved(&mut headers);
        assert_eq!(headers.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2; c"]);
        let mut headers = request(&["sojourn-7080=x"]);
        remove_reserved(&mut headers);
        assert!(headers.is_empty());
    }
    #[test]
    fn a_cookie_that_is_no_text_takes_no_other_with_it() {
        let line = HeaderValue::from_bytes(b"a=\xfc; sojourn-7080=x; b=\xc3\xbc").unwrap();
        let mut headers = HeaderMap::from_iter([(COOKIE, line)]);
        assert_eq!(values(&headers, "sojourn-7080"), ["x"]);
        remove_reserved(&mut headers);
        assert_eq!(headers[COOKIE].as_bytes(), b"a=\xfc; b=\xc3\xbc");
    }
}
