//! Splits the source of an expression into tokens.

use super::source::Issues;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// An operator, bracket or punctuation mark.
    Sign(&'static str),
    In,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    Text,
    Bytes,
    Ident,
    QuotedIdent,
    End,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Lexeme<'s> {
    pub(super) token: Token,
    pub(super) at: usize,
    pub(super) text: &'s str,
}

/// Longest first, so that `<=` is not read as `<`.
const SIGNS: [&str; 23] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "%",
];

/// All tokens of the source, an [`Token::End`] last; what is no token is reported and skipped.
pub(super) fn tokens<'s>(source: &'s str, issues: &mut Issues) -> Vec<Lexeme<'s>> {
    let mut lexemes = Vec::new();
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        if matches!(first, '\t' | ' ' | '\r' | '\n' | '\u{c}') {
            at += 1;
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else {
            match scan(rest) {
                Ok((token, length)) => {
                    lexemes.push(Lexeme { token, at, text: &rest[..length] });
                    at += length;
                }
                Err(length) => {
                    let text = rest[..length].replace('\n', "\\n").replace('\r', "\\r");
                    issues.push(at, format!("Syntax error: token recognition error at: '{text}'"));
                    at += length;
                }
            }
        }
    }
    lexemes.push(Lexeme { token: Token::End, at, text: "<EOF>" });
    lexemes
}

/// The token that `rest` begins with and its length, or how many bytes are no token at all.
fn scan(rest: &str) -> Result<(Token, usize), usize> {
    let bytes = rest.as_bytes();
    let number = number(bytes);
    if let Some(found) = number {
        return Ok(found);
    }
    if let Some((is_bytes, prefix, raw)) = text_prefix(bytes) {
        let kind = if is_bytes { Token::Bytes } else { Token::Text };
        match text_end(rest, prefix, raw) {
            Ok(length) => return Ok((kind, length)),
            // An unfinished string may still begin with an identifier: `r'`.
            Err(length) if prefix == 0 => return Err(length),
            Err(_) => {}
        }
    }
    if bytes[0].is_ascii_alphabetic() || bytes[0] == b'_' {
        let length = bytes.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        let token = match &rest[..length] {
            "in" => Token::In,
            "true" => Token::True,
            "false" => Token::False,
            "null" => Token::Null,
            _ => Token::Ident,
        };
        return Ok((token, length));
    }
    if bytes[0] == b'`' {
        let inner = bytes[1..]
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || b"_.-/ ".contains(b))
            .count();
        if inner > 0 && bytes.get(inner + 1) == Some(&b'`') {
            return Ok((Token::QuotedIdent, inner + 2));
        }
        return Err(inner + 1);
    }
    if bytes[0] == b'/' {
        return Ok((Token::Sign("/"), 1));
    }
    match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        Some(sign) => Ok((Token::Sign(sign), sign.len())),
        None => Err(rest.chars().next().map_or(1, char::len_utf8)),
    }
}

