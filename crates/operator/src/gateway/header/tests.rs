use super::*;

const OURS: [&str; 1] = ["sojourn-"];

fn client_info() -> ClientInfo {
    ClientInfo {
        peer: Some("192.0.2.1".parse().unwrap()),
        authority: HeaderValue::from_static("a.localhost:7080"),
        secure: false,
    }
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

fn sorted(headers: &HeaderMap) -> Vec<String> {
    let mut lines: Vec<String> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    lines.sort();
    lines
}

#[test]
fn what_is_forwarded_is_what_we_say() {
    let mut sent = headers(&[
        ("host", "a.localhost:7080"),
        ("connection", "keep-alive, X-Secret, cookie2"),
        ("x-secret", "1"),
        ("keep-alive", "1"),
        ("te", "trailers"),
        ("upgrade", "h2c"),
        ("http2-settings", "AA"),
        ("proxy-authorization", "Basic x"),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-for", "203.0.113.8"),
        ("x-forwarded-user", "admin"),
        ("x-forwarded-prefix", "/"),
        ("x-real-ip", "203.0.113.9"),
        ("forwarded", "for=203.0.113.9"),
        ("expect", "100-continue"),
        ("accept", "*/*"),
        ("cookie", "sojourn-7080=s; a=1"),
    ]);
    outbound(&mut sent, &client_info(), &OURS);
    assert_eq!(
        sorted(&sent),
        [
            "accept: */*",
            "connection: close, te",
            "cookie: a=1",
            "host: a.localhost:7080",
            "te: trailers",
            "x-forwarded-for: 192.0.2.1",
            "x-forwarded-host: a.localhost:7080",
            "x-forwarded-proto: http",
        ]
    );
}

#[test]
fn naming_a_header_in_connection_cannot_take_away_what_we_set() {
    let mut sent = headers(&[("connection", "host, x-forwarded-for, x-forwarded-prefix")]);
    outbound(&mut sent, &client_info(), &OURS);
    assert_eq!(sent["host"], "a.localhost:7080");
    assert_eq!(sent["x-forwarded-for"], "192.0.2.1");
    assert!(!sent.contains_key("x-forwarded-prefix"), "it stands at the root");
}

#[test]
fn an_address_with_letters_of_other_languages_is_followed_too() {
    let mut sent = HeaderMap::new();
    let location = "http://127.0.0.1:9/grüße".as_bytes();
    sent.insert(LOCATION, HeaderValue::from_bytes(location).unwrap());
    inbound(&mut sent, &client_info(), "127.0.0.1:9".parse().unwrap(), &OURS);
    assert_eq!(sent[LOCATION].as_bytes(), "/grüße".as_bytes());
}

#[test]
fn an_instance_speaks_for_itself_only() {
    let mut sent = headers(&[
        ("location", "http://127.0.0.1:9/x"),
        ("content-location", "/y"),
        ("clear-site-data", "\"*\""),
        ("service-worker-allowed", "/"),
        ("cross-origin-opener-policy", "same-origin"),
        ("strict-transport-security", "max-age=1"),
        ("set-cookie", "a=1; Path=/; Domain=example.org"),
        ("set-cookie", "sojourn-7080=x; Path=/"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("content-type", "text/html"),
    ]);
    inbound(&mut sent, &client_info(), "127.0.0.1:9".parse().unwrap(), &OURS);
    assert_eq!(
        sorted(&sent),
        [
            "content-location: /y",
            "content-type: text/html",
            "cross-origin-opener-policy: same-origin",
            "location: /x",
            "service-worker-allowed: /",
            "set-cookie: a=1; Path=/",
        ]
    );
}
