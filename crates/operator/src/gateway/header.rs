//! Which headers of requests and responses are forwarded, replaced or removed.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use http::header::{
    self, CONNECTION, CONTENT_LOCATION, EXPECT, FORWARDED, HOST, HeaderName, HeaderValue, LOCATION,
    TE, TRANSFER_ENCODING, UPGRADE,
};

use super::cookie;
use super::location;

/// What concerns one connection and not the message (RFC 9110, 7.6.1), and the proofs for proxies.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("http2-settings"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
];

/// What reaches beyond the instance's own origin. `Clear-Site-Data` takes the cookies of the whole
/// registrable domain, siblings' and perhaps ours; the others bind the host under every port, or send
/// browsers and their reports elsewhere.
const BEYOND_ORIGIN: [HeaderName; 8] = [
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("strict-transport-security"),
    HeaderName::from_static("public-key-pins"),
    HeaderName::from_static("expect-ct"),
    HeaderName::from_static("alt-svc"),
    HeaderName::from_static("nel"),
    HeaderName::from_static("report-to"),
    HeaderName::from_static("set-cookie2"),
];

/// Who asks and how, as the forwarded headers tell the instance.
#[derive(Debug, Clone)]
pub(crate) struct ClientInfo {
    pub peer: Option<IpAddr>,
    /// Host and port in the browser's address bar.
    pub authority: HeaderValue,
    pub secure: bool,
}

/// What is sent to the instance of a request's headers.
pub(crate) fn outbound(
    headers: &mut HeaderMap,
    client_info: &ClientInfo,
    reserved_cookies: &[&str],
) {
    let takes_trailers = headers
        .get_all(TE)
        .iter()
        .any(|te| te.to_str().is_ok_and(|te| te.eq_ignore_ascii_case("trailers")));
    remove_hop_by_hop(headers);
    let claims: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("x-forwarded-") || name.as_str() == "x-real-ip")
        .cloned()
        .collect();
    for name in claims.iter().chain([&FORWARDED, &EXPECT]) {
        headers.remove(name);
    }
    cookie::outbound(headers, reserved_cookies);
    headers.insert(HOST, client_info.authority.clone());
    headers.insert("x-forwarded-host", client_info.authority.clone());
    let scheme = if client_info.secure { "https" } else { "http" };
    headers.insert("x-forwarded-proto", HeaderValue::from_static(scheme));
    if let Some(peer) = client_info.peer {
        let peer = HeaderValue::try_from(peer.to_canonical().to_string());
        headers.insert("x-forwarded-for", peer.expect("an address is plain ASCII"));
    }
    // Each request has its own connection, so no leftover bytes can reach the next request.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONNECTION, HeaderValue::from_static("close, te"));
    }
}

/// What a browser gets of an answer's headers.
pub(crate) fn inbound(
    headers: &mut HeaderMap,
    client_info: &ClientInfo,
    address: SocketAddr,
    reserved_cookies: &[&str],
) {
    remove_hop_by_hop(headers);
    for name in BEYOND_ORIGIN {
        headers.remove(name);
    }
    cookie::inbound(headers, reserved_cookies);
    let address = address.to_string();
    let own = [client_info.authority.to_str().unwrap_or_default(), address.as_str()];
    for name in [LOCATION, CONTENT_LOCATION] {
        let outward = headers
            .get(&name)
            .and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
            .and_then(|value| HeaderValue::try_from(location::outward(value, &own)).ok());
        if let Some(outward) = outward {
            headers.insert(name, outward);
        }
    }
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}
