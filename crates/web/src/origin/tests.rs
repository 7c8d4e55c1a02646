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
    Site { authority: "127.0.0.1:7080".to_owned(), port: 7080, secure: false }
}

fn site(names: &Names, host: &str, local: &str, secure: bool) -> Result<Site, Refusal> {
    let mut parts = parts("GET", "/", &[("host", host)]);
    parts.extensions.insert(Arrival { local: local.parse().unwrap(), secure });
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
