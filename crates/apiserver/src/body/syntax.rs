//! What is wrong with a text that is not JSON, in the words of Go's scanner.
//!
//! Runs only on texts that have been refused, so it is written for the words, not for speed.

use crate::go;

/// Upstream's limit.
const MAX_DEPTH: usize = 10_000;

/// The error that Go reports, or nothing if Go would accept the text.
pub(super) fn explain(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { state: ScanState::BeginValue, open: Vec::new(), done: false };
    for byte in text {
        if let Err(error) = scanner.step(*byte) {
            return Some(error);
        }
    }
    // The end is found out by one more space, which also ends a number.
    if !scanner.done
        && let Err(error) = scanner.step(b' ')
    {
        return Some(error);
    }
    (!scanner.done).then(|| "unexpected end of JSON input".to_owned())
}

#[derive(Clone, Copy, Debug)]
enum ScanState {
    BeginValue,
    BeginValueOrEmpty,
    BeginKey,
    BeginKeyOrEmpty,
    EndValue,
    InString,
    Escape,
    /// Hexadecimal digits still to come.
    Hex(u8),
    Minus,
    Zero,
    Digits,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
    /// A literal, and how much of it has been read.
    Literal(&'static str, usize),
}

#[derive(Clone, Copy, Debug)]
enum OpenContainer {
    ObjectKey,
    ObjectValue,
    Array,
}

struct Scanner {
    state: ScanState,
    open: Vec<OpenContainer>,
    /// The top-level value is complete.
    done: bool,
}

type StepResult = Result<(), String>;

impl Scanner {
    fn step(&mut self, byte: u8) -> StepResult {
        let space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        match self.state {
            ScanState::BeginValue
            | ScanState::BeginValueOrEmpty
            | ScanState::BeginKey
            | ScanState::BeginKeyOrEmpty
                if space => {}
            ScanState::BeginValueOrEmpty if byte == b']' => return self.end_value(byte),
            ScanState::BeginValue | ScanState::BeginValueOrEmpty => return self.begin_value(byte),
            ScanState::BeginKeyOrEmpty if byte == b'}' => {
                self.reopen(OpenContainer::ObjectValue);
                return self.end_value(byte);
            }
            ScanState::BeginKey | ScanState::BeginKeyOrEmpty => {
                if byte != b'"' {
                    return refuse(byte, "looking for beginning of object key string");
                }
                self.state = ScanState::InString;
            }
            ScanState::EndValue => return self.end_value(byte),
            ScanState::InString => match byte {
                b'"' => self.state = ScanState::EndValue,
                b'\\' => self.state = ScanState::Escape,
                0..0x20 => return refuse(byte, "in string literal"),
                _ => {}
            },
            ScanState::Escape => match byte {
                b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {
                    self.state = ScanState::InString;
                }
                b'u' => self.state = ScanState::Hex(4),
                _ => return refuse(byte, "in string escape code"),
            },
            ScanState::Hex(left) => {
                if !byte.is_ascii_hexdigit() {
                    return refuse(byte, "in \\u hexadecimal character escape");
                }
                self.state = if left == 1 { ScanState::InString } else { ScanState::Hex(left - 1) };
            }
            ScanState::Literal(word, read) => {
                let wanted = word.as_bytes()[read];
                if byte != wanted {
                    let expecting = char::from(wanted);
                    return refuse(byte, &format!("in literal {word} (expecting '{expecting}')"));
                }
                self.state = if read + 1 == word.len() {
                    ScanState::EndValue
                } else {
                    ScanState::Literal(word, read + 1)
                };
            }
            ScanState::Minus
            | ScanState::Zero
            | ScanState::Digits
            | ScanState::Point
            | ScanState::Fraction
            | ScanState::Exponent
            | ScanState::ExponentSign
            | ScanState::ExponentDigits => return self.number(byte),
        }
        Ok(())
    }

    fn begin_value(&mut self, byte: u8) -> StepResult {
        self.state = match byte {
            b'{' => {
                self.push(OpenContainer::ObjectKey)?;
                ScanState::BeginKeyOrEmpty
            }
            b'[' => {
                self.push(OpenContainer::Array)?;
                ScanState::BeginValueOrEmpty
            }
            b'"' => ScanState::InString,
            b'-' => ScanState::Minus,
            b'0' => ScanState::Zero,
            b'1'..=b'9' => ScanState::Digits,
            b't' => ScanState::Literal("true", 1),
            b'f' => ScanState::Literal("false", 1),
            b'n' => ScanState::Literal("null", 1),
            _ => return refuse(byte, "looking for beginning of value"),
        };
        Ok(())
    }

