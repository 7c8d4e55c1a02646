//! Text in quotes.

use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;

/// How a character is written that cannot stand for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escape {
    /// By a letter: `\b`.
    Letter(char),
    /// By its byte: `\x08`.
    Byte,
    /// By its number: `\u0008`, and `\U0010ffff` where that is too short.
    Number,
}

/// Writes text in double quotes. What every writer of Go escapes is escaped; about the rest `escape`
/// is asked.
pub(crate) fn quoted(out: &mut String, text: &str, escape: impl Fn(char) -> Option<Escape>) {
    out.push('"');
    for c in text.chars() {
        let escape = match c {
            '"' | '\\' => Some(Escape::Letter(c)),
            '\n' => Some(Escape::Letter('n')),
            '\r' => Some(Escape::Letter('r')),
            '\t' => Some(Escape::Letter('t')),
            c => escape(c),
        };
        let number = u32::from(c);
        // Writing to a String cannot fail.
        let _ = match escape {
            None => out.write_char(c),
            Some(Escape::Letter(letter)) => write!(out, "\\{letter}"),
            Some(Escape::Byte) => write!(out, "\\x{number:02x}"),
            Some(Escape::Number) if number <= 0xffff => write!(out, "\\u{number:04x}"),
            Some(Escape::Number) => write!(out, "\\U{number:08x}"),
        };
    }
    out.push('"');
}

/// A string as Go's `%q` prints it.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    // Most texts have nothing to escape, and one list may bring a million of them.
    if text.bytes().all(is_plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
        return out;
    }
    quoted(&mut out, text, |c| match c {
        '\u{7}' => Some(Escape::Letter('a')),
        '\u{8}' => Some(Escape::Letter('b')),
        '\u{b}' => Some(Escape::Letter('v')),
        '\u{c}' => Some(Escape::Letter('f')),
        c if c.is_ascii_control() => Some(Escape::Byte),
        c => (!is_printable(c)).then_some(Escape::Number),
    });
    out
}

/// A byte as Go's JSON package shows a character that should not be there, with its single quotes.
pub(crate) fn quote_byte(byte: u8) -> String {
    match byte {
        b'"' => "'\"'".to_owned(),
        b'\'' => r"'\''".to_owned(),
        _ => {
            let quoted = quote(char::from(byte).encode_utf8(&mut [0; 4]));
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}

/// Letters, marks, numbers, punctuation, symbols, and of all spaces that of ASCII.
fn is_printable(c: char) -> bool {
    static PRINTABLE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"[\p{L}\p{M}\p{N}\p{P}\p{S}]").expect("the pattern is a constant")
    });
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    PRINTABLE.is_match(c.encode_utf8(&mut [0; 4]))
}

/// Go's own quoting in time errors: what is not printable ASCII stands in hexadecimal.
pub(crate) fn quote_bytes(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=0x7f => quoted.push(char::from(byte)),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Verified with `strconv.Quote`.
    #[test]
    fn text_is_quoted_as_go_quotes_it() {
        for (text, quoted) in [
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\n\r\t\u{7}\u{8}\u{b}\u{c}", r#""\n\r\t\a\b\v\f""#),
            ("\u{1}\u{7f}", r#""\x01\x7f""#),
            ("\u{80}\u{a0}\u{ad}", r#""\u0080\u00a0\u00ad""#),
            ("\u{200b}\u{2028}\u{3000}\u{e000}\u{378}", r#""\u200b\u2028\u3000\ue000\u0378""#),
            ("\u{e0001}\u{10ffff}", r#""\U000e0001\U0010ffff""#),
            ("é ü <&> 😀\u{fffd}a\u{301}", "\"é ü <&> 😀\u{fffd}a\u{301}\""),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }

    #[test]
    fn bytes_are_quoted_as_characters() {
        for (byte, quoted) in
            [(b'x', "'x'"), (b'"', "'\"'"), (b'\'', r"'\''"), (b'\\', r"'\\'"), (0, r"'\x00'")]
        {
            assert_eq!(quote_byte(byte), quoted);
        }
        assert_eq!(quote_byte(0xe9), "'é'");
        assert_eq!(quote_byte(0xa0), r"'\u00a0'");
    }
}
