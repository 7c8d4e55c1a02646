use http::Request;

use super::*;

fn parts(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn ours() -> Site {
    let zone = Zone::Own { loopback: true };
    Site { authority: "127.0.0.1:7080".to_owned(), port: 7080, secure: false, zone }
}

fn site(names: &Names, host: &str, local: &str, secure: bool) -> Result<Site, Refusal> {
    let mut parts = parts("GET", "/", &[("host", host)]);
    parts.extensions.insert(TransportInfo { local: local.parse().unwrap(), secure });
    names.site(&parts)
}

#[test]
fn only_own_names_are_served() {
    let names = Names::new(Some("https://lab.example.org"), &["box".to_owned()]).unwrap();
    for host in [
        "localhost:7080",
        "LOCALHOST",
        "127.0.0.1:7080",
        "127.9.9.9",
        "[::1]:7080",
        "192.0.2.7:1",
        "lab.example.org",
        "lab.example.org:8443",
        "Box:7080",
    ] {
        assert!(site(&names, host, "192.0.2.7:7080", false).is_ok(), "{host}");
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "192.0.2.8:7080",
        "lab.example.org.",
        "0x7f.1",
    ] {
        let refused = site(&names, host, "192.0.2.7:7080", false);
        assert_eq!(refused, Err(Refusal::OtherHost), "{host}");
    }
    for host in ["", "a b", "user@localhost", "localhost:99999999", "http://localhost"] {
        let refused = site(&names, host, "127.0.0.1:7080", false);
        assert!(refused.is_err(), "{host}: {refused:?}");
    }
}

#[test]
fn a_mapped_address_is_the_address() {
    let names = Names::default();
    assert!(site(&names, "192.0.2.7", "[::ffff:192.0.2.7]:7080", false).is_ok());
}

#[test]
fn one_host_and_no_more() {
    let names = Names::default();
    let two = parts("GET", "/", &[("host", "localhost"), ("host", "localhost")]);
    assert_eq!(names.site(&two), Err(Refusal::NoHost));
    let none = parts("GET", "/", &[]);
    assert_eq!(names.site(&none), Err(Refusal::NoHost));
    let differing = parts("GET", "http://localhost/", &[("host", "evil.example")]);
    assert_eq!(names.site(&differing), Err(Refusal::NoHost));
    let absolute = parts("GET", "http://localhost/", &[("host", "localhost")]);
    assert!(names.site(&absolute).is_ok());
}

#[test]
fn cookies_are_secure_where_the_browser_talks_tls() {
    let names = Names::new(Some("https://lab.example.org"), &[]).unwrap();
    let seen = |host, tls| {
        let site = site(&names, host, "127.0.0.1:7080", tls).unwrap();
        (site.secure, site.port)
    };
    assert_eq!(seen("127.0.0.1:7080", false), (false, 7080));
    assert_eq!(seen("127.0.0.1:7080", true), (true, 7080));
    assert_eq!(seen("lab.example.org", false), (true, 443));
    assert_eq!(seen("lab.example.org:7080", false), (false, 7080));
    assert_eq!(seen("localhost", false), (false, 80));
}

#[test]
fn a_public_address_needs_scheme_and_host() {
    for bad in ["lab.example.org", "ftp://lab.example.org", "/x", "", "https://"] {
        assert!(Names::new(Some(bad), &[]).is_none(), "{bad}");
    }
    assert!(Names::new(Some("http://lab.example.org/sub/"), &[]).is_some());
}

#[test]
fn who_sends_what() {
    const VISIT: [(&str, &str); 2] =
        [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    const FRAME: [(&str, &str); 2] = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
    let site_is = |value| [("sec-fetch-site", value)];
    let upgrade = [("upgrade", "websocket")];
    let origin = |value| [("origin", value)];
    let own = "http://127.0.0.1:7080";
    let evil = "http://evil.example";
    let rows = [
        ("GET", vec![], Ok(Sender::Ours)),
        ("POST", vec![], Ok(Sender::Unsaid)),
        ("GET", upgrade.to_vec(), Ok(Sender::Unsaid)),
        ("POST", site_is("same-origin").to_vec(), Ok(Sender::Ours)),
        ("POST", site_is("none").to_vec(), Ok(Sender::Ours)),
        ("POST", site_is("same-site").to_vec(), Err(Refusal::CrossSite)),
        ("POST", site_is("cross-site").to_vec(), Err(Refusal::CrossSite)),
        ("POST", site_is("nonsense").to_vec(), Err(Refusal::CrossSite)),
        ("POST", [site_is("none"), site_is("cross-site")].concat(), Err(Refusal::CrossSite)),
        ("POST", [&site_is("cross-site")[..], &VISIT].concat(), Err(Refusal::CrossSite)),
        ("POST", [site_is("cross-site"), origin(own)].concat(), Err(Refusal::CrossSite)),
        ("GET", site_is("cross-site").to_vec(), Err(Refusal::CrossSite)),
        ("GET", [&site_is("cross-site")[..], &VISIT].concat(), Ok(Sender::Link)),
        ("GET", [&site_is("same-site")[..], &VISIT].concat(), Ok(Sender::Link)),
        ("GET", [&site_is("cross-site")[..], &FRAME].concat(), Err(Refusal::CrossSite)),
        ("GET", [&site_is("cross-site")[..], &VISIT, &upgrade].concat(), Err(Refusal::CrossSite)),
        ("GET", [site_is("cross-site"), upgrade].concat(), Err(Refusal::CrossSite)),
        ("GET", [site_is("same-origin"), upgrade].concat(), Ok(Sender::Ours)),
        ("POST", origin(own).to_vec(), Ok(Sender::Ours)),
        ("GET", [origin(own), upgrade].concat(), Ok(Sender::Ours)),
        ("POST", origin("null").to_vec(), Err(Refusal::CrossSite)),
        ("GET", [origin(evil), upgrade].concat(), Err(Refusal::CrossSite)),
        ("DELETE", origin("http://127.0.0.1:7081").to_vec(), Err(Refusal::CrossSite)),
        ("CONNECT", site_is("none").to_vec(), Err(Refusal::Method)),
    ];
    for (method, headers, expected) in rows {
        let uri = if method == "CONNECT" { "localhost:1" } else { "/" };
        assert_eq!(
            sender(&parts(method, uri, &headers), &ours()),
            expected,
            "{method} {headers:?}"
        );
    }
}

#[test]
fn own_pages_are_for_windows_not_for_scripts() {
    let visit = |headers: &[(&str, &str)]| is_visit(&parts("GET", "/", headers).headers);
    assert!(visit(&[]));
    assert!(visit(&[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")]));
    assert!(!visit(&[("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")]));
    assert!(!visit(&[("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")]));
    assert!(!visit(&[("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "document")]));
}

fn with_instances() -> Names {
    let names = Names::new(Some("https://labs.example.org"), &[]).unwrap();
    names.with_instances(Some("apps.example.net"), Some("http://127.0.0.1:7080"))
}

#[test]
fn an_instance_is_known_by_its_host_alone() {
    let names = with_instances();
    let label = |host: &str| match site(&names, host, "127.0.0.1:7080", false).ok()?.zone {
        Zone::Instance { label, local } => Some((label, local)),
        Zone::Own { .. } => None,
    };
    let web = "web-ada-abcdefghi";
    assert_eq!(label("web-ada-abcdefghi.localhost:7080"), Some((web.to_owned(), true)));
    assert_eq!(label("WEB-ada-abcdefghi.LocalHost"), Some((web.to_owned(), true)));
    assert_eq!(label("web-ada-abcdefghi.apps.example.net"), Some((web.to_owned(), false)));
    for ours in ["localhost:7080", "127.0.0.1:7080", "labs.example.org"] {
        assert_eq!(label(ours), None, "{ours}");
    }
    let long = format!("{}.localhost", "a".repeat(64));
    for nobodys in [
        "a.b.localhost",
        "-a.localhost",
        ".localhost",
        "a_b.localhost",
        "a.localhost.",
        "apps.example.net",
        "a.b.apps.example.net",
        "aapps.example.net",
        "a.labs.example.org",
        &long,
    ] {
        let refused = site(&names, nobodys, "127.0.0.1:7080", false);
        assert!(refused.is_err(), "{nobodys}: {refused:?}");
    }
    let undomained = Names::default();
    assert!(site(&undomained, "a.apps.example.net", "127.0.0.1:7080", false).is_err());
}

/// Over HTTP/2 there is no `Host` but an `:authority`; where both are, they agree.
#[test]
fn each_request_is_for_its_own_authority() {
    let names = with_instances();
    let zone = |uri: &str, host: Option<&str>| {
        let headers: Vec<_> = host.iter().map(|host| ("host", *host)).collect();
        names.site(&parts("GET", uri, &headers)).map(|site| site.zone)
    };
    let instance = Ok(Zone::Instance { label: "a".to_owned(), local: false });
    assert_eq!(zone("https://a.apps.example.net/x", None), instance);
    assert_eq!(zone("https://a.apps.example.net/x", Some("a.apps.example.net")), instance);
    let own = Ok(Zone::Own { loopback: false });
    assert_eq!(zone("https://labs.example.org/x", None), own);
    let both = zone("https://a.apps.example.net/x", Some("labs.example.org"));
    assert_eq!(both, Err(Refusal::NoHost));
    let sibling = zone("https://a.apps.example.net/x", Some("b.apps.example.net"));
    assert_eq!(sibling, Err(Refusal::NoHost));
}

#[test]
fn each_origin_knows_the_way_to_the_other() {
    let names = with_instances();
    let at = |host: &str, tls| site(&names, host, "127.0.0.1:7080", tls).unwrap();
    let instance = |host: &str, tls| names.instance_origin(&at(host, tls), "a");
    // Somebody forwards a port.
    assert_eq!(instance("localhost:8080", false).as_deref(), Some("http://a.localhost:8080"));
    assert_eq!(instance("127.0.0.1:7080", false).as_deref(), Some("http://a.localhost:7080"));
    assert_eq!(instance("labs.example.org", false).as_deref(), Some("https://a.apps.example.net"));
    let own = |host: &str| names.own_origin(&at(host, false));
    assert_eq!(own("a.localhost:8080"), "http://127.0.0.1:8080");
    assert_eq!(own("a.apps.example.net"), "https://labs.example.org");
    assert!(at("a.apps.example.net", false).secure, "TLS ends in front of us");
    let undomained = Names::new(Some("https://labs.example.org"), &[]).unwrap();
    let there = site(&undomained, "labs.example.org", "127.0.0.1:7080", true).unwrap();
    assert_eq!(undomained.instance_origin(&there, "a"), None);
}

#[test]
fn all_but_visits_must_come_from_the_instances_own_pages() {
    let zone = Zone::Instance { label: "a".to_owned(), local: true };
    let authority = "a.localhost:7080".to_owned();
    let site = Site { authority, port: 7080, secure: false, zone };
    let visit = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    let frame = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
    let script = [("sec-fetch-mode", "cors"), ("sec-fetch-dest", "empty")];
    let from = |value| [("sec-fetch-site", value)];
    let origin = |value| [("origin", value)];
    let socket = [("upgrade", "websocket"), ("connection", "upgrade")];
    let own = "http://a.localhost:7080";
    use Approach::{OwnPage, Unproven, Visit};
    for (method, headers, expected) in [
        ("GET", [&visit[..], &from("none")].concat(), Visit),
        ("GET", [&visit[..], &from("cross-site")].concat(), Visit),
        ("POST", [&visit[..], &from("cross-site")].concat(), Unproven),
        ("POST", [&visit[..], &from("same-site")].concat(), Unproven),
        ("POST", [&visit[..], &from("none")].concat(), Unproven),
        ("POST", [&visit[..], &from("same-origin"), &origin(own)].concat(), OwnPage),
        ("GET", [&frame[..], &from("cross-site")].concat(), Unproven),
        ("GET", [&frame[..], &from("same-origin")].concat(), OwnPage),
        ("GET", [&script[..], &from("same-origin")].concat(), OwnPage),
        ("GET", [&script[..], &from("same-site")].concat(), Unproven),
        ("GET", [&socket[..], &origin(own)].concat(), OwnPage),
        ("GET", [&socket[..], &origin("http://b.localhost:7080")].concat(), Unproven),
        ("GET", [&socket[..], &origin("https://a.localhost:7080")].concat(), Unproven),
        ("GET", [&socket[..], &visit, &from("cross-site")].concat(), Unproven),
        ("GET", [&from("same-origin")[..], &origin("http://b.localhost:7080")].concat(), Unproven),
        ("GET", socket.to_vec(), Unproven),
        ("GET", vec![], Unproven),
        ("POST", vec![], Unproven),
        ("OPTIONS", origin("http://b.localhost:7080").to_vec(), Unproven),
    ] {
        let parts = parts(method, "/", &headers);
        assert_eq!(approach(&parts, &site), Ok(expected), "{method} {headers:?}");
    }
    assert_eq!(approach(&parts("TRACE", "/", &[]), &site), Err(Refusal::Method));
}