fn number(bytes: &[u8]) -> Option<(Token, usize)> {
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let exponent = |from: usize| -> usize {
        if !matches!(bytes.get(from), Some(b'e' | b'E')) {
            return 0;
        }
        let sign = usize::from(matches!(bytes.get(from + 1), Some(b'+' | b'-')));
        if from + 1 + sign > bytes.len() {
            return 0;
        }
        match digits(from + 1 + sign) {
            0 => 0,
            count => 1 + sign + count,
        }
    };
    let unsigned = |end: usize| match bytes.get(end) {
        Some(b'u' | b'U') => (Token::Uint, end + 1),
        _ => (Token::Int, end),
    };
    if bytes.starts_with(b"0x") {
        let hex = bytes[2..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
        if hex > 0 {
            return Some(unsigned(2 + hex));
        }
    }
    let whole = digits(0);
    if bytes.get(whole) == Some(&b'.') {
        let fraction = digits(whole + 1);
        if fraction > 0 {
            let end = whole + 1 + fraction;
            return Some((Token::Float, end + exponent(end)));
        }
    }
    if whole == 0 {
        return None;
    }
    match exponent(whole) {
        0 => Some(unsigned(whole)),
        length => Some((Token::Float, whole + length)),
    }
}

/// Whether a string literal starts here: is it of bytes, how long is the prefix, is it raw.
fn text_prefix(bytes: &[u8]) -> Option<(bool, usize, bool)> {
    let is_bytes = matches!(bytes[0], b'b' | b'B');
    let mut prefix = usize::from(is_bytes);
    let raw = matches!(bytes.get(prefix), Some(b'r' | b'R'));
    prefix += usize::from(raw);
    matches!(bytes.get(prefix), Some(b'"' | b'\'')).then_some((is_bytes, prefix, raw))
}

/// Where the literal that starts at `prefix` ends, or how much of it cannot be read.
fn text_end(rest: &str, prefix: usize, raw: bool) -> Result<usize, usize> {
    let bytes = rest.as_bytes();
    let quote = bytes[prefix];
    let triple = bytes[prefix..].starts_with(&[quote; 3]);
    let mut at = prefix + if triple { 3 } else { 1 };
    while let Some(&byte) = bytes.get(at) {
        if byte == quote && (!triple || bytes[at..].starts_with(&[quote; 3])) {
            return Ok(at + if triple { 3 } else { 1 });
        }
        if !triple && matches!(byte, b'\n' | b'\r') {
            return Err(at);
        }
        if byte == b'\\' && !raw {
            match escape_length(&bytes[at..]) {
                Some(length) => at += length,
                None => {
                    let after = rest[at + 1..].chars().next().map_or(0, char::len_utf8);
                    return Err(error_end(rest, at + 1 + after));
                }
            }
        } else {
            at += 1;
        }
    }
    // `''` followed by a lone quote is an empty string, whatever comes later.
    if triple { Ok(prefix + 2) } else { Err(rest.len()) }
}

/// A bad escape spoils the hex digits after it as well.
fn error_end(rest: &str, mut at: usize) -> usize {
    let bytes = rest.as_bytes();
    if matches!(bytes.get(at.wrapping_sub(1)), Some(b'x' | b'X' | b'u' | b'U')) {
        while bytes.get(at).is_some_and(u8::is_ascii_hexdigit) {
            at += 1;
        }
        at += rest[at..].chars().next().map_or(0, char::len_utf8);
    }
    at
}

fn escape_length(bytes: &[u8]) -> Option<usize> {
    let hex = |count: usize| {
        (bytes.len() >= 2 + count && bytes[2..2 + count].iter().all(u8::is_ascii_hexdigit))
            .then_some(2 + count)
    };
    match bytes.get(1)? {
        b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`' => {
            Some(2)
        }
        b'x' | b'X' => hex(2),
        b'u' => hex(4),
        b'U' => hex(8),
        b'0'..=b'3' => {
            let octal = |i: usize| matches!(bytes.get(i), Some(b'0'..=b'7'));
            (octal(2) && octal(3)).then_some(4)
        }
        _ => None,
    }
}

/// The content of a string or bytes literal, as bytes.
pub(super) fn unquote(text: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    const BAD: &str = "unable to unescape string";
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let raw = text.starts_with(['r', 'R']);
    let quoted = text.trim_start_matches(['r', 'R']);
    let is_triple =
        quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\""));
    let width = if is_triple { 3 } else { 1 };
    let body = quoted.get(width..quoted.len().saturating_sub(width)).ok_or(BAD)?;
    if raw || !body.contains('\\') {
        return Ok(body.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(c) = rest.chars().next() {
        if c != '\\' {
            let mut buffer = [0; 4];
            out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let length = escape_length(rest.as_bytes()).ok_or(BAD)?;
        let (escape, tail) = (&rest[1..length], &rest[length..]);
        rest = tail;
        let simple = match escape {
            "a" => Some(7),
            "b" => Some(8),
            "f" => Some(12),
            "n" => Some(b'\n'),
            "r" => Some(b'\r'),
            "t" => Some(b'\t'),
            "v" => Some(11),
            "\\" | "'" | "\"" | "`" | "?" => Some(escape.as_bytes()[0]),
            _ => None,
        };
        if let Some(byte) = simple {
            out.push(byte);
            continue;
        }
        if is_bytes && escape.starts_with(['u', 'U']) {
            return Err(BAD);
        }
        let value = match escape.as_bytes()[0] {
            b'0'..=b'3' => u32::from_str_radix(escape, 8),
            _ => u32::from_str_radix(&escape[1..], 16),
        }
        .map_err(|_| BAD)?;
        if is_bytes {
            out.push(u8::try_from(value).map_err(|_| BAD)?);
        } else {
            let c = char::from_u32(value).ok_or("invalid unicode code point")?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<(Token, &str)> {
        let mut issues = Issues::default();
        let found = tokens(source, &mut issues);
        assert!(issues.is_empty(), "{}", issues.render(source));
        found.iter().map(|l| (l.token, l.text)).filter(|(t, _)| *t != Token::End).collect()
    }

    #[test]
    fn numbers_and_signs_are_told_apart() {
        use Token::{Float, Ident, Int, Sign, Uint};
        assert_eq!(
            kinds("1.5e3 1.size 0x1Fu .5 2u a<=b//c"),
            [
                (Float, "1.5e3"),
                (Int, "1"),
                (Sign("."), "."),
                (Ident, "size"),
                (Uint, "0x1Fu"),
                (Float, ".5"),
                (Uint, "2u"),
                (Ident, "a"),
                (Sign("<="), "<="),
                (Ident, "b"),
            ]
        );
    }

    #[test]
    fn strings_end_where_their_quotes_say() {
        assert_eq!(
            kinds(r#"r'\' b"x\"y""#),
            [(Token::Text, r"r'\'"), (Token::Bytes, r#"b"x\"y""#)]
        );
        assert_eq!(kinds("'''a'b\n''' ''"), [(Token::Text, "'''a'b\n'''"), (Token::Text, "''")]);
    }

    #[test]
    fn escapes_become_what_they_stand_for() {
        for (literal, is_bytes, expected) in [
            (r"'\x41\u00e9\n'", false, "Aé\n".as_bytes().to_vec()),
            (r"'\xff\377'", true, vec![0xff, 0xff]),
            (r"'\xff'", false, "ÿ".as_bytes().to_vec()),
            (r#"r"\n""#, false, br"\n".to_vec()),
            ("'''a\r\nb'''", false, b"a\nb".to_vec()),
        ] {
            assert_eq!(unquote(literal, is_bytes).as_deref(), Ok(&*expected), "{literal}");
        }
        assert!(unquote(r"'\ud800'", false).is_err());
    }
}
