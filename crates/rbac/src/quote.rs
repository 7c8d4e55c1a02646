//! Text as Go's `%q` prints it, because upstream's messages are made with it.

use std::fmt;

/// `"a"`: one string.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\u{7}' => f.write_str("\\a")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{b}' => f.write_str("\\v")?,
                '\u{c}' => f.write_str("\\f")?,
                c if c.is_ascii_control() => write!(f, "\\x{:02x}", c as u32)?,
                c if c.is_control() => write!(f, "\\u{:04x}", c as u32)?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

/// `["a" "b"]`: a list of strings.
pub(crate) struct QuotedList<'a>(pub(crate) &'a [String]);

impl fmt::Display for QuotedList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, text) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{}", Quoted(text))?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_as_go_does() {
        let list = ["a\"b".to_owned(), "c\u{1}\n".to_owned(), "é\u{85}".to_owned()];
        assert_eq!(QuotedList(&list).to_string(), r#"["a\"b" "c\x01\n" "é\u0085"]"#);
        assert_eq!(QuotedList(&[]).to_string(), "[]");
    }
}
