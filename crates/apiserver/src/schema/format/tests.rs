use super::*;

fn check(format: Format, good: &[&str], bad: &[&str]) {
    for text in good {
        assert!(format.accepts(text), "{format:?} should accept {text:?}");
    }
    for text in bad {
        assert!(!format.accepts(text), "{format:?} should refuse {text:?}");
    }
}

#[test]
fn times() {
    check(Format::Date, &["2024-02-29", "0000-01-01"], &["2023-02-29", "2024-13-01", "2024-1-01"]);
    check(
        Format::DateTime,
        &["2024-01-01T00:00:00Z", "2024-01-01t23:59:59.123+01:00", "2024-01-01T00:00:00.5z"],
        &["2024-01-01", "2024-01-01T24:00:00Z", "2024-01-01T00:00:60Z", "2024-01-01 00:00:00Z", ""],
    );
    check(
        Format::Duration,
        &["1h", "-1.5h", "1h30m", "0", "22 ns", "3 days", "2 Weeks", "1us", "5 minutes"],
        &["", "1", "h", "one hour", "1 fortnight"],
    );
}

#[test]
fn addresses() {
    check(
        Format::Ipv4,
        &["1.2.3.4", "010.1.1.1", "::ffff:1.2.3.4"],
        &["1.2.3", "256.1.1.1", "::1", "1.2.3.4.5", ""],
    );
    check(Format::Ipv6, &["::1", "fe80::1"], &["fe80::1%eth0", "1.2.3.4", ""]);
    check(
        Format::Cidr,
        &["10.0.0.0/8", "010.0.0.0/8", "::/0", "1.2.3.4/32"],
        &["10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "/8"],
    );
    check(
        Format::Mac,
        &["01:02:03:04:05:06", "01-02-03-04-05-06", "0102.0304.0506", "01:02:03:04:05:06:07:08"],
        &["01:02:03:04:05", "0102", "01:02:03:04:05:0g"],
    );
    check(
        Format::Hostname,
        &["a", "example.com", "a-b.example.com", "1a.example.com", "ünïcode.example"],
        &["", "-a", "a.", "example.c", "a_b.com", "a..b"],
    );
    check(
        Format::Uri,
        &["http://a/b", "/a/b", "mailto:x@y", "http://[::1]:80/x", "urn:a:b", "http://a?x=%zz"],
        &["", "a/b", "http://a b/", "http://a/%zz", ":x", "http://[::1/", "http://a:x/"],
    );
    check(
        Format::Email,
        &["a@b", "A B <a@b.c>", "\"x y\"@b.c", "a.b+c@d-e.f"],
        &["", "a", "a@", "@b", "a b@c", "a..b@c", "<a@b> x"],
    );
}

#[test]
fn numbers_and_colours() {
    check(
        Format::Uuid,
        &["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
        &["123e4567-e89b-12d3-a456-42661417400", "123e4567_e89b-12d3-a456-426614174000"],
    );
    check(
        Format::Uuid4,
        &["123e4567-e89b-42d3-a456-426614174000"],
        &["123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000"],
    );
    check(Format::Isbn10, &["0321751043", "0-321-75104-3"], &["0321751044", "978-0321751041"]);
    check(Format::Isbn13, &["978-0321751041"], &["978-0321751042", "0321751043"]);
    check(Format::CreditCard, &["4111 1111 1111 1111"], &["4111111111111112", "1"]);
    check(Format::Ssn, &["111-11-1111", "111 11 1111"], &["111111111", "11-111-1111"]);
    check(Format::HexColor, &["#fff", "FFFFFF"], &["#ffff", "#ggg"]);
    check(Format::RgbColor, &["rgb(1,2,3)", "rgb( 0, 255 , 9)"], &["rgb(1,2)", "rgb(256,0,0)"]);
    check(Format::Byte, &["YQ==", "YWI=", "YWJj"], &["", "YQ", "YQ=", "Y===", "Y Q="]);
    check(Format::BsonObjectId, &["507f1f77bcf86cd799439011"], &["507f1f77bcf86cd79943901"]);
    check(Format::ShortName, &["a-1"], &["A", "-a", "", "a.b"]);
    check(Format::LongName, &["a.b-c"], &["a..b", "A.b"]);
}

#[test]
fn names_are_read_by_type() {
    assert_eq!(Format::recognise("date-time", "string"), Some(Format::DateTime));
    assert_eq!(Format::recognise("datetime", ""), Some(Format::DateTime));
    assert_eq!(Format::recognise("int32", "integer"), Some(Format::Int32));
    assert_eq!(Format::recognise("int32", "number"), None);
    assert_eq!(Format::recognise("int32", "string"), None);
    assert_eq!(Format::recognise("uuid", "integer"), None);
    assert_eq!(Format::recognise("nope", "string"), None);
}

proptest::proptest! {
    #[test]
    fn nothing_panics(text in ".{0,40}") {
        for name in ["uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "isbn",
                     "creditcard", "byte", "date", "duration", "date-time", "rgbcolor"] {
            Format::recognise(name, "string").map(|f| f.accepts(&text));
        }
    }
}
