use std::net::{IpAddr, SocketAddr};

use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().expect(text)
}

#[test]
fn public_addresses_are_allowed_and_no_others() {
    let allow = Allow::default();
    for public in [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.0",
        "168.63.129.17",
        "172.15.255.255",
        "172.32.0.1",
        "192.0.1.1",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2a00:1450:4001::1",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
    ] {
        assert!(allow.allows(address(public)), "{public}");
    }
    for inner in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:10.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ] {
        assert!(!allow.allows(address(inner)), "{inner}");
    }
}

#[test]
fn listed_ranges_are_allowed_too() {
    let allow = Allow::parse(["10.0.0.0/8", "127.0.0.0/8", "fd00:1::/32", "192.168.7.7"]);
    let allow = allow.expect("they are right");
    for (text, expected) in [
        ("10.255.0.1", true),
        ("::ffff:10.255.0.1", true),
        ("64:ff9b::10.255.0.1", true),
        ("11.0.0.1", true),
        ("127.0.0.1", true),
        ("::1", false),
        ("fd00:1:2::3", true),
        ("fd00:ec2::254", false),
        ("192.168.7.7", true),
        ("192.168.7.8", false),
        ("169.254.169.254", false),
    ] {
        assert_eq!(allow.allows(address(text)), expected, "{text}");
    }
}

#[test]
fn the_widest_and_the_narrowest_ranges_hold() {
    let all = Allow::parse(["0.0.0.0/0", "::/0"]).expect("they are right");
    for text in ["0.0.0.0", "169.254.169.254", "255.255.255.255", "::", "fe80::1", "ff02::1"] {
        assert!(all.allows(address(text)), "{text}");
    }
    let one = Allow::parse(["169.254.169.254/32", "::1/128"]).expect("they are right");
    assert!(one.allows(address("169.254.169.254")) && one.allows(address("::1")));
    assert!(!one.allows(address("169.254.169.253")) && !one.allows(address("::2")));
    // However wide a range of IPv6 is, it opens no address of IPv4.
    let six = Allow::parse(["::/0"]).expect("it is right");
    assert!(!six.allows(address("127.0.0.1")) && !six.allows(address("::ffff:127.0.0.1")));
    let mapped = Allow::parse(["::ffff:10.0.0.0/104"]).expect("it is right");
    assert!(mapped.allows(address("10.1.2.3")) && mapped.allows(address("::ffff:10.1.2.3")));
}

#[test]
fn ranges_that_are_none_are_refused() {
    for (text, why) in [
        ("", "what it starts with is no address"),
        ("example.com", "what it starts with is no address"),
        ("10.0.0.0/33", "its length is not a number of bits"),
        ("10.0.0.0/", "its length is not a number of bits"),
        ("10.0.0.0/+8", "its length is not a number of bits"),
        ("10.0.0.0/-1", "its length is not a number of bits"),
        ("10.0.0.0/8/8", "its length is not a number of bits"),
        ("fd00::/129", "its length is not a number of bits"),
        ("10.0.0.1/8", "the address has bits set beyond the length"),
        ("fd00::1/8", "the address has bits set beyond the length"),
    ] {
        let error = Allow::parse([text]).expect_err(text).to_string();
        assert!(error.ends_with(why), "{text}: {error}");
        assert!(error.starts_with(&format!("`{text}` is not a range")), "{error}");
    }
}

#[test]
fn urls_are_checked_before_anything_is_sent() {
    let allow = Allow::parse(["127.0.0.0/8"]).expect("it is right");
    for url in ["http://127.0.0.1:8080/x", "https://exam.example/status?id=1", "http://2130706433/"]
    {
        assert!(check_url(url, &allow).is_ok(), "{url}");
    }
    for (url, expected) in [
        ("no url", "the URL cannot be read: relative URL without a base"),
        ("ftp://exam.example/", "the scheme `ftp` is neither http nor https"),
        ("file:///etc/passwd", "the scheme `file` is neither http nor https"),
        ("http://", "the URL cannot be read: empty host"),
        ("http://me:secret@exam.example/", "the URL carries credentials, which are never sent"),
        ("http://me@exam.example/", "the URL carries credentials, which are never sent"),
        ("http://:secret@exam.example/", "the URL carries credentials, which are never sent"),
        ("http://169.254.169.254/latest", "169.254.169.254 is at no address that is allowed"),
        ("http://0xa9fea9fe/", "169.254.169.254 is at no address that is allowed"),
        ("http://0/", "0.0.0.0 is at no address that is allowed"),
        ("http://10.1/", "10.0.0.1 is at no address that is allowed"),
        ("http://[::1]/", "[::1] is at no address that is allowed"),
        ("http://[fd00:ec2::254]/", "[fd00:ec2::254] is at no address that is allowed"),
        ("http://[::ffff:10.0.0.1]/", "[::ffff:a00:1] is at no address that is allowed"),
    ] {
        let refused = check_url(url, &allow).expect_err(url).to_string();
        assert_eq!(refused, expected, "{url}");
    }
}

