use super::*;

const OURS: [&str; 2] = ["sojourn-", "__host-sojourn"];

fn place() -> Place {
    Place::parse("/access", "/access/ns/lab/shell/app/login?x=/y").unwrap()
}

fn set(line: &str) -> Option<String> {
    confined(line, &place(), &OURS)
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
fn paths_stay_below_the_instance_and_domains_go() {
    let prefix = "/access/ns/lab/shell";
    for (line, expected) in [
        ("a=1; Path=/", format!("a=1; Path={prefix}/")),
        ("a=1; path=/x; Domain=example.org; HttpOnly", format!("a=1; HttpOnly; Path={prefix}/x")),
        ("a=1; Path=/; Path=/y", format!("a=1; Path={prefix}/y")),
        ("a=1; Path=/access/ns/lab/shell/x", format!("a=1; Path={prefix}/x")),
        ("a=1; Path=/access/ns/other/", format!("a=1; Path={prefix}/access/ns/other/")),
        ("a=1", format!("a=1; Path={prefix}/app")),
        ("a=1; Path=relative", format!("a=1; Path={prefix}/app")),
        (
            "a=1;Secure;SameSite=Lax;Strange=1",
            format!("a=1; Secure; SameSite=Lax; Path={prefix}/app"),
        ),
    ] {
        assert_eq!(set(line), Some(expected), "{line}");
    }
}

#[test]
fn an_instance_cannot_set_ours() {
    for line in [
        "sojourn-7080=x; Path=/",
        "SOJOURN-7080=x",
        " sojourn-7080 =x",
        "__Host-sojourn=x; Secure; Path=/",
        "__host-other=x; Secure; Path=/",
        "=sojourn-7080=x; Path=/",
        "sojourn-7080",
        "",
    ] {
        assert_eq!(set(line), None, "{line}");
    }
}
