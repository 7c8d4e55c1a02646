//! What is wrong with a text that is not JSON, in the words of Go's scanner.
//!
//! Runs only on texts that have been refused, so it is written for the words, not for speed.

use crate::field::go_quote;

/// Upstream's limit.
const MAX_DEPTH: usize = 10_000;

/// The error that Go reports, or nothing if Go would accept the text.
pub(super) fn explain(text: &[u8]) -> Option<String> {
    let mut scanner = Scanner { state: State::BeginValue, open: Vec::new(), done: false };
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
enum State {
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
enum Open {
    ObjectKey,
    ObjectValue,
    Array,
}

struct Scanner {
    state: State,
    open: Vec<Open>,
    /// The top-level value is complete.
    done: bool,
}

type Step = Result<(), String>;

impl Scanner {
    fn step(&mut self, byte: u8) -> Step {
        let space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        match self.state {
            State::BeginValue
            | State::BeginValueOrEmpty
            | State::BeginKey
            | State::BeginKeyOrEmpty
                if space => {}
            State::BeginValueOrEmpty if byte == b']' => return self.end_value(byte),
            State::BeginValue | State::BeginValueOrEmpty => return self.begin_value(byte),
            State::BeginKeyOrEmpty if byte == b'}' => {
                self.reopen(Open::ObjectValue);
                return self.end_value(byte);
            }
            State::BeginKey | State::BeginKeyOrEmpty => {
                if byte != b'"' {
                    return refuse(byte, "looking for beginning of object key string");
                }
                self.state = State::InString;
            }
            State::EndValue => return self.end_value(byte),
            State::InString => match byte {
                b'"' => self.state = State::EndValue,
                b'\\' => self.state = State::Escape,
                0..0x20 => return refuse(byte, "in string literal"),
                _ => {}
            },
            State::Escape => match byte {
                b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {
                    self.state = State::InString;
                }
                b'u' => self.state = State::Hex(4),
                _ => return refuse(byte, "in string escape code"),
            },
            State::Hex(left) => {
                if !byte.is_ascii_hexdigit() {
                    return refuse(byte, "in \\u hexadecimal character escape");
                }
                self.state = if left == 1 { State::InString } else { State::Hex(left - 1) };
            }
            State::Literal(word, read) => {
                let wanted = word.as_bytes()[read];
                if byte != wanted {
                    let expecting = char::from(wanted);
                    return refuse(byte, &format!("in literal {word} (expecting '{expecting}')"));
                }
                self.state = if read + 1 == word.len() {
                    State::EndValue
                } else {
                    State::Literal(word, read + 1)
                };
            }
            State::Minus
            | State::Zero
            | State::Digits
            | State::Point
            | State::Fraction
            | State::Exponent
            | State::ExponentSign
            | State::ExponentDigits => return self.number(byte),
        }
        Ok(())
    }

    fn begin_value(&mut self, byte: u8) -> Step {
        self.state = match byte {
            b'{' => {
                self.push(Open::ObjectKey)?;
                State::BeginKeyOrEmpty
            }
            b'[' => {
                self.push(Open::Array)?;
                State::BeginValueOrEmpty
            }
            b'"' => State::InString,
            b'-' => State::Minus,
            b'0' => State::Zero,
            b'1'..=b'9' => State::Digits,
            b't' => State::Literal("true", 1),
            b'f' => State::Literal("false", 1),
            b'n' => State::Literal("null", 1),
            _ => return refuse(byte, "looking for beginning of value"),
        };
        Ok(())
    }

    fn number(&mut self, byte: u8) -> Step {
        let digit = byte.is_ascii_digit();
        self.state = match (self.state, byte) {
            (State::Minus, b'0') => State::Zero,
            (State::Minus | State::Digits, _) if digit => State::Digits,
            (State::Minus, _) => return refuse(byte, "in numeric literal"),
            (State::Digits | State::Zero, b'.') => State::Point,
            (State::Digits | State::Zero | State::Fraction, b'e' | b'E') => State::Exponent,
            (State::Point | State::Fraction, _) if digit => State::Fraction,
            (State::Point, _) => {
                return refuse(byte, "after decimal point in numeric literal");
            }
            (State::Exponent, b'+' | b'-') => State::ExponentSign,
            (State::Exponent | State::ExponentSign | State::ExponentDigits, _) if digit => {
                State::ExponentDigits
            }
            (State::Exponent | State::ExponentSign, _) => {
                return refuse(byte, "in exponent of numeric literal");
            }
            _ => return self.end_value(byte),
        };
        Ok(())
    }

    /// A value is complete; the byte belongs to what is around it.
    fn end_value(&mut self, byte: u8) -> Step {
        self.state = State::EndValue;
        let space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        match self.open.last() {
            None => {
                self.done = true;
                if !space {
                    return refuse(byte, "after top-level value");
                }
            }
            Some(_) if space => {}
            Some(Open::ObjectKey) => {
                if byte != b':' {
                    return refuse(byte, "after object key");
                }
                self.reopen(Open::ObjectValue);
                self.state = State::BeginValue;
            }
            Some(Open::ObjectValue) => match byte {
                b',' => {
                    self.reopen(Open::ObjectKey);
                    self.state = State::BeginKey;
                }
                b'}' => self.pop(),
                _ => return refuse(byte, "after object key:value pair"),
            },
            Some(Open::Array) => match byte {
                b',' => self.state = State::BeginValue,
                b']' => self.pop(),
                _ => return refuse(byte, "after array element"),
            },
        }
        Ok(())
    }

    fn push(&mut self, open: Open) -> Step {
        if self.open.len() >= MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.open.push(open);
        Ok(())
    }

    fn reopen(&mut self, open: Open) {
        if let Some(last) = self.open.last_mut() {
            *last = open;
        }
    }

    fn pop(&mut self) {
        self.open.pop();
        self.done = self.open.is_empty();
    }
}

fn refuse(byte: u8, context: &str) -> Step {
    let shown = match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = go_quote(&char::from(byte).to_string());
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
