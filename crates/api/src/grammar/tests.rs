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
fn spans_that_are_limited() {
    let hours = jiff::SignedDuration::from_hours;
    for (text, span) in [("365d", hours(365 * 24)), ("1d12h", hours(36)), ("12h1d", hours(36))] {
        assert_eq!(year_span(text), Ok(span));
        assert_eq!(year_age(text), Ok(Term::Span(span)));
    }
    for text in ["366d", "365d1ms", "8761h"] {
        assert_eq!(year_span(text), Err(YEAR_MESSAGE.to_owned()), "{text}");
        assert_eq!(year_age(text), Err(YEAR_MESSAGE.to_owned()), "{text}");
    }
    assert_eq!(year_age("never"), Ok(Term::Never));
    assert_eq!(year_span("never"), Err(SPAN_MESSAGE.to_owned()));
    assert_eq!(year_age("0s"), Err(AGE_MESSAGE.to_owned()));
}

#[test]
fn users_groups_and_clusters() {
    let longest = "a".repeat(512);
    accepts(
        &PRINCIPAL,
        &["ada@example.org", "oidc:admins", "Ada L.", "é", &longest],
        &["", " ", " ada", "ada ", "a\nb", "a\u{0}b", "\t"],
    );
    assert!(PRINCIPAL.check(&"a".repeat(513)).is_err());
    accepts(&CLUSTER, &["local", "eu-1", "0"], &["", "Local", "-a", "a-", "a.b", "a b"]);
}

#[test]
fn what_machines_are_known_by() {
    let longest = "a".repeat(63);
    accepts(
        &INFRA_ID,
        &["blue-x7k2p", "Blue_1.a", "0", &longest],
        &["", "-a", "a-", "a b", "a/b", "é"],
    );
    assert!(INFRA_ID.check(&"a".repeat(64)).is_err());
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
        &PRINCIPAL,
        &CLUSTER,
        &INFRA_ID,
    ];
    for grammar in all {
        for pattern in [Some(grammar.pattern), grammar.except].into_iter().flatten() {
            assert!(!pattern.contains('\''), "{pattern}");
        }
        // Compiles both patterns.
        let _ = grammar.check("x");
    }
}

#[test]
fn ages_and_pauses() {
    assert_eq!(age("21d").map(|age| age.to_string()), Ok("21d".to_owned()));
    assert_eq!(age("never"), Ok(Term::Never));
    for zero in ["0s", "0d", "0m0s", "0.0h"] {
        assert_eq!(age(zero), Err(AGE_MESSAGE.to_owned()), "{zero}");
        assert_eq!(pause(zero), Ok(jiff::SignedDuration::ZERO), "{zero}");
    }
    assert_eq!(pause("never"), Err(PAUSE_MESSAGE.to_owned()));
    for bad in ["", "-5m", "5", "x"] {
        assert!(age(bad).is_err() && pause(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn zones_and_shares() {
    accepts(
        &TIME_ZONE,
        &["UTC", "Europe/Rome", "America/Argentina/Buenos_Aires", "Etc/GMT+5"],
        &["", "/etc", "../x", "Europe/", "Europe Rome", "a/b/c/d", "5"],
    );
    accepts(&PERCENT, &["0%", "7%", "20%", "100%"], &["", "%", "101%", "020%", "5", "-1%", "5.5%"]);
}

/// What the schema lets through is what is read, but for what no pattern can tell.
#[test]
fn a_cron_line_is_one_for_the_schema_and_for_whoever_reads_it() {
    let read = |text: &str| text.parse::<sojourn_core::schedule::Cron>().is_ok();
    for good in [
        "* * * * *",
        "0 22 * * 1-5",
        "*/15 8-18 * * mon-fri",
        "0,30 0 1,15 JAN,Jul-dec 0,7",
        "059 023 031 012 007",
        "5/10 0-23/2 1 1 sun",
        "1   2  3 4  5",
        "@daily",
        "@midnight",
    ] {
        assert!(read(good), "{good}");
        assert_eq!(CRON.check(good), Ok(()), "{good}");
    }
    for bad in [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 0 *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "-1 * * * *",
        "1- * * * *",
        "1,, * * * *",
        "mon * * * *",
        "* * * mon *",
        "* * * * jan",
        "**/2 * * * *",
        "0060 * * * *",
        "@never",
        "@Daily",
        "every day at noon x",
    ] {
        assert!(!read(bad), "{bad}");
        assert!(CRON.check(bad).is_err(), "{bad}");
    }
}