    fn number(&mut self, byte: u8) -> StepResult {
        let digit = byte.is_ascii_digit();
        self.state = match (self.state, byte) {
            (ScanState::Minus, b'0') => ScanState::Zero,
            (ScanState::Minus | ScanState::Digits, _) if digit => ScanState::Digits,
            (ScanState::Minus, _) => return refuse(byte, "in numeric literal"),
            (ScanState::Digits | ScanState::Zero, b'.') => ScanState::Point,
            (ScanState::Digits | ScanState::Zero | ScanState::Fraction, b'e' | b'E') => {
                ScanState::Exponent
            }
            (ScanState::Point | ScanState::Fraction, _) if digit => ScanState::Fraction,
            (ScanState::Point, _) => {
                return refuse(byte, "after decimal point in numeric literal");
            }
            (ScanState::Exponent, b'+' | b'-') => ScanState::ExponentSign,
            (ScanState::Exponent | ScanState::ExponentSign | ScanState::ExponentDigits, _)
                if digit =>
            {
                ScanState::ExponentDigits
            }
            (ScanState::Exponent | ScanState::ExponentSign, _) => {
                return refuse(byte, "in exponent of numeric literal");
            }
            _ => return self.end_value(byte),
        };
        Ok(())
    }

    /// A value is complete; the byte belongs to what is around it.
    fn end_value(&mut self, byte: u8) -> StepResult {
        self.state = ScanState::EndValue;
        let space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        match self.open.last() {
            None => {
                self.done = true;
                if !space {
                    return refuse(byte, "after top-level value");
                }
            }
            Some(_) if space => {}
            Some(OpenContainer::ObjectKey) => {
                if byte != b':' {
                    return refuse(byte, "after object key");
                }
                self.reopen(OpenContainer::ObjectValue);
                self.state = ScanState::BeginValue;
            }
            Some(OpenContainer::ObjectValue) => match byte {
                b',' => {
                    self.reopen(OpenContainer::ObjectKey);
                    self.state = ScanState::BeginKey;
                }
                b'}' => self.pop(),
                _ => return refuse(byte, "after object key:value pair"),
            },
            Some(OpenContainer::Array) => match byte {
                b',' => self.state = ScanState::BeginValue,
                b']' => self.pop(),
                _ => return refuse(byte, "after array element"),
            },
        }
        Ok(())
    }

    fn push(&mut self, open: OpenContainer) -> StepResult {
        if self.open.len() >= MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.open.push(open);
        Ok(())
    }

    fn reopen(&mut self, open: OpenContainer) {
        if let Some(last) = self.open.last_mut() {
            *last = open;
        }
    }

    fn pop(&mut self) {
        self.open.pop();
        self.done = self.open.is_empty();
    }
}

fn refuse(byte: u8, context: &str) -> StepResult {
    let shown = match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = go::quote(&char::from(byte).to_string());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    };
    Err(format!("invalid character {shown} {context}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every text was given to the real server.
    #[test]
    fn errors_are_in_go_s_words() {
        for (text, wanted) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("[1,", "unexpected end of JSON input"),
            (r#"{"a":}"#, "invalid character '}' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("{}{}", "invalid character '{' after top-level value"),
            ("{\"a\":\"b\u{1}\"}", r"invalid character '\x01' in string literal"),
            (r#"{"a":tru}"#, "invalid character '}' in literal true (expecting 'e')"),
            ("{'a':1}", r"invalid character '\'' looking for beginning of object key string"),
            (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
            (r#"{"a" 1}"#, "invalid character '1' after object key"),
            (r#"{"a":1 "b":2}"#, "invalid character '\"' after object key:value pair"),
            (r#"{"a":01}"#, "invalid character '1' after object key:value pair"),
            (r#"{"a":"\x"}"#, "invalid character 'x' in string escape code"),
            (r#"{"a":1.}"#, "invalid character '}' after decimal point in numeric literal"),
            (r#"{"a":nul"#, "invalid character ' ' in literal null (expecting 'l')"),
        ] {
            assert_eq!(explain(text.as_bytes()).as_deref(), Some(wanted), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_serde_json_reads_is_right(text in r#"[\[\]{}:,"a1.e\-+ tfn\\u0]{0,12}"#) {
            if serde_json::from_str::<serde_json::Value>(&text).is_ok() {
                proptest::prop_assert_eq!(explain(text.as_bytes()), None);
            }
        }

        #[test]
        fn any_bytes_are_explained(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
            let _ = explain(&bytes);
        }
    }
}
