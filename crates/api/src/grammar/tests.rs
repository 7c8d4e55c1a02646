use super::*;

fn accepts(grammar: &Grammar, good: &[&str], bad: &[&str]) {
    for text in good {
        assert_eq!(grammar.check(text), Ok(()), "{text:?}");
    }
    for text in bad {
        assert_eq!(grammar.check(text), Err(grammar.message()), "{text:?}");
    }
}

#[test]
fn addresses_of_people() {
    let long = format!("{}@example.org", "a".repeat(65));
    accepts(
        &EMAIL,
        &[
            "ada@example.org",
            "a.b+c@mail.example.co.uk",
            "o_k@x-y.io",
            "o'brien@example.ie",
            "a@b.xn--p1ai",
        ],
        &[
            "",
            "ada",
            "ada@",
            "@example.org",
            "ada@example",
            "a b@example.org",
            "ada@-x.org",
            "ada@x..org",
            ".a@example.org",
            "a.@example.org",
            "a..b@example.org",
            "ada@example.org\nBcc: eve@example.org",
            "Ada <ada@example.org>",
            "ada@example.org ",
            "\"a b\"@example.org",
            "ada@example.1",
            long.as_str(),
        ],
    );
}

#[test]
fn names_from_which_names_are_made() {
    let longest = "a".repeat(32);
    accepts(&INSTANCE_NAME, &["a", "lab-1", &longest], &["", "1a", "-a", "a-", "A", "a.b", "a_b"]);
    assert!(INSTANCE_NAME.check(&"a".repeat(33)).is_err());
    accepts(&ENVIRONMENT_NAME, &["a", "0", "my-env"], &["", "-a", "a-", "Env", "a b"]);
    assert!(ENVIRONMENT_NAME.check(&"e".repeat(21)).is_err());
    accepts(&PORT_NAME, &["http", "h2"], &["", "80", "a--b", "sixteen-letters-"]);
}

#[test]
fn paths_in_a_container() {
    accepts(
        &MOUNT_PATH,
        &["/data", "/srv/me/", "/a b/ä", "/...", "/a/..b"],
        &["", "/", "data", "./data", "/a//b", "/a/../b", "/..", "/a:b", "/a\nb"],
    );
}

#[test]
fn urls_without_secrets() {
    accepts(
        &URL,
        &[
            "http://a",
            "https://exam.example.org:8443/status?id=1",
            "http://[::1]:80/x",
            "http://127.0.0.1/",
            "https://a_b.example.org?x=1",
        ],
        &[
            "",
            "ftp://a",
            "http://",
            "http://me:pw@host/",
            "//host/",
            "http:// a",
            "file:///etc",
            "http://a/\u{e9}",
            "http://a/ b",
            "http://a:123456/",
            "javascript:alert(1)",
        ],
    );
}

#[test]
fn amounts() {
    accepts(&SIZE, &["1Gi", "500M", "10", "1.5Gi"], &["", "0", "0Gi", "-1Gi", "1gb", "Gi", "1 Gi"]);
    accepts(&QUANTITY, &["500m", "2", "0", "1.5", ".5", "1e3"], &["", "-1", "1gb", "1e999", "m"]);
}

#[test]
fn codes() {
    for good in ["404", "2xx", "200-299", "200-200"] {
        assert_eq!(check_codes(good), Ok(()), "{good}");
    }
    for bad in ["", "4", "2XX", "600", "299-200", "200-", "2xx-3xx", "404,500"] {
        assert!(check_codes(bad).is_err(), "{bad}");
    }
}

#[test]
fn spans_that_must_end() {
    assert_eq!(span("1.5h"), Ok(jiff::SignedDuration::from_mins(90)));
    assert_eq!(span("never"), Err(SPAN_MESSAGE.to_owned()));
    assert_eq!(span("0m"), Err(SPAN_MESSAGE.to_owned()));
    assert!(span("10x").unwrap_err().contains("\"10x\""));
}

#[test]
fn patterns_can_be_put_into_expressions() {
    let all = [
        &EMAIL,
        &INSTANCE_NAME,
        &ENVIRONMENT_NAME,
        &REFERENCE,
        &NAMESPACE,
        &MOUNT_PATH,
        &URL,
        &SIZE,
        &QUANTITY,
        &CODES,
        &PORT_NAME,
        &VARIABLE,
    ];
    for grammar in all {
        for pattern in [Some(grammar.pattern), grammar.except].into_iter().flatten() {
            assert!(!pattern.contains('\''), "{pattern}");
        }
        // Compiles both patterns.
        let _ = grammar.check("x");
    }
}