#[tokio::test]
async fn a_host_is_resolved_to_an_address_that_is_allowed() {
    let loopback = Allow::parse(["127.0.0.0/8", "::1/128"]).expect("they are right");
    let expected = SocketAddr::from(([127, 0, 0, 1], 7));
    assert_eq!(resolve("127.0.0.1", 7, &loopback).await.expect("it is listed"), expected);
    let found = resolve("localhost", 7, &loopback).await.expect("it is listed");
    assert!(found.ip().is_loopback());
    assert_eq!(found.port(), 7);

    let refused = resolve("localhost", 7, &Allow::default()).await.expect_err("it is not listed");
    assert_eq!(refused.to_string(), "localhost is at no address that is allowed");
    let refused = resolve("::1", 7, &Allow::default()).await.expect_err("it is not listed");
    assert_eq!(refused.to_string(), "::1 is at no address that is allowed");
    let missing = resolve("no such host", 7, &loopback).await.expect_err("it is no name");
    assert!(missing.to_string().starts_with("cannot resolve no such host: "), "{missing}");
}

#[tokio::test]
async fn a_client_refuses_names_of_the_inner_network() {
    let client = client(&Allow::default()).build().expect("it can be built");
    let url = check_url("http://localhost:1/", &Allow::default()).expect("a name is not resolved");
    let error = client.get(url).send().await.expect_err("loopback is not allowed");
    let refused = refusal(&error).expect("it is the reason").to_string();
    assert_eq!(refused, "localhost is at no address that is allowed");
}

/// Ways to write the machine itself, or a metadata service, that something between us and the
/// kernel understands: the parser of the URL, or the resolver.
const SPELLINGS: [&str; 48] = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.1./",
    "http://127.000.000.001/",
    "http://0177.0.0.1/",
    "http://0177.0.0.0x1/",
    "http://017700000001/",
    "http://0x7f.0.0.1/",
    "http://0x7f.1/",
    "http://0x7f000001/",
    "http://0X7F000001/",
    "http://2130706433/",
    "http://127.255.255.254/",
    "http://%31%32%37.0.0.1/",
    "http://127%2e0%2e0%2e1/",
    "http://１２７.０.０.１/",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http:127.0.0.1/",
    "http:/127.0.0.1/",
    "http:///127.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "http://\t127.0.0.1/",
    "HTTP://127.0.0.1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://0x0/",
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[0000::0001]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::FFFF:7F00:0001]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://169.254.169.254/",
    "http://0xa9fea9fe/",
    "http://2852039166/",
    "http://169.16689662/",
    "http://0251.0376.0251.0376/",
    "http://[::ffff:169.254.169.254]/",
    "http://[fd00:ec2::254]/",
    "http://localhost/",
    "http://LOCALHOST/",
    "http://localhost:80#@exam.example/",
];

/// What looks like another host to a reader, and carries credentials or is none.
const DISGUISES: [&str; 12] = [
    "http://exam.example@127.0.0.1/",
    "http://exam.example:80@127.0.0.1/",
    "http://127.0.0.1@127.0.0.1/",
    "http://exam.example%40127.0.0.1/",
    "http://[::1%25lo]/",
    "http://[fe80::1%25eth0]/",
    "http://4294967297/",
    "http://256.0.0.1/",
    "gopher://127.0.0.1:6379/_",
    "dict://127.0.0.1/",
    "unix:///run/docker.sock",
    "data:text/plain,x",
];

#[tokio::test]
async fn no_spelling_of_an_inner_address_is_connected_to() {
    let nothing_more = Allow::default();
    let client = client(&nothing_more).build().expect("it can be built");
    for spelling in SPELLINGS {
        let refused = match check_url(spelling, &nothing_more) {
            Err(Refused::Address { .. }) => continue,
            Err(other) => panic!("{spelling}: {other}"),
            // A name: whatever it stands for is refused when it is resolved.
            Ok(url) => client.get(url).send().await.expect_err(spelling),
        };
        let refused = refusal(&refused).unwrap_or_else(|| panic!("{spelling}: {refused:?}"));
        assert!(matches!(refused, Refused::Address { .. }), "{spelling}: {refused}");
    }
    for disguise in DISGUISES {
        assert!(check_url(disguise, &nothing_more).is_err(), "{disguise}");
    }
}
