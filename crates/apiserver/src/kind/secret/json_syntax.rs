//! Whether bytes are a JSON object, with faults told as Go's decoder tells them.

use crate::go;

/// Go gives up at this nesting.
const MAX_DEPTH: usize = 10_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Object,
    Array,
}

/// Whether the bytes are one JSON object (or `null`, which Go takes for none).
pub(super) fn check_object(bytes: &[u8]) -> Result<(), String> {
    // Go feeds a space at the end, so that what cannot end there says why.
    let padded = [bytes, b" "].concat();
    let mut scanner = Scanner { bytes: &padded, pos: 0 };
    scanner.skip_space();
    let first = scanner.bytes.get(scanner.pos).copied();
    scanner.document()?;
    let kind = match first {
        Some(b'{' | b'n') => return Ok(()),
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        _ => "number",
    };
    Err(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
}

struct Scanner<'b> {
    bytes: &'b [u8],
    pos: usize,
}

impl Scanner<'_> {
    fn next(&mut self) -> Result<u8, String> {
        let byte = self.bytes.get(self.pos).copied();
        self.pos += 1;
        byte.ok_or_else(|| "unexpected end of JSON input".to_owned())
    }

    fn skip_space(&mut self) {
        while matches!(self.bytes.get(self.pos), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.pos += 1;
        }
    }

    fn next_token(&mut self) -> Result<u8, String> {
        self.skip_space();
        self.next()
    }

    fn document(&mut self) -> Result<(), String> {
        let mut open: Vec<Container> = Vec::new();
        'value: loop {
            match self.next_token()? {
                b'{' => {
                    push(&mut open, Container::Object)?;
                    self.skip_space();
                    if self.bytes.get(self.pos) == Some(&b'}') {
                        self.pos += 1;
                        open.pop();
                    } else {
                        self.key()?;
                        continue 'value;
                    }
                }
                b'[' => {
                    push(&mut open, Container::Array)?;
                    self.skip_space();
                    if self.bytes.get(self.pos) == Some(&b']') {
                        self.pos += 1;
                        open.pop();
                    } else {
                        continue 'value;
                    }
                }
                byte => self.scalar(byte)?,
            }
            // A value is complete; close what ends with it.
            loop {
                let Some(container) = open.last() else {
                    self.skip_space();
                    return match self.bytes.get(self.pos) {
                        None => Ok(()),
                        Some(byte) => Err(invalid(*byte, "after top-level value")),
                    };
                };
                match (self.next_token()?, container) {
                    (b',', Container::Array) => continue 'value,
                    (b',', Container::Object) => {
                        self.key()?;
                        continue 'value;
                    }
                    (b'}', Container::Object) | (b']', Container::Array) => {
                        open.pop();
                    }
                    (byte, Container::Array) => return Err(invalid(byte, "after array element")),
                    (byte, Container::Object) => {
                        return Err(invalid(byte, "after object key:value pair"));
                    }
                }
            }
        }
    }

    fn key(&mut self) -> Result<(), String> {
        match self.next_token()? {
            b'"' => self.string()?,
            byte => return Err(invalid(byte, "looking for beginning of object key string")),
        }
        match self.next_token()? {
            b':' => Ok(()),
            byte => Err(invalid(byte, "after object key")),
        }
    }

    fn scalar(&mut self, first: u8) -> Result<(), String> {
        match first {
            b'"' => self.string(),
            b'-' => match self.next()? {
                b'0' => self.fraction(),
                b'1'..=b'9' => self.number(),
                byte => Err(invalid(byte, "in numeric literal")),
            },
            b'0' => self.fraction(),
            b'1'..=b'9' => self.number(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            byte => Err(invalid(byte, "looking for beginning of value")),
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes().skip(1) {
            let byte = self.next()?;
            if byte != expected {
                let expected = char::from(expected);
                let context = format!("in literal {word} (expecting '{expected}')");
                return Err(invalid(byte, &context));
            }
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.bytes.get(self.pos).is_some_and(u8::is_ascii_digit) {
            self.pos += 1;
        }
    }

    fn number(&mut self) -> Result<(), String> {
        self.digits();
        self.fraction()
    }

    /// What follows the whole part of a number.
    fn fraction(&mut self) -> Result<(), String> {
        if self.bytes.get(self.pos) == Some(&b'.') {
            self.pos += 1;
            let byte = self.next()?;
            if !byte.is_ascii_digit() {
                return Err(invalid(byte, "after decimal point in numeric literal"));
            }
            self.digits();
        }
        if matches!(self.bytes.get(self.pos), Some(b'e' | b'E')) {
            self.pos += 1;
            let mut byte = self.next()?;
            if matches!(byte, b'+' | b'-') {
                byte = self.next()?;
            }
            if !byte.is_ascii_digit() {
                return Err(invalid(byte, "in exponent of numeric literal"));
            }
            self.digits();
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => match self.next()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let byte = self.next()?;
                            if !byte.is_ascii_hexdigit() {
                                return Err(invalid(byte, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    byte => return Err(invalid(byte, "in string escape code")),
                },
                byte if byte < 0x20 => return Err(invalid(byte, "in string literal")),
                _ => {}
            }
        }
    }
}

fn push(open: &mut Vec<Container>, container: Container) -> Result<(), String> {
    open.push(container);
    if open.len() > MAX_DEPTH { Err("exceeded max depth".to_owned()) } else { Ok(()) }
}

fn invalid(byte: u8, context: &str) -> String {
    format!("invalid character {} {context}", go::quote_byte(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn faults_read_as_go_tells_them() {
        let wrong_type = |kind: &str| {
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        };
        for (text, expected) in [
            ("", "unexpected end of JSON input".to_owned()),
            ("x", "invalid character 'x' looking for beginning of value".to_owned()),
            ("[]", wrong_type("array")),
            ("12", wrong_type("number")),
            ("\"s\"", wrong_type("string")),
            (" true ", wrong_type("bool")),
            ("{\"a\":1", "unexpected end of JSON input".to_owned()),
            ("[1", "unexpected end of JSON input".to_owned()),
            ("{\"a\":1} x", "invalid character 'x' after top-level value".to_owned()),
            ("{\"a\"}", "invalid character '}' after object key".to_owned()),
            ("{a}", "invalid character 'a' looking for beginning of object key string".to_owned()),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string".to_owned(),
            ),
            ("{\"a\":1 2}", "invalid character '2' after object key:value pair".to_owned()),
            ("{\"a\":[1 2]}", "invalid character '2' after array element".to_owned()),
            ("tru", "invalid character ' ' in literal true (expecting 'e')".to_owned()),
            ("{\"a\":tru}", "invalid character '}' in literal true (expecting 'e')".to_owned()),
            ("\u{1}", "invalid character '\\x01' looking for beginning of value".to_owned()),
            ("{\"a\":\"\u{1}\"}", "invalid character '\\x01' in string literal".to_owned()),
            ("-", "invalid character ' ' in numeric literal".to_owned()),
            ("1.", "invalid character ' ' after decimal point in numeric literal".to_owned()),
            ("1ex", "invalid character 'x' in exponent of numeric literal".to_owned()),
            ("\"\\q\"", "invalid character 'q' in string escape code".to_owned()),
            ("\"\\u12x\"", "invalid character 'x' in \\u hexadecimal character escape".to_owned()),
        ] {
            assert_eq!(check_object(text.as_bytes()), Err(expected), "{text}");
        }
        for good in ["{}", "null", " {\"a\": {\"b\": [1, -0.5e+3, \"\\u00e9\"]}, \"c\": null} "] {
            assert_eq!(check_object(good.as_bytes()), Ok(()), "{good}");
        }
        assert_eq!(check_object(&b"[".repeat(20_000)), Err("exceeded max depth".to_owned()));
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_parser(text in r#"(true|fals|null|nu|[{}\[\]:,"0-9a-c .-]){0,14}"#) {
            let parsed = serde_json::from_str::<serde_json::Value>(&text);
            let checked = check_object(text.as_bytes());
            let is_syntax_fault = checked.as_ref().is_err_and(|e| !e.starts_with("json:"));
            prop_assert_eq!(parsed.is_err(), is_syntax_fault);
        }
    }
}
