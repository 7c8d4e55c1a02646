use super::*;

const OURS: [&str; 2] = ["sojourn-", "__host-sojourn"];

fn set(line: &str) -> Option<String> {
    confined(line, &OURS)
}

#[test]
fn our_cookies_go_to_no_instance() {
    let lines = ["a=1; sojourn-7080=s; b=2", "__Host-sojourn=t", "Sojourn-1=u;c=3"];
    let mut headers: HeaderMap =
        lines.iter().map(|line| (COOKIE, HeaderValue::from_static(line))).collect();
    outbound(&mut headers, &OURS);
    assert_eq!(headers.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2; c=3"]);
    let mut headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static("sojourn-1=s"))]);
    outbound(&mut headers, &OURS);
    assert!(headers.is_empty());
    let line = HeaderValue::from_bytes(b"a=\xfc; sojourn-1=s; b=2").unwrap();
    let mut headers = HeaderMap::from_iter([(COOKIE, line)]);
    outbound(&mut headers, &OURS);
    assert_eq!(headers[COOKIE].as_bytes(), b"a=\xfc; b=2");
}

#[test]
fn what_an_instance_sets_is_of_its_own_host() {
    for (line, expected) in [
        ("a=1; Path=/", "a=1; Path=/"),
        ("a=1; path=/x; Domain=localhost; HttpOnly", "a=1; path=/x; HttpOnly"),
        ("a=1;domain=.apps.example.net; DOMAIN = example.net", "a=1"),
        ("a=1", "a=1"),
        ("a=1;Secure;SameSite=Lax;Strange=1", "a=1; Secure; SameSite=Lax"),
        ("__Host-app=1; Secure; Path=/", "__Host-app=1; Secure; Path=/"),
    ] {
        assert_eq!(set(line).as_deref(), Some(expected), "{line}");
    }
}

#[test]
fn an_instance_cannot_set_ours() {
    for line in [
        "sojourn-7080=x; Path=/",
        "SOJOURN-7080=x",
        " sojourn-7080 =x",
        "__Host-sojourn=x; Secure; Path=/",
        "__Host-sojourn-entry=x; Secure; Path=/",
        "sojourn-entry-7080=x; Path=/",
        "=sojourn-7080=x; Path=/",
        "sojourn-7080",
        "",
    ] {
        assert_eq!(set(line), None, "{line}");
    }
}
