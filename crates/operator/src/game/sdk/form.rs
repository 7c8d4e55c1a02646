//! Percent-encoding: in paths, in queries, and in the messages of gRPC.

/// The values that a query gives to any of these names, in its order.
pub(super) fn query_values(query: Option<&str>, names: &[&str]) -> Vec<String> {
    let pairs = query.unwrap_or_default().split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let plain = |text: &str| decode(&text.replace('+', " "));
        names.contains(&plain(name)?.as_str()).then(|| plain(value))?
    });
    pairs.collect()
}

/// What was encoded; nothing, if that is no text.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match (*first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                bytes.extend(hex::decode(digits).ok()?);
                rest = after;
            }
            (b'%', _) => return None,
            (byte, _) => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

/// A text as gRPC wants it in a header: printable ASCII stays, but for the sign itself.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_as_forms_write_them() {
        let read = |query| query_values(Some(query), &["code", "key"]);
        assert_eq!(read("a=1&code=x%2By+z&code=2"), ["x+y z", "2"]);
        assert_eq!(read("%63ode=1&key"), ["1", ""]);
        assert_eq!(read("code=%ff&codes=1&=&&"), Vec::<String>::new());
        assert_eq!(query_values(None, &["code"]), Vec::<String>::new());
    }

    #[test]
    fn text_that_is_cut_off_or_not_utf_8_is_none() {
        for text in ["%", "%4", "%zz", "%ff", "a%"] {
            assert_eq!(decode(text), None, "{text}");
        }
        assert_eq!(decode("f%C3%BCnf%25+").as_deref(), Some("fünf%+"));
    }

    #[test]
    fn messages_are_encoded_so_that_a_header_can_hold_them() {
        assert_eq!(encode("100 % fünf\n"), "100 %25 f%C3%BCnf%0A");
        assert_eq!(decode(&encode("100 % fünf\n")).as_deref(), Some("100 % fünf\n"));
    }
}
