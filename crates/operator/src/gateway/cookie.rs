//! Cookies on their way between a browser and an instance.
//!
//! Ours go to no instance and are set by none; what an instance sets is of its own host. Instances
//! are siblings below one name: a cookie with a `Domain` would be sent to all of them.

#[cfg(test)]
mod tests;

use http::HeaderMap;
use http::header::{COOKIE, HeaderValue, SET_COOKIE};

/// What an instance may say of a cookie. `Domain` is not among them.
const ATTRIBUTES: [&str; 8] =
    ["path", "expires", "max-age", "secure", "httponly", "samesite", "partitioned", "priority"];

/// Leaves the cookies of a request that are not ours.
pub(crate) fn outbound(headers: &mut HeaderMap, reserved: &[&str]) {
    // Bytes, because any page may leave a cookie that is no text among the others.
    let kept: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii)
        .filter(|pair| !pair.is_empty() && !is_reserved(name_of(pair), reserved))
        .collect();
    let kept = HeaderValue::from_bytes(&kept.join(&b"; "[..])).ok();
    headers.remove(COOKIE);
    if let Some(kept) = kept.filter(|kept| !kept.is_empty()) {
        headers.insert(COOKIE, kept);
    }
}

/// Keeps an instance's cookies to its own host and drops those that could be taken for ours.
pub(crate) fn inbound(headers: &mut HeaderMap, reserved: &[&str]) {
    let kept: Vec<HeaderValue> = headers
        .get_all(SET_COOKIE)
        .iter()
        .filter_map(|line| confined(std::str::from_utf8(line.as_bytes()).ok()?, reserved))
        .filter_map(|line| HeaderValue::try_from(line).ok())
        .collect();
    headers.remove(SET_COOKIE);
    for line in kept {
        headers.append(SET_COOKIE, line);
    }
}

fn confined(line: &str, reserved: &[&str]) -> Option<String> {
    let mut parts = line.split(';').map(str::trim);
    let pair = parts.next()?;
    let name = name_of(pair.as_bytes());
    // A cookie without a name is sent as its bare value, which may look like one of ours.
    if name.is_empty() || !pair.contains('=') || is_reserved(name, reserved) {
        return None;
    }
    let mut kept = pair.to_owned();
    for attribute in parts {
        let key = attribute.split('=').next().unwrap_or_default().trim().to_ascii_lowercase();
        if ATTRIBUTES.contains(&key.as_str()) {
            kept.push_str("; ");
            kept.push_str(attribute);
        }
    }
    Some(kept)
}

fn name_of(pair: &[u8]) -> &[u8] {
    pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii()
}

fn is_reserved(name: &[u8], reserved: &[&str]) -> bool {
    reserved.iter().any(|prefix| starts_with_ignoring_case(name, prefix))
}

fn starts_with_ignoring_case(text: &[u8], prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}
